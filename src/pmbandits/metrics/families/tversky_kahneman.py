"""Prospect theory's weighting of probabilities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class TverskyKahneman(Family):
    """Tversky–Kahneman weighting of probabilities: h(u) = u^γ / (u^γ + (1−u)^γ)^(1/γ).

    **In one sentence:** the average reward with the probabilities of prospect theory.

    **Use it** to play for people who overweight rare wins and rare failures.

    Parameters
    ----------
    gamma : γ, from 0.28 (below, h would not be monotone) to 1. 0.61 fits people's gains.

    Examples
    --------
    >>> round(TverskyKahneman(0.61)(0.01), 4)
    0.0553
    """

    gamma: float = parameter(0.28, 1.0, example=0.61)
    name = "tversky_kahneman"
    formula = "u^γ / (u^γ + (1−u)^γ)^(1/γ)"
    meaning = "the probability weighting of prospect theory"
    use = "to play for people who overweight rare wins and failures"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.gamma == 1.0 else "neither"

    @staticmethod
    def h(u: FloatArray, gamma: float) -> FloatArray:
        top = np.power(u, gamma)
        return top * np.power(top + np.power(1.0 - u, gamma), -1.0 / gamma)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        g = self.gamma
        log_u = np.log1p(-v)
        log_sum = np.log1p(np.power(v, g) + np.expm1(g * log_u))
        return np.where(v >= 1.0, -1.0, np.expm1(g * log_u - log_sum / g))

    def _slope(self, u: FloatArray, v: FloatArray, h: FloatArray) -> FloatArray:
        g = self.gamma
        total = np.power(u, g) + np.power(v, g)
        inside = h * (g / u - (np.power(u, g - 1.0) - np.power(v, g - 1.0)) / total)
        edge = np.inf if g < 1.0 else 1.0
        return np.where((u <= 0.0) | (v <= 0.0), edge, inside)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._slope(u, 1.0 - u, self._h(u))

    def _dh_from_1(self, v: FloatArray) -> FloatArray:
        return -self._slope(1.0 - v, v, 1.0 + self._h_from_1(v))

    def _modulus(self) -> tuple[float, float]:
        # sup |h(u) − h(v)|/|u − v|^γ is the limit at 1, 1/γ (found numerically for γ from .28 to 1).
        return (self.gamma, 1.0 / self.gamma)
