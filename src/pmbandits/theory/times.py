"""Times in the paper's analysis: how long policies explore, and when their shares have settled."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf, log
from typing import Any

from pmbandits import _validation
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.schedules import refinement_phases
from pmbandits.theory.deviations import (
    deviation_valid_at_all_times,
    deviation_valid_at_fixed_n,
    deviation_valid_up_to_horizon,
)
from pmbandits.theory.instance import Facts, Gap, facts

_MAX_TIME = 2**400  # a waiting time beyond this is infinite


def exploration_rounds(
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float,
    *,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """How many rounds PM-ETC-M explores, for any confidence set: N(ε), or N_13(ε) with ``gap="13"``.

    It is K times the smallest n with r(n) ≤ (δ/(2K𝓛))^(1/q), where r fails with probability 1/(K·T²·(ε^−(K−1) + 1)) for
    each arm. With the paper's radius this is exactly ``eq:number of samples main paper``.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.9])
    >>> [f"{exploration_rounds(gini, bandit, 10**6, 0.5, confidence=c):.3g}" for c in ("paper", "auto")]
    ['5.39e+08', '1.88e+04']
    """
    known = facts(metric, bandit)
    horizon = _validation.check_whole_number("horizon", horizon, 2)
    tolerance = known.tolerance(known.positive_gap(epsilon, gap, "etc"))
    share = 1.0 / (known.n_arms * float(horizon) ** 2 * (epsilon ** -(known.n_arms - 1) + 1.0))
    deviation = deviation_valid_at_fixed_n(confidence, known.support, known.n_arms, share)
    if deviation.name == "paper":  # r(n) = r(1)/√n, solved exactly
        return known.n_arms * (deviation.radius(1.0) / tolerance) ** 2
    return known.n_arms * _smallest_number_that_holds(lambda n: deviation.radius(float(n)) <= tolerance, 1)


def exploration_scale(
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float,
    *,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """M(ε) = N(ε)/log T (``eq:M``): how much PM-ETC-M explores for each unit of log T.

    As T grows, it falls to a constant, because most of N(ε) comes from the 32 in the radius, which does not grow with
    T.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.9])
    >>> f"{exploration_scale(gini, bandit, 10**4, 0.5):.3g} {exploration_scale(gini, bandit, 10**12, 0.5):.3g}"
    '5.43e+07 2.3e+07'
    """
    return exploration_rounds(metric, bandit, horizon, epsilon, gap=gap, confidence=confidence) / log(horizon)


def separation_time(
    metric: Distortion | str,
    bandit: Bandit,
    epsilon: float,
    *,
    rho: float = 0.1,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """T_0(ε): from this time on the UCB policies know the arms well enough to tell mixtures apart.

    It is the smallest t such that r_s(ρsε/4) ≤ (δ/(2K𝓛))^(1/q) for every horizon s ≥ t (``eq:T_epsilon``). A bracket is
    missing in the main text of the paper; this is the appendix's formula, 2(√(2e·log s) + 32)/√(ρsε) ≤ …/16. The
    paper's argument takes an optimistic distribution to be one radius from the true one, although the two can be two
    radii apart. The conclusion is still right: a mixture that is not best has an optimistic value of at most its own
    plus K𝓛(2r)^q ≤ δ.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9])
    >>> f"{separation_time(gini, bandit, 0.4):.3g} {separation_time(gini, bandit, 0.4, confidence='auto'):.3g}"
    '1.33e+11 2.8e+06'
    """
    rho = _validation.check_within("rho", rho, 0.0, 1.0, open_lo=True)
    # It does not depend on the horizon, and bounds ask for it at each.
    compute = _separation_time if isinstance(confidence, str) else _separation_time.__wrapped__
    return compute(facts(metric, bandit), float(epsilon), rho, gap, confidence)


@lru_cache(maxsize=1024)
def _separation_time(known: Facts, epsilon: float, rho: float, gap: Gap, confidence: Any) -> float:
    tolerance = known.tolerance(known.positive_gap(epsilon, gap, "ucb"))

    def is_close_enough(s: int) -> bool:
        deviation = deviation_valid_up_to_horizon(confidence, known.support, known.n_arms, s)
        return deviation.radius(rho * s * epsilon / 4.0) <= tolerance

    # From s = 3 on the radius at ρsε/4 rewards falls with s, whatever the set.
    found = _smallest_number_that_holds(is_close_enough, 3)
    while 1.0 < found <= 3.0 and is_close_enough(int(found) - 1):
        found -= 1.0
    return found


def settling_time(
    metric: Distortion | str,
    bandit: Bandit,
    epsilon: float,
    *,
    rho: float = 0.1,
    gap: Gap = "12",
    confidence: Any = "paper",
) -> float:
    """T(ε) = (2/ε)(T_0(ε) − 1): from then on the shares played are within K/t of the mixture (``eq:T_epsilon_actual``).

    That is, |τ_t(i)/t − a(i)| < K/t for every arm i, where τ_t(i) is how often it was pulled in t rounds.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9])
    >>> f"{settling_time(gini, bandit, 0.4):.3g}"
    '6.66e+11'
    """
    start = separation_time(metric, bandit, epsilon, rho=rho, gap=gap, confidence=confidence)
    return 2.0 / epsilon * (start - 1.0)


def _smallest_number_that_holds(holds: Callable[[int], bool], start: int) -> float:
    """The smallest whole number from ``start`` on at which a condition holds; from there on it must always hold."""
    if holds(start):
        return float(start)
    low, high = start, 2 * start
    while not holds(high):
        low, high = high, 2 * high
        if high > _MAX_TIME:
            return inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return float(high)


# ---- CIRT ------------------------------------------------------------------------------------------------


def retention_probability(epsilon: float, delta: float = 0.05, branching: int = 4) -> float:
    """1 − Lδ, but not below 0: how surely the boxes of CIRT keep a best mixture (``lemma:alpha_star_in``).

    L is the number of phases, and δ the probability that some confidence set ever fails.

    >>> round(retention_probability(0.06, delta=0.01), 12)
    0.95
    """
    delta = _validation.check_within("delta", delta, 0.0, 1.0, open_lo=True, open_hi=True)
    return max(0.0, 1.0 - refinement_phases(epsilon, branching) * delta)


def least_pulls(t: float, n_arms: int, exploration: float = 1.0) -> float:
    """(t/K)^(1/(1+ξ)) − 1: in t rounds CIRT has pulled every arm at least this often.

    This is ``lemma:any_explicit_exploration``; ξ is the option ``exploration``.

    >>> least_pulls(800, 2)
    19.0
    """
    return max(0.0, (t / n_arms) ** (1.0 / (1.0 + exploration)) - 1.0)


def refinement_time(
    metric: Distortion | str,
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

    These are the numbers of the proof's argument: a phase is over once 4·𝓛·Σ r(n)^q is below the gap of its grid, where
    n is the smallest number of pulls that exploration guarantees. The gap of the whole simplex at the spacing of the
    last phase stands for that of every phase. The time is infinite where mixtures tie. (The proof has a 2 where bounds
    on both sides of two mixtures need a 4.)

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.2, 0.7])
    >>> f"{refinement_time(gini, bandit, 0.25, confidence='auto'):.2g}"
    '1.2e+16'
    """
    known = facts(metric, bandit)
    phases = refinement_phases(epsilon, branching)
    deviation = deviation_valid_at_all_times(confidence, known.support, known.n_arms, delta)
    gaps = [known.gap(2.0 ** (k - 1) / branching**k, gap, "etc") for k in range(1, phases + 1)]
    smallest = min(gaps)
    if smallest <= 0.0:
        return inf

    def phases_ended(t: int) -> bool:
        pulls = least_pulls(float(t), known.n_arms, exploration)
        if pulls < 1.0:
            return False
        return 4.0 * known.constant * known.n_arms * deviation.radius(pulls) ** known.q < smallest

    return _smallest_number_that_holds(phases_ended, known.n_arms)


def exploration_yields(epsilon: float, n_arms: int, *, branching: int = 4, exploration: float = 1.0) -> float:
    """T_ξ: from this time on CIRT explores an arm only if tracking would pull it, too (``sec:proof_any_regret``).

    >>> exploration_yields(0.25, 2) > 100
    True
    """
    least_share = _least_tracked_share(epsilon, branching)
    xi = _validation.check_within("exploration", exploration, 0.0, open_lo=True)

    def yields(s: int) -> bool:
        return s ** (-xi / (1.0 + xi)) * n_arms ** (-1.0 / (1.0 + xi)) + 1.0 / s <= least_share

    return _smallest_number_that_holds(yields, 1) - 1.0


def anytime_settling_time(
    refined_after: float, epsilon: float, n_arms: int, *, branching: int = 4, exploration: float = 1.0
) -> float:
    """τ^ε: from this time on the shares that CIRT plays are within K/t of its mixture (``eq:any_T_epsilon_actual``).

    It is (A^(L+1)/2^(L−1))·(max{τ^(L), T_ξ} − 1), where τ^(L) is the round in which refinement ended
    (``refined_after``). This is so because every weight that is tracked is at least 2^(L−1)/A^(L+1).

    >>> anytime_settling_time(10_000, 0.25, 2) > 10_000
    True
    """
    yields = exploration_yields(epsilon, n_arms, branching=branching, exploration=exploration)
    return (max(refined_after, yields) - 1.0) / _least_tracked_share(epsilon, branching)


def _least_tracked_share(epsilon: float, branching: int) -> float:
    """2^(L−1)/A^(L+1): the smallest weight that CIRT tracks."""
    phases = refinement_phases(epsilon, branching)
    return float(2.0 ** (phases - 1) / branching ** (phases + 1))
