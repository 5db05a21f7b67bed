"""Newton's method for the best mixture of a few arms, where h is concave and smooth.

It needs a handful of steps, each of them a few passes over the survival table, and nothing that must be compiled first:
the compiled interior point method (``interior_point.py``) is for corners of h, limits on shares, and many arms. V is
concave, so the same tangent plane is the certificate: V(b) ≤ V(a) + max_i g_i − ⟨g, a⟩ for every mixture b.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.tables.survival_table import MixtureCurve, SurvivalTable

MAX_ARMS = 10
_MAX_STEPS = 20
_MAX_HALVINGS = 12
_RIDGE = 1e-13  # relative to the curvature: arms that are alike make it singular
_NO_SHARE = 1e-14


@np.errstate(all="ignore")
def maximise_by_newton(
    metric: Distortion, table: SurvivalTable, start: FloatArray, goal: float
) -> tuple[FloatArray, float] | None:
    """The best mixture and its gap, at most ``goal``; ``None`` if a few steps do not reach it.

    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> from pmbandits.tables.distributions import Atoms
    >>> coins = [Atoms(np.array([0.0, 1.0]), np.array([1 - p, p])) for p in (0.4, 0.9)]
    >>> found = maximise_by_newton(pmb.GiniDeviation(), SurvivalTable.from_atoms(coins), np.array([0.5, 0.5]), 1e-12)
    >>> found[0].round(6).tolist()
    [0.8, 0.2]
    """
    weights, curve = start, table.curve_of_mixture(start)
    rows, slopes = _slopes_towards_arms(metric, table, curve)
    for _ in range(_MAX_STEPS):
        if not np.isfinite(slopes).all():
            return None  # h is vertical where the mixture is
        gap = float(slopes.max() - weights @ slopes)
        if gap <= goal:
            return weights, max(gap, 0.0)
        smooth = metric._smooth_part
        bend = table.cell_widths * curve.choose_by_side(smooth.negative_dual_d2h, smooth.d2h)
        step = _newton_step(rows, bend, weights, slopes) if np.isfinite(bend).all() else None
        if step is None:
            return None
        falls, length = step < 0.0, 1.0
        if falls.any():
            length = min(1.0, float((weights[falls] / -step[falls]).min()))
        rise = abs(float(slopes @ step))
        for _ in range(_MAX_HALVINGS):
            trial = np.maximum(weights + length * step, 0.0)
            trial[trial < _NO_SHARE] = 0.0
            trial /= trial.sum()
            curve = table.curve_of_mixture(trial)
            rows, slopes = _slopes_towards_arms(metric, table, curve)
            if slopes @ step >= -0.5 * rise:  # not far beyond the top of this line
                break
            length *= 0.5
        weights = trial
    return None


def _slopes_towards_arms(
    metric: Distortion, table: SurvivalTable, curve: MixtureCurve
) -> tuple[FloatArray, FloatArray]:
    """The arms' curves, from the side from which the mixture's is counted; and the slopes of V towards the arms."""
    rows = np.concatenate((table.cdf_rows[:, : curve.split], table.survival_rows[:, curve.split :]), axis=1)
    smooth = metric._smooth_part
    return rows, rows @ (table.cell_widths * curve.choose_by_side(smooth.negative_dual_dh, smooth.dh))


def _newton_step(rows: FloatArray, bend: FloatArray, weights: FloatArray, slopes: FloatArray) -> FloatArray | None:
    """The step to the top of the quadratic that V looks like, with arms that have no share and would lose some held."""
    free = (weights > 0.0) | (slopes > weights @ slopes)
    while True:
        part = rows[free]
        hessian = (part * bend) @ part.T
        n = part.shape[0]
        system = np.ones((n + 1, n + 1))
        system[n, n] = 0.0
        system[:n, :n] = hessian + _RIDGE * np.trace(hessian) * np.eye(n)
        try:
            step = np.zeros(weights.size)
            step[free] = np.linalg.solve(system, np.append(-slopes[free], 0.0))[:n]
        except np.linalg.LinAlgError:
            return None
        held = (weights <= 0.0) & (step < 0.0)
        if not held.any():
            return step if np.isfinite(step).all() else None
        free &= ~held
