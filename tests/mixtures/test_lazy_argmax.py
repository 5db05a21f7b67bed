"""Working out only what may win takes the same decisions as working out everything, in every round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hyp

import pmbandits as pmb
from pmbandits.confidence._bounds import OPTIMISTIC, update_confidence_sets, utility, utility_bound
from pmbandits.mixtures._index import OPTIMISTIC_BOUND, UTILITY
from pmbandits.mixtures._lazy_argmax import SHORTEST_PAUSE, max_change_since_evaluation
from tests.helpers import covering, look_at_everything


def bumpy(u: Any) -> Any:
    return u * (1.0 - u) * (1.3 - 0.6 * u)


METRICS = {
    "gini": pmb.GiniDeviation(),
    "wang": pmb.WangRightTail(),
    "inverted S": pmb.InvertedS(1.5),
    "inverted S, no pair": pmb.InvertedS(0.5),
    "upper_cvar": pmb.UpperCVaR(0.8),
    "mean": pmb.Mean(),
    "lower cvar": pmb.LowerCVaR(0.3),
    "own": pmb.Distortion.from_function(bumpy, name="own", holder=(1.0, 1.3)),
    "own, no pair": pmb.Distortion.from_function(lambda u: u**0.7 - u, name="mine"),
    "pht": pmb.PHT(0.6),
    "tversky": pmb.TverskyKahneman(0.61),
    "blend": 0.5 * pmb.Mean() - pmb.WangRightTail(),
    "median": pmb.VaR(0.5),
}
POLICIES: dict[str, dict[str, Any]] = {
    "PMUCB": {"horizon": 2000, "epsilon": 0.25, "rho": 0.02},
    "CEUCB": {"horizon": 2000, "epsilon": 0.25, "rho": 0.02},
    "FixedGrid": {"epsilon": 0.5, "branching": 2},
    "CIRT": {"epsilon": 0.2, "delta": 0.5},
}
FINITE = pmb.Finite([-1.0, 0.0, 0.5, 1.0])
SUPPORTS = {"interval": pmb.Interval(-0.5, 1.5), "real": pmb.Real(1.0), "finite": FINITE}


@dataclass
class Case:
    policy: str
    metric: str
    support: str
    seed: int = 0
    rounds: int = 100
    alike: bool = False  # arms that pay the same, in the same order: exact ties
    late: int = 0  # rewards that are still awaited
    story: bool = False  # heaps that were never asked for, saving, reading
    options: dict[str, Any] = field(default_factory=dict)
    pauses: bool = False  # whether the lazy argmax may pause, so that the whole grid is worked out

    def __str__(self) -> str:
        return f"{self.policy}-{self.metric}-{self.support}-{'alike' if self.alike else 'apart'}-{self.options}"

    def rewards(self) -> np.ndarray:
        rng, n = np.random.default_rng(self.seed), self.rounds
        if self.support == "interval":
            shape = rng.uniform(0.5, 4.0, (2, 3, 1))
            out = 2.0 * rng.beta(shape[0], shape[1], (3, n)) - 0.5
        elif self.support == "real":
            out = rng.normal(rng.uniform(-1.0, 3.0, (3, 1)), 1.0, (3, n))
        else:
            out = np.array([rng.choice(FINITE.atoms, n, p=row) for row in rng.dirichlet(np.ones(4), 3)])
        return np.repeat(out[:1], 3, axis=0) if self.alike else out

    def make(self) -> Any:
        balls = {"confidence": "wasserstein"} if self.support == "real" else {}  # belts on the line are not lazy
        options = {**POLICIES[self.policy], **balls, **self.options}
        made = getattr(pmb, self.policy)(METRICS[self.metric], n_arms=3, support=SUPPORTS[self.support], **options)
        made._memory.lazy_pause_from = -SHORTEST_PAUSE  # without the pause with which runs begin
        return made

    def play(self, folder: Path | None = None) -> int:
        """Play both ways and compare; returns how many values the lazy one did not have to work out."""
        try:
            lazy, whole = self.make(), self.make()
        except ValueError as error:
            assert "Hölder pair" in str(error), error
            return 1
        look_at_everything(whole)
        rng, rewards, told, saved = np.random.default_rng(self.seed), self.rewards(), [0, 0, 0], 0
        waiting: list[tuple[int, float]] = []
        for t in range(self.rounds):
            if not self.pauses:
                lazy._memory.lazy_pause_from = -SHORTEST_PAUSE
            arm = lazy.ask()
            assert arm == whole.ask(), (t, lazy._memory.mix, whole._memory.mix)
            saved += unseen(lazy) if t % 20 == 19 else 0
            waiting.append((arm, float(rewards[arm, told[arm]])))
            told[arm] += 1
            while len(waiting) > self.late:
                news = waiting.pop(int(rng.integers(len(waiting))))
                lazy.tell(*news)
                whole.tell(*news)
            if self.story and rng.random() < 0.02:
                heap = rng.choice(rewards[0], int(rng.choice([1, 3, 40])))
                lazy.tell(0, heap)
                whole.tell(0, heap)
            if self.story and rng.random() < 0.03:
                np.testing.assert_array_equal(lazy.mixture, whole.mixture)
            if self.story and folder is not None and rng.random() < 0.02:
                lazy.save(folder / "lazy.pmb")
                own = METRICS[self.metric] if "own" in self.metric else None
                lazy = pmb.load(folder / "lazy.pmb", metric=own)
        np.testing.assert_array_equal(lazy.mixture, whole.mixture)
        if self.policy == "CIRT":
            assert lazy.phase_ends == whole.phase_ends
        return saved


def unseen(policy: Any) -> int:
    """How many grid points keep a value from an earlier round."""
    memory = policy._memory
    kept = [when[: memory.n_grid_used] for when in (memory.value_at, memory.index_at)]
    return max(int(((when > 0) & (when < memory.rewards)).sum()) for when in kept)


GRID = [
    Case(policy, metric, support, seed)
    for seed, (policy, metric, support) in enumerate(
        (policy, metric, support) for policy in POLICIES for metric in METRICS for support in SUPPORTS
    )
]


def pairs(case: Case) -> Iterator[tuple[str, str]]:
    """All pairs of what a case consists of."""
    yield from combinations((case.policy, case.metric, case.support), 2)


@pytest.mark.parametrize("case", covering(GRID, pairs), ids=str)
def test_the_same_pulls_as_working_out_everything(case: Case) -> None:
    case.play()


@pytest.mark.parametrize(
    ("metric", "support"),
    [("gini", "real"), ("gini", "interval"), ("wang", "interval"), ("inverted S", "finite"), ("own", "finite")],
)
def test_something_is_left_out(metric: str, support: str) -> None:
    """Else the comparisons would compare nothing."""
    assert Case("PMUCB", metric, support, seed=1, rounds=400).play() > 0


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("metric", ["gini", "wang", "mean"])
def test_exact_ties_are_settled_alike(policy: str, metric: str, support: str) -> None:
    Case(policy, metric, support, seed=5, alike=True).play()


@pytest.mark.parametrize("metric", ["gini", "wang", "lower cvar"])
@pytest.mark.parametrize("policy", ["PMUCB", "CIRT"])
@pytest.mark.parametrize("confidence", ["wasserstein", "paper"])
def test_balls_on_a_bounded_support(policy: str, metric: str, confidence: str) -> None:
    for support in ("interval", "finite"):
        rounds = 40 if support == "interval" else 120
        Case(policy, metric, support, seed=3, rounds=rounds, options={"confidence": confidence}).play()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    hyp.sampled_from(list(POLICIES)),
    hyp.sampled_from(["gini", "wang", "inverted S", "own", "blend", "pht"]),
    hyp.sampled_from(list(SUPPORTS)),
    hyp.integers(0, 10**6),
    hyp.sampled_from([0, 0, 4, 30]),
    hyp.booleans(),
)
def test_whatever_is_told_read_and_saved_between(
    tmp_path: Path, policy: str, metric: str, support: str, seed: int, late: int, alike: bool
) -> None:
    Case(policy, metric, support, seed, 150, alike, late, story=True, pauses=True).play(tmp_path)


def test_a_pause_changes_nothing() -> None:
    """PM-UCB-M works out the whole grid while the lazy argmax would have to work out too much of it."""
    case = Case("PMUCB", "gini", "interval", seed=4, rounds=700, pauses=True, options={"epsilon": 0.1})
    case.play()
    policy, rewards = case.make(), case.rewards()
    for arm in range(3):
        policy.tell([arm] * 300, rewards[arm, :300])
    for _ in range(30):
        policy.tell(policy.ask(), 0.4)
    assert policy._memory.lazy_pause_from + SHORTEST_PAUSE > policy._memory.rewards


@pytest.mark.parametrize("policy", ["PMUCB", "CIRT"])
@pytest.mark.parametrize("metric", ["gini", "wang", "pht", "blend", "inverted S", "lower cvar"])
@pytest.mark.parametrize("support", ["interval", "finite"])
def test_values_stay_between_their_bounds(policy: str, metric: str, support: str) -> None:
    """Whatever comes after a value was worked out, the value of the new rewards lies within the drift."""
    # In belts, values of convex metrics that are vertical at 0 are not bounded: all are worked out.
    options = {"confidence": "dkw"} if metric == "blend" else {}
    case = Case(policy, metric, support, seed=9, rounds=60, options=options)
    rng, rewards, compared = np.random.default_rng(1), case.rewards(), 0
    base = case.make()
    for arm in range(3):
        base.tell([arm] * 20, rewards[arm, :20])
    base._update(base._memory.address)
    lo, hi = SUPPORTS[support].lo, SUPPORTS[support].hi
    for extreme in (lambda n: np.full(n, hi), lambda n: np.full(n, lo), lambda n: rng.choice(rewards[1], n)):
        for count in (1, 2, 7, 30):
            twin = base._clone()
            for arm in range(3):
                if rng.random() < 0.7:
                    twin.tell([arm] * count, extreme(count))
            s = twin._memory
            update_confidence_sets(s)
            for when, last, kind in ((s.value_at, s.value, UTILITY), (s.index_at, s.index, OPTIMISTIC_BOUND)):
                for g in range(s.n_grid_used):
                    if when[g] > 0:
                        fall, rise = max_change_since_evaluation(s, g, kind)
                        now = utility(s, s.grid[g]) if kind == UTILITY else utility_bound(s, s.grid[g], OPTIMISTIC)
                        assert -fall - 1e-9 <= now - last[g] <= rise + 1e-9, (g, kind, count)
                        compared += 1
    assert compared > 0


def test_radii_that_rise_are_never_trusted() -> None:
    class Rising:
        kind = "band"

        def radius(self, n: Any) -> Any:
            n = np.asarray(n, dtype=float)
            return np.where(n > 0, 0.5 / np.sqrt(np.maximum(n, 1.0)), 1.0) * np.where(n > 40, 3.0, 1.0)

    case = Case("PMUCB", "gini", "interval", seed=2, options={"confidence": Rising()})
    assert case.make()._memory.radii_decrease == 0
    assert case.play() == 0
