"""A policy's memory as Python sees it: the same names as in compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits.state.layout import (
    BY_NAME,
    FIELDS,
    FIRST_ARRAY,
    FIRST_SINGLE,
    MOST,
    POOLS,
    SINGLES,
    SIZES,
    Places,
    limits_of,
    own_singles,
    places,
)

_N_SIZES = len(SIZES)
_SLACK = 1e-9  # by which numbers that are not whole may miss a limit, because of rounding


@lru_cache(maxsize=256)
def _singles_with(own: tuple[tuple[str, type], ...]) -> dict[str, tuple[type, int]]:
    return {**SINGLES, **own_singles(dict(own))}


class Memory:
    """One block of words, with its fields by name: ``memory.asked`` is a number, ``memory.pulls`` an array.

    Arrays are views: writing into them changes the memory. ``address`` is what compiled code is given.

    Examples
    --------
    >>> memory = Memory.allocate({"n_arms": 3}, {"explore": int})
    >>> memory.asked, memory.pulls.tolist()
    (0, [0, 0, 0])
    >>> memory.explore = 7
    >>> memory.explore
    7
    """

    __slots__ = ("_own", "_singles", "address", "numbers", "words")

    words: NDArray[np.int64]
    numbers: NDArray[np.float64]
    address: int

    def __init__(self, words: NDArray[np.int64], own: Mapping[str, type]) -> None:
        put = object.__setattr__
        put(self, "words", words)
        put(self, "numbers", words.view(np.float64))
        put(self, "address", words.ctypes.data)
        put(self, "_own", dict(own))
        put(self, "_singles", _singles_with(tuple(own.items())))

    @classmethod
    def allocate(cls, sizes: Mapping[str, int], own: Mapping[str, type]) -> Memory:
        """Memory for the given sizes (those not named are 0); all else is 0."""
        row = [int(sizes.get(name, 0)) for name in SIZES]
        found = places(*row)
        words = np.zeros(found.end, dtype=np.int64)
        words[:_N_SIZES], words[_N_SIZES:FIRST_SINGLE] = row, found.starts
        return cls(words, own)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes on which the shapes of the arrays depend."""
        return dict(zip(SIZES, self.words[:_N_SIZES].tolist(), strict=True))

    @property
    def places(self) -> Places:
        """Where everything lies."""
        return places(*self.words[:_N_SIZES].tolist())

    @property
    def own(self) -> dict[str, int | float]:
        """The policy's own numbers, by name."""
        return {name: self._single(*self._singles[name]) for name in self._own}

    def has_number(self, name: str) -> bool:
        """Whether there is a single number of this name that can be set."""
        return name in self._singles and name not in SIZES

    def copy(self) -> Memory:
        """The same in another place, and free for whoever has it."""
        out = Memory(self.words.copy(), self._own)
        out.busy = 0
        return out

    def resized(self, **sizes: int) -> Memory:
        """A copy with other sizes: what there was keeps its value, and what is new is 0."""
        out = Memory.allocate({**self.sizes, **sizes}, self._own)
        out.words[FIRST_SINGLE:FIRST_ARRAY] = self.words[FIRST_SINGLE:FIRST_ARRAY]
        before, after = self.places.arrays, out.places.arrays
        for name, (_, old, shape) in before.items():
            _, new, other = after[name]
            if shape == other:
                out.words[new] = self.words[old]
            else:
                part = tuple(slice(0, min(a, b)) for a, b in zip(shape, other, strict=True))
                out.words[new].reshape(other)[part] = self.words[old].reshape(shape)[part]
        return out

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every array with its name."""
        for field in FIELDS:
            if not field.single:
                yield field.name, getattr(self, field.name)

    def field(self, name: str) -> NDArray[Any]:
        """A field as an array, also if it is a single number."""
        if BY_NAME[name].single:
            kind, place = SINGLES[name]
            return (self.words if kind is int else self.numbers)[place : place + 1]
        found: NDArray[Any] = getattr(self, name)
        return found

    def outside(self) -> str | None:
        """The first saved field that holds what it cannot hold by the table in ``layout.py``, or ``None``.

        >>> memory = Memory.allocate({"n_arms": 2}, {})
        >>> memory.outside() is None
        True
        >>> memory.pulls[1] = 3
        >>> memory.outside()
        'pulls'
        """
        for field in FIELDS:
            if "saved" not in field.becomes:
                continue
            part, slack = self.field(field.name), _SLACK if field.type is float else 0
            if field.name in POOLS:  # what lies beyond is room
                part = part[: max(self.rewards, 0)]
            if part.size == 0:
                continue
            if np.isnan(part).any() if field.holds == "any" else not np.isfinite(part).all():
                return field.name
            low, high = (self._limit(text) for text in limits_of(field))
            with np.errstate(invalid="ignore"):
                if (part < low - slack).any() or (part > high + slack).any():
                    return field.name
        for name, number in self.own.items():
            if not (abs(number) <= MOST if self._own[name] is int else number == number):
                return name
        return None

    def _limit(self, text: str) -> Any:
        """A limit of the table: a number, or a size or field, maybe less a number."""
        if text == "":
            return np.nan  # no number is beyond
        if text.lstrip("-").isdecimal():
            return int(text)
        name, _, less = text.partition(" - ")
        return (getattr(self, name) if name in SIZES else self.field(name)) - int(less or 0)

    def _single(self, kind: type, place: int) -> int | float:
        return int(self.words[place]) if kind is int else float(self.numbers[place])

    def __getattr__(self, name: str) -> Any:
        single = self._singles.get(name)
        if single is not None:
            return self._single(*single)
        found = self.places.arrays.get(name)
        if found is None:
            raise AttributeError(f"the state has no field {name!r}.")
        kind, where, shape = found
        return (self.words if kind is int else self.numbers)[where].reshape(shape)

    def __setattr__(self, name: str, value: Any) -> None:
        if not self.has_number(name):
            raise AttributeError(f"{name!r} is not a single number of the state that can be set.")
        kind, place = self._singles[name]
        (self.words if kind is int else self.numbers)[place] = kind(value)

    def __reduce__(self) -> Any:  # the address is that of the copy
        return Memory, (self.copy().words, self._own)

    def __deepcopy__(self, memo: Any) -> Memory:
        return self.copy()

    def __repr__(self) -> str:
        return f"Memory({self.words.nbytes:,} bytes, {self.asked} asked, {self.rewards} rewards)"
