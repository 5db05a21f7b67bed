"""The paper's formulas copied out one by one, slow and literal, to hold the library's against."""

from __future__ import annotations

from math import ceil, e, log, sqrt

import numpy as np


# ---- constants -------------------------------------------------------------------------------------------
def number_of_samples(T: int, K: int, eps: float, gap: float, q: float, L: float) -> float:
    """eq:number of samples main paper"""
    first = 256 * K * e
    second = (2 * K * L / gap) ** (2 / q)
    third = 32 / sqrt(e) + log(2 * K * T**2 * (eps ** (-(K - 1)) + 1)) ** 0.5
    return first * second * third**2


def t0_left(s: float, eps: float, rho: float) -> float:
    """eq:T_epsilon, left-hand side"""
    return (sqrt(2 * e * log(s)) + 32) / sqrt(rho / 4 * s * eps)


def t0_right(K: int, gap: float, q: float, L: float) -> float:
    """eq:T_epsilon, right-hand side"""
    return 1 / 16 * (gap / (2 * K * L)) ** (1 / q)


def delta_k(delta: float, K: int) -> float:
    return (1 + delta) ** (1 / K) - 1


def phases(eps: float, A: int) -> int:
    """L by trying: the least L with (2/A)^L ≤ ε"""
    L = 1
    while eps * (1 + 1e-12) < (2 / A) ** L:
        L += 1
    return L


# ---- the theorems ----------------------------------------------------------------------------------------
def etc_theorem(T: int, K: int, q: float, L: float, W: float, N: float, d01: float) -> float:
    """theorem: ETC upper bound"""
    M = N / log(T)
    return (L * K + W**-q) * (3 * W * M * log(T) / T) ** q + d01


def ucb_theorem(T: int, K: int, q: float, L: float, W: float, B: float, eps: float, rho: float, d01: float) -> float:
    """theorem:UCB upper bound"""
    bracket = 64 / sqrt(eps * rho * T) * (sqrt(2 * e * log(T)) + 32)
    return (B + 2 * L * K * (W**q + 1)) * bracket**q + d01


def ucb_appendix(T: int, K: int, q: float, L: float, W: float, B: float, eps: float, rho: float, d01: float) -> float:
    """The display before eq:theorem_lastline"""
    fail = (2 / T**2 + 1) ** K - 1
    b3 = L * K * (64 / sqrt(rho * eps)) ** q * T ** (1 - q / 2) * (sqrt(2 * e * log(T)) + 32) ** q
    return d01 + 1 / T * (B * T * fail + 2 * L * W**q * (K * T**2 * fail + K ** (1 + q) * T ** (1 - q)) + b3)


def cirt_theorem(T: int, K: int, q: float, L: float, W: float, eps: float) -> float:
    """theorem:any_regret"""
    return L * W**q * K ** (q + 1) * (eps**q + T**-q)


def etc_rate(T: float, K: int, q: float, beta: float) -> float:
    """theorem:PM-ETC-M"""
    gamma = 2 * beta / (2 * beta + q)
    c = 2 * (1 + (beta + 1) / q)
    return (K**c * log(T) / T**gamma) ** (q**2 / (2 * beta))


def ucb_rate(T: float, K: int, q: float, beta: float) -> float:
    """corollary:PM-UCB-M"""
    kappa = 1 / (2 * beta / q + 2)
    c = max(q * (1 + 2 * kappa / q), 1 - kappa)
    return K**c * (log(T) / T) ** (q * kappa)


# ---- the tables as printed -------------------------------------------------------------------------------
def varpi(T: float) -> float:
    return sqrt(log(T) / T)


# table:table_regrets_bernoulli: metric name → (column δ_13, column δ_12), as functions of T
PRINTED_TABLE_2 = {
    "mean": (lambda T: T ** (1 / 6) * varpi(T), lambda T: varpi(T) ** 2),
    "dual_power": (lambda T: T ** (1 / 6) * varpi(T), lambda T: varpi(T) ** 2),
    "quadratic": (lambda T: T ** (1 / 6) * varpi(T), lambda T: varpi(T) ** 2),
    "upper_cvar": (lambda T: T ** (1 / 6) * varpi(T), lambda T: varpi(T) ** 2),
    "pht": (lambda T: T ** (1 / 40) * varpi(T) ** (1 / 4), lambda T: varpi(T)),
    "mean_median_deviation": (lambda T: T ** (1 / 6) * varpi(T), None),
    "inter_es_range": (lambda T: T ** (1 / 6) * varpi(T), None),
    "wang_right_tail": (lambda T: log(T) ** (5 / 72) * varpi(T) ** (1 / 9), None),
    "gini_deviation": (lambda T: log(T) ** (1 / 20) * varpi(T) ** (2 / 5), None),
}
# table:beta_values: metric name → (β, β̄), for s = ½ where s occurs
PRINTED_TABLE_3 = {
    "mean": ((1, 1), (1, 1)),
    "dual_power": ((1, 1), (1, 1)),
    "quadratic": ((1, 1), (1, 1)),
    "upper_cvar": ((1, 1), (1, 1)),
    "pht": ((0.5, 1), (0.5, 1)),
    "mean_median_deviation": (None, (1, 1)),
    "inter_es_range": (None, (1, 1)),
    "wang_right_tail": (None, (0.5, 2)),
    "gini_deviation": (None, (1, 2)),
}


# ---- gaps and tracking, by hand --------------------------------------------------------------------------
def bernoulli_values(h, means: list[float], steps: int) -> list[float]:
    """h of the mean of every mixture of two Bernoulli arms on the grid of 1/steps, best first."""
    low, high = means
    return sorted((h(low + (high - low) * k / steps) for k in range(steps + 1)), reverse=True)


def track(pulls: np.ndarray, weights: np.ndarray, until: int) -> list[np.ndarray]:
    """eq:UCB_sampling_rule from given pulls on; the pulls after each round."""
    now = pulls.copy()
    out = [now.copy()]
    while now.sum() < until:
        t = int(now.sum())
        now[int(np.argmax(t * weights - now))] += 1
        out.append(now.copy())
    return out


def whole_rounds(rounds: float, arms: int) -> int:
    """Rounds of exploration as Algorithm 1 plays them."""
    return arms * ceil(rounds / arms)
