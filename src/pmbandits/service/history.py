"""How an experiment went: points that are worked out in the background, closer together at first than later."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from pmbandits import _check
from pmbandits.policies.policy import Policy
from pmbandits.service.book import Book
from pmbandits.service.live import Live
from pmbandits.service.schema import points
from pmbandits.service.store import Store, now

log = logging.getLogger("pmbandits.service")
EVERY = 2.0  # seconds between two looks
FEWEST, SHARE = 50, 0.02  # a new point after so many events, and after this share of all: some 500 in a million


def point(policy: Policy) -> dict[str, Any]:
    """Shares wanted and played, and how sure the mixture is, now."""
    pulls, t, mixture = policy.pulls, policy.t, policy.mixture
    found: dict[str, Any] = {
        "t": t,
        "rewards": int(pulls.sum() - policy.pending.sum()),
        "pulls": dict(zip(policy.names, (int(n) for n in pulls), strict=True)),
        "wanted": dict(zip(policy.names, (round(float(share), 6) for share in mixture), strict=True)),
    }
    if policy.confidence is not None:
        sure = policy.certainty(mixture)
        found |= {name: _number(getattr(sure, name)) for name in ("utility", "lower", "upper", "rival", "regret")}
    return found


def _number(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def written(store: Store, exp: int, after: int) -> list[dict[str, Any]]:
    """All points of an experiment after an event."""
    wanted = select(points).where(points.c.exp == exp, points.c.seq > after).order_by(points.c.seq)
    with store.engine.connect() as connection:
        return [{"seq": row.seq, "at": row.at, **json.loads(row.content)} for row in connection.execute(wanted)]


def due(last: int, seen: int) -> bool:
    """Whether it is time for a new point."""
    return seen >= last + max(FEWEST, SHARE * last)


class Historian:
    """Writes points, in the background of one process."""

    def __init__(self, store: Store, book: Book) -> None:
        self._store, self._book = store, book
        self._last: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look again and again."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """No more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            for live in list(self._book.lives.values()):
                if due(self._last.get(live.record.id, 0), live.fold.seen):
                    try:
                        await self._look(live)
                    except Exception as error:  # what is shown later lacks a point; nothing else
                        self._last[live.record.id] = live.fold.seen
                        log.warning(
                            "%s: its history got no new point: %s", live.record.name, _check.readable(str(error))[:200]
                        )

    async def _look(self, live: Live) -> None:
        exp, seen = live.record.id, live.fold.seen
        last = await asyncio.to_thread(self._newest, exp)
        self._last[exp] = last
        if due(last, seen):  # and no other process was quicker
            twin, seen = live.fold.twin(), live.fold.seen
            self._last[exp] = seen
            await asyncio.to_thread(self._write, exp, seen, twin)

    def _newest(self, exp: int) -> int:
        with self._store.engine.connect() as connection:
            found = connection.execute(select(func.max(points.c.seq)).where(points.c.exp == exp)).scalar()
        return int(found or 0)

    def _write(self, exp: int, seen: int, twin: Policy) -> None:
        content = json.dumps(point(twin))
        try:
            with self._store.writing() as connection:
                connection.execute(insert(points).values(exp=exp, seq=seen, at=now(), content=content))
        except IntegrityError:  # somebody wrote the same one
            return
