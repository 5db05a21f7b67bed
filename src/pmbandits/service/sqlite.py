"""The way into a file of SQLite: a lock that wakes who waits, then one transaction that is on disk when it ends."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pmbandits.service.events import FROM, INSERT, MOST_BEHIND, RANGE, TAIL, Batch, Behind, Done, Found, Old, Want

try:
    import fcntl
except ImportError:  # no such locks on this system: SQLite's own waiting must do
    fcntl = None  # type: ignore[assignment]

PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 20000",
    "PRAGMA journal_size_limit = 67108864",
)


QUICK = 0.002  # seconds of a commit for which the event loop may wait; with a slower disk a thread does it
PATIENCE = 20.0  # seconds to wait for a program that writes to the file and does not know our lock
FEW = 256  # things that are looked up without a thread for it


class Gone(sqlite3.OperationalError):
    """The file of the store was taken away while it was open: what is written now, nobody would ever find."""

    sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED

    def __init__(self, path: Path) -> None:
        super().__init__(f"the file {str(path)!r} is gone, or another one is in its place; put it back, or start anew")


def identity(path: Path) -> tuple[int, int]:
    """Which file this is, whatever it is called."""
    try:
        found = os.stat(path)
    except OSError:
        raise Gone(path) from None
    return found.st_dev, found.st_ino


class Gate:
    """Who may write. Waiting for a lock of the system is fair; SQLite's own waiting starves one of two processes.

    It is a lock on a file beside the store, not on the store itself: closing that would drop SQLite's own locks.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path.with_name(path.name + ".lock"), "ab")  # noqa: SIM115
        self._left = False

    def wait(self) -> None:
        """Go in, when all who came before are out."""
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> None:
        """The same, but not for ever: the process that is in may stand still, and a lock knows no patience."""
        if self.at_once() or fcntl is None:
            return
        waiting, lock, given_up = threading.Event(), threading.Lock(), False

        def wait() -> None:
            with suppress(OSError):
                self.wait()
            with lock:
                if given_up:
                    self._file.close()
                waiting.set()

        threading.Thread(target=wait, name="gate", daemon=True).start()
        waiting.wait(PATIENCE)
        with lock:
            if not waiting.is_set():
                given_up = True
                self._left = True
                raise sqlite3.OperationalError("another process holds the lock of the store and does not go on")

    def at_once(self) -> bool:
        """Go in if nobody else is in; whether that is so."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __exit__(self, *error: object) -> None:
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        if not self._left:  # else whoever waits still closes it
            self._file.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits only when it is told to, and then to the disk."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


class SqliteLane:
    """See :class:`pmbandits.service.events.Lane`."""

    def __init__(self, path: Path) -> None:
        self._path, self._gate, self._in = path, Gate(path), False
        self._connection = connect(path)
        self._file = identity(path)
        self._connection.execute("PRAGMA busy_timeout = 0")  # the event loop must not wait; see _wait_and_begin
        self._takes = 0.0  # seconds that a commit took lately
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turns")
        self._reader = connect(path)  # of its own, so that reading waits for no turn

    async def begin(self, wants: list[Want], *, alone: bool) -> list[Found]:
        # With others about, waiting in line is fair; pushing in is quicker, and starves them.
        few = sum(len(want.tickets) + len(want.keys) + len(want.units) for want in wants) <= FEW
        if alone and few and self._gate.at_once():
            with suppress(sqlite3.OperationalError):  # a program that is none of ours may be writing
                return self._begun(wants)
        return await self._beside(self._wait_and_begin, wants)

    def _wait_and_begin(self, wants: list[Want]) -> list[Found]:
        self._gate.wait()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._begun(wants)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.002)
            self._gate.wait()

    def _begun(self, wants: list[Want]) -> list[Found]:
        self._in = True
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if identity(self._path) != self._file:
                raise Gone(self._path)
            return [self._look(want) for want in wants]
        except BaseException:
            self._give_back()
            raise

    def _look(self, want: Want) -> Found:
        ask, exp, found = self._connection.execute, want.exp, Found()
        found.tail = ask(FROM, (exp, want.seen, MOST_BEHIND)).fetchall()
        if len(found.tail) == MOST_BEHIND:
            raise Behind(exp)
        for ticket in want.tickets:
            row = ask("SELECT arm FROM events WHERE exp = ? AND seq = ? AND kind IN (0, 3)", (exp, ticket)).fetchone()
            if row is None:
                continue
            found.tickets[ticket] = row[0]
            row = (
                ask(
                    "SELECT value FROM events WHERE exp = ? AND ticket = ? AND kind = 2 ORDER BY seq DESC LIMIT 1",
                    (exp, ticket),
                ).fetchone()
                or ask(
                    "SELECT value FROM events WHERE exp = ? AND ticket = ? AND kind = 1 AND ticket IS NOT NULL",
                    (exp, ticket),
                ).fetchone()
            )
            if row is not None:
                found.told[ticket] = row[0]
        for key in want.keys:
            row = ask("SELECT seq, n, what FROM requests WHERE exp = ? AND key = ?", (exp, key)).fetchone()
            if row is not None:
                seq, n, what = row
                found.keys[key] = Done(seq, what, ask(RANGE, (exp, seq, seq + n)).fetchall())
        for unit in want.units:
            row = ask("SELECT arm FROM units WHERE exp = ? AND unit = ?", (exp, unit)).fetchone()
            if row is not None:
                found.units[unit] = row[0]
        return found

    async def commit(self, batch: Batch) -> None:
        # Going to another thread and back takes longer than a quick disk does.
        try:
            self._write(batch)
            began = time.perf_counter()
            if self._takes < QUICK:
                self._connection.execute("COMMIT")
            else:
                await self._beside(self._connection.execute, "COMMIT")
            self._takes += (time.perf_counter() - began - self._takes) / 8
        finally:
            self._give_back()

    def _write(self, batch: Batch) -> None:
        many = self._connection.executemany
        many(INSERT["events"], batch.events)
        if batch.requests:
            many(INSERT["requests"], batch.requests)
        if batch.units:
            many(INSERT["units"], batch.units)
        if batch.statuses:
            many(INSERT["statuses"], batch.statuses)
        if batch.audit:
            many(INSERT["audit"], batch.audit)

    async def abandon(self) -> None:
        self._give_back()

    def _give_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        finally:
            if self._in:
                self._in = False
                self._gate.__exit__()

    async def _beside(self, work: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def tail(self, exp: int, seen: int, limit: int) -> list[Old]:
        return self._reader.execute(TAIL, (exp, seen, limit)).fetchall()

    def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()
        self._reader.close()
        self._gate.close()
