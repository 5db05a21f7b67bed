"""The Gini deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family
from pmbandits.metrics.numeric import Monotonicity, Shape


class GiniDeviation(Family):
    """Gini deviation: h(u) = u(1 − u), which is half the mean distance of two independent rewards.

    **In one sentence:** how much two rewards that come one after the other differ.

    **Use it** for rewards that lie far apart: variety, exploration of a catalogue. It does not make choices hard to
    guess.

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(GiniDeviation().value(st.uniform()), 12)   # 1/6
    0.166666666667
    """

    name = "gini_deviation"
    aliases = ("gini",)
    formula = "u(1−u)"
    meaning = "half the average distance between two rewards"
    use = "for variety: rewards that lie far apart"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return u * (1.0 - u)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return v * (1.0 - v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return 1.0 - 2.0 * u

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -2.0)

    def _critical(self) -> Sequence[float]:
        return (0.5,)

    def _modulus(self) -> tuple[float, float]:
        return (1.0, 1.0)

    def _powers(self) -> dict[float, float]:
        return {1.0: 1.0, 2.0: -1.0}
