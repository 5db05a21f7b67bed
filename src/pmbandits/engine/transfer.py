"""Transfer of pulls and rewards of arms from one memory to another, and the memory of inactive arms."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pmbandits.engine.capacity import INITIAL_CAPACITY, write_state_constants
from pmbandits.engine.plan import Plan
from pmbandits.estimates import _sketch as sketching
from pmbandits.estimates._rewards import SAMPLES, STALE
from pmbandits.estimates.sketch import max_sketch_items as sketch_capacity
from pmbandits.state.layout import FIELDS
from pmbandits.state.memory import Memory

# Sizes that the inactive memory shares with the main one: how rewards are kept, the metric, the coarse radii.
_SHARED_SIZES = ("n_atoms", "n_encoded", "n_ball_grid", "sketch_capacity")
_TOTALS = ("t", "rewards")  # totals of all arms, worked out from those of each arm


def add_pulls_and_rewards(into: Memory, source: Memory, pairs: Iterable[tuple[int, int]]) -> None:
    """Add the pulls and rewards of arms of one memory to arms of another, which must be large enough.

    ``pairs`` are the places of an arm in the source, and in the memory into which it goes. What is worked out from
    rewards (``recompute_derived_fields``, and whatever fields are declared to be cleared) is left to the caller.
    """
    moved = list(pairs)
    if not moved:
        return
    out, to = (np.array(side, dtype=np.int64) for side in zip(*moved, strict=True))
    if into.sketch_size > 0:
        for a, b in moved:
            ours, theirs = (
                (m.sketch_header[i], m.sketch_items[i], m.sketch_stats[i]) for m, i in ((into, b), (source, a))
            )
            if into.n_rewards[b] == 0:
                for mine, his in zip(ours, theirs, strict=True):
                    mine[...] = his
            else:
                sketching.merge_sketch_into(*ours, into.sketch_size, into.seed, b, *theirs)
        into.n_sorted = STALE
    elif into.storage_mode == SAMPLES:
        place = np.full(source.n_arms, -1, dtype=np.int64)
        place[out] = to
        owner = place[source.pool_arm[: source.rewards]]
        mine = owner >= 0
        at = slice(into.rewards, into.rewards + int(mine.sum()))
        into.x[at], into.pool_arm[at] = source.x[: source.rewards][mine], owner[mine]
    into.t += int(source.pulls[out].sum())
    into.rewards += int(source.n_rewards[out].sum())
    for field in FIELDS:
        if "added" in field.lifecycle and field.name not in _TOTALS:
            part, more = into.field(field.name), source.field(field.name)
            if part.shape[0] == into.n_arms and more.shape[0] == source.n_arms and part.shape[1:] == more.shape[1:]:
                part[to] += more[out]  # else only one of the two has it


def inactive_memory_sizes(memory: Memory, arms: int, rewards: int) -> dict[str, int]:
    """The sizes of a memory for the pulls and rewards of inactive arms, into which ``rewards`` rewards fit."""
    buffer = sketch_capacity(memory.sketch_size) if memory.sketch_size > 0 else 0
    return {name: memory.sizes[name] for name in _SHARED_SIZES} | {
        "n_arms": arms,
        "n_earlier_pulls": arms,
        "reward_capacity": 0 if memory.n_atoms else arms * buffer or max(INITIAL_CAPACITY, rewards),
        "n_radii": memory.n_radii if memory.coarse_radii == 1 else 0,
        "n_sketches": arms if buffer else 0,
        "n_pool_weights": arms * buffer,
        "n_kl_bands": arms if memory.n_kl_bands else 0,
    }


def new_memory_for_inactive_arms(memory: Memory, plan: Plan, arms: int, rewards: int) -> Memory:
    """New memory for inactive arms, which keeps rewards in the same way as the main memory does."""
    out = Memory.allocate(inactive_memory_sizes(memory, arms, rewards), memory.places.own)
    for field in FIELDS:
        if field.is_single_number and "fixed" in field.lifecycle:
            setattr(out, field.name, getattr(memory, field.name))
    out.lock_token = out.lock_wanted = out.constraint_kind = 0
    for book, marks in zip(out.sketch_header, out.sketch_stats, strict=True):
        sketching.sketch_init(book, marks, memory.sketch_size)
    write_state_constants(out, plan)
    return out


def restart_clock(memory: Memory) -> None:
    """Let the clock begin anew: shares are tracked from now on, and pulls so far are pulls of an earlier time."""
    memory.earlier_pulls[:] += memory.pulls
    memory.pulls[:], memory.t = 0, 0
    memory.certify_pulls[:] = 0


def count_all_pulls_as_current(memory: Memory) -> None:
    """Count all pulls as current ones, as inactive arms have no clock."""
    memory.pulls[:] += memory.earlier_pulls
    memory.earlier_pulls[:], memory.t = 0, int(memory.pulls.sum())
