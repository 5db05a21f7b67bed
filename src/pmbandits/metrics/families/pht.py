"""The proportional hazard transform."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Monotonicity, Shape
from pmbandits.metrics.family import Family, parameter


class PHT(Family):
    """Proportional hazard transform: h(u) = u^s, 0 < s ≤ 1.

    **In one sentence:** the average reward with the tail of rare large rewards made fatter.
    **Use it** when rare large gains matter more than their probability says. Needs bounded rewards (h'(0) = ∞).

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

    def _powers(self) -> dict[float, float]:
        return {self.s: 1.0}
