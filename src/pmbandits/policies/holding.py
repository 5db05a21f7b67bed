"""A policy's memory in Python's hands: one thread at a time, replaced whole, copied whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, ClassVar, Self, TypeVar

from pmbandits.policies._steps import CHOOSE
from pmbandits.policies.build import Plan
from pmbandits.state.guard import claim_memory, prepare, release_memory
from pmbandits.state.memory import Memory
from pmbandits.state.shared import address

_TOKENS = count(2)  # of threads that are alone with a memory (state/guard.py)
T = TypeVar("T")


class Holding:
    """What all policies share: the memory, and who may touch it."""

    _choose: ClassVar[Any]  # compiled: one round's decision
    _plan: Plan
    _now: tuple[int, int, Memory]  # where the kernel is that chooses, and the memory with its address

    def _must_be_bound(self) -> None:
        if "_now" not in self.__dict__:
            raise ValueError(
                f"this {type(self).__name__} is a recipe: give metric, n_arms and support, or call bind(...)."
            )

    @property
    def _memory(self) -> Memory:
        """The policy's memory; what every ask and tell needs of it is kept beside it."""
        return self._now[2]

    @_memory.setter
    def _memory(self, memory: Memory) -> None:
        # The memory is part of what asks and tells look up: so it is not freed before their kernels have returned,
        # even if another thread replaces it meanwhile.
        self._now = _address(self._choose), memory.address, memory

    def _twin(self) -> Self:
        """A copy that can be changed."""
        self._must_be_bound()
        twin: Self = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        if "_now" not in self.__dict__:
            return self._parts()
        return self._alone(lambda: {**self._parts(), "_memory": self._memory.copy()})

    def _parts(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_owner", "_now")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        memory = rest.pop("_memory", None)
        self.__dict__.update(rest)
        self._lock, self._owner = threading.Lock(), 0
        if memory is not None:
            self._memory = memory

    def _alone(self, work: Callable[[], T]) -> T:
        """Do some work while no other thread asks, tells or copies.

        If the work replaces the memory, the old one stays taken: whoever still has its address is sent away by the
        kernels, and comes here. Ctrl-C at any moment leaves the memory free: it is given back by its token, whether or
        not Python still learned that it was taken.
        """
        prepare()
        token, me = next(_TOKENS), threading.get_ident()
        if self._owner == me:
            raise RuntimeError(
                "this policy is at work in this very thread, so a signal handler cannot use it now; "
                "let the handler only take a note, and use the policy afterwards."
            )
        with self._lock:
            try:
                self._owner = me
                while not claim_memory(self._now[1], token):  # somebody asks or tells right now
                    time.sleep(1e-5)
                return work()
            finally:
                self._owner = 0
                release_memory(self._now[1], token)


@cache
def _address(choose: Any) -> int:
    """Where the kernel is that chooses the arm."""
    return address(choose, CHOOSE)
