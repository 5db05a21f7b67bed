"""Rewards on their way out of a policy's memory: the oldest, any, or those of one arm; compiled.

Whatever was worked out from rewards that are gone is cleared, as after a merge. Pulls go with their rewards: they are
taken off the clock, and counted in ``earlier``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits._random import FORGOTTEN, philox_random_words, uniform_from_word
from pmbandits._validation import IntArray
from pmbandits.estimates import _sketch as sketching
from pmbandits.estimates._rewards import BINARY, SAMPLES, STALE, TIMES, atom_or_bin_index, sort_pool
from pmbandits.state.arrays import stable_argsort
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import unpack


@kernel
def forget_oldest(memory: Any, words: Any, spans: Any, count: int) -> None:
    """Forget the ``count`` rewards that came first."""
    s = unpack(memory)
    dropped = np.zeros(s.n_arms, np.int64)
    for j in range(count):
        dropped[s.window_arms[j]] += 1
        if s.storage_mode != SAMPLES:
            s.counts[s.window_arms[j], atom_or_bin_index(s, s.window_rewards[j])] -= 1
    if s.storage_mode == SAMPLES:  # equal rewards lie in the order in which they came, so the first of them go
        sort_pool(s)
        order = stable_argsort(s.window_rewards[:count])
        kept, gone = 0, 0
        for j in range(s.rewards):
            if gone < count and s.x[j] == s.window_rewards[order[gone]]:
                gone += 1
            else:
                s.x[kept], s.pool_arm[kept] = s.x[j], s.pool_arm[j]
                kept += 1
        s.n_sorted = kept
    for j in range(count, s.rewards):
        s.window_rewards[j - count], s.window_arms[j - count] = s.window_rewards[j], s.window_arms[j]
    subtract_forgotten_from_counts(s, dropped, count)
    recompute_sums_and_clear(s, words, spans)


@kernel
def forget_random(memory: Any, words: Any, spans: Any, count: int) -> None:
    """Forget ``count`` rewards, each set of so many with the same probability. Drawn with the policy's seed."""
    s = unpack(memory)
    dropped = np.zeros(s.n_arms, np.int64)
    left, gone = s.rewards, 0
    while gone < count:
        s.rng_counter += 1
        zero = np.uint64(0)
        word, _, _, _ = philox_random_words(
            np.uint64(s.seed), np.uint64(s.rng_counter), zero, zero, zero, np.uint64(FORGOTTEN)
        )
        if s.storage_mode == SAMPLES:  # those that go are marked by a sign; one that was drawn before is drawn again
            at = int(uniform_from_word(word) * s.rewards)
            if s.pool_arm[at] >= 0:
                dropped[s.pool_arm[at]] += 1
                s.pool_arm[at] = -1 - s.pool_arm[at]
                gone += 1
            continue
        nth, arm, atom = int(uniform_from_word(word) * left), 0, 0
        while nth >= s.n_rewards[arm] - dropped[arm]:
            nth -= s.n_rewards[arm] - dropped[arm]
            arm += 1
        while nth >= s.counts[arm, atom]:
            nth -= s.counts[arm, atom]
            atom += 1
        s.counts[arm, atom] -= 1
        dropped[arm] += 1
        gone, left = gone + 1, left - 1
    if s.storage_mode == SAMPLES:
        remove_marked_rewards_from_pool(s)
    subtract_forgotten_from_counts(s, dropped, count)
    recompute_sums_and_clear(s, words, spans)


@kernel
def forget_arm(memory: Any, words: Any, spans: Any, arm: int) -> None:
    """Forget all rewards of one arm, and begin a new clock: no pull so far counts for shares, but those that wait."""
    s = unpack(memory)
    if s.sketch_size > 0:
        sketching.sketch_init(s.sketch_header[arm], s.sketch_stats[arm], s.sketch_size)
        s.n_sorted = STALE
    elif s.storage_mode == SAMPLES:
        for j in range(s.rewards):
            if s.pool_arm[j] == arm:
                s.pool_arm[j] = -1 - arm
        remove_marked_rewards_from_pool(s)
    for atom in range(s.n_atoms):
        s.counts[arm, atom] = 0
    kept = 0
    for j in range(s.rewards if s.window_capacity > 0 else 0):
        if s.window_arms[j] != arm:
            s.window_rewards[kept], s.window_arms[kept] = s.window_rewards[j], s.window_arms[j]
            kept += 1
    s.rewards -= s.n_rewards[arm]
    s.n_rewards[arm], s.sums[arm], s.sums_of_squares[arm] = 0, 0.0, 0.0
    s.t = 0
    for i in range(s.n_arms):
        s.earlier_pulls[i] += s.pulls[i] - s.pending[i]
        s.pulls[i] = s.pending[i]
        s.t += s.pulls[i]
    s.forgetting_counters[TIMES] += 1.0
    recompute_sums_and_clear(s, words, spans)


@shared("state -> none")
def remove_marked_rewards_from_pool(s: Any) -> None:
    """Close the gaps in the pool where the owner is marked by a sign; what is sorted stays so."""
    kept, ordered = 0, s.n_sorted
    for j in range(s.rewards):
        if s.pool_arm[j] >= 0:
            s.x[kept], s.pool_arm[kept] = s.x[j], s.pool_arm[j]
            kept += 1
        elif j < s.n_sorted:
            ordered -= 1
    s.n_sorted = ordered


@shared("state, ints, int -> none")
def subtract_forgotten_from_counts(s: Any, dropped: IntArray, count: int) -> None:
    """Take rewards off the counts, and their pulls off the clock; of the pulls that wait, the same share."""
    for i in range(s.n_arms):
        waiting = s.pending[i] * count // s.rewards  # rewards that never come must not be waited for without end
        answered = min(dropped[i], s.pulls[i] - s.pending[i])  # rewards without a pull have none to take off
        s.n_rewards[i] -= dropped[i]
        s.pending[i] -= waiting
        s.pulls[i] -= waiting + answered
        s.t -= waiting + answered
        s.earlier_pulls[i] += waiting + answered
    s.rewards -= count
    s.forgetting_counters[TIMES] += 1.0


@shared("state, ints, table of ints -> none")
def recompute_sums_and_clear(s: Any, words: IntArray, spans: Any) -> None:
    """Sums of the rewards that are kept; and clear whatever was worked out from others. ``spans`` says where it is."""
    if s.sketch_size == 0:
        for i in range(s.n_arms):
            s.sums[i], s.sums_of_squares[i] = 0.0, 0.0
            for atom in range(s.n_atoms):
                x = s.points[atom]
                s.sums[i] += s.counts[i, atom] * x
                s.sums_of_squares[i] += s.counts[i, atom] * x * x
    if s.sketch_size == 0 and s.storage_mode == SAMPLES:
        s.max_abs_reward = max(abs(s.low), abs(s.high)) if s.bounded == 1 else 0.0
        for j in range(s.rewards):
            x = s.x[j]
            s.sums[s.pool_arm[j]] += x
            s.sums_of_squares[s.pool_arm[j]] += x * x
            s.max_abs_reward = max(s.max_abs_reward, abs(x))
    if s.storage_mode == BINARY:  # as ``record`` keeps them
        for i in range(s.n_arms):
            s.sums_of_squares[i] = 0.0
    for j in range(spans.shape[0]):
        for at in range(spans[j, 0], spans[j, 1]):
            words[at] = 0
    s.dirty = 1
