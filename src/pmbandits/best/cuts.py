"""Cutting planes (Kelley 1960): slow and sure, for the few problems on which the interior point method gets stuck.

Concave V lies below each of its tangents, V(b) ≤ V(a) + ⟨∇V(a), b − a⟩. The best mixture of the lowest of some
tangents is a linear program; its value is a bound for all mixtures, and a tangent at its answer makes the bound
tighter. Corners of h, along which a mixture may follow for a long stretch, are no obstacle.
"""

from __future__ import annotations

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.limits.polytope import CLOSE, Polytope, no_limits
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.pool import Pool

_MOST_ROUNDS = 300


def cutting_planes(
    metric: Distortion, laid: Pool, start: FloatArray, goal: float, polytope: Polytope | None = None
) -> tuple[FloatArray, float]:
    """The best mixture that is found, and by how much another can be better at most. At least as good as the start.

    With a polytope both are about the mixtures in it, and the start must be one of them.
    """
    from scipy.optimize import linprog  # takes a while to load

    k = laid.n_arms
    kept = no_limits(k) if polytope is None else polytope
    most, same = ~kept.equal, kept.equal
    rows, total = (np.column_stack((kept.matrix[some], np.zeros(int(some.sum())))) for some in (most, same))
    tangents: list[FloatArray] = []
    heights: list[float] = []
    best, value, upper = start, -np.inf, np.inf
    target = np.append(np.zeros(k), -1.0)
    total, limits = np.vstack((np.append(np.ones(k), 0.0), total)), [(0.0, 1.0)] * k + [(None, None)]
    asked = [start, *np.eye(k), np.full(k, 1.0 / k)]
    for _ in range(_MOST_ROUNDS):
        for mixture in asked:
            here, slopes = laid.value(metric, mixture), laid.gradient(metric, laid.curve(mixture))
            if not (np.isfinite(here) and np.isfinite(slopes).all()):  # vertical there: no tangent
                continue
            if here > value and float(kept.excess(mixture).max(initial=0.0)) <= CLOSE:
                best, value = mixture, here
            tangents.append(np.append(-slopes, 1.0))
            heights.append(here - float(slopes @ mixture))
        if not tangents:
            break
        found = linprog(
            target,
            A_ub=np.vstack((np.array(tangents), rows)),
            b_ub=np.append(heights, kept.bound[most]),
            A_eq=total,
            b_eq=np.append(1.0, kept.bound[same]),
            bounds=limits,
        )
        if found.x is None or found.fun is None:
            break
        # The program is solved with a tolerance; but any average of tangents is a bound, whatever its shares are.
        shares = np.maximum(-found.ineqlin.marginals[: len(heights)], 0.0)
        if shares.sum() > 0.0:
            shares /= shares.sum()
            top = kept.highest(-(shares @ np.array(tangents))[:k])
            upper = min(upper, float(shares @ heights) + (np.inf if top is None else top.upper))
        if upper - value <= goal:
            break
        further = np.maximum(found.x[:k], 0.0)
        further /= further.sum()
        asked = [further, 0.5 * (further + best)]
    return best, max(upper - value, 0.0)
