"""The oracle: the best mixture of known arms, found in the way that suits the metric and the arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import overload

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.constraints import Shares, limits
from pmbandits.constraints.polytope import Polytope
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.value import value_of_mixture
from pmbandits.optimize.branch_and_bound import MAX_ARMS_TO_BRANCH, branch_and_bound
from pmbandits.optimize.concave_mixture import solve_concave
from pmbandits.optimize.problem import (
    TIE,
    Problem,
    two_rewards_of_all_arms,
)
from pmbandits.optimize.result import OracleResult
from pmbandits.optimize.search import improve_by_weight_exchanges, multistart_mixture_search
from pmbandits.optimize.segments import SegmentOracleResult, best_mixtures_of_segments
from pmbandits.optimize.shadow_prices import compute_shadow_prices
from pmbandits.optimize.share_constraints import best_mixture_within_limits
from pmbandits.optimize.utilities import build_arm_table, single_arm_utilities
from pmbandits.population import Population

_EXTREME_SCALE = 1e6  # a utility that is larger, or smaller than one over this, is worked out in another unit


@overload
def oracle(
    metric: Distortion | str, bandit: Bandit, *, segments: None = ..., shares: Shares = ...,
    cost: Mapping[str, float] | None = ..., budget: float | None = ...,
) -> OracleResult: ...  # fmt: skip
@overload
def oracle(
    metric: Distortion | str, bandit: Mapping[str, Bandit], *, segments: Mapping[str, float], shares: Shares = ...,
    cost: Mapping[str, float] | None = ..., budget: float | None = ...,
) -> SegmentOracleResult: ...  # fmt: skip


def oracle(
    metric: Distortion | str,
    bandit: Bandit | Mapping[str, Bandit],
    *,
    segments: Mapping[str, float] | None = None,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
) -> OracleResult | SegmentOracleResult:
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
    corners are compared if there are at most 200. Otherwise linear programs find good ones and bounds, and for metrics
    with one corner in their distortion, such as ``LowerCVaR``, the best one.

    With segments you know who is in front of you, and offer each segment a mixture of its own. What is maximised is the
    utility of the rewards of the *whole population*, whose distribution is Σ_s p_s Σ_k w_sk F_sk. Here F_sk has the
    rewards of arm k in segment s, and p_s is how often such people come. Plans of one arm for each segment are never
    listed, because there are K to the power of S of them.

    Parameters
    ----------
    metric : what you value: a metric, its name, or text such as ``"0.7*mean + 0.3*upper_cvar(0.9)"``.
    bandit : the arms; with segments a bandit for each, ``{"new": bandit, "returning": bandit}``. Arms of the same name
        are the same arm, which may pay differently in each segment, and an arm may be missing in some.
    segments : how often each segment comes, ``{"new": 0.6, "returning": 0.4}``.
    shares : limits on the shares: ``"A >= 10%; B + C <= 0.3"`` or ``{"A": (0.1, 1.0), ("B", "C"): (0, 0.3)}`` (see
        :func:`pmbandits.constraints.limits`). With segments, ``"new: A >= 10%"`` is about the people of a segment, and
        ``"A <= 30%"`` about the whole population.
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

    Two districts, where rewards of all people should be high and alike. The best arm of each district for itself
    would be worth less.

    >>> arms = {
    ...     "north": pmb.Bandit({"A": st.uniform(0.0, 0.6), "B": st.uniform(0.2, 0.1)}),
    ...     "south": pmb.Bandit({"A": st.uniform(0.5, 0.2), "B": st.uniform(0.4, 0.6)}),
    ... }
    >>> best = pmb.oracle("mean - gini", arms, segments={"north": 0.5, "south": 0.5})
    >>> best
    SegmentOracleResult(value=0.348148148, gap=...
             comes  A  B
      north    50%  1  0
      south    50%  0  1)
    >>> round(best.gain, 6)
    0.014815
    """
    metric = as_metric(metric)
    if isinstance(bandit, Mapping) or segments is not None:
        return oracle_of_population(metric, Population.from_arguments(bandit, segments), shares, cost, budget)
    check_bandit(bandit)
    if shares is None and cost is None and budget is None:
        return _solve_by_shape_of_metric(metric, bandit, None)
    kept = limits(shares, bandit.names, cost=cost, budget=budget)
    best = _solve_by_shape_of_metric(metric, bandit, kept.polytope if len(kept) else None)
    return replace(
        best,
        limits=kept,
        multipliers=np.full(len(kept), np.nan) if best.multipliers is None else best.multipliers / kept.sizes,
        compute_prices=partial(compute_shadow_prices, metric, bandit, kept, oracle),
    )


def oracle_of_population(
    metric: Distortion,
    population: Population,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
) -> SegmentOracleResult:
    """The best mixture for each segment of a population, as :func:`oracle` documents."""
    return best_mixtures_of_segments(metric, population, shares, cost, budget, _solve_by_shape_of_metric)


def _solve_by_shape_of_metric(metric: Distortion, bandit: Bandit, kept: Polytope | None) -> OracleResult:
    distributions = list(bandit.distributions)
    table = build_arm_table(metric, distributions)
    corners = single_arm_utilities(metric, distributions, table)
    if not np.isfinite(corners).all():
        bad = int(np.argmin(np.isfinite(corners)))
        raise ValueError(
            f"{metric!r} of {bandit.names[bad]} ({distributions[bad].describe()}) is too large for a number of 64 bits;"
            " measure rewards in a larger unit, or take a smaller factor in the metric."
        )
    arm = int(np.argmax(corners))
    spread = max(abs(float(corners.max())), abs(float(corners.min())))
    size = max(spread, abs(table.value(metric, np.full(len(distributions), 1.0 / len(distributions)))))
    if size > 0.0 and not 1.0 / _EXTREME_SCALE < size < _EXTREME_SCALE:
        # Solvers have tolerances of their own. The metric in another unit has the same best mixture.
        power = -round(float(np.log2(min(size, 1e308))))
        if power + np.log2(max(abs(c) for c, _ in metric.terms)) > 1000.0:
            raise ValueError(
                f"{metric!r} of these arms is {size:.2g}, too small for a number of 64 bits; measure rewards in a "
                "smaller unit."
            )
        unit = 2.0 ** min(power, 1000)
        return _solve_by_shape_of_metric(unit * metric, bandit, kept).rescaled(1.0 / unit)
    problem = Problem(metric, distributions, bandit.names, corners, arm, spread, table)
    if kept is not None:
        return best_mixture_within_limits(problem, kept)
    two = two_rewards_of_all_arms(distributions)
    if two is not None:
        return _solve_two_point(problem, *two)
    if len(distributions) == 1 or metric.shape in ("convex", "linear"):
        return _best_single_arm(problem)
    if metric.shape == "concave":
        return solve_concave(problem)
    return _search_nonconcave(problem)


def _solve_two_point(problem: Problem, low: float, high: float, p: FloatArray) -> OracleResult:
    """V = low·h(1) + (high − low)·h(⟨a, p⟩): maximise h over the probabilities that mixtures reach."""
    metric = problem.metric
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
        value = float(problem.corners[single[0]])
    other = _another_best_mixture(metric, p, weights, float(weights @ p), top.value)
    return problem.make_oracle_result(weights, value, 0.0, "reachable mean", unique=other is None, alternative=other)


def _another_best_mixture(
    metric: Distortion, p: FloatArray, weights: FloatArray, at: float, top: float
) -> FloatArray | None:
    """A different mixture with the same utility: the same mean otherwise mixed, or another best mean."""
    lo, hi = float(p.min()), float(p.max())
    slack = 1e-13 * max(1.0, abs(top))
    places = [m for m in (*metric._critical_points(), at - 1e-3, at + 1e-3, lo, hi) if lo <= m <= hi]
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


def _best_single_arm(problem: Problem) -> OracleResult:
    """Convex h: a mixture is never better than its best arm (``lemma:convex_solitary``)."""
    eye = np.eye(len(problem.distributions))
    tied = np.flatnonzero(problem.corners >= problem.corners[problem.arm] - TIE * max(problem.scale, 1e-300))
    others = tied[tied != problem.arm]
    return problem.make_oracle_result(
        eye[problem.arm],
        float(problem.corners[problem.arm]),
        0.0,
        "best arm",
        unique=others.size == 0,
        alternative=eye[others[0]] if others.size else None,
    )


def _search_nonconcave(problem: Problem) -> OracleResult:
    """Neither convex nor concave: search from many starts, then improve the best ones by exchanges.

    With few arms branch and bound says how far from the best that can be.
    """
    metric, distributions = problem.metric, problem.distributions
    count = len(distributions)
    values_at = partial(problem.table.values, metric)
    (weights, value), improved, starts = multistart_mixture_search(values_at, count)
    upper = np.nan
    method = f"search from {starts} places"
    if count <= MAX_ARMS_TO_BRANCH:
        goal = 1e-9 * max(abs(value), problem.scale)
        other, bounded, upper = branch_and_bound(metric, problem.table, weights, goal)
        if bounded > value + 1e-13 * abs(value):
            weights, value = improve_by_weight_exchanges(values_at, other, 1e-11)
        method = "branch and bound"
    trimmed = np.where(weights < 1e-9, 0.0, weights)
    trimmed /= trimmed.sum()
    if values_at(trimmed[None])[0] >= value - 1e-12 * abs(value):
        weights = trimmed
    if problem.corners[problem.arm] >= value - 1e-12 * problem.scale:
        weights = np.eye(count)[problem.arm]
    exact = value_of_mixture(metric, distributions, weights)
    gap = max(upper - exact, 0.0) + problem.table.error if np.isfinite(upper) else float("nan")
    if gap <= TIE * problem.scale:
        gap += abs(exact - value)
    enough = exact - TIE * problem.scale
    tied = [w for w, v in improved if v >= exact - 1e-3 * problem.scale and np.abs(w - weights).max() > 1e-3]
    tied = [w for w in tied if value_of_mixture(metric, distributions, w) >= enough]
    return problem.make_oracle_result(
        weights,
        exact,
        gap,
        method,
        certified=bool(np.isfinite(gap)),
        unique=False if tied else None,
        alternative=tied[0] if tied else None,
    )
