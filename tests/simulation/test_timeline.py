"""Simulations in which arms come and go: against a slow loop of plain Python, and against the definition of regret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import PolicyError
from tests.reference import worlds as slow

GINI = pmb.GiniDeviation()
NAMES = ["a", "b", "c", "d"]
MEANS = [0.4, 0.9, 0.1, 0.6]
BANDIT = pmb.Bandit.bernoulli(MEANS, NAMES)
LATER = pmb.Bandit.bernoulli([0.8, 0.3, 0.5, 0.2], NAMES)
SCHEDULE = [(60, "add", "d"), (100, "pause", "b"), (100, "add", "c"), (150, "retire", "a"), (180, "resume", "b")]
# Who plays from which round on.
PLAYING = [(0, (0, 1)), (60, (0, 1, 3)), (100, (0, 2, 3)), (150, (2, 3)), (180, (1, 2, 3))]


class Roster:
    """A policy in plain Python that plays all arms that there are, in turn."""

    def __init__(self, names: Any) -> None:
        self.names, self.playing, self.t = list(names), list(names), 0

    def add_arm(self, name: str) -> None:
        self.names.append(name)
        self.playing.append(name)

    def pause(self, name: str) -> None:
        self.playing.remove(name)

    retire = pause

    def resume(self, name: str) -> None:
        self.playing.append(name)

    def ask(self) -> int:
        self.t += 1
        return self.names.index(self.playing[self.t % len(self.playing)])

    def tell(self, arm: int, reward: float) -> None:
        pass

    @property
    def mixture(self) -> list[float]:
        return [float(name in self.playing) / len(self.playing) for name in self.names]


def playing(t: int) -> tuple[int, ...]:
    return [who for start, who in PLAYING if start <= t][-1]


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("metric", [GINI, pmb.Mean()], ids=repr)
def test_regret_is_against_the_best_of_the_arms_that_play(metric: Any, changing: bool) -> None:
    world = pmb.Changing.steps([(0, BANDIT), (120, LATER)]) if changing else BANDIT
    run = pmb.simulate(
        metric, world, {"mine": Roster}, 230, trials=1, seed=4, schedule=SCHEDULE, checkpoints=range(1, 231)
    )

    def bandit(t: int) -> pmb.Bandit:
        return world.at(t) if isinstance(world, pmb.Changing) else world

    def best(t: int) -> float:  # of Bernoulli arms: h at the best mean that can be reached
        means = [float(bandit(t).distributions[i].p[1]) for i in playing(t)]
        return float(np.max(metric(np.linspace(min(means), max(means), 20_001))))

    pulls, mixture = (run.column(name, "mine")[1][0] for name in ("pulls", "mixture"))
    arms = np.argmax(np.diff(pulls, axis=0, prepend=0), axis=1).tolist()
    assert all(arm in playing(t) for t, arm in enumerate(arms))
    regret, declared = slow.regret(metric, arms, bandit, playing, best, mixture)
    np.testing.assert_allclose(run.regret("mine")[1][0], regret, atol=1e-9)
    np.testing.assert_allclose(run.column("declared", "mine")[1][0], declared, atol=1e-9)
    assert run.changes == ((60, 100, 120, 150, 180) if changing else (60, 100, 150, 180))
    assert all(period["weights"][2] == 0.0 for period in run.periods[:2])
    assert set(np.flatnonzero(run.periods[0]["weights"])) <= {0, 1}


def test_a_schedule_is_part_of_what_a_folder_is_for(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "bandit": BANDIT,
        "metric": GINI,
        "policies": {"mine": Roster},
        "horizon": 200,
        "trials": 3,
    }
    run = pmb.simulate(**given, schedule=SCHEDULE, out=tmp_path)
    assert run.equals(pmb.simulate(**given, schedule=SCHEDULE, n_jobs=1)) and run.equals(
        pmb.Run.load(tmp_path / "run.parquet")
    )
    assert run.spec["schedule"][0] == [60, "add", "d"]
    with pytest.raises(ValueError, match="another specification"):
        pmb.simulate(**given, schedule=SCHEDULE[:1], out=tmp_path)


class Stubborn(Roster):
    """Plays an arm that is paused."""

    def pause(self, name: str) -> None:
        pass


def test_a_policy_that_plays_an_arm_which_is_away_is_stopped() -> None:
    with pytest.raises(PolicyError, match=r"round 10\d: ask\(\) returned 1; .* 0, 2, 3"):
        pmb.simulate(
            GINI, BANDIT, {"it": Stubborn}, 200, trials=1, schedule=[(60, "add", "c"), (61, "add", "d"), *SCHEDULE[1:2]]
        )


# ---- policies of the library -----------------------------------------------------------------------------
RECIPES = {
    "Track": pmb.Track(),
    "Vet": pmb.Vet(),
    "CIRT": pmb.CIRT(epsilon=0.2),
    "Uniform": pmb.Uniform(),
    "UCB1": pmb.UCB1(),
    "UCFW": pmb.UCFW(),
    "Thompson": pmb.Thompson(),
}


def random_schedule(rng: np.random.Generator, rounds: int, batch: int) -> list[tuple[int, str, str]]:
    """Events that can happen one after the other."""
    state = {"a": "plays", "b": "plays", "c": "away", "d": "away"}
    events = []
    for after in sorted(rng.integers(1, rounds // batch, 6) * batch):
        can = []
        for name, now in state.items():
            if now == "away":
                can.append(("add", name, "plays"))
            elif now == "paused":
                can.append(("resume", name, "plays"))
            elif now == "plays" and list(state.values()).count("plays") > 1:
                can += [("pause", name, "paused"), ("retire", name, "retired")]
        if can:
            verb, name, becomes = can[rng.integers(len(can))]
            state[name] = becomes
            events.append((int(after), verb, name))
    added = {name for _, verb, name in events if verb == "add"}
    return [(0, "pause", name) for name in "cd" if name not in added] + events


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("label", RECIPES)
def test_policies_play_a_schedule_as_a_loop_by_hand_does(label: str, late: bool) -> None:
    rounds, seed, trial = 240, 8, 2
    rng = np.random.default_rng([sorted(RECIPES).index(label), late])
    wait, batch = (st.poisson(7), 3) if late else (0, 1)
    schedule = random_schedule(rng, rounds, batch)
    looks = set(range(5, rounds + 1, 5)) | {rounds}
    run = pmb.simulate(
        GINI, BANDIT, {"it": RECIPES[label]}, rounds, trials=[trial], seed=seed, schedule=schedule, delay=wait,
        batch=batch, checkpoints=sorted(looks),
    )  # fmt: skip
    expected = slow.played(
        RECIPES[label], GINI, pmb.Binary(), NAMES, lambda t, arm: ("bernoulli", MEANS[arm]), rounds, seed, trial,
        wait=wait, batch=batch, schedule=tuple(schedule), looks=looks,
    )  # fmt: skip
    t, pulls = run.column("pulls", "it")
    counts = np.cumsum(np.eye(4, dtype=int)[expected["arms"]], axis=0)
    np.testing.assert_array_equal(pulls[0], counts[t - 1], err_msg=str(schedule))
    np.testing.assert_array_equal(run.column("mixture", "it")[1][0], expected["mixture"], err_msg=str(schedule))


def test_a_policy_that_cannot_take_the_schedule_says_so_before_anything_is_played() -> None:
    with pytest.raises(ValueError, match=r"^Track .* after 60 rounds: "):
        pmb.simulate(GINI, BANDIT, pmb.Track(estimates="window:80"), 200, trials=1, schedule=SCHEDULE)


def test_limits_are_those_of_the_arms_that_play() -> None:
    schedule = [(100, "pause", "b"), (200, "resume", "b")]
    run = pmb.simulate(GINI, BANDIT, {"it": pmb.Track()}, 300, trials=2, shares="b <= 20%; c >= 30%", schedule=schedule)
    without = pmb.Bandit.bernoulli([0.4, 0.1, 0.6], ["a", "c", "d"])
    best_mixtures = [
        pmb.oracle(GINI, BANDIT, shares="b <= 20%; c >= 30%").value,
        pmb.oracle(GINI, without, shares="c >= 30%").value,
    ]
    assert [period["value"] for period in run.periods] == pytest.approx(
        [best_mixtures[0], best_mixtures[1], best_mixtures[0]]
    )
    t, pulls = run.column("pulls", "it")
    at = [int(np.flatnonzero(t == turn)[0]) for turn in (100, 200, 300)]
    played = np.diff(pulls[:, at], axis=1, prepend=0)
    assert (played[:, :, 2] >= 29).all() and (played[:, [0, 2], 1] <= 21).all() and (played[:, 1, 1] == 0).all()
    with pytest.raises(ValueError, match=r"on b, "):
        pmb.simulate(GINI, BANDIT, "track", 300, trials=1, shares="b <= 20%", schedule=[(50, "add", "b")])
