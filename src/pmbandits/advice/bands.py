"""Bounds that hold at every sample size, for every mixture at once, from confidence bands of the arms.

With probability ``level`` the true distribution of every arm lies within its band at once. The bands are those of Berk
and Jones, shared by the arms; for rewards 0 and 1 they are exact Clopper–Pearson intervals. Least and largest U_h of
a mixture inside the bands hold for *every* mixture, so also for the one that was chosen after looking at the data.
For this it must be known where rewards can lie.

Where rewards belong to units (or to blocks of time), the bands are Korn and Graubard's (1998): Clopper and Pearson's
interval of each share, with as many rewards as the rewards of all units amount to. They hold at each x separately. This
is enough for one quantile (Woodruff 1952); several share the level. It is also enough for an average of quantiles, to
first order, because the standard error of a sum is at most the sum of the standard errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from pmbandits._validation import FloatArray
from pmbandits.advice.clusters import Clusters
from pmbandits.confidence import bands, radii
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Binary, Heavy, Real, Support
from pmbandits.tables.distributions import Atoms

_DIFFERENCE_PIECES = 16  # pieces of an arm's band in which the difference to a mixture is bounded
_SIZE_GROWTH = (
    1.3  # the level of the band is worked out for sizes that grow by this factor, and taken from the next larger
)
_LARGEST_EXACT_SIZE = 30_000  # rewards, beyond which two bands with proofs are laid over each other


def distortion_range(metric: Distortion, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minimum and maximum of h on each interval [lo, hi]: at an end, or at a turning point of h."""
    with np.errstate(all="ignore"):
        a, b = metric._h(lo.ravel()).reshape(lo.shape), metric._h(hi.ravel()).reshape(hi.shape)
        low, high = np.minimum(a, b), np.maximum(a, b)
        turning_points = np.asarray(sorted(metric._critical_points()), dtype=np.float64)
        for turning_point, value in zip(turning_points, metric._h(turning_points), strict=True):
            inside = (lo < turning_point) & (turning_point < hi)
            low, high = np.where(inside, np.minimum(low, value), low), np.where(inside, np.maximum(high, value), high)
    return low, high


def survival_band(curve: FloatArray, n: int, failure: float, error: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Lower and upper confidence band of a survival curve of n rewards; ``error`` bounds the error of the curve."""
    fewer, more = clip_to_unit_interval(curve - error) * n, clip_to_unit_interval(curve + error) * n
    if n <= _LARGEST_EXACT_SIZE:
        size = min(
            int(np.ceil(10.0 * _SIZE_GROWTH ** max(np.ceil(log(n / 10.0) / log(_SIZE_GROWTH)), 0.0))),
            _LARGEST_EXACT_SIZE,
        )
        depth = bands.berk_jones_threshold(max(size, n), 1.0 - max(failure, bands.MIN_FAILURE))
        return bands.kl_interval(fewer, n, depth)[0], bands.kl_interval(more, n, depth)[1]
    half = 0.5 * failure
    depth = float(bands.anytime_threshold(n, half))
    low = bands.widen_band_where_unproven(fewer / n, *bands.kl_interval(fewer, n, depth))[0]
    high = bands.widen_band_where_unproven(more / n, *bands.kl_interval(more, n, depth))[1]
    uniform_radius = sqrt(log(2.0 / half) / (2.0 * n))
    return np.maximum(low, clip_to_unit_interval(fewer / n - uniform_radius)), np.minimum(
        high, clip_to_unit_interval(more / n + uniform_radius)
    )


@dataclass(frozen=True)
class SurvivalBands:
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
            return self.base * float(metric(1.0)) + float(
                metric._h(clip_to_unit_interval(weights @ self.curves)) @ self.widths
            )

    def value_bounds(self, metric: Distortion, weights: FloatArray) -> tuple[float, float]:
        """Least and largest utility of a mixture if every survival curve lies in its band."""
        low, high = distortion_range(
            metric, clip_to_unit_interval(weights @ self.low), clip_to_unit_interval(weights @ self.high)
        )
        shift = self.base * float(metric(1.0))
        return shift + float(low @ self.widths), shift + float(high @ self.widths)

    def difference_bounds(self, metric: Distortion, weights: FloatArray, arm: int) -> tuple[float, float]:
        """Least and largest utility of a mixture minus that of one of its arms; both sides share that arm's curve.

        The band of the arm is cut into pieces. Within a piece, the arm's h and the mixture's h are bounded separately.
        """
        share = float(weights[arm])
        others = weights.copy()
        others[arm] = 0.0
        others_low, others_high = others @ self.low, others @ self.high
        least, most = np.full(self.widths.size, np.inf), np.full(self.widths.size, -np.inf)
        cuts = np.linspace(0.0, 1.0, _DIFFERENCE_PIECES + 1)
        span = self.high[arm] - self.low[arm]
        for one, two in pairwise(cuts):
            a, b = self.low[arm] + one * span, self.low[arm] + two * span
            alone_low, alone_high = distortion_range(metric, a, b)
            mixed_low, mixed_high = distortion_range(
                metric, clip_to_unit_interval(share * a + others_low), clip_to_unit_interval(share * b + others_high)
            )
            least = np.minimum(least, mixed_low - alone_high)
            most = np.maximum(most, mixed_high - alone_low)
        return float(least @ self.widths), float(most @ self.widths)


def clip_to_unit_interval(curve: FloatArray) -> FloatArray:
    """Survival probabilities clipped to [0, 1], against rounding errors."""
    return np.clip(curve, 0.0, 1.0)


def tabulate_survival(
    samples: Sequence[Sample], ends: tuple[float, float] | None, radii: FloatArray | None = None
) -> SurvivalBands:
    """Survival curves of samples on common cells between two ends, with bands of the given radii."""
    points = np.unique(np.concatenate([*(s.x for s in samples), np.array(ends or ())]))
    if points.size == 1:
        points = np.append(points, points[0] + 1.0)  # nothing varies: one cell, in which nobody is
    curves = np.stack([Atoms(s.x, s.p).sf(points[:-1]) for s in samples])
    low = high = curves
    if radii is not None:
        low, high = clip_to_unit_interval(curves - radii[:, None]), clip_to_unit_interval(curves + radii[:, None])
    return SurvivalBands(float(points[0]), np.diff(points), points, curves, low, high)


def survival_band_from_units(
    curve: FloatArray, points: FloatArray, n: int, clusters: Clusters, arm: int, failure: float
) -> tuple[FloatArray, FloatArray]:
    """Korn and Graubard's interval of the share of an arm's rewards above each point, from what its units say."""
    from scipy.special import stdtrit

    rows = clusters.arm == arm
    unit, reward = np.unique(clusters.unit[rows], return_inverse=True)[1], clusters.reward[rows]
    sizes = np.bincount(unit).astype(np.float64)
    weight = sizes / sizes.sum()
    if sizes.size < 2:
        return np.zeros_like(curve), np.ones_like(curve)
    df = (
        clusters.select_arms([arm]).jackknife_spread([reward]).df
        if np.ptp(reward) > 0.0
        else 1.0 / float(weight @ weight) - 1.0
    )
    leverage2 = (sizes.size - 1.0) / sizes.size / (1.0 - weight) ** 2
    order = np.argsort(-reward, kind="stable")
    unit, reward = unit[order], reward[order]
    by_unit = np.argsort(unit, kind="stable")
    turn = np.empty(unit.size)  # the how manyth of its unit, from the largest reward on
    turn[by_unit] = np.arange(unit.size) - np.repeat(np.cumsum(sizes) - sizes, sizes.astype(np.int64)) + 1.0
    squares = np.append(0.0, np.cumsum(leverage2[unit] * (2.0 * turn - 1.0)))
    products = np.append(0.0, np.cumsum(leverage2[unit] * sizes[unit]))
    above = np.searchsorted(-reward, -points, side="left")
    share = above / unit.size
    variance = squares[above] - 2.0 * share * products[above] + share**2 * float(leverage2 @ sizes**2)
    with np.errstate(all="ignore"):
        effective = share * (1.0 - share) * float(unit.size) ** 2 / np.maximum(variance, 0.0)
    fewest = min(1.0 / float(weight @ weight), float(n))
    effective = np.where((above > 0) & (above < unit.size), np.clip(effective, fewest, n), fewest)
    tail = 1.0 - 0.5 * failure
    effective *= min(float(stdtrit(max(n - 1.0, 1.0), tail) / stdtrit(max(df, 1.0), tail)) ** 2, 1.0)
    return clopper_pearson(share * effective, effective, failure)


def estimate_reward_range(sample: Sample, declared: tuple[float, float] | None) -> tuple[float, float]:
    """Between which numbers the rewards of an arm lie: as they were seen, or further out if they are zero-inflated.

    If half of them or more are the same, the largest possible reward is as far above the largest one as this is above
    the next: 2 x(n) − x(n − 1), and so below (Robson and Whitlock 1964). An end that was seen twice is taken for the
    end. No estimate lies outside of a declared range.

    >>> estimate_reward_range(Sample(5, np.array([0.0, 3.0, 7.0]), np.array([0.6, 0.2, 0.2])), None)
    (0.0, 11.0)
    """
    x, once = sample.x, sample.p * sample.n < 1.5
    low, high = float(x[0]), float(x[-1])
    if x.size > 1 and float(sample.p.max()) >= 0.5:
        low -= float(x[1] - x[0]) * bool(once[0])
        high += float(x[-1] - x[-2]) * bool(once[-1])
    return (low, high) if declared is None else (max(low, declared[0]), min(high, declared[1]))


def limits_from_order_statistics(
    metric: Distortion,
    survival: SurvivalBands,
    shares: FloatArray,
    samples: Sequence[Sample],
    clusters: Clusters | None,
    alpha: float,
    *,
    bounded: bool,
) -> tuple[float, float]:
    """Confidence limits of a mixture's utility where h jumps: the rewards between which its quantiles lie.

    They follow from the exact interval of the share of rewards above each point (Woodruff 1952; Clopper and Pearson
    1934). Several jumps share the error probability. The intervals of the arms of a mixture are put together by the
    squares of their lengths (Zou and Donner 2008). Unless rewards are ``bounded``, a quantile may lie beyond all that
    was seen, and then there are no limits.
    """
    curves, failure = survival.curves, alpha / len(metric.jumps)
    low, high = np.empty_like(curves), np.empty_like(curves)
    for k, s in enumerate(samples):
        if clusters is not None:
            low[k], high[k] = survival_band_from_units(curves[k], survival.points[:-1], s.n, clusters, k, failure)
        else:
            fewer, more = (clip_to_unit_interval(curves[k] + error) * s.n for error in (-s.error, s.error))
            low[k], high[k] = clopper_pearson(fewer, s.n, failure)[0], clopper_pearson(more, s.n, failure)[1]
    middle, squares = shares @ curves, shares**2
    low, high = middle - np.sqrt(squares @ (curves - low) ** 2), middle + np.sqrt(squares @ (high - curves) ** 2)
    unseen = max(1.0 - (0.5 * failure) ** (1.0 / max(s.n, 1)) for s in samples)
    if not bounded and any(min(u, 1.0 - u) <= unseen for u, _ in metric.jumps):
        return -np.inf, np.inf
    return replace(survival, low=low[None], high=high[None]).value_bounds(metric, np.ones(1))


class Bands:
    """Valid bounds, for every mixture at once, of utilities and of differences to a single arm.

    Only the arms that a mixture uses are tabulated on common cells. An arm that it does not use is bounded separately.
    """

    def __init__(
        self,
        metric: Distortion,
        arms: Sequence[Sample],
        support: Support,
        level: float,
        clusters: Clusters | None = None,
    ) -> None:
        self.metric, self.support, self.arms, self.clusters = metric, support, arms, clusters
        self.failure = -np.expm1(np.log(level) / len(arms))  # of each arm, because their rewards are independent
        self.holder_constant = 0.0  # for rewards without bounds: how far U_h moves with the Wasserstein distance
        if isinstance(support, Real):
            try:
                self.holder_constant = metric.holder(support).constant
            except ValueError:
                self.holder_constant = np.inf
        self._survival_cache: dict[tuple[int, ...], SurvivalBands] = {}

    def survival_bands_of_arms(self, used: tuple[int, ...]) -> SurvivalBands:
        """Survival curves of some arms on common cells, with their bands (cached)."""
        if used not in self._survival_cache:
            if len(self._survival_cache) > 4:
                self._survival_cache = {}
            self._survival_cache[used] = self._tabulate_with_bands(used)
        return self._survival_cache[used]

    def _tabulate_with_bands(self, used: tuple[int, ...]) -> SurvivalBands:
        arms = [self.arms[k] for k in used]
        if isinstance(self.support, Real):
            return tabulate_survival(arms, None)
        empirical = tabulate_survival(arms, (self.support.lo, self.support.hi))
        low, high = np.empty_like(empirical.curves), np.empty_like(empirical.curves)
        for k, arm in enumerate(arms):
            if self.clusters is not None:
                failure = self.failure / max(len(self.metric.jumps), 1)
                points = empirical.points[:-1]
                low[k], high[k] = survival_band_from_units(
                    empirical.curves[k], points, arm.n, self.clusters, used[k], failure
                )
            elif isinstance(self.support, Binary):
                low[k], high[k] = clopper_pearson(np.round(empirical.curves[k] * arm.n), arm.n, self.failure)
            else:
                low[k], high[k] = survival_band(empirical.curves[k], arm.n, self.failure, arm.error)
        return SurvivalBands(empirical.base, empirical.widths, empirical.points, empirical.curves, low, high)

    def mixture_utility_bounds(self, weights: FloatArray) -> tuple[float, float]:
        """Least and largest utility of a mixture; infinite for heavy tails, and for units without limits."""
        if isinstance(self.support, Heavy) or (self.clusters is not None and isinstance(self.support, Real)):
            return -np.inf, np.inf
        used = np.flatnonzero(weights > 0.0)
        survival, shares = self.survival_bands_of_arms(tuple(used.tolist())), weights[used]
        if not isinstance(self.support, Real):
            return survival.value_bounds(self.metric, shares)
        radius = self.holder_constant * sum(
            float(weights[k]) * self._wasserstein_radius(self.arms[k]) for k in used.tolist()
        )
        middle = survival.value(self.metric, shares)
        return middle - radius, middle + radius

    def _wasserstein_radius(self, arm: Sample) -> float:
        assert isinstance(self.support, Real)
        return float(radii.sub_gaussian_w1_radius(arm.n, self.support.sigma, np.log(1.0 / self.failure)))

    def arm_utility_bounds(self, arm: int) -> tuple[float, float]:
        """Least and most utility of a single arm."""
        if isinstance(self.support, Heavy) or (self.clusters is not None and isinstance(self.support, Real)):
            return -np.inf, np.inf
        survival = self._tabulate_with_bands((arm,))
        if not isinstance(self.support, Real):
            return survival.value_bounds(self.metric, np.ones(1))
        middle, radius = (
            survival.value(self.metric, np.ones(1)),
            self.holder_constant * self._wasserstein_radius(self.arms[arm]),
        )
        return middle - radius, middle + radius

    def bounds_of_difference_to_arm(self, weights: FloatArray, arm: int) -> tuple[float, float]:
        """Least and most utility of a mixture minus that of a single arm."""
        share = float(weights[arm])
        if share == 1.0:
            return 0.0, 0.0
        if share > 0.0 and not isinstance(self.support, (Real, Heavy)):
            used = np.flatnonzero(weights > 0.0)
            survival = self.survival_bands_of_arms(tuple(used.tolist()))
            return survival.difference_bounds(self.metric, weights[used], int(np.searchsorted(used, arm)))
        (low, high), (least, most) = self.mixture_utility_bounds(weights), self.arm_utility_bounds(arm)
        return low - most, high - least


def clopper_pearson(hits: FloatArray, n: int | FloatArray, failure: float) -> tuple[FloatArray, FloatArray]:
    """Clopper–Pearson interval of a proportion; counts need not be whole."""
    from scipy.special import betaincinv  # takes a while to load

    tail = failure / 2.0
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1), n - hits + 1, tail), 0.0)
    high = np.where(hits < n, betaincinv(hits + 1, np.where(hits < n, n - hits, 1), 1.0 - tail), 1.0)
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
        low, high = survival_band(1.0 - self.cdf(x), self.n, self.failure, self.error)
        return 1.0 - high, 1.0 - low


def estimate_with_band(name: str, arm: Sample, support: Support, failure: float) -> ArmEstimate:
    """The estimate of an arm with its confidence band, interval or ball, for plots."""
    if isinstance(support, Binary):
        low, high = clopper_pearson(np.array([float(np.round(arm.p[arm.x == 1.0].sum() * arm.n))]), arm.n, failure)
        return ArmEstimate(
            name, arm.n, arm.x, arm.p, float(high[0] - low[0]), "interval", float(low[0]), float(high[0])
        )
    if isinstance(support, Real):
        size = float(radii.sub_gaussian_w1_radius(arm.n, support.sigma, np.log(1.0 / failure)))
        return ArmEstimate(name, arm.n, arm.x, arm.p, size, "ball")
    low, high = survival_band(np.array([0.5]), arm.n, failure, arm.error)
    size = 0.5 * float(high[0] - low[0])
    return BandedArm(name, arm.n, arm.x, arm.p, size, "band", failure=failure, error=arm.error)
