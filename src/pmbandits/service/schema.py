"""The tables, and how they come to be: SQLAlchemy says what they are, Alembic makes them and changes them later."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    inspect,
    select,
    text,
)

HEAD = "0001"  # the newest file in migrations/versions

metadata = MetaData()

# What is served. `spec` says what the policy is before its first event; `status` repeats the newest STATUS event.
experiments = Table(
    "experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("spec", Text, nullable=False),
    Column("library", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
)

# All that ever happened. The ticket of an ask is its own seq. `value` is the reward of a tell, the share of an ask.
events = Table(
    "events",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", SmallInteger, nullable=False),
    Column("ticket", BigInteger),
    Column("arm", Integer),
    Column("value", Double),
    Column("at", BigInteger, nullable=False),
    Column("data", Text),
    sqlite_with_rowid=False,
)
Index("one_tell", events.c.exp, events.c.ticket, unique=True,
      sqlite_where=text("kind = 1 AND ticket IS NOT NULL"),
      postgresql_where=text("kind = 1 AND ticket IS NOT NULL"))  # fmt: skip
Index("retells", events.c.exp, events.c.ticket,
      sqlite_where=text("kind = 2"), postgresql_where=text("kind = 2"))  # fmt: skip

# Idempotency keys: the first seq and the number of the events of a request, and what it was, so that a key is not used
# for two different ones.
requests = Table(
    "requests",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("n", Integer, nullable=False),
    Column("what", Text, nullable=False),
    sqlite_with_rowid=False,
)

# Which arm a unit (a user, a machine) was given last, where the same arm was wanted again.
units = Table(
    "units",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("unit", Text, primary_key=True),
    Column("arm", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Saved policies: after the event `seq`. That of seq 0 was imported, and stays.
snapshots = Table(
    "snapshots",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("library", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# How an experiment went: a few hundred points, from the background.
points = Table(
    "points",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
)

# Keys: only the SHA-256 of the secret. `experiments` is a JSON list of names, or "*".
keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("label", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("experiments", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("used", BigInteger),
)

# Who changed what: acts of administration, from the command line and over HTTP.
audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("experiment", Text),
    Column("detail", Text, nullable=False),
)


def is_current(connection: Connection) -> bool:
    """Whether the tables are those of this version."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    version = Table("alembic_version", MetaData(), Column("version_num", Text))
    found = connection.execute(select(version.c.version_num)).scalar()
    if found is not None and found > HEAD:
        raise ValueError(
            f"the store was made by a newer pmbandits (tables of version {found}, this one knows {HEAD}); "
            "upgrade pmbandits."
        )
    return found == HEAD


def upgrade(connection: Connection) -> None:
    """Make the tables, or bring them up to date; whoever calls has the store to himself."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "pmbandits.service:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
