"""How far estimates can be off: the radius r(n) of each confidence set, and the probability that it holds.

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

from pmbandits import _check
from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.confidence.radii import paper_ball
from pmbandits.confidence.sets import NAMES
from pmbandits.schedules import arm_failure
from pmbandits.supports import Real, Support


@dataclass(frozen=True)
class Condition:
    """Something that a bound needs: what it is, whether it holds, and what to do if it does not."""

    text: str
    holds: bool
    way_out: str = ""

    def __str__(self) -> str:
        return f"[{'x' if self.holds else ' '}] {self.text}"


@dataclass(frozen=True)
class Deviation:
    """r(n) in Wasserstein distance, with the probability that an arm is further from its estimate than that.

    Attributes
    ----------
    name : the name of the confidence set.
    radius : the function n → r(n).
    once, ever : the probability that any arm is outside at one time, and at any time up to the horizon.
    condition : what the rewards must satisfy for that.
    """

    name: str
    radius: Callable[[float], float] = field(repr=False)
    once: float
    ever: float
    condition: Condition


def wasserstein_radius(chosen: ConfidenceSet, support: Support) -> Callable[[float], float]:
    """The radius n → r(n) in Wasserstein distance (W1) that a confidence set of any kind implies.

    A ball has such a radius already. A band of height c has the radius (hi − lo)·c. A Bernoulli interval kl(p̂, p) ≤ c
    lies in ±√(c/2) (Pinsker's inequality). So does a set of the kind ``belt`` at each x, but for a third more where c >
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
    if chosen.kind == "belt":

        def reach(n: float) -> float:
            c = float(chosen.radius(n))
            return support.width * min(1.0, sqrt(c / 2.0) * (4.0 / 3.0 if c > 0.2 and chosen.stretched else 1.0))

        return reach
    return lambda n: float(chosen.radius(n))


def paper_radius(n: float, delta: float) -> float:
    """The paper's radius for one n: W1(F̂_n, F) ≤ r(n) with probability ≥ 1 − δ (``lemma: concentration``).

    r(n) = 16(√(e·log(2/δ)) + 32)/√n, for 1-sub-Gaussian arms. With δ = 2/T² it is the radius of
    ``eq:UCB_confidence_sets``, and with δ_K that of ``eq:any_UCB_confidence_sets``. N(ε) is where it meets the gap.

    >>> round(paper_radius(10_000, delta=2 / 10_000**2), 2)
    6.25
    """
    delta = _check.within("delta", delta, 0.0, 1.0, open_lo=True)
    return float(paper_ball(n, log(2.0 / delta)))


def concentration(n: float, distance: float) -> float:
    """A bound on the probability that W1(F̂_n, F) > distance, at most 1 (``lemma: concentration``).

    It says something only for distances beyond 512/√n. For rewards in [0, 1] that is not before n = 262,144.

    >>> concentration(1000, 1.0), concentration(10**6, 1.0) < 1e-70
    (1.0, True)
    """
    n = _check.within("n", n, 0.0, open_lo=True)
    beyond = _check.within("distance", distance, 0.0) - 512.0 / sqrt(n)
    return 1.0 if beyond <= 0.0 else min(1.0, 2.0 * float(np.exp(-n / (256.0 * e) * beyond**2)))


def _by_radius(confidence: Any, support: Support, n_arms: int, **how: Any) -> ConfidenceSet:
    """The confidence set; or the ball, where the W1 radius of the set depends on the rewards (belts on the line)."""
    line = isinstance(support, Real) and confidence in ("auto", "kl")
    return confidence_set("wasserstein" if line else confidence, support, n_arms, **how)


def deviation_at(confidence: Any, support: Support, n_arms: int, delta: float) -> Deviation:
    """r(n) for one n that is fixed in advance, each arm failing with probability ``delta`` (as PM-ETC-M needs)."""
    if isinstance(confidence, str):
        _check.choice("confidence", confidence, NAMES)
    if confidence == "paper":
        return Deviation(
            "paper",
            _to_the_letter(delta),
            min(1.0, n_arms * delta),
            min(1.0, n_arms * delta),
            _subgaussian(support),
        )
    # A union over a single n is no union: horizon=1. For one n a band is narrower than a belt for all n, and of
    # Bernoulli means it is as wide as Chernoff's interval.
    single = "dkw" if confidence in ("auto", "kl") and isfinite(support.width) else confidence
    chosen = _by_radius(single, support, n_arms, horizon=1, delta=min(delta, 1.0))
    failing = min(1.0, n_arms * delta)
    return Deviation(chosen.name, wasserstein_radius(chosen, support), failing, failing, _stated(chosen))


def deviation_until(confidence: Any, support: Support, n_arms: int, horizon: int) -> Deviation:
    """r(n) that the UCB policies use up to a horizon.

    The paper's radius fails with probability 2/T² for each arm and time. The paper adds these up over times, although
    the number of rewards at a time is random. The other sets hold for all n ≤ T together with probability 1 − 1/T for
    each arm. An object of your own is trusted: it is taken to fail with probability 1/T at most.
    """
    if isinstance(confidence, str):
        _check.choice("confidence", confidence, NAMES)
    if confidence == "paper":
        once = min(1.0, (1.0 + 2.0 / float(horizon) ** 2) ** n_arms - 1.0)
        radius = _to_the_letter(2.0 / float(horizon) ** 2)
        return Deviation("paper", radius, once, min(1.0, horizon * once), _subgaussian(support))
    chosen = _by_radius(confidence, support, n_arms, horizon=horizon)
    failing = min(1.0, n_arms / horizon)
    return Deviation(chosen.name, wasserstein_radius(chosen, support), failing, failing, _stated(chosen))


def deviation_always(confidence: Any, support: Support, n_arms: int, delta: float) -> Deviation:
    """r(n) that CIRT uses: all arms together fail with probability ``delta``, at any time.

    The paper's radius is valid for a fixed n only (it takes no union over time), and the condition says so.
    """
    if confidence == "paper":
        condition = Condition(
            "the confidence sets hold at all times (the paper's hold for a fixed n only)",
            False,
            "take confidence='auto', which holds at all times",
        )
        return Deviation("paper", _to_the_letter(arm_failure(delta, n_arms)), delta, delta, condition)
    chosen = _by_radius(confidence, support, n_arms, delta=delta)
    return Deviation(chosen.name, wasserstein_radius(chosen, support), delta, delta, _stated(chosen))


def _to_the_letter(delta: float) -> Callable[[float], float]:
    """The paper's radius as printed, for 1-sub-Gaussian arms: its theorems are stated for these, as a condition."""
    return lambda n: paper_radius(n, delta) if n > 0.0 else inf


def _subgaussian(support: Support) -> Condition:
    sigma = support.scale
    return Condition(
        f"the arms are 1-sub-Gaussian (they are {sigma:g}-sub-Gaussian)",
        sigma <= 1.0,
        f"divide the rewards by {sigma:g}, or take another confidence set",
    )


def _stated(chosen: ConfidenceSet) -> Condition:
    return Condition(f"the confidence set {chosen.name!r} holds for the declared support", True)
