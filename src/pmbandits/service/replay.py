"""The policy of an experiment, made by replaying its events. The only file that knows policies and events.

A policy's decisions follow from the order of asks, tells and controls alone. So every process that takes in the same
events has the same policy, and a policy is never sent anywhere.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import __version__
from pmbandits.engine.policy import Policy
from pmbandits.engine.registry import policy_by_name
from pmbandits.engine.roster import PLAYS
from pmbandits.engine.ticket_methods import PropensityReader, ask_with_propensities
from pmbandits.metrics.registry import metric as find_metric
from pmbandits.policies import load
from pmbandits.service.events import (
    ADD,
    ASK,
    ASKED,
    LIMITS,
    PAUSE,
    PROBABILITIES,
    RESUME,
    RETELL,
    RETIRE,
    SEGMENT_STEP,
    STATUS,
    TELL,
    StoredEvent,
)
from pmbandits.service.randomised import Draws, probabilities_event_data
from pmbandits.supports import Support

_REPLAYED = (ASK, TELL, ASKED)
MAX_WITH_SEGMENTS = 10_000  # segments, and arms if there are segments
_DEFAULT_HORIZON = 1_000_000  # rounds, the horizon of policies that need one and were given none


class MissingEvent(RuntimeError):
    """An event is missing in the store, so nothing can be said of what comes after it."""


class Diverged(RuntimeError):
    """The store does not have the events that a policy was made of: it went back in time, or was restored."""


def policy_from_spec(spec: dict[str, Any]) -> Policy:
    """Make the policy that a specification describes, before its first event."""
    given = {name: spec[name] for name in ("shares", "segments") if spec.get(name) is not None}
    recipe = policy_by_name(spec["policy"], _DEFAULT_HORIZON, {**spec.get("options", {}), **given})
    arms = spec["arms"]
    return recipe.bind(
        find_metric(spec["metric"]), len(arms), Support.from_dict(spec["support"]), names=arms, seed=spec.get("seed", 0)
    )


def spec_of_imported_policy(policy: Policy) -> dict[str, Any]:
    """The specification of an imported policy."""
    assert policy.support is not None
    if policy.segments and max(len(policy.segments), len(policy.names)) > MAX_WITH_SEGMENTS:
        raise ValueError(
            f"an experiment has at most {MAX_WITH_SEGMENTS:,} segments with as many arms, and this policy has "
            f"{len(policy.segments):,} segments and {len(policy.names):,} arms."
        )
    return {
        "metric": str(policy.metric),
        "arms": list(policy.names),
        "support": policy.support.to_dict(),
        "policy": policy.name,
        "options": {k: value for k, value in policy.options.items() if value is not None and k != "segments"},
        "segments": policy.options.get("segments"),
        "seed": policy.seed,
        "imported": {"library": __version__, "round": policy.t},
    }


def policy_to_bytes(policy: Policy) -> bytes:
    """Return a policy as the bytes of its file."""
    file = io.BytesIO()
    policy.save(file)
    return file.getvalue()


def policy_from_bytes(content: bytes, most: int | None = None) -> Policy:
    """Load a policy from bytes; a sentence if it is none, or if it would take more than ``most`` bytes of memory."""
    return load(io.BytesIO(content), max_memory=most)


class PolicyReplay:
    """A policy, and number and digest of the last event that is in it."""

    def __init__(self, policy: Policy, seen: int, digest: int, draws: Draws | None = None) -> None:
        self.policy, self.seen, self.digest = policy, seen, digest
        self.draws = draws  # None if it plays what the policy asks for
        self._read_names()
        self._propensity = PropensityReader()
        self._among: tuple[int, Sequence[int]] | None = None  # the last event with a choice of arms, and these

    def _read_names(self) -> None:
        self.arm_indices = {name: arm_index for arm_index, name in enumerate(self.policy.names)}
        self.segments = self.policy.segments  # none, if it was made without

    @property
    def column_names(self) -> dict[int, str]:
        """How each arm is called, by its number in events; with segments also each pair, such as ``new: A``."""
        known = self.policy._segments
        if known is None:
            return dict(enumerate(self.policy.names))
        numbers = (SEGMENT_STEP * known.segment_of + known.arm_of).tolist()
        return dict(zip(numbers, known.column_names, strict=True))

    def columns_of_people(self, arms: Sequence[int], segment: str | Sequence[str] | None) -> list[int]:
        """The numbers in events of arms, each for somebody of a segment; a sentence if a segment does not have one."""
        if not self.segments and segment is None:
            return list(arms)
        self.policy._column_positions(list(arms), segment)
        people = self.policy._segment_positions(segment, len(arms)).tolist()
        return [SEGMENT_STEP * s + arm for s, arm in zip(people, arms, strict=True)]

    def is_playing(self, column: int) -> bool:
        """Whether an arm plays, by its number in events; with segments, in its segment."""
        policy, known = self.policy, self.policy._segments
        if known is None:
            return policy.names[column] in policy.playing
        at = known.column_at[divmod(column, SEGMENT_STEP)]
        return bool(at >= 0 and policy._arm_states()[at] == PLAYS)

    def segment_of(self, column: int) -> str | None:
        """The segment of an arm's number in events; None without segments."""
        return self.segments[column // SEGMENT_STEP] if self.segments else None

    def _segments_of(self, columns: Sequence[int]) -> dict[str, Any]:
        """The argument with the segments of events, for methods of a policy that has some; else none."""
        return {"segment": [self.segments[column // SEGMENT_STEP] for column in columns]} if self.segments else {}

    def copy(self) -> PolicyReplay:
        """A copy, to read from while this one goes on."""
        return PolicyReplay(copy.copy(self.policy), self.seen, self.digest, self.draws)

    # ---- what requests do; each raises ValueError, TypeError or IndexError with nothing changed ----------
    def ask(
        self, n: int, among: Sequence[int] | None, segment: str | list[str] | None = None
    ) -> list[tuple[int, float]]:
        """The next arms, each with the share that it had then, so that other policies can be evaluated on the log.

        With segments, the arms are their numbers in events, and shares are those within the segment.
        """
        if isinstance(segment, list):
            self.policy._segment_positions(segment, n)  # says what is wrong with them
            if len(set(segment)) > 1:
                return self._ask_for_several_segments(among, segment)
            segment = segment[0]
        if self.segments or segment is not None:
            found = ask_with_propensities(self.policy, n, among, self._propensity, segment)
            first = SEGMENT_STEP * self.segments.index(str(segment))
            return [(first + arm, share) for arm, share in found]
        if self.draws is None:
            return ask_with_propensities(self.policy, n, among, self._propensity)
        candidates = self.draws.candidates(self.policy, among)
        drawn = self.draws.draw_arms(range(self.seen + 1, self.seen + n + 1), candidates)
        for arm, _ in drawn:
            self.policy.asked(arm)
        return drawn

    def _ask_for_several_segments(self, among: Sequence[int] | None, people: Sequence[str]) -> list[tuple[int, float]]:
        """The arms for people in the order in which they came, on a copy: so all of them are asked for, or none."""
        trial, found = self.copy(), []
        for segment, mine in groupby(people):
            found += trial.ask(len(list(mine)), among, segment)
        self.policy = trial.policy
        return found

    def refresh_probabilities(self, among: Sequence[int] | None) -> str | None:
        """Work out the probabilities of randomised play anew, if it is time to; return the data of their event."""
        if self.draws is None or not self.draws.are_new_probabilities_due(self.policy):
            return None
        self.draws.candidates(self.policy, among)  # an ask that will be refused changes nothing
        data = probabilities_event_data(self.policy)
        self.draws = self.draws.with_new_probabilities(data)
        return data

    def record_pull_of_unit(self, arm: int) -> float:
        """Record a pull of an arm that a unit had before; return its propensity, which is 1 where arms are drawn."""
        if self.segments:
            self.policy.asked(arm % SEGMENT_STEP, segment=self.segment_of(arm))
            known = self.policy._segments
            assert known is not None
            return self._propensity(self.policy, int(known.column_at[divmod(arm, SEGMENT_STEP)]))
        self.policy.asked(arm)
        return self._propensity(self.policy, arm) if self.draws is None else 1.0

    def tell(
        self, arms: Sequence[int], rewards: Sequence[float], corrections: Sequence[tuple[int, float, float]] = ()
    ) -> None:
        """Apply rewards, and corrections of earlier ones (arm, before, after); all of them or none."""
        if (
            corrections and len(arms) + len(corrections) > 1
        ):  # the library takes rewards in whole, but no mixture of both
            trial = self.copy()
            trial.tell(arms, rewards)
            for one in corrections:
                trial.tell((), (), [one])
            self.policy = trial.policy
        elif corrections:
            arm, before, after = corrections[0]
            self._retell(arm, before, after)
        elif self.segments:
            self.policy.tell(
                np.array(arms) % SEGMENT_STEP, np.array(rewards, dtype=np.float64), **self._segments_of(arms)
            )
        elif len(arms) == 1:
            self.policy.tell(arms[0], rewards[0])
        elif arms:
            self.policy.tell(np.array(arms), np.array(rewards, dtype=np.float64))  # arrays are checked at once

    def _retell(self, arm: int, before: float, after: float) -> None:
        place = arm % SEGMENT_STEP if self.segments else arm
        self.policy.retell(place, before, after, segment=self.segment_of(arm))

    def apply_admin_event(self, kind: int, data: str) -> None:
        """Apply an administrative event: add, pause, resume or retire an arm, or set limits; ``data`` is JSON."""
        policy: Any = self.policy
        given = json.loads(data)
        if kind == ADD:
            if self.segments and len(policy.names) >= MAX_WITH_SEGMENTS:
                raise ValueError(f"an experiment with segments has at most {MAX_WITH_SEGMENTS:,} arms.")
            policy.add_arm(given)
            self._read_names()
        elif kind == PAUSE:
            policy.pause(given)
        elif kind == RESUME:
            policy.resume(given)
        elif kind == RETIRE:
            policy.retire(given)
        elif kind == LIMITS:
            policy.limit(given)
        elif kind != STATUS:
            raise MissingEvent(f"an event of kind {kind} is not known to pmbandits {__version__}")

    # ---- what others did --------------------------------------------------------------------------------
    def events_after_last_known(self, rows: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
        """Events without the first one, which must be the last that is in this policy; else they have diverged."""
        if not rows or (rows[0][0], rows[0][-1]) != (self.seen, self.digest):
            found = "is not in the store" if not rows or rows[0][0] != self.seen else "is another one in the store"
            raise Diverged(f"event {self.seen}, which is known here, {found}: it went back in time, or was restored")
        return rows[1:]

    def apply_stored_events(self, rows: Sequence[StoredEvent]) -> int:
        """Apply stored events; return how many runs of asks the policy would have answered otherwise.

        That is no mistake: another version of the library or another processor may have rounded otherwise. The stored
        arms count.
        """
        if not rows:
            return 0
        kinds = np.array([row[1] for row in rows])
        disagreements = start = 0
        for alone in [*np.flatnonzero(~np.isin(kinds, _REPLAYED)).tolist(), len(rows)]:
            if alone > start:
                disagreements += self._replay_asks_and_tells(rows[start:alone], kinds[start:alone])
            if alone < len(rows):
                self._apply_single_event(rows[alone])
            start = alone + 1
        return disagreements

    def _replay_asks_and_tells(self, rows: Sequence[StoredEvent], kinds: NDArray[np.int64]) -> int:
        """Asks and tells that come one after the other, with one call of compiled code."""
        self._check_no_missing_event(rows)
        told = kinds == TELL
        arms = np.array([row[3] for row in rows], dtype=np.int64)
        rewards = np.where(told, np.array([row[4] for row in rows], dtype=np.float64), np.nan)
        among = [self._available_arms(row) for row in rows]
        people: dict[str, Any] = {}
        if self.segments:
            people = {"segments": [self.segments[s] for s in (arms // SEGMENT_STEP).tolist()]}
            arms %= SEGMENT_STEP
        if self.draws is not None:
            differs = self.draws.differs_from_logged_arms(rows, among)
            self.policy.replay(arms, rewards)  # the pull of each arm that was drawn takes the place of the policy's own
        else:
            own = not (kinds == ASKED).any()  # else an arm that the policy did not choose is among them
            differs = own and self.policy.replay(arms, rewards, among=among, check=True, **people) is not None
            if differs or not own:
                self.policy.replay(arms, rewards, among=among, **people)
        self.seen, self.digest = rows[-1][0], rows[-1][-1]
        return int(differs)

    def _available_arms(self, row: StoredEvent) -> Sequence[int] | None:
        """The arms that were available in an ask, if not all were; they stand in the first event of its request."""
        seq, kind, _, _, _, data, _ = row
        if kind != ASK or data is None:
            return None
        given = json.loads(data)
        if isinstance(given, list):
            self._among = seq, given
        elif self._among is None or given != self._among[0]:
            raise MissingEvent(f"event {given}, which event {seq} refers to, is not the one before it")
        return self._among[1]

    def _apply_single_event(self, row: StoredEvent) -> None:
        seq, kind, _ticket, arm, value, data, digest = row
        self._check_no_missing_event([row])
        if kind == RETELL:
            assert arm is not None and value is not None and data is not None
            self._retell(arm, json.loads(data), value)
        elif kind == PROBABILITIES and self.draws is not None and data is not None:
            self.draws = self.draws.with_new_probabilities(data)
        elif data is not None:
            self.apply_admin_event(kind, data)
        self.seen, self.digest = seq, digest

    def _check_no_missing_event(self, rows: Sequence[StoredEvent]) -> None:
        first, last = rows[0][0], rows[-1][0]
        if first != self.seen + 1 or last != self.seen + len(rows):
            raise MissingEvent(
                f"after event {self.seen} come {len(rows)} events from {first} to {last}: one is missing"
            )
