"""Confidence intervals for the mean of bounded rewards that hold at all times, by betting.

Somebody says that the mean is at most m. You bet against it: with each reward x in [0, 1], your money is multiplied by
1 + λ(x − m). If the mean is at most m, your expected money never grows, and by Ville's inequality it reaches 1/δ with
probability at most δ. So if it does, m is excluded (Waudby-Smith and Ramdas 2024). Here the money is spread over
several λ once and for all, in place of λ that follow the rewards: a sum over λ of products does not depend on the order
in which the rewards came, so that it can be worked out from what a policy keeps.

With λ = θ/m, each factor 1 + θ(x − m)/m falls with m. So the excluded m are all those below one number, the lower end.
The upper end is the same for 1 − x.

Many rewards are put together in groups of neighbours. ln(1 + λ(x − m)) is concave in x, so it lies above its chord over
a group: the group counts as if its rewards lay at its two ends, with the same mean. This is on the safe side.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from pmbandits._validation import FloatArray

GROUPS = 96  # groups of neighbouring rewards
STEPS = 11  # steps in which the end is looked for, on the safe side of it
# The bets: shares of the largest one that cannot lose everything, each 1.6 times the next, and how the money is spread.
BETS = 0.95 * 1.6 ** -np.arange(20.0)
SPREAD = np.array([4.0 / ((j + 4.0) * (j + 5.0)) for j in range(BETS.size)])
SPREAD /= SPREAD.sum()


def mean_interval(x: FloatArray, counts: FloatArray, lo: float, hi: float, delta: float) -> tuple[float, float]:
    """An interval that contains the mean of rewards in [lo, hi] at all times with probability 1 − δ.

    Parameters
    ----------
    x, counts : the different rewards, sorted, and how often each came.
    lo, hi : between which numbers rewards lie.
    delta : the probability that the interval ever fails.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = mean_interval(np.array([0.2, 0.3]), np.array([50.0, 50.0]), 0.0, 1.0, 0.05)
    >>> bool(0.2 < low < 0.25 < high < 0.3)
    True
    """
    if not counts.sum() > 0.0:
        return lo, hi
    points, weights, _ = merge_neighbours_keeping_mean((x - lo) / (hi - lo), counts)
    low = _lower_confidence_bound_of_mean(points, weights, 0.5 * delta)
    high = 1.0 - _lower_confidence_bound_of_mean(1.0 - points, weights, 0.5 * delta)
    return lo + low * (hi - lo), lo + high * (hi - lo)


def merge_neighbours_keeping_mean(
    x: FloatArray, counts: FloatArray, tail: float = 0.5
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rewards in groups of neighbours, each moved to the two ends of its group, with the same mean.

    Half of the groups are for the lowest share ``tail`` of the rewards. Returns points, counts, and for each point the
    largest reward of its group.
    """
    seen = counts > 0
    x, counts = np.clip(x[seen], 0.0, 1.0), counts[seen].astype(np.float64)
    if x.size <= 2 * GROUPS:
        return x, counts, x
    rank = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    group = (0.5 * GROUPS * np.interp(rank, (0.0, tail, 1.0), (0.0, 1.0, 2.0))).astype(np.int64)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    last = np.append(first[1:], x.size) - 1
    total = np.add.reduceat(counts, first)
    a, b, mean = x[first], x[last], np.add.reduceat(counts * x, first) / total
    share = np.where(b > a, np.clip((mean - a) / np.maximum(b - a, 1e-300), 0.0, 1.0), 0.0)
    return np.concatenate((a, b)), np.concatenate((total * (1.0 - share), total * share)), np.concatenate((b, b))


def _lower_confidence_bound_of_mean(x: FloatArray, counts: FloatArray, delta: float) -> float:
    """The largest mean that is too small to be believed, up to the steps of the search."""
    n, goal = float(counts.sum()), log(1.0 / delta)
    possible = float(x @ counts) / n
    spread = sqrt(max(float(x**2 @ counts) / n - possible**2, 0.0))
    reach = spread * sqrt(2.0 * (goal + 3.0) / n) + 2.0 * (goal + 3.0) / n  # about twice as far as the end

    def refuted(m: float) -> bool:
        money = np.log1p(np.multiply.outer(BETS, (x - m) / m)) @ counts
        top = float(money.max())
        return top + log(float(SPREAD @ np.exp(money - top))) >= goal

    excluded = possible - 2.0 * reach
    if not (excluded > 0.0 and refuted(excluded)):
        excluded = 0.0
    for _ in range(STEPS):
        m = 0.5 * (excluded + possible)
        if not m > 0.0:
            break
        excluded, possible = (m, possible) if refuted(m) else (excluded, m)
    return excluded
