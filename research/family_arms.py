"""The instances of the comparison of the whole family: arms and a metric each, built by a stated rule.

All are fixed. Random arms come from a generator whose seed is part of the instance, not of the run. Where an instance
has several sets of arms (``count``), trial r plays set r mod ``count``. Arms live on at most 256 points, which the
policies know, so that regret is exact; the instances of the group ``CONTINUOUS`` pay real numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from pmbandits import (
    PHT,
    Bandit,
    Distortion,
    DualPower,
    Finite,
    GiniDeviation,
    InterESRange,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    Quadratic,
    Real,
    TsallisPastEntropy,
    TverskyKahneman,
    UpperCVaR,
    WangRightTail,
    WangTransform,
)
from research.instances import discrete_arms
from research.outcome import FloatArray
from research.risk_arms import TENTHS, beta_arms, simplex_arms

SETS = 8  # of arms of an instance whose arms are drawn
BETA, COINS, TENTH, GAUSSIAN_MIXTURES, INFLATED, GAUSS, THREE = (
    "Beta", "Bernoulli", "distributions on tenths", "truncated Gaussian mixtures", "Beta with zeros", "Gaussian",
    "three points",
)  # fmt: skip
MIXED = "A mixture is best"
MANY = "Many arms"
EDGE = "Near the boundary"
SINGLE = "One arm is best"
RARE = "Rare large rewards"
NEITHER = "Neither concave nor convex"
CONTINUOUS = "Continuous rewards"
UNSEEN = "Drawn by rule, not used to make Vet"
GROUPS = (MIXED, MANY, EDGE, SINGLE, RARE, NEITHER, CONTINUOUS, UNSEEN)


@dataclass(frozen=True)
class Instance:
    """Arms and a metric under a name for people.

    Attributes
    ----------
    key, title, group : short name, name for people, and the group in which it is shown.
    distribution, n_arms : the family of the arms' distributions, and how many arms there are.
    metric : what is valued.
    make : the arms of a set.
    count : how many sets of arms there are; trial r plays set r mod ``count``.
    """

    key: str
    title: str
    group: str
    distribution: str
    n_arms: int
    metric: Distortion
    make: Callable[[int], Bandit]
    count: int = 1

    def arms(self, trial: int) -> Bandit:
        """The arms of this trial."""
        return _made(self.make, trial % self.count)


@cache
def _made(make: Callable[[int], Bandit], number: int) -> Bandit:
    """A set of arms, which all policies share."""
    return make(number)


# ---- distributions ---------------------------------------------------------------------------------------


def on_points(x: FloatArray, masses: FloatArray) -> Bandit:
    """Arms with these probabilities (one row an arm) on points that the policies know.

    >>> on_points(np.array([0.0, 0.5, 1.0]), np.array([[0.0, 1.0, 0.0], [0.98, 0.0, 0.02]]))
    Bandit(arm 0: 1 atoms in [0.5, 0.5], arm 1: bernoulli(0.02); support Finite([0, 0.5, 1]))
    """
    return discrete_arms([(x[p > 0.0], p[p > 0.0] / p.sum()) for p in masses], Finite(x))


def cells(distributions: list[object], lo: float, hi: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Discretise distributions to the middles of equal cells; what lies outside goes to the first and last cell."""
    edges = np.linspace(lo, hi, count + 1)
    rises = np.array([distribution.cdf(edges) for distribution in distributions])  # type: ignore[attr-defined]
    rises[:, 0], rises[:, -1] = 0.0, 1.0
    return 0.5 * (edges[1:] + edges[:-1]), np.diff(rises, axis=1)


def _betas(parameters: FloatArray, count: int = 200) -> Bandit:
    import scipy.stats as st

    return on_points(*cells([st.beta(*row) for row in parameters], 0.0, 1.0, count))


def beta_parameters(n_arms: int, number: int) -> FloatArray:
    """Both parameters of each arm, uniform on ½ to 5: set ``number`` for this many arms."""
    return np.random.default_rng([77, n_arms, number]).uniform(0.5, 5.0, (n_arms, 2))


def random_betas(n_arms: int, count: int = 200) -> Callable[[int], Bandit]:
    """Beta arms on equal cells of [0, 1]."""
    return lambda number: _betas(beta_parameters(n_arms, number), count)


def exact_betas(number: int) -> Bandit:
    """The ten Beta arms of ``random_betas``, with rewards that are real numbers."""
    import scipy.stats as st

    return Bandit([st.beta(*row) for row in beta_parameters(10, number)])


def gaussians(number: int = 0) -> Bandit:
    """N(1, 1), N(3, 1) and N(5, 1) on 256 cells of [−4, 10]."""
    import scipy.stats as st

    return on_points(*cells([st.norm(mean) for mean in (1, 3, 5)], -4.0, 10.0, 256))


def exact_gaussians(number: int = 0) -> Bandit:
    """N(1, 1), N(3, 1) and N(5, 1)."""
    import scipy.stats as st

    return Bandit([st.norm(mean) for mean in (1, 3, 5)], support=Real(1.0))


def gaussian_mixtures(rng: np.random.Generator, n_arms: int) -> Bandit:
    """Mixtures of three Gaussians, truncated to [0, 1], on 201 points."""
    x = np.linspace(0.0, 1.0, 201)
    rows = []
    for _ in range(n_arms):
        centre, width, share = rng.uniform(0.1, 0.9, 3), rng.uniform(0.03, 0.15, 3), rng.dirichlet(np.ones(3))
        density = np.exp(-0.5 * ((x[:, None] - centre) / width) ** 2) / width
        rows.append((share * density / density.sum(axis=0)).sum(axis=1))
    return on_points(x, np.array(rows))


def coins(*means: float) -> Callable[[int], Bandit]:
    """Arms that pay 0 or 1."""
    return lambda number: Bandit.bernoulli(means)


def ten_coins(number: int) -> Bandit:
    """Ten Bernoulli arms with means uniform on 0.1 to 0.9."""
    return Bandit.bernoulli(np.random.default_rng([99, number]).uniform(0.1, 0.9, 10))


def three_betas(number: int = 0) -> Bandit:
    """Beta(1, 3), Beta(3, 3), Beta(3, 1) on 200 cells: each dominates the one before."""
    return _betas(np.array([[1.0, 3.0], [3.0, 3.0], [3.0, 1.0]]))


def two_betas(number: int = 0) -> Bandit:
    """Beta(1, 3) and Beta(½, ½) on 200 cells."""
    return _betas(np.array([[1.0, 3.0], [0.5, 0.5]]))


def jackpot(number: int = 0) -> Bandit:
    """A sure ½, and an arm that pays 1 in 2 % of the rounds and else nothing."""
    return on_points(np.array([0.0, 0.5, 1.0]), np.array([[0.0, 1.0, 0.0], [0.98, 0.0, 0.02]]))


# ---- the instances of the notes --------------------------------------------------------------------------

_INVERTED_S_MINUS_MEAN = InvertedS(0.5) - Mean()


def _handpicked_instances() -> list[Instance]:
    gini, wang, kink, mean = GiniDeviation(), WangRightTail(), MeanMedianDeviation(), Mean()
    out = [
        Instance("coins-gini", "Bernoulli (0.4, 0.9), Gini", MIXED, COINS, 2, gini, coins(0.4, 0.9)),
        Instance("coins-wang", "Bernoulli (0.1, 0.6), Wang", MIXED, COINS, 2, wang, coins(0.1, 0.6)),
        Instance("coins-median", "Bernoulli (0.3, 0.9), mean-median", MIXED, COINS, 2, kink, coins(0.3, 0.9)),
        Instance("gauss-gini", "Gaussian 1, 3, 5, Gini", MIXED, GAUSS, 3, gini, gaussians),
    ]
    for k, name, metric in (
        (10, "Gini", gini), (30, "Gini", gini), (100, "Gini", gini), (10, "Wang", wang), (30, "Wang", wang),
        (100, "Wang", wang), (30, "quadratic", Quadratic(0.5)), (100, "quadratic", Quadratic(0.5)),
        (10, "mean-median", kink),
    ):  # fmt: skip
        key = f"beta{k}-{name.removeprefix('mean-').lower()}"
        out.append(Instance(key, f"Beta, K = {k}, {name}", MANY, BETA, k, metric, random_betas(k), SETS))
    out += [
        Instance("edge-in", "Bernoulli (0.49, 0.9), Gini", EDGE, COINS, 2, gini, coins(0.49, 0.9)),
        Instance("edge-out", "Bernoulli (0.51, 0.9), Gini", EDGE, COINS, 2, gini, coins(0.51, 0.9)),
        Instance("edge-on", "Bernoulli (0.5, 0.9, 0.2), Gini", EDGE, COINS, 3, gini, coins(0.5, 0.9, 0.2)),
    ]
    out += [
        Instance(f"tenths-{a:g}", f"Distributions on tenths, K = 5, lower CVaR({a:g})", SINGLE, TENTH, 5, LowerCVaR(a),
                 simplex_arms, SETS)
        for a in (0.1, 0.5, 0.9)
    ]  # fmt: skip
    out += [
        Instance(
            "waves30",
            "Gaussian mixtures, K = 30, lower CVaR(0.1)",
            SINGLE,
            GAUSSIAN_MIXTURES,
            30,
            LowerCVaR(0.1),
            lambda number: gaussian_mixtures(np.random.default_rng(20211), 30),
        ),
        Instance("three-pht", "Beta, K = 3, PHT(0.5)", SINGLE, BETA, 3, PHT(0.5), three_betas),
        Instance("three-dual", "Beta, K = 3, dual power(2)", SINGLE, BETA, 3, DualPower(2.0), three_betas),
        Instance("coins-mean", "Bernoulli (0.4, 0.9), mean", SINGLE, COINS, 2, mean, coins(0.4, 0.9)),
        Instance("close-mean", "Bernoulli (0.5, 0.48, 0.48), mean", SINGLE, COINS, 3, mean, coins(0.5, 0.48, 0.48)),
        Instance("ten-mean", "Bernoulli, K = 10, mean", SINGLE, COINS, 10, mean, ten_coins, SETS),
        Instance("jackpot", "Sure ½ or 2 % of 1, PHT(0.5)", RARE, THREE, 2, PHT(0.5), jackpot),
        Instance(
            "beta10-cvar", "Beta, K = 10, upper CVaR(0.9)", RARE, BETA, 10, UpperCVaR(0.9), random_betas(10), SETS
        ),
        Instance("two-s-0.5", "Beta, K = 2, inverted S(0.5)", NEITHER, BETA, 2, InvertedS(0.5), two_betas),
        Instance("two-s-1.5", "Beta, K = 2, inverted S(1.5)", NEITHER, BETA, 2, InvertedS(1.5), two_betas),
        Instance(
            "five-s", "Beta, K = 5, inverted S(0.5)", NEITHER, BETA, 5, InvertedS(0.5), random_betas(5, 100), SETS
        ),
        Instance(
            "coins-bent",
            "Bernoulli (0.01, 0.6), inverted S − mean",
            NEITHER,
            COINS,
            2,
            _INVERTED_S_MINUS_MEAN,
            coins(0.01, 0.6),
        ),
        Instance(
            "five-bent",
            "Beta, K = 5, inverted S − mean",
            NEITHER,
            BETA,
            5,
            _INVERTED_S_MINUS_MEAN,
            random_betas(5, 100),
            SETS,
        ),
        Instance("gauss-exact", "Gaussian 1, 3, 5, Gini, continuous", CONTINUOUS, GAUSS, 3, gini, exact_gaussians),
        Instance("beta10-exact", "Beta, K = 10, Gini, continuous", CONTINUOUS, BETA, 10, gini, exact_betas, SETS),
        Instance(
            "three-exact",
            "Beta, K = 3, PHT(0.5), continuous",
            CONTINUOUS,
            BETA,
            3,
            PHT(0.5),
            lambda number: beta_arms(),
        ),
    ]
    return out


# ---- ten drawn by rule, not used to make Vet -------------------------------------------------------------

DRAWN_SEED = 2026
DRAWN_SIZES = (2, 3, 5, 10, 20)
DRAWN_DISTRIBUTIONS = (BETA, COINS, TENTH, GAUSSIAN_MIXTURES, INFLATED)
DRAWN_METRICS: tuple[tuple[str, Distortion], ...] = (
    ("mean", Mean()),
    ("Wang", WangRightTail()),
    ("inter-ES range(0.8)", InterESRange(0.8)),
    ("upper CVaR(0.75)", UpperCVaR(0.75)),
    ("past entropy", TsallisPastEntropy(1.0)),
    ("mean + Gini", Mean() + GiniDeviation()),
    ("lower CVaR(0.25)", LowerCVaR(0.25)),
    ("Wang transform(−0.5)", WangTransform(-0.5)),
    ("Tversky-Kahneman(0.61)", TverskyKahneman(0.61)),
    ("inverted S(0.65) − ½ mean", InvertedS(0.65) - 0.5 * Mean()),
)


def drawn_arms(distribution: str, n_arms: int, seed: list[int]) -> Bandit:
    """Draw arms of a family of distributions with this seed."""
    import scipy.stats as st

    rng = np.random.default_rng(seed)
    if distribution == COINS:
        return Bandit.bernoulli(rng.uniform(0.05, 0.95, n_arms))
    if distribution == TENTH:
        return on_points(TENTHS, rng.dirichlet(np.ones(11), n_arms))
    if distribution == GAUSSIAN_MIXTURES:
        return gaussian_mixtures(rng, n_arms)
    parameters = rng.uniform(0.5, 5.0, (n_arms, 2))
    if distribution == BETA:
        return _betas(parameters)
    x, masses = cells([st.beta(*row) for row in parameters], 0.0, 1.0, 200)  # the rest: with zeros
    zero = rng.uniform(0.2, 0.8, (n_arms, 1))
    return on_points(np.append(0.0, x), np.hstack((zero, (1.0 - zero) * masses)))


def random_instances(seed: int = DRAWN_SEED) -> list[Instance]:
    """Each metric once, each size and each family of distributions twice, matched by one permutation each."""
    rng = np.random.default_rng(seed)
    sizes, distributions = rng.permutation(DRAWN_SIZES * 2), rng.permutation(DRAWN_DISTRIBUTIONS * 2)
    metrics = [DRAWN_METRICS[int(k)] for k in rng.permutation(len(DRAWN_METRICS))]
    out = []
    for n, (size, distribution, (name, metric)) in enumerate(
        zip(sizes.tolist(), distributions.tolist(), metrics, strict=True)
    ):
        title = f"{distribution[0].upper()}{distribution[1:]}, K = {size}, {name}"
        title = title.replace("Truncated Gaussian", "Gaussian") + ", drawn"

        def make(number: int, distribution: str = distribution, size: int = size, n: int = n) -> Bandit:
            return drawn_arms(distribution, size, [seed, n, number])

        out.append(Instance(f"drawn-{n}", title, UNSEEN, distribution, size, metric, make, SETS))
    return out


@cache
def instances() -> tuple[Instance, ...]:
    """All of them, group by group.

    >>> len(instances()), instances()[6].title
    (45, 'Beta, K = 100, Gini')
    """
    found = [*_handpicked_instances(), *random_instances()]
    return tuple(sorted(found, key=lambda one: GROUPS.index(one.group)))
