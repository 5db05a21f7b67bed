"""Arms that come and go, in files: who plays, and the records of those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pmbandits.estimates._rewards import STALE
from pmbandits.policies.archive import Damaged
from pmbandits.policies.bench import PAUSED, PLAYS, RETIRED, Bench
from pmbandits.policies.build import affordable, recall
from pmbandits.policies.lineup import rounds
from pmbandits.policies.policy import Policy
from pmbandits.policies.records import SHELVED, shelf, shelf_sizes
from pmbandits.policies.soundness import wrong_records
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory

SHELF = "bench_"  # how the parts of a shelf are called, before the names of the fields
_KEYS = {"states", "seated", "came", "began", "first"}
_NOT = "its description of the arms that play cannot be read"


def described(bench: Bench | None) -> dict[str, Any] | None:
    """Who plays, for the description in a file."""
    if bench is None:
        return None
    return {
        "states": list(bench.states),
        "seated": list(bench.seated),
        "came": [[arm, bench.came[arm]] for arm in bench.waiting],
        "began": bench.began,
        "first": bench.first,
    }


def shelved(policy: Policy) -> dict[str, np.ndarray]:
    """The records of arms that are not in the memory, as parts of a file."""
    if policy._bench is None:
        return {}
    beside, exact = policy._bench.shelf, policy._plan.exact
    parts = {name: getattr(beside, name) for name in SHELVED if exact or name not in ("x", "owner")}
    return {
        f"{SHELF}{name}": part[: beside.rewards] if name in ("x", "owner") else part
        for name, part in parts.items()
        if part.size and not (name in ("x", "owner") and beside.rewards == 0)
    }


def read_bench(found: Any, n_arms: int) -> Bench | None:
    """Who plays, as a file describes it, with an empty shelf; or Damaged."""
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != _KEYS or not isinstance(found["came"], list):
        raise Damaged(_NOT)
    states, seated, came = found["states"], found["seated"], dict(_pair(pair) for pair in found["came"])
    counts = [found["began"], found["first"], *came.values()]
    if not (isinstance(states, list) and len(states) == n_arms and set(map(str, states)) <= {PLAYS, PAUSED, RETIRED}):
        raise Damaged(_NOT)
    if not (isinstance(seated, list) and all(_count(number) for number in (*counts, *seated))):
        raise Damaged(_NOT)
    plays = {arm for arm in range(n_arms) if states[arm] == PLAYS}
    if not seated or sorted(set(seated)) != seated or not set(seated) <= plays or set(came) != plays - set(seated):
        raise Damaged(_NOT)
    if not 1 <= found["first"] <= n_arms or len(came) != len(found["came"]):
        raise Damaged(_NOT)
    benched = tuple(arm for arm in range(n_arms) if arm not in set(seated))
    empty = Memory.allocate({"n_arms": len(benched)}, {})
    return Bench(tuple(states), tuple(seated), empty, benched, came, found["began"], found["first"])


def _pair(pair: Any) -> tuple[int, int]:
    if not (isinstance(pair, list) and len(pair) == 2 and all(_count(number) for number in pair)):
        raise Damaged(_NOT)
    return pair[0], pair[1]


def _count(number: Any) -> bool:
    return type(number) is int and 0 <= number <= MOST


def read_shelf(
    policy: Policy, memory: Memory, part: Callable[[str, tuple[int, ...], Any], np.ndarray]
) -> dict[str, np.ndarray]:
    """The parts of the shelf in a file by name, checked against a memory that was read already; or Damaged."""
    bench = policy._bench
    if bench is None or not bench.benched:
        if bench is not None:
            policy._now = policy._moment(memory, replace(bench, shelf=shelf(memory, policy._plan, 0, 0)))
        return {}
    k = len(bench.benched)
    told = part(f"{SHELF}told", (k,), np.int64)
    rewards = int(told.sum()) if told.min() >= 0 and told.sum(dtype=np.float64) < MOST else -1
    if rewards < 0:
        raise Damaged("its counts of rewards are not possible")
    affordable(policy, shelf_sizes(memory, k, rewards))
    beside = shelf(memory, policy._plan, k, rewards)
    beside.rewards = rewards
    read = {}
    with_this = replace(bench, shelf=beside)
    policy._now = policy._moment(memory, with_this)
    for name in shelved(policy):
        field = name.removeprefix(SHELF)
        into = getattr(beside, field)
        into = into[:rewards] if field in ("x", "owner") else into
        into[...] = read[field] = part(name, into.shape, into.dtype)
    beside.asked = int(beside.pulls.sum()) if beside.pulls.sum(dtype=np.float64) < MOST else -1
    beside.ordered = STALE if beside.sketch_size > 0 else 0
    wrong = wrong_records(beside)
    if wrong is not None:
        raise Damaged(wrong)
    recall(beside)
    return read


def fits_in(policy: Policy) -> bool:
    """Whether no arm came, and no clock began, after the last round of the policy."""
    bench = policy._bench
    return bench is None or max(bench.began, *bench.came.values(), 0) <= rounds(policy)
