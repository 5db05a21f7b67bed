"""Arms of one's own, played until a regret is certain: stops, goes on after Ctrl-C, and keeps what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

GINI = pmb.GiniDeviation()


def coins(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return lambda arm: float(rng.random() < (0.4, 0.9)[arm])


def track() -> Any:
    return pmb.Track(GINI, n_arms=2, support=pmb.Binary())


def test_it_stops_when_the_regret_is_certain_and_not_long_after() -> None:
    policy, pull, looked = track(), coins(), []

    def watched(arm: int) -> float:
        looked.append(policy.done("5%"))
        return pull(arm)

    stop = pmb.run_until(policy, watched, "5%")
    assert stop.certain and policy.done("5%") and stop.rounds == policy.t == len(looked)
    assert stop.mixture.tolist() == policy.mixture.tolist() and stop.certainty == policy.certainty()
    assert str(stop).startswith(f"Certain after {stop.rounds:,} rounds. With probability 95 %")
    assert sum(looked) <= 1 + 0.03 * len(looked)  # it looks when 2 % more rounds were played


def test_the_most_rounds_are_kept_and_another_call_goes_on() -> None:
    policy, pull = track(), coins()
    first = pmb.run_until(policy, pull, 0.01, most=100)
    assert (first.certain, first.rounds, policy.t) == (False, 100, 100) and str(first).startswith("Not certain")
    second = pmb.run_until(policy, pull, 0.01, most=100_000)
    assert second.certain and policy.t == 100 + second.rounds
    assert pmb.run_until(policy, pull, 0.01).rounds == 0
    assert pmb.run_until(track(), pull, 0.01, most=0).rounds == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_after_ctrl_c_or_an_error_nothing_is_lost_and_it_goes_on(error: Any, tmp_path: Path) -> None:
    policy, pull, calls = track(), coins(), 0

    def broken(arm: int) -> float:
        nonlocal calls
        calls += 1
        if calls == 77:
            raise error("stop")
        return float(pull(arm))

    file = tmp_path / "policy.pmb"
    with pytest.raises(error):
        pmb.run_until(policy, broken, 0.01, save=file)
    assert policy.t == 77 and policy._memory.rewards == 76 and policy.pending.sum() == 1
    loaded: Any = pmb.load(file)
    assert loaded.t == 77 and loaded.mixture.tolist() == policy.mixture.tolist()
    assert pmb.run_until(policy, broken, 0.01).certain
    assert pmb.run_until(loaded, pull, 0.01, save=file).certain and pmb.load(file).t == loaded.t


@pytest.mark.slow
def test_a_bar_is_shown_on_demand_with_the_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    assert pmb.run_until(track(), coins(), 0.02, progress=True).certain
    assert "at most 0.02" in capsys.readouterr().err
    assert pmb.run_until(track(), coins(), 0.02).certain
    assert capsys.readouterr().err == ""


def test_mistakes_are_named_before_anything_is_pulled() -> None:
    policy = track()
    with pytest.raises(TypeError, match="pull must be a function"):
        pmb.run_until(policy, 0.5, 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="most"):
        pmb.run_until(policy, coins(), 0.1, most=-1)
    with pytest.raises(ValueError, match="regret"):
        pmb.run_until(policy, coins(), "much")
    with pytest.raises(ValueError, match="keeps no confidence sets"):
        pmb.run_until(pmb.Uniform(GINI, n_arms=2, support=pmb.Binary()), coins(), 0.1)
    assert policy.t == 0


def test_sets_with_a_horizon_end_it_there() -> None:
    policy = pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=50)
    stop = pmb.run_until(policy, coins(), 1e-6, most=10_000)
    assert not stop.certain and 51 <= policy._memory.n_rewards.max() <= 60
