"""Constraint tracking: every pull keeps the limits on shares at all times, and only available arms are pulled.

A policy proposes an arm. It is pulled if the limits can still be kept afterwards, else another one is. What
is refused is not lost: the arm stays behind its share, so it is proposed again. Nothing is clipped or rescaled.

**Limits on single arms** (``SINGLE_ARM_LIMITS``): after round t each arm has n_i ≥ t·least_i − 1 and n_i ≤ t·most_i + 1
pulls. Why that is always possible: see each pull that a floor asks for as a job. The j-th pull of arm i must come by
round d_j, the first d with d·least_i > j, and may come from round r_j on, the first r with r·most_i ≥ j − 1. Let D(d)
be the jobs that are due by round d and not done, now, after t rounds. All deadlines can be met if and only if
D(d) ≤ d − t for every d > t:

- Jobs that take one round each, with windows [r, d], fit if and only if no interval [a, b] of rounds holds more than
  b − a + 1 whole windows (Hall). For a = t + 1 that is the condition on D. For later a it holds by itself: of arm i the
  jobs with r_j ≥ a and d_j ≤ b have (a − 1)·most_i + 1 < j < b·least_i. These are fewer than b·least_i − (a − 1)·most_i
  ≤ (b − a + 1)·least_i, or none; and the floors of all arms add up to at most 1.
- No round stays empty: were every arm at its cap, n_i > t·most_i, all pulls together would be more than t·Σ most ≥ t.

A pull of an arm whose job is not due lowers d − t by 1 for every d, and D for none. So the smallest d − t − D(d),
over those d with D(d) > 0, says for how many rounds the policy is free. When it is 0, a job that is due by the first
such d must be done, and the one with the earliest deadline is right (earliest deadline first finds a schedule if
there is one). This is Tijdeman's chairman assignment with limits on both sides.

**Limits on several arms** (``JOINT_LIMITS``). Point X_t of t·P, with P the mixtures that keep all limits, is followed:
each round it moves by a mixture of P, the policy's own or, for an arm that is to be explored, the one with the largest
share of that arm. The lags X_t − n are kept such that for every j the j largest add up to at most B_j =
j·(H_K − H_j) + j/(K·(K − 1)), with H the harmonic numbers. For j = K − 1 that is 1: no arm is ahead by more than one
pull. Pulling the arm with the largest lag keeps this (it is the greedy answer in the game of cups, and works because
B_j ≥ (B_{j+1} + 1)·j/(j + 1)); the policy's proposal passes if it keeps this, too, and no limit is exceeded by more
than one pull. While n itself is in t·P, all passes, and where the lags would become too large, X_t becomes n; so the
policy is free while no limit is near. What this promises of each limit: ``engine/share_constraints.py``,
``worst_case_excess``.

**With segments** all limits are of this kind. Who arrives is not ours to choose, so each segment has a point X of its
own, which moves when somebody of it arrives, by the shares within the segment. Limits within a segment are then kept
as above, by its own columns. A limit on the whole population holds for X as far as the mixture keeps it for the people
who come; where it would be exceeded by more than one pull, the column is pulled that exceeds it least.

References: R. Tijdeman (1980), *The chairman assignment problem*, Discrete Mathematics 32. M. Adler, P. Berenbrink,
T. Friedetzky, L. A. Goldberg, P. Goldberg and M. Paterson (2003), *A proportionate fair scheduling rule with good
worst-case performance*, SPAA, for the game of cups.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

SINGLE_ARM_LIMITS, JOINT_LIMITS, SOME_ARMS_BARRED = (
    1,
    2,
    4,
)  # limits on single arms; on several; only some arms are available in this call
MAX_FREE_ROUNDS = 1 << 16  # deadlines are looked at again after so many rounds at the latest
MAX_DEADLINES = 64  # deadlines that are looked at; beyond them the worst is assumed


@step("int -> float")
def allowed_rounding_error(t: int) -> float:
    """The rounding error allowed in t times a share."""
    return 1e-9 + 1e-14 * t


@step("state, int -> bool")
def is_arriving(s: State, i: int) -> bool:
    """Whether column i belongs to the segment that arrives in this round; without segments all arms do."""
    return s.n_segments == 0 or s.segment_of[i] == s.arriving


@step("state, int, int -> bool")
def may_pull(s: State, i: int, t: int) -> bool:
    """Whether arm i is available, and round t may pull it by its cap."""
    if not is_arriving(s, i):
        return False
    if s.constraint_kind >= SOME_ARMS_BARRED and s.unavailable[i] == 1:
        return False
    return s.constraint_kind & SINGLE_ARM_LIMITS == 0 or s.pulls[i] <= t * s.max_shares[i] + allowed_rounding_error(t)


@step("state, int, float -> int")
def pull_deadline(s: State, i: int, job: float) -> int:
    """The round by which arm i must have been pulled ``job`` times."""
    return int(min(math.floor((job + allowed_rounding_error(s.t)) / s.min_shares[i]), 1e15)) + 1


@shared("state -> two floats")
def n_free_rounds_and_deadline(s: State) -> tuple[float, float]:
    """The number of rounds in which any arm may be pulled before a floor is in danger; if 0, also the deadline."""
    t, d, best, bound, at = s.t, s.t, float(MAX_FREE_ROUNDS), 0.0, 0.0
    for _ in range(MAX_DEADLINES):
        first = 10**15
        for i in range(s.n_arms):
            if s.min_shares[i] > 0.0:
                done = max(float(s.pulls[i]), math.ceil(d * s.min_shares[i] - allowed_rounding_error(d)) - 1.0)
                first = min(first, pull_deadline(s, i, done + 1.0))
        d = max(first, d + 1)
        if d - t >= MAX_FREE_ROUNDS + s.n_arms:
            return best, at
        jobs, demand = 0.0, 0.0
        for i in range(s.n_arms):
            if s.min_shares[i] > 0.0:
                jobs += max(math.ceil(d * s.min_shares[i] - allowed_rounding_error(d)) - 1.0 - s.pulls[i], 0.0)
                demand += max(d * s.min_shares[i] - s.pulls[i], 0.0)
        if d - t - jobs < best:
            best, at = d - t - jobs, float(d)
        if best <= 0.0:
            return 0.0, at
        # ⌈x⌉ − 1 < x for each arm, and the demand grows by at most 1 a round: no later deadline leaves less than this.
        bound = d - t - math.ceil(demand) + 1.0
        if bound >= best:
            return best, at
    return max(min(best, bound), 0.0), float(d)


@shared("state, int -> int")
def arm_within_single_arm_limits(s: State, arm: int) -> int:
    """The arm to pull under limits on single arms when ``arm`` is proposed, which may not be allowed."""
    k, t = s.n_arms, s.t + 1
    if s.constraint_kind & SINGLE_ARM_LIMITS == SINGLE_ARM_LIMITS and s.t >= s.next_limit_check_at[0]:
        free, due = n_free_rounds_and_deadline(s)
        s.next_limit_check_at[0] = s.t + int(free)
        if free == 0.0:
            if may_pull(s, arm, t) and s.min_shares[arm] > 0.0 and pull_deadline(s, arm, s.pulls[arm] + 1.0) <= due:
                return arm
            urgent, first = -1, 0
            for i in range(k):
                if s.min_shares[i] > 0.0 and may_pull(s, i, t):
                    by = pull_deadline(s, i, s.pulls[i] + 1.0)
                    if urgent < 0 or by < first:
                        urgent, first = i, by
            if urgent >= 0:
                return urgent
    if may_pull(s, arm, t):
        return arm
    chosen, most = -1, 0.0
    for i in range(k):  # the one that is furthest behind its share
        lag = t * s.mix[i] - s.pulls[i]
        if may_pull(s, i, t) and (chosen < 0 or lag > most + 1e-9):
            chosen, most = i, lag
    if chosen >= 0:
        return chosen
    for i in range(k):  # of those that are available all are at their caps: the one that is least beyond
        over = s.pulls[i] - t * s.max_shares[i]
        if s.unavailable[i] == 0 and (chosen < 0 or over < most):
            chosen, most = i, over
    return chosen


@step("state, floats, float -> float")
def max_excess_over_limits(s: State, a: FloatArray, times: float) -> float:
    """The largest excess of a over ``times`` the limits, over all rows."""
    worst = -np.inf
    for r in range(s.n_limit_rows):
        over = -times * s.limit_bounds[r]
        for i in range(s.n_arms):
            over += s.limit_rows[r, i] * a[i]
        worst = max(worst, over)
    return worst


@step("floats, int -> int")
def next_largest_index(x: FloatArray, last: int) -> int:
    """The index of the next number in falling order after that at ``last`` (−1: the largest); ties in order."""
    best = -1
    for i in range(x.size):
        if (last < 0 or x[i] < x[last] or (x[i] == x[last] and i > last)) and (best < 0 or x[i] > x[best]):
            best = i
    return best


@step("floats, floats -> bool")
def are_lags_within_bounds(lags: FloatArray, bounds: FloatArray) -> bool:
    """Whether for every j the j largest lags add up to at most their bound B_j."""
    total, last = 0.0, -1
    for j in range(lags.size - 1):
        last = next_largest_index(lags, last)
        total += lags[last]
        if lags[last] <= 0.0 and total <= 1.0:  # it cannot grow, and no bound is below 1
            return True
        if total > bounds[j]:
            return False
    return True


@step("state, int -> float")
def max_excess_after_pull(s: State, i: int) -> float:
    """The largest excess over a limit after a pull of arm i, in pulls; ``over`` is the excess before it."""
    worst = -np.inf
    for r in range(s.n_limit_rows):
        worst = max(worst, s.limit_excess[r] + s.limit_rows[r, i])
    return worst


@step("state, int, int, floats, floats, int -> bool")
def does_pull_keep_limits(s: State, i: int, t: int, lags: FloatArray, bounds: FloatArray, start: int) -> bool:
    """Whether a pull of arm i keeps the lags small, and no limit is exceeded by more than one pull.

    ``lags`` begin with that of the arm ``start``.
    """
    worst = max_excess_after_pull(s, i)
    if worst <= allowed_rounding_error(t) or worst > 1.0 + allowed_rounding_error(t):
        return worst <= allowed_rounding_error(t)
    lags[i - start] -= 1.0
    small = are_lags_within_bounds(lags, bounds)
    lags[i - start] += 1.0
    return small


@shared("state, int -> int")
def arm_within_joint_limits(s: State, arm: int) -> int:
    """The arm to pull under limits on several arms, by the lags behind a point that keeps all limits."""
    t, over, start, end = s.t + 1, s.limit_excess, 0, s.n_arms
    while not is_arriving(s, start):
        start += 1
    while not is_arriving(s, end - 1):
        end -= 1
    lags, bounds, weight = s.limit_deficit[start:end], s.lag_bounds[start:end], 1.0
    if s.n_segments > 0:
        weight = 0.0
        for i in range(start, end):
            weight += s.mix[i]
    for r in range(s.n_limit_rows):
        total, touches = -t * s.limit_bounds[r], s.n_segments == 0
        for i in range(s.n_arms):
            total += s.limit_rows[r, i] * s.pulls[i]
            touches |= i >= start and i < end and s.limit_rows[r, i] != 0.0
        over[r] = total if touches else -np.inf  # a limit within another segment has no say now
    own = t * s.mix[arm] >= s.pulls[arm] + 1.0 and (
        s.mix_is_feasible == 1 or max_excess_over_limits(s, s.mix, 1.0) <= 1e-9
    )
    for i in range(start, end):
        lags[i - start] += s.mix[i] / weight if own else s.fullest_mixtures[arm, i]
    chosen = arm
    if not may_pull(s, arm, t) or not does_pull_keep_limits(s, arm, t, lags, bounds, start):
        chosen, fallback, last, least = -1, -1, -1, np.inf
        for _ in range(lags.size):
            last = next_largest_index(lags, last)
            if may_pull(s, start + last, t):
                excess = max_excess_after_pull(s, start + last) if s.n_segments > 0 else 0.0
                if fallback < 0 or excess < least:
                    fallback, least = start + last, excess
                if does_pull_keep_limits(s, start + last, t, lags, bounds, start):
                    chosen = start + last
                    break
        chosen = chosen if chosen >= 0 else fallback
    if chosen < 0:
        return chosen
    lags[chosen - start] -= 1.0
    if max_excess_after_pull(s, chosen) <= allowed_rounding_error(t) and not are_lags_within_bounds(lags, bounds):
        fill_array_with(lags, 0.0)  # the pulls themselves are within the limits: they are followed from now on
    return chosen


@step("state, int -> int")
def apply_share_constraints(s: State, arm: int) -> int:
    """The arm to pull when a policy proposes ``arm``, where there are limits or not all arms are available."""
    if s.constraint_kind & JOINT_LIMITS == JOINT_LIMITS:
        return arm_within_joint_limits(s, arm)
    if s.constraint_kind == SINGLE_ARM_LIMITS and s.t < s.next_limit_check_at[0] and may_pull(s, arm, s.t + 1):
        return arm
    return arm_within_single_arm_limits(s, arm)
