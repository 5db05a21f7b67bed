"""Rewards on their way into a policy's memory: counted, kept one by one, or sketched.

:func:`record_reward_in_state` takes one reward in. It is also the only place that says when memory must grow: it
refuses a reward for which memory is too small; the caller enlarges it, and tells it again. A policy that forgets frees
it by forgetting (``_forgetting.py``); one that watches its arms also takes none from a change on until the change is
dealt with.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits.estimates import _change_detector as changing
from pmbandits.estimates import _sketch as sketching
from pmbandits.state.arrays import stable_argsort
from pmbandits.state.linking import shared, step
from pmbandits.supports import ATOM_TOLERANCE

BINARY, FINITE, SAMPLES = range(3)  # how rewards are kept: 0 or 1, counts of atoms, or one by one
# What ``record_reward_in_state`` answers. CHANGED: it was taken in, and the arm has changed; that must be dealt with.
OK, BAD_ARM, BAD_REWARD, OUTSIDE, NEEDS_CAPACITY, CHANGED = range(6)
TIMES, SPENT, CHANGES = range(3)  # of ``forgetting_counters``: forgettings, −ln(share of δ), changes found
STALE = -1  # of ``n_sorted``: a sketch was compacted, so the pool must be laid out anew


@step("state, int, float -> int")
def record_reward_in_state(s: Any, arm: int, reward: float) -> int:
    """Take one reward in, or answer why not and leave everything as it was."""
    if arm < 0 or arm >= s.n_arms:
        return BAD_ARM
    if not (reward > -np.inf and reward < np.inf):
        return BAD_REWARD
    if s.rewards >= s.max_rewards or s.n_rewards[arm] >= s.max_arm_rewards:
        return NEEDS_CAPACITY
    if s.storage_mode == BINARY:
        one = np.int64(reward == 1.0)  # arithmetic, because the processor could not guess a branch
        if reward != one:
            return OUTSIDE
        s.counts[arm, one] += 1
    else:
        reward = store_reward(s, arm, reward)
        if math.isnan(reward):
            return OUTSIDE
    if s.window_capacity > 0:
        s.window_rewards[s.rewards], s.window_arms[s.rewards] = reward, arm
    s.n_rewards[arm] += 1
    s.sums[arm] += reward
    if s.pending[arm] > 0:
        s.pending[arm] -= 1
    s.rewards += 1
    s.dirty = 1
    return feed_change_detector(s, arm, reward) if s.n_detectors > 0 else OK


@shared("state, int, float -> int")
def feed_change_detector(s: Any, arm: int, reward: float) -> int:
    """Watch an arm for a change. If there is one it is noted, and no reward is taken in before it is dealt with."""
    note = s.found_changes[int(s.forgetting_counters[CHANGES]) % s.n_found_changes]
    if not changing.update_change_detector(
        s.detector_header[arm], s.detector_thresholds[arm], s.detector_counts[arm], s.alarm_threshold, reward, note
    ):
        return OK
    t = s.t
    for i in range(s.n_earlier_pulls):
        t += s.earlier_pulls[i]
    note[0], note[1] = arm, t
    s.forgetting_counters[CHANGES] += 1.0
    s.max_rewards = 0
    return CHANGED


@shared("state, int, float -> float")
def store_reward(s: Any, arm: int, reward: float) -> float:
    """Count a reward that is not 0 or 1, or put it into the pool; returns it as it is kept, or NaN if it is outside.

    Adds to ``w1_path_length`` how far the empirical distribution moves in W1 by this reward: mean |X − x| / (n + 1), at
    most the root of the mean square. The last term is more than what rounding can have taken from the two sums.
    """
    if s.storage_mode == SAMPLES:
        if reward < s.low or reward > s.high:
            return np.nan
        if s.sketch_size > 0:
            add_to_sketch(s, arm, reward)
        else:
            s.x[s.rewards], s.pool_arm[s.rewards] = reward, arm  # ``sort_pool`` sorts them when somebody looks
    else:
        atom = atom_or_bin_index(s, reward)
        if atom < 0:
            return np.nan
        reward = s.points[atom]
        s.counts[arm, atom] += 1
    before = s.n_rewards[arm]
    if before > 0:
        mean, power = s.sums[arm] / before, s.sums_of_squares[arm] / before
        rounding = 1e-15 * (before + 8.0) * (power + reward * reward)
        deviation = max(power - mean * mean, 0.0) + (mean - reward) ** 2 + rounding
        s.w1_path_length[arm] += math.sqrt(deviation) / (before + 1.0)
    s.sums_of_squares[arm] += reward * reward
    s.max_abs_reward = max(s.max_abs_reward, abs(reward))
    return reward


@step("state, float -> int")
def atom_or_bin_index(s: Any, reward: float) -> int:
    """The point of the support that a reward is, or the middle of its bin; −1 if it is none."""
    m = s.n_atoms
    if s.rounding > 0.0:  # bins: the nearest of evenly spaced points
        if reward < s.low or reward > s.high:
            return -1
        return min(int((reward - s.low) / (2.0 * s.rounding) + 0.5), m - 1)
    lo, hi = 0, m - 1
    while lo < hi:
        middle = (lo + hi) // 2
        if s.points[middle] < reward:
            lo = middle + 1
        else:
            hi = middle
    close = ATOM_TOLERANCE * (s.high - s.low)  # 0.1 + 0.2 is the atom 0.3
    if lo > 0 and reward - s.points[lo - 1] < abs(s.points[lo] - reward):
        lo -= 1
    return lo if abs(s.points[lo] - reward) <= close else -1


@shared("state, int, float -> none")
def add_to_sketch(s: Any, arm: int, reward: float) -> None:
    """Take one reward into the arm's sketch, and into the pool as long as the pool is what the sketches hold."""
    compactions = sketching.sketch_add(
        s.sketch_header[arm], s.sketch_items[arm], s.sketch_stats[arm], s.sketch_size, s.seed, arm, reward
    )
    if compactions > 0:
        # A compaction moves the arm's distribution, and its radius may rise. With sketches policies say that radii do
        # not fall (radii_decrease = 0), and every look works out everything, over few numbers.
        s.n_sorted = STALE
    if s.n_sorted != STALE:
        at = s.n_pooled
        s.x[at], s.pool_arm[at], s.pool_weight[at] = reward, arm, 1
        s.n_pooled = at + 1


@step("state -> int")
def n_pooled_values(s: Any) -> int:
    """How many numbers the pool holds: all rewards, or the items of the sketches."""
    return s.n_pooled if s.sketch_size > 0 else s.rewards


@step("state, int -> int")
def n_rewards_of_pooled_value(s: Any, at: int) -> int:
    """For how many rewards a number of the pool stands."""
    return s.pool_weight[at] if s.sketch_size > 0 else 1


@step("state, int -> float")
def sketch_rank_error(s: Any, arm: int) -> float:
    """How far the sketch of an arm may be from its rewards: sup |F_sketch − F̂|, at all times together."""
    if s.sketch_size == 0:
        return 0.0
    squares, total = s.sketch_stats[arm, sketching.SQUARES], s.sketch_stats[arm, sketching.SUM]
    return sketching.sketch_rank_error_bound(s.n_rewards[arm], squares, total, s.sketch_size, s.rank_delta, True)


@shared("state -> none")
def rebuild_pool(s: Any) -> None:
    """Make the pool anew from the items of all sketches, sorted."""
    count = 0
    for i in range(s.n_arms):
        used = sketching.fill_sketch_item_weights(s.sketch_header[i], s.pool_weight[count:])
        for j in range(used):
            s.x[count + j], s.pool_arm[count + j] = s.sketch_items[i, j], i
        count += used
    order = stable_argsort(s.x[:count])
    x, owner, mass = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    for j in range(count):
        x[j], owner[j], mass[j] = s.x[order[j]], s.pool_arm[order[j]], s.pool_weight[order[j]]
    for j in range(count):
        s.x[j], s.pool_arm[j], s.pool_weight[j] = x[j], owner[j], mass[j]
    s.n_pooled, s.n_sorted = count, count


@shared("state -> none")
def sort_pool(s: Any) -> None:
    """Sort the pool; equal rewards stay in the order in which they came."""
    count, done, sketched = n_pooled_values(s), s.n_sorted, s.sketch_size > 0
    if s.storage_mode != SAMPLES or done == count:
        return
    if done == STALE:
        rebuild_pool(s)
        return
    x, owner, mass = s.x, s.pool_arm, s.pool_weight
    late, whose = np.empty(count - done), np.empty(count - done, np.int64)
    if count - done == 1:  # most often
        late[0], whose[0] = x[done], owner[done]
    else:
        order = stable_argsort(x[done:count])
        for j in range(count - done):
            late[j], whose[j] = x[done + order[j]], owner[done + order[j]]
    at, old, new = count - 1, done - 1, count - done - 1
    while new >= 0:
        if old >= 0 and x[old] > late[new]:
            x[at], owner[at] = x[old], owner[old]
            if sketched:
                mass[at] = mass[old]
            old -= 1
        else:
            x[at], owner[at] = late[new], whose[new]
            if sketched:
                mass[at] = 1  # what came since is not compacted yet
            new -= 1
        at -= 1
    s.n_sorted = count
