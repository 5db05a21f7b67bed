"""Kernels of the interior point method: all of a step except h, which Python evaluates between two calls.

``advance_interior_point`` judges the mixture that was tried, and works out its value and the bounds that its tangent
planes give. Then it finds the next step, and the mixture to try. Everything that it knows is in one :class:`Work`.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.optimize import _barrier_problem as at
from pmbandits.optimize._barrier_problem import (
    add_weighted_rows_in_place,
    copy_array_into,
    corner_multiplier_stiffness,
    dot_in_blocks,
    fill_mixture_curve,
    foreseen_multiplier_change,
    largest_entry,
    smoothed_corner_slope,
    survival_minus_place,
)
from pmbandits.optimize._newton_step import (
    eliminate_equalities,
    factorise_newton_matrix,
    solve_newton_step,
    square_roots_of_stiffness,
)
from pmbandits.state.compile import inner_kernel, kernel

# What ``advance_interior_point`` returns: Python evaluates h, looks at the split or at multipliers, or ends.
EVALUATE, TURN, STALLED, DONE = 0, 1, 2, 3

_BARRIER_SHRINK = 0.1  # the factor by which τ shrinks once the steps have nearly arrived
_QUICK_SHRINK = 0.004  # and if one whole step was enough
_NEARLY_ARRIVED = 150.0  # a step that promised less than this many times the barriers' part was nearly the last
_BOUNDARY_FRACTION = 0.995  # the share of the way to the boundary that a step may go
_SMALLEST_WEIGHT = 1e-120  # share of an arm
_MAX_HALVINGS = 40.0
_MAX_WAITING = 12.0  # steps without a better bound, or towards one τ
_LARGEST = 1e300
TURN_ABOVE = 0.9  # cells are counted from the other side once a mixture's curve exceeds this


@inner_kernel
def _trial_values_and_tangent_height(w, mu):
    """At the trial: the utility, the utility with rounded corners, and the height of the plane with their slopes."""
    value = w.numbers[at.OFFSET] + dot_in_blocks(w.cell_widths, w.h, w.cell_widths.size)
    rounded, tangent = value, value
    for k in range(w.kinks.shape[0]):
        place = w.kinks[k, 0]
        hard, smooth, flat = 0.0, 0.0, 0.0
        for c in range(w.cell_widths.size):
            width = w.corner_widths[c]
            if width > 0.0:
                z = survival_minus_place(w.sign[c], place, w.trial_p[c])
                hard += width * max(z, 0.0)
                if mu > 0.0:
                    root = math.hypot(z, 2.0 * mu)
                    smooth += width * 0.5 * (z + root)
                    flat += width * 0.5 * (1.0 + z / root) * z
        if mu == 0.0:
            smooth, flat = hard, hard
        value += w.kinks[k, 1] * hard
        rounded += w.kinks[k, 1] * smooth
        tangent += w.kinks[k, 1] * flat
    return value, rounded, tangent


@inner_kernel
def _fill_slopes_towards_arms(w, which, out):
    """Slopes towards all arms; corners with their own slopes (0), with multipliers (1), or with those foreseen (2)."""
    mu = w.numbers[at.MU]
    for c in range(w.cell_widths.size):
        x = w.cell_widths[c] * w.slope[c]
        if not abs(x) <= _LARGEST:
            x = 0.0 if x != x else (_LARGEST if x > 0.0 else -_LARGEST)
        if w.corner_widths[c] > 0.0:
            for k in range(w.kinks.shape[0]):
                z, dual = survival_minus_place(w.sign[c], w.kinks[k, 0], w.p[c]), w.duals[k, c]
                if which == 0:
                    dual = smoothed_corner_slope(z, mu) if mu > 0.0 else 1.0 * (z > 0.0)
                elif which == 2:
                    dual += foreseen_multiplier_change(z, dual, mu)
                x += w.corner_widths[c] * w.kinks[k, 1] * w.sign[c] * dual
        w.cells[c] = x
    for i in range(out.size):
        out[i] = dot_in_blocks(w.rows[i], w.cells, w.cells.size)


@inner_kernel
def _tangent_height_with_multipliers(w, value):
    """The height of the tangent plane with the multipliers of the corners."""
    for k in range(w.kinks.shape[0]):
        change = 0.0
        for c in range(w.cell_widths.size):
            if w.corner_widths[c] > 0.0:
                z = survival_minus_place(w.sign[c], w.kinks[k, 0], w.p[c])
                change += w.corner_widths[c] * (w.duals[k, c] * z - max(z, 0.0))
        value += w.kinks[k, 1] * change
    return value


@inner_kernel
def _linear_upper_bound(w, slopes):
    """A bound on ⟨slopes, b⟩ for all b that are allowed: by the prices of the limits, and the equalities' from here."""
    n, m = w.weights.size, w.level.size
    rest, out = np.empty(n), 0.0
    copy_array_into(slopes, rest)
    for f in range(w.bound.size):
        out += w.limit_price[f] * w.bound[f]
        row = w.cell_widths.size + w.kinks.shape[0] + f
        for i in range(n):
            rest[i] -= w.limit_price[f] * w.rows[i, row]
    y = w.equal_price
    for q in range(m):
        y[q] = 0.0
    if m > 1:
        for r in range(m):
            i = int(w.basic[r])
            for q in range(m):
                y[q] += w.give[r, n + q] * w.weights[i] * rest[i]
        for q in range(m):
            out += y[q] * w.level[q]
            for i in range(n):
                rest[i] -= y[q] * w.equal[q, i]
    return out + w.level[0] * largest_entry(rest)


@inner_kernel
def _keep_plane_if_bound_is_least(w, height, slopes):
    """Keep the plane of w.cells if its bound is the least; says whether it is much better."""
    number = w.numbers
    height -= dot_in_blocks(slopes, w.weights, slopes.size)
    upper = height + _linear_upper_bound(w, slopes)
    if not upper < number[at.UPPER]:
        return False
    better = upper - number[at.VALUE] < 0.9 * (number[at.UPPER] - number[at.VALUE])
    number[at.UPPER], number[at.PLANE_SPLIT] = upper, number[at.SPLIT]
    number[at.HEIGHT] = height
    copy_array_into(w.cells, w.plane)
    copy_array_into(w.limit_price, w.plane_price)
    copy_array_into(w.equal_price, w.plane_equal_price)
    return better


@kernel
def start_interior_point(w):
    """The first τ, rounding of corners, and multipliers, from the start (weights, p, slack, h and slopes there)."""
    number, n_barriers = w.numbers, w.weights.size + w.bound.size
    number[at.MU] = 0.1
    _fill_slopes_towards_arms(w, 0, w.gradient)
    lead = largest_entry(w.gradient) * w.level[0] - dot_in_blocks(w.gradient, w.weights, w.weights.size)
    number[at.TAU] = max(0.1 * lead / n_barriers, number[at.SMALLEST_TAU])
    _set_corner_rounding(w)
    mu = number[at.MU]
    for k in range(w.kinks.shape[0]):
        for c in range(w.cell_widths.size):
            z = survival_minus_place(w.sign[c], w.kinks[k, 0], w.p[c])
            w.duals[k, c] = min(max(smoothed_corner_slope(z, mu) if mu > 0.0 else 1.0 * (z > 0.0), 1e-14), 1.0 - 1e-14)
    for i in range(w.weights.size):
        w.price[i] = number[at.TAU] / w.weights[i]
    for f in range(w.bound.size):
        w.limit_price[f] = number[at.TAU] / w.slack[f]
    number[at.VALUE], number[at.UPPER], number[at.IS_NEW] = -np.inf, np.inf, 1.0
    number[at.SINCE], number[at.WAITING] = 0.0, 0.0


@inner_kernel
def _set_corner_rounding(w):
    width, sharpness = 0.0, 0.0
    for c in range(w.corner_widths.size):
        width += w.corner_widths[c]
    for k in range(w.kinks.shape[0]):
        sharpness -= w.kinks[k, 1] * width
    n_barriers = w.weights.size + w.bound.size
    w.numbers[at.MU] = min(w.numbers[at.TAU] * n_barriers / sharpness, 0.25) if sharpness > 0.0 else 0.0


@inner_kernel
def _barrier_merit(w, rounded, shares, length):
    logs = 0.0
    for i in range(shares.size):
        logs += math.log(shares[i])
    for f in range(w.bound.size):
        logs += math.log(w.slack[f] + length * w.slack_move[f])
    return rounded + w.numbers[at.TAU] * logs


@inner_kernel
def _judge_trial_mixture(w):
    """Judge the mixture that was tried. If it will do, go there: its value, bounds, and new multipliers."""
    number = w.numbers
    value, rounded, tangent = _trial_values_and_tangent_height(w, number[at.MU])
    is_shrunk = False
    if number[at.IS_NEW] == 0.0:
        below_rounding = number[at.GAIN] <= 1e-12 * abs(rounded) + 1e-14 * abs(number[at.TAU])
        enough = number[at.MERIT] + 1e-4 * number[at.LENGTH] * number[at.GAIN]
        will_do = below_rounding or number[at.HALVINGS] >= _MAX_HALVINGS
        if not (will_do or _barrier_merit(w, rounded, w.trial, number[at.LENGTH]) >= enough):
            number[at.HALVINGS] += 1.0
            number[at.LENGTH] *= 0.5
            _fill_trial_mixture(w)
            return EVALUATE
        is_shrunk = _accept_trial(w)
        if is_shrunk and number[at.MU] > 0.0:
            value, rounded, tangent = _trial_values_and_tangent_height(w, number[at.MU])
    number[at.IS_NEW] = 0.0
    eliminate_equalities(w)
    if value > number[at.VALUE]:
        number[at.VALUE] = value
        copy_array_into(w.weights, w.best)
    _fill_slopes_towards_arms(w, 0, w.gradient)
    better = _keep_plane_if_bound_is_least(w, tangent, w.gradient)
    if number[at.MU] > 0.0:
        slopes = np.empty(w.weights.size)
        _fill_slopes_towards_arms(w, 1, slopes)
        better = _keep_plane_if_bound_is_least(w, _tangent_height_with_multipliers(w, value), slopes) or better
    if number[at.UPPER] - number[at.VALUE] <= number[at.GOAL]:
        return DONE
    number[at.WAITING] = 0.0 if better else number[at.WAITING] + 1.0
    reached = (number[at.UPPER] - number[at.VALUE]) / (w.weights.size + w.bound.size)
    if reached < number[at.TAU]:  # better than the barriers let it be: they would lead back
        number[at.TAU] = max(number[at.SMALLEST_TAU], _BARRIER_SHRINK * reached)
        number[at.SINCE] = 0.0
        _set_corner_rounding(w)
        if number[at.MU] > 0.0:
            _, rounded, _ = _trial_values_and_tangent_height(w, number[at.MU])
        is_shrunk = True
    number[at.MERIT] = _barrier_merit(w, rounded, w.weights, 0.0)
    if number[at.TAU] <= number[at.SMALLEST_TAU]:
        if number[at.WAITING] >= _MAX_WAITING:
            return DONE
        if is_shrunk and w.bound.size + w.level.size - 1 + w.kinks.shape[0] > 0:
            return STALLED
    return TURN


@inner_kernel
def _accept_trial(w):
    """Go to the trial, with all multipliers; says whether τ shrank (or would have)."""
    number, tau, mu = w.numbers, w.numbers[at.TAU], w.numbers[at.MU]
    n = w.weights.size
    if mu > 0.0:
        change = np.zeros(w.cell_widths.size)  # not a difference of curves: its rounding would show
        for i in range(n):
            w.load[i] = w.weights[i] * w.step[i]
        add_weighted_rows_in_place(w.rows, w.load, change)
        for k in range(w.kinks.shape[0]):
            _move_corner_multipliers(w, k, change, mu)
    reach = 1.0
    moved, limit_moved = np.empty(n), np.empty(w.bound.size)
    for i in range(n):
        moved[i] = tau / w.weights[i] - w.price[i] * (1.0 + w.step[i])
        if moved[i] < 0.0:
            reach = min(reach, _BOUNDARY_FRACTION * w.price[i] / -moved[i])
    for f in range(w.bound.size):
        limit_moved[f] = (tau - w.limit_price[f] * w.slack_move[f]) / w.slack[f] - w.limit_price[f]
        if limit_moved[f] < 0.0:
            reach = min(reach, _BOUNDARY_FRACTION * w.limit_price[f] / -limit_moved[f])
        w.slack[f] += number[at.LENGTH] * w.slack_move[f]
    copy_array_into(w.trial, w.weights)
    copy_array_into(w.trial_p, w.p)
    number[at.SINCE] += 1.0
    is_shrunk = number[at.GAIN] <= _NEARLY_ARRIVED * (n + w.bound.size) * tau or number[at.SINCE] >= _MAX_WAITING
    if is_shrunk:
        is_quick = number[at.SINCE] == 1.0 or number[at.GAIN] <= (n + w.bound.size) * tau
        shrink = _QUICK_SHRINK if is_quick and number[at.LENGTH] >= 0.9 else _BARRIER_SHRINK
        number[at.SINCE] = 0.0
        number[at.TAU] = max(number[at.SMALLEST_TAU], shrink * tau)
        _set_corner_rounding(w)
    for i in range(n):
        central = number[at.TAU] / w.weights[i]
        w.price[i] = min(max(w.price[i] + reach * moved[i], 1e-8 * central), 1e8 * central)
    for f in range(w.bound.size):
        w.limit_price[f] += reach * limit_moved[f]
    return is_shrunk


@inner_kernel
def _move_corner_multipliers(w, k, change, mu):
    """Move the multipliers of a rounded corner with the weights, by what a whole step would change."""
    place, reach = w.kinks[k, 0], 1.0
    moved = np.zeros(change.size)
    for c in range(change.size):
        if w.corner_widths[c] > 0.0:
            z, dual = survival_minus_place(w.sign[c], place, w.p[c]), w.duals[k, c]
            moved[c] = (
                foreseen_multiplier_change(z, dual, mu)
                + corner_multiplier_stiffness(z, dual, mu) * w.sign[c] * change[c]
            )
            if moved[c] < 0.0:
                reach = min(reach, _BOUNDARY_FRACTION * dual / -moved[c])
            elif moved[c] > 0.0:
                reach = min(reach, _BOUNDARY_FRACTION * (1.0 - dual) / moved[c])
    for c in range(change.size):
        if w.corner_widths[c] > 0.0:
            like = smoothed_corner_slope(
                survival_minus_place(w.sign[c], place, w.trial_p[c]), mu
            )  # not too far from what the weights themselves say
            dual = min(max(w.duals[k, c] + reach * moved[c], 1e-4 * like), 1.0 - 1e-4 * (1.0 - like))
            w.duals[k, c] = min(max(dual, 1e-14), 1.0 - 1e-14)


@inner_kernel
def _set_next_step_and_trial(w):
    """The next step, and the first mixture to try along it; false if there is none."""
    number, a, n, first_limit = w.numbers, w.weights, w.weights.size, w.cell_widths.size + w.kinks.shape[0]
    tau, mu = number[at.TAU], number[at.MU]
    pull = np.zeros(n)  # what limits' barriers take from the gradient
    for f in range(w.bound.size):
        for i in range(n):
            pull[i] += w.rows[i, first_limit + f] * tau / w.slack[f]
    matrix, order, size = factorise_newton_matrix(w, square_roots_of_stiffness(w))
    ahead = w.gradient
    if mu > 0.0:
        ahead = np.empty(n)
        _fill_slopes_towards_arms(w, 2, ahead)
    gain = 0.0
    for _ in range(2):
        for i in range(n):
            w.load[i] = a[i] * (ahead[i] - pull[i]) + tau
        solve_newton_step(w, matrix, order, size)
        gain = 0.0
        for i in range(n):
            gain += (a[i] * (w.gradient[i] - pull[i]) + tau) * w.step[i]
        if gain > 0.0 or mu == 0.0:
            break
        ahead = w.gradient
    number[at.GAIN] = gain
    longest = np.inf
    for i in range(n):
        if not abs(w.step[i]) < np.inf:
            return False
        if w.step[i] < 0.0:
            longest = min(longest, -1.0 / w.step[i])
    for f in range(w.bound.size):
        move = 0.0
        for i in range(n):
            move -= w.rows[i, first_limit + f] * a[i] * w.step[i]
        w.slack_move[f] = move
        if move < 0.0:
            longest = min(longest, -w.slack[f] / move)
    number[at.LENGTH], number[at.HALVINGS] = min(1.0, _BOUNDARY_FRACTION * longest), 0.0
    _fill_trial_mixture(w)
    return True


@inner_kernel
def _fill_trial_mixture(w):
    total = 0.0
    for i in range(w.trial.size):
        w.trial[i] = max(w.weights[i] * (1.0 + w.numbers[at.LENGTH] * w.step[i]), _SMALLEST_WEIGHT)
        total += w.trial[i]
    if w.level.size == 1:
        for i in range(w.trial.size):
            w.trial[i] *= w.level[0] / total
    fill_mixture_curve(w, w.trial, w.trial_p)


@kernel
def advance_interior_point(w, arrived):
    """Arrive at the mixture that was tried, unless that is done already, and set out for the next one to try."""
    if not arrived:
        code = _judge_trial_mixture(w)
        if code != TURN or (w.p.size > 0 and largest_entry(w.p) > TURN_ABOVE):
            return code
    return EVALUATE if _set_next_step_and_trial(w) else DONE
