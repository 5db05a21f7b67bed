"""The best share on average, less the worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import PiecewiseLinear, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class InterESRange(PiecewiseLinear):
    """Inter-expected-shortfall range: h(u) = min(u/(1−c), 1) − max(0, (u−c)/(1−c)).

    **In one sentence:** the average of the best 1 − c share of rewards minus the average of the worst 1 − c share.

    **Use it** to reward a wide gap between good and bad outcomes (stress tests, diverse portfolios).

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

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return self._h(v)  # h is symmetric about 1/2

    def _critical(self) -> Sequence[float]:
        return (min(self.c, 1.0 - self.c), max(self.c, 1.0 - self.c))
