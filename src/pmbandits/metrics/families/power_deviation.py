"""The paper's category 1: a power of u less a share of its square."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.numeric import Monotonicity, Shape


class PowerDeviation(Family):
    """Power deviation: h(u) = u^m − r·u^(2m), which is the paper's category 1, up to a factor.

    **In one sentence:** spread, with rare large rewards counting more the smaller m is, and a part 1 − r of reward.

    **Use it** to move between known deviations: m = 1, r = 1 is the Gini deviation, and m = ½, r = 1 is Wang's
    right-tail deviation. For m < 1 it needs bounded rewards, because h is vertical at 0.

    C·PowerDeviation(m, r) is C₁u^m − C₂u^(2m) with C₁ = C and C₂ = rC. Its Hölder pair is (m, C₁·width^(1−m)).

    Parameters
    ----------
    m : above 0 and at most 1.
    r : above 0 and at most 1; the default is 1.

    Examples
    --------
    >>> PowerDeviation(1.0, 1.0).value([0.0, 1.0])       # as GiniDeviation
    0.25
    >>> import pmbandits as pmb
    >>> (2 * PowerDeviation(0.5, 0.5)).holder(pmb.Interval(0, 1))        # 2√u − u
    Holder(q=0.5, constant=2.0)
    """

    m: float = parameter(0.0, 1.0, open_lo=True, example=0.75)
    r: float = parameter(0.0, 1.0, open_lo=True, default=1.0)
    name = "power_deviation"
    formula = "u^m − r·u^(2m)"
    meaning = "spread, with rare large rewards counting more the smaller m is"
    use = "to move between known deviations"

    @property
    def shape(self) -> Shape:
        return "concave" if 1.0 - self.m >= 2.0 * (1.0 - 2.0 * self.m) * self.r else "neither"

    @property
    def monotonicity(self) -> Monotonicity:
        return "increasing" if self.r <= 0.5 else "neither"

    @staticmethod
    def h(u: FloatArray, m: float, r: float) -> FloatArray:
        power = np.power(u, m)
        return power * (1.0 - r * power)

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        fall = np.expm1(self.m * np.log1p(-v))
        return fall * ((1.0 - 2.0 * self.r) - self.r * fall)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self.m * np.power(u, self.m - 1.0) * (1.0 - 2.0 * self.r * np.power(u, self.m))

    def _d2h(self, u: FloatArray) -> FloatArray:
        bend = self.m - 1.0 + 2.0 * (1.0 - 2.0 * self.m) * self.r * np.power(u, self.m)
        return self.m * np.power(u, self.m - 2.0) * bend

    def _critical(self) -> Sequence[float]:
        return ((0.5 / self.r) ** (1.0 / self.m),) if self.r > 0.5 else ()

    def _modulus(self) -> tuple[float, float]:
        return (self.m, 1.0)

    def _powers(self) -> dict[float, float]:
        return {self.m: 1.0, 2.0 * self.m: -self.r}
