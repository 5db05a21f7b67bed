"""The published risk-sensitive bandits: as published, pull by pull, and policies like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as scipy_stats

import pmbandits as pmb
from pmbandits._random import philox_random_words
from pmbandits.engine.certainty import mixture_utility_range
from pmbandits.policies.published import _functionals as kernels
from pmbandits.simulation import Rewards
from tests.reference import published as slow

TAIL = pmb.LowerCVaR(0.3)
ATOMS = (-1.0, 0.0, 0.5, 2.0)
UNIT = pmb.Interval(0.0, 1.0)
OPTIONS: dict[str, dict[str, Any]] = {
    "CVaRUCB": {"horizon": 2000},
    "BrownUCB": {"horizon": 2000},
    "MVLCB": {"horizon": 2000, "rho": 0.7},
    "SolitaryUCB": {"horizon": 2000},
}
TAILED = ("CVaRUCB", "BrownUCB", "MCVTS", "BCVTS")
ALL = ("Thompson", *TAILED, "UUCB", "WUCB", "RhoNPTS", "MVLCB", "SolitaryUCB")


def make(policy: str, support: Any, metric: Any = TAIL, n_arms: int = 2, seed: int = 0, **options: Any) -> Any:
    given = {**OPTIONS.get(policy, {}), **options}
    return getattr(pmb, policy)(metric, n_arms=n_arms, support=support, seed=seed, **given)


# ---- as published ----------------------------------------------------------------------------------------
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


CASES = [
    ("Thompson", "thompson", ("binary", "finite", "interval", "real"), [TAIL], {}),
    ("CVaRUCB", "cvar_ucb", ("binary", "finite", "interval"), [TAIL, pmb.LowerCVaR(1.0)], {}),
    ("CVaRUCB", "cvar_ucb", ("interval",), [pmb.Mean()], {"alpha": 0.15}),
    ("BrownUCB", "brown_ucb", ("binary", "finite", "interval"), [TAIL], {}),
    ("BrownUCB", "brown_ucb", ("finite",), [TAIL], {"delta": 0.2}),
    ("UUCB", "u_ucb", ("finite", "interval"), [TAIL, pmb.DualPower(3), pmb.PHT(0.5), pmb.GiniDeviation()], {}),
    ("WUCB", "w_ucb", ("binary", "finite", "interval"), [TAIL, pmb.PHT(0.5), pmb.WangTransform(0.5)], {}),
    ("MCVTS", "m_cvts", ("binary", "finite"), [TAIL, pmb.LowerCVaR(0.9)], {}),
    ("BCVTS", "b_cvts", ("binary", "finite", "interval"), [TAIL, pmb.LowerCVaR(0.9)], {}),
    ("RhoNPTS", "rho_npts", ("finite", "interval"), [TAIL, pmb.PHT(0.5), pmb.GiniDeviation()], {}),
    ("RhoNPTS", "rho_npts_sg", ("finite", "interval", "real"), [TAIL, pmb.GiniDeviation()], {"anchor": "none"}),
    ("RhoNPTS", "rho_npts", ("interval",), [0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)], {}),
    ("MVLCB", "mv_lcb", ("binary", "finite", "interval"), [TAIL], {}),
]
FLAT = [(p, s, k, m, o) for p, s, kinds, metrics, o in CASES for k in kinds for m in metrics]


@pytest.mark.parametrize(("policy", "reference", "kind", "metric", "options"), FLAT, ids=lambda v: f"{v}")
def test_indices_and_pulls_are_those_of_the_published_description(
    policy: str, reference: str, kind: str, metric: Any, options: dict[str, Any]
) -> None:
    rounds, n_arms = 120, 3
    rewards = draws(kind, n_arms, rounds, seed=len(policy))
    fast = make(policy, SUPPORTS[kind], metric, n_arms=n_arms, seed=5, **options)
    told: list[list[float]] = [[] for _ in range(n_arms)]
    for t in range(1, rounds + 1):
        arm = fast.ask()
        index = np.array(getattr(slow, reference)(fast, told, t, t))
        found = fast._memory.index
        # scipy's normal quantile and ours differ in the last digits
        assert np.allclose(found, index, rtol=1e-9, atol=1e-9), (t, found, index)
        assert index[arm] >= index.max() - 1e-9 or np.isinf(index[arm]), t
        reward = float(rewards[arm, len(told[arm])])
        told[arm].append(reward)
        fast.tell(arm, reward)


def test_the_numbers_of_the_generator_are_numpys() -> None:
    bits = np.random.Philox(key=np.array([5, 9], dtype=np.uint64), counter=np.array([6, 2, 3, 4], dtype=np.uint64))
    words = bits.random_raw(4).tolist()  # numpy steps the counter before it draws
    assert [int(w) for w in philox_random_words(*(np.uint64(n) for n in (5, 9, 7, 2, 3, 4)))] == words
    assert slow.philox((5, 9), (7, 2, 3, 4)) == words


# ---- functionals -----------------------------------------------------------------------------------------
def with_rewards(policy: str, support: Any, rewards: list[list[float]], metric: Any = TAIL, **options: Any) -> Any:
    made = make(policy, support, metric, n_arms=len(rewards), **options)
    for i, x in enumerate(rewards):
        if x:
            made.tell([i] * len(x), x)
    return made


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("kind", ["finite", "interval"])
def test_cvar_of_weighted_atoms_is_the_quantile_formula_and_the_metric(alpha: float, kind: str) -> None:
    rng = np.random.default_rng(3)
    rewards = [draws(kind, 1, n, seed=n)[0].tolist() for n in (1, 2, 7, 40)]
    policy = with_rewards("BCVTS", SUPPORTS[kind], rewards, pmb.LowerCVaR(alpha))
    out = np.empty(4)
    kernels.fill_empirical_cvars(policy._memory, alpha, out)
    assert np.allclose(out, [slow.weighted_cvar(x, np.ones(len(x)), alpha) for x in rewards], atol=1e-12)
    assert np.allclose(out, [pmb.LowerCVaR(alpha).value(x) for x in rewards], atol=1e-12)
    for _ in range(20):
        x, w = rng.normal(size=9), rng.dirichlet(np.ones(9))
        assert slow.weighted_cvar(x, w, alpha) == pytest.approx(pmb.LowerCVaR(alpha).value(x, weights=w), abs=1e-12)


def test_cvar_has_its_closed_forms() -> None:
    """Uniform: α/2. Triangular density 2x: ⅔·√α. Bernoulli(p): 1 − (1 − p)/α where that is positive."""
    u = (np.arange(20_000) + 0.5) / 20_000
    coin = (u > 0.3).astype(float)
    for alpha in (0.1, 0.5, 0.9):
        policy = with_rewards("BCVTS", UNIT, [u.tolist(), np.sqrt(u).tolist(), coin.tolist()], pmb.LowerCVaR(alpha))
        out = np.empty(3)
        kernels.fill_empirical_cvars(policy._memory, alpha, out)
        assert out == pytest.approx([alpha / 2, 2 / 3 * alpha**0.5, max(0.0, 1 - 0.3 / alpha)], abs=1e-4)


def test_the_optimistic_cvar_is_that_of_the_law_with_the_band_s_mass_moved_to_the_top() -> None:
    """With n = 400 and b = 0.1 the 40 lowest rewards become B."""
    x = np.sort(np.random.default_rng(1).random(400))
    policy = with_rewards("CVaRUCB", UNIT, [x.tolist()], pmb.LowerCVaR(0.25))
    out = np.empty(1)
    kernels.fill_optimistic_cvars(policy._memory, 0.25, np.array([0.1]), out)
    moved = np.concatenate((x[40:], np.ones(40)))
    assert out[0] == pytest.approx(pmb.LowerCVaR(0.25).value(moved), abs=1e-12)


@pytest.mark.parametrize("support", [pmb.Finite(np.linspace(0, 1, 11)), UNIT], ids=repr)
def test_our_solitary_index_with_lower_cvar_is_cvar_ucb(support: Any) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = make("SolitaryUCB", support, confidence="dkw"), make("CVaRUCB", support)
    for _ in range(400):
        arm = theirs.ask()
        assert ours.ask() == arm
        reward = round(float(rng.beta(2 + arm, 2)), 1)
        ours.tell(arm, reward)
        theirs.tell(arm, reward)
        assert np.allclose(*(p._memory.index for p in (ours, theirs)), atol=1e-12)


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.PHT(0.5), pmb.InterESRange(), TAIL], ids=repr)
@pytest.mark.parametrize("kind", ["finite", "interval"])
def test_our_solitary_index_is_the_upper_bound_of_pm_ucb_at_the_vertices(metric: Any, kind: str) -> None:
    policy = make("SolitaryUCB", SUPPORTS[kind], metric, n_arms=3)
    rewards = draws(kind, 3, 60, seed=4)
    for t in range(60):
        arm = policy.ask()
        if min(policy._memory.n_rewards) > 0:
            _, memory, _ = policy._snapshot_with_mixture(None)
            upper = [mixture_utility_range(memory, row)[2] for row in np.eye(3)]  # of the sets
            assert np.allclose(policy._memory.index, upper, atol=1e-12)
        policy.tell(arm, float(rewards[arm, t]))


def test_mean_variance_is_the_plain_one() -> None:
    rng = np.random.default_rng(2)
    rewards = [rng.random(n).tolist() for n in (3, 50)]
    policy = with_rewards("MVLCB", UNIT, rewards)
    out = np.empty(2)
    kernels.fill_mean_variances(policy._memory, 0.7, out)
    assert out == pytest.approx([slow.mean_variance(x, 0.7) for x in rewards], abs=1e-12)


# ---- the draws -------------------------------------------------------------------------------------------
def weights(policy: Any, draw: Any, rounds: int = 3000) -> np.ndarray:
    """Normalised weights of arm 0 in many rounds: those of its atoms or rewards, then the upper and lower end."""
    k, m = policy.n_arms, policy._memory.n_atoms
    n = policy._memory.rewards if m == 0 else m
    weight, anchor, total = np.zeros(n if m == 0 else k * m), np.zeros((k, 2)), np.zeros(k)
    rows = []
    for _ in range(rounds):
        draw(policy._memory, weight, anchor, total)
        rows.append(np.append(weight[:n], anchor[0]) / total[0])
    return np.array(rows)


def fits(sample: np.ndarray, distribution: Any) -> bool:
    return bool(scipy_stats.kstest(sample, distribution.cdf).pvalue > 1e-3)


def test_weights_on_rewards_are_dirichlet() -> None:
    policy = with_rewards("BCVTS", UNIT, [[0.1, 0.4, 0.8, 0.9]])
    both = weights(policy, lambda s, *rest: kernels.fill_dirichlet_weights_on_rewards(s, 2, *rest))
    rows = weights(policy, lambda s, *rest: kernels.fill_dirichlet_weights_on_rewards(s, 1, *rest))
    assert np.allclose(rows.sum(axis=1), 1.0)
    assert np.allclose(both.sum(axis=1), 1.0)
    for column in both.T:
        assert fits(column, scipy_stats.beta(1, 5))
    assert (rows[:, -1] == 0.0).all()
    for column in rows.T[:-1]:  # the anchor is one of five
        assert fits(column, scipy_stats.beta(1, 4))
    assert fits(rows[:, 0] + rows[:, 2], scipy_stats.beta(2, 3))
    assert abs(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1] + 0.25) < 0.06  # −1/(n − 1)
    assert abs(np.corrcoef(rows[:-1, 0], rows[1:, 0])[0, 1]) < 0.06  # rounds are independent
    alone = weights(policy, lambda s, *rest: kernels.fill_dirichlet_weights_on_rewards(s, 0, *rest))
    assert (alone[:, -2:] == 0.0).all() and np.allclose(alone.sum(axis=1), 1.0)
    for column in alone.T[:-2]:
        assert fits(column, scipy_stats.beta(1, 3))


def test_weights_on_atoms_are_dirichlet_with_counts() -> None:
    rewards = [[0.0] * 5 + [0.5] * 2 + [2.0]]
    policy = with_rewards("MCVTS", pmb.Finite(ATOMS), rewards)
    prior = weights(policy, lambda s, *rest: kernels.fill_dirichlet_weights_on_atoms(s, 1.0, 0.0, 0.0, *rest))
    for column, a in zip(prior.T, (1, 6, 3, 2), strict=False):
        assert fits(column, scipy_stats.beta(a, 12 - a))
    policy = with_rewards("BCVTS", pmb.Finite(ATOMS), rewards)
    rows = weights(policy, lambda s, *rest: kernels.fill_dirichlet_weights_on_rewards(s, 1, *rest))
    assert (rows[:, 0] == 0.0).all()  # an atom that was never seen
    for column, a in zip(rows.T[1:4], (5, 2, 2), strict=True):
        assert fits(column, scipy_stats.beta(a, 9 - a))


def test_thompson_draws_from_the_posterior() -> None:
    coin = with_rewards("Thompson", pmb.Binary(), [[1.0] * 7 + [0.0] * 3, [0.0]])
    bell = with_rewards("Thompson", pmb.Real(2.0), [[1.0] * 8 + [3.0] * 8, [0.0]])
    means = []
    for policy in (coin, bell):
        rows = []
        for _ in range(3000):
            policy.ask()
            rows.append(policy._memory.index.copy())
        means.append(np.array(rows))
    assert fits(means[0][:, 0], scipy_stats.beta(8, 4))
    assert fits(means[0][:, 1], scipy_stats.beta(1, 2))
    assert fits(means[1][:, 0], scipy_stats.norm(2.0, 0.5))
    assert abs(np.corrcoef(means[1].T)[0, 1]) < 0.06


def test_shared_variates_of_equal_rewards_do_not_change_the_law() -> None:
    """B-CVTS's index on a finite support, and on an interval with the same rewards."""
    rewards = [[0.0] * 4 + [0.5] * 5 + [1.0] * 3]
    found = []
    for support in (pmb.Finite([0.0, 0.5, 1.0]), UNIT):
        policy = with_rewards("BCVTS", support, rewards)
        rows = []
        for _ in range(3000):
            policy.ask()
            rows.append(float(policy._memory.index[0]))
        found.append(rows)
    assert scipy_stats.ks_2samp(*found).pvalue > 1e-3


def test_rho_npts_with_lower_cvar_is_b_cvts() -> None:
    rewards = draws("interval", 3, 300, seed=8)
    one, two = (make(name, SUPPORTS["interval"], n_arms=3, seed=4) for name in ("RhoNPTS", "BCVTS"))
    for t in range(300):
        arm = one.ask()
        assert two.ask() == arm
        for policy in (one, two):
            policy.tell(arm, float(rewards[arm, t]))


@pytest.mark.parametrize("support", [pmb.Binary(), UNIT], ids=repr)
def test_rho_npts_does_not_give_up_an_arm_that_has_paid_the_most_once(support: Any) -> None:
    """By the Gini deviation a sure arm is worth 0: the upper end alone would not be optimistic."""
    policy = make("RhoNPTS", support, pmb.GiniDeviation())
    policy.tell([0, 0, 1], [0.0, 1.0, 1.0])
    assert policy.ask(50).sum() > 5


# ---- playing ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["Thompson", "MCVTS", "BCVTS", "RhoNPTS"])
def test_another_seed_gives_other_pulls_and_the_same_seed_the_same(name: str) -> None:
    def pulls(seed: int) -> list[int]:
        policy, out = make(name, pmb.Binary(), pmb.LowerCVaR(0.8), seed=seed), []
        rng = np.random.default_rng(0)
        for _ in range(200):
            out.append(policy.ask())
            policy.tell(out[-1], float(rng.random() < 0.5))
        return out

    assert pulls(1) == pulls(1)
    assert pulls(1) != pulls(2)


@pytest.mark.parametrize("name", ALL)
def test_simulate_and_ask_and_tell_make_the_same_pulls(name: str) -> None:
    support: Any = pmb.Finite(np.linspace(0, 1, 5)) if name == "MCVTS" else None
    arms: list[Any] = [scipy_stats.beta(1, 3), scipy_stats.beta(3, 1)]
    if support is not None:
        arms = [np.array([0.0, 0.25, 0.5, 1.0]), np.array([0.25, 0.75, 1.0])]
    bandit = pmb.Bandit(arms, support=support)
    recipe = getattr(pmb, name)(**OPTIONS.get(name, {}))
    run = pmb.simulate(TAIL, bandit, recipe, 400, trials=2, seed=7, n_jobs=1, progress=False)
    from pmbandits.simulation.rewards import policy_seed

    for trial in range(2):
        seed = policy_seed(7, trial)
        policy, rewards = recipe.bind(TAIL, 2, bandit.support, seed=seed), Rewards(bandit, seed=7, trial=trial)
        for _ in range(400):
            arm = policy.ask()
            policy.tell(arm, float(rewards.next(arm)[0]))
        assert policy.pulls.tolist() == run.column("pulls", run.policies[0])[1][trial, -1].tolist()
        assert policy.mixture.tolist() == run.column("mixture", run.policies[0])[1][trial, -1].tolist()


@pytest.mark.parametrize("name", ALL)
def test_it_finds_the_best_arm_and_its_regret_falls(name: str) -> None:
    """Arm 1 is best by every one of the objectives: high mean, high tail, low variance."""
    support = pmb.Finite(np.linspace(0, 1, 11)) if name == "MCVTS" else UNIT
    options = {"horizon": 2500} if name in OPTIONS else {}
    policy = make(name, support, pmb.LowerCVaR(0.5), n_arms=3, **options)
    rng = np.random.default_rng(0)
    wrong = []
    for _ in range(5):
        for _ in range(500):
            arm = policy.ask()
            reward = rng.beta(18, 2) if arm == 1 else rng.beta(1, 2)
            policy.tell(arm, round(float(reward), 1) if name == "MCVTS" else float(reward))
        wrong.append(1.0 - policy.pulls[1] / policy.t)
    assert policy.mixture.tolist() == [0.0, 1.0, 0.0]
    if name == "MVLCB":  # its bonus (5 + ρ)·… is as large as all variances until n is some thousands
        assert wrong[-1] < wrong[0] < 2 / 3
    else:
        assert wrong[-1] < 0.35
        assert wrong[-1] < 0.7 * wrong[0]


@pytest.mark.parametrize("name", ALL)
def test_the_mixture_is_one_arm(name: str) -> None:
    policy = make(name, pmb.Binary(), n_arms=3)
    assert sorted(policy.mixture.tolist()) == [0.0, 0.0, 1.0]
    policy.tell([2, 2, 0], [1.0, 1.0, 0.0])
    assert policy.mixture.tolist() == [0.0, 0.0, 1.0]


def test_history_before_the_first_ask_is_used() -> None:
    for name in ALL:
        policy = with_rewards(name, pmb.Finite([0.0, 0.5, 1.0]), [[0.0] * 40, [1.0] * 40])
        assert policy.ask() == 1, name


# ---- errors ----------------------------------------------------------------------------------------------
def refusal(make_it: Any) -> str:
    with pytest.raises(ValueError) as caught:
        make_it()
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.mark.parametrize("name", TAILED)
def test_cvar_policies_refuse_other_metrics_and_name_the_way_out(name: str) -> None:
    text = refusal(lambda: make(name, pmb.Binary(), pmb.UpperCVaR(0.9)))
    assert name in text
    assert "LowerCVaR(alpha)" in text
    assert "alpha=" in text
    assert make(name, pmb.Binary(), pmb.UpperCVaR(0.9), alpha=0.1).ask() in (0, 1)
    assert make(name, pmb.Binary(), None, alpha=0.1).metric == pmb.LowerCVaR(0.1)
    for alpha in (0.0, 1.5):
        assert "alpha" in refusal(lambda alpha=alpha: make(name, pmb.Binary(), alpha=alpha))


@pytest.mark.parametrize("name", ["CVaRUCB", "BrownUCB", "UUCB", "WUCB", "BCVTS", "RhoNPTS", "MVLCB"])
def test_an_unbounded_support_is_refused(name: str) -> None:
    text = refusal(lambda: make(name, pmb.Real(1)))
    assert name in text
    assert "Interval" in text


def test_m_cvts_wants_a_finite_support_and_names_b_cvts() -> None:
    text = refusal(lambda: make("MCVTS", UNIT))
    assert "Finite" in text
    assert "BCVTS" in text


@pytest.mark.parametrize("name", ["UUCB", "WUCB"])
def test_confidence_bounds_want_a_holder_pair(name: str) -> None:
    assert "Hölder" in refusal(lambda: make(name, UNIT, pmb.VaR(0.9)))


def test_rho_npts_wants_a_continuous_functional() -> None:
    assert "jumps" in refusal(lambda: make("RhoNPTS", UNIT, pmb.VaR(0.9)))


def test_parameters_outside_their_range_are_refused() -> None:
    assert "growth" in refusal(lambda: make("UUCB", UNIT, growth=2.0))
    assert "rho" in refusal(lambda: make("MVLCB", UNIT, rho=-1.0))
    assert "delta" in refusal(lambda: make("BrownUCB", UNIT, delta=1.0))
    assert "horizon" in refusal(lambda: make("CVaRUCB", UNIT, horizon=1))
    assert "index" in refusal(lambda: make("SolitaryUCB", UNIT, index="best"))


@pytest.mark.parametrize("name", ["MCVTS", "BCVTS"])
def test_equal_arms_are_pulled_by_the_rule_for_ties(name: str) -> None:
    """After 50 rewards of 0 the lower tail of every draw is 0: all arms are equal in every round."""
    pulls = {}
    for ties in ("random", "fewest", "first"):
        policy = with_rewards(name, pmb.Binary(), [[0.0] * 50] * 3, pmb.LowerCVaR(0.3), ties=ties)
        pulls[ties] = np.bincount(policy.ask(300), minlength=3).tolist()
    assert pulls["fewest"] == [100, 100, 100] and pulls["first"] == [300, 0, 0]
    assert pulls["random"] != pulls["fewest"] and min(pulls["random"]) > 70  # 100 ± 8
    assert with_rewards(name, pmb.Binary(), [[0.0]] * 3, pmb.LowerCVaR(0.3)).options["ties"] == "random"
