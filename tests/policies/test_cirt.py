"""CIRT's grids, compiled, against every combination of fractions tried one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.policies.cirt._kernels import fill_tracking_grid, unpack
from pmbandits.state.compile import kernel
from tests.reference import policies as slow


@kernel
def lay(memory: int) -> None:
    fill_tracking_grid(unpack(memory))


def tracked(kept: tuple[int, ...], branching: int = 4, epsilon: float = 0.25) -> np.ndarray:
    """The tracking grid of a policy whose last phase kept this mixture, in whole steps."""
    policy = pmb.CIRT(
        pmb.GiniDeviation(), n_arms=len(kept), support=pmb.Binary(), epsilon=epsilon, branching=branching, search="grid"
    )
    memory = policy._memory
    memory.kept_mixture[:] = kept
    lay(memory.address)
    return np.array(memory.grid[: memory.n_grid_used])


def test_the_tracking_grid_stays_in_the_box() -> None:
    """The example that was wrong: four arms, kept (2, 2, 2, 2)/8, where 12 of 56 points lay outside."""
    grid = tracked((2, 2, 2, 2))
    assert len(grid) == 44
    assert np.abs(grid - 0.25).max() <= 1 / 8
    np.testing.assert_allclose(grid.sum(axis=1), 1.0, atol=1e-15)


def test_the_order_of_the_arms_does_not_matter_to_the_tracking_grid() -> None:
    for kept in ((0, 0, 0, 8), (1, 0, 5, 2), (0, 0, 3, 5), (1, 1, 2, 4)):
        sizes = {len(tracked(order)) for order in itertools.permutations(kept)}
        assert len(sizes) == 1, (kept, sizes)
    assert len(tracked((8, 0, 0, 0))) == len(tracked((0, 0, 0, 8))) == 1


@pytest.mark.parametrize(
    ("n_arms", "branching", "epsilon"),
    [(2, 4, 0.06), (3, 4, 0.25), (4, 4, 0.25), (5, 4, 0.5), (6, 4, 0.5), (2, 6, 0.12), (3, 6, 0.3), (4, 6, 0.34)],
)
def test_the_tracking_grid_is_the_papers_set(n_arms: int, branching: int, epsilon: float) -> None:
    phases = pmb.theory.refinement_phases(epsilon, branching)
    total = branching * (branching // 2) ** (phases - 1)
    rng = np.random.default_rng(n_arms)
    cases = {tuple(int(n) for n in rng.multinomial(total, rng.dirichlet(np.full(n_arms, 0.6)))) for _ in range(12)}
    cases |= {(total,) + (0,) * (n_arms - 1), (0,) * (n_arms - 1) + (total,)}
    for kept in sorted(cases):
        grid = tracked(kept, branching, epsilon)
        np.testing.assert_allclose(
            grid, slow.tracking_grid(list(kept), branching, phases), atol=1e-14, err_msg=f"{kept}"
        )
        assert grid.min() > 0.0
