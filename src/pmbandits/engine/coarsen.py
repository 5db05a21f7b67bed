"""A small copy of a policy's memory with the arms' distributions on few points, for starts and forecasts.

Of many rewards the pool is cut into cells of equally many (on the line of fewer, far out), and each cell becomes one
point, its mean. What is found with such a memory is not exact. So it serves as a start for a search that is exact in
the end, and for forecasts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.confidence._envelopes import COARSE_TABLE_SIZE, n_of_coarse_radius_table
from pmbandits.engine.plan import Plan
from pmbandits.estimates._rewards import FINITE, SAMPLES
from pmbandits.estimates._sketch import SQUARES, SUM
from pmbandits.state.memory import Memory

CELLS = 512


class CoarseDistributions(NamedTuple):
    """Points in order, and the rewards of each arm at each of them."""

    points: FloatArray
    counts: FloatArray


def coarse_distributions(memory: Memory, cells: int = CELLS) -> CoarseDistributions:
    """The arms' empirical distributions on at most ``cells`` points. The pool of rewards must be sorted."""
    k = memory.n_arms
    if memory.storage_mode != SAMPLES:
        if memory.n_atoms <= 2 * cells:
            return CoarseDistributions(memory.points.copy(), memory.counts.astype(np.float64))
        x, tall = memory.points, memory.counts.astype(np.float64)
        share = np.cumsum((tall / np.maximum(memory.n_rewards, 1)[:, None]).mean(axis=0))
        starts = np.unique(np.searchsorted(share, np.arange(cells) / cells * share[-1], side="right"))
        counts = np.add.reduceat(tall, starts, axis=1)
        mass = np.add.reduceat(tall.sum(axis=0) * x, starts), counts.sum(axis=0)
        return CoarseDistributions(np.where(mass[1] > 0, mass[0] / np.maximum(mass[1], 1.0), x[starts]), counts)
    size = memory.n_pooled if memory.sketch_size > 0 else memory.rewards
    x, owner = memory.x[:size], memory.pool_arm[:size]
    share = np.linspace(0.0, 1.0, min(cells, size) + 1)
    if memory.bounded == 0:  # on the line single rewards far out count
        share = np.sin(0.5 * np.pi * share) ** 2
    edges = np.unique(np.append(0, np.rint(share * size))).astype(np.int64)
    widths = np.diff(edges)
    weights = memory.pool_weight[:size] if memory.sketch_size > 0 else None
    where = owner * widths.size + np.repeat(np.arange(widths.size), widths)
    counts = np.bincount(where, weights=weights, minlength=k * widths.size).reshape(k, -1).astype(np.float64)
    return CoarseDistributions(np.add.reduceat(x, edges[:-1]) / widths, counts)


def memory_of_coarse_distributions(
    memory: Memory, distributions: CoarseDistributions, plan: Plan | None = None
) -> Memory:
    """A small memory with these distributions; with a plan, its table of radii covers any number of rewards."""
    sizes = dict.fromkeys(("reward_capacity", "n_pool_weights", "sketch_capacity", "n_grid"), 0)
    sizes |= {"n_atoms": distributions.points.size} | ({} if plan is None else {"n_radii": COARSE_TABLE_SIZE})
    out = memory.resized(**sizes)
    if plan is not None:
        assert plan.confidence is not None
        out.radii[:] = plan.confidence.radius(n_of_coarse_radius_table())
        out.coarse_radii = 1
    if memory.storage_mode == SAMPLES:
        out.storage_mode = FINITE
        if memory.bounded == 0 and memory.moment_order == 0.0 and memory.sub_gaussian_sigma == 0.0:
            # the range of rewards takes the place of the ends
            out.low, out.high = distributions.points[0], distributions.points[-1]
    out.points[:] = distributions.points
    set_coarse_reward_counts(out, distributions.counts, memory.n_rewards, memory)
    return out


def set_coarse_reward_counts(memory: Memory, counts: FloatArray, n_rewards: NDArray[np.int64], first: Memory) -> None:
    """Set the number of rewards of each arm in a coarse memory (made from ``first``), spread as ``counts`` are."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    above = np.rint(np.cumsum(counts, axis=1) / total * n_rewards[:, None]).astype(np.int64)
    memory.counts[:] = np.diff(above, axis=1, prepend=0)
    memory.n_rewards[:], memory.set_built_at[:], memory.kl_band_built_at[:] = n_rewards, 0, 0
    memory.rewards, memory.line_built_at = int(n_rewards.sum()), 0
    memory.sums[:] = memory.counts @ memory.points
    if memory.sketch_size > 0:  # the rank error of a sketch does not fall with n
        more = n_rewards / np.maximum(first.n_rewards, 1)
        memory.sketch_stats[:, SQUARES] = first.sketch_stats[:, SQUARES] * more**2
        memory.sketch_stats[:, SUM] = first.sketch_stats[:, SUM] * more
