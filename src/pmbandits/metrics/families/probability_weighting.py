"""Metrics that weight probabilities as insurers do, or as people feel them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.formulas import norm_cdf, norm_ppf
from pmbandits.metrics.numeric import Monotonicity, Shape


class WangTransform(Family):
    """Wang transform: h(u) = Φ(Φ⁻¹(u) + shift), with Φ the normal distribution function.

    Where a Hölder pair is needed, it needs bounded rewards. The exponent of the pair can be any q < 1; the library
    states q = ½.

    Parameters
    ----------
    shift : any number. A positive one is optimistic about gains (concave), a negative one cautious (convex).

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(WangTransform(0.5).value(st.norm(1, 2)), 9)        # 1 + 0.5·2
    2.0
    """

    shift: float = parameter(example=0.5)
    name = "wang_transform"
    formula = "Φ(Φ⁻¹(u) + shift)"
    meaning = "the average after shifting probabilities by normal units"
    use = "as insurers do: shift > 0 is optimistic about gains, < 0 cautious"
    monotonicity: ClassVar[Monotonicity] = "increasing"

    @property
    def shape(self) -> Shape:
        return "linear" if self.shift == 0.0 else ("concave" if self.shift > 0.0 else "convex")

    @staticmethod
    def h(u: FloatArray, shift: float) -> FloatArray:
        return norm_cdf(norm_ppf(u) + shift)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return -norm_cdf(norm_ppf(v) - self.shift)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._normal_density_ratio(norm_ppf(u))

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        return -self._normal_density_ratio(-norm_ppf(v))

    def _normal_density_ratio(self, x: FloatArray) -> FloatArray:
        if self.shift == 0.0:
            return np.ones_like(x)
        return np.exp(-self.shift * x - 0.5 * self.shift**2)

    def _d2h(self, u: FloatArray) -> FloatArray:
        x = norm_ppf(u)
        return -self.shift * np.exp(-self.shift * x - 0.5 * self.shift**2 + 0.5 * x * x) * np.sqrt(2.0 * np.pi)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        if self.shift == 0.0:
            return (1.0, 1.0)
        # h (or its mirror image) is concave and increasing, so sup |h(u) − h(v)|/|u − v|^½ is reached from 0.
        x = np.linspace(-37.0, 8.0, 90_001)
        ratio = norm_cdf(x + abs(self.shift)) / np.sqrt(norm_cdf(x))
        return (0.5, float(ratio.max()) * (1.0 + 1e-6))


class InvertedS(Family):
    """Inverted-S weighting of probabilities (Prelec): h(u) = exp(−(−ln u)^β).

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

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return np.expm1(-np.power(-np.log1p(-v), self.beta))

    def _slope(self, depth: FloatArray) -> FloatArray:
        """h' as a function of −ln u."""
        edge = np.inf if self.beta < 1.0 else (1.0 if self.beta == 1.0 else 0.0)
        inside = self.beta * np.power(depth, self.beta - 1.0) * np.exp(depth - np.power(depth, self.beta))
        return np.where(np.isinf(depth), edge, inside)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._slope(-np.log(u))

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        return -self._slope(-np.log1p(-v))

    def _d2h(self, u: FloatArray) -> FloatArray:
        depth = -np.log(u)
        bend = (self.beta - 1.0) / depth + 1.0 - self.beta * np.power(depth, self.beta - 1.0)
        return -self._slope(depth) / u * bend

    def _holder_modulus_or_reason(self) -> tuple[float, float] | str:
        if self.beta < 1.0:
            return "for beta < 1 it rises from 0 faster than every power u^q"
        # β > 1: h' vanishes at both ends; its largest value in between is the Lipschitz constant.
        depth = np.exp(np.linspace(-12.0, 12.0, 200_001))
        with np.errstate(all="ignore"):
            return (1.0, float(np.nanmax(self._slope(depth))) * (1.0 + 1e-7))


class TverskyKahneman(Family):
    """Tversky–Kahneman weighting of probabilities: h(u) = u^γ / (u^γ + (1−u)^γ)^(1/γ).

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

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
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

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        return -self._slope(1.0 - v, v, 1.0 + self._negative_dual_h(v))

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        # sup |h(u) − h(v)|/|u − v|^γ is the limit at 1, 1/γ (found numerically for γ from .28 to 1).
        return (self.gamma, 1.0 / self.gamma)
