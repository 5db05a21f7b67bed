"""The tables, their version, and how they come to be.

There is one version so far. A store says its version in a table of its own, every transaction reads it, and a store of
another version is refused: so two versions of the tables are never written to at once.
"""

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
    insert,
    inspect,
    select,
    text,
)

VERSION = 1  # of the tables that this version of the library reads and writes

LOCK = 0x706D62  # "pmb": the first half of advisory locks on PostgreSQL; the second is the number of the experiment

metadata = MetaData()

# One row: the version of all tables.
schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

# What is served. `spec` says what the policy is before its first event; `status` repeats the newest STATUS event.
# `root` is a random number, the digest of event 0: so an experiment is never mistaken for another one with its id.
experiments = Table(
    "experiments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("spec", Text, nullable=False),
    Column("library", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("root", BigInteger, nullable=False),
    sqlite_autoincrement=True,  # the number of a deleted experiment is not given again
)

# All that ever happened. The ticket of an ask is its own seq. `value` is the reward of a tell, the share of an ask.
# `digest` names an event together with all before it (events.chain_digest). Event 0 is the creation of the experiment.
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
    Column("digest", BigInteger, nullable=False),
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

# Saved policies: after the event `seq`, which must have this digest in the log. That of seq 0 was imported, and stays.
snapshots = Table(
    "snapshots",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", BigInteger, nullable=False),
    Column("library", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

# How an experiment went: a few hundred points, from the background.
points = Table(
    "points",
    metadata,
    Column("exp", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", BigInteger, nullable=False),
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
    Column("expires", BigInteger),
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


class WrongVersion(ValueError):
    """The tables of a store are not those of this version of the library."""

    def __init__(self, found: int) -> None:
        newer = "a newer" if found > VERSION else "an older"
        super().__init__(
            f"the store was made by {newer} pmbandits (tables of version {found}, this one knows {VERSION}); "
            f"{'upgrade pmbandits' if found > VERSION else 'take the pmbandits that made it'}."
        )


def check_schema_version(found: int) -> None:
    """Raise WrongVersion if tables of this version cannot be used."""
    if found != VERSION:
        raise WrongVersion(found)


def do_tables_exist(connection: Connection) -> bool:
    """Whether the tables are there; WrongVersion if they are those of another version, or ValueError if not ours."""
    there = set(inspect(connection).get_table_names())
    if "schema_version" not in there:
        if strangers := sorted(there & set(metadata.tables)):
            raise ValueError(
                f"the store has tables that this pmbandits did not make ({', '.join(strangers)}); take an empty one."
            )
        return False
    check_schema_version(connection.execute(select(schema_version.c.version)).scalar() or 0)
    return True


def create_tables(connection: Connection) -> None:
    """Make the tables in an empty store; whoever calls has the store to itself."""
    metadata.create_all(connection)
    connection.execute(insert(schema_version).values(version=VERSION))
