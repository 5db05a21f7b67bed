"""Memory by name, from Python."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from pmbandits.state.layout import policy_own_fields
from pmbandits.state.memory import Memory


def make() -> Memory:
    return Memory.allocate(
        {"n_arms": 3, "n_grid": 2, "reward_capacity": 4}, policy_own_fields({"mine": int, "yours": float})
    )


def test_numbers_and_arrays_are_read_and_written_by_name() -> None:
    memory = make()
    memory.t, memory.low, memory.mine, memory.yours = 7, -0.5, 3, 2.5
    memory.pulls[:] = [1, 2, 3]
    memory.grid[1, 2] = 0.25
    assert (memory.t, memory.low, memory.own) == (7, -0.5, {"mine": 3, "yours": 2.5})
    assert memory.pulls.tolist() == [1, 2, 3] and memory.grid.tolist() == [[0, 0, 0], [0, 0, 0.25]]
    assert memory.field("t").tolist() == [7] and memory.field("pulls") is not memory.pulls
    memory.field("t")[:] = 8
    assert memory.t == 8 and type(memory.t) is int and type(memory.low) is float


def test_what_is_no_single_number_cannot_be_set() -> None:
    memory = make()
    for name in ("n_arms", "pulls", "nonsense", "address", "words"):
        with pytest.raises(AttributeError, match=f"'{name}' is not a single number"):
            setattr(memory, name, 1)
    with pytest.raises(AttributeError, match="no field 'nonsense'"):
        _ = memory.nonsense


@pytest.mark.parametrize("how", [Memory.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_has_its_own_place(how: object) -> None:
    memory = make()
    memory.t, memory.mine = 5, 6
    twin = how(memory)  # type: ignore[operator]
    assert twin.words.tolist() == memory.words.tolist() and twin.own == memory.own
    assert twin.address == twin.words.ctypes.data != memory.address
    twin.t, twin.pulls[0] = 9, 9
    assert memory.t == 5 and memory.pulls[0] == 0


def test_resized_memory_keeps_what_there_was() -> None:
    memory = make()
    for count, (_, array) in enumerate(memory.arrays()):
        array[...] = count + 1
    memory.t, memory.mine = 5, 6
    larger = memory.resized(n_arms=5, reward_capacity=9)
    assert larger.sizes == {**memory.sizes, "n_arms": 5, "reward_capacity": 9}
    assert (larger.t, larger.mine) == (5, 6)
    for name, old in memory.arrays():
        new = getattr(larger, name)
        inside = tuple(slice(0, n) for n in old.shape)
        np.testing.assert_array_equal(new[inside], old)
        assert new.sum() == old.sum(), name  # what is new is 0
    smaller = larger.resized(n_arms=3, reward_capacity=4)
    assert smaller.words.tolist() == memory.words.tolist()
