"""An experiment in the memory of one process: its policy, and recent tickets and rewards."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from pmbandits import _validation
from pmbandits.service.events import (
    ARCHIVED,
    ASK,
    ASKED,
    KINDS,
    LIMITS,
    PROBABILITIES,
    RETELL,
    RUNNING,
    SEGMENT_STEP,
    STATUS,
    TELL,
    AnsweredRequest,
    Lookup,
    LookupResult,
    StoredEvent,
    WriteBatch,
    chain_digest,
    request_digest,
)
from pmbandits.service.messages import Ask, Asked, AskedMany, Tell, Told
from pmbandits.service.replay import PolicyReplay
from pmbandits.service.store import ExperimentRecord
from pmbandits.supports import Interval, Support

EXPIRED = '"expired"'  # in the log, of the default reward of an expired ticket
MAX_OPEN_TICKETS = 1 << 16  # tickets without a reward that are kept in memory
MAX_ANSWERED = 1 << 14  # tickets with a reward: only who sends something twice needs them
MAX_LIMITS, MAX_LIMITS_TEXT = 1_000, 50_000  # limits on shares of one experiment, and characters of them
MAX_LIMITS_SECONDS = 0.5  # of computing that limits may take in a transaction, when others wait
SLOW_LIMITS_MESSAGE = (
    f"setting these limits takes more than {MAX_LIMITS_SECONDS:g} s, in which nobody is answered; give fewer limits, "
    "or sums of fewer arms."
)
RANDOMISED_LIMITS_MESSAGE = (
    "arms that are drawn by chance keep no limits on shares; leave out the limits, or play what the policy asks for."
)
RANDOMISED_SEGMENTS_MESSAGE = (
    "arms of an experiment with segments are not drawn by chance; leave out the segments, or play what the policy asks "
    "for."
)
MAX_CORRECTION_WORK = 20_000_000  # corrections in a request, times the events of the experiment


class Refused(Exception):
    """A request that cannot be: its status in HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, _validation.escape_control_characters(sentence)


class CommittedExperiment(NamedTuple):
    """An experiment at a moment between two transactions, with a copy of its policy: all of it is on disk."""

    record: ExperimentRecord
    status: str
    replay: PolicyReplay


class LiveExperiment:
    """One experiment: decides requests in the order in which they come, inside a transaction.

    ``open_tickets``: the arm of each ticket without a reward; ``rewarded``: arm and reward of the others. What is in
    neither may still be in the store. Within a transaction nothing is dropped. ``keys`` of requests and ``units``
    are of this one only, because they may be deleted from the store.
    ``uncommitted``: it has decided requests that are not on disk yet, so nobody may read from it. ``committed``: the
    last event that is known to be on disk.
    """

    def __init__(self, record: ExperimentRecord, replay: PolicyReplay) -> None:
        self.record, self.replay, self.status = record, replay, record.status
        self.open_tickets: dict[int, int] = {}
        self.rewarded: dict[int, tuple[int, float]] = {}
        self.keys: dict[str, AnsweredRequest] = {}
        self.units: dict[str, int] = {}
        self.disagreements = 0  # runs of stored asks that this policy would have answered otherwise
        self.uncommitted, self.committed = False, replay.seen
        self.replaying = False  # a thread applies events to the policy: nobody else may touch it

    def copy(self) -> CommittedExperiment:
        """A copy to read from; not while something is uncommitted."""
        assert not self.uncommitted
        return CommittedExperiment(self.record, self.status, self.replay.copy())

    # ---- before a transaction: look up -------------------------------------------------------------------
    def needs_lookup(self, request: Ask | Tell) -> bool:
        """Whether the request names a key, unit or ticket that must be looked up in the store."""
        if request.key is not None and request.key not in self.keys:
            return True
        if isinstance(request, Ask):
            return request.unit is not None and request.unit not in self.units
        return any(
            ticket not in self.open_tickets and ticket not in self.rewarded for ticket in _tickets_of_request(request)
        )

    def add_lookups(self, request: Ask | Tell, lookup: Lookup) -> None:
        """Add to ``lookup`` the keys, units and tickets of a request that are not in memory."""
        if request.key is not None and request.key not in self.keys:
            lookup.keys.add(request.key)
        if isinstance(request, Ask):
            if request.unit is not None:
                lookup.units.add(request.unit)
        else:
            lookup.tickets.update(
                ticket
                for ticket in _tickets_of_request(request)
                if ticket not in self.open_tickets and ticket not in self.rewarded
            )

    def apply_and_remember_lookup(self, found: LookupResult) -> None:
        """Apply the events that others wrote, and remember what was looked up."""
        self.apply_events_of_others(found.new_events)
        for ticket, arm in found.tickets.items():
            if ticket in found.rewarded:
                self.rewarded[ticket] = (arm, found.rewarded[ticket])
            else:
                self.open_tickets[ticket] = arm
        for key, done in found.keys.items():
            self.keys[key] = done
        for unit, arm_index in found.units.items():
            self.units[unit] = arm_index

    def trim_caches(self) -> None:
        """After a transaction: drop old tickets, which can be looked up, and all keys and units."""
        self.keys.clear()
        self.units.clear()
        caches: tuple[tuple[dict[int, Any], int], ...] = (
            (self.open_tickets, MAX_OPEN_TICKETS), (self.rewarded, MAX_ANSWERED),
        )  # fmt: skip
        for cache, most in caches:
            if len(cache) > most + most // 4:  # many at once: a dict skips all that it dropped to find its oldest
                for old in list(islice(cache, len(cache) - most)):
                    del cache[old]

    def apply_events_of_others(self, rows: Sequence[StoredEvent]) -> int:
        """Apply events that other processes wrote, and say how many; the first row is the last event known here."""
        new_events = self.replay.events_after_last_known(rows)
        if not new_events:
            return 0
        self.disagreements += self.replay.apply_stored_events(new_events)
        self.committed = self.replay.seen
        for seq, kind, ticket, arm, value, data, _digest in new_events:
            if kind in (ASK, ASKED):
                assert arm is not None
                self.open_tickets[seq] = arm
            elif kind in (TELL, RETELL) and ticket is not None:
                self.open_tickets.pop(ticket, None)
                assert arm is not None and value is not None
                self.rewarded.pop(ticket, None)
                self.rewarded[ticket] = (arm, value)
            elif kind == STATUS and data is not None:
                self.status = json.loads(data)
        return len(new_events)

    def extend_hash_chain(self, batch: WriteBatch) -> None:
        """Give all events that were drafted in this transaction their digest, and go on from there."""
        if batch.drafted:
            digest = self.replay.digest = chain_digest(self.replay.digest, batch.drafted)
            batch.events = [(*event, digest) for event in batch.drafted]

    # ---- decide requests -----------------------------------------------------------------------------------
    def ask(self, request: Ask, batch: WriteBatch) -> Asked | AskedMany:
        """The next arm or arms, and their tickets."""
        n = 1 if request.n is None else request.n
        if isinstance(request.segment, list):
            n = len(request.segment) if request.n is None else request.n
        asks = request.n, request.among, *([] if request.segment is None else [request.segment])
        what = request_digest("ask", *asks) if request.key is not None else ""
        if request.key is not None and request.unit is not None:
            what += request_digest("unit", request.unit)  # at the end, so that it can be found when the unit is deleted
        if request.key is not None:
            before = self.keys.get(request.key)
            if before is not None:
                self._check_same_request(request.key, before, what)
                return self._ask_response(request, before.seq, before.events)
        self._require_running()
        replay = self.replay
        among = None if request.among is None else sorted({self.arm_index(name) for name in request.among})
        kept = None if request.unit is None else self.units.get(request.unit)
        again = None  # the arm that a unit gets again
        if kept is not None and (among is None or kept in among):
            again = self._column_if_it_plays(kept, request.segment)
        if again is not None:
            first = replay.seen + 1
            done, kind = [(again, replay.record_pull_of_unit(again))], ASKED
        else:
            probabilities = replay.refresh_probabilities(among)
            if probabilities is not None:
                self._add_event_to_batch(PROBABILITIES, probabilities, batch)
            first = replay.seen + 1
            done, kind = replay.ask(n, among, request.segment), ASK
        at, exp, data = batch.at, self.record.id, None if among is None else json.dumps(among)
        events = batch.drafted
        for seq, (arm, share) in enumerate(done, first):
            events.append((exp, seq, kind, None, arm, share, at, data))
            self.open_tickets[seq] = arm
            if among is not None:
                data = str(first)  # the arms are written once: for the others, the event that has them
        replay.seen += n
        if request.unit is not None and kind == ASK:
            arm = done[0][0] % SEGMENT_STEP if replay.segments else done[0][0]  # also for other segments
            batch.units.append((exp, request.unit, arm, first))
            self.units[request.unit] = arm
        if request.key is not None:
            batch.requests.append((exp, request.key, first, n, what))
            self.keys[request.key] = AnsweredRequest(first, what, done)
        return self._ask_response(request, first, done)

    def _ask_response(
        self, request: Ask, first: int, done: Sequence[tuple[int | None, float | None]]
    ) -> Asked | AskedMany:
        names, step = self.replay.policy.names, SEGMENT_STEP if self.replay.segments else 1 << 60
        arms, shares = [names[arm % step] for arm, _ in done if arm is not None], [share for _, share in done]
        if request.n is None and not isinstance(request.segment, list):
            return Asked(first, arms[0], shares[0])
        return AskedMany(list(range(first, first + len(arms))), arms, shares)

    def _column_if_it_plays(self, arm: int, segment: str | list[str] | None) -> int | None:
        """The number in events of an arm for somebody of a segment; None if it does not play, or not there."""
        people = self.replay.policy._segment_positions(segment, 1).tolist()
        column = arm + SEGMENT_STEP * people[0] if people else arm
        return column if self.replay.is_playing(column) else None

    def tell(self, request: Tell, batch: WriteBatch) -> Told:
        """Take rewards in, all of a request or none."""
        self._require_not_archived()
        rewards = _validated_rewards(request)
        first, what = self.replay.seen + 1, ""
        if request.key is not None:
            named = _tickets_of_request(request) or _arms_of_request(request)
            more = [*([True] if request.correct else []), *([] if request.segment is None else [request.segment])]
            what = request_digest("tell", list(named), list(rewards), *more)
            before = self.keys.get(request.key)
            if before is not None:
                self._check_same_request(request.key, before, what)
                return Told(0, len(rewards), 0)
        rewarded = self._tell_validated_rewards(request, rewards, batch)
        if request.key is not None:
            batch.requests.append((self.record.id, request.key, first, self.replay.seen + 1 - first, what))
            self.keys[request.key] = AnsweredRequest(first, what, ())
        return rewarded

    def _tell_validated_rewards(self, request: Tell, rewards: Sequence[float], batch: WriteBatch) -> Told:
        if request.tickets is None and request.ticket is None:
            arms = _arms_of_request(request)
            if len(arms) != len(rewards):
                raise Refused(
                    422, f"{len(arms)} arms were told with {len(rewards)} rewards; give one reward for each arm."
                )
            columns = self.replay.columns_of_people([self.arm_index(arm) for arm in arms], request.segment)
            self._record_rewards(batch, [(None, *one) for one in zip(columns, rewards, strict=True)])
            return Told(len(rewards), 0, 0)
        if request.segment is not None:
            raise Refused(422, "a ticket knows its segment; leave segment out.")
        fresh: dict[int, tuple[int, float]] = {}
        corrections: dict[int, tuple[int, float]] = {}
        repeated = 0
        for ticket, reward in zip(_tickets_of_request(request), rewards, strict=True):
            sent = fresh.get(ticket) or corrections.get(ticket)
            known = sent or self.rewarded.get(ticket)
            if known is None:
                arm = self.open_tickets.get(ticket)
                if arm is None:
                    raise Refused(404, f"there is no ticket {ticket} in this experiment; nothing was stored.")
                fresh[ticket] = (arm, reward)
            elif known[1] == reward:
                repeated += 1
            elif sent is not None:
                raise Refused(
                    409,
                    f"ticket {ticket} is twice in this request, with the rewards {known[1]:g} and {reward:g}; "
                    "nothing was stored.",
                )
            elif not request.correct:
                raise Refused(
                    409,
                    f"ticket {ticket} has the reward {known[1]:g} already, not {reward:g}; nothing was stored. "
                    'To replace it, send the new one with "correct": true.',
                )
            else:
                corrections[ticket] = (known[0], reward)
        if len(corrections) * self.replay.seen > MAX_CORRECTION_WORK:
            most = max(MAX_CORRECTION_WORK // self.replay.seen, 1)
            raise Refused(413, f"this experiment takes at most {most:,} corrections at once; send several requests.")
        self._record_rewards(batch, [(ticket, *rewarded) for ticket, rewarded in fresh.items()], corrections)
        return Told(len(fresh), repeated, len(corrections))

    def expire(self, tickets: Sequence[int], reward: float, seconds: float, who: str, batch: WriteBatch) -> list[int]:
        """Give a reward to those of these tickets that still have none; which ones those were."""
        self._require_not_archived()
        late = [ticket for ticket in tickets if ticket in self.open_tickets]
        self._record_rewards(batch, [(ticket, self.open_tickets[ticket], reward) for ticket in late], data=EXPIRED)
        if late:
            detail = json.dumps({"tickets": len(late), "reward": reward, "seconds": seconds})
            batch.audit.append((batch.at, who, "expire", self.record.name, detail))
        return late

    def _record_rewards(
        self,
        batch: WriteBatch,
        tells: Sequence[tuple[int | None, int, float]],
        corrections: Mapping[int, tuple[int, float]] = MappingProxyType({}),
        data: str | None = None,
    ) -> None:
        """Take in rewards, and others in place of those that tickets have; all of them or none."""
        replay, exp, at = self.replay, self.record.id, batch.at
        before = {ticket: self.rewarded[ticket][1] for ticket in corrections}
        rewards = [reward for _, _, reward in tells]
        try:
            replay.tell(
                [arm for _, arm, _ in tells],
                rewards,
                [(arm, before[ticket], reward) for ticket, (arm, reward) in corrections.items()],
            )
        except ValueError:
            _check_in_support(replay.policy.support, [*rewards, *(reward for _, reward in corrections.values())])
            raise
        for ticket, arm, reward in tells:
            replay.seen += 1
            batch.drafted.append((exp, replay.seen, TELL, ticket, arm, reward, at, data))
            if ticket is not None:
                self.open_tickets.pop(ticket, None)
                self.rewarded[ticket] = (arm, reward)
        for ticket, (arm, reward) in corrections.items():
            replay.seen += 1
            batch.drafted.append((exp, replay.seen, RETELL, ticket, arm, reward, at, json.dumps(before[ticket])))
            self.rewarded[ticket] = (arm, reward)

    def apply_admin_action(self, kind: int, given: Any, who: str, batch: WriteBatch) -> None:
        """An act of administration: arms, limits, or the status."""
        data = json.dumps(given)
        if kind == STATUS:
            if given == self.status:
                return
            self.status = given
            batch.statuses.append((given, self.record.id))
        else:
            if self.status == ARCHIVED:
                raise Refused(409, "this experiment is archived; resume it first.")
            if kind != LIMITS and not isinstance(given, str):
                raise Refused(422, f"an arm is given by its name, got {_validation.short_repr(given)}.")
            if kind == LIMITS and given is not None and self.replay.draws is not None:
                raise Refused(422, RANDOMISED_LIMITS_MESSAGE)
            self.replay.apply_admin_event(kind, data)
        self._add_event_to_batch(kind, data, batch)
        batch.audit.append((batch.at, who, KINDS[kind], self.record.name, data))

    def _add_event_to_batch(self, kind: int, data: str, batch: WriteBatch) -> None:
        """Add an event that is neither ask nor tell."""
        self.replay.seen += 1
        batch.drafted.append((self.record.id, self.replay.seen, kind, None, None, None, batch.at, data))

    # ---- small things ---------------------------------------------------------------------------------------
    def arm_index(self, arm: str) -> int:
        """The position of an arm."""
        found = self.replay.arm_indices.get(arm)
        if found is None:
            raise Refused(
                422, _validation.unknown_name_message("there is no arm", arm, list(self.replay.arm_indices)[:20])
            )
        return found

    def _require_not_archived(self) -> None:
        if self.status == ARCHIVED:
            raise Refused(409, "this experiment is archived, so it takes no rewards; resume it first.")

    def _require_running(self) -> None:
        if self.status != RUNNING:
            raise Refused(409, f"this experiment is {self.status}, so it gives no arms; resume it first.")

    def _check_same_request(self, key: str, before: AnsweredRequest, what: str) -> None:
        if before.what != what:
            raise Refused(
                409,
                f"the key {_validation.short_repr(key)} was sent before with another request; "
                "take a new key for a new one.",
            )


def rehearse_admin_action(now: CommittedExperiment, kind: int, given: Any) -> None:
    """Do an act of administration on a copy, and the ask after it: what is slow is then done; else a refusal."""
    if now.status == ARCHIVED:
        return  # it will be refused
    try:
        if kind == LIMITS:
            refuse_limits_too_long_to_read(given)
            now.replay.copy().apply_admin_event(kind, json.dumps(given))  # what is compiled is compiled now
        began = time.thread_time()
        now.replay.apply_admin_event(kind, json.dumps(given))
        seconds = time.thread_time() - began
        if kind == LIMITS and seconds > MAX_LIMITS_SECONDS:
            raise Refused(422, SLOW_LIMITS_MESSAGE)
        if now.replay.policy.playing:
            now.replay.refresh_probabilities(None)
            now.replay.ask(1, None, now.replay.segments[0] if now.replay.segments else None)
    except (ValueError, TypeError, IndexError) as error:
        raise Refused(422, str(error)) from None


def refuse_limits_too_long_to_read(given: Any) -> None:
    """Refuse limits that would take long to read."""
    parts = given if isinstance(given, list) else [given]
    count = sum(len(one) if isinstance(one, dict) else len(re.split(r"[;\n]", str(one))) for one in parts)
    if count > MAX_LIMITS or len(str(given)) > MAX_LIMITS_TEXT:
        raise Refused(
            413, f"an experiment can have at most {MAX_LIMITS:,} limits, of {MAX_LIMITS_TEXT:,} characters in all."
        )


def _tickets_of_request(request: Tell) -> Sequence[int]:
    return request.tickets or () if request.ticket is None else (request.ticket,)


def _arms_of_request(request: Tell) -> Sequence[str]:
    return request.arms or () if request.arm is None else (request.arm,)


def _validated_rewards(request: Tell) -> Sequence[float]:
    """The rewards of a request that is whole; else a sentence."""
    one, many = request.reward is not None, request.rewards is not None
    named = [request.ticket is not None, request.tickets is not None, request.arm is not None, request.arms is not None]
    if one == many or sum(named) != 1 or many != (named[1] or named[3]):
        raise Refused(
            422, "give ticket and reward, or tickets and rewards; if there is no ticket, give arm instead of ticket."
        )
    if request.reward is not None:
        return (request.reward,)
    assert request.rewards is not None
    if request.tickets is not None and len(request.tickets) != len(request.rewards):
        raise Refused(
            422, f"{len(request.tickets)} tickets came with {len(request.rewards)} rewards; give one for each ticket."
        )
    return request.rewards


def _check_in_support(support: Support | None, rewards: Sequence[float]) -> None:
    """Refuse rewards outside of the support, with what somebody can do who cannot change it."""
    for reward in rewards:
        if support is not None and not support.contains(reward):
            cut = f", for example cut off at {min(max(reward, support.lo), support.hi):g}"
            raise Refused(
                422,
                f"reward {reward:g} lies outside of {support!r}, where rewards of this experiment can lie; nothing was "
                "stored. That was declared when the experiment was created, and cannot be changed. Send a reward "
                f"that lies inside{cut if isinstance(support, Interval) else ''}, or create another experiment.",
            )
