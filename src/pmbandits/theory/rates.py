"""Rates: the bounds as powers of K, T and log T, in which ε is chosen well."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Literal

from pmbandits import _validation
from pmbandits.schedules import (
    arms_exponent_etc,
    arms_exponent_ucb,
    check_exponents,
    exploration_exponent_unchecked,
    spacing_exponent_unchecked,
)
from pmbandits.theory.bounds import RegretBound

Family = Literal["etc", "ucb", "etc_one_arm"]


@dataclass(frozen=True)
class Rate:
    """A rate at which regret falls: constant · K^arms · T^−horizon · (log T)^log, with ε chosen as a function of T.

    ``horizon`` and ``log`` are exact fractions where q and β are simple numbers.
    """

    family: Family
    q: float
    beta: float
    arms: float
    horizon: Fraction
    log: Fraction
    equation: str

    def at(self, horizon: int, n_arms: int = 1, constant: float = 1.0) -> float:
        """The value of the rate. The paper proves an order, O(·), so the leading constant is up to you (default 1).

        >>> round(rate("ucb", q=1.0, beta=1.0).at(10**6, n_arms=2), 4)
        0.1724
        """
        horizon = _validation.check_whole_number("horizon", horizon, 2)
        return (
            constant
            * float(_validation.check_whole_number("n_arms", n_arms, 1)) ** self.arms
            * float(horizon) ** -float(self.horizon)
            * log(horizon) ** float(self.log)
        )

    def __str__(self) -> str:
        log_factor = "log T" if self.log == 1 else f"(log T)^({format_power(self.log)})"
        return f"T^(−{format_power(self.horizon)})·{log_factor}"


def format_power(power: Fraction) -> str:
    """Format a power as a fraction, or as a decimal number where the fraction would be long."""
    return str(power) if power.denominator <= 10_000 else f"{float(power):.4g}"


def rate(family: Family, q: float, beta: float | None = None) -> Rate:
    """The bounds in which ε is chosen well, as powers of K, T and log T.

    Parameters
    ----------
    family : ``"etc"`` is [K^c_E·log T/T^γ]^(q²/2β) of ``theorem:PM-ETC-M``, and with β̄ for β that of
        ``theorem:PM-ETC-M_beta13``. ``"ucb"`` is K^c_U·[log T/T]^(qκ) of ``corollary:PM-UCB-M``, for PM-UCB-M and
        CE-UCB-M. ``"etc_one_arm"`` is [log T/T]^q, for PM-ETC-M with ε = 1 where a single arm is known to be best.
    q, beta : the Hölder exponent and the gap exponent.

    Below β = q/2 the paper's UCB rate is no longer the larger of its two terms; then the other one is taken.

    Examples
    --------
    >>> print(rate("etc", q=1.0, beta=2.0))
    T^(−1/5)·(log T)^(1/4)
    >>> print(rate("ucb", q=1.0, beta=2.0))
    T^(−1/6)·(log T)^(1/6)
    """
    _validation.check_choice("family", family, ["etc", "ucb", "etc_one_arm"])
    if family == "etc_one_arm":
        q, beta = check_exponents(q, 1.0 if beta is None else beta)
        exact = _simplest_fraction(q)
        return Rate(family, q, beta, q + 3.0, exact, exact, "theorem: ETC upper bound with ε = 1")
    q, beta = check_exponents(q, beta)
    p, b = _simplest_fraction(q), _simplest_fraction(beta)
    if family == "etc":
        power = p * p / (2 * b)
        arms = arms_exponent_etc(q, beta) * float(power)
        return Rate(family, q, beta, arms, exploration_exponent_unchecked(p, b) * power, power, "theorem:PM-ETC-M")
    spacing = spacing_exponent_unchecked(p, b)
    power = min(p * spacing, (1 - spacing) * p / 2)
    return Rate(family, q, beta, arms_exponent_ucb(q, beta), power, power, "corollary:PM-UCB-M")


def leading_constant(bound: RegretBound, known: Rate, n_arms: int) -> float:
    """The constant with which a rate equals a bound: what the order O(·) hides.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9])
    >>> found = pmb.theory.ucb_bound(gini, bandit, 10**9, beta=2.0, gap="distinct")
    >>> round(leading_constant(found, rate("ucb", q=1.0, beta=2.0), n_arms=2), 1)
    42.2
    """
    return bound.value / known.at(bound.horizon, n_arms)


def _simplest_fraction(x: float) -> Fraction:
    """Return the simple fraction that a float stands for (1/3 for 0.333…), else its exact value."""
    near = Fraction(x).limit_denominator(1000)
    return near if abs(float(near) - x) < 1e-12 else Fraction(x)
