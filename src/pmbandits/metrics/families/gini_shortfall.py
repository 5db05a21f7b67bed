"""The Gini shortfall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class GiniShortfall(Family):
    """Gini shortfall: h(u) = w + 2·loading·w(1 − w) with w = min(u/(1−p), 1).

    **In one sentence:** the average of the best 1 − p share of rewards, plus a premium for spread inside that share.

    **Use it** when the size of the top end and its variety both count.

    Parameters
    ----------
    p : from 0 to below 1. The best 1 − p share of rewards counts.
    loading : the weight of the spread, 0 or more. Up to ½ the metric is concave (and coherent).

    Examples
    --------
    >>> round(GiniShortfall(p=0.0, loading=0.5).value([0.0, 1.0]), 12)  # mean + ½·E|X − X'|
    0.75
    """

    p: float = parameter(0.0, 1.0, open_hi=True, example=0.5)
    loading: float = parameter(0.0, example=0.25)
    name = "gini_shortfall"
    formula = "w + 2λw(1−w), w = min(u/(1−p), 1)"
    meaning = "average of the best 1−p share plus λ times its Gini spread"
    use = "when the size of the top end and its variety both count"

    @property
    def shape(self) -> Shape:
        if self.p == 0.0:
            return "concave" if self.loading > 0.0 else "linear"
        return "concave" if self.loading <= 0.5 else "neither"

    @property
    def monotonicity(self) -> Monotonicity:
        return "increasing" if self.loading <= 0.5 else "neither"

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        bend = (2.0 * self.loading - 1.0) / (1.0 - self.p)
        return () if self.p == 0.0 or bend == 0.0 else ((1.0 - self.p, bend),)

    @staticmethod
    def h(u: FloatArray, p: float, loading: float) -> FloatArray:
        w = np.minimum(u / (1.0 - p), 1.0)
        return w * (1.0 + 2.0 * loading * (1.0 - w))

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        z = np.maximum(v - self.p, 0.0) / (1.0 - self.p)
        return z * ((2.0 * self.loading - 1.0) - 2.0 * self.loading * z)

    def _dh(self, u: FloatArray) -> FloatArray:
        w = u / (1.0 - self.p)
        inside = (1.0 + 2.0 * self.loading * (1.0 - 2.0 * w)) / (1.0 - self.p)
        return np.where(u <= 1.0 - self.p, inside, 0.0)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.where(u <= 1.0 - self.p, -4.0 * self.loading / (1.0 - self.p) ** 2, 0.0)

    def _critical(self) -> Sequence[float]:
        if self.loading <= 0.5:
            return () if self.p == 0.0 else (1.0 - self.p,)
        peak = (1.0 - self.p) * (0.5 + 0.25 / self.loading)
        return (peak,) if self.p == 0.0 else (peak, 1.0 - self.p)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, (1.0 + 2.0 * self.loading) / (1.0 - self.p))
