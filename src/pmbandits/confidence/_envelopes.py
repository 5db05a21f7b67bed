"""The ends of an arm's survival, at each x, in bands and KL bands; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray, IntArray
from pmbandits.confidence._kl_bands import (
    fill_exact_ends_at,
    fill_kl_band,
    fill_kl_band_without_exact_ends,
    kl_band_ends,
    kl_band_ends_with_error,
)
from pmbandits.estimates._rewards import FINITE, n_pooled_values, n_rewards_of_pooled_value, sketch_rank_error
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

INTERVAL, BAND, BALL, KL_BAND = range(4)  # kinds of confidence sets
FEW_ATOMS_FACTOR = (
    4  # atoms of a finite support, times this: below ``n_exact_ends`` only the ends that occur are worked out
)

# Bounded memory: the table of radii has 128 entries for each doubling of n. An entry is the radius at its smallest
# n. Radii fall, so it is at least the radius at n: valid, and wider by 1/128 of itself at most
# (by 5 % where a ball on the line is made of pieces, and a piece begins).
ENTRIES_PER_DOUBLING = 128
COARSE_TABLE_SIZE = ENTRIES_PER_DOUBLING * 35  # n up to 2⁴¹; beyond, the last radius


@step("int -> int")
def coarse_radius_table_index(n: int) -> int:
    """The entry of the coarse table for n."""
    doublings = 0
    while n >= 2 * ENTRIES_PER_DOUBLING:
        n >>= 1
        doublings += 1
    return min(doublings * ENTRIES_PER_DOUBLING + n, COARSE_TABLE_SIZE - 1)


def n_of_coarse_radius_table() -> NDArray[np.int64]:
    """The n of each entry of the coarse table."""
    entry = np.arange(COARSE_TABLE_SIZE)
    doublings = np.maximum(entry // ENTRIES_PER_DOUBLING - 1, 0)
    return (entry - doublings * ENTRIES_PER_DOUBLING) << doublings


@step("state, int -> float")
def confidence_radius_after(s: State, n: int) -> float:
    """The radius of the confidence set after n rewards."""
    return s.radii[coarse_radius_table_index(n)] if s.coarse_radii == 1 else s.radii[n]


@step("state -> bool")
def bounds_survival_pointwise(s: State) -> bool:
    """Whether the sets limit the survival at each x, so that their values are sums over cells."""
    return s.set_kind == BAND or s.set_kind == KL_BAND


@step("state -> bool")
def has_tail_assumption(s: State) -> bool:
    """Whether rewards are unbounded, and a moment or σ limits the tails (``_heavy_tails``, ``_sub_gaussian``)."""
    return s.moment_order > 0.0 or s.sub_gaussian_sigma > 0.0


@shared("state -> floats")
def update_kl_bands_and_get_errors(s: State) -> FloatArray:
    """Bring all KL bands up to date; returns how far each arm's shares may be off (the rank error of its sketch)."""
    share_errors = np.zeros(s.n_arms)
    if s.set_kind == KL_BAND:
        for i in range(s.n_arms):
            share_errors[i] = sketch_rank_error(s, i)
            n = s.n_rewards[i]
            if n > 0 and s.kl_band_built_at[i] != n:
                s.kl_band_built_at[i] = n
                row, level = s.kl_band[i], confidence_radius_after(s, n)
                if s.storage_mode != FINITE or FEW_ATOMS_FACTOR * s.n_atoms > s.n_exact_ends:
                    fill_kl_band(n, level, s.stretched == 1, s.n_exact_ends, row)
                    continue
                fill_kl_band_without_exact_ends(n, level, s.stretched == 1, s.n_exact_ends, row)
                n_above = n
                fill_exact_ends_at(n_above, n, row)
                for c in range(s.n_atoms):
                    if s.counts[i, c] > 0:
                        n_above -= s.counts[i, c]
                        fill_exact_ends_at(n_above, n, row)
    return share_errors


@step("int, int, int, float, float, table, int -> two floats")
def survival_interval(
    kind: int, above: int, n: int, radius: float, share_error: float, kl_band: FloatArray, i: int
) -> tuple[float, float]:
    """The ends of arm i's survival where so many of its n rewards lie above, in its band or KL band."""
    if n == 0:
        return 0.0, 1.0
    if kind == BAND:
        share = above / n
        return max(share - radius, 0.0), min(share + radius, 1.0)
    if share_error > 0.0:
        return kl_band_ends_with_error(above / n, share_error, kl_band[i])
    return kl_band_ends(above, n, kl_band[i])


# A walk over the cells of the support, from below: each ends at an atom or a reward, the last one at the end of the
# support. ``left`` are the rewards of each arm that lie above; ``floor`` and ``top`` are the ends of its survival.


@step("state -> int")
def n_cells_below_last(s: State) -> int:
    """The number of cells, without the last one, which lies above all atoms or rewards."""
    return s.n_atoms if s.storage_mode == FINITE else n_pooled_values(s)


@step("state, int -> float")
def end_of_cell(s: State, c: int) -> float:
    """Where cell c ends."""
    if c >= n_cells_below_last(s):
        return s.high
    return s.points[c] if s.storage_mode == FINITE else s.x[c]


@step("state, int, int -> int")
def n_rewards_at_cell_end(s: State, c: int, i: int) -> int:
    """The number of rewards of arm i at the end of cell c."""
    if s.storage_mode == FINITE:
        return s.counts[i, c]
    return n_rewards_of_pooled_value(s, c) if s.pool_arm[c] == i else 0


@step("state, int -> two ints")
def arm_range_at_cell_end(s: State, c: int) -> tuple[int, int]:
    """The arms that may have rewards at the end of cell c: the first, and the one after the last."""
    if s.storage_mode == FINITE:
        return 0, s.n_arms
    return s.pool_arm[c], s.pool_arm[c] + 1


@step("state, ints, floats, floats, floats, int -> none")
def update_survival_ends_in_place(
    s: State, left: IntArray, floor: FloatArray, top: FloatArray, share_errors: FloatArray, i: int
) -> None:
    """Find the ends of arm i's survival; without bands they are both its share of rewards."""
    if bounds_survival_pointwise(s):
        n, error = s.n_rewards[i], share_errors[i]
        floor[i], top[i] = survival_interval(s.set_kind, left[i], n, s.radius[i], error, s.kl_band, i)
    else:
        floor[i], top[i] = survival_interval(BAND, left[i], s.n_rewards[i], 0.0, 0.0, s.kl_band, i)


@shared("state, ints, floats, floats -> floats")
def start_cell_walk_in_place(s: State, left: IntArray, floor: FloatArray, top: FloatArray) -> FloatArray:
    """Begin a walk below all rewards; returns how far each arm's shares may be off."""
    share_errors = update_kl_bands_and_get_errors(s)
    for i in range(s.n_arms):
        left[i] = s.n_rewards[i]
        update_survival_ends_in_place(s, left, floor, top, share_errors, i)
    return share_errors


@shared("state, int, ints, floats, floats, floats -> none")
def walk_past_cell_in_place(
    s: State, c: int, left: IntArray, floor: FloatArray, top: FloatArray, share_errors: FloatArray
) -> None:
    """Walk past the rewards at the end of cell c."""
    first, last = arm_range_at_cell_end(s, c)
    for i in range(first, last):
        gone = n_rewards_at_cell_end(s, c, i)
        if gone > 0:
            left[i] -= gone
            update_survival_ends_in_place(s, left, floor, top, share_errors, i)
