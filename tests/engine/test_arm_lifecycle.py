"""Arms that come and go: nothing that was learned is lost, whatever happens and whenever."""

from __future__ import annotations

import copy
import json
import math
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmbandits as pmb
from pmbandits.confidence import confidence_set
from pmbandits.engine.policy_file import description_checksum

UNIT = pmb.Interval(0.0, 1.0)
MADE = {
    "track": lambda **o: pmb.Track("gini", names=["A", "B", "C"], support=UNIT, **o),
    "vet": lambda **o: pmb.Vet("gini", names=["A", "B", "C"], support=pmb.Binary(), **o),
    "cirt": lambda **o: pmb.CIRT("gini", names=["A", "B", "C"], support=pmb.Binary(), epsilon=0.3, **o),
    "sketch": lambda **o: pmb.Track("gini", names=["A", "B", "C"], support=UNIT, estimates="sketch:16", **o),
    "binned": lambda **o: pmb.Vet("gini", names=["A", "B", "C"], support=UNIT, estimates="binned:16", **o),
    "pmetc": lambda **o: pmb.PMETC("gini", names=["A", "B", "C"], support=UNIT, horizon=400, n_explore=30, **o),
}


STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=25)


class Model:
    """The same in plain Python: who plays, and the pulls and rewards of each arm."""

    def __init__(self, names):
        self.names, self.state = list(names), ["plays"] * len(names)
        self.pulls, self.pending = [0] * len(names), [0] * len(names)
        self.rewards = [[] for _ in names]

    def add(self, name):
        self.names.append(name)
        self.state.append("plays")
        for numbers in (self.pulls, self.pending):
            numbers.append(0)
        self.rewards.append([])

    def asked(self, arm):
        assert self.state[arm] == "plays"
        self.pulls[arm] += 1
        self.pending[arm] += 1

    def told(self, arm, reward):
        self.pending[arm] = max(self.pending[arm] - 1, 0)
        self.rewards[arm].append(reward)

    def can_leave(self, arm):
        return self.state[arm] != "plays" or self.state.count("plays") > 1

    def agrees(self, policy):
        assert list(policy.names) == self.names
        assert policy.playing == tuple(n for n, s in zip(self.names, self.state, strict=True) if s == "plays")
        assert policy.pulls.tolist() == self.pulls
        assert policy.pending.tolist() == self.pending
        assert policy.t == sum(self.pulls)
        mixture = policy.mixture
        assert abs(mixture.sum() - 1.0) < 1e-9
        assert all(mixture[i] == 0.0 for i, s in enumerate(self.state) if s != "plays")
        for arm, rewards in zip(policy.estimates, self.rewards, strict=True):
            assert arm.n == len(rewards)
            exact = "estimates" not in policy.options
            if rewards and exact:
                assert np.allclose(np.repeat(arm.x, np.rint(arm.p * arm.n).astype(int)), np.sort(rewards))
            if rewards:
                assert abs(arm.mean - np.mean(rewards)) < (1e-9 if exact else 0.2)


def reward_of(policy, rng):
    x = float(rng.random())
    return float(x > 0.4) if policy.support == pmb.Binary() else x


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=25), seed=st.integers(0, 99)
)
def test_whatever_happens_the_policy_agrees_with_a_plain_model(name, steps, seed, tmp_path_factory):
    rng, policy = np.random.default_rng(seed), MADE[name]()
    model, waiting = Model(policy.names), []
    file = tmp_path_factory.getbasetemp() / f"{name}.pmb"
    for step, which in steps:
        arm = which % len(model.names)
        if step <= 2:  # play, with rewards that come late, or never
            for _ in range(1 + 4 * which):
                asked = policy.ask()
                model.asked(asked)
                waiting.append(asked)
            for asked in policy.ask(3).tolist():
                model.asked(asked)
                waiting.append(asked)
        elif step == 3:
            while waiting and rng.random() < 0.9:
                late = waiting.pop(int(rng.integers(len(waiting))))
                reward = reward_of(policy, rng)
                policy.tell(late, reward)
                model.told(late, reward)
        elif step == 4:  # rewards that nobody asked for, of any arm, in one batch
            arms, rewards = rng.integers(len(model.names), size=5), [reward_of(policy, rng) for _ in range(5)]
            policy.tell(arms, rewards)
            for one, reward in zip(arms.tolist(), rewards, strict=True):
                model.told(one, reward)
        elif step == 5 and len(model.names) < 6:
            model.add(f"new {len(model.names)}")
            assert policy.add_arm(model.names[-1]) == len(model.names) - 1
        elif step in (6, 7, 8):
            verb, state = {6: ("pause", "paused"), 7: ("resume", "plays"), 8: ("retire", "retired")}[step]
            allowed = model.state[arm] not in (state, "retired") and (state == "plays" or model.can_leave(arm))
            if allowed:
                getattr(policy, verb)(model.names[arm])
                model.state[arm] = state
            else:
                with pytest.raises(ValueError, match=r"already|retired|only arm"):
                    getattr(policy, verb)(arm)
        elif step == 9:
            if which % 2:
                policy = copy.deepcopy(policy)
            else:
                policy.save(file)
                again = pmb.load(file)
                assert [again.ask() for _ in range(9)] == [policy.ask() for _ in range(9)]
                policy = pmb.load(file)
        model.agrees(policy)
    policy.explain()
    policy._repr_html_()
    if policy.confidence is not None:
        sure = policy.certainty()
        assert 0.0 <= sure.probability < 1.0
        assert sure.lower <= sure.utility + 1e-9
        policy.done(regret=0.1)
        policy.forecast(regret=0.5)


def names(policy):
    return [policy.names[arm] for arm in policy._active_arms]


def test_a_newcomer_is_tried_at_once_and_then_like_the_root_of_the_rounds_until_it_has_a_reward():
    policy = MADE["track"]()
    policy.tell([0, 1, 2] * 20, [0.2, 0.5, 0.9] * 20)
    policy.ask(100)
    policy.add_arm("D")
    asked = [policy.ask() for _ in range(400)]
    assert asked[0] == 3
    pulls = np.cumsum(np.array(asked) == 3)
    rounds = np.arange(1, 401)
    assert (np.abs(pulls - np.sqrt(rounds)) <= 1.5).all()
    again = MADE["track"]()  # the same arms in one batch
    again.tell([0, 1, 2] * 20, [0.2, 0.5, 0.9] * 20)
    again.ask(100)
    again.add_arm("D")
    assert again.ask(400).tolist() == asked
    policy.tell("D", 0.7)  # from now on it plays
    assert names(policy) == ["A", "B", "C", "D"]
    assert policy.pulls.sum() == policy.t == 500


@pytest.mark.parametrize("name", ["track", "cirt"])
def test_an_arm_that_came_late_is_explored_in_every_other_round_at_most(name):
    policy = MADE[name]()
    for _ in range(3):
        policy.tell([0, 1, 2] * 1000, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0] * 500)
    policy.add_arm("D")
    policy.tell("D", 0.0)
    asked = np.array([policy.ask() for _ in range(60)])  # no more rewards: only exploring can choose it
    assert 20 <= (asked[:60] == 3).sum() <= 31
    assert policy.ask(400).tolist().count(3) < 200


def test_every_mistake_is_one_sentence_and_changes_nothing():
    policy = MADE["track"]()
    policy.tell([0, 1, 2], [0.1, 0.2, 0.3])
    policy.ask(5)
    policy.pause("B")
    policy.retire("C")
    look = (policy.playing, policy.pulls.tolist(), policy._memory.words.copy().tolist())
    for call, error in (
        (lambda: policy.pause("A"), "A is the only arm that plays"),
        (lambda: policy.retire("A"), "A is the only arm that plays"),
        (lambda: policy.resume("C"), "C is retired, and stays so"),
        (lambda: policy.pause("C"), "C is retired"),
        (lambda: policy.pause("B"), "B is paused already"),
        (lambda: policy.resume("A"), "A plays already"),
        (lambda: policy.pause("E"), "E"),
        (lambda: policy.resume(7), "no arm 7"),
        (lambda: policy.add_arm("A"), "there is an arm 'A' already"),
        (lambda: policy.add_arm("B"), r"it is paused: resume\('B'\)"),
        (lambda: policy.add_arm("C"), "it is retired"),
        (lambda: policy.add_arm(3), "is text"),
        (lambda: policy.add_arm("a\x00b"), "control characters"),
        (lambda: policy.certainty([0.5, 0.5, 0.0]), "B does not play now"),
        (lambda: policy.ask(among=["B"]), "none of the arms in among plays now"),
        (lambda: pmb.Track().add_arm("A"), "recipe"),
        (lambda: pmb.Track("gini", n_arms=3, support=UNIT, most_arms=2), "most_arms is 2, but there are 3 arms"),
        (lambda: pmb.SolitaryArm(n_arms=2, support=UNIT, arm=0).pause(0), "plays arm 0 alone"),
        (lambda: pmb.Track("gini", n_arms=2, support=UNIT, estimates="window:100").add_arm("C"), "forgets"),
    ):
        with pytest.raises((ValueError, TypeError, IndexError), match=error):
            call()
        assert (policy.playing, policy.pulls.tolist(), policy._memory.words.copy().tolist()) == look
    cirt = pmb.CIRT("gini", n_arms=3, support=UNIT, search="grid", branching=400)
    with pytest.raises(ValueError, match="mixtures a round"):
        cirt.add_arm("one too many")  # said at once, and not when its first reward comes
    assert cirt.n_arms == 3


def test_limits_are_read_again_for_the_arms_that_play():
    policy = pmb.Track("gini", names=["A", "B", "C"], support=UNIT, shares="A >= 40%; B <= 0.3")
    rng = np.random.default_rng(5)

    def shares(rounds):
        arms = [policy.ask() for _ in range(rounds)]
        policy.tell(arms, rng.random(rounds))
        return np.bincount(arms, minlength=policy.n_arms) / rounds

    first = shares(100)
    assert first[0] >= 0.39 and first[1] <= 0.31
    policy.pause("A")  # its floor is suspended, the other limit stays
    assert shares(100)[1] <= 0.31
    policy.add_arm("D")
    policy.tell("D", 0.5)
    assert shares(100)[1] <= 0.31
    policy.resume("A")
    assert shares(100)[0] >= 0.39
    policy.pause("C")
    policy.pause("D")
    with pytest.raises(ValueError, match="cannot keep the limits"):
        policy.pause("A")  # B alone may not have everything
    assert policy.playing == ("A", "B")


def test_some_arms_are_available_now_while_others_came_or_went():
    policy = MADE["track"]()
    policy.tell([0, 1, 2] * 10, [0.2, 0.5, 0.9] * 10)
    policy.pause("C")
    assert set(policy.ask(20, among=["A", "C"]).tolist()) == {0}
    policy.add_arm("D")
    assert policy.ask(among=["B"]) == 1  # the new one is not available
    assert policy.ask(6, among=["D"]).tolist() == [3] * 6
    assert set(policy.ask(20, among=["A", "D"]).tolist()) <= {0, 3}
    assert policy.pulls.sum() == policy.t == 47


def test_replay_goes_on_across_arms_that_wait_and_arms_that_left():
    def make():
        policy = MADE["track"]()
        policy.tell([0, 1, 2] * 10, [0.2, 0.5, 0.9] * 10)
        policy.pause("B")
        policy.add_arm("D")
        return policy

    played, again, trusting, rng = make(), make(), make(), np.random.default_rng(3)
    arms, rewards = [], []
    for k in range(120):
        arm = played.ask()
        arms.append(arm)
        rewards.append(np.nan)
        if k % 3 == 0 or arm != 3 or k > 60:
            reward = float(rng.random())
            late = 1 if k % 7 == 0 else arm  # B is paused, and paid late
            played.tell(late, reward)
            arms.append(late)
            rewards.append(reward)
    assert again.replay(arms, rewards, check=True) is None
    assert trusting.replay(arms, rewards) is None
    for other in (again, trusting):
        assert other.pulls.tolist() == played.pulls.tolist()
        assert other.pending.tolist() == played.pending.tolist()
        assert [a.n for a in other.estimates] == [a.n for a in played.estimates]
    assert [again.ask() for _ in range(30)] == [played.ask() for _ in range(30)] == trusting.ask(30).tolist()
    wrong = make()
    at = next(k for k, r in enumerate(rewards) if np.isnan(r) and k > 20)
    others = [*arms[:at], 1, *arms[at + 1 :]]
    assert wrong.replay(others, rewards, check=True) == at
    assert wrong.t == 0


def test_merging_goes_by_names_wherever_the_arms_are():
    here, there = MADE["track"](), MADE["track"]()
    for policy in (here, there):
        policy.tell([0, 1, 2] * 4, [0.1, 0.2, 0.3] * 4)
        policy.ask(9)
    there.add_arm("D")
    there.tell("D", [0.5, 0.6])
    there.ask(5)
    with pytest.raises(ValueError, match=r"add_arm\('D'\) first"):
        here.merge(there)
    there.pause("A")
    here.pause("C")
    here.add_arm("D")
    before, more = here.pulls, there.pulls
    here.merge(there)
    assert here.pulls.tolist() == (before + more).tolist()
    assert [arm.n for arm in here.estimates] == [8, 8, 8, 2]
    assert here.playing == ("A", "B", "D") and names(here) == ["A", "B", "D"]  # D has rewards now
    assert np.allclose(here.estimates[3].x, [0.5, 0.6])
    assert here.t == sum(here.pulls) and here.pending.tolist() == here.pulls.tolist()


def test_delta_is_shared_between_all_arms_that_may_come():
    delta, n = 0.08, np.array([1.0, 10.0, 500.0])

    def radii(policy):
        return policy.confidence.radius(n)

    def expected(arms, level):
        return confidence_set("auto", pmb.Binary(), arms, delta=level).radius(n)

    policy = pmb.Track("gini", n_arms=2, support=pmb.Binary(), delta=delta, most_arms=4)
    policy.tell([0, 1] * 5, [0.0, 1.0] * 5)
    for arms, doubled in ((2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 1), (8, 1), (9, 2)):
        if policy.n_arms < arms:
            policy.add_arm()
            policy.tell(arms - 1, [0.0, 1.0])
        assert np.allclose(radii(policy), expected(4 << doubled, delta / 2**doubled))
        spent = sum(delta / 2**k for k in range(doubled + 1))
        assert math.isclose(policy._total_failure_probability(), spent) and spent < 2 * delta
        assert math.isclose(policy.certainty().probability, 1 - spent)
        low, high = policy.estimates[0].low, policy.estimates[0].high
        assert low < 0.5 < high
    policy.retire(8)  # it had a set, so it counts
    assert np.allclose(radii(policy), expected(16, delta / 4))
    fixed = pmb.PMUCB("gini", n_arms=2, support=pmb.Binary(), horizon=1000, delta=0.01)
    fixed.tell([0, 1] * 5, [0.0, 1.0] * 5)
    fixed.add_arm()
    fixed.tell(2, 1.0)
    assert math.isclose(fixed.confidence.failure, 0.01 / 4) and math.isclose(
        fixed._total_failure_probability(), 2 * 0.01 + 4 * 0.01 / 4
    )


@pytest.mark.slow
def test_all_sets_that_were_ever_used_hold_with_the_probability_that_is_said():
    """Arms come when the data look worst for the sets, and everybody looks after every reward."""
    delta, runs, wrong = 0.4, 300, 0
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        policy = pmb.Track("gini", n_arms=2, support=pmb.Binary(), delta=delta)
        truth, failed = [0.5, 0.5], False
        for t in range(150):
            arm = policy.ask()
            policy.tell(arm, float(rng.random() < truth[arm]))
            known = policy.estimates
            failed |= any(not e.low - 1e-12 <= truth[i] <= e.high + 1e-12 for i, e in enumerate(known) if e.n)
            odd = max(abs(e.mean - 0.5) * math.sqrt(e.n) for e in known if e.n)
            if len(truth) < 7 and (odd > 1.0 or t % 40 == 39):
                policy.add_arm()
                truth.append(0.5)
        wrong += failed
    assert wrong / runs <= 2 * delta
    assert wrong / runs <= 0.25  # what was seen: the sets are wider than they need to be


def test_threads_ask_and_tell_while_arms_come_and_go():
    policy = MADE["vet"]()
    policy.tell([0, 1, 2] * 5, [0.0, 1.0, 1.0] * 5)
    counted, stop = [np.zeros(12, dtype=np.int64) for _ in range(3)], threading.Event()

    def work(mine):
        while not stop.is_set():
            arm = policy.ask()
            mine[arm] += 1
            policy.tell(arm, float(arm % 2))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in counted]
    for thread in threads:
        thread.start()
    for k in range(6):
        policy.add_arm(f"new {k}")
        policy.pause(k % 3)
        assert policy.mixture.size == policy.pulls.size == len(policy.estimates)
        policy.resume(k % 3)
        if k % 2:
            policy.retire(f"new {k}")
    stop.set()
    for thread in threads:
        thread.join()
    played = sum(counted)
    assert policy.pulls.tolist() == played[: policy.n_arms].tolist()
    assert policy.t == played.sum() and policy.pending.sum() == 0
    assert [arm.n for arm in policy.estimates] == [
        int(n) + (5 if i < 3 else 0) for i, n in enumerate(played[: policy.n_arms])
    ]


def test_crafted_files_cannot_say_nonsense_of_who_plays(tmp_path: Path):
    policy = MADE["track"]()
    policy.tell([0, 1, 2] * 4, [0.1, 0.2, 0.3] * 4)
    policy.pause("B")
    policy.add_arm("D")
    policy.ask(3)
    good, bad = tmp_path / "good.pmb", tmp_path / "bad.pmb"
    policy.save(good)
    with zipfile.ZipFile(good) as archive:
        first = json.loads(archive.read("policy.json"))["roster"]
    for key, value in (
        ("states", ["plays"] * 4),
        ("states", ["plays", "paused", "plays"]),
        ("states", ["plays", "asleep", "plays", "plays"]),
        ("active", []),
        ("active", [0, 1]),
        ("active", [2, 0]),
        ("active", [0, 0]),
        ("active", [0, 2, 3]),
        ("active", [0, 9]),
        ("joined", []),
        ("joined", [[3, -1]]),
        ("joined", [[3, 10**9]]),
        ("joined", [[3]]),
        ("clock_start", -1),
        ("clock_start", 10**9),
        ("n_initial_arms", 0),
        ("n_initial_arms", 9),
        ("n_initial_arms", True),
        (None, []),
        (None, None),
    ):
        roster = {**first, key: value} if key else value
        with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "policy.json":
                    description = json.loads(data)
                    description["roster"] = roster
                    description["sha256"] = description_checksum(description)
                    data = json.dumps(description).encode()
                new.writestr(name, data)
        with pytest.raises(ValueError, match="damaged"):
            pmb.load(bad)
