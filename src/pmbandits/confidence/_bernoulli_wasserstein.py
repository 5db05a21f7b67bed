"""Intervals of Bernoulli means, and the best and worst value inside a Wasserstein ball, by its dual."""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._golden_section import (
    HI,
    LO,
    argmax_tilted_h,
    golden_section_next_point,
    golden_section_start,
    golden_section_tell,
)
from pmbandits.metrics.encoding import h_value
from pmbandits.state.linking import shared, step

CONCAVE, CONVEX, NEITHER = 1, 2, 3
SHAPES = {"concave": CONCAVE, "linear": CONCAVE, "convex": CONVEX, "neither": NEITHER}


@step("float, float -> float")
def bernoulli_kl_divergence(p: float, q: float) -> float:
    """Bernoulli relative entropy."""
    total = 0.0
    if p > 0.0:
        total += p * math.log(p / q)
    if p < 1.0:
        total += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return total


@step("float, float -> float")
def bernoulli_kl_upper(p: float, level: float) -> float:
    """The largest q with kl(p, q) ≤ level: Newton from the right, where kl is convex and each step stays right."""
    if not level < np.inf or p >= 1.0:
        return 1.0
    if p <= 0.0:
        return -math.expm1(-level)
    q = p + math.sqrt(0.5 * level)  # Pinsker
    q = min(q, 1.0 - (1.0 - p) * math.exp((p * math.log(p) - level) / (1.0 - p)))  # from p·ln(p/q) ≥ p·ln p
    if q >= 1.0:
        q = 1.0 - 1e-16
    for _ in range(60):
        gap = bernoulli_kl_divergence(p, q) - level
        step = gap * q * (1.0 - q) / (q - p) if q > p else 0.0
        if not step > 1e-16 * q:
            break
        q = max(q - step, p)
    return min(q, 1.0)


@step("float, float -> float")
def bernoulli_kl_lower(p: float, level: float) -> float:
    """The smallest q with kl(p, q) ≤ level."""
    return 1.0 - bernoulli_kl_upper(1.0 - p, level)


@shared("floats, float, int, floats, floats, int, float, float, floats, floats -> float")
def _wasserstein_ball_dual_bound(
    h: FloatArray,
    sign: float,
    shape: int,
    curve: FloatArray,
    width: FloatArray,
    cells: int,
    radius: float,
    multiplier: float,
    table: FloatArray,
    envelope: FloatArray,
) -> float:
    """λ·r + Σ width·max_s (sign·h(s) − λ|s − S|): for every λ ≥ 0 a bound on the best value in the ball."""
    total = multiplier * radius
    if shape == CONCAVE:
        low, high = argmax_tilted_h(h, sign, multiplier, 70), argmax_tilted_h(h, sign, -multiplier, 70)
        for k in range(cells):
            s = min(max(curve[k], low), max(high, low))
            total += width[k] * (sign * h_value(h, s) - multiplier * abs(s - curve[k]))
    elif shape == CONVEX:
        at_zero, at_one = sign * h_value(h, 0.0), sign * h_value(h, 1.0)
        for k in range(cells):
            s = curve[k]
            best = max(at_zero - multiplier * s, at_one - multiplier * (1.0 - s))
            total += width[k] * max(best, sign * h_value(h, s))
    else:
        m = table.size
        for j in range(m):
            envelope[j] = sign * h_value(h, table[j])
        for j in range(1, m):
            envelope[j] = max(envelope[j], envelope[j - 1] - multiplier * (table[j] - table[j - 1]))
        for j in range(m - 2, -1, -1):
            envelope[j] = max(envelope[j], envelope[j + 1] - multiplier * (table[j + 1] - table[j]))
        for k in range(cells):
            s = curve[k]
            j = np.searchsorted(table, s)
            j = min(max(j, 1), m - 1)
            best = max(envelope[j - 1] - multiplier * (s - table[j - 1]), envelope[j] - multiplier * (table[j] - s))
            total += width[k] * max(best, sign * h_value(h, s))
    return total


@shared("floats, float, int, floats, floats, int, float, floats, floats -> float")
def wasserstein_ball_max(
    h: FloatArray,
    sign: float,
    shape: int,
    curve: FloatArray,
    width: FloatArray,
    cells: int,
    radius: float,
    table: FloatArray,
    envelope: FloatArray,
) -> float:
    """The largest Σ width·sign·h over curves within W1 distance ``radius``: the least of the dual bounds."""
    span = 0.0
    plain = 0.0
    for k in range(cells):
        span += width[k]
        plain += width[k] * sign * h_value(h, curve[k])
    if sign < 0.0 and shape != NEITHER:
        shape = CONVEX if shape == CONCAVE else CONCAVE
    free = _wasserstein_ball_dual_bound(h, sign, shape, curve, width, cells, 0.0, 0.0, table, envelope)
    if not radius < span:
        return free
    if radius <= 0.0:
        return plain
    multiplier = 1.0
    value = _wasserstein_ball_dual_bound(h, sign, shape, curve, width, cells, radius, multiplier, table, envelope)
    lo, hi = 0.0, 2.0
    while hi < 1e12:  # bracket the minimum of a convex function
        further = _wasserstein_ball_dual_bound(h, sign, shape, curve, width, cells, radius, hi, table, envelope)
        if further >= value:
            break
        lo, multiplier, value, hi = multiplier, hi, further, 2.0 * hi
    best, search = min(free, value), golden_section_start(lo, hi)
    for turn in range(62):
        price = golden_section_next_point(search)
        value = _wasserstein_ball_dual_bound(h, sign, shape, curve, width, cells, radius, price, table, envelope)
        golden_section_tell(search, -value)
        best = min(best, value)
        if turn > 1 and search[HI] - search[LO] <= 1e-12 * search[HI]:
            break
    return best
