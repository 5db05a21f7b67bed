"""A policy of one's own with mistakes in its kernels: nothing hangs, nothing is written where it must not be."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.engine import ask_tell as policy_module
from pmbandits.engine._calls import ask_one_or_busy
from pmbandits.kit import Policy, Setup, fewest, kernel, play_alone, pull, state, unpack
from pmbandits.state.lock import BUSY, try_lock_memory, unlock_memory

COINS = pmb.Bandit.bernoulli([0.4, 0.5])
unpack_own = state(turns=int, boost=float, copy=float, own=int)


@kernel
def update(memory):
    s = unpack(memory)
    play_alone(s, 0)


@kernel
def raises(memory):
    s = unpack(memory)
    if s.t >= 2:
        raise ValueError("the third round")
    return pull(s, fewest(s))


@kernel
def forgets_to_pull(memory):
    s = unpack(memory)
    return fewest(s)


@kernel
def pulls_twice(memory):
    s = unpack(memory)
    pull(s, 0)
    return pull(s, 1)


@kernel
def pulls_too_far(memory):
    s = unpack(memory)
    return pull(s, s.n_arms + 1_000_000)


@kernel
def pulls_below(memory):
    s = unpack(memory)
    return pull(s, -s.n_arms)


@kernel
def answers_too_far(memory):
    s = unpack(memory)
    return pull(s, fewest(s)) + 1_000_000


@kernel
def counts_turns(memory):
    s = unpack_own(memory)
    s.own.turns += 1
    s.own.boost *= 0.5
    s.own.copy += 0.25
    s.own.own += 2
    return pull(s, fewest(s))


class _Own(Policy):
    def setup(self, metric: pmb.Distortion, n_arms: int, support: pmb.Support) -> Setup:
        return Setup(grid=np.eye(n_arms))


class Raises(_Own, name="test-raises", choose=raises, update=update):
    pass


class Counts(Policy, name="test-counts", choose=counts_turns, update=update, unpack=unpack_own):
    def setup(self, metric: pmb.Distortion, n_arms: int, support: pmb.Support) -> Setup:
        return Setup(grid=np.eye(n_arms), numbers={"boost": 8.0, "turns": 5, "copy": 1.0})


def in_time(job: Callable[[], Any]) -> None:
    """Do the job in another thread, and do not wait for ever."""
    done = threading.Thread(target=job, daemon=True)
    done.start()
    done.join(60.0)
    assert not done.is_alive(), "it hangs"


def test_a_kernel_that_raises_leaves_the_policy_free() -> None:
    policy = Raises("mean", n_arms=2, support=pmb.Binary())
    assert [policy.ask(), policy.ask()] == [0, 1]

    def work() -> None:
        for _ in range(3):
            for ask in (policy.ask, lambda: policy.ask(2)):
                with pytest.raises(ValueError, match="the third round"):
                    ask()
        policy.tell(0, 1.0)

    in_time(work)
    assert policy.t == 2 and policy._memory.rewards == 1 and policy._memory.lock_token == 0


@pytest.mark.parametrize(
    "choose", [forgets_to_pull, pulls_twice, pulls_too_far, pulls_below, answers_too_far], ids=lambda k: k.__name__
)
def test_a_kernel_that_does_not_pull_one_arm_is_told_so(choose: Any) -> None:
    wrong = type("Wrong", (_Own,), {}, name=f"test-{choose.__name__}", choose=choose, update=update)
    policy = wrong("mean", n_arms=2, support=pmb.Binary())
    before = policy._memory.copy()
    for ask in (policy.ask, lambda: policy.ask(3)):
        with pytest.raises(RuntimeError, match=r"Wrong .*pull\(s, arm\).* 0 to 1"):
            ask()
    if choose in (forgets_to_pull, pulls_too_far, pulls_below):  # nothing was counted, and nothing written elsewhere
        assert policy._memory.words.tolist() == before.words.tolist()
    with pytest.raises(RuntimeError, match=r"must return pull\(s, arm\)"):
        pmb.simulate("mean", COINS, [wrong()], 50, trials=1, seed=0, n_jobs=1)


def test_own_numbers_are_saved_also_if_they_were_given_a_first_value(tmp_path: Path) -> None:
    policy = Counts("mean", n_arms=2, support=pmb.Binary())
    policy.ask(3)
    assert policy.own == {"turns": 8, "boost": 1.0, "copy": 1.75, "own": 6}
    policy.save(tmp_path / "own.pmb")
    assert pmb.load(tmp_path / "own.pmb").own == policy.own


def test_memory_that_another_thread_replaces_lives_until_the_kernel_has_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make() -> pmb.Policy:
        return pmb.UCB1(n_arms=2, support=pmb.Binary())

    policy, other = make(), make()
    kernels = {"ask_one_or_busy": policy_module.ask_one_or_busy, "tell_one_or_refuse": policy_module.tell_one_or_refuse}
    for name, job in (("ask_one_or_busy", policy.ask), ("tell_one_or_refuse", lambda: policy.tell(0, 1.0))):
        words = weakref.ref(policy._memory.words)

        def while_another_merges(*given: Any, real: Any = kernels[name], words: Any = words) -> Any:
            policy.merge(other)
            assert words() is not None, "the kernel would work in memory that was freed"
            return real(*given)

        monkeypatch.setattr(policy_module, name, while_another_merges)
        job()  # the old memory stays taken, so the kernel is sent away, and asks the new one
        assert words() is None
    assert policy.t == 1 and policy._memory.rewards == 1


def test_who_waits_comes_before_single_asks() -> None:
    policy = pmb.UCB1(n_arms=2, support=pmb.Binary())
    where, address, memory, *_ = policy._now
    assert try_lock_memory(address, 5) and not try_lock_memory(address, 6)
    memory.lock_token = 0  # as if the first were done
    assert ask_one_or_busy(where, address) == BUSY
    assert try_lock_memory(address, 6)
    unlock_memory(address, 6)
    assert ask_one_or_busy(where, address) == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer that sends signals")
def test_a_signal_handler_that_uses_a_policy_at_work_is_told_so() -> None:
    policy = pmb.UCB1(n_arms=2, support=pmb.Binary())

    def work() -> None:
        for use in (policy.ask, lambda: policy.ask(2), lambda: policy.mixture):
            with pytest.raises(RuntimeError, match="signal handler"):
                policy._with_lock(use)

    in_time(work)
    assert policy.ask() == 0
