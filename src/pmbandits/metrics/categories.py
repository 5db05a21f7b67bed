"""The paper's two categories of distortions, and the Hölder constants that it proves for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pmbandits.metrics.distortion import Distortion


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


def category(metric: Distortion) -> Category | None:
    """The category of the paper that a distortion belongs to, or ``None``. The distortion can be a sum.

    >>> import pmbandits as pmb
    >>> category(2 * pmb.PHT(0.5) - pmb.Mean())
    Category(number=1, c1=2.0, c2=1.0, m=0.5, sign=1)
    >>> category(pmb.InterESRange(0.5)).number, category(pmb.Mean())
    (2, None)
    """
    powers = metric._powers()
    if powers is not None and len(powers) == 2:
        (m, first), (twice, second) = sorted(powers.items())
        if m <= 1.0 and abs(twice - 2.0 * m) < 1e-12 and first * second < 0.0 and abs(first) >= abs(second):
            return Category(1, abs(first), abs(second), m, 1 if first > 0.0 else -1)
    if metric._straight and not metric.jumps and [place for place, _ in metric.kinks] == [0.5]:
        top = float(metric(0.5))
        if top != 0.0 and abs(float(metric(1.0))) <= 1e-12 * abs(top):
            return Category(2, 2.0 * abs(top), 2.0 * abs(top), 1.0, 1 if top > 0.0 else -1)
    return None


def category_1(c1: float, c2: float, m: float) -> Distortion:
    """Make a metric of the paper's category 1: h(u) = C₁u^m − C₂u^(2m), with C₁ ≥ C₂ > 0 and 0 < m ≤ 1.

    >>> category_1(2.0, 1.0, m=0.5)
    2*PowerDeviation(m=0.5, r=0.5)
    """
    from pmbandits import _check
    from pmbandits.metrics.families import PowerDeviation

    first = _check.within("c1", c1, 0.0, open_lo=True)
    second = _check.within("c2", c2, 0.0, first, open_lo=True, hint="In category 1, c2 is at most c1.")
    return first * PowerDeviation(m, second / first)


def category_2(c: float) -> Distortion:
    """Make a metric of the paper's category 2: h(u) = C·min(u, 1 − u), with C > 0.

    >>> category_2(2.0)
    2*MeanMedianDeviation()
    """
    from pmbandits import _check
    from pmbandits.metrics.families import MeanMedianDeviation

    return _check.within("c", c, 0.0, open_lo=True) * MeanMedianDeviation()
