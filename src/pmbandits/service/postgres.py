"""The way into PostgreSQL: one advisory lock for each experiment, held until the transaction ends."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
import psycopg.conninfo

from pmbandits.service.events import INSERT, MOST_BEHIND, RANGE, TAIL, Batch, Behind, Done, Found, Old, Want

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
_EVENTS = (
    "INSERT INTO events (exp, seq, kind, ticket, arm, value, at, data) SELECT * FROM unnest("
    + ", ".join(f"%b::{kind}[]" for kind in _COLUMNS)
    + ")"
)
_OTHERS = {table: INSERT[table].replace("?", "%s") for table in ("requests", "units", "statuses", "audit")}
_RANGE = RANGE.replace("?", "%s")
_TAIL = TAIL.replace("?", "%s")
_ALIVE = "keepalives=1 keepalives_idle=10 keepalives_interval=5 keepalives_count=3 connect_timeout=10"


class PostgresLane:
    """See :class:`pmbandits.service.events.Lane`. A connection that breaks is made anew at the next turn."""

    def __init__(self, address: str) -> None:
        self._address = psycopg.conninfo.make_conninfo(address, **psycopg.conninfo.conninfo_to_dict(_ALIVE))
        self._turn: psycopg.Connection[Any] | None = None
        self._reader: psycopg.Connection[Any] | None = None

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._address, autocommit=True, prepare_threshold=2)
        connection.execute("; ".join(SETTINGS))
        return connection

    def at_once(self, wants: list[Want]) -> list[Found] | None:
        return None  # it is far away

    def begin(self, wants: list[Want]) -> list[Found]:
        fresh = self._turn is None or self._turn.closed
        if self._turn is None or fresh:
            self._turn = self._connect()
        try:
            return self._look(self._turn, wants)
        except psycopg.OperationalError:
            self.abandon()
            if fresh or not self._turn.closed:
                raise
        except BaseException:
            self.abandon()
            raise
        return self.begin(wants)  # the connection broke while nobody needed it: nothing was decided yet

    def _look(self, connection: psycopg.Connection[Any], wants: list[Want]) -> list[Found]:
        # Everything of numbers goes in one message. Each statement sees what was committed when it began: so those
        # after the locks see all that others wrote before they gave them back.
        words = ["BEGIN"]
        words += [f"SELECT pg_advisory_xact_lock({LOCK}, {want.exp})" for want in sorted(wants, key=lambda w: w.exp)]
        for want in wants:
            words.append(
                "SELECT seq, kind, ticket, arm, value, data FROM events "
                f"WHERE exp = {int(want.exp)} AND seq >= {int(want.seen)} ORDER BY seq LIMIT {MOST_BEHIND}"
            )
            if want.tickets:
                named = ",".join(str(int(ticket)) for ticket in want.tickets)
                words.append(
                    f"SELECT seq, arm, NULL FROM events WHERE exp = {int(want.exp)} AND kind IN (0, 3) "
                    f"AND seq IN ({named})"
                )
                words.append(
                    f"SELECT ticket, value, seq FROM events WHERE exp = {int(want.exp)} AND kind = 1 "
                    f"AND ticket IS NOT NULL AND ticket IN ({named}) UNION ALL SELECT ticket, value, seq FROM events "
                    f"WHERE exp = {int(want.exp)} AND kind = 2 AND ticket IN ({named}) ORDER BY seq"
                )
        cursor = connection.execute("; ".join(words))
        for _ in range(len(wants) + 1):
            cursor.nextset()
        out = []
        for want in wants:
            found = Found(tail=cursor.fetchall())
            cursor.nextset()
            if len(found.tail) == MOST_BEHIND:
                raise Behind(want.exp)
            if want.tickets:
                found.tickets = {seq: arm for seq, arm, _ in cursor.fetchall()}
                cursor.nextset()
                found.told = {ticket: value for ticket, value, _ in cursor.fetchall()}
                cursor.nextset()
            if want.keys:
                rows = connection.execute(
                    "SELECT key, seq, n, what FROM requests WHERE exp = %s AND key = ANY(%s)",
                    (want.exp, list(want.keys)),
                )
                for key, seq, n, what in rows.fetchall():
                    led = connection.execute(_RANGE, (want.exp, seq, seq + n)).fetchall()
                    found.keys[key] = Done(seq, what, led)
            if want.units:
                rows = connection.execute(
                    "SELECT unit, arm FROM units WHERE exp = %s AND unit = ANY(%s)", (want.exp, list(want.units))
                )
                found.units = dict(rows.fetchall())
            out.append(found)
        return out

    def commit(self, batch: Batch) -> None:
        connection = self._turn
        assert connection is not None
        try:
            with connection.pipeline():
                if batch.events:
                    connection.execute(_EVENTS, [list(column) for column in zip(*batch.events, strict=True)])
                for table, statement in _OTHERS.items():
                    for row in getattr(batch, table):
                        connection.execute(statement, row)
                connection.execute("COMMIT")
        finally:
            self.abandon()

    def abandon(self) -> None:
        if self._turn is None or self._turn.closed:
            return
        status = psycopg.pq.TransactionStatus
        try:
            if self._turn.info.transaction_status != status.IDLE:
                self._turn.execute("ROLLBACK")
        except psycopg.Error:
            with suppress(Exception):
                self._turn.close()  # the server rolls back, and gives the locks back

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
        for connection in (self._turn, self._reader):
            if connection is not None:
                with suppress(Exception):
                    connection.close()
