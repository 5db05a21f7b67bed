"""Inference with constraints on the shares: the vertices of the feasible set take the place of the single arms.

Every mixture that keeps the limits is a mixture of the corners, and each corner is a mixture of arms. So the question
is the same as without limits: is the recommendation ahead of every other corner, beyond chance?
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.inference import (
    Evidence,
    approximate_best_mixture_and_arm,
    evidence_of_mixture,
    utilities_of_arms,
    utility_of_mixture,
)
from pmbandits.advice.problem import N_CHOOSING_PARTS, Problem
from pmbandits.advice.standard_errors import Margin, margin_between_mixtures, unit_vector
from pmbandits.arms import Bandit
from pmbandits.constraints import Limits
from pmbandits.logs import N_PARTS, Sample, merge_duplicates
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import oracle
from pmbandits.optimize.shadow_prices import ShadowPrice
from pmbandits.tables.distributions import Atoms

_MOST_VERTICES = 64  # with more corners no verdict is given


def compute_evidence_constrained(
    metric: Distortion, problem: Problem, limits: Limits
) -> tuple[Evidence, dict[str, ShadowPrice]]:
    """The evidence on one metric within limits on the shares, and the shadow price of each limit in the data."""
    samples, clusters = problem.samples, problem.clusters
    distributions = [Atoms(s.x, s.p) for s in samples]
    best = oracle(metric, Bandit(distributions, [arm.name for arm in problem.log.arms]), shares=limits)
    weights = np.where(best.weights < 1e-6, 0.0, best.weights)
    weights /= weights.sum()
    apparent = utility_of_mixture(metric, samples, weights)
    corners = limits.polytope.corners(_MOST_VERTICES)
    others = [] if corners is None else [c for c in corners if np.abs(c - weights).max() > 1e-6]
    tested_margins: list[Margin] = []
    p, guarded_p, divisions = 1.0, 1.0, 0
    few = tuple(k for k in range(len(samples)) if problem.has_too_few_rewards(k))
    if corners is not None and not few and not metric.jumps:
        tested_margins = [
            margin_between_mixtures(metric, weights, c, samples, problem.guard, clusters, rival=k)
            for k, c in enumerate(others)
        ]
        if others and len(others) < len(corners):  # it is a vertex
            p, guarded_p = (
                _two_sided_p_value(max(m.p_value for m in tested_margins)),
                _two_sided_p_value(max(map(_guarded_p_value, tested_margins))),
            )
        elif others:
            p_values, guarded_p_values = _cross_fit(metric, problem, corners)
            p, guarded_p, divisions = (
                _two_sided_p_value(np.median(p_values)),
                _two_sided_p_value(np.median(guarded_p_values)),
                len(p_values),
            )
    found = evidence_of_mixture(
        metric,
        problem,
        weights,
        [problem.utility_estimate(metric, unit_vector(len(samples), k)) for k in range(len(samples))],
        arm_utilities=utilities_of_arms(metric, samples),
        apparent=apparent,
        apparent_gain=0.0,
        value=apparent,
        gain=0.0,
        margins=tuple(tested_margins),
        p=p,
        guarded_p=guarded_p,
        by_bands=(),
        few=few,
        divisions=divisions,
    )
    return found, best.prices


def _two_sided_p_value(p_value: float) -> float:
    return min(2.0 * float(p_value), 1.0)


def _guarded_p_value(margin: Margin) -> float:
    return 1.0 if margin.guarded is None else margin.guarded.p_value


def _cross_fit(metric: Distortion, problem: Problem, corners: FloatArray) -> tuple[list[float], list[float]]:
    """Held-out p-values: choose a mixture of vertices on some rewards, measure on the others."""
    p_values, guarded = [1.0], [1.0]
    guard = problem.guard.guard_of_reward_share((N_PARTS - N_CHOOSING_PARTS) / N_PARTS)
    for one, two in problem.cross_fitting_splits():
        choosing, (samples, clusters) = problem.select_parts(one)[0], problem.select_parts(two)
        if min(s.n for s in (*choosing, *samples)) == 0:
            continue
        shares, _ = approximate_best_mixture_and_arm(
            metric, [_mixture_as_sample(choosing, corner) for corner in corners]
        )
        chosen = np.clip(shares @ corners, 0.0, None)
        ahead = [
            margin_between_mixtures(metric, chosen, c, samples, guard, clusters, rival=k) for k, c in enumerate(corners)
        ]
        p_values.append(max(m.p_value for m in ahead))
        guarded.append(max(map(_guarded_p_value, ahead)))
    return p_values[1:] or p_values, guarded[1:] or guarded


def _mixture_as_sample(samples: Sequence[Sample], shares: FloatArray) -> Sample:
    """The sample of a mixture of arms, as if it was one arm."""
    used: list[int] = np.flatnonzero(shares > 0.0).tolist()
    x, p = merge_duplicates(
        np.concatenate([samples[k].x for k in used]), np.concatenate([shares[k] * samples[k].p for k in used])
    )
    return Sample(min(samples[k].n for k in used), x, p / p.sum())
