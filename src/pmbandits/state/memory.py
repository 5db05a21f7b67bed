"""A policy's memory as Python sees it: the same names as in compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits.state.fields import POOLS, Field
from pmbandits.state.layout import (
    FIELDS,
    FIRST_ARRAY,
    FIRST_SCALAR,
    SIZES,
    MemoryLayout,
    Own,
    declared_range_of,
    memory_layout_for,
    offset_words,
)

_N_SIZES = len(SIZES)
_SLACK = 1e-9  # by which numbers that are not whole may miss a limit, because of rounding


class Memory:
    """One block of words, with its fields by name: ``memory.t`` is a number, ``memory.pulls`` an array.

    Arrays are views: writing into them changes the memory. ``address`` is what compiled code is given.

    Examples
    --------
    >>> from pmbandits.state.layout import policy_own_fields
    >>> memory = Memory.allocate({"n_arms": 3}, policy_own_fields({"explore": int}))
    >>> memory.t, memory.pulls.tolist()
    (0, [0, 0, 0])
    >>> memory.explore = 7
    >>> memory.explore
    7
    """

    __slots__ = ("address", "numbers", "places", "words")

    words: NDArray[np.int64]
    numbers: NDArray[np.float64]
    address: int
    places: MemoryLayout  # the offsets, types and shapes of all fields

    def __init__(self, words: NDArray[np.int64], own: Own) -> None:
        put = object.__setattr__
        put(self, "words", words)
        put(self, "numbers", words.view(np.float64))
        put(self, "address", words.ctypes.data)
        put(self, "places", memory_layout_for(*words[:_N_SIZES].tolist(), own=own))

    @classmethod
    def allocate(cls, sizes: Mapping[str, int], own: Own = ()) -> Memory:
        """Memory for the given sizes (those not named are 0); all else is 0."""
        row = [int(sizes.get(name, 0)) for name in SIZES]
        words = np.zeros(memory_layout_for(*row, own=own).end, dtype=np.int64)
        words[:_N_SIZES] = row
        out = cls(words, own)
        out._write_array_offsets()
        return out

    def _write_array_offsets(self) -> None:
        """Write where the arrays begin."""
        for name, word in offset_words(self.places.own).items():
            self.words[word] = self.places.arrays[name][1].start

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes on which the shapes of the arrays depend."""
        return dict(zip(SIZES, self.words[:_N_SIZES].tolist(), strict=True))

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields: those that every policy has, and those that this one has of its own."""
        return (*FIELDS, *self.places.own)

    @property
    def own(self) -> dict[str, int | float]:
        """The policy's own single numbers that are saved, by name."""
        own = self.places.own
        return {
            field.name: self.number(field.name)
            for field in own
            if field.is_single_number and "saved" in field.lifecycle
        }

    def has_scalar(self, name: str) -> bool:
        """Whether there is a single number of this name that can be set."""
        return name in self.places.scalars and name not in SIZES

    def copy(self) -> Memory:
        """A copy of the memory that nobody has locked."""
        out = Memory(self.words.copy(), self.places.own)
        out.lock_token = 0
        return out

    def resized(self, **sizes: int) -> Memory:
        """A copy with other sizes: what there was keeps its value, and what is new is 0."""
        out = Memory.allocate({**self.sizes, **sizes}, self.places.own)
        out.words[FIRST_SCALAR:FIRST_ARRAY] = self.words[FIRST_SCALAR:FIRST_ARRAY]
        out._write_array_offsets()
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
        for field in self.fields:
            if not field.is_single_number:
                yield field.name, self.field(field.name)

    def field(self, name: str) -> NDArray[Any]:
        """A field as an array, also if it is a single number."""
        if name in self.places.scalars:
            kind, place = self.places.scalars[name]
            return (self.words if kind is int else self.numbers)[place : place + 1]
        kind, where, shape = self.places.arrays[name]
        return (self.words if kind is int else self.numbers)[where].reshape(shape)

    def number(self, name: str) -> int | float:
        """A single number, also if a policy has given it the name of a method of this class."""
        kind, place = self.places.scalars[name]
        return int(self.words[place]) if kind is int else float(self.numbers[place])

    def word_range(self, name: str) -> tuple[int, int]:
        """The first word of a field, and the word after its last."""
        if name in self.places.scalars:
            at = self.places.scalars[name][1]
            return at, at + 1
        where = self.places.arrays[name][1]
        return where.start, where.stop

    def first_field_out_of_range(self) -> str | None:
        """The first saved field that holds what it cannot hold by its declaration, or ``None``.

        >>> memory = Memory.allocate({"n_arms": 2})
        >>> memory.first_field_out_of_range() is None
        True
        >>> memory.pulls[1] = 3
        >>> memory.first_field_out_of_range()
        'pulls'
        """
        for field in self.fields:
            if "saved" not in field.lifecycle:
                continue
            part, slack = self.field(field.name), _SLACK if field.type is float else 0
            if field.name in POOLS:  # what lies beyond is unused
                part = part[: max(self.rewards, 0)]
            if part.size == 0:
                continue
            if np.isnan(part).any() if field.valid_range == "any" else not np.isfinite(part).all():
                return field.name
            low, high = (self._evaluate_limit(text) for text in declared_range_of(field))
            with np.errstate(invalid="ignore"):
                if (part < low - slack).any() or (part > high + slack).any():
                    return field.name
        return None

    def _evaluate_limit(self, text: str) -> Any:
        """A limit of the table: a number, or a size or field, maybe less a number."""
        if text == "":
            return np.nan  # no number is beyond
        if text.lstrip("-").isdecimal():
            return int(text)
        name, _, less = text.partition(" - ")
        return (getattr(self, name) if name in SIZES else self.field(name)) - int(less or 0)

    def __getattr__(self, name: str) -> Any:
        if name in self.places.scalars:
            return self.number(name)
        if name not in self.places.arrays:
            raise AttributeError(f"the state has no field {name!r}.")
        return self.field(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not self.has_scalar(name):
            raise AttributeError(f"{name!r} is not a single number of the state that can be set.")
        kind, place = self.places.scalars[name]
        (self.words if kind is int else self.numbers)[place] = kind(value)

    def __reduce__(self) -> Any:  # the address is that of the copy
        return Memory, (self.copy().words, self.places.own)

    def __deepcopy__(self, memo: Any) -> Memory:
        return self.copy()

    def __repr__(self) -> str:
        return f"Memory({self.words.nbytes:,} bytes, {self.t} pulls, {self.rewards} rewards)"
