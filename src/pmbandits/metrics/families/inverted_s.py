"""Prelec's weighting of probabilities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class InvertedS(Family):
    """Inverted-S weighting of probabilities (Prelec): h(u) = exp(−(−ln u)^β).

    **In one sentence:** the average reward with probabilities as people feel them.

    **Use it** to model human attention to rare delays, losses or wins.

    Parameters
    ----------
    beta : β, above 0. Below 1 rare events at both ends count more than their probability, above 1 they count less.

    Examples
    --------
    >>> round(InvertedS(0.5)(0.01), 4), round(InvertedS(2.0)(0.5), 4)
    (0.117, 0.6185)
    """

    beta: float = parameter(0.0, open_lo=True, example=0.5)
    name = "inverted_s"
    formula = "exp(−(−ln u)^β)"
    meaning = "rare events overweighted (β<1) or underweighted (β>1)"
    use = "to model human attention to rare delays, losses or wins"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.beta == 1.0 else "neither"

    @staticmethod
    def h(u: FloatArray, beta: float) -> FloatArray:
        return np.exp(-np.power(-np.log(u), beta))

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return np.expm1(-np.power(-np.log1p(-v), self.beta))

    def _slope(self, depth: FloatArray) -> FloatArray:
        """h' as a function of −ln u."""
        edge = np.inf if self.beta < 1.0 else (1.0 if self.beta == 1.0 else 0.0)
        inside = self.beta * np.power(depth, self.beta - 1.0) * np.exp(depth - np.power(depth, self.beta))
        return np.where(np.isinf(depth), edge, inside)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._slope(-np.log(u))

    def _dh_from_1(self, v: FloatArray) -> FloatArray:
        return -self._slope(-np.log1p(-v))

    def _d2h(self, u: FloatArray) -> FloatArray:
        depth = -np.log(u)
        bend = (self.beta - 1.0) / depth + 1.0 - self.beta * np.power(depth, self.beta - 1.0)
        return -self._slope(depth) / u * bend

    def _modulus(self) -> tuple[float, float] | str:
        if self.beta < 1.0:
            return "for beta < 1 it rises from 0 faster than every power u^q"
        # β > 1: h' vanishes at both ends; its largest value in between is the Lipschitz constant.
        depth = np.exp(np.linspace(-12.0, 12.0, 200_001))
        with np.errstate(all="ignore"):
            return (1.0, float(np.nanmax(self._slope(depth))) * (1.0 + 1e-7))
