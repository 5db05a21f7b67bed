"""The proportional hazard transform."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class PHT(Family):
    """Proportional hazard transform: h(u) = u^s.

    **In one sentence:** the average reward, as if rare large rewards were more frequent than they are.

    **Use it** when rare large gains matter more than their probability says. For s < 1 it needs bounded rewards,
    because h is vertical at 0.

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

    def _h_from_1(self, v: FloatArray) -> FloatArray:
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
