"""The way into PostgreSQL: one advisory lock for each experiment, held until the transaction ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg
import psycopg.conninfo

from pmbandits.service.events import FROM, INSERT, MOST_BEHIND, TAIL, Batch, Behind, Done, Found, Old, Want
from pmbandits.service.line import Line, Step, array, text

LOCK = 0x706D62  # "pmb": the first half of our advisory locks; the second is the number of the experiment
SETTINGS = (
    "SET synchronous_commit = on",
    "SET default_transaction_isolation = 'read committed'",  # each statement sees what was committed before it
    "SET lock_timeout = '15s'",
    "SET statement_timeout = '30s'",
    # A process that was stopped, or whose machine is gone, must not keep the others waiting.
    "SET idle_in_transaction_session_timeout = '10s'",
)
_COLUMNS = ("int", "bigint", "smallint", "bigint", "int", "float8", "bigint", "text")
_NAMES = "INSERT INTO events (exp, seq, kind, ticket, arm, value, at, data) "
_TAIL = TAIL.replace("?", "%s")


def _numbered(words: str) -> str:
    """A statement with $1, $2, … in place of question marks."""
    parts = words.split("?")
    return parts[0] + "".join(f"${k}{part}" for k, part in enumerate(parts[1:], 1))


STATEMENTS = {
    b"begin": "BEGIN",
    b"lock": f"SELECT pg_advisory_xact_lock({LOCK}, $1::int)",
    b"from": _numbered(FROM.replace("LIMIT ?", f"LIMIT {MOST_BEHIND}")),
    b"arms": "SELECT seq, arm FROM events WHERE exp = $1 AND kind IN (0, 3) AND seq = ANY($2::bigint[])",
    b"told": "SELECT ticket, value, seq FROM events WHERE exp = $1 AND kind = 1 AND ticket IS NOT NULL "
    "AND ticket = ANY($2::bigint[]) UNION ALL SELECT ticket, value, seq FROM events "
    "WHERE exp = $1 AND kind = 2 AND ticket = ANY($2::bigint[]) ORDER BY seq",
    b"keys": "SELECT r.key, r.seq, r.what, e.arm, e.value FROM requests r LEFT JOIN events e "
    "ON e.exp = r.exp AND e.seq >= r.seq AND e.seq < r.seq + r.n "
    "WHERE r.exp = $1 AND r.key = ANY($2::text[]) ORDER BY r.key, e.seq",
    b"places": "SELECT unit, arm FROM units WHERE exp = $1 AND unit = ANY($2::text[])",
    b"event": _NAMES + "VALUES (" + ", ".join(f"${k}::{kind}" for k, kind in enumerate(_COLUMNS, 1)) + ")",
    b"events": _NAMES
    + "SELECT * FROM unnest("
    + ", ".join(f"${k}::{kind}[]" for k, kind in enumerate(_COLUMNS, 1))
    + ")",
    **{table.encode(): _numbered(INSERT[table]) for table in ("requests", "units", "statuses", "audit")},
    b"commit": "COMMIT",
    b"rollback": "ROLLBACK",
}
_ALIVE = (
    "keepalives=1 keepalives_idle=10 keepalives_interval=5 keepalives_count=3 connect_timeout=10 tcp_user_timeout=30000"
)


class PostgresLane:
    """See :class:`pmbandits.service.events.Lane`. A connection that breaks is made anew at the next turn."""

    def __init__(self, address: str) -> None:
        self._address = psycopg.conninfo.make_conninfo(address, **psycopg.conninfo.conninfo_to_dict(_ALIVE))
        self._line: Line | None = None
        self._reader: psycopg.Connection[Any] | None = None

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._address, autocommit=True, prepare_threshold=2)
        connection.execute("; ".join(SETTINGS))
        return connection

    async def begin(self, wants: list[Want], *, alone: bool) -> list[Found]:
        fresh = self._line is None or self._line.broken
        if self._line is None or fresh:
            self._line = await asyncio.to_thread(lambda: Line(self._connect(), STATEMENTS))
        try:
            return await self._look(self._line, wants)
        except psycopg.OperationalError:
            await self.abandon()
            if fresh or not self._line.broken:
                raise
        except BaseException:
            await self.abandon()
            raise
        return await self.begin(wants, alone=alone)  # the connection broke while nobody needed it

    async def _look(self, line: Line, wants: list[Want]) -> list[Found]:
        # Each statement sees what was committed when it began: so those after the locks see all that others wrote
        # before they gave them back.
        steps: list[Step] = [(b"begin", ())]
        steps += [(b"lock", (text(want.exp),)) for want in sorted(wants, key=lambda want: want.exp)]
        for want in wants:
            exp = text(want.exp)
            steps.append((b"from", (exp, text(want.seen))))
            if want.tickets:
                named = (exp, array(want.tickets))
                steps += [(b"arms", named), (b"told", named)]
            if want.keys:
                steps.append((b"keys", (exp, array(want.keys))))
            if want.units:
                steps.append((b"places", (exp, array(want.units))))
        answers = iter((await line.run(steps))[1 + len(wants) :])
        return [_found(want, (line.rows(result) for result in answers)) for want in wants]

    async def commit(self, batch: Batch) -> None:
        assert self._line is not None
        steps: list[Step] = []
        if len(batch.events) == 1:
            steps.append((b"event", [text(value) for value in batch.events[0]]))
        elif batch.events:
            steps.append((b"events", [array(column) for column in zip(*batch.events, strict=True)]))
        for table in ("requests", "units", "statuses", "audit"):
            steps += [(table.encode(), [text(value) for value in row]) for row in getattr(batch, table)]
        try:
            done = (await self._line.run([*steps, (b"commit", ())]))[-1]
            if done.command_status != b"COMMIT":
                raise psycopg.OperationalError("the transaction was rolled back")
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        if self._line is None or self._line.broken or self._line.idle:
            return
        try:
            await self._line.run([(b"rollback", ())])
        except psycopg.Error:
            self._line.close()

    def tail(self, exp: int, seen: int, limit: int) -> list[Old]:
        for attempt in (1, 2):
            try:
                if self._reader is None or self._reader.closed:
                    self._reader = self._connect()
                return self._reader.execute(_TAIL, (exp, seen, limit)).fetchall()
            except psycopg.OperationalError:
                if self._reader is not None:
                    with suppress(Exception):
                        self._reader.close()
                if attempt == 2:
                    raise
        raise AssertionError

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._reader is not None:
            with suppress(Exception):
                self._reader.close()


def _found(want: Want, rows: Iterator[list[Any]]) -> Found:
    found = Found(tail=next(rows))
    if len(found.tail) == MOST_BEHIND:
        raise Behind(want.exp)
    if want.tickets:
        found.tickets = dict(next(rows))
        found.told = {ticket: value for ticket, value, _ in next(rows)}
    if want.keys:
        for key, lines in groupby(next(rows), key=itemgetter(0)):
            parts = list(lines)
            found.keys[key] = Done(parts[0][1], parts[0][2], [part[3:] for part in parts])
    if want.units:
        found.units = dict(next(rows))
    return found
