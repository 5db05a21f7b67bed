"""The roster of arms in policy files: which arms are active, and pulls and rewards of those that are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pmbandits.engine.archive import DamagedFile
from pmbandits.engine.capacity import recompute_derived
from pmbandits.engine.plan import Plan
from pmbandits.engine.roster import PAUSED, PLAYS, RETIRED, Roster
from pmbandits.engine.transfer import INACTIVE_FIELDS, inactive_memory, inactive_memory_sizes
from pmbandits.engine.validate import find_wrong_records
from pmbandits.estimates._rewards import STALE
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory

INACTIVE_PREFIX = "inactive_"  # prefix of the names of arrays of the inactive memory in a file
_KEYS = {"states", "active", "joined", "clock_start", "n_initial_arms"}
_UNREADABLE = "its description of the arms that play cannot be read"


def roster_to_json(roster: Roster | None) -> dict[str, Any] | None:
    """The roster as a JSON object, for the description in a file."""
    if roster is None:
        return None
    return {
        "states": list(roster.states),
        "active": list(roster.active_arms),
        "joined": [[arm, roster.joined_at[arm]] for arm in roster.waiting],
        "clock_start": roster.clock_start,
        "n_initial_arms": roster.n_initial_arms,
    }


def inactive_arrays(roster: Roster | None, keeps_all_rewards: bool) -> dict[str, np.ndarray]:
    """The records of arms that are not in the memory, as parts of a file."""
    if roster is None:
        return {}
    beside = roster.inactive_memory
    parts = {
        name: getattr(beside, name) for name in INACTIVE_FIELDS if keeps_all_rewards or name not in ("x", "pool_arm")
    }
    return {
        f"{INACTIVE_PREFIX}{name}": part[: beside.rewards] if name in ("x", "pool_arm") else part
        for name, part in parts.items()
        if part.size and not (name in ("x", "pool_arm") and beside.rewards == 0)
    }


def roster_from_json(found: Any, n_arms: int) -> Roster | None:
    """The roster that a file describes, with an empty inactive memory; raises DamagedFile."""
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != _KEYS or not isinstance(found["joined"], list):
        raise DamagedFile(_UNREADABLE)
    states, active_arms, joined_at = (
        found["states"],
        found["active"],
        dict(_check_pair(pair) for pair in found["joined"]),
    )
    counts = [found["clock_start"], found["n_initial_arms"], *joined_at.values()]
    if not (isinstance(states, list) and len(states) == n_arms and set(map(str, states)) <= {PLAYS, PAUSED, RETIRED}):
        raise DamagedFile(_UNREADABLE)
    if not (isinstance(active_arms, list) and all(_is_count(number) for number in (*counts, *active_arms))):
        raise DamagedFile(_UNREADABLE)
    plays = {arm for arm in range(n_arms) if states[arm] == PLAYS}
    if (
        not active_arms
        or sorted(set(active_arms)) != active_arms
        or not set(active_arms) <= plays
        or set(joined_at) != plays - set(active_arms)
    ):
        raise DamagedFile(_UNREADABLE)
    if not 1 <= found["n_initial_arms"] <= n_arms or len(joined_at) != len(found["joined"]):
        raise DamagedFile(_UNREADABLE)
    inactive_arms = tuple(arm for arm in range(n_arms) if arm not in set(active_arms))
    empty = Memory.allocate({"n_arms": len(inactive_arms)}, {})
    return Roster(
        tuple(states),
        tuple(active_arms),
        empty,
        inactive_arms,
        joined_at,
        found["clock_start"],
        found["n_initial_arms"],
    )


def _check_pair(pair: Any) -> tuple[int, int]:
    if not (isinstance(pair, list) and len(pair) == 2 and all(_is_count(number) for number in pair)):
        raise DamagedFile(_UNREADABLE)
    return pair[0], pair[1]


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number <= MOST


def read_inactive_memory(
    roster: Roster,
    memory: Memory,
    plan: Plan,
    part: Callable[[str, tuple[int, ...], Any], np.ndarray],
    check_sizes: Callable[[Mapping[str, int]], None],
) -> tuple[Roster, set[str]]:
    """Read and check the memory of inactive arms from a file, or raise DamagedFile.

    Returns the roster with that memory, and the names of the arrays that were read. ``part`` reads an array of a given
    shape and type, and ``check_sizes`` refuses sizes that take too much memory.
    """
    k = len(roster.inactive_arms)
    if k == 0:
        return replace(roster, inactive_memory=inactive_memory(memory, plan, 0, 0)), set()
    n_rewards = part(f"{INACTIVE_PREFIX}n_rewards", (k,), np.int64)
    rewards = int(n_rewards.sum()) if n_rewards.min() >= 0 and n_rewards.sum(dtype=np.float64) < MOST else -1
    if rewards < 0:
        raise DamagedFile("its counts of rewards are not possible")
    check_sizes(inactive_memory_sizes(memory, k, rewards))
    beside = inactive_memory(memory, plan, k, rewards)
    beside.rewards = rewards
    found = replace(roster, inactive_memory=beside)
    names = set(inactive_arrays(found, plan.keeps_all_rewards))
    for name in names:
        field = name.removeprefix(INACTIVE_PREFIX)
        into = getattr(beside, field)
        into = into[:rewards] if field in ("x", "pool_arm") else into
        into[...] = part(name, into.shape, into.dtype)
    beside.t = int(beside.pulls.sum()) if beside.pulls.sum(dtype=np.float64) < MOST else -1
    beside.n_sorted = STALE if beside.sketch_size > 0 else 0
    wrong = find_wrong_records(beside)
    if wrong is not None:
        raise DamagedFile(wrong)
    recompute_derived(beside)
    return found, names


def roster_is_consistent(roster: Roster | None, t: int) -> bool:
    """Whether no arm came, and no clock began, after round t, the last of the policy."""
    return roster is None or max(roster.clock_start, *roster.joined_at.values(), 0) <= t
