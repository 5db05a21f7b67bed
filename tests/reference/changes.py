"""Looking for a change in a stream, slowly, by the text of ``estimates/change_detector.py``: all moments, all sets."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import rel_entr
from scipy.stats import betabinom

Set = Callable[[np.ndarray], np.ndarray]
RANKS = [1, 2, 4, 8, 13, 19, 26, 32, 39, 46, 52, 57, 61, 63, 64]


def sets_of(v: np.ndarray) -> list[Set]:
    """All sets of some thresholds: above each, from each on, and outside of intervals around the middle.

    An interval is closed or open: (v_c, v_{m+1−c}) loses its ends to the outside, [v_c, v_{m+1-c}] keeps them.
    """
    out: list[Set] = []
    m = v.size
    for threshold in v:
        out += [lambda x, a=threshold: x > a, lambda x, a=threshold: x >= a]
    for c in range(m):  # the c + 1 outermost cells at each end; cells are points and the open intervals between them
        a, b = v[c // 2], v[m - 1 - c // 2]
        if c % 2 == 0:
            out.append(lambda x, a=a, b=b: (x < a) | (x > b))
        else:
            out.append(lambda x, a=a, b=b: (x <= a) | (x >= b))
    return out


def weight_of_moment(j: int) -> float:
    u = j.bit_length() - 1
    return 1.0 / ((u + 1) * (u + 2) * 2**u)


def kl(p: float, q: float) -> float:
    return float(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))


def evidence(x: np.ndarray, start: int, known: list[float] | None = None) -> tuple[float, float]:
    """The largest G of all sets for a change at ``start``, and what it must exceed besides ln(1/level)."""
    first = 0 if known is not None else 64
    v = np.array(known) if known is not None else np.unique(np.sort(x[:64])[np.array(RANKS) - 1])
    before, after = x[first:start], x[start:]
    n1, n2 = before.size, after.size
    best = 0.0
    for member in sets_of(v):
        p1, p2 = float(member(before).mean()), float(member(after).mean())
        p = (n1 * p1 + n2 * p2) / (n1 + n2)
        if 0.0 < p < 1.0:
            best = max(best, n1 * kl(p1, p) + n2 * kl(p2, p))
    weight = 0.9 * weight_of_moment((start - first) // 8) / (3 * v.size)
    return best, math.log(1.0 / weight) + 0.5 * math.log(n1 * n2) + math.log(4.0)


def early_evidence(x: np.ndarray) -> float:
    """The largest evidence that rewards after the first 64 do not fit to the ranks of these, with the price taken off.

    The probability of k of n by an urn with a and b balls is that of the beta-binomial distribution.
    """
    first, later = np.sort(x[:64]), x[64:]
    n, best = later.size, -math.inf
    for v in np.unique(first[np.array(RANKS) - 1]):
        for a, k in (
            (int((first < v).sum()) + 1, int((later < v).sum())),
            (int((first > v).sum()) + 1, int((later > v).sum())),
        ):
            if k * 65 > n * a:
                urn = betabinom(n, a, 65 - a).logpmf(k)
                best = max(best, *(float(betabinom(n, s * a, 65 - a).logpmf(k) - urn) - math.log(2.0) for s in (4, 64)))
    return best - math.log(128.0 / 0.1)


def alarm(x: np.ndarray, level: float, known: list[float] | None = None) -> int | None:
    """After how many rewards an alarm is raised, if all moments are kept and looked at after every eighth reward."""
    first = 0 if known is not None else 64
    for n in range(first + 8, x.size + 1, 8):
        if known is None and early_evidence(x[:n]) >= math.log(1.0 / level):
            return n
        for start in range(first + 8, n, 8):
            g, price = evidence(x[:n], start, known)
            if g >= math.log(1.0 / level) + price:
                return n
    return None
