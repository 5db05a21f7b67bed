"""The oracle on random arms against other quadrature and other optimisers: nothing may beat it by more than its gap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from tests.reference.mixtures import Problem, distortion, fall, total

# scipy's quantiles of Beta laws at 1e-290, which the other quadrature asks for, sometimes warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*ibeta.*:RuntimeWarning")

SEED = 22
REGION, REST = 1_500, 3_500  # instances of the full run, `pytest -m slow tests/best`

Term = tuple[float, str, tuple[float, ...]]


def uniform(rng: np.random.Generator, lo: float, hi: float) -> float:
    return round(float(rng.uniform(lo, hi)), 6)


def distribution(rng: np.random.Generator, kinds: str) -> Any:
    """A law with any centre, of a width between a fiftieth and ten."""
    centre, width = 3.0 * rng.normal(), 10.0 ** uniform(rng, -1.7, 1.0)
    kind = kinds[int(rng.integers(len(kinds)))]
    if kind == "n":
        return st.norm(centre, width)
    if kind == "l":
        return st.lognorm(uniform(rng, 0.2, 1.3), centre, width)
    if kind == "t":
        return st.t(uniform(rng, 4.5, 12.0), centre, width)
    if kind == "b":
        return st.beta(*rng.uniform(0.5, 5.0, 2))
    if kind == "u":
        return st.uniform(centre, width)
    if kind == "e":
        return st.expon(centre, width)
    return rng.normal(centre, width, size=int(rng.integers(1, 9))).round(2)  # atoms


def vertical(rng: np.random.Generator) -> list[Term]:
    """Metrics whose h is vertical at 0 or at 1."""
    first: list[Term] = [
        (1.0, "wang_right_tail", ()),
        (1.0, "pht", (uniform(rng, 0.45, 0.9),)),
        (1.0, "tsallis_past_entropy", (uniform(rng, 0.45, 0.95),)),
        (1.0, "wang_transform", (uniform(rng, 0.2, 1.5),)),
        (1.0, "tsallis_past_entropy", (1.0,)),
    ]
    out = [first[int(rng.integers(5))]]
    more: list[Term] = [(1.0, "mean", ()), (0.5, "gini_deviation", ()), (0.3, "upper_cvar", (0.8,))]
    if rng.random() < 0.4:
        out.append(more[int(rng.integers(3))])
    return out


def any_metric(rng: np.random.Generator) -> list[Term]:
    """Metrics of all families, and sums of two."""
    table: list[Term] = [
        (1.0, "mean", ()),
        (1.0, "gini_deviation", ()),
        (1.0, "wang_right_tail", ()),
        (1.0, "pht", (uniform(rng, 0.5, 0.95),)),
        (1.0, "quadratic", (uniform(rng, 0.1, 1.0),)),
        (1.0, "dual_power", (uniform(rng, 1.1, 4.0),)),
        (1.0, "upper_cvar", (uniform(rng, 0.1, 0.95),)),
        (1.0, "lower_cvar", (uniform(rng, 0.05, 0.9),)),
        (1.0, "mean_median_deviation", ()),
        (1.0, "inter_es_range", (uniform(rng, 0.5, 0.9),)),
        (1.0, "tsallis_past_entropy", (uniform(rng, 0.5, 3.0),)),
        (1.0, "wang_transform", (uniform(rng, -1.0, 1.0),)),
        (1.0, "gini_shortfall", (uniform(rng, 0.1, 0.9), uniform(rng, 0.05, 0.5))),
        (1.0, "inverted_s", (uniform(rng, 0.75, 1.5),)),
        (1.0, "tversky_kahneman", (uniform(rng, 0.6, 0.95),)),
        (1.0, "var", (uniform(rng, 0.1, 0.9),)),
        (1.0, "inter_quantile_range", (0.25, 0.75)),
    ]
    out = [table[int(rng.integers(len(table)))]]
    if rng.random() < 0.35:  # any two whose sum does not jump
        weight, name, p = table[int(rng.integers(13))]
        out.append((weight * uniform(rng, 0.1, 1.0), name, p))
    return out


def metric_of(terms: list[Term]) -> pmb.Distortion:
    texts = [f"{c!r}*{name}({', '.join(map(repr, map(float, p)))})" if p else f"{c!r}*{name}" for c, name, p in terms]
    return pmb.metric(" + ".join(texts))


def check(terms: list[Term], arms: list[Any], rng: np.random.Generator) -> tuple[float, bool]:
    """Nothing that the other search finds beats the oracle by more than its gap; returns the gap, relative."""
    metric, bandit = metric_of(terms), pmb.Bandit(arms)
    best = pmb.oracle(metric, bandit)
    count = len(arms)
    sums = [total(*((c, made(name, *p)) for c, name, p in terms)) for made in (distortion, fall)]
    problem = Problem(*sums, arms)
    here = problem.value(best.weights)
    singles = [problem.value(row) for row in np.eye(count)]
    size = max(abs(here), max(abs(v) for v in singles), 1e-12)
    smooth = not metric.kinks and not metric.jumps
    accuracy = (2e-7 if smooth else 1e-4) * size  # of the grid, which does not know where corners are crossed
    if not metric.jumps:
        assert best.value == pytest.approx(here, abs=accuracy), "the utility"
    starts = [best.weights, np.full(count, 1.0 / count), np.eye(count)[int(np.argmax(singles))]]
    starts += list(rng.dirichlet(np.full(count, 0.5), 1))
    other, _ = problem.search(starts, 40)
    gap = best.gap if math.isfinite(best.gap) else 0.0
    if metric.jumps:  # a fixed grid knows quantiles roughly only: judge the other mixture by the library's utility
        assert pmb.utility(metric, bandit, other) <= best.value + gap + 1e-9 * size, "beaten"
    else:
        assert problem.value(other) <= here + gap + (1e-2 if smooth else 1.0) * accuracy, "beaten on the other grid"
        # Where a mixture crosses a corner, its utility (not that of the best mixture) is known to about 1e-10 only.
        assert pmb.utility(metric, bandit, other) <= best.value + gap + (1e-10 if smooth else 1e-9) * size, "beaten"
    if metric.shape in ("concave", "convex", "linear"):
        # A corner that a mixture follows over a long stretch, where its curve is all but flat, costs digits.
        assert best.certified and 0.0 <= best.gap <= (1e-9 if smooth else 1e-7) * size, "the certificate"
    return gap / size, best.certified


def region_instance(number: int) -> tuple[list[Term], list[Any], np.random.Generator]:
    rng = np.random.default_rng([SEED, 0, number])
    kinds = ("n", "l", "t", "nltb")[number % 4]
    return vertical(rng), [distribution(rng, kinds) for _ in range(int(rng.integers(2, 9)))], rng


def other_instance(number: int) -> tuple[list[Term], list[Any], np.random.Generator]:
    rng = np.random.default_rng([SEED, 1, number])
    kinds = ("n", "b", "a", "u", "nbaue", "l", "t")[number % 7]
    terms = any_metric(rng)
    few = terms[0][1] in ("inverted_s", "tversky_kahneman", "var", "inter_quantile_range")
    return terms, [distribution(rng, kinds) for _ in range(int(rng.integers(2, 4 if few else 8)))], rng


@pytest.mark.parametrize("number", range(24))
def test_where_h_is_vertical_nothing_beats_the_oracle(number: int) -> None:
    check(*region_instance(number))


QUICK = (0, 1, 2, 3, 6, 7, 8)


@pytest.mark.parametrize("number", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in range(36)])
def test_nothing_beats_the_oracle_for_any_metric(number: int) -> None:
    check(*other_instance(number))


@pytest.mark.parametrize(
    "number", [598, 1571, 2867, *(pytest.param(n, marks=pytest.mark.slow) for n in (500, 966, 1148, 2062, 2293, 3434))]
)
def test_a_mixture_that_follows_a_corner_of_h_has_a_small_gap(number: int) -> None:
    # The best mixture keeps its survival at a corner of h over a long stretch on which other arms move. Steps stall
    # there, and linear programs find mixture and multipliers: without them these gaps were between 1e-5 and 0.2.
    terms, arms, _ = other_instance(number)
    best = pmb.oracle(metric_of(terms), pmb.Bandit(arms))
    assert best.certified and best.gap <= 1e-8 * abs(best.value)


def test_corners_in_very_wide_cells_leave_no_rounding_in_the_gap() -> None:
    # The left tails of these arms matter up to cells that are 4.5e9 wide, and the metric has a corner.
    terms, arms, _ = region_instance(462)
    best = pmb.oracle(metric_of(terms), pmb.Bandit(arms))
    assert best.certified and best.gap <= 1e-10 * abs(best.value)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_five_thousand_instances(block: int) -> None:
    wrong = []
    for kind, size, make in (("region", REGION, region_instance), ("rest", REST, other_instance)):
        for number in range(block * size // 50, (block + 1) * size // 50):
            try:
                check(*make(number))
            except AssertionError as found:
                wrong.append((kind, number, str(found)[:200]))
    assert not wrong
