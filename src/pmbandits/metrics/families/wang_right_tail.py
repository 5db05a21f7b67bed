"""Wang's right-tail deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family
from pmbandits.metrics.numeric import Monotonicity, Shape


class WangRightTail(Family):
    """Wang's right-tail deviation: h(u) = √u − u.

    **In one sentence:** how much the rare large rewards stick out above the average.

    **Use it** to look for surprises on the upside. It needs bounded rewards, because h is vertical at 0.

    Examples
    --------
    >>> import scipy.stats as st
    >>> round(WangRightTail().value(st.expon()), 9)
    1.0
    """

    name = "wang_right_tail"
    formula = "√u − u"
    meaning = "how much the rare large rewards stick out"
    use = "to look for upside surprises"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        root = np.sqrt(u)
        return root * (1.0 - root)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return -np.sqrt(1.0 - v) * np.expm1(0.5 * np.log1p(-v))

    def _dh(self, u: FloatArray) -> FloatArray:
        return 0.5 / np.sqrt(u) - 1.0

    def _d2h(self, u: FloatArray) -> FloatArray:
        return -0.25 * np.power(u, -1.5)

    def _critical(self) -> Sequence[float]:
        return (0.25,)

    def _modulus(self) -> tuple[float, float]:
        return (0.5, 1.0)

    def _powers(self) -> dict[float, float]:
        return {0.5: 1.0, 1.0: -1.0}
