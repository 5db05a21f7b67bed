"""A store of experiments by its URL: its tables, its transactions, and what is read and administered."""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, create_engine, delete, event, func, insert, select
from sqlalchemy import text as sql
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError

from pmbandits import __version__, _validation
from pmbandits.service import schema
from pmbandits.service.events import CREATE, PROBABILITIES, RUNNING, Transaction
from pmbandits.service.randomised import Draws, initial_draws_of_spec
from pmbandits.service.sqlite import (
    BUSY_TIMEOUT,
    PRAGMAS,
    SqliteTransaction,
    StoreFiles,
    WriteLock,
)

log = logging.getLogger("pmbandits.service")
DEFAULT_URL = "sqlite:///experiments.db"
# A machine that is gone says nothing: after half a minute without an answer a connection counts as broken.
_KEEPALIVE = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
          "tcp_user_timeout": 30_000}  # fmt: skip
RETRY_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)  # seconds until a store is tried again that cannot be reached


class ExperimentRecord(NamedTuple):
    """An experiment as it stands in the store."""

    id: int
    name: str
    spec: dict[str, Any]
    library: str
    status: str
    created: int
    root: int  # a random number: the digest of its event 0


def now_ms() -> int:
    """The time now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def iso_utc(at: int) -> str:
    """A moment as text that programs read: 2026-11-17T08:29:05.250Z."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Snapshot(NamedTuple):
    """A saved policy: after which event, with which digest, it was saved, and the bytes of its file."""

    seq: int
    digest: int
    content: bytes


class NameTaken(ValueError):
    """There is an experiment of this name already."""


def is_valid_name(text: str) -> bool:
    """Whether a text can be the name of an experiment; it is part of addresses, so few characters are allowed."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text) is not None


def check_name(name: str) -> None:
    """Raise ValueError if this cannot be the name of an experiment."""
    if not is_valid_name(name):
        raise ValueError(
            f"the name of an experiment has up to 100 letters, digits, dots, dashes and underscores, and begins with a "
            f"letter or digit; got {_validation.short_repr(name)}."
        )


class Store:
    """Experiments, events, keys and the audit trail, in a file of SQLite or in PostgreSQL."""

    def __init__(self, url: str = DEFAULT_URL, *, make: bool = True) -> None:
        self.url = _parse_url(url)
        self._path: Path | None = None
        self._commits: dict[int, float] = {}  # of each thread whose commit is on its way: since when
        if self.url.get_backend_name() == "sqlite":
            if self.url.database in (None, "", ":memory:"):
                raise ValueError("the store must be a file, so that nothing is lost: sqlite:///experiments.db.")
            self._path = Path(str(self.url.database))
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self.engine = self._create_engine()
        with self.engine.connect() as connection:
            made = schema.do_tables_exist(connection)
            self._files = None if self._path is None else StoreFiles(str(self._path))
        if not made and not make:
            raise ValueError(f"there are no experiments in {self.display_url}, not even tables for them.")
        if not made:
            self._create_tables_if_missing()

    @property
    def display_url(self) -> str:
        """The URL without its password."""
        return _display_url(self.url)

    def _create_engine(self) -> Engine:
        if self._path is None:
            return create_engine(self.url, pool_pre_ping=True, pool_size=4, connect_args=_KEEPALIVE)
        engine = create_engine(self.url, connect_args={"check_same_thread": False, "timeout": 20})

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record_from_row: Any) -> None:
            connection.isolation_level = None  # we say BEGIN ourselves, below
            for pragma in PRAGMAS:
                connection.execute(pragma)

        return engine

    def _create_tables_if_missing(self) -> None:
        with self.write_transaction() as connection:
            self.lock_experiment(connection, 0)
            if not schema.do_tables_exist(connection):
                schema.create_tables(connection)

    def now_ms(self) -> int:
        """The time now by the clock of the store, in milliseconds since 1970: all who use the store agree on it."""
        if self._path is not None:
            return now_ms()
        with self.engine.connect() as connection:
            return int(connection.execute(sql("SELECT extract(epoch FROM clock_timestamp()) * 1000")).scalar() or 0)

    def new_transaction(self) -> Transaction:
        """A new transaction object with a connection of its own, for asks and tells."""
        if self._path is not None:
            return SqliteTransaction(self._path)
        from pmbandits.service.postgres import PostgresTransaction

        return PostgresTransaction(self.url.set(drivername="postgresql").render_as_string(hide_password=False))

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """One transaction that changes something; in a file, only after all others that write."""
        write_lock = None if self._path is None else WriteLock(self._path)
        try:
            with nullcontext() if write_lock is None else write_lock, self.engine.begin() as connection:
                if self._files is not None:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                    self._files.check()
                yield connection
                self._commits[threading.get_ident()] = time.monotonic()
        finally:
            self._commits.pop(threading.get_ident(), None)
            if write_lock is not None:
                write_lock.close()

    @property
    def longest_commit_seconds(self) -> float:
        """For how many seconds what administration wrote has been on its way to the disk; 0 if there is none."""
        return max((time.monotonic() - since for since in list(self._commits.values())), default=0.0)

    def lock_experiment(self, connection: Connection, exp: int) -> None:
        """Until the transaction ends, let nobody ask or tell; in a file, nobody can anyway."""
        if self._path is None:
            connection.execute(sql("SELECT pg_advisory_xact_lock(:lock, :exp)"), {"lock": schema.LOCK, "exp": exp})

    def erase_deleted(self) -> None:
        """In a file: let nothing that was deleted stay in the file of SQLite's journal (-wal) beside it.

        Whoever writes waits meanwhile, so a reader that is in the way is not waited for long, but tried again.
        """
        for pause in () if self._path is None else (0.5, 1.0, 2.0, None):
            assert self._path is not None and self._files is not None
            write_lock = WriteLock(self._path)
            try:
                with write_lock, self.engine.connect() as connection:
                    self._files.check()
                    connection.exec_driver_sql("PRAGMA busy_timeout = 200")
                    busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
                    connection.exec_driver_sql(BUSY_TIMEOUT)
            except DBAPIError:
                busy = True
            finally:
                write_lock.close()
            if not busy:
                return
            if pause is None:
                log.warning("what was deleted is still in the journal of the store: somebody reads from it")
            else:
                time.sleep(pause)

    def close(self) -> None:
        """Give back all connections."""
        self.engine.dispose()

    # ---- experiments -----------------------------------------------------------------------------------
    def create_experiment(
        self, name: str, spec: dict[str, Any], who: str, policy: bytes | None = None
    ) -> ExperimentRecord:
        """A new experiment; with the file of a saved policy, one that goes on from there."""
        text, at, root = json.dumps(spec), self.now_ms(), secrets.randbits(63)
        row = {"name": name, "spec": text, "library": __version__, "status": RUNNING, "created": at, "root": root}
        try:
            with self.write_transaction() as connection:
                made = connection.execute(insert(schema.experiments).values(row)).inserted_primary_key
                assert made is not None
                number = int(made[0])
                connection.execute(insert(schema.events).values(exp=number, seq=0, kind=CREATE, at=at, digest=root))
                if policy is not None:
                    saved = {"exp": number, "seq": 0, "digest": root, "library": __version__, "content": policy}
                    connection.execute(insert(schema.snapshots).values(saved))
                act = "create" if policy is None else "import"
                self.write_audit(connection, who, act, name, text)
        except IntegrityError:
            raise NameTaken(f"there is an experiment {name!r} already; take another name.") from None
        return ExperimentRecord(number, name, spec, __version__, RUNNING, at, root)

    def find_experiment(self, name: str) -> ExperimentRecord | None:
        """One experiment by its name."""
        with self.engine.connect() as connection:
            row = connection.execute(select(schema.experiments).where(schema.experiments.c.name == name)).first()
        return None if row is None else _record_from_row(row)

    def experiments(self) -> list[ExperimentRecord]:
        """All experiments, oldest first."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(schema.experiments).order_by(schema.experiments.c.id)).all()
        return [_record_from_row(row) for row in rows]

    def last_seq(self, exp: int) -> int:
        """The number of the newest event of an experiment; 0 if there is none."""
        with self.engine.connect() as connection:
            found = connection.execute(select(func.max(schema.events.c.seq)).where(schema.events.c.exp == exp))
            return int(found.scalar() or 0)

    def draws_after_event(self, record: ExperimentRecord, upto: int) -> Draws | None:
        """The draws of an experiment with randomised play after an event; None if it plays what its policy asks for."""
        draws, table = initial_draws_of_spec(record.spec, record.root), schema.events
        if draws is None:
            return None
        wanted = select(table.c.data).where(
            table.c.exp == record.id, table.c.seq <= upto, table.c.kind == PROBABILITIES
        )
        with self.engine.connect() as connection:
            data = connection.execute(wanted.order_by(table.c.seq.desc()).limit(1)).scalar()
        return draws if data is None else draws.with_new_probabilities(data)

    # ---- saved policies --------------------------------------------------------------------------------
    def newest_snapshot(self, exp: int, upto: int | None = None) -> Snapshot | None:
        """The newest saved policy, or the newest up to an event."""
        table = schema.snapshots
        wanted = select(table.c.seq, table.c.digest, table.c.content).where(table.c.exp == exp)
        wanted = wanted.order_by(table.c.seq.desc()).limit(1)
        if upto is not None:
            wanted = wanted.where(table.c.seq <= upto)
        with self.engine.connect() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else Snapshot(*row)

    def save_snapshot(self, exp: int, saved: Snapshot) -> None:
        """Save a policy as it is after an event; older ones go, but for the last and for one that was imported."""
        table, (seq, digest, content) = schema.snapshots, saved
        with (
            suppress(IntegrityError),
            self.write_transaction() as connection,
        ):  # on PostgreSQL another one may be as quick
            last_seq = connection.execute(select(func.max(table.c.seq)).where(table.c.exp == exp)).scalar()
            if last_seq is not None and last_seq >= seq:
                return  # another process was quicker
            if not self.has_event(connection, exp, seq, digest):
                return
            row = {"exp": exp, "seq": seq, "digest": digest, "library": __version__, "content": content}
            connection.execute(insert(table).values(row))
            connection.execute(delete(table).where(table.c.exp == exp, table.c.seq > 0, table.c.seq < (last_seq or 0)))

    def has_event(self, connection: Connection, exp: int, seq: int, digest: int) -> bool:
        """Whether this very event is in the log, and so all that was known to be before it.

        Until the transaction ends, the experiment is not deleted.
        """
        table, experiments = schema.events, schema.experiments
        kept = select(experiments.c.id).where(experiments.c.id == exp).with_for_update(read=True, key_share=True)
        if connection.execute(kept).first() is None:
            return False
        wanted = select(table.c.seq).where(table.c.exp == exp, table.c.seq == seq, table.c.digest == digest)
        return connection.execute(wanted).first() is not None

    def drop_snapshot(self, exp: int, seq: int) -> None:
        """Delete a saved policy."""
        with self.write_transaction() as connection:
            connection.execute(
                delete(schema.snapshots).where(schema.snapshots.c.exp == exp, schema.snapshots.c.seq == seq)
            )

    # ---- the audit trail -------------------------------------------------------------------------------
    def write_audit(self, connection: Connection, who: str, act: str, experiment: str | None, detail: str) -> None:
        """Write an act of administration down, with what it did."""
        connection.execute(
            insert(schema.audit).values(at=now_ms(), who=who, act=act, experiment=experiment, detail=detail)
        )

    def audit_entries(self, limit: int = 1000, before: int | None = None) -> list[dict[str, Any]]:
        """Acts of administration, newest first."""
        wanted = select(schema.audit).order_by(schema.audit.c.id.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(schema.audit.c.id < before)
        with self.engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(wanted)]


def open_store(url: str, *, pauses: Sequence[float] = (), new: bool = True, make: bool = True) -> Store:
    """A store, or one sentence that says why it cannot be opened.

    ``pauses``: so often and so many seconds later it is tried again, if it is a database that cannot be reached yet.
    ``new``: whether a file may be made that is not there. ``make``: whether tables may be made in an empty store.
    """
    read = _parse_url(url)
    display_url, file = _display_url(read), read.get_backend_name() == "sqlite"
    if file and not new and not Path(str(read.database)).exists():
        raise ValueError(f"there is no store at {read.database!r}; give the one that is served with --store.")
    for pause in (*(() if file else pauses), None):
        try:
            return Store(url, make=make)
        except DBAPIError as error:
            why = str(error.orig).strip().split("\n")[0]
            if pause is None or not isinstance(error, OperationalError):
                raise ValueError(f"the store {display_url} cannot be opened: {why}.") from None
            log.warning("the store %s cannot be reached yet: %s", display_url, why[:300])
            time.sleep(pause)
    raise AssertionError


def _display_url(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)  # a password may also be among its options


def _parse_url(url: str) -> URL:
    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError("the store must be a URL such as sqlite:///experiments.db or postgresql://…") from None
    if read.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(
            f"there is no store of the kind {read.get_backend_name()!r}; take sqlite:///… or postgresql://…"
        )
    return read.set(drivername="postgresql+psycopg") if read.get_backend_name() == "postgresql" else read


def _record_from_row(row: Any) -> ExperimentRecord:
    return ExperimentRecord(row.id, row.name, json.loads(row.spec), row.library, row.status, row.created, row.root)
