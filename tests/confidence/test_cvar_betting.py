"""Bounds of CVaR by betting: beside their definition, beside the band, and at all times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.confidence import betting
from pmbandits.confidence.cvar_betting import Corner, cvar_lower_bound, cvar_upper_bound, group_rewards
from pmbandits.engine.certainty import CORNER, SETS
from tests.reference.cvar_betting import grid, money, refuted_from_above, refuted_from_below

UNIT = pmb.Interval(0, 1)
BLEND = 0.5 * pmb.Mean() + 0.5 * pmb.LowerCVaR(0.2)
METRICS = [pmb.LowerCVaR(0.2), pmb.LowerCVaR(0.6), BLEND]
DATA: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # quantile functions
    "Beta": st.beta(2, 5).ppf,
    "heavy at 0": lambda u: u ** (1 / 0.3),
    "zero-inflated": lambda u: np.where(u < 0.3, 0.0, st.beta(3, 3).ppf((u - 0.3) / 0.7)),
    "coins": lambda u: (u > 0.1).astype(float),
    "small": lambda u: 0.4 + 0.01 * u,
    "equal": lambda u: np.full(u.size, 0.3),
}


def corner_of(metric: Any) -> Corner:
    found = Corner.of_metric(metric)
    assert found is not None
    return found


def ends(x: np.ndarray, corner: Corner, delta: float = 0.05, atoms: Any = None) -> tuple[float, float, float]:
    """The lower end, the empirical utility and the upper end of one arm."""
    values, counts = np.unique(x, return_counts=True)
    arm = group_rewards(values, counts.astype(float), corner)
    middle, q = corner.utility_and_quantile(values, counts.astype(float))
    low = cvar_lower_bound([arm], np.ones(1), corner, q, delta, atoms)
    return low, middle, cvar_upper_bound(arm, corner, delta)


@pytest.mark.parametrize(
    "metric", [*METRICS, -pmb.UpperCVaR(0.7), 0.3 * pmb.LowerCVaR(0.1) - pmb.UpperCVaR(0.1)], ids=repr
)
def test_the_corner_has_the_utility_of_the_metric(metric: Any) -> None:
    corner = Corner.of_metric(metric)
    if corner is None:  # two corners, and slopes of both signs
        assert len(metric.kinks) == 2 or metric.monotonicity not in ("increasing", "decreasing")
        return
    x = np.sort(np.random.default_rng(0).random(37))
    y = 1 - x[::-1] if corner.mirrored else x
    found = corner.utility_and_quantile(y, np.ones(37))[0] + (corner.total if corner.mirrored else 0.0)
    assert found == pytest.approx(metric.value(x), abs=1e-12)
    f = corner.a * y + (corner.b - corner.a) * (np.minimum(y, y[:, None]) - corner.place * y[:, None])
    assert f.mean(axis=1).max() + (corner.total if corner.mirrored else 0.0) == pytest.approx(
        metric.value(x), abs=1e-12
    )


def test_only_metrics_with_one_corner_have_one() -> None:
    for metric in ("mean", "gini", "upper_cvar(0.9)", "wang_right_tail", "inter_es_range(0.3)", "var(0.4)"):
        assert Corner.of_metric(pmb.metric(metric)) is None
    assert Corner.of_metric(pmb.LowerCVaR(0.1) + pmb.LowerCVaR(0.2)) is None
    assert Corner.of_metric(pmb.LowerCVaR(0.1) - pmb.Mean()) is None


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_the_ends_are_where_the_money_of_all_bets_reaches_what_refutes_a_value(metric: Any, name: str) -> None:
    x, corner = DATA[name](np.random.default_rng(1).random(60)), corner_of(metric)
    low, middle, high = ends(x, corner)
    near = {q: share for q, share in grid().items() if abs(q - np.quantile(x, 1 - corner.place)) < 0.2 or q >= 1}
    spread = np.ptp(x) + 1e-3
    wide = np.linspace(max(x.min() - spread, 0), min(x.max() + spread, 1), 300)
    every = np.unique(np.concatenate((np.linspace(0, 1, 200), wide, x)))
    assert low == 0.0 or refuted_from_below(x, corner, low, 0.05, near)
    assert high >= corner.largest or refuted_from_above(x, corner, high, 0.05, every)
    assert low <= middle <= high
    # and what lies a little further inside is not refuted; from below, fewer q are looked at than there are
    assert not refuted_from_below(x, corner, low + 0.25 * (middle - low) + 1e-6, 0.05, near)
    assert not refuted_from_above(x, corner, high - 0.06 * (high - middle) - 3e-6, 0.05, every)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_groups_of_rewards_lose_next_to_nothing_and_never_gain(metric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, corner = np.random.default_rng(2).beta(2, 5, 2_000), corner_of(metric)
    low, _, high = ends(x, corner)
    monkeypatch.setattr(betting, "GROUPS", 2_000)
    fine_low, _, fine_high = ends(x, corner)
    assert 0.98 * (high - low) <= fine_high - fine_low <= 1.005 * (high - low)  # both are found up to small steps
    assert refuted_from_above(x, corner, high, 0.05, np.linspace(0, 1, 101))


@pytest.mark.parametrize("estimates", ["exact", "binned:1024"])
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_a_policy_says_what_betting_says(metric: Any, estimates: str) -> None:
    x = np.random.default_rng(3).beta(2, 5, 800)
    policy = pmb.Track(metric, n_arms=1, support=pmb.Interval(-1, 3), estimates=estimates)
    policy.tell(0, 4 * x - 1)
    low, middle, high = policy.utility_bounds([1.0])
    alone = np.array(ends(x, corner_of(metric)))
    step = 0.0 if estimates == "exact" else 3 * 4 / 1024
    assert (low, middle, high) == pytest.approx(4 * alone - 1, abs=1e-9 + step)
    assert (low <= 4 * alone[0] - 1 + 1e-9 and high >= 4 * alone[2] - 1 - 1e-9) or estimates == "exact"
    assert middle == pytest.approx(metric.value(4 * x - 1), abs=1e-9 + step)
    assert "by betting" in policy.certainty().meaning and policy.certainty().probability == 0.95


def test_what_is_bad_from_above_is_the_mirror_of_what_is_bad_from_below() -> None:
    x = np.random.default_rng(4).beta(2, 5, 300)
    policy = pmb.Track(-pmb.UpperCVaR(0.8), n_arms=1, support=UNIT)
    policy.tell(0, x)
    mirror = np.array(ends(1 - x, corner_of(pmb.LowerCVaR(0.2))))
    assert policy.utility_bounds([1.0]) == pytest.approx(mirror - 1, abs=1e-9)


def test_on_a_finite_support_the_money_is_spread_over_its_points() -> None:
    x = np.random.default_rng(5).choice([-1.0, 0.0, 2.0, 5.0], 800, p=[0.1, 0.3, 0.4, 0.2])
    metric, atoms = pmb.LowerCVaR(0.3), np.array([-1.0, 0.0, 2.0, 5.0])
    policy = pmb.Track(metric, n_arms=1, support=pmb.Finite(atoms))
    policy.tell(0, x)
    low, middle, high = policy.utility_bounds([1.0])
    alone = np.array(ends((x + 1) / 6, corner_of(metric), atoms=(atoms + 1) / 6))
    assert (low, middle, high) == pytest.approx(6 * alone - 1) and middle == pytest.approx(metric.value(x))
    assert low > 6 * ends((x + 1) / 6, corner_of(metric))[0] - 1


def test_the_regret_is_the_best_other_arms_largest_utility_less_the_least_of_the_mixture() -> None:
    rng = np.random.default_rng(6)
    policy = pmb.Track(pmb.LowerCVaR(0.3), n_arms=4, support=UNIT)
    data = [rng.beta(a, 4, 400) for a in (2, 4, 3)]
    for arm, x in enumerate(data):
        policy.tell(arm, x)
    each = [policy.utility_bounds(np.eye(4)[i]) for i in range(4)]
    assert each[3][0] == 0.0 and each[3][2] == pytest.approx(1.0)  # nothing is known of an arm without rewards
    sure = policy.certainty([0, 1, 0, 0])
    assert sure.rival == pytest.approx(1.0) and sure.regret == pytest.approx(1.0 - each[1][0])
    policy.tell(3, rng.beta(1, 4, 400))
    each = [policy.utility_bounds(np.eye(4)[i]) for i in range(4)]
    sure = policy.certainty([0, 1, 0, 0])
    others = max(each[i][2] for i in (0, 2, 3))
    assert sure.regret == pytest.approx(max(others - each[1][0], 0.0), abs=0.02 * (others - each[2][1]))
    mix = np.array([0.2, 0.5, 0.3, 0.0])
    low, middle, high = policy.utility_bounds(mix)
    truth = pmb.metric("lower_cvar(0.3)").value(np.concatenate(data), np.repeat(mix[:3] / 400, 400))
    assert middle == pytest.approx(truth) and high == pytest.approx(mix @ [end[2] for end in each])
    assert low < middle and policy.certainty(mix).regret == pytest.approx(max(end[2] for end in each) - low)


def test_the_least_utility_of_a_mixture_is_that_of_its_arms_for_the_same_q() -> None:
    """With two arms that are alike, the mixture is as good as either of them, up to the price of q."""
    x = np.random.default_rng(7).beta(2, 5, 2_000)
    values, counts = np.unique(x, return_counts=True)
    corner = corner_of(pmb.LowerCVaR(0.2))
    arm = group_rewards(values, counts.astype(float), corner)
    middle, q = corner.utility_and_quantile(values, counts.astype(float))
    one = cvar_lower_bound([arm], np.ones(1), corner, q, 0.05)
    two = cvar_lower_bound([arm, arm], np.array([0.4, 0.6]), corner, q, 0.05)
    assert one - 0.1 * (middle - one) <= two <= one + 1e-3 * (middle - one)


def test_what_bounds_rest_on_is_decided_by_metric_support_and_options() -> None:
    def kind(metric: Any, support: Any, **options: Any) -> str:
        return str(pmb.Track(metric, n_arms=2, support=support, **options)._bounds_basis().kind)

    assert kind("lower_cvar(0.1)", UNIT) == kind(BLEND, pmb.Finite(range(12))) == CORNER
    assert kind("lower_cvar(0.1)", UNIT, estimates="sketch") == kind("lower_cvar(0.1)", pmb.Real(1.0)) == SETS
    assert kind("lower_cvar(0.1)", UNIT, confidence="dkw") == kind("upper_cvar(0.9)", UNIT) == SETS
    assert kind("lower_cvar(0.1)", UNIT, shares="A >= 0.2", names=["A", "B"]) == SETS


@pytest.mark.parametrize(("metric", "ratio"), [(pmb.LowerCVaR(0.1), 0.65), (pmb.LowerCVaR(0.3), 0.65), (BLEND, 0.55)])
def test_bounds_are_narrower_than_those_of_the_band(metric: Any, ratio: float) -> None:
    x = np.random.default_rng(8).beta(2, 5, 5_000)
    policy = pmb.Track(metric, n_arms=1, support=UNIT)
    policy.tell(0, x)
    low, _, high = policy.utility_bounds([1.0])
    least, most = policy.utility_bounds([1.0], exact=True)[::2]
    assert (low, high) == (least, most)  # ``exact`` is about the band
    band = policy.estimates[0]
    points = np.unique(np.concatenate(([0.0, 1.0], x)))
    lower, upper = (1 - np.asarray(side) for side in band.band(points[:-1])[::-1])
    width = np.diff(points) @ (metric(np.clip(upper, 0, 1)) - metric(np.clip(lower, 0, 1)))
    assert high - low <= ratio * width


def ever_refuted(name: str, metric: Any, runs: int, rounds: int = 300) -> int:
    """In how many runs the true utility is ever refuted: from below, or from above by the bets for the true q.

    This is at least as often as the bounds miss it. They use a part of this money, and from above they refute all q.
    """
    corner, failed = corner_of(metric), 0
    truth, q = corner.utility_and_quantile(DATA[name]((np.arange(200_000) + 0.5) / 200_000), np.ones(200_000))
    shares = {place: share for place, share in grid().items() if abs(place - q) < 0.03 or share > 0.004}
    slope, near, parts = corner.b - corner.a, np.array(list(shares)), np.array(list(shares.values()))
    mean = np.array([corner.a + slope * (1 - corner.place) * q - truth])
    for seed in range(runs):
        x = DATA[name](np.random.default_rng(seed).random(rounds))[:, None]
        below = money(corner.a * x + slope * np.minimum(x, near), truth + slope * corner.place * near, parts)
        above = money(corner.a * (1 - x) + slope * np.maximum(q - x, 0.0), np.maximum(mean, 1e-9), np.ones(1))
        failed += max(below.sum(axis=1).max(), above.max() if mean[0] > 1e-9 else 0.0) >= 2 / 0.05
    return failed


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_the_truth_is_hardly_ever_refuted_at_any_time(metric: Any, name: str) -> None:
    assert ever_refuted(name, metric, 20) <= 4  # if it were in 5 %, more than 4 of 20 would have a probability of .3 %


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_the_truth_is_refuted_at_some_time_in_at_most_5_percent(metric: Any, name: str) -> None:
    assert ever_refuted(name, metric, 1_000) <= 50
