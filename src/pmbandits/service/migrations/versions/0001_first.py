"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("library", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("exp", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("ticket", sa.BigInteger),
        sa.Column("arm", sa.Integer),
        sa.Column("value", sa.Double),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.Text),
        sqlite_with_rowid=False,
    )
    told = sa.text("kind = 1 AND ticket IS NOT NULL")
    again = sa.text("kind = 2")
    op.create_index("one_tell", "events", ["exp", "ticket"], unique=True, sqlite_where=told, postgresql_where=told)
    op.create_index("retells", "events", ["exp", "ticket"], sqlite_where=again, postgresql_where=again)
    op.create_table(
        "requests",
        sa.Column("exp", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "units",
        sa.Column("exp", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("unit", sa.Text, primary_key=True),
        sa.Column("arm", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "snapshots",
        sa.Column("exp", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("library", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "points",
        sa.Column("exp", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("experiments", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("revoked", sa.BigInteger),
        sa.Column("used", sa.BigInteger),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("act", sa.Text, nullable=False),
        sa.Column("experiment", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
    )
