"""Columns of a policy: from the arms and segments that users name to places in its memory, and back.

Without segments a column is an arm. With segments it is a pair of a segment and an arm (``pmbandits/segments.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits.arms import arm_index
from pmbandits.engine.build import MemoryBuilding
from pmbandits.engine.roster import PLAYS, Roster
from pmbandits.segments import Segments
from pmbandits.state.memory import Memory

NO_SEGMENTS: NDArray[np.int64] = np.empty(0, dtype=np.int64)


def count_earlier_arrivals(memory: Memory, roster: Roster | None, segments: Segments | None) -> None:
    """Work out the arrivals that the pulls in the main memory do not show; see ``earlier_arrivals`` in the state.

    Where pulls are forgotten, frequencies are those of the pulls that are left.
    """
    if segments is None:
        return
    memory.earlier_arrivals[:] = 0
    if memory.n_earlier_pulls and not memory.n_forgetting_counters:
        np.add.at(memory.earlier_arrivals, memory.segment_of, memory.earlier_pulls)
    if roster is not None:
        np.add.at(
            memory.earlier_arrivals, segments.segment_of[list(roster.inactive_arms)], roster.inactive_memory.pulls
        )


class ColumnLookup(MemoryBuilding):
    """What finds the columns of arms and segments, and says what is wrong with their names."""

    def _segment_positions(self, segment: Any, n: int | None) -> NDArray[np.int64]:
        """The segments of ``n`` people (as many as are listed, for ``None``); empty for a policy without segments.

        ``segment`` is one name for all of them, or a list of names.
        """
        self._require_bound_policy()
        if self._segments is None:
            if segment is not None:
                raise ValueError(
                    f"this policy has no segments, but segment={_validation.short_repr(segment)} was given; leave it "
                    "out, or make the policy with segments=[...]."
                )
            return NO_SEGMENTS
        if segment is None:
            known = ", ".join(self._segments.names[:20])
            raise TypeError(f"this policy has segments, so say who arrives: give segment=... (one of {known}).")
        if not _validation.is_list(segment):
            return np.full(1 if n is None else n, self._segments.index(segment), dtype=np.int64)
        found = np.array([self._segments.index(str(one) if isinstance(one, np.str_) else one) for one in segment])
        if (n is None and not found.size) or (n is not None and found.size != n):
            wanted = "at least one" if n is None else f"{n}"
            raise ValueError(f"{found.size} segments were given, and {wanted} must be; give one for each person.")
        return found.astype(np.int64)

    def _column_positions(self, arms: Any, segment: Any) -> NDArray[np.int64]:
        """The columns of arms in their segments; without segments, the positions of the arms."""
        places = self._arm_positions(arms)
        if self._segments is None and segment is None:
            return places
        people = self._segment_positions(segment, places.size)
        assert self._segments is not None
        columns: NDArray[np.int64] = self._segments.column_at[people, places]
        if (columns < 0).any():
            at = int(np.argmin(columns))
            name, arm = self._segments.names[people[at]], self.names[places[at]]
            mine = ", ".join(self._segments.to_dict()[name][:20])
            raise ValueError(f"the segment {name!r} does not have the arm {arm!r}; it has {mine}.")
        return columns

    def _arm_positions(self, arms: Any) -> NDArray[np.int64]:
        """The positions of arms that are given by position or name; an error names the first that does not exist."""
        self._require_bound_policy()
        given = arms if isinstance(arms, np.ndarray) else np.asarray(arms, dtype=object)
        if given.ndim == 1 and given.dtype.kind in "iu" and given.size:
            where = given.astype(np.int64)
            if where.min() >= 0 and where.max() < len(self.names):
                return where
        table = {name: place for place, name in enumerate(self.names)}
        plain = (arm.item() if isinstance(arm, np.generic) else arm for arm in arms)
        out = [table[arm] if type(arm) is str and arm in table else arm_index(arm, self.names) for arm in plain]
        return np.array(out, dtype=np.int64)

    def _columns_of_arm(self, arm: int, segment: str | None) -> tuple[list[int], str]:
        """The columns of an arm, in one segment if one is given; and that segment as words for a sentence."""
        if self._segments is None:
            self._segment_positions(segment, 1)  # refuses a segment
            return [arm], ""
        if segment is None:
            return [int(column) for column in self._segments.column_at[:, arm] if column >= 0], ""
        return [int(self._column_positions([arm], segment)[0])], f" in {segment}"

    def _columns_barred(
        self, unavailable: NDArray[np.int64] | None, arriving: NDArray[np.int64]
    ) -> NDArray[np.int64] | None:
        """What cannot be chosen for the first who arrives: what is not available, and other segments' columns."""
        if self._segments is None:
            return unavailable
        others = (self._segments.segment_of != arriving[0]).astype(np.int64)
        return others if unavailable is None else np.maximum(others, unavailable)

    def _by_segment(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Numbers of all columns with a row for each segment, and as they are without segments."""
        return columns if self._segments is None else np.asarray(self._segments.by_segment(columns))

    def _segments_of(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The segment of each column; empty without segments."""
        return NO_SEGMENTS if self._segments is None else self._segments.segment_of[columns]

    def _segment_of(self, column: int) -> int:
        """The segment of a column; −1 without segments."""
        return -1 if self._segments is None else int(self._segments.segment_of[column])

    def _columns_of_same_segment(self, column: int) -> NDArray[np.int64]:
        """All columns of the segment of this one, itself included; without segments, all arms."""
        if self._segments is None:
            return np.arange(len(self.names))
        return np.flatnonzero(self._segments.segment_of == self._segments.segment_of[column])

    def _playing_arms(self, segment: int) -> list[str]:
        """The names of the arms that play in a segment; −1 is all arms of a policy without segments."""
        columns = range(len(self.names)) if self._segments is None else self._segments.column_at[segment]
        states = self._arm_states()
        return [self.names[k] for k, column in enumerate(columns) if column >= 0 and states[column] == PLAYS]

    def _arm_states(self) -> tuple[str, ...]:
        roster = self._roster
        return (PLAYS,) * len(self._columns) if roster is None else roster.states

    def _n_pulls_in_all(self) -> int:
        """How many pulls were asked for in all."""
        _, _, memory, roster = self._now
        return int(memory.t + memory.earlier_pulls.sum() + (0 if roster is None else roster.inactive_memory.t))

    def _n_rounds_of(self, segment: int) -> int:
        """How many people of a segment have come; −1 is all rounds. Call it while alone with the policy."""
        if segment < 0:
            return self._n_pulls_in_all()
        memory = self._memory
        return int(memory.earlier_arrivals[segment] + memory.pulls[memory.segment_of == segment].sum())
