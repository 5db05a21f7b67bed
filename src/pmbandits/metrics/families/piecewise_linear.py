"""Metrics whose h is made of straight pieces: the mean, and averages of the best and the worst rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import PiecewiseLinear, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class Mean(PiecewiseLinear):
    """The expected reward: h(u) = u.

    Examples
    --------
    >>> Mean().value([1.0, 2.0, 6.0])
    3.0
    """

    name = "mean"
    formula = "u"
    meaning = "the average reward"
    use = "to compare other preferences with, or as a term beside tail or spread"
    shape: ClassVar[Shape] = "linear"
    monotonicity: ClassVar[Monotonicity] = "increasing"
    first_slope: ClassVar[float] = 1.0

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return +u

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -v

    def _power_coefficients(self) -> dict[float, float]:
        return {1.0: 1.0}


class UpperCVaR(PiecewiseLinear):
    """The mean of the best rewards: upper conditional value at risk (expected shortfall), h(u) = min(u / (1 − c), 1).

    The mean of the *worst* share of rewards is :class:`LowerCVaR`. Most papers on CVaR bandits maximise that one.

    Parameters
    ----------
    c : from 0 to below 1. The best 1 − c share of rewards counts: 0.9 means the best tenth.

    Examples
    --------
    >>> UpperCVaR(0.5).value([1.0, 2.0, 3.0, 4.0])
    3.5
    """

    c: float = parameter(0.0, 1.0, open_hi=True, example=0.9)
    name = "upper_cvar"
    formula = "min(u/(1−c), 1)"
    meaning = "the average of the best 1−c share of rewards"
    use = "when the top end pays, or for losses written as positive numbers"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.c == 0.0 else "concave"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return () if self.c == 0.0 else ((1.0 - self.c, -1.0 / (1.0 - self.c)),)

    @property
    def first_slope(self) -> float:
        return 1.0 / (1.0 - self.c)

    @staticmethod
    def h(u: FloatArray, c: float) -> FloatArray:
        return np.minimum(u / (1.0 - c), 1.0)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -np.maximum(v - self.c, 0.0) / (1.0 - self.c)

    def _critical_points(self) -> Sequence[float]:
        return () if self.c == 0.0 else (1.0 - self.c,)  # where the flat part begins


class LowerCVaR(PiecewiseLinear):
    """Lower-tail conditional value at risk: h(u) = max(0, (u − 1 + α)/α).

    Most CVaR bandits maximise it. It is convex, so one arm alone is always best.

    Parameters
    ----------
    alpha : α, above 0 and at most 1. The worst α share of rewards counts: 0.1 means the worst tenth.

    Examples
    --------
    >>> LowerCVaR(0.5).value([1.0, 2.0, 3.0, 4.0])
    1.5
    """

    alpha: float = parameter(0.0, 1.0, open_lo=True, example=0.1)
    name = "lower_cvar"
    formula = "max(0, (u−1+α)/α)"
    meaning = "the average of the worst α share of rewards"
    use = "to be safe against bad outcomes; one arm is always best"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.alpha == 1.0 else "convex"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return () if self.alpha == 1.0 else ((1.0 - self.alpha, 1.0 / self.alpha),)

    @property
    def first_slope(self) -> float:
        return 1.0 if self.alpha == 1.0 else 0.0

    @staticmethod
    def h(u: FloatArray, alpha: float) -> FloatArray:
        return np.maximum(u - (1.0 - alpha), 0.0) / alpha

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -np.minimum(v / self.alpha, 1.0)


class MeanMedianDeviation(PiecewiseLinear):
    """Mean–median deviation: h(u) = min(u, 1 − u), which is the mean distance from the median.

    Examples
    --------
    >>> MeanMedianDeviation().value([0.0, 1.0, 5.0])     # (1 + 0 + 4) / 3
    1.6666666666666665
    """

    name = "mean_median_deviation"
    formula = "min(u, 1−u)"
    meaning = "how far a reward typically lies from the median"
    use = "to reward spread without letting outliers dominate"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"
    first_slope: ClassVar[float] = 1.0
    kinks: ClassVar[Sequence[tuple[float, float]]] = ((0.5, -2.0),)

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return np.minimum(u, 1.0 - u)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return np.minimum(v, 1.0 - v)

    def _critical_points(self) -> Sequence[float]:
        return (0.5,)


class InterESRange(PiecewiseLinear):
    """Inter-expected-shortfall range: h(u) = min(u/(1−c), 1) − max(0, (u−c)/(1−c)).

    Parameters
    ----------
    c : between 0 and 1. The best and the worst 1 − c share of rewards count. The default ½ compares the better half
        with the worse half.

    Examples
    --------
    >>> InterESRange(0.5).value([1.0, 2.0, 3.0, 4.0])    # 3.5 − 1.5
    2.0
    """

    c: float = parameter(0.0, 1.0, open_lo=True, open_hi=True, default=0.5)
    name = "inter_es_range"
    formula = "min(u/(1−c), 1) − max(0, (u−c)/(1−c))"
    meaning = "average of the best 1−c share minus average of the worst"
    use = "to reward a wide gap between good and bad outcomes"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        bend = -1.0 / (1.0 - self.c)
        return ((0.5, 2.0 * bend),) if self.c == 0.5 else ((self.c, bend), (1.0 - self.c, bend))

    @property
    def first_slope(self) -> float:
        return 1.0 / (1.0 - self.c)

    @staticmethod
    def h(u: FloatArray, c: float) -> FloatArray:
        return np.minimum(u / (1.0 - c), 1.0) - np.maximum(u - c, 0.0) / (1.0 - c)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return self._h(v)  # h is symmetric about 1/2

    def _critical_points(self) -> Sequence[float]:
        return (min(self.c, 1.0 - self.c), max(self.c, 1.0 - self.c))
