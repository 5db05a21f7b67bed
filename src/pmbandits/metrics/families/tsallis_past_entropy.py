"""The cumulative Tsallis past entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.formulas import formula_helper, where
from pmbandits.metrics.numeric import Monotonicity, Shape


@formula_helper
def _past_entropy(v: FloatArray, log_v: FloatArray, alpha: float) -> FloatArray:
    """h(1 − v), from v and its logarithm."""
    if alpha == 1.0:
        inside = -v * log_v
    else:
        inside = -v * np.expm1((alpha - 1.0) * log_v) / (alpha - 1.0)
    return where(v <= 0.0, 0.0, inside)


class TsallisPastEntropy(Family):
    """Cumulative Tsallis past entropy: h(u) = ((1−u) − (1−u)^α)/(α − 1), or −(1−u)·ln(1−u) for α = 1.

    **In one sentence:** how spread out the rewards are, counted along their distribution function.

    **Use it** as an entropy that is measured in units of reward.

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

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return v * (1.0 - v) if self.alpha == 2.0 else _past_entropy(v, np.log(v), self.alpha)

    def _dh(self, u: FloatArray) -> FloatArray:
        return -self._dh_from_1(1.0 - u)

    def _dh_from_1(self, v: FloatArray) -> FloatArray:
        if self.alpha == 1.0:
            return -np.log(v) - 1.0
        return -np.expm1(np.log(self.alpha) + (self.alpha - 1.0) * np.log(v)) / (self.alpha - 1.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._d2h_from_1(1.0 - u)

    def _d2h_from_1(self, v: FloatArray) -> FloatArray:
        return -self.alpha * np.power(v, self.alpha - 2.0)

    def _critical(self) -> Sequence[float]:
        if abs(self.alpha - 1.0) < 1e-9:
            return (1.0 - np.exp(-1.0),)
        return (float(-np.expm1(-np.log(self.alpha) / (self.alpha - 1.0))),)

    def _modulus(self) -> tuple[float, float]:
        if self.alpha > 1.0:
            return (1.0, max(1.0, 1.0 / (self.alpha - 1.0)))
        if self.alpha == 1.0:
            return (0.5, 2.0 / math.e)
        return (self.alpha, 1.0 / (1.0 - self.alpha))
