"""Cutting planes (Kelley 1960): slow and sure, for the few problems on which the interior point method gets stuck.

Concave V lies below each of its tangents, V(b) ≤ V(a) + ⟨∇V(a), b − a⟩. The best mixture of the lowest of some
tangents is a linear program; its value is a bound for all mixtures, and a tangent at its answer makes the bound
tighter. Corners of h, along which a mixture may follow for a long stretch, are no obstacle.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.pool import Pool

_MOST_ROUNDS = 300


def cutting_planes(metric: Distortion, laid: Pool, start: FloatArray, goal: float) -> tuple[FloatArray, float]:
    """The best mixture that is found, and by how much another can be better at most. At least as good as the start."""
    k = laid.n_arms
    tangents: list[FloatArray] = []
    heights: list[float] = []
    best, value, upper = start, -np.inf, np.inf
    target = np.append(np.zeros(k), -1.0)
    total, limits = np.append(np.ones(k), 0.0)[None, :], [(0.0, 1.0)] * k + [(None, None)]
    asked = [start, *np.eye(k), np.full(k, 1.0 / k)]
    for _ in range(_MOST_ROUNDS):
        for mixture in asked:
            here, slopes = laid.value(metric, mixture), laid.gradient(metric, laid.curve(mixture))
            if not (np.isfinite(here) and np.isfinite(slopes).all()):  # vertical there: no tangent
                continue
            if here > value:
                best, value = mixture, here
            tangents.append(np.append(-slopes, 1.0))
            heights.append(here - float(slopes @ mixture))
        if not tangents:
            break
        found = linprog(target, A_ub=np.array(tangents), b_ub=heights, A_eq=total, b_eq=[1.0], bounds=limits)
        if found.x is None or found.fun is None:
            break
        # The program is solved with a tolerance; but any average of tangents is a bound, whatever its shares are.
        shares = np.maximum(-found.ineqlin.marginals, 0.0)
        if shares.sum() > 0.0:
            shares /= shares.sum()
            upper = min(upper, float(shares @ heights - (shares @ np.array(tangents))[:k].min()))
        if upper - value <= goal:
            break
        further = np.maximum(found.x[:k], 0.0)
        further /= further.sum()
        asked = [further, 0.5 * (further + best)]
    return best, max(upper - value, 0.0)
