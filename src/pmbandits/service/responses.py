"""What answers look like: for the description of the interface, and for the tests that hold answers against it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pmbandits.engine.policy import Policy
from pmbandits.segments import Segments
from pmbandits.service.experiment import CommittedExperiment, LiveExperiment
from pmbandits.service.keys import Key
from pmbandits.service.randomised import POLICY
from pmbandits.service.store import ExperimentRecord, iso_utc

Time = Annotated[str, Meta(description="A moment in UTC, such as 2026-11-17T08:29:05.250Z.")]
ExperimentStatus = Literal["running", "paused", "archived"]


class _Response(Struct, forbid_unknown_fields=True):
    pass


class Health(_Response):
    """Whether the process lives, or is ready."""

    status: str


class ImportedPolicy(_Response):
    """Where a policy came from that was not begun here."""

    library: str
    round: Annotated[int, Meta(description="The round that it was in. What happened before is not in the log.")]


class Change(_Response):
    """An arm whose rewards changed."""

    arm: str
    event: Annotated[int | None, Meta(description="The event with which it was found.")]
    time: Time | None
    round: Annotated[int | None, Meta(description="The round, for policies with detect=, which find it themselves.")]
    rewards: Annotated[str, Meta(description="Which rewards became more or less frequent.")]
    before: Annotated[dict[str, float], Meta(description="How many rewards came before, and the share of these.")]
    after: Annotated[dict[str, float], Meta(description="How many rewards came since, and their share.")]
    sentence: str


class Experiment(_Response):
    """What an experiment is, as it is now."""

    name: str
    status: ExperimentStatus
    created: Time
    library: Annotated[str, Meta(description="The version of pmbandits with which it began.")]
    metric: str
    arms: Annotated[list[str], Meta(description="All arms that there ever were.")]
    segments: Annotated[dict[str, list[str]] | None, Meta(description="The arms of each segment, if there are any.")]
    playing: Annotated[list[str] | None, Meta(description="Arms that can be given; null in lists, if it is archived.")]
    paused: list[str] | None
    retired: list[str] | None
    limits: Annotated[str | None, Meta(description="Limits on shares, now.")]
    support: dict[str, Any]
    policy: str
    options: dict[str, Any]
    seed: int
    play: Annotated[str, Meta(description="policy: as the policy chooses. randomised: drawn, by known probabilities.")]
    events: Annotated[int | None, Meta(description="How many events there are.")]
    imported: ImportedPolicy | UnsetType = UNSET
    changes: Annotated[
        list[Change] | UnsetType, Meta(description="In lists: arms whose rewards changed, as far as is known.")
    ] = UNSET


class Experiments(_Response):
    """All experiments that the key may read."""

    experiments: list[Experiment]


class Curve(_Response):
    """The rewards of an arm: at each ``x``, the share of rewards up to it, and the ends of its confidence band."""

    x: list[float]
    share: list[float]
    low: list[float]
    high: list[float]


class UtilityBounds(_Response):
    """A utility by the preference, and its bounds."""

    lower: float | None
    utility: float | None
    upper: float | None


class Arm(_Response):
    """What is known of an arm; with segments, of an arm in a segment, and shares are those within it."""

    arm: str
    plays: bool
    pulls: Annotated[int, Meta(description="How often it was asked for.")]
    pending: Annotated[int, Meta(description="Rewards that are awaited.")]
    played: Annotated[float | None, Meta(description="Its share of all pulls.")]
    wanted: Annotated[float, Meta(description="Its share in the mixture that the policy wants.")]
    rewards: int
    mean: float | None
    curve: Curve | UnsetType = UNSET
    segment: str | UnsetType = UNSET
    alone: Annotated[UtilityBounds | UnsetType, Meta(description="What the arm alone is worth, if it plays.")] = UNSET


class Certainty(_Response):
    """How sure the mixture is."""

    utility: float | None
    lower: float | None
    upper: float | None
    rival: Annotated[float | None, Meta(description="What any other mixture can be worth at most.")]
    regret: Annotated[float | None, Meta(description="By how much the mixture can fall short of the best at most.")]
    probability: float | None
    frequencies: Annotated[
        list[float], Meta(description="How often people of each segment came, for which this holds.")
    ]
    meaning: str
    sentence: str
    holds: Annotated[
        bool, Meta(description="False if an arm that plays has changed, or rewards get lost: then this is not valid.")
    ]


class Forecast(_Response):
    """When a regret may be certain, in rounds from now; null where that is never, or not known."""

    rounds: float | None
    low: float | None
    high: float | None
    goal: str
    sentence: str


class PendingRewards(_Response):
    """Rewards that have not come yet."""

    rewards: Annotated[int, Meta(description="How many.")]
    oldest: Annotated[int | None, Meta(description="The oldest ticket that has none.")]
    since: Time | None


class SampleRatio(_Response):
    """Of randomised play: whether rewards come in as arms were drawn."""

    arrived: Annotated[dict[str, int], Meta(description="Rewards of each arm, without default rewards of old tickets.")]
    expected: Annotated[dict[str, float], Meta(description="How many were expected, by the probabilities.")]
    p_value: Annotated[float, Meta(description="It holds at all times, however often you look.")]
    alarm: Annotated[bool, Meta(description="Whether the p-value is 0.01 or less.")]
    upto: Annotated[int, Meta(description="Up to which event rewards were looked at.")]
    sentence: str


class SegmentArrivals(_Response):
    """How many people of a segment have come."""

    segment: str
    arrivals: int
    share: Annotated[float | None, Meta(description="Of all who came.")]


class ExperimentState(_Response):
    """Everything that is known now."""

    name: str
    status: ExperimentStatus
    events: int
    t: Annotated[int, Meta(description="Rounds: how many arms were asked for.")]
    arms: Annotated[list[Arm], Meta(description="With segments, each arm in each of its segments.")]
    segments: Annotated[list[SegmentArrivals] | None, Meta(description="Null without segments.")]
    limits: str | None
    certainty: Annotated[Certainty | None, Meta(description="Null for policies that keep no confidence sets.")]
    explanation: Annotated[str, Meta(description="Why the next arm is next.")]
    forecast: Annotated[Forecast | None, Meta(description="Only with regret= in the address.")]
    awaited: PendingRewards
    changes: Annotated[list[Change], Meta(description="Arms whose rewards changed; all else assumes that none did.")]
    watched: Annotated[int | None, Meta(description="Up to which event rewards were watched for changes.")]
    sample_ratio: Annotated[SampleRatio | None, Meta(description="Of randomised play only.")]


class Point(_Response):
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


class History(_Response):
    """How an experiment went; the last point is now."""

    points: list[Point]


class Event(_Response):
    """One event."""

    seq: int
    time: Time
    kind: Annotated[
        str, Meta(description="ask, asked (the same arm again for a unit), tell, retell (a correction), or a change.")
    ]
    ticket: int | None
    segment: str | None
    arm: str | None
    share: Annotated[float | None, Meta(description="The share with which the arm was asked for.")]
    reward: float | None
    data: Annotated[str | None, Meta(description="More, as JSON: of a change what was given, of a retell the old one.")]


class Log(_Response):
    """Events, oldest first."""

    events: list[Event]


class ExpiredTickets(_Response):
    """Tickets that got a default reward."""

    tickets: list[int]
    more: Annotated[bool, Meta(description="Whether there are more: then send the same request again.")]


class ListedKey(_Response):
    """A key without its secret."""

    id: str
    label: str
    scopes: list[str]
    experiments: Annotated[list[str] | None, Meta(description="Null for all.")]
    created: Time
    expires: Time | None
    revoked: Time | None
    used: Annotated[Time | None, Meta(description="When it was used last, some seconds late.")]


class Keys(_Response):
    """All keys, oldest first."""

    keys: list[ListedKey]


class CreatedKey(_Response):
    """A new key, which is shown only here."""

    key: str


class DeletedExperiment(_Response):
    """The experiment that is gone."""

    deleted: str


class DeletedRows(_Response):
    """How many rows were deleted."""

    deleted: int


class RevokedKey(_Response):
    """The key that is not valid any more."""

    revoked: str


class OpenApiDocument(Struct):
    """A description in the format OpenAPI."""

    openapi: str


class AuditEntry(_Response):
    """An act of administration."""

    id: int
    time: Time
    who: Annotated[str, Meta(description="The number of the key, or the user of the command line.")]
    act: str
    experiment: str | None
    detail: Annotated[str, Meta(description="What was given, as JSON.")]


class AuditLog(_Response):
    """Acts of administration, newest first."""

    acts: list[AuditEntry]


def experiment_to_dict(record: ExperimentRecord, live: LiveExperiment | CommittedExperiment | None) -> dict[str, Any]:
    """An experiment as it is now; of one that is not in memory, as it began."""
    spec, policy = record.spec, None if live is None else live.replay.policy
    names = tuple(spec["arms"]) if policy is None else policy.names
    playing, retired = ((), ()) if policy is None else (policy.playing, policy.retired)
    gone = {*playing, *retired}
    known = policy is not None
    limits = spec.get("shares") if policy is None else policy.limits
    out = {
        "name": record.name,
        "status": record.status if live is None else live.status,
        "created": iso_utc(record.created),
        "library": record.library,
        "metric": spec["metric"],
        "arms": list(names),
        "segments": _arms_by_segment(spec, policy),
        "playing": list(playing) if known else None,
        "paused": [name for name in names if name not in gone] if known else None,
        "retired": list(retired) if known else None,
        "limits": None if limits is None else str(limits),
        "support": spec["support"],
        "policy": spec["policy"],
        "options": spec.get("options") or {},
        "seed": spec.get("seed", 0),
        "play": spec.get("play", POLICY),
        "events": None if live is None else live.replay.seen,
    }
    return out | ({"imported": spec["imported"]} if "imported" in spec else {})


def _arms_by_segment(spec: dict[str, Any], policy: Policy | None) -> dict[str, list[str]] | None:
    given = (spec.get("options") or {}).get("segments") if spec.get("segments") is None else spec["segments"]
    if policy is not None:
        return None if policy._segments is None else policy._segments.to_dict()
    return None if given is None else Segments.from_arguments(given, spec["arms"]).to_dict()


def key_to_dict(found: Key) -> dict[str, Any]:
    """A key for the list of keys, without its hash."""
    times = {"created": found.created, "expires": found.expires, "revoked": found.revoked, "used": found.used}
    return {
        "id": found.id,
        "label": found.label,
        "scopes": sorted(found.scopes),
        "experiments": None if found.experiments is None else sorted(found.experiments),
        **{name: None if at is None else iso_utc(at) for name, at in times.items()},
    }
