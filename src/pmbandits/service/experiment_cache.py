"""A cache of the experiments in memory: read when first needed, and read again when in doubt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from pmbandits.service import warmup
from pmbandits.service.events import Transaction
from pmbandits.service.experiment import LiveExperiment
from pmbandits.service.randomised import initial_draws_of_spec
from pmbandits.service.replay import Diverged, PolicyReplay, policy_from_bytes, policy_from_spec, policy_to_bytes
from pmbandits.service.store import ExperimentRecord, Snapshot, Store

log = logging.getLogger("pmbandits.service")
CHUNK = 100_000  # events that are read at once
FEWEST = 20_000  # new events before a policy is saved again, and a quarter of all


class ExperimentCache:
    """Experiments by name."""

    def __init__(self, store: Store, transaction: Transaction, *, warm: bool = True) -> None:
        self.store, self.transaction, self.warm = store, transaction, warm
        self.live_experiments: dict[str, LiveExperiment] = {}
        self.saved: dict[int, int] = {}  # the event after which each was saved last
        self._load_locks: dict[str, asyncio.Lock] = {}
        self._saving: set[asyncio.Task[Any]] = set()
        self.on_divergence: list[Callable[[int], None]] = []  # what is called when a store went back in time

    async def find_live_experiment(self, name: str) -> LiveExperiment | None:
        """An experiment that is up to date, or was a moment ago."""
        live = self.live_experiments.get(name)
        if live is not None:
            return live
        lock = self._load_locks.setdefault(name, asyncio.Lock())
        async with lock:
            live = self.live_experiments.get(name)
            if live is None:
                record = await asyncio.to_thread(self.store.find_experiment, name)
                if record is None:
                    self._load_locks.pop(name, None)
                    return None
                live = await asyncio.to_thread(self.load_experiment, record)
                if self.warm:
                    await asyncio.to_thread(warmup.warm_up_new_policy, live.replay.policy)
                await asyncio.to_thread(
                    warmup.warm_up_copy_of_policy, live.replay.policy
                )  # else the first request would compile it
                self.live_experiments[name] = live
            return live

    def load_experiment(self, record: ExperimentRecord) -> LiveExperiment:
        """An experiment from the store: the newest saved policy, and all events after it."""
        record = self.store.find_experiment(record.name) or record
        upto = None
        while True:
            replay = self._policy_from_newest_snapshot(record, upto)
            live = LiveExperiment(record, replay)
            begins = replay.seen
            try:
                while live.apply_events_of_others(self.transaction.new_events(record.id, replay.seen, CHUNK)):
                    pass
            except Diverged as error:
                if begins == 0:
                    raise
                log.error("%s: a saved policy is dropped: %s", record.name, error)
                self.store.drop_snapshot(record.id, begins)
                upto = begins - 1
                continue
            break
        self.saved[record.id] = begins
        live.trim_caches()
        if live.disagreements:
            log.warning(
                "%s: the policy would have asked for other arms than the stored ones",
                record.name,
            )
        return live

    def _policy_from_newest_snapshot(self, record: ExperimentRecord, upto: int | None) -> PolicyReplay:
        """The newest saved policy that can be read; without one, a new policy."""
        while (saved := self.store.newest_snapshot(record.id, upto)) is not None:
            try:
                return PolicyReplay(
                    policy_from_bytes(saved.content),
                    saved.seq,
                    saved.digest,
                    self.store.draws_after_event(record, saved.seq),
                )
            except ValueError as error:
                if saved.seq == 0:  # it was imported: there is nothing else to begin with
                    raise
                log.warning(
                    "%s: a saved policy is left out: %s",
                    record.name,
                    str(error)[:300],
                )
                upto = saved.seq - 1
        return PolicyReplay(
            policy_from_spec(record.spec), 0, record.root, initial_draws_of_spec(record.spec, record.root)
        )

    def evict(self, live: LiveExperiment, why: Exception | None = None) -> None:
        """Evict an experiment from memory; the next request reads it from the store."""
        if self.live_experiments.get(live.record.name) is live:
            del self.live_experiments[live.record.name]
        if why is not None:
            level = logging.ERROR if isinstance(why, Diverged) else logging.WARNING
            log.log(level, "%s: %s", live.record.name, str(why)[:300])
        if isinstance(why, Diverged):
            for forget in self.on_divergence:
                forget(live.record.id)

    def count_new_events_and_maybe_save(self, live: LiveExperiment) -> None:
        """Note that an experiment has new events: now and then its policy is saved, in the background."""
        exp, seen = live.record.id, live.replay.seen
        last = self.saved.get(exp, 0)
        if seen - last >= max(FEWEST, seen // 4):
            self.saved[exp] = seen
            task = asyncio.get_running_loop().create_task(
                asyncio.to_thread(self._save_snapshot, exp, live.replay.copy())
            )
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    def _save_snapshot(self, exp: int, replay: PolicyReplay) -> None:
        try:
            content = policy_to_bytes(replay.policy)
            self.store.save_snapshot(exp, Snapshot(replay.seen, replay.digest, content))
        except Exception as error:  # the events are safe; the next start takes a little longer
            log.warning("a policy could not be saved: %s", str(error)[:300])

    async def close(self) -> None:
        """Wait for what is being saved, for a moment."""
        if self._saving:
            await asyncio.wait(self._saving, timeout=5.0)
