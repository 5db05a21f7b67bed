"""The sample-ratio check of randomised play: whether rewards come in as arms were drawn.

If pages of one arm crash, or somebody plays other arms than were given, the rewards of some arms are missing, and what
is learned is wrong. Every ticket with a reward of its own (not a default one) should have an arm that is as likely as
its draw was, whatever else happened. That is tested with every reward that comes, by a bet (a test martingale; Lindon
and Malek, 2022, do the same for fixed probabilities). The alternative q tilts the probabilities p of a ticket by what
was seen before it: q(i) ∝ p(i)·(O(i) + c)/(E(i) + c), with O(i) the rewards of arm i so far, and E(i) how many were
expected. The product of all q(arm)/p(arm) is a fair game if rewards do not depend on the arm that was drawn. So it ever
reaches 1/α with probability α at most (Ville): the p-value holds at all times, however often somebody looks.
"""

from __future__ import annotations

import json
import math
import threading
from bisect import bisect_right
from typing import Any

from sqlalchemy import and_, or_, select

from pmbandits.service.events import ASK, PROBABILITIES, TELL
from pmbandits.service.experiment import EXPIRED, CommittedExperiment
from pmbandits.service.schema import events
from pmbandits.service.store import Store

LEVEL = 0.01  # the probability of any false alarm in one experiment, over all time
PRIOR = 10.0  # c: rewards that are taken to have come as expected
MAX_REWARDS = 20_000  # that are looked at in one go; more wait for the next


class Bet:
    """The bet against draws of arms with known probabilities."""

    def __init__(self) -> None:
        self.arrived: dict[int, int] = {}
        self.expected: dict[int, float] = {}
        self._log_wealth = self._log_most = 0.0

    @property
    def p_value(self) -> float:
        """The p-value that holds at all times."""
        return math.exp(-self._log_most)

    def add_ticket(self, arm: int, probabilities: dict[int, float]) -> None:
        """Take in the arm of one ticket, whose arm was drawn with these probabilities, which add up to 1."""
        tilts = {i: (self.arrived.get(i, 0) + PRIOR) / (self.expected.get(i, 0.0) + PRIOR) for i in probabilities}
        self._log_wealth += math.log(tilts[arm] / sum(p * tilts[i] for i, p in probabilities.items()))
        self._log_most = max(self._log_most, self._log_wealth)
        self.arrived[arm] = self.arrived.get(arm, 0) + 1
        for i, p in probabilities.items():
            self.expected[i] = self.expected.get(i, 0.0) + p


class _RatioWatch:
    """One experiment: rewards up to an event, and all probabilities until then."""

    def __init__(self) -> None:
        self.bet, self.seen, self.lock = Bet(), 0, threading.Lock()
        self._from: list[int] = []  # from which event on each of the probabilities hold
        self._probabilities: list[list[float]] = []

    def catch_up_to(self, store: Store, exp: int, upto: int) -> None:
        """Take in rewards up to an event, so many at most."""
        tell, ask = events.alias("tell"), events.alias("ask")
        wanted = (
            select(tell.c.seq, ask.c.seq, ask.c.arm, ask.c.data)
            .join(ask, and_(ask.c.exp == tell.c.exp, ask.c.seq == tell.c.ticket))
            .where(
                tell.c.exp == exp, tell.c.seq > self.seen, tell.c.seq <= upto, tell.c.kind == TELL, ask.c.kind == ASK
            )
            .where(or_(tell.c.data.is_(None), tell.c.data != EXPIRED))
            .order_by(tell.c.seq)
            .limit(MAX_REWARDS)
        )
        known = self._from[-1] if self._from else 0
        newer = and_(events.c.exp == exp, events.c.kind == PROBABILITIES, events.c.seq > known, events.c.seq <= upto)
        with store.engine.connect() as connection:
            for seq, data in connection.execute(
                select(events.c.seq, events.c.data).where(newer).order_by(events.c.seq)
            ):
                self._from.append(seq)
                self._probabilities.append(json.loads(data)["probabilities"])
            rows = connection.execute(wanted).all()
            refers = {int(row[3]) for row in rows if row[3] is not None and not row[3].startswith("[")}
            first = {seq: data for _, seq, _, data in rows} | {
                seq: connection.execute(select(events.c.data).where(events.c.exp == exp, events.c.seq == seq)).scalar()
                for seq in refers
            }
        for _, ticket, arm, data in rows:
            among = None if data is None else json.loads(data if data.startswith("[") else first[int(data)] or "[]")
            self.bet.add_ticket(arm, self._draw_probabilities_of_ticket(ticket, among))
        self.seen = rows[-1][0] if len(rows) == MAX_REWARDS else upto

    def _draw_probabilities_of_ticket(self, ticket: int, among: list[int] | None) -> dict[int, float]:
        all_arms = self._probabilities[bisect_right(self._from, ticket) - 1]
        some = {i: p for i, p in enumerate(all_arms) if p > 0.0 and (among is None or i in among)}
        total = sum(some.values())
        return {i: p / total for i, p in some.items()}


class SampleRatios:
    """The checks of all experiments with randomised play; each goes on when somebody asks for it."""

    def __init__(self, store: Store) -> None:
        self._store, self._watches = store, dict[int, _RatioWatch]()

    def forget_experiment(self, exp: int) -> None:
        """Look at all rewards of an experiment again."""
        self._watches.pop(exp, None)

    def sample_ratio_of(self, now: CommittedExperiment) -> dict[str, Any] | None:
        """What is known now, for any thread; None for experiments that play what their policy asks for."""
        if now.replay.draws is None:
            return None
        watch = self._watches.setdefault(now.record.id, _RatioWatch())
        with watch.lock:
            watch.catch_up_to(self._store, now.record.id, now.replay.seen)
            return _sample_ratio_to_dict(watch.bet, watch.seen, now.replay.policy.names)


def _sample_ratio_to_dict(bet: Bet, seen: int, names: tuple[str, ...]) -> dict[str, Any]:
    p, alarm = bet.p_value, bet.p_value <= LEVEL
    n = sum(bet.arrived.values())
    sentence = f"The arms of {n:,} rewards are as they were drawn (p = {p:.2g})."
    if alarm:
        far = max(bet.expected, key=lambda i: abs(bet.arrived.get(i, 0) - bet.expected[i]) / math.sqrt(bet.expected[i]))
        sentence = (
            f"Rewards do not come in as arms were drawn: {names[far]} has {bet.arrived.get(far, 0):,} rewards, and "
            f"{bet.expected[far]:,.0f} were expected (p = {p:.1g}). Some are lost, or other arms are played than were "
            "given."
        )
    return {
        "arrived": {names[i]: bet.arrived.get(i, 0) for i in sorted(bet.expected)},
        "expected": {names[i]: bet.expected[i] for i in sorted(bet.expected)},
        "p_value": p,
        "alarm": alarm,
        "upto": seen,
        "sentence": sentence,
    }
