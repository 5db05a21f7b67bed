"""The last decisions of an experiment, each with the policy's own reason, worked out again from the events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, select

from pmbandits.policies.shown import why
from pmbandits.service.events import ASK, Old
from pmbandits.service.fold import Fold, made, unpacked
from pmbandits.service.schema import events
from pmbandits.service.store import Record, Store

SHOWN = 12  # decisions
STEP = 500  # events that are followed one after the other; of more, some are left out
BEHIND = 20_000  # events that are replayed to find reasons of decisions before the board was opened


def clock(at: int) -> str:
    """A moment, as people write it."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Trail:
    """A policy that follows the events, and is asked before each of the last asks why it will decide so.

    Decisions follow from the order of events alone, so what it says is what the policy that decided would have said.
    When events come in faster than they are looked at, the first decisions after the last look are shown, and the
    others are left out: so it costs little, however many there are.
    """

    def __init__(self) -> None:
        self.fold: Fold | None = None
        self.found: list[dict[str, Any]] = []

    def follow(self, store: Store, record: Record, now: Fold) -> None:
        """Go on to the event that the live policy has reached; ``now`` is a copy of it."""
        begins = self.fold is None
        fold = self.fold or _some_time_ago(store, record, now.seen) or Fold(now.twin(), now.seen)
        far = now.seen - fold.seen > STEP and not begins
        for seq, at, arm in _asks(store, record.id, fold.seen, now.seen, newest=not far):
            _apply(fold, store, record.id, seq - 1)
            said = why(fold.policy)[1] if fold.seen == seq - 1 else ""
            name = fold.policy.names[arm]
            self.found.append({"seq": seq, "when": clock(at), "what": f"ask {seq:,}", "arm": name, "reason": said})
        if far:
            fold = Fold(now.twin(), now.seen)
        else:
            _apply(fold, store, record.id, now.seen)
        self.fold, self.found = fold, self.found[-SHOWN:]


def _apply(fold: Fold, store: Store, exp: int, upto: int) -> None:
    while fold.seen < upto and (rows := _rows(store, exp, fold.seen, upto)):
        fold.apply(rows)


def _some_time_ago(store: Store, record: Record, goal: int) -> Fold | None:
    """The newest saved policy, or that of the beginning, if not too much has happened since."""
    saved = store.snapshot(record.id, goal)
    if goal - (saved[0] if saved else 0) > BEHIND:
        return None
    return Fold(made(record.spec)) if saved is None else Fold(unpacked(saved[1]), saved[0])


def _rows(store: Store, exp: int, after: int, upto: int) -> list[Old]:
    columns = events.c.seq, events.c.kind, events.c.ticket, events.c.arm, events.c.value, events.c.data
    wanted = _between(select(*columns), exp, after, upto).order_by(events.c.seq).limit(BEHIND)
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(wanted)]


def _asks(store: Store, exp: int, after: int, upto: int, *, newest: bool) -> list[tuple[int, int, int]]:
    """The newest or the oldest asks between two events, in their order."""
    wanted = _between(select(events.c.seq, events.c.at, events.c.arm), exp, after, upto).where(events.c.kind == ASK)
    wanted = wanted.order_by(events.c.seq.desc() if newest else events.c.seq).limit(SHOWN)
    with store.engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(wanted))


def _between(wanted: Select[Any], exp: int, after: int, upto: int) -> Select[Any]:
    return wanted.where(events.c.exp == exp, events.c.seq > after, events.c.seq <= upto)
