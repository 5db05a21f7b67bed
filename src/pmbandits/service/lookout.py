"""Watches the arms of all experiments of one process for changes, beside everything else, whether anybody looks or not.

The rewards are read from the store, and only those that are new. Who asks for what was found waits a moment until all
rewards are looked at; else it is done every few seconds, with a small share of a processor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pmbandits import _check
from pmbandits.policies.policy import Policy
from pmbandits.service.book import Book
from pmbandits.service.counting import sample
from pmbandits.service.events import ARCHIVED
from pmbandits.service.live import Live
from pmbandits.service.store import Store
from pmbandits.service.watch import Watch, alarms, watches_itself

log = logging.getLogger("pmbandits.service")
EVERY = 5.0  # seconds between two looks when nobody asks
PATIENCE = 0.5  # seconds for which an answer waits until all rewards are looked at
REST, LONG = 50, 0.05  # it rests so many times as long as a look took, if that was so many seconds: 2 % of a processor
LONGEST = 60.0  # seconds of rest


@dataclass
class _One:
    """One experiment."""

    watch: Watch = field(default_factory=Watch)
    work: asyncio.Task[None] | None = None
    ripe: float = 0.0  # not looked at again before


class Lookout:
    """A watch for each experiment."""

    def __init__(self, store: Store, book: Book, aside: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._store, self._book, self._aside = store, book, aside
        self._ones: dict[int, _One] = {}
        self._task: asyncio.Task[None] | None = None

    def of(self, exp: int) -> Watch:
        """The watch of an experiment."""
        return self._one(exp).watch

    def _one(self, exp: int) -> _One:
        return self._ones.setdefault(exp, _One())

    def start(self) -> None:
        """Look again and again."""
        self._task = asyncio.get_running_loop().create_task(self._keep_looking())

    async def stop(self) -> None:
        """No more."""
        works = [self._task, *(one.work for one in self._ones.values())]
        running = [work for work in works if work is not None and not work.done()]
        for work in running:
            work.cancel()
        if running:
            await asyncio.wait(running)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            for live in list(self._book.lives.values()):
                if live.status != ARCHIVED:
                    self._begin(live)

    def _begin(self, live: Live) -> asyncio.Task[None] | None:
        """Begin to look at what is new, unless that has begun, or rests."""
        one = self._one(live.record.id)
        idle = one.work is None or one.work.done()
        if idle and time.monotonic() >= one.ripe and one.watch.seen < live.fold.seen:
            work = self._look(one, live.record.id, live.fold.policy, live.fold.seen)
            one.work = asyncio.get_running_loop().create_task(work)
        return one.work

    async def _look(self, one: _One, exp: int, policy: Policy, upto: int) -> None:
        spent, done = 0.0, False

        def some() -> tuple[bool, float]:
            began = time.thread_time()
            return one.watch.follow(self._store, exp, policy, upto), time.thread_time() - began

        try:
            while not done:
                done, piece = await self._aside(some)
                spent += piece
        except Exception as error:  # the store is away: what was found stays, and it is tried again
            log.warning("the arms of an experiment are not watched now: %s", _check.readable(str(error))[:200])
            spent = max(spent, LONG)
        one.ripe = time.monotonic() + (min(REST * spent, LONGEST) if spent >= LONG else 0.0)

    async def changes(self, live: Live) -> tuple[list[dict[str, Any]], int | None]:
        """All changes of arms that are known, and up to which event rewards were watched; None if they never were."""
        policy, watch, until = live.fold.policy, self.of(live.record.id), time.monotonic() + PATIENCE
        if watches_itself(policy) or not live.fold.seen:
            return alarms(policy, watch), live.fold.seen
        for _ in range(2):  # work that has begun already may end at an older event
            work = self._begin(live)
            if work is not None:
                await asyncio.wait({work}, timeout=max(0.0, until - time.monotonic()))
        return alarms(policy, watch), watch.seen or None

    async def lines(self, lives: Iterable[Live]) -> list[str]:
        """How many changes each arm has had, for Prometheus.

        An experiment of which not all rewards were looked at yet has no lines: numbers that begin anew at 0 after a
        start would look like changes.
        """
        lives = list(lives)
        out = ["# TYPE pmbandits_experiment_changes gauge"]
        for live, (found, upto) in zip(lives, await asyncio.gather(*map(self.changes, lives)), strict=True):
            if upto is not None and (upto >= live.fold.seen or self.of(live.record.id).whole):
                counts = Counter(change["arm"] for change in found)
                for arm in live.fold.policy.names:
                    labels = {"experiment": live.record.name, "arm": arm}
                    out.append(sample("pmbandits_experiment_changes", labels, counts[arm]))
        return out
