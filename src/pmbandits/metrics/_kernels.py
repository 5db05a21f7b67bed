"""h inside compiled code: a distortion as one packed array, and its values and extrema on intervals.

The families' formulas stand once more here, as scalars; a test compares them with :mod:`families` everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.custom import Custom
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, warped_grid
from pmbandits.metrics.registry import FAMILIES
from pmbandits.state.compile import kernel

TABLE = -1.0  # the code of a tabulated term
CODES = {cls.name: float(k) for k, cls in enumerate(FAMILIES)}
# Packed: [terms, extrema, table length, whether one peak is all], then 4 numbers a term, 2 an extremum or table point.


def pack(metric: Distortion) -> FloatArray:
    """A distortion as one array of numbers for compiled code. User functions become a table of h.

    The table is refined until h is linear between its points to 1e-8 of max|h| (steps of h: to 1e-12 in u).
    """
    terms: list[list[float]] = []
    custom = [(c, d) for c, d in metric.terms if isinstance(d, Custom)]
    for c, d in metric.terms:
        if not isinstance(d, Custom):
            values = [float(v) for v in d.parameters.values()]
            terms.append([CODES[d.name], c, *values, *([0.0] * (2 - len(values)))])
    table = np.zeros((0, 2))
    if custom:
        table = _tabulate(lambda u: sum((c * d._h(u) for c, d in custom), np.zeros_like(u)))
        terms.append([TABLE, 1.0, 0.0, 0.0])
    places = sorted(set(metric._critical()))
    extrema = [[u, float(metric(u))] for u in places]
    peak = float(metric.shape == "concave" and len(extrema) == 1 and extrema[0][1] >= metric.maximum().value)
    head = [float(len(terms)), float(len(extrema)), float(table.shape[0]), peak]
    parts = [np.array(head), *(np.array(p, dtype=np.float64).ravel() for p in (terms, extrema, table))]
    return np.ascontiguousarray(np.concatenate(parts))


def _tabulate(h: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """(u, h(u)) with points added where a straight line between neighbours misses h."""
    u = warped_grid(2049)
    with np.errstate(all="ignore"):
        y = h(u)
        for _ in range(45):
            middle = 0.5 * (u[:-1] + u[1:])
            between = h(middle)
            miss = np.abs(between - 0.5 * (y[:-1] + y[1:])) > 1e-8 * max(float(np.abs(y).max()), 1e-300)
            miss &= np.diff(u) > 1e-12 * np.maximum(u[1:], 1e-12)
            if not miss.any() or u.size > 200_000:
                break
            order = np.argsort(np.concatenate((u, middle[miss])), kind="stable")
            u = np.concatenate((u, middle[miss]))[order]
            y = np.concatenate((y, between[miss]))[order]
    return np.column_stack((u, y))


@kernel
def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@kernel
def normal_quantile(p):
    """Wichura's AS241 (PPND16), relative accuracy 1e-16."""
    if p <= 0.0:
        return -np.inf
    if p >= 1.0:
        return np.inf
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num = (
            (
                (
                    (
                        ((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
                        + 45921.953931549871457
                    )
                    * r
                    + 13731.693765509461125
                )
                * r
                + 1971.5909503065514427
            )
            * r
            + 133.14166789178437745
        ) * r + 3.387132872796366608
        den = (
            (
                (
                    (
                        ((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
                        + 21213.794301586595867
                    )
                    * r
                    + 5394.1960214247511077
                )
                * r
                + 687.1870074920579083
            )
            * r
            + 42.313330701600911252
        ) * r + 1.0
        return q * num / den
    r = p if q < 0.0 else 1.0 - p
    r = math.sqrt(-math.log(r))
    if r <= 5.0:
        r -= 1.6
        num = (
            (
                (
                    (
                        ((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r
                        + 1.27045825245236838258
                    )
                    * r
                    + 3.64784832476320460504
                )
                * r
                + 5.7694972214606914055
            )
            * r
            + 4.6303378461565452959
        ) * r + 1.42343711074968357734
        den = (
            (
                (
                    (
                        ((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r
                        + 0.14810397642748007459
                    )
                    * r
                    + 0.68976733498510000455
                )
                * r
                + 1.6763848301838038494
            )
            * r
            + 2.05319162663775882187
        ) * r + 1.0
    else:
        r -= 5.0
        num = (
            (
                (
                    (
                        ((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r
                        + 0.026532189526576123093
                    )
                    * r
                    + 0.29656057182850489123
                )
                * r
                + 1.7848265399172913358
            )
            * r
            + 5.4637849111641143699
        ) * r + 6.6579046435011037772
        den = (
            (
                (
                    (
                        ((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r
                        + 7.868691311456132591e-4
                    )
                    * r
                    + 0.0148753612908506148525
                )
                * r
                + 0.13692988092273580531
            )
            * r
            + 0.59983220655588793769
        ) * r + 1.0
    return -num / den if q < 0.0 else num / den


@kernel
def _one_term(code, a, b, u):
    if code == 0:  # mean
        return u
    if code == 1:  # dual power
        return -math.expm1(a * math.log1p(-u)) if u < 1.0 else 1.0
    if code == 2:  # quadratic
        return u * (1.0 + a * (1.0 - u))
    if code == 3:  # cvar
        return min(u / (1.0 - a), 1.0)
    if code == 4:  # pht
        return u**a
    if code == 5:  # mean–median deviation
        return min(u, 1.0 - u)
    if code == 6:  # inter-ES range
        return min(u / (1.0 - a), 1.0) - max(u - a, 0.0) / (1.0 - a)
    if code == 7:  # Wang right-tail
        root = math.sqrt(u)
        return root * (1.0 - root)
    if code == 8:  # Gini
        return u * (1.0 - u)
    if code == 9:  # VaR
        return 1.0 if u - (1.0 - a) > JUMP_TOLERANCE else 0.0
    if code == 10:  # lower CVaR
        return max(u - (1.0 - a), 0.0) / a
    if code == 11:  # Gini shortfall
        w = min(u / (1.0 - a), 1.0)
        return w * (1.0 + 2.0 * b * (1.0 - w))
    if code == 12:  # inter-quantile range
        above = u - (1.0 - b) > JUMP_TOLERANCE
        return 1.0 if above and not (u - (1.0 - a) > JUMP_TOLERANCE) else 0.0
    if code == 13:  # inverted S
        if u <= 0.0:
            return 0.0
        return math.exp(-((-math.log(u)) ** a)) if u < 1.0 else 1.0
    if code == 14:  # Tsallis past entropy
        v = 1.0 - u
        if v <= 0.0:
            return 0.0
        if a == 1.0:
            return -v * math.log1p(-u)
        return -v * math.expm1((a - 1.0) * math.log1p(-u)) / (a - 1.0)
    if code == 15:  # Wang transform
        return normal_cdf(normal_quantile(u) + a)
    # Tversky–Kahneman
    top = u**a
    return top * (top + (1.0 - u) ** a) ** (-1.0 / a)


@kernel
def _from_table(h, start, length, u):
    lo, hi = 0, length - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if h[start + 2 * middle] <= u:
            lo = middle
        else:
            hi = middle
    x0, x1 = h[start + 2 * lo], h[start + 2 * hi]
    share = (u - x0) / (x1 - x0)
    return (1.0 - share) * h[start + 2 * lo + 1] + share * h[start + 2 * hi + 1]


@kernel
def h_value(h, u):
    """h(u) of a packed distortion."""
    u = min(max(u, 0.0), 1.0)
    if h[0] == 1.0 and h[4] == 8.0:  # the Gini deviation alone: the common case, without the switch
        return h[5] * (u * (1.0 - u))
    total = 0.0
    for k in range(int(h[0])):
        at = 4 + 4 * k
        if h[at] == -1.0:
            start = 4 + 4 * int(h[0]) + 2 * int(h[1])
            total += _from_table(h, start, int(h[2]), u)
        else:
            total += h[at + 1] * _one_term(int(h[at]), h[at + 2], h[at + 3], u)
    return total


@kernel
def h_max(h, lo, hi):
    """Maximum of h over [lo, hi] ∩ [0, 1]: the ends and the local extrema between them."""
    lo = min(max(lo, 0.0), 1.0)
    hi = min(max(hi, lo), 1.0)
    at = 4 + 4 * int(h[0])
    if h[3] == 1.0:  # concave with one peak: it, or the end that is nearer to it
        if hi <= h[at]:
            return h_value(h, hi)
        return h_value(h, lo) if lo >= h[at] else h[at + 1]
    best = max(h_value(h, lo), h_value(h, hi))
    for k in range(int(h[1])):
        if lo < h[at + 2 * k] < hi and h[at + 2 * k + 1] > best:
            best = h[at + 2 * k + 1]
    return best


@kernel
def h_min(h, lo, hi):
    """Minimum of h over [lo, hi] ∩ [0, 1]."""
    lo = min(max(lo, 0.0), 1.0)
    hi = min(max(hi, lo), 1.0)
    at = 4 + 4 * int(h[0])
    best = min(h_value(h, lo), h_value(h, hi))
    if h[3] == 1.0:
        return best
    for k in range(int(h[1])):
        if lo < h[at + 2 * k] < hi and h[at + 2 * k + 1] < best:
            best = h[at + 2 * k + 1]
    return best
