"""Looking ahead: for how many more rewards a choice is sure to stand, whatever they are; 0/1 rewards; compiled.

Most rewards change nothing. After a look at 0/1 rewards the policy works out up to how many more rewards of each arm
the choice stands (``stands_until``), and does not look again before: the same decisions, far less work. More ones raise
both ends of an arm's interval, and more rewards narrow it, so the extremes are at the ends.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE
from pmbandits.confidence._bounds import bernoulli_interval_lower, bernoulli_interval_upper
from pmbandits.confidence._envelopes import confidence_radius_after
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.encoding import h_max, h_min, h_value
from pmbandits.mixtures._index import ROUNDING_MARGIN, TIE, dot
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

MIN_LOOK_AHEAD = 4  # a shorter look-ahead does not pay
LOOKS_BEFORE_RETRY = 28  # looks after a failure at the shortest distance before it is tried again


@shared("state -> bool")
def is_look_ahead_due(s: State) -> bool:
    """Whether looking ahead is possible and, after failures, due."""
    if s.storage_mode != BINARY or s.radii_decrease == 0:
        return False
    if s.look_ahead < MIN_LOOK_AHEAD:
        s.look_ahead += 1
        return False
    for i in range(s.n_arms):
        if s.n_rewards[i] + s.look_ahead >= s.n_radii and s.coarse_radii == 0:
            s.look_ahead = max(MIN_LOOK_AHEAD, s.look_ahead // 2)
            return False
    return True


@step("state, bool -> none")
def adjust_look_ahead_length(s: State, stands: bool) -> None:
    """If the choice stands, postpone the next look and double the look-ahead; otherwise halve it, or pause."""
    ahead = s.look_ahead
    if stands:
        for i in range(s.n_arms):
            s.choice_valid_until[i] = s.n_rewards[i] + ahead
        s.look_ahead = min(2 * ahead, 1 << 24)
    else:
        s.look_ahead = ahead // 2 if ahead >= 2 * MIN_LOOK_AHEAD else -LOOKS_BEFORE_RETRY


@shared("state, int -> two arrays")
def intervals_kept_for_next_rewards(s: State, ahead: int) -> tuple[FloatArray, FloatArray]:
    """For each arm the interval that its confidence interval contains throughout the next ``ahead`` rewards."""
    k, kind = s.n_arms, s.set_kind
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones = s.n_rewards[i] + ahead, s.counts[i, 1]
        low[i] = bernoulli_interval_lower(kind, (ones + ahead) / n, confidence_radius_after(s, n))
        high[i] = bernoulli_interval_upper(kind, ones / n, confidence_radius_after(s, n))
    return low, high


@shared("state, int -> two arrays")
def widest_intervals_in_next_rewards(s: State, ahead: int) -> tuple[FloatArray, FloatArray]:
    """For each arm the widest interval that its confidence intervals can cover within ``ahead`` rewards."""
    k, kind = s.n_arms, s.set_kind
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones, r = s.n_rewards[i] + ahead, s.counts[i, 1], confidence_radius_after(s, s.n_rewards[i])
        low[i] = bernoulli_interval_lower(kind, ones / n, r)
        high[i] = bernoulli_interval_upper(kind, (ones + ahead) / n, r)
    return low, high


@shared("state, int -> two arrays")
def possible_shares_of_ones(s: State, ahead: int) -> tuple[FloatArray, FloatArray]:
    """For each arm the least and largest share of ones that it can have within ``ahead`` rewards."""
    k = s.n_arms
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones = s.n_rewards[i] + ahead, s.counts[i, 1]
        low[i], high[i] = ones / n, (ones + ahead) / n
    return low, high


@step("floats, int, floats, floats, floats, floats -> float")
def utility_lead_lower_bound(
    h: FloatArray, shape: int, mine: FloatArray, other: FloatArray, low: FloatArray, high: FloatArray
) -> float:
    """A lower bound on h(mine·p) − h(other·p) while each p lies between ``low`` and ``high``.

    Concave h: with x = other·p and x + e = mine·p, h(x + e) − h(x) falls in x where e > 0 and rises where e < 0, and
    is concave in e. So it is least at ends; and e varies little between mixtures that are near each other.
    """
    x_low, x_high, e_low, e_high = 0.0, 0.0, 0.0, 0.0
    for i in range(low.size):
        x_low += other[i] * low[i]
        x_high += other[i] * high[i]
        d = mine[i] - other[i]
        e_low += d * (low[i] if d > 0.0 else high[i])
        e_high += d * (high[i] if d > 0.0 else low[i])
    x_high = min(x_high, 1.0)
    if shape == CONCAVE and x_high + e_high <= 1.0 and x_low + e_low >= 0.0:
        least = 0.0 if e_low < 0.0 < e_high else np.inf
        for e in (e_low, e_high):
            x = x_high if e >= 0.0 else x_low
            if x + e >= 0.0 and x + e <= 1.0:
                least = min(least, h_value(h, x + e) - h_value(h, x))
            else:
                return -np.inf
        return least
    return h_min(h, dot(mine, low), min(dot(mine, high), 1.0)) - h_max(h, x_low, x_high)


@shared("state -> bool")
def does_mix_stay_most_optimistic(s: State) -> bool:
    """Whether the current mixture stays the most optimistic one for the next ``look_ahead`` rewards of each arm."""
    ahead, current = s.look_ahead, s.current_point
    mine, peak = s.grid[current], s.max_h
    low, high = intervals_kept_for_next_rewards(s, ahead)
    left, right = dot(mine, low), dot(mine, high)
    if left > right:
        return False
    sure = h_max(s.h, left, right)
    if sure >= peak - 0.5 * TIE * max(1.0, abs(peak)):  # nothing can be better
        return True
    low, high = widest_intervals_in_next_rewards(s, ahead)
    for g in range(s.n_grid_used):
        if g != current:
            rival = h_max(s.h, dot(s.grid[g], low), min(dot(s.grid[g], high), 1.0))
            if rival > sure - ROUNDING_MARGIN * max(1.0, abs(peak)):
                return False
    return True
