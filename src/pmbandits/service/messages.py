"""The bodies of asks and tells and their answers: read and written by msgspec, quicker than anything else in Python."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

MAX_TICKETS = 2**53

Name = Annotated[str, Meta(min_length=1, max_length=200)]
TicketNumber = Annotated[int, Meta(ge=1, le=MAX_TICKETS)]
IdempotencyKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="A text of your own. A request that is sent again with the same key is done once, and answered "
        "with what it led to then: so it can be repeated when no answer came.",
    ),
]

Count = Annotated[int, Meta(ge=1, le=1_000_000, description="How many arms at once; the answer then has lists.")]
Among = Annotated[list[Name], Meta(min_length=1, max_length=100_000, description="Only these arms are available now.")]
Segment = Annotated[
    str | list[Name],
    Meta(
        description="Who is in front of you, for an experiment with segments: the name of a segment. Of several arms "
        "or rewards, one for all, or a list with one for each."
    ),
]
Unit = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Who or what is served: the same unit gets the same arm again, while that arm plays.",
    ),
]
HistoryArm = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="For a reward that was not asked for (history): it informs the policy, but counts as no pull.",
    ),
]


class Ask(Struct, forbid_unknown_fields=True):
    """A request for an arm to play now, or for several."""

    n: Count | None = None
    among: Among | None = None
    key: IdempotencyKey | None = None
    unit: Unit | None = None
    segment: Segment | None = None


class Asked(Struct):
    """An arm to play, the ticket for its reward, and the share with which it was chosen.

    The share is the weight of the arm in the mixture that is played, for off-policy evaluation.
    """

    ticket: int
    arm: str
    share: float | None


class AskedMany(Struct):
    """Arms to play, their tickets, and the shares with which they were asked for."""

    tickets: list[int]
    arms: list[str]
    shares: list[float | None]


class Tell(Struct, forbid_unknown_fields=True):
    """The reward of a ticket, or rewards of several. What is sent twice counts once."""

    ticket: TicketNumber | None = None
    reward: float | None = None
    tickets: Annotated[list[TicketNumber], Meta(min_length=1)] | None = None
    rewards: Annotated[list[float], Meta(min_length=1)] | None = None
    arm: HistoryArm | None = None
    arms: Annotated[list[Name], Meta(min_length=1)] | None = None
    correct: Annotated[bool, Meta(description="Replace a reward that was told before.")] = False
    key: IdempotencyKey | None = None
    segment: Segment | None = None


class Told(Struct):
    """How many rewards were new, how many were known already, and how many replaced another."""

    taken: int
    repeated: int
    corrected: int


class Problem(Struct):
    """Why a request was refused, in one sentence."""

    error: str
