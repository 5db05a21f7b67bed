"""Tickets that never came back: which have been open for too long."""

from __future__ import annotations

from sqlalchemy import and_, exists, func, select

from pmbandits.service.events import ASK, ASKED, TELL
from pmbandits.service.schema import events
from pmbandits.service.store import Store, now


class Overdue:
    """Looks for old tickets without a reward.

    A ticket that has a reward never loses it: so what was found to be finished once need not be looked at again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._finished: dict[int, int] = {}  # of each experiment: all tickets up to this one have a reward

    def find(self, exp: int, seconds: float, most: int) -> list[int]:
        """Tickets that were asked for more than so many seconds ago and have no reward; the oldest, at most so many."""
        ask, tell = events.alias("ask"), events.alias("tell")
        before, after = now() - 1000.0 * seconds, self._finished.get(exp, 0)
        asks = and_(ask.c.exp == exp, ask.c.seq > after, ask.c.kind.in_((ASK, ASKED)))
        told = exists().where(
            tell.c.exp == exp, tell.c.ticket == ask.c.seq, tell.c.kind == TELL, tell.c.ticket.is_not(None)
        )
        with self._store.engine.connect() as connection:
            # First of all: what is asked for while this looks is younger, and is not looked at.
            last = int(connection.execute(select(func.max(ask.c.seq)).where(asks)).scalar() or after)
            wanted = select(ask.c.seq).where(asks, ask.c.at < before, ~told).order_by(ask.c.seq).limit(most)
            found = [int(seq) for (seq,) in connection.execute(wanted)]
            if not found:  # the clocks of two machines may differ: so the first young ticket is looked for
                young = connection.execute(select(func.min(ask.c.seq)).where(asks, ask.c.at >= before)).scalar()
                self._finished[exp] = min(last, int(young) - 1) if young else last
        return found
