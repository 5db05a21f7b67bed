"""Tickets that never came back: which have been open for too long."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, literal_column, select

from pmbandits.service.events import ASK, ASKED, TELL
from pmbandits.service.schema import events
from pmbandits.service.store import Store


class OverdueTickets:
    """Looks for old tickets without a reward.

    A ticket that has a reward never loses it: so what was found to be finished once need not be looked at again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rewarded_upto: dict[int, int] = {}  # of each experiment: all tickets up to this one have a reward

    def forget_experiment(self, exp: int) -> None:
        """Look at all tickets of an experiment again."""
        self._rewarded_upto.pop(exp, None)

    def overdue_tickets(self, exp: int, seconds: float, most: int) -> list[int]:
        """Tickets that were asked for more than so many seconds ago and have no reward; the oldest, at most so many."""
        ask = events.alias("ask")
        rewarded = _has_reward(ask)
        before, after = self._store.now_ms() - 1000.0 * seconds, self._rewarded_upto.get(exp, 0)
        asks = and_(ask.c.exp == exp, ask.c.seq > after, ask.c.kind.in_((ASK, ASKED)))
        young = select(ask.c.seq).where(asks, ask.c.at >= before).order_by(ask.c.seq).limit(1)
        last = select(ask.c.seq).where(asks).order_by(ask.c.seq.desc()).limit(1)
        late = select(ask.c.seq).where(asks, ask.c.at < before, ~rewarded).order_by(ask.c.seq).limit(most)
        with self._store.engine.connect() as connection:
            # The clocks of two machines may differ: old tickets may come after a young one, and new ones may look old.
            # So the end of what is old now is found first.
            newest = connection.execute(last).scalar() or after
            first = connection.execute(young).scalar()
            found = [int(seq) for (seq,) in connection.execute(late)]
        if not found:
            self._rewarded_upto[exp] = int(newest) if first is None else min(int(newest), int(first) - 1)
        return found

    def oldest_open_ticket(self, exp: int) -> tuple[int, int] | None:
        """The oldest ticket without a reward, and when it was asked for."""
        ask = events.alias("ask")
        rewarded = _has_reward(ask)
        after = self._rewarded_upto.get(exp, 0)
        wanted = select(ask.c.seq, ask.c.at).where(
            ask.c.exp == exp, ask.c.seq > after, ask.c.kind.in_((ASK, ASKED)), ~rewarded
        )
        with self._store.engine.connect() as connection:
            last = connection.execute(select(func.max(events.c.seq)).where(events.c.exp == exp)).scalar()
            row = connection.execute(wanted.order_by(ask.c.seq).limit(1)).first()
        # Numbers are given in order: so all before the first open one have a reward, and later ones are larger.
        self._rewarded_upto[exp] = max(after, int(row[0]) - 1 if row is not None else int(last or 0))
        return None if row is None else (int(row[0]), int(row[1]))


def _has_reward(ask: Any) -> Any:
    """Whether an ask has a reward."""
    tell = events.alias("tell")
    reward: ColumnElement[int] = literal_column(str(TELL))  # written out, so that the index of tells is known to fit
    return exists().where(
        tell.c.exp == ask.c.exp, tell.c.ticket == ask.c.seq, tell.c.kind == reward, tell.c.ticket.is_not(None)
    )
