"""Transactions on PostgreSQL: one advisory lock for each experiment, held until the transaction ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg
import psycopg.conninfo

from pmbandits.service.events import (
    INSERT,
    SELECT_FROM,
    AnsweredRequest,
    Lookup,
    LookupResult,
    StoredEvent,
    WriteBatch,
    check_not_behind,
)
from pmbandits.service.pg_pipeline import PgPipeline, Step, encode_array, encode_value
from pmbandits.service.schema import LOCK, check_schema_version

SETTINGS = (
    "SET synchronous_commit = on",
    "SET default_transaction_isolation = 'read committed'",  # each statement sees what was committed before it
    "SET lock_timeout = '15s'",
    "SET statement_timeout = '30s'",
    # A process that was stopped, or whose machine is gone, must not keep the others waiting.
    "SET idle_in_transaction_session_timeout = '10s'",
)
_COLUMNS = ("int", "bigint", "smallint", "bigint", "int", "float8", "bigint", "text", "bigint")
_INSERT_EVENTS = "INSERT INTO events (exp, seq, kind, ticket, arm, value, at, data, digest) "
_SELECT_FROM = SELECT_FROM.replace("?", "%s")


def _with_numbered_placeholders(words: str) -> str:
    """A statement with $1, $2, … in place of question marks."""
    parts = words.split("?")
    return parts[0] + "".join(f"${k}{part}" for k, part in enumerate(parts[1:], 1))


STATEMENTS = {
    b"begin": "BEGIN",
    b"lock": f"SELECT pg_advisory_xact_lock({LOCK}, $1::int)",
    b"store": "SELECT version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM schema_version",
    b"from": _with_numbered_placeholders(SELECT_FROM),
    b"arms": "SELECT seq, arm FROM events WHERE exp = $1 AND kind IN (0, 3) AND seq = ANY($2::bigint[])",
    b"told": "SELECT ticket, value, seq FROM events WHERE exp = $1 AND kind = 1 AND ticket IS NOT NULL "
    "AND ticket = ANY($2::bigint[]) UNION ALL SELECT ticket, value, seq FROM events "
    "WHERE exp = $1 AND kind = 2 AND ticket = ANY($2::bigint[]) ORDER BY seq",
    b"keys": "SELECT r.key, r.seq, r.what, e.arm, e.value FROM requests r LEFT JOIN events e "
    "ON e.exp = r.exp AND e.seq >= r.seq AND e.seq < r.seq + r.n "
    "WHERE r.exp = $1 AND r.key = ANY($2::text[]) ORDER BY r.key, e.seq",
    b"places": "SELECT unit, arm FROM units WHERE exp = $1 AND unit = ANY($2::text[])",
    b"event": _INSERT_EVENTS + "VALUES (" + ", ".join(f"${k}::{kind}" for k, kind in enumerate(_COLUMNS, 1)) + ")",
    b"events": _INSERT_EVENTS
    + "SELECT * FROM unnest("
    + ", ".join(f"${k}::{kind}[]" for k, kind in enumerate(_COLUMNS, 1))
    + ")",
    **{
        table.encode(): _with_numbered_placeholders(INSERT[table])
        for table in ("requests", "units", "statuses", "audit")
    },
    b"commit": "COMMIT",
    b"rollback": "ROLLBACK",
}
_KEEPALIVE = (
    "keepalives=1 keepalives_idle=10 keepalives_interval=5 keepalives_count=3 connect_timeout=10 tcp_user_timeout=30000"
)


class PostgresTransaction:
    """A :class:`pmbandits.service.events.Transaction` on PostgreSQL; a broken connection is made anew when needed."""

    def __init__(self, address: str) -> None:
        self._address = psycopg.conninfo.make_conninfo(address, **psycopg.conninfo.conninfo_to_dict(_KEEPALIVE))
        self._pipeline: PgPipeline | None = None
        self._reader: psycopg.Connection[Any] | None = None
        self._reader_lock = threading.Lock()
        self.at = 0

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._address, autocommit=True, prepare_threshold=2)
        connection.execute("; ".join(SETTINGS))
        return connection

    async def run(
        self, lookups: list[Lookup], decide: Callable[[list[LookupResult]], WriteBatch], *, alone: bool
    ) -> None:
        found = await self._begin(lookups)
        try:
            if batch := decide(found):
                await self._commit(batch)
        finally:
            await self._rollback()

    async def _begin(self, lookups: list[Lookup]) -> list[LookupResult]:
        fresh = self._pipeline is None or self._pipeline.broken
        if self._pipeline is None or fresh:
            self._pipeline = await asyncio.to_thread(lambda: PgPipeline(self._connect(), STATEMENTS))
        try:
            return await self._look_up(self._pipeline, lookups)
        except psycopg.OperationalError:
            await self._rollback()
            if fresh or not self._pipeline.broken:
                raise
        except BaseException:
            await self._rollback()
            raise
        return await self._begin(lookups)  # the connection broke while nobody needed it

    async def _look_up(self, pg_pipeline: PgPipeline, lookups: list[Lookup]) -> list[LookupResult]:
        # Each statement sees what was committed when it began: so those after the locks see all that others wrote
        # before they gave them back.
        steps: list[Step] = [(b"begin", ())]
        steps += [(b"lock", (encode_value(lookup.exp),)) for lookup in sorted(lookups, key=lambda lookup: lookup.exp)]
        steps.append((b"store", ()))
        for lookup in lookups:
            exp = encode_value(lookup.exp)
            steps.append((b"from", (exp, encode_value(lookup.seen), exp, encode_value(lookup.limit))))
            if lookup.tickets:
                named = (exp, encode_array(lookup.tickets))
                steps += [(b"arms", named), (b"told", named)]
            if lookup.keys:
                steps.append((b"keys", (exp, encode_array(lookup.keys))))
            if lookup.units:
                steps.append((b"places", (exp, encode_array(lookup.units))))
        answers = iter((await pg_pipeline.run_statements(steps))[1 + len(lookups) :])
        ((version, self.at),) = pg_pipeline.result_rows(next(answers))
        check_schema_version(version)
        return [
            _lookup_result_from_rows(lookup, (pg_pipeline.result_rows(result) for result in answers))
            for lookup in lookups
        ]

    async def _commit(self, batch: WriteBatch) -> None:
        assert self._pipeline is not None
        steps: list[Step] = []
        if len(batch.events) == 1:
            steps.append((b"event", [encode_value(value) for value in batch.events[0]]))
        elif batch.events:
            steps.append((b"events", [encode_array(column) for column in zip(*batch.events, strict=True)]))
        for table in ("requests", "units", "statuses", "audit"):
            steps += [(table.encode(), [encode_value(value) for value in row]) for row in getattr(batch, table)]
        done = (await self._pipeline.run_statements([*steps, (b"commit", ())]))[-1]
        if done.command_status != b"COMMIT":
            raise psycopg.OperationalError("the transaction was rolled back")

    async def _rollback(self) -> None:
        if self._pipeline is None or self._pipeline.broken or self._pipeline.is_idle:
            return
        try:
            await self._pipeline.run_statements([(b"rollback", ())])
        except psycopg.Error:
            self._pipeline.close()

    def new_events(self, exp: int, seen: int, limit: int) -> list[StoredEvent]:
        with self._reader_lock:
            for attempt in (1, 2):
                try:
                    if self._reader is None or self._reader.closed:
                        self._reader = self._connect()
                    return self._reader.execute(_SELECT_FROM, (exp, seen, exp, limit)).fetchall()
                except psycopg.OperationalError:
                    if self._reader is not None:
                        with suppress(Exception):
                            self._reader.close()
                    if attempt == 2:
                        raise
        raise AssertionError

    def close(self) -> None:
        if self._pipeline is not None:
            self._pipeline.close()
        if self._reader is not None:
            with suppress(Exception):
                self._reader.close()


def _lookup_result_from_rows(lookup: Lookup, rows: Iterator[list[Any]]) -> LookupResult:
    found = LookupResult(new_events=next(rows))
    check_not_behind(lookup, found.new_events)
    if lookup.tickets:
        found.tickets = dict(next(rows))
        found.rewarded = {ticket: value for ticket, value, _ in next(rows)}
    if lookup.keys:
        for key, lines in groupby(next(rows), key=itemgetter(0)):
            parts = list(lines)
            found.keys[key] = AnsweredRequest(parts[0][1], parts[0][2], [part[3:] for part in parts])
    if lookup.units:
        found.units = dict(next(rows))
    return found
