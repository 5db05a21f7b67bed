"""The best of the mixtures that keep limits on their shares.

The mixtures that keep all limits form a polytope, and each of them is an average of its corners. So a corner, which is
itself a mixture of arms, is treated like an arm: the same solvers work, and no mixture is clipped or rescaled to fit.
Where there are too many corners, those that matter are found one by one. The slopes of the utility at the best average
so far go into a linear program. It says which corner should join, and by how much any could help at most.
"""

from __future__ import annotations

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.best.branch import MOST_ARMS, branch_and_bound
from pmbandits.best.concave import size_of
from pmbandits.best.cuts import cutting_planes
from pmbandits.best.interior import Interior
from pmbandits.best.problem import ACCURACY, FEW_ENOUGH, MOST_ROUNDS, STUCK, Problem, gap_with_tails, two_points
from pmbandits.best.result import Best
from pmbandits.best.search import look_everywhere
from pmbandits.best.values import Values
from pmbandits.limits import Limits
from pmbandits.limits.polytope import Polytope, simplices
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.pool import AtomPool, PanelPool, Pool
from pmbandits.metrics.smooth import Smooth
from pmbandits.metrics.value import value_of_mixture

_MOST_CORNERS = 2_000  # up to this many corners, all are compared one by one
_TOGETHER = 24  # corners up to which all are given to the solver at once
_LARGE_TABLE = 4_000_000  # corners × cells up to which that is done
_SEARCHED = 40  # corners among which a search goes
_MOST_JOINING = 200  # rounds in which corners join
_CHECKED = 8  # how many of the best corners are worked out to the last digit
_THIN = 25  # atoms an arm of the rough picture
_SAME = 1e-12


def best_within(problem: Problem, kept: Limits) -> Best:
    """The best mixture that keeps the limits, in the way that suits the metric."""
    polytope = kept.polytope
    if two_points(problem.laws) is not None:
        best = _reachable_mean(problem, polytope)
    elif problem.metric.shape == "linear":
        best = _linear(problem, polytope)
    elif problem.metric.shape == "convex":
        best = _convex(problem, polytope)
    elif problem.metric.shape == "concave":
        best = _concave(problem, polytope)
    else:
        best = _neither(problem, polytope)
    return best


def _best(
    problem: Problem,
    polytope: Polytope,
    weights: FloatArray,
    value: float,
    gap: float,
    method: str,
    multipliers: FloatArray | None = None,
) -> Best:
    weights = np.where(weights < 1e-15, 0.0, weights)
    return Best(
        weights=weights / weights.sum(),
        value=value,
        gap=gap,
        certified=problem.is_proof(value, gap),
        best_arm=problem.arm,
        best_arm_value=float(problem.corners[problem.arm]),
        unique=None,
        alternative=None,
        method=method,
        names=problem.names,
        multipliers=np.full(polytope.bound.size, np.nan) if multipliers is None else multipliers,
    )


# ---- two-point rewards, linear and convex metrics ----------------------------------------------------------


def _reachable_mean(problem: Problem, polytope: Polytope) -> Best:
    """V = low·h(1) + (high − low)·h(⟨a, p⟩): maximise h over the probabilities that are reached within the limits."""
    metric = problem.metric
    points = two_points(problem.laws)
    assert points is not None
    low, high, p = points
    down, up = polytope.highest(-p), polytope.highest(p)
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
    return _best(
        problem, polytope, weights, value, gap, "reachable mean", multipliers if metric.shape != "neither" else None
    )


def _linear(problem: Problem, polytope: Polytope) -> Best:
    """V is linear in the shares: a linear program."""
    found = polytope.highest(problem.corners)
    assert found is not None
    value = float(found.at @ problem.corners)
    return _best(problem, polytope, found.at, value, max(found.upper - value, 0.0), "linear program", found.multipliers)


def _convex(problem: Problem, polytope: Polytope) -> Best:
    """Convex V is largest at a corner of the polytope, and at most the average of single arms, ⟨a, V of each⟩."""
    values_at = Values(problem.metric, problem.laid)
    corners = polytope.corners(_MOST_CORNERS)
    complete = corners is not None
    if corners is None:
        corners = _corner_by_corner(problem, polytope)
    values = values_at(corners)
    order = np.argsort(-values, kind="stable")[:_CHECKED]
    exact = np.array([value_of_mixture(problem.metric, problem.laws, corners[k]) for k in order])
    k = int(np.argmax(exact))
    value = float(exact[k])
    off = float(np.abs(exact - values[order]).max())
    if complete:
        return _best(problem, polytope, corners[order[k]], value, off + problem.laid.error, "best corner")
    found = polytope.highest(problem.corners)
    assert found is not None
    gap = max(found.upper - value, 0.0)
    return _best(problem, polytope, corners[order[k]], value, gap, f"search among {corners.shape[0]} corners")


def _corner_by_corner(problem: Problem, polytope: Polytope) -> FloatArray:
    """Corners on the way up: from many starts to the corner that the slopes point at, while that helps."""
    metric, laid = problem.metric, problem.laid
    rng = np.random.default_rng(0)
    seen: list[FloatArray] = []
    for start in range(_SEARCHED):
        slopes = problem.corners if start == 0 else problem.corners + problem.scale * rng.normal(size=laid.n_arms)
        value = -np.inf
        for _ in range(50):
            found = polytope.highest(np.nan_to_num(slopes, posinf=1e12, neginf=-1e12))
            if found is None:
                break
            here = laid.value(metric, found.at)
            if here <= value:
                break
            value = here
            seen.append(found.at)
            slopes = laid.gradient(metric, laid.curve(found.at))
    return np.array(seen)


# ---- concave metrics ---------------------------------------------------------------------------------------


class _Averages:
    """Averages of corners: the corners so far, the best average, and what no mixture within the limits exceeds."""

    def __init__(self, polytope: Polytope, columns: FloatArray) -> None:
        self.polytope, self.columns = polytope, columns
        self.shares = np.full(columns.shape[0], 1.0 / columns.shape[0])
        self.best, self.best_columns, self.value = self.shares, columns, -np.inf
        self.upper = np.inf
        self.multipliers = np.zeros(polytope.bound.size)

    @property
    def weights(self) -> FloatArray:
        return np.asarray(self.best @ self.best_columns)

    @property
    def gap(self) -> float:
        return max(self.upper - self.value, 0.0)


def _concave(problem: Problem, polytope: Polytope) -> Best:
    metric, laid = problem.metric, problem.laid
    middle = polytope.inside()
    assert middle is not None
    if isinstance(laid, PanelPool):
        laid = laid.refined(metric, middle)
    columns = _first_columns(metric, laid, polytope, middle, problem.scale)
    for _ in range(MOST_ROUNDS):
        found = _Averages(polytope, columns)
        _improve(metric, laid, found, ACCURACY * size_of(metric, laid, middle, problem.scale))
        if not isinstance(laid, PanelPool):
            break
        finer = laid.refined(metric, found.weights)
        if finer.omega.size == laid.omega.size:
            break
        laid, columns = finer, np.vstack((middle, found.best_columns[found.best > 1e-9]))
    weights, gap = found.weights, found.gap
    size = max(abs(found.value), problem.scale, 1e-300)
    if gap > STUCK * size and laid.n_arms <= FEW_ENOUGH:
        other, bound = cutting_planes(metric, laid, weights, 0.1 * STUCK * size, polytope)
        if bound < gap:
            weights, gap = other, bound
    else:
        weights = _without_crumbs(metric, laid, found, found.value - ACCURACY * size)
    value = laid.value(metric, weights)
    gap += max(found.value - value, 0.0)
    exact = value_of_mixture(metric, problem.laws, weights)
    gap = max(gap + value - exact, 0.0) + abs(exact - value) + laid.error
    beyond = float(np.abs(problem.laid.remainder).sum()) if problem.laid.remainder is not None else 0.0

    def highest(slopes: FloatArray) -> float:
        top = polytope.highest(slopes)
        return np.inf if top is None else top.upper

    gap = gap_with_tails(problem, laid, found.weights, exact, highest) if beyond > 1e-12 * size else gap + beyond
    return _best(problem, polytope, weights, exact, gap, "interior point", found.multipliers)


def _first_columns(metric: Distortion, laid: Pool, polytope: Polytope, middle: FloatArray, scale: float) -> FloatArray:
    """All corners if they are few; otherwise the middle, and what a rough picture of many atoms needs."""
    corners = polytope.corners(_TOGETHER)
    if corners is not None and corners.shape[0] * laid.omega.size <= _LARGE_TABLE:
        return np.vstack((middle, corners))
    if isinstance(laid, AtomPool) and laid.mass.size > 2 * _THIN * laid.n_arms:
        rough = laid.thinned(_THIN)
        found = _Averages(polytope, _first_columns(metric, rough, polytope, middle, scale))
        _improve(metric, rough, found, 1e-4 * size_of(metric, rough, middle, scale))
        return np.vstack((middle, found.best_columns[found.best > 1e-3]))
    return middle[None]


def _improve(metric: Distortion, laid: Pool, found: _Averages, goal: float) -> None:
    """Solve for the corners so far, look at all, let the one that the slopes point at join; and so on."""
    smooth = Smooth(metric)
    loose = 1e-3
    for _ in range(_MOST_JOINING):
        part = laid.mixed(found.columns)
        solved = Interior(smooth, part).solve(found.shares, 0.5 * goal)
        if solved.value > found.value:
            found.best, found.best_columns, found.value = solved.weights, found.columns, solved.value
        slopes = laid.slopes_from(part, solved.cells, solved.lower, metric)
        steep = ~np.isfinite(slopes)
        size = float(np.abs(slopes[~steep]).max(initial=0.0)) or 1.0
        top = found.polytope.highest(np.where(steep, 1e3 * size, slopes))
        if top is None:
            break
        here = float((found.columns[:, ~steep] @ slopes[~steep]).max())
        if not (steep & (found.columns.max(axis=0) == 0.0) & (top.at > 0.0)).any():
            upper = solved.upper + max(top.upper - here, 0.0)
            if upper < found.upper:
                found.upper, found.multipliers = upper, top.multipliers
        if found.gap <= goal or float(np.abs(found.columns - top.at).max(axis=1).min()) <= _SAME:
            break
        kept = solved.weights > loose
        kept[0] = True  # the middle has a share of every arm: it keeps slopes finite
        loose *= 0.5  # who left and came back stays longer
        count = int(kept.sum()) + 1
        found.columns = np.vstack((found.columns[kept], top.at))
        found.shares = np.append(0.9 * solved.weights[kept], 0.1 / count)
        found.shares = found.shares / found.shares.sum()


def _without_crumbs(metric: Distortion, laid: Pool, found: _Averages, enough: float) -> FloatArray:
    """The average without the smallest shares of corners, if that costs nothing."""
    for crumb in (1e-4, 1e-6, 1e-8, 1e-10, 1e-12):
        shares = np.where(found.best < crumb, 0.0, found.best)
        if shares.sum() > 0.0:
            trial = shares / shares.sum() @ found.best_columns
            if laid.value(metric, trial) >= enough:
                return np.asarray(trial)
    return found.weights


# ---- all other metrics -------------------------------------------------------------------------------------


def _neither(problem: Problem, polytope: Polytope) -> Best:
    """Neither convex nor concave: a search among averages of corners; with few arms also branch and bound."""
    metric, laid = problem.metric, problem.laid
    corners = polytope.corners(_MOST_CORNERS)
    columns = corners
    if corners is None or corners.shape[0] > _SEARCHED:
        columns = _some_corners(problem, polytope)
    assert columns is not None
    values_at = Values(metric, laid)
    if columns.shape[0] == 1:
        weights, value = columns[0], float(values_at(columns)[0])
        method = "only mixture"
    else:
        (shares, value), _, starts = look_everywhere(Values(metric, laid.mixed(columns)), columns.shape[0])
        shares = np.where(shares < 1e-12, 0.0, shares)
        weights, method = shares / shares.sum() @ columns, f"search from {starts} places"
        value = float(values_at(weights[None])[0])
    pieces = simplices(corners) if corners is not None and laid.n_arms <= MOST_ARMS else None
    upper = np.nan
    if pieces is not None:
        goal = 1e-9 * max(abs(value), problem.scale)
        other, bounded, upper = branch_and_bound(metric, laid, values_at, weights, goal, pieces)
        if bounded > value:
            weights, value = other, bounded
        method = "branch and bound"
    exact = value_of_mixture(metric, problem.laws, weights)
    gap = max(upper - exact, 0.0) + problem.laid.error + abs(exact - value) if np.isfinite(upper) else float("nan")
    return _best(problem, polytope, weights, exact, gap, method)


def _some_corners(problem: Problem, polytope: Polytope) -> FloatArray:
    """Corners in many directions."""
    rng = np.random.default_rng(0)
    directions = [problem.corners, *rng.normal(size=(_SEARCHED - 1, polytope.n_arms))]
    found = [top.at for top in (polytope.highest(d) for d in directions) if top is not None]
    return np.unique(np.round(found, 14), axis=0)
