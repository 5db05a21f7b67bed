"""Metrics whose h is made of powers of u or of 1 − u: the average with a premium, and measures of spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.formulas import compile_with_formula, where
from pmbandits.metrics.numeric import Monotonicity, Shape


class DualPower(Family):
    """Dual power: h(u) = 1 − (1 − u)^s.

    Parameters
    ----------
    s : at least 1: how many tries. (The paper takes s ≥ 2; its Hölder pair (1, s) holds from 1 on.)

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(DualPower(2).value(st.uniform()), 12)      # s / (s + 1)
    0.666666666667
    """

    s: float = parameter(1.0, example=2.0)
    name = "dual_power"
    formula = "1 − (1−u)^s"
    meaning = "the expected best of s independent rewards"
    use = "when you get several tries and keep the best"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.s == 1.0 else "concave"

    @staticmethod
    def h(u: FloatArray, s: float) -> FloatArray:
        return -np.expm1(s * np.log1p(-u))

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -np.power(v, self.s)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.s * np.power(1.0 - u, self.s - 1.0)

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        return -self.s * np.power(v, self.s - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._negative_dual_d2h(1.0 - u)

    def _negative_dual_d2h(self, v: FloatArray) -> FloatArray:
        if self.s == 1.0:
            return np.zeros_like(v)
        return -self.s * (self.s - 1.0) * np.power(v, self.s - 2.0)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (1.0, self.s)

    def _power_coefficients(self) -> dict[float, float] | None:
        return {1.0: {1.0: 1.0}, 2.0: {1.0: 2.0, 2.0: -1.0}}.get(self.s)


class Quadratic(Family):
    """Quadratic: h(u) = (1 + s)u − su², which is the mean plus s Gini deviations.

    Parameters
    ----------
    s : the weight of the spread, from 0 to 1.

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(Quadratic(1).value(st.uniform()), 12)
    0.666666666667
    """

    s: float = parameter(0.0, 1.0, example=0.5)
    name = "quadratic"
    formula = "(1+s)u − su²"
    meaning = "the average with a premium of s for spread"
    use = "when variety is worth something, but not more than reward"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.s == 0.0 else "concave"

    @staticmethod
    def h(u: FloatArray, s: float) -> FloatArray:
        return u * (1.0 + s * (1.0 - u))

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -v * (1.0 - self.s + self.s * v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return 1.0 + self.s - 2.0 * self.s * u

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -2.0 * self.s)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (1.0, 1.0 + self.s)

    def _power_coefficients(self) -> dict[float, float]:
        return {1.0: 1.0 + self.s, 2.0: -self.s}


class PHT(Family):
    """Proportional hazard transform: h(u) = u^s.

    For s < 1 it needs bounded rewards, because h is vertical at 0.

    Parameters
    ----------
    s : above 0 and at most 1. With 1 it is the mean; the smaller s is, the more rare large rewards count.

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(PHT(0.5).value(st.expon()), 9)             # 1 / s
    2.0
    """

    s: float = parameter(0.0, 1.0, open_lo=True, example=0.5)
    name = "pht"
    formula = "u^s"
    meaning = "the average with the tail of rare large rewards made fatter"
    use = "when rare large gains matter more than their probability says"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.s == 1.0 else "concave"

    @staticmethod
    def h(u: FloatArray, s: float) -> FloatArray:
        return np.power(u, s)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return np.expm1(self.s * np.log1p(-v))

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.s * np.power(u, self.s - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        if self.s == 1.0:
            return np.zeros_like(u)
        return self.s * (self.s - 1.0) * np.power(u, self.s - 2.0)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (self.s, 1.0)

    def _power_coefficients(self) -> dict[float, float]:
        return {self.s: 1.0}


class WangRightTail(Family):
    """Wang's right-tail deviation: h(u) = √u − u.

    It needs bounded rewards, because h is vertical at 0.

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(WangRightTail().value(st.expon()), 9)
    1.0
    """

    name = "wang_right_tail"
    formula = "√u − u"
    meaning = "how much the rare large rewards stick out"
    use = "to look for upside surprises"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        root = np.sqrt(u)
        return root * (1.0 - root)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -np.sqrt(1.0 - v) * np.expm1(0.5 * np.log1p(-v))

    def _dh(self, u: FloatArray) -> FloatArray:
        return 0.5 / np.sqrt(u) - 1.0

    def _d2h(self, u: FloatArray) -> FloatArray:
        return -0.25 * np.power(u, -1.5)

    def _critical_points(self) -> Sequence[float]:
        return (0.25,)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (0.5, 1.0)

    def _power_coefficients(self) -> dict[float, float]:
        return {0.5: 1.0, 1.0: -1.0}


class GiniDeviation(Family):
    """Gini deviation: h(u) = u(1 − u), which is half the mean distance of two independent rewards.

    It does not make choices hard to guess.

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(GiniDeviation().value(st.uniform()), 12)   # 1/6
    0.166666666667
    """

    name = "gini_deviation"
    aliases = ("gini",)
    formula = "u(1−u)"
    meaning = "half the average distance between two rewards"
    use = "for variety: rewards that lie far apart"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return u * (1.0 - u)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return v * (1.0 - v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return 1.0 - 2.0 * u

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -2.0)

    def _critical_points(self) -> Sequence[float]:
        return (0.5,)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (1.0, 1.0)

    def _power_coefficients(self) -> dict[float, float]:
        return {1.0: 1.0, 2.0: -1.0}


class GiniShortfall(Family):
    """Gini shortfall: h(u) = w + 2·loading·w(1 − w) with w = min(u/(1−p), 1).

    Parameters
    ----------
    p : from 0 to below 1. The best 1 − p share of rewards counts.
    loading : the weight of the spread, 0 or more. Up to ½ the metric is concave (and coherent).

    Examples
    --------
    >>> round(GiniShortfall(p=0.0, loading=0.5).value([0.0, 1.0]), 12)  # mean + ½·E|X − X'|
    0.75
    """

    p: float = parameter(0.0, 1.0, open_hi=True, example=0.5)
    loading: float = parameter(0.0, example=0.25)
    name = "gini_shortfall"
    formula = "w + 2λw(1−w), w = min(u/(1−p), 1)"
    meaning = "average of the best 1−p share plus λ times its Gini spread"
    use = "when the size of the top end and its variety both count"

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

    @staticmethod
    def h(u: FloatArray, p: float, loading: float) -> FloatArray:
        w = np.minimum(u / (1.0 - p), 1.0)
        return w * (1.0 + 2.0 * loading * (1.0 - w))

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        z = np.maximum(v - self.p, 0.0) / (1.0 - self.p)
        return z * ((2.0 * self.loading - 1.0) - 2.0 * self.loading * z)

    def _dh(self, u: FloatArray) -> FloatArray:
        w = u / (1.0 - self.p)
        inside = (1.0 + 2.0 * self.loading * (1.0 - 2.0 * w)) / (1.0 - self.p)
        return np.where(u <= 1.0 - self.p, inside, 0.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.where(u <= 1.0 - self.p, -4.0 * self.loading / (1.0 - self.p) ** 2, 0.0)

    def _critical_points(self) -> Sequence[float]:
        if self.loading <= 0.5:
            return () if self.p == 0.0 else (1.0 - self.p,)
        peak = (1.0 - self.p) * (0.5 + 0.25 / self.loading)
        return (peak,) if self.p == 0.0 else (peak, 1.0 - self.p)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (1.0, (1.0 + 2.0 * self.loading) / (1.0 - self.p))


class PowerDeviation(Family):
    """Power deviation: h(u) = u^m − r·u^(2m), which is the paper's category 1, up to a factor.

    m = 1, r = 1 is the Gini deviation, and m = ½, r = 1 is Wang's right-tail deviation. For m < 1 it needs bounded
    rewards, because h is vertical at 0.

    C·PowerDeviation(m, r) is C₁u^m − C₂u^(2m) with C₁ = C and C₂ = rC. Its Hölder pair is (m, C₁·width^(1−m)).

    Parameters
    ----------
    m : above 0 and at most 1.
    r : above 0 and at most 1; the default is 1.

    Examples
    --------
    >>> PowerDeviation(1.0, 1.0).value([0.0, 1.0])       # as GiniDeviation
    0.25
    >>> import pmbandits as pmb
    >>> (2 * PowerDeviation(0.5, 0.5)).holder(pmb.Interval(0, 1))        # 2√u − u
    Holder(q=0.5, constant=2.0)
    """

    m: float = parameter(0.0, 1.0, open_lo=True, example=0.75)
    r: float = parameter(0.0, 1.0, open_lo=True, default=1.0)
    name = "power_deviation"
    formula = "u^m − r·u^(2m)"
    meaning = "spread, with rare large rewards counting more the smaller m is"
    use = "to move between known deviations"

    @property
    def shape(self) -> Shape:
        return "concave" if 1.0 - self.m >= 2.0 * (1.0 - 2.0 * self.m) * self.r else "neither"

    @property
    def monotonicity(self) -> Monotonicity:
        return "increasing" if self.r <= 0.5 else "neither"

    @staticmethod
    def h(u: FloatArray, m: float, r: float) -> FloatArray:
        power = np.power(u, m)
        return power * (1.0 - r * power)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        fall = np.expm1(self.m * np.log1p(-v))
        return fall * ((1.0 - 2.0 * self.r) - self.r * fall)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.m * np.power(u, self.m - 1.0) * (1.0 - 2.0 * self.r * np.power(u, self.m))

    def _d2h(self, u: FloatArray) -> FloatArray:
        bend = self.m - 1.0 + 2.0 * (1.0 - 2.0 * self.m) * self.r * np.power(u, self.m)
        return self.m * np.power(u, self.m - 2.0) * bend

    def _critical_points(self) -> Sequence[float]:
        return ((0.5 / self.r) ** (1.0 / self.m),) if self.r > 0.5 else ()

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        return (self.m, 1.0)

    def _power_coefficients(self) -> dict[float, float]:
        return {self.m: 1.0, 2.0 * self.m: -self.r}


@compile_with_formula
def _past_entropy(v: FloatArray, log_v: FloatArray, alpha: float) -> FloatArray:
    """h(1 − v), from v and its logarithm."""
    if alpha == 1.0:
        inside = -v * log_v
    else:
        inside = -v * np.expm1((alpha - 1.0) * log_v) / (alpha - 1.0)
    return where(v <= 0.0, 0.0, inside)


class TsallisPastEntropy(Family):
    """Cumulative Tsallis past entropy: h(u) = ((1−u) − (1−u)^α)/(α − 1), or −(1−u)·ln(1−u) for α = 1.

    Parameters
    ----------
    alpha : α, above 0. A smaller one looks more at the low end. With 2 it is the Gini deviation.

    Examples
    --------
    >>> from pmbandits import GiniDeviation
    >>> TsallisPastEntropy(2.0)(0.3) == GiniDeviation()(0.3)
    True
    """

    alpha: float = parameter(0.0, open_lo=True, example=1.0)
    name = "tsallis_past_entropy"
    formula = "((1−u) − (1−u)^α)/(α−1)"
    meaning = "spread counted along the CDF, in units of reward"
    use = "as an entropy of rewards; a smaller α looks more at the low end"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    @staticmethod
    def h(u: FloatArray, alpha: float) -> FloatArray:
        return _past_entropy(1.0 - u, np.log1p(-u), alpha)

    def _h(self, u: FloatArray) -> FloatArray:
        return u * (1.0 - u) if self.alpha == 2.0 else super()._h(u)  # the Gini deviation, to the last bit

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return v * (1.0 - v) if self.alpha == 2.0 else _past_entropy(v, np.log(v), self.alpha)

    def _dh(self, u: FloatArray) -> FloatArray:
        return -self._negative_dual_dh(1.0 - u)

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        if self.alpha == 1.0:
            return -np.log(v) - 1.0
        return -np.expm1(np.log(self.alpha) + (self.alpha - 1.0) * np.log(v)) / (self.alpha - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._negative_dual_d2h(1.0 - u)

    def _negative_dual_d2h(self, v: FloatArray) -> FloatArray:
        return -self.alpha * np.power(v, self.alpha - 2.0)

    def _critical_points(self) -> Sequence[float]:
        if abs(self.alpha - 1.0) < 1e-9:
            return (1.0 - np.exp(-1.0),)
        return (float(-np.expm1(-np.log(self.alpha) / (self.alpha - 1.0))),)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        if self.alpha > 1.0:
            return (1.0, max(1.0, 1.0 / (self.alpha - 1.0)))
        if self.alpha == 1.0:
            return (0.5, 2.0 / math.e)
        return (self.alpha, 1.0 / (1.0 - self.alpha))
