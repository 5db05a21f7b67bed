"""Deleting: a whole experiment, what is kept of one unit, and what is older than it should be kept.

Events are never deleted one by one, because the policy follows from all of them. They do not say who was served: only
the table of units does, and the keys of requests may.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import delete, select

from pmbandits.service import schema
from pmbandits.service.events import request_digest
from pmbandits.service.store import ExperimentRecord, Store

_TABLES = (schema.events, schema.requests, schema.units, schema.snapshots, schema.points)


def delete_experiment(store: Store, name: str, who: str) -> None:
    """Delete an experiment and everything that belongs to it."""
    with store.write_transaction() as connection:
        table = schema.experiments
        number = connection.execute(select(table.c.id).where(table.c.name == name)).scalar()
        if number is None:
            return
        store.lock_experiment(connection, number)  # what is being written is there then, and nothing comes after it
        if not connection.execute(delete(table).where(table.c.id == number)).rowcount:
            return  # another process was quicker
        for part in _TABLES:
            connection.execute(delete(part).where(part.c.exp == number))
        store.write_audit(connection, who, "delete", name, "null")
    store.erase_deleted()


def delete_unit(store: Store, record: ExperimentRecord, unit: str, who: str) -> int:
    """Delete what is kept of a unit; return how many rows that were. The audit trail does not name it.

    Keys of its requests go too: whoever guesses its name could see from their digests which tickets were its.
    """
    units, requests = schema.units, schema.requests
    named = requests.c.what.endswith(request_digest("unit", unit))
    works = [delete(units).where(units.c.unit == unit), delete(requests).where(named)]
    return _delete_rows_with_audit(store, record, who, "delete unit", works)


def delete_older_units_and_keys(store: Store, record: ExperimentRecord, seconds: float, who: str) -> int:
    """Delete units and keys of requests whose event is older than some seconds; return how many rows that were."""
    before = store.now_ms() - 1000.0 * seconds
    old = select(schema.events.c.seq).where(schema.events.c.exp == record.id, schema.events.c.at < before)
    works = [delete(table).where(table.c.seq.in_(old)) for table in (schema.units, schema.requests)]
    return _delete_rows_with_audit(store, record, who, "delete old", works)


def _delete_rows_with_audit(store: Store, record: ExperimentRecord, who: str, act: str, works: list[Any]) -> int:
    with store.write_transaction() as connection:
        found = sum(connection.execute(work.where(work.table.c.exp == record.id)).rowcount for work in works)
        if found:
            store.write_audit(connection, who, act, record.name, json.dumps({"rows": found}))
    if found:
        store.erase_deleted()
    return found
