"""The average of the best share of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import PiecewiseLinear, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class CVaR(PiecewiseLinear):
    """Upper conditional value at risk, also called expected shortfall: h(u) = min(u / (1 − c), 1).

    **In one sentence:** the average of the *best* 1 − c share of rewards.

    **Use it** when the top end pays (hits, discoveries), or for losses written as positive numbers.

    Most papers on CVaR bandits maximise the average of the *worst* share of rewards: that is :class:`LowerCVaR`.

    Parameters
    ----------
    c : from 0 to below 1. The best 1 − c share of rewards counts: 0.9 means the best tenth.

    Examples
    --------
    >>> CVaR(0.5).value([1.0, 2.0, 3.0, 4.0])
    3.5
    """

    c: float = parameter(0.0, 1.0, open_hi=True, example=0.9)
    name = "cvar"
    aliases = ("expected_shortfall", "es")
    formula = "min(u/(1−c), 1)"
    meaning = "the average of the best 1−c share of rewards"
    use = "when the top end pays, or for losses written as positive numbers"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.c == 0.0 else "concave"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return () if self.c == 0.0 else ((1.0 - self.c, -1.0 / (1.0 - self.c)),)

    @property
    def first_slope(self) -> float:
        return 1.0 / (1.0 - self.c)

    @staticmethod
    def h(u: FloatArray, c: float) -> FloatArray:
        return np.minimum(u / (1.0 - c), 1.0)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -np.maximum(v - self.c, 0.0) / (1.0 - self.c)

    def _critical(self) -> Sequence[float]:
        return () if self.c == 0.0 else (1.0 - self.c,)  # where the flat part begins
