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
from pmbandits.best.interior import Interior
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.pool import AtomPool, Pool
from pmbandits.metrics.smooth import Smooth

_ALL_ARMS = 4_000_000  # arms² × cells up to which all arms are looked at in every step
_FEW = 4  # arms that join at a time where there are too many for that
_THIN = 25  # atoms an arm of the rough picture
_MOST_ROUNDS = 60


def maximise_concave(
    metric: Distortion, laid: Pool, start: FloatArray, *, accuracy: float, scale: float
) -> tuple[FloatArray, float]:
    """The best mixture for a concave metric: weights and a certified gap.

    For the oracle, which knows the arms, and for resampling in advice. Stops at gap ≤ accuracy · max(|V|, scale).
    """
    weights = np.maximum(start, 0.0)
    weights = weights / weights.sum()
    if laid.n_arms**2 * laid.omega.size <= _ALL_ARMS:
        goal = accuracy * size_of(metric, laid, weights, scale)
        found = Interior(Smooth(metric), laid).solve(weights, goal)
        return found.weights, max(found.upper - found.value, 0.0)
    if isinstance(laid, AtomPool) and laid.mass.size > 2 * _THIN * laid.n_arms:
        # Many atoms: a rough picture of the arms says who takes part.
        rough = laid.thinned(_THIN)
        weights, _ = maximise_concave(metric, rough, weights, accuracy=max(accuracy, 1e-4), scale=scale)
        goal = accuracy * size_of(metric, rough, weights, scale)
        arms = [int(i) for i in np.flatnonzero(weights > 0.02)]
    else:
        goal = accuracy * size_of(metric, laid, weights, scale)
        slopes = laid.gradient(metric, laid.curve(weights))
        arms = sorted(int(i) for i in np.argsort(-slopes, kind="stable")[:_FEW])
        weights = np.ones(laid.n_arms)
    return _by_columns(metric, laid, arms, weights[arms] / weights[arms].sum(), goal)


def size_of(metric: Distortion, laid: Pool, weights: FloatArray, scale: float) -> float:
    """What gaps are measured by."""
    width = float(laid.omega @ laid.curve(weights).p)  # how far rewards lie from their median, on average
    return max(abs(laid.value(metric, weights)), scale, 1e-15 * width, 1e-300)


def _by_columns(
    metric: Distortion, laid: Pool, arms: list[int], shares: FloatArray, goal: float
) -> tuple[FloatArray, float]:
    """Few arms at a time: solve for them, look at all, let the steepest join."""
    smooth = Smooth(metric)
    best, value, upper = np.zeros(laid.n_arms), -np.inf, np.inf
    loose = 0.02
    for _ in range(_MOST_ROUNDS):
        part = laid.only(arms)
        found = Interior(smooth, part).solve(shares, 0.5 * goal)
        weights = np.zeros(laid.n_arms)
        weights[arms] = found.weights
        if found.value > value:
            best, value = weights, found.value
        slopes = laid.slopes_from(part, found.cells, found.lower, metric)
        slopes = np.where(np.isnan(slopes), -np.inf, slopes)
        here = float(slopes[arms].max())
        upper = min(upper, found.upper + max(float(slopes.max()) - here, 0.0))
        if upper - value <= goal:
            break
        outside = np.setdiff1d(np.arange(laid.n_arms), arms)
        order = outside[np.argsort(-slopes[outside], kind="stable")][:_FEW]
        joining = [int(i) for i in order if slopes[i] > here]
        if not joining:
            break
        kept = [i for i, w in zip(arms, found.weights, strict=True) if w > loose]
        loose *= 0.1  # whoever left and came back stays longer
        arms = sorted({*kept, *joining})
        shares = np.where(np.isin(arms, joining), 0.1 / len(arms), 0.9 * weights[arms])
        shares = shares / shares.sum()
    return best, max(upper - value, 0.0)
