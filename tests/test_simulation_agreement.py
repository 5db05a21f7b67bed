"""``simulate`` plays what asking and telling by hand plays, and looking ahead ("naps") changes no decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.stats as stats
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as hyp

import pmbandits as pmb
from pmbandits.policies import _state as st
from pmbandits.simulation import Rewards, policy_seed
from pmbandits.simulation.trial import Outcome, Player
from tests.strategies import METRICS as ALL_METRICS

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
    ("bernoulli 3", pmb.CVaR(0.7), 300),
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
    run = pmb.simulate(bandit, metric, mine, rounds, trials=trials, seed=17, checkpoints=every, n_jobs=1)
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
    every = pmb.simulate(bandit, GINI, mine, rounds, trials=2, seed=3, checkpoints=range(1, rounds + 1), n_jobs=1)
    for checkpoints in (1, [1, 2, 3, 50], [rounds // 2, 7], None):
        run = pmb.simulate(bandit, GINI, mine, rounds, trials=2, seed=3, checkpoints=checkpoints, n_jobs=1)
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
                same(again, fresh, f"{label} {trial}")
            assert policy.t == 0  # the policy that was given stays as it was


def same(a: Outcome, b: Outcome, message: str) -> None:
    apart = np.flatnonzero((a.pulls != b.pulls).any(axis=1) | (a.mixture != b.mixture).any(axis=1))
    if apart.size or not np.array_equal(a.ends, b.ends):
        c = int(apart[0]) if apart.size else -1
        raise AssertionError(
            f"{message}: checkpoint {c} is the first that differs\n{a.pulls[c]} {a.mixture[c]} {a.ends}\n"
            f"{b.pulls[c]} {b.mixture[c]} {b.ends}"
        )


# ---- naps ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Nap:
    """A policy on 0/1 rewards that may look ahead."""

    policy: str
    metric: Any
    means: tuple[float, ...]
    rounds: int
    seed: int = 0
    step: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def play(self, steady: bool) -> tuple[Outcome, bool]:
        """The outcome, and whether the policy slept."""
        make = getattr(pmb, self.policy)
        policy = make(self.metric, n_arms=len(self.means), support=pmb.Binary(), **self.options)
        if not steady:
            policy._steady = False
            policy._note_radii()
        checkpoints = np.unique([*range(self.step, self.rounds + 1, self.step), self.rounds]).astype(np.int64)
        player = Player(policy, pmb.Bandit.bernoulli(self.means), self.seed, checkpoints)
        outcome = player.play(0)
        return outcome, bool((player.policy._view("nap")[: len(self.means)] > 0).any())

    def check(self) -> bool:
        """Whether the policy slept at all, having decided as one that never does."""
        (ahead, slept), (awake, never) = self.play(True), self.play(False)
        assert not never
        same(ahead, awake, repr(self))
        return slept


EXTRA = [
    MIXED,
    pmb.PHT(0.6),
    pmb.InvertedS(0.5),
    0.7 * pmb.Mean() + 0.3 * pmb.CVaR(0.9),
    pmb.PHT(0.5) - 2 * pmb.Mean(),
    pmb.PHT(0.5) - pmb.Mean(),
    -1.0 * pmb.PHT(0.5),
    GINI - pmb.MeanMedianDeviation(),
    -1.0 * GINI,
    -1.0 * pmb.Mean(),
    pmb.CVaR(0.5) - pmb.Mean(),
    GINI - 0.25 * pmb.Mean(),
    1e6 * GINI,
    1e-6 * GINI,
]
metrics = hyp.sampled_from([*ALL_METRICS, *EXTRA])
confidences = hyp.sampled_from(["kl", "dkw", "wasserstein", "paper"])
mean = hyp.one_of(
    hyp.sampled_from([0.0, 1.0, 0.5, 0.3, 0.7, 0.1, 0.9, 1e-3, 1 - 1e-3]),
    hyp.floats(0.0, 1.0).map(lambda p: round(p, 4)),
)


@hyp.composite
def arms(draw: Any) -> tuple[float, ...]:
    k = draw(hyp.integers(2, 4))
    kind = draw(hyp.sampled_from(["any", "equal", "symmetric", "near"]))
    if kind == "any":
        return tuple(draw(hyp.lists(mean, min_size=k, max_size=k)))
    p = draw(mean)
    if kind == "near":
        return tuple(min(max(p + 0.01 * j, 0.0), 1.0) for j in range(k))
    return (p,) * k if kind == "equal" else tuple(p if i % 2 else 1.0 - p for i in range(k))


@hyp.composite
def naps(draw: Any) -> Nap:
    means = draw(arms())
    k, rounds = len(means), draw(hyp.sampled_from([700, 3000, 6000]))
    policy = draw(hyp.sampled_from(["PMUCB", "CEUCB", "CIRT", "FixedGrid"]))
    options: dict[str, Any] = {
        "confidence": draw(confidences),
        "delta": draw(hyp.sampled_from([0.99, 0.5, 0.05, 1e-3])),
    }
    if policy in ("PMUCB", "CEUCB"):
        fine = {2: [0.9, 0.25, 0.06], 3: [0.6, 0.2, 0.1], 4: [0.45, 0.3, 0.2]}[k]
        options |= {"horizon": rounds, "epsilon": draw(hyp.sampled_from(fine))}
        options["rho"] = draw(hyp.sampled_from([0.01, 0.1, 1.0]))
    elif policy == "CIRT":
        options["epsilon"] = draw(hyp.sampled_from([0.3, 0.12, 0.06]))
        options["branching"] = draw(hyp.sampled_from([4, 6])) if k < 4 else 4
        options["stopping"] = draw(hyp.sampled_from(["box", "literal"]))
        options["tolerance"] = draw(hyp.sampled_from([None, 0.0, 1e-3, 0.05]))
        options["exploration"] = draw(hyp.sampled_from([0.2, 1.0, 3.0]))
    else:
        options["epsilon"] = draw(hyp.sampled_from({2: [0.9, 0.25, 0.12], 3: [0.9, 0.4], 4: [0.9]}[k]))
        options["branching"] = 2
        options["exploration"] = draw(hyp.sampled_from([0.2, 1.0, 3.0]))
    step = draw(hyp.sampled_from([1, 7, 100]))
    return Nap(policy, draw(metrics), means, rounds, draw(hyp.integers(0, 10_000)), step, options)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(naps())
@example(Nap("CIRT", GINI, (0.3, 0.7), 6000, options={"delta": 0.5, "stopping": "box"}))
@example(Nap("CIRT", pmb.MeanMedianDeviation(), (0.5, 0.5, 0.5), 6000, options={"tolerance": 0.0}))
@example(Nap("CEUCB", pmb.PHT(0.6), (0.0, 1.0), 6000, options={"horizon": 6000, "epsilon": 0.06, "delta": 0.99}))
def test_looking_ahead_changes_no_decision(case: Nap) -> None:
    try:
        case.check()
    except ValueError as error:  # CE-UCB-M without a Hölder pair
        assert "Hölder pair" in str(error), error


LONG = [
    Nap("PMUCB", GINI, (0.3, 0.7), 20_000, 1, 1, {"horizon": 20_000, "epsilon": 0.1}),
    Nap("PMUCB", GINI, (0.4, 0.9), 20_000, 1, 50, {"horizon": 20_000, "epsilon": 0.05, "confidence": "dkw"}),
    Nap("PMUCB", pmb.WangRightTail(), (0.1, 0.1, 0.12), 20_000, 2, 1, {"horizon": 20_000, "epsilon": 0.2}),
    Nap("PMUCB", pmb.CVaR(0.9), (0.05, 0.08), 20_000, 2, 1, {"horizon": 20_000, "delta": 0.5}),
    Nap("CEUCB", GINI, (0.3, 0.9), 20_000, 3, 1, {"horizon": 20_000, "epsilon": 0.2, "delta": 0.5}),
    Nap("CEUCB", pmb.PHT(0.6), (0.01, 0.6), 20_000, 3, 1, {"horizon": 20_000, "epsilon": 0.3, "delta": 0.9}),
    Nap("CEUCB", MIXED, (0.2, 0.8), 20_000, 3, 1, {"horizon": 20_000, "epsilon": 0.5, "delta": 0.9}),
    Nap("CIRT", GINI, (0.4, 0.9), 20_000, 4, 1, {}),
    Nap("CIRT", GINI, (0.3, 0.7), 20_000, 4, 1, {"stopping": "literal", "delta": 0.5}),
    Nap("CIRT", pmb.TverskyKahneman(0.61), (0.2, 0.6), 20_000, 5, 1, {"epsilon": 0.06}),
    Nap("CIRT", pmb.WangRightTail(), (0.1, 0.2, 0.05), 20_000, 5, 1, {"stopping": "literal", "delta": 0.5}),
    Nap("CIRT", pmb.Quadratic(0.5), (0.3, 0.5, 0.6), 20_000, 6, 1, {"epsilon": 0.1}),
    Nap("FixedGrid", GINI, (0.4, 0.9), 20_000, 6, 1, {}),
    Nap("FixedGrid", pmb.LowerCVaR(0.3), (0.7, 0.9, 0.95), 20_000, 7, 1, {"epsilon": 0.5}),
]


@pytest.mark.parametrize("case", LONG, ids=lambda case: f"{case.policy}-{case.metric!r}-{len(case.means)}-{case.seed}")
def test_looking_ahead_changes_no_decision_in_the_long_run(case: Nap) -> None:
    assert case.check(), "it never slept: nothing was compared"


def futures(policy: Any, rng: np.random.Generator, count: int) -> None:
    """However many rewards within the nap come, and whatever they are: a look would find the same."""
    k, fields = policy.n_arms, st.views(policy._ints, policy._floats)
    ahead = fields["nap"][:k] - fields["told"]
    for _ in range(count):
        twin = policy._twin()
        later = st.views(twin._ints, twin._floats)
        more = np.where(rng.random(k) < 0.6, ahead, rng.integers(0, ahead + 1))
        if rng.random() < 0.3:
            more[rng.integers(k)] = 0
        ones = np.where(rng.random(k) < 0.8, more * rng.integers(0, 2, k), rng.integers(0, more + 1))
        later["told"] += more
        later["counts"].reshape(k, 2)[:] += np.stack([more - ones, ones], axis=1)
        later["nap"][:] = 0
        later["knobs"][st.FALLING] = 0.0
        later["clock"][st.DIRTY] = 1
        twin._update(twin._ints, twin._floats)
        for place in (st.CURRENT, st.PHASE, st.TRACKING):
            assert later["clock"][place] == fields["clock"][place], (fields["told"], fields["counts"], more, ones)
        np.testing.assert_array_equal(later["mix"], fields["mix"])


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(naps())
@example(Nap("PMUCB", pmb.Mean(), (0.2, 0.8), 900, options={"horizon": 900, "epsilon": 0.9, "delta": 0.99}))
@example(Nap("CEUCB", pmb.Mean(), (0.1, 0.9), 900, options={"horizon": 900, "epsilon": 0.9, "delta": 0.99}))
@example(Nap("CEUCB", MIXED, (0.1, 0.9), 900, options={"horizon": 900, "epsilon": 0.9, "confidence": "dkw"}))
@example(Nap("FixedGrid", pmb.LowerCVaR(0.3), (0.7, 0.95), 900, options={"epsilon": 0.9, "delta": 0.99}))
def test_a_nap_is_safe_in_every_future(case: Nap) -> None:
    k, rng = len(case.means), np.random.default_rng(case.seed)
    try:
        policy = getattr(pmb, case.policy)(case.metric, n_arms=k, support=pmb.Binary(), **case.options)
    except ValueError as error:
        assert "Hölder pair" in str(error), error
        return
    rewards, before = Rewards(pmb.Bandit.bernoulli(case.means), seed=case.seed), 0
    for _ in range(min(case.rounds, 1000)):
        arm = policy.ask()
        until = int(policy._view("nap")[0])
        if until > before:
            futures(policy, rng, 12)
            before = until
        policy.tell(arm, rewards.next(arm)[0])


class Bumpy:
    """Radii that fall, but once rise: no look ahead may be built on them."""

    def __init__(self, kind: str, jump: int) -> None:
        self.kind, self.jump = kind, jump

    def radius(self, n: Any) -> Any:
        n = np.asarray(n, dtype=float)
        level = np.where(n > 0, 1.5 / np.sqrt(np.maximum(n, 1.0)), np.inf) * (0.3 if self.kind == "interval" else 1.0)
        return np.where(n > self.jump, 3.0 * level, level)


STORIES = ["all the same way", "each arm its own way", "towards one half", "ever longer", "new means"]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    naps(), hyp.sampled_from(STORIES), hyp.sampled_from([3, 20, 150]), hyp.sampled_from([0, 0, 5, 60]), hyp.booleans()
)
def test_looking_ahead_is_sure_whatever_is_told(case: Nap, story: str, period: int, late: int, bumpy: bool) -> None:
    """Rewards that turn all at once, come late, in another order, or in heaps that were never asked for."""
    rng, k, options = np.random.default_rng(case.seed), len(case.means), dict(case.options)
    if bumpy:
        kind = {"kl": "interval", "dkw": "band"}.get(options["confidence"], "ball")
        options["confidence"] = Bumpy(kind, int(rng.choice([100, 300, 700])))
    make = getattr(pmb, case.policy)
    try:
        ahead, awake = (make(case.metric, n_arms=k, support=pmb.Binary(), **options) for _ in range(2))
    except ValueError as error:
        assert "Hölder pair" in str(error), error
        return
    awake._steady = False
    awake._note_radii()
    waiting: list[tuple[int, float]] = []
    turned, turn, means = 0, 50, rng.random(k)
    for t in range(min(case.rounds, 1500)):
        arm = ahead.ask()
        assert awake.ask() == arm, (case, story, period, late, t)
        n, ones = ahead._view("told")[arm], ahead._view("counts").reshape(k, 2)[arm, 1]
        if t % period == 0:
            means = rng.random(k)
        if t >= turn:
            turned, turn = 1 - turned, int(1.5 * turn)
        reward = {
            "all the same way": (t // period) % 2,
            "each arm its own way": (n // period + arm) % 2,
            "towards one half": 2 * ones < n,
            "ever longer": (arm + turned) % 2,
            "new means": rng.random() < means[arm],
        }[story]
        waiting.append((arm, float(reward)))
        while len(waiting) > late:
            told = waiting.pop(0 if rng.random() < 0.8 else int(rng.integers(len(waiting))))
            ahead.tell(*told)
            awake.tell(*told)
        if rng.random() < 0.003:
            which, heap = int(rng.integers(k)), np.full(int(rng.choice([1, 10, 200])), float(rng.integers(2)))
            ahead.tell(which, heap)
            awake.tell(which, heap)
    np.testing.assert_array_equal(ahead.mixture, awake.mixture)


@settings(max_examples=15, deadline=None)
@given(
    hyp.sampled_from([0.05, 0.3, 1.0, 3.0, 60.0]), arms(), hyp.sampled_from(["CIRT", "FixedGrid"]), hyp.integers(0, 99)
)
def test_the_next_exploration_is_never_missed(xi: float, means: tuple[float, ...], name: str, seed: int) -> None:
    """``eq:any_sampling_rule`` in every round, against the policy that knows until when no arm is due."""
    options = {"exploration": xi, "epsilon": 0.9}
    policy = getattr(pmb, name)(GINI, n_arms=len(means), support=pmb.Binary(), **options)
    fresh = getattr(pmb, name)(GINI, n_arms=len(means), support=pmb.Binary(), **options)
    rewards = Rewards(pmb.Bandit.bernoulli(means), seed=seed)
    for t in range(1500):
        before = policy.pulls
        arm = policy.ask()
        fresh._view("nap")[-1] = 0
        assert fresh.ask() == arm
        # The two roots may round differently just where they are whole numbers.
        root = (t / len(means)) ** (1.0 / (1.0 + xi))
        if abs(root - round(root)) > 1e-9 and before.min() <= np.ceil(root):
            assert before[arm] == before.min()
        reward = rewards.next(arm)[0]
        policy.tell(arm, reward)
        fresh.tell(arm, reward)


# ---- the table -------------------------------------------------------------------------------------------
SCORED = [
    *(
        (name, metric)
        for name in ("bernoulli", "bernoulli 3", "finite")
        for metric in (GINI, pmb.CVaR(0.6), pmb.VaR(0.5))
    ),
    *((name, GINI) for name in ("normal", "gamma")),
    *((name, MIXED) for name in ("beta", "block")),
    ("normal", pmb.CVaR(0.6)),
]


@pytest.mark.parametrize(("name", "metric"), SCORED, ids=[f"{n}-{m!r}" for n, m in SCORED])
def test_regret_is_the_best_utility_minus_that_of_the_shares(name: str, metric: Any) -> None:
    bandit = BANDITS[name]
    run = pmb.simulate(bandit, metric, [pmb.Uniform(), pmb.UCB1()], 90, trials=2, seed=8, checkpoints=6, n_jobs=1)
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
    run = pmb.simulate(bandit, GINI, mine, horizons, trials=3, seed=5, checkpoints=[30, 200, 300], n_jobs=1)
    assert run.horizons("ucb") == run.horizons("etc") == (200, 450, 1000)
    assert run.horizons("any") == (1000,)
    single = {"ucb": lambda h: pmb.PMUCB(horizon=h, epsilon=0.25), "etc": lambda h: pmb.PMETC(horizon=h, epsilon=0.2)}
    for h in horizons:
        alone = pmb.simulate(
            bandit, GINI, {k: make(h) for k, make in single.items()}, h, trials=3, seed=5,
            checkpoints=[t for t in (30, 200, 300, 450, 1000) if t <= h], n_jobs=1,
        )  # fmt: skip
        for label in single:
            for column in ("pulls", "mixture", "regret"):
                t, found = run.column(column, label, h)
                times, expected = alone.column(column, label)
                assert t.tolist() == sorted({x for x in (30, 200, 300, *horizons) if x <= h})
                np.testing.assert_array_equal(found, expected[:, np.isin(times, t)])
    long = pmb.simulate(bandit, GINI, {"any": pmb.CIRT()}, 1000, trials=3, seed=5, checkpoints=[30, 200, 300, 450])
    t, found = run.column("pulls", "any")
    assert t.tolist() == [30, 200, 300, 450, 1000]
    np.testing.assert_array_equal(found, long.column("pulls", "any")[1])


def test_size_of_the_table() -> None:
    mine = [pmb.Uniform(), pmb.UCB1(), pmb.CIRT()]
    run = pmb.simulate(BANDITS["bernoulli 3"], GINI, mine, 100_000, trials=5, checkpoints=[10, 500, 100_000])
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
    run = pmb.simulate(bandit, GINI, mine, 150, trials=3, seed=2, checkpoints=range(1, 151), n_jobs=1)
    alone = pmb.simulate(bandit, GINI, {"a": pmb.UCB1()}, 150, trials=3, seed=2, checkpoints=range(1, 151), n_jobs=1)
    pulls = run.column("pulls", "a")[1]
    np.testing.assert_array_equal(pulls, run.column("pulls", "b")[1])
    np.testing.assert_array_equal(pulls, alone.column("pulls", "a")[1])
    np.testing.assert_array_equal(run.column("mixture", "a")[1], run.column("mixture", "b")[1])
    assert run.difference("a", "b").mean == 0.0


@pytest.mark.parametrize("name", ["bernoulli 3", "beta", "gamma"])
def test_one_trial_alone_is_that_trial_of_all(name: str) -> None:
    bandit = BANDITS[name]
    mine = {"UCB1": pmb.UCB1(), "Uniform": pmb.Uniform(), "PMETC": pmb.PMETC(horizon=300, epsilon=0.2)}
    whole = pmb.simulate(bandit, GINI, mine, 300, trials=6, seed=1, checkpoints=20, n_jobs=1)
    for trials in ([4], [2, 5], [5, 2, 2]):
        part = pmb.simulate(bandit, GINI, mine, 300, trials=trials, seed=1, checkpoints=20, n_jobs=1)
        assert part.trials == tuple(sorted(set(trials)))
        for label in mine:
            for column in ("pulls", "mixture", "regret", "utility"):
                expected = whole.column(column, label)[1][list(part.trials)]
                np.testing.assert_array_equal(part.column(column, label)[1], expected)
    far = pmb.simulate(bandit, GINI, mine, 300, trials=[2**63 - 1], seed=2**63 - 1, n_jobs=1)
    assert far.trials == (2**63 - 1,)
    other = pmb.simulate(bandit, GINI, mine, 300, trials=6, seed=2, checkpoints=20, n_jobs=1)
    assert not np.array_equal(other.column("pulls", "UCB1")[1], whole.column("pulls", "UCB1")[1])


def test_workers_do_not_matter() -> None:
    for name in ("bernoulli", "gamma", "beta"):
        bandit = BANDITS[name]
        mine = [pmb.UCB1(), pmb.Uniform(seed=3), pmb.PMETC(horizon=400, epsilon=0.1)]
        if name == "bernoulli":
            mine += [pmb.CIRT(delta=0.5), pmb.PMUCB(horizon=400, epsilon=0.2)]
        runs = [
            pmb.simulate(bandit, GINI, mine, 400, trials=13, seed=6, n_jobs=jobs, backend="threads")
            for jobs in (1, 2, 3)
        ]
        assert runs[0].equals(runs[1])
        assert runs[0].equals(runs[2])


def test_a_metric_of_its_own() -> None:
    """A policy made with a metric plays for it, and is scored by the run's."""
    bandit = BANDITS["bernoulli"]
    own = pmb.PMUCB(pmb.Mean(), horizon=500, epsilon=0.1, delta=0.5)
    run = pmb.simulate(bandit, GINI, {"own": own}, 500, trials=1, seed=3, checkpoints=range(1, 501))
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
    "a class": ({"policies": pmb.CIRT}, TypeError, r"CIRT is a class; write CIRT\("),
    "a class among them": ({"policies": [pmb.Uniform(), pmb.CIRT]}, TypeError, r"CIRT is a class; write CIRT\("),
    "a class by name": ({"policies": {"x": pmb.CIRT}}, TypeError, r"CIRT is a class; write CIRT\("),
    "a string": ({"policies": ["CIRT"]}, TypeError, "a policy is an object such as CIRT.*'CIRT'"),
    "a bare string": ({"policies": "CIRT"}, TypeError, "a policy is an object such as CIRT"),
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
    "no checkpoints": ({"checkpoints": 0}, ValueError, "checkpoints must be at least 1"),
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
    "metric": ({"metric": ["gini"]}, TypeError, "metric must be a preference metric"),
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
