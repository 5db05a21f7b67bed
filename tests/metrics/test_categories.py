"""The paper's two categories of distortions, and that their Hölder constants are right, and as small as they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.metrics.category_metrics import category, category_1, category_2

UNIT = pmb.Interval(0, 1)
ONE = [(1.0, 1.0, 1.0), (3.0, 1.0, 1.0), (2.0, 1.0, 0.5), (1.0, 1.0, 0.5), (1.5, 0.2, 0.3), (4.0, 4.0, 0.7)]


@pytest.mark.parametrize(("c1", "c2", "m"), ONE)
def test_category_1_is_what_the_paper_writes(c1: float, c2: float, m: float) -> None:
    h, u = category_1(c1, c2, m), np.linspace(0, 1, 101)
    np.testing.assert_allclose(h(u), c1 * u**m - c2 * u ** (2 * m), atol=1e-14)
    assert category(h) is not None and category(h).number == 1
    assert (category(h).c1, category(h).c2, category(h).m) == pytest.approx((c1, c2, m))


def test_category_2_is_what_the_paper_writes() -> None:
    u = np.linspace(0, 1, 101)
    np.testing.assert_allclose(category_2(3.0)(u), 3 * np.minimum(u, 1 - u), atol=1e-15)


SUMS: list[tuple[Any, int, float, float]] = [  # metric, category, q, constant on [0, 1]
    (2 * pmb.PHT(0.5) - pmb.Mean(), 1, 0.5, 2.0),
    (pmb.WangRightTail() + 0.5 * pmb.PHT(0.5), 1, 0.5, 1.5),
    (pmb.Mean() + pmb.GiniDeviation(), 1, 1.0, 2.0),
    (pmb.Quadratic(0.5) - 0.5 * pmb.Mean(), 1, 1.0, 1.0),
    (pmb.DualPower(2) + pmb.GiniDeviation(), 1, 1.0, 3.0),
    (-1.0 * pmb.WangRightTail(), 1, 0.5, 1.0),
    (3 * pmb.MeanMedianDeviation() - pmb.InterESRange(0.5), 2, 1.0, 1.0),
    (pmb.UpperCVaR(0.5) - pmb.Mean(), 2, 1.0, 1.0),
    (pmb.Mean() - pmb.LowerCVaR(0.5), 2, 1.0, 1.0),
]


@pytest.mark.parametrize(("metric", "number", "q", "constant"), SUMS, ids=lambda x: repr(x).replace(" ", ""))
def test_sums_that_belong_to_a_category_have_its_constants(metric: Any, number: int, q: float, constant: float) -> None:
    found = category(metric)
    assert found is not None and found.number == number
    pair = metric.holder(UNIT)
    assert (pair.q, pair.constant) == pytest.approx((q, constant), rel=1e-12)
    assert metric.holder(pmb.Interval(0, 4)).constant == pytest.approx(constant * 4 ** (1 - q), rel=1e-12)


@pytest.mark.parametrize(("metric", "number", "q", "constant"), SUMS, ids=lambda x: repr(x).replace(" ", ""))
def test_the_constants_are_true_and_cannot_be_smaller(metric: Any, number: int, q: float, constant: float) -> None:
    """|h(u) − h(v)|/|u − v|^q over pairs, also tiny ones: never above the constant, and up to it."""
    u = np.concatenate((np.linspace(0, 1, 401), np.geomspace(1e-12, 0.1, 120)))
    gap = np.abs(u[:, None] - u[None, :])
    with np.errstate(all="ignore"):
        ratio = np.where(gap > 0, np.abs(metric(u)[:, None] - metric(u)[None, :]) / gap**q, 0.0)
    assert ratio.max() <= constant * (1 + 1e-9)
    assert ratio.max() >= 0.98 * constant


@pytest.mark.parametrize("metric", [m for m, *_ in SUMS], ids=lambda x: repr(x).replace(" ", ""))
def test_the_pair_holds_for_utilities_of_random_distributions(metric: Any) -> None:
    rng = np.random.default_rng(7)
    pair = metric.holder(UNIT)
    x = np.linspace(0, 1, 12)
    for _ in range(40):
        p, q = rng.dirichlet(np.full(12, 0.3), 2)
        distance = float(np.abs(np.cumsum(p - q))[:-1].sum() * (x[1] - x[0]))
        assert abs(metric.value(x, p) - metric.value(x, q)) <= pair.constant * distance**pair.q + 1e-12


@pytest.mark.parametrize(
    "metric",
    [
        pmb.Mean(),
        pmb.PHT(0.5),
        pmb.PHT(0.5) - 2 * pmb.Mean(),  # C1 < C2
        pmb.Mean() - pmb.PHT(0.3),
        pmb.MeanMedianDeviation() + pmb.Mean(),
        pmb.InterESRange(0.8),
        pmb.GiniDeviation() + pmb.UpperCVaR(0.9),
        pmb.Mean() + 0.5 * pmb.DualPower(3),
        0.0 * pmb.Mean(),
    ],
    ids=lambda x: repr(x).replace(" ", ""),
)
def test_other_distortions_belong_to_no_category(metric: Any) -> None:
    assert category(metric) is None
    if metric.terms:
        parts = [(abs(c), d.holder(UNIT)) for c, d in metric.terms]
        assert metric.holder(UNIT).constant <= sum(c * pair.constant for c, pair in parts) + 1e-12


def test_constants_outside_the_categories_are_refused() -> None:
    with pytest.raises(ValueError, match=r"c2.*at most c1"):
        category_1(1.0, 2.0, 0.5)
    with pytest.raises(ValueError, match="m"):
        category_1(1.0, 0.5, 1.5)
    with pytest.raises(ValueError, match="c must"):
        category_2(0.0)
