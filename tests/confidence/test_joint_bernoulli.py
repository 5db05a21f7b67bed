"""One set for the chances of all arms that pay 0 or 1: against a slow reference, and by attack."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.confidence._joint_bernoulli import TANGENTS, digamma, fill_log_martingale_and_slope, tangent_cost_at
from pmbandits.confidence.joint_bernoulli import JointChances, martingale_weight_of_one
from pmbandits.metrics.encoding import encode_metric
from tests.reference.joint_bernoulli import martingale, worst_on_grid

METRICS = [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.Quadratic(0.5), pmb.LowerCVaR(0.4), pmb.InvertedS(0.7)]


def log_m(p: float, ones: int, zeros: int, weight: float) -> float:
    out = np.empty(2)
    fill_log_martingale_and_slope(p, ones, zeros, weight, out)
    return float(out[0])


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.8])
def test_the_martingale_is_what_betting_reward_by_reward_makes(weight: float) -> None:
    rng = np.random.default_rng(1)
    for n, p in ((0, 0.3), (1, 0.5), (7, 0.01), (60, 0.7), (300, 0.95)):
        rewards = (rng.random(n) < 0.6).astype(int).tolist()
        ones = sum(rewards)
        assert log_m(p, ones, n - ones, weight) == pytest.approx(math.log(martingale(rewards, p, weight)), abs=1e-9)


@pytest.mark.parametrize("p", [0.02, 0.4, 0.9])
def test_whatever_came_its_expected_next_value_is_its_present_one(p: float) -> None:
    for ones, zeros in ((0, 0), (0, 9), (3, 1), (40, 60), (70, 2)):
        one, zero = (math.exp(log_m(p, ones + a, zeros + 1 - a, 0.2)) for a in (1, 0))
        assert p * one + (1 - p) * zero == pytest.approx(math.exp(log_m(p, ones, zeros, 0.2)), rel=1e-9)


def test_the_tangents_lie_below_the_martingale_and_close_to_it() -> None:
    rng, out = np.random.default_rng(2), np.empty(2)
    for ones, n in ((0, 0), (0, 40), (40, 40), (1, 300), (300, 600), (9_000, 10_000), (31, 1_000_000)):
        joint = JointChances(np.array([ones]), np.array([n]), 0.05)
        chances, costs = joint.chances[0], joint.costs[0]
        assert (np.diff(chances) >= 0.0).all()
        for p in rng.uniform(chances[0], chances[-1], 200):
            fill_log_martingale_and_slope(p, ones, n - ones, 0.0, out)
            assert out[0] - 0.05 <= tangent_cost_at(chances, costs, p) <= out[0] + 1e-9
        for end, outside in ((chances[0], 0.0), (chances[TANGENTS], 1.0)):  # beyond the ends it is above ln 1/δ
            if end != outside:
                fill_log_martingale_and_slope(end, ones, n - ones, 0.0, out)
                assert out[0] >= math.log(20) - 1e-6
    for x in (1e-8, 0.3, 5.0, 812.5):
        step = 1e-6 * x
        assert digamma(x) == pytest.approx((math.lgamma(x + step) - math.lgamma(x - step)) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_bounds_are_those_of_all_chances_in_the_set(metric: Any) -> None:
    """Never less than what a grid finds, and hardly more: what the grid of the reference leaves open."""
    cases = [
        ((6, 27), (15, 30), (0.8, 0.2)),
        ((40, 44), (100, 60), (0.0, 1.0)),
        ((20, 45, 30), (60, 90, 40), (0.3, 0.7, 0.0)),
    ]
    for ones, n, mix in cases:
        weight, points = martingale_weight_of_one(len(n)), 300 if len(n) == 2 else 60
        found = JointChances(np.array(ones), np.array(n), 0.05).utility_and_regret_bounds(
            encode_metric(metric), np.array(mix)
        )
        low, high, rival, regret = worst_on_grid(metric, ones, n, mix, 0.05, weight, points)
        steepest = 2.0 * float(np.abs(np.diff(np.asarray(metric(np.linspace(0.02, 0.98, points + 1))))).max())
        for bound, truth in ((-found.lower, -low), (found.upper, high), (found.rival, rival), (found.regret, regret)):
            assert truth - 1e-12 <= bound <= truth + 0.02 * abs(truth) + 2.0 * steepest
        assert found.lower <= float(metric(np.array([np.dot(mix, np.divide(ones, n))]))[0]) <= found.upper


def test_the_worst_chances_are_in_the_set_and_lose_about_what_is_said() -> None:
    metric, mix = pmb.GiniDeviation(), np.array([0.8, 0.2])
    joint = JointChances(np.array([40, 54]), np.array([100, 60]), 0.05)
    found = joint.utility_and_regret_bounds(encode_metric(metric), mix)
    cost = sum(
        log_m(p, k, n - k, martingale_weight_of_one(2))
        for p, k, n in zip(found.worst, (40, 54), (100, 60), strict=True)
    )
    assert cost <= math.log(20) + 0.05
    best = np.asarray(metric(np.linspace(found.worst.min(), found.worst.max(), 999))).max()
    assert best - float(metric(mix @ found.worst)) == pytest.approx(found.regret, rel=0.03)


def test_arms_that_nobody_asks_about_make_it_a_little_larger() -> None:
    ones, n, mix, h = np.array([40, 54]), np.array([100, 60]), np.array([0.8, 0.2]), encode_metric(pmb.GiniDeviation())
    alone, among = (JointChances(ones, n, 0.05, arms).utility_and_regret_bounds(h, mix) for arms in (2, 20))
    seen = JointChances(np.append(ones, [0] * 18), np.append(n, [0] * 18), 0.05)  # with nothing known of them
    of_seen = seen.utility_and_regret_bounds(h, np.append(mix, [0.0] * 18))
    assert alone.regret < among.regret < 2.0 * alone.regret
    assert among.lower <= of_seen.lower + 1e-9  # an arm that came, and is not asked about, can only cost more


def ever_wrong(p: Any, runs: int, rounds: int, rng: Any, delta: float, adaptive: bool) -> int:
    """How often Σ ln M at the true chances reaches ln 1/δ at any time; pulls follow the rewards so as to reach it."""
    k, weight, wrong = len(p), martingale_weight_of_one(len(p)), 0
    for _ in range(runs):
        ones, n, cost = np.zeros(k, int), np.zeros(k, int), np.zeros(k)
        for _ in range(rounds):
            off = np.abs(ones / np.maximum(n, 1) - p) * np.sqrt(n)
            arm = int(np.argmax(off)) if adaptive and rng.random() < 0.7 else int(rng.integers(k))
            ones[arm] += rng.random() < p[arm]
            n[arm] += 1
            cost[arm] = log_m(p[arm], int(ones[arm]), int(n[arm] - ones[arm]), weight)
            if cost.sum() >= math.log(1 / delta):
                wrong += 1
                break
    return wrong


@pytest.mark.parametrize(("runs", "rounds"), [(60, 150), pytest.param(1_000, 600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("p", [(0.4, 0.9), (0.02, 0.98, 0.5)])
def test_the_true_chances_stay_inside_whoever_chooses_the_pulls(p: Any, runs: int, rounds: int) -> None:
    rng = np.random.default_rng([3, runs])
    for delta in (0.2, 0.05):
        wrong = ever_wrong(np.array(p), runs, rounds, rng, delta, True)
        assert st.binom.sf(wrong - 1, runs, delta) > 1e-4


def test_a_set_for_a_larger_risk_is_found_out_by_these_runs() -> None:
    """With ln 1/δ a tenth of what it should be, the same attack finds far more than δ."""
    assert ever_wrong(np.array([0.4, 0.9]), 60, 150, np.random.default_rng(4), 0.05**0.1, True) > 15


def test_a_policy_says_that_one_set_is_for_all_arms() -> None:
    policy = pmb.Track("gini", n_arms=2, support=pmb.Binary())
    policy.tell([0, 1] * 600, [0, 1] * 300 + [1, 1] * 300)
    sure = policy.certainty([0.9, 0.1])
    assert "95 %" in sure.meaning and "product" in sure.meaning and sure.probability == pytest.approx(0.95)
    joint = JointChances(np.array([0, 600]) + np.array([300, 0]), np.array([600, 600]), 0.05)
    found = joint.utility_and_regret_bounds(encode_metric(pmb.GiniDeviation()), np.array([0.9, 0.1]))
    assert (sure.lower, sure.upper, sure.rival, sure.regret) == pytest.approx(found[:4])
    limited = pmb.Track("gini", n_arms=2, support=pmb.Binary(), shares={"arm 1": (0.0, 0.5)})
    limited.tell([0, 1] * 600, [0, 1] * 300 + [1, 1] * 300)
    assert "97.5 %" in limited.certainty().meaning  # with limits on shares each arm keeps its own interval


@pytest.mark.parametrize("members", [2, 5_000])
def test_thousands_of_arms_are_bounded_within_a_second(members: int) -> None:
    k, rng = 5_000, np.random.default_rng(8)
    n = rng.integers(0, 30, k)
    ones, mix, h = rng.binomial(n, 0.5), np.zeros(k), encode_metric(pmb.GiniDeviation())
    mix[:members] = 1.0 / members
    JointChances(ones[:2], n[:2], 0.05).utility_and_regret_bounds(h, np.array([0.5, 0.5]))  # compiled
    began = time.process_time()
    found = JointChances(ones, n, 0.05).utility_and_regret_bounds(h, mix)
    assert time.process_time() - began < 1.0  # 3 to 6 s, when every step looked at every arm
    assert 0.0 <= found.lower <= found.upper <= found.rival and 0.0 < found.regret <= found.rival - found.lower
