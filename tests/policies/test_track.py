"""Track: its pulls against a plain rule."""

from __future__ import annotations

import math
from typing import Any

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
    declared, distribution = SUPPORTS[support]
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
        policy.tell(arm, distribution(rng, arm))


def test_of_equally_good_mixtures_of_bernoulli_arms_the_present_one_stays() -> None:
    """The closed form beside its plain description: h(mean) is best nearest to the mean being played."""
    metrics = [
        GINI,
        pmb.WangRightTail(),
        pmb.InterESRange(0.4),
        pmb.UpperCVaR(0.7),
        pmb.LowerCVaR(0.4),
        pmb.InvertedS(0.6),
    ]
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
    run = pmb.simulate(GINI, pmb.Bandit.bernoulli([0.4, 0.9]), [pmb.Track()], horizon=60_000, trials=40, seed=5,
                       progress=False)  # fmt: skip
    assert final_regret(run, "Track") <= 1e-5


def test_simulate_and_ask_tell_agree_and_a_restart_changes_nothing(tmp_path: Any) -> None:
    for support in ("interval", "real"):
        declared, distribution = SUPPORTS[support]
        one = pmb.Track(pmb.WangRightTail() if support == "interval" else GINI, n_arms=3, support=declared)
        two = one.bind(one.metric, 3, declared)
        rng, same = np.random.default_rng(1), np.random.default_rng(1)
        for t in range(300):
            a, b = one.ask(), two.ask()
            assert a == b
            if t % 7:  # some rewards never come
                one.tell(a, distribution(rng, a))
                two.tell(b, distribution(same, b))
            if t % 50 == 49:
                two.save(tmp_path / "track.pmb")
                two = pmb.load(tmp_path / "track.pmb")
                one.mixture  # noqa: B018  reading must not matter


# ---- many arms -------------------------------------------------------------------------------------------
def test_with_twenty_arms_most_of_the_gap_from_uniform_to_the_best_mixture_is_closed() -> None:
    rng = np.random.default_rng(0)
    distributions = [stats.beta(*rng.uniform(0.5, 5, 2)) for _ in range(20)]
    bandit = pmb.Bandit.from_samples(
        {str(i): distribution.rvs(200, random_state=rng) for i, distribution in enumerate(distributions)}
    )
    run = pmb.simulate(GINI, bandit, [pmb.Track(), pmb.Uniform()], horizon=20_000, trials=2, seed=0, progress=False)
    track, uniform = (final_regret(run, name) for name in ("Track", "Uniform"))
    assert track < 0.15 * uniform
