"""Slow references of the simulation's random numbers: plain Python integers, one reward at a time.

Written from Salmon, Moraes, Dror and Shaw (2011) and from Marsaglia and Tsang (2000); nothing of the library is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

WORD = 2**64
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
PLAIN, GAMMA_A, GAMMA_B, POWER, POLICY, OUTSIDE = range(6)
BLOCK = 1024


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox 4x64-10."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (second // WORD) ^ c1 ^ k0,
            second % WORD,
            (first // WORD) ^ c3 ^ k1,
            first % WORD,
        )
        k0, k1 = (k0 + WEYL[0]) % WORD, (k1 + WEYL[1]) % WORD
    return c0, c1, c2, c3


def numpy_philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> np.random.Philox:
    """numpy's generator that makes the words of this counter next: it counts before it makes them."""
    number = sum(word * WORD**j for j, word in enumerate(counter)) - 1
    words = [(number // WORD**j) % WORD for j in range(4)]
    return np.random.Philox(key=np.array(key, dtype=np.uint64), counter=np.array(words, dtype=np.uint64))


def uniform(word: int) -> float:
    """[0, 1), 53 bits."""
    return (word >> 11) / 2.0**53


def open_uniform(word: int) -> float:
    """(0, 1), 52 bits and a half."""
    return ((word >> 12) + 0.5) / 2.0**52


def word(seed: int, trial: int, arm: int, n: int) -> int:
    """The random word of the n-th reward."""
    return philox((seed, trial), (n // 4, arm, 0, PLAIN))[n % 4]


def log_gamma(seed: int, trial: int, arm: int, n: int, shape: float, purpose: int) -> float:
    """The logarithm of a gamma variate; four words make two attempts."""
    key, boost = (seed, trial), 0.0
    if shape < 1.0:
        boost = math.log(open_uniform(philox(key, (n, arm, purpose - GAMMA_A, POWER))[0])) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(1000):
        w = philox(key, (n, arm, attempt, purpose))
        for at in (0, 2):
            x, u = float(ndtri(open_uniform(w[at]))), open_uniform(w[at + 1])
            v = (1.0 + c * x) ** 3
            if v > 0.0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return math.log(d * v) + boost
    raise AssertionError("a thousand attempts")


def reward(distribution: tuple[Any, ...], seed: int, trial: int, arm: int, n: int) -> float:
    """The n-th reward of an arm whose law is ``(name, *parameters)``."""
    name, *given = distribution
    u = uniform(word(seed, trial, arm, n))
    if name == "bernoulli":
        return float(u < given[0])
    if name == "atoms":
        points, chances = given
        total = 0.0
        for x, p in zip(points, chances, strict=True):
            total += p
            if u < total:
                return x
        return points[-1]
    if name == "block":
        frozen = given[0]
        bits = np.random.Philox(
            key=np.array([seed, trial], dtype=np.uint64), counter=np.array([0, arm, n // BLOCK, OUTSIDE], np.uint64)
        )
        return float(frozen.rvs(size=BLOCK, random_state=np.random.Generator(bits))[n % BLOCK])
    if name == "beta":
        a, b, loc, scale = given
        log_a = log_gamma(seed, trial, arm, n, a, GAMMA_A)
        log_b = log_gamma(seed, trial, arm, n, b, GAMMA_B)
        return loc + scale / (1.0 + math.exp(min(log_b - log_a, 700.0)))
    loc, scale = given
    if name == "uniform":
        return loc + scale * u
    if name == "normal":
        return loc + scale * float(ndtri(u + 2.0**-54))
    assert name == "exponential", name
    return loc - scale * math.log1p(-u)


def policy_seed(seed: int, trial: int, own: int) -> int:
    """The seed of a policy's own choices."""
    return philox((seed, trial), (own, 0, 0, POLICY))[0] >> 11
