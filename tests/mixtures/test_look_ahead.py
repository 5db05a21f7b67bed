"""Looking ahead changes no decision.

A policy on 0/1 rewards works out how many more rewards each arm may pay before the choice can change, whatever these
rewards are. Until then it does not look again. That time is called a nap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as hyp

import pmbandits as pmb
from pmbandits.simulation import Rewards
from pmbandits.simulation.trial import Outcome, Player
from tests.helpers import look_at_everything, same_outcome
from tests.strategies import METRICS as ALL_METRICS

GINI = pmb.GiniDeviation()
MIXED = pmb.Mean() - 0.5 * GINI


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
            look_at_everything(policy)
        checkpoints = np.unique([*range(self.step, self.rounds + 1, self.step), self.rounds]).astype(np.int64)
        player = Player(policy, pmb.Bandit.bernoulli(self.means), self.seed, checkpoints)
        outcome = player.play(0)
        return outcome, bool((player.policy._memory.choice_valid_until > 0).any())

    def check(self) -> bool:
        """Whether the policy slept at all, having decided as one that never does."""
        (ahead, slept), (awake, never) = self.play(True), self.play(False)
        assert not never
        same_outcome(ahead, awake, repr(self))
        return slept


EXTRA = [
    MIXED,
    pmb.PHT(0.6),
    pmb.InvertedS(0.5),
    0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9),
    pmb.PHT(0.5) - 2 * pmb.Mean(),
    pmb.PHT(0.5) - pmb.Mean(),
    -1.0 * pmb.PHT(0.5),
    GINI - pmb.MeanMedianDeviation(),
    -1.0 * GINI,
    -1.0 * pmb.Mean(),
    pmb.UpperCVaR(0.5) - pmb.Mean(),
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
    Nap("PMUCB", pmb.UpperCVaR(0.9), (0.05, 0.08), 20_000, 2, 1, {"horizon": 20_000, "delta": 0.5}),
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
    k, memory = policy.n_arms, policy._memory
    ahead = memory.choice_valid_until - memory.n_rewards
    for _ in range(count):
        twin = policy._clone()
        later = twin._memory
        more = np.where(rng.random(k) < 0.6, ahead, rng.integers(0, ahead + 1))
        if rng.random() < 0.3:
            more[rng.integers(k)] = 0
        ones = np.where(rng.random(k) < 0.8, more * rng.integers(0, 2, k), rng.integers(0, more + 1))
        later.n_rewards[:] += more
        later.counts[:] += np.stack([more - ones, ones], axis=1)
        later.choice_valid_until[:] = 0
        later.radii_decrease = 0
        later.dirty = 1
        twin._update(later.address)
        story = (memory.n_rewards, memory.counts, more, ones)
        assert later.current_point == memory.current_point, story
        assert later.own == memory.own, story  # of CIRT: its phase, and whether it tracks
        np.testing.assert_array_equal(later.mix, memory.mix)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(naps())
@example(Nap("PMUCB", pmb.Mean(), (0.2, 0.8), 900, options={"horizon": 900, "epsilon": 0.9, "delta": 0.99}))
@example(Nap("CEUCB", pmb.Mean(), (0.1, 0.9), 900, options={"horizon": 900, "epsilon": 0.9, "delta": 0.99}))
@example(Nap("CEUCB", MIXED, (0.1, 0.9), 900, options={"horizon": 900, "epsilon": 0.9, "confidence": "dkw"}))
@example(Nap("FixedGrid", pmb.LowerCVaR(0.3), (0.7, 0.95), 900, options={"epsilon": 0.9, "delta": 0.99}))
def test_until_a_nap_ends_no_reward_can_change_the_choice(case: Nap) -> None:
    k, rng = len(case.means), np.random.default_rng(case.seed)
    try:
        policy = getattr(pmb, case.policy)(case.metric, n_arms=k, support=pmb.Binary(), **case.options)
    except ValueError as error:
        assert "Hölder pair" in str(error), error
        return
    rewards, before = Rewards(pmb.Bandit.bernoulli(case.means), seed=case.seed), 0
    for _ in range(min(case.rounds, 1000)):
        arm = policy.ask()
        until = int(policy._memory.choice_valid_until[0])
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
def test_looking_ahead_changes_no_decision_whatever_is_told(
    case: Nap, story: str, period: int, late: int, bumpy: bool
) -> None:
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
    look_at_everything(awake)
    waiting: list[tuple[int, float]] = []
    turned, turn, means = 0, 50, rng.random(k)
    for t in range(min(case.rounds, 1500)):
        arm = ahead.ask()
        assert awake.ask() == arm, (case, story, period, late, t)
        n, ones = ahead._memory.n_rewards[arm], ahead._memory.counts[arm, 1]
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
        fresh._memory.next_exploration_at = 0
        assert fresh.ask() == arm
        # The two roots may round differently just where they are whole numbers.
        root = (t / len(means)) ** (1.0 / (1.0 + xi))
        if abs(root - round(root)) > 1e-9 and before.min() <= np.ceil(root):
            assert before[arm] == before.min()
        reward = rewards.next(arm)[0]
        policy.tell(arm, reward)
        fresh.tell(arm, reward)
