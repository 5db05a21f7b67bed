"""Whether this version of the library can serve a store: a rehearsal that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from sqlalchemy import select

from pmbandits.service.events import NewEvent, StoredEvent, chain_digest
from pmbandits.service.randomised import draws_of
from pmbandits.service.replay import MissingEvent, PolicyReplay, policy_from_bytes, policy_from_spec
from pmbandits.service.schema import events
from pmbandits.service.store import ExperimentRecord, Store

_COLUMNS = ("exp", "seq", "kind", "ticket", "arm", "value", "at", "data", "digest")


def check_store(store: Store) -> Iterator[str]:
    """Read every experiment from its first event on: one sentence for each, or an error that says what is wrong."""
    for record in store.experiments():
        n, disagreements = _check_experiment(store, record)
        other = f"; in {disagreements:,} runs of asks it would choose other arms now" if disagreements else ""
        yield f"{record.name}: {n:,} events are whole, and make its policy{other}."


def _check_experiment(store: Store, record: ExperimentRecord) -> tuple[int, int]:
    """How many events there are, and in how many runs of asks the policy would choose otherwise now."""
    imported = store.snapshot(record.id, 0)
    policy = policy_from_spec(record.spec) if imported is None else policy_from_bytes(imported.content)
    replay, disagreements = PolicyReplay(policy, 0, record.root, draws_of(record.spec, record.root)), 0
    for rows in _batches(store, record.id):
        if chain_digest(replay.digest, [event for event, _ in rows]) != rows[0][1]:
            raise ValueError(f"{record.name}: event {rows[0][0][1]} or one before it was changed, or is missing.")
        try:
            disagreements += replay.apply_events([_as_stored(event, digest) for event, digest in rows])
        except MissingEvent as error:
            raise ValueError(f"{record.name}: {error}.") from None
    return replay.seen, disagreements


def _batches(store: Store, exp: int) -> Iterator[list[tuple[NewEvent, int]]]:
    """The events of an experiment, those together that were written together."""
    wanted = select(*(events.c[name] for name in _COLUMNS)).where(events.c.exp == exp, events.c.seq > 0)
    with store.engine.connect().execution_options(stream_results=True) as connection:
        rows = ((tuple(row[:-1]), row[-1]) for row in connection.execute(wanted.order_by(events.c.seq)))
        for _, together in groupby(rows, key=lambda row: row[1]):
            yield list(together)


def _as_stored(event: NewEvent, digest: int) -> StoredEvent:
    _, seq, kind, ticket, arm, value, _, data = event
    return seq, kind, ticket, arm, value, data, digest
