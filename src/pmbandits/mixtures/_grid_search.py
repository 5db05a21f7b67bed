"""Choosing among the mixtures of a grid; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._random import TIED, philox_random_words, uniform_from_word
from pmbandits._validation import FloatArray
from pmbandits.confidence._bounds import fill_bernoulli_optimistic_utilities, update_confidence_sets
from pmbandits.confidence._envelopes import bounds_survival_pointwise, has_tail_assumption
from pmbandits.confidence._grid_bounds import fill_grid_optimistic_utilities
from pmbandits.estimates._grid_utility import fill_grid_utilities_by_cells
from pmbandits.estimates._rewards import BINARY
from pmbandits.estimates._utility import (
    empirical_mixture_survival,
    inverse_reward_counts,
    utility,
)
from pmbandits.metrics.encoding import h_value
from pmbandits.mixtures._index import (
    TIE,
    objective_that_is_optimistic,
    postpone_next_update,
    ready,
    set_current_grid_point,
)
from pmbandits.mixtures._lazy_argmax import SHORTEST_PAUSE, can_use_lazy_argmax, lazy_argmax_grid_point
from pmbandits.mixtures._line_argmax import argmax_on_line, is_concave_on_line
from pmbandits.mixtures._look_ahead import adjust_look_ahead_length, does_mix_stay_most_optimistic, is_look_ahead_due
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State


@shared("state -> none")
def fill_grid_utilities(s: State) -> None:
    """The empirical utility of every grid point, into ``value``."""
    if s.storage_mode == BINARY:
        fill_binary_grid_utilities(s)
    else:
        fill_grid_utilities_by_cells(s)


@shared("state -> none")
def fill_binary_grid_utilities(s: State) -> None:
    """The empirical utility of every grid point, into ``value``, for arms that pay 0 or 1."""
    ones, inverse = s.counts[:, 1], inverse_reward_counts(s.n_rewards)
    for g in range(s.n_grid_used):
        s.value[g] = h_value(s.h, empirical_mixture_survival(s.grid[g], ones, s.n_rewards, inverse))


@step("floats, int, int -> bool")
def is_previous_point_still_best(index: FloatArray, used: int, before: int) -> bool:
    """Whether the previous grid point is among those with the largest index."""
    top = index[0]
    for g in range(1, used):
        if index[g] > top:
            top = index[g]
    return before >= 0 and index[before] >= top - TIE * max(1.0, abs(top))


@shared("state, floats, float -> int")
def random_grid_point_at_least(s: State, values: FloatArray, least: float) -> int:
    """One of the grid points whose value is at least ``least``, each equally likely."""
    tied = 0
    for g in range(s.n_grid_used):
        if values[g] >= least:
            tied += 1
    place = 0
    if tied > 1:
        s.rng_counter += 1
        zero = np.uint64(0)
        word, _, _, _ = philox_random_words(
            np.uint64(s.seed), np.uint64(s.rng_counter), zero, zero, zero, np.uint64(TIED)
        )
        place = int(uniform_from_word(word) * tied)
    for g in range(s.n_grid_used):
        if values[g] >= least:
            if place == 0:
                return g
            place -= 1
    return 0


@shared("state, int -> int")
def grid_point_with_largest_index(s: State, n_used: int) -> int:
    """The grid point with the largest index; tied, the previous one; else the highest utility; else the first.

    Or, as the paper allows, any of those that are tied.
    """
    before = s.current_point
    if is_previous_point_still_best(s.index, n_used, before):
        return before
    top = s.index[0]
    for g in range(1, n_used):
        top = max(top, s.index[g])
    slack = TIE * max(1.0, abs(top))
    if s.random_ties == 1:
        return random_grid_point_at_least(s, s.index, top - slack)
    chosen, best = -1, -np.inf
    for g in range(n_used):
        if s.index[g] >= top - slack:
            value = utility(s, s.grid[g])
            if chosen < 0 or value > best + TIE * max(1.0, abs(best)):
                chosen, best = g, value
    return chosen


@shared("state -> none")
def update_optimistic_grid_mixture(s: State) -> None:
    """``eq:UCB_alpha``: make the grid point with the largest optimistic utility the current mixture."""
    if not ready(s):
        return
    update_confidence_sets(s)
    used = s.n_grid_used
    if s.storage_mode == BINARY:
        fill_bernoulli_optimistic_utilities(s.h, s.grid, used, s.lower, s.upper, s.index)
    elif is_concave_on_line(s, objective_that_is_optimistic(s)):
        set_current_grid_point(s, argmax_on_line(s, objective_that_is_optimistic(s)))
        return
    elif (
        s.random_ties == 0
        and (s.rewards >= s.lazy_pause_from + SHORTEST_PAUSE or not bounds_survival_pointwise(s))
        and can_use_lazy_argmax(s, objective_that_is_optimistic(s))
    ):
        set_current_grid_point(s, lazy_argmax_grid_point(s, objective_that_is_optimistic(s)))
        return
    else:
        if has_tail_assumption(s):
            postpone_next_update(s)
        fill_grid_optimistic_utilities(s)
        fill_array_with(s.index_at, 0.0)  # what the lazy argmax keeps is of other values
    if is_previous_point_still_best(s.index, used, s.current_point):
        s.dirty = 0
    else:
        set_current_grid_point(s, grid_point_with_largest_index(s, used))
    if is_look_ahead_due(s):
        adjust_look_ahead_length(s, does_mix_stay_most_optimistic(s))


@shared("state -> none")
def update_empirical_grid_mixture(s: State) -> None:
    """``eq:ETC_alpha``: make the grid point with the largest empirical utility (tied: first or any) current."""
    fill_grid_utilities(s)
    if s.random_ties == 1:
        top = s.value[0]
        for g in range(1, s.n_grid_used):
            top = max(top, s.value[g])
        set_current_grid_point(s, random_grid_point_at_least(s, s.value, top - TIE * max(1.0, abs(top))))
        return
    chosen = 0
    for g in range(1, s.n_grid_used):
        if s.value[g] > s.value[chosen] + TIE * max(1.0, abs(s.value[chosen])):
            chosen = g
    set_current_grid_point(s, chosen)
