"""Locking of a policy's memory: one thread at a time uses it; it is replaced and copied as a whole."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, ClassVar, Self, TypeVar

from numba.core.compiler_lock import global_compiler_lock

from pmbandits import _validation
from pmbandits.engine._calls import CHOOSE_SIGNATURE
from pmbandits.engine.plan import Plan
from pmbandits.engine.roster import Roster
from pmbandits.engine.tickets import Tickets
from pmbandits.segments import Segments
from pmbandits.state.linking import kernel_address
from pmbandits.state.lock import compile_lock_kernels, try_lock_memory, unlock_memory
from pmbandits.state.memory import Memory

_LOCK_TOKENS = count(2)  # tokens of threads that are alone with a memory (state/lock.py)
T = TypeVar("T")


class LockedMemory:
    """Base class of policies: the memory, its lock, and copies of both."""

    _choose: ClassVar[Any]  # compiled: one round's decision
    _choose_certifying: ClassVar[Any]  # the same, where a share of the pulls is for certifying
    options: dict[str, Any]
    names: tuple[str, ...]
    _segments: Segments | None = None
    _plan: Plan
    # Where the kernel is that chooses, the memory with its address, and who is in it (None: all arms, in their order).
    _now: tuple[int, int, Memory, Roster | None]

    _tickets: Tickets
    _lock: threading.Lock
    _owner: int  # the thread that has the lock; 0 for none

    def _create_policy_lock(self) -> None:
        """Give a new policy its lock, which is also taken around forks."""
        self._lock, self._owner = threading.Lock(), 0
        _WITH_LOCK.add(self)

    def _require_bound_policy(self) -> None:
        if "_now" not in self.__dict__:
            known = {"metric": "metric", "names": "n_arms (or names)", "support": "support"}
            missing = [words for name, words in known.items() if getattr(self, name) in (None, ())]
            raise ValueError(
                f"this {type(self).__name__} is a recipe: {_validation.join_with_and(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing. Give {'it' if len(missing) == 1 else 'them'}, "
                "or call bind(metric, n_arms, support)."
            )

    @property
    def _memory(self) -> Memory:
        """The policy's memory; what every ask and tell needs of it is kept beside it."""
        return self._now[2]

    @_memory.setter
    def _memory(self, memory: Memory) -> None:
        self._now = self._kernel_args(memory, self._roster)

    @property
    def _roster(self) -> Roster | None:
        """The roster of active and inactive arms; ``None`` while all arms that ever were are active."""
        return self._now[3] if "_now" in self.__dict__ else None

    @property
    def _active_arms(self) -> tuple[int, ...]:
        """The arms that are in the memory, in its order, counted as users count them."""
        return tuple(range(len(self._columns))) if self._roster is None else self._roster.active_arms

    @property
    def _columns(self) -> tuple[str, ...]:
        """The names of all that the memory has an arm's records of: the arms, or pairs of a segment and an arm."""
        return self.names if self._segments is None else self._segments.column_names

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the segments; none if the policy was made without ``segments``."""
        return () if self._segments is None else self._segments.names

    @property
    def _clock_start_round(self) -> int:
        """The round in which the clock began: since then shares are kept, and phases go on."""
        return 0 if self._roster is None else self._roster.clock_start

    @property
    def _choose_kernel(self) -> Any:
        """The kernel that decides, as the options want it."""
        return self._choose_certifying if self.options.get("certify", 0.0) > 0.0 else self._choose

    def _clone(self) -> Self:
        """A copy that can be changed."""
        self._require_bound_policy()
        return self._with_lock(self._clone_unlocked)

    def _clone_unlocked(self) -> Self:
        """A copy that can be changed, made by a caller that holds the lock."""
        clone: Self = object.__new__(type(self))
        clone.__setstate__(self._copied_state_dict())
        return clone

    def __getstate__(self) -> dict[str, Any]:
        return self._copied_state_dict() if "_now" not in self.__dict__ else self._with_lock(self._copied_state_dict)

    def _copied_state_dict(self) -> dict[str, Any]:
        out = {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_owner", "_now")}
        if "_now" in self.__dict__:
            _, _, memory, roster = self._now
            out["_now"] = memory.copy(), None if roster is None else roster.copy()
        return out | {"_tickets": self._tickets.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._create_policy_lock()
        if "_now" in state:
            memory, roster = state["_now"]
            self._now = self._kernel_args(memory, roster)

    def _kernel_args(self, memory: Memory, roster: Roster | None) -> tuple[int, int, Memory, Roster | None]:
        """What ask and tell pass to kernels: address of the choose kernel, memory address, memory, roster."""
        # The memory is part of it: so it is not freed before their kernels have returned, even if another thread
        # replaces it meanwhile.
        return _choose_address(self._choose_kernel), memory.address, memory, roster

    def _with_lock(self, work: Callable[[], T]) -> T:
        """Call ``work`` while holding the lock, so that no other thread asks, tells or copies.

        If the work replaces the memory, the old one stays taken: whoever still has its address is sent away by the
        kernels, and comes here. Ctrl-C at any moment leaves the memory free: it is given back by its token, whether or
        not Python still learned that it was taken.
        """
        compile_lock_kernels()
        token, me = next(_LOCK_TOKENS), threading.get_ident()
        if self._owner == me:
            raise RuntimeError(
                "this policy is at work in this very thread, so a signal handler cannot use it now; "
                "let the handler only take a note, and use the policy afterwards."
            )
        with self._lock:
            try:
                self._owner = me
                while not try_lock_memory(self._now[1], token):  # somebody asks or tells right now
                    time.sleep(1e-5)
                return work()
            finally:
                self._owner = 0
                unlock_memory(self._now[1], token)


# ---- forks -------------------------------------------------------------------------------------------------
# A child of a fork has only the thread that forked. If another one was inside a policy, that policy would stay taken
# for ever in the child, and be half changed. So a fork waits until nobody is inside any policy, and nobody compiles.
_WITH_LOCK: weakref.WeakSet[LockedMemory] = weakref.WeakSet()
_FORK_TOKEN = next(_LOCK_TOKENS)
_held: list[LockedMemory] = []


def _lock_all_policies() -> None:
    """Before a fork: take every policy that this thread does not have already."""
    policies: list[LockedMemory] | None = None
    while policies is None:
        with suppress(RuntimeError):  # another thread has made a policy meanwhile
            policies = list(_WITH_LOCK)
    for policy in policies:
        if policy._owner == threading.get_ident():
            continue
        policy._lock.acquire()
        if "_now" in policy.__dict__:
            while not try_lock_memory(policy._now[1], _FORK_TOKEN):
                time.sleep(1e-5)
        _held.append(policy)
    global_compiler_lock.acquire()


def _unlock_all_policies() -> None:
    """After a fork, in parent and child: give back what was taken before it."""
    global_compiler_lock.release()
    while _held:
        policy = _held.pop()
        if "_now" in policy.__dict__:
            unlock_memory(policy._now[1], _FORK_TOKEN)
        policy._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock_all_policies, after_in_parent=_unlock_all_policies, after_in_child=_unlock_all_policies
    )


@cache
def _choose_address(choose: Any) -> int:
    """The address of the compiled choose kernel."""
    return kernel_address(choose, CHOOSE_SIGNATURE)
