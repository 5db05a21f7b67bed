"""A contract that every policy must keep, ready to run over your own.

Subclass :class:`PolicyContract` in a test file, give ``make``, and pytest runs the battery::

    from pmbandits.testing import PolicyContract

    class TestMine(PolicyContract):
        def make(self, seed=0):
            return MyPolicy(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), seed=seed)
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits.policies import load


class PolicyContract(ABC):
    """What a user may rely on, whatever the policy.

    Override ``make``; where needed also ``reward`` (rewards of your support), ``bad_rewards``, ``load``, ``rounds`` and
    ``tracks`` (how far pull shares may be from the mixture in the end; ``None`` for policies that do not track).
    """

    rounds: int = 300
    tracks: float | None = 0.05
    bad_rewards: tuple[float, ...] = (float("nan"), float("inf"), 2.5)

    @abstractmethod
    def make(self, seed: int = 0) -> Any:
        """A new, playable policy."""

    def reward(self, arm: int, rng: np.random.Generator) -> float:
        """A reward of an arm; by default 0 or 1."""
        return float(rng.random() < 0.25 + 0.5 * (arm % 2))

    def load(self, path: Path) -> Any:
        """Read a saved policy."""
        return load(path)

    # ---- helpers ---------------------------------------------------------------------------------------
    def play(self, policy: Any, rounds: int, rng: np.random.Generator) -> list[int]:
        """Ask and tell in turn; the arms that were played."""
        arms = []
        for _ in range(rounds):
            arm = policy.ask()
            policy.tell(arm, self.reward(arm, rng))
            arms.append(int(arm))
        return arms

    @staticmethod
    def look(policy: Any) -> tuple[Any, ...]:
        """All that can be read of a policy."""
        return (policy.mixture.tolist(), policy.pulls.tolist(), policy.pending.tolist(), policy.t)

    # ---- the battery -----------------------------------------------------------------------------------
    def test_same_seed_and_rewards_give_the_same_pulls(self) -> None:
        first = self.play(self.make(seed=7), self.rounds, np.random.default_rng(1))
        second = self.play(self.make(seed=7), self.rounds, np.random.default_rng(1))
        assert first == second

    def test_asks_are_arms_and_counted_as_pulls(self) -> None:
        policy = self.make()
        arms = self.play(policy, self.rounds, np.random.default_rng(2))
        assert set(arms) <= set(range(policy.n_arms))
        assert policy.pulls.tolist() == np.bincount(arms, minlength=policy.n_arms).tolist()
        assert policy.t == self.rounds
        assert policy.pending.sum() == 0

    def test_the_mixture_is_a_mixture(self) -> None:
        policy = self.make()
        for size in (0, 1, 5, self.rounds):
            self.play(policy, size, np.random.default_rng(3))
            mixture = policy.mixture
            assert mixture.shape == (policy.n_arms,)
            assert (mixture >= 0.0).all()
            assert abs(mixture.sum() - 1.0) < 1e-9

    def test_saved_and_loaded_at_every_step_it_goes_on_as_if_never_stopped(self) -> None:
        steady, broken = self.make(), self.make()
        rng = np.random.default_rng(4)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.pmb"
            for step in range(60):
                arm, again = steady.ask(), broken.ask()
                assert arm == again, step
                broken.save(path)  # with an ask that waits for its reward
                broken = self.load(path)
                reward = self.reward(arm, rng)
                steady.tell(arm, reward)
                broken.tell(arm, reward)
                assert self.look(steady) == self.look(broken), step
            self.play(broken, self.rounds, np.random.default_rng(5))
            self.play(steady, self.rounds, np.random.default_rng(5))
            broken.save(path)
            assert self.look(self.load(path)) == self.look(steady)

    def test_rewards_in_one_batch_or_one_by_one_are_the_same(self) -> None:
        single, batched = self.make(), self.make()
        rng = np.random.default_rng(6)
        for _ in range(12):
            arms = single.ask(7)
            assert batched.ask(7).tolist() == arms.tolist()
            rewards = [self.reward(int(arm), rng) for arm in arms]
            for arm, reward in zip(arms, rewards, strict=True):
                single.tell(int(arm), reward)
            batched.tell(arms, rewards)
            assert self.look(single) == self.look(batched)

    def test_the_order_in_which_late_rewards_arrive_does_not_matter(self) -> None:
        early, late = self.make(), self.make()
        rng = np.random.default_rng(7)
        for _ in range(8):
            arms = early.ask(9)
            late.ask(9)
            rewards = np.array([self.reward(int(arm), rng) for arm in arms])
            order = rng.permutation(9)
            early.tell(arms, rewards)
            late.tell(arms[order], rewards[order])
            assert np.allclose(early.mixture, late.mixture, atol=1e-9)
            assert early.ask() == late.ask()

    def test_asks_that_are_never_answered_do_not_stop_it(self) -> None:
        policy = self.make()
        self.play(policy, self.rounds, np.random.default_rng(8))
        before = policy.mixture
        arms = policy.ask(1000)
        assert policy.pending.sum() == 1000
        assert policy.pulls.sum() == self.rounds + 1000
        if self.tracks is not None:
            shares = policy.pulls / policy.pulls.sum()
            assert np.abs(shares - before).max() <= self.tracks + policy.n_arms / len(arms)

    def test_rewards_that_were_not_asked_for_inform_but_are_no_pulls(self) -> None:
        policy = self.make()
        rng = np.random.default_rng(9)
        for arm in range(policy.n_arms):
            for _ in range(20):
                policy.tell(arm, self.reward(arm, rng))
        assert policy.pulls.sum() == 0
        assert [e.n for e in policy.estimates] == [20] * policy.n_arms
        self.play(policy, 50, rng)

    def test_bad_input_is_refused_and_changes_nothing(self) -> None:
        policy = self.make()
        self.play(policy, 40, np.random.default_rng(10))
        before = self.look(policy)
        good = self.reward(0, np.random.default_rng(0))
        bad: list[tuple[Any, Any]] = [(0, r) for r in self.bad_rewards]
        bad += [(policy.n_arms, good), (-1, good), ("no such arm", good), (0, "much"), (0, None), (1.5, good)]
        bad += [([0, 0], [good, r]) for r in self.bad_rewards] + [
            ([0, policy.n_arms], [good, good]),
            ([0], [good, good]),
        ]
        for arm, reward in bad:
            try:
                policy.tell(arm, reward)
            except (ValueError, TypeError, IndexError) as error:
                assert str(error).strip(), (arm, reward)
            else:
                raise AssertionError(f"tell({arm!r}, {reward!r}) was accepted")
            assert self.look(policy) == before, (arm, reward)

    def test_reading_changes_nothing(self) -> None:
        read, left = self.make(), self.make()
        rng, again = np.random.default_rng(11), np.random.default_rng(11)
        for _ in range(80):
            arm, other = read.ask(), left.ask()
            assert arm == other
            read.tell(arm, self.reward(arm, rng))
            left.tell(other, self.reward(other, again))
            _ = (read.mixture, read.pulls, read.pending, read.estimates, read.explain(), repr(read))
        assert self.look(read) == self.look(left)

    def test_pulls_come_to_the_mixture(self) -> None:
        if self.tracks is None:
            return
        policy = self.make()
        self.play(policy, max(self.rounds, 2000), np.random.default_rng(12))
        shares = policy.pulls / policy.pulls.sum()
        assert np.abs(shares - policy.mixture).max() <= self.tracks

    def test_a_damaged_file_is_refused_or_harmless(self) -> None:
        """Cut off, empty or foreign: refused. A flipped byte: refused, or where nothing is stored without effect."""
        policy = self.make()
        self.play(policy, 30, np.random.default_rng(13))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.pmb"
            policy.save(path)
            content = path.read_bytes()
            for damaged in (content[: len(content) // 2], content[:-1], b"", b"not a policy"):
                path.write_bytes(damaged)
                assert not self._loads(path)
            refused = 0
            for place in np.linspace(0, len(content) - 1, 40).astype(int):
                flipped = bytearray(content)
                flipped[place] ^= 0xFF
                path.write_bytes(bytes(flipped))
                if self._loads(path):
                    assert self.look(self.load(path)) == self.look(policy), place
                else:
                    refused += 1
            assert refused > 0

    def _loads(self, path: Path) -> bool:
        try:
            self.load(path)
        except ValueError as error:
            assert "damaged" in str(error)
            return False
        return True
