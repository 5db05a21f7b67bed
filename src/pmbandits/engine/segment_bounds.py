"""Bounds on utilities where the weights of each segment are given: a plan says what each segment plays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._joint_regret import fill_survival_bounds_by_cell
from pmbandits.state.memory import Memory
from pmbandits.tables.distributions import Atoms
from pmbandits.tables.survival_table import SurvivalTable

PLAN_CELLS = 192  # cells of the table from which plans are made


def columns_by_segment(memory: Memory) -> list[NDArray[np.int64]]:
    """The columns of each segment; without segments, all arms."""
    if memory.n_segments <= 1:
        return [np.arange(memory.n_arms)]
    return [np.flatnonzero(memory.segment_of == segment) for segment in np.unique(memory.segment_of)]


def upper_bound_of_plans(metric: Distortion, memory: Memory, mix: FloatArray) -> float:
    """An upper bound on any mixture's utility with the segments' weights of ``mix``, for convex h; maybe infinite.

    Where h rises everywhere, all arms are best at the upper ends of their survivals, and where it falls, at the lower
    ones. So the best mixture of these is what is looked for, by the oracle's own solver.
    """
    from pmbandits.optimize.maximise import maximise  # with its solvers, which take a while to load

    grid = metric(np.linspace(0.0, 1.0, 1025))
    rises, falls = bool((np.diff(grid) >= 0.0).all()), bool((np.diff(grid) <= 0.0).all())
    if not (rises or falls) or memory.bounded == 0 or memory.n_rewards.min() == 0 or memory.n_limited > 0:
        return np.inf
    buffers = np.empty(PLAN_CELLS), np.empty((PLAN_CELLS, memory.n_arms)), np.empty((PLAN_CELLS, memory.n_arms))
    count = fill_survival_bounds_by_cell(memory.address, *buffers)
    if count == 0:
        return np.inf
    x = memory.low + np.append(0.0, np.cumsum(buffers[0][:count]))
    ends = buffers[2 if rises else 1][:count]
    ends = np.clip(np.minimum.accumulate(ends, axis=0), 0.0, 1.0)
    mass = -np.diff(np.vstack((np.ones(memory.n_arms), ends, np.zeros(memory.n_arms))), axis=0)
    arms = [Atoms(x, row / row.sum()) for row in mass.T]
    _, segments = np.unique(memory.segment_of, return_inverse=True)
    weights = np.bincount(segments, weights=mix)
    found = maximise(metric, SurvivalTable.from_atoms(arms), segments=segments, frequencies=weights / weights.sum())
    return float(found.upper) + memory.rounding_utility_bound if np.isfinite(found.upper) else np.inf
