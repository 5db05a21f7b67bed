"""A store of experiments by its URL: its tables, its lanes, and what is read and administered without hurry."""

from __future__ import annotations

import json
import logging
import re
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

from pmbandits import __version__, _check
from pmbandits.service import schema
from pmbandits.service.events import RUNNING, Lane
from pmbandits.service.sqlite import PRAGMAS, Gate, Gone, SqliteLane, identity

log = logging.getLogger("pmbandits.service")
DEFAULT = "sqlite:///experiments.db"
# A machine that is gone says nothing: after half a minute without an answer a connection counts as broken.
_ALIVE = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
          "tcp_user_timeout": 30_000}  # fmt: skip
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)  # seconds until a store is tried again that cannot be reached


class Record(NamedTuple):
    """An experiment as it stands in the store."""

    id: int
    name: str
    spec: dict[str, Any]
    library: str
    status: str
    created: int


def now() -> int:
    """Milliseconds of the clock on the wall."""
    return time.time_ns() // 1_000_000


def iso(at: int) -> str:
    """A moment as text that programs read: 2026-11-17T08:29:05.250Z."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Taken(ValueError):
    """There is such a thing already."""


def is_name(text: str) -> bool:
    """Whether a text can be the name of an experiment; it is part of addresses, so few characters are allowed."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text) is not None


def check_name(name: str) -> None:
    """A sentence if this cannot be the name of an experiment."""
    if not is_name(name):
        raise ValueError(
            f"the name of an experiment has up to 100 letters, digits, dots, dashes and underscores, and begins with a "
            f"letter or digit; got {_check.short(name)}."
        )


class Store:
    """Experiments, events, keys and the audit trail, in a file of SQLite or in PostgreSQL."""

    def __init__(self, url: str = DEFAULT) -> None:
        self.url = _read(url)
        self._path: Path | None = None
        if self.url.get_backend_name() == "sqlite":
            if self.url.database in (None, "", ":memory:"):
                raise ValueError("the store must be a file, so that nothing is lost: sqlite:///experiments.db.")
            self._path = Path(str(self.url.database))
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self.engine = self._engine()
        with self.engine.connect() as connection:
            current = schema.is_current(connection)
        self._file = None if self._path is None else identity(self._path)
        if not current:
            self._upgrade()

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return _shown(self.url)

    def _engine(self) -> Engine:
        if self._path is None:
            return create_engine(self.url, pool_pre_ping=True, pool_size=4, connect_args=_ALIVE)
        engine = create_engine(self.url, connect_args={"check_same_thread": False, "timeout": 20})

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # we say BEGIN ourselves, below
            for pragma in PRAGMAS:
                connection.execute(pragma)

        return engine

    def _upgrade(self) -> None:
        with self.writing() as connection:
            if self._path is None:
                connection.execute(sql("SELECT pg_advisory_xact_lock(:a, 0)"), {"a": 0x706D62})
            if not schema.is_current(connection):
                schema.upgrade(connection)

    def lane(self) -> Lane:
        """A way of its own into the store, for asks and tells."""
        if self._path is not None:
            return SqliteLane(self._path)
        from pmbandits.service.postgres import PostgresLane

        return PostgresLane(self.url.set(drivername="postgresql").render_as_string(hide_password=False))

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that changes something; in a file, only after all others that write."""
        gate = None if self._path is None else Gate(self._path)
        try:
            with nullcontext() if gate is None else gate, self.engine.begin() as connection:
                if gate is not None and self._path is not None:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                    if identity(self._path) != self._file:
                        raise Gone(self._path)
                yield connection
        finally:
            if gate is not None:
                gate.close()

    def close(self) -> None:
        """Give back all connections."""
        self.engine.dispose()

    # ---- experiments -----------------------------------------------------------------------------------
    def create(self, name: str, spec: dict[str, Any], who: str, policy: bytes | None = None) -> Record:
        """A new experiment; with the file of a saved policy, one that goes on from there."""
        text, at = json.dumps(spec), now()
        row = {"name": name, "spec": text, "library": __version__, "status": RUNNING, "created": at}
        try:
            with self.writing() as connection:
                made = connection.execute(insert(schema.experiments).values(row)).inserted_primary_key
                assert made is not None
                number = int(made[0])
                if policy is not None:
                    connection.execute(
                        insert(schema.snapshots).values(exp=number, seq=0, library=__version__, content=policy)
                    )
                act = "create" if policy is None else "import"
                self.write_down(connection, who, act, name, text)
        except IntegrityError:
            raise Taken(f"there is an experiment {name!r} already; take another name.") from None
        return Record(number, name, spec, __version__, RUNNING, at)

    def find(self, name: str) -> Record | None:
        """One experiment by its name."""
        with self.engine.connect() as connection:
            row = connection.execute(select(schema.experiments).where(schema.experiments.c.name == name)).first()
        return None if row is None else _record(row)

    def experiments(self) -> list[Record]:
        """All experiments, oldest first."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(schema.experiments).order_by(schema.experiments.c.id)).all()
        return [_record(row) for row in rows]

    def last(self, exp: int) -> int:
        """The number of the newest event of an experiment; 0 if there is none."""
        with self.engine.connect() as connection:
            found = connection.execute(select(func.max(schema.events.c.seq)).where(schema.events.c.exp == exp))
            return int(found.scalar() or 0)

    # ---- saved policies --------------------------------------------------------------------------------
    def snapshot(self, exp: int, upto: int | None = None) -> tuple[int, bytes] | None:
        """The newest saved policy, and after which event it was saved."""
        table = schema.snapshots
        wanted = select(table.c.seq, table.c.content).where(table.c.exp == exp).order_by(table.c.seq.desc()).limit(1)
        if upto is not None:
            wanted = wanted.where(table.c.seq <= upto)
        with self.engine.connect() as connection:
            row = connection.execute(wanted).first()
        return None if row is None else (row[0], row[1])

    def keep(self, exp: int, seq: int, content: bytes) -> None:
        """Save a policy as it is after an event; older ones go, but for the last and for one that was imported."""
        table = schema.snapshots
        with suppress(IntegrityError), self.writing() as connection:  # on PostgreSQL another one may be as quick
            last = connection.execute(select(func.max(table.c.seq)).where(table.c.exp == exp)).scalar()
            if last is not None and last >= seq:
                return  # another process was quicker
            connection.execute(insert(table).values(exp=exp, seq=seq, library=__version__, content=content))
            connection.execute(delete(table).where(table.c.exp == exp, table.c.seq > 0, table.c.seq < (last or 0)))

    # ---- the audit trail -------------------------------------------------------------------------------
    def write_down(self, connection: Connection, who: str, act: str, experiment: str | None, detail: str) -> None:
        """Write an act of administration down, with what it did."""
        connection.execute(
            insert(schema.audit).values(at=now(), who=who, act=act, experiment=experiment, detail=detail)
        )

    def audit(self, limit: int = 1000, before: int | None = None) -> list[dict[str, Any]]:
        """Acts of administration, newest first."""
        wanted = select(schema.audit).order_by(schema.audit.c.id.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(schema.audit.c.id < before)
        with self.engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(wanted)]


def opened(url: str, *, pauses: Sequence[float] = (), new: bool = True) -> Store:
    """A store, or one sentence that says why it cannot be opened.

    ``pauses``: so often and so many seconds later it is tried again, if it is a database that cannot be reached yet.
    ``new``: whether a file may be made that is not there.
    """
    read = _read(url)
    shown, file = _shown(read), read.get_backend_name() == "sqlite"
    if file and not new and not Path(str(read.database)).exists():
        raise ValueError(f"there is no store at {read.database!r}; give the one that is served with --store.")
    for pause in (*(() if file else pauses), None):
        try:
            return Store(url)
        except DBAPIError as error:
            why = str(error.orig).strip().split("\n")[0]
            if pause is None or not isinstance(error, OperationalError):
                raise ValueError(f"the store {shown} cannot be opened: {why}.") from None
            log.warning("the store %s cannot be reached yet: %s", shown, _check.readable(why)[:300])
            time.sleep(pause)
    raise AssertionError


def _shown(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)  # a password may also be among its options


def _read(url: str) -> URL:
    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError("the store must be a URL such as sqlite:///experiments.db or postgresql://…") from None
    if read.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(
            f"there is no store of the kind {read.get_backend_name()!r}; take sqlite:///… or postgresql://…"
        )
    return read.set(drivername="postgresql+psycopg") if read.get_backend_name() == "postgresql" else read


def _record(row: Any) -> Record:
    return Record(row.id, row.name, json.loads(row.spec), row.library, row.status, row.created)
