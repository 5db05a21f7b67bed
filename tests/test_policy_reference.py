"""The compiled policies make the same pulls as slow references written from the pseudocode, pull by pull."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.policies import _state as st
from tests.reference import policies as slow


def dampened(u: Any) -> Any:
    return u * (1.0 - u) * (1.3 - 0.6 * u)


METRICS: dict[str, Any] = {
    "gini": pmb.GiniDeviation(),
    "wang": pmb.WangRightTail(),
    "cvar": pmb.CVaR(0.9),
    "lower_cvar": pmb.LowerCVaR(0.2),
    "quadratic": pmb.Quadratic(0.5),
    "inverted_s": pmb.InvertedS(0.5),
    "blend": 0.7 * pmb.Mean() + 0.3 * pmb.CVaR(0.9),
    "shortfall": pmb.GiniShortfall(0.5, 0.8),
    "function": pmb.Distortion.from_function(dampened, name="dampened", holder=(1.0, 1.3)),
}
SUPPORTS = ("binary", "finite", "interval", "real")
HORIZON_BASED = ("PMETC", "PMUCB", "CEUCB")


def instance(support: str, n_arms: int, rounds: int, seed: int) -> tuple[Any, np.ndarray]:
    """A random support of the kind, and the n-th reward of arm i for all i and n."""
    rng = np.random.default_rng([seed, SUPPORTS.index(support), n_arms])
    if support == "binary":
        means = rng.uniform(0.05, 0.95, (n_arms, 1))
        return pmb.Binary(), (rng.random((n_arms, rounds)) < means).astype(float)
    if support == "finite":
        atoms = np.unique(np.round(rng.uniform(-1.0, 2.0, rng.integers(3, 7)), 3))
        chances = rng.dirichlet(np.full(atoms.size, 0.7), n_arms)
        return pmb.Finite(atoms), np.array([rng.choice(atoms, rounds, p=row) for row in chances])
    if support == "interval":
        shape = rng.uniform(0.5, 4.0, (2, n_arms, 1))
        return pmb.Interval(-0.5, 1.5), 2.0 * rng.beta(shape[0], shape[1], (n_arms, rounds)) - 0.5
    return pmb.Real(1.0), rng.normal(rng.uniform(-1.0, 3.0, (n_arms, 1)), 1.0, (n_arms, rounds))


@dataclass(frozen=True)
class Case:
    policy: str
    metric: str
    support: str
    n_arms: int
    rounds: int
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __str__(self) -> str:
        extra = "-".join(f"{v}" for k, v in self.options.items() if k in ("confidence", "stopping"))
        return "-".join(filter(None, (self.policy, self.support, self.metric, f"K{self.n_arms}", extra)))


def pair(metric: Any, policy: str, n_arms: int, support: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The fast policy and the slow one, alike."""
    fast = getattr(pmb, policy)(metric, n_arms=n_arms, support=support, **options)
    if policy == "UCB1":
        return fast, slow.UCB1(metric, n_arms, support)
    given = {k: v for k, v in options.items() if (k, v) != ("confidence", "auto")}
    if policy in ("PMUCB", "CEUCB"):
        given.setdefault("rho", 0.1)
    return fast, getattr(slow, policy)(metric, n_arms, support, **given)


def story(fast: Any, reference: Any, t: int, arm: int, expected: int) -> str:
    """What to print on the first difference: both indices, and whether it is no more than a near-tie."""
    fields = st.views(fast._ints, fast._floats)
    used = int(fields["clock"][st.GRID_USED])
    lines = [f"round {t}: the fast policy pulls {arm}, the reference {expected}"]
    lines += [f"mixtures: {fields['mix'].tolist()} and {reference.mixture}", f"pulls: {reference.pulls}"]
    if hasattr(reference, "index"):
        ours, theirs = fields["index"][:used], reference.index()
        top = np.sort(theirs)[-2:]
        near = top.size == 2 and top[1] - top[0] < 1e-10
        lines += [f"index: {ours.tolist()}", f"reference: {theirs.tolist()}"]
        lines += [f"largest difference {np.abs(ours - theirs).max():.3g}; top two {top.tolist()}; near-tie: {near}"]
    return "\n".join(lines)


def play(fast: Any, reference: Any, rewards: np.ndarray, rounds: int, look: int = 40) -> None:
    n_arms = rewards.shape[0]
    told = [0] * n_arms
    for t in range(rounds):
        arm, expected = fast.ask(), reference.ask()
        if arm != expected:
            raise AssertionError(story(fast, reference, t, arm, expected))
        if reference.mixture is not None and (t % look == 0 or t == rounds - 1):
            assert np.allclose(fast.mixture, reference.mixture, rtol=0.0, atol=1e-12), t
        if isinstance(reference, slow.CIRT):
            assert fast.phase_ends == tuple(reference.phase_ends), t
            assert fast.phase == (reference.phase if reference.phase <= reference.phases else "track"), t
        reward = float(rewards[arm, told[arm]])
        told[arm] += 1
        fast.tell(arm, reward)
        reference.tell(arm, reward)
    assert fast.pulls.tolist() == reference.pulls


def run(case: Case) -> tuple[Any, Any]:
    support, rewards = instance(case.support, case.n_arms, case.rounds, case.seed)
    fast, reference = pair(METRICS[case.metric], case.policy, case.n_arms, support, case.options)
    play(fast, reference, rewards, case.rounds)
    return fast, reference


def options_of(policy: str, n_arms: int, rounds: int, coarse: bool = False) -> dict[str, Any]:
    if policy == "UCB1":
        return {}
    if policy == "PMETC":
        return {"horizon": rounds - 50, "epsilon": (1 / 16, 0.1, 1 / 6)[n_arms - 2]}
    if policy in ("PMUCB", "CEUCB"):
        return {"horizon": rounds, "epsilon": ((1 / 16, 0.1, 1 / 6), (1 / 8, 1 / 5, 1 / 4))[coarse][n_arms - 2]}
    if policy == "CIRT":
        return {"epsilon": 0.2 if n_arms < 4 else 0.3}
    return {"epsilon": (0.25, 0.5, 1.0)[n_arms - 2] * (1 + coarse) / (1 + (coarse and n_arms == 4))}


def finite_cases() -> list[Case]:
    """Binary and Finite: every policy with every metric, K = 2, 3, 4 in turn, thousands of rounds."""
    out = []
    turn = 0
    for support in ("binary", "finite"):
        for metric in METRICS:
            for policy in ("PMETC", "PMUCB", "CEUCB", "CIRT", "FixedGrid"):
                if policy == "CEUCB" and metric == "inverted_s":
                    continue
                turn += 1
                n_arms = 2 + turn % 3
                rounds = (2500, 2000, 1200)[n_arms - 2]
                out.append(Case(policy, metric, support, n_arms, rounds, options_of(policy, n_arms, rounds)))
    return out


@pytest.mark.parametrize("case", finite_cases(), ids=str)
def test_same_pulls_on_finite_supports(case: Case) -> None:
    run(case)
