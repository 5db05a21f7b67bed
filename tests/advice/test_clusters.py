"""Units and blocks of time: errors between them, few and unequal ones, and how often verdicts are wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.advice.clusters import Clusters
from pmbandits.advice.standard_errors import Guard, margins_over_arms, pseudo_rewards_for, unit_vector
from pmbandits.logs import Sample

UNIT = pmb.Interval(0, 1)


def shops(rng: np.random.Generator, sizes: list[int], alike: float, lead: float = 0.0) -> pd.DataFrame:
    """Two arms with shops of these sizes; ``alike`` is the intraclass correlation, ``lead`` that of the second arm."""
    out = []
    for k, arm in enumerate("ab"):
        for shop, n in enumerate(sizes):
            noise = np.sqrt(alike) * rng.normal() + np.sqrt(1 - alike) * rng.normal(size=n)
            reward = np.clip(0.5 + 0.12 * noise + lead * k, 0, 1)
            out.append(pd.DataFrame({"arm": arm, "shop": f"{arm}{shop}", "reward": reward}))
    return pd.concat(out)


def share_sure(make: object, runs: int, metric: str = "mean", **options: object) -> float:
    return sum(
        pmb.advise(make(np.random.default_rng(seed)), metric, support=UNIT, **options).proven
        for seed in range(runs)
    ) / runs  # fmt: skip


def test_the_variance_is_that_of_leaving_out_one_unit_after_the_other() -> None:
    rng = np.random.default_rng(0)
    arm, unit = np.repeat([0, 1], [60, 40]), np.concatenate((rng.integers(0, 6, 60), rng.integers(4, 9, 40)))
    score = rng.normal(size=100)
    rows = Clusters(arm, score, unit)

    def averages(left: np.ndarray) -> np.ndarray:
        return np.array([score[left & (arm == k)].mean() * (1, -1)[k] for k in range(2)])

    whole, moved = averages(np.ones(100, dtype=bool)), []
    for one in range(9):
        factors = [np.sqrt(1 - 1 / np.unique(unit[arm == k]).size) for k in range(2)]
        moved.append(float(factors @ (averages(unit != one) - whole)))
    spread = rows.jackknife_spread([score[arm == 0], -score[arm == 1]])
    assert spread.variance == pytest.approx(float(np.square(moved).sum()))
    assert rows.effective_size(0) == pytest.approx(3600 / np.square(np.bincount(unit[:60])).sum())


def test_degrees_of_freedom_are_those_of_the_units_and_fall_with_unequal_sizes() -> None:
    rng = np.random.default_rng(1)
    equal = Clusters(np.zeros(120, dtype=int), np.zeros(120), np.repeat(np.arange(12), 10))
    assert equal.jackknife_spread([rng.normal(size=120)]).df == pytest.approx(11.0)
    sizes = np.array([110] + [10] * 11)
    uneven = Clusters(np.zeros(220, dtype=int), np.zeros(220), np.repeat(np.arange(12), sizes))
    variances = [uneven.jackknife_spread([np.repeat(rng.normal(size=12), sizes)]).variance for _ in range(4_000)]
    stated = uneven.jackknife_spread([np.repeat(rng.normal(size=12), sizes)]).df
    assert stated == pytest.approx(2 * np.mean(variances) ** 2 / np.var(variances), rel=0.15)  # Satterthwaite's rule
    weights = sizes / sizes.sum()
    assert np.mean(variances) >= weights @ weights
    alone = Clusters(np.zeros(5, dtype=int), np.zeros(5), np.zeros(5, dtype=int))
    assert alone.jackknife_spread([rng.normal(size=5)]).variance == np.inf


@pytest.mark.parametrize(
    ("sizes", "alike"), [([100] * 10, 0.5), ([200] * 12, 0.3), ([950] + [50] * 19, 0.3), ([10], 0.9)]
)
def test_equal_arms_of_few_or_unequal_units_are_rarely_told_apart(sizes: list[int], alike: float) -> None:
    assert share_sure(lambda rng: shops(rng, sizes, alike), 40, unit="shop") <= 0.05


@pytest.mark.parametrize("options", [{"unit": "shop"}, {"time": "day"}])
def test_the_worst_rewards_are_compared_between_units_and_blocks_of_time(options: dict[str, str]) -> None:
    rng = np.random.default_rng(5)
    table = shops(rng, [20] * 20, 0.3, lead=0.2) if "unit" in options else series(rng, 300, 0.3, lead=0.2)
    found = pmb.advise(table, "lower_cvar(0.1)", **options).decision  # type: ignore[call-overload]
    assert found.mixture == {"b": 1.0} and found.kind == "choose"
    assert found.difference.interval[0] > 0.0


@pytest.mark.slow
def test_few_units_still_decide() -> None:
    assert share_sure(lambda rng: shops(rng, [50] * 10, 0.3, lead=0.15), 20, unit="shop") >= 0.75
    assert share_sure(lambda rng: shops(rng, [50] * 6, 0.05, lead=0.15), 20, unit="shop") >= 0.75


@pytest.mark.slow
def test_intervals_of_a_quantile_allow_for_units() -> None:
    inside = 0
    for seed in range(40):
        table = shops(np.random.default_rng(seed), [20] * 30, 0.5)
        low, high = pmb.advise(table, "var(0.5)", unit="shop", support=UNIT, splits=8).interval
        inside += low <= 0.5 <= high
    assert inside >= 36


def test_units_that_never_paid_may_still_pay() -> None:
    table = pd.DataFrame({"arm": np.repeat(["sure", "rare"], 300), "shop": np.repeat(np.arange(60), 10)})
    table["reward"] = np.where(table["arm"] == "sure", 0.04, 0.0)  # rare pays 1 in all rows of one shop in twenty
    assert not pmb.advise(table, "mean", unit="shop", support=UNIT).proven


def series(rng: np.random.Generator, n: int, depends: float, lead: float = 0.0) -> pd.DataFrame:
    """Two arms in turn; each reward of an arm depends on the one before."""
    reward = np.empty((n, 2))
    state = rng.normal(size=2)
    for t in range(n):
        state = depends * state + np.sqrt(1 - depends**2) * rng.normal(size=2)
        reward[t] = np.clip(0.5 + 0.12 * state + [0, lead], 0, 1)
    return pd.DataFrame({"arm": ["a", "b"] * n, "reward": reward.ravel(), "day": np.repeat(np.arange(n), 2)})


def test_rewards_that_depend_on_those_before_are_not_taken_for_independent() -> None:
    assert share_sure(lambda rng: series(rng, 100, 0.6), 60, time="day") <= 0.05
    assert share_sure(lambda rng: series(rng, 300, 0.6, lead=0.1), 20, time="day") >= 0.7
    said = pmb.advise(series(np.random.default_rng(0), 300, 0.0, lead=0.1), "mean", time="day", support=UNIT)
    assert said.proven and "blocks of time" in str(said)


def test_arms_that_were_not_tried_at_the_same_time_cannot_be_compared() -> None:
    rng = np.random.default_rng(3)
    n = 200
    table = pd.DataFrame({"arm": np.repeat(["old", "new"], n), "day": np.arange(2 * n)})
    table["reward"] = np.clip(rng.normal(np.repeat([0.4, 0.5], n), 0.1), 0, 1)  # the world changed, not the arm
    said = pmb.advise(table, "mean", time="day", support=UNIT)
    assert said.sure == "unclear" and said.apart == (0, 1) and not said.more
    assert any("same time" in caveat.seen for caveat in said.caveats) and "does not allow to compare" in said.reason
    assert "same period" in said.outlook
    mixed = table.assign(day=rng.permutation(2 * n))
    assert pmb.advise(mixed, "mean", time="day", support=UNIT).apart == ()


def test_an_arm_that_vanished_is_left_out_and_the_others_are_compared() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"arm": np.tile(["a", "b", "c"], 200), "day": np.repeat(np.arange(200), 3)})
    table["reward"] = rng.normal(table["arm"].map({"a": 0.0, "b": 0.8, "c": 2.0}), 1.0)
    table = table[(table["arm"] != "c") | (table["day"] < 100)]
    said = pmb.advise(table, "mean", time="day")
    assert said.apart == said.evidence.left_out == (2,) and not said.inconclusive
    assert said.decision.kind == "choose" and said.mixture == {"b": 1.0} and said.decision.next_step.kind == "nothing"
    assert [c.arms for c in said.decision.caveats if c.kind == "apart in time"] == [("c",)]
    assert any("the answer is about the others" in caveat.done for caveat in said.caveats)


@pytest.mark.parametrize("level", [0.95, 0.99, 0.999])
def test_strict_levels_hold_for_rare_events_and_unequal_arms(level: float) -> None:
    """Of all counts that can come, those called sure have at most the promised probability, by the binomial formula."""
    n, many, p = 200, 20_000, 0.02
    counts, hits = np.arange(25), np.arange(250, 551, 6)
    guard, wrong, guarded = Guard([(0.0, 1.0)] * 2, [(0.0, 1.0)] * 2, pseudo_rewards_for(1 - level), True), 0.0, 0.0
    edges = np.concatenate(([0], hits[1:] - 3.5, [many]))
    for k in counts.tolist():
        sure = []
        proven = []
        for j in hits.tolist():
            shares = (1 - k / n, k / n), (1 - j / many, j / many)
            samples = [
                Sample(size, np.array([0.0, 1.0]), np.array(share))
                for size, share in zip((n, many), shares, strict=True)
            ]
            best = int(j / many > k / n)
            ahead = margins_over_arms(pmb.Mean(), unit_vector(2, best), samples, guard, [1 - best], None)[0]
            assert ahead.guarded is not None
            sure.append(2 * ahead.p_value <= 1 - level)
            proven.append(2 * ahead.guarded.p_value <= 1 - level)
        chance = np.diff(st.binom.cdf(edges, many, p), prepend=0.0)[1:]
        wrong += float(st.binom.pmf(k, n, p)) * float(chance @ np.array(sure))
        guarded += float(st.binom.pmf(k, n, p)) * float(chance @ np.array(proven))
    assert max(wrong, guarded) <= 1 - level
