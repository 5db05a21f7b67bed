"""Slow references of the published risk-sensitive algorithms: every index anew from the rewards, as published.

Each takes ``(policy, rewards, t, stream)``: one list of rewards for each arm, the number of the round from 1 on, and
the number of the draw. Nothing of the package's policies, kernels or random numbers is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

MASK = 2**64 - 1
POSTERIOR, POSTERIOR_B = 6, 7
Rewards = Sequence[Sequence[float]]


# ---- random numbers ---------------------------------------------------------------------------------------
def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox 4x64-10 in whole numbers."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (p1 >> 64) ^ c1 ^ k0, p1 & MASK, (p0 >> 64) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return [c0, c1, c2, c3]


def inner(word: int) -> float:
    return ((word >> 12) + 0.5) / 2**52


def exponential(key: tuple[int, int], arm: int, rank: int) -> float:
    return -math.log(inner(philox(key, (rank // 4, arm, 0, POSTERIOR))[rank % 4]))


def gamma(key: tuple[int, int], n: int, arm: int, shape: float, purpose: int = POSTERIOR) -> float:
    """Marsaglia and Tsang, shape at least 1."""
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    attempt = 0
    while True:
        w = philox(key, (n, arm, attempt, purpose))
        for half in (0, 2):
            x = float(ndtri(inner(w[half])))
            v = (1 + c * x) ** 3
            if v > 0 and math.log(inner(w[half + 1])) < x * x / 2 + d - d * v + d * math.log(v):
                return d * v
        attempt += 1


# ---- functionals ------------------------------------------------------------------------------------------
def weighted_cvar(x: Any, w: Any, alpha: float) -> float:
    """q − (1/α)·Σ w(q − x)⁺, q the first sorted x whose cumulative weight is at least α."""
    order = np.argsort(x, kind="stable")
    x, w = np.asarray(x, dtype=float)[order], np.asarray(w, dtype=float)[order] / np.sum(w)
    q = x[min(int(np.searchsorted(np.cumsum(w), alpha - 1e-15)), x.size - 1)]
    return float(q - (w * np.maximum(q - x, 0)).sum() / alpha)


def distorted(x: Any, w: Any, h: Any) -> float:
    """Σ x_(i)·[h(P(X ≥ x_(i))) − h(P(X > x_(i)))]."""
    order = np.argsort(x, kind="stable")
    x, w = np.asarray(x, dtype=float)[order], np.asarray(w, dtype=float)[order]
    above = np.append(np.cumsum(w[::-1])[::-1], 0.0) / w.sum()
    levels = np.asarray(h(np.clip(above, 0, 1)))
    return float((x * (levels[:-1] - levels[1:])).sum())


def mean_variance(x: Any, rho: float) -> float:
    return float(np.var(x) - rho * np.mean(x))


# ---- indices ----------------------------------------------------------------------------------------------
def thompson(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    key, support = (policy.seed, stream), policy.support
    out = []
    for i, x in enumerate(rewards):
        if type(support).__name__ == "Binary":
            a, b = gamma(key, 0, i, 1 + sum(x)), gamma(key, 0, i, 1 + len(x) - sum(x), POSTERIOR_B)
            out.append(a / (a + b))
        elif not x:
            out.append(math.inf)
        else:
            sigma = support.sigma if type(support).__name__ == "Real" else support.width / 2
            z = float(ndtri(inner(philox(key, (0, i, 0, POSTERIOR))[0])))
            out.append(np.mean(x) + sigma * z / math.sqrt(len(x)))
    return out


def level(policy: Any) -> float:
    return policy.options["alpha"] if policy.options["alpha"] is not None else policy.metric.alpha


def cvar_ucb(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    alpha, top, horizon = level(policy), policy.support.hi, policy.options["horizon"]
    out = []
    for x in rewards:
        n = len(x)
        if n == 0:
            out.append(math.inf)
            continue
        b = math.sqrt(math.log(2 * horizon**2) / (2 * n))
        y = [*sorted(x), top]
        out.append(top - sum((y[i] - y[i - 1]) * min(max(i / n - b, 0), alpha) for i in range(1, n + 1)) / alpha)
    return out


def brown_ucb(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    alpha, width, horizon = level(policy), policy.support.width, policy.options["horizon"]
    delta = policy.options["delta"] or horizon**-2
    return [
        weighted_cvar(x, np.ones(len(x)), alpha) + width / alpha * math.sqrt(math.log(1 / delta) / (2 * len(x)))
        if x
        else math.inf
        for x in rewards
    ]


def modulus(policy: Any) -> tuple[float, float]:
    """q and C·width, with C the Hölder constant of h itself."""
    q, c = policy.metric._holder_modulus_or_reason()
    return q, c * policy.support.width


def u_ucb(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    q, twice_b = modulus(policy)
    out = []
    for x in rewards:
        if not x:
            out.append(math.inf)
            continue
        y = policy.options["growth"] * math.log(t) / len(x)
        bonus = max(twice_b * math.sqrt(y / 2), twice_b * (y / 2) ** (q / 2))
        out.append(distorted(x, np.ones(len(x)), policy.metric) + bonus)
    return out


def w_ucb(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    q, scale = modulus(policy)
    return [
        distorted(x, np.ones(len(x)), policy.metric) + scale * (3 * math.log(t) / (2 * len(x))) ** (q / 2)
        if x
        else math.inf
        for x in rewards
    ]


def m_cvts(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    key, atoms = (policy.seed, stream), policy.support.atoms
    out = []
    for i, x in enumerate(rewards):
        counts = [1 + sum(abs(r - a) < 1e-9 for r in x) for a in atoms]
        w = [gamma(key, a, i, c) for a, c in enumerate(counts)]
        out.append(weighted_cvar(atoms, w, level(policy)))
    return out


def reweighted(policy: Any, rewards: Rewards, stream: int, ends: int = 1) -> list[tuple[list[float], list[float]]]:
    """Atoms and Dirichlet(1, …, 1) weights of each arm: none, the upper or both ends, and its rewards, ascending."""
    key, support = (policy.seed, stream), policy.support
    out = []
    for i, x in enumerate(rewards):
        if hasattr(support, "atoms"):
            counts = [sum(abs(r - a) < 1e-9 for r in x) for a in support.atoms]
            counts[-1] += ends > 0
            counts[0] += ends > 1
            atoms = [(float(support.atoms[m]), gamma(key, m, i, c)) for m, c in enumerate(counts) if c]
        else:
            anchors = [(support.hi, 0), (support.lo, 1)][:ends]
            atoms = [
                (p, exponential(key, i, r)) for p, r in [*anchors, *zip(sorted(x), range(2, len(x) + 2), strict=True)]
            ]
        out.append(([a for a, _ in atoms], [w for _, w in atoms]))
    return out


def b_cvts(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    return [weighted_cvar(x, w, level(policy)) for x, w in reweighted(policy, rewards, stream)]


def rho_npts(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    ends = 1 if policy.metric.monotonicity == "increasing" else 2
    return [distorted(x, w, policy.metric) for x, w in reweighted(policy, rewards, stream, ends)]


def rho_npts_sg(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    """Weights on the rewards alone; before the third pull of each arm nothing is drawn, and the index stays."""
    if min(map(len, rewards)) < 3:
        assert policy.pulls.max() <= 3
        return [0.0] * len(rewards)
    drawn = stream - 3 * len(rewards)
    return [distorted(x, w, policy.metric) for x, w in reweighted(policy, rewards, drawn, ends=0)]


def mv_lcb(policy: Any, rewards: Rewards, t: int, stream: int) -> list[float]:
    """With the sign turned: the smallest bound is the largest index. Rewards are brought to [0, 1] and back."""
    o, lo, width = policy.options, policy.support.lo, policy.support.width
    delta = o["delta"] or o["horizon"] ** -2
    out = []
    for x in rewards:
        if not x:
            out.append(math.inf)
            continue
        y, rho = (np.asarray(x) - lo) / width, o["rho"] / width
        bound = mean_variance(y, rho) - (5 + rho) * math.sqrt(math.log(1 / delta) / (2 * len(x)))
        out.append(-(width**2 * bound - o["rho"] * lo))
    return out
