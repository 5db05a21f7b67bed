"""The oracle: the best mixture of known arms, found in the way that suits the metric and the arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.best.branch import MOST_ARMS, branch_and_bound
from pmbandits.best.concave import maximise_concave
from pmbandits.best.cuts import cutting_planes
from pmbandits.best.limited import best_within
from pmbandits.best.prices import prices_of_limits
from pmbandits.best.problem import ACCURACY, FEW_ENOUGH, MOST_ROUNDS, STUCK, TIE, Problem, gap_with_tails, two_points
from pmbandits.best.result import Best
from pmbandits.best.search import exchange, look_everywhere
from pmbandits.best.values import Values, lay_arms, single_values
from pmbandits.limits import Limits, Shares, limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.panels import N
from pmbandits.metrics.pool import PanelPool, Pool, each
from pmbandits.metrics.smooth import Smooth
from pmbandits.metrics.value import value_of_mixture

_FAR = 1e6  # a utility that is larger, or smaller than one over this, is worked out in another unit


def oracle(
    metric: Distortion | str,
    bandit: Bandit,
    *,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
) -> Best:
    """Find the best mixture of known arms, and say how far from the best it can be at most (``eq:optimal alpha``).

    ====================  =====================================================================  ==============
    metric                how                                                                    ``gap``
    ====================  =====================================================================  ==============
    two-point rewards     h on the interval of reachable means, any h                            0
    convex or linear h    the best single arm                                                    0
    concave h             interior point method on shared panels or atoms                        duality gap
    any other h           search from many starts; up to four arms also branch and bound         bound, or NaN
    ====================  =====================================================================  ==============

    Continuous arms are integrated to about 1e-13; the gap includes the estimated error. A gap above 1 % of the utility
    is not called certified.

    With limits on the shares, the best of the mixtures that keep them is found. The gap then says that no other
    mixture *that keeps them* is better by more than that. For convex metrics a corner of what is allowed is best. All
    corners are compared if there are at most 2,000. Otherwise some of them are, and a linear program gives the bound.

    Parameters
    ----------
    metric : what you value: a metric, its name, or text such as ``"0.7*mean + 0.3*cvar(0.9)"``.
    bandit : the arms.
    shares : limits on the shares: ``"A >= 10%; B + C <= 0.3"`` or ``{"A": (0.1, 1.0), ("B", "C"): (0, 0.3)}`` (see
        :func:`pmbandits.limits.limits`).
    cost, budget : what a pull of each arm costs, and what a round may cost on average.

    Examples
    --------
    >>> import scipy.stats as st
    >>> import pmbandits as pmb
    >>> best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)]))
    >>> best.weights.round(6), round(best.value, 6), best.is_mixture
    (array([0.5, 0. , 0.5]), 1.282584, True)
    >>> arms = pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)], names=["A", "B", "C"])
    >>> best = pmb.oracle("gini", arms, shares="B >= 20%; C <= 30%")
    >>> best.weights.round(6)
    array([0.5, 0.2, 0.3])
    >>> print(best.prices["C <= 30%"])
    without the limit on C (C <= 30%) the utility would be 2.5 % higher
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    if shares is None and cost is None and budget is None:
        return _solve(metric, bandit, None)
    kept = limits(shares, bandit.names, cost=cost, budget=budget)
    best = _solve(metric, bandit, kept if len(kept) else None)
    return replace(
        best,
        limits=kept,
        multipliers=np.zeros(0) if best.multipliers is None else best.multipliers / kept.sizes,
        work_out_prices=partial(prices_of_limits, metric, bandit, kept, oracle),
    )


def _solve(metric: Distortion, bandit: Bandit, kept: Limits | None) -> Best:
    laws = list(bandit.laws)
    laid = lay_arms(metric, laws)
    corners = single_values(metric, laws, laid)
    if not np.isfinite(corners).all():
        bad = int(np.argmin(np.isfinite(corners)))
        raise ValueError(
            f"{metric!r} of {bandit.names[bad]} ({laws[bad].describe()}) is too large for a number of 64 bits; "
            "measure rewards in a larger unit, or take a smaller factor in the metric."
        )
    arm = int(np.argmax(corners))
    spread = max(abs(float(corners.max())), abs(float(corners.min())))
    size = max(spread, abs(laid.value(metric, np.full(len(laws), 1.0 / len(laws)))))
    if size > 0.0 and not 1.0 / _FAR < size < _FAR:
        # Solvers have tolerances of their own. The metric in another unit has the same best mixture.
        power = -round(float(np.log2(min(size, 1e308))))
        if power + np.log2(max(abs(c) for c, _ in metric.terms)) > 1000.0:
            raise ValueError(
                f"{metric!r} of these arms is {size:.2g}, too small for a number of 64 bits; measure rewards in a "
                "smaller unit."
            )
        unit = 2.0 ** min(power, 1000)
        return _solve(unit * metric, bandit, kept).in_unit(1.0 / unit)
    context = Problem(metric, laws, bandit.names, corners, arm, spread, laid)
    if kept is not None:
        return best_within(context, kept)
    two = two_points(laws)
    if two is not None:
        return _reachable_mean(context, *two)
    if len(laws) == 1 or metric.shape in ("convex", "linear"):
        return _best_corner(context)
    if metric.shape == "concave":
        return _concave(context)
    return _search(context)


def _reachable_mean(context: Problem, low: float, high: float, p: FloatArray) -> Best:
    """V = low·h(1) + (high − low)·h(⟨a, p⟩): maximise h over the probabilities that mixtures reach."""
    metric = context.metric
    lo, hi = float(p.min()), float(p.max())
    top = metric.maximum(lo, hi)
    single = np.flatnonzero(np.asarray(metric(p)) >= top.value - 1e-15 * max(1.0, abs(top.value)))
    below, above = int(np.argmin(p)), int(np.argmax(p))
    weights = np.zeros(p.size)
    if single.size:
        weights[single[0]] = 1.0
    else:
        share = (top.at - lo) / (hi - lo)
        weights[below], weights[above] = 1.0 - share, share
    value = low * float(metric(1.0)) + (high - low) * top.value
    if single.size:
        value = float(context.corners[single[0]])
    other = _another_mean(metric, p, weights, float(weights @ p), top.value)
    return context.best(weights, value, 0.0, "reachable mean", unique=other is None, alternative=other)


def _another_mean(metric: Distortion, p: FloatArray, weights: FloatArray, at: float, top: float) -> FloatArray | None:
    """A different mixture with the same utility: the same mean otherwise mixed, or another best mean."""
    lo, hi = float(p.min()), float(p.max())
    slack = 1e-13 * max(1.0, abs(top))
    places = [m for m in (*metric._critical(), at - 1e-3, at + 1e-3, lo, hi) if lo <= m <= hi]
    for mean in [at, *(m for m in places if abs(m - at) > 1e-12 and top - metric(m) <= slack)]:
        for i in range(p.size):
            for j in range(p.size):
                if p[i] <= mean <= p[j] and (p[i] < p[j] or i == j):
                    share = 0.0 if i == j else (mean - p[i]) / (p[j] - p[i])
                    other = np.zeros(p.size)
                    other[i] += 1.0 - share
                    other[j] += share
                    if np.abs(other - weights).max() > 1e-9:
                        return other
    return None


def _best_corner(context: Problem) -> Best:
    """Convex h: a mixture is never better than its best arm (``lemma:convex_solitary``)."""
    eye = np.eye(len(context.laws))
    tied = np.flatnonzero(context.corners >= context.corners[context.arm] - TIE * max(context.scale, 1e-300))
    others = tied[tied != context.arm]
    return context.best(
        eye[context.arm],
        float(context.corners[context.arm]),
        0.0,
        "best arm",
        unique=others.size == 0,
        alternative=eye[others[0]] if others.size else None,
    )


def _concave(context: Problem) -> Best:
    """Concave h: the solver with its certificate, on panels that are made finer around the solution."""
    metric, laws, laid = context.metric, context.laws, context.laid
    weights = np.full(len(laws), 1.0 / len(laws))
    if isinstance(laid, PanelPool):
        laid = laid.refined(metric, weights)
    gap = np.inf
    for _ in range(MOST_ROUNDS):
        weights, gap = maximise_concave(metric, laid, weights, accuracy=ACCURACY, scale=context.scale)
        if not isinstance(laid, PanelPool):
            break
        # The panels were not made for this mixture, and its slopes are what the gap is made of.
        finer = laid.refined(metric, weights)
        if finer.omega.size == laid.omega.size:
            break
        laid = finer
    value = laid.value(metric, weights)
    size = max(abs(value), context.scale, 1e-300)
    if gap > STUCK * size and len(laws) <= FEW_ENOUGH:
        found, bound = cutting_planes(metric, laid, weights, 0.1 * STUCK * size)
        if bound < gap:
            weights, gap = found, bound
            value = laid.value(metric, weights)
    sparse = _without_crumbs(metric, laid, weights, value - ACCURACY * size)
    sparse, other = _sparsest(context, laid, sparse, weights, value)
    exact = value_of_mixture(metric, laws, sparse)
    off = abs(exact - laid.value(metric, sparse))
    gap = max(gap + value - exact, 0.0) + off + laid.error
    beyond = float(np.abs(context.laid.remainder).sum()) if context.laid.remainder is not None else 0.0
    gap = gap_with_tails(context, laid, weights, exact) if beyond > 1e-12 * size else gap + beyond
    return context.best(sparse, exact, gap, "interior point", unique=other is None, alternative=other)


def _without_crumbs(metric: Distortion, laid: Pool, weights: FloatArray, enough: float) -> FloatArray:
    """The mixture without the smallest shares, if that costs nothing: they only served the certificate."""
    for crumb in (1e-6, 1e-8, 1e-10, 1e-12, 1e-15):
        trial = np.where(weights < crumb, 0.0, weights)
        trial = trial / trial.sum()
        if laid.value(metric, trial) >= enough:
            return trial
    return weights


def _sparsest(
    context: Problem, laid: Pool, weights: FloatArray, inside: FloatArray, value: float
) -> tuple[FloatArray, FloatArray | None]:
    """The sparsest of the best mixtures that we find, and another best one if there is any.

    Two mixtures are equally good when their curves agree wherever h bends. Among the arms that could take part
    (largest gradient) those mixtures form a polytope; its extreme points, found by linear programs, are sparse.
    ``inside`` is the same mixture with a share of every arm that matters, where slopes are finite.
    """
    from scipy.optimize import linprog

    metric = context.metric
    tolerance = TIE * max(abs(value), context.scale, 1e-300)
    curve = laid.curve(inside)
    gradient = laid.gradient(metric, curve)
    used = inside > 0.0
    level = float(gradient[used] @ inside[used])
    arms = np.flatnonzero((weights > 0.0) | (gradient >= level - 1e-6 * context.scale))
    if arms.size < 2 or arms.size > 60:
        return weights, None
    rows = np.where(curve.lower, *laid.rows([int(i) for i in arms]))
    smooth = Smooth(metric)
    bend = np.nan_to_num(each(smooth.bend_co, smooth.bend_h, curve), nan=0.0, posinf=0.0, neginf=-1e6)
    curved = np.abs(bend) > 1e-9
    for place, _ in metric.kinks:
        curved |= np.abs(curve.p - np.where(curve.lower, 1.0 - place, place)) <= 1e-6
    # Orthonormal directions in which the curve must not move.
    gram = (rows[:, curved] * laid.omega[curved]) @ rows[:, curved].T
    for place, _ in metric.kinks:  # a corner that is crossed inside a panel bends the utility at that point
        crossing = laid.crossing(curve, place)
        if crossing is not None:
            nodes = slice(int(crossing.panel[0]) * N, int(crossing.panel[0]) * N + N)
            there = laid.rows([int(i) for i in arms])[1][:, nodes] @ crossing.there[0]
            gram = gram + float(laid.omega.sum()) * 1e-3 * np.outer(there, there)
    size, vectors = np.linalg.eigh(np.nan_to_num(gram))
    kept = vectors[:, size > 1e-11 * max(float(size.max()), 1e-300)].T
    equal = np.vstack((kept, np.ones(arms.size)))
    if np.linalg.matrix_rank(equal, tol=1e-7) == arms.size:
        return weights, None
    target_values = np.append(kept @ weights[arms], 1.0)
    best, count, other = weights, int((weights > 0.0).sum()), None
    rng = np.random.default_rng(0)
    costs = [sign * row for row in np.eye(arms.size) for sign in (1.0, -1.0)]
    costs += [rng.normal(size=arms.size) for _ in range(8)]
    for cost in costs:
        found = linprog(cost, A_eq=equal, b_eq=target_values, bounds=(0.0, None), method="highs")
        if not found.success:
            continue
        candidate = np.zeros(weights.size)
        solution = np.asarray(found.x)
        candidate[arms] = np.where(solution > 1e-9, solution, 0.0)
        candidate /= candidate.sum()
        if np.abs(candidate - weights).max() <= 1e-5 or laid.value(metric, candidate) < value - tolerance:
            continue
        if int((candidate > 0.0).sum()) < count:
            best, other, count = candidate, best, int((candidate > 0.0).sum())
        elif other is None:
            other = candidate
    return best, other


def _search(context: Problem) -> Best:
    """Neither convex nor concave: look everywhere that fits, then improve the best places by exchanges.

    With few arms branch and bound says how far from the best that can be.
    """
    metric, laws = context.metric, context.laws
    count = len(laws)
    values_at = Values(metric, context.laid)
    (weights, value), improved, starts = look_everywhere(values_at, count)
    upper = np.nan
    method = f"search from {starts} places"
    if count <= MOST_ARMS:
        goal = 1e-9 * max(abs(value), context.scale)
        other, bounded, upper = branch_and_bound(metric, context.laid, values_at, weights, goal)
        if bounded > value + 1e-13 * abs(value):
            weights, value = exchange(values_at, other, 1e-11)
        method = "branch and bound"
    crumbs = np.where(weights < 1e-9, 0.0, weights)
    crumbs /= crumbs.sum()
    if values_at(crumbs[None])[0] >= value - 1e-12 * abs(value):
        weights = crumbs
    if context.corners[context.arm] >= value - 1e-12 * context.scale:
        weights = np.eye(count)[context.arm]
    exact = value_of_mixture(metric, laws, weights)
    gap = max(upper - exact, 0.0) + context.laid.error if np.isfinite(upper) else float("nan")
    if gap <= TIE * context.scale:
        gap += abs(exact - value)
    enough = exact - TIE * context.scale
    tied = [w for w, v in improved if v >= exact - 1e-3 * context.scale and np.abs(w - weights).max() > 1e-3]
    tied = [w for w in tied if value_of_mixture(metric, laws, w) >= enough]
    return context.best(
        weights,
        exact,
        gap,
        method,
        certified=bool(np.isfinite(gap)),
        unique=False if tied else None,
        alternative=tied[0] if tied else None,
    )
