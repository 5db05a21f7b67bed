"""A quantile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.formulas import where
from pmbandits.metrics.numeric import JUMP_TOLERANCE, Monotonicity, Shape


class VaR(Family):
    """Value at risk, which is the c-quantile: h(u) = 1 if u > 1 − c else 0.

    **In one sentence:** the smallest reward that at least a share c of the rewards does not exceed.

    **Use it** for service levels ("nine in ten below …"). It ignores how bad or good the rewards beyond are. Its h
    jumps, so a small change of the rewards can change it much, and no Hölder pair exists. Prefer :class:`CVaR` or
    :class:`LowerCVaR` if you can choose.

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
    shape: ClassVar[Shape] = "neither"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return ((1.0 - self.c, 1.0),)

    @staticmethod
    def h(u: FloatArray, c: float) -> FloatArray:
        return where(u - (1.0 - c) > JUMP_TOLERANCE, 1.0, 0.0)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return np.where(self.c - v > JUMP_TOLERANCE, 0.0, -1.0)

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _modulus(self) -> str:
        return "its distortion jumps, so two distributions however close can differ by the whole jump"
