"""Watching the arms of an experiment for changes, whatever its policy: for the board, from the events alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from sqlalchemy import select

from pmbandits.estimates.changes import Change, ChangeDetector
from pmbandits.service.events import TELL
from pmbandits.service.schema import events
from pmbandits.service.store import Store

LEVEL = 0.01  # the probability of any false alarm in one experiment, over all time
AT_ONCE = 100_000  # rewards that are looked at in one go; more wait for the next


class Watch:
    """One detector for each arm. Each arm has a share of the level; the shares of all that may ever come add up to 1.

    A reward that was corrected later counts as it was told first.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.detectors: dict[int, ChangeDetector] = {}
        self.found: list[tuple[int, Change]] = []  # the event with which it was found, and the change

    def follow(self, store: Store, exp: int, names: tuple[str, ...], upto: int) -> None:
        """Take in the rewards up to an event."""
        if self.seen >= upto:
            return
        wanted = (
            select(events.c.seq, events.c.arm, events.c.value)
            .where(events.c.exp == exp, events.c.kind == TELL, events.c.seq > self.seen, events.c.seq <= upto)
            .order_by(events.c.seq)
            .limit(AT_ONCE)
        )
        with store.engine.connect() as connection:
            rows = connection.execute(wanted).all()
        table = np.array([(row[0], row[1], row[2]) for row in rows], dtype=np.float64).reshape(-1, 3)
        for arm in np.unique(table[:, 1]).astype(int).tolist():
            mine = table[table[:, 1] == arm]
            if arm not in self.detectors:
                self.detectors[arm] = ChangeDetector(LEVEL * 6.0 / (math.pi * (arm + 1)) ** 2)
            detector = self.detectors[arm]
            before = len(detector.changes)
            for k, at in enumerate(detector.extend(mine[:, 2])):
                self.found.append((int(mine[at, 0]), replace(detector.changes[before + k], arm=names[arm])))
        self.found.sort(key=lambda pair: pair[0])
        self.seen = upto if len(rows) < AT_ONCE else int(table[-1, 0])
