"""The roster of arms: which are active, paused or retired, and where their rewards are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits.engine.archive import DamagedFile, is_json_count
from pmbandits.state.memory import Memory

PLAYS, PAUSED, RETIRED = "plays", "paused", "retired"


@dataclass(frozen=True, eq=False)
class Roster:
    """Which arms are in the main memory (active), and which in a second one (inactive), by users' positions.

    Parameters
    ----------
    states : of each arm that ever was: it plays, is paused, or is retired.
    active_arms : the arms in the main memory, in its order.
    inactive_memory : pulls and rewards of all other arms.
    inactive_arms : those arms, in the order of ``inactive_memory``.
    joined_at : for arms that wait for their first reward in the inactive memory: the round in which they came.
    clock_start : the round in which the clock for tracking shares was last restarted.
    n_initial_arms : how many arms there were at first.
    """

    states: tuple[str, ...]
    active_arms: tuple[int, ...]
    inactive_memory: Memory
    inactive_arms: tuple[int, ...]
    joined_at: Mapping[int, int]
    clock_start: int
    n_initial_arms: int
    # for each arm: its position in the main memory, or −1 − (its position in the inactive memory)
    place: tuple[int, ...] = field(init=False)
    waiting: tuple[int, ...] = field(init=False)  # arms that wait for their first reward

    def __post_init__(self) -> None:
        place = [0] * len(self.states)
        for at, arm in enumerate(self.active_arms):
            place[arm] = at
        for at, arm in enumerate(self.inactive_arms):
            place[arm] = -1 - at
        object.__setattr__(self, "place", tuple(place))
        object.__setattr__(self, "waiting", tuple(arm for arm in self.inactive_arms if self.states[arm] == PLAYS))

    def copy(self) -> Roster:
        """A copy of the roster with its own copy of the inactive memory."""
        return replace(self, inactive_memory=self.inactive_memory.copy())

    def to_json(self) -> dict[str, Any]:
        """The roster for the description in a file, without the inactive memory."""
        return {
            "states": list(self.states),
            "active": list(self.active_arms),
            "joined": [[arm, self.joined_at[arm]] for arm in self.waiting],
            "clock_start": self.clock_start,
            "n_initial_arms": self.n_initial_arms,
        }

    def next_waiting_arm_to_try(self, unavailable: NDArray[np.int64] | None = None) -> tuple[int, int] | None:
        """Which available arm that waits for its first reward is tried next, and in which round; ``None`` if none.

        An arm without a reward is tried when its pulls are at most the root of the rounds since it came. So it is tried
        at once, and then more and more rarely until its first reward comes.
        """
        rounds = [
            (self.joined_at[arm] + int(self.inactive_memory.pulls[-1 - self.place[arm]]) ** 2, arm)
            for arm in self.waiting
            if unavailable is None or not unavailable[arm]
        ]
        return min(rounds)[::-1] if rounds else None

    def has_waiting_arm_first_reward(self) -> bool:
        """Whether an arm that waited has its first reward."""
        return any(self.inactive_memory.n_rewards[-1 - self.place[arm]] > 0 for arm in self.waiting)


def roster_from_json(found: Any, n_arms: int) -> Roster:
    """The roster that a file describes, with an empty inactive memory; raises DamagedFile."""
    unreadable = DamagedFile("its description of the arms that play cannot be read")
    if not isinstance(found, dict) or set(found) != {"states", "active", "joined", "clock_start", "n_initial_arms"}:
        raise unreadable
    states, active, joined = found["states"], found["active"], found["joined"]
    if not (isinstance(states, list) and isinstance(active, list) and isinstance(joined, list)):
        raise unreadable
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in joined):
        raise unreadable
    counts = [found["clock_start"], found["n_initial_arms"], *active, *(number for pair in joined for number in pair)]
    if not all(is_json_count(number) for number in counts):
        raise unreadable
    plays, joined_at = {arm for arm, state in enumerate(states) if state == PLAYS}, dict(joined)
    possible = (
        len(states) == n_arms and all(state in (PLAYS, PAUSED, RETIRED) for state in states),
        active and sorted(set(active)) == active and set(active) <= plays,
        set(joined_at) == plays - set(active) and len(joined_at) == len(joined),
        1 <= found["n_initial_arms"] <= n_arms,
    )
    if not all(possible):
        raise unreadable
    inactive = tuple(arm for arm in range(n_arms) if arm not in set(active))
    empty = Memory.allocate({"n_arms": len(inactive)})
    start, initial = found["clock_start"], found["n_initial_arms"]
    return Roster(tuple(states), tuple(active), empty, inactive, joined_at, start, initial)


def arm_count_doubled_until_enough(n_initial_arms: int, total: int) -> tuple[int, int]:
    """How many arms share δ, and how often that number was doubled because more arms came than were expected.

    >>> [arm_count_doubled_until_enough(4, n) for n in (3, 4, 5, 17)]
    [(4, 0), (4, 0), (8, 1), (32, 3)]
    """
    doubled = 0
    while n_initial_arms << doubled < total:
        doubled += 1
    return n_initial_arms << doubled, doubled
