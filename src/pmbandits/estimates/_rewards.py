"""Rewards on their way into a policy's memory: counted, kept one by one, or sketched.

:func:`record` takes one reward in. It is also the only place that says when memory must grow: it refuses a reward for
which there is no room, the caller makes room, and tells it again. A policy that forgets makes room by forgetting
(``_forgetting.py``); one that watches its arms also has no room from a change on until the change is dealt with.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.estimates import _changes as changing
from pmbandits.estimates import _kernels as sketching
from pmbandits.state.arrays import stable_order
from pmbandits.state.shared import shared, step
from pmbandits.supports import ATOM_TOLERANCE

BINARY, FINITE, SAMPLES = range(3)  # how rewards are kept: 0 or 1, counts of atoms, or one by one
# What ``record`` answers. CHANGED: it was taken in, and the arm has changed; that must be dealt with.
OK, BAD_ARM, BAD_REWARD, OUTSIDE, NEEDS_ROOM, CHANGED = range(6)
TIMES, SPENT, CHANGES = range(3)  # of ``tally``: how often it was forgotten, −ln(share of δ), changes that were found
STALE = -1  # of ``ordered``: a sketch was compacted, so the pool must be laid out anew


@step("state, int, float -> int")
def record(s, arm, reward):
    """Take one reward in, or answer why not and leave everything as it was."""
    if arm < 0 or arm >= s.n_arms:
        return BAD_ARM
    if not (reward > -np.inf and reward < np.inf):
        return BAD_REWARD
    if s.rewards >= s.most_rewards or s.told[arm] >= s.most_told:
        return NEEDS_ROOM
    if s.mode == BINARY:
        one = np.int64(reward == 1.0)  # arithmetic, because the processor could not guess a branch
        if reward != one:
            return OUTSIDE
        s.counts[arm, one] += 1
    else:
        reward = keep(s, arm, reward)
        if math.isnan(reward):
            return OUTSIDE
    if s.n_recent > 0:
        s.recent[s.rewards], s.recent_arm[s.rewards] = reward, arm
    s.told[arm] += 1
    s.sums[arm] += reward
    if s.pending[arm] > 0:
        s.pending[arm] -= 1
    s.rewards += 1
    s.dirty = 1
    return notice(s, arm, reward) if s.n_watched_arms > 0 else OK


@shared("state, int, float -> int")
def notice(s, arm, reward):
    """Watch an arm for a change. If there is one it is noted, and no reward is taken in before it is dealt with."""
    note = s.noted[int(s.tally[CHANGES]) % s.n_noted]
    if not changing.watch(s.watch_book[arm], s.watch_values[arm], s.watch_rows[arm], s.watch_depth, reward, note):
        return OK
    t = s.asked
    for i in range(s.n_past):
        t += s.earlier[i]
    note[0], note[1] = arm, t
    s.tally[CHANGES] += 1.0
    s.most_rewards = 0
    return CHANGED


@shared("state, int, float -> float")
def keep(s, arm, reward):
    """Count a reward that is not 0 or 1, or put it into the pool; returns it as it is kept, or NaN if it is outside.

    Also adds to ``travel`` how far the arm's empirical law moves in W1 with this reward: mean |X − x| / (n + 1), at
    most the root of the mean square. The last term is more than what rounding can have taken from the two sums.
    """
    if s.mode == SAMPLES:
        if reward < s.low or reward > s.high:
            return np.nan
        if s.sketch_size > 0:
            record_sketched(s, arm, reward)
        else:
            s.x[s.rewards], s.owner[s.rewards] = reward, arm  # ``tidy`` sorts them when somebody looks
    else:
        atom = nearest_atom(s, reward)
        if atom < 0:
            return np.nan
        reward = s.points[atom]
        s.counts[arm, atom] += 1
    before = s.told[arm]
    if before > 0:
        mean, power = s.sums[arm] / before, s.squares[arm] / before
        rounding = 1e-15 * (before + 8.0) * (power + reward * reward)
        spread = max(power - mean * mean, 0.0) + (mean - reward) ** 2 + rounding
        s.travel[arm] += math.sqrt(spread) / (before + 1.0)
    s.squares[arm] += reward * reward
    s.largest = max(s.largest, abs(reward))
    return reward


@step("state, float -> int")
def nearest_atom(s, reward):
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
def record_sketched(s, arm, reward):
    """Take one reward into the arm's sketch, and into the pool as long as the pool is what the sketches hold."""
    compactions = sketching.put(
        s.sketch_book[arm], s.sketch_items[arm], s.sketch_marks[arm], s.sketch_size, s.seed, arm, reward
    )
    if compactions > 0:
        # A compaction moves the arm's law, and its radius may rise. So policies with sketches say that radii do not
        # fall (radii_fall = 0), and every look works out everything, over few numbers.
        s.ordered = STALE
    if s.ordered != STALE:
        at = s.pooled
        s.x[at], s.owner[at], s.mass[at] = reward, arm, 1
        s.pooled = at + 1


@step("state -> int")
def pool_size(s):
    """How many numbers the pool holds: all rewards, or the items of the sketches."""
    return s.pooled if s.sketch_size > 0 else s.rewards


@step("state, int -> int")
def stands_for(s, at):
    """For how many rewards a number of the pool stands."""
    return s.mass[at] if s.sketch_size > 0 else 1


@step("state, int -> float")
def rank_error(s, arm):
    """How far the sketch of an arm may be from its rewards: sup |F_sketch − F̂|, at all times together."""
    if s.sketch_size == 0:
        return 0.0
    return sketching.error_of(s.sketch_marks[arm], s.told[arm], s.sketch_size, s.rank_delta)


@shared("state -> none")
def lay_out(s):
    """Make the pool anew from the items of all sketches, sorted."""
    count = 0
    for i in range(s.n_arms):
        used = sketching.spread(s.sketch_book[i], s.mass[count:])
        for j in range(used):
            s.x[count + j], s.owner[count + j] = s.sketch_items[i, j], i
        count += used
    order = stable_order(s.x[:count])
    x, owner, mass = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    for j in range(count):
        x[j], owner[j], mass[j] = s.x[order[j]], s.owner[order[j]], s.mass[order[j]]
    for j in range(count):
        s.x[j], s.owner[j], s.mass[j] = x[j], owner[j], mass[j]
    s.pooled, s.ordered = count, count


@shared("state -> none")
def tidy(s):
    """Sort the pool; equal rewards stay in the order in which they came."""
    count, done, sketched = pool_size(s), s.ordered, s.sketch_size > 0
    if s.mode != SAMPLES or done == count:
        return
    if done == STALE:
        lay_out(s)
        return
    x, owner, mass = s.x, s.owner, s.mass
    late, whose = np.empty(count - done), np.empty(count - done, np.int64)
    if count - done == 1:  # most often
        late[0], whose[0] = x[done], owner[done]
    else:
        order = stable_order(x[done:count])
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
    s.ordered = count
