"""The best mixture within limits: against a convex solver, brute force, and solving again."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as s

import pmbandits as pmb
from pmbandits.optimize import utilities
from tests.optimize.test_best_mixture import CONCAVE, bandit_of, random_arms
from tests.reference import convex

NORMAL = pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)], names=["A", "B", "C"])


def random_rules(rng: np.random.Generator, arms: int, most: int) -> list[convex.Rule]:
    """Linear rules that some mixture keeps: floors, caps, groups and anything else."""
    hidden = rng.dirichlet(np.full(arms, rng.choice([0.3, 1.0, 3.0])))
    hidden = 0.999 * hidden + 0.001 / arms  # linear programs know shares to 1e-10 only
    out: list[convex.Rule] = []
    for _ in range(int(rng.integers(1, most + 1))):
        row = np.zeros(arms)
        kind = int(rng.integers(4))
        if kind <= 1:
            row[int(rng.integers(arms))] = 1.0
        elif kind == 2:
            row[rng.choice(arms, size=2, replace=False)] = 1.0
        else:
            row = np.round(rng.normal(size=arms) * (rng.random(arms) < 0.6), 2)
        here, slack = float(row @ hidden), float(rng.choice([0.0, 0.02, 0.1]))
        sign = str(rng.choice(["<=", ">=", "=="], p=[0.43, 0.43, 0.14]))
        if row.any():
            out.append((row, sign, here + {"<=": slack, ">=": -slack, "==": 0.0}[sign]))
    return out


def as_text(rules: list[convex.Rule]) -> str:
    def one(row: np.ndarray, sign: str, number: float) -> str:
        left = " + ".join(f"{float(c)!r} * arm {k}" for k, c in enumerate(row) if c)
        return f"{left.replace('+ -', '- ')} {sign} {number!r}"

    return "; ".join(one(*rule) for rule in rules)


def beyond(weights: np.ndarray, rules: list[convex.Rule]) -> float:
    """By how much the weights break the rules, worked out from the rules themselves."""
    over = {"<=": lambda d: max(d, 0.0), ">=": lambda d: max(-d, 0.0), "==": abs}
    return max((over[sign](float(row @ weights) - number) for row, sign, number in rules), default=0.0)


# ---- concave metrics against a convex solver --------------------------------------------------------------


def agree(name: str, arms: int, seed: int, most_rules: int) -> pmb.OracleResult:
    metric, h = CONCAVE[name]
    rng = np.random.default_rng([20, seed])
    samples = random_arms(arms, seed=seed, kind=["distinct", "shared", "weighted"][seed % 3])
    rules = random_rules(rng, arms, most_rules)
    best = pmb.oracle(metric, bandit_of(samples), shares=as_text(rules))
    points, above = convex.survival(samples)
    reference, optimum = convex.best_mixture(h, points, above, rules)
    size = max(abs(best.value), 1e-3)
    assert beyond(best.weights, rules) <= 1e-12
    assert best.weights.min() >= 0.0 and abs(best.weights.sum() - 1.0) < 1e-14
    assert best.value == pytest.approx(convex.utility(h, points, above, best.weights), rel=1e-11, abs=1e-12 * size)
    assert best.certified and 0.0 <= best.gap <= 1e-8 * size
    # The solver is right to about 1e-6, and sometimes breaks the rules by as much.
    assert best.value == pytest.approx(optimum, abs=(2e-4 if name == "pht" else 3e-6) * size)
    if beyond(reference, rules) <= 1e-15:
        assert best.value + best.gap >= convex.utility(h, points, above, reference) - 1e-12 * size
    return best


@settings(max_examples=15, deadline=None)
@given(s.sampled_from(sorted(CONCAVE)), s.integers(2, 8), s.integers(0, 10_000))
def test_agrees_with_a_convex_solver_and_certifies_it(name: str, arms: int, seed: int) -> None:
    agree(name, arms, seed, 4)


@pytest.mark.parametrize("name", ["gini", "upper_cvar", "wang_right_tail", "mean_median_deviation"])
def test_many_arms_and_limits(name: str) -> None:
    for seed in range(2):
        agree(name, 30, seed, 20)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_five_hundred_random_limits(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        name = sorted(CONCAVE)[seed % len(CONCAVE)]
        agree(name, 2 + seed % (7 if block < 5 else 35), 100_000 + seed, 4 if block < 5 else 20)


# ---- every shape and every kind of arms against brute force -----------------------------------------------

METRICS = ["gini", "pht(0.5)", "upper_cvar(0.8)", "mean", "lower_cvar(0.3)", "-1*gini", "mean - 0.5*gini", "var(0.7)"]
METRICS += ["inverted_s(0.7)", "tversky_kahneman(0.65)", "gini - 0.7*mean_median_deviation", "wang_right_tail"]


def against_brute_force(seed: int) -> None:
    rng = np.random.default_rng([21, seed])
    arms = int(rng.integers(2, 5))
    metric = pmb.metric(METRICS[seed % len(METRICS)])
    kind = (seed // len(METRICS)) % 4
    if kind == 0:
        bandit = pmb.Bandit([rng.normal(rng.normal(), rng.uniform(0.2, 2), size=9) for _ in range(arms)])
    elif kind == 1:
        bandit = pmb.Bandit.bernoulli(rng.uniform(0, 1, arms))
    elif kind == 2:
        bandit = pmb.Bandit([st.norm(3 * rng.normal(), 10 ** rng.uniform(-1.5, 0.7)) for _ in range(arms)])
    else:
        bandit = pmb.Bandit([st.beta(*rng.uniform(0.4, 4, 2)), *(rng.normal(size=4) for _ in range(arms - 1))])
    rules = random_rules(rng, arms, 3)
    best = pmb.oracle(metric, bandit, shares=as_text(rules))
    assert beyond(best.weights, rules) <= 1e-12
    # Mixtures that keep the rules, found by throwing dice: on the simplex, then pulled towards the answer.
    dice = np.vstack((rng.dirichlet(np.full(arms, 0.5), 4000), rng.dirichlet(np.full(arms, 3.0), 1000)))
    near = np.vstack([best.weights + share * (dice[:300] - best.weights) for share in (1e-4, 0.01, 0.1)])
    tried = np.array([row for row in np.vstack((dice, near)) if beyond(row, rules) <= 1e-15])
    size = max(abs(best.value), best.best_arm_value, 1e-5)
    assert best.value == pytest.approx(pmb.utility(metric, bandit, best.weights), abs=1e-10 * size)
    if tried.size:
        top = tried[int(np.argmax(utilities(metric, bandit, tried)))]
        gap = best.gap if math.isfinite(best.gap) else 0.0
        assert pmb.utility(metric, bandit, top) <= best.value + gap + 1e-9 * size
    if metric.shape != "neither" or kind == 1:
        assert best.certified and best.gap <= 1e-7 * size


@pytest.mark.parametrize("seed", range(0, 48, 5))
def test_nothing_that_keeps_the_limits_is_better(seed: int) -> None:
    against_brute_force(seed)


def test_a_corner_that_lies_in_a_jump_at_the_end_of_a_panel_does_not_stop_the_solver() -> None:
    against_brute_force(1190)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_nothing_that_keeps_the_limits_is_better_in_many_problems(block: int) -> None:
    for seed in range(48 * block, 48 * block + 48):
        against_brute_force(1000 + seed)


def test_neither_shape_within_limits_is_certified_for_few_arms() -> None:
    rng = np.random.default_rng(2)
    bandit = pmb.Bandit([rng.normal(rng.normal(), 1.0, 7) for _ in range(4)])
    best = pmb.oracle("inverted_s(0.7)", bandit, shares="arm 0 <= 0.4; arm 1 + arm 2 <= 0.7; arm 3 >= 10%")
    assert best.method == "branch and bound" and best.certified


@pytest.mark.parametrize("name", ["lower_cvar(0.3)", "mean - 0.6*gini", "inverted_s(0.7)"])
def test_many_corners_still_give_an_answer_and_a_bound(name: str) -> None:
    rng = np.random.default_rng(3)
    bandit = pmb.Bandit([rng.normal(rng.normal(), 1.0, 6) for _ in range(20)])
    shares = dict.fromkeys(range(20), (0.0, 0.15))
    best = pmb.oracle(name, bandit, shares=shares)
    assert best.limits is not None and best.limits.keeps(best.weights)
    grid = np.zeros((3_000, 20))  # corners: six arms with all they may have, and one with the rest
    for row in grid:
        chosen = rng.permutation(20)[:7]
        row[chosen[:6]], row[chosen[6]] = 0.15, 0.1
    assert float(utilities(pmb.metric(name), bandit, grid).max()) <= best.value + 1e-9
    assert np.isfinite(best.gap) and best.gap <= 0.1 * abs(best.value)
    if name == "lower_cvar(0.3)":  # its threshold is the only unknown: exact
        assert best.certified and best.gap <= 1e-9


# ---- closed forms and special cases -----------------------------------------------------------------------


def test_two_point_rewards_have_a_closed_form() -> None:
    bandit = pmb.Bandit.bernoulli([0.2, 0.9], names=["A", "B"])
    best = pmb.oracle("gini", bandit, shares="B >= 60%")  # p = 0.2 + 0.7·share(B), best at 1/2, but at least 0.62
    assert best.weights == pytest.approx([0.4, 0.6]) and best.value == pytest.approx(0.62 * 0.38)
    assert best.prices["B >= 60%"].without == pytest.approx(0.25)
    assert best.prices["B >= 60%"].multiplier == pytest.approx(0.7 * (2 * 0.62 - 1))


def test_a_mean_within_a_budget_has_a_closed_form() -> None:
    bandit = pmb.Bandit([[1.0], [2.0], [5.0]], names=["A", "B", "C"])
    best = pmb.oracle("mean", bandit, cost={"B": 1.0, "C": 3.0}, budget=1.5)
    assert best.weights == pytest.approx([0.5, 0.0, 0.5]) and best.value == pytest.approx(3.0)
    (price,) = best.prices.values()
    assert price.text == "B + 3 * C <= 1.5" and price.multiplier == pytest.approx(4 / 3)
    assert str(price) == "without the limit B + 3 * C <= 1.5 the utility would be 67 % higher"


def test_limits_that_leave_one_mixture() -> None:
    for metric in ("gini", "mean", "lower_cvar(0.3)", "inverted_s(0.7)", "var(0.5)", "wang_right_tail"):
        best = pmb.oracle(metric, NORMAL, shares="A == 50%; B == 30%")
        assert best.weights == pytest.approx([0.5, 0.3, 0.2], abs=1e-12)
        assert best.certified and best.gap <= 1e-9
        assert best.value == pytest.approx(pmb.utility(metric, NORMAL, [0.5, 0.3, 0.2]), rel=1e-10)


def test_one_arm_alone() -> None:
    one = pmb.Bandit([st.norm(2)], names=["A"])
    assert pmb.oracle("gini", one, shares="A >= 50%").weights.tolist() == [1.0]
    with pytest.raises(ValueError, match="no mixture"):
        pmb.oracle("gini", one, shares="A <= 50%")


def test_limits_that_say_nothing_change_nothing() -> None:
    free, same = pmb.oracle("gini", NORMAL), pmb.oracle("gini", NORMAL, shares="A <= 1; B >= 0")
    assert same.weights.tolist() == free.weights.tolist() and same.value == free.value
    assert same.prices == {} and free.prices == {} and free.limits is None


def test_a_contradiction_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"add up to 1\.2 "):
        pmb.oracle("gini", NORMAL, shares={"A": (0.6, 1.0), "B": (0.6, 1.0)})


def test_the_unit_of_the_metric_changes_nothing_within_limits() -> None:
    plain = pmb.oracle("gini", NORMAL, shares="C <= 30%")
    tiny = pmb.oracle(1e-30 * pmb.GiniDeviation(), NORMAL, shares="C <= 30%")
    assert tiny.weights == pytest.approx(plain.weights, abs=1e-9) and tiny.certified
    assert tiny.prices["C <= 30%"].multiplier == pytest.approx(1e-30 * plain.prices["C <= 30%"].multiplier, rel=1e-6)
    assert str(tiny.prices["C <= 30%"]) == str(plain.prices["C <= 30%"])


def test_a_steep_slope_towards_an_arm_that_is_allowed_little() -> None:
    # Vertical h: the arm far to the right is worth a share however small, and may have only so much.
    bandit = pmb.Bandit([st.norm(0, 1), st.norm(1, 0.1), st.norm(50, 0.01)], names=["A", "B", "C"])
    best = pmb.oracle("pht(0.5)", bandit, shares="C <= 1e-6; B >= 10%")
    assert best.certified and best.gap <= 1e-9 * best.value
    assert best.weights[2] == pytest.approx(1e-6, rel=1e-9)
    tried = np.random.default_rng(0).dirichlet(np.ones(2), 300)
    for a, b in tried[tried[:, 1] >= 0.11]:
        assert pmb.utility("pht(0.5)", bandit, [a * (1 - 1e-6), b * (1 - 1e-6), 1e-6]) <= best.value + best.gap


def test_atoms_and_panels_agree() -> None:
    x = (np.arange(4000) + 0.5) / 4000
    distributions = [st.beta(2, 3), st.beta(1, 1), st.beta(4, 2)]
    limits = "arm 0 >= 20%; arm 2 <= 0.5; arm 1 <= arm 0"
    smooth = pmb.oracle("gini", pmb.Bandit(distributions), shares=limits)
    atoms = pmb.oracle("gini", pmb.Bandit([distribution.ppf(x) for distribution in distributions]), shares=limits)
    assert atoms.value == pytest.approx(smooth.value, rel=1e-3)
    assert atoms.weights == pytest.approx(smooth.weights, abs=0.01)


# ---- prices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", ["C == 0", "C <= 0", "C == 0; A == 50%", "A == 50%; B == 25%"])
def test_limits_that_leave_one_mixture_or_shut_an_arm_out_have_their_price(shares: str) -> None:
    rewards = [[0.0, 1.0, 0.0, 1.0, 1.0, 0.0], [0.3, 0.5, 0.2, 0.1, 0.6, 0.4], [0.0, 3.0, 5.0, 1.0, 0.0, 0.0]]
    bandit = pmb.Bandit(rewards, names=["A", "B", "C"])
    best = pmb.oracle("gini", bandit, shares=shares)
    for text, price in best.prices.items():
        others = "; ".join(one for one in shares.split("; ") if one != text)
        again = pmb.oracle("gini", bandit, shares=others or None)
        assert price.gain == pytest.approx(again.value - best.value, abs=1e-9)
        assert np.isnan(price.multiplier) or price.gain < 1e-9 or price.multiplier != 0.0


@settings(max_examples=8, deadline=None)
@given(s.sampled_from(["gini", "upper_cvar(0.8)", "mean", "dual_power(3)", "wang_right_tail"]), s.integers(0, 10_000))
def test_prices_are_those_of_solving_again(name: str, seed: int) -> None:
    rng = np.random.default_rng([23, seed])
    arms = int(rng.integers(2, 6))
    bandit = pmb.Bandit([rng.normal(rng.normal(), rng.uniform(0.5, 1.5), size=30) for _ in range(arms)])
    rules = random_rules(rng, arms, 3)
    best = pmb.oracle(name, bandit, shares=as_text(rules))
    size = max(abs(best.value), abs(best.best_arm_value))
    assert best.limits is not None and set(best.prices) == set(best.limits.texts)
    for rule in rules:
        text = as_text([rule])
        if text not in best.prices:  # every mixture keeps it
            continue
        price = best.prices[text]
        others = [r for r in rules if as_text([r]) != text]  # what is said twice counts once
        again = pmb.oracle(name, bandit, shares=as_text(others))
        assert price.without == pytest.approx(max(again.value, best.value), abs=3e-9 * size)
        assert price.value == best.value and price.gain >= 0.0
        # The utility as a function of the bound is concave, and the multiplier is one of its slopes.
        step = 1e-3
        row, sign, number = rule
        for move in (step, -step):
            moved = [*others, (row, sign, number - move if sign == ">=" else number + move)]
            try:
                other = pmb.oracle(name, bandit, shares=as_text(moved))
            except ValueError:  # nothing is left
                continue
            assert other.value <= best.value + price.multiplier * move + best.gap + 3e-9 * size


def test_prices_in_words() -> None:
    best = pmb.oracle("gini", NORMAL, shares="B >= 20%; C <= 30%; A >= 1%")
    words = [str(price) for price in best.prices.values()]
    assert words[1] == "without the limit on C (C <= 30%) the utility would be 2.5 % higher"
    assert words[2] == "the limit on A (A >= 1%) costs nothing"
    free = pmb.oracle("gini", NORMAL, shares="B >= 20%")
    assert best.prices["C <= 30%"].without == pytest.approx(free.value, rel=1e-9)
    assert str(pmb.ShadowPrice("A <= 0.1", 1.0, -0.5, 0.25, "A")).endswith("would be 150 % higher")
    assert str(pmb.ShadowPrice("A <= 0.1", 1.0, 0.0, 0.25, "A")).endswith("would be 0.25 higher")


def test_an_answer_survives_pickle_and_shows_its_limits() -> None:
    best = pmb.oracle("gini", NORMAL, shares="C <= 30%")
    again = pickle.loads(pickle.dumps(best))
    assert again.prices["C <= 30%"] == best.prices["C <= 30%"]
    assert "within C <= 30%" in repr(best) and "within the limits" in best._repr_html_()
