"""Bands, slowly: relative entropy with logarithms as in the text, and Steck's determinant."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq


def kl(p: float, q: float) -> float:
    """Bernoulli relative entropy."""
    total = 0.0
    if p > 0:
        total += p * math.log(p / q)
    if p < 1:
        total += (1 - p) * (math.log1p(-p) - math.log1p(-q))
    return total


def steck(a, b) -> float:
    """P(aᵢ ≤ U₍ᵢ₎ ≤ bᵢ for all i) of n sorted uniform numbers (Steck, 1971): n!·det((bᵢ − aⱼ)₊^(j−i+1)/(j−i+1)!)."""
    n = len(a)
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            m = j - i + 1
            if m == 0:
                matrix[i, j] = 1.0
            elif m > 0:
                matrix[i, j] = max(b[i] - a[j], 0.0) ** m / math.factorial(m)
    return math.factorial(n) * float(np.linalg.det(matrix))


def depth_everywhere(n: int, delta: float) -> float:
    """β_n: the root of e^β = 1 + (4πn/δ)·√β."""
    slope = math.log(4 * math.pi * n / delta)

    def gap(b: float) -> float:
        return b + math.log1p(-math.exp(-b)) - 0.5 * math.log(b) - slope

    return float(brentq(gap, 1e-3, 2 * slope + 10, xtol=1e-14, rtol=1e-15))


def upper_ends(k: np.ndarray, n: int, depth: float, stretched: bool) -> np.ndarray:
    """Upper ends by bisection in ln(1 − q): n·kl(k/n, q) = depth, plus ½·ln(r/4)/(1 − 1/(2·depth)) where r > 4."""
    k = np.asarray(k, dtype=float)
    p, rest = k / n, (n - k) / n
    out = np.ones(k.shape)
    inner = k < n
    p, rest = p[inner], rest[inner]
    half = 0.5 / (1 - 0.5 / depth) if stretched else 0.0

    def allowed(y: np.ndarray) -> np.ndarray:
        """Whether q = 1 − rest·e^y is inside."""
        left = rest * np.exp(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            ones = np.where(p > 0, p * np.log(p / (1 - left)), 0.0)
        return n * (ones - rest * y) - half * np.maximum(-y - math.log(4), 0.0) <= depth

    low, high = np.full(p.shape, -4 * depth - 10), np.zeros(p.shape)
    for _ in range(80):
        middle = (low + high) / 2
        inside = allowed(middle)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    out[inner] = 1 - rest * np.exp(high)
    return out


def belt(n: int, depth: float, stretched: bool, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Both ends for k = 0, …, n as the library has them: exact near the ends, and between them the formula with one
    square root, cut off by the tangents where the exact ends begin."""
    k = np.arange(n + 1)
    upper = upper_ends(k, n, depth, stretched)
    if n > 2 * side:
        p, r = k / n, depth / n
        shift, g = 2 * r / 3 * (1 - 2 * p), 1 + 8 * r / 9
        formula = p + (shift + np.sqrt(shift**2 + 2 * r * p * (1 - p) * g)) / g
        for j in (side, n - side):
            at, q = j / n, upper[j]
            slope = math.log(q * (1 - at) / (at * (1 - q))) * q * (1 - q) / (q - at)
            formula = np.minimum(formula, q + slope * (p - at))
        if stretched:
            formula = np.where(1 - formula < (1 - p) / 4, 1.0, formula)
        upper[side + 1 : n - side] = formula[side + 1 : n - side]
    return 1 - upper[::-1], upper
