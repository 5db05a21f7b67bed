"""Whether this version of the library can serve a store: a rehearsal that changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

from sqlalchemy import func, select

from pmbandits.service import schema
from pmbandits.service.events import RUNNING, STATUS, NewEvent, StoredEvent, chain_digest
from pmbandits.service.randomised import initial_draws_of_spec
from pmbandits.service.replay import MissingEvent, PolicyReplay, policy_from_bytes, policy_from_spec
from pmbandits.service.schema import events
from pmbandits.service.store import ExperimentRecord, Store

_COLUMNS = ("exp", "seq", "kind", "ticket", "arm", "value", "at", "data", "digest")


def check_store(store: Store) -> Iterator[str]:
    """Read every experiment from its first event on: one sentence for each, or an error that says what is wrong."""
    for record in store.experiments():
        n, disagreements = _count_events_and_differing_asks(store, record)
        other = f"; in {disagreements:,} runs of asks it would choose other arms now" if disagreements else ""
        yield f"{record.name}: {n:,} events are whole, and make its policy{other}."


def _count_events_and_differing_asks(store: Store, record: ExperimentRecord) -> tuple[int, int]:
    """How many events there are, and in how many runs of asks the policy would choose otherwise now."""
    _policy_from_spec_or_refuse(store, record)
    imported = store.newest_snapshot(record.id, 0)
    policy = policy_from_spec(record.spec) if imported is None else policy_from_bytes(imported.content)
    replay, disagreements = PolicyReplay(policy, 0, record.root, initial_draws_of_spec(record.spec, record.root)), 0
    # First, because others may go on writing: an event that is known now must be read below.
    status, known, last = (
        RUNNING,
        _digests_by_event(store, record.id),
        _last_event_named_by_key_or_unit(store, record.id),
    )
    for rows in _events_written_together(store, record.id):
        if chain_digest(replay.digest, [event for event, _ in rows]) != rows[0][1]:
            raise ValueError(f"{record.name}: event {rows[0][0][1]} or one before it was changed, or is missing.")
        try:
            disagreements += replay.apply_stored_events(
                [_stored_event_from_new(event, digest) for event, digest in rows]
            )
        except MissingEvent as error:
            raise ValueError(f"{record.name}: {error}.") from None
        for event, digest in rows:
            if known.pop(event[1], digest) != digest:
                raise ValueError(f"{record.name}: event {event[1]} is not the one that a saved policy or point names.")
            if event[2] == STATUS:
                status = json.loads(event[-1] or "null")
    last = max(last, *known, 0)
    if last > replay.seen:
        raise ValueError(f"{record.name}: events after {replay.seen} are missing: event {last} was known.")
    now = store.find_experiment(record.name) or record
    if status not in (record.status, now.status):
        raise ValueError(f"{record.name}: its status is {record.status!r}, but its events say {status!r}.")
    return replay.seen, disagreements


def _policy_from_spec_or_refuse(store: Store, record: ExperimentRecord) -> None:
    """Check the first event, and that the experiment is what the audit trail says was created."""
    table, first = schema.audit, select(events.c.digest).where(events.c.exp == record.id, events.c.seq == 0)
    created = (
        select(table.c.detail)
        .where(table.c.experiment == record.name, table.c.act.in_(("create", "import")))
        .order_by(table.c.id.desc())
    )
    with store.engine.connect() as connection:
        if connection.execute(first).scalar() != record.root:
            raise ValueError(f"{record.name}: event 0 was changed, or is missing.")
        spec = connection.execute(created.limit(1)).scalar()
    if spec is not None and json.loads(spec) != record.spec:
        raise ValueError(f"{record.name}: its description is not the one with which it was created.")


def _digests_by_event(store: Store, exp: int) -> dict[int, int]:
    """The digests of events that saved policies and points of the history name."""
    found: dict[int, int] = {}
    with store.engine.connect() as connection:
        for table in (schema.snapshots, schema.points):
            named = select(table.c.seq, table.c.digest).where(table.c.exp == exp, table.c.seq > 0)
            found.update((seq, digest) for seq, digest in connection.execute(named))
    return found


def _last_event_named_by_key_or_unit(store: Store, exp: int) -> int:
    """The last event that keys of requests or units name; 0 without any."""
    requests, units = schema.requests, schema.units
    with store.engine.connect() as connection:
        ends = (
            select(func.max(requests.c.seq + requests.c.n - 1)).where(requests.c.exp == exp),
            select(func.max(units.c.seq)).where(units.c.exp == exp),
        )
        return max(int(connection.execute(end).scalar() or 0) for end in ends)


def _events_written_together(store: Store, exp: int) -> Iterator[list[tuple[NewEvent, int]]]:
    """The events of an experiment, those together that were written together."""
    wanted = select(*(events.c[name] for name in _COLUMNS)).where(events.c.exp == exp, events.c.seq > 0)
    with store.engine.connect().execution_options(stream_results=True) as connection:
        rows = ((tuple(row[:-1]), row[-1]) for row in connection.execute(wanted.order_by(events.c.seq)))
        for _, together in groupby(rows, key=lambda row: row[1]):
            yield list(together)


def _stored_event_from_new(event: NewEvent, digest: int) -> StoredEvent:
    _, seq, kind, ticket, arm, value, _, data = event
    return seq, kind, ticket, arm, value, data, digest
