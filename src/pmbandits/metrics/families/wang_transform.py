"""The Wang transform."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.formulas import norm_cdf, norm_ppf
from pmbandits.metrics.numeric import Monotonicity, Shape


class WangTransform(Family):
    """Wang transform: h(u) = Φ(Φ⁻¹(u) + shift), with Φ the normal distribution function.

    **In one sentence:** the average after every probability is shifted by ``shift`` standard normal units.

    **Use it** as insurers do, to be more hopeful or more cautious than the probabilities say. Where a Hölder pair is
    needed, it needs bounded rewards. The exponent of the pair can be any q < 1; the library states q = ½.

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

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -norm_cdf(norm_ppf(v) - self.shift)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._density_ratio(norm_ppf(u))

    def _dh_from_1(self, v: FloatArray) -> FloatArray:
        return -self._density_ratio(-norm_ppf(v))

    def _density_ratio(self, x: FloatArray) -> FloatArray:
        if self.shift == 0.0:
            return np.ones_like(x)
        return np.exp(-self.shift * x - 0.5 * self.shift**2)

    def _d2h(self, u: FloatArray) -> FloatArray:
        x = norm_ppf(u)
        return -self.shift * np.exp(-self.shift * x - 0.5 * self.shift**2 + 0.5 * x * x) * np.sqrt(2.0 * np.pi)

    def _modulus(self) -> tuple[float, float]:
        if self.shift == 0.0:
            return (1.0, 1.0)
        # h (or its mirror image) is concave and increasing, so sup |h(u) − h(v)|/|u − v|^½ is reached from 0.
        x = np.linspace(-37.0, 8.0, 90_001)
        ratio = norm_cdf(x + abs(self.shift)) / np.sqrt(norm_cdf(x))
        return (0.5, float(ratio.max()) * (1.0 + 1e-6))
