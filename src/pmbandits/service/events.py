"""What happens to an experiment, as it is kept: kinds of events, and what a transaction reads and writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

# Kinds of events. These numbers are in stores: never change one.
ASK, TELL, RETELL, ASKED, ADD, PAUSE, RESUME, RETIRE, LIMITS, STATUS, CREATE, PROBABILITIES = range(12)
KINDS = ("ask", "tell", "retell", "asked", "add", "pause", "resume", "retire", "limits", "status", "create",
         "probabilities")  # fmt: skip
ADMINISTRATION = frozenset({ADD, PAUSE, RESUME, RETIRE, LIMITS})  # these can take long

RUNNING, PAUSED, ARCHIVED = "running", "paused", "archived"

# A new event: exp, seq, kind, ticket, arm, value, at, data; in the store it has a digest, too.
# One that is read: seq, kind, ticket, arm, value, data, digest.
NewEvent = tuple[int, int, int, int | None, int | None, float | None, int, str | None]
SealedEvent = tuple[int, int, int, int | None, int | None, float | None, int, str | None, int]
StoredEvent = tuple[int, int, int | None, int | None, float | None, str | None, int]

# The arm of an event is its position. With segments, it is that of the arm plus so many times that of the segment: both
# never change, because arms and segments that come later stand behind the others.
SEGMENT_STEP = 1 << 14

_encode = msgspec.msgpack.Encoder().encode
MAX_EVENTS_BEHIND = 2_000  # events that are taken in while others wait; who is further behind reads without the lock


def request_digest(*parts: Any) -> str:
    """What a key of a request stands for, in 16 letters, so that the same key is refused for something else."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def chain_digest(before: int, events: Sequence[NewEvent]) -> int:
    """The digest of events that are written together: it follows from them and from the digest of the event before.

    So two stores in which an event has the same digest agree in that event and in all before it. All events of one
    transaction have the same.
    """
    content = before.to_bytes(8, "little", signed=True) + _encode(events)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


@dataclass(slots=True)
class Lookup:
    """What a transaction looks up for one experiment: events from ``seen`` on, and tickets, keys and units."""

    exp: int
    seen: int
    limit: int = MAX_EVENTS_BEHIND
    tickets: set[int] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    units: set[str] = field(default_factory=set)


class AnsweredRequest(NamedTuple):
    """A request that was answered before: its first seq, what it was, and arms and values of its events."""

    seq: int
    what: str
    events: Sequence[tuple[int | None, float | None]]


@dataclass(slots=True)
class LookupResult:
    """What was found for a :class:`Lookup`.

    The first of ``new_events`` is the last one that was known. ``tickets`` has the arm of each ask, ``rewarded`` the
    newest reward of a ticket, ``keys`` what each request led to, ``units`` the arm of each unit.
    """

    new_events: list[StoredEvent] = field(default_factory=list)
    tickets: dict[int, int] = field(default_factory=dict)
    rewarded: dict[int, float] = field(default_factory=dict)
    keys: dict[str, AnsweredRequest] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class WriteBatch:
    """What a transaction writes, all of it or nothing.

    ``at`` is the time of the store when the transaction began, in milliseconds. Requests add to ``drafted``; sealed by
    their digest, these become ``events``.
    """

    at: int = 0
    drafted: list[NewEvent] = field(default_factory=list)
    events: list[SealedEvent] = field(default_factory=list)
    requests: list[tuple[int, str, int, int, str]] = field(default_factory=list)  # exp, key, seq, n, what
    units: list[tuple[int, str, int, int]] = field(default_factory=list)  # exp, unit, arm, seq
    statuses: list[tuple[str, int]] = field(default_factory=list)  # status, exp
    audit: list[tuple[int, str, str, str, str]] = field(default_factory=list)  # at, who, act, experiment, detail

    def __bool__(self) -> bool:
        return bool(self.events or self.audit or self.requests)

    def append_batch(self, other: WriteBatch) -> None:
        """Write what another one writes, too."""
        self.events += other.events
        self.requests += other.requests
        self.units += other.units
        self.statuses += other.statuses
        self.audit += other.audit


class Transaction(Protocol):
    """The connection of one process to the store: one transaction at a time, from the event loop.

    ``at`` is the time of the store when the transaction began, in milliseconds since 1970.
    """

    at: int

    async def run(
        self, lookups: list[Lookup], decide: Callable[[list[LookupResult]], WriteBatch], *, alone: bool
    ) -> None:
        """One transaction: look up what is new, write what ``decide`` makes of it, and bring that to the disk.

        From the lookup on these experiments belong to this process alone. ``decide`` is called in the event loop, or
        while that stands still. ``alone``: nobody else wrote lately, so there is most likely nobody to wait for.
        Whatever happens, the transaction is over afterwards.
        """

    def new_events(self, exp: int, seen: int, limit: int) -> list[StoredEvent]:
        """The event ``seen`` and those after it, without waiting for anybody; from any thread."""

    def close(self) -> None:
        """Close the connections."""


class TooFarBehind(Exception):
    """This process must read many events before it can begin a transaction."""

    def __init__(self, exp: int) -> None:
        super().__init__(exp)
        self.exp = exp


def check_not_behind(lookup: Lookup, rows: Sequence[StoredEvent]) -> None:
    """Raise TooFarBehind if events take long to take in: many of them, or acts of administration."""
    if len(rows) > 1 and (len(rows) >= lookup.limit or any(row[1] in ADMINISTRATION for row in rows[1:])):
        raise TooFarBehind(lookup.exp)


INSERT = {
    "events": "INSERT INTO events (exp, seq, kind, ticket, arm, value, at, data, digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "requests": "INSERT INTO requests (exp, key, seq, n, what) VALUES (?, ?, ?, ?, ?)",
    "units": "INSERT INTO units (exp, unit, arm, seq) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (exp, unit) DO UPDATE SET arm = excluded.arm, seq = excluded.seq",
    "statuses": "UPDATE experiments SET status = ? WHERE id = ?",
    "audit": "INSERT INTO audit (at, who, act, experiment, detail) VALUES (?, ?, ?, ?, ?)",
}
SELECT_RANGE = "SELECT arm, value FROM events WHERE exp = ? AND seq >= ? AND seq < ? ORDER BY seq"
# Of an experiment that was deleted there are no events, whatever a table still has.
SELECT_FROM = (
    "SELECT seq, kind, ticket, arm, value, data, digest FROM events WHERE exp = ? AND seq >= ? "
    "AND EXISTS (SELECT 1 FROM experiments WHERE id = ?) ORDER BY seq LIMIT ?"
)
