"""The mean with a premium for spread."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class Quadratic(Family):
    """Quadratic: h(u) = (1 + s)u − su², which is the mean plus s Gini deviations.

    **In one sentence:** the average reward with a premium of s for spread.

    **Use it** when variety is worth something, but never more than reward itself.

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

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -v * (1.0 - self.s + self.s * v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return 1.0 + self.s - 2.0 * self.s * u

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -2.0 * self.s)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0 + self.s)

    def _powers(self) -> dict[float, float]:
        return {1.0: 1.0 + self.s, 2.0: -self.s}
