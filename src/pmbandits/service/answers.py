"""What answers look like: for the description of the interface, and for the tests that hold answers against it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pmbandits.service.live import Live
from pmbandits.service.store import Record, iso

Time = Annotated[str, Meta(description="A moment in UTC, such as 2026-11-17T08:29:05.250Z.")]
State = Literal["running", "paused", "archived"]


class _Answer(Struct, forbid_unknown_fields=True):
    pass


class Health(_Answer):
    """Whether the process lives, or is ready."""

    status: str


class Imported(_Answer):
    """Where a policy came from that was not begun here."""

    library: str
    round: Annotated[int, Meta(description="The round that it was in. What happened before is not in the log.")]


class Change(_Answer):
    """An arm whose rewards changed."""

    arm: str
    event: Annotated[int | None, Meta(description="The event with which it was found.")]
    time: Time | None
    round: Annotated[int | None, Meta(description="The round, for policies with detect=, which find it themselves.")]
    rewards: Annotated[str, Meta(description="Which rewards became more or less frequent.")]
    before: Annotated[dict[str, float], Meta(description="How many rewards came before, and the share of these.")]
    after: Annotated[dict[str, float], Meta(description="The same since the change.")]
    sentence: str


class Experiment(_Answer):
    """What an experiment is, as it is now."""

    name: str
    status: State
    created: Time
    library: Annotated[str, Meta(description="The version of pmbandits with which it began.")]
    metric: str
    arms: Annotated[list[str], Meta(description="All arms that there ever were.")]
    playing: Annotated[list[str] | None, Meta(description="Arms that can be given; null in lists, if it is archived.")]
    paused: list[str] | None
    retired: list[str] | None
    limits: Annotated[str | None, Meta(description="Limits on shares, now.")]
    support: dict[str, Any]
    policy: str
    options: dict[str, Any]
    seed: int
    events: Annotated[int | None, Meta(description="How many events there are.")]
    imported: Imported | UnsetType = UNSET
    changes: Annotated[
        list[Change] | UnsetType, Meta(description="In lists: arms whose rewards changed, as far as is known.")
    ] = UNSET


class Experiments(_Answer):
    """All experiments that the key may read."""

    experiments: list[Experiment]


class Curve(_Answer):
    """The rewards of an arm: at each ``x``, the share of rewards up to it, and the ends of its confidence band."""

    x: list[float]
    share: list[float]
    low: list[float]
    high: list[float]


class Worth(_Answer):
    """What something is worth by the preference, and between which bounds."""

    lower: float | None
    utility: float | None
    upper: float | None


class Arm(_Answer):
    """What is known of an arm."""

    arm: str
    plays: bool
    pulls: Annotated[int, Meta(description="How often it was asked for.")]
    pending: Annotated[int, Meta(description="Rewards that are awaited.")]
    played: Annotated[float | None, Meta(description="Its share of all pulls.")]
    wanted: Annotated[float, Meta(description="Its share in the mixture that the policy wants.")]
    rewards: int
    mean: float | None
    curve: Curve | UnsetType = UNSET
    alone: Annotated[Worth | UnsetType, Meta(description="What the arm alone is worth, if it plays.")] = UNSET


class Certainty(_Answer):
    """How sure the mixture is."""

    utility: float | None
    lower: float | None
    upper: float | None
    rival: Annotated[float | None, Meta(description="What any other mixture can be worth at most.")]
    regret: Annotated[float | None, Meta(description="By how much the mixture can fall short of the best at most.")]
    probability: float | None
    meaning: str
    sentence: str
    holds: Annotated[bool, Meta(description="False if an arm that plays has changed: then all of this is not valid.")]


class Forecast(_Answer):
    """When a regret may be certain, in rounds from now; null where that is never, or not known."""

    rounds: float | None
    low: float | None
    high: float | None
    goal: str
    sentence: str


class Awaited(_Answer):
    """Rewards that have not come yet."""

    rewards: Annotated[int, Meta(description="How many.")]
    oldest: Annotated[int | None, Meta(description="The oldest ticket that has none.")]
    since: Time | None


class Shown(_Answer):
    """Everything that is known now."""

    name: str
    status: State
    events: int
    t: Annotated[int, Meta(description="Rounds: how many arms were asked for.")]
    arms: list[Arm]
    limits: str | None
    certainty: Annotated[Certainty | None, Meta(description="Null for policies that keep no confidence sets.")]
    explanation: Annotated[str, Meta(description="Why the next arm is next.")]
    forecast: Annotated[Forecast | None, Meta(description="Only with regret= in the address.")]
    awaited: Awaited
    changes: Annotated[list[Change], Meta(description="Arms whose rewards changed; all else assumes that none did.")]
    watched: Annotated[int | None, Meta(description="Up to which event rewards were watched for changes.")]


class Point(_Answer):
    """How an experiment stood after an event."""

    seq: int
    time: Time
    t: int
    rewards: int
    pulls: dict[str, int]
    wanted: dict[str, float]
    utility: float | UnsetType | None = UNSET
    lower: float | UnsetType | None = UNSET
    upper: float | UnsetType | None = UNSET
    rival: float | UnsetType | None = UNSET
    regret: float | UnsetType | None = UNSET


class History(_Answer):
    """How an experiment went; the last point is now."""

    points: list[Point]


class Event(_Answer):
    """One event."""

    seq: int
    time: Time
    kind: Annotated[
        str, Meta(description="ask, asked (the same arm again for a unit), tell, retell (a correction), or a change.")
    ]
    ticket: int | None
    arm: str | None
    share: Annotated[float | None, Meta(description="The share with which the arm was asked for.")]
    reward: float | None
    data: Annotated[str | None, Meta(description="More, as JSON: of a change what was given, of a retell the old one.")]


class Log(_Answer):
    """Events, oldest first."""

    events: list[Event]


class Expired(_Answer):
    """Tickets that got a default reward."""

    tickets: list[int]
    more: Annotated[bool, Meta(description="Whether there are more: then send the same request again.")]


class Description(Struct):
    """A description in the format OpenAPI."""

    openapi: str


class Act(_Answer):
    """An act of administration."""

    id: int
    time: Time
    who: Annotated[str, Meta(description="The number of the key, or the user of the command line.")]
    act: str
    experiment: str | None
    detail: Annotated[str, Meta(description="What was given, as JSON.")]


class Acts(_Answer):
    """Acts of administration, newest first."""

    acts: list[Act]


def experiment(record: Record, live: Live | None) -> dict[str, Any]:
    """An experiment as it is now; of one that is not in memory, as it began."""
    spec, policy = record.spec, None if live is None else live.fold.policy
    names = tuple(spec["arms"]) if policy is None else policy.names
    playing, retired = ((), ()) if policy is None else (policy.playing, policy.retired)
    gone = {*playing, *retired}
    known = policy is not None
    limits = spec.get("shares") if policy is None else policy.limits
    out = {
        "name": record.name,
        "status": record.status if live is None else live.status,
        "created": iso(record.created),
        "library": record.library,
        "metric": spec["metric"],
        "arms": list(names),
        "playing": list(playing) if known else None,
        "paused": [name for name in names if name not in gone] if known else None,
        "retired": list(retired) if known else None,
        "limits": None if limits is None else str(limits),
        "support": spec["support"],
        "policy": spec["policy"],
        "options": spec.get("options") or {},
        "seed": spec.get("seed", 0),
        "events": None if live is None else live.fold.seen,
    }
    return out | ({"imported": spec["imported"]} if "imported" in spec else {})
