"""Pulls that somebody else chose, and events that were stored."""

from __future__ import annotations

import numpy as np
import pytest

import pmbandits as pmb

MADE = {
    "track": lambda **o: pmb.Track("gini", n_arms=3, support=pmb.Interval(0, 1), certify=0.2, **o),
    "vet": lambda **o: pmb.Vet("gini", n_arms=3, support=pmb.Binary(), **o),
    "thompson": lambda **o: pmb.Thompson("mean", n_arms=3, support=pmb.Binary(), seed=3, **o),
    "cirt": lambda **o: pmb.CIRT("gini", n_arms=3, support=pmb.Binary(), epsilon=0.2, **o),
}


def events(policy, rounds, rng):
    """Play with late and lost rewards; the events as they came."""
    arms, rewards, waiting = [], [], []
    for _ in range(rounds):
        arm = policy.ask()
        arms.append(arm)
        rewards.append(np.nan)
        waiting.append(arm)
        while waiting and rng.random() < 0.6:
            arm = waiting.pop(int(rng.integers(len(waiting))))
            reward = float(rng.random() < 0.3 + 0.2 * arm)
            policy.tell(arm, reward)
            arms.append(arm)
            rewards.append(reward)
    return np.array(arms), np.array(rewards)


SIZED = ("x", "pool_arm", "survival_scratch", "cell_width", "radii")  # as long as there is room


def state(policy):
    memory = policy._memory
    return {name: part.tolist() for name, part in memory.arrays() if name not in SIZED} | {
        name: getattr(memory, name) for name in ("t", "rewards", "rng_counter", "next_update_at", "dirty")
    }


@pytest.mark.parametrize("name", MADE)
def test_a_replay_gives_the_state_that_asking_and_telling_gave(name):
    rng = np.random.default_rng(1)
    played, again, singly = (MADE[name]() for _ in range(3))
    arms, rewards = events(played, 400, rng)
    assert again.replay(arms, rewards, check=True) is None
    for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
        if np.isnan(reward):
            singly.asked(arm)
        else:
            singly.tell(arm, reward)
    assert state(again) == state(singly) == state(played)
    assert [again.ask() for _ in range(50)] == [singly.ask() for _ in range(50)] == [played.ask() for _ in range(50)]


@pytest.mark.parametrize("name", MADE)
def test_pulls_that_somebody_else_chose_count_for_their_arms(name, tmp_path):
    rng = np.random.default_rng(2)
    policy = MADE[name]()
    chosen = rng.integers(3, size=300)
    for arm in chosen.tolist():
        policy.asked(arm)
        policy.tell(arm, float(rng.random() < 0.5))
    assert policy.pulls.tolist() == np.bincount(chosen, minlength=3).tolist()
    assert policy.pending.sum() == 0
    assert policy.t == 300
    policy.save(tmp_path / "policy.pmb")  # whatever it holds fits together
    loaded = pmb.load(tmp_path / "policy.pmb")
    assert [loaded.ask() for _ in range(20)] == [policy.ask() for _ in range(20)]


def test_the_first_event_that_differs_is_named_and_nothing_is_taken_in():
    rng = np.random.default_rng(3)
    played = MADE["track"]()
    arms, rewards = events(played, 100, rng)
    asks = np.flatnonzero(np.isnan(rewards))
    wrong = arms.copy()
    wrong[asks[40]] = (arms[asks[40]] + 1) % 3
    again = MADE["track"]()
    before = state(again)
    assert again.replay(wrong, rewards, check=True) == asks[40]
    assert state(again) == before
    assert again.replay(wrong[: asks[40]], rewards[: asks[40]], check=True) is None
    trusting = MADE["track"]()
    assert trusting.replay(wrong, rewards) is None
    assert trusting.t == 100


def test_bad_events_are_refused_with_one_sentence_and_nothing_is_taken_in():
    policy = pmb.Track("gini", names=["A", "B"], support=pmb.Interval(0, 1))
    policy.replay(["A", "B", "A"], [None, None, 0.5])
    before = state(policy)
    for arms, rewards, error in (
        (["A", "C"], [None, 0.5], "C"),
        ([0, 2], [0.5, 0.5], "no arm 2"),
        ([0, -1], [0.5, 0.5], "no arm -1"),
        ([0, 1], [0.5, 1.5], "outside"),
        ([0, 1], [0.5], "one for each event"),
        ([0, True], [0.5, 0.5], "position or its name"),
    ):
        with pytest.raises((ValueError, IndexError, TypeError), match=error):
            policy.replay(arms, rewards)
        assert state(policy) == before
    with pytest.raises(ValueError, match="recipe"):
        pmb.Track().asked(0)
    with pytest.raises(IndexError, match="no arm 7"):
        policy.asked(7)
    assert state(policy) == before
    policy.replay([], [])
    policy.asked([])
    assert state(policy) == before


def test_memory_grows_for_a_long_replay():
    policy = pmb.Track("gini", n_arms=2, support=pmb.Interval(0, 1))
    n = 3000
    arms = np.tile([0, 0, 1, 1], n // 2)
    rewards = np.where(np.arange(2 * n) % 2 == 0, np.nan, np.linspace(0, 1, 2 * n))
    policy.replay(arms, rewards)
    assert policy.t == n
    assert sum(e.n for e in policy.estimates) == n
    assert policy.pending.sum() == 0


@pytest.mark.parametrize("shares", [None, "A >= 10%; B + C <= 0.7", "A >= 20%; B <= 0.4"])
def test_a_replay_knows_which_arms_were_available(shares):
    rng = np.random.default_rng(4)
    made = {"names": ["A", "B", "C"], "support": pmb.Interval(0, 1), "certify": 0.2, "shares": shares}
    played, again, forced = (pmb.Track("gini", **made) for _ in range(3))
    arms, rewards, among = [], [], []
    for _ in range(600):
        available = sorted(rng.choice(3, 2, replace=False).tolist()) if rng.random() < 0.5 else None
        arms.append(played.ask(among=available))
        rewards.append(np.nan)
        among.append(available)
        if rng.random() < 0.7:
            rewards.append(float(rng.random()))
            arms.append(arms[-1])
            among.append(None)
            played.tell(arms[-1], rewards[-1])
    assert again.replay(arms, rewards, among=among, check=True) is None
    assert state(again) == state(played)
    asks = [k for k in range(len(arms)) if among[k] is not None]
    other = arms.copy()
    other[asks[50]] = next(arm for arm in among[asks[50]] if arm != arms[asks[50]])
    assert forced.replay(other, rewards, among=among, check=True) == asks[50]
    with pytest.raises(ValueError, match="among"):
        forced.replay(arms, rewards, among=among[:-1])
