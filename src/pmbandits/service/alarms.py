"""Arms whose rewards changed, of all experiments of one process: looked for whenever somebody asks, board or no board.

The rewards are read from the store, beside everything else, and only those that are new. So whoever asks often, such as
Prometheus, keeps the process up to date, and a process that nobody asks spends nothing on it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pmbandits import _check
from pmbandits.service.counting import sample
from pmbandits.service.live import Live
from pmbandits.service.store import Store
from pmbandits.service.watch import Alarm, Watch

log = logging.getLogger("pmbandits.service")
PATIENCE = 0.5  # seconds for which an answer waits until all rewards are looked at
REST = 20  # after work that took long, nothing for so many times as long: it takes 5 % of a processor at most
LONG = 0.05  # seconds
MOST_ARMS = 1000  # of more arms nothing is watched: each takes 35 kB of memory


@dataclass
class _One:
    """One experiment."""

    watch: Watch = field(default_factory=Watch)
    lock: threading.Lock = field(default_factory=threading.Lock)
    work: asyncio.Task[None] | None = None
    ripe: float = 0.0  # not looked at again before
    whole: bool = False  # all rewards of some moment were looked at


class Alarms:
    """What was found, of each experiment."""

    def __init__(self, store: Store, aside: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._store, self._aside = store, aside
        self._ones: dict[int, _One] = {}

    def follow(self, exp: int, names: tuple[str, ...], upto: int) -> tuple[Watch, bool]:
        """Look at some of the rewards that are new; the watch, and whether it has seen all. For any thread."""
        one = self._ones.setdefault(exp, _One())
        with one.lock:
            upto = min(upto, self._store.last(exp))  # what is decided, but not on disk yet, is not jumped over
            done = one.watch.follow(self._store, exp, names, upto)
            one.whole = one.whole or done
        return one.watch, done

    async def of(self, live: Live) -> tuple[list[Alarm], int | None]:
        """All changes that are known, oldest first, and up to which event rewards were looked at; None if never.

        A policy that watches its arms itself is believed.
        """
        policy = live.fold.policy
        if policy.options.get("detect") is not None:
            return [Alarm(change, None, None) for change in policy.changes], live.fold.seen
        if policy.n_arms > MOST_ARMS:
            return [], None
        one = self._ones.setdefault(live.record.id, _One())
        until = time.monotonic() + PATIENCE
        for _ in range(2):  # work that has begun already may end at an older event
            self._begin(one, live)
            if one.work is not None:
                await asyncio.wait({one.work}, timeout=max(0.0, until - time.monotonic()))
        return list(one.watch.found), one.watch.seen if one.whole else None

    def _begin(self, one: _One, live: Live) -> None:
        idle = one.work is None or one.work.done()
        if idle and time.monotonic() >= one.ripe and one.watch.seen < live.fold.seen:
            work = self._run(one, live.record.id, live.fold.policy.names, live.fold.seen)
            one.work = asyncio.get_running_loop().create_task(work)

    async def _run(self, one: _One, exp: int, names: tuple[str, ...], upto: int) -> None:
        spent, done = 0.0, False

        def some() -> tuple[bool, float]:
            began = time.thread_time()
            return self.follow(exp, names, upto)[1], time.thread_time() - began

        try:
            while not done:
                done, piece = await self._aside(some)
                spent += piece
        except Exception as error:  # the store is away: what was found stays, and it is tried again
            log.warning("rewards could not be watched for changes: %s", _check.readable(str(error))[:300])
            spent = max(spent, LONG)
        one.ripe = time.monotonic() + (REST * spent if spent >= LONG else 0.0)

    async def lines(self, lives: Iterable[Live]) -> list[str]:
        """How many changes each arm has had, for Prometheus.

        An experiment of which not all rewards were looked at has no lines: numbers that begin anew at 0 after a start
        would look like changes.
        """
        lives = list(lives)
        out = ["# TYPE pmbandits_experiment_changes gauge"]
        for live, (found, upto) in zip(lives, await asyncio.gather(*map(self.of, lives)), strict=True):
            if upto is not None:
                counts = Counter(alarm.change.arm for alarm in found)
                for arm in live.fold.policy.names:
                    labels = {"experiment": live.record.name, "arm": arm}
                    out.append(sample("pmbandits_experiment_changes", labels, counts[arm]))
        return out

    async def stop(self) -> None:
        """No more."""
        works = [one.work for one in self._ones.values() if one.work is not None and not one.work.done()]
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works)
