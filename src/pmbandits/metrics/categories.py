"""The paper's two categories of distortions, and the Hölder constants that it proves for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pmbandits.metrics.distortion_function import DistortionFunction


@dataclass(frozen=True)
class Category:
    """Which of the paper's categories a distortion belongs to, and with which constants.

    Category 1 is C₁u^m − C₂u^(2m) with C₁ ≥ C₂ > 0 and 0 < m ≤ 1; category 2 is C·min(u, 1 − u).

    Attributes
    ----------
    number : 1 or 2.
    c1, c2, m : the constants of category 1; for category 2, C, C and 1.
    sign : −1 if it is minus the distortion that belongs to the category; Hölder constants are the same.
    """

    number: Literal[1, 2]
    c1: float
    c2: float
    m: float
    sign: int = 1

    @property
    def modulus(self) -> tuple[float, float]:
        """The pair (q, C) with |h(u) − h(v)| ≤ C|u − v|^q for all u and v.

        It is (m, C₁) for category 1 (``lemma:example_utility_Holder_general``), and (1, C) for category 2
        (``lemma:mean_median_Holder_general``).
        """
        return self.m, self.c1


def category_of(function: DistortionFunction) -> Category | None:
    """The category of the paper that a distortion function belongs to, or ``None``."""
    powers = function._power_coefficients()
    if powers is not None and len(powers) == 2:
        (m, first), (twice, second) = sorted(powers.items())
        if m <= 1.0 and abs(twice - 2.0 * m) < 1e-12 and first * second < 0.0 and abs(first) >= abs(second):
            return Category(1, abs(first), abs(second), m, 1 if first > 0.0 else -1)
    if function._is_piecewise_linear and not function.jumps and [place for place, _ in function.kinks] == [0.5]:
        top = float(function(0.5))
        if top != 0.0 and abs(float(function(1.0))) <= 1e-12 * abs(top):
            return Category(2, 2.0 * abs(top), 2.0 * abs(top), 1.0, 1 if top > 0.0 else -1)
    return None
