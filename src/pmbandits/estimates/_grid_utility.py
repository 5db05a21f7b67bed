"""The empirical utilities of all mixtures of a grid, in one pass over the rewards; compiled.

Each is the same number, to the last bit, as :func:`pmbandits.estimates._utility.empirical_utility_by_cells` gives. At
the end of a cell lie the rewards of one arm, so only mixtures with that arm change: with many arms these are few.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.estimates._rewards import FINITE, n_pooled_values, n_rewards_of_pooled_value, sort_pool
from pmbandits.metrics.encoding import h_value
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State


@shared("state -> none")
def fill_grid_utilities_by_cells(s: State) -> None:
    """The empirical utility of every grid point, into ``value``, where rewards are not 0 and 1."""
    sort_pool(s)
    k, used, bounded, finite = s.n_arms, s.n_grid_used, s.bounded == 1, s.storage_mode == FINITE
    cells = s.n_atoms if finite else n_pooled_values(s)
    value = s.value[:used]
    if cells == 0 and not bounded:
        fill_array_with(value, 0.0)
        return
    h, points, owner, counts, n_rewards = s.h, s.points if finite else s.x, s.pool_arm, s.counts, s.n_rewards
    # Mixture g has arms[start[g] : start[g + 1]]; arm i is in mixtures[first[i] : first[i + 1]].
    start, arms, weights = np.empty(used + 1, np.int64), np.empty(used * k, np.int64), np.empty(used * k)
    first, mixtures = np.zeros(k + 2, np.int64), np.empty(used * k, np.int64)
    unseen_weight, curve, n_members = np.zeros(used), np.empty(used), 0
    above, below, n_above = np.empty(k), np.zeros(k), n_rewards.copy()
    for g in range(used):
        start[g] = n_members
        for i in range(k):
            a = s.grid[g, i]
            if n_rewards[i] == 0:
                unseen_weight[g] += a
            elif a > 0.0:
                arms[n_members], weights[n_members] = i, a
                n_members += 1
                first[i + 2] += 1
    start[used] = n_members
    for i in range(2, k + 2):
        first[i] += first[i - 1]
    for g in range(used):
        for j in range(start[g], start[g + 1]):
            mixtures[first[arms[j] + 1]] = g
            first[arms[j] + 1] += 1
    inverse = np.zeros(k)
    for i in range(k):
        if n_rewards[i] > 0:
            inverse[i] = 1.0 / n_rewards[i]
        above[i] = float(n_rewards[i]) * inverse[i]
    before = s.low if bounded else points[0]
    fill_array_with(value, before * h_value(h, 1.0))
    for g in range(used):
        curve[g] = mixture_curve_value(h, start, arms, weights, above, below, unseen_weight, g)
    for cell in range(cells + 1):
        if cell < cells:
            here = points[cell]
        elif bounded:
            here = s.high
        else:
            break
        width = here - before
        if width > 0.0:
            for g in range(used):
                value[g] += width * curve[g]
            before = here
        if cell == cells:
            break
        if finite:
            for i in range(k):
                n_above[i] -= counts[i, cell]
                above[i] = float(n_above[i]) * inverse[i]
                below[i] = float(n_rewards[i] - n_above[i]) * inverse[i]
            for g in range(used):
                curve[g] = mixture_curve_value(h, start, arms, weights, above, below, unseen_weight, g)
        else:
            i = owner[cell]
            n_above[i] -= n_rewards_of_pooled_value(s, cell)
            above[i] = float(n_above[i]) * inverse[i]
            below[i] = float(n_rewards[i] - n_above[i]) * inverse[i]
            for j in range(first[i], first[i + 1]):
                g = mixtures[j]
                curve[g] = mixture_curve_value(h, start, arms, weights, above, below, unseen_weight, g)


@step("floats, ints, ints, floats, floats, floats, floats, int -> float")
def mixture_curve_value(
    h: FloatArray,
    start: IntArray,
    arms: IntArray,
    weights: FloatArray,
    above: FloatArray,
    below: FloatArray,
    unseen_weight: FloatArray,
    g: int,
) -> float:
    """The value h(S) of mixture g's survival, given each arm's shares of rewards above and below."""
    high, low = 0.0, unseen_weight[g]
    for j in range(start[g], start[g + 1]):
        high += weights[j] * above[arms[j]]
        low += weights[j] * below[arms[j]]
    return h_value(h, high if high < low else 1.0 - low)
