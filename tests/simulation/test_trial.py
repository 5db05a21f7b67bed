"""``simulate`` plays what asking and telling by hand plays, and its table says what was played."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as stats

import pmbandits as pmb
from pmbandits.simulation import Rewards, policy_seed
from pmbandits.simulation.trial import Player
from tests.helpers import same_outcome

GINI = pmb.GiniDeviation()


# ---- by hand ---------------------------------------------------------------------------------------------
def by_hand(recipe: Any, bandit: pmb.Bandit, metric: Any, rounds: int, seed: int, trial: int) -> dict[str, Any]:
    """Ask, tell, and look at everything after every round."""
    policy = recipe.bind(
        metric, bandit.n_arms, bandit.support, names=bandit.names, seed=policy_seed(seed, trial, recipe.seed)
    )
    rewards = Rewards(bandit, seed=seed, trial=trial)
    found: dict[str, Any] = {"arms": [], "pulls": [], "mixture": [], "ends": []}
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, rewards.next(arm)[0])
        found["arms"].append(arm)
        found["pulls"].append(policy.pulls)
        found["mixture"].append(policy.mixture)
        found["ends"].append(getattr(policy, "phase_ends", ()))
    return found


BANDITS = {
    "bernoulli": pmb.Bandit.bernoulli([0.35, 0.8]),
    "bernoulli 3": pmb.Bandit.bernoulli([0.2, 0.5, 0.9], names=["a", "b", "c"]),
    "finite": pmb.Bandit([[0.0, 0.5, 2.0, 2.0], [-1.0, 0.5, 0.5], [0.0, 0.0, 2.0]]),
    "beta": pmb.Bandit([stats.beta(2, 5), stats.beta(0.5, 0.5)]),
    "normal": pmb.Bandit([stats.norm(0, 1), stats.norm(1, 0.5)]),
    "gamma": pmb.Bandit([stats.gamma(2.0, scale=0.1), stats.uniform(0, 1)], support=pmb.Real(1.0)),
    "block": pmb.Bandit([stats.triang(0.3), stats.beta(1, 3), stats.truncnorm(-1, 1)], support=pmb.Interval(-1, 1)),
}
MIXED = pmb.Mean() - 0.5 * GINI


def recipes(rounds: int, n_arms: int) -> dict[str, Any]:
    epsilon = 0.25 if n_arms == 2 else 0.4
    return {
        "PMETC": pmb.PMETC(horizon=rounds, epsilon=0.2),
        "PMUCB": pmb.PMUCB(horizon=rounds, epsilon=epsilon),
        "PMUCB, any of tied": pmb.PMUCB(horizon=rounds, epsilon=epsilon, ties="random", seed=2),
        "CEUCB": pmb.CEUCB(horizon=rounds, epsilon=epsilon, delta=0.3),
        "CIRT": pmb.CIRT(epsilon=0.2, delta=0.5, tolerance=0.02),
        "FixedGrid": pmb.FixedGrid(epsilon=0.5, branching=2, delta=0.3),
        "Uniform": pmb.Uniform(seed=5),
        "SolitaryArm": pmb.SolitaryArm(arm=1),
        "UCB1": pmb.UCB1(),
    }


CASES = [
    ("bernoulli", GINI, 400),
    ("bernoulli 3", pmb.WangRightTail(), 400),
    ("bernoulli", MIXED, 300),
    ("bernoulli 3", pmb.UpperCVaR(0.7), 300),
    ("finite", GINI, 300),
    ("finite", pmb.LowerCVaR(0.3), 200),
    ("beta", GINI, 150),
    ("beta", pmb.TverskyKahneman(0.61), 120),
    ("normal", GINI, 200),
    ("gamma", pmb.Quadratic(0.5), 200),
    ("block", MIXED, 150),
]


@pytest.mark.parametrize(("name", "metric", "rounds"), CASES, ids=[f"{n}-{m!r}" for n, m, _ in CASES])
def test_simulate_plays_what_asking_by_hand_plays(name: str, metric: Any, rounds: int) -> None:
    bandit = BANDITS[name]
    mine = recipes(rounds, bandit.n_arms)
    every, trials = range(1, rounds + 1), [0, 3] if name == "bernoulli" else [3]
    run = pmb.simulate(metric, bandit, mine, rounds, trials=trials, seed=17, checkpoints=every, n_jobs=1)
    frame = run.to_arrow().to_pydict()
    for e, (label, recipe) in enumerate(mine.items()):
        t, pulls = run.column("pulls", label)
        _, mixture = run.column("mixture", label)
        assert t.tolist() == list(every)
        for row, trial in enumerate(trials):
            expected = by_hand(recipe, bandit, metric, rounds, 17, trial)
            steps = np.diff(pulls[row], axis=0, prepend=0)
            np.testing.assert_array_equal(steps.sum(axis=1), 1)
            np.testing.assert_array_equal(np.argmax(steps, axis=1), expected["arms"], err_msg=f"{label} {trial}")
            np.testing.assert_array_equal(pulls[row], expected["pulls"])
            np.testing.assert_array_equal(mixture[row], expected["mixture"], err_msg=f"{label} {trial}")
            at = (len(trials) * e + row) * rounds
            assert [tuple(x) for x in frame["phase_ends"][at : at + rounds]] == expected["ends"]


def test_phases_end_in_the_comparison_above() -> None:
    """Else the comparison of phase ends says nothing."""
    found = by_hand(pmb.CIRT(epsilon=0.2, delta=0.5, tolerance=0.02), BANDITS["bernoulli"], GINI, 400, 17, 0)
    assert found["ends"][-1]


@pytest.mark.parametrize("name", ["bernoulli 3", "finite", "beta", "gamma"])
def test_checkpoints_change_nothing(name: str) -> None:
    bandit, rounds = BANDITS[name], 200 if name == "beta" else 1200
    mine = recipes(rounds, bandit.n_arms)
    if name == "gamma":
        mine = {k: v for k, v in mine.items() if k in ("PMETC", "UCB1", "Uniform")}
    every = pmb.simulate(GINI, bandit, mine, rounds, trials=2, seed=3, checkpoints=range(1, rounds + 1), n_jobs=1)
    for checkpoints in (1, [1, 2, 3, 50], [rounds // 2, 7], None):
        run = pmb.simulate(GINI, bandit, mine, rounds, trials=2, seed=3, checkpoints=checkpoints, n_jobs=1)
        for label in mine:
            for column in ("pulls", "mixture", "regret", "utility"):
                t, values = run.column(column, label)
                assert t[-1] == rounds
                expected = every.column(column, label)[1][:, t - 1]
                if column in ("pulls", "mixture"):
                    np.testing.assert_array_equal(values, expected, err_msg=label)
                else:  # a matrix product of another size: the last bit may differ
                    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-13, err_msg=label)


def test_one_player_plays_trial_after_trial_as_if_each_were_the_first() -> None:
    """Arrays that grew in one trial stay; nothing else does."""
    for bandit, rounds in ((BANDITS["bernoulli"], 3000), (BANDITS["beta"], 500)):
        for label, recipe in recipes(rounds, 2).items():
            policy = recipe.bind(GINI, 2, bandit.support, names=bandit.names)
            checkpoints = np.array([10, rounds // 2, rounds])
            player = Player(policy, bandit, 4, checkpoints)
            for trial in (0, 1, 0):
                again, fresh = player.play(trial), Player(policy, bandit, 4, checkpoints).play(trial)
                same_outcome(again, fresh, f"{label} {trial}")
            assert policy.t == 0  # the policy that was given stays as it was


# ---- the table -------------------------------------------------------------------------------------------
SCORED = [
    *(
        (name, metric)
        for name in ("bernoulli", "bernoulli 3", "finite")
        for metric in (GINI, pmb.UpperCVaR(0.6), pmb.VaR(0.5))
    ),
    *((name, GINI) for name in ("normal", "gamma")),
    *((name, MIXED) for name in ("beta", "block")),
    ("normal", pmb.UpperCVaR(0.6)),
]


@pytest.mark.parametrize(("name", "metric"), SCORED, ids=[f"{n}-{m!r}" for n, m in SCORED])
def test_regret_is_the_best_utility_minus_that_of_the_shares(name: str, metric: Any) -> None:
    bandit = BANDITS[name]
    run = pmb.simulate(metric, bandit, [pmb.Uniform(), pmb.UCB1()], 90, trials=2, seed=8, checkpoints=6, n_jobs=1)
    best = pmb.oracle(metric, bandit)
    for label in run.policies:
        t, pulls = run.column("pulls", label)
        np.testing.assert_array_equal(pulls.sum(axis=2), np.broadcast_to(t, pulls.shape[:2]))
        expected = [[pmb.utility(metric, bandit, row / now) for row, now in zip(p, t, strict=True)] for p in pulls]
        np.testing.assert_allclose(run.column("utility", label)[1], expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(run.regret(label)[1], best.value - np.array(expected), rtol=1e-9, atol=1e-9)
        assert run.regret(label)[1].min() > -1e-9


def test_several_horizons() -> None:
    bandit, horizons = BANDITS["bernoulli"], [200, 1000, 450]
    mine = {"ucb": pmb.PMUCB(horizon=7, epsilon=0.25), "etc": pmb.PMETC(horizon=7, epsilon=0.2), "any": pmb.CIRT()}
    run = pmb.simulate(GINI, bandit, mine, horizons, trials=3, seed=5, checkpoints=[30, 200, 300], n_jobs=1)
    assert run.horizons("ucb") == run.horizons("etc") == (200, 450, 1000)
    assert run.horizons("any") == (1000,)
    single = {"ucb": lambda h: pmb.PMUCB(horizon=h, epsilon=0.25), "etc": lambda h: pmb.PMETC(horizon=h, epsilon=0.2)}
    for h in horizons:
        alone = pmb.simulate(
            GINI, bandit, {k: make(h) for k, make in single.items()}, h, trials=3, seed=5,
            checkpoints=[t for t in (30, 200, 300, 450, 1000) if t <= h], n_jobs=1,
        )  # fmt: skip
        for label in single:
            for column in ("pulls", "mixture", "regret"):
                t, found = run.column(column, label, h)
                times, expected = alone.column(column, label)
                assert t.tolist() == sorted({x for x in (30, 200, 300, *horizons) if x <= h})
                np.testing.assert_array_equal(found, expected[:, np.isin(times, t)])
    long = pmb.simulate(GINI, bandit, {"any": pmb.CIRT()}, 1000, trials=3, seed=5, checkpoints=[30, 200, 300, 450])
    t, found = run.column("pulls", "any")
    assert t.tolist() == [30, 200, 300, 450, 1000]
    np.testing.assert_array_equal(found, long.column("pulls", "any")[1])


def test_size_of_the_table() -> None:
    mine = [pmb.Uniform(), pmb.UCB1(), pmb.CIRT()]
    run = pmb.simulate(GINI, BANDITS["bernoulli 3"], mine, 100_000, trials=5, checkpoints=[10, 500, 100_000])
    table = run.to_arrow()
    assert table.num_rows == 3 * 5 * 3
    assert table["t"].to_pylist() == [10, 500, 100_000] * 15
    assert table["trial"].to_pylist() == [k for k in range(5) for _ in range(3)] * 3
    assert table["policy"].to_pylist() == [p for p in ("Uniform", "UCB1", "CIRT") for _ in range(15)]
    assert table.nbytes < 20_000


# ---- pairs, single trials, workers -----------------------------------------------------------------------
@pytest.mark.parametrize("name", ["bernoulli", "beta", "normal", "gamma"])
def test_policies_that_pull_alike_are_paid_alike(name: str) -> None:
    """The same policy twice plays the same; and what it is paid is what ``Rewards`` says, whoever else plays."""
    bandit = BANDITS[name]
    mine = {"a": pmb.UCB1(), "other": pmb.Uniform(), "b": pmb.UCB1()}
    run = pmb.simulate(GINI, bandit, mine, 150, trials=3, seed=2, checkpoints=range(1, 151), n_jobs=1)
    alone = pmb.simulate(GINI, bandit, {"a": pmb.UCB1()}, 150, trials=3, seed=2, checkpoints=range(1, 151), n_jobs=1)
    pulls = run.column("pulls", "a")[1]
    np.testing.assert_array_equal(pulls, run.column("pulls", "b")[1])
    np.testing.assert_array_equal(pulls, alone.column("pulls", "a")[1])
    np.testing.assert_array_equal(run.column("mixture", "a")[1], run.column("mixture", "b")[1])
    assert run.difference("a", "b").mean == 0.0


@pytest.mark.parametrize("name", ["bernoulli 3", "beta", "gamma"])
def test_one_trial_alone_is_that_trial_of_all(name: str) -> None:
    bandit = BANDITS[name]
    mine = {"UCB1": pmb.UCB1(), "Uniform": pmb.Uniform(), "PMETC": pmb.PMETC(horizon=300, epsilon=0.2)}
    whole = pmb.simulate(GINI, bandit, mine, 300, trials=6, seed=1, checkpoints=20, n_jobs=1)
    for trials in ([4], [2, 5], [5, 2, 2]):
        part = pmb.simulate(GINI, bandit, mine, 300, trials=trials, seed=1, checkpoints=20, n_jobs=1)
        assert part.trials == tuple(sorted(set(trials)))
        for label in mine:
            for column in ("pulls", "mixture", "regret", "utility"):
                expected = whole.column(column, label)[1][list(part.trials)]
                np.testing.assert_array_equal(part.column(column, label)[1], expected)
    far = pmb.simulate(GINI, bandit, mine, 300, trials=[2**63 - 1], seed=2**63 - 1, n_jobs=1)
    assert far.trials == (2**63 - 1,)
    other = pmb.simulate(GINI, bandit, mine, 300, trials=6, seed=2, checkpoints=20, n_jobs=1)
    assert not np.array_equal(other.column("pulls", "UCB1")[1], whole.column("pulls", "UCB1")[1])


def test_workers_do_not_matter() -> None:
    for name in ("bernoulli", "gamma", "beta"):
        bandit = BANDITS[name]
        mine = [pmb.UCB1(), pmb.Uniform(seed=3), pmb.PMETC(horizon=400, epsilon=0.1)]
        if name == "bernoulli":
            mine += [pmb.CIRT(delta=0.5), pmb.PMUCB(horizon=400, epsilon=0.2)]
        runs = [
            pmb.simulate(GINI, bandit, mine, 400, trials=13, seed=6, n_jobs=jobs, backend="threads")
            for jobs in (1, 2, 3)
        ]
        assert runs[0].equals(runs[1])
        assert runs[0].equals(runs[2])


def test_a_metric_of_its_own() -> None:
    """A policy made with a metric plays for it, and is scored by the run's."""
    bandit = BANDITS["bernoulli"]
    own = pmb.PMUCB(pmb.Mean(), horizon=500, epsilon=0.1, delta=0.5)
    run = pmb.simulate(GINI, bandit, {"own": own}, 500, trials=1, seed=3, checkpoints=range(1, 501))
    hand = by_hand(pmb.PMUCB(horizon=500, epsilon=0.1, delta=0.5), bandit, pmb.Mean(), 500, 3, 0)
    np.testing.assert_array_equal(run.column("pulls", "own")[1][0], hand["pulls"])
    score = pmb.utility(GINI, bandit, hand["pulls"][-1] / 500)
    assert run.column("utility", "own")[1][0, -1] == pytest.approx(score)


# ---- bad input -------------------------------------------------------------------------------------------
BERNOULLI = BANDITS["bernoulli"]
UNKNOWN = pmb.Bandit([stats.gamma(2.0), stats.norm()])
HEAVY = pmb.Bandit([stats.pareto(1.5), stats.pareto(3.0)], support=pmb.Real(1.0))
GIVEN: dict[str, Any] = {"bandit": BERNOULLI, "metric": GINI, "policies": pmb.Uniform(), "horizon": 100, "trials": 2}
BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "short horizon": ({"policies": pmb.PMETC(horizon=1000, n_explore=800)}, ValueError, "explores for 800 rounds"),
    "no room to explore": ({"policies": pmb.PMUCB(horizon=9), "horizon": [1, 9]}, ValueError, "PMUCB cannot play 1 "),
    "made for less": ({"policies": pmb.PMUCB(horizon=50)}, ValueError, "made for 50 rounds.*100.*horizon=100"),
    "the bandit third": ({"policies": BERNOULLI, "bandit": "uniform"}, TypeError, r"simulate\(metric, bandit, pol"),
    "the bandit first": ({"metric": BERNOULLI, "bandit": "gini"}, TypeError, r"simulate\(metric, bandit, pol"),
    "an unknown name": ({"policies": ["CIRTT"]}, ValueError, "unknown policy 'CIRTT'. Did you mean 'cirt'"),
    "an unknown name alone": ({"policies": "trak"}, ValueError, "unknown policy 'trak'. Did you mean 'track'"),
    "an unknown name in a mapping": ({"policies": {"x": "ucb2"}}, ValueError, "unknown policy 'ucb2'. Did you mean"),
    "a number": ({"policies": 3}, TypeError, "a policy is an object such as CIRT"),
    "nothing": ({"policies": None}, TypeError, "a policy is an object such as CIRT"),
    "no policy": ({"policies": []}, ValueError, "no policy"),
    "no policy by name": ({"policies": {}}, ValueError, "no policy"),
    "infinite": ({"bandit": HEAVY, "metric": pmb.PHT(0.5)}, ValueError, "infinite"),
    "no trials": ({"trials": 0}, ValueError, "trials must be between 1"),
    "negative trials": ({"trials": -3}, ValueError, "trials must be between 1"),
    "half a trial": ({"trials": 2.5}, TypeError, "trials must be a whole number"),
    "empty trials": ({"trials": []}, ValueError, "trials is empty"),
    "a negative trial": ({"trials": [0, -1]}, ValueError, "trial must be between 0"),
    "empty checkpoints": ({"checkpoints": []}, ValueError, "checkpoints is empty"),
    "no checkpoints": ({"checkpoints": 0}, ValueError, "checkpoints must be between 1 and 1000000, got 0"),
    "a late checkpoint": ({"checkpoints": [50, 101]}, ValueError, "checkpoint must be between 1 and 100.*101"),
    "checkpoint zero": ({"checkpoints": [0, 10]}, ValueError, "checkpoint must be between 1 and 100"),
    "half a checkpoint": ({"checkpoints": [0.5, 10]}, TypeError, "checkpoint must be a whole number"),
    "backend": ({"backend": "thread"}, ValueError, "backend.*thread"),
    "unknown support": ({"bandit": UNKNOWN}, ValueError, r"support .* not known.*Interval\(lo, hi\)"),
    "another support": ({"bandit": BANDITS["normal"], "policies": pmb.UCB1(support=pmb.Interval(0, 1))}, ValueError,
                        "outside the declared support"),
    "no horizon": ({"horizon": 0}, ValueError, "horizon must be between 1"),
    "empty horizon": ({"horizon": []}, ValueError, "horizon is empty"),
    "half a horizon": ({"horizon": 99.5}, TypeError, "horizon must be a whole number"),
    "seed": ({"seed": -1}, ValueError, "seed must be between 0"),
    "seed's kind": ({"seed": "x"}, TypeError, "seed must be a whole number"),
    "jobs": ({"n_jobs": 0}, ValueError, "n_jobs must be at least 1"),
    "metric": ({"metric": 0.3}, TypeError, "metric must be a preference metric"),
    "a metric's name": ({"metric": "ginny"}, ValueError, "unknown metric 'ginny'. Did you mean 'gini'"),
    "a metric's text": ({"metric": "0.7*mean + "}, ValueError, "mean"),
    "metric's class": ({"metric": pmb.GiniDeviation}, TypeError, "metric must be a preference metric"),
    "bandit": ({"bandit": [0.4, 0.9]}, TypeError, "bandit must be a Bandit"),
    "no such arm": ({"policies": pmb.SolitaryArm(arm=7)}, ValueError, "there is no arm 7"),
    "no such name": ({"policies": pmb.SolitaryArm(arm="z")}, ValueError, "z"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_answered_in_one_sentence(name: str) -> None:
    change, error, words = BAD[name]
    with pytest.raises(error, match=f"(?is){words}") as caught:
        pmb.simulate(**{**GIVEN, **change})
    text = str(caught.value)
    assert type(caught.value) is error
    assert "\n" not in text
    assert text[-1] in ".)"
    assert len(text) < 400
