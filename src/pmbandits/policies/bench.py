"""Who plays and who does not: arms that come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pmbandits.state.memory import Memory

PLAYS, PAUSED, RETIRED = "plays", "paused", "retired"


@dataclass(frozen=True, eq=False)
class Bench:
    """Which arms are in the memory that plays, and which are beside it. Arms are counted as users count them.

    Parameters
    ----------
    states : of each arm that ever was: it plays, is paused, or is retired.
    seated : the arms in the memory that plays, in its order.
    shelf : the records of all other arms.
    benched : those arms, in the order of the shelf.
    came : of arms that play but wait for their first reward, beside the memory: the round in which they came.
    began : the round in which the clock began anew.
    first : how many arms there were at first.
    """

    states: tuple[str, ...]
    seated: tuple[int, ...]
    shelf: Memory
    benched: tuple[int, ...]
    came: Mapping[int, int]
    began: int
    first: int
    place: tuple[int, ...] = field(
        init=False
    )  # for each arm: its place in the memory that plays, or −1 − (its place on the shelf)
    waiting: tuple[int, ...] = field(init=False)  # arms that wait for their first reward

    def __post_init__(self) -> None:
        place = [0] * len(self.states)
        for at, arm in enumerate(self.seated):
            place[arm] = at
        for at, arm in enumerate(self.benched):
            place[arm] = -1 - at
        object.__setattr__(self, "place", tuple(place))
        object.__setattr__(self, "waiting", tuple(arm for arm in self.benched if self.states[arm] == PLAYS))

    def copy(self) -> Bench:
        """The same with a shelf of its own."""
        return replace(self, shelf=self.shelf.copy())

    def next_due(self, barred: NDArray[np.int64] | None = None) -> tuple[int, int] | None:
        """Which of the arms that wait and are not barred is tried next, and in which round; ``None`` if there is none.

        An arm without a reward is tried when its pulls are at most the root of the rounds since it came. So it is tried
        at once, and then more and more rarely until its first reward comes.
        """
        rounds = [
            (self.came[arm] + int(self.shelf.pulls[-1 - self.place[arm]]) ** 2, arm)
            for arm in self.waiting
            if barred is None or not barred[arm]
        ]
        return min(rounds)[::-1] if rounds else None

    def arrived(self) -> bool:
        """Whether an arm that waited has its first reward."""
        return any(self.shelf.told[-1 - self.place[arm]] > 0 for arm in self.waiting)


def sharing(first: int, total: int) -> tuple[int, int]:
    """How many arms share δ, and how often that number was doubled because more arms came than were expected.

    >>> sharing(4, 3), sharing(4, 4), sharing(4, 5), sharing(4, 17)
    ((4, 0), (4, 0), (8, 1), (32, 3))
    """
    doubled = 0
    while first << doubled < total:
        doubled += 1
    return first << doubled, doubled
