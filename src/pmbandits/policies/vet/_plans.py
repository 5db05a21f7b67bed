"""Kernels of Vet with segments and convex h: the best plan, which is one arm for each segment, and its rivals.

Convex U_h is largest where each segment plays one arm. Because the segments are pooled, a plan can be better than
another only if several segments change together. So besides the best plan, others are kept in sight: the best ones for
a lower CVaR, for some thresholds z. There each segment plays the arm with the least E max(z − X, 0).

What was played stays in the pool, and for convex h a half of one plan and a half of another are worth less than either.
So the utility of a plan is that of everybody after ``HORIZON`` times the rounds so far, if it is played from now on.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.mixtures._index import TIE
from pmbandits.mixtures._segments import end_of_segment, have_all_paid
from pmbandits.mixtures._survival_table import fill_h_slopes_by_cell, slope_towards_arm, utility_of_survival
from pmbandits.mixtures._tracking import n_pulls_or_rewards
from pmbandits.policies.vet._index import kl_to_required_utility_beside, unpack, vet_slope_step
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

N_RIVALS = 12  # thresholds for which the best plan is kept in sight
HORIZON = 3.0  # a plan is judged by the utility of everybody after so many times the rounds so far
MAX_PLAN_STEPS = 20  # of an ascent
MIN_SIZE_TO_REMEMBER = 2000  # with fewer columns times rewards, what D was before says little, and costs little


@step("state, floats, ints -> none")
def fill_plan_of_mix(s: State, weights: FloatArray, plan: IntArray) -> None:
    """The arm with the most weight in each open segment, into ``plan``; −1 for others. ``weights`` gets their sums."""
    start = 0
    for segment in range(s.n_segments):
        plan[segment], weights[segment] = -1, 0.0
    while start < s.n_arms:
        end, segment = end_of_segment(s.segment_of, start, s.n_arms), s.segment_of[start]
        arm = start
        for i in range(start, end):
            weights[segment] += s.mix[i]
            arm = i if s.mix[i] > s.mix[arm] else arm
        if have_all_paid(s, start, end):
            plan[segment] = arm
        start = end


@step("state, floats, ints, floats -> none")
def move_weights_to_past(s: State, weights: FloatArray, plan: IntArray, past: FloatArray) -> None:
    """Split the weights of open segments: 1/``HORIZON`` was played, and its survival is put into ``past``.

    The weights become those of what is to come.
    """
    cells, part, start = s.n_knots - 1, 1.0 / HORIZON, 0
    for c in range(s.n_knots):
        past[c] = 0.0
    while start < s.n_arms:
        end, segment, total = end_of_segment(s.segment_of, start, s.n_arms), s.segment_of[start], 0.0
        if plan[segment] >= 0:
            for i in range(start, end):
                total += n_pulls_or_rewards(s, i)
            for i in range(start, end):
                weight = part * weights[segment] * n_pulls_or_rewards(s, i) / total
                for c in range(cells):
                    past[c] += weight * s.survival_rows[i, c]
            weights[segment] *= 1.0 - part
        start = end


@step("state, floats, ints, floats, floats -> none")
def fill_plan_survival(s: State, weights: FloatArray, plan: IntArray, past: FloatArray, above: FloatArray) -> None:
    """The survival of everybody if open segments now follow a plan and others do as in ``s.mix``, into ``above``."""
    cells = s.n_knots - 1
    for c in range(s.n_knots):
        above[c] = past[c]
    for i in range(s.n_arms):
        arm = plan[s.segment_of[i]]
        weight = s.mix[i] if arm < 0 else weights[s.segment_of[i]] if arm == i else 0.0
        if weight > 0.0:
            for c in range(cells):
                above[c] += weight * s.survival_rows[i, c]


@shared("state, table of ints -> none")
def fill_threshold_plans(s: State, plans: IntArray) -> None:
    """For each threshold z the plan with the least E max(z − X, 0) in each segment, into ``plans`` from row 1 on."""
    cells, n = s.n_knots - 1, plans.shape[0] - 1
    least = np.full((n, s.n_segments), np.inf)
    for j in range(n):
        for segment in range(s.n_segments):
            plans[j + 1, segment] = plans[0, segment]
    for i in range(s.n_arms):
        segment = s.segment_of[i]
        if plans[0, segment] < 0:
            continue
        short, c = 0.0, 0
        for j in range(n):
            knot = 1 + j * (cells - 1) // max(n - 1, 1)
            while c < knot:
                short += (s.knots[c + 1] - s.knots[c]) * (1.0 - s.survival_rows[i, c])
                c += 1
            if short < least[j, segment] - 1e-15:
                least[j, segment], plans[j + 1, segment] = short, i


@shared("state, floats, ints, floats, floats, float, bool -> float")
def ascend_from_plan(
    s: State, weights: FloatArray, plan: IntArray, past: FloatArray, above: FloatArray, slope_step: float,
    thorough: bool,
) -> float:  # fmt: skip
    """Improve a plan in place, and its survival; returns its utility.

    All segments go to the arm of the greatest slope, while that helps. If ``thorough``, each arm is then tried in the
    place of that of its segment.
    """
    cells, n = s.n_knots - 1, s.n_segments
    new, there, steep, own = plan.copy(), np.empty(s.n_knots), np.empty(s.n_knots), np.empty(n)
    best, small = utility_of_survival(s.h, s.knots, above, s.n_knots), 1e-13 * s.max_abs_h
    for _ in range(MAX_PLAN_STEPS):
        fill_h_slopes_by_cell(s, above, slope_step, there, steep)
        changed = False
        for segment in range(n):
            new[segment] = plan[segment]
            own[segment] = slope_towards_arm(s, steep, plan[segment]) if plan[segment] >= 0 else np.inf
        for i in range(s.n_arms):
            segment = s.segment_of[i]
            if plan[segment] >= 0 and i != plan[segment]:
                slope = slope_towards_arm(s, steep, i)
                if slope > own[segment] + small:
                    new[segment], own[segment], changed = i, slope, True
        if not changed:
            break
        fill_plan_survival(s, weights, new, past, there)
        value = utility_of_survival(s.h, s.knots, there, s.n_knots)
        if value <= best + small:
            break
        best = value
        for segment in range(n):
            plan[segment] = new[segment]
        for c in range(cells):
            above[c] = there[c]
    for _ in range(3 if thorough else 0):
        changed = False
        for i in range(s.n_arms):
            segment = s.segment_of[i]
            arm = plan[segment]
            if arm >= 0 and i != arm:
                for c in range(cells):
                    there[c] = above[c] + weights[segment] * (s.survival_rows[i, c] - s.survival_rows[arm, c])
                value = utility_of_survival(s.h, s.knots, there, s.n_knots)
                if value > best + small:
                    best, plan[segment], changed = value, i, True
                    for c in range(cells):
                        above[c] = there[c]
        if not changed:
            break
    return best


@shared("state, float, table of ints -> int", unpack)
def set_mix_to_best_plan(s: State, slope_step: float, plans: IntArray) -> int:
    """Make ``s.mix`` the best plan that is found; it stays if it is among the best. Returns how many plans there are.

    The first row of ``plans`` gets that plan, the others its rivals. An ascent begins at what is played and at the best
    rival; after 10 % more rewards at all rivals, and is then thorough.
    """
    weights, trial = np.empty(s.n_segments), np.empty(s.n_segments, np.int64)
    past, above = np.empty(s.n_knots), np.empty(s.n_knots)
    fill_plan_of_mix(s, weights, plans[0])
    totals = weights.copy()
    move_weights_to_past(s, weights, plans[0], past)
    fill_threshold_plans(s, plans)
    thorough = s.rewards >= s.next_multistart_at
    if thorough:
        s.next_multistart_at = s.rewards + max(1, s.rewards // 10)
    used, best_rival, best_of_rivals = 1, 0, -np.inf
    for j in range(1, plans.shape[0]):  # leave out those that are the same
        known = False
        for m in range(1, used):
            same = True
            for segment in range(s.n_segments):
                same &= plans[m, segment] == plans[j, segment]
            known |= same
        if not known:
            for segment in range(s.n_segments):
                plans[used, segment] = plans[j, segment]
            fill_plan_survival(s, weights, plans[used], past, above)
            value = utility_of_survival(s.h, s.knots, above, s.n_knots)
            if value > best_of_rivals:
                best_rival, best_of_rivals = used, value
            used += 1
    fill_plan_survival(s, weights, plans[0], past, above)
    best = ascend_from_plan(s, weights, plans[0], past, above, slope_step, thorough)
    for j in range(1, used):
        if thorough or j == best_rival:
            for segment in range(s.n_segments):
                trial[segment] = plans[j, segment]
            fill_plan_survival(s, weights, trial, past, above)
            value = ascend_from_plan(s, weights, trial, past, above, slope_step, thorough)
            if value > best + TIE * max(1.0, abs(best)):
                best = value
                for segment in range(s.n_segments):
                    plans[0, segment] = trial[segment]
    for i in range(s.n_arms):
        segment = s.segment_of[i]
        if plans[0, segment] >= 0:
            s.mix[i] = totals[segment] if plans[0, segment] == i else 0.0
    return used


@shared("state, table of ints, int -> none", unpack)
def update_indices_by_plans(s: State, plans: IntArray, n_plans: int) -> None:
    """Update the index of each arm left out: D is to the utility of the best plan, in the plan that suits it best.

    That is the plan, of the best one and its rivals, that has the largest utility with the arm in its place, as the
    slopes at the plan say. What they ask of the arm, relative to the largest Φ, is how D is remembered.
    """
    cells, k, slope_step = s.n_knots - 1, s.n_arms, vet_slope_step(s)
    weights, arms = np.empty(s.n_segments), np.empty(s.n_segments, np.int64)
    survivals, pooled, rest = np.empty((n_plans, s.n_knots)), np.zeros(s.n_knots), np.empty(s.n_knots)
    past, worth = np.empty(s.n_knots), 0.0
    fill_plan_of_mix(s, weights, arms)
    move_weights_to_past(s, weights, arms, past)
    best, plan, demand = np.full(k, -np.inf), np.zeros(k, np.int64), np.zeros(k)
    for j in range(n_plans):
        fill_plan_survival(s, weights, plans[j], past, survivals[j])
        value = utility_of_survival(s.h, s.knots, survivals[j], s.n_knots)
        worth = value if j == 0 else worth
        fill_h_slopes_by_cell(s, survivals[j], slope_step, rest, pooled)
        phi, top = 0.0, 0.0
        for c in range(cells):
            phi += pooled[c]
            top = max(top, phi)
        for i in range(k):
            if s.left_out[i] == 1:
                segment = s.segment_of[i]
                slope, weight = slope_towards_arm(s, pooled, i), weights[segment]
                promised = value + weight * (slope - slope_towards_arm(s, pooled, plans[j, segment]))
                if promised > best[i] + TIE * max(1.0, abs(best[i])) or j == 0:
                    best[i], plan[i] = promised, j
                    demand[i] = (worth - promised) / (weight * max(top - slope, 1e-300))
    for i in range(k):
        n, segment = float(n_pulls_or_rewards(s, i)), s.segment_of[i]
        if s.left_out[i] == 0:
            continue
        s.vetted_pulls[i], s.vetted_n_rewards[i] = s.pulls[i], s.n_rewards[i]
        if math.log(n) >= s.threshold[segment]:
            continue
        above, arm, weight = survivals[plan[i]], plans[plan[i], segment], weights[segment]
        for c in range(cells):
            rest[c] = max(above[c] - weight * s.survival_rows[arm, c], 0.0)
            pooled[c] = rest[c] + weight * s.survival_rows[i, c]
        own = utility_of_survival(s.h, s.knots, pooled, s.n_knots)
        need = (s.threshold[segment] - math.log(n)) / n
        asked = min(max(demand[i], 0.0), 1e9) if k * s.rewards >= MIN_SIZE_TO_REMEMBER else np.inf
        divergence = kl_to_required_utility_beside(s, i, own, worth, rest, weight, s.survival_rows[arm], asked, need)
        s.vet_index[i] = n * divergence + math.log(n)
