"""The average of the worst share of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import PiecewiseLinear, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class LowerCVaR(PiecewiseLinear):
    """Lower-tail conditional value at risk: h(u) = max(0, (u − 1 + α)/α).

    **In one sentence:** the average of the *worst* α share of rewards.

    **Use it** to be safe against bad outcomes. Most CVaR bandits maximise it. It is convex, so one arm alone is always
    best.

    Parameters
    ----------
    alpha : α, above 0 and at most 1. The worst α share of rewards counts: 0.1 means the worst tenth.

    Examples
    --------
    >>> LowerCVaR(0.5).value([1.0, 2.0, 3.0, 4.0])
    1.5
    """

    alpha: float = parameter(0.0, 1.0, open_lo=True, example=0.1)
    name = "lower_cvar"
    formula = "max(0, (u−1+α)/α)"
    meaning = "the average of the worst α share of rewards"
    use = "to be safe against bad outcomes; one arm is always best"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.alpha == 1.0 else "convex"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return () if self.alpha == 1.0 else ((1.0 - self.alpha, 1.0 / self.alpha),)

    @property
    def first_slope(self) -> float:
        return 1.0 if self.alpha == 1.0 else 0.0

    @staticmethod
    def h(u: FloatArray, alpha: float) -> FloatArray:
        return np.maximum(u - (1.0 - alpha), 0.0) / alpha

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -np.minimum(v / self.alpha, 1.0)
