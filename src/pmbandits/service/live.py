"""An experiment in the memory of one process: its policy, and what was asked and told lately."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from pmbandits import _check
from pmbandits.service.events import (
    ARCHIVED,
    ASK,
    ASKED,
    KINDS,
    LIMITS,
    RETELL,
    RUNNING,
    STATUS,
    TELL,
    Batch,
    Done,
    Found,
    Old,
    Want,
)
from pmbandits.service.fold import Fold, Gap
from pmbandits.service.store import Record, now
from pmbandits.service.wire import Ask, Asked, AskedMany, Tell, Told
from pmbandits.supports import Interval, Support

EXPIRED = '"expired"'  # in the log, of a reward that nobody told
REMEMBERED = 1 << 16  # tickets, keys and units of which the store need not be asked


class Refused(Exception):
    """A request that cannot be: its status in HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Live:
    """One experiment: decides requests in the order in which they come, inside a turn.

    ``open`` has the arms of tickets that wait for a reward, ``told`` arm and reward of those that have one. What is in
    neither may still be in the store. Within a turn nothing is forgotten; ``units`` are of this turn only.
    """

    def __init__(self, record: Record, fold: Fold) -> None:
        self.record, self.fold, self.status = record, fold, record.status
        self.open: dict[int, int] = {}
        self.told: dict[int, tuple[int, float]] = {}
        self.keys: dict[str, Done] = {}
        self.units: dict[str, int] = {}
        self.others = 0  # runs of stored asks that this policy would have answered otherwise

    # ---- before a turn: what must be looked up ------------------------------------------------------------
    def needs(self, request: Ask | Tell) -> bool:
        """Whether the store must be asked for something that the request names."""
        if request.key is not None and request.key not in self.keys:
            return True
        if isinstance(request, Ask):
            return request.unit is not None and request.unit not in self.units
        return any(ticket not in self.open and ticket not in self.told for ticket in _tickets(request))

    def look_up(self, request: Ask | Tell, want: Want) -> None:
        """Note what a request names and nobody remembers."""
        if request.key is not None and request.key not in self.keys:
            want.keys.add(request.key)
        if isinstance(request, Ask):
            if request.unit is not None:
                want.units.add(request.unit)
        else:
            want.tickets.update(
                ticket for ticket in _tickets(request) if ticket not in self.open and ticket not in self.told
            )

    def learn(self, found: Found) -> None:
        """Take in what others wrote, and what was looked up."""
        tail, seen = found.tail, self.fold.seen
        if seen > 0:  # the last event that is known here must be there, else something here never came to the disk
            if not tail or tail[0][0] != seen:
                raise Gap(f"event {seen} is not in the store")
            tail = tail[1:]
        self.catch_up(tail)
        for ticket, arm in found.tickets.items():
            if ticket in found.told:
                self.told[ticket] = (arm, found.told[ticket])
            else:
                self.open[ticket] = arm
        for key, done in found.keys.items():
            self.keys[key] = done
        for unit, place in found.units.items():
            self.units[unit] = place

    def forget(self) -> None:
        """After a turn: what is old can be looked up, and units others may change."""
        self.units.clear()
        books: tuple[dict[Any, Any], ...] = (self.open, self.told, self.keys)
        for book in books:
            for old in list(islice(book, max(0, len(book) - REMEMBERED))):
                del book[old]

    def catch_up(self, tail: list[Old]) -> None:
        """Take in what others wrote."""
        if not tail:
            return
        self.others += self.fold.apply(tail)
        for seq, kind, ticket, arm, value, data in tail:
            if kind in (ASK, ASKED):
                assert arm is not None
                self.open[seq] = arm
            elif kind in (TELL, RETELL) and ticket is not None:
                self.open.pop(ticket, None)
                assert arm is not None and value is not None
                self.told.pop(ticket, None)
                self.told[ticket] = (arm, value)
            elif kind == STATUS and data is not None:
                self.status = json.loads(data)

    # ---- in a turn: decide ----------------------------------------------------------------------------------
    def ask(self, request: Ask, batch: Batch) -> Asked | AskedMany:
        """The next arm or arms, and their tickets."""
        n = 1 if request.n is None else request.n
        what = _digest("ask", request.n, request.among, request.unit) if request.key is not None else ""
        if request.key is not None:
            before = self.keys.get(request.key)
            if before is not None:
                self._same(request.key, before, what)
                return self._answer(request, before.seq, before.events)
        self._must_run()
        fold, first = self.fold, self.fold.seen + 1
        among = None if request.among is None else sorted({self.place(name) for name in request.among})
        kept = None if request.unit is None else self.units.get(request.unit)
        if kept is not None and (among is None or kept in among) and self._plays(kept):
            fold.asked(kept)
            arms, kind = [kept], ASKED
        else:
            arms, kind = fold.ask(n, among), ASK
        at, exp, data = now(), self.record.id, None if among is None else json.dumps(among)
        events = batch.events
        shares = {arm: fold.share(arm) for arm in set(arms)}
        done = [(arm, shares[arm]) for arm in arms]
        for seq, (arm, share) in enumerate(done, first):
            events.append((exp, seq, kind, None, arm, share, at, data))
            self.open[seq] = arm
        fold.seen += n
        if request.unit is not None and kind == ASK:
            batch.units.append((exp, request.unit, arms[0], first))
            self.units[request.unit] = arms[0]
        if request.key is not None:
            batch.requests.append((exp, request.key, first, n, what))
            self.keys[request.key] = Done(first, what, done)
        return self._answer(request, first, done)

    def _answer(self, request: Ask, first: int, done: Sequence[tuple[int | None, float | None]]) -> Asked | AskedMany:
        names = self.fold.policy.names
        arms, shares = [names[arm] for arm, _ in done if arm is not None], [share for _, share in done]
        if request.n is None:
            return Asked(first, arms[0], shares[0])
        return AskedMany(list(range(first, first + len(arms))), arms, shares)

    def _plays(self, arm: int) -> bool:
        return self.fold.policy.names[arm] in self.fold.policy.playing

    def tell(self, request: Tell, batch: Batch) -> Told:
        """Take rewards in, all of a request or none."""
        self._must_take_rewards()
        rewards = _rewards(request)
        first, what = self.fold.seen + 1, ""
        if request.key is not None:
            named = _tickets(request) or _arms(request)
            what = _digest("tell", list(named), list(rewards), *([True] if request.correct else []))
            before = self.keys.get(request.key)
            if before is not None:
                self._same(request.key, before, what)
                return Told(0, len(rewards), 0)
        told = self._tell(request, rewards, batch)
        if request.key is not None:
            batch.requests.append((self.record.id, request.key, first, self.fold.seen + 1 - first, what))
            self.keys[request.key] = Done(first, what, ())
        return told

    def _tell(self, request: Tell, rewards: Sequence[float], batch: Batch) -> Told:
        if request.tickets is None and request.ticket is None:
            arms = _arms(request)
            if len(arms) != len(rewards):
                raise Refused(
                    422, f"{len(arms)} arms were told with {len(rewards)} rewards; give one reward for each arm."
                )
            self._take_in(batch, [(None, self.place(arm), reward) for arm, reward in zip(arms, rewards, strict=True)])
            return Told(len(rewards), 0, 0)
        fresh: dict[int, tuple[int, float]] = {}
        again: dict[int, tuple[int, float]] = {}
        repeated = 0
        for ticket, reward in zip(_tickets(request), rewards, strict=True):
            sent = fresh.get(ticket) or again.get(ticket)
            known = sent or self.told.get(ticket)
            if known is None:
                arm = self.open.get(ticket)
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
                again[ticket] = (known[0], reward)
        self._take_in(batch, [(ticket, *told) for ticket, told in fresh.items()], again)
        return Told(len(fresh), repeated, len(again))

    def expire(self, tickets: Sequence[int], reward: float, seconds: float, who: str, batch: Batch) -> list[int]:
        """Give a reward to those of these tickets that still have none; which ones those were."""
        self._must_take_rewards()
        late = [ticket for ticket in tickets if ticket in self.open]
        self._take_in(batch, [(ticket, self.open[ticket], reward) for ticket in late], data=EXPIRED)
        if late:
            detail = json.dumps({"tickets": len(late), "reward": reward, "seconds": seconds})
            batch.audit.append((now(), who, "expire", self.record.name, detail))
        return late

    def _take_in(
        self,
        batch: Batch,
        tells: Sequence[tuple[int | None, int, float]],
        again: Mapping[int, tuple[int, float]] = MappingProxyType({}),
        data: str | None = None,
    ) -> None:
        """Take in rewards, and others in place of those that tickets have; all of them or none."""
        fold, exp, at = self.fold, self.record.id, now()
        before = {ticket: self.told[ticket][1] for ticket in again}
        rewards = [reward for _, _, reward in tells]
        try:
            fold.tell(
                [arm for _, arm, _ in tells],
                rewards,
                [(arm, before[ticket], reward) for ticket, (arm, reward) in again.items()],
            )
        except ValueError:
            _inside(fold.policy.support, [*rewards, *(reward for _, reward in again.values())])
            raise
        for ticket, arm, reward in tells:
            fold.seen += 1
            batch.events.append((exp, fold.seen, TELL, ticket, arm, reward, at, data))
            if ticket is not None:
                self.open.pop(ticket, None)
                self.told[ticket] = (arm, reward)
        for ticket, (arm, reward) in again.items():
            fold.seen += 1
            batch.events.append((exp, fold.seen, RETELL, ticket, arm, reward, at, json.dumps(before[ticket])))
            self.told[ticket] = (arm, reward)

    def control(self, kind: int, given: Any, who: str, batch: Batch) -> None:
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
                raise Refused(422, f"an arm is given by its name, got {_check.short(given)}.")
            self.fold.control(kind, data)
        self.fold.seen += 1
        at = now()
        batch.events.append((self.record.id, self.fold.seen, kind, None, None, None, at, data))
        batch.audit.append((at, who, KINDS[kind], self.record.name, data))

    # ---- small things ---------------------------------------------------------------------------------------
    def place(self, arm: str) -> int:
        """The position of an arm."""
        found = self.fold.places.get(arm)
        if found is None:
            raise Refused(422, _check.unknown("there is no arm", arm, list(self.fold.places)[:20]))
        return found

    def _must_take_rewards(self) -> None:
        if self.status == ARCHIVED:
            raise Refused(409, "this experiment is archived, so it takes no rewards; resume it first.")

    def _must_run(self) -> None:
        if self.status != RUNNING:
            raise Refused(409, f"this experiment is {self.status}, so it gives no arms; resume it first.")

    def _same(self, key: str, before: Done, what: str) -> None:
        if before.what != what:
            raise Refused(
                409, f"the key {_check.short(key)} was sent before with another request; take a new key for a new one."
            )


def _tickets(request: Tell) -> Sequence[int]:
    return request.tickets or () if request.ticket is None else (request.ticket,)


def _arms(request: Tell) -> Sequence[str]:
    return request.arms or () if request.arm is None else (request.arm,)


def _rewards(request: Tell) -> Sequence[float]:
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


def _inside(support: Support | None, rewards: Sequence[float]) -> None:
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


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
