"""Track: its pulls against a plain rule, and how sure it is against convex programs."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.stats as stats

import pmbandits as pmb
from tests.helpers import SUPPORTS, final_regret, taught

GINI = pmb.GiniDeviation()


# ---- playing ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("support", SUPPORTS)
def test_pulls_follow_the_rule(support: str) -> None:
    """An arm with at most ⌈√(t/K)⌉ pulls, the fewest first; else the one furthest behind its share."""
    declared, law = SUPPORTS[support]
    policy = pmb.Track(GINI, n_arms=3, support=declared)
    rng = np.random.default_rng(0)
    for t in range(400):
        pulls, mixture = policy.pulls, policy.mixture
        fewest = int(np.argmin(pulls))
        behind = t * mixture - pulls
        wanted = (
            fewest if pulls[fewest] <= math.ceil(math.sqrt(t / 3)) else int(np.argmax(behind > behind.max() - 1e-9))
        )
        arm = policy.ask()
        assert arm == wanted
        policy.tell(arm, law(rng, arm))


def test_of_equally_good_mixtures_of_bernoulli_arms_the_present_one_stays() -> None:
    """The closed form beside its plain description: h(mean) is best nearest to the mean being played."""
    metrics = [GINI, pmb.WangRightTail(), pmb.InterESRange(0.4), pmb.CVaR(0.7), pmb.LowerCVaR(0.4), pmb.InvertedS(0.6)]
    grid = np.linspace(0, 1, 4001)
    for seed, metric in enumerate(metrics):
        for n_arms in (2, 4):
            policy, data = taught(metric, "binary", n_arms, 40 + 7 * seed, seed=seed)
            p = np.array([x.mean() for x in data.values()])
            mean = float(policy.mixture @ p)
            inside = grid[(grid >= p.min()) & (grid <= p.max())]
            top = max(float(np.max(metric(inside))), *(float(metric(q)) for q in (p.min(), p.max())))
            assert float(metric(mean)) >= top - 1e-6
            again = policy.mixture  # nothing new: it stays
            policy._update(policy._memory.address)
            assert policy.mixture.tolist() == again.tolist()


def test_tied_mixtures_are_not_left() -> None:
    """Three Bernoulli arms: many mixtures have the best mean, and rewards that keep it best move nothing."""
    policy = pmb.Track(GINI, n_arms=3, support=pmb.Binary())
    policy.tell([0, 1, 2] * 2, [0, 0, 1, 0, 1, 1])  # means 0, ½, 1: the even mixture is best already
    assert policy.mixture.tolist() == [1 / 3] * 3
    for _ in range(5):
        policy.tell([0, 2], [0.0, 1.0])
    assert policy.mixture.tolist() == [1 / 3] * 3


def test_equal_arms_keep_the_even_mixture() -> None:
    policy = pmb.Track(GINI, n_arms=3, support=pmb.Interval(0, 1))
    policy.tell([0, 1, 2] * 4, np.repeat([0.1, 0.4, 0.5, 0.9], 3).tolist())
    assert policy.mixture == pytest.approx([1 / 3] * 3)


def test_regret_on_two_bernoulli_arms_is_below_a_hundred_thousandth() -> None:
    run = pmb.simulate(pmb.Bandit.bernoulli([0.4, 0.9]), GINI, [pmb.Track()], horizon=60_000, trials=40, seed=5,
                       progress=False)  # fmt: skip
    assert final_regret(run, "Track") <= 1e-5


def test_simulate_and_ask_tell_agree_and_a_restart_changes_nothing(tmp_path: Any) -> None:
    for support in ("interval", "real"):
        declared, law = SUPPORTS[support]
        one = pmb.Track(pmb.WangRightTail() if support == "interval" else GINI, n_arms=3, support=declared)
        two = one.bind(one.metric, 3, declared)
        rng, same = np.random.default_rng(1), np.random.default_rng(1)
        for t in range(300):
            a, b = one.ask(), two.ask()
            assert a == b
            if t % 7:  # some rewards never come
                one.tell(a, law(rng, a))
                two.tell(b, law(same, b))
            if t % 50 == 49:
                two.save(tmp_path / "track.pmb")
                two = pmb.load(tmp_path / "track.pmb")
                one.mixture  # noqa: B018  reading must not matter


# ---- certainty -------------------------------------------------------------------------------------------
def banded(policy: Any, data: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Cells of [0, 1] with each arm's lowest and highest survival, from the data alone."""
    cuts = np.unique(np.concatenate(([0.0, 1.0], *data.values())))
    width, low, high = np.diff(cuts), [], []
    for x in data.values():
        share = np.array([(x > c).mean() for c in cuts[:-1]])
        r = float(policy.confidence.radius(len(x)))
        low.append(np.maximum(share - r, 0))
        high.append(np.minimum(share + r, 1))
    return width, np.array(low), np.array(high)


def test_no_mixture_is_worth_more_than_the_rival() -> None:
    policy, data = taught(GINI, "interval", 3, 900)
    width, low, high = banded(policy, data)
    a, u = cp.Variable(3, nonneg=True), cp.Variable(width.size)
    problem = cp.Problem(
        cp.Maximize(width @ u - cp.sum(cp.multiply(width, cp.square(u)))), [cp.sum(a) == 1, u >= a @ low, u <= a @ high]
    )
    problem.solve(solver=cp.CLARABEL)
    sure = policy.certainty()
    assert sure.rival == pytest.approx(problem.value, abs=2e-4)
    assert sure.rival >= problem.value - 1e-7
    assert sure.lower <= sure.utility <= sure.upper <= sure.rival
    assert sure.regret == sure.rival - sure.lower


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("metric", [GINI, pmb.LowerCVaR(0.3), pmb.InvertedS(0.7), pmb.MeanMedianDeviation()], ids=repr)
def test_the_rival_bounds_random_mixtures(metric: Any, support: str) -> None:
    if support == "real" and isinstance(metric, pmb.InvertedS):
        policy, _ = taught(metric, support, 3, 60)
        with pytest.raises(ValueError, match="no confidence sets"):
            policy.certainty()
        return
    policy, _ = taught(metric, support, 3, 800)
    sure = policy.certainty()
    rng = np.random.default_rng(0)
    for a in [*rng.dirichlet(np.ones(3) * 0.5, 40), *np.eye(3)]:
        assert policy.utility_bounds(a)[2] <= sure.rival + 1e-9


def test_the_regret_bound_holds_and_shrinks() -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    rng = np.random.default_rng(2)
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary())
    bounds = []
    for t in range(1, 4001):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.4, 0.9)[arm]))
        if t in (10, 100, 1000, 4000):
            sure = policy.certainty()
            regret = 0.25 - pmb.utility(GINI, bandit, policy.mixture)
            assert regret <= sure.regret
            bounds.append(sure.regret)
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] < 0.05


def test_where_no_bound_holds_certainty_says_so() -> None:
    policy = pmb.Track(pmb.PHT(0.5), n_arms=2, support=pmb.Real(1.0))
    with pytest.raises(ValueError, match=r"no bound holds for PHT\(s=0.5\) on Real"):
        policy.certainty()


def test_with_twenty_arms_most_of_the_gap_from_uniform_to_the_best_mixture_is_closed() -> None:
    rng = np.random.default_rng(0)
    laws = [stats.beta(*rng.uniform(0.5, 5, 2)) for _ in range(20)]
    bandit = pmb.Bandit.from_samples({str(i): law.rvs(200, random_state=rng) for i, law in enumerate(laws)})
    run = pmb.simulate(bandit, GINI, [pmb.Track(), pmb.Uniform()], horizon=20_000, trials=2, seed=0, progress=False)
    track, uniform = (final_regret(run, name) for name in ("Track", "Uniform"))
    assert track < 0.15 * uniform
