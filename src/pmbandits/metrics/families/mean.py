"""The expected reward."""

from __future__ import annotations

from typing import ClassVar

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import PiecewiseLinear
from pmbandits.metrics.numeric import Monotonicity, Shape


class Mean(PiecewiseLinear):
    """The expected reward: h(u) = u.

    **In one sentence:** what a round earns on average in the long run.

    **Use it** to compare other preferences with, or as a part of a sum with a metric of tails or spread.

    Examples
    --------
    >>> Mean().value([1.0, 2.0, 6.0])
    3.0
    """

    name = "mean"
    formula = "u"
    meaning = "the average reward"
    use = "as the yardstick, or as a term beside tail or spread"
    shape: ClassVar[Shape] = "linear"
    monotonicity: ClassVar[Monotonicity] = "increasing"
    first_slope: ClassVar[float] = 1.0

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return +u

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -v

    def _powers(self) -> dict[float, float]:
        return {1.0: 1.0}
