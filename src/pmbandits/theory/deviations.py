"""Deviation of estimates: the radius r(n) of each confidence set, and the probability that it holds.

The constants of the paper's analysis are formulas in this radius: how far, in Wasserstein distance, an arm's
distribution may be from n of its rewards. The paper's radius is one choice, ``confidence="paper"``. The same code works
with every other set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import e, inf, isfinite, log, sqrt
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.confidence.radii import paper_w1_radius
from pmbandits.confidence.sets import NAMES
from pmbandits.schedules import arm_failure
from pmbandits.supports import Real, Support


@dataclass(frozen=True)
class Condition:
    """Something that a bound needs: what it is, whether it holds, and what to do if it does not."""

    text: str
    holds: bool
    remedy: str = ""

    def __str__(self) -> str:
        return f"[{'x' if self.holds else ' '}] {self.text}"


@dataclass(frozen=True)
class Deviation:
    """r(n) in Wasserstein distance, with the probability that an arm is further from its estimate than that.

    Attributes
    ----------
    name : the name of the confidence set.
    radius : the function n → r(n).
    failure_at_once : the probability that any arm is outside at one time.
    failure_ever : the probability that any arm is outside at any time up to the horizon.
    condition : what the rewards must satisfy for that.
    """

    name: str
    radius: Callable[[float], float] = field(repr=False)
    failure_at_once: float
    failure_ever: float
    condition: Condition


def wasserstein_radius(chosen: ConfidenceSet, support: Support) -> Callable[[float], float]:
    """The radius n → r(n) in Wasserstein distance (W1) that a confidence set of any kind implies.

    A ball has such a radius already. A band of height c has the radius (hi − lo)·c. A Bernoulli interval kl(p̂, p) ≤ c
    lies in ±√(c/2) (Pinsker's inequality). So does a set of kind ``kl_band`` at each x, but for a third more where c >
    0.2 and its ends are stretched.

    >>> import pmbandits as pmb
    >>> from pmbandits.confidence import confidence_set
    >>> kl = confidence_set("kl", pmb.Binary(), 2, horizon=1000)
    >>> round(wasserstein_radius(kl, pmb.Binary())(100), 4)
    0.2225
    """
    if chosen.kind == "interval":
        return lambda n: sqrt(max(float(chosen.radius(n)), 0.0) / 2.0)
    if chosen.kind == "band":
        return lambda n: min(float(chosen.radius(n)), 1.0) * support.width
    if chosen.kind == "kl_band":

        def radius_of(n: float) -> float:
            c = float(chosen.radius(n))
            return support.width * min(1.0, sqrt(c / 2.0) * (4.0 / 3.0 if c > 0.2 and chosen.stretched else 1.0))

        return radius_of
    return lambda n: float(chosen.radius(n))


def paper_radius(n: float, delta: float) -> float:
    """The paper's radius for one n: W1(F̂_n, F) ≤ r(n) with probability ≥ 1 − δ (``lemma: concentration``).

    r(n) = 16(√(e·log(2/δ)) + 32)/√n, for 1-sub-Gaussian arms. With δ = 2/T² it is the radius of
    ``eq:UCB_confidence_sets``, and with δ_K that of ``eq:any_UCB_confidence_sets``. N(ε) is where it meets the gap.

    >>> round(paper_radius(10_000, delta=2 / 10_000**2), 2)
    6.25
    """
    delta = _validation.check_within("delta", delta, 0.0, 1.0, open_lo=True)
    return float(paper_w1_radius(n, log(2.0 / delta)))


def concentration(n: float, distance: float) -> float:
    """A bound on the probability that W1(F̂_n, F) > distance, at most 1 (``lemma: concentration``).

    It says something only for distances beyond 512/√n. For rewards in [0, 1] that is not before n = 262,144.

    >>> concentration(1000, 1.0), concentration(10**6, 1.0) < 1e-70
    (1.0, True)
    """
    n = _validation.check_within("n", n, 0.0, open_lo=True)
    excess = _validation.check_within("distance", distance, 0.0) - 512.0 / sqrt(n)
    return 1.0 if excess <= 0.0 else min(1.0, 2.0 * float(np.exp(-n / (256.0 * e) * excess**2)))


def _deviation_of_confidence_set(
    confidence: Any, support: Support, n_arms: int, failure: float, **options: Any
) -> Deviation:
    """r(n) of a set; or of the ball, where the W1 radius of the set depends on the rewards (KL bands on ``Real``)."""
    is_sub_gaussian = isinstance(support, Real) and confidence in ("auto", "kl")
    chosen = confidence_set("wasserstein" if is_sub_gaussian else confidence, support, n_arms, **options)
    condition = Condition(f"the confidence set {chosen.name!r} holds for the declared support", True)
    return Deviation(chosen.name, wasserstein_radius(chosen, support), failure, failure, condition)


def _paper_deviation(delta: float, at_once: float, ever: float, condition: Condition) -> Deviation:
    """The paper's radius as printed, for 1-sub-Gaussian arms, which its theorems require."""
    return Deviation("paper", lambda n: paper_radius(n, delta) if n > 0.0 else inf, at_once, ever, condition)


def deviation_valid_at_fixed_n(confidence: Any, support: Support, n_arms: int, delta: float) -> Deviation:
    """r(n) for one n that is fixed in advance, each arm failing with probability ``delta`` (as PM-ETC-M needs)."""
    if isinstance(confidence, str):
        _validation.check_choice("confidence", confidence, NAMES)
    failure = min(1.0, n_arms * delta)
    if confidence == "paper":
        return _paper_deviation(delta, failure, failure, _subgaussian_condition(support))
    # A union over a single n is no union: horizon=1. For one n a DKW band is narrower than a KL band for all n, and of
    # Bernoulli means it is as wide as Chernoff's interval.
    single = "dkw" if confidence in ("auto", "kl") and isfinite(support.width) else confidence
    return _deviation_of_confidence_set(single, support, n_arms, failure, horizon=1, delta=min(delta, 1.0))


def deviation_valid_up_to_horizon(confidence: Any, support: Support, n_arms: int, horizon: int) -> Deviation:
    """r(n) that the UCB policies use up to a horizon.

    The paper's radius fails with probability 2/T² for each arm and time. The paper adds these up over times, although
    the number of rewards at a time is random. The other sets hold for all n ≤ T together with probability 1 − 1/T for
    each arm. An object of your own is trusted: it is taken to fail with probability 1/T at most.
    """
    if isinstance(confidence, str):
        _validation.check_choice("confidence", confidence, NAMES)
    if confidence == "paper":
        at_once = min(1.0, (1.0 + 2.0 / float(horizon) ** 2) ** n_arms - 1.0)
        ever = min(1.0, horizon * at_once)
        return _paper_deviation(2.0 / float(horizon) ** 2, at_once, ever, _subgaussian_condition(support))
    return _deviation_of_confidence_set(confidence, support, n_arms, min(1.0, n_arms / horizon), horizon=horizon)


def deviation_valid_at_all_times(confidence: Any, support: Support, n_arms: int, delta: float) -> Deviation:
    """r(n) that CIRT uses: all arms together fail with probability ``delta``, at any time.

    The paper's radius is valid for a fixed n only (it takes no union over time), and the condition says so.
    """
    if confidence == "paper":
        condition = Condition(
            "the confidence sets hold at all times (the paper's hold for a fixed n only)",
            False,
            "take confidence='auto', which holds at all times",
        )
        return _paper_deviation(arm_failure(delta, n_arms), delta, delta, condition)
    return _deviation_of_confidence_set(confidence, support, n_arms, delta, delta=delta)


def _subgaussian_condition(support: Support) -> Condition:
    sigma = support.scale
    return Condition(
        f"the arms are 1-sub-Gaussian (they are {sigma:g}-sub-Gaussian)",
        sigma <= 1.0,
        f"divide the rewards by {sigma:g}, or take another confidence set",
    )
