"""Every policy keeps the contract of :mod:`pmbandits.testing`. One table says which policies, and what each claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.testing import PolicyContract

NAN, INF = float("nan"), float("inf")
GINI, TAIL = pmb.GiniDeviation(), pmb.LowerCVaR(0.3)
ATOMS = (-1.0, 0.0, 0.5, 2.0)


@dataclass(frozen=True)
class Rewards:
    """Rewards of one support: how an arm draws one, and numbers that are no rewards of it."""

    support: Any
    draw: Callable[[int, np.random.Generator], float]
    bad: tuple[float, ...]


REWARDS = {
    "binary": Rewards(pmb.Binary(), lambda arm, rng: rng.random() < 0.25 + 0.5 * (arm % 2), (NAN, INF, 2.5)),
    "binary, far apart": Rewards(pmb.Binary(), lambda arm, rng: rng.random() < (0.02, 0.98)[arm], (NAN, INF, 2.5)),
    "finite": Rewards(
        pmb.Finite(ATOMS),
        lambda arm, rng: rng.choice(ATOMS, p=[0.1, 0.4, 0.4, 0.1] if arm % 2 else [0.4, 0.1, 0.1, 0.4]),
        (NAN, INF, -INF, 1.0, 0.5000001),
    ),
    "interval": Rewards(
        pmb.Interval(-1.0, 2.0),
        lambda arm, rng: 3.0 * rng.beta(1 + 2 * (arm % 2), 2) - 1.0,
        (NAN, INF, -INF, 2.5, -1.0000001),
    ),
    "real": Rewards(pmb.Real(1.0), lambda arm, rng: rng.normal(2.0 * (arm % 2), 1.0), (NAN, INF, -INF)),
}
EVERY = ("binary", "finite", "interval", "real")


@dataclass(frozen=True)
class Row:
    """A recipe, the rewards that it is tried on, and what it claims.

    ``tracks`` is how far the shares of pulls may be from the mixture in the end; ``None`` claims nothing. Where
    ``any_order`` is false, the order in which late rewards arrive may matter.
    """

    recipe: pmb.Policy
    rewards: tuple[str, ...]
    tracks: float | None = 0.05
    metric: pmb.Distortion = GINI
    n_arms: int = 2
    rounds: int = 300
    any_order: bool = True

    def __str__(self) -> str:
        given = (self.recipe.options.get(key) for key in ("bonus", "form", "estimates", "certify"))
        return " ".join([type(self.recipe).__name__, *map(str, filter(None, given))])


TABLE = [
    # The proportions are met at the horizon: the 300 rounds and the 1000 unanswered asks of the battery.
    Row(pmb.PMETC(horizon=1300, epsilon=0.1), EVERY),
    # The mixture may step by ε shortly before the end.
    Row(pmb.PMUCB(horizon=2000, epsilon=1 / 8), EVERY, tracks=0.07),
    Row(pmb.CEUCB(horizon=2000, epsilon=1 / 8), EVERY, tracks=0.07),
    Row(pmb.CIRT(epsilon=0.25), EVERY, tracks=0.07),
    Row(pmb.FixedGrid(epsilon=0.5), ("binary", "finite", "interval"), tracks=0.07),
    # Under Gini two grid points tie on these rewards, and take turns; here one is best.
    Row(pmb.FixedGrid(epsilon=0.5), ("real",), tracks=0.07, metric=0.5 * pmb.GiniDeviation() + 0.5 * pmb.Mean()),
    Row(pmb.Track(), ("binary", "interval"), tracks=0.07),
    Row(pmb.Vet(), EVERY, tracks=0.1),
    Row(pmb.Vet(estimates="binned:64"), ("interval",), tracks=0.1),
    Row(pmb.Vet(estimates="sketch:64"), ("real",), tracks=0.1),
    Row(pmb.Track(certify=0.2), ("interval", "real"), tracks=0.25),
    Row(pmb.Vet(certify=0.2), ("binary", "finite"), tracks=0.25),
    # Through all phases: means of 0.02 and 0.98 are told apart within these rounds.
    Row(pmb.CIRT(epsilon=0.5), ("binary, far apart",), rounds=900),
    Row(pmb.Uniform(), ("binary",), n_arms=3),
    Row(pmb.SolitaryArm(arm=1), ("binary",), n_arms=3),
    # From here on the mixture is often the best arm so far, while the others are still tried: no claim to track.
    Row(pmb.UCB1(), ("binary",), tracks=None),
    Row(pmb.Thompson(), ("binary", "interval", "real"), tracks=None, metric=TAIL),
    Row(pmb.CVaRUCB(horizon=2000), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.BrownUCB(horizon=2000), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.MCVTS(), ("binary", "finite"), tracks=None, metric=TAIL),
    Row(pmb.BCVTS(), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.UUCB(), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.WUCB(), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.RhoNPTS(), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.RhoNPTS(anchor="none"), ("interval", "real"), tracks=None, metric=TAIL),
    Row(pmb.MVLCB(horizon=2000, rho=0.7), ("finite", "interval"), tracks=None, metric=TAIL),
    Row(pmb.SolitaryUCB(horizon=2000), ("binary", "finite", "real"), tracks=None, metric=TAIL),
    # The mixture is the shares so far, or one that arms are drawn from: after 1000 more asks the shares can differ.
    Row(pmb.UCFW(), ("binary", "interval"), tracks=None),
    Row(pmb.UCFW(bonus="variance"), EVERY, tracks=None),
    Row(pmb.MixtureUCB(), ("binary", "finite", "interval"), tracks=None),
    Row(pmb.MixtureUCB(form="cab"), ("binary", "finite", "interval"), tracks=None),
    Row(pmb.MixtureGreedy(), ("binary", "finite", "interval", "real"), tracks=None),
    Row(pmb.MixtureGreedy(floor="cube_root"), ("interval",), tracks=None),
    # Policies that keep bins or sketches in place of all rewards.
    Row(pmb.UCFW(bonus="variance", estimates="binned:64"), ("interval",), tracks=None),
    Row(pmb.UCFW(estimates="sketch:64"), ("real",), tracks=None),
    Row(pmb.MixtureUCB(form="cab", estimates="sketch:64"), ("interval",), tracks=None),
    Row(pmb.FixedGrid(epsilon=0.5, estimates="binned:64"), ("interval",), tracks=0.07),
    Row(pmb.PMUCB(horizon=2000, epsilon=1 / 4, estimates="sketch:64"), ("interval",), tracks=0.07),
    Row(pmb.PMETC(horizon=1300, epsilon=0.1, estimates="sketch:64"), ("real",)),
    # So small a sketch drops rewards at every step, and which ones depends on their order, within the stated error.
    Row(pmb.PMETC(horizon=1300, epsilon=0.1, estimates="sketch:8"), ("real",), any_order=False),
]


class Battery(PolicyContract):
    """The battery for one row of the table and one kind of rewards."""

    def __init__(self, row: Row, rewards: str) -> None:
        self.row, self.rewards = row, REWARDS[rewards]
        self.rounds, self.tracks, self.bad_rewards = row.rounds, row.tracks, self.rewards.bad

    def make(self, seed: int = 0) -> Any:
        return self.row.recipe.bind(self.row.metric, self.row.n_arms, self.rewards.support, seed=seed)

    def reward(self, arm: int, rng: np.random.Generator) -> float:
        return float(self.rewards.draw(arm, rng))


ORDER = "test_the_order_in_which_late_rewards_arrive_does_not_matter"
PROMISES = [name for name in vars(PolicyContract) if name.startswith("test_")]
# `make test` tries every promise of every policy on one kind of rewards, in turn, and every third promise of a policy
# with other options; `make test-all` tries all of them on all kinds.
FIRST = {r for r, row in enumerate(TABLE) if type(row.recipe) not in {type(one.recipe) for one in TABLE[:r]}}
CASES = [
    pytest.param(
        row,
        rewards,
        promise,
        id=f"{row}-{rewards}-{promise.removeprefix('test_')}",
        marks=[] if (r + p) % len(row.rewards) == k and (r in FIRST or (r + p) % 3 == 0) else [pytest.mark.slow],
    )
    for r, row in enumerate(TABLE)
    for k, rewards in enumerate(row.rewards)
    for p, promise in enumerate(PROMISES)
    if row.any_order or promise != ORDER
]


@pytest.mark.parametrize(("row", "rewards", "promise"), CASES)
def test_a_policy_keeps_its_contract(row: Row, rewards: str, promise: str) -> None:
    getattr(Battery(row, rewards), promise)()


def test_every_policy_is_in_the_table_and_every_promise_is_tried() -> None:
    public = {thing for name in pmb.__all__ if isinstance(thing := getattr(pmb, name), type)}
    assert {type(row.recipe) for row in TABLE} == {cls for cls in public if issubclass(cls, pmb.Policy)} - {pmb.Policy}
    assert ORDER in PROMISES and len(PROMISES) >= 12


def test_cirt_reaches_its_last_phase_within_the_rounds_of_the_table() -> None:
    row = next(row for row in TABLE if "binary, far apart" in row.rewards)
    battery = Battery(row, "binary, far apart")
    policy = battery.make()
    battery.play(policy, row.rounds, np.random.default_rng(2))
    assert policy.ask() in (0, 1)
    assert policy.phase == "track"
