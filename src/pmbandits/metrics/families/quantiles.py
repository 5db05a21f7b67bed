"""Metrics whose h jumps: quantiles, and the distance of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.formulas import where
from pmbandits.metrics.numeric import JUMP_TOLERANCE, Monotonicity, Shape


class StepFunction(Family):
    """A metric with a name whose h is flat between its jumps."""

    shape: ClassVar[Shape] = "neither"

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _holder_modulus_or_reason(self) -> str:
        return "its distortion jumps, so two distributions however close can differ by the whole jump"


class VaR(StepFunction):
    """Value at risk, which is the c-quantile: h(u) = 1 if u > 1 − c else 0.

    It ignores how bad or good the rewards beyond are. Its h jumps, so a small change of the rewards can change it much,
    and no Hölder pair exists. Prefer :class:`UpperCVaR` or :class:`LowerCVaR` if you can choose.

    Parameters
    ----------
    c : the probability of the quantile, between 0 and 1. 0.5 is the median.

    Examples
    --------
    >>> VaR(0.9).value(range(1, 11))
    9.0
    """

    c: float = parameter(0.0, 1.0, open_lo=True, open_hi=True, example=0.9)
    name = "var"
    formula = "1{u > 1−c}"
    meaning = "the c-quantile of the rewards"
    use = "for service levels; it ignores the size of the tail beyond"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return ((1.0 - self.c, 1.0),)

    @staticmethod
    def h(u: FloatArray, c: float) -> FloatArray:
        return where(u - (1.0 - c) > JUMP_TOLERANCE, 1.0, 0.0)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return np.where(self.c - v > JUMP_TOLERANCE, 0.0, -1.0)


class InterQuantileRange(StepFunction):
    """Inter-quantile range: h(u) = 1 if 1 − upper < u ≤ 1 − lower else 0.

    Its h jumps, so a small change of the rewards can change it much, and no Hölder pair exists.

    Parameters
    ----------
    lower, upper : the probabilities of the two quantiles, between 0 and 1. The defaults ¼ and ¾ give the range of the
        middle half.

    Examples
    --------
    >>> InterQuantileRange().value([1.0, 2.0, 3.0, 4.0])
    2.0
    """

    lower: float = parameter(0.0, 1.0, open_lo=True, open_hi=True, default=0.25)
    upper: float = parameter(0.0, 1.0, open_lo=True, open_hi=True, default=0.75)
    name = "inter_quantile_range"
    aliases = ("iqr",)
    formula = "1{1−upper < u ≤ 1−lower}"
    meaning = "the distance between two quantiles"
    use = "for a spread that no outlier can move"
    monotonicity: ClassVar[Monotonicity] = "neither"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lower >= self.upper:
            raise ValueError(
                f"InterQuantileRange needs lower < upper, got lower={self.lower:g} and upper={self.upper:g}."
            )

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return ((1.0 - self.upper, 1.0), (1.0 - self.lower, -1.0))

    @staticmethod
    def h(u: FloatArray, lower: float, upper: float) -> FloatArray:
        above = u - (1.0 - upper) > JUMP_TOLERANCE
        return where(above & (u - (1.0 - lower) <= JUMP_TOLERANCE), 1.0, 0.0)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        above = self.upper - v > JUMP_TOLERANCE
        return np.where(above & ~(self.lower - v > JUMP_TOLERANCE), 1.0, 0.0)

    def _critical_points(self) -> Sequence[float]:
        return (1.0 - self.lower,)
