"""The oracle with segments: against grids, all plans and a convex solver; limits within and across; what is refused."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.segments import Segments
from pmbandits.tables.distributions import Atoms
from tests.helpers import one_sentence
from tests.reference import convex

METRICS = ["gini", "upper_cvar(0.8)", "lower_cvar(0.3)", "mean - 0.6*gini", "pht(0.5)", "inverted_s(0.7)"]
CONCAVE = {
    "gini": convex.gini(),
    "mean + 0.5*gini": convex.total((1.0, convex.mean()), (0.5, convex.gini())),
    "upper_cvar(0.8)": convex.upper_cvar(0.8),
    "pht(0.5)": convex.pht(0.5),
    "wang_right_tail": convex.wang_right_tail(),
    "mean_median_deviation": convex.mean_median_deviation(),
}
DISTRICTS = {
    "north": pmb.Bandit({"A": st.uniform(0.0, 0.6), "B": st.uniform(0.2, 0.1)}),
    "south": pmb.Bandit({"A": st.uniform(0.5, 0.2), "B": st.uniform(0.4, 0.6)}),
}
HALVES = {"north": 0.5, "south": 0.5}


def population(
    rng: np.random.Generator, n_segments: int, n_arms: int, n_points: int
) -> tuple[dict[str, pmb.Bandit], dict[str, float]]:
    """Segments whose arms pay a few values; each segment has all arms, or all but one."""
    points = np.sort(rng.random(n_points))
    arms = {
        f"s{s}": pmb.Bandit(
            {
                f"a{k}": Atoms(points, rng.dirichlet(np.full(n_points, 0.4)))
                for k in range(n_arms)
                if n_arms < 3 or rng.random() < 0.9 or k < 2
            }
        )
        for s in range(n_segments)
    }
    return arms, dict(zip(arms, rng.dirichlet(np.ones(n_segments)).tolist(), strict=True))


@pytest.mark.parametrize("name", METRICS)
def test_two_segments_of_two_arms_are_as_good_as_a_fine_grid(name: str) -> None:
    rng, share = np.random.default_rng(len(name)), np.linspace(0.0, 1.0, 101)
    for case in range(3):
        arms, often = population(rng, 2, 2, 5) if case else (DISTRICTS, {"north": 0.4, "south": 0.6})
        best = pmb.oracle(name, arms, segments=often)
        one, two = (x.ravel() for x in np.meshgrid(share, share))
        p = np.array(list(often.values()))
        grid = np.column_stack((p[0] * one, p[0] * (1 - one), p[1] * two, p[1] * (1 - two)))
        found = pmb.optimize.utilities(pmb.metric(name), best.population.columns, grid)
        size = abs(best.value)
        assert best.value >= found.max() - 1e-9 * size
        assert found.max() <= best.value + best.gap + 1e-10 * size
        assert best.weights.sum(axis=1) == pytest.approx(np.ones(2), abs=1e-12) and best.weights.min() >= 0.0
        assert pmb.utility(name, arms, best.weights, segments=often) == pytest.approx(best.value, rel=1e-12)


@pytest.mark.parametrize("name", ["lower_cvar(0.3)", "mean - 0.6*gini", "mean + 2*lower_cvar(0.2)", "-1*gini"])
def test_no_plan_of_one_arm_for_each_segment_is_better(name: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(4):
        arms, often = population(rng, 4, 3, 10)
        best = pmb.oracle(name, arms, segments=often)
        segments = Segments.from_arguments({s: bandit.names for s, bandit in arms.items()})
        plans = []
        for plan in product(*(np.flatnonzero(segments.segment_of == s) for s in range(4))):
            plans.append(np.zeros(segments.n_columns))
            plans[-1][list(plan)] = list(often.values())
        top = pmb.optimize.utilities(pmb.metric(name), best.population.columns, np.array(plans)).max()
        assert best.value == pytest.approx(top, abs=1e-12)
        assert not best.is_mixture and best.value + best.gap >= top - 1e-12
        if "lower_cvar" in name:
            assert best.certified and best.gap <= 1e-12


def check_against_a_convex_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    name = list(CONCAVE)[seed % len(CONCAVE)]
    arms, often = population(rng, int(rng.integers(2, 7)), int(rng.integers(2, 5)), int(rng.integers(3, 12)))
    first, arm = next(iter(arms)), "a0"
    shares = [None, f"{first}: {arm} >= 30%", f"{arm} <= 40%", f"{first}: a1 <= 20%; {arm} >= 10%"][seed // 7 % 4]
    try:
        best = pmb.oracle(name, arms, segments=often, shares=shares)
    except ValueError as error:  # the drawn limits cannot be kept
        assert "no mixture keeps" in str(error)
        return
    columns, segment_of = best.population.columns, best.population.segments.segment_of
    p = np.array(list(often.values()))
    rules: list[convex.Rule] = [((segment_of == s).astype(float), "==", p[s]) for s in range(1, p.size)]
    is_arm, is_other = (np.array([column.endswith(end) for column in columns.names]) for end in (arm, "a1"))
    mine = segment_of == 0
    if shares is not None and "30%" in shares:
        rules.append(((mine & is_arm).astype(float), ">=", 0.3 * p[0]))
    if shares is not None and "40%" in shares:
        rules.append((is_arm.astype(float), "<=", 0.4))
    if shares is not None and "20%" in shares:
        rules += [((mine & is_other).astype(float), "<=", 0.2 * p[0]), (is_arm.astype(float), ">=", 0.1)]
    at, above = convex.survival([(arm.x, arm.p) for arm in columns.distributions])
    _, optimum = convex.best_mixture(CONCAVE[name], at, above, rules)
    assert best.value == pytest.approx(optimum, rel=2e-6, abs=1e-8)
    assert best.certified and best.gap <= 1e-8 * max(best.value, 1e-3)
    if best.limits is not None:
        assert best.limits.polytope.excess(best.columns.weights).max() <= 1e-9


@pytest.mark.parametrize("seed", range(24))
def test_concave_metrics_against_a_convex_solver(seed: int) -> None:
    check_against_a_convex_solver(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 300))
def test_more_concave_metrics_against_a_convex_solver(seed: int) -> None:
    check_against_a_convex_solver(seed)


def test_one_segment_is_the_oracle_without_segments() -> None:
    bandit = pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)], names=["A", "B", "C"])
    for shares in (None, "B >= 20%; C <= 30%"):
        one, all_of_them = (
            pmb.oracle("gini", bandit, shares=shares),
            pmb.oracle("gini", {"all": bandit}, segments={"all": 1.0}, shares=shares),
        )
        assert all_of_them.weights[0] == pytest.approx(one.weights, abs=1e-6)
        assert all_of_them.value == pytest.approx(one.value, rel=1e-9)


def test_the_groups_own_best_arms_are_not_the_best_for_all() -> None:
    best = pmb.oracle("mean - gini", DISTRICTS, segments=HALVES)
    own = [pmb.oracle("mean - gini", bandit).weights for bandit in DISTRICTS.values()]
    assert best.separate_value == pytest.approx(pmb.utility("mean - gini", DISTRICTS, own, segments=HALVES), rel=1e-12)
    assert best.gain > 0.01


def test_limits_within_a_segment_and_across_have_prices() -> None:
    best = pmb.oracle("mean + gini", DISTRICTS, segments=HALVES, shares="north: B >= 60%; A <= 30%; south: A <= 0.9")
    assert best.weights[0, 1] >= 0.6 - 1e-9 and 0.5 * best.weights[:, 0].sum() <= 0.3 + 1e-9
    step, limit = 1e-5, "north: B >= 60%"
    looser = pmb.oracle("mean + gini", DISTRICTS, segments=HALVES, shares="north: B >= 59.999%; A <= 30%")
    assert best.prices[limit].multiplier == pytest.approx((looser.value - best.value) / step, rel=1e-3)
    without = pmb.oracle("mean + gini", DISTRICTS, segments=HALVES, shares="A <= 30%")
    assert best.prices[limit].without == pytest.approx(without.value, rel=1e-9)
    assert str(best.prices["south: A <= 0.9"]) == "the limit south: A <= 0.9 costs nothing"
    budget = pmb.oracle("mean + gini", DISTRICTS, segments=HALVES, cost={"A": 1.0}, budget=0.2)
    assert 0.5 * budget.weights[:, 0].sum() == pytest.approx(0.2, abs=1e-9)


def test_how_it_is_shown() -> None:
    arms = {"new": pmb.Bandit.bernoulli([0.4, 0.9], ["A", "B"]), "<old>": pmb.Bandit.bernoulli([0.3, 0.7], ["B", "C"])}
    best = pmb.oracle("mean", arms, segments={"<old>": 0.25, "new": 0.75})
    assert repr(best).splitlines() == [
        "SegmentOracleResult(value=0.85, gap=0",
        "         comes  A  B  C",
        "  new      75%  0  1  –",
        "  <old>    25%  –  0  1)",
    ]
    page = best._repr_html_()
    assert "&lt;old&gt;" in page and "<old>" not in page and "each segment's own best" in page.replace("&#x27;", "'")
    many = {f"s{i}": pmb.Bandit.bernoulli(np.linspace(0.1, 0.9, 10)) for i in range(30)}
    text = repr(pmb.oracle("mean", many, segments=dict.fromkeys(many, 1 / 30)))
    assert "… 18 more" in text and max(map(len, text.splitlines())) < 120


@pytest.mark.parametrize(
    ("bandit", "segments", "shares", "words"),
    [
        (DISTRICTS, None, None, "with segments, give a bandit for each"),
        (DISTRICTS["north"], HALVES, None, "with segments, give a bandit for each"),
        (DISTRICTS, {"north": 1.0}, None, "the segment 'south' has no frequency in segments"),
        (DISTRICTS, {**HALVES, "west": 0.0}, None, "the segment 'west' has no bandit"),
        (DISTRICTS, {"north": 0.5, "south": 0.4}, None, "must add up to 1, but add up to 0.9"),
        (DISTRICTS, {"north": 1.0, "south": 0.0}, None, "the segment 'south' never comes"),
        (DISTRICTS, HALVES, "nroth: A >= 10%", "unknown segment 'nroth'. Did you mean 'north'?"),
        (DISTRICTS, HALVES, "A <= 30%; B <= 30%", "no mixture keeps these limits together"),
        (DISTRICTS, HALVES, "north: A <= 30%; A >= 0.8", "no mixture keeps these limits together"),
        ({"north": 3}, {"north": 1.0}, None, "bandit must be a Bandit"),
    ],
)
def test_bad_arguments_get_one_sentence(bandit: Any, segments: Any, shares: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(words)) as error:
        pmb.oracle("gini", bandit, segments=segments, shares=shares)
    assert one_sentence(str(error.value)) or "Did you mean" in str(error.value)


def test_weights_of_a_utility_are_checked() -> None:
    arms = {"new": pmb.Bandit.bernoulli([0.4, 0.9], ["A", "B"]), "old": pmb.Bandit.bernoulli([0.3], ["B"])}
    often = {"new": 0.5, "old": 0.5}
    assert pmb.utility("mean", arms, [[1, 0], [0, 1]], segments=often) == pytest.approx(0.35)
    for weights, words in (
        ([0.5, 0.5], "a row for each of the 2 segments"),
        ([[1, 0], [1, 0]], "the segment 'old' does not have A"),
        ([[1, 1], [0, 1]], "the weights of 'new' must add up to 1"),
    ):
        with pytest.raises(ValueError, match=words):
            pmb.utility("mean", arms, weights, segments=often)


@pytest.mark.parametrize("name", ["lower_cvar(0.25)", "mean + 2*lower_cvar(0.1)"])
def test_continuous_arms_have_an_exact_answer_for_one_corner(name: str) -> None:
    rng = np.random.default_rng(3)
    arms = {f"s{s}": pmb.Bandit([st.beta(*rng.uniform(0.5, 5.0, 2)) for _ in range(3)]) for s in range(5)}
    arms["s0"] = pmb.Bandit([st.norm(0.2, 0.5), st.norm(0.6, 1.0), pmb.Bandit.bernoulli([0.7]).distributions[0]])
    often = dict(zip(arms, rng.dirichlet(np.full(5, 3.0)).tolist(), strict=True))
    best = pmb.oracle(name, arms, segments=often)
    plans = np.array(list(product(range(3), repeat=5)))  # more than are compared one by one
    weights = np.zeros((len(plans), 15))
    for s, share in enumerate(often.values()):
        weights[np.arange(len(plans)), 3 * s + plans[:, s]] = share
    values = pmb.optimize.utilities(pmb.metric(name), best.population.columns, weights)
    assert best.value == pytest.approx(values.max(), rel=1e-9)
    assert best.certified and best.gap <= 2e-9
