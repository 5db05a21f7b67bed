"""Heavy tails: values with a moment in place of ends of the support, against a linear program; and at all times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from scipy.optimize import linprog

import pmbandits as pmb
from pmbandits.confidence._heavy_tails import max_tilted_h, tail_utility_bound
from pmbandits.metrics.encoding import encode_metric
from tests.reference import bands as slow

LAWS: dict[str, Any] = {"lognormal": st.lognorm(1.0), "pareto": st.pareto(2.5), "student": st.t(3)}


def taught(metric: Any, support: Any, data: list[Any], **options: Any) -> Any:
    policy = pmb.Track(metric, n_arms=len(data), support=support, **options)
    for arm, rewards in enumerate(data):
        policy.tell(arm, rewards)
    return policy


def best_mean(x: np.ndarray, bound: float, delta: float, sign: int) -> float:
    """The largest (smallest) mean of a law on many points that is in the belt and has E X² ≤ bound: a linear program.

    Its points are some, not all, so it can fall short of the truth; the library's bound must not be below it.
    """
    n = x.size
    depth = slow.depth_everywhere(n, delta)
    upper = slow.upper_ends(np.arange(n + 1), n, depth, True)
    lower = 1 - upper[::-1]
    far = np.geomspace(0.05, 200, 150)
    points = np.unique(np.concatenate((x, np.nextafter(x, np.inf), -far, far, [0.0])))
    above = n - np.searchsorted(np.sort(x), points, side="right")
    beyond = np.triu(np.ones((points.size, points.size)), 1)  # row j: the mass above point j
    rows = np.concatenate((beyond, -beyond, points[None, :] ** 2))
    limits = np.concatenate((upper[above], -lower[above], [bound]))
    found = linprog(
        -sign * points, A_ub=rows, b_ub=limits, A_eq=np.ones((1, points.size)), b_eq=[1.0], bounds=(0, None)
    )
    assert found.status == 0
    return float(-sign * found.fun)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("law", ["lognormal", "student"])
def test_the_bounds_of_the_mean_are_those_of_a_linear_program(law, sign):
    x = LAWS[law].rvs(50, random_state=np.random.default_rng(3))
    bound = 1.5 * float(LAWS[law].moment(2))
    low, middle, high = taught("mean", pmb.Heavy(2, bound), [x]).utility_bounds([1.0])
    exact = best_mean(x, bound, 0.05, sign)
    ours = high if sign > 0 else low
    assert sign * ours >= sign * exact - 1e-9
    assert abs(ours - middle) <= 1.1 * abs(exact - middle)


@pytest.mark.parametrize(
    ("law", "widths"), [("lognormal", (0.30, 2.5, 0.40, 0.66)), ("student", (0.28, 1.4, 0.44, 0.61))]
)
def test_widths_are_those_of_the_notes(law, widths):
    x = LAWS[law].rvs(10_000, random_state=np.random.default_rng(1))
    support = pmb.Heavy(2, 1.5 * float(LAWS[law].moment(2)), lo=0.0 if law == "lognormal" else -np.inf)
    for metric, width in zip(("gini", "upper_cvar(0.9)", "mean", "pht(0.8)"), widths, strict=True):
        low, _, high = taught(metric, support, [x]).utility_bounds([1.0])
        assert high - low == pytest.approx(width, rel=0.06)


@pytest.mark.parametrize("metric", ["gini", "pht(0.8)"])
def test_every_price_bounds_and_slopes_are_those_of_the_bound(metric):
    rng = np.random.default_rng(0)
    policy = taught(metric, pmb.Heavy(2, 9.0), [rng.lognormal(0, 0.5 + 0.2 * i, 60) for i in range(3)])
    a, none = np.array([0.2, 0.5, 0.3]), np.empty(0)
    low, _, high = policy.utility_bounds(a)
    memory = policy._memory_with_radii()
    for price in (0.0, 0.003, 0.03, 0.3):
        assert tail_utility_bound(memory, a, 1.0, price, 0.0, none) >= high - 1e-9
        assert -tail_utility_bound(memory, a, -1.0, price, 0.0, none) <= low + 1e-9
        slopes = np.empty(3)
        tail_utility_bound(memory, a, 1.0, price, 1e-7, slopes)
        for i, j in ((0, 1), (1, 2)):
            step = np.zeros(3)
            step[i], step[j] = 1e-6, -1e-6
            ahead, behind = (tail_utility_bound(memory, a + side * step, 1.0, price, 0.0, none) for side in (1, -1))
            assert (ahead - behind) / 2e-6 == pytest.approx(
                slopes[i] - slopes[j], abs=1e-3 * max(1.0, abs(slopes).max())
            )


@pytest.mark.parametrize("support", [(4, 3.3, -np.inf), (3.5, 2.5, -np.inf), (6, 16.0, -1e4), (4, 3.3, -1e6)])
@pytest.mark.parametrize(
    ("metric", "of_losses"),
    [("mean", "mean"), ("upper_cvar(0.9)", "lower_cvar(0.1)"), ("lower_cvar(0.5)", "upper_cvar(0.5)")],
)
def test_bounds_of_rewards_are_those_of_losses_turned_round(metric, of_losses, support):
    order, bound, lo = support
    x = np.random.default_rng(1).normal(size=200)
    low, middle, high = taught(metric, pmb.Heavy(order, bound, lo), [x]).utility_bounds([1.0])
    least, other, most = taught(of_losses, pmb.Heavy(order, bound), [-x]).utility_bounds([1.0])
    assert low < middle < high
    assert (low, middle, high) == pytest.approx((-most, -other, -least), abs=2e-3)  # the pieces are not the same


@pytest.mark.parametrize("order", [1.5, 4.0, 8.0])
def test_small_probabilities_of_losses_keep_their_digits(order):
    h = encode_metric(pmb.PHT(0.8))
    for x in (10.0, 1e3, 1e6):
        tilt, cap = order * x ** (order - 1.0), x**-order
        value, where = max_tilted_h(h, 1.0, 1, True, tilt, 0.0, cap)  # −h is concave here: h falls from 1 on
        assert 0.0 <= value <= 1e-5 * tilt * cap
        assert where <= 1e-5 * cap


def test_rewards_that_no_distribution_of_the_support_has_are_an_error():
    policy = taught("mean", pmb.Heavy(4, 1.0), [np.full(2_000, 5.0)])
    with pytest.raises(ValueError, match=r"E\|X\|\^4 ≤ 1"):
        policy.utility_bounds([1.0])
    with pytest.raises(ValueError, match="no distribution"):
        policy.certainty()


@pytest.mark.slow
def test_nothing_is_certain_too_early_where_a_high_moment_is_known():
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        policy = pmb.Track("lower_cvar(0.5)", n_arms=2, support=pmb.Heavy(4, 4.0), seed=seed)
        for t in range(400):
            arm = policy.ask()
            policy.tell(arm, rng.normal(0.3 * arm))
            if t % 20 == 4 and policy.done(0.25):
                shares = policy.mixture
                truth = pmb.utility("lower_cvar(0.5)", pmb.Bandit([st.norm(0), st.norm(0.3)]), shares)
                wrong += truth < 0.3 - 0.7979 - 0.25
                break
    assert wrong <= 0.05 * 200


def test_the_rival_is_not_below_any_mixture():
    rng = np.random.default_rng(4)
    for metric in ("gini", "lower_cvar(0.3)", "inter_es_range(0.3)"):
        support = pmb.Heavy(3, 30.0, lo=0.0)
        policy = taught(metric, support, [rng.lognormal(0, 0.4 + 0.2 * i, 150) for i in range(3)])
        rival = policy.certainty([1 / 3] * 3).rival
        for a in rng.dirichlet(np.ones(3), 10):
            assert policy.utility_bounds(a)[2] <= rival + 1e-6
        if metric == "gini":
            best = max(policy.utility_bounds(a)[2] for a in rng.dirichlet(np.ones(3), 60))
            assert rival <= 1.02 * best


def test_where_values_can_be_infinite_one_sentence_says_why():
    heavy = pmb.Heavy(order=2, bound=5)
    with pytest.raises(ValueError, match=r"infinite.*2\.5"):
        pmb.PMUCB("pht(0.4)", n_arms=2, support=heavy, horizon=100)
    with pytest.raises(ValueError, match="Hölder pair"):
        pmb.CEUCB("pht(0.8)", n_arms=2, support=heavy, horizon=100)
    assert pmb.Track("pht(0.4)", n_arms=2, support=heavy).confidence is None  # it can be played all the same
    with pytest.raises(ValueError, match="heavy tails"):
        pmb.PMUCB("gini", n_arms=2, support=heavy, horizon=100, confidence="dkw")
    with pytest.raises(ValueError, match="sub-Gaussian"):
        pmb.UCB1(n_arms=2, support=heavy)


@pytest.mark.parametrize(
    "given", [{"order": 1, "bound": 2}, {"order": 2, "bound": 0}, {"order": 2, "bound": 1, "lo": 3}]
)
def test_promises_that_cannot_be_are_refused(given):
    with pytest.raises(ValueError, match=r"order|bound"):
        pmb.Heavy(**given)


def test_rewards_below_lo_are_refused_and_the_support_is_saved(tmp_path):
    support = pmb.Heavy(2, 5, lo=0)
    policy = pmb.PMUCB("gini", n_arms=2, support=support, horizon=200)
    with pytest.raises(ValueError, match="outside"):
        policy.tell(0, -0.1)
    rng = np.random.default_rng(1)
    for _ in range(120):
        policy.tell(policy.ask(), float(rng.lognormal(0, 0.7)))
    policy.save(tmp_path / "policy.pmb")
    again = pmb.load(tmp_path / "policy.pmb")
    assert again.support == support
    for _ in range(60):
        arm, reward = policy.ask(), float(rng.lognormal(0, 0.7))
        assert again.ask() == arm
        policy.tell(arm, reward)
        again.tell(arm, reward)
    assert pmb.Support.from_dict(support.to_dict()) == support


# ---- at all times -----------------------------------------------------------------------------------------
LOOKS = np.unique(np.geomspace(2, 2000, 24).astype(int))


def ever_wrong(law: Any, metrics: list[str], runs: int, factor: float = 1.5) -> int:
    """In how many runs the true utility is outside the bounds for some metric at some look."""
    moment = float(law.moment(2))
    truths = {metric: float(pmb.metric(metric).value(law)) for metric in metrics}
    wrong = 0
    for run in range(runs):
        x = law.rvs(LOOKS[-1], random_state=np.random.default_rng([run, 3]))
        failed = False
        for metric in metrics:
            policy, done = pmb.Track(metric, n_arms=1, support=pmb.Heavy(2, factor * moment)), 0
            for n in LOOKS.tolist():
                policy.tell(0, x[done:n])
                done = n
                try:
                    low, _, high = policy.utility_bounds([1.0])
                except ValueError as error:  # no distribution fits
                    assert "no distribution" in str(error)
                    failed = True
                    break
                failed |= not low <= truths[metric] <= high
        wrong += failed
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_bounds_hold_at_all_times_on_heavy_tails(name):
    runs = 150
    assert (
        ever_wrong(LAWS[name], ["gini", "upper_cvar(0.9)", "mean", "pht(0.8)", "lower_cvar(0.2)"], runs) <= 0.05 * runs
    )


def test_a_moment_that_is_too_small_is_found_out():
    assert ever_wrong(LAWS["lognormal"], ["mean"], 3) == 0
    assert ever_wrong(LAWS["lognormal"], ["mean"], 6, factor=0.25) >= 3
