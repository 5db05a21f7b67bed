"""Compiled kernels that play many trials at once, in lanes, for policies that pull the arm with the largest index.

Rewards, decisions and mixtures are those of ``_kernels.py`` to the last bit; only the order of the work differs: a
round is played in all lanes before the next one. With immediate rewards, pulls, rewards and sums of the arms are all
that such a policy knows, so this is all that a lane keeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pmbandits._random import PLAIN, POLICY, TO_UNIT, philox_random_words
from pmbandits._validation import FloatArray
from pmbandits.engine._calls import update_by_address
from pmbandits.engine.index_policy import LANES_SIGNATURE
from pmbandits.estimates._rewards import BINARY, FINITE, atom_or_bin_index
from pmbandits.simulation._kernels import TWO_POINTS, IntArray, WordArray, sample_reward
from pmbandits.state.compile import inlined, kernel
from pmbandits.state.linking import make_caller
from pmbandits.state.numba_types import unpack, without_refcount

NEXT_ROUND, NEXT_ROW = range(2)  # entries of the cursor
choose_in_lanes_by_address = make_caller(LANES_SIGNATURE)


class LanePolicy(NamedTuple):
    """A policy as lanes play it.

    Attributes
    ----------
    choose, update : addresses of the kernels that decide in all lanes, and that bring one mixture up to date.
    memory : address of the policy's memory.
    state_words : the memory itself, as 64-bit words.
    start_words : its first words as they are at the start of a trial; empty if ``update`` changes the mixture only and
        draws no random numbers.
    own_seed : the seed that the policy was made with.
    """

    choose: int
    update: int
    memory: int
    state_words: IntArray
    start_words: IntArray
    own_seed: int


class LaneRewards(NamedTuple):
    """Where rewards come from.

    Attributes
    ----------
    seed : with the number of a trial it is the key of the generator.
    limits : by arm that pays 0 or 1: it pays 1 if the upper 53 bits of a random word are below this number.
    block : how many 0/1 rewards are drawn at once: 4, 16 or 64.
    kinds, parameters, starts, points, levels : as in ``RewardArrays``, for all other arms.
    """

    seed: int
    limits: WordArray
    block: int
    kinds: IntArray
    parameters: FloatArray
    starts: IntArray
    points: FloatArray
    levels: FloatArray


class Lanes(NamedTuple):
    """The lanes: in tables, one row for each arm and one column for each lane.

    Attributes
    ----------
    cursor : rounds played, and the next checkpoint.
    trials : the number of the trial in each lane.
    pulls, sums : pulls of each arm, and the sum of its rewards.
    words : random words that were drawn and not used up: rewards as bits, or by arm and lane four words.
    arms, best, least : the arm that each lane pulls now, and working space.
    """

    cursor: IntArray
    trials: IntArray
    pulls: IntArray
    sums: FloatArray
    words: WordArray
    arms: IntArray
    best: FloatArray
    least: IntArray


@inlined
def next_words(rewards: LaneRewards, trial: int, arm: int, n: int) -> Any:
    """Four random words, for the n-th reward of an arm and the three after it."""
    return philox_random_words(
        np.uint64(rewards.seed), np.uint64(trial), np.uint64(n >> 2), np.uint64(arm), np.uint64(0), np.uint64(PLAIN)
    )


@inlined
def draw_bits(rewards: LaneRewards, trial: int, arm: int, n: int) -> np.uint64:
    """The n-th reward of an arm and those after it, ``rewards.block`` in all, each 0 or 1, as bits from the lowest."""
    limit, bits = rewards.limits[arm], np.uint64(0)
    for at in range(0, rewards.block, 4):
        w0, w1, w2, w3 = next_words(rewards, trial, arm, n + at)
        four = np.uint64(w0 >> np.uint64(11) < limit) | (np.uint64(w1 >> np.uint64(11) < limit) << np.uint64(1))
        four |= np.uint64(w2 >> np.uint64(11) < limit) << np.uint64(2)
        four |= np.uint64(w3 >> np.uint64(11) < limit) << np.uint64(3)
        bits |= four << np.uint64(at)
    return bits


@inlined
def pay_coins(rewards: LaneRewards, lanes: Lanes) -> None:
    """Pay every lane the next reward, 0 or 1, of the arm that it pulls."""
    pulls, sums, bits = lanes.pulls, lanes.sums, lanes.words
    last = rewards.block - 1
    for j in range(lanes.arms.size):
        i = lanes.arms[j]
        n = pulls[i, j]
        if n & last == 0:
            bits[i, j] = draw_bits(rewards, lanes.trials[j], i, n)
        drawn = bits[i, j]
        sums[i, j] += np.float64(drawn & np.uint64(1))
        bits[i, j] = drawn >> np.uint64(1)
        pulls[i, j] = n + 1


@inlined
def pay_other_rewards(s: Any, key: WordArray, rewards: LaneRewards, lanes: Lanes) -> bool:
    """Pay every lane the next reward of the arm that it pulls; returns whether the support holds all of them."""
    width, good = lanes.arms.size, True
    for j in range(width):
        i = lanes.arms[j]
        n, kind, start = lanes.pulls[i, j], rewards.kinds[i], rewards.starts[i]
        at = 4 * j
        if n & 3 == 0:
            w0, w1, w2, w3 = next_words(rewards, lanes.trials[j], i, n)
            lanes.words[i, at], lanes.words[i, at + 1], lanes.words[i, at + 2], lanes.words[i, at + 3] = w0, w1, w2, w3
        u = np.float64(lanes.words[i, at + (n & 3)] >> np.uint64(11)) * TO_UNIT
        if kind == TWO_POINTS:
            x = rewards.points[start + np.int64(u < rewards.parameters[i, 0])]
        else:
            key[1] = np.uint64(lanes.trials[j])
            x = sample_reward(
                key, i, n, u, kind, rewards.parameters, start, rewards.starts[i + 1], rewards.points, rewards.levels
            )
        if s.storage_mode == FINITE:
            atom = atom_or_bin_index(s, x)
            good &= atom >= 0
            x = s.points[max(atom, 0)]
        else:
            good &= (x >= s.low) & (x <= s.high)
        lanes.sums[i, j] += x
        lanes.pulls[i, j] = n + 1
    return good


@inlined
def record_lanes(s: Any, policy: LanePolicy, rewards: LaneRewards, lanes: Lanes, pulls: Any, mixture: Any) -> None:
    """Record the pulls of all lanes, and the mixtures that the policy names then, as rows (trial, arm)."""
    t, binary = lanes.cursor[NEXT_ROUND], s.storage_mode == BINARY
    for j in range(lanes.arms.size):
        if policy.start_words.size > 0:
            for word in range(policy.start_words.size):
                policy.state_words[word] = policy.start_words[word]
            seed, _, _, _ = philox_random_words(
                np.uint64(rewards.seed), np.uint64(lanes.trials[j]), np.uint64(policy.own_seed), np.uint64(0),
                np.uint64(0), np.uint64(POLICY),
            )  # fmt: skip
            s.seed = np.int64(seed >> np.uint64(11))
        s.t, s.rewards, s.dirty = t, t, 1
        for i in range(s.n_arms):
            n, total = lanes.pulls[i, j], lanes.sums[i, j]
            pulls[j, i], s.pulls[i], s.n_rewards[i], s.sums[i] = n, n, n, total
            if binary:
                s.counts[i, 1] = np.int64(total)
                s.counts[i, 0] = n - np.int64(total)
        update_by_address(policy.update, policy.memory)
        for i in range(s.n_arms):
            mixture[j, i] = s.mix[i]


@kernel
def play_lanes(
    policy: LanePolicy, rewards: LaneRewards, lanes: Lanes, checkpoints: IntArray, pulls: Any, mixture: Any, stop: int
) -> bool:
    """Play all lanes until the round ``stop`` or the last checkpoint; ``pulls`` and ``mixture`` are (trial, row, arm).

    Returns false if an index is not finite or a reward lies outside of the support. Then nothing of it is of use, and
    the trials are to be played one by one.
    """
    policy, rewards, lanes = without_refcount(policy), without_refcount(rewards), without_refcount(lanes)
    pulls, mixture = without_refcount(pulls), without_refcount(mixture)
    s, key = unpack(policy.memory), np.empty(2, np.uint64)
    key[0] = np.uint64(rewards.seed)
    cursor, coins, k = lanes.cursor, rewards.limits.size > 0, s.n_arms
    while cursor[NEXT_ROW] < checkpoints.size:
        row = cursor[NEXT_ROW]
        end = min(checkpoints[row], stop)
        for t in range(cursor[NEXT_ROUND], end):
            if t < k:
                lanes.arms[:] = t
            elif not choose_in_lanes_by_address(
                policy.choose, policy.memory, t, lanes.pulls, lanes.sums, lanes.arms, lanes.best, lanes.least
            ):
                return False
            if coins:
                pay_coins(rewards, lanes)
            elif not pay_other_rewards(s, key, rewards, lanes):
                return False
        cursor[NEXT_ROUND] = end
        if end < checkpoints[row]:
            return True
        record_lanes(s, policy, rewards, lanes, pulls[:, row], mixture[:, row])
        cursor[NEXT_ROW] = row + 1
    return True
