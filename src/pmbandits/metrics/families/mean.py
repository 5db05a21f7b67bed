"""The expected reward."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Monotonicity, Shape
from pmbandits.metrics.family import Family


class Mean(Family):
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

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return +u

    def _co(self, v: FloatArray) -> FloatArray:
        return -v

    def _dh(self, u: FloatArray) -> FloatArray:
        return np.ones_like(u)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0)

    def _powers(self) -> dict[float, float]:
        return {1.0: 1.0}

    @property
    def _straight(self) -> bool:
        return True
