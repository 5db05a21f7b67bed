"""A pipelined connection to PostgreSQL: prepared statements, sent and answered together, in the event loop.

The cursors of psycopg take more time than the statements themselves; this takes only the library of PostgreSQL itself,
which psycopg brings along (``psycopg.pq``), and needs no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

ANSWER_TIMEOUT = 40.0  # seconds for an answer; the server itself gives up after 30
_SUCCESS = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)

Step = tuple[bytes, Sequence[bytes | None]]  # the name of a statement, and what is given to it, as text


class PgPipeline:
    """One connection, which belongs to the event loop from its first statement on. A broken one is not mended."""

    def __init__(self, connection: psycopg.Connection[Any], statements: Mapping[bytes, str]) -> None:
        self._connection, self._pg = connection, connection.pgconn
        for name, words in statements.items():
            prepared = self._pg.prepare(name, words.encode())
            if prepared.status not in _SUCCESS:
                raise _exception_of_result(prepared)
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = self._pg.socket
        self._finished: asyncio.Future[None] | None = None
        self._results: list[pq.abc.PGresult] = []
        self.broken = False

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self._pg.transaction_status == pq.TransactionStatus.IDLE

    async def run_statements(self, steps: Iterable[Step]) -> list[pq.abc.PGresult]:
        """The results of statements, all of them in one message; what comes after a mistake is not done."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._socket, self._on_readable)
        if self.broken:
            raise psycopg.OperationalError("the connection is lost")
        loop, line = self._loop, self._pg
        self._results, self._finished = [], loop.create_future()
        timeout = loop.call_later(ANSWER_TIMEOUT, self._close_as_broken, f"no answer for {ANSWER_TIMEOUT:g} s")
        try:
            for name, given in steps:
                line.send_query_prepared(name, given)
            line.pipeline_sync()
            if line.flush():
                loop.add_writer(self._socket, self._on_writable)
            await self._finished
        except psycopg.OperationalError as error:
            self._close_as_broken(str(error))
            raise
        finally:
            timeout.cancel()
            self._finished = None
        for result in self._results:
            if result.status not in _SUCCESS:
                raise _exception_of_result(result)
        return self._results

    def result_rows(self, result: pq.abc.PGresult) -> list[Any]:
        """The rows of a result, as tuples."""
        if result.ntuples == 0:
            return []
        reader = Transformer(self._connection)
        reader.set_pgresult(result)
        return reader.load_rows(0, result.ntuples, tuple)

    def close(self) -> None:
        """Hang up: the server rolls back what is open, and gives locks back."""
        self._close_as_broken("the connection is closed")

    # ---- what the event loop calls --------------------------------------------------------------------------
    def _on_readable(self) -> None:
        try:
            self._pg.consume_input()
            self._read_results()
        except psycopg.OperationalError as error:
            self._close_as_broken(str(error))
            return
        if self._pg.status == pq.ConnStatus.BAD:
            self._close_as_broken(self._pg.get_error_message())

    def _read_results(self) -> None:
        """Take all results that are there; the one after the last says that there are no more."""
        some = True
        while not self._pg.is_busy():
            result = self._pg.get_result()
            if result is None:  # between two statements; twice, when there is nothing at all
                if not some:
                    return
                some = False
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                if self._finished is not None and not self._finished.done():
                    self._finished.set_result(None)
                return
            else:
                some = True
                self._results.append(result)

    def _on_writable(self) -> None:
        """Send what did not fit."""
        try:
            left = self._pg.flush()
        except psycopg.OperationalError as error:
            self._close_as_broken(str(error))
            return
        if not left and self._loop is not None:
            self._loop.remove_writer(self._socket)

    def _close_as_broken(self, why: str) -> None:
        if not self.broken:
            self.broken = True
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._socket)
                self._loop.remove_writer(self._socket)
            with suppress(Exception):
                self._connection.close()
        if self._finished is not None and not self._finished.done():
            known = next((result for result in self._results if result.status not in _SUCCESS), None)
            self._finished.set_exception(
                psycopg.OperationalError(why) if known is None else _exception_of_result(known)
            )


def _exception_of_result(result: pq.abc.PGresult) -> psycopg.Error:
    """What went wrong, by its code."""
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    kind: type[psycopg.Error] = psycopg.DatabaseError
    with suppress(KeyError):
        kind = psycopg.errors.lookup("" if code is None else code.decode())
    return kind(result.get_error_message() if code is not None else "a statement was not done")


def encode_value(value: float | str | None) -> bytes | None:
    """Encode a number or a text as the server reads it; numbers come back to the last bit."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else repr(value).encode()


def encode_array(values: Iterable[float | str | None]) -> bytes:
    """Values as a PostgreSQL array literal."""
    return ("{" + ",".join(map(_array_literal_element, values)) + "}").encode()


def _array_literal_element(value: float | str | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
