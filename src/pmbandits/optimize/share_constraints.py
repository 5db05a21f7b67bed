"""The best of the mixtures that keep limits on their shares.

The mixtures that keep all limits form a polytope. No mixture is clipped or rescaled to fit, and no list of the
polytope's vertices is needed: what the solvers ask of it are linear programs.
"""

from __future__ import annotations

import numpy as np

from pmbandits.constraints.polytope import Polytope
from pmbandits.metrics.value import value_of_mixture
from pmbandits.optimize.concave_mixture import solve_concave
from pmbandits.optimize.maximise import maximise
from pmbandits.optimize.problem import Problem, two_rewards_of_all_arms
from pmbandits.optimize.result import OracleResult


def best_mixture_within_limits(problem: Problem, polytope: Polytope) -> OracleResult:
    """The best mixture that keeps the limits, in the way that suits the metric."""
    metric = problem.metric
    if two_rewards_of_all_arms(problem.distributions) is not None:
        return _solve_two_point(problem, polytope)
    if metric.shape == "concave":
        return solve_concave(problem, polytope)
    found = maximise(metric, problem.table, polytope=polytope, scale=problem.scale)
    exact = value_of_mixture(metric, problem.distributions, found.weights)
    gap = max(found.upper - exact, 0.0) + problem.table.error + abs(exact - found.value)
    return problem.make_oracle_result_within_limits(found.weights, exact, gap, found.method, found.multipliers)


def _solve_two_point(problem: Problem, polytope: Polytope) -> OracleResult:
    """V = low·h(1) + (high − low)·h(⟨a, p⟩): maximise h over the probabilities that are reached within the limits."""
    metric = problem.metric
    points = two_rewards_of_all_arms(problem.distributions)
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
    return problem.make_oracle_result_within_limits(
        weights, value, gap, "reachable mean", multipliers if metric.shape != "neither" else None
    )
