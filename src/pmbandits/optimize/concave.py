"""Maximise a concave utility over the mixtures that are allowed, with a duality gap as certificate.

    max V(a) over a in P,    V(a) = const + Σ_cells ω·φ(Σ_i a_i·curve_i)

V is concave, so it lies below its tangent planes, and prices of the limits bound a plane on P (``interior_point.py``).
Shares that limits on single arms ask for are fixed: only what is left of the shares, a = least + rest·b, is looked for.

A few arms and a smooth h need a few steps of Newton's method, and nothing compiled (``newton.py``). Else the interior
point method solves problems of some size at once. In larger ones most arms take no part in the best
mixture. So it looks for the best mixture of a few; one pass over all arms gives a bound for all, and says who should
join (column generation). The smallest bound counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import Interior, Polytope, simplex_polytope
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.interior_point import InteriorPoint, Solution
from pmbandits.optimize.newton import MAX_ARMS, maximise_by_newton
from pmbandits.tables.survival_table import SurvivalTable

_MAX_DENSE_WORK = 4_000_000  # arms² × cells up to which all arms are looked at in every step
_MAX_JOINING_ARMS = 6  # arms that join at a time where there are too many for that
_ROUGH_ATOMS_PER_ARM = 25  # atoms an arm of the rough picture
_MAX_ITERATIONS = 200
_ROUNDING = 2e-14  # of the sums over cells, relative to the utility
_NOTHING_FREE = 1e-6  # if limits on single arms leave less, they are treated like all others
_NO_MULTIPLIER = 1e-9  # multipliers that are smaller, relative to the largest slope, are what the barriers leave


class ConcaveMaximum(NamedTuple):
    """The best mixture that was found, by how much another can be better at most, and the multipliers of the limits."""

    weights: FloatArray
    gap: float
    multipliers: FloatArray
    method: str = "interior point"


class _FreeShares:
    """P in terms of the shares b that no limit on a single arm fixes: a = least + rest·b, Σ b = 1."""

    def __init__(self, allowed: Polytope) -> None:
        self.allowed = allowed
        is_least = (np.count_nonzero(allowed.matrix, axis=1) == 1) & (allowed.matrix.sum(axis=1) < 0.0) & ~allowed.equal
        self.least = np.zeros(allowed.n_arms)
        for k in np.flatnonzero(is_least):
            i = int(np.argmin(allowed.matrix[k]))
            self.least[i] = max(self.least[i], float(allowed.bound[k] / allowed.matrix[k, i]))
        self.rest = 1.0 - float(self.least.sum())
        if self.rest < _NOTHING_FREE or not self.least.any():
            self.least, self.rest, is_least = np.zeros_like(self.least), 1.0, np.zeros_like(is_least)
        self.limits = np.flatnonzero(~is_least)  # those that are left
        self.matrix = allowed.matrix[self.limits]
        self.bound = (allowed.bound[self.limits] - self.matrix @ self.least) / self.rest
        self.equal = allowed.equal[self.limits]

    def limits_for_some_arms(self, arms: NDArray[np.intp]) -> tuple[NDArray[np.intp], Polytope]:
        """The limits for some of the arms, and which of ``limits`` these are; others then have their least shares."""
        matrix = self.matrix[:, arms]
        kept = np.flatnonzero(self.equal | (matrix.max(axis=1, initial=-np.inf) > self.bound))
        return kept, Polytope(matrix[kept], self.bound[kept], self.equal[kept])


def maximise_concave(
    metric: Distortion,
    table: SurvivalTable,
    start: FloatArray,
    *,
    accuracy: float,
    scale: float,
    polytope: Polytope | None = None,
) -> ConcaveMaximum:
    """The best mixture of a polytope (by default of the simplex) for a concave metric, with a certified gap.

    Stops at gap ≤ accuracy · max(|V|, scale). The start is a hint: it need not be allowed.
    """
    allowed = simplex_polytope(table.n_arms) if polytope is None else polytope
    free = _FreeShares(allowed)
    weights = np.maximum(start, 0.0)
    weights = weights / weights.sum()
    arms = np.arange(table.n_arms)
    measured = table
    if table.n_arms**2 * table.n_cells > _MAX_DENSE_WORK:
        if table.atoms is not None and table.atoms.row_weights.size > 2 * _ROUGH_ATOMS_PER_ARM * table.n_arms:
            # Many atoms: a rough picture of the arms says who takes part.
            measured = table.coarsened(_ROUGH_ATOMS_PER_ARM)
            rough = max(accuracy, 1e-4)
            weights = maximise_concave(
                metric, measured, weights, accuracy=rough, scale=scale, polytope=polytope
            ).weights
            arms = np.flatnonzero(weights - free.least > 0.01 * free.rest)
        else:
            slopes = table.gradient(metric, table.curve_of_mixture(weights))
            slopes = np.nan_to_num(slopes, nan=0.0, posinf=1e300, neginf=-1e300)
            arms = np.sort(np.argsort(-slopes, kind="stable")[:_MAX_JOINING_ARMS])
            weights = np.ones(table.n_arms)
        arms = _arms_with_feasible_support(free, arms, weights)
    goal = accuracy * scale_of_relative_gap(metric, measured, weights / weights.sum(), scale)
    if (
        allowed.bound.size == 0
        and table.n_arms <= MAX_ARMS
        and arms.size == table.n_arms
        and metric._smooth_part.is_smooth
        and all(term._has_exact_derivative for _, term in metric.terms)  # else a vertical end looks finite
    ):
        quick = maximise_by_newton(metric, table, weights, goal)
        if quick is not None:
            return ConcaveMaximum(
                quick[0], quick[1] + _ROUNDING * abs(table.value(metric, quick[0])), np.zeros(0), "Newton"
            )
    return _column_generation(metric, table, free, arms, weights, goal)


def scale_of_relative_gap(metric: Distortion, table: SurvivalTable, weights: FloatArray, scale: float) -> float:
    """The scale to which gaps are relative: the size of the utility."""
    width = float(
        table.cell_widths @ table.curve_of_mixture(weights).p
    )  # how far rewards lie from their median, on average
    return max(abs(table.value(metric, weights)), scale, 1e-15 * width, 1e-300)


def _arms_with_feasible_support(free: _FreeShares, arms: NDArray[np.intp], slopes: FloatArray) -> NDArray[np.intp]:
    """The arms, and those of a mixture that keeps the limits, so that some mixture of them does."""
    if free.limits.size == 0:
        return arms
    top = Polytope(free.matrix, free.bound, free.equal).maximise_linear(slopes)
    return arms if top is None else np.union1d(arms, np.flatnonzero(top.at > 0.0))


def _column_generation(
    metric: Distortion, table: SurvivalTable, free: _FreeShares, arms: NDArray[np.intp], start: FloatArray, goal: float
) -> ConcaveMaximum:
    """Column generation: solve for a few arms, look at all, let those join that the slopes point at."""
    smooth, count = metric._smooth_part, table.n_arms
    fixed = 1.0 - free.rest if free.least.any() else 0.0
    base = free.least / fixed if fixed > 0.0 else None
    best, value, upper, multipliers = free.least, -np.inf, np.inf, np.zeros(free.allowed.bound.size)
    share = np.maximum(start - free.least, 0.0)
    drop_below = 0.02
    for _ in range(_MAX_ITERATIONS):
        kept, polytope = free.limits_for_some_arms(arms)
        inside = polytope.interior
        if inside is None:  # without the arms that left no mixture keeps the limits
            arms = np.arange(count)
            kept, polytope = free.limits_for_some_arms(arms)
            inside = polytope.interior
            assert inside is not None
        used = arms[inside.arms]
        if used.size <= inside.level.size:  # the equalities leave one mixture only
            share = np.zeros(count)
            share[used] = inside.centre
            best = free.least + free.rest * share
            slopes = table.gradient(metric, table.curve_of_mixture(best))
            if arms.size == count:
                return ConcaveMaximum(best, 0.0, _multipliers_of_linear_maximum(free.allowed, slopes))
            others = np.setdiff1d(np.arange(count), arms)
            order = np.argsort(-np.nan_to_num(slopes[others], nan=-np.inf), kind="stable")
            arms = np.union1d(arms, others[order[: _MAX_JOINING_ARMS + arms.size]])
            continue
        part = table if used.size == count and base is None else table.table_of_some_arms([int(i) for i in used], base)
        begin = share[used] / max(float(share[used].sum()), 1e-300)
        found = InteriorPoint(smooth, part, inside, fixed).solve(begin, (1.0 if arms.size == count else 0.5) * goal)
        share = np.zeros(count)
        share[used] = found.weights
        if found.value > value:
            best, value = free.least + free.rest * share, found.value
        if arms.size == count and free.allowed.bound.size == 0:
            return ConcaveMaximum(best, max(found.upper - value, 0.0) + _ROUNDING * abs(value), multipliers)
        own = slopes = part.sum_cells_times_curves_by_arm(found.cells, found.split)
        if part is not table:  # slopes of all arms, which have another constant in them
            slopes = table.gradient_from_cells(part, found.cells, found.split, metric)
            largest = int(np.argmax(found.weights))
            slopes = slopes - slopes[used[largest]] + own[largest]
        slopes = free.rest * np.where(np.isnan(slopes), -np.inf, slopes)
        bound, rest, prices = _upper_bound_for_all_arms(free, kept, inside, found, slopes, arms)
        if bound < upper:
            upper, multipliers = bound, _multipliers_of_all_limits(free, rest, prices)
            if inside.arms.size < arms.size or inside.level.size - 1 + inside.bound.size < polytope.bound.size:
                multipliers = _multipliers_of_linear_maximum(free.allowed, slopes / free.rest)  # some were left out
        steeper = np.setdiff1d(np.flatnonzero(rest > rest[used].max()), arms)
        if upper - value <= goal or arms.size == count:
            break
        joining = steeper[np.argsort(-rest[steeper], kind="stable")[:_MAX_JOINING_ARMS]]
        if joining.size == 0:
            if free.limits.size == 0 or upper - value <= 100.0 * goal:
                break  # rounding: nobody else could help
            joining = np.setdiff1d(np.arange(count), arms)
        stay = used[found.weights > drop_below] if free.limits.size == 0 else arms
        drop_below *= 0.1  # whoever left and came back stays longer
        share *= 0.9
        arms = np.union1d(stay, joining)
        share[joining] += 0.1 / joining.size
    return ConcaveMaximum(best, max(upper - value, 0.0) + _ROUNDING * abs(value), multipliers)


def _upper_bound_for_all_arms(
    free: _FreeShares,
    kept: NDArray[np.intp],
    inside: Interior,
    found: Solution,
    slopes: FloatArray,
    arms: NDArray[np.intp],
) -> tuple[float, FloatArray, FloatArray]:
    """What no mixture of all arms exceeds, the slopes less the prices of the limits, and these prices."""
    prices = np.zeros(free.limits.size)
    prices[kept[inside.limit_of_row]] = found.prices
    prices[kept[inside.limit_of_equal]] = found.equality_prices[1:]
    if arms.size < free.least.size:  # what is an equality for some arms need not be one for all
        prices = np.where(free.equal, prices, np.maximum(prices, 0.0))
    rest = slopes - prices @ free.matrix
    can_have_share = np.ones(rest.size, dtype=bool)
    if arms.size == rest.size:
        can_have_share[:] = False
        can_have_share[inside.arms] = True
    top = float(rest[can_have_share].max())
    return found.height + float(prices @ free.bound) + top, np.where(can_have_share, rest, -np.inf), prices


def _multipliers_of_linear_maximum(allowed: Polytope, slopes: FloatArray) -> FloatArray:
    """Multipliers of the limits, where ⟨slopes, b⟩ is largest; infinite slopes count as very large ones."""
    steep = ~np.isfinite(slopes)
    size = float(np.abs(slopes[~steep]).max(initial=0.0)) or 1.0
    top = allowed.maximise_linear(np.where(steep, 1e3 * size, slopes))
    assert top is not None
    return top.multipliers


def _multipliers_of_all_limits(free: _FreeShares, rest: FloatArray, prices: FloatArray) -> FloatArray:
    """The multipliers of all limits, also of those on the least shares of single arms."""
    out = np.zeros(free.allowed.bound.size)
    finite = np.isfinite(rest)
    top = float(rest[finite].max())
    nothing = _NO_MULTIPLIER * max(float(np.abs(rest[finite] - top).max()), float(np.abs(prices).max(initial=0.0)))
    out[free.limits] = np.where(np.abs(prices) > nothing, prices, 0.0)
    for k in np.setdiff1d(np.arange(out.size), free.limits):
        i = int(np.argmin(free.allowed.matrix[k]))
        if finite[i] and free.allowed.bound[k] / free.allowed.matrix[k, i] >= free.least[i] and top - rest[i] > nothing:
            out[k] = (top - rest[i]) / -free.allowed.matrix[k, i]
    return out / free.rest
