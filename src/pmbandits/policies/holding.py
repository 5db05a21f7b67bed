"""Who holds a policy's memory: one thread at a time; it is replaced and copied as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, ClassVar, Self, TypeVar

from pmbandits.policies._steps import CHOOSE
from pmbandits.policies.bench import Bench
from pmbandits.policies.build import Plan
from pmbandits.policies.tickets import Tickets
from pmbandits.state.guard import claim_memory, prepare, release_memory
from pmbandits.state.memory import Memory
from pmbandits.state.shared import address

_TOKENS = count(2)  # tokens of threads that are alone with a memory (state/guard.py)
T = TypeVar("T")


class Holding:
    """What all policies share: the memory, and who may touch it."""

    _choose: ClassVar[Any]  # compiled: one round's decision
    names: tuple[str, ...]
    _plan: Plan
    # Where the kernel is that chooses, the memory with its address, and who is in it (None: all arms, in their order).
    _now: tuple[int, int, Memory, Bench | None]

    _tickets: Tickets | None = None

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
        self._now = self._moment(memory, self._bench)

    @property
    def _bench(self) -> Bench | None:
        """Who plays and who does not; ``None`` while all arms play that ever were."""
        return self._now[3] if "_now" in self.__dict__ else None

    @property
    def _seated(self) -> tuple[int, ...]:
        """The arms that are in the memory, in its order, counted as users count them."""
        return tuple(range(len(self.names))) if self._bench is None else self._bench.seated

    @property
    def _began(self) -> int:
        """The round in which the clock began: since then shares are kept, and phases go on."""
        return 0 if self._bench is None else self._bench.began

    def _twin(self) -> Self:
        """A copy that can be changed."""
        self._must_be_bound()
        return self._alone(self._replica)

    def _replica(self) -> Self:
        """The same, for whoever is alone with the policy."""
        twin: Self = object.__new__(type(self))
        twin.__setstate__(self._parts())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return self._parts() if "_now" not in self.__dict__ else self._alone(self._parts)

    def _parts(self) -> dict[str, Any]:
        out = {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_owner", "_now")}
        if "_now" in self.__dict__:
            _, _, memory, bench = self._now
            out["_now"] = memory.copy(), None if bench is None else bench.copy()
        if self._tickets is not None:
            out["_tickets"] = self._tickets.copy()
        return out

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._owner = threading.Lock(), 0
        if "_now" in state:
            memory, bench = state["_now"]
            self._now = self._moment(memory, bench)

    def _moment(self, memory: Memory, bench: Bench | None) -> tuple[int, int, Memory, Bench | None]:
        """What asks and tells look up."""
        # The memory is part of it: so it is not freed before their kernels have returned, even if another thread
        # replaces it meanwhile.
        return _address(self._choose), memory.address, memory, bench

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
