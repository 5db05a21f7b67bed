"""The paper's two categories: to which one a metric belongs, and metrics of either from their constants."""

from __future__ import annotations

from pmbandits import _validation
from pmbandits.metrics.catalogue import as_metric
from pmbandits.metrics.categories import Category, category_of
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import MeanMedianDeviation, PowerDeviation


def category(metric: Distortion | str) -> Category | None:
    """The category of the paper that a distortion belongs to, or ``None``. The distortion can be a sum.

    >>> import pmbandits as pmb
    >>> category(2 * pmb.PHT(0.5) - pmb.Mean())
    Category(number=1, c1=2.0, c2=1.0, m=0.5, sign=1)
    >>> category(pmb.InterESRange(0.5)).number, category(pmb.Mean())
    (2, None)
    """
    return category_of(as_metric(metric))


def category_1(c1: float, c2: float, m: float) -> Distortion:
    """Make a metric of the paper's category 1: h(u) = C₁u^m − C₂u^(2m), with C₁ ≥ C₂ > 0 and 0 < m ≤ 1.

    >>> category_1(2.0, 1.0, m=0.5)
    2*PowerDeviation(m=0.5, r=0.5)
    """
    first = _validation.check_within("c1", c1, 0.0, open_lo=True)
    second = _validation.check_within("c2", c2, 0.0, first, open_lo=True, hint="In category 1, c2 is at most c1.")
    return first * PowerDeviation(m, second / first)


def category_2(c: float) -> Distortion:
    """Make a metric of the paper's category 2: h(u) = C·min(u, 1 − u), with C > 0.

    >>> category_2(2.0)
    2*MeanMedianDeviation()
    """
    return _validation.check_within("c", c, 0.0, open_lo=True) * MeanMedianDeviation()
