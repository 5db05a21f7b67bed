"""UC-Frank-Wolfe and Mixture-UCB: as described, pull by pull; and they come to the best mixture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.estimates._utility import fill_influence_moments
from tests.helpers import final_regret, one_sentence, taught
from tests.reference import mixture_learners as slow

ATOMS = (-1.0, 0.0, 0.5, 2.0)
UNIT = pmb.Interval(0.0, 1.0)
GINI = pmb.GiniDeviation()
SUPPORTS: dict[str, Any] = {
    "binary": pmb.Binary(),
    "finite": pmb.Finite(ATOMS),
    "interval": pmb.Interval(-0.5, 1.5),
    "real": pmb.Real(1.0),
}


def draws(kind: str, n_arms: int, rounds: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, n_arms, len(kind)])
    if kind == "binary":
        return (rng.random((n_arms, rounds)) < rng.uniform(0.1, 0.9, (n_arms, 1))).astype(float)
    if kind == "finite":
        return np.array([rng.choice(ATOMS, rounds, p=row) for row in rng.dirichlet(np.ones(4), n_arms)])
    if kind == "interval":
        return 2.0 * rng.beta(*rng.uniform(0.5, 4.0, (2, n_arms, 1)), (n_arms, rounds)) - 0.5
    return rng.normal(rng.uniform(-1, 2, (n_arms, 1)), 1.0, (n_arms, rounds))


def ends_of(support: Any) -> list[float]:
    return [] if isinstance(support, pmb.Real) else [support.lo, support.hi]


def grain(support: Any, n: int, binned: bool = False) -> float:
    """Half of one reward's weight; a twentieth where rewards are counted."""
    return (0.05 if binned or hasattr(support, "atoms") else 0.5) / n


def same_choice(found: Any, wanted: Any, arm: int, t: int) -> None:
    """The indices are the same up to one number for all arms, and the arm has the largest."""
    apart = np.asarray(found) - np.asarray(wanted)
    scale = max(1.0, float(np.abs(wanted).max()))
    assert np.ptp(apart) < 1e-9 * scale, (t, found, wanted)
    assert wanted[arm] >= max(wanted) - 1e-9 * scale, t


# ---- UC-Frank-Wolfe --------------------------------------------------------------------------------------
METRICS = [GINI, pmb.Quadratic(0.5), pmb.WangRightTail(), pmb.PHT(0.5), pmb.LowerCVaR(0.3), pmb.InvertedS(0.5)]


@pytest.mark.parametrize("bonus", ["published", "variance"])
@pytest.mark.parametrize("kind", SUPPORTS)
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_ucfw_takes_the_decisions_of_the_rule(metric: Any, kind: str, bonus: str) -> None:
    follow_ucfw(metric, kind, bonus, 90)


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("kind", SUPPORTS)
def test_ucfw_looks_at_the_slopes_again_when_pulls_and_rewards_have_grown(kind: str, tolerance: float) -> None:
    looks = follow_ucfw(GINI, kind, "variance", 120, tolerance=tolerance)
    # Every round after the first three; or the clock, which two steps a round move, grows by the share each time.
    few = len(looks) < 60 if tolerance else len(looks) == 117
    assert few or kind == "binary"


def follow_ucfw(metric: Any, kind: str, bonus: str, rounds: int, **options: Any) -> list[int]:
    """Play beside the reference; the rounds in which the slopes were worked out."""
    support, n_arms = SUPPORTS[kind], 3
    rewards = draws(kind, n_arms, rounds, seed=1)
    fast = pmb.UCFW(metric, n_arms=n_arms, support=support, bonus=bonus, **options)
    tolerance = options.get("tolerance", 0.001)
    told: list[list[float]] = [[] for _ in range(n_arms)]
    look_at, looks, kept = 0, [], ([0.0], [0.0], 0.0)
    for t in range(1, rounds + 1):
        pulls = fast.pulls.tolist()
        arm = fast.ask()
        if not all(told):
            assert pulls[arm] == min(pulls)
        else:
            clock = 2 * (t - 1)
            if clock >= look_at:
                looks.append(t)
                look_at = clock + 1 + (0 if kind == "binary" else int(tolerance * clock))
                kept = slow.slopes(metric, told, pulls, grain(support, t - 1), ends_of(support))
            slopes, variances, reach = kept
            wanted = [
                g + slow.ucfw_bonus(bonus, t, len(x), v, reach) for g, v, x in zip(slopes, variances, told, strict=True)
            ]
            same_choice(fast._memory.index, wanted, arm, t)
        told[arm].append(float(rewards[arm, len(told[arm])]))
        fast.tell(arm, told[arm][-1])
        assert fast.mixture.tolist() == (fast.pulls / t).tolist()
    return looks


@pytest.mark.parametrize("policy", ["UCFW", "MixtureUCB"])
def test_a_sketch_that_holds_all_rewards_changes_no_decision(policy: str) -> None:
    rewards = draws("interval", 3, 300, seed=2)
    exact, sketched = (
        getattr(pmb, policy)(GINI, n_arms=3, support=SUPPORTS["interval"], estimates=kept)
        for kept in ("exact", "sketch:1024")
    )
    for t in range(300):
        arm = exact.ask()
        assert sketched.ask() == arm
        for one in (exact, sketched):
            one.tell(arm, float(rewards[arm, t]))


def test_bins_are_the_rewards_rounded_to_them() -> None:
    support, points = SUPPORTS["interval"], np.linspace(-0.5, 1.5, 17)
    rewards = draws("interval", 3, 120, seed=3)
    fast = pmb.UCFW(pmb.Quadratic(0.5), n_arms=3, support=support, bonus="variance", estimates="binned:16")
    told: list[list[float]] = [[] for _ in range(3)]
    for t in range(1, 121):
        pulls = fast.pulls.tolist()
        arm = fast.ask()
        if all(told):
            e = grain(support, t - 1, binned=True)
            slopes, variances, reach = slow.slopes(pmb.Quadratic(0.5), told, pulls, e, ends_of(support))
            wanted = [
                g + slow.ucfw_bonus("variance", t, len(x), v, reach)
                for g, v, x in zip(slopes, variances, told, strict=True)
            ]
            same_choice(fast._memory.index, wanted, arm, t)
        reward = float(rewards[arm, len(told[arm])])
        fast.tell(arm, reward)
        told[arm].append(float(points[np.argmin(np.abs(points - reward))]))


@pytest.mark.parametrize("kind", ["binary", "finite", "interval", "real"])
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_the_moments_of_slopes_are_those_of_the_integral(metric: Any, kind: str) -> None:
    """At any mixture, with rewards that were not asked for."""
    policy, data = taught(metric, kind, 4, 120)
    rewards, memory = [list(map(float, x)) for x in data.values()], policy._clone()._memory
    support, mean, square = policy.support, np.empty(4), np.empty(4)
    for a in np.random.default_rng(1).dirichlet(np.ones(4), 3):
        least, most = fill_influence_moments(memory, a, 1e-3, mean, square)
        at = slow.phi(metric, rewards, a, 1e-3, ends_of(support))
        wanted = [np.mean([at[r] for r in x]) for x in rewards]
        assert np.ptp(mean - wanted) < 1e-10
        assert square - mean**2 == pytest.approx([np.var([at[r] for r in x]) for x in rewards], abs=1e-10)
        assert most - least == pytest.approx(max(at.values()) - min(at.values()), abs=1e-10)


# ---- Mixture-UCB -----------------------------------------------------------------------------------------
QUADRATICS = [
    (GINI, 0.0, 1.0),
    (pmb.Mean(), 1.0, 0.0),
    (pmb.Quadratic(0.5), 1.0, 0.5),
    (pmb.DualPower(2), 1.0, 1.0),
    (0.3 * pmb.Mean() + 2.0 * GINI, 0.3, 2.0),
    (2.0 * GINI - 0.5 * pmb.Mean(), -0.5, 2.0),
]


@pytest.mark.parametrize("kind", ["binary", "finite", "interval"])
@pytest.mark.parametrize(("metric", "m", "g"), QUADRATICS, ids=repr)
def test_ogd_pulls_the_arm_with_the_least_slope_of_the_kernel_form(metric: Any, m: float, g: float, kind: str) -> None:
    """The slopes 2Ka + f of the quadratic form, from means of |x − y| over all pairs: not from survival functions."""
    support, rounds, n_arms = SUPPORTS[kind], 120, 3
    rewards = draws(kind, n_arms, rounds, seed=4)
    fast = pmb.MixtureUCB(metric, n_arms=n_arms, support=support, beta=0.7)
    told: list[list[float]] = [[] for _ in range(n_arms)]
    for t in range(1, rounds + 1):
        pulls = fast.pulls.tolist()
        arm = fast.ask()
        if not all(told):
            assert pulls[arm] == min(pulls)
        else:
            matrix, f = slow.kernel_form(m, g, told)
            gradient = 2 * matrix @ (np.array(pulls) / (t - 1)) + f
            wanted = [
                -gradient[i] + slow.mixture_ucb_bonus(m, g, support.width, 0.7, t, len(told[i])) for i in range(n_arms)
            ]
            same_choice(fast._memory.index, wanted, arm, t)
        told[arm].append(float(rewards[arm, len(told[arm])]))
        fast.tell(arm, told[arm][-1])
        assert fast.mixture.tolist() == (fast.pulls / t).tolist()


@pytest.mark.parametrize("kind", ["binary", "finite", "interval"])
@pytest.mark.parametrize(("metric", "m", "g"), QUADRATICS, ids=repr)
def test_cab_draws_from_a_mixture_that_solves_the_quadratic_program(metric: Any, m: float, g: float, kind: str) -> None:
    support, rounds, n_arms, seed = SUPPORTS[kind], 80, 3, 11
    rewards = draws(kind, n_arms, rounds, seed=5)
    options: Any = {"form": "cab", "tolerance": 0.0}
    fast = pmb.MixtureUCB(metric, n_arms=n_arms, support=support, seed=seed, **options)
    told: list[list[float]] = [[] for _ in range(n_arms)]
    reach, drawn = metric.maximum().value - metric.minimum().value, 0
    for t in range(1, rounds + 1):
        arm = fast.ask()
        if all(told):
            matrix, f = slow.kernel_form(m, g, told)
            optimistic = f - [slow.mixture_ucb_bonus(m, g, support.width, 1.0, t, len(x)) for x in told]
            a = fast._memory.mix.copy()
            value, best = float(a @ matrix @ a + optimistic @ a), slow.least_quadratic(matrix, optimistic)
            slack = 0.01 * support.width * reach / math.sqrt(t - 1)
            assert best - 1e-9 <= value <= best + slack + 1e-9, t
            u = slow.splitmix_share(seed, drawn)
            assert arm == min(int(np.searchsorted(np.cumsum(a), u, side="right")), n_arms - 1), t
            drawn += 1
        told[arm].append(float(rewards[arm, len(told[arm])]))
        fast.tell(arm, told[arm][-1])
    assert drawn > 70


@pytest.mark.parametrize("floor", ["none", "cube_root"])
@pytest.mark.parametrize("kind", ["binary", "finite", "interval"])
def test_mixture_greedy_draws_from_the_best_mixture_and_the_floor(kind: str, floor: str) -> None:
    support, rounds, n_arms, seed = SUPPORTS[kind], 80, 3, 11
    rewards = draws(kind, n_arms, rounds, seed=5)
    fast = pmb.MixtureGreedy(GINI, n_arms=n_arms, support=support, seed=seed, floor=floor)
    told: list[list[float]] = [[] for _ in range(n_arms)]
    drawn, explored = 0, 0
    for t in range(1, rounds + 1):
        arm = fast.ask()
        if all(told):
            matrix, f = slow.kernel_form(0.0, 1.0, told)
            a = fast._memory.mix.copy()
            best = slow.least_quadratic(matrix, f)
            slack = 0.01 * support.width * 0.25 / math.sqrt(t - 1)
            assert best - 1e-9 <= float(a @ matrix @ a + f @ a) <= best + slack + 1e-9, t
            least = min(1 / 3, (t - 1) ** (-1 / 3)) if floor == "cube_root" else 0.0
            u = slow.splitmix_share(seed, drawn)
            drawn += 1 if least > 0.0 else 0
            if u < 3 * least:
                explored += 1
                assert arm == int(u / least), t
            else:
                u = slow.splitmix_share(seed, drawn)
                drawn += 1
                assert arm == min(int(np.searchsorted(np.cumsum(a), u, side="right")), n_arms - 1), t
        told[arm].append(float(rewards[arm, len(told[arm])]))
        fast.tell(arm, told[arm][-1])
    assert drawn > 70 and (explored > 20) == (floor == "cube_root")


def test_the_forms_of_the_quadratic_utility_agree() -> None:
    """The reference itself: −L is U_h of the mixture, by the metric's own value of a weighted sample."""
    rng = np.random.default_rng(6)
    rewards = [rng.random(5).tolist(), rng.random(8).tolist(), rng.random(3).tolist()]
    for metric, m, g in QUADRATICS:
        matrix, f = slow.kernel_form(m, g, rewards)
        a = rng.dirichlet(np.ones(3))
        weights = np.concatenate([np.full(len(x), w / len(x)) for w, x in zip(a, rewards, strict=True)])
        value = metric.value(np.concatenate(rewards), weights=weights)
        assert -(a @ matrix @ a + f @ a) == pytest.approx(value, abs=1e-12)


# ---- playing ---------------------------------------------------------------------------------------------
LEARNERS = {
    "published": pmb.UCFW(),
    "variance": pmb.UCFW(bonus="variance"),
    "ogd": pmb.MixtureUCB(),
    "cab": pmb.MixtureUCB(form="cab"),
    "greedy": pmb.MixtureGreedy(),
    "greedy, floor": pmb.MixtureGreedy(floor="cube_root"),
}


def test_regret_falls_below_that_of_equal_shares_and_of_the_best_arm() -> None:
    coins = pmb.Bandit.bernoulli([0.1, 0.3, 0.95])
    policies = {**LEARNERS, "uniform": pmb.Uniform()}
    late = pmb.simulate(GINI, coins, policies, 4000, trials=8, seed=3, n_jobs=1, progress=False)
    early = pmb.simulate(GINI, coins, LEARNERS, 100, trials=8, seed=3, n_jobs=1, progress=False)
    best_arm = 0.25 - 0.3 * 0.7
    for name in LEARNERS:
        assert final_regret(late, name) < 0.3 * min(final_regret(early, name), best_arm), name
        assert final_regret(late, name) < 0.5 * final_regret(late, "uniform"), name


def test_rewards_that_never_come_leave_equal_shares() -> None:
    for recipe in LEARNERS.values():
        policy = recipe.bind(GINI, 3, UNIT)
        assert np.bincount(policy.ask(300)).tolist() == [100, 100, 100]
        policy.tell([0, 1], [0.2, 0.7])  # the third arm still has not paid
        assert np.bincount(policy.ask(30)).tolist() == [10, 10, 10]


def test_merged_policies_look_at_once() -> None:
    for recipe in LEARNERS.values():
        here, there = (recipe.bind(GINI, 2, UNIT) for _ in range(2))
        rng = np.random.default_rng(0)
        for policy in (here, there):
            for _ in range(200):
                arm = policy.ask()
                policy.tell(arm, float(rng.random() ** (1 + arm)))
        alone = recipe.bind(GINI, 2, UNIT)
        here.merge(there)
        assert here._memory.next_update_at == 0
        for arm, estimate in enumerate(here.estimates):
            alone.tell([arm] * estimate.n, np.repeat(estimate.x, np.round(estimate.p * estimate.n).astype(int)))
        alone._memory.pulls[:], alone._memory.t = here.pulls, here.t
        alone._memory.mix[:], alone._memory.rng_counter = here._memory.mix, here._memory.rng_counter
        assert here.ask() == alone.ask()


# ---- errors ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "metric", [pmb.PHT(0.5), pmb.WangRightTail(), pmb.DualPower(3), -1.0 * GINI, pmb.UpperCVaR(0.5)]
)
def test_mixture_ucb_wants_a_concave_quadratic(metric: Any) -> None:
    with pytest.raises(ValueError, match="UCFW or Track") as caught:
        pmb.MixtureUCB(metric, n_arms=2, support=UNIT)
    assert repr(metric) in one_sentence(caught.value)


def test_what_they_do_not_take_is_refused_in_a_sentence() -> None:
    for made, word in (
        (lambda: pmb.MixtureUCB(GINI, n_arms=2, support=pmb.Real(1)), "Interval"),
        (lambda: pmb.UCFW(pmb.VaR(0.9), n_arms=2, support=UNIT), "jumps"),
        (lambda: pmb.UCFW(bonus="none"), "published"),
        (lambda: pmb.UCFW(tolerance=-0.1), "tolerance"),
        (lambda: pmb.MixtureUCB(form="sgd"), "cab"),
        (lambda: pmb.MixtureUCB(beta=0.0), "beta"),
    ):
        with pytest.raises(ValueError, match=word) as caught:
            made()
        one_sentence(caught.value)
