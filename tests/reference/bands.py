"""Bands, slowly: relative entropy with logarithms as in the text, and Steck's determinant."""

from __future__ import annotations

import math

import numpy as np


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
