"""Segments of a population: who is in front of you, and which arms there are for them.

A pair of a segment and an arm is a *column*. Columns are ordered by segment, then by arm. All that works for an arm
without segments (rewards, counts, limits, weights) works for a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray, IntArray

MAX_PAIRS = 1_000_000  # pairs of a segment and an arm


@dataclass(frozen=True, eq=False)
class Segments:
    """The segments of a population, all arms, and the segment and the arm of each column.

    Examples
    --------
    >>> seen = Segments.from_arguments({"new": ["A", "B"], "returning": ["B", "C"]})
    >>> seen.arms, seen.column_names
    (('A', 'B', 'C'), ('new: A', 'new: B', 'returning: B', 'returning: C'))
    >>> seen.by_segment([1, 2, 3, 4])
    array([[1, 2, 0],
           [0, 3, 4]])
    """

    names: tuple[str, ...]
    arms: tuple[str, ...]
    segment_of: IntArray
    arm_of: IntArray

    @classmethod
    def from_arguments(cls, segments: Any, arms: Sequence[str] | None = None) -> Segments:
        """Make the columns from a list of segments with the same arms, or from a mapping to the arms of each."""
        if isinstance(segments, (str, bytes)) or not (isinstance(segments, Mapping) or _validation.is_list(segments)):
            raise TypeError(
                "segments must be a list of names such as ['new', 'returning'], or a dictionary with the arms of each, "
                f"got {_validation.short_repr(segments)}."
            )
        names = _check_names(list(segments), "segment")
        if isinstance(segments, Mapping):
            given = [_check_names(_list_of_names("the arms of a segment", mine), "arm") for mine in segments.values()]
        elif arms is None:
            raise ValueError("the arms of the segments are not known; give names=[...], a name for each arm.")
        else:
            given = [tuple(str(arm) for arm in arms)] * len(names)
        known = tuple(dict.fromkeys(arm for mine in given for arm in mine)) if arms is None else tuple(map(str, arms))
        if len(names) * len(known) > MAX_PAIRS:
            raise ValueError(
                f"{len(names):,} segments with {len(known):,} arms are more than the {MAX_PAIRS:,} pairs that can be "
                "played; take fewer segments."
            )
        place = {arm: k for k, arm in enumerate(known)}
        for name, mine in zip(names, given, strict=True):
            for arm in mine:
                if arm not in place:
                    raise ValueError(_validation.unknown_name_message(f"the segment {name!r} has the arm", arm, known))
        unused = set(known).difference(*given)
        if unused:
            first = next(arm for arm in known if arm in unused)
            raise ValueError(f"the arm {first!r} is in no segment; give it to one, or leave it out of names.")
        columns = [(s, k) for s, mine in enumerate(given) for k in sorted(place[arm] for arm in mine)]
        segment_of, arm_of = np.array(columns, dtype=np.int64).T
        return cls(names, known, segment_of.copy(), arm_of.copy())

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segments) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.names, self.arms, self.column_names))

    @property
    def n_columns(self) -> int:
        """How many pairs of a segment and an arm there are."""
        return int(self.segment_of.size)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """A name for each column, such as ``new: A``."""
        shown = [repr(name) if ":" in name or "'" in name else name for name in self.names]
        return tuple(f"{shown[s]}: {self.arms[k]}" for s, k in zip(self.segment_of, self.arm_of, strict=True))

    @cached_property
    def column_at(self) -> IntArray:
        """The column of each segment (row) and arm; −1 where the segment does not have the arm."""
        out = np.full((len(self.names), len(self.arms)), -1, dtype=np.int64)
        out[self.segment_of, self.arm_of] = np.arange(self.n_columns)
        return out

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each segment, by its name."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def column_by_name(self) -> dict[tuple[str, int], int]:
        """The column of the name of a segment and the position of an arm."""
        names = [self.names[s] for s in self.segment_of]
        return {pair: column for column, pair in enumerate(zip(names, self.arm_of.tolist(), strict=True))}

    @cached_property
    def arm_list(self) -> list[int]:
        """The arm of each column, as numbers of Python."""
        return [int(arm) for arm in self.arm_of]

    def index(self, segment: Any) -> int:
        """The position of a segment that is given by its name."""
        if not isinstance(segment, str) or segment not in self.positions:
            raise ValueError(_validation.unknown_name_message("unknown segment", segment, self.names))
        return self.positions[segment]

    def by_segment(self, columns: ArrayLike) -> Any:
        """Numbers of the columns as a table: a row for each segment, an entry for each arm, 0 where it has none."""
        values = np.asarray(columns)
        out = np.zeros((len(self.names), len(self.arms)), dtype=values.dtype)
        out[self.segment_of, self.arm_of] = values
        return out

    def totals(self, columns: ArrayLike) -> FloatArray:
        """The sum over the columns of each segment."""
        values = np.asarray(columns, dtype=np.float64)
        return np.asarray(np.bincount(self.segment_of, weights=values, minlength=len(self.names)), dtype=np.float64)

    def shares_within(self, joint: ArrayLike, playing: Sequence[int]) -> FloatArray:
        """The shares of the arms in each segment, as a table whose rows add up to 1.

        ``joint`` are the shares of all columns. Where those of a segment are all 0, the columns that play share evenly.
        """
        values, even = np.asarray(joint, dtype=np.float64), np.zeros(self.n_columns)
        even[list(playing)] = 1.0
        totals = self.totals(values)[self.segment_of]
        shares = np.where(totals > 0.0, values, even)
        return np.asarray(self.by_segment(shares / np.maximum(self.totals(shares), 1e-300)[self.segment_of]))

    def with_arm(self, arm: str, segments: Any) -> Segments:
        """Segments with one more arm than these, in those that are named."""
        named = _list_of_names("segments", segments)
        getting = {self.index(name) for name in (_check_names(named, "segment") if named else ())}
        after = {name: [*mine, arm] if s in getting else mine for s, (name, mine) in enumerate(self.to_dict().items())}
        return Segments.from_arguments(after, (*self.arms, arm))

    def with_segment(self, name: Any, arms: Any) -> Segments:
        """These segments and a new one, which has the arms that are named."""
        if isinstance(name, str) and name in self.positions:
            raise ValueError(f"there is a segment {name!r} already; give the new one another name.")
        (new,) = _check_names([name], "segment")
        return Segments.from_arguments({**self.to_dict(), new: _list_of_names("arms", arms)}, self.arms)

    def to_argument(self) -> list[str] | dict[str, list[str]]:
        """What ``segments=`` is given: the names if every segment has all arms, else the arms of each."""
        return list(self.names) if self.n_columns == len(self.names) * len(self.arms) else self.to_dict()

    def to_dict(self) -> dict[str, list[str]]:
        """The arms of each segment, from which :meth:`from_arguments` makes the columns again."""
        arms_of = np.split(self.arm_of, np.searchsorted(self.segment_of, np.arange(1, len(self.names))))
        return {name: [self.arms[k] for k in mine] for name, mine in zip(self.names, arms_of, strict=True)}


def _list_of_names(what: str, given: Any) -> list[Any]:
    """Names as a list; a text, which is a list of letters, is refused."""
    if isinstance(given, (str, bytes)) or not _validation.is_list(given):
        raise TypeError(f"{what} must be a list of names, got {_validation.short_repr(given)}.")
    return list(given)


def _check_names(given: Sequence[Any], what: str) -> tuple[str, ...]:
    """Names that are text, without control characters, and differ."""
    for name in given:
        if not isinstance(name, str) or not name.strip() or _validation.escape_control_characters(name) != name:
            raise ValueError(f"names of {what}s must be text, got {_validation.short_repr(name)}.")
    if not given:
        raise ValueError(f"there is no {what}; give at least one name.")
    if len(set(given)) != len(given):
        twice = next(name for name in given if list(given).count(name) > 1)
        raise ValueError(f"names of {what}s must differ, but {twice!r} occurs twice.")
    return tuple(map(str, given))  # numpy's texts, too
