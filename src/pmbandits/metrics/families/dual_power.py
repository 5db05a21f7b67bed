"""The dual power."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class DualPower(Family):
    """Dual power: h(u) = 1 − (1 − u)^s.

    **In one sentence:** for whole s, the expected best of s independent rewards.

    **Use it** when you get several tries and keep the best one.

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

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -np.power(v, self.s)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.s * np.power(1.0 - u, self.s - 1.0)

    def _dh_from_1(self, v: FloatArray) -> FloatArray:
        return -self.s * np.power(v, self.s - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._d2h_from_1(1.0 - u)

    def _d2h_from_1(self, v: FloatArray) -> FloatArray:
        if self.s == 1.0:
            return np.zeros_like(v)
        return -self.s * (self.s - 1.0) * np.power(v, self.s - 2.0)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, self.s)

    def _powers(self) -> dict[float, float] | None:
        return {1.0: {1.0: 1.0}, 2.0: {1.0: 2.0, 2.0: -1.0}}.get(self.s)
