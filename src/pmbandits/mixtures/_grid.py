"""Choosing among the mixtures of a grid; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._random import TIED, philox, unit
from pmbandits.confidence._bounds import (
    EMPIRICAL,
    OPTIMISTIC,
    binary_bounds,
    bound,
    inverses,
    refresh,
    survival,
    sweep,
    utility,
)
from pmbandits.confidence._ends import tailed
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.packed import h_value
from pmbandits.mixtures._ahead import may_look_ahead, settle_down, stays_optimistic
from pmbandits.mixtures._index import TIE, optimism, ready, rest, take
from pmbandits.mixtures._lazy import lazy_choice, may_be_lazy
from pmbandits.state.shared import shared, step


@shared("state -> none")
def utilities(s):
    """The empirical utility of every grid point, into ``value``."""
    if s.mode == BINARY:
        binary_utilities(s)
    else:
        for g in range(s.used):
            s.value[g] = sweep(s, s.grid[g], EMPIRICAL)


@shared("state -> none")
def binary_utilities(s):
    """The same for arms that pay 0 or 1."""
    ones, inverse = s.counts[:, 1], inverses(s.told)
    for g in range(s.used):
        s.value[g] = h_value(s.h, survival(s.grid[g], ones, s.told, inverse))


@step("floats, int, int -> bool")
def still_best(index, used, before):
    """Whether the previous grid point is among those with the largest index."""
    top = index[0]
    for g in range(1, used):
        if index[g] > top:
            top = index[g]
    return before >= 0 and index[before] >= top - TIE * max(1.0, abs(top))


@shared("state, floats, float -> int")
def any_of(s, values, least):
    """One of the grid points whose value is at least ``least``, each equally likely."""
    tied = 0
    for g in range(s.used):
        if values[g] >= least:
            tied += 1
    place = 0
    if tied > 1:
        s.stream += 1
        zero = np.uint64(0)
        word, _, _, _ = philox(np.uint64(s.seed), np.uint64(s.stream), zero, zero, zero, np.uint64(TIED))
        place = int(unit(word) * tied)
    for g in range(s.used):
        if values[g] >= least:
            if place == 0:
                return g
            place -= 1
    return 0


@shared("state, int -> int")
def settle(s, used):
    """Which grid point to take: the largest index; tied, the previous one; else the highest utility; else the first.

    Or, as the paper allows, any of those that are tied.
    """
    before = s.current
    if still_best(s.index, used, before):
        return before
    top = s.index[0]
    for g in range(1, used):
        top = max(top, s.index[g])
    slack = TIE * max(1.0, abs(top))
    if s.random_ties == 1:
        return any_of(s, s.index, top - slack)
    chosen, best = -1, -np.inf
    for g in range(used):
        if s.index[g] >= top - slack:
            value = utility(s, s.grid[g])
            if chosen < 0 or value > best + TIE * max(1.0, abs(best)):
                chosen, best = g, value
    return chosen


@shared("state -> none")
def optimistic_mixture(s):
    """``eq:UCB_alpha``: the mixture whose best possible utility is the largest."""
    if not ready(s):
        return
    refresh(s)
    used = s.used
    if s.mode == BINARY:
        binary_bounds(s.h, s.grid, used, s.lower, s.upper, s.index)
    elif s.random_ties == 0 and may_be_lazy(s, optimism(s)):
        take(s, lazy_choice(s, optimism(s)))
        return
    else:
        if tailed(s):
            rest(s)
        for g in range(used):
            s.index[g] = bound(s, s.grid[g], OPTIMISTIC)
    if still_best(s.index, used, s.current):
        s.dirty = 0
    else:
        take(s, settle(s, used))
    if may_look_ahead(s):
        settle_down(s, stays_optimistic(s))


@shared("state -> none")
def empirical_mixture(s):
    """``eq:ETC_alpha``: the mixture with the largest empirical utility (the first of equals, or any of them)."""
    utilities(s)
    if s.random_ties == 1:
        top = s.value[0]
        for g in range(1, s.used):
            top = max(top, s.value[g])
        take(s, any_of(s, s.value, top - TIE * max(1.0, abs(top))))
        return
    chosen = 0
    for g in range(1, s.used):
        if s.value[g] > s.value[chosen] + TIE * max(1.0, abs(s.value[chosen])):
            chosen = g
    take(s, chosen)
