"""What the bounds need to know about a metric and a bandit: the Hölder pair, W, B_h, the best mixture and the gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite, pi, sqrt
from typing import Literal

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit, half_wasserstein_diameter
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import etc_grid, ucb_grid
from pmbandits.optimize import OracleResult, oracle, utilities
from pmbandits.supports import Support

Grid = Literal["etc", "ucb"]
Gap = Literal["12", "13", "distinct"]
GAPS = ("12", "13", "distinct")
# Utilities that differ by less than this share are equal: they are computed to about 1e-13.
TIE_TOLERANCE = 1e-12


class TiedMixturesError(ValueError):
    """The error for a bound whose gap is 0, because the best mixtures tie."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What the bounds need to know about a metric and a bandit: the result of :func:`facts`.

    Attributes
    ----------
    n_arms : K, the number of arms.
    q, constant : the Hölder pair (q, 𝓛) of the metric on the support of the rewards.
    distance : W (``eq:W``), half the largest Wasserstein distance between two arms.
    largest_utility : B_h, the largest utility of a mixture.
    largest_loss : what a mixture can lose at most. It is B_h where utilities cannot be negative (as the paper takes for
        granted), and otherwise 𝓛(2W)^q.
    best : the best mixture.
    """

    metric: Distortion
    bandit: Bandit = field(repr=False)
    support: Support
    n_arms: int
    q: float
    constant: float
    distance: float
    largest_utility: float
    largest_loss: float
    best: OracleResult = field(repr=False)
    _grid_cache: dict[tuple[float, str], tuple[FloatArray, float, int]] = field(repr=False)

    def _best_utilities_of_grid(self, epsilon: float, grid: Grid) -> tuple[FloatArray, float, int]:
        """The best three utilities of the grid, the best that differs from the first, and how many points there are."""
        key = (float(epsilon), grid)
        if key not in self._grid_cache:
            points = etc_grid(self.n_arms, epsilon) if grid == "etc" else ucb_grid(self.n_arms, epsilon)
            values = np.sort(utilities(self.metric, self.bandit, points))[::-1]
            worse = values[values[0] - values > 1e3 * TIE_TOLERANCE * max(1.0, abs(float(values[0])))]
            self._grid_cache[key] = (
                values[:3].copy(),
                float(worse[0]) if worse.size else float(values[0]),
                values.size,
            )
        return self._grid_cache[key]

    def grid_loss(self, rank: int, epsilon: float, grid: Grid = "etc") -> float:
        """δ_0i(ε): what the i-th best mixture of the grid loses to the best of all, for i ≤ 3.

        It is in ``eq:regret_decomposition1_1``.
        """
        values, _, _ = self._best_utilities_of_grid(epsilon, grid)
        return max(self.best.value, float(values[0])) - float(values[min(rank, values.size) - 1])

    def gap(self, epsilon: float, which: Gap = "12", grid: Grid = "etc") -> float:
        """δ_12(ε), δ_13(ε), or the gap to the next *different* value of the grid. It is 0 where mixtures tie.

        The proofs need only that every mixture which is not among the best is worse by the gap. So where two mixtures
        are equally good, ``"distinct"`` can take the place of δ_12.
        """
        _validation.check_choice("gap", which, GAPS)
        values, different, size = self._best_utilities_of_grid(epsilon, grid)
        if which == "distinct":
            return float(values[0]) - different
        place = 1 if which == "12" else 2
        if size <= place:
            raise ValueError(
                f"the grid of {self.n_arms} arms with epsilon = {epsilon:g} has {size} points, too few for "
                f"delta_{which}; take a smaller epsilon."
            )
        difference = float(values[0] - values[place])
        return difference if difference > TIE_TOLERANCE * max(1.0, abs(float(values[0]))) else 0.0

    def positive_gap(self, epsilon: float, which: Gap = "12", grid: Grid = "etc") -> float:
        """The gap, or an error that says what to do where it is 0."""
        found = self.gap(epsilon, which, grid)
        if found > 0.0:
            return found
        others = {
            "12": "take gap='distinct' (the next different value), gap='13', or another epsilon",
            "13": "take gap='distinct' (the next different value) or another epsilon",
            "distinct": "every mixture is equally good, so any policy has regret 0",
        }[which]
        if grid == "ucb":
            others = others.replace(" gap='13',", "")  # the paper has it for PM-ETC-M only
        raise TiedMixturesError(
            f"delta_{which} is 0 at epsilon = {epsilon:g}: the best mixtures of the grid tie, and no number of "
            f"rewards tells them apart; {others}."
        )

    def tolerance(self, gap: float) -> float:
        """How closely all arms must be known, in Wasserstein distance, to tell apart mixtures that differ by δ.

        It is (δ/(2K𝓛))^(1/q).
        """
        return (gap / (2.0 * self.n_arms * self.constant)) ** (1.0 / self.q)

    @property
    def anytime_scale(self) -> float:
        """𝓛W^q·K^(q+1), the factor of CIRT's bound (``theorem:any_regret``)."""
        return float(self.constant * self.distance**self.q * self.n_arms ** (self.q + 1.0))


@lru_cache(maxsize=64)
def facts(metric: Distortion | str, bandit: Bandit) -> Facts:
    """Work out the Hölder pair, W, B_h and the best mixture of a metric and a bandit: what every bound is made of.

    >>> import pmbandits as pmb
    >>> known = facts(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]))
    >>> known.q, known.constant, round(known.distance, 12), round(known.largest_utility, 12)
    (1.0, 1.0, 0.25, 0.25)
    >>> round(known.gap(0.1, "12"), 12)
    0.0025
    """
    metric = as_metric(metric)
    support, pair = support_of_bandit(bandit), metric.holder(support_of_bandit(bandit))
    best = oracle(metric, bandit)
    distance = half_wasserstein_diameter(bandit)
    never_negative = support.lo >= 0.0 and metric.minimum().value >= 0.0
    if not never_negative and metric.shape in ("concave", "linear"):
        never_negative = bool((utilities(metric, bandit, np.eye(bandit.n_arms)) >= 0.0).all())  # lowest at a corner
    loss = best.value if never_negative else pair.constant * (2.0 * distance) ** pair.q
    return Facts(
        metric=metric,
        bandit=bandit,
        support=support,
        n_arms=bandit.n_arms,
        q=pair.q,
        constant=pair.constant,
        distance=distance,
        largest_utility=best.value,
        largest_loss=loss,
        best=best,
        _grid_cache={},
    )


def support_of_bandit(bandit: Bandit) -> Support:
    """The support of a bandit, or an error if it is not known."""
    check_bandit(bandit)
    if bandit.support is None:
        raise ValueError(
            "the bandit's support is not known: say Bandit(arms, support=Interval(lo, hi) or Real(sigma))."
        )
    return bandit.support


def largest_utility(metric: Distortion | str, where: Bandit | Support) -> float:
    """B_h: the largest utility of any mixture of a bandit's arms, or of any distribution on a bounded support.

    On a support from lo to hi it is lo·h(1) + (hi − lo)·max h. A distribution on the two ends reaches it.

    >>> import pmbandits as pmb
    >>> largest_utility(pmb.GiniDeviation(), pmb.Interval(0, 2))
    0.5
    """
    metric = as_metric(metric)
    if isinstance(where, Bandit):
        return oracle(metric, where).value
    if not isfinite(where.width):
        raise ValueError(f"no utility is the largest on {where!r}; give the bandit, or declare Interval(lo, hi).")
    return where.lo * float(metric(1.0)) + where.width * metric.maximum().value


def distance_limit(sigma: float = 1.0) -> float:
    """√(2π)·σ, a limit on W for arms that are σ-sub-Gaussian around 0 (``theorem:W``).

    W of arms whose means are far apart exceeds it.

    >>> round(distance_limit(), 4)
    2.5066
    """
    return sqrt(2.0 * pi) * _validation.check_within("sigma", sigma, 0.0, open_lo=True)


def estimation_limit(metric: Distortion | str, bandit: Bandit, epsilon: float, rank: int = 1) -> float:
    """𝓛(KWε)^q, a limit on δ_01(ε); with ``rank=2`` it is twice that, a limit on δ_02(ε) (``lemma:Delta_error``).

    So it says how much the best mixture of the grid can lose to the best of all mixtures.

    >>> import pmbandits as pmb
    >>> estimation_limit(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 0.1)
    0.05
    """
    known = facts(metric, bandit)
    return rank * known.constant * (known.n_arms * known.distance * epsilon) ** known.q


def utility_limit(metric: Distortion | str, sigma: float = 1.0) -> float:
    """C·σ·√(2π/r): no utility is larger than this, and none smaller than minus this (``lemma:U``).

    It is for metrics with |h(u) − h(v)| ≤ C|u − v|^r, and for distributions whose tails on both sides of 0 are those of
    a σ-sub-Gaussian one: P(X > x) and P(X < −x) are at most e^(−x²/2σ²). A distribution whose mean is far from 0
    exceeds it, as with :func:`distance_limit`.

    >>> import pmbandits as pmb
    >>> round(utility_limit(pmb.PHT(0.5)), 4)
    3.5449
    """
    metric = as_metric(metric)
    modulus = metric._holder_modulus_or_reason()
    if isinstance(modulus, str):
        raise ValueError(f"{metric!r} has no such limit, because {modulus}.")
    exponent, constant = modulus
    return constant * _validation.check_within("sigma", sigma, 0.0, open_lo=True) * sqrt(2.0 * pi / exponent)
