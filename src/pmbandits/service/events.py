"""What happens to an experiment, as it is kept: kinds of events, and what a turn asks of the store and gives to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

# Kinds of events. These numbers are in stores: never change one.
ASK, TELL, RETELL, ASKED, ADD, PAUSE, RESUME, RETIRE, LIMITS, STATUS = range(10)
KINDS = ("ask", "tell", "retell", "asked", "add", "pause", "resume", "retire", "limits", "status")

RUNNING, PAUSED, ARCHIVED = "running", "paused", "archived"

# A new event: exp, seq, kind, ticket, arm, value, at, data. One that is read: seq, kind, ticket, arm, value, data.
New = tuple[int, int, int, int | None, int | None, float | None, int, str | None]
Old = tuple[int, int, int | None, int | None, float | None, str | None]

MOST_BEHIND = 20_000  # events that are read while others wait; who is further behind reads without the lock first


@dataclass(slots=True)
class Want:
    """What a turn needs to know of one experiment: the event ``seen`` and all after it, and what its requests name."""

    exp: int
    seen: int
    tickets: set[int] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    units: set[str] = field(default_factory=set)


class Done(NamedTuple):
    """A request that was answered before: its first seq, what it was, and arms and values of its events."""

    seq: int
    what: str
    events: Sequence[tuple[int | None, float | None]]


@dataclass(slots=True)
class Found:
    """The answer to a :class:`Want`.

    ``tickets`` has the arm of each ask, ``told`` the newest reward of each ticket, ``keys`` what each request led to,
    ``units`` the arm of each unit.
    """

    tail: list[Old] = field(default_factory=list)
    tickets: dict[int, int] = field(default_factory=dict)
    told: dict[int, float] = field(default_factory=dict)
    keys: dict[str, Done] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """What a turn writes, all of it or nothing."""

    events: list[New] = field(default_factory=list)
    requests: list[tuple[int, str, int, int, str]] = field(default_factory=list)  # exp, key, seq, n, what
    units: list[tuple[int, str, int, int]] = field(default_factory=list)  # exp, unit, arm, seq
    statuses: list[tuple[str, int]] = field(default_factory=list)  # status, exp
    audit: list[tuple[int, str, str, str, str]] = field(default_factory=list)  # at, who, act, experiment, detail

    def __bool__(self) -> bool:
        return bool(self.events or self.audit or self.requests)

    def add(self, other: Batch) -> None:
        """Write what another one writes, too."""
        self.events += other.events
        self.requests += other.requests
        self.units += other.units
        self.statuses += other.statuses
        self.audit += other.audit


class Lane(Protocol):
    """The way of one process into the store: one turn at a time, with the bare driver, from the event loop."""

    async def begin(self, wants: list[Want], *, alone: bool) -> list[Found]:
        """Wait until these experiments belong to this process alone, and read what is new of them.

        ``alone``: nobody else wrote lately, so there is most likely nobody to wait for.
        """

    async def commit(self, batch: Batch) -> None:
        """Bring everything to the disk, and let others go on. Whatever happens, the turn is over."""

    async def abandon(self) -> None:
        """Let others go on; nothing is written."""

    def tail(self, exp: int, seen: int, limit: int) -> list[Old]:
        """Events after ``seen``, without waiting for anybody; from any thread."""

    def close(self) -> None:
        """Give back what the lane holds."""


class Behind(Exception):
    """This process must read many events before it can take a turn."""

    def __init__(self, exp: int) -> None:
        super().__init__(exp)
        self.exp = exp


INSERT = {
    "events": "INSERT INTO events (exp, seq, kind, ticket, arm, value, at, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "requests": "INSERT INTO requests (exp, key, seq, n, what) VALUES (?, ?, ?, ?, ?)",
    "units": "INSERT INTO units (exp, unit, arm, seq) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (exp, unit) DO UPDATE SET arm = excluded.arm, seq = excluded.seq",
    "statuses": "UPDATE experiments SET status = ? WHERE id = ?",
    "audit": "INSERT INTO audit (at, who, act, experiment, detail) VALUES (?, ?, ?, ?, ?)",
}
RANGE = "SELECT arm, value FROM events WHERE exp = ? AND seq >= ? AND seq < ? ORDER BY seq"
FROM = "SELECT seq, kind, ticket, arm, value, data FROM events WHERE exp = ? AND seq >= ? ORDER BY seq LIMIT ?"
TAIL = "SELECT seq, kind, ticket, arm, value, data FROM events WHERE exp = ? AND seq > ? ORDER BY seq LIMIT ?"
