"""Where the fields of the state lie in memory.

A policy's memory is one block of 8-byte words. First come the sizes (how many arms, grid points, …) and the places
where the arrays begin, then single numbers, then what the policy has of its own, then the arrays. Compiled code and
Python find a field by its name; where it lies is known in this file only. The fields are declared in ``fields.py``,
and by the policies that have fields of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pmbandits import _validation
from pmbandits.state.fields import GROUPS, Field

N_OWN = 32  # fields that a policy may have of its own
MOST = 2**53  # no count is larger
OWN_PREFIX = "own."  # begins the names of what a user's policy declares, so that none is one of the library's

Own = tuple[Field, ...]  # the fields that a policy has of its own

SIZES = tuple(size for group in GROUPS for size in group.sizes)
FIELDS = tuple(field for group in GROUPS for field in group.fields)
BY_NAME = {field.name: field for field in FIELDS}


def declared_range_of(field: Field) -> tuple[str, str]:
    """The two sides of what a saved field holds, as they stand in the table; an empty side is not limited."""
    if field.valid_range in ("", "any"):
        return ("0", str(MOST)) if field.type is int else ("", "")
    low, _, high = field.valid_range.partition("…")
    return low.strip(), high.strip() or (str(MOST) if field.type is int else "")


def memory_order_of_field(field: Field) -> int:
    """In memory, arrays that change come first, then those of the pool, then constants and working space."""
    return 2 if field.lifecycle & {"fixed", "scratch"} else int("arranged" in field.lifecycle)


ARRAY_FIELDS = tuple(sorted((field for field in FIELDS if not field.is_single_number), key=memory_order_of_field))
# the words that say where arrays begin
OFFSET_WORDS = {field.name: len(SIZES) + k for k, field in enumerate(ARRAY_FIELDS)}
FIRST_SCALAR = len(SIZES) + len(OFFSET_WORDS)
FIRST_OWN = FIRST_SCALAR + sum(field.is_single_number for field in FIELDS)
FIRST_ARRAY = FIRST_OWN + N_OWN


def _words_of_single_numbers() -> dict[str, tuple[type, int]]:
    sizes = {name: (int, place) for place, name in enumerate(SIZES)}
    names = (field for field in FIELDS if field.is_single_number)
    return {**sizes, **{field.name: (field.type, FIRST_SCALAR + k) for k, field in enumerate(names)}}


SCALARS = _words_of_single_numbers()  # of every size and every single number: its type, and the word in which it lies


def policy_own_fields(own: Mapping[str, type | Field]) -> Own:
    """The fields that a policy has of its own: by name, a field, or the type of a single number that is saved.

    A name that is taken, or one too many, is refused.
    """
    out = []
    for name, kind in own.items():
        if name in SCALARS or name in BY_NAME:
            raise ValueError(f"the state has a field {name!r} already; give your number another name.")
        given = name.removeprefix(OWN_PREFIX)
        if not given.isidentifier() or given.startswith("_"):
            raise ValueError(f"{given!r} cannot be the name of a number of the state.")
        if isinstance(kind, Field):
            out.append(replace(kind, name=name))
        elif kind is int or kind is float:
            out.append(Field(name, kind, "", frozenset({"saved"}), "any" if kind is float else f"-{MOST} … {MOST}"))
        else:
            raise TypeError(
                f"{given} must be declared as int, float, per_arm(float) or per_pair(float), got "
                f"{_validation.short_repr(kind)}; give first values in setup, by Setup(numbers={{{given!r}: ...}})."
            )
    if len(out) > N_OWN:
        raise ValueError(f"a policy can declare {N_OWN} numbers and arrays of its own, but {len(out)} are declared.")
    return tuple(out)


def words_of_own_fields(own: Own) -> dict[str, int]:
    """The word of each field of a policy's own: of a number the number, of an array the place where it begins."""
    return {field.name: FIRST_OWN + k for k, field in enumerate(own)}


def types_and_words_of_scalars(own: Own) -> dict[str, tuple[type, int]]:
    """Every size and every single number, also of a policy's own: its type, and the word in which it lies."""
    words = words_of_own_fields(own)
    return {**SCALARS, **{field.name: (field.type, words[field.name]) for field in own if field.is_single_number}}


def offset_words(own: Own) -> dict[str, int]:
    """The word that says where an array begins, of each array, also of a policy's own."""
    words = words_of_own_fields(own)
    return {**OFFSET_WORDS, **{field.name: words[field.name] for field in own if not field.is_single_number}}


def _sum_of_size_terms(terms: tuple[str | int, ...], sizes: Mapping[str, int]) -> int:
    return sum(term if isinstance(term, int) else sizes[term] for term in terms)


@dataclass(frozen=True)
class MemoryLayout:
    """Where everything lies for given sizes."""

    own: Own  # the fields that the policy has of its own
    scalars: dict[str, tuple[type, int]]  # of every size and single number: its type, and its word
    arrays: dict[str, tuple[type, slice, tuple[int, ...]]]  # of every array: its type, its words, and its shape
    changing: int  # the words before this hold the single numbers, and the arrays that change from round to round
    moving: int  # and the words before this also the pool of rewards; all others are constants or working space
    end: int  # how many words there are


@lru_cache(maxsize=64)  # each takes 27 kB, and a policy that is read while rewards come in needs ever new ones
def memory_layout_for(*sizes: int, own: Own = ()) -> MemoryLayout:
    """Where everything lies for the given sizes, with these fields of a policy's own."""
    known = dict(zip(SIZES, sizes, strict=True))
    out, at, ends = {}, FIRST_ARRAY, [FIRST_ARRAY] * 3
    arrays = (*ARRAY_FIELDS, *(field for field in own if not field.is_single_number))
    for field in sorted(arrays, key=memory_order_of_field):
        shape = tuple(_sum_of_size_terms(terms, known) for terms in field.dimensions)
        end = at + math.prod(shape)
        out[field.name], at = (field.type, slice(at, end), shape), end
        for group in range(memory_order_of_field(field), 3):
            ends[group] = end
    return MemoryLayout(own, types_and_words_of_scalars(own), out, ends[0], ends[1], at)
