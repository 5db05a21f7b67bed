"""The last decisions of an experiment, each with the policy's own reason, worked out again from the events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, select

from pmbandits.engine.explanation import next_arm_and_reason
from pmbandits.service.events import ASK, StoredEvent
from pmbandits.service.randomised import initial_draws_of_spec
from pmbandits.service.replay import PolicyReplay, policy_from_bytes, policy_from_spec
from pmbandits.service.schema import events
from pmbandits.service.store import ExperimentRecord, Store

MAX_DECISIONS = 12  # decisions
MAX_FOLLOWED = 500  # events that are followed one after the other; of more, some are left out
MAX_REPLAYED = 20_000  # events that are replayed to find reasons of decisions before the board was opened


def utc_text(at: int) -> str:
    """A moment, as people write it."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class DecisionLog:
    """A policy that replays the events, and explains each of the last decisions before it is made.

    Decisions follow from the order of events alone, so what it says is what the policy that decided would have said.
    When events come in faster than they are looked at, the first decisions after the last look are shown, and the
    others are left out: so it costs little, however many there are.
    """

    def __init__(self) -> None:
        self.replay: PolicyReplay | None = None
        self.found: list[dict[str, Any]] = []

    def catch_up_to(self, store: Store, record: ExperimentRecord, now: PolicyReplay) -> None:
        """Go on to the event that the live policy has reached; ``now`` is a copy of it."""
        begins = self.replay is None
        replay = self.replay or _snapshot_to_replay_from(store, record, now.seen) or now.copy()
        too_far_behind = now.seen - replay.seen > MAX_FOLLOWED and not begins
        for seq, at, arm in _oldest_or_newest_asks_between(
            store, record.id, replay.seen, now.seen, newest=not too_far_behind
        ):
            _apply_events_up_to(replay, store, record.id, seq - 1)
            said = _reason_for_next_arm(replay, arm) if replay.seen == seq - 1 else ""
            name = replay.column_names[arm]
            self.found.append({"seq": seq, "when": utc_text(at), "what": f"ask {seq:,}", "arm": name, "reason": said})
        if too_far_behind:
            replay = now.copy()
        else:
            _apply_events_up_to(replay, store, record.id, now.seen)
        self.replay, self.found = replay, self.found[-MAX_DECISIONS:]


def _reason_for_next_arm(replay: PolicyReplay, arm: int) -> str:
    """Why an arm is next, by its number in events."""
    if replay.draws is None:
        return next_arm_and_reason(replay.policy, replay.segment_of(arm))[1]
    return f"It was drawn with a probability of {100.0 * replay.draws.probabilities[arm]:.3g} %."


def _apply_events_up_to(replay: PolicyReplay, store: Store, exp: int, upto: int) -> None:
    while replay.seen < upto and (rows := _stored_events(store, exp, replay.seen, upto)):
        replay.apply_stored_events(rows)


def _snapshot_to_replay_from(store: Store, record: ExperimentRecord, goal: int) -> PolicyReplay | None:
    """The newest saved policy, or that of the beginning, if not too much has happened since."""
    saved = store.newest_snapshot(record.id, goal)
    if goal - (saved.seq if saved else 0) > MAX_REPLAYED:
        return None
    if saved is None:
        return PolicyReplay(
            policy_from_spec(record.spec), 0, record.root, initial_draws_of_spec(record.spec, record.root)
        )
    draws = store.draws_after_event(record, saved.seq)
    return PolicyReplay(policy_from_bytes(saved.content), saved.seq, saved.digest, draws)


def _stored_events(store: Store, exp: int, after: int, upto: int) -> list[StoredEvent]:
    columns = ("seq", "kind", "ticket", "arm", "value", "data", "digest")
    wanted = (
        _select_between_events(select(*(events.c[name] for name in columns)), exp, after, upto)
        .order_by(events.c.seq)
        .limit(MAX_REPLAYED)
    )
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(wanted)]


def _oldest_or_newest_asks_between(
    store: Store, exp: int, after: int, upto: int, *, newest: bool
) -> list[tuple[int, int, int]]:
    """The newest or the oldest asks between two events, in their order."""
    wanted = _select_between_events(select(events.c.seq, events.c.at, events.c.arm), exp, after, upto).where(
        events.c.kind == ASK
    )
    wanted = wanted.order_by(events.c.seq.desc() if newest else events.c.seq).limit(MAX_DECISIONS)
    with store.engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(wanted))


def _select_between_events(wanted: Select[Any], exp: int, after: int, upto: int) -> Select[Any]:
    return wanted.where(events.c.exp == exp, events.c.seq > after, events.c.seq <= upto)
