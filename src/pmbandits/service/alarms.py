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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pmbandits.estimates.change_detector import Change
from pmbandits.service.change_log import ChangeAlarm, ChangeWatch
from pmbandits.service.experiment import CommittedExperiment, LiveExperiment
from pmbandits.service.store import Store

log = logging.getLogger("pmbandits.service")
PATIENCE = 0.5  # seconds for which an answer waits until all rewards are looked at
REST = 20  # after work that took long, nothing for so many times as long: it takes 5 % of a processor at most
LONG = 0.05  # seconds
MOST_ARMS = 1000  # of more arms nothing is watched: each takes 35 kB of memory


@dataclass
class _WatchedExperiment:
    """One experiment."""

    watch: ChangeWatch = field(default_factory=ChangeWatch)
    lock: threading.Lock = field(default_factory=threading.Lock)
    work: asyncio.Task[None] | None = None
    next_run_at: float = 0.0  # not looked at again before
    complete: bool = False  # all rewards of some moment were looked at


class Watched(NamedTuple):
    """Which rewards to look at: of which experiment, up to which event; and what its policy found itself, if it did."""

    exp: int
    names: dict[int, str]  # of arms, or of pairs of a segment and an arm, by their number in events
    upto: int
    own: tuple[Change, ...] | None

    @classmethod
    def from_experiment(cls, one: LiveExperiment | CommittedExperiment) -> Watched:
        """An experiment as it is now."""
        policy = one.replay.policy
        own = None if policy.options.get("detect") is None else tuple(policy.changes)
        return cls(one.record.id, one.replay.column_names, one.replay.seen, own)


class ChangeAlarms:
    """What was found, of each experiment."""

    def __init__(self, store: Store, run_in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._store, self._run_in_thread = store, run_in_thread
        self._watched_experiments: dict[int, _WatchedExperiment] = {}

    def catch_up_to(self, exp: int, names: dict[int, str], upto: int) -> tuple[ChangeWatch, bool]:
        """Look at some of the rewards that are new; the watch, and whether it has seen all. For any thread."""
        entry = self._watched_experiments.setdefault(exp, _WatchedExperiment())
        with entry.lock:
            upto = min(upto, self._store.last_seq(exp))  # what is decided, but not on disk yet, is not jumped over
            done = entry.watch.catch_up_to(self._store, exp, names, upto)
            entry.complete = entry.complete or done
        return entry.watch, done

    def forget_experiment(self, exp: int) -> None:
        """Look at all rewards of an experiment again."""
        self._watched_experiments.pop(exp, None)

    async def changes_found(self, what: Watched) -> tuple[list[ChangeAlarm], int | None]:
        """All changes that are known, oldest first, and up to which event rewards were looked at; None if never.

        A policy that watches its arms itself is believed.
        """
        if what.own is not None:
            return [ChangeAlarm(change, None, None) for change in what.own], what.upto
        if len(what.names) > MOST_ARMS:
            return [], None
        entry = self._watched_experiments.setdefault(what.exp, _WatchedExperiment())
        until = time.monotonic() + PATIENCE
        for _ in range(2):  # work that has begun already may end at an older event
            self._start_watching_if_due(entry, what)
            if entry.work is not None:
                await asyncio.wait({entry.work}, timeout=max(0.0, until - time.monotonic()))
        return list(entry.watch.found), entry.watch.seen if entry.complete else None

    def _start_watching_if_due(self, entry: _WatchedExperiment, what: Watched) -> None:
        idle = entry.work is None or entry.work.done()
        if idle and time.monotonic() >= entry.next_run_at and entry.watch.seen < what.upto:
            work = self._look_at_new_rewards(entry, what.exp, what.names, what.upto)
            entry.work = asyncio.get_running_loop().create_task(work)

    async def _look_at_new_rewards(self, entry: _WatchedExperiment, exp: int, names: dict[int, str], upto: int) -> None:
        spent, done = 0.0, False

        def follow_some() -> tuple[bool, float]:
            began = time.thread_time()
            return self.catch_up_to(exp, names, upto)[1], time.thread_time() - began

        try:
            while not done:
                done, piece = await self._run_in_thread(follow_some)
                spent += piece
        except Exception as error:  # the store is away: what was found stays, and it is tried again
            log.warning("rewards could not be watched for changes: %s", str(error)[:300])
            spent = max(spent, LONG)
        entry.next_run_at = time.monotonic() + (REST * spent if spent >= LONG else 0.0)

    async def n_changes_by_arm(self, what: Watched) -> dict[str, int] | None:
        """How many changes each arm has had.

        None while not all rewards were looked at: numbers that begin anew at 0 after a start would look like changes.
        """
        found, upto = await self.changes_found(what)
        counts = Counter(alarm.change.arm for alarm in found)
        return None if upto is None else {arm: counts[arm] for arm in what.names.values()}

    async def stop(self) -> None:
        """No more."""
        works = [
            entry.work
            for entry in self._watched_experiments.values()
            if entry.work is not None and not entry.work.done()
        ]
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works)
