"""Bands around an empirical distribution, from the relative entropy of coins.

In all of them the true survival S(x), at an x above which k of n rewards lie, is within {q : n·kl(k/n, q) ≤ threshold}.
They differ in the threshold. The page "Bands" of the documentation has statements and proofs.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray

MIN_FAILURE = 1e-8  # a smaller probability is lost in rounding
EXACT_UP_TO = 2000  # rewards up to which Berk and Jones's level is worked out for each n
# Failures of the Berk–Jones band, worked out once with the functions below: for n rewards, c = 2, 2.5, 3, …, the
# negative logarithm of the probability that the band of threshold c fails somewhere, rounded down.
_TABLE_STEP, _TABLE_FIRST = 0.5, 2.0
_TABLE: dict[int, tuple[float, ...]] = {
    5_000: (
        0.1089, 0.2946, 0.5629, 0.8919, 1.2634, 1.6644, 2.086, 2.5222, 2.9689, 3.4233, 3.8835, 4.3482,
        4.8164, 5.2874, 5.7608, 6.2361, 6.7131, 7.1915, 7.6711, 8.1519, 8.6337, 9.1163, 9.5998, 10.084,
        10.568, 11.054, 11.54, 12.027, 12.514, 13.001, 13.489, 13.977, 14.466, 14.955, 15.445, 15.934,
        16.424, 16.915, 17.405, 17.896, 18.387, 18.878, 19.37, 19.861, 20.353,
    ),
    10_000: (
        0.0912, 0.2617, 0.517, 0.8361, 1.2004, 1.5963, 2.0143, 2.4478, 2.8925, 3.3454, 3.8044, 4.2681,
        4.7355, 5.2058, 5.6785, 6.1532, 6.6296, 7.1075, 7.5867, 8.067, 8.5483, 9.0305, 9.5136, 9.9974,
        10.481, 10.967, 11.452, 11.938, 12.425, 12.912, 13.4, 13.888, 14.376, 14.865, 15.354, 15.844,
        16.333, 16.823, 17.314, 17.804, 18.295, 18.786, 19.277, 19.768, 20.259,
    ),
    30_000: (
        0.0691, 0.2178, 0.4535, 0.7575, 1.1109, 1.499, 1.9115, 2.341, 2.7828, 3.2335, 3.6909, 4.1532,
        4.6194, 5.0887, 5.5606, 6.0345, 6.5102, 6.9874, 7.4659, 7.9456, 8.4263, 8.908, 9.3905, 9.8738,
        10.357, 10.842, 11.327, 11.813, 12.299, 12.786, 13.273, 13.761, 14.249, 14.737, 15.226, 15.715,
        16.204, 16.694, 17.184, 17.674, 18.164, 18.655, 19.146, 19.636, 20.129,
    ),
    100_000: (
        0.0511, 0.1788, 0.3947, 0.683, 1.0249, 1.4048, 1.8114, 2.2369, 2.6757, 3.1242, 3.5799, 4.0409,
        4.5061, 4.9745, 5.4455, 5.9188, 6.3938, 6.8704, 7.3484, 7.8275, 8.3078, 8.789, 9.271, 9.7538,
        10.237, 10.721, 11.206, 11.691, 12.177, 12.664, 13.15, 13.638, 14.125, 14.613, 15.102, 15.59,
        16.079, 16.569, 17.058, 17.548, 18.039, 18.528, 19.021, 19.51, 20.003,
    ),
}  # fmt: skip


def kl_interval(k: ArrayLike, n: ArrayLike, threshold: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The two ends of {q : n·kl(k/n, q) ≤ threshold}, by Newton's method, which stays outside of the interval.

    Parameters
    ----------
    k, n : k of n rewards lie above.
    threshold : the right-hand side, for instance ln(2√n/δ) for a proportion at all times.

    Examples
    --------
    >>> low, high = kl_interval([0, 5], 10, 3.0)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.164]), array([0.259, 0.836]))
    """
    above, count, level = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (k, n, threshold)))
    return 1.0 - _kl_interval_upper_ends(count - above, count, level), _kl_interval_upper_ends(above, count, level)


def _kl_interval_upper_ends(k: FloatArray, n: FloatArray, threshold: FloatArray) -> FloatArray:
    """The upper ends. For k < n, kl(k/n, ·) is convex on the right, so that Newton's steps come from the right."""
    p, level = k / n, threshold / n
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(p > 0.0, p * np.log(p), 0.0)
        rest = (1.0 - p) * np.exp((entropy - level) / (1.0 - p))  # from p·ln(p/q) ≥ p·ln p
        q = np.minimum(np.minimum(p + np.sqrt(0.5 * level), 1.0 - rest), 1.0 - 1e-16)
        for _ in range(60):
            gap = np.where(p > 0.0, p * np.log(p / q), 0.0) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)) - level
            step = np.where(q > p, gap * q * (1.0 - q) / (q - p), 0.0)
            if not (step > 1e-15 * q).any():
                break
            q = np.where(step > 0.0, np.maximum(q - step, p), q)
    q = np.where(p == 0.0, -np.expm1(-level), q)
    return np.where((p >= 1.0) | ~(level < np.inf), 1.0, q)


def berk_jones(n: int, level: float) -> tuple[FloatArray, FloatArray]:
    """A confidence band for the distribution of a sample that is looked at only once, after n rewards.

    With probability ``level`` the true survival function lies, for all x at once, between ``lower[k]`` and
    ``upper[k]``, where k is the number of rewards above x. For a continuous distribution the probability is exactly
    this (for up to 2,000 rewards); for others it is larger. Where the survival is near 0 or 1, the band is far narrower
    than that of Dvoretzky, Kiefer and Wolfowitz.

    The band is that of Berk and Jones (1979) and Owen (1995): n·kl(k/n, q) ≤ c, with the same c for all k. The c is
    found from the probability that an empirical distribution crosses two boundaries. Beyond 2,000 rewards c is that of
    the next larger n of a table. This relies on c growing with n; it does as far as it was worked out, but that is not
    proved. Beyond 100,000 rewards, and for a failure below 1e-8, the band is the overlap of two bands that have proofs
    and share the failure. One is the band that holds at all times, the other that of Dvoretzky, Kiefer and Wolfowitz.

    Parameters
    ----------
    n : how many rewards there are. It must be fixed before you look at them.
    level : the probability with which the band holds.

    Returns
    -------
    Two arrays ``lower`` and ``upper``, for k = 0, …, n.

    Examples
    --------
    >>> lower, upper = berk_jones(100, 0.95)
    >>> lower[50].round(3), upper[50].round(3), upper[0].round(3)
    (np.float64(0.34), np.float64(0.66), np.float64(0.052))
    """
    n = _validation.check_whole_number("n", n, 1)
    level = _validation.check_within("level", level, 0.0, 1.0, open_lo=True, open_hi=True)
    k = np.arange(n + 1.0)
    if n <= max(_TABLE) and 1.0 - level > MIN_FAILURE:
        return kl_interval(k, n, berk_jones_threshold(n, level))
    half = 0.5 * (1.0 - level)
    lower, upper = kl_interval(k, n, anytime_threshold(n, half))
    lower, upper = widen_band_where_unproven(k / n, lower, upper)
    even = sqrt(log(2.0 / half) / (2.0 * n))
    return np.maximum(lower, np.maximum(k / n - even, 0.0)), np.minimum(upper, np.minimum(k / n + even, 1.0))


def anytime_threshold(n: ArrayLike, delta: float) -> Any:
    """β_n of the band that holds at all times: the root of e^β = 1 + (4πn/δ)·√β, from above.

    >>> round(float(anytime_threshold(1000, 0.05)), 2)
    13.74
    """
    slope = 4.0 * pi * np.asarray(n, dtype=np.float64) / delta
    threshold = 2.0 * np.log(slope) + 2.0
    for _ in range(12):
        threshold = np.log1p(slope * np.sqrt(threshold))
    return threshold


def widen_band_where_unproven(p: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends of the band at all times: where they are further from p than its proof reaches, 0 and 1."""
    return np.where(lower > 0.25 * p, lower, 0.0), np.where(upper < 0.25 * (3.0 + p), upper, 1.0)


@lru_cache(maxsize=4096)
def berk_jones_threshold(n: int, level: float) -> float:
    """c: the band of :func:`berk_jones` is n·kl(k/n, q) ≤ c."""
    goal = -log(1.0 - level)
    if n > EXACT_UP_TO:
        return _interpolated_threshold(n, goal)
    lo, hi = 0.0, 4.0
    while _neg_log_failure_probability(n, hi) < goal:
        lo, hi = hi, 2.0 * hi
    below, above = _neg_log_failure_probability(n, lo), _neg_log_failure_probability(n, hi)
    while hi - lo > 1e-5 * hi:  # regula falsi, with a step of bisection whenever an end lags behind
        share = min(max((goal - below) / (above - below), 0.01), 0.99)
        middle = lo + (share if hi - lo < 0.5 else 0.5) * (hi - lo)
        for c in (middle, middle + 2e-6 * hi if middle + 2e-6 * hi < hi else middle):
            value = _neg_log_failure_probability(n, c)
            if value < goal:
                lo, below = c, value
            else:
                hi, above = c, value
                break
    return hi


def _interpolated_threshold(n: int, goal: float) -> float:
    """The threshold from values of the next larger n. They are convex, so a line through two neighbours lies below."""
    values = np.array(_TABLE[min(size for size in _TABLE if size >= n)])
    depths = _TABLE_FIRST + _TABLE_STEP * np.arange(values.size)
    at = int(np.searchsorted(values, goal))
    if at < 2:
        return float(depths[at])
    line = depths[at - 1] + _TABLE_STEP * (goal - values[at - 1]) / (values[at - 1] - values[at - 2])
    return float(min(line, depths[at]))


def _neg_log_failure_probability(n: int, threshold: float) -> float:
    """−ln(probability that the band of this threshold fails), for n uniform rewards."""
    if threshold <= 0.0:
        return 0.0
    return -log(max(1.0 - berk_jones_coverage(n, threshold), 1e-300))


def berk_jones_coverage(n: int, threshold: float) -> float:
    """The probability that a continuous distribution stays in the band n·kl(k/n, q) ≤ threshold, for a sample of n.

    With U₍ᵢ₎ the sorted uniform ranks it is P(aᵢ ≤ U₍ᵢ₎ ≤ bᵢ for all i). A Poisson process of rate n that has n points
    in [0, 1] is such a sample: its count is carried from boundary to boundary, and what crossed is dropped
    (Moscovich and Nadler, 2017). Terms that are left out only lower the answer.
    """
    k = np.arange(n + 1.0)
    lower, upper = kl_interval(k, n, threshold)
    # Before a = lower[i] at most i − 1 points (side 0); at b = upper[i − 1] at least i points (side 1).
    times = np.concatenate((lower[1:], upper[:-1]))
    limits = np.concatenate((np.arange(n), np.arange(1, n + 1)))
    sides = np.repeat((0, 1), n)
    order = np.lexsort((sides, times))
    first, state, now = 0, np.ones(1), 0.0  # state[j]: the count is first + j, and nothing has crossed
    for at in order:
        time, limit = float(times[at]), int(limits[at])
        if time > now:
            mean = n * (time - now)
            state = np.convolve(state, _poisson_probabilities(mean))
            now = time
        if sides[at] == 0:
            state = state[: max(limit - first + 1, 0)]
        elif limit > first:
            state, first = state[limit - first :], limit
        if state.size == 0:
            return 0.0
    if now < 1.0:
        state = np.convolve(state, _poisson_probabilities(n * (1.0 - now)))
    inside = state[n - first] if 0 <= n - first < state.size else 0.0
    # Divided by the probability of n points: n!·eⁿ/nⁿ, by Stirling's series where the logarithms would lose digits.
    many = 0.5 * log(2.0 * pi * n) + 1.0 / (12.0 * n) - 1.0 / (360.0 * n**3)
    return float(min(inside * exp(n - n * log(n) + lgamma(n + 1.0) if n < 100 else many), 1.0))


def _poisson_probabilities(mean: float) -> FloatArray:
    """The probabilities of a Poisson distribution, up to where they no longer count."""
    top = int(mean + 10.0 * sqrt(mean) + 16.0)
    m = np.arange(1.0, top + 1.0)
    return np.exp(np.concatenate(((0.0,), np.cumsum(np.log(mean / m)))) - mean)
