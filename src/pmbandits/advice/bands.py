"""Bounds that hold at every sample size, for every mixture at once, from confidence bands of the arms.

With probability ``level`` the true distribution of every arm lies within its band at once. The bands are those of Berk
and Jones, shared by the arms; for rewards 0 and 1 they are exact Clopper–Pearson intervals. The least and the most that
a mixture could be worth inside the bands holds for *every* mixture, so also for the one that was chosen after looking.
For this it must be known where rewards can lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from pmbandits._check import FloatArray
from pmbandits.confidence import bands, radii
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms
from pmbandits.supports import Binary, Heavy, Real, Support

_PARTS = 16  # pieces of an arm's band in which the difference to a mixture is bounded
_STEP = 1.3  # the level of the band is worked out for sizes that grow by this factor, and taken from the next larger
_LARGEST = 30_000  # rewards, beyond which two bands with proofs are laid over each other


def extremes(metric: Distortion, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least and the largest h on each interval [lo, hi]: at an end, or where h turns."""
    with np.errstate(all="ignore"):
        a, b = metric._h(lo.ravel()).reshape(lo.shape), metric._h(hi.ravel()).reshape(hi.shape)
        low, high = np.minimum(a, b), np.maximum(a, b)
        turns = np.asarray(sorted(metric._critical()), dtype=np.float64)
        for turn, value in zip(turns, metric._h(turns), strict=True):
            inside = (lo < turn) & (turn < hi)
            low, high = np.where(inside, np.minimum(low, value), low), np.where(inside, np.maximum(high, value), high)
    return low, high


def survival_ends(curve: FloatArray, n: int, failure: float, error: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """The band around a survival curve of n rewards; ``error`` is how far the curve itself may be off."""
    fewer, more = clip(curve - error) * n, clip(curve + error) * n
    if n <= _LARGEST:
        size = min(int(np.ceil(10.0 * _STEP ** max(np.ceil(log(n / 10.0) / log(_STEP)), 0.0))), _LARGEST)
        depth = bands.berk_jones_depth(max(size, n), 1.0 - max(failure, bands.LEAST_FAILURE))
        return bands.kl_ends(fewer, n, depth)[0], bands.kl_ends(more, n, depth)[1]
    half = 0.5 * failure
    depth = float(bands.anytime_depth(n, half))
    low = bands.quarter_rule(fewer / n, *bands.kl_ends(fewer, n, depth))[0]
    high = bands.quarter_rule(more / n, *bands.kl_ends(more, n, depth))[1]
    even = sqrt(log(2.0 / half) / (2.0 * n))
    return np.maximum(low, clip(fewer / n - even)), np.minimum(high, clip(more / n + even))


@dataclass(frozen=True)
class Laid:
    """The arms' survival curves on common cells, with the band of each."""

    base: float
    widths: FloatArray
    points: FloatArray
    curves: FloatArray
    low: FloatArray
    high: FloatArray

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        """U_h of a mixture of the curves themselves."""
        with np.errstate(all="ignore"):
            return self.base * float(metric(1.0)) + float(metric._h(clip(weights @ self.curves)) @ self.widths)

    def value_bounds(self, metric: Distortion, weights: FloatArray) -> tuple[float, float]:
        """The least and the most that a mixture is worth if every curve lies in its band."""
        low, high = extremes(metric, clip(weights @ self.low), clip(weights @ self.high))
        shift = self.base * float(metric(1.0))
        return shift + float(low @ self.widths), shift + float(high @ self.widths)

    def difference_bounds(self, metric: Distortion, weights: FloatArray, arm: int) -> tuple[float, float]:
        """The same for the difference to a single arm. The curve of that arm is the same one on both sides.

        The band of the arm is cut into pieces. Within a piece, the arm's h and the mixture's h are bounded separately.
        """
        share = float(weights[arm])
        others = weights.copy()
        others[arm] = 0.0
        rest_low, rest_high = others @ self.low, others @ self.high
        least, most = np.full(self.widths.size, np.inf), np.full(self.widths.size, -np.inf)
        cuts = np.linspace(0.0, 1.0, _PARTS + 1)
        span = self.high[arm] - self.low[arm]
        for one, two in pairwise(cuts):
            a, b = self.low[arm] + one * span, self.low[arm] + two * span
            alone_low, alone_high = extremes(metric, a, b)
            mixed_low, mixed_high = extremes(metric, clip(share * a + rest_low), clip(share * b + rest_high))
            least = np.minimum(least, mixed_low - alone_high)
            most = np.maximum(most, mixed_high - alone_low)
        return float(least @ self.widths), float(most @ self.widths)


def clip(curve: FloatArray) -> FloatArray:
    """Cut to [0, 1], which rounding may have left."""
    return np.clip(curve, 0.0, 1.0)


def lay(samples: Sequence[Sample], ends: tuple[float, float] | None, radii: FloatArray | None = None) -> Laid:
    """Samples on common cells, from one end of what is possible to the other, with bands of these radii."""
    points = np.unique(np.concatenate([*(s.x for s in samples), np.array(ends or ())]))
    if points.size == 1:
        points = np.append(points, points[0] + 1.0)  # nothing varies: one cell, in which nobody is
    curves = np.stack([Atoms(s.x, s.p).sf(points[:-1]) for s in samples])
    low = high = curves
    if radii is not None:
        low, high = clip(curves - radii[:, None]), clip(curves + radii[:, None])
    return Laid(float(points[0]), np.diff(points), points, curves, low, high)


class Bands:
    """Valid bounds, for every mixture at once, of utilities and of differences to a single arm.

    Only the arms that a mixture uses are laid side by side. An arm that it does not use is bounded separately.
    """

    def __init__(self, metric: Distortion, arms: Sequence[Sample], support: Support, level: float) -> None:
        self.metric, self.support, self.arms = metric, support, arms
        self.failure = -np.expm1(np.log(level) / len(arms))  # of each arm, because their rewards are independent
        self.steepness = 0.0  # for rewards without bounds: how far U_h moves with the Wasserstein distance
        if isinstance(support, Real):
            try:
                self.steepness = metric.holder(support).constant
            except ValueError:
                self.steepness = np.inf
        self._laid: dict[tuple[int, ...], Laid] = {}

    def laid(self, used: tuple[int, ...]) -> Laid:
        """Some arms, side by side, inside their bands."""
        if used not in self._laid:
            if len(self._laid) > 4:
                self._laid = {}
            self._laid[used] = self._lay([self.arms[k] for k in used])
        return self._laid[used]

    def _lay(self, arms: Sequence[Sample]) -> Laid:
        if isinstance(self.support, Real):
            return lay(arms, None)
        plain = lay(arms, (self.support.lo, self.support.hi))
        low, high = np.empty_like(plain.curves), np.empty_like(plain.curves)
        for k, arm in enumerate(arms):
            if isinstance(self.support, Binary):
                low[k], high[k] = clopper_pearson(np.round(plain.curves[k] * arm.n), arm.n, self.failure)
            else:
                low[k], high[k] = survival_ends(plain.curves[k], arm.n, self.failure, arm.error)
        return Laid(plain.base, plain.widths, plain.points, plain.curves, low, high)

    def value(self, weights: FloatArray) -> tuple[float, float]:
        """Least and most utility of a mixture; for heavy tails none are worked out here."""
        if isinstance(self.support, Heavy):
            return -np.inf, np.inf
        used = np.flatnonzero(weights > 0.0)
        laid, shares = self.laid(tuple(used.tolist())), weights[used]
        if not isinstance(self.support, Real):
            return laid.value_bounds(self.metric, shares)
        away = self.steepness * sum(float(weights[k]) * self._ball(self.arms[k]) for k in used.tolist())
        middle = laid.value(self.metric, shares)
        return middle - away, middle + away

    def _ball(self, arm: Sample) -> float:
        assert isinstance(self.support, Real)
        return float(radii.subgaussian_ball(arm.n, self.support.sigma, np.log(1.0 / self.failure)))

    def alone(self, arm: int) -> tuple[float, float]:
        """Least and most utility of a single arm."""
        if isinstance(self.support, Heavy):
            return -np.inf, np.inf
        laid = self._lay([self.arms[arm]])
        if not isinstance(self.support, Real):
            return laid.value_bounds(self.metric, np.ones(1))
        middle, away = laid.value(self.metric, np.ones(1)), self.steepness * self._ball(self.arms[arm])
        return middle - away, middle + away

    def difference(self, weights: FloatArray, arm: int) -> tuple[float, float]:
        """Least and most utility of a mixture minus that of a single arm."""
        share = float(weights[arm])
        if share == 1.0:
            return 0.0, 0.0
        if share > 0.0 and not isinstance(self.support, (Real, Heavy)):
            used = np.flatnonzero(weights > 0.0)
            laid = self.laid(tuple(used.tolist()))
            return laid.difference_bounds(self.metric, weights[used], int(np.searchsorted(used, arm)))
        (low, high), (least, most) = self.value(weights), self.alone(arm)
        return low - most, high - least


def clopper_pearson(hits: FloatArray, n: int, failure: float) -> tuple[FloatArray, FloatArray]:
    """The exact interval of a share."""
    from scipy.special import betaincinv  # takes a while to load

    tail = failure / 2.0
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
    high = np.where(hits < n, betaincinv(hits + 1, np.maximum(n - hits, 1), 1.0 - tail), 1.0)
    return low, high


@dataclass(frozen=True)
class BandedArm(ArmEstimate):
    """An arm with Berk and Jones's band around its rewards; ``radius`` is the half-width at its widest."""

    failure: float = 0.05
    error: float = 0.0

    def band(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limits of the share of rewards up to x."""
        if self.kind != "band":
            return super().band(x)
        low, high = survival_ends(1.0 - self.cdf(x), self.n, self.failure, self.error)
        return 1.0 - high, 1.0 - low


def estimate(name: str, arm: Sample, support: Support, failure: float) -> ArmEstimate:
    """What is known of an arm, for pictures."""
    if isinstance(support, Binary):
        low, high = clopper_pearson(np.array([float(np.round(arm.p[arm.x == 1.0].sum() * arm.n))]), arm.n, failure)
        return ArmEstimate(
            name, arm.n, arm.x, arm.p, float(high[0] - low[0]), "interval", float(low[0]), float(high[0])
        )
    if isinstance(support, Real):
        size = float(radii.subgaussian_ball(arm.n, support.sigma, np.log(1.0 / failure)))
        return ArmEstimate(name, arm.n, arm.x, arm.p, size, "ball")
    low, high = survival_ends(np.array([0.5]), arm.n, failure, arm.error)
    size = 0.5 * float(high[0] - low[0])
    return BandedArm(name, arm.n, arm.x, arm.p, size, "band", failure=failure, error=arm.error)
