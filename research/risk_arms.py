"""The arms of the comparison with risk-sensitive bandits, in one place, each with its reason.

All are fixed: the random ones come from a generator whose seed is part of the instance, not of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmbandits import (
    PHT,
    Bandit,
    Distortion,
    DualPower,
    Finite,
    GiniDeviation,
    Interval,
    LowerCVaR,
    Quadratic,
    UpperCVaR,
    WangRightTail,
)
from research.instances import discrete_arms
from research.outcome import FloatArray

TENTHS = np.linspace(0.0, 1.0, 11)
LEVELS = (0.1, 0.5, 0.9)


def simplex_arms(number: int) -> Bandit:
    """Five distributions drawn uniformly from all on {0, 0.1, …, 1}: what the CVaR bandits report on."""
    rng = np.random.default_rng([20210, number])
    return discrete_arms([(TENTHS, p) for p in rng.dirichlet(np.ones(11), 5)], Finite(TENTHS))


def gaussian_mixtures(n_arms: int = 30) -> Bandit:
    """Thirty mixtures of three Gaussians, truncated to [0, 1]: many arms, several modes, continuous rewards.

    Rewards lie on a lattice of 1/500, so that their CVaR is exact; policies know the interval only.
    """
    rng = np.random.default_rng(20211)
    x = np.linspace(0.0, 1.0, 501)
    distributions: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(n_arms):
        centre, width, share = rng.uniform(0.1, 0.9, 3), rng.uniform(0.03, 0.15, 3), rng.dirichlet(np.ones(3))
        density = np.exp(-0.5 * ((x[:, None] - centre) / width) ** 2) / width
        mass = (share * density / density.sum(axis=0)).sum(axis=1)
        distributions.append((x, mass / mass.sum()))
    return discrete_arms(distributions, Interval(0.0, 1.0))


MIXTURES_METRIC = LowerCVaR(0.1)


def beta_arms() -> Bandit:
    """Beta(1, 3), Beta(3, 3) and Beta(3, 1): each dominates the one before, so every increasing measure agrees."""
    import scipy.stats as st

    return Bandit([st.beta(1, 3), st.beta(3, 3), st.beta(3, 1)], names=["Beta(1, 3)", "Beta(3, 3)", "Beta(3, 1)"])


def binomial_arms() -> Bandit:
    """Binomial(10, p)/10 for p = .35, .5, .65: each dominates the one before, so every increasing measure agrees.

    On the few points {0, 0.1, …, 1} a round is cheap, and long horizons can be played.
    """
    import scipy.stats as st

    chances = (0.35, 0.5, 0.65)
    distributions = [(TENTHS, st.binom.pmf(np.arange(11), 10, p)) for p in chances]
    return discrete_arms(distributions, Finite(TENTHS), [f"Binomial(10, {p:g})/10" for p in chances])


UPPER_CVARS: tuple[Distortion, ...] = (UpperCVaR(0.5), UpperCVaR(0.75))  # the paper's CVaR: the mean of the best 1 − c
DISTORTIONS: tuple[Distortion, ...] = (PHT(0.5), DualPower(2.0), Quadratic(0.5))


@dataclass(frozen=True)
class Mixed:
    """An instance whose best decision is a mixture of arms."""

    key: str
    title: str
    metric: Distortion
    arms: Bandit


def mixture_optimal() -> tuple[Mixed, ...]:
    """Instances on which no single arm is best.

    Two coins on both sides of ½ for the Gini deviation (floor 0.04, best shares ⅓ and ⅔); two coins on both sides of ¼
    for the Wang right-tail deviation, whose Hölder exponent ½ is hard for additive bonuses; and three arms on five
    points where the best mixture leaves out the middle one.
    """
    points = np.linspace(0.0, 1.0, 5)
    low, middle, high = [0.5, 0.3, 0.1, 0.05, 0.05], [0.1, 0.2, 0.4, 0.2, 0.1], [0.05, 0.05, 0.1, 0.2, 0.6]
    distributions = [(points, np.array(p)) for p in (low, middle, high)]
    three = discrete_arms(distributions, Finite(points), ["low", "middle", "high"])
    return (
        Mixed("gini-coins", "Gini deviation, Bernoulli(0.1, 0.7)", GiniDeviation(), Bandit.bernoulli([0.1, 0.7])),
        Mixed("wang-coins", "Wang right-tail, Bernoulli(0.1, 0.6)", WangRightTail(), Bandit.bernoulli([0.1, 0.6])),
        Mixed("gini-three", "Gini deviation, three arms on five points", GiniDeviation(), three),
    )


def safe_and_risky() -> Bandit:
    """A safe arm and two risky ones: at ρ = 0.1 mean–variance prefers the safe one, the mean the second."""
    import scipy.stats as st

    return Bandit([st.beta(20, 20), st.beta(2, 1), st.beta(1, 1)], names=["Beta(20, 20)", "Beta(2, 1)", "Beta(1, 1)"])
