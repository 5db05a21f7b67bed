"""Arms that come and go: nothing that was learned is lost, whatever happens and whenever."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmbandits as pmb

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
