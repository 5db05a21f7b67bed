"""The largest utility over the mixtures that are allowed, for any h: one call for simplex, segments and limits.

A share of arm k among the people of segment s, times how often such people come, is the weight of a column of its own
(s, k). So the pooled distribution is a mixture of the columns, and each segment's weights add up to its frequency.

========  ==========================================================================================================
concave   the interior point method (``concave.py``), with a duality gap
linear    a linear program
convex    a vertex, with a bound (``convex.py``)
neither   a search among averages of vertices, with a bound: by branch and bound for few arms, else cell by cell
========  ==========================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import Polytope, simplex_polytope
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.branch_and_bound import MAX_ARMS_TO_BRANCH, branch_and_bound, cellwise_bound
from pmbandits.optimize.concave import maximise_concave
from pmbandits.optimize.convex import Vertices, maximise_convex
from pmbandits.optimize.search import multistart_mixture_search
from pmbandits.tables.survival_table import SurvivalTable

_N_DIRECTIONS = 40  # in which vertices are looked for, for a search among their averages
_MAX_ROUNDS = 4  # of a search, each with the vertices that the slopes at the best mixture point at
_GOAL = 1e-9  # gap at which branch and bound ends, relative to the utility


@dataclass(frozen=True)
class Maximum:
    """The best mixture that was found, its utility on the table, what no allowed mixture exceeds (NaN: not known)."""

    weights: FloatArray
    value: float
    upper: float
    method: str
    multipliers: FloatArray | None = None  # of the polytope's limits, then of the segments; ``None``: not known


def maximise(
    metric: Distortion,
    table: SurvivalTable,
    *,
    polytope: Polytope | None = None,
    segments: ArrayLike | None = None,
    frequencies: ArrayLike | None = None,
    accuracy: float = 1e-11,
    scale: float | None = None,
) -> Maximum:
    """The best mixture of a table's arms, among all or those of a polytope, with a bound.

    With ``segments``, the number of each arm's segment (0, 1, …), the weights of segment s add up to
    ``frequencies[s]``; by default all segments come equally often.
    """
    allowed = simplex_polytope(table.n_arms) if polytope is None else polytope
    if segments is not None:
        allowed = allowed.with_segments(np.asarray(segments), None if frequencies is None else np.asarray(frequencies))
    size = float(np.abs(table.values(metric)).max()) if scale is None else scale
    if metric.shape == "concave":
        start = np.full(table.n_arms, 1.0 / table.n_arms)
        found = maximise_concave(metric, table, start, accuracy=accuracy, scale=size, polytope=allowed)
        value = table.value(metric, found.weights)
        return Maximum(found.weights, value, value + found.gap, found.method, found.multipliers)
    if metric.shape == "linear":
        single = table.values(metric)
        top = allowed.maximise_linear(single)
        assert top is not None
        value = float(top.at @ single)
        return Maximum(top.at, value, max(top.upper, value), "linear program", top.multipliers)
    if metric.shape == "convex":
        return Maximum(*maximise_convex(metric, table, allowed, _GOAL * size))
    return _search_any_shape(metric, table, allowed, size)


def _search_any_shape(metric: Distortion, table: SurvivalTable, allowed: Polytope, size: float) -> Maximum:
    """Neither convex nor concave: a search among averages of vertices; with few arms also branch and bound."""
    only = allowed.corners(_N_DIRECTIONS)
    if only is not None and only.shape[0] == 1:
        value = table.value(metric, only[0])
        return Maximum(only[0], value, value, "only mixture")
    finder, rng = Vertices(allowed), np.random.default_rng(0)
    directions = [table.values(metric), *rng.normal(size=(_N_DIRECTIONS - 1, table.n_arms))]
    columns = np.unique(np.round([finder.best_vertex(direction) for direction in directions], 14), axis=0)
    columns /= columns.sum(axis=1, keepdims=True)
    weights, value, starts = columns[0], table.value(metric, columns[0]), 0
    for _ in range(_MAX_ROUNDS):
        (shares, _), _, more = multistart_mixture_search(
            partial(table.table_of_mixtures(columns).values, metric), columns.shape[0]
        )
        shares, starts = np.where(shares < 1e-12, 0.0, shares), starts + more
        weights = shares / shares.sum() @ columns
        value = table.value(metric, weights)
        ahead = finder.best_vertex(table.gradient(metric, table.curve_of_mixture(weights)))
        if np.abs(columns - ahead).max(axis=1).min() <= 1e-9:
            break
        columns = np.vstack((columns, ahead))
    if table.n_arms > MAX_ARMS_TO_BRANCH:
        upper = cellwise_bound(metric, table, allowed, weights)
        return Maximum(weights, value, upper if np.isfinite(upper) else np.nan, f"search from {starts} places")
    goal = _GOAL * max(abs(value), size)
    other, better, upper = branch_and_bound(metric, table, weights, goal, allowed)
    if better > value:
        weights, value = other, better
    return Maximum(weights, value, upper, "branch and bound")
