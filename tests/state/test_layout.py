"""The table of fields: names and places cannot clash, and compiled code and Python see the same fields."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hyp

import pmbandits as pmb
from pmbandits.engine.registry import REGISTRY
from pmbandits.state import fields
from pmbandits.state.fields import LIFECYCLE_WORDS, own_field
from pmbandits.state.layout import (
    ARRAY_FIELDS,
    BY_NAME,
    FIELDS,
    FIRST_ARRAY,
    FIRST_OWN,
    N_OWN,
    OFFSET_WORDS,
    SCALARS,
    SIZES,
    memory_layout_for,
    policy_own_fields,
    types_and_words_of_scalars,
    words_of_own_fields,
)
from pmbandits.state.memory import Memory
from pmbandits.state.numba_types import state

DECLARED: dict[str, type] = {"mine": int, "yours": float, **{f"own_{k}": (int, float)[k % 2] for k in range(N_OWN - 2)}}
OWN = policy_own_fields(DECLARED)
sizes = hyp.tuples(*(hyp.integers(0, 9) for _ in SIZES))


# ---- names and places ------------------------------------------------------------------------------------
def test_every_name_is_used_once() -> None:
    names = [*SIZES, *(field.name for field in FIELDS)]
    assert len(names) == len(set(names))
    assert not set(names) & set(vars(Memory)), "a method of Memory would hide the field"
    assert not set(names) & set(Memory.__slots__)


def test_every_single_number_has_a_word_of_its_own() -> None:
    taken = [place for _, place in types_and_words_of_scalars(OWN).values()]
    assert sorted([*taken, *OFFSET_WORDS.values()]) == list(range(FIRST_ARRAY))
    assert set(SCALARS) == {*SIZES, *(field.name for field in FIELDS if field.is_single_number)}
    assert all(SCALARS[field.name][0] is field.type for field in FIELDS if field.is_single_number)


@settings(deadline=None)
@given(sizes)
def test_arrays_do_not_overlap_and_leave_nothing_between_them(row: tuple[int, ...]) -> None:
    found = memory_layout_for(*row)
    assert set(found.arrays) == set(OFFSET_WORDS) == {field.name for field in ARRAY_FIELDS}
    at = FIRST_ARRAY
    for _, where, shape in sorted(found.arrays.values(), key=lambda one: (one[1].start, one[1].stop)):
        assert where.start == at and where.stop - where.start == math.prod(shape)
        at = where.stop
    assert at == found.end


@settings(deadline=None)
@given(sizes)
def test_a_memory_says_where_its_arrays_begin_also_after_it_grew(row: tuple[int, ...]) -> None:
    """Python works places out from the sizes; compiled code reads them from the memory."""
    memory = Memory.allocate(dict(zip(SIZES, row, strict=True)), OWN)
    for one in (memory, memory.resized(reward_capacity=row[2] + 5, n_radii=2), memory.copy()):
        for name, (_, where, shape) in one.places.arrays.items():
            assert one.words[OFFSET_WORDS[name]] == where.start, name
            assert len(BY_NAME[name].dimensions) == len(shape) == getattr(one, name).ndim


@settings(deadline=None)
@given(sizes)
def test_what_changes_lies_before_the_pool_and_the_pool_before_what_stays(row: tuple[int, ...]) -> None:
    found = memory_layout_for(*row)
    assert FIRST_ARRAY <= found.changing <= found.moving <= found.end
    for name, (_, where, _) in found.arrays.items():
        words = BY_NAME[name].lifecycle
        if words & {"fixed", "scratch"}:
            assert where.start >= found.moving, name
        elif "arranged" in words:
            assert found.changing <= where.start and where.stop <= found.moving, name
        else:
            assert where.stop <= found.changing, name


# ---- numbers of a policy's own ---------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*SIZES, *BY_NAME])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"has a field '{name}' already"):
        policy_own_fields({name: int})
    with pytest.raises(ValueError, match="already"):
        state(**{name: float})


def test_names_and_types_that_cannot_be_are_refused() -> None:
    for name in ("_hidden", "two words", ""):
        with pytest.raises(ValueError, match="cannot be the name"):
            policy_own_fields({name: int})
    with pytest.raises(TypeError, match="int, float"):
        policy_own_fields({"mine": bool})
    with pytest.raises(ValueError, match=f"{N_OWN} numbers and arrays of its own, but {N_OWN + 1}"):
        policy_own_fields({**DECLARED, "one_more": int})


@pytest.mark.parametrize("name", sorted(name for name, cls in REGISTRY.items() if "pmbandits." in cls.__module__))
def test_own_numbers_of_every_policy_lie_where_only_they_lie(name: str) -> None:
    cls = REGISTRY[name]
    taken = list(words_of_own_fields(cls._own).values())
    assert len(set(taken)) == len(taken)
    assert all(FIRST_OWN <= place < FIRST_ARRAY for place in taken)


def test_arrays_of_a_policys_own_are_seen_by_python_and_by_kernels_also_after_they_grew() -> None:
    mine = {
        "first": own_field(float, "n_arms, 2", "saved"),
        "turn": own_field(int, "", "cleared"),
        "last": own_field(int, "n_grid"),
    }
    memory = Memory.allocate({"n_arms": 3, "n_grid": 2}, policy_own_fields({"plain": int, **mine}))
    memory.first[2, 1], memory.turn, memory.plain, memory.last[1] = 0.5, 7, 9, 4
    larger = memory.resized(n_grid=5, reward_capacity=40)
    assert [field.name for field in larger.fields[-3:]] == ["first", "turn", "last"]
    names: dict[str, Any] = {"unpack": state(plain=int, **mine)}
    lines = (
        "def run(memory):",
        " s = unpack(memory)",
        " s.last[4] = s.turn",
        " return s.first[2, 1] + s.last[1] + s.plain",
    )
    exec("\n".join(lines), names)
    assert numba.njit(names["run"])(larger.address) == 13.5
    assert larger.last.tolist() == [0, 4, 0, 0, 7]


# ---- compiled code and Python ----------------------------------------------------------------------------
def compiled(lines: list[str]) -> Any:
    """A kernel ``run(memory, out)`` with these lines."""
    source = "def run(memory, out):\n    s = unpack(memory)\n" + "".join(f"    {line}\n" for line in lines)
    names: dict[str, Any] = {"unpack": state(**DECLARED)}
    exec(source, names)
    return numba.njit(names["run"])


SINGLE_NAMES = [*SCALARS, *DECLARED]
ARRAY_NAMES = [field.name for field in FIELDS if not field.is_single_number]


def ends(name: str) -> tuple[str, str]:
    """The first and the last number of an array, in words of Python."""
    return ("0, 0", "-1, -1") if len(BY_NAME[name].dimensions) == 2 else ("0", "-1")


@pytest.fixture(scope="module")
def read() -> Any:
    lines = [f"out[{k}, 0] = s.{name}" for k, name in enumerate(SINGLE_NAMES)]
    for k, name in enumerate(ARRAY_NAMES, len(SINGLE_NAMES)):
        first, last = ends(name)
        lines += [f"out[{k}, 2] = s.{name}.shape[0]", f"out[{k}, 3] = s.{name}.size"]
        lines += [f"if s.{name}.size > 0:", f"    out[{k}, 0], out[{k}, 1] = s.{name}[{first}], s.{name}[{last}]"]
    return compiled(lines)


@pytest.fixture(scope="module")
def write() -> Any:
    """Write given numbers into every single number, and into the first and the last number of every array."""
    kinds, lines = types_and_words_of_scalars(OWN), []
    for k, name in enumerate(SINGLE_NAMES):
        if name not in SIZES:
            lines += [f"s.{name} = {kinds[name][0].__name__}(out[{k}, 0])"]
    for k, name in enumerate(ARRAY_NAMES, len(SINGLE_NAMES)):
        first, last = ends(name)
        lines += [f"if s.{name}.size > 0:", f"    s.{name}[{last}], s.{name}[{first}] = out[{k}, 1], out[{k}, 0]"]
    return compiled(lines)


ROWS = [
    {name: 2 + k for k, name in enumerate(SIZES)},
    {name: len(SIZES) + 1 - k for k, name in enumerate(SIZES)},
    {"n_arms": 3, "n_atoms": 2, "n_grid": 5, "n_radii": 8, "n_packed": 4},
    {"n_arms": 1, "room": 7, "n_watched": 1},
]


@pytest.mark.parametrize("row", ROWS, ids=["rising", "falling", "counts", "samples"])
def test_what_python_writes_compiled_code_reads(row: dict[str, int], read: Any) -> None:
    memory, out = Memory.allocate(row, OWN), np.full((len(SINGLE_NAMES) + len(ARRAY_NAMES), 4), -1.0)
    for k, name in enumerate(SINGLE_NAMES):
        if name not in SIZES:
            setattr(memory, name, 1000 + k)
    count = 5000
    for _, array in memory.arrays():
        array[...] = np.arange(count, count + array.size).reshape(array.shape)
        count += array.size
    read(memory.address, out)
    for k, name in enumerate(SINGLE_NAMES):
        assert out[k, 0] == getattr(memory, name) == (row.get(name, 0) if name in SIZES else 1000 + k), name
    for k, name in enumerate(ARRAY_NAMES, len(SINGLE_NAMES)):
        array = getattr(memory, name)
        assert (out[k, 2], out[k, 3]) == (array.shape[0], array.size), name
        if array.size:
            assert (out[k, 0], out[k, 1]) == (array.flat[0], array.flat[-1]), name


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=["rising", "falling", "counts", "samples"])
def test_what_compiled_code_writes_python_reads(row: dict[str, int], write: Any) -> None:
    memory, n = Memory.allocate(row, OWN), len(SINGLE_NAMES) + len(ARRAY_NAMES)
    given = np.stack([1000.0 + np.arange(n), 2000.0 + np.arange(n)], axis=1)
    write(memory.address, given)
    for k, name in enumerate(SINGLE_NAMES):
        assert getattr(memory, name) == (row.get(name, 0) if name in SIZES else 1000 + k), name
    for k, name in enumerate(ARRAY_NAMES, len(SINGLE_NAMES)):
        array = getattr(memory, name)
        if array.size:
            assert array.flat[0] == 1000 + k, name
            assert array.size == 1 or array.flat[-1] == 2000 + k, name
            assert not array.flat[1:-1].any(), name


def test_compiled_code_cannot_set_a_size_or_an_unknown_name() -> None:
    memory = Memory.allocate({"n_arms": 2}, OWN)
    for line in ("s.n_arms = 3", "s.nonsense = 3", "s.pulls = 3"):
        with pytest.raises(Exception, match=r"cannot be set|nonsense|pulls"):
            compiled([line])(memory.address, np.zeros((1, 1)))
    assert memory.n_arms == 2


# ---- the words of the table ------------------------------------------------------------------------------
def test_only_known_words_say_what_becomes_of_a_field() -> None:
    assert all(field.lifecycle <= set(LIFECYCLE_WORDS) for field in FIELDS)
    with pytest.raises(AssertionError):
        fields.field("mine", int, "", "stored")
    documented = fields.Field.__doc__ or ""
    assert all(f"- {word}:" in documented for word in LIFECYCLE_WORDS)


def test_words_that_contradict_each_other_do_not_stand_together() -> None:
    for field in FIELDS:
        assert not {"added", "cleared"} <= field.lifecycle, field.name
        if field.lifecycle & {"fixed", "scratch"}:  # nothing that is saved, merged or arranged
            assert len(field.lifecycle) == 1, field.name


def test_registered_policies_start_with_the_numbers_that_they_declare() -> None:
    policy = pmb.PMUCB(pmb.GiniDeviation(), n_arms=3, support=pmb.Binary(), horizon=1000, epsilon=0.25)
    assert policy._memory.own == {"explore": policy.explore_rounds // 3}


def test_layouts_that_are_kept_take_little_memory() -> None:
    # A policy that is read while rewards come in needs a new one each time: a service kept up to 28 MB of them.
    def ask_for_sizes(first: int) -> None:
        for n in range(first, first + 100):
            memory_layout_for(*(n if name == "n_radii" else 2 for name in SIZES))

    ask_for_sizes(1000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        ask_for_sizes(2000)
        ask_for_sizes(3000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 3e6
