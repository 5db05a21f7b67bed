"""The largest and the smallest utility of a mixture whose arms' survival curves are each known up to limits, exactly.

The search for mixtures looks at the mixture's own curve: in each cell it takes the best value between the limits that
follow from the arms' limits. With one arm that is exact. With several arms it is too generous: each arm's own curve
must fall, too, and the best values of neighbouring cells may need an arm's curve to rise. So for several arms those
values are valid limits, but wider than necessary. This program says what is really possible:

    the largest Σ width·h(Σ a(i)·S_i)  with  lower_i ≤ S_i ≤ upper_i  and every S_i falling.

For concave h it is a concave program. Where h is smooth, it is solved by an interior point method. A cell touches only
its neighbours, so a step costs as much as a few passes over the cells. Where h has corners, it is solved as a linear
program, with h as the lowest of its tangents. Either way the answer comes with a proof. For smooth h the proof is this:
no curves give more than the value that is reached plus the best gain that its slopes promise. That gain is found
exactly, level by level of the curves.

For the smallest utility of concave h the values cell by cell are exact already. They are at upper ends in the first
cells, and at lower ends from some cell on, so that every arm's curve falls. For convex h the two cases are exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solveh_banded
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion import Distortion

_MAX_NEWTON_STEPS = 200  # steps of the interior point method, in all
_MAX_LP_ROUNDS = 60  # rounds of linear programs
_INITIAL_TANGENTS = 7  # in each cell, before the first linear program
_KINK_OFFSET = 1e-9  # how far beside a corner the slope behind it is taken
_FIXED = 1e-12  # a curve between limits this close is known


@dataclass(frozen=True, eq=False)
class ExactValue:
    """The largest (or smallest) utility that a mixture can have, with the curves that reach it.

    Attributes
    ----------
    value : no curves within the limits give more (or less) than this.
    gap : the curves below come this close to ``value``.
    relaxed : the bound cell by cell, which policies search with.
    curves : the survival of each arm in each cell.
    """

    value: float
    gap: float
    relaxed: float
    curves: FloatArray = field(repr=False)


def extreme_value(
    metric: Distortion,
    points: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    weights: ArrayLike,
    *,
    largest: bool = True,
    tolerance: float = 1e-7,
) -> ExactValue:
    """The largest utility of a mixture, or the smallest, over all survival curves of its arms within limits.

    Parameters
    ----------
    metric : a metric that is concave, convex or linear.
    points : x_0 < … < x_m: the two ends of the support, and all points between them where curves may step.
    lower, upper : limits of each arm's survival in each of the m cells, one row for each arm. They must fall from cell
        to cell, like the curves.
    weights : the mixture.
    largest : whether to find the largest utility (the default) or the smallest.
    tolerance : how close to the exact value, as a share of the width of the support.

    Examples
    --------
    Two arms, three cells. Cell by cell the mixture could have survival ½ everywhere, but then arm 2 would rise:

    >>> import pmbandits as pmb
    >>> lower = [[0.6, 0.1, 0.0], [0.5, 0.5, 0.1]]
    >>> upper = [[0.9, 0.3, 0.2], [1.0, 0.8, 0.8]]
    >>> found = extreme_value(pmb.GiniDeviation(), [0.0, 1.0, 2.0, 3.0], lower, upper, [0.5, 0.5])
    >>> round(found.relaxed, 4), round(found.value, 4)
    (0.7475, 0.7283)
    """
    x = _validation.check_number_array("points", points, minimum=2)
    low, high = np.atleast_2d(np.asarray(lower, dtype=float)), np.atleast_2d(np.asarray(upper, dtype=float))
    count, cells = low.shape
    mix = _validation.check_weights(weights, count)
    if high.shape != low.shape or x.size != cells + 1 or not (np.diff(x) > 0.0).all():
        raise ValueError(
            f"give one row of limits for each arm and one column for each of the {x.size - 1} cells between increasing "
            f"points; got lower {low.shape} and upper {high.shape}."
        )
    if not ((low <= high + 1e-12) & (low >= 0.0) & (high <= 1.0)).all() or (np.diff(low) > 1e-12).any() or (
        np.diff(high) > 1e-12
    ).any():  # fmt: skip
        raise ValueError(
            "lower and upper must lie in [0, 1] and fall from cell to cell, and lower must not be above upper."
        )
    if metric.shape == "neither":
        raise ValueError(
            f"{metric!r} is neither concave nor convex, so there is no exact value; utility_bounds() gives a bound."
        )
    high = np.maximum(low, high)
    used = mix > 0.0
    width, sign = np.diff(x), 1.0 if largest else -1.0
    base = float(x[0] * metric(1.0))
    at_low, at_high = np.minimum(mix @ low, 1.0), np.minimum(mix @ high, 1.0)
    extreme = metric.maximum if largest else metric.minimum
    ends = [extreme(min(float(a), float(b)), float(b)) for a, b in zip(at_low, at_high, strict=True)]
    relaxed = base + float(width @ np.array([e.value for e in ends]))
    peaks = np.array([e.at for e in ends])
    if int(used.sum()) == 1 or metric.shape == ("convex" if largest else "concave"):
        share = np.where(at_high > at_low, (peaks - at_low) / np.where(at_high > at_low, at_high - at_low, 1.0), 0.0)
        return ExactValue(relaxed, 0.0, relaxed, low + share * (high - low))
    inner = low[used], high[used], mix[used]
    goal = tolerance * float(width.sum())
    if metric.kinks:
        curves, bound = _maximise_by_tangents(metric, sign, width, *inner, peaks, goal)
    else:
        curves, bound = _maximise_by_barrier(metric, sign, width, *inner, goal), np.inf
    curve = np.minimum(inner[2] @ curves, 1.0)
    reached = float(width @ (sign * np.asarray(metric(curve))))
    with np.errstate(all="ignore"):
        slope = width * sign * np.asarray(metric.derivative(np.clip(curve, 1e-300, 1.0)))
    bound = max(min(bound, reached + _max_linear_gain(slope, *inner, curves)), reached)
    out = 0.5 * (low + high)
    out[used] = curves
    value = base + sign * bound
    value = min(value, relaxed) if largest else max(value, relaxed)
    return ExactValue(value, abs(value - base - sign * reached), relaxed, out)


def _max_linear_gain(
    slope: FloatArray, low: FloatArray, high: FloatArray, mix: FloatArray, curves: FloatArray
) -> float:
    """The most that any falling curves within the limits can gain over these, by the slopes of each cell.

    A falling curve passes each level at one place, from above the level to below it. The levels do not depend on each
    other. So for each level the best place is taken between the two that the limits allow.
    """
    if not np.isfinite(slope).all():
        return np.inf
    total = 0.0
    for i in range(mix.size):
        ahead = np.append(0.0, np.cumsum(mix[i] * slope))  # what the cells before a place are worth, for each unit
        levels = np.unique(np.concatenate(([0.0], low[i], high[i])))
        middle = 0.5 * (levels[1:] + levels[:-1])
        first = np.searchsorted(-low[i], -middle, side="right")  # how many cells must be above the level
        last = np.searchsorted(-high[i], -middle, side="right")  # how many can be
        total += float(np.diff(levels) @ _window_max(ahead, first, last)) - float(mix[i] * slope @ curves[i])
    return max(total, 0.0)


def _window_max(values: FloatArray, first: Any, last: Any) -> FloatArray:
    """The largest of values[first … last], for many windows: a table of maxima over powers of two."""
    tables = [values]
    while 2 ** len(tables) <= values.size:
        before, half = tables[-1], 2 ** (len(tables) - 1)
        tables.append(np.maximum(before[:-half], before[half:]))
    size = last - first + 1
    power = np.floor(np.log2(size) + 1e-12).astype(int)
    out = np.empty(size.size)
    for p in np.unique(power):
        here = power == p
        out[here] = np.maximum(tables[p][first[here]], tables[p][last[here] - 2**p + 1])
    return out


def _maximise_by_barrier(
    metric: Distortion,
    sign: float,
    width: FloatArray,
    low: FloatArray,
    high: FloatArray,
    mix: FloatArray,
    goal: float,
) -> FloatArray:
    """The best curves for smooth h: Newton steps with a logarithm of every distance from a limit; none has corners."""
    count, cells = low.shape
    limit_width = high - low
    free = limit_width > _FIXED
    chain = free[:, :-1] & free[:, 1:] & (low[:, :-1] < high[:, 1:])  # elsewhere the limits make it fall
    now = low + np.linspace(0.6, 0.4, cells) * limit_width
    barrier_weight = 0.1 * max(float(width.sum()), 1e-300)
    least = 0.1 * goal / max(int(2 * free.sum() + chain.sum()), 1)

    def barrier_objective(s: FloatArray) -> float:
        slack = np.concatenate(((s - low)[free], (high - s)[free], (s[:, :-1] - s[:, 1:])[chain]))
        if not (slack > 0.0).all():
            return -np.inf
        with np.errstate(all="ignore"):
            return float(width @ (sign * metric._h(np.clip(mix @ s, 0.0, 1.0)))) + barrier_weight * float(
                np.log(slack).sum()
            )

    for _ in range(_MAX_NEWTON_STEPS):
        curve = np.clip(mix @ now, 0.0, 1.0)
        with np.errstate(all="ignore"):
            slope, curvature = width * sign * metric._dh(curve), np.minimum(width * sign * metric._d2h(curve), 0.0)
        below, above = np.where(free, now - low, 1.0), np.where(free, high - now, 1.0)
        falls = np.where(chain, now[:, :-1] - now[:, 1:], 1.0)
        gradient = mix[:, None] * slope + barrier_weight * (1.0 / below - 1.0 / above)
        pull = barrier_weight * np.where(chain, 1.0 / falls, 0.0)
        gradient[:, :-1] += pull
        gradient[:, 1:] -= pull
        # The matrix of minus the second derivative, by diagonals; unknowns are ordered by cell, then by arm.
        bands = np.zeros((count + 1, cells * count))
        own = barrier_weight * (1.0 / below**2 + 1.0 / above**2) - mix[:, None] ** 2 * curvature
        tie = barrier_weight * np.where(chain, 1.0 / falls**2, 0.0)
        own[:, :-1] += tie
        own[:, 1:] += tie
        bands[0] = np.where(free, own, 1.0).T.ravel()
        for i in range(count):
            for j in range(i):
                both = free[i] & free[j]
                bands[i - j, j::count] = np.where(both, -mix[i] * mix[j] * curvature, 0.0)
        bands[count, : (cells - 1) * count] -= tie.T.ravel()
        step = solveh_banded(bands, np.where(free, gradient, 0.0).T.ravel(), lower=True).reshape(cells, count).T
        gain = float((np.where(free, gradient, 0.0) * step).sum())
        before, length = barrier_objective(now), 1.0
        while barrier_objective(now + length * step) < before + 0.1 * length * gain and length > 1e-10:
            length *= 0.5
        if length > 1e-10:
            now = now + length * step
        if gain < 0.1 * barrier_weight or length <= 1e-10:
            if barrier_weight <= least:
                break
            barrier_weight = max(0.15 * barrier_weight, least)
    return np.minimum.accumulate(np.clip(now, low, high), axis=1)


def _maximise_by_tangents(
    metric: Distortion,
    sign: float,
    width: FloatArray,
    low: FloatArray,
    high: FloatArray,
    mix: FloatArray,
    peaks: FloatArray,
    goal: float,
) -> tuple[FloatArray, float]:
    """The best curves for h with corners, and what none exceed: linear programs for the curves and a value a cell."""
    count, cells = low.shape
    size = count * cells
    target = np.concatenate((np.zeros(size), -width))
    limits: Any = np.column_stack((np.append(low.ravel(), np.full(cells, -np.inf)),
                              np.append(high.ravel(), np.full(cells, np.inf))))  # fmt: skip
    # Every curve falls: S(k + 1) − S(k) ≤ 0.
    place = (np.arange(count)[:, None] * cells + np.arange(cells - 1)).ravel()
    row = np.arange(place.size)
    rows = [coo_array((np.concatenate((np.ones(row.size), -np.ones(row.size))),
                       (np.concatenate((row, row)), np.concatenate((place + 1, place)))),
                      shape=(row.size, size + cells))]  # fmt: skip
    right = [np.zeros(row.size)]
    least, most = mix @ low, np.minimum(mix @ high, 1.0)
    corners = [u for place_, _ in metric.kinks for u in (place_, min(place_ + _KINK_OFFSET, 1.0))]
    tangent_points = [least + share * (most - least) for share in np.linspace(0.0, 1.0, _INITIAL_TANGENTS)]
    tangent_points += [np.full(cells, u) for u in corners] + [peaks]
    which = [np.arange(cells)] * len(tangent_points)
    best, bound, curves = -np.inf, np.inf, low
    for _ in range(_MAX_LP_ROUNDS):
        for where, u in zip(which, tangent_points, strict=True):
            with np.errstate(all="ignore"):
                value, slope = sign * metric(u), sign * metric.derivative(u)
            fine = np.isfinite(slope) & np.isfinite(value)
            where, u, value, slope = where[fine], u[fine], value[fine], slope[fine]
            # value of the cell − slope·Σ a(i)·S_i ≤ h(u) − slope·u
            line = np.arange(where.size)
            columns = (np.arange(count)[:, None] * cells + where).ravel()
            entries = np.concatenate((-(mix[:, None] * slope).ravel(), np.ones(where.size)))
            position = (np.concatenate((np.tile(line, count), line)), np.concatenate((columns, size + where)))
            rows.append(coo_array((entries, position), shape=(where.size, size + cells)))
            right.append(value - slope * u)
        matrix: Any = vstack(rows).tocsr()
        solved = linprog(target, A_ub=matrix, b_ub=np.concatenate(right), bounds=limits)
        if solved.x is None or solved.fun is None:
            break
        answer = np.clip(solved.x[:size].reshape(count, cells), low, high)
        curve = np.minimum(mix @ answer, 1.0)
        reached = sign * np.asarray(metric(curve))
        if float(width @ reached) > best:
            best, curves = float(width @ reached), answer
        bound = min(bound, float(-solved.fun))
        if bound - best <= goal:
            break
        short = np.flatnonzero(width * (solved.x[size:] - reached) > 0.1 * goal / cells)
        which, tangent_points = [short], [curve[short]]
    return np.minimum.accumulate(curves, axis=1), bound
