"""Compiled kernels: rewards from counter-based random numbers, and the loops that play one trial.

The key of the generator (:mod:`pmbandits._random`) is (seed, trial) and its counter (block, arm, attempt, purpose):
the n-th reward of an arm in a trial depends on nothing else, so neither on the number of workers, nor on the policy,
nor on what was drawn before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._random import ARRIVAL, GAMMA_A, GAMMA_B, PLAIN, TO_UNIT, log_gamma_variate, philox_random_words
from pmbandits._validation import FloatArray
from pmbandits.engine._calls import INVALID_CHOICE, choose_arm_or_invalid, update_by_address
from pmbandits.estimates._rewards import CHANGED, NEEDS_CAPACITY, OK, record_reward_in_state
from pmbandits.metrics.normal import normal_quantile
from pmbandits.state.compile import inlined, kernel
from pmbandits.state.linking import make_caller, shared, step
from pmbandits.state.numba_types import unpack, without_refcount

IntArray = NDArray[np.int64]
WordArray = NDArray[np.uint64]

# the sampler of an arm's rewards
TWO_POINTS, DISCRETE, UNIFORM, NORMAL, EXPONENTIAL, BETA, PREDRAWN, OWN_QUANTILES = range(8)
OWN_QUANTILE_SIGNATURE = "float, floats -> float"  # of a uniform number and the parameters
# why the loop stops before the end
DONE, MEMORY_FULL, BLOCK_USED_UP, REWARD_OUTSIDE_SUPPORT = range(4)
INVALID_ARM, CHANGE_DETECTED, QUEUE_FULL, REWARD_OF_INACTIVE_ARM = range(4, 8)
# entries of the cursor, the position in a trial: arm that was pulled but not paid, next checkpoint, rounds played, and
# how many delayed rewards are on their way
PENDING_ARM, CHECKPOINT, ROUND, QUEUE_SIZE = range(4)


class RewardArrays(NamedTuple):
    """Where the rewards of a trial come from, and how many were taken.

    Attributes
    ----------
    key : seed and trial, the key of the generator.
    used : how many rewards of each arm were taken.
    words : by arm, the four random words that the generator made last.
    kinds : by arm, its sampler.
    parameters : by arm, the numbers of its sampler; the last two are the ends of its support. Of quantiles that a user
        compiled, they are location, scale, and the address of the kernel, which a number of 64 bits holds exactly.
    starts : where the points of each arm begin in ``points`` and ``levels``; one entry more than there are arms.
    points, levels : points of discrete arms, and their cumulative probabilities; points are also the parameters of a
        kernel of the user's own.
    blocks : by arm, pre-drawn rewards of arms without a compiled sampler.
    block_at : by arm, the number of the block that is in ``blocks``; −1 for none.
    """

    key: WordArray
    used: IntArray
    words: WordArray
    kinds: IntArray
    parameters: FloatArray
    starts: IntArray
    points: FloatArray
    levels: FloatArray
    blocks: FloatArray
    block_at: IntArray


class PolicyKernels(NamedTuple):
    """A policy as the loop plays it.

    Attributes
    ----------
    choose, update : addresses of the policy's own kernels: one loop serves all policies.
    memory : address of the policy's memory.
    state_words : the memory itself, as 64-bit words.
    n_changing : how many words at its start are put back after the look at a checkpoint, which changes nothing.
    backup : space for a copy of these words.
    bandit_arms : from arms of the policy to arms of the bandit. For a policy that ignores segments, one such row for
        each segment, one after the other.
    arrival_levels : how often each segment comes, added up; empty without segments.
    only_segment : the segment in whose rounds the policy plays; −1: in all rounds.
    """

    choose: int
    update: int
    memory: int
    state_words: IntArray
    n_changing: int
    backup: IntArray
    bandit_arms: IntArray
    arrival_levels: FloatArray
    only_segment: int


class TrialRecord(NamedTuple):
    """The position in a trial, and its results so far.

    Attributes
    ----------
    checkpoints : the rounds after which results are recorded.
    cursor : the position, in the entries ``PENDING_ARM``, ``CHECKPOINT``, ``ROUND`` and ``QUEUE_SIZE``.
    pulls, mixture : by checkpoint and arm of the bandit, its pulls, and its share in the policy's mixture.
    phase_ends : the rounds after which the policy's phases ended.
    """

    checkpoints: IntArray
    cursor: IntArray
    pulls: IntArray
    mixture: FloatArray
    phase_ends: IntArray


call_own_quantile = make_caller(OWN_QUANTILE_SIGNATURE)


@step("float -> float")
def strictly_between_0_and_1(u: float) -> float:
    """The uniform number u of [0, 1), moved off 0 by half of its last digit."""
    return (math.floor(u / (2.0 * TO_UNIT)) + 0.5) * (2.0 * TO_UNIT)


@shared("words, int, int, float, int, table, int, int, floats, floats -> float")
def sample_reward(
    key: WordArray,
    arm: int,
    n: int,
    u: float,
    kind: int,
    parameters: FloatArray,
    start: int,
    end: int,
    points: FloatArray,
    levels: FloatArray,
) -> float:
    """Return the ``n``-th reward of an arm that can pay more than two values.

    It is made from the uniform number ``u``, except for Beta arms, which draw their own from the generator with this
    ``key``. ``kind``, ``parameters``, ``points`` and ``levels`` are as in :class:`RewardArrays`; the arm's own points
    lie from ``start`` to ``end``.
    """
    low, high = parameters[arm, 4], parameters[arm, 5]
    if kind == DISCRETE:
        lo, hi = start, end - 1
        while lo < hi:  # the first point whose cumulative probability exceeds u
            middle = (lo + hi) // 2
            if levels[middle] > u:
                hi = middle
            else:
                lo = middle + 1
        return points[lo]
    if kind == UNIFORM:
        x = u
    elif kind == NORMAL:
        x = normal_quantile(strictly_between_0_and_1(u))
    elif kind == OWN_QUANTILES:
        x = call_own_quantile(int(parameters[arm, 2]), strictly_between_0_and_1(u), points[start:end])
    elif kind == EXPONENTIAL:
        x = -math.log1p(-u)
    else:
        a = log_gamma_variate(key, n, arm, parameters[arm, 2], GAMMA_A)
        b = log_gamma_variate(key, n, arm, parameters[arm, 3], GAMMA_B)
        x = 1.0 / (1.0 + math.exp(min(b - a, 709.0)))
    return min(max(parameters[arm, 0] + parameters[arm, 1] * x, low), high)


@inlined
def draw_next_reward(arm: int, rewards: RewardArrays) -> float:
    """Return the next reward of an arm and count it as used; NaN if its block of pre-drawn rewards is used up."""
    n = rewards.used[arm]
    kind = rewards.kinds[arm]
    if kind == PREDRAWN:
        size = rewards.blocks.shape[1]
        if rewards.block_at[arm] != n // size:
            return np.nan
        rewards.used[arm] = n + 1
        return rewards.blocks[arm, n % size]
    word_index, key, words = n & 3, rewards.key, rewards.words
    if word_index == 0 and kind != BETA:
        w0, w1, w2, w3 = philox_random_words(
            key[0], key[1], np.uint64(n >> 2), np.uint64(arm), np.uint64(0), np.uint64(PLAIN)
        )
        words[arm, 0], words[arm, 1], words[arm, 2], words[arm, 3] = w0, w1, w2, w3
    rewards.used[arm] = n + 1
    u = np.float64(words[arm, word_index] >> np.uint64(11)) * TO_UNIT
    start = rewards.starts[arm]
    if kind == TWO_POINTS:  # the common case, without a call
        return rewards.points[start + np.int64(u < rewards.parameters[arm, 0])]
    return sample_reward(
        key, arm, n, u, kind, rewards.parameters, start, rewards.starts[arm + 1], rewards.points, rewards.levels
    )


@kernel
def fill_next_rewards(arm: int, count: int, rewards: RewardArrays, out: FloatArray, at: int) -> int:
    """Write the next ``count`` rewards of one arm into ``out`` from ``at`` on; return how many were made."""
    rewards, out = without_refcount(rewards), without_refcount(out)
    for j in range(count):
        x = draw_next_reward(arm, rewards)
        if math.isnan(x):
            return j
        out[at + j] = x
    return count


@shared("words, int, floats -> int")
def segment_of_round(key: WordArray, t: int, levels: FloatArray) -> int:
    """The segment of the person who comes in round ``t``, counted from 0; it depends on seed, trial and round only."""
    w0, w1, w2, w3 = philox_random_words(
        key[0], key[1], np.uint64(t >> 2), np.uint64(0), np.uint64(0), np.uint64(ARRIVAL)
    )
    place = t & 3
    word = w0 if place == 0 else w1 if place == 1 else w2 if place == 2 else w3
    u = np.float64(word >> np.uint64(11)) * TO_UNIT
    segment = 0
    while segment < levels.size - 1 and u >= levels[segment]:
        segment += 1
    return segment


@kernel
def fill_segments_of_rounds(key: WordArray, first: int, levels: FloatArray, out: IntArray) -> None:
    """Write the segments of the rounds from ``first`` on, counted from 0."""
    for j in range(out.size):
        out[j] = segment_of_round(key, first + j, levels)


@inlined
def begin_round(s: Any, policy: PolicyKernels, key: WordArray, t: int) -> int:
    """Let the person of round ``t`` arrive; return where the row of ``bandit_arms`` begins, or −1 if it is not played.

    ``s`` is the policy's memory with names, and ``key`` the seed and trial.
    """
    if policy.arrival_levels.size == 0:
        return 0
    segment = segment_of_round(key, t, policy.arrival_levels)
    if policy.only_segment >= 0:
        return 0 if segment == policy.only_segment else -1
    if s.n_segments == 0:  # it ignores segments
        return segment * s.n_arms
    s.arriving = segment
    return 0


@inlined
def record_checkpoint(s: Any, policy: PolicyKernels, used: IntArray, trial: TrialRecord, row: int) -> None:
    """Record what was pulled and the updated mixture in a ``row`` of the results, then restore the policy's memory.

    ``s`` is the policy's memory with names, and ``used`` how many rewards of each arm were taken.
    """
    for j in range(policy.n_changing):
        policy.backup[j] = policy.state_words[j]
    if s.t > 0:  # else nobody of its segment has come
        update_by_address(policy.update, policy.memory)
    for i in range(used.size):
        trial.pulls[row, i] += used[i]
    share = s.n_arms / policy.bandit_arms.size  # all segments alike, for a policy that ignores them
    for j in range(policy.bandit_arms.size):
        weight = s.mix[j % s.n_arms] if s.t > 0 else 1.0 / s.n_arms
        trial.mixture[row, policy.bandit_arms[j]] = share * weight
    for j in range(trial.phase_ends.size):
        trial.phase_ends[j] = s.phase_ends[j]
    ordered, pooled = s.n_sorted, s.n_pooled  # the pool may have been sorted, for good
    for j in range(policy.n_changing):
        policy.state_words[j] = policy.backup[j]
    s.n_sorted, s.n_pooled = ordered, pooled


@kernel
def play_until_stopped(policy: PolicyKernels, rewards: RewardArrays, trial: TrialRecord, stop: int) -> int:
    """Play until the last checkpoint or the round ``stop``, or until memory or rewards run out; return why it stopped.

    The reward of a round reaches the policy before its next choice.
    """
    policy, rewards, trial = without_refcount(policy), without_refcount(rewards), without_refcount(trial)
    cursor, checkpoints, used = trial.cursor, trial.checkpoints, rewards.used
    s = unpack(policy.memory)
    t = cursor[ROUND]
    while cursor[CHECKPOINT] < checkpoints.size:
        c = cursor[CHECKPOINT]
        stop_at = min(checkpoints[c], stop)
        waiting = cursor[PENDING_ARM]  # pulled, but not yet paid
        cursor[PENDING_ARM] = -1
        while t < stop_at:
            arm = waiting
            first = begin_round(s, policy, rewards.key, t)
            if first < 0:
                t += 1
                continue
            if arm < 0:
                arm = choose_arm_or_invalid(policy.memory, policy.choose)
                if arm == INVALID_CHOICE:
                    return INVALID_ARM
            bandit_arm = policy.bandit_arms[first + arm]
            reward = draw_next_reward(bandit_arm, rewards)
            if math.isnan(reward):
                cursor[PENDING_ARM], cursor[ROUND] = arm, t
                return BLOCK_USED_UP
            status = record_reward_in_state(s, arm, reward)
            if status == CHANGED:  # it was taken in
                cursor[ROUND] = t + 1
                return CHANGE_DETECTED
            if status != OK:
                used[bandit_arm] -= 1
                cursor[PENDING_ARM], cursor[ROUND] = arm, t
                return MEMORY_FULL if status == NEEDS_CAPACITY else REWARD_OUTSIDE_SUPPORT
            waiting = -1
            t += 1
        cursor[ROUND] = t
        if t < checkpoints[c]:
            return DONE
        record_checkpoint(s, policy, used, trial, c)
        cursor[CHECKPOINT] = c + 1
    return DONE


# ---- delayed rewards -------------------------------------------------------------------------------------------
# Rewards on their way wait in a heap: the one that comes first is at its top, and of those that come together the one
# that was pulled first.
# columns of the heap: the round after which a reward comes, the round of its pull, and the arm of the bandit
DUE_ROUND, PULL_ROUND, PULLED_ARM = range(3)


class DelayArrays(NamedTuple):
    """Rewards on their way, and the delays of the next rounds.

    Attributes
    ----------
    heap, heap_rewards : the heap, one row for each reward, and the rewards themselves.
    delay_table : by round and arm, after how many rounds a reward comes. One row holds for all rounds, and one column
        for all arms.
    first_round : the round of the first row of ``delay_table``.
    batch : rewards come after every so many rounds only.
    last_round : what would come after this round never comes.
    policy_arms : from arms of the bandit to arms of the policy; −1 for an arm that does not play now.
    """

    heap: IntArray
    heap_rewards: FloatArray
    delay_table: IntArray
    first_round: int
    batch: int
    last_round: int
    policy_arms: IntArray


@step("table of ints, int, int, int -> bool")
def is_due_before(heap: IntArray, row: int, due: int, pulled: int) -> bool:
    """Whether the reward in a row of the heap comes before one that is due then and was pulled then."""
    return heap[row, DUE_ROUND] < due or (heap[row, DUE_ROUND] == due and heap[row, PULL_ROUND] < pulled)


@step("table of ints, floats, int, int -> none")
def copy_heap_row(heap: IntArray, heap_rewards: FloatArray, source: int, into: int) -> None:
    """Copy one row of the heap over another."""
    for column in range(3):
        heap[into, column] = heap[source, column]
    heap_rewards[into] = heap_rewards[source]


@shared("table of ints, floats, int, int, int, int, float -> none")
def push_reward(
    heap: IntArray, heap_rewards: FloatArray, size: int, due: int, pulled: int, arm: int, reward: float
) -> None:
    """Push a reward onto a heap of ``size`` rewards, which must have a free row.

    It was pulled from this arm of the bandit in the round ``pulled``, and comes after the round ``due``.
    """
    slot = size
    while slot > 0 and not is_due_before(heap, (slot - 1) // 2, due, pulled):
        copy_heap_row(heap, heap_rewards, (slot - 1) // 2, slot)
        slot = (slot - 1) // 2
    heap[slot, DUE_ROUND], heap[slot, PULL_ROUND], heap[slot, PULLED_ARM], heap_rewards[slot] = due, pulled, arm, reward


@shared("table of ints, floats, int -> none")
def pop_reward(heap: IntArray, heap_rewards: FloatArray, size: int) -> None:
    """Remove the reward that is due first from a heap of ``size`` rewards."""
    last = size - 1
    slot, child = 0, 1
    while child < last:
        if child + 1 < last and is_due_before(heap, child + 1, heap[child, DUE_ROUND], heap[child, PULL_ROUND]):
            child += 1
        if not is_due_before(heap, child, heap[last, DUE_ROUND], heap[last, PULL_ROUND]):
            break
        copy_heap_row(heap, heap_rewards, child, slot)
        slot, child = child, 2 * child + 1
    copy_heap_row(heap, heap_rewards, last, slot)


@kernel
def play_delayed(
    policy: PolicyKernels, rewards: RewardArrays, trial: TrialRecord, delays: DelayArrays, stop: int
) -> int:
    """Play as ``play_until_stopped`` does, but the policy gets a reward only after the round in which it is due.

    The reward of an arm that does not play now stays at the top of the heap: the caller passes it to the policy and
    removes it.
    """
    policy, rewards = without_refcount(policy), without_refcount(rewards)
    trial, delays = without_refcount(trial), without_refcount(delays)
    cursor, checkpoints = trial.cursor, trial.checkpoints
    heap, heap_rewards, delay_table, batch = delays.heap, delays.heap_rewards, delays.delay_table, delays.batch
    s = unpack(policy.memory)
    t, size = cursor[ROUND], cursor[QUEUE_SIZE]
    while cursor[CHECKPOINT] < checkpoints.size:
        c = cursor[CHECKPOINT]
        stop_at = min(checkpoints[c], stop)
        while True:
            while size > 0 and heap[0, DUE_ROUND] <= t:
                arm = delays.policy_arms[heap[0, PULLED_ARM]]
                status = record_reward_in_state(s, arm, heap_rewards[0]) if arm >= 0 else OK
                if arm < 0 or (status != OK and status != CHANGED):
                    cursor[ROUND], cursor[QUEUE_SIZE] = t, size
                    if arm < 0:
                        return REWARD_OF_INACTIVE_ARM
                    return MEMORY_FULL if status == NEEDS_CAPACITY else REWARD_OUTSIDE_SUPPORT
                pop_reward(heap, heap_rewards, size)
                size -= 1
                if status == CHANGED:
                    cursor[ROUND], cursor[QUEUE_SIZE] = t, size
                    return CHANGE_DETECTED
            if t >= stop_at:
                break
            arm = cursor[PENDING_ARM]  # pulled, but not yet paid
            first = begin_round(s, policy, rewards.key, t)
            if first < 0:
                t += 1
                continue
            if arm < 0:
                if size == heap_rewards.size:
                    cursor[ROUND], cursor[QUEUE_SIZE] = t, size
                    return QUEUE_FULL
                arm = choose_arm_or_invalid(policy.memory, policy.choose)
                if arm == INVALID_CHOICE:
                    return INVALID_ARM
            bandit_arm = policy.bandit_arms[first + arm]
            reward = draw_next_reward(bandit_arm, rewards)
            if math.isnan(reward):
                cursor[PENDING_ARM], cursor[ROUND], cursor[QUEUE_SIZE] = arm, t, size
                return BLOCK_USED_UP
            cursor[PENDING_ARM] = -1
            row = min(t - delays.first_round, delay_table.shape[0] - 1)
            t += 1
            due = t + delay_table[row, min(bandit_arm, delay_table.shape[1] - 1)]
            due = (due + batch - 1) // batch * batch
            if due <= delays.last_round:
                push_reward(heap, heap_rewards, size, due, t, bandit_arm, reward)
                size += 1
        cursor[ROUND], cursor[QUEUE_SIZE] = t, size
        if t < checkpoints[c]:
            return DONE
        record_checkpoint(s, policy, rewards.used, trial, c)
        cursor[CHECKPOINT] = c + 1
    return DONE
