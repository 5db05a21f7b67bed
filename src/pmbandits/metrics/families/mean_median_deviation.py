"""The mean distance from the median."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import PiecewiseLinear
from pmbandits.metrics.numeric import Monotonicity, Shape


class MeanMedianDeviation(PiecewiseLinear):
    """Mean–median deviation: h(u) = min(u, 1 − u), which is the mean distance from the median.

    **In one sentence:** how far a reward typically lies from the middle one.

    **Use it** to reward spread without letting outliers dominate.

    Examples
    --------
    >>> MeanMedianDeviation().value([0.0, 1.0, 5.0])     # (1 + 0 + 4) / 3
    1.6666666666666665
    """

    name = "mean_median_deviation"
    formula = "min(u, 1−u)"
    meaning = "how far a reward typically lies from the median"
    use = "to reward spread without letting outliers dominate"
    shape: ClassVar[Shape] = "concave"
    monotonicity: ClassVar[Monotonicity] = "neither"
    first_slope: ClassVar[float] = 1.0
    kinks: ClassVar[Sequence[tuple[float, float]]] = ((0.5, -2.0),)

    @staticmethod
    def h(u: FloatArray) -> FloatArray:
        return np.minimum(u, 1.0 - u)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        return np.minimum(v, 1.0 - v)

    def _critical(self) -> Sequence[float]:
        return (0.5,)
