"""Bounds by betting for metrics with one corner: lower CVaR, −(upper CVaR), and their sums with the mean.

Rewards x lie in [0, 1], and h(u) = a·u + (b − a)·(u − u₀)⁺ with 0 ≤ a < b. Such a utility is a largest mean:
U = max over q of E f_q(X), with f_q(x) = a·x + (b − a)·(min(x, q) − u₀·q). The q that reaches it is a quantile.

- *From below.* Each E f_q is at most U, and bets bound it from below (``betting``). The money is spread over a grid of
  q that is fixed beforehand, so that all of these bounds hold together.
- *From above.* U = E f_q for one fixed q that nobody knows. So a value is excluded if the bets against it win for
  *every* q, and no money has to be spread over q. All q of a cell are refuted together: see ``docs/bands.md``.

A metric with a < b ≤ 0 is one of this kind for 1 − x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any, NamedTuple, Self

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence.betting import BETS, SPREAD, merge_neighbours_keeping_mean
from pmbandits.metrics import Distortion

# The grids of q over which money is spread: their steps are 2^-level. And the share of the money for each of them. The
# rest of it goes to a grid for q near 0, with 16 points in each octave.
_LEVELS = {4: 0.2, 6: 0.3, 8: 0.15, 10: 0.08, 12: 0.07}
_OCTAVES = 1.0 - sum(_LEVELS.values())
_NEAR = 3  # points of each grid that are looked at on each side of the quantile
_LOWER_STEPS = 12  # steps in which a lower end is looked for, on the safe side of it
_NEAREST = 1e-7  # the smallest gap between an estimate and an end, as a share of the estimate or of the range
_USED_BETS = 5  # bets that are looked at: those next to the best one; others win next to nothing
_EDGES = (0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 2.0, 4.0)  # of the first cells, as multiples of the tail's share
_WIDER = 0.01  # the share by which the upper end is moved out where a cell of q is not refuted
_PATIENCE = 5  # so often cells are halved before it is moved out for that alone
_PASSES = 200
_TRIED, _SEARCHES = 16, 3  # values that are tried at once in order to find the one at which bets just win; how often


class Corner(NamedTuple):
    """A metric whose h has the slope a up to a corner and b beyond it, with 0 ≤ a < b.

    Attributes
    ----------
    a, b, place : the slopes before and after the corner, and the u at which it is.
    mirrored : whether this is h for 1 − x in place of x.
    total : h(1) of the metric itself.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> Corner.of_metric(pmb.LowerCVaR(0.25))
    Corner(a=0.0, b=4.0, place=0.75, mirrored=False, total=1.0)
    """

    a: float
    b: float
    place: float
    mirrored: bool
    total: float

    @classmethod
    def of_metric(cls, metric: Distortion) -> Self | None:
        """The corner of a convex metric of two straight pieces that only rises or only falls; None for others."""
        if metric.shape != "convex" or not metric._is_piecewise_linear or metric.jumps or len(metric.kinks) != 1:
            return None
        ((place, _),) = metric.kinks
        total, at_corner = float(metric(1.0)), float(metric(place))
        a, b = at_corner / place, (total - at_corner) / (1.0 - place)
        a, b = (0.0 if abs(slope) < 1e-12 * max(abs(a), abs(b)) else slope for slope in (a, b))
        if a >= 0.0:
            return cls(a, b, place, False, total)
        return cls(-b, -a, 1.0 - place, True, total) if b <= 0.0 else None

    @property
    def largest(self) -> float:
        """The utility of a reward that is always 1."""
        return self.a + (self.b - self.a) * (1.0 - self.place)

    def utility_and_quantile(self, x: FloatArray, weights: FloatArray) -> tuple[float, float]:
        """U of the distribution with these weights at sorted points, and the q that reaches it."""
        below = np.cumsum(weights)
        at = int(np.searchsorted(below, (1.0 - self.place) * below[-1] * (1.0 - 1e-12)))
        q, share = float(x[min(at, x.size - 1)]), weights / below[-1]
        # sums, because products of vectors would wake the threads of BLAS
        tail = float((np.minimum(x, q) * share).sum()) - self.place * q
        return self.a * float((x * share).sum()) + (self.b - self.a) * tail, q


class RewardGroups(NamedTuple):
    """Rewards of one arm in [0, 1], of which neighbours may be put together.

    Attributes
    ----------
    x, counts : points, and how many rewards count as lying there.
    top : the largest reward of each point's group.
    """

    x: FloatArray
    counts: FloatArray
    top: FloatArray


def group_rewards(x: FloatArray, counts: FloatArray, corner: Corner) -> RewardGroups:
    """Sorted rewards in groups of neighbours, half of the groups for the tail that counts and a little more."""
    return RewardGroups(*merge_neighbours_keeping_mean(x, counts, min(1.5 * (1.0 - corner.place), 0.5)))


def cvar_lower_bound(
    arms: Sequence[RewardGroups],
    mix: FloatArray,
    corner: Corner,
    quantile: float,
    delta: float,
    atoms: FloatArray | None = None,
) -> float:
    """A lower bound of U of a mixture that holds at all times, for each arm with probability 1 − δ/2.

    Parameters
    ----------
    arms, mix : the rewards of the arms of the mixture, and their weights, which are positive.
    corner : the metric.
    quantile : the q near which the bound is looked for.
    delta : twice the probability that the bound of one arm ever fails.
    atoms : the only values that rewards can have, if they are known; the money is then spread over them.
    """
    q, log_share = _grid_near(quantile, atoms)
    fixed, goal = (corner.b - corner.a) * corner.place * q, log(2.0 / delta)
    if min(arm.counts.sum() for arm in arms) == 0.0:
        return 0.0
    payments = [corner.a * arm.x + (corner.b - corner.a) * np.minimum(arm.x, q[:, None]) for arm in arms]
    if len(arms) == 1:  # one number is refuted by the money of all q together
        (arm,), (y,) = arms, payments
        possible = np.maximum((y @ arm.counts / arm.counts.sum() - fixed).max(keepdims=True), 0.0)
        found = _largest_refuted(
            possible, lambda m: np.logaddexp.reduce(_log_money(y, arm.counts, m + fixed) + log_share) >= goal
        )
        return float(found[0])
    total = -fixed
    for arm, y, weight in zip(arms, payments, mix, strict=True):
        total = total + weight * _lower_bounds_of_means(y, arm.counts, goal - log_share)
    return max(float(total.max()), 0.0)


def _lower_bounds_of_means(y: FloatArray, counts: FloatArray, goals: FloatArray) -> FloatArray:
    """For each row of payments, the largest mean against which bets have won as much as its goal."""
    return _largest_refuted(y @ counts / counts.sum(), lambda m: _log_money(y, counts, m) >= goals)


def _largest_refuted(possible: FloatArray, refuted: Callable[[FloatArray], Any]) -> FloatArray:
    """The largest numbers below the given ones that are refuted, or a little less; 0 if none is."""
    near, far = np.full(possible.shape, _NEAREST), np.ones(possible.shape)
    for _ in range(_LOWER_STEPS):
        gap = np.sqrt(near * far)
        outside = refuted(possible * (1.0 - gap))
        near, far = np.where(outside, near, gap), np.where(outside, gap, far)
    return possible * (1.0 - far)


def _grid_near(quantile: float, atoms: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """The q of all grids that are next to a quantile, and the logarithms of their shares of the money."""
    if atoms is not None:
        at = int(np.searchsorted(atoms, quantile))
        near = atoms[max(at - _NEAR, 0) : at + _NEAR]
        return near, np.full(near.size, -log(atoms.size))
    grids = [(2.0**-level, share * 2.0**-level, 1, 2**level) for level, share in _LEVELS.items()]
    if quantile > 0.0:
        octave = max(int(np.ceil(-np.log2(quantile))), 1)  # from this power of ½ to twice as much
        grids.append((2.0**-octave / 16, _OCTAVES / (16 * octave * (octave + 1)), 17, 32))
    places, shares = [], []
    for width, share, first, last in grids:
        k = np.floor(quantile / width) + np.arange(1 - _NEAR, 1 + _NEAR)
        k = k[(k >= first) & (k <= last)]
        places.append(k * width)
        shares.append(np.full(k.size, log(share)))
    return np.concatenate(places), np.concatenate(shares)


def _log_money(y: FloatArray, counts: FloatArray, mean: FloatArray) -> FloatArray:
    """For each row of payments, the logarithm of what bets against a mean of at most ``mean`` have won."""
    mean = np.maximum(mean, 1e-300)
    bets, shares = _best_bets(y, counts, mean)
    money = np.log1p(bets * (y / mean[:, None] - 1.0)[:, None, :]) @ counts + shares
    out: FloatArray = np.logaddexp.reduce(money, axis=1)
    return out


def cvar_upper_bound(arm: RewardGroups, corner: Corner, delta: float, at_least: float = 0.0) -> float:
    """An upper bound of an arm's U that holds at all times with probability 1 − δ/2: every q is refuted beyond it.

    Smaller bounds than ``at_least`` are not looked for.
    """
    if arm.counts.sum() == 0.0:
        return corner.largest
    order = np.argsort(arm.top, kind="stable")
    top, below = arm.top[order], np.cumsum(arm.counts[order])
    seen, q = corner.utility_and_quantile(arm.x[order], arm.counts[order])
    ranks = np.searchsorted(below, np.array(_EDGES) * ((1.0 - corner.place) * below[-1]))
    edges = np.unique(np.concatenate(([0.0, q, 1.0, top[0]], top[ranks[ranks < top.size]])))
    lo, hi, goal = edges[:-1], edges[1:], log(2.0 / delta)
    m = _value_refuted_at(arm, corner, q, goal, max(seen, at_least))
    for passes in range(_PASSES):
        left = _log_money_in_cells(arm, corner, m, lo, hi) < goal
        lo, hi = lo[left], hi[left]
        if lo.size == 0:
            return m
        middle = 0.5 * (lo + hi)
        money = _log_money_in_cells(arm, corner, m, middle, middle)
        halved = money >= goal
        if not halved.all():
            m = _value_refuted_at(arm, corner, float(middle[np.argmin(money)]), goal, m)
        if not halved.all() or passes > _PATIENCE:
            m += _WIDER * (m - seen) + _NEAREST * corner.largest
        if not m < corner.largest:
            break
        lo = np.concatenate((lo, middle[halved]))
        hi = np.concatenate((np.where(halved, middle, hi), hi[halved]))
    return corner.largest


def _value_refuted_at(arm: RewardGroups, corner: Corner, q: float, goal: float, least: float) -> float:
    """The smallest value of U from ``least`` on that is refuted if this q is the right one, or a little more."""
    low, high = least, min(corner.largest, corner.a + (corner.b - corner.a) * (1.0 - corner.place) * q)
    at = np.full(_TRIED, q)
    for search in range(_SEARCHES):
        if not low < high:
            return least
        steps = np.linspace(0.0, 1.0, _TRIED)
        if search == 0:
            steps[1:] = np.geomspace(_NEAREST, 1.0, _TRIED - 1)
        tried = low + (high - low) * steps
        refuted = _log_money_in_cells(arm, corner, tried, at, at) >= goal
        first = int(np.argmax(refuted)) if refuted.any() else _TRIED - 1
        if first == 0:
            return low
        low, high = float(tried[first - 1]), float(tried[first])
    return high


def _log_money_in_cells(
    arm: RewardGroups, corner: Corner, m: float | FloatArray, lo: FloatArray, hi: FloatArray
) -> FloatArray:
    """For each cell of q, a lower bound of the logarithm of what bets against U ≥ m have won, whichever q is right."""
    n, slope = float(arm.counts.sum()), corner.b - corner.a
    tail = arm.top <= lo[:, None]  # payments of these rewards grow with q; those of others do not fall
    pay = corner.a * (1.0 - arm.x) + slope * np.where(tail, lo[:, None] - arm.x, 0.0)
    last = corner.a + slope * (1.0 - corner.place) * hi - m  # the mean that is refuted, at the end of the cell
    mean_at_end = np.maximum(last, 1e-300)
    first = last - slope * (1.0 - corner.place) * (hi - lo)
    simple = first <= 0.0  # then with the payments at one end, and the mean at the other
    first = np.where(simple, mean_at_end, first)
    growth = slope * np.where(simple, 0.0, hi - lo)[:, None] * tail
    middle, half = 0.5 * (first + mean_at_end), 0.5 * (mean_at_end - first)
    bets, shares = _best_bets(pay + 0.5 * growth, arm.counts, middle)
    safe, pay, growth = 1.0 - bets, bets * pay[:, None, :], bets * growth[:, None, :]
    outside = np.where(tail[:, None, :], 0.0, safe / (safe * middle[:, None, None] + pay)) @ arm.counts
    ends = []
    for end, paid, side in ((first, pay, -half), (mean_at_end, pay + growth, half)):
        mean = np.where(tail, end[:, None], middle[:, None])[:, None, :]
        tangent = side[:, None] * outside - n * (np.log(middle) + side / middle)[:, None]
        ends.append(np.log(safe * mean + paid) @ arm.counts + tangent)
        if not half.any():
            break
    out: FloatArray = np.logaddexp.reduce(np.minimum(ends[0], ends[-1]) + shares, axis=1)
    return np.where(last <= 0.0, np.inf, out)


def _best_bets(payments: FloatArray, counts: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each row of payments, the bets next to the best one, and the logarithms of their shares of the money."""
    n = float(counts.sum())
    average, square = payments @ counts / n, payments**2 @ counts / n
    best = (average - mean) * average / np.maximum(square - mean * average, 1e-300)  # if they are 0 or one number
    best = np.log(BETS[0] / np.clip(best, BETS[-1], BETS[0])) / log(BETS[0] / BETS[1])
    first = np.clip(np.rint(best).astype(np.int64) - _USED_BETS // 2, 0, BETS.size - _USED_BETS)
    near = first[:, None] + np.arange(_USED_BETS)
    return BETS[near][:, :, None], np.log(SPREAD[near])
