"""Slow references of UC-Frank-Wolfe and Mixture-UCB: every number anew from the lists of rewards, by the rules.

Nothing of the package's policies, kernels or random numbers is used. Metrics are called for h(u) only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Rewards = Sequence[Sequence[float]]


def chord(h: Any, u: float, e: float) -> float:
    """The slope of h between u − e and u + e, inside [0, 1]."""
    lo, hi = max(u - e, 0.0), min(u + e, 1.0)
    return float((h(hi) - h(lo)) / (hi - lo))


def phi(h: Any, rewards: Rewards, a: Any, e: float, ends: Sequence[float]) -> dict[float, float]:
    """Φ at every reward and at the given ends of the support: ∫ of the chord of h at the mixture's survival.

    Between two neighbours the survival is the mixture's probability of a larger number.
    """
    places = sorted({*ends, *(r for x in rewards for r in x)})
    out = {places[0]: 0.0}
    for left, right in pairwise(places):
        above = sum(w * sum(r > left for r in x) / len(x) for w, x in zip(a, rewards, strict=True))
        out[right] = out[left] + (right - left) * chord(h, above, e)
    return out


def slopes(
    h: Any, rewards: Rewards, pulls: Sequence[int], e: float, ends: Sequence[float]
) -> tuple[list[float], list[float], float]:
    """Of each arm the mean and the variance of Φ over its rewards, at the shares played; and the range of Φ.

    Φ begins at 0 at the smallest reward; a shift of Φ changes all slopes alike.
    """
    t = sum(pulls)
    shares = [n / t for n in pulls] if t else [1 / len(pulls)] * len(pulls)
    at = phi(h, rewards, shares, e, ends)
    means = [float(np.mean([at[r] for r in x])) for x in rewards]
    return means, [float(np.var([at[r] for r in x])) for x in rewards], max(at.values()) - min(at.values())


def ucfw_bonus(kind: str, t: int, n: int, variance: float, reach: float) -> float:
    """The bonus of an arm with n rewards in round t."""
    if kind == "variance":
        return math.sqrt(2 * (variance + 0.02 * reach**2 / n) * math.log(t) / n)
    return 2 * math.sqrt(3 * math.log(t) / n) * reach


# ---- Mixture-UCB ------------------------------------------------------------------------------------------
def kernel_form(m: float, g: float, rewards: Rewards) -> tuple[np.ndarray, np.ndarray]:
    """K and f of L(a) = aᵀKa + fᵀa: means of κ(x, y) = −(g/2)·|x − y| over all pairs, and of −m·x."""
    k = len(rewards)
    matrix = np.array([
        [-0.5 * g * np.abs(np.subtract.outer(rewards[i], rewards[j])).mean() for j in range(k)] for i in range(k)
    ])  # fmt: skip
    return matrix, np.array([-m * np.mean(x) for x in rewards])


def mixture_ucb_bonus(m: float, g: float, width: float, beta: float, t: int, n: int) -> float:
    """Δ_L·√(β·ln t/(2n)) + Δ_κ/n with Δ_L = 2Δ_κ + Δ_f."""
    kappa, linear = 0.5 * g * width, abs(m) * width
    return (2 * kappa + linear) * math.sqrt(beta * math.log(t) / (2 * n)) + kappa / n


def least_quadratic(matrix: np.ndarray, f: np.ndarray) -> float:
    """min aᵀKa + fᵀa over the simplex, for K that is convex there: the best of the stationary points of all faces."""
    k, best = len(f), math.inf
    for face in range(1, 2**k):
        on = [i for i in range(k) if face >> i & 1]
        size = len(on)
        system = np.ones((size + 1, size + 1))
        system[:size, :size], system[size, size] = 2 * matrix[np.ix_(on, on)], 0.0
        solution = np.linalg.lstsq(system, np.append(-f[on], 1.0), rcond=None)[0][:size]
        if (solution > -1e-9).all() and abs(solution.sum() - 1) < 1e-6:
            a = np.zeros(k)
            a[on] = np.maximum(solution, 0.0)
            a /= a.sum()
            best = min(best, float(a @ matrix @ a + f @ a))
    return best


def splitmix_share(seed: int, stream: int) -> float:
    """The stream-th number from [0, 1) of splitmix64, from 0 on."""
    mask = 2**64 - 1
    z = (seed + 0x9E3779B97F4A7C15 * (stream + 1)) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 11) / 2**53
