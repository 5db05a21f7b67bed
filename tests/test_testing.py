"""The battery of :mod:`pmbandits.testing` passes a sound policy and finds the defect of every broken one."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.testing import PolicyContract

GINI = pmb.GiniDeviation()


class OwnPolicy:
    """Follows fixed proportions; knows nothing of the package. Each defect breaks one promise."""

    n_arms = 2
    names = ("a", "b")
    _unseeded = itertools.count()

    def __init__(self, seed: int = 0, defect: str = "") -> None:
        self.defect = defect
        self.rewards: list[list[float]] = [[], []]
        self._pulls, self._pending = [0, 0], [0, 0]
        self.extra = 0

    def share(self) -> float:
        return 0.75

    @property
    def t(self) -> int:
        return sum(self._pulls)

    @property
    def pulls(self) -> np.ndarray:
        return np.array(self._pulls)

    @property
    def pending(self) -> np.ndarray:
        return np.array(self._pending)

    @property
    def mixture(self) -> np.ndarray:
        if self.defect == "reads and writes":
            self._pulls[0] += 1
        scale = 1.1 if self.defect == "weights do not add up" else 1.0
        first = self.share()
        if self.defect == "last reward counts most" and self.rewards[0]:
            first = 0.5 + 0.2 * self.rewards[0][-1]
        return scale * np.array([first, 1.0 - first])

    @property
    def estimates(self) -> list[Any]:
        return [SimpleNamespace(n=len(r)) for r in self.rewards]

    def explain(self) -> str:
        return "the proportions are fixed"

    def ask(self, n: int | None = None) -> Any:
        if n is not None:
            return np.array([self.ask() for _ in range(n)])
        self.extra += 1
        arm = int(self.t * self.share() <= self._pulls[0])
        if self.defect == "forgets a counter" and self.extra % 7 == 0:
            arm = 1 - arm
        if self.defect == "draws without its seed":
            arm = (next(self._unseeded) // 7) % 2
        if self.defect == "waits for rewards" and sum(self._pending) > 20:
            arm = 1
        self._pulls[arm] += self.defect != "does not count" or self.t % 50 != 49
        self._pending[arm] += 1
        return arm

    def tell(self, arm: Any, reward: Any) -> None:
        one = np.ndim(reward) == 0
        arms = [arm] if one else list(arm)
        rewards = [reward] if one else list(reward)
        if self.defect == "takes half of a bad batch" and not one:
            self._pending[arms[0]] = max(self._pending[arms[0]] - 1, 0)
            self.rewards[arms[0]].append(float(rewards[0]))
            arms, rewards = arms[1:], rewards[1:]
            if not arms:
                return
            self._pulls[0] += float(rewards[0]) not in (0.0, 1.0)
        places = []
        for place in arms:
            if not isinstance(place, (int, np.integer, str)) or isinstance(place, bool):
                raise TypeError(f"{place!r} is no arm")
            if isinstance(place, str):
                place = self.names.index(place) if place in self.names else -1
            if not 0 <= place < 2:
                raise IndexError(f"{place!r} is no arm")
            places.append(int(place))
        if len(places) != len(rewards):
            raise ValueError("one reward for each arm")
        values = [float(r) for r in rewards]
        if any(v not in (0.0, 1.0) for v in values) and self.defect != "takes any reward":
            raise ValueError("a reward is 0 or 1")
        for place, value in zip(places, values, strict=True):
            self.rewards[place].append(value)
            if self._pending[place] > 0:
                self._pending[place] -= 1
            elif self.defect == "takes gifts for pulls":
                self._pulls[place] += 1
        if self.defect == "a batch is one" and len(places) > 1:
            self._pending[places[0]] += 1

    def save(self, path: Path) -> None:
        state = [self.rewards, self._pulls, self._pending, 0 if self.defect == "forgets a counter" else self.extra]
        text = json.dumps(state)
        path.write_text(text if self.defect == "reads damaged files" else f"{text} {sum(text.encode())}")

    @classmethod
    def load(cls, path: Path, defect: str) -> OwnPolicy:
        policy = cls(defect=defect)
        try:
            text = path.read_text()
            if defect == "reads damaged files":
                state = (
                    json.loads(text) if text.startswith("[[") and text.endswith("]") else [[[], []], [0, 0], [0, 0], 0]
                )
            else:
                text, check = text.rsplit(" ", 1)
                if sum(text.encode()) != int(check):
                    raise ValueError
                state = json.loads(text)
        except ValueError:
            raise ValueError("the file is damaged") from None
        policy.rewards, policy._pulls, policy._pending, policy.extra = state
        return policy


class TestOwnPolicy(PolicyContract):
    """As a user writes it: the battery runs over a policy that shares nothing with this package."""

    defect = ""

    def make(self, seed: int = 0) -> Any:
        return OwnPolicy(seed, self.defect)

    def load(self, path: Path) -> Any:
        return OwnPolicy.load(path, self.defect)


@pytest.mark.parametrize(
    ("defect", "test"),
    [
        ("draws without its seed", "test_same_seed_and_rewards_give_the_same_pulls"),
        ("does not count", "test_asks_are_arms_and_counted_as_pulls"),
        ("weights do not add up", "test_the_mixture_is_a_mixture"),
        ("forgets a counter", "test_saved_and_loaded_at_every_step_it_goes_on_as_if_never_stopped"),
        ("a batch is one", "test_rewards_in_one_batch_or_one_by_one_are_the_same"),
        ("last reward counts most", "test_the_order_in_which_late_rewards_arrive_does_not_matter"),
        ("waits for rewards", "test_asks_that_are_never_answered_do_not_stop_it"),
        ("takes gifts for pulls", "test_rewards_that_were_not_asked_for_inform_but_are_no_pulls"),
        ("takes any reward", "test_bad_input_is_refused_and_changes_nothing"),
        ("takes half of a bad batch", "test_bad_input_is_refused_and_changes_nothing"),
        ("reads and writes", "test_reading_changes_nothing"),
        ("weights do not add up", "test_pulls_come_to_the_mixture"),
        ("reads damaged files", "test_a_damaged_file_is_refused_or_harmless"),
    ],
)
def test_the_battery_finds_the_defect(defect: str, test: str) -> None:
    class Broken(TestOwnPolicy):
        pass

    Broken.defect = defect
    with pytest.raises(AssertionError) as said:
        getattr(Broken(), test)()
    if test == "test_pulls_come_to_the_mixture":
        assert re.search(r"after 2,000 rounds .* away from the mixture .* tracks = 0\.\d", str(said.value))


class Careless(pmb.Uniform):
    """Built on the package: a counter beside the state is not saved with it."""

    name = "careless_test_policy"
    asked = 0

    def ask(self, n: int | None = None) -> Any:
        if n is not None:
            return np.array([self.ask() for _ in range(n)])
        self.asked += 1
        if self.asked % 5 == 0:
            self._memory.seed += self.asked
        return super().ask()


def test_the_battery_finds_an_unsaved_counter_in_a_subclass() -> None:
    class Contract(PolicyContract):
        def make(self, seed: int = 0) -> Any:
            return Careless(GINI, n_arms=3, support=pmb.Binary(), seed=seed)

    with pytest.raises(AssertionError):
        Contract().test_saved_and_loaded_at_every_step_it_goes_on_as_if_never_stopped()
    Contract().test_same_seed_and_rewards_give_the_same_pulls()


class Trusting(pmb.Uniform):
    """Built on the package: counts before it looks."""

    name = "trusting_test_policy"

    def tell(self, arm: Any, reward: Any) -> None:
        self._memory.pending[0] += 1
        super().tell(arm, reward)
        self._memory.pending[0] -= 1


def test_the_battery_finds_state_changed_by_bad_input_in_a_subclass() -> None:
    class Contract(PolicyContract):
        def make(self, seed: int = 0) -> Any:
            return Trusting(GINI, n_arms=2, support=pmb.Binary(), seed=seed)

    with pytest.raises(AssertionError):
        Contract().test_bad_input_is_refused_and_changes_nothing()
    Contract().test_same_seed_and_rewards_give_the_same_pulls()


# ---- objects in plain Python with ask, tell and mixture only ---------------------------------------------
class Plain:
    """Plays the arms in fixed shares and in random order; offers nothing but the three names."""

    def __init__(self, seed: int, defect: str) -> None:
        self._rng = np.random.default_rng(None if defect == "draws without its seed" else seed)
        self._defect, self._waits, self._last = defect, 0, 0.0

    def ask(self) -> int:
        self._waits += 1
        if self._defect == "waits for rewards" and self._waits > 20:
            raise RuntimeError("still waiting")
        if self._defect == "no such arm" and self._waits > 15:
            return 2
        return int(self._rng.random() < 0.25)

    def tell(self, arm: int, reward: float) -> None:
        self._waits -= self._defect == "waits for rewards"
        self._last = reward
        if self._defect == "counts only what it asked for" and self._waits == 0:
            raise KeyError(arm)

    @property
    def mixture(self) -> list[float]:
        if self._defect == "reads and writes":
            self._rng.random()
        first = 0.7 + 0.1 * self._last if self._defect == "last reward counts most" else 0.75
        return [first, 0.35 if self._defect == "weights do not add up" else 1.0 - first]


class PlainContract(PolicyContract):
    __test__ = False
    defect = ""

    def make(self, seed: int = 0) -> Any:
        return Plain(seed, self.defect)


class TestPlain(PlainContract):
    """What is promised of a plain object is tried, the rest is skipped; see the next test."""

    __test__ = True


NOT_TRIED = {
    "test_saved_and_loaded_at_every_step_it_goes_on_as_if_never_stopped": "Plain has no save",
    "test_rewards_in_one_batch_or_one_by_one_are_the_same": "ask takes no number of arms",
    "test_bad_input_is_refused_and_changes_nothing": "Plain has no pulls, pending, t",
    "test_a_damaged_file_is_refused_or_harmless": "Plain has no save",
}


@pytest.mark.parametrize("test", [name for name in vars(PolicyContract) if name.startswith("test_")])
def test_only_what_a_plain_object_does_not_offer_is_skipped(test: str) -> None:
    if test in NOT_TRIED:
        with pytest.raises(SkipTest, match=NOT_TRIED[test]):
            getattr(PlainContract(), test)()
    else:
        getattr(PlainContract(), test)()


@pytest.mark.parametrize(
    ("defect", "test"),
    [
        ("draws without its seed", "test_same_seed_and_rewards_give_the_same_pulls"),
        ("draws without its seed", "test_a_simulation_makes_the_same_pulls_as_asking_and_telling_by_hand"),
        ("no such arm", "test_asks_are_arms_and_counted_as_pulls"),
        ("no such arm", "test_asks_that_are_never_answered_do_not_stop_it"),
        ("weights do not add up", "test_the_mixture_is_a_mixture"),
        ("last reward counts most", "test_the_order_in_which_late_rewards_arrive_does_not_matter"),
        ("waits for rewards", "test_asks_that_are_never_answered_do_not_stop_it"),
        ("counts only what it asked for", "test_rewards_that_were_not_asked_for_inform_but_are_no_pulls"),
        ("reads and writes", "test_reading_changes_nothing"),
        ("weights do not add up", "test_pulls_come_to_the_mixture"),
    ],
)
def test_the_battery_finds_the_defect_of_a_plain_object(defect: str, test: str) -> None:
    class Broken(PlainContract):
        pass

    Broken.defect = defect
    with pytest.raises((AssertionError, RuntimeError, KeyError)):
        getattr(Broken(), test)()


def test_a_policy_of_the_library_is_never_let_off() -> None:
    class Contract(PolicyContract):
        def make(self, seed: int = 0) -> Any:
            return Bare(GINI, n_arms=2, support=pmb.Binary(), seed=seed)

    class Bare(pmb.Uniform):
        name = "bare_test_policy"
        save = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="not callable"):
        Contract().test_a_damaged_file_is_refused_or_harmless()
