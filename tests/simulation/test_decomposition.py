"""Regret in two parts (``eq:regret_decomposition``), against grids typed again and utilities by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

P = np.array([0.13, 0.42, 0.81])
GINI = pmb.GiniDeviation()


@pytest.fixture(scope="module")
def run() -> pmb.Run:
    policies = {
        "etc": pmb.PMETC(horizon=2, epsilon=0.25),
        "ucb": pmb.PMUCB(horizon=2, epsilon=0.2),
        "fixed": pmb.FixedGrid(epsilon=0.8, branching=4),
        "cirt": pmb.CIRT(epsilon=0.5),
        "track": pmb.Track(),
        "uniform": pmb.Uniform(),
        "steps": pmb.PMETC(horizon=2),
    }
    return pmb.simulate(GINI, pmb.Bandit.bernoulli(P), policies, [300, 900], trials=6, seed=4, checkpoints=12)


def best_on(steps: int, offset: float) -> np.ndarray:
    """Gini deviations p(1 − p) of all mixtures (n + offset)/N, largest first; N = steps + 3·offset."""
    total = steps + 3 * offset
    grid = [n for n in itertools.product(range(steps + 1), repeat=3) if sum(n) == steps]
    mean = (np.array(grid) + offset) / total @ P
    return np.sort(mean * (1 - mean))[::-1]


@pytest.mark.parametrize(
    ("policy", "values"),
    [("etc", best_on(4, 0.0)), ("ucb", None), ("track", np.array([0.25])), ("uniform", np.array([0.25]))],
)
def test_the_estimation_is_what_the_grid_gives_away(run: pmb.Run, policy: str, values: Any) -> None:
    if values is None:  # ε = .2: weights .2(n + ½) of the first two, the last takes the rest
        first = [0.2 * (n + 0.5) for n in range(5)]
        mean = np.array([a * P[0] + b * P[1] + (1 - a - b) * P[2] for a in first for b in first if a + b < 0.9 + 1e-9])
        values = np.sort(mean * (1 - mean))[::-1]
    parts = run.decomposition(policy)
    assert parts.estimation == pytest.approx(0.25 - values[0], abs=1e-12)
    np.testing.assert_allclose(parts.estimation + parts.selection, run.regret(policy)[1], atol=1e-15)
    shares = run.column("pulls", policy)[1] / parts.t[:, None]
    played = shares @ P
    np.testing.assert_allclose(parts.selection, values[0] - played * (1 - played), atol=1e-12)


def test_the_second_best_and_a_grid_of_ones_own(run: pmb.Run) -> None:
    values = best_on(4, 0.0)
    assert run.decomposition("etc", rank=2).estimation == pytest.approx(0.25 - values[1], abs=1e-12)
    own = run.decomposition("track", epsilon=0.25)
    assert own.estimation == pytest.approx(0.25 - values[0], abs=1e-12)
    assert own.selection.min() < 0.0, "Track plays between the points of so coarse a grid"
    assert run.decomposition("track", epsilon=0.2, grid="ucb").estimation >= 0.0


def test_each_horizon_has_its_own_grid(run: pmb.Run) -> None:
    """The schedule of ε depends on the horizon."""
    short, long = run.decomposition("steps", 300), run.decomposition("steps", 900)
    assert short.grid != long.grid and short.horizon == 300 and long.t[-1] == 900
    for parts, horizon in ((short, 300), (long, 900)):
        policy = pmb.PMETC(GINI, n_arms=3, support=pmb.Binary(), horizon=horizon)
        mean = pmb.etc_grid(3, policy.epsilon) @ P
        assert parts.estimation == pytest.approx(0.25 - (mean * (1 - mean)).max(), abs=1e-12)


def test_cirt_is_compared_with_all_grids_that_it_can_track(run: pmb.Run) -> None:
    mean = pmb.ucb_grid(3, 1 / 8) @ P  # A = 4, one phase: the tracking grid has spacing 2/16
    assert run.decomposition("cirt").estimation == pytest.approx(0.25 - (mean * (1 - mean)).max(), abs=1e-12)


def test_text_picture_and_refusals(run: pmb.Run, tmp_path: Path) -> None:
    parts = run.decomposition("etc")
    assert "15 mixtures of its grid, ε = 0.25" in str(parts) and "(estimation)" in str(parts)
    parts.plot(path=tmp_path / "parts.png")
    assert (tmp_path / "parts.png").stat().st_size > 5000
    run.decomposition("track").plot(path=tmp_path / "none.png")
    with pytest.raises(ValueError, match="epsilon"):
        run.decomposition("etc", grid="ucb")
    with pytest.raises(ValueError, match="fewer than rank"):
        run.decomposition("etc", rank=99)
    with pytest.raises(ValueError, match="nobody"):
        run.decomposition("nobody")


# ---- by what the policy did -----------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", ["track", "cirt", "uniform"])
def test_regret_is_estimation_plus_tracking_plus_exploration(run: pmb.Run, policy: str) -> None:
    parts = run.regret_parts(policy)
    shares = run.column("pulls", policy)[1] / parts.t[:, None]
    mixture = run.column("mixture", policy)[1]
    for trial, time in itertools.product(range(6), range(parts.t.size)):
        inside = shares[trial, time] * (mixture[trial, time] > 0)
        means = [a @ P for a in (mixture[trial, time], inside / inside.sum(), shares[trial, time])]
        found, tracked, played = (m * (1 - m) for m in means)
        assert parts.estimation[trial, time] == pytest.approx(0.25 - found, abs=1e-12)
        assert parts.tracking[trial, time] == pytest.approx(found - tracked, abs=1e-12)
        assert parts.exploration[trial, time] == pytest.approx(tracked - played, abs=1e-12)
    assert "(exploration)" in str(parts)


def test_what_exploration_costs_is_seen_where_one_arm_is_best() -> None:
    """The mean of coins: estimation costs nothing once the best arm is known, and pulls of the others cost all."""
    coins = pmb.Bandit.bernoulli([0.2, 0.8])
    run = pmb.simulate("mean", coins, pmb.Track(), 3000, trials=4, seed=1, n_jobs=1, progress=False)
    parts, pulls = run.regret_parts("Track"), run.column("pulls", "Track")[1][:, -1, 0]
    np.testing.assert_allclose(parts.exploration[:, -1], 0.6 * pulls / 3000, atol=1e-12)
    np.testing.assert_allclose(parts.estimation[:, -1] + parts.tracking[:, -1], 0.0, atol=1e-12)


def test_arms_that_change_have_no_such_parts() -> None:
    coins = pmb.Changing.steps([(0, pmb.Bandit.bernoulli([0.2, 0.8])), (50, pmb.Bandit.bernoulli([0.8, 0.2]))])
    run = pmb.simulate("gini", coins, pmb.Track(), 100, trials=1, n_jobs=1, progress=False)
    with pytest.raises(ValueError, match="change"):
        run.regret_parts("Track")
