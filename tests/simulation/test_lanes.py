"""Trials in lanes have the results of trials one by one, to the last bit; all else is played one by one."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.kit import Policy, Setup, kernel, play_alone, random_share, state, unpack
from pmbandits.simulation import lanes, workers
from pmbandits.simulation.prepare import prepare_experiment
from pmbandits.simulation.trial import Player
from tests.helpers import allow_interrupts

own = state(width=float)


@kernel
def moss(s: Any, i: int) -> float:
    """An index with a number of the policy's own, and with branches."""
    n = s.n_rewards[i]
    bonus = max(0.0, math.log((s.t + 1.0) / (s.n_arms * n)))
    return s.sums[i] / n + s.own.width * math.sqrt(bonus / n) if n < 1000 else s.sums[i] / n


@kernel
def most_pulled(memory: int) -> None:
    """A mixture that does not follow from means."""
    s = unpack(memory)
    arm = 0
    for i in range(s.n_arms):
        if s.pulls[i] + 3 * s.counts[i, 0] > s.pulls[arm] + 3 * s.counts[arm, 0]:
            arm = i
    play_alone(s, arm)


class Moss(Policy, name="test_lanes_moss", index=moss, update=most_pulled, unpack=own):
    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup(numbers={"width": 0.7})


def index_policy(name: str, function: Any, unpack: Any = None) -> Any:
    class Made(Policy, name=f"test_lanes_{name}", index=kernel(function), update=most_pulled, unpack=unpack):
        def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
            return Setup(numbers={"width": 0.5} if unpack is not None else {})

    return Made()


def randomised(s: Any, i: int) -> float:
    return s.sums[i] / s.n_rewards[i] + random_share(s)


def unbounded(s: Any, i: int) -> float:
    return 1.0 / (s.n_rewards[i] - 3) if s.n_rewards[i] > 3 else math.inf


def writes(s: Any, i: int) -> float:
    s.own.width = s.own.width + 1.0
    return s.sums[i] + s.own.width


def reads_other_numbers(s: Any, i: int) -> float:
    return s.counts[i, 1] - 0.5 * s.counts[i, 0]


def divides_by_0(s: Any, i: int) -> float:
    return 1.0 / (s.n_rewards[i] - 5)


COINS = {
    "two": pmb.Bandit.bernoulli([0.4, 0.9]),
    "alike": pmb.Bandit.bernoulli([0.5] * 5),
    "sure": pmb.Bandit.bernoulli([0.0, 1.0, 0.3]),
    "one": pmb.Bandit.bernoulli([0.7]),
    "many": pmb.Bandit.bernoulli(np.linspace(0.05, 0.95, 30)),
}
OTHERS = {
    "finite": pmb.Bandit.from_samples([[0, 0, 0.3, 2.5], [0, 0.3, 0.3, 0.3, 2.5]]),
    "beta": pmb.Bandit([st.beta(2, 3), st.beta(0.5, 0.4), st.uniform(0.2, 0.5)], support=pmb.Interval(0, 1)),
    "normal": pmb.Bandit([st.norm(0, 1), st.norm(0.5, 1)], support=pmb.Real(1.0)),
    "mixed": pmb.Bandit([st.expon(), st.bernoulli(0.3), st.uniform(0, 3)], support=pmb.Real(2.0)),
}


def played(lanes_from: int, monkeypatch: pytest.MonkeyPatch, bandit: Any, policies: Any, **given: Any) -> pmb.Run:
    monkeypatch.setattr(workers, "LEAST_LANES", lanes_from)
    arguments = {"horizon": 300, "trials": 21, "seed": 5, "n_jobs": 1} | given
    return pmb.simulate("mean", bandit, policies, **arguments)


def same_in_lanes(monkeypatch: pytest.MonkeyPatch, bandit: Any, policies: Any, **given: Any) -> int:
    """Compare every column with that of trials one by one; returns how many trials were really played in lanes."""
    count, real = [0], lanes.LanePlayer.play_in_lanes

    def play(self: Any, entry: int, trials: Any) -> Any:
        found = real(self, entry, trials)
        count[0] += 0 if found is None else found.size
        return found

    with monkeypatch.context() as patch:
        patch.setattr(lanes.LanePlayer, "play_in_lanes", play)
        many, alone = (played(least, patch, bandit, policies, **given).to_arrow() for least in (1, 10**9))
    for name in alone.column_names:
        assert many[name].equals(alone[name]), name
    return count[0]


@pytest.mark.parametrize("name", COINS)
def test_0_1_rewards_in_lanes_are_as_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bandit = COINS[name]
    for rounds in (7, 300, 2500):  # fewer rounds than arms, and several ways to draw bits ahead
        trials: Any = 67 if rounds == 300 else [3, 5, 9, 10**15, 2**62]
        assert same_in_lanes(monkeypatch, bandit, ["ucb1", Moss()], horizon=rounds, trials=trials) >= 10


@pytest.mark.parametrize("name", OTHERS)
def test_other_rewards_in_lanes_are_as_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_in_lanes(monkeypatch, OTHERS[name], "ucb1") == 21


def test_bins_sketches_and_a_wider_support(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = pmb.UCB1(support=pmb.Interval(-1, 4))
    assert same_in_lanes(monkeypatch, OTHERS["beta"], {"wide": wide, "own seed": pmb.UCB1(seed=9)}) == 42
    wider = pmb.UCB1(support=pmb.Finite([0, 0.5, 1]))
    assert same_in_lanes(monkeypatch, COINS["two"], {"atoms": wider}) == 21


def test_checkpoints_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for checkpoints in (1, [1, 2, 3, 299], list(range(1, 301))):
        assert same_in_lanes(monkeypatch, COINS["two"], "ucb1", checkpoints=checkpoints) == 21
    monkeypatch.setattr(lanes, "ROUNDS_AT_ONCE", 7)  # the kernel comes back between checkpoints, and at them
    assert same_in_lanes(monkeypatch, COINS["two"], Moss(), checkpoints=[7, 10, 14, 15]) == 21
    assert same_in_lanes(monkeypatch, COINS["two"], "ucb1", horizon=[50, 300], n_jobs=2) == 21


def test_the_arm_of_every_round_is_that_of_ask_and_tell() -> None:
    """Lanes against the policy by hand, which shares nothing with them but the index."""
    bandit, rounds = COINS["alike"], 120
    entry = prepare_experiment("mean", bandit, "ucb1", rounds, 9, 2, list(range(1, rounds + 1))).entries[0]
    player = workers.make_trial_player(entry, bandit, 2, entry.checkpoints)
    assert isinstance(player, lanes.LanePlayer)
    found = player.play_in_lanes(0, range(9))
    assert found is not None
    for trial in (0, 8):
        policy = pmb.UCB1("mean", n_arms=5, support=pmb.Binary())
        rewards = pmb.simulation.Rewards(bandit, seed=2, trial=trial)
        for row in range(rounds):
            arm = policy.ask()
            policy.tell(arm, float(rewards.next(arm)[0]))
            assert np.array_equal(found.pulls[trial].reshape(rounds, -1)[row], policy.pulls)
            assert np.array_equal(found.mixture[trial].reshape(rounds, -1)[row], policy.mixture)


NOT_IN_LANES: dict[str, dict[str, Any]] = {
    "delays": {"delay": 3},
    "batches": {"batch": 4},
    "limits": {"shares": {"arm 0": (0.2, 1.0)}},
    "schedule": {"schedule": [(40, "pause", "arm 1")], "bandit": COINS["alike"]},
    "changing": {
        "bandit": pmb.Changing.steps([(0, COINS["two"]), (100, pmb.Bandit.bernoulli([0.9, 0.4]))]),
    },
    "detect": {"policies": pmb.UCB1(detect="warn")},
    "no index": {"policies": "thompson"},
    "a sampler in Python": {"bandit": pmb.Bandit([st.triang(0.5), st.triang(0.7)], support=pmb.Interval(0, 1))},
    "a mixture of its own beyond 0/1": {"policies": Moss(), "bandit": OTHERS["finite"]},
}


@pytest.mark.parametrize("name", NOT_IN_LANES)
def test_what_lanes_cannot_play_is_not_even_tried(name: str) -> None:
    given = {"metric": "mean", "bandit": COINS["two"], "policies": "ucb1", "horizon": 200} | NOT_IN_LANES[name]
    experiment = prepare_experiment(**given, trials=9, seed=0, checkpoints=None)
    entry = experiment.entries[0]
    assert not lanes.can_play_in_lanes(entry.policy, experiment.timeline)
    assert type(workers.make_trial_player(entry, experiment.timeline, 0, entry.checkpoints)) is Player


def test_a_policy_that_has_rewards_already_is_not_played_in_lanes() -> None:
    policy = pmb.UCB1("mean", n_arms=2, support=pmb.Binary())
    timeline = lanes.Timeline(COINS["two"])
    assert lanes.can_play_in_lanes(policy, timeline)
    policy.tell(policy.ask(), 1.0)
    assert not lanes.can_play_in_lanes(policy, timeline)


@pytest.mark.parametrize("index", [randomised, unbounded, writes, reads_other_numbers], ids=lambda f: f.__name__)
def test_an_index_that_lanes_cannot_have_is_played_one_by_one(index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = index_policy(index.__name__, index, own if index is writes else None)
    assert same_in_lanes(monkeypatch, COINS["two"], policy, trials=9, horizon=60) == 0


def test_a_division_by_0_is_reported_as_without_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    for least in (2, 10**9):
        with pytest.raises(ZeroDivisionError, match="in trial 0"):
            played(least, monkeypatch, COINS["two"], index_policy("divides_by_0", divides_by_0))


def test_a_reward_outside_of_the_support_is_reported_as_without_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = prepare_experiment("mean", OTHERS["normal"], "ucb1", 300, 9, 0, None).entries[0]
    entry.policy._memory.high = 0.0  # type: ignore[union-attr]
    player = workers.make_trial_player(entry, OTHERS["normal"], 0, entry.checkpoints)
    assert isinstance(player, lanes.LanePlayer) and player.play_in_lanes(0, range(9)) is None
    with pytest.raises(ValueError, match="outside the support"):
        player.play(0)


# ---- journals ---------------------------------------------------------------------------------------------------
LONG = """
import sys
from tests.simulation.test_lanes import long
long(sys.argv[1])
"""


def long(folder: str | Path) -> None:
    pmb.simulate("mean", COINS["two"], ["ucb1", "track"], 20_000, 2_000, seed=3, checkpoints=2, n_jobs=1, out=folder)


def test_trials_of_lanes_and_trials_one_by_one_go_into_one_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"bandit": COINS["two"], "policies": ["ucb1", Moss()]}
    played(2, monkeypatch, **given, out=tmp_path / "lanes", trials=[1, 4, 5, 9, 30])
    played(2, monkeypatch, **given, out=tmp_path / "lanes", trials=31)
    played(10**9, monkeypatch, **given, out=tmp_path / "alone", trials=31)
    first, second = ((tmp_path / name / "run.parquet").read_bytes() for name in ("lanes", "alone"))
    assert first == second


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    for at in (0.5, 1.0, 2.0):
        process = subprocess.Popen(
            [sys.executable, "-c", LONG, str(tmp_path / "killed")],
            preexec_fn=allow_interrupts,
            stderr=subprocess.DEVNULL,
        )
        journal = tmp_path / "killed" / "journal.bin"
        while process.poll() is None and (not journal.exists() or journal.stat().st_size < 1000):
            time.sleep(0.01)
        time.sleep(at)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    long(tmp_path / "killed")
    long(tmp_path / "whole")
    killed, whole = ((tmp_path / name / "run.parquet").read_bytes() for name in ("killed", "whole"))
    assert killed == whole
