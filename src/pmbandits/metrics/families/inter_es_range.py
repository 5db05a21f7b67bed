"""The best share on average, less the worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Monotonicity, Shape
from pmbandits.metrics.family import Family, parameter


class InterESRange(Family):
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

    @staticmethod
    def h(u: FloatArray, c: float) -> FloatArray:
        return np.minimum(u / (1.0 - c), 1.0) - np.maximum(u - c, 0.0) / (1.0 - c)

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

    @property
    def _straight(self) -> bool:
        return True
