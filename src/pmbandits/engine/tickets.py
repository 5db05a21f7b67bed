"""Tickets: every ask has an identifier, and its reward counts once, however often it is sent.

One row is kept for every ticket that is open, and for the last 100,000 that were answered. Of all others only their
number is kept. That is enough, because a ticket is a number that was given out: one that is neither open nor remembered
was answered.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pmbandits import _validation
from pmbandits.engine.archive import Archive, DamagedFile, is_json_count
from pmbandits.segments import Segments
from pmbandits.state.layout import MOST
from pmbandits.supports import Support

MAX_REMEMBERED = 100_000  # answered tickets of which the row is kept
_PREFIX = re.compile("[0-9a-f]{8}")


class Ticket(NamedTuple):
    """One ask, with what is needed to tell its reward: the result of :meth:`Policy.ask_ticket`.

    Attributes
    ----------
    id : the identifier. Give it back with the reward: ``tell(ticket=id, reward=...)``.
    arm, name : the arm to pull, by position and by name.
    share : the propensity, that is the weight of the arm in the mixture by which it was asked for. Policies that track
        a mixture do not draw arms at random. So it is the share that the arm gets in the long run, and not a chance in
        this round. An arm that has no weight there (because it is explored, or new) has its share of the pulls so far
        instead.
    round : the number of the ask.
    at : the time of the ask, in seconds since 1970.
    segment : the segment that was asked for; ``None`` without segments. ``share`` is the share within it.
    """

    id: str
    arm: int
    share: float
    name: str
    round: int
    at: float
    segment: str | None = None


class TicketRow(NamedTuple):
    """What is kept of a ticket; ``reward`` is ``None`` while it is open, ``segment`` is 0 without segments."""

    arm: int
    share: float
    round: int
    at: float
    reward: float | None = None
    segment: int = 0


class PendingAnswers(NamedTuple):
    """Answers that are being recorded. If Ctrl-C comes in between, the next call can tell what was done."""

    answers: dict[str, float]
    before: tuple[Any, ...]


class Tickets:
    """All tickets of a policy."""

    def __init__(self) -> None:
        self.prefix: str | None = None  # the prefix of new tickets; a copy takes another one
        self.issued: dict[str, int] = {}  # by prefix: how many were given out
        self.open: dict[str, TicketRow] = {}
        self.answered: dict[str, TicketRow] = {}  # the last ones
        self.in_progress: PendingAnswers | None = None

    def copy(self) -> Tickets:
        """A copy of all tickets, for a clone of the policy. New tickets of the clone have another prefix."""
        out = Tickets()
        out.issued, out.open, out.answered = dict(self.issued), dict(self.open), dict(self.answered)
        out.in_progress = self.in_progress
        return out

    def __deepcopy__(self, memo: Any) -> Tickets:
        return self.copy()

    def to_description_and_arrays(self, has_segments: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a file says of the tickets: its description, and arrays by name.

        In the one array a row is a ticket: which prefix, which number, and what is kept of it. Open tickets come last,
        without a reward; the others as they were answered. The last column, the segment, is there with segments only.
        """
        prefixes = {prefix: at for at, prefix in enumerate(self.issued)}
        table = []
        for key, row in (*self.answered.items(), *self.open.items()):
            prefix, _, number = key.rpartition("-")
            reward = np.nan if row.reward is None else row.reward
            table.append((prefixes[prefix], int(number), *row[:4], reward, row.segment)[: 8 if has_segments else 7])
        description = {"issued": self.issued, "rows": len(table)}
        return description, {"tickets": np.array(table, dtype=np.float64)} if table else {}

    @classmethod
    def from_description_and_archive(
        cls, found: Any, archive: Archive, *, n_arms: int, rounds: int, support: Support, segments: Segments | None
    ) -> Tickets:
        """The tickets of a file, checked; raises DamagedFile.

        Arms, rounds and rewards must be those of a policy with ``n_arms`` arms, so many ``rounds`` and this support;
        and arms those of the ticket's segment, if there are any.
        """
        unreadable = DamagedFile("its tickets cannot be read")
        fits = isinstance(found, dict) and set(found) == {"issued", "rows"} and isinstance(found["issued"], dict)
        if not fits or not all(is_json_count(number) for number in (found["rows"], *found["issued"].values())):
            raise unreadable
        if not all(_PREFIX.fullmatch(prefix) and number for prefix, number in found["issued"].items()):
            raise unreadable
        out = cls()
        out.issued, prefixes = found["issued"], list(found["issued"])
        if found["rows"] == 0:
            return out
        table = archive.read_array("tickets", (found["rows"], 7 if segments is None else 8), np.float64)
        if segments is None:
            table = np.column_stack((table, np.zeros(len(table))))
        whole, (share, at, reward) = table[:, [0, 1, 2, 4, 7]], table[:, [3, 5, 6]].T
        most = [len(prefixes) - 1, MOST, n_arms - 1, rounds, 0 if segments is None else len(segments) - 1]
        if not ((whole == np.floor(whole)) & (whole >= [0, 0, 0, 1, 0]) & (whole <= most)).all():
            raise unreadable
        if segments is not None and (segments.column_at[tuple(whole[:, [4, 2]].astype(np.int64).T)] < 0).any():
            raise unreadable
        issued = np.array(list(out.issued.values()))[whole[:, 0].astype(np.int64)]
        possible = (whole[:, 1] < issued) & (share >= 0.0) & (share <= 1.0 + 1e-9) & np.isfinite(at)
        if not possible.all() or not support.contains(reward[~np.isnan(reward)]).all():
            raise unreadable
        for prefix, number, arm, p, t, when, told, segment in table.tolist():
            row = TicketRow(int(arm), p, int(t), when, None if math.isnan(told) else told, int(segment))
            (out.open if row.reward is None else out.answered)[f"{prefixes[int(prefix)]}-{int(number)}"] = row
        if len(out.open) + len(out.answered) != found["rows"] or set(out.open) & set(out.answered):
            raise unreadable
        return out

    def issue_ticket(self, row: TicketRow) -> str:
        """Add a new open ticket, and return its identifier."""
        if self.prefix is None:
            self.prefix = secrets.token_hex(4)
        number = self.issued.get(self.prefix, 0)
        key = f"{self.prefix}-{number}"
        self.open[key] = row
        self.issued[self.prefix] = number + 1
        return key

    def was_issued(self, key: str) -> bool:
        """Whether a ticket with this identifier was ever given out."""
        prefix, dash, number = key.rpartition("-")
        if not dash or not number.isdecimal() or len(number) > 15 or str(int(number)) != number:
            return False
        return int(number) < self.issued.get(prefix, 0)

    def new_answers(self, keys: list[str], rewards: list[float]) -> dict[str, float]:
        """The answers that are new; an error in one sentence for an answer that is not possible."""
        new: dict[str, float] = {}
        for key, reward in zip(keys, rewards, strict=True):
            before = new.get(key)
            if before is None and key in self.answered:
                before = self.answered[key].reward
            if before is not None and before != reward:
                raise ValueError(
                    f"ticket {key} has the reward {before:g} already, and {reward:g} is another one; "
                    f"to correct it, retell(ticket={key!r}, reward={reward:g})."
                )
            if before is None and key in self.open:
                new[key] = reward
            elif before is None and not self.was_issued(key):
                raise ValueError(f"there is no ticket {_validation.short_repr(key)}; this policy did not give it out.")
        return new

    def mark_answered(self, answers: dict[str, float]) -> None:
        """Note that these were answered, even if some of them are noted already."""
        for key, reward in answers.items():
            row = self.open.get(key) or self.answered.get(key)
            if row is not None:
                self.answered[key] = row._replace(reward=reward)
                self.open.pop(key, None)
        while len(self.answered) > MAX_REMEMBERED:
            self.answered.pop(next(iter(self.answered)))

    def open_tickets_before(self, round_: int | None, at: float | None) -> list[str]:
        """The open tickets from before a round, or from before a time."""
        return [
            key
            for key, row in self.open.items()
            if (round_ is not None and row.round <= round_) or (at is not None and row.at <= at)
        ]

    def merge_tickets_of(self, other: Tickets, place: list[int], segment_place: list[int]) -> None:
        """Take in the tickets of another policy; the places are where its arms and its segments are here."""

        def here(row: TicketRow) -> TicketRow:
            return row._replace(arm=place[row.arm], segment=segment_place[row.segment] if segment_place else 0)

        for prefix, number in other.issued.items():
            self.issued[prefix] = max(number, self.issued.get(prefix, 0))
        for key, row in other.answered.items():
            self.open.pop(key, None)
            self.answered.setdefault(key, here(row))
        for key, row in other.open.items():
            if key not in self.answered:
                self.open.setdefault(key, here(row))
        self.mark_answered({})

    def rows_by_round(self) -> Iterable[tuple[str, TicketRow]]:
        """Every ticket of which a row is kept, in the order of the rounds in which they were asked."""
        return sorted([*self.answered.items(), *self.open.items()], key=lambda item: (item[1].round, item[0]))


def ticket_id(ticket: Any) -> str:
    """The identifier of a ticket, which may be given as the ticket itself."""
    key = ticket.id if isinstance(ticket, Ticket) else ticket
    if not isinstance(key, str):
        raise TypeError(f"a ticket is given by its id, which is text, got {_validation.short_repr(ticket)}.")
    return key
