"""The experiments that this process has in memory: read when they are first needed, and anew when in doubt."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pmbandits import _check
from pmbandits.service import warmth
from pmbandits.service.events import Lane
from pmbandits.service.fold import Fold, made, packed, unpacked
from pmbandits.service.live import Live
from pmbandits.service.store import Record, Store

log = logging.getLogger("pmbandits.service")
CHUNK = 100_000  # events that are read at once
FEWEST = 20_000  # new events before a policy is saved again, and a quarter of all


class Book:
    """Experiments by name."""

    def __init__(self, store: Store, lane: Lane, *, warm: bool = True) -> None:
        self.store, self.lane, self.warm = store, lane, warm
        self.lives: dict[str, Live] = {}
        self.saved: dict[int, int] = {}  # the event after which each was saved last
        self._reading: dict[str, asyncio.Lock] = {}
        self._saving: set[asyncio.Task[Any]] = set()

    async def find(self, name: str) -> Live | None:
        """An experiment that is up to date, or was a moment ago."""
        live = self.lives.get(name)
        if live is not None:
            return live
        lock = self._reading.setdefault(name, asyncio.Lock())
        async with lock:
            live = self.lives.get(name)
            if live is None:
                record = await asyncio.to_thread(self.store.find, name)
                if record is None:
                    self._reading.pop(name, None)
                    return None
                live = await asyncio.to_thread(self.read, record)
                if self.warm:
                    await asyncio.to_thread(warmth.warm, live.fold.policy)
                self.lives[name] = live
            return live

    def read(self, record: Record) -> Live:
        """An experiment from the store: the newest saved policy, and all events after it."""
        fold = self._begun(record)
        self.saved[record.id] = fold.seen
        record = self.store.find(record.name) or record  # its status is now at least as new as the saved policy
        live = Live(record, fold)
        while rows := self.lane.tail(record.id, fold.seen, CHUNK):
            live.others += fold.apply(rows)
        if live.others:
            log.warning(
                "%s: the policy would have asked for other arms than the stored ones", _check.readable(record.name)
            )
        return live

    def _begun(self, record: Record) -> Fold:
        """The newest saved policy that can be read; without one, a new policy."""
        upto = None
        while (snapshot := self.store.snapshot(record.id, upto)) is not None:
            try:
                return Fold(unpacked(snapshot[1]), snapshot[0])
            except ValueError as error:
                if snapshot[0] == 0:  # it was imported: there is nothing else to begin with
                    raise
                log.warning("%s: a saved policy is left out: %s", record.name, _check.readable(str(error))[:300])
                upto = snapshot[0] - 1
        return Fold(made(record.spec))

    def drop(self, live: Live, why: Exception | None = None) -> None:
        """Forget what is in memory; the next request reads it anew."""
        if self.lives.get(live.record.name) is live:
            del self.lives[live.record.name]
        if why is not None:
            log.warning("%s: %s", _check.readable(live.record.name), _check.readable(str(why))[:300])

    def moved(self, live: Live) -> None:
        """Note that an experiment has new events: now and then its policy is saved, in the background."""
        exp, seen = live.record.id, live.fold.seen
        last = self.saved.get(exp, 0)
        if seen - last >= max(FEWEST, seen // 4):
            self.saved[exp] = seen
            twin = live.fold.twin()
            task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._save, exp, seen, twin))
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    def _save(self, exp: int, seen: int, twin: Any) -> None:
        try:
            self.store.keep(exp, seen, packed(twin))
        except Exception as error:  # the events are safe; the next start takes a little longer
            log.warning("a policy could not be saved: %s", _check.readable(str(error))[:300])

    async def close(self) -> None:
        """Wait for what is being saved."""
        if self._saving:
            await asyncio.wait(self._saving)
