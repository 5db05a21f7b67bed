"""Maximise a concave utility over the mixtures that are allowed, with a duality gap as certificate.

    max V(a) over a in P,    V(a) = const + Σ_cells ω·φ(Σ_i a_i·curve_i)

V is concave, so V(b) ≤ V(a) + ⟨∇V(a), b − a⟩ for every mixture b, and a linear maximisation over P gives

    gap(a) = max_{b in P} ⟨∇V(a), b − a⟩,   what any other mixture could gain.

The interior point method (``interior_point.py``) solves problems of some size at once. In larger ones most arms take no
part in the best mixture. So it looks for the best average of a few columns (arms, or, within limits, mixtures of
P); one pass over all arms gives a bound and says which column should join, and so on. The smallest bound counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import LinearMaximum, Polytope, whole_simplex
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.interior_point import InteriorPoint
from pmbandits.tables.decomposition import SmoothPart
from pmbandits.tables.survival_table import AtomTable, SurvivalTable

_MAX_DENSE_WORK = 4_000_000  # arms² × cells up to which all arms are looked at in every step
_MAX_DENSE_WORK_WITHIN_LIMITS = 40_000_000  # where a column costs a linear program
_MAX_JOINING_ARMS = 4  # arms that join at a time where there are too many for that
_ROUGH_ATOMS_PER_ARM = 25  # atoms an arm of the rough picture
_MAX_ITERATIONS = 200
_SAME_COLUMN = 1e-12


class ConcaveMaximum(NamedTuple):
    """The best mixture that was found, by how much another can be better at most, and the multipliers of the limits."""

    weights: FloatArray
    gap: float
    multipliers: FloatArray


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
    allowed = whole_simplex(table.n_arms) if polytope is None else polytope
    is_simplex = allowed.bound.size == 0
    weights = np.maximum(start, 0.0)
    weights = weights / weights.sum()
    most = _MAX_DENSE_WORK if is_simplex else _MAX_DENSE_WORK_WITHIN_LIMITS
    if table.n_arms**2 * table.cell_widths.size <= most:
        return _solve_at_once(metric, table, allowed, weights, accuracy * gap_scale(metric, table, weights, scale))
    measured = table
    if isinstance(table, AtomTable) and table.mass.size > 2 * _ROUGH_ATOMS_PER_ARM * table.n_arms:
        # Many atoms: a rough picture of the arms says who takes part.
        measured = table.coarsened(_ROUGH_ATOMS_PER_ARM)
        rough = max(accuracy, 1e-4)
        weights = maximise_concave(metric, measured, weights, accuracy=rough, scale=scale, polytope=allowed).weights
    goal = accuracy * gap_scale(metric, measured, weights, scale)
    if not is_simplex:
        inside = allowed.interior
        assert inside is not None
        middle = inside.scatter(inside.centre, table.n_arms)
        return _column_generation(metric, table, allowed, np.vstack((middle, weights)), np.array([0.1, 0.9]), goal)
    if measured is table:
        slopes = table.gradient(metric, table.curve(weights))
        arms = np.sort(np.argsort(-slopes, kind="stable")[:_MAX_JOINING_ARMS])
        weights = np.ones(table.n_arms)
    else:
        arms = np.flatnonzero(weights > 0.02)
    return _column_generation(metric, table, allowed, np.eye(table.n_arms)[arms], weights[arms], goal)


def gap_scale(metric: Distortion, table: SurvivalTable, weights: FloatArray, scale: float) -> float:
    """The scale to which gaps are relative: the size of the utility."""
    width = float(table.cell_widths @ table.curve(weights).p)  # how far rewards lie from their median, on average
    return max(abs(table.value(metric, weights)), scale, 1e-15 * width, 1e-300)


def _solve_at_once(
    metric: Distortion, table: SurvivalTable, allowed: Polytope, start: FloatArray, goal: float
) -> ConcaveMaximum:
    """The best mixture of all arms together."""
    inside = allowed.interior
    assert inside is not None
    part = table if inside.arms.size == table.n_arms else table.restrict_to([int(i) for i in inside.arms])
    if inside.arms.size <= inside.level.size:  # the equalities leave one mixture only
        return ConcaveMaximum(inside.scatter(inside.centre, table.n_arms), 0.0, np.zeros(allowed.bound.size))
    found = InteriorPoint(SmoothPart(metric), part, inside).solve(start[inside.arms], goal)
    weights = inside.scatter(found.weights, table.n_arms)
    if inside.is_simplex:
        return ConcaveMaximum(weights, max(found.upper - found.value, 0.0), np.zeros(allowed.bound.size))
    slopes = part.adjoint(found.cells, found.lower)
    top = _linear_maximum(allowed, inside.scatter(slopes - slopes.min(), table.n_arms))
    return ConcaveMaximum(weights, max(found.upper - found.value, 0.0), top.multipliers)


def _linear_maximum(allowed: Polytope, slopes: FloatArray) -> LinearMaximum:
    """The largest ⟨slopes, b⟩ on P, where infinite slopes count as very large ones."""
    steep = ~np.isfinite(slopes)
    size = float(np.abs(slopes[~steep]).max(initial=0.0)) or 1.0
    top = allowed.maximise_linear(np.where(steep, 1e3 * size, slopes))
    assert top is not None
    return top


def _column_generation(
    metric: Distortion, table: SurvivalTable, allowed: Polytope, columns: FloatArray, shares: FloatArray, goal: float
) -> ConcaveMaximum:
    """Column generation: solve for a few columns, look at all arms, let what the slopes point at join."""
    smooth, is_simplex = SmoothPart(metric), allowed.bound.size == 0
    best, value, upper, multipliers = columns[0], -np.inf, np.inf, np.zeros(allowed.bound.size)
    drop_below = 0.02 if is_simplex else 1e-3
    for _ in range(_MAX_ITERATIONS):
        arms = [int(i) for i in columns.argmax(axis=1)]
        part = table.restrict_to(arms) if is_simplex else table.with_mixtures(columns)
        inside = whole_simplex(len(arms)).interior
        assert inside is not None
        found = InteriorPoint(smooth, part, inside).solve(shares / shares.sum(), 0.5 * goal)
        if found.value > value:
            best, value = found.weights @ columns, found.value
        slopes = table.gradient_from_cells(part, found.cells, found.lower, metric)
        slopes = np.where(np.isnan(slopes), -np.inf, slopes)
        if is_simplex:
            here = float(slopes[arms].max())
            bound = found.upper + max(float(slopes.max()) - here, 0.0)
            order = np.argsort(-slopes, kind="stable")[: _MAX_JOINING_ARMS + len(arms)]
            steeper = [int(i) for i in order if slopes[i] > here and int(i) not in arms]
            joining = np.eye(table.n_arms)[steeper[:_MAX_JOINING_ARMS]]
        else:
            top, steep = _linear_maximum(allowed, slopes), ~np.isfinite(slopes)
            here = float((columns[:, ~steep] @ slopes[~steep]).max())
            unknown = (steep & (columns.max(axis=0) == 0.0) & (top.at > 0.0)).any()
            bound = np.inf if unknown else found.upper + max(top.upper - here, 0.0)
            is_new = float(np.abs(columns - top.at).max(axis=1).min()) > _SAME_COLUMN
            joining = top.at[None] if is_new else np.zeros((0, table.n_arms))
            if bound < upper:
                multipliers = top.multipliers
        upper = min(upper, bound)
        if upper - value <= goal or joining.shape[0] == 0:
            break
        kept = found.weights > drop_below
        kept[0] |= not is_simplex  # the middle has a share of every arm: it keeps slopes finite
        drop_below *= 0.1 if is_simplex else 0.5  # whoever left and came back stays longer
        columns = np.vstack((columns[kept], joining))
        shares = np.append(0.9 * found.weights[kept], np.full(joining.shape[0], 0.1 / columns.shape[0]))
    return ConcaveMaximum(best, max(upper - value, 0.0), multipliers)
