"""The best of the mixtures that keep limits on their shares.

The mixtures that keep all limits form a polytope, and each of them is an average of its corners. So a corner, which is
itself a mixture of arms, is treated like an arm: the same solvers work, and no mixture is clipped or rescaled to fit.
Where there are too many corners, those that matter are found one by one. The slopes of the utility at the best average
so far go into a linear program. It says which corner should join, and by how much any could help at most.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints import Limits
from pmbandits.constraints.polytope import Polytope, simplices
from pmbandits.metrics.value import value_of_mixture
from pmbandits.optimize.branch_and_bound import MAX_ARMS_TO_BRANCH, branch_and_bound
from pmbandits.optimize.concave_mixture import solve_concave
from pmbandits.optimize.problem import Problem, two_point_rewards
from pmbandits.optimize.result import OracleResult
from pmbandits.optimize.search import multistart_search

_MAX_CORNERS = 2_000  # up to this many corners, all are compared one by one
_MAX_SEARCHED_CORNERS = 40  # corners among which a search goes
_N_RECHECKED = 8  # how many of the best corners are worked out to the last digit


def best_mixture_within_limits(problem: Problem, kept: Limits) -> OracleResult:
    """The best mixture that keeps the limits, in the way that suits the metric."""
    polytope = kept.polytope
    if two_point_rewards(problem.distributions) is not None:
        best = _solve_two_point(problem, polytope)
    elif problem.metric.shape == "linear":
        best = _solve_linear(problem, polytope)
    elif problem.metric.shape == "convex":
        best = _solve_convex(problem, polytope)
    elif problem.metric.shape == "concave":
        best = solve_concave(problem, polytope)
    else:
        best = _search_nonconcave(problem, polytope)
    return best


# ---- two-point rewards, linear and convex metrics ----------------------------------------------------------


def _solve_two_point(problem: Problem, polytope: Polytope) -> OracleResult:
    """V = low·h(1) + (high − low)·h(⟨a, p⟩): maximise h over the probabilities that are reached within the limits."""
    metric = problem.metric
    points = two_point_rewards(problem.distributions)
    assert points is not None
    low, high, p = points
    down, up = polytope.maximise_linear(-p), polytope.maximise_linear(p)
    assert down is not None and up is not None
    lo, hi = float(down.at @ p), float(up.at @ p)
    top = metric.maximum(lo, max(lo, hi))
    share = float(np.clip((top.at - lo) / (hi - lo), 0.0, 1.0)) if hi > lo else 0.0
    value = low * float(metric(1.0)) + (high - low) * top.value
    # The linear programs bound the means that can be reached.
    widest = metric.maximum(max(min(-down.upper, lo), 0.0), min(max(up.upper, hi), 1.0)).value
    multipliers = np.zeros(polytope.bound.size)
    if share in (0.0, 1.0):
        with np.errstate(all="ignore"):
            slope = (high - low) * float(metric._dh(np.array([top.at]))[0])
        multipliers = slope * (up.multipliers if share == 1.0 else -down.multipliers)
    weights = (1.0 - share) * down.at + share * up.at
    gap = (high - low) * max(widest - top.value, 0.0)
    return problem.best_within_limits(
        weights, value, gap, "reachable mean", multipliers if metric.shape != "neither" else None
    )


def _solve_linear(problem: Problem, polytope: Polytope) -> OracleResult:
    """V is linear in the shares: a linear program."""
    found = polytope.maximise_linear(problem.corners)
    assert found is not None
    value = float(found.at @ problem.corners)
    return problem.best_within_limits(
        found.at, value, max(found.upper - value, 0.0), "linear program", found.multipliers
    )


def _solve_convex(problem: Problem, polytope: Polytope) -> OracleResult:
    """Convex V is largest at a corner of the polytope, and at most the average of single arms, ⟨a, V of each⟩."""
    corners = polytope.corners(_MAX_CORNERS)
    complete = corners is not None
    if corners is None:
        corners = _corners_by_ascent(problem, polytope)
    values = problem.table.values(problem.metric, corners)
    order = np.argsort(-values, kind="stable")[:_N_RECHECKED]
    exact = np.array([value_of_mixture(problem.metric, problem.distributions, corners[k]) for k in order])
    k = int(np.argmax(exact))
    value = float(exact[k])
    off = float(np.abs(exact - values[order]).max())
    if complete:
        return problem.best_within_limits(corners[order[k]], value, off + problem.table.error, "best corner")
    found = polytope.maximise_linear(problem.corners)
    assert found is not None
    gap = max(found.upper - value, 0.0)
    return problem.best_within_limits(corners[order[k]], value, gap, f"search among {corners.shape[0]} corners")


def _corners_by_ascent(problem: Problem, polytope: Polytope) -> FloatArray:
    """Corners on the way up: from many starts to the corner that the slopes point at, while that helps."""
    metric, table = problem.metric, problem.table
    rng = np.random.default_rng(0)
    seen: list[FloatArray] = []
    for start in range(_MAX_SEARCHED_CORNERS):
        slopes = problem.corners if start == 0 else problem.corners + problem.scale * rng.normal(size=table.n_arms)
        value = -np.inf
        for _ in range(50):
            found = polytope.maximise_linear(np.nan_to_num(slopes, posinf=1e12, neginf=-1e12))
            if found is None:
                break
            here = table.value(metric, found.at)
            if here <= value:
                break
            value = here
            seen.append(found.at)
            slopes = table.gradient(metric, table.curve(found.at))
    return np.array(seen)


# ---- all other metrics -------------------------------------------------------------------------------------


def _search_nonconcave(problem: Problem, polytope: Polytope) -> OracleResult:
    """Neither convex nor concave: a search among averages of corners; with few arms also branch and bound."""
    metric, table = problem.metric, problem.table
    corners = polytope.corners(_MAX_CORNERS)
    columns = corners
    if corners is None or corners.shape[0] > _MAX_SEARCHED_CORNERS:
        columns = _random_corners(problem, polytope)
    assert columns is not None
    if columns.shape[0] == 1:
        weights, value = columns[0], table.value(metric, columns[0])
        method = "only mixture"
    else:
        (shares, value), _, starts = multistart_search(
            partial(table.with_mixtures(columns).values, metric), columns.shape[0]
        )
        shares = np.where(shares < 1e-12, 0.0, shares)
        weights, method = shares / shares.sum() @ columns, f"search from {starts} places"
        value = table.value(metric, weights)
    pieces = simplices(corners) if corners is not None and table.n_arms <= MAX_ARMS_TO_BRANCH else None
    upper = np.nan
    if pieces is not None:
        goal = 1e-9 * max(abs(value), problem.scale)
        other, bounded, upper = branch_and_bound(metric, table, weights, goal, pieces)
        if bounded > value:
            weights, value = other, bounded
        method = "branch and bound"
    exact = value_of_mixture(metric, problem.distributions, weights)
    gap = max(upper - exact, 0.0) + problem.table.error + abs(exact - value) if np.isfinite(upper) else float("nan")
    return problem.best_within_limits(weights, exact, gap, method)


def _random_corners(problem: Problem, polytope: Polytope) -> FloatArray:
    """Corners in many directions."""
    rng = np.random.default_rng(0)
    directions = [problem.corners, *rng.normal(size=(_MAX_SEARCHED_CORNERS - 1, polytope.n_arms))]
    found = [top.at for top in (polytope.maximise_linear(d) for d in directions) if top is not None]
    return np.unique(np.round(found, 14), axis=0)
