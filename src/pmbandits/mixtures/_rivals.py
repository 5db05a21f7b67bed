"""What any mixture could still be worth; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._bounds import OPTIMISTIC, PESSIMISTIC, bound, refresh
from pmbandits.confidence._ends import BALL, by_cells, cell_ends, lay_belts, tailed
from pmbandits.confidence._kernels import CONCAVE, CONVEX
from pmbandits.confidence._line import width_of_line
from pmbandits.confidence._tails import best_price, reach_of_rewards, tail_pass
from pmbandits.estimates._rewards import BINARY, FINITE, pool_size, stands_for, tidy
from pmbandits.metrics.packed import h_max, h_min, h_value
from pmbandits.mixtures._climb import accuracy, climb, maximise
from pmbandits.mixtures._index import BOUND, POOLED, dot, holder_change, ready
from pmbandits.mixtures._within import furthest
from pmbandits.state.arrays import fill_with, largest_of, smallest_of
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.state.views import unpack

EXACT = 1e-9  # half the distance over which h's slope is taken in certificates


@shared("state -> float")
def all_cells(s):
    """A bound for every mixture and any h: in each cell the best between the lowest and the highest arm."""
    if tailed(s):
        return tail_pass(s, np.empty(0), 1.0, s.prices[0], 0.0, np.empty(0))
    k, bounded, finite = s.n_arms, s.bounded == 1, s.mode == FINITE
    banded, set_kind = by_cells(s), s.set_kind
    tidy(s)
    cells = s.n_atoms if finite else pool_size(s)
    told, radius, blurs, belt, left = s.told, s.radius, lay_belts(s), s.belt, s.told.copy()
    before = s.low if bounded else s.x[0]
    total = before * h_value(s.h, 1.0)
    for c in range(cells + 1):
        if c == cells and not bounded:
            break
        here = s.high
        if c < cells:
            here = s.points[c] if finite else s.x[c]
        if here > before:
            low, high = 1.0, 0.0
            for i in range(k):
                if banded:
                    lower, upper = cell_ends(set_kind, left[i], told[i], radius[i], blurs[i], belt, i)
                else:
                    lower = upper = left[i] / told[i] if told[i] > 0 else 0.0
                low, high = min(low, lower), max(high, upper)
            total += (here - before) * h_max(s.h, low, high)
            before = here
        if c < cells:
            if finite:
                for i in range(k):
                    left[i] -= s.counts[i, c]
            else:
                left[s.owner[c]] -= stands_for(s, c)
    return total + (s.offset if banded else 0.0)


@kernel
def span_bound(h, lo, hi):
    """What U_h cannot exceed on [lo, hi]."""
    return lo * h_value(h, 1.0) + (hi - lo) * h_max(h, 0.0, 1.0)


@shared("state, floats -> float")
def most_average(s, worth):
    """The largest ⟨a, worth⟩ over the mixtures that keep the limits; convex U_h is never above such an average."""
    if s.n_limited == 0:
        return largest_of(worth)
    best = np.empty(s.n_arms)
    furthest(s, worth, best)
    return dot(best, worth)


@shared("state -> float")
def most_convex(s):
    """Convex h: what no mixture exceeds is what some corner can be worth; without limits, an arm alone."""
    worth = np.empty(s.n_arms)
    most_alone(s, worth)
    best = most_average(s, worth)
    if s.n_corners > 0:
        top = -np.inf
        for c in range(s.n_corners):
            top = max(top, bound(s, s.corners[c], OPTIMISTIC))
        best = min(best, top)
    return best


@shared("state -> two floats")
def reachable_means(s):
    """The least and the largest mean that a mixture can have, of arms that pay 0 or 1."""
    if s.n_limited == 0:
        return smallest_of(s.lower), largest_of(s.upper)
    k = s.n_arms
    minus, end = np.empty(k), np.empty(k)
    for i in range(k):
        minus[i] = -s.lower[i]
    furthest(s, minus, end)
    low = dot(end, s.lower)
    furthest(s, s.upper, end)
    return low, dot(end, s.upper)


@shared("state -> float")
def most_with_tails(s):
    """The same for belts on the line. Every price gives a bound for all mixtures: take that of the best mixture."""
    k, before, none = s.n_arms, s.prices[0], np.empty(0)
    alone = np.zeros(k)
    if s.metric_shape == CONVEX:
        worth = np.empty(k)
        for i in range(k):
            alone[i] = 1.0
            worth[i] = tail_pass(s, alone, 1.0, best_price(s, alone, 1.0), 0.0, none)
            alone[i] = 0.0
        return most_average(s, worth)
    best = tail_pass(s, none, 1.0, best_price(s, none, 1.0), 0.0, none)
    if s.metric_shape != CONCAVE or not ready(s):
        return best
    a = np.full(k, 1.0 / k)
    # Ends beyond the span are those of Markov's inequality, and do not depend on the mixture.
    if s.tail_order > 0.0:
        span = 2.0 * max(reach_of_rewards(s), (s.tail_bound * s.rewards) ** (1.0 / s.tail_order))
    else:
        span = width_of_line(s)
    rough = h_max(s.h, 0.0, 2.0 * EXACT) - h_min(s.h, 0.0, 2.0 * EXACT)
    rough += h_max(s.h, 1.0 - 2.0 * EXACT, 1.0) - h_min(s.h, 1.0 - 2.0 * EXACT, 1.0)
    for _ in range(2):
        s.prices[0] = best_price(s, a, 1.0)
        maximise(s, a, np.zeros(k), np.ones(k), BOUND, s.radius)
        gap = climb(s, a, np.zeros(k), np.ones(k), BOUND, s.radius, EXACT, np.inf, 1)
        best = min(best, bound(s, a, OPTIMISTIC) + gap + span * (rough + 4.0 * EXACT))
    s.prices[0] = before
    return best


@kernel
def rival_mixture(memory):
    """The mixture that can be worth the most, into ``mix``; for concave h, bands or the line."""
    s = unpack(memory)
    refresh(s)
    k = s.n_arms
    fill_with(s.mix, 1.0 / k)
    if s.mode != BINARY and s.metric_shape == CONCAVE and ready(s) and not (s.set_kind == BALL and s.bounded == 1):
        kind = POOLED if s.set_kind == BALL else BOUND
        maximise(s, s.mix, np.zeros(k), np.ones(k), kind, s.radius.copy())


@shared("state, floats -> none")
def most_alone(s, out):
    """The largest U_h that each arm alone can have; where sets are by cells, all of them in one pass."""
    k = s.n_arms
    if s.mode == BINARY or not by_cells(s) or tailed(s):
        alone = np.zeros(k)
        for i in range(k):
            alone[i] = 1.0
            out[i] = bound(s, alone, OPTIMISTIC)
            alone[i] = 0.0
        return
    tidy(s)
    finite, set_kind, told, radius, blurs, belt = s.mode == FINITE, s.set_kind, s.told, s.radius, lay_belts(s), s.belt
    cells = s.n_atoms if finite else pool_size(s)
    left, before = told.copy(), np.full(k, s.low)
    fill_with(out, s.low * h_value(s.h, 1.0) + s.offset)
    for c in range(cells + 1):
        here = s.high
        if c < cells:
            here = s.points[c] if finite else s.x[c]
        first, last = (0, k) if finite or c == cells else (s.owner[c], s.owner[c] + 1)
        for i in range(first, last):
            gone = 0 if c == cells else s.counts[i, c] if finite else stands_for(s, c)
            if here > before[i] and (gone > 0 or c == cells):
                low, high = cell_ends(set_kind, left[i], told[i], radius[i], blurs[i], belt, i)
                out[i] += (here - before[i]) * h_max(s.h, low, high)
                before[i] = here
            left[i] -= gone


@kernel
def most_of_others(memory, a):
    """By how much any other arm alone can be ahead of a mixture that is one arm; convex h."""
    s = unpack(memory)
    refresh(s)
    best, worth = -np.inf, np.empty(s.n_arms)
    most_alone(s, worth)
    for i in range(s.n_arms):
        if a[i] == 0.0:
            best = max(best, worth[i])
    return best - bound(s, a, PESSIMISTIC)


@kernel
def most_of_any(memory, start):
    """What no mixture's utility exceeds while every arm's law is in its confidence set; ``start`` is a guess at it.

    Where shares are limited: no mixture that keeps the limits. (A bound by cells is for all mixtures all the same.)

    The guess decides how long the search takes, not whether the answer is right.

    Intervals, and convex h: the largest optimistic value. Concave h, bands or the line: the same, to a hundredth of
    what chance does to the estimates; where h has corners and rewards are continuous, some per cent above. Else
    only a bound: in each cell the best of what the arms allow.
    """
    s = unpack(memory)
    k = s.n_arms
    refresh(s)
    if s.mode == BINARY:
        low, high = reachable_means(s)
        return h_max(s.h, low, high)
    if tailed(s):
        return most_with_tails(s)
    if not ready(s):
        return np.inf if s.bounded == 0 else all_cells(s)
    if s.metric_shape == CONVEX:
        return most_convex(s)
    ball = s.set_kind == BALL
    if ball and s.bounded == 1:  # W1 balls: by the Hölder pair (infinite without one)
        worst = holder_change(s, largest_of(s.radius)) if s.holder_c > 0.0 else np.inf
        return min(all_cells(s) + worst, span_bound(s.h, s.low, s.high))
    steep = s.lipschitz * largest_of(s.radius) if ball else 0.0
    if s.metric_shape != CONCAVE:
        return all_cells(s) + steep
    far = s.radius.copy()
    kind = POOLED if ball else BOUND
    a = start.copy()  # not the current mixture: the answer is to depend on the rewards alone
    maximise(s, a, np.zeros(k), np.ones(k), kind, far)
    gap = climb(s, a, np.zeros(k), np.ones(k), kind, far, EXACT, np.inf, 1)
    # Between u − e and u + e the slope is not h's own; the gap misses what h does there, at most.
    span = s.high - s.low if s.bounded == 1 else s.x[pool_size(s) - 1] - s.x[0]
    rough = h_max(s.h, 0.0, 2.0 * EXACT) - h_min(s.h, 0.0, 2.0 * EXACT)
    rough += h_max(s.h, 1.0 - 2.0 * EXACT, 1.0) - h_min(s.h, 1.0 - 2.0 * EXACT, 1.0)
    most = bound(s, a, OPTIMISTIC) + gap + span * (rough + 4.0 * EXACT)
    return most if gap <= accuracy(s) else min(most, all_cells(s) + steep)
