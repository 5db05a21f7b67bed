"""Simulations in which arms change, and rewards are late or come in batches: against a slow loop of plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.metrics.laws import Atoms
from pmbandits.simulation import Rewards
from tests.policies.test_contract import TABLE
from tests.reference import worlds as slow

GINI = pmb.GiniDeviation()
A, B = pmb.Bandit.bernoulli([0.4, 0.9], ["a", "b"]), pmb.Bandit.bernoulli([0.9, 0.1], ["a", "b"])
STEP = pmb.Changing.steps([(0, A), (60, B)])

# For each kind of rewards: two bandits, and their laws as the reference writes them.
ATOMS = [-1.0, 0.0, 0.5, 2.0]
EVEN, ENDS = [0.1, 0.4, 0.4, 0.1], [0.4, 0.1, 0.1, 0.4]
KINDS: dict[str, tuple[pmb.Support, list[list[tuple[Any, ...]]]]] = {
    "binary": (
        pmb.Binary(),
        [[("bernoulli", 0.25), ("bernoulli", 0.75)], [("bernoulli", 0.8), ("bernoulli", 0.3)]],
    ),
    "finite": (
        pmb.Finite(ATOMS),
        [[("atoms", ATOMS, EVEN), ("atoms", ATOMS, ENDS)], [("atoms", ATOMS, ENDS), ("atoms", ATOMS, EVEN)]],
    ),
    "interval": (
        pmb.Interval(-1.0, 2.0),
        [[("beta", 1, 2, -1, 3), ("uniform", -1, 3)], [("uniform", -1, 2), ("beta", 2, 2, -1, 3)]],
    ),
    "real": (pmb.Real(1.0), [[("normal", 0, 1), ("normal", 2, 1)], [("normal", 2, 1), ("normal", 1, 0.5)]]),
}
FROZEN: dict[str, Any] = {"beta": st.beta, "uniform": st.uniform, "normal": st.norm}


def bandit_of(laws: list[tuple[Any, ...]], support: pmb.Support) -> pmb.Bandit:
    """The library's arms for the laws of the reference."""
    if laws[0][0] == "bernoulli":
        return pmb.Bandit.bernoulli([law[1] for law in laws])
    if laws[0][0] == "atoms":
        return pmb.Bandit([Atoms(np.array(points), np.array(chances)) for _, points, chances in laws], support=support)
    return pmb.Bandit([FROZEN[name](*given) for name, *given in laws], support=support)


# ---- as by hand ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", TABLE, ids=[f"{n} {row}" for n, row in enumerate(TABLE)])
def test_every_policy_plays_what_a_loop_by_hand_plays(row: Any) -> None:
    """The arms change in the middle, delays are random, and the arms are asked for in batches."""
    kind, rounds, seed, trial = row.rewards[0].partition(",")[0], row.rounds, 3, 1
    support, two = KINDS[kind]
    two = [(laws * row.n_arms)[: row.n_arms] for laws in two]
    turn, wait, looks = rounds // 2 - 13, st.poisson(6), range(1, rounds + 1, 19)
    world = pmb.Changing.steps([(0, bandit_of(two[0], support)), (turn, bandit_of(two[1], support))], support=support)
    run = pmb.simulate(
        world, row.metric, {"it": row.recipe}, rounds, trials=[trial], seed=seed, delay=wait, batch=4, checkpoints=looks
    )
    t, pulls = run.column("pulls", "it")
    rewards = Rewards(world, seed=seed, trial=trial)

    def law(now: int, arm: int) -> Any:  # of the reference, where it gives the same bits
        return two[now >= turn][arm] if kind in ("binary", "finite") else float(rewards.next(arm, t=now)[0])

    expected = slow.played(
        row.recipe, row.metric, support, list(world.names), law, rounds, seed, trial, wait=wait, batch=4,
        looks=set(t.tolist()),
    )  # fmt: skip
    counts = np.cumsum(np.eye(world.n_arms, dtype=int)[expected["arms"]], axis=0)
    np.testing.assert_array_equal(pulls[0], counts[t - 1])
    np.testing.assert_array_equal(run.column("mixture", "it")[1][0], expected["mixture"])
