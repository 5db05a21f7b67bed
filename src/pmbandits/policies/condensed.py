"""A policy's memory with the arms' laws on few points: small and quick, for guesses that are checked or called guesses.

Of many rewards the pool is cut into cells of equally many (on the line of fewer, far out), and each cell becomes one
point, its mean. What is found with such a memory is not exact. So it serves as a start for a search that is exact in
the end, and for forecasts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.confidence._ends import COARSE_TABLE, coarse_counts
from pmbandits.estimates._kernels import SQUARES, SUM
from pmbandits.estimates._rewards import FINITE, SAMPLES
from pmbandits.policies.build import Plan
from pmbandits.state.memory import Memory

CELLS = 512


class Laws(NamedTuple):
    """Points in order, and the rewards of each arm at each of them."""

    points: FloatArray
    counts: FloatArray


def laws_of(memory: Memory, cells: int = CELLS) -> Laws:
    """The arms' laws, on at most this many points. The pool must be in order."""
    k = memory.n_arms
    if memory.mode != SAMPLES:
        if memory.n_atoms <= 2 * cells:
            return Laws(memory.points.copy(), memory.counts.astype(np.float64))
        x, tall = memory.points, memory.counts.astype(np.float64)
        share = np.cumsum((tall / np.maximum(memory.told, 1)[:, None]).mean(axis=0))
        starts = np.unique(np.searchsorted(share, np.arange(cells) / cells * share[-1], side="right"))
        counts = np.add.reduceat(tall, starts, axis=1)
        mass = np.add.reduceat(tall.sum(axis=0) * x, starts), counts.sum(axis=0)
        return Laws(np.where(mass[1] > 0, mass[0] / np.maximum(mass[1], 1.0), x[starts]), counts)
    size = memory.pooled if memory.sketch_size > 0 else memory.rewards
    x, owner = memory.x[:size], memory.owner[:size]
    share = np.linspace(0.0, 1.0, min(cells, size) + 1)
    if memory.bounded == 0:  # on the line single rewards far out count
        share = np.sin(0.5 * np.pi * share) ** 2
    edges = np.unique(np.append(0, np.rint(share * size))).astype(np.int64)
    widths = np.diff(edges)
    weights = memory.mass[:size] if memory.sketch_size > 0 else None
    where = owner * widths.size + np.repeat(np.arange(widths.size), widths)
    counts = np.bincount(where, weights=weights, minlength=k * widths.size).reshape(k, -1).astype(np.float64)
    return Laws(np.add.reduceat(x, edges[:-1]) / widths, counts)


def small(memory: Memory, laws: Laws, plan: Plan | None = None) -> Memory:
    """A small memory with these laws; with a plan, its table of radii reaches as far as one likes."""
    sizes = {"n_atoms": laws.points.size, "room": 0, "n_mass": 0, "sketch_room": 0, "n_grid": 0}
    out = memory.resized(**sizes, **({} if plan is None else {"n_radii": COARSE_TABLE}))
    if plan is not None:
        assert plan.confidence is not None
        out.radii[:] = plan.confidence.radius(coarse_counts())
        out.coarse = 1
    if memory.mode == SAMPLES:
        out.mode = FINITE
        if (
            memory.bounded == 0 and memory.tail_order == 0.0 and memory.tail_sigma == 0.0
        ):  # the range of rewards takes the place of the ends
            out.low, out.high = laws.points[0], laws.points[-1]
    out.points[:] = laws.points
    play_out(out, laws.counts, memory.told, memory)
    return out


def play_out(memory: Memory, counts: FloatArray, told: NDArray[np.int64], first: Memory) -> None:
    """Give a small memory ``told`` rewards of each arm, spread as ``counts`` are; it was made from ``first``."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    above = np.rint(np.cumsum(counts, axis=1) / total * told[:, None]).astype(np.int64)
    memory.counts[:] = np.diff(above, axis=1, prepend=0)
    memory.told[:], memory.seen[:], memory.belt_at[:] = told, 0, 0
    memory.rewards, memory.line_at = int(told.sum()), 0
    memory.sums[:] = memory.counts @ memory.points
    if memory.sketch_size > 0:  # the rank error of a sketch does not fall with n
        more = told / np.maximum(first.told, 1)
        memory.sketch_marks[:, SQUARES] = first.sketch_marks[:, SQUARES] * more**2
        memory.sketch_marks[:, SUM] = first.sketch_marks[:, SUM] * more
