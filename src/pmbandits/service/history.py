"""How an experiment went: points that are worked out in the background, closer together at first than later."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from pmbandits.engine.policy import Policy
from pmbandits.service.columns import columns_of_policy
from pmbandits.service.experiment import LiveExperiment
from pmbandits.service.group_commit import GroupCommit
from pmbandits.service.replay import PolicyReplay
from pmbandits.service.schema import points
from pmbandits.service.store import Store, now_ms

log = logging.getLogger("pmbandits.service")
EVERY = 2.0  # seconds between two looks
FEWEST, SHARE = 50, 0.02  # a new point after so many events, and after this share of all: some 500 in a million


def history_point(policy: Policy) -> dict[str, Any]:
    """Shares wanted and played, and how sure the mixture is, now."""
    columns = columns_of_policy(policy)
    found: dict[str, Any] = {
        "t": policy.t,
        "rewards": sum(column.pulls - column.pending for column in columns),
        "pulls": {column.name: column.pulls for column in columns},
        "wanted": {column.name: round(column.wanted_of_all, 6) for column in columns},
    }
    if policy.confidence is not None:
        sure = policy.certainty()
        found |= {
            name: _finite_or_none(getattr(sure, name)) for name in ("utility", "lower", "upper", "rival", "regret")
        }
    return found


def _finite_or_none(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def stored_points(store: Store, exp: int, after: int) -> list[dict[str, Any]]:
    """All points of an experiment after an event."""
    wanted = select(points).where(points.c.exp == exp, points.c.seq > after).order_by(points.c.seq)
    with store.engine.connect() as connection:
        return [{"seq": row.seq, "at": row.at, **json.loads(row.content)} for row in connection.execute(wanted)]


def is_point_due(last: int, seen: int) -> bool:
    """Whether it is time for a new point."""
    return seen >= last + max(FEWEST, SHARE * last)


class HistoryWriter:
    """Writes points, in the background of one process."""

    def __init__(self, store: Store, group_commit: GroupCommit) -> None:
        self._store, self._group_commit = store, group_commit
        self._last: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look again and again."""
        self._task = asyncio.get_running_loop().create_task(self._write_points_forever())

    async def stop(self) -> None:
        """No more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _write_points_forever(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            for live in list(self._group_commit.experiment_cache.live_experiments.values()):
                if is_point_due(self._last.get(live.record.id, 0), live.committed):
                    try:
                        await self._write_point_if_due(live)
                    except Exception as error:  # what is shown later lacks a point; nothing else
                        self._last[live.record.id] = live.committed
                        log.warning(
                            "%s: its history got no new point: %s",
                            live.record.name,
                            str(error)[:200],
                        )

    def forget_experiment(self, exp: int) -> None:
        """Look into the store again for the last point of an experiment."""
        self._last.pop(exp, None)

    async def _write_point_if_due(self, live: LiveExperiment) -> None:
        exp = live.record.id
        last = self._last[exp] = await asyncio.to_thread(self._last_point_seq, exp)
        if is_point_due(last, live.committed):  # and no other process was quicker
            replay = (await self._group_commit.read(live, LiveExperiment.copy)).replay
            self._last[exp] = replay.seen
            await asyncio.to_thread(self._write_point, exp, replay)

    def _last_point_seq(self, exp: int) -> int:
        with self._store.engine.connect() as connection:
            found = connection.execute(select(func.max(points.c.seq)).where(points.c.exp == exp)).scalar()
        return int(found or 0)

    def _write_point(self, exp: int, replay: PolicyReplay) -> None:
        content = json.dumps(history_point(replay.policy))
        row = {"exp": exp, "seq": replay.seen, "digest": replay.digest, "at": now_ms(), "content": content}
        try:
            with self._store.write_transaction() as connection:
                if self._store.has_event(connection, exp, replay.seen, replay.digest):
                    connection.execute(insert(points).values(row))
        except IntegrityError:  # somebody wrote the same one
            return
