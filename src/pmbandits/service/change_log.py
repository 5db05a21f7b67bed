"""What happened to an experiment, from the events alone: acts of administration, and arms whose rewards changed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import func, select

from pmbandits.estimates.change_detector import Change, ChangeDetector
from pmbandits.service.decision_log import utc_text
from pmbandits.service.events import (
    ADD,
    ASK,
    ASKED,
    LIMITS,
    PAUSE,
    RESUME,
    RETELL,
    RETIRE,
    SEGMENT_STEP,
    STATUS,
    TELL,
)
from pmbandits.service.schema import events
from pmbandits.service.store import Store, iso_utc

FALSE_ALARM_LEVEL = 0.01  # the probability of any false alarm in one experiment, over all time
REWARDS_PER_STEP = 20_000  # rewards that are looked at in one go; more wait for the next
MAX_ACTIONS = 100  # acts that are shown
_ACTION_PHRASES = {
    ADD: "{} was added; from here on certainty is for one more arm",
    PAUSE: "{} pauses",
    RESUME: "{} plays again",
    RETIRE: "{} left for good",
    LIMITS: "new limits: {}",
    STATUS: "the experiment is {}",
}


class ChangeAlarm(NamedTuple):
    """A change, and with which event and when it was found; None where only the policy knows, by its round."""

    change: Change
    event: int | None
    at: int | None

    def __str__(self) -> str:
        found = self.change
        head, _, rest = str(found).partition(": ")
        way = ""
        if not found.what.startswith("rewards outside"):
            way = " for the worse" if found.share_after < found.share_before else " for the better"
        when = "" if self.at is None else f", noticed {utc_text(self.at)}"
        return f"{head}{way}{when}: {rest}"

    def to_response_dict(self) -> dict[str, Any]:
        """As it goes over the wire."""
        change = self.change
        return {
            "arm": change.arm,
            "event": self.event,
            "time": None if self.at is None else iso_utc(self.at),
            "round": change.round if self.event is None else None,
            "rewards": change.what,
            "before": {"n": change.before, "share": change.share_before},
            "after": {"n": change.after, "share": change.share_after},
            "sentence": str(self),
        }


class ChangeWatch:
    """One detector for each arm. Each arm has a share of the level; the shares of all that may ever come add up to 1.

    Rewards count as they were corrected last. A correction of a reward that was looked at already makes the detectors
    begin anew, with all rewards as they are known now; until they are back where they were, what they had found stays.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.found: list[ChangeAlarm] = []
        self._detectors: dict[int, ChangeDetector] = {}
        self._corrected: dict[int, float] = {}  # the newest reward of each ticket that was corrected
        self._corrections = 0  # the newest correction that is known
        self._found_since_restart: list[ChangeAlarm] | None = (
            None  # what was found since it began anew, while it catches up
        )
        self._restart_goal, self._restart_needed = 0, False

    def catch_up_to(self, store: Store, exp: int, names: dict[int, str], upto: int) -> bool:
        """Take in rewards up to an event, so many at most; whether all are in."""
        self._restart_needed = self._read_corrections(store, exp, upto) or self._restart_needed
        if self._restart_needed and self._found_since_restart is None:
            self._detectors, self._found_since_restart, self._restart_goal, self.seen, self._restart_needed = (
                {},
                [],
                self.seen,
                0,
                False,
            )
        found = self.found if self._found_since_restart is None else self._found_since_restart
        found += self._feed_detectors(store, exp, names, upto)
        found.sort(key=lambda alarm: alarm.event or 0)
        if self._found_since_restart is not None and self.seen >= self._restart_goal:
            self.found, self._found_since_restart = self._found_since_restart, None
        return self.seen >= upto and not self._restart_needed

    def _read_corrections(self, store: Store, exp: int, upto: int) -> bool:
        """Read new corrections; whether one is of a reward that was looked at already."""
        wanted = (
            select(events.c.seq, events.c.ticket, events.c.value)
            .where(events.c.exp == exp, events.c.kind == RETELL, events.c.seq > self._corrections)
            .order_by(events.c.seq)
        )
        with store.engine.connect() as connection:
            rows = [row for row in connection.execute(wanted) if row[0] <= upto]
            self._corrected |= {ticket: value for _, ticket, value in rows}
            self._corrections = rows[-1][0] if rows else self._corrections
            late = [ticket for _, ticket, _ in rows]
            told = select(events.c.ticket).where(
                events.c.exp == exp, events.c.kind == TELL, events.c.ticket.is_not(None), events.c.seq <= self.seen
            )
            step = 500
            return any(
                connection.execute(told.where(events.c.ticket.in_(late[k : k + step])).limit(1)).first() is not None
                for k in range(0, len(late), step)
            )

    def _feed_detectors(self, store: Store, exp: int, names: dict[int, str], upto: int) -> list[ChangeAlarm]:
        if self.seen >= upto:
            return []
        wanted = (
            select(events.c.seq, events.c.arm, events.c.value, events.c.ticket, events.c.at)
            .where(events.c.exp == exp, events.c.kind == TELL, events.c.seq > self.seen, events.c.seq <= upto)
            .order_by(events.c.seq)
            .limit(REWARDS_PER_STEP)
        )
        with store.engine.connect() as connection:
            rows = connection.execute(wanted).all()
        known, out = self._corrected, []
        arms = np.array([row[1] for row in rows], dtype=np.int64)
        rewards = np.array([known.get(ticket, value) for _, _, value, ticket, _ in rows], dtype=np.float64)
        for arm in np.unique(arms).tolist():
            if arm not in self._detectors:
                self._detectors[arm] = ChangeDetector(FALSE_ALARM_LEVEL * _share_of_level(arm, names))
            detector, mine = self._detectors[arm], np.flatnonzero(arms == arm)
            before = len(detector.changes)
            for at, change in zip(detector.extend(rewards[mine]), detector.changes[before:], strict=False):
                seq, *_, when = rows[int(mine[at])]
                out.append(ChangeAlarm(replace(change, arm=names[arm]), int(seq), int(when)))
        self.seen = upto if len(rows) < REWARDS_PER_STEP else int(rows[-1][0])
        return out


def _share_of_level(arm: int, names: dict[int, str]) -> float:
    """The share of the level for an arm, by its number in events: those of all that may ever come add up to 1."""
    places = divmod(arm, SEGMENT_STEP) if max(names) >= SEGMENT_STEP else (arm,)
    return math.prod(6.0 / (math.pi * (place + 1)) ** 2 for place in places)


class AdminActions:
    """Acts of administration; the events are gone through once, and then only what is new."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, str]] = []  # pulls before it, the moment, and what was done
        self.pulls = 0  # that were asked for
        self._seen = 0

    def catch_up_to(self, store: Store, exp: int, upto: int) -> None:
        """Go on to an event."""
        wanted = (
            select(events.c.seq, events.c.at, events.c.kind, events.c.data)
            .where(
                events.c.exp == exp, events.c.seq > self._seen, events.c.seq <= upto, events.c.kind.in_(_ACTION_PHRASES)
            )
            .order_by(events.c.seq)
        )
        pulls = select(func.count()).where(events.c.exp == exp, events.c.kind.in_((ASK, ASKED)))
        with store.engine.connect() as connection:
            for seq, at, kind, data in connection.execute(wanted).all():
                between = pulls.where(events.c.seq > self._seen, events.c.seq < seq)
                self.pulls += int(connection.execute(between).scalar() or 0)
                self._seen = seq
                self.found.append((self.pulls, utc_text(at), _ACTION_PHRASES[kind].format(_admin_argument_text(data))))
            between = pulls.where(events.c.seq > self._seen, events.c.seq <= upto)
            self.pulls += int(connection.execute(between).scalar() or 0)
        self.found, self._seen = self.found[-MAX_ACTIONS:], upto


def _admin_argument_text(data: str | None) -> str:
    given: Any = json.loads(data) if data else None
    return "none" if given is None else given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
