"""What was asked and told of an arm, moved from one memory to another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._rewards import SAMPLES, STALE
from pmbandits.estimates.sketch import room as sketch_room
from pmbandits.policies.build import FIRST_ROOM, Plan, fill
from pmbandits.state.layout import FIELDS, SIZES
from pmbandits.state.memory import Memory

# What a shelf is as large as the memory of those that play: how rewards are kept, the metric, and the coarse radii.
_SAME = ("n_atoms", "n_packed", "n_table", "sketch_room")
_TOTALS = ("asked", "rewards")  # totals of all arms, worked out from those of each arm
# What is saved of a shelf; the rest follows.
SHELVED = ("pulls", "pending", "told", "sums", "counts", "sketch_book", "sketch_marks", "sketch_items", "x", "owner")


def absorb(into: Memory, source: Memory, pairs: Iterable[tuple[int, int]]) -> None:
    """Add the pulls and rewards of arms of one memory to arms of another, in which there is room for them.

    ``pairs`` are the places of an arm in the source, and in the memory into which it goes. What is worked out from
    rewards (``recall``, and whatever the table in ``layout.py`` says is cleared) is left to the caller.
    """
    moved = list(pairs)
    if not moved:
        return
    out, to = (np.array(side, dtype=np.int64) for side in zip(*moved, strict=True))
    if into.sketch_size > 0:
        for a, b in moved:
            ours, theirs = (
                (m.sketch_book[i], m.sketch_items[i], m.sketch_marks[i]) for m, i in ((into, b), (source, a))
            )
            if into.told[b] == 0:
                for mine, his in zip(ours, theirs, strict=True):
                    mine[...] = his
            else:
                sketching.join(*ours, into.sketch_size, into.seed, b, *theirs)
        into.ordered = STALE
    elif into.mode == SAMPLES:
        place = np.full(source.n_arms, -1, dtype=np.int64)
        place[out] = to
        owner = place[source.owner[: source.rewards]]
        mine = owner >= 0
        at = slice(into.rewards, into.rewards + int(mine.sum()))
        into.x[at], into.owner[at] = source.x[: source.rewards][mine], owner[mine]
    into.asked += int(source.pulls[out].sum())
    into.rewards += int(source.told[out].sum())
    for field in FIELDS:
        if "added" in field.becomes and field.name not in _TOTALS:
            part, more = into.field(field.name), source.field(field.name)
            if part.shape[0] == into.n_arms and more.shape[0] == source.n_arms and part.shape[1:] == more.shape[1:]:
                part[to] += more[out]  # else only one of the two has it


def shelf_sizes(memory: Memory, arms: int, rewards: int) -> dict[str, int]:
    """The sizes of a memory that only keeps the records of some arms, with room for this many rewards."""
    buffer = sketch_room(memory.sketch_size) if memory.sketch_size > 0 else 0
    return {name: memory.sizes[name] for name in _SAME} | {
        "n_arms": arms,
        "n_past": arms,
        "room": 0 if memory.n_atoms else arms * buffer or max(FIRST_ROOM, rewards),
        "n_radii": memory.n_radii if memory.coarse == 1 else 0,
        "n_sketches": arms if buffer else 0,
        "n_mass": arms * buffer,
        "n_belts": arms if memory.n_belts else 0,
    }


def shelf(memory: Memory, plan: Plan, arms: int, rewards: int) -> Memory:
    """Such a memory, which keeps rewards as the one that plays does."""
    out = Memory.allocate(shelf_sizes(memory, arms, rewards), memory._own)
    for field in FIELDS:
        if field.single and "fixed" in field.becomes and field.name not in SIZES:
            setattr(out, field.name, getattr(memory, field.name))
    out.busy = out.waiting = out.gate = 0
    for book, marks in zip(out.sketch_book, out.sketch_marks, strict=True):
        sketching.begin(book, marks, memory.sketch_size)
    fill(out, plan)
    return out


def start_clock(memory: Memory) -> None:
    """Let the clock begin anew: shares are tracked from now on, and pulls so far are pulls of an earlier time."""
    memory.earlier[:] += memory.pulls
    memory.pulls[:], memory.asked = 0, 0
    memory.sure_pulls[:] = 0


def stop_clock(memory: Memory) -> None:
    """On a shelf there is no clock: all pulls are one number."""
    memory.pulls[:] += memory.earlier
    memory.earlier[:], memory.asked = 0, int(memory.pulls.sum())
