"""Random numbers that a policy draws: each follows from its seed and a counter that is part of its state; compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits._random import (
    POSTERIOR,
    POSTERIOR_B,
    TIED,
    log_gamma_variate,
    open_uniform_from_word,
    philox_random_words,
)
from pmbandits.metrics.normal import normal_quantile
from pmbandits.mixtures._index import TIE
from pmbandits.mixtures._tracking import largest
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

FEWEST_PULLS, AT_RANDOM, FIRST = range(3)
TIES = {"fewest": FEWEST_PULLS, "random": AT_RANDOM, "first": FIRST}  # which of several arms that are equally good


@step("state -> float")
def random_share(s: State) -> float:
    """A random number from 0 to below 1: splitmix64 of the seed and a counter that is part of the state."""
    z = np.uint64(s.seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(s.rng_counter + 1)
    s.rng_counter += 1
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@step("state, int -> int")
def random_below(s: State, count: int) -> int:
    """A random whole number from 0 to below ``count``."""
    return int(random_share(s) * count)


@step("state -> two words")
def random_key_of_round(s: State) -> tuple[Any, Any]:
    """The key of this round's draws; no other round has it."""
    s.rng_counter += 1
    return np.uint64(s.seed), np.uint64(s.rng_counter)


@shared("state -> float")
def random_normal(s: State) -> float:
    """A random number from the normal distribution with mean 0 and standard deviation 1."""
    key = random_key_of_round(s)
    zero = np.uint64(0)
    w0, _, _, _ = philox_random_words(key[0], key[1], zero, zero, zero, np.uint64(POSTERIOR))
    return normal_quantile(open_uniform_from_word(w0))


@shared("state, float -> float")
def random_gamma(s: State, shape: float) -> float:
    """A random number from the gamma distribution with this shape, above 0, and scale 1; NaN for another shape."""
    return math.exp(log_gamma_variate(random_key_of_round(s), 0, 0, shape, POSTERIOR)) if shape > 0.0 else np.nan


@shared("state, float, float -> float")
def random_beta(s: State, a: float, b: float) -> float:
    """A random number from the Beta distribution with these two parameters, both above 0; NaN for others."""
    if not (a > 0.0 and b > 0.0):
        return np.nan
    key = random_key_of_round(s)
    first, second = log_gamma_variate(key, 0, 0, a, POSTERIOR), log_gamma_variate(key, 0, 1, b, POSTERIOR_B)
    return 1.0 / (1.0 + math.exp(second - first))


@step("state, int -> int")
def pick_largest(s: State, ties: int) -> int:
    """The arm with the largest ``s.index``; ``ties``, a number of :data:`TIES`, says which of several equal ones."""
    arm = largest(s)
    if ties == FEWEST_PULLS:
        return arm
    top = s.index[arm]
    for i in range(s.n_arms):
        top = max(top, s.index[i])
    least = top if top == np.inf else top - TIE * max(1.0, abs(top))
    equal = 0
    for i in range(s.n_arms):
        equal += s.index[i] >= least
    nth = 0
    if ties == AT_RANDOM and equal > 1:  # by the key of the round's draws
        zero = np.uint64(0)
        w0, _, _, _ = philox_random_words(
            np.uint64(s.seed), np.uint64(s.rng_counter), zero, zero, zero, np.uint64(TIED)
        )
        nth = min(int(open_uniform_from_word(w0) * equal), equal - 1)
    for i in range(s.n_arms):
        if s.index[i] >= least:
            arm = i
            if nth == 0:
                break
            nth -= 1
    return arm
