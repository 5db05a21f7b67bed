"""Bounds that hold for data that were not designed: bands, a held-out half, and resampling.

Three tools, each for what it is good at.

*Bands.* With probability ``level`` every arm's true CDF lies within its band at once (Massart's constant in the
Dvoretzky–Kiefer–Wolfowitz inequality, shared by the arms; exact Clopper–Pearson intervals for rewards 0 and 1). What
is the least and the most that a mixture could be worth inside the bands holds for *every* mixture, so also for the
one that was chosen after looking. Valid at every sample size, and wide.

*A held-out half.* The mixture is chosen on one random half of each arm's rewards and compared with every single arm
on the other half, where it has no advantage from having been chosen. The difference is compared with its standard
error (the delta method, with one made-up reward at each end of what was seen so that few or rare rewards do not look
certain; where a curve lies near a corner of h, what the corner may add). Narrow, and right up to the normal
approximation.

*Resampling.* Rewards are drawn again within each arm and the best mixture is found again each time; the basic
interval [2V − q₁, 2V − q₀] takes out the optimism of having picked the best in hindsight, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import betaincinv, stdtrit

from pmbandits._check import FloatArray
from pmbandits.best.concave import maximise_concave
from pmbandits.best.search import starts_of_search
from pmbandits.best.values import values_of
from pmbandits.confidence import radii as formulas
from pmbandits.logs import ArmLog, thin
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms
from pmbandits.metrics.pool import AtomPool
from pmbandits.supports import Binary, Interval, Real, Support

TIE = 1e-9  # a mixture that gains less than this share is not one
_PARTS = 16  # pieces of an arm's band in which the difference to a mixture is bounded
_SWAY = 2.5  # standard errors that a curve may be off, where h has corners
_FEWEST = 10  # rewards of an arm in each half, below which nothing is concluded from the halves
_CONTENDERS = 16  # arms that are resampled, where there are more
_RESAMPLED = 1_024  # points of an arm that are resampled


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
            return self.base * float(metric(1.0)) + float(metric._h(_clip(weights @ self.curves)) @ self.widths)

    def value_bounds(self, metric: Distortion, weights: FloatArray) -> tuple[float, float]:
        """The least and the most that a mixture is worth if every curve lies in its band."""
        low, high = extremes(metric, _clip(weights @ self.low), _clip(weights @ self.high))
        shift = self.base * float(metric(1.0))
        return shift + float(low @ self.widths), shift + float(high @ self.widths)

    def difference_bounds(self, metric: Distortion, weights: FloatArray, arm: int) -> tuple[float, float]:
        """The same of the difference to a single arm; the arm's own curve is the same one on both sides.

        The band of the arm is cut into pieces; within a piece the arm's h and the mixture's h are bounded apart.
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
            mixed_low, mixed_high = extremes(metric, _clip(share * a + rest_low), _clip(share * b + rest_high))
            least = np.minimum(least, mixed_low - alone_high)
            most = np.maximum(most, mixed_high - alone_low)
        return float(least @ self.widths), float(most @ self.widths)


def _clip(curve: FloatArray) -> FloatArray:
    return np.clip(curve, 0.0, 1.0)


def lay(arms: Sequence[tuple[int, FloatArray, FloatArray]], support: Support, radii: FloatArray | None) -> Laid:
    """The arms (n, x, p) on common cells of the support; without radii the bands are the curves themselves.

    For rewards 0 and 1 the radii are probabilities of failure, for all other bounded supports radii of bands.
    """
    ends = [] if isinstance(support, Real) else [support.lo, support.hi]
    points = np.unique(np.concatenate([*(x for _, x, _ in arms), np.array(ends)]))
    if points.size == 1:
        points = np.append(points, points[0] + 1.0)  # nothing varies: one cell, in which nobody is
    curves = np.stack([Atoms(x, p).sf(points[:-1]) for _, x, p in arms])
    if radii is None or isinstance(support, Real):
        low = high = curves
    elif isinstance(support, Binary):
        low, high = np.empty_like(curves), np.empty_like(curves)
        for k, (n, _, _) in enumerate(arms):
            hits = np.round(curves[k] * n)
            tail = radii[k] / 2.0
            low[k] = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
            high[k] = np.where(hits < n, betaincinv(hits + 1, np.maximum(n - hits, 1), 1.0 - tail), 1.0)
    else:
        low, high = _clip(curves - radii[:, None]), _clip(curves + radii[:, None])
    return Laid(float(points[0]), np.diff(points), points, curves, low, high)


def radii(arms: Sequence[ArmLog], support: Support, level: float) -> FloatArray:
    """The radius of each arm's set (for rewards 0 and 1 its probability of failure); all hold at once at ``level``.

    The arms' rewards are independent, so each set may fail with probability 1 − level^(1/K). Where rewards were
    summarised, the error of the summary is added.
    """
    each = -np.expm1(np.log(level) / len(arms))
    if isinstance(support, Binary):
        return np.full(len(arms), each)
    n = np.array([arm.n for arm in arms], dtype=np.float64)
    error = np.array([arm.error for arm in arms])
    if isinstance(support, Real):
        return np.asarray(formulas.subgaussian_ball(n, support.sigma, np.log(1.0 / each)))
    return np.asarray(formulas.band(n, np.log(2.0 / each)) + error)


class Bands:
    """Valid bounds, for every mixture at once, of utilities and of differences to a single arm.

    Only the arms that a mixture uses are laid side by side; an arm that it does not use is bounded apart.

    Parameters
    ----------
    shrink : look ahead to that many times as many rewards.
    """

    def __init__(
        self, metric: Distortion, arms: Sequence[ArmLog], support: Support, level: float, shrink: float = 1.0
    ) -> None:
        self.metric, self.support = metric, support
        size = radii(arms, support, level)
        self.binary = isinstance(support, Binary)
        self.radii = size if self.binary else size / np.sqrt(shrink)
        self.arms = [(round(arm.n * shrink), arm.x, arm.p) for arm in arms]
        self.steepness = 0.0  # for rewards without bounds: how far U_h moves with the Wasserstein distance
        if isinstance(support, Real):
            try:
                self.steepness = metric.holder(support).constant
            except ValueError:
                self.steepness = np.inf
        self._laid: dict[tuple[int, ...], Laid] = {}

    def laid(self, weights: FloatArray) -> tuple[Laid, FloatArray]:
        """The arms that a mixture uses, side by side, and their shares."""
        used = np.flatnonzero(weights > 0.0)
        key = tuple(used.tolist())
        if key not in self._laid:
            if len(key) > 1:
                self._laid = {}  # one mixture at a time is looked at
            found = lay([self.arms[k] for k in key], self.support, self.radii[used])
            if len(key) == 1:
                return found, weights[used]
            self._laid[key] = found
        return self._laid[key], weights[used]

    def value(self, weights: FloatArray) -> tuple[float, float]:
        """Least and most utility of a mixture."""
        laid, shares = self.laid(weights)
        if not isinstance(self.support, Real):
            return laid.value_bounds(self.metric, shares)
        middle, away = laid.value(self.metric, shares), self.steepness * float(weights @ self.radii)
        return middle - away, middle + away

    def difference(self, weights: FloatArray, arm: int) -> tuple[float, float]:
        """Least and most utility of a mixture minus that of a single arm."""
        share = float(weights[arm])
        if share == 1.0:
            return 0.0, 0.0
        if share > 0.0 and not isinstance(self.support, Real):
            laid, shares = self.laid(weights)
            return laid.difference_bounds(self.metric, shares, int(np.count_nonzero(weights[:arm] > 0.0)))
        (low, high), (least, most) = self.value(weights), self.value(np.eye(weights.size)[arm])
        return low - most, high - least

    def gain(self, weights: FloatArray, rivals: Sequence[int]) -> tuple[float, float]:
        """Least and most utility of a mixture minus that of the best of some single arms."""
        both = [self.difference(weights, j) for j in rivals]
        return min(low for low, _ in both), min(high for _, high in both)


@dataclass(frozen=True)
class HeldOut:
    """A mixture chosen on one half of the rewards, measured on the other.

    Attributes
    ----------
    weights : what the first half recommends.
    gain : how much more it is worth than the best single arm, on the second half.
    error : standard error of the closest comparison.
    lower : below this the true gain lies with probability at most 1 − confidence.
    rival : the single arm of the closest comparison.
    """

    weights: FloatArray
    gain: float
    error: float
    lower: float
    rival: int


def held_out(
    metric: Distortion,
    weights: FloatArray,
    half: Sequence[tuple[int, FloatArray, FloatArray, float]],
    support: Support,
    confidence: float,
) -> HeldOut | None:
    """How a mixture that these rewards did not choose compares with every single arm.

    The mixture beats all single arms only if it beats each of them, so each comparison may use the whole error
    probability. ``None`` where h has jumps (a standard error says little there) or an arm has too few rewards.
    """
    if metric.jumps or min(n for n, *_ in half) < _FEWEST:
        return None
    rivals = [j for j in range(weights.size) if weights[j] < 1.0]
    if not rivals:
        return None
    used: list[int] = np.flatnonzero(weights > 0.0).tolist()
    shares = weights[used]
    ends = min(float(x[0]) for _, x, _, _ in half), max(float(x[-1]) for _, x, _, _ in half)
    mixed = _Scores(metric, [half[i] for i in used], shares, support, ends)
    found = []
    for j in rivals:
        if weights[j] > 0.0:  # the same rewards on both sides
            at = int(np.count_nonzero(weights[:j] > 0.0))
            gain, variance = mixed.value - mixed.alone(at), mixed.variance(at)
            slack = gain - mixed.slack.difference_bounds(metric, shares, at)[0] if mixed.summarised else 0.0
            slack += mixed.corners() + mixed.corners(at)
            fewest = min(half[i][0] for i in used)
        else:
            other = _Scores(metric, [half[j]], np.ones(1), support, ends)
            gain, variance = mixed.value - other.value, mixed.variance() + other.variance()
            slack = mixed.value - mixed.slack.value_bounds(metric, shares)[0]
            slack += other.slack.value_bounds(metric, np.ones(1))[1] - other.value
            slack += mixed.corners() + other.corners()
            fewest = min(half[j][0], *(half[i][0] for i in used))
        error = float(np.sqrt(variance))
        least = gain - float(stdtrit(fewest - 1.0, confidence)) * error - max(slack, 0.0)
        found.append((least, gain, error, j))
    least, _, error, rival = min(found)
    return HeldOut(weights, min(gain for _, gain, _, _ in found), error, least, rival)


class _Scores:
    """A mixture of some arms: its utility, and to first order what one more reward of an arm does to it."""

    def __init__(
        self,
        metric: Distortion,
        half: Sequence[tuple[int, FloatArray, FloatArray, float]],
        shares: FloatArray,
        support: Support,
        ends: tuple[float, float],
    ) -> None:
        self.metric, self.half, self.shares = metric, half, shares
        plain = [(n, x, p) for n, x, p, _ in half]
        if isinstance(support, Real) and ends[0] < ends[1]:
            support = Interval(*ends)
        self.laid = lay(plain, support, None)
        errors = np.array([e for *_, e in half])
        bounded = not isinstance(support, (Binary, Real))
        self.summarised = bounded and bool(errors.any())
        self.slack = lay(plain, support, errors) if self.summarised else self.laid
        self.smallest = 0.5 / max(n for n, *_ in half)
        self.value = self.laid.value(metric, shares)
        self.reach = _reach(metric, self.laid, shares, self.smallest)
        self.ends = np.asarray(ends)  # where the made-up rewards are: the ends of what was seen

    def alone(self, at: int) -> float:
        """The utility of one of the arms."""
        return self.laid.value(self.metric, np.eye(self.shares.size)[at])

    def corners(self, at: int | None = None) -> float:
        """What corners of h may add to the error of the mixture or of one of its arms.

        To first order h is a line; where a curve may lie on the other side of a corner it leaves the line by the
        change of slope times how far it may reach beyond. Next to nothing, unless a curve stays near a corner.
        """
        shares = self.shares if at is None else np.eye(self.shares.size)[at]
        curve, counts = shares @ self.laid.curves, np.array([[n] for n, *_ in self.half], dtype=np.float64)
        sway = self.laid.curves * (1.0 - self.laid.curves) / counts
        away = _SWAY * np.sqrt(np.maximum(shares**2 @ sway, 0.0))
        return sum(
            abs(jump) * float(self.laid.widths @ np.maximum(away - np.abs(curve - u), 0.0))
            for u, jump in self.metric.kinks
        )

    def variance(self, minus: int | None = None) -> float:
        """Of the mixture's utility, or of its difference to one of its arms."""
        total = 0.0
        for i, (n, x, p, _) in enumerate(self.half):
            score = self.shares[i] * self.reach
            if i == minus:
                score = score - _reach(self.metric, self.laid, np.eye(self.shares.size)[i], self.smallest)
            size = np.append(p * n, (1.0, 1.0)) / (n + 2.0)
            points = self.laid.points
            seen = np.append(score[np.searchsorted(points, x)], np.interp(self.ends, points, score))
            total += float(size @ (seen - size @ seen) ** 2) / n
        return total


def _reach(metric: Distortion, laid: Laid, weights: FloatArray, smallest: float) -> FloatArray:
    """∫ h'(S(t)) dt up to each point: what one more reward there does to the utility, to first order."""
    curve = np.clip(weights @ laid.curves, smallest, 1.0 - smallest)
    with np.errstate(all="ignore"):
        slope = metric._dh(curve)
    return np.concatenate(([0.0], np.cumsum(laid.widths * slope)))


@dataclass(frozen=True)
class Resampled:
    """Utilities found again on resampled rewards, as differences to those of the data.

    Attributes
    ----------
    best : of the best mixture, found again each time.
    gain : of the best mixture above the best single arm.
    how : how the best mixture was found again.
    """

    best: FloatArray
    gain: FloatArray
    how: str

    @property
    def optimism(self) -> float:
        """By how much the best mixture's utility in the data is too large on average, for having been picked."""
        return float(self.best.mean())

    def interval(self, value: float, differences: FloatArray, level: float) -> tuple[float, float]:
        """The basic interval: what resampling adds on average is taken off."""
        low, high = np.quantile(differences, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        return value - float(high), value - float(low)


def resample(
    metric: Distortion, arms: Sequence[ArmLog], weights: FloatArray, times: int, rng: np.random.Generator
) -> Resampled:
    """Draw rewards again within each arm; find the best mixture again each time."""
    among = ""
    if len(arms) > _CONTENDERS:
        alone = np.array([metric.value(arm.x, arm.p) for arm in arms])
        ahead = np.union1d(np.flatnonzero(weights > 0.0), np.argsort(-alone, kind="stable")[:_CONTENDERS]).tolist()
        among = f", among the {len(ahead)} arms that are played or best alone"
        arms, weights = [arms[i] for i in ahead], weights[ahead]
    k = len(arms)
    laws = []
    for arm in arms:
        x, p, _ = thin(arm.x, arm.p, _RESAMPLED)
        laws.append(Atoms(x, p / p.sum()))
    counts = [arm.n for arm in arms]
    drawn = [rng.multinomial(n, law.p, size=times) / n for n, law in zip(counts, laws, strict=True)]
    points = np.unique(np.concatenate([law.x for law in laws]))
    if points.size <= 2:
        return _resample_two_points(metric, laws, drawn, points, among)
    eye = np.eye(k)
    laid = AtomPool(laws)
    singles = np.array([laid.value(metric, row) for row in eye])
    if metric.shape in ("convex", "linear") or k == 1:
        how = "the best single arm, found again each time"
        rows = eye
    elif metric.shape == "concave":
        how = "the best mixture, found again each time"
        rows = eye
    else:
        how = "the best of a fixed set of mixtures, found again each time"
        near = [0.9 * weights + 0.1 * row for row in eye]
        grid = starts_of_search(k) if k <= 3 else np.zeros((0, k))
        rows = np.vstack((eye, weights, *near, grid[:: max(1, grid.shape[0] // 60)]))
    scale = max(float(np.abs(singles).max()), 1e-12 * float(laid.omega.sum()), 1e-300)
    start = 0.98 * weights + 0.02 / k
    first = float(max(laid.value(metric, weights), singles.max(), values_of(metric, laid, rows).max()))
    best, gain = np.empty(times), np.empty(times)
    for b in range(times):
        again = AtomPool([Atoms(law.x, mass[b]) for law, mass in zip(laws, drawn, strict=True)])
        values = values_of(metric, again, rows)
        top = float(values.max())
        if metric.shape == "concave" and k > 1:
            found, _ = maximise_concave(metric, again, start, accuracy=1e-4, scale=scale)
            top = max(top, again.value(metric, found))
        best[b] = top - first
        gain[b] = (top - float(values[:k].max())) - (first - float(singles.max()))
    return Resampled(best, gain, how + among)


def _resample_two_points(
    metric: Distortion, laws: Sequence[Atoms], drawn: Sequence[FloatArray], points: FloatArray, among: str
) -> Resampled:
    """Two rewards only: V = low·h(1) + (high − low)·h(share of the high one), and mixtures reach all between."""
    top = points[-1]
    width = float(points[-1] - points[0])
    share = np.stack([mass[:, law.x == top].sum(axis=1) for law, mass in zip(laws, drawn, strict=True)])
    now = np.array([[law.p[law.x == top].sum()] for law in laws])

    def both(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        best = width * extremes(metric, _clip(p.min(axis=0)), _clip(p.max(axis=0)))[1]
        with np.errstate(all="ignore"):
            alone = width * metric._h(_clip(p).ravel()).reshape(p.shape).max(axis=0)
        return best, best - alone

    (best, gain), (best_now, gain_now) = both(share), both(now)
    return Resampled(best - best_now, gain - gain_now, f"the best mixture, found again each time{among}")
