"""Maximise a concave utility over the simplex, with a duality gap as certificate.

    max V(a) over a ≥ 0, Σa = 1,    V(a) = const + Σ_cells ω·φ(Σ_i a_i·curve_i)

V is concave, so V(b) ≤ V(a) + ⟨∇V(a), b − a⟩ for every mixture b, and the right side is largest at a vertex:

    gap(a) = max_i ∇_iV(a) − ⟨∇V(a), a⟩   bounds what any other mixture could gain.

Most arms take no part in the best mixture. So an interior point method (:mod:`pmbandits.best.interior`) solves the
problem for a few arms, one pass over all arms gives a bound and says who should join, and so on. The smallest bound
of all passes counts.
"""

from __future__ import annotations

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.best.interior import Interior, Solution
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.pool import Pool
from pmbandits.metrics.smooth import Smooth

_ALL_ARMS = 4_000_000  # arms² × cells up to which all arms are looked at in every step
_FEW = 6  # arms that join at a time where there are too many for that
_MOST_ROUNDS = 60


def maximise_concave(
    metric: Distortion, laid: Pool, start: FloatArray, *, accuracy: float, scale: float
) -> tuple[FloatArray, float]:
    """The best mixture for a concave metric: weights and a certified gap.

    For the oracle, which knows the arms, and for resampling in advice. Stops at gap ≤ accuracy · max(|V|, scale).
    """
    smooth = Smooth(metric)
    weights = np.maximum(start, 0.0)
    weights = weights / weights.sum()
    span = float(laid.omega.sum())
    size = max(abs(laid.value(metric, weights)), scale, 1e-15 * span, 1e-300)
    goal = accuracy * size
    if laid.n_arms**2 * laid.omega.size <= _ALL_ARMS:
        found = Interior(smooth, laid).solve(weights, goal)
        return found.weights, max(found.upper - found.value, 0.0)
    return _by_columns(smooth, laid, weights, goal)


def _by_columns(smooth: Smooth, laid: Pool, start: FloatArray, goal: float) -> tuple[FloatArray, float]:
    """Few arms at a time: solve for them, look at all, let the steepest join."""
    count = laid.n_arms
    slopes, _ = _look(smooth, laid, start, None)
    arms = sorted(int(i) for i in np.argsort(-slopes, kind="stable")[:_FEW])
    best, value, upper = start, -np.inf, np.inf
    shares = np.full(len(arms), 1.0 / len(arms))
    for _ in range(_MOST_ROUNDS):
        part = laid.only(arms)
        loose = max(0.3 * goal, min(1e-2 * (upper - value), 1e-4 * abs(value))) if np.isfinite(upper) else 0.3 * goal
        found = Interior(smooth, part).solve(shares, loose)
        weights = np.zeros(count)
        weights[arms] = found.weights
        if found.value > value:
            best, value = weights, found.value
        bound_weights = np.zeros(count)
        bound_weights[arms] = found.bound_weights
        slopes, tangent = _look(smooth, laid, bound_weights, (part, found))
        mean = float(slopes[arms] @ found.bound_weights)
        steepest = float(slopes.max())
        if np.isfinite(steepest):
            upper = min(upper, tangent + steepest - mean)
        if upper - value <= goal:
            break
        outside = np.setdiff1d(np.arange(count), arms)
        order = outside[np.argsort(-slopes[outside], kind="stable")][:_FEW]
        joining = [int(i) for i in order if slopes[i] > mean + 0.1 * goal]
        if not joining:
            if loose <= 0.3 * goal:
                break
            shares = found.weights
            upper = min(upper, value + 2.0 * goal) if upper - value <= 2.0 * goal else upper
            continue
        kept = [i for i, w in zip(arms, found.weights, strict=True) if w > 1e-7 or slopes[i] > mean - 1e3 * goal]
        arms = sorted({*kept, *joining})
        shares = np.where(np.isin(arms, joining), 0.1 / len(arms), 0.9 * weights[arms])
        shares = shares / shares.sum()
    return best, max(upper - value, 0.0)


def _look(
    smooth: Smooth, laid: Pool, weights: FloatArray, solved: tuple[Pool, Solution] | None
) -> tuple[FloatArray, float]:
    """Slopes towards all arms at a mixture, and the height of the tangent plane there."""
    curve = laid.curve(weights)
    cells = laid.smooth_cells(smooth, curve)
    shares = []
    for k, (place, bend) in enumerate(smooth.kinks):
        share = laid.shares(curve, place, laid.crossing(curve, place))
        if solved is not None:
            share = solved[0].spread(solved[1].shares[k], share, laid)
        cells = cells + bend * laid.corner_cells(curve, place, share)
        shares.append(share)
    tangent = laid.anchor * smooth.top + float(laid.omega @ cells)
    with np.errstate(all="ignore"):
        slopes = laid.adjoint(laid.omega * laid.slope_cells(smooth, curve, shares), curve.lower)
    return np.nan_to_num(slopes, nan=0.0, posinf=np.inf, neginf=-np.inf), tangent
