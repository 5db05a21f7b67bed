"""A contract that every policy must keep, ready to run over your own.

Subclass :class:`PolicyContract` in a test file, give ``make``, and pytest runs the tests::

    from pmbandits.testing import PolicyContract

    class TestMine(PolicyContract):
        def make(self, seed=0):
            return MyPolicy(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), seed=seed)

The policy may be an object in plain Python with no more than ``ask()``, ``tell(arm, reward)`` and ``mixture``. What
such an object does not offer (saving, counts of pulls, batches) is not tried: these tests are skipped, and say why.
"""

from __future__ import annotations

import inspect
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics import Mean
from pmbandits.policies import Policy, load
from pmbandits.simulation import Rewards, policy_seed, simulate

_READ_ATTRIBUTES = ("mixture", "pulls", "pending", "t", "estimates")
_MAX_ROUNDS = 20_000  # rounds that the comparison with a simulation takes at most


class PolicyContract(ABC):
    """Tests of what a user may rely on, whatever the policy.

    Override ``make``. Where needed, also override ``reward`` (rewards of your support), ``bad_rewards``, ``load``,
    ``rounds`` and ``tracks`` (how far the shares of pulls may be from the mixture in the end; ``None`` for policies
    that do not track).
    """

    rounds: int = 300
    tracks: float | None = 0.05
    bad_rewards: tuple[float, ...] = (float("nan"), float("inf"), 2.5)

    @abstractmethod
    def make(self, seed: int = 0) -> Any:
        """Make a new policy that can be played. You write this method."""

    def reward(self, arm: int, rng: np.random.Generator) -> float:
        """A reward of an arm; by default 0 or 1."""
        return float(rng.random() < 0.25 + 0.5 * (arm % 2))

    def load(self, path: Path) -> Any:
        """Read a saved policy."""
        return load(path)

    # ---- helpers ---------------------------------------------------------------------------------------
    def play(self, policy: Any, rounds: int, rng: np.random.Generator) -> list[int]:
        """Ask and tell in turn, and return the arms that were played."""
        arms = []
        for _ in range(rounds):
            arm = policy.ask()
            policy.tell(arm, self.reward(arm, rng))
            arms.append(int(arm))
        return arms

    @staticmethod
    def visible_state(policy: Any) -> tuple[Any, ...]:
        """Mixture, pulls, pending rewards and time of a policy, as far as it has them, for comparisons."""
        seen = (getattr(policy, name) for name in ("mixture", "pulls", "pending", "t") if has_member(policy, name))
        return tuple(np.asarray(part).tolist() for part in seen)

    @staticmethod
    def n_arms(policy: Any) -> int:
        """How many arms a policy has."""
        return int(policy.n_arms) if has_member(policy, "n_arms") else len(policy.mixture)

    @staticmethod
    def ask_many(policy: Any, n: int) -> NDArray[np.int64]:
        """The next n arms, by one ``ask(n)`` if the policy takes batches."""
        if _takes_batches(policy):
            return np.asarray(policy.ask(n))
        return np.array([policy.ask() for _ in range(n)], dtype=np.int64)

    @staticmethod
    def tell_many(policy: Any, arms: NDArray[np.int64], rewards: FloatArray) -> None:
        """Tell the rewards of several arms, by one ``tell`` if the policy takes batches."""
        if _takes_batches(policy):
            policy.tell(arms, rewards)
            return
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            policy.tell(arm, reward)

    # ---- the tests -----------------------------------------------------------------------------------
    def test_same_seed_and_rewards_give_the_same_pulls(self) -> None:
        first = self.play(self.make(seed=7), self.rounds, np.random.default_rng(1))
        second = self.play(self.make(seed=7), self.rounds, np.random.default_rng(1))
        assert first == second

    def test_asks_are_arms_and_counted_as_pulls(self) -> None:
        policy = self.make()
        arms = self.play(policy, self.rounds, np.random.default_rng(2))
        assert set(arms) <= set(range(self.n_arms(policy)))
        if has_member(policy, "pulls"):
            assert np.asarray(policy.pulls).tolist() == np.bincount(arms, minlength=self.n_arms(policy)).tolist()
        if has_member(policy, "t"):
            assert policy.t == self.rounds
        if has_member(policy, "pending"):
            assert np.sum(policy.pending) == 0

    def test_the_mixture_is_a_mixture(self) -> None:
        policy = self.make()
        for size in (0, 1, 5, self.rounds):
            self.play(policy, size, np.random.default_rng(3))
            mixture = np.asarray(policy.mixture)
            assert mixture.shape == (self.n_arms(policy),)
            assert (mixture >= 0.0).all()
            assert abs(mixture.sum() - 1.0) < 1e-9

    def test_saved_and_loaded_at_every_step_it_goes_on_as_if_never_stopped(self) -> None:
        steady, broken = self.make(), self.make()
        skip_without(steady, "save")
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
                assert self.visible_state(steady) == self.visible_state(broken), step
            self.play(broken, self.rounds, np.random.default_rng(5))
            self.play(steady, self.rounds, np.random.default_rng(5))
            broken.save(path)
            assert self.visible_state(self.load(path)) == self.visible_state(steady)

    def test_rewards_in_one_batch_or_one_by_one_are_the_same(self) -> None:
        single, batched = self.make(), self.make()
        if not _takes_batches(single):
            raise SkipTest(f"{type(single).__name__}.ask takes no number of arms, so there are no batches.")
        rng = np.random.default_rng(6)
        for _ in range(12):
            arms = single.ask(7)
            assert batched.ask(7).tolist() == arms.tolist()
            rewards = [self.reward(int(arm), rng) for arm in arms]
            for arm, reward in zip(arms, rewards, strict=True):
                single.tell(int(arm), reward)
            batched.tell(arms, rewards)
            assert self.visible_state(single) == self.visible_state(batched)

    def test_the_order_in_which_late_rewards_arrive_does_not_matter(self) -> None:
        early, late = self.make(), self.make()
        rng = np.random.default_rng(7)
        for _ in range(8):
            arms = self.ask_many(early, 9)
            self.ask_many(late, 9)
            rewards = np.array([self.reward(int(arm), rng) for arm in arms])
            order = rng.permutation(9)
            self.tell_many(early, arms, rewards)
            self.tell_many(late, arms[order], rewards[order])
            assert np.allclose(early.mixture, late.mixture, atol=1e-9)
            assert early.ask() == late.ask()

    def test_asks_that_are_never_answered_do_not_stop_it(self) -> None:
        policy = self.make()
        played = self.play(policy, self.rounds, np.random.default_rng(8))
        before = np.asarray(policy.mixture)
        arms = self.ask_many(policy, 1000)
        assert set(arms.tolist()) <= set(range(before.size))
        if has_member(policy, "pending"):
            assert np.sum(policy.pending) == 1000
        if has_member(policy, "pulls"):
            assert np.sum(policy.pulls) == self.rounds + 1000
        if self.tracks is not None:
            shares = np.bincount([*played, *arms], minlength=before.size) / (self.rounds + 1000)
            assert np.abs(shares - before).max() <= self.tracks + before.size / len(arms)

    def test_rewards_that_were_not_asked_for_inform_but_are_no_pulls(self) -> None:
        policy = self.make()
        rng = np.random.default_rng(9)
        for arm in range(self.n_arms(policy)):
            for _ in range(20):
                policy.tell(arm, self.reward(arm, rng))
        if has_member(policy, "pulls"):
            assert np.sum(policy.pulls) == 0
        if has_member(policy, "estimates"):
            assert [e.n for e in policy.estimates] == [20] * self.n_arms(policy)
        self.play(policy, 50, rng)

    def test_bad_input_is_refused_and_changes_nothing(self) -> None:
        policy = self.make()
        skip_without(policy, "pulls", "pending", "t")
        self.play(policy, 40, np.random.default_rng(10))
        before = self.visible_state(policy)
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
            assert self.visible_state(policy) == before, (arm, reward)

    def test_reading_changes_nothing(self) -> None:
        read, left = self.make(), self.make()
        rng, again = np.random.default_rng(11), np.random.default_rng(11)
        for _ in range(80):
            arm, other = read.ask(), left.ask()
            assert arm == other
            read.tell(arm, self.reward(arm, rng))
            left.tell(other, self.reward(other, again))
            _ = [getattr(read, name) for name in _READ_ATTRIBUTES if has_member(read, name)], repr(read)
            if has_member(read, "explain"):
                read.explain()
        assert self.visible_state(read) == self.visible_state(left)

    def test_pulls_come_to_the_mixture(self) -> None:
        if self.tracks is None:
            return
        policy = self.make()
        rounds = max(self.rounds, 2000)
        played = self.play(policy, rounds, np.random.default_rng(12))
        shares = np.bincount(played, minlength=self.n_arms(policy)) / rounds
        mixture = np.asarray(policy.mixture)
        off = float(np.abs(shares - mixture).max())
        assert off <= self.tracks, (
            f"after {rounds:,} rounds the shares of pulls {shares.round(4).tolist()} are {off:.3g} away from the "
            f"mixture {mixture.round(4).tolist()}, but tracks = {self.tracks:g}; for a policy that explores for longer "
            "set a larger tracks in the test class, and tracks = None for one that does not play its mixture."
        )

    def test_a_simulation_makes_the_same_pulls_as_asking_and_telling_by_hand(self) -> None:
        """A simulation also names the same mixtures: at two checkpoints of two trials."""
        given, rng = self.make(), np.random.default_rng(14)
        own = isinstance(given, Policy)
        rounds = int(given.options.get("horizon", self.rounds)) if own else self.rounds
        if rounds > _MAX_ROUNDS:
            raise SkipTest(f"a horizon of {rounds:,} rounds is too long to be played by hand here.")
        checkpoints = [rounds // 3, rounds]
        bandit = Bandit([[self.reward(arm, rng) for _ in range(64)] for arm in range(self.n_arms(given))])
        metric = given.metric if own else Mean()
        recipe = given if own else lambda seed: self.make(seed=seed)
        run = simulate(metric, bandit, {"it": recipe}, rounds, trials=2, seed=5, checkpoints=checkpoints, n_jobs=1)
        (_, pulls), (_, mixtures) = run.column("pulls", "it"), run.column("mixture", "it")
        for trial in range(2):
            seed = policy_seed(5, trial, given.seed if own else 0)
            policy = given.bind(metric, given.n_arms, given.support, seed=seed) if own else self.make(seed=seed)
            arms: list[int] = []
            rewards = Rewards(bandit, seed=5, trial=trial)
            for c, until in enumerate(checkpoints):
                while len(arms) < until:
                    arms.append(int(policy.ask()))
                    policy.tell(arms[-1], float(rewards.next(arms[-1])[0]))
                assert pulls[trial, c].tolist() == np.bincount(arms, minlength=bandit.n_arms).tolist()
                assert mixtures[trial, c].tolist() == np.asarray(policy.mixture).tolist()

    def test_pulls_that_somebody_else_chose_count_as_if_asked(self) -> None:
        asked, informed = self.make(), self.make()
        skip_without(asked, "asked")
        rng = np.random.default_rng(15)
        for _ in range(60):
            arm = asked.ask()
            informed.asked(arm)
            reward = self.reward(arm, rng)
            asked.tell(arm, reward)
            informed.tell(arm, reward)
        assert self.visible_state(asked) == self.visible_state(informed)
        assert [asked.ask() for _ in range(20)] == [informed.ask() for _ in range(20)]

    def test_arms_come_and_go_and_nothing_is_lost(self) -> None:
        policy, rng = self.make(), np.random.default_rng(16)
        skip_without(policy, "add_arm", "pause", "resume", "retire", "pulls", "estimates", "save")
        if self.n_arms(policy) < 2:
            raise SkipTest("there is one arm only, which cannot be paused.")
        first = policy.n_arms

        def play(rounds: int) -> list[int]:
            """A new arm pays like an old one."""
            arms = []
            for _ in range(rounds):
                arms.append(int(policy.ask()))
                policy.tell(arms[-1], self.reward(arms[-1] % first, rng))
            return arms

        play(self.rounds)
        pulls, known, gone = policy.pulls, [arm.n for arm in policy.estimates], policy.n_arms - 1
        try:
            policy.pause(gone)
        except ValueError as error:
            raise SkipTest(f"this policy cannot do without an arm: {error}") from None
        arms = play(50)
        assert gone not in arms
        assert policy.mixture[gone] == 0.0
        policy.tell(gone, self.reward(gone, rng))  # late
        assert policy.pulls[gone] == pulls[gone]
        assert policy.estimates[gone].n == known[gone] + 1
        policy.resume(gone)
        new = policy.add_arm("a new arm")
        arms += play(50)
        assert new in arms
        policy.retire("a new arm")
        arms += play(20)
        assert policy.pulls.tolist() == (np.append(pulls, 0) + np.bincount(arms, minlength=new + 1)).tolist()
        assert sum(arm.n for arm in policy.estimates) == sum(known) + 1 + len(arms)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.pmb"
            policy.save(path)
            again = self.load(path)
            assert self.visible_state(again) == self.visible_state(policy)
            assert [again.ask() for _ in range(20)] == [policy.ask() for _ in range(20)]

    def test_the_reward_of_a_ticket_counts_once(self) -> None:
        policy, rng = self.make(), np.random.default_rng(17)
        skip_without(policy, "ask_ticket", "estimates")
        for k in range(20):
            ticket = policy.ask_ticket()
            assert 0.0 < ticket.share <= 1.0 + 1e-9
            reward = self.reward(ticket.arm, rng)
            for _ in range(1 + k % 2):
                policy.tell(ticket=ticket.id, reward=reward)
        assert sum(arm.n for arm in policy.estimates) == 20
        assert np.sum(policy.pending) == 0

    def test_a_damaged_file_is_refused_or_harmless(self) -> None:
        """Cut off, empty or foreign: refused. A flipped byte: refused, or where nothing is stored without effect."""
        policy = self.make()
        skip_without(policy, "save")
        self.play(policy, 30, np.random.default_rng(13))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.pmb"
            policy.save(path)
            content = path.read_bytes()
            for damaged in (content[: len(content) // 2], content[:-1], b"", b"not a policy"):
                path.write_bytes(damaged)
                assert not self._can_load(path)
            refused = 0
            for place in np.linspace(0, len(content) - 1, 40).astype(int):
                flipped = bytearray(content)
                flipped[place] ^= 0xFF
                path.write_bytes(bytes(flipped))
                if self._can_load(path):
                    assert self.visible_state(self.load(path)) == self.visible_state(policy), place
                else:
                    refused += 1
            assert refused > 0

    def _can_load(self, path: Path) -> bool:
        try:
            self.load(path)
        except ValueError as error:
            assert "damaged" in str(error)
            return False
        return True


def has_member(policy: Any, name: str) -> bool:
    """Whether a policy has this part; policies of the library must have all."""
    return isinstance(policy, Policy) or inspect.getattr_static(policy, name, None) is not None


def skip_without(policy: Any, *names: str) -> None:
    """Skip the test if the policy does not have these parts, and say why."""
    missing = [name for name in names if not has_member(policy, name)]
    if missing:
        raise SkipTest(f"{type(policy).__name__} has no {', '.join(missing)}: this cannot be tried.")


def _takes_batches(policy: Any) -> bool:
    return isinstance(policy, Policy) or len(inspect.signature(policy.ask).parameters) > 0
