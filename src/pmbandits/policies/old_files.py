"""Files of the formats 1 to 3, read into the names of today."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from pmbandits.estimates._rewards import BINARY, SAMPLES
from pmbandits.policies.archive import Archive, Damaged
from pmbandits.policies.build import affordable
from pmbandits.policies.policy import Policy
from pmbandits.state.layout import FIELDS, places
from pmbandits.state.memory import Memory

Arrays = dict[str, np.ndarray]
Numbers = dict[str, Any]

_POOL = ("x", "owner")
_DERIVED = frozenset({"seen", "lower", "upper", "radius"})  # were saved up to format 3; they are worked out anew
# Where format 2 kept its single numbers, in an array called clock; and what it called some arrays.
_CLOCK_2 = {
    "asked": 0, "rewards": 1, "current": 2, "dirty": 3, "phase": 4, "used": 5, "tracking": 6, "committed": 7,
    "stream": 8, "ordered": 9, "pooled": 10, "look_at": 14, "wide_at": 15,
}  # fmt: skip
_NAMES_2 = {"book": "sketch_book", "items": "sketch_items", "marks": "sketch_marks"}
# Of the array of sizes: arms, atoms, grid points, packed metric, table, mode, kind of set, shape, bounded, coarse, k.
_SIZES_2 = {
    "n_arms": 0, "n_atoms": 1, "n_grid": 2, "n_packed": 5, "n_table": 6, "mode": 7, "set_kind": 8, "metric_shape": 9,
    "bounded": 10, "coarse": 12, "sketch_size": 13,
}  # fmt: skip


def read_old(archive: Archive, description: dict[str, Any], policy: Policy) -> tuple[Arrays, Numbers]:
    """All arrays, and the single numbers that are saved today. The checksum of those formats covers both."""
    numbers = description["numbers"] if description["version"] == 3 else {}
    if not isinstance(numbers, dict):
        raise Damaged("its numbers are missing")
    most = _most_numbers(archive, description["version"], numbers, policy)
    if sum(archive.arrays.values()) > 8 * most + 4096 * len(archive.arrays):
        raise Damaged("its parts are too large")
    arrays = {name: archive.array(name, most)[1] for name in archive.arrays}
    if _digest(arrays, numbers) != description["sha256"]:
        raise Damaged("its checksum is wrong")
    arrays, numbers = _from_2(policy, arrays) if description["version"] < 3 else (arrays, dict(numbers))
    if not set(arrays) <= set(_saved_arrays()) | _DERIVED:
        raise Damaged("it has parts that it cannot have")
    if policy.name == "vet" and "first_good" not in numbers:  # these came with format 4; Vet finds them when it looks
        numbers = {**numbers, "first_good": 0.0, "last_good": 0.0}
        if policy._memory.mode == BINARY:
            numbers["window_end"] = 0
    return {name: array for name, array in arrays.items() if array.size and name not in _DERIVED}, numbers


def _most_numbers(archive: Archive, version: int, numbers: Numbers, policy: Policy) -> int:
    """How many numbers the file can hold: no more than a few times what the policy has in memory."""
    rewards: Any = numbers.get("rewards")
    if version < 3:
        clock = archive.array("clock", 64)[1]
        rewards = int(clock[_CLOCK_2["rewards"]]) if clock.shape == (16,) and clock.dtype == np.int64 else None
    if not isinstance(rewards, int) or rewards < 0:
        raise Damaged("it does not say how many rewards it has")
    sizes = policy._memory.sizes
    if policy._plan.exact:
        sizes["room"] = max(sizes["room"], rewards)
    affordable(policy, sizes)
    return 4 * places(*sizes.values()).end


def _saved_arrays() -> list[str]:
    return [field.name for field in FIELDS if "saved" in field.becomes and not field.single]


def _digest(arrays: Arrays, numbers: Numbers) -> str:
    digest = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode() if numbers else b"")
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _from_2(policy: Policy, arrays: Arrays) -> tuple[Arrays, Numbers]:
    """What a file of format 1 or 2 says, in the names of today. Constants are made anew from the options."""
    memory = policy._memory
    size, clock = (arrays.get(name, np.zeros(0)) for name in ("size", "clock"))
    if size.shape != (16,) or clock.shape != (16,) or any(part.dtype != np.int64 for part in (size, clock)):
        raise Damaged("its sizes are missing")
    if any(size[at] != getattr(memory, name) for name, at in _SIZES_2.items()):
        raise Damaged("it does not fit its description")
    singles = [field.name for field in FIELDS if "saved" in field.becomes and field.single]
    known = [*memory.own, *singles]
    constants = {name: number for name, number in memory.own.items() if name in policy._plan.setup.numbers}
    if not set(known) <= {*_CLOCK_2, *constants}:
        raise Damaged("it does not fit its description")
    wanted, rewards = _saved_arrays(), int(clock[_CLOCK_2["rewards"]])
    found = {_NAMES_2.get(name, name): array for name, array in arrays.items()}
    out = {name: found[name].reshape(-1) for name in wanted if name in found}
    for name in _POOL:
        if name in out and memory.mode == SAMPLES:
            out[name] = out[name][:rewards]
    shaped = {name: _shaped(array, memory, name) for name, array in out.items()}
    return shaped, {name: constants[name] if name in constants else int(clock[_CLOCK_2[name]]) for name in known}


def _shaped(array: np.ndarray, memory: Memory, name: str) -> np.ndarray:
    """Format 1 and 2 kept all arrays as they are now, but the empty ones in other shapes."""
    shape = memory.places.arrays[name][2]
    return array if name in _POOL or array.size != int(np.prod(shape)) else array.reshape(shape)
