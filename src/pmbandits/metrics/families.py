"""The named preference metrics: the nine of the paper's table and those its readers expect beside them.

Conventions. u is a survival probability P(X > x), so h near 0 speaks about the best outcomes and h near 1 about
the worst. Rewards are gains: larger is better. "Best" and "worst" below are the upper and the lower tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, Monotonicity, Shape


def _set(instance: Distortion, name: str, value: float) -> None:
    object.__setattr__(instance, name, value)  # the dataclass is frozen once it is validated


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Distortion):
    """The expected reward: h(u) = u.

    **In one sentence:** what a unit of play earns on average.
    **Use it** as the yardstick, or as a term beside a tail or spread metric.

    >>> Mean().value([1.0, 2.0, 6.0])
    3.0
    """

    name: ClassVar[str] = "mean"
    formula: ClassVar[str] = "u"
    meaning: ClassVar[str] = "the average reward"
    use: ClassVar[str] = "as the yardstick, or as a term beside tail or spread"
    shape: ClassVar[Shape] = "linear"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def _h(self, u: FloatArray) -> FloatArray:
        return u + 0.0

    def _co(self, v: FloatArray) -> FloatArray:
        return -v

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.ones_like(u)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class DualPower(Distortion):
    """Dual power: h(u) = 1 − (1 − u)^s, s ≥ 1 (the paper takes s ≥ 2; its pair (1, s) holds from 1 on).

    **In one sentence:** for whole s, the expected best of s independent rewards.
    **Use it** when you get several tries and keep the best one.

    >>> import scipy.stats as st
    >>> round(DualPower(2).value(st.uniform()), 12)      # s / (s + 1)
    0.666666666667
    """

    s: float
    name: ClassVar[str] = "dual_power"
    formula: ClassVar[str] = "1 − (1−u)^s"
    meaning: ClassVar[str] = "the expected best of s independent rewards"
    use: ClassVar[str] = "when you get several tries and keep the best"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "s", _check.within("DualPower s", self.s, 1.0))

    @property
    def shape(self) -> Shape:
        return "linear" if self.s == 1.0 else "concave"

    def _h(self, u: FloatArray) -> FloatArray:
        return -np.expm1(self.s * np.log1p(-u))

    def _co(self, v: FloatArray) -> FloatArray:
        return -np.power(v, self.s)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.s * np.power(1.0 - u, self.s - 1.0)

    def _dco(self, v: FloatArray) -> FloatArray:
        return -self.s * np.power(v, self.s - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._d2co(1.0 - u)

    def _d2co(self, v: FloatArray) -> FloatArray:
        if self.s == 1.0:
            return np.zeros_like(v)
        return -self.s * (self.s - 1.0) * np.power(v, self.s - 2.0)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, self.s)


@dataclass(frozen=True, eq=False, repr=False)
class Quadratic(Distortion):
    """Quadratic: h(u) = (1 + s)u − su², 0 ≤ s ≤ 1; the mean plus s Gini deviations.

    **In one sentence:** the average reward with a premium of s for spread.
    **Use it** when variety is worth something but never more than reward itself.

    >>> import scipy.stats as st
    >>> round(Quadratic(1).value(st.uniform()), 12)
    0.666666666667
    """

    s: float
    name: ClassVar[str] = "quadratic"
    formula: ClassVar[str] = "(1+s)u − su²"
    meaning: ClassVar[str] = "the average with a premium of s for spread"
    use: ClassVar[str] = "when variety is worth something, but not more than reward"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "s", _check.within("Quadratic s", self.s, 0.0, 1.0))

    @property
    def shape(self) -> Shape:
        return "linear" if self.s == 0.0 else "concave"

    def _h(self, u: FloatArray) -> FloatArray:
        return u * (1.0 + self.s * (1.0 - u))

    def _co(self, v: FloatArray) -> FloatArray:
        return -v * (1.0 - self.s + self.s * v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return 1.0 + self.s - 2.0 * self.s * u

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -2.0 * self.s)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0 + self.s)


@dataclass(frozen=True, eq=False, repr=False)
class CVaR(Distortion):
    """Upper conditional value at risk, also called expected shortfall: h(u) = min(u / (1 − c), 1).

    **In one sentence:** the average of the *best* 1 − c share of rewards.
    **Use it** when the top end pays (hits, discoveries), or for losses written as positive numbers.
    Most CVaR-bandit papers maximise the average of the *worst* share of rewards: that is :class:`LowerCVaR`.

    >>> CVaR(0.5).value([1.0, 2.0, 3.0, 4.0])
    3.5
    """

    c: float
    name: ClassVar[str] = "cvar"
    formula: ClassVar[str] = "min(u/(1−c), 1)"
    meaning: ClassVar[str] = "the average of the best 1−c share of rewards"
    use: ClassVar[str] = "when the top end pays, or for losses written as positive numbers"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "c", _check.within("CVaR c", self.c, 0.0, 1.0, open_hi=True))

    @property
    def shape(self) -> Shape:
        return "linear" if self.c == 0.0 else "concave"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return () if self.c == 0.0 else ((1.0 - self.c, -1.0 / (1.0 - self.c)),)

    def _h(self, u: FloatArray) -> FloatArray:
        return np.minimum(u / (1.0 - self.c), 1.0)

    def _co(self, v: FloatArray) -> FloatArray:
        return -np.maximum(v - self.c, 0.0) / (1.0 - self.c)

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.where(u <= 1.0 - self.c, 1.0 / (1.0 - self.c), 0.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _critical(self) -> Sequence[float]:
        return () if self.c == 0.0 else (1.0 - self.c,)  # where the flat part begins

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0 / (1.0 - self.c))


@dataclass(frozen=True, eq=False, repr=False)
class PHT(Distortion):
    """Proportional hazard transform: h(u) = u^s, 0 < s ≤ 1.

    **In one sentence:** the average reward with the tail of rare large rewards made fatter.
    **Use it** when rare large gains matter more than their probability says. Needs bounded rewards (h'(0) = ∞).

    >>> import scipy.stats as st
    >>> round(PHT(0.5).value(st.expon()), 9)             # 1 / s
    2.0
    """

    s: float
    name: ClassVar[str] = "pht"
    formula: ClassVar[str] = "u^s"
    meaning: ClassVar[str] = "the average with the tail of rare large rewards made fatter"
    use: ClassVar[str] = "when rare large gains matter more than their probability says"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "s", _check.within("PHT s", self.s, 0.0, 1.0, open_lo=True))

    @property
    def shape(self) -> Shape:
        return "linear" if self.s == 1.0 else "concave"

    def _h(self, u: FloatArray) -> FloatArray:
        return np.power(u, self.s)

    def _co(self, v: FloatArray) -> FloatArray:
        return np.expm1(self.s * np.log1p(-v))

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.s * np.power(u, self.s - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        if self.s == 1.0:
            return np.zeros_like(u)
        return self.s * (self.s - 1.0) * np.power(u, self.s - 2.0)

    def _modulus(self) -> tuple[float, float]:
        return (self.s, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class MeanMedianDeviation(Distortion):
    """Mean–median deviation: h(u) = min(u, 1 − u); the mean distance from the median.

    **In one sentence:** how far a reward typically lies from the middle one.
    **Use it** to reward spread without letting outliers dominate.

    >>> MeanMedianDeviation().value([0.0, 1.0, 5.0])     # (1 + 0 + 4) / 3
    1.6666666666666665
    """

    name: ClassVar[str] = "mean_median_deviation"
    formula: ClassVar[str] = "min(u, 1−u)"
    meaning: ClassVar[str] = "how far a reward typically lies from the median"
    use: ClassVar[str] = "to reward spread without letting outliers dominate"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"
    kinks: ClassVar[Sequence[tuple[float, float]]] = ((0.5, -2.0),)

    def _h(self, u: FloatArray) -> FloatArray:
        return np.minimum(u, 1.0 - u)

    def _co(self, v: FloatArray) -> FloatArray:
        return np.minimum(v, 1.0 - v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.where(u <= 0.5, 1.0, -1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _critical(self) -> Sequence[float]:
        return (0.5,)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class InterESRange(Distortion):
    """Inter-expected-shortfall range: h(u) = min(u/(1−c), 1) − max(0, (u−c)/(1−c)), 0 < c < 1.

    **In one sentence:** the average of the best 1 − c share minus the average of the worst 1 − c share.
    **Use it** to reward a wide gap between good and bad outcomes (stress tests, diverse portfolios).

    >>> InterESRange(0.5).value([1.0, 2.0, 3.0, 4.0])    # 3.5 − 1.5
    2.0
    """

    c: float = 0.5
    name: ClassVar[str] = "inter_es_range"
    formula: ClassVar[str] = "min(u/(1−c), 1) − max(0, (u−c)/(1−c))"
    meaning: ClassVar[str] = "average of the best 1−c share minus average of the worst"
    use: ClassVar[str] = "to reward a wide gap between good and bad outcomes"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    def __post_init__(self) -> None:
        _set(self, "c", _check.within("InterESRange c", self.c, 0.0, 1.0, open_lo=True, open_hi=True))

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        bend = -1.0 / (1.0 - self.c)
        return ((0.5, 2.0 * bend),) if self.c == 0.5 else ((self.c, bend), (1.0 - self.c, bend))

    def _h(self, u: FloatArray) -> FloatArray:
        return np.minimum(u / (1.0 - self.c), 1.0) - np.maximum(u - self.c, 0.0) / (1.0 - self.c)

    def _co(self, v: FloatArray) -> FloatArray:
        return self._h(v)  # h is symmetric about 1/2

    def _dh(self, u: FloatArray) -> FloatArray:
        rising = (u <= 1.0 - self.c).astype(np.float64)
        return (rising - (u > self.c)) / (1.0 - self.c)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _critical(self) -> Sequence[float]:
        return (min(self.c, 1.0 - self.c), max(self.c, 1.0 - self.c))

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0 / (1.0 - self.c))


@dataclass(frozen=True, eq=False, repr=False)
class WangRightTail(Distortion):
    """Wang's right-tail deviation: h(u) = √u − u.

    **In one sentence:** how much the rare large rewards stick out above the average.
    **Use it** to look for upside surprises. Needs bounded rewards (h'(0) = ∞).

    >>> import scipy.stats as st
    >>> round(WangRightTail().value(st.expon()), 9)
    1.0
    """

    name: ClassVar[str] = "wang_right_tail"
    formula: ClassVar[str] = "√u − u"
    meaning: ClassVar[str] = "how much the rare large rewards stick out"
    use: ClassVar[str] = "to look for upside surprises"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    def _h(self, u: FloatArray) -> FloatArray:
        root = np.sqrt(u)
        return root * (1.0 - root)

    def _co(self, v: FloatArray) -> FloatArray:
        return -np.sqrt(1.0 - v) * np.expm1(0.5 * np.log1p(-v))

    def _dh(self, u: FloatArray) -> FloatArray:
        return 0.5 / np.sqrt(u) - 1.0

    def _d2h(self, u: FloatArray) -> FloatArray:
        return -0.25 * np.power(u, -1.5)

    def _critical(self) -> Sequence[float]:
        return (0.25,)

    def _modulus(self) -> tuple[float, float]:
        return (0.5, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class GiniDeviation(Distortion):
    """Gini deviation: h(u) = u(1 − u); half the mean distance of two independent rewards.

    **In one sentence:** how different two rewards drawn one after the other are.
    **Use it** for variety and unpredictability: patrols, audits, A/B portfolios, exploration of a catalogue.

    >>> import scipy.stats as st
    >>> round(GiniDeviation().value(st.uniform()), 12)   # 1/6
    0.166666666667
    """

    name: ClassVar[str] = "gini_deviation"
    formula: ClassVar[str] = "u(1−u)"
    meaning: ClassVar[str] = "half the average distance between two rewards"
    use: ClassVar[str] = "for variety and unpredictability: patrols, audits, portfolios"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    def _h(self, u: FloatArray) -> FloatArray:
        return u * (1.0 - u)

    def _co(self, v: FloatArray) -> FloatArray:
        return v * (1.0 - v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return 1.0 - 2.0 * u

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -2.0)

    def _critical(self) -> Sequence[float]:
        return (0.5,)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class VaR(Distortion):
    """Value at risk, the c-quantile: h(u) = 1 if u > 1 − c else 0, 0 < c < 1.

    **In one sentence:** the smallest reward that at least a share c of the rewards does not exceed.
    **Use it** for service levels ("nine in ten below …"). It ignores how bad or good the tail beyond is, and it
    jumps, so no continuity bound holds: prefer :class:`CVaR` or :class:`LowerCVaR` where you can choose.

    >>> VaR(0.9).value(range(1, 11))
    9.0
    """

    c: float
    name: ClassVar[str] = "var"
    formula: ClassVar[str] = "1{u > 1−c}"
    meaning: ClassVar[str] = "the c-quantile of the rewards"
    use: ClassVar[str] = "for service levels; it ignores the size of the tail beyond"
    shape: ClassVar[Shape] = "neither"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "c", _check.within("VaR c", self.c, 0.0, 1.0, open_lo=True, open_hi=True))

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return ((1.0 - self.c, 1.0),)

    def _h(self, u: FloatArray) -> FloatArray:
        return np.where(u - (1.0 - self.c) > JUMP_TOLERANCE, 1.0, 0.0)

    def _co(self, v: FloatArray) -> FloatArray:
        return np.where(self.c - v > JUMP_TOLERANCE, 0.0, -1.0)

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _modulus(self) -> str:
        return "its distortion jumps, so two distributions however close can differ by the whole jump"


@dataclass(frozen=True, eq=False, repr=False)
class LowerCVaR(Distortion):
    """Lower-tail conditional value at risk: h(u) = max(0, (u − 1 + α)/α), 0 < α ≤ 1.

    **In one sentence:** the average of the *worst* α share of rewards.
    **Use it** to be safe against bad outcomes: what most CVaR bandits maximise. Convex, so one arm is always best.

    >>> LowerCVaR(0.5).value([1.0, 2.0, 3.0, 4.0])
    1.5
    """

    alpha: float
    name: ClassVar[str] = "lower_cvar"
    formula: ClassVar[str] = "max(0, (u−1+α)/α)"
    meaning: ClassVar[str] = "the average of the worst α share of rewards"
    use: ClassVar[str] = "to be safe against bad outcomes; one arm is always best"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "alpha", _check.within("LowerCVaR alpha", self.alpha, 0.0, 1.0, open_lo=True))

    @property
    def shape(self) -> Shape:
        return "linear" if self.alpha == 1.0 else "convex"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return () if self.alpha == 1.0 else ((1.0 - self.alpha, 1.0 / self.alpha),)

    def _h(self, u: FloatArray) -> FloatArray:
        return np.maximum(u - (1.0 - self.alpha), 0.0) / self.alpha

    def _co(self, v: FloatArray) -> FloatArray:
        return -np.minimum(v / self.alpha, 1.0)

    def _dh(self, u: FloatArray) -> FloatArray:
        if self.alpha == 1.0:
            return np.ones_like(u)
        return np.where(u > 1.0 - self.alpha, 1.0 / self.alpha, 0.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0 / self.alpha)


@dataclass(frozen=True, eq=False, repr=False)
class GiniShortfall(Distortion):
    """Gini shortfall: h(u) = w + 2·loading·w(1 − w) with w = min(u/(1−p), 1), 0 ≤ p < 1, loading ≥ 0.

    **In one sentence:** the average of the best 1 − p share plus a premium for spread inside that share.
    **Use it** when the size of the top end and its variety both count. Concave (coherent) for loading ≤ ½.

    >>> round(GiniShortfall(p=0.0, loading=0.5).value([0.0, 1.0]), 12)  # mean + ½·E|X − X'|
    0.75
    """

    p: float
    loading: float
    name: ClassVar[str] = "gini_shortfall"
    formula: ClassVar[str] = "w + 2λw(1−w), w = min(u/(1−p), 1)"
    meaning: ClassVar[str] = "average of the best 1−p share plus λ times its Gini spread"
    use: ClassVar[str] = "when the size of the top end and its variety both count"

    def __post_init__(self) -> None:
        _set(self, "p", _check.within("GiniShortfall p", self.p, 0.0, 1.0, open_hi=True))
        _set(self, "loading", _check.within("GiniShortfall loading", self.loading, 0.0))

    @property
    def shape(self) -> Shape:
        if self.p == 0.0:
            return "concave" if self.loading > 0.0 else "linear"
        return "concave" if self.loading <= 0.5 else "neither"

    @property
    def monotonicity(self) -> Monotonicity:
        return "increasing" if self.loading <= 0.5 else "neither"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        bend = (2.0 * self.loading - 1.0) / (1.0 - self.p)
        return () if self.p == 0.0 or bend == 0.0 else ((1.0 - self.p, bend),)

    def _h(self, u: FloatArray) -> FloatArray:
        w = np.minimum(u / (1.0 - self.p), 1.0)
        return w * (1.0 + 2.0 * self.loading * (1.0 - w))

    def _co(self, v: FloatArray) -> FloatArray:
        z = np.maximum(v - self.p, 0.0) / (1.0 - self.p)
        return z * ((2.0 * self.loading - 1.0) - 2.0 * self.loading * z)

    def _dh(self, u: FloatArray) -> FloatArray:
        w = u / (1.0 - self.p)
        inside = (1.0 + 2.0 * self.loading * (1.0 - 2.0 * w)) / (1.0 - self.p)
        return np.where(u <= 1.0 - self.p, inside, 0.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.where(u <= 1.0 - self.p, -4.0 * self.loading / (1.0 - self.p) ** 2, 0.0)

    def _critical(self) -> Sequence[float]:
        if self.loading <= 0.5:
            return () if self.p == 0.0 else (1.0 - self.p,)
        peak = (1.0 - self.p) * (0.5 + 0.25 / self.loading)
        return (peak,) if self.p == 0.0 else (peak, 1.0 - self.p)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, (1.0 + 2.0 * self.loading) / (1.0 - self.p))


@dataclass(frozen=True, eq=False, repr=False)
class InterQuantileRange(Distortion):
    """Inter-quantile range: h(u) = 1 if 1 − upper < u ≤ 1 − lower else 0.

    **In one sentence:** the distance between the lower and the upper quantile.
    **Use it** for a spread that no outlier can move. It jumps, so no continuity bound holds.

    >>> InterQuantileRange().value([1.0, 2.0, 3.0, 4.0])
    2.0
    """

    lower: float = 0.25
    upper: float = 0.75
    name: ClassVar[str] = "inter_quantile_range"
    formula: ClassVar[str] = "1{1−upper < u ≤ 1−lower}"
    meaning: ClassVar[str] = "the distance between two quantiles"
    use: ClassVar[str] = "for a spread that no outlier can move"
    shape: ClassVar[Shape] = "neither"
    monotonicity: ClassVar[Monotonicity] = "neither"

    def __post_init__(self) -> None:
        lower = _check.within("InterQuantileRange lower", self.lower, 0.0, 1.0, open_lo=True, open_hi=True)
        upper = _check.within("InterQuantileRange upper", self.upper, 0.0, 1.0, open_lo=True, open_hi=True)
        if lower >= upper:
            raise ValueError(f"InterQuantileRange needs lower < upper, got lower={lower:g} and upper={upper:g}.")
        _set(self, "lower", lower)
        _set(self, "upper", upper)

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return ((1.0 - self.upper, 1.0), (1.0 - self.lower, -1.0))

    def _h(self, u: FloatArray) -> FloatArray:
        above = u - (1.0 - self.upper) > JUMP_TOLERANCE
        return np.where(above & ~(u - (1.0 - self.lower) > JUMP_TOLERANCE), 1.0, 0.0)

    def _co(self, v: FloatArray) -> FloatArray:
        above = self.upper - v > JUMP_TOLERANCE
        return np.where(above & ~(self.lower - v > JUMP_TOLERANCE), 1.0, 0.0)

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _critical(self) -> Sequence[float]:
        return (1.0 - self.lower,)

    def _modulus(self) -> str:
        return "its distortion jumps, so two distributions however close can differ by the whole jump"


@dataclass(frozen=True, eq=False, repr=False)
class InvertedS(Distortion):
    """Inverted-S (Prelec): h(u) = exp(−(−ln u)^β), β > 0.

    **In one sentence:** probabilities as people feel them: β < 1 overweights rare events at both ends, β > 1
    underweights them.
    **Use it** to model human attention to rare delays, losses or wins.

    >>> round(InvertedS(0.5)(0.01), 4), round(InvertedS(2.0)(0.5), 4)
    (0.117, 0.6185)
    """

    beta: float
    name: ClassVar[str] = "inverted_s"
    formula: ClassVar[str] = "exp(−(−ln u)^β)"
    meaning: ClassVar[str] = "rare events overweighted (β<1) or underweighted (β>1)"
    use: ClassVar[str] = "to model human attention to rare delays, losses or wins"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "beta", _check.within("InvertedS beta", self.beta, 0.0, open_lo=True))

    @property
    def shape(self) -> Shape:
        return "linear" if self.beta == 1.0 else "neither"

    def _h(self, u: FloatArray) -> FloatArray:
        return np.exp(-np.power(-np.log(u), self.beta))

    def _co(self, v: FloatArray) -> FloatArray:
        return np.expm1(-np.power(-np.log1p(-v), self.beta))

    def _slope(self, depth: FloatArray) -> FloatArray:
        """h' as a function of −ln u."""
        edge = np.inf if self.beta < 1.0 else (1.0 if self.beta == 1.0 else 0.0)
        inside = self.beta * np.power(depth, self.beta - 1.0) * np.exp(depth - np.power(depth, self.beta))
        return np.where(np.isinf(depth), edge, inside)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._slope(-np.log(u))

    def _dco(self, v: FloatArray) -> FloatArray:
        return -self._slope(-np.log1p(-v))

    def _d2h(self, u: FloatArray) -> FloatArray:
        depth = -np.log(u)
        bend = (self.beta - 1.0) / depth + 1.0 - self.beta * np.power(depth, self.beta - 1.0)
        return -self._slope(depth) / u * bend

    def _modulus(self) -> tuple[float, float] | str:
        if self.beta < 1.0:
            return "for beta < 1 it rises from 0 faster than every power u^q"
        # β > 1: h' vanishes at both ends; its largest value in between is the Lipschitz constant.
        depth = np.exp(np.linspace(-12.0, 12.0, 200_001))
        with np.errstate(all="ignore"):
            return (1.0, float(np.nanmax(self._slope(depth))) * (1.0 + 1e-7))


@dataclass(frozen=True, eq=False, repr=False)
class TsallisPastEntropy(Distortion):
    """Cumulative Tsallis past entropy: h(u) = ((1−u) − (1−u)^α)/(α − 1), α > 0; −(1−u)·ln(1−u) at α = 1.

    **In one sentence:** how unpredictable the rewards are, counted along their CDF; α = 2 is the Gini deviation.
    **Use it** as an entropy that is measured in units of reward; a smaller α looks more at the low end.

    >>> TsallisPastEntropy(2.0)(0.3) == GiniDeviation()(0.3)
    True
    """

    alpha: float
    name: ClassVar[str] = "tsallis_past_entropy"
    formula: ClassVar[str] = "((1−u) − (1−u)^α)/(α−1)"
    meaning: ClassVar[str] = "unpredictability counted along the CDF, in units of reward"
    use: ClassVar[str] = "as an entropy of rewards; a smaller α looks more at the low end"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    def __post_init__(self) -> None:
        _set(self, "alpha", _check.within("TsallisPastEntropy alpha", self.alpha, 0.0, open_lo=True))

    def _from_log(self, v: FloatArray, log_v: FloatArray) -> FloatArray:
        if self.alpha == 2.0:
            return v * (1.0 - v)
        if self.alpha == 1.0:
            out = -v * log_v
        else:
            out = -v * np.expm1((self.alpha - 1.0) * log_v) / (self.alpha - 1.0)
        return np.where(v <= 0.0, 0.0, out)

    def _h(self, u: FloatArray) -> FloatArray:
        return self._from_log(1.0 - u, np.log1p(-u)) if self.alpha != 2.0 else u * (1.0 - u)

    def _co(self, v: FloatArray) -> FloatArray:
        return self._from_log(v, np.log(v))

    def _dh(self, u: FloatArray) -> FloatArray:
        return -self._dco(1.0 - u)

    def _dco(self, v: FloatArray) -> FloatArray:
        if self.alpha == 1.0:
            return -np.log(v) - 1.0
        return -np.expm1(np.log(self.alpha) + (self.alpha - 1.0) * np.log(v)) / (self.alpha - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._d2co(1.0 - u)

    def _d2co(self, v: FloatArray) -> FloatArray:
        return -self.alpha * np.power(v, self.alpha - 2.0)

    def _critical(self) -> Sequence[float]:
        if abs(self.alpha - 1.0) < 1e-9:
            return (1.0 - np.exp(-1.0),)
        return (float(-np.expm1(-np.log(self.alpha) / (self.alpha - 1.0))),)

    def _modulus(self) -> tuple[float, float]:
        if self.alpha > 1.0:
            return (1.0, max(1.0, 1.0 / (self.alpha - 1.0)))
        if self.alpha == 1.0:
            return (0.5, 2.0 / math.e)
        return (self.alpha, 1.0 / (1.0 - self.alpha))


@dataclass(frozen=True, eq=False, repr=False)
class WangTransform(Distortion):
    """Wang transform: h(u) = Φ(Φ⁻¹(u) + shift).

    **In one sentence:** the average after every probability is shifted by ``shift`` standard normal units.
    **Use it** as insurers do: a positive shift is optimistic about gains (concave), a negative one cautious
    (convex). Needs bounded rewards where a Hölder pair is needed; its exponent can be any q < 1, we state q = ½.

    >>> import scipy.stats as st
    >>> round(WangTransform(0.5).value(st.norm(1, 2)), 9)        # 1 + 0.5·2
    2.0
    """

    shift: float
    name: ClassVar[str] = "wang_transform"
    formula: ClassVar[str] = "Φ(Φ⁻¹(u) + shift)"
    meaning: ClassVar[str] = "the average after shifting probabilities by normal units"
    use: ClassVar[str] = "as insurers do: shift > 0 is optimistic about gains, < 0 cautious"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "shift", _check.number("WangTransform shift", self.shift))

    @property
    def shape(self) -> Shape:
        return "linear" if self.shift == 0.0 else ("concave" if self.shift > 0.0 else "convex")

    def _h(self, u: FloatArray) -> FloatArray:
        return np.asarray(ndtr(ndtri(u) + self.shift))

    def _co(self, v: FloatArray) -> FloatArray:
        return np.asarray(-ndtr(ndtri(v) - self.shift))

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._ratio(ndtri(u))

    def _dco(self, v: FloatArray) -> FloatArray:
        return -self._ratio(-ndtri(v))

    def _ratio(self, x: FloatArray) -> FloatArray:
        if self.shift == 0.0:
            return np.ones_like(x)
        return np.exp(-self.shift * x - 0.5 * self.shift**2)

    def _d2h(self, u: FloatArray) -> FloatArray:
        x = ndtri(u)
        return -self.shift * np.exp(-self.shift * x - 0.5 * self.shift**2 + 0.5 * x * x) * np.sqrt(2.0 * np.pi)

    def _modulus(self) -> tuple[float, float]:
        if self.shift == 0.0:
            return (1.0, 1.0)
        # h (or its mirror image) is concave and increasing, so sup |h(u) − h(v)|/|u − v|^½ is reached from 0.
        x = np.linspace(-37.0, 8.0, 90_001)
        ratio = ndtr(x + abs(self.shift)) / np.sqrt(ndtr(x))
        return (0.5, float(ratio.max()) * (1.0 + 1e-6))


@dataclass(frozen=True, eq=False, repr=False)
class TverskyKahneman(Distortion):
    """Tversky–Kahneman weighting: h(u) = u^γ / (u^γ + (1−u)^γ)^(1/γ), 0.28 ≤ γ ≤ 1 (monotone there).

    **In one sentence:** the probability weighting of prospect theory; γ = 0.61 fits people's gains.
    **Use it** to play for people who overweight rare wins and rare failures.

    >>> round(TverskyKahneman(0.61)(0.01), 4)
    0.0553
    """

    gamma: float
    name: ClassVar[str] = "tversky_kahneman"
    formula: ClassVar[str] = "u^γ / (u^γ + (1−u)^γ)^(1/γ)"
    meaning: ClassVar[str] = "the probability weighting of prospect theory"
    use: ClassVar[str] = "to play for people who overweight rare wins and failures"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    def __post_init__(self) -> None:
        _set(self, "gamma", _check.within("TverskyKahneman gamma", self.gamma, 0.28, 1.0))

    @property
    def shape(self) -> Shape:
        return "linear" if self.gamma == 1.0 else "neither"

    def _h(self, u: FloatArray) -> FloatArray:
        g = self.gamma
        top = np.power(u, g)
        return top * np.power(top + np.power(1.0 - u, g), -1.0 / g)

    def _co(self, v: FloatArray) -> FloatArray:
        g = self.gamma
        log_u = np.log1p(-v)
        log_sum = np.log1p(np.power(v, g) + np.expm1(g * log_u))
        return np.where(v >= 1.0, -1.0, np.expm1(g * log_u - log_sum / g))

    def _slope(self, u: FloatArray, v: FloatArray, h: FloatArray) -> FloatArray:
        g = self.gamma
        total = np.power(u, g) + np.power(v, g)
        inside = h * (g / u - (np.power(u, g - 1.0) - np.power(v, g - 1.0)) / total)
        edge = np.inf if g < 1.0 else 1.0
        return np.where((u <= 0.0) | (v <= 0.0), edge, inside)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._slope(u, 1.0 - u, self._h(u))

    def _dco(self, v: FloatArray) -> FloatArray:
        return -self._slope(1.0 - v, v, 1.0 + self._co(v))

    def _modulus(self) -> tuple[float, float]:
        # sup |h(u) − h(v)|/|u − v|^γ is the limit at 1, 1/γ (found numerically for γ from .28 to 1).
        return (self.gamma, 1.0 / self.gamma)
