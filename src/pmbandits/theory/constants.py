"""The constants of the paper's analysis: exponents, gaps, waiting times, and what each is made of.

All of them are formulas in the **radius** r(n): how far, in Wasserstein distance, an arm's law may be from n of its
rewards. The paper's radius is one choice, ``confidence="paper"``; the same code takes every other confidence set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, e, inf, isfinite, log, pi, sqrt
from typing import Any, Literal

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import Bandit, check_bandit, wasserstein_constant
from pmbandits.best import Best, oracle, utilities
from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.confidence.sets import NAMES
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import etc_grid, ucb_grid
from pmbandits.supports import Real, Support

Grid = Literal["etc", "ucb"]
Gap = Literal["12", "13", "distinct"]
GAPS = ("12", "13", "distinct")
# Utilities that differ by less than this share are equal: they are computed to about 1e-13.
TIE = 1e-12
_LONGEST = 2**400  # a waiting time beyond this is infinite


# ---- exponents -------------------------------------------------------------------------------------------
def exploration_exponent(q: float, beta: float) -> float:
    """γ = 2β/(2β + q) (``eq:ETC_var_gamma``): with the scheduled ε, PM-ETC-M explores for Θ(T^γ) rounds.

    >>> exploration_exponent(q=1.0, beta=2.0)
    0.8
    """
    q, beta = exponents(q, beta)
    return 2.0 * beta / (2.0 * beta + q)


def spacing_exponent(q: float, beta: float) -> float:
    """κ = 1/(2β/q + 2) (``eq:vareps_kappa_UCB``): the UCB policies space their grid by T^−κ, up to logarithms.

    >>> spacing_exponent(q=1.0, beta=1.0)
    0.25
    """
    q, beta = exponents(q, beta)
    return 1.0 / (2.0 * beta / q + 2.0)


def arms_exponent_etc(q: float, beta: float) -> float:
    """c_E = 2(1 + (β + 1)/q) (``theorem:PM-ETC-M``): the power of K inside PM-ETC-M's ε-independent bound.

    >>> arms_exponent_etc(q=1.0, beta=2.0)
    8.0
    """
    q, beta = exponents(q, beta)
    return 2.0 * (1.0 + (beta + 1.0) / q)


def arms_exponent_ucb(q: float, beta: float) -> float:
    """c_U = max{q(1 + 2κ/q), 1 − κ} (``corollary:PM-UCB-M``): the power of K in the UCB policies' bound.

    >>> round(arms_exponent_ucb(q=1.0, beta=2.0), 12)
    1.333333333333
    """
    q, beta = exponents(q, beta)
    kappa = spacing_exponent(q, beta)
    return max(q * (1.0 + 2.0 * kappa / q), 1.0 - kappa)


def exponents(q: float, beta: float | None) -> tuple[float, float]:
    """q and β, checked; an unknown β names the ways to know it."""
    if beta is None:
        raise ValueError(
            "beta is not known: estimate it with pmb.theory.gap_exponent(metric, bandit), look it up with "
            "pmb.theory.known_exponents(metric), or give epsilon, whose bounds need no beta."
        )
    return (
        _check.within("q", q, 0.0, 1.0, open_lo=True),
        _check.within("beta", beta, 0.0, open_lo=True),
    )


# ---- how far estimates are off ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Condition:
    """Something that a bound needs: what, whether it is so, and what to do if not."""

    text: str
    holds: bool
    way_out: str = ""

    def __str__(self) -> str:
        return f"[{'x' if self.holds else ' '}] {self.text}"


@dataclass(frozen=True)
class Deviation:
    """r(n) in Wasserstein distance, with the probability that an arm is farther from its estimate than that.

    Attributes
    ----------
    name : of the confidence set.
    radius : n → r(n).
    once, ever : probability that any arm is outside at one time, and at any time up to the horizon.
    condition : what the rewards must satisfy for that.
    """

    name: str
    radius: Callable[[float], float] = field(repr=False)
    once: float
    ever: float
    condition: Condition


def wasserstein_radius(chosen: ConfidenceSet, support: Support) -> Callable[[float], float]:
    """The W1 radius n → r(n) that a confidence set of any kind implies.

    A ball has it already; a band of height c spans (hi − lo)·c; a Bernoulli interval kl(p̂, p) ≤ c lies in
    ±√(c/2) (Pinsker).

    >>> import pmbandits as pmb
    >>> from pmbandits.confidence import confidence_set
    >>> kl = confidence_set("kl", pmb.Binary(), 2, horizon=1000)
    >>> round(wasserstein_radius(kl, pmb.Binary())(100), 4)
    0.2693
    """
    if chosen.kind == "interval":
        return lambda n: sqrt(max(float(chosen.radius(n)), 0.0) / 2.0)
    if chosen.kind == "band":
        return lambda n: min(float(chosen.radius(n)), 1.0) * support.width
    return lambda n: float(chosen.radius(n))


def paper_radius(n: float, delta: float) -> float:
    """r(n) that ``lemma: concentration`` gives for one n: W1(F̂_n, F) ≤ r(n) with probability ≥ 1 − δ.

    r(n) = 16(√(e·log(2/δ)) + 32)/√n, for 1-sub-Gaussian arms. With δ = 2/T² it is the radius of
    ``eq:UCB_confidence_sets``, with δ_K that of ``eq:any_UCB_confidence_sets``, and N(ε) is where it meets the gap.

    >>> round(paper_radius(10_000, delta=2 / 10_000**2), 2)
    6.25
    """
    delta = _check.within("delta", delta, 0.0, 1.0, open_lo=True)
    return 16.0 * (sqrt(e * log(2.0 / delta)) + 32.0) / sqrt(n)


def concentration(n: float, distance: float) -> float:
    """``lemma: concentration``: a bound on the probability that W1(F̂_n, F) > distance, at most 1.

    It says something only beyond 512/√n: for rewards in [0, 1] not before n = 262,144.

    >>> concentration(1000, 1.0), concentration(10**6, 1.0) < 1e-70
    (1.0, True)
    """
    n = _check.within("n", n, 0.0, open_lo=True)
    beyond = _check.within("distance", distance, 0.0) - 512.0 / sqrt(n)
    return 1.0 if beyond <= 0.0 else min(1.0, 2.0 * float(np.exp(-n / (256.0 * e) * beyond**2)))


def deviation_at(confidence: Any, support: Support, n_arms: int, delta: float) -> Deviation:
    """r(n) for one n that is fixed in advance, each arm failing with probability ``delta`` (as PM-ETC-M needs)."""
    if isinstance(confidence, str):
        _check.choice("confidence", confidence, NAMES)
    if confidence == "paper":
        return Deviation(
            "paper",
            lambda n: paper_radius(n, delta),
            min(1.0, n_arms * delta),
            min(1.0, n_arms * delta),
            _subgaussian(support),
        )
    # A union over a single n is no union: horizon=1.
    chosen = confidence_set(confidence, support, n_arms, horizon=1, delta=min(delta, 1.0))
    failing = min(1.0, n_arms * delta)
    return Deviation(chosen.name, wasserstein_radius(chosen, support), failing, failing, _stated(chosen))


def deviation_until(confidence: Any, support: Support, n_arms: int, horizon: int) -> Deviation:
    """r(n) that the UCB policies use up to a horizon.

    The paper's fails with probability 2/T² for each arm and time, and it adds these up over times, although the
    number of rewards at a time is random. The other sets hold for all n ≤ T together with probability 1 − 1/T
    for each arm. An object is taken at its word, as failing with probability 1/T at most.
    """
    if isinstance(confidence, str):
        _check.choice("confidence", confidence, NAMES)
    if confidence == "paper":
        once = min(1.0, (1.0 + 2.0 / float(horizon) ** 2) ** n_arms - 1.0)
        chosen = confidence_set("paper", support, n_arms, horizon=horizon)
        radius = wasserstein_radius(chosen, support)
        return Deviation("paper", radius, once, min(1.0, horizon * once), _subgaussian(support))
    chosen = confidence_set(confidence, support, n_arms, horizon=horizon)
    failing = min(1.0, n_arms / horizon)
    return Deviation(chosen.name, wasserstein_radius(chosen, support), failing, failing, _stated(chosen))


def deviation_always(confidence: Any, support: Support, n_arms: int, delta: float) -> Deviation:
    """r(n) that CIRT uses: all arms together fail with probability ``delta``, at any time.

    The paper's radius is valid for a fixed n only (it takes no union over time), and the condition says so.
    """
    chosen = confidence_set(confidence, support, n_arms, delta=delta)
    condition = _stated(chosen)
    if confidence == "paper":
        condition = Condition(
            "the confidence sets hold at all times (the paper's hold for a fixed n only)",
            False,
            "take confidence='auto', which holds at all times",
        )
    return Deviation(chosen.name, wasserstein_radius(chosen, support), delta, delta, condition)


def _subgaussian(support: Support) -> Condition:
    sigma = support.sigma if isinstance(support, Real) else 0.5 * support.width  # Hoeffding's lemma
    return Condition(
        f"the arms are 1-sub-Gaussian (they are {sigma:g}-sub-Gaussian)",
        sigma <= 1.0,
        f"divide the rewards by {sigma:g}, or take another confidence set",
    )


def _stated(chosen: ConfidenceSet) -> Condition:
    return Condition(f"the confidence set {chosen.name!r} holds for the declared support", True)


class TiedMixtures(ValueError):
    """The gap that a bound is made of is 0."""


# ---- an instance -----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Facts:
    """What the bounds need to know about a metric and a bandit; made by :func:`facts`.

    Attributes
    ----------
    n_arms : K.
    q, constant : the Hölder pair (q, 𝓛) of the metric on the rewards' support.
    distance : W (``eq:W``), half the largest Wasserstein distance of two arms.
    largest_utility : B_h, the largest utility of a mixture.
    largest_loss : what a mixture can lose at most. It is B_h where utilities cannot be negative (as the paper
        takes for granted), else 𝓛(2W)^q.
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
    best: Best = field(repr=False)
    _known: dict[tuple[float, str], tuple[FloatArray, float, int]] = field(repr=False)
    _times: dict[tuple[Any, ...], float] = field(repr=False)

    def _top(self, epsilon: float, grid: Grid) -> tuple[FloatArray, float, int]:
        """The best three utilities of the grid, the best that differs from the first, and how many points there are."""
        key = (float(epsilon), grid)
        if key not in self._known:
            points = etc_grid(self.n_arms, epsilon) if grid == "etc" else ucb_grid(self.n_arms, epsilon)
            values = np.sort(utilities(self.metric, self.bandit, points))[::-1]
            worse = values[values[0] - values > 1e3 * TIE * max(1.0, abs(float(values[0])))]
            self._known[key] = (values[:3].copy(), float(worse[0]) if worse.size else float(values[0]), values.size)
        return self._known[key]

    def lost(self, rank: int, epsilon: float, grid: Grid = "etc") -> float:
        """δ_0i(ε), i ≤ 3 (``eq:regret_decomposition1_1``): what the i-th best of the grid loses to the best of all."""
        values, _, _ = self._top(epsilon, grid)
        return max(self.best.value, float(values[0])) - float(values[min(rank, values.size) - 1])

    def gap(self, epsilon: float, which: Gap = "12", grid: Grid = "etc") -> float:
        """δ_12(ε), δ_13(ε), or the gap to the next *different* value of the grid; 0 where mixtures tie.

        The proofs need only that whatever is not among the best is worse by the gap, so where two mixtures are
        equally good ``"distinct"`` serves in place of δ_12.
        """
        _check.choice("gap", which, GAPS)
        values, different, size = self._top(epsilon, grid)
        if which == "distinct":
            return float(values[0]) - different
        place = 1 if which == "12" else 2
        if size <= place:
            raise ValueError(
                f"the grid of {self.n_arms} arms with epsilon = {epsilon:g} has {size} points, too few for "
                f"delta_{which}; take a smaller epsilon."
            )
        difference = float(values[0] - values[place])
        return difference if difference > TIE * max(1.0, abs(float(values[0]))) else 0.0

    def positive_gap(self, epsilon: float, which: Gap = "12", grid: Grid = "etc") -> float:
        """The gap, or an error with the way out where it is 0."""
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
        raise TiedMixtures(
            f"delta_{which} is 0 at epsilon = {epsilon:g}: the best mixtures of the grid tie, and no number of "
            f"rewards tells them apart; {others}."
        )

    def tolerance(self, gap: float) -> float:
        """(δ/(2K𝓛))^(1/q): how close in W1 all arms must be estimated to tell mixtures apart that differ by δ."""
        return (gap / (2.0 * self.n_arms * self.constant)) ** (1.0 / self.q)


@lru_cache(maxsize=64)
def facts(metric: Distortion, bandit: Bandit) -> Facts:
    """The Hölder pair, W, B_h and the best mixture of a metric and a bandit: what every bound is made of.

    >>> import pmbandits as pmb
    >>> known = facts(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]))
    >>> known.q, known.constant, round(known.distance, 12), round(known.largest_utility, 12)
    (1.0, 1.0, 0.25, 0.25)
    >>> round(known.gap(0.1, "12"), 12)
    0.0025
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    if bandit.support is None:
        raise ValueError(
            "the bandit's support is not known: say Bandit(arms, support=Interval(lo, hi) or Real(sigma))."
        )
    pair = metric.holder(bandit.support)
    best = oracle(metric, bandit)
    distance = wasserstein_constant(bandit)
    never_negative = bandit.support.lo >= 0.0 and metric.minimum().value >= 0.0
    if not never_negative and metric.shape in ("concave", "linear"):
        never_negative = bool((utilities(metric, bandit, np.eye(bandit.n_arms)) >= 0.0).all())  # lowest at a corner
    loss = best.value if never_negative else pair.constant * (2.0 * distance) ** pair.q
    return Facts(
        metric=metric,
        bandit=bandit,
        support=bandit.support,
        n_arms=bandit.n_arms,
        q=pair.q,
        constant=pair.constant,
        distance=distance,
        largest_utility=best.value,
        largest_loss=loss,
        best=best,
        _known={},
        _times={},
    )


def largest_utility(metric: Distortion, where: Bandit | Support) -> float:
    """B_h: the largest utility of any mixture of a bandit's arms, or of any law on a bounded support.

    On a support it is lo·h(1) + (hi − lo)·max h, reached by a law on the two ends.

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
    """√(2π)·σ (``theorem:W``): W of arms that are σ-sub-Gaussian around 0. Arms with far means exceed it.

    >>> round(distance_limit(), 4)
    2.5066
    """
    return sqrt(2.0 * pi) * _check.within("sigma", sigma, 0.0, open_lo=True)


def estimation_limit(metric: Distortion, bandit: Bandit, epsilon: float, rank: int = 1) -> float:
    """𝓛(KWε)^q, a limit on δ_01(ε); twice that for δ_02(ε) (``lemma:Delta_error``).

    >>> import pmbandits as pmb
    >>> estimation_limit(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 0.1)
    0.05
    """
    known = facts(metric, bandit)
    return rank * known.constant * (known.n_arms * known.distance * epsilon) ** known.q


# ---- waiting times ---------------------------------------------------------------------------------------
def exploration_rounds(
    metric: Distortion,
    bandit: Bandit,
    horizon: int,
    epsilon: float,
    *,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """N(ε), or N_13(ε) with ``gap="13"``: the exploration of PM-ETC-M, for any confidence set.

    K times the least n with r(n) ≤ (δ/(2K𝓛))^(1/q), where r fails with probability 1/(K·T²·(ε^−(K−1) + 1)) for
    each arm. With the paper's radius this is ``eq:number of samples main paper`` to the letter.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.9])
    >>> [f"{exploration_rounds(gini, bandit, 10**6, 0.5, confidence=c):.3g}" for c in ("paper", "auto")]
    ['5.39e+08', '1.88e+04']
    """
    known = facts(metric, bandit)
    horizon = _check.whole("horizon", horizon, 2)
    tolerance = known.tolerance(known.positive_gap(epsilon, gap, "etc"))
    share = 1.0 / (known.n_arms * float(horizon) ** 2 * (epsilon ** -(known.n_arms - 1) + 1.0))
    off = deviation_at(confidence, known.support, known.n_arms, share)
    if off.name == "paper":  # r(n) = r(1)/√n, solved exactly
        return known.n_arms * (off.radius(1.0) / tolerance) ** 2
    return known.n_arms * _first(lambda n: off.radius(float(n)) <= tolerance, 1)


def exploration_scale(
    metric: Distortion,
    bandit: Bandit,
    horizon: int,
    epsilon: float,
    *,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """M(ε) = N(ε)/log T (``eq:M``): it tends to a constant, from above, because most of N(ε) is the 32/√e.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.9])
    >>> f"{exploration_scale(gini, bandit, 10**4, 0.5):.3g} {exploration_scale(gini, bandit, 10**12, 0.5):.3g}"
    '5.43e+07 2.3e+07'
    """
    return exploration_rounds(metric, bandit, horizon, epsilon, gap=gap, confidence=confidence) / log(horizon)


def separation_time(
    metric: Distortion,
    bandit: Bandit,
    epsilon: float,
    *,
    rho: float = 0.1,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """T_0(ε) (``eq:T_epsilon``): the least t such that r_s(ρsε/4) ≤ (δ/(2K𝓛))^(1/q) for every horizon s ≥ t.

    The main text's display lost a bracket; this is the appendix's, 2(√(2e·log s) + 32)/√(ρsε) ≤ …/16. Its argument
    takes an optimistic law to be one radius from the true one, although they can be two apart. The conclusion stands:
    a mixture that is not best has an optimistic value of at most its own plus K𝓛(2r)^q ≤ δ.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9])
    >>> f"{separation_time(gini, bandit, 0.4):.3g} {separation_time(gini, bandit, 0.4, confidence='auto'):.3g}"
    '1.33e+11 4.23e+06'
    """
    known, rho = facts(metric, bandit), _check.within("rho", rho, 0.0, 1.0, open_lo=True)
    key = ("separation", float(epsilon), rho, gap, confidence) if isinstance(confidence, str) else None
    if key is None or key not in known._times:  # it does not depend on the horizon, and bounds ask for it at each
        found = _separation(known, epsilon, rho, gap, confidence)
        if key is None:
            return found
        known._times[key] = found
    return known._times[key]


def _separation(known: Facts, epsilon: float, rho: float, gap: Gap, confidence: Any) -> float:
    tolerance = known.tolerance(known.positive_gap(epsilon, gap, "ucb"))

    def close(s: int) -> bool:
        off = deviation_until(confidence, known.support, known.n_arms, s)
        return off.radius(rho * s * epsilon / 4.0) <= tolerance

    # From s = 3 on the radius at ρsε/4 rewards falls with s, whatever the set.
    found = _first(close, 3)
    while 1.0 < found <= 3.0 and close(int(found) - 1):
        found -= 1.0
    return found


def settling_time(
    metric: Distortion,
    bandit: Bandit,
    epsilon: float,
    *,
    rho: float = 0.1,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """T(ε) = (2/ε)(T_0(ε) − 1) (``eq:T_epsilon_actual``): from then on \\|τ_t(i)/t − a(i)\\| < K/t.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9])
    >>> f"{settling_time(gini, bandit, 0.4):.3g}"
    '6.66e+11'
    """
    start = separation_time(metric, bandit, epsilon, rho=rho, gap=gap, confidence=confidence)
    return 2.0 / epsilon * (start - 1.0)


def _first(holds: Callable[[int], bool], start: int) -> float:
    """The least whole number from ``start`` on at which a condition holds that then holds for ever."""
    if holds(start):
        return float(start)
    low, high = start, 2 * start
    while not holds(high):
        low, high = high, 2 * high
        if high > _LONGEST:
            return inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return float(high)


# ---- CIRT ------------------------------------------------------------------------------------------------
def refinement_phases(epsilon: float, branching: int = 4) -> int:
    """L = ⌈log_{A/2}(1/ε)⌉: how many phases CIRT needs (the pseudocode's loop test stops one phase early).

    >>> refinement_phases(0.06), refinement_phases(0.25)
    (5, 2)
    """
    epsilon = _check.within("epsilon", epsilon, 0.0, 1.0, open_lo=True, open_hi=True)
    branching = _check.whole("branching", branching, 3)
    return max(1, ceil(log(1.0 / epsilon) / log(branching / 2.0) - 1e-9))


def retention_probability(epsilon: float, delta: float = 0.05, branching: int = 4) -> float:
    """1 − Lδ, not below 0 (``lemma:alpha_star_in``): how surely CIRT's boxes keep a best mixture.

    >>> round(retention_probability(0.06, delta=0.01), 12)
    0.95
    """
    delta = _check.within("delta", delta, 0.0, 1.0, open_lo=True, open_hi=True)
    return max(0.0, 1.0 - refinement_phases(epsilon, branching) * delta)


def arm_failure(delta: float, n_arms: int) -> float:
    """δ_K = (1 + δ)^(1/K) − 1 (``eq:any_UCB_confidence_sets``): CIRT's failure probability of each arm.

    >>> round(arm_failure(0.21, 2), 12)
    0.1
    """
    return float((1.0 + delta) ** (1.0 / n_arms) - 1.0)


def least_pulls(t: float, n_arms: int, exploration: float = 1.0) -> float:
    """(t/K)^(1/(1+ξ)) − 1 (``lemma:any_explicit_exploration``): CIRT has pulled every arm at least so often.

    >>> least_pulls(800, 2)
    19.0
    """
    return max(0.0, (t / n_arms) ** (1.0 / (1.0 + exploration)) - 1.0)


def refinement_time(
    metric: Distortion,
    bandit: Bandit,
    epsilon: float,
    *,
    delta: float = 0.05,
    branching: int = 4,
    exploration: float = 1.0,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """A time by which all phases of CIRT have ended while its confidence sets hold (``lemma:finite_stopping_time``).

    The proof's argument with numbers: a phase is over once 4·𝓛·Σ r(n)^q, at the least n that exploration
    guarantees, is below the gap of its grid. The gap of the whole simplex at the last phase's spacing stands for that
    of every phase. Infinite where mixtures tie. The proof has a 2 where bounds on both sides of two mixtures need 4.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.2, 0.7])
    >>> f"{refinement_time(gini, bandit, 0.25, confidence='auto'):.2g}"
    '3.4e+16'
    """
    known = facts(metric, bandit)
    phases = refinement_phases(epsilon, branching)
    off = deviation_always(confidence, known.support, known.n_arms, delta)
    gaps = [known.gap(2.0 ** (k - 1) / branching**k, gap, "etc") for k in range(1, phases + 1)]
    smallest = min(gaps)
    if smallest <= 0.0:
        return inf

    def over(t: int) -> bool:
        pulls = least_pulls(float(t), known.n_arms, exploration)
        if pulls < 1.0:
            return False
        return 4.0 * known.constant * known.n_arms * off.radius(pulls) ** known.q < smallest

    return _first(over, known.n_arms)


def exploration_yields(epsilon: float, n_arms: int, *, branching: int = 4, exploration: float = 1.0) -> float:
    """T_ξ: from then on CIRT explores an arm only if tracking would pull it too (``sec:proof_any_regret``).

    >>> exploration_yields(0.25, 2) > 100
    True
    """
    phases = refinement_phases(epsilon, branching)
    least_share = 2.0 ** (phases - 1) / branching ** (phases + 1)
    xi = _check.within("exploration", exploration, 0.0, open_lo=True)

    def yields(s: int) -> bool:
        return s ** (-xi / (1.0 + xi)) * n_arms ** (-1.0 / (1.0 + xi)) + 1.0 / s <= least_share

    return _first(yields, 1) - 1.0


def anytime_settling_time(
    refined_after: float, epsilon: float, n_arms: int, *, branching: int = 4, exploration: float = 1.0
) -> float:
    """τ^ε (``eq:any_T_epsilon_actual``): CIRT, refined after a given time, tracks within K/t from then on.

    (A^(L+1)/2^(L−1))·(max{τ^(L), T_ξ} − 1), because every tracked weight is at least 2^(L−1)/A^(L+1).

    >>> anytime_settling_time(10_000, 0.25, 2) > 10_000
    True
    """
    phases = refinement_phases(epsilon, branching)
    share = 2.0 ** (phases - 1) / branching ** (phases + 1)
    yields = exploration_yields(epsilon, n_arms, branching=branching, exploration=exploration)
    return (max(refined_after, yields) - 1.0) / share
