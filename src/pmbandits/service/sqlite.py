"""Transactions on an SQLite file: a fair lock between processes, then one transaction, on disk when it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from pmbandits.service.events import (
    INSERT,
    SELECT_FROM,
    SELECT_RANGE,
    AnsweredRequest,
    Lookup,
    LookupResult,
    StoredEvent,
    WriteBatch,
    check_not_behind,
)
from pmbandits.service.schema import VERSION, check_schema_version

try:
    import fcntl
except ImportError:  # no such locks on this system: SQLite's own waiting must do
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
log = logging.getLogger("pmbandits.service")
BUSY_TIMEOUT = "PRAGMA busy_timeout = 20000"
PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    BUSY_TIMEOUT,
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA secure_delete = ON",  # what is deleted is overwritten; not every library does so by itself
)
# With tables of another version it finds nothing, not even the event that is known.
_SELECT_IF_SAME_VERSION = SELECT_FROM.replace("WHERE id", f"JOIN schema_version ON version = {VERSION} WHERE id")
# SQLite would not find these indexes by itself: to have them in the order of seq, it would read all events.
_SELECT_CORRECTION = (
    "SELECT value FROM events INDEXED BY retells WHERE exp = ? AND ticket = ? AND kind = 2 ORDER BY seq DESC LIMIT 1"
)
_SELECT_REWARD = (
    "SELECT value FROM events INDEXED BY one_tell WHERE exp = ? AND ticket = ? AND kind = 1 AND ticket IS NOT NULL"
)
QUICK = 0.002  # seconds for which the event loop itself waits for the disk
PATIENCE = 20.0  # seconds to wait for a program that writes to the file and does not know our lock


class StoreFileGone(sqlite3.OperationalError):
    """The file of the store was taken away while it was open: what is written now, nobody would ever find."""

    sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED

    def __init__(self, path: str) -> None:
        super().__init__(f"the file {path!r} is gone, or another one is in its place; put it back, or start anew")


class StoreFiles:
    """Which files a store had when it was opened: its own, and its journal (-wal)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file, self._journal = self._device_and_inode(path), self._device_and_inode(f"{path}-wal")

    def check(self) -> None:
        """Raise StoreFileGone if another file is in the place of the store.

        If only its journal is gone, another store was written into the same file. Then this process ends at once: to
        close the store in order would write what is in the old journal into it.
        """
        if self._device_and_inode(self._path) != self._file:
            raise StoreFileGone(self._path)
        try:
            same = self._device_and_inode(f"{self._path}-wal") == self._journal
        except StoreFileGone:
            same = False
        if not same:
            log.critical(
                "the journal %s-wal is gone: somebody put another store into the file while this process ran, which "
                "now ends, and leaves the file as it is",
                self._path,
            )
            _end_process(1)
            raise StoreFileGone(self._path)

    def _device_and_inode(self, path: str) -> tuple[int, int]:
        try:
            found = os.stat(path)
        except OSError:
            raise StoreFileGone(self._path) from None
        return found.st_dev, found.st_ino


_end_process = os._exit  # closes nothing


class WriteLock:
    """The lock of who writes. Waiting for a file lock is fair; SQLite's own waiting starves one of two processes.

    It is a lock on a file beside the store, not on the store itself: closing that would drop SQLite's own locks.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path.with_name(path.name + ".lock"), "ab")  # noqa: SIM115
        self._abandoned = False

    def acquire_in_turn(self) -> None:
        """Acquire the lock, after all who asked before."""
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> None:
        """Acquire the lock, with a time limit: the process that holds it may be stopped."""
        if self.try_lock() or fcntl is None:
            return
        waiting, lock, given_up = threading.Event(), threading.Lock(), False

        def wait() -> None:
            with suppress(OSError):
                self.acquire_in_turn()
            with lock:
                if given_up:
                    self._file.close()
                waiting.set()

        threading.Thread(target=wait, name="write-lock", daemon=True).start()
        waiting.wait(PATIENCE)
        with lock:
            if not waiting.is_set():
                given_up = True
                self._abandoned = True
                raise sqlite3.OperationalError("another process holds the lock of the store and does not go on")

    def try_lock(self) -> bool:
        """Acquire the lock if it is free; return whether it was."""
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
        if not self._abandoned:  # else whoever waits still closes it
            self._file.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits only on COMMIT, and then to the disk."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


class _Call:
    """Work for the thread, and how the event loop waits for it: standing still, or with a future."""

    def __init__(self, work: Callable[[], None], stands_still: bool) -> None:
        self.work, self.stands_still = work, stands_still
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.error: BaseException | None = None
        self.finished = self.cancelled = False

    def resolve(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class WriterThread:
    """A thread that does one thing after the other. A process that ends does not wait for it: the disk may be stuck.

    While the disk is quick, the event loop stands still until the thread is done, though for two milliseconds at most:
    to go on and to be woken takes longer. The two wake each other by pipes, because the system then runs one after the
    other on the same processor; with a lock it takes several times as long.
    """

    def __init__(self) -> None:
        self._begin_out, self._begin_in = os.pipe()
        self._end_out, self._end_in = os.pipe()
        self._pipes = [self._begin_out, self._end_out, self._end_in, self._begin_in]
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._end_out, select.POLLIN)
        self._lock = threading.Lock()  # of ``stands_still``; if the thread turns it off, it sends a byte
        self._call: _Call
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while os.read(self._begin_out, 1):
            call = self._call
            try:
                call.work()
            except BaseException as error:
                call.error = error
            call.finished = True
            if not self.release_event_loop():
                with suppress(RuntimeError):  # the loop has ended
                    call.loop.call_soon_threadsafe(call.resolve)

    async def run_in_writer_thread(self, work: Callable[[], None], *, quick: bool) -> None:
        """Do ``work`` in the thread. If it is most likely ``quick``, the event loop stands still for it."""
        stands_still = quick and self._poll is not None
        call = self._call = _Call(work, stands_still)
        os.write(self._begin_in, b".")
        if stands_still:
            assert self._poll is not None
            let_go = bool(self._poll.poll(1000.0 * QUICK))
            if not let_go:
                with self._lock:  # it is held during a decision
                    let_go, call.stands_still = not call.stands_still, False
            if let_go:
                os.read(self._end_out, 1)
        if not call.finished:
            try:
                await call.done
            except asyncio.CancelledError:
                call.cancelled = True
                raise
        if call.error is not None:
            raise call.error

    def release_event_loop(self) -> bool:
        """In the thread: let the event loop go on; whether it had stood still."""
        with self._lock:
            stood_still, self._call.stands_still = self._call.stands_still, False
        if stood_still:
            os.write(self._end_in, b".")
        return stood_still

    def run_decision(self, decision: Callable[[], T]) -> T:
        """In the thread: the result of what only one thread may do, here if the event loop stands still, else there."""
        call = self._call
        with self._lock:
            if call.stands_still:
                return decision()
        there: Future[T] = Future()

        def decide() -> None:
            try:
                if call.cancelled:
                    raise sqlite3.OperationalError("nobody waits for this transaction any more")
                there.set_result(decision())
            except BaseException as error:
                there.set_exception(error)

        call.loop.call_soon_threadsafe(decide)
        return there.result()

    def close(self) -> bool:
        """End the thread; whether it did."""
        if len(self._pipes) == 4:
            os.close(self._pipes.pop())  # where the thread reads is then at its end
        self._thread.join(1.0)
        if self._thread.is_alive():
            return False
        while self._pipes:
            os.close(self._pipes.pop())
        return True


class SqliteTransaction:
    """A :class:`pmbandits.service.events.Transaction` on an SQLite file.

    Everything that touches the file is done in a thread, so that the event loop goes on when the disk does not.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._write_lock, self._locked = str(path), WriteLock(path), False
        self._connection = connect(path)
        self._files = StoreFiles(self._path)
        self._connection.execute("PRAGMA busy_timeout = 0")  # see _wait_and_begin
        self._commit_seconds = 0.0  # seconds that a commit took lately
        self._thread = WriterThread()
        self._reader, self._reader_lock = connect(path), threading.Lock()  # so that reading waits for no transaction
        self.at = 0

    async def run(
        self, lookups: list[Lookup], decide: Callable[[list[LookupResult]], WriteBatch], *, alone: bool
    ) -> None:
        await self._thread.run_in_writer_thread(lambda: self._run(lookups, decide, alone), quick=alone)

    def _run(self, lookups: list[Lookup], decide: Callable[[list[LookupResult]], WriteBatch], alone: bool) -> None:
        try:
            found = self._begin(lookups, alone)
            batch = self._thread.run_decision(lambda: decide(found))
            if batch:
                if self._commit_seconds > QUICK:
                    self._thread.release_event_loop()
                self._commit(batch)
        finally:
            self._rollback_and_unlock()

    def _begin(self, lookups: list[Lookup], alone: bool) -> list[LookupResult]:
        # With others about, waiting in line is fair; pushing in is quicker, and starves them.
        if alone and self._write_lock.try_lock():
            try:
                return self._begin_and_look_up(lookups)
            except sqlite3.OperationalError:  # a program that is none of ours may be writing
                pass
        self._write_lock.acquire_in_turn()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._begin_and_look_up(lookups)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.002)
            self._write_lock.acquire_in_turn()

    def _begin_and_look_up(self, lookups: list[Lookup]) -> list[LookupResult]:
        self._locked = True
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._files.check()
            self.at = time.time_ns() // 1_000_000  # a file is on one machine, so its clock is that of the store
            found = [self._look_up(lookup) for lookup in lookups]
            if not (found and all(one.new_events for one in found)):
                check_schema_version(self._connection.execute("SELECT version FROM schema_version").fetchone()[0])
            return found
        except BaseException:
            self._rollback_and_unlock()
            raise

    def _look_up(self, lookup: Lookup) -> LookupResult:
        query, exp, found = self._connection.execute, lookup.exp, LookupResult()
        found.new_events = query(_SELECT_IF_SAME_VERSION, (exp, lookup.seen, exp, lookup.limit)).fetchall()
        check_not_behind(lookup, found.new_events)
        for ticket in lookup.tickets:
            row = query("SELECT arm FROM events WHERE exp = ? AND seq = ? AND kind IN (0, 3)", (exp, ticket)).fetchone()
            if row is None:
                continue
            found.tickets[ticket] = row[0]
            row = query(_SELECT_CORRECTION, (exp, ticket)).fetchone() or query(_SELECT_REWARD, (exp, ticket)).fetchone()
            if row is not None:
                found.rewarded[ticket] = row[0]
        for key in lookup.keys:
            row = query("SELECT seq, n, what FROM requests WHERE exp = ? AND key = ?", (exp, key)).fetchone()
            if row is not None:
                seq, n, what = row
                found.keys[key] = AnsweredRequest(seq, what, query(SELECT_RANGE, (exp, seq, seq + n)).fetchall())
        for unit in lookup.units:
            row = query("SELECT arm FROM units WHERE exp = ? AND unit = ?", (exp, unit)).fetchone()
            if row is not None:
                found.units[unit] = row[0]
        return found

    def _commit(self, batch: WriteBatch) -> None:
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
        began = time.perf_counter()
        self._connection.execute("COMMIT")
        self._commit_seconds += (time.perf_counter() - began - self._commit_seconds) / 8

    def _rollback_and_unlock(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        finally:
            if self._locked:
                self._locked = False
                self._write_lock.__exit__()

    def new_events(self, exp: int, seen: int, limit: int) -> list[StoredEvent]:
        with self._reader_lock:
            return self._reader.execute(SELECT_FROM, (exp, seen, exp, limit)).fetchall()

    def close(self) -> None:
        if self._thread.close():  # else the disk is stuck, and so would be whoever closes the file
            self._connection.close()
            self._reader.close()
            self._write_lock.close()
