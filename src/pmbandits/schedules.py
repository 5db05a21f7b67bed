"""Schedules and their exponents, as policies and theory use them.

The paper gives them up to a constant factor, Θ(·): here the constant is a parameter.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, e, log, sqrt
from typing import TypeVar

from pmbandits import _validation

Number = TypeVar("Number", float, Fraction)


# ---- exponents -------------------------------------------------------------------------------------------
def exploration_exponent_unchecked(q: Number, beta: Number) -> Number:
    """γ = 2β/(2β + q) (``eq:ETC_var_gamma``), unchecked and exact for fractions."""
    return 2 * beta / (2 * beta + q)


def spacing_exponent_unchecked(q: Number, beta: Number) -> Number:
    """κ = 1/(2β/q + 2) (``eq:vareps_kappa_UCB``), unchecked and exact for fractions."""
    return 1 / (2 * beta / q + 2)


def check_exponents(q: float, beta: float | None) -> tuple[float, float]:
    """q and β, checked. If β is not known, the error says how it can be found."""
    if beta is None:
        raise ValueError(
            "beta is not known: estimate it with pmb.theory.gap_exponent(metric, bandit), look it up with "
            "pmb.theory.known_exponents(metric), or give epsilon, whose bounds need no beta."
        )
    return (
        _validation.check_within("q", q, 0.0, 1.0, open_lo=True),
        _validation.check_within("beta", beta, 0.0, open_lo=True),
    )


def exploration_exponent(q: float, beta: float) -> float:
    """γ = 2β/(2β + q): with the ε of the schedule, PM-ETC-M explores for Θ(T^γ) rounds (``eq:ETC_var_gamma``).

    >>> exploration_exponent(q=1.0, beta=2.0)
    0.8
    """
    q, beta = check_exponents(q, beta)
    return exploration_exponent_unchecked(q, beta)


def spacing_exponent(q: float, beta: float) -> float:
    """κ = 1/(2β/q + 2): the UCB policies space their grid by T^−κ, up to logarithms (``eq:vareps_kappa_UCB``).

    >>> spacing_exponent(q=1.0, beta=1.0)
    0.25
    """
    q, beta = check_exponents(q, beta)
    return spacing_exponent_unchecked(q, beta)


def arms_exponent_etc(q: float, beta: float) -> float:
    """The power of K in the bound of PM-ETC-M with the scheduled ε: c_E = 2(1 + (β + 1)/q) (``theorem:PM-ETC-M``).

    >>> arms_exponent_etc(q=1.0, beta=2.0)
    8.0
    """
    q, beta = check_exponents(q, beta)
    return 2.0 * (1.0 + (beta + 1.0) / q)


def arms_exponent_ucb(q: float, beta: float) -> float:
    """The power of K in the bound of the UCB policies: c_U = max{q(1 + 2κ/q), 1 − κ} (``corollary:PM-UCB-M``).

    >>> round(arms_exponent_ucb(q=1.0, beta=2.0), 12)
    1.333333333333
    """
    q, beta = check_exponents(q, beta)
    spacing = spacing_exponent_unchecked(q, beta)
    return max(q * (1.0 + 2.0 * spacing / q), 1.0 - spacing)


# ---- ε and exploration -----------------------------------------------------------------------------------
def epsilon_etc(horizon: int, n_arms: int, q: float = 1.0, beta: float = 2.0, constant: float = 1.0) -> float:
    """The spacing ε of PM-ETC-M by the paper's schedule (``eq:ETC_var_gamma``).

    It is constant · (K^(2 + 2/q) · log T / T^γ)^(q/2β), with γ = 2β/(2β + q).

    >>> round(epsilon_etc(60_000, 2), 3)
    0.403
    """
    horizon, n_arms = (
        _validation.check_whole_number("horizon", horizon, 2),
        _validation.check_whole_number("n_arms", n_arms, 1),
    )
    return constant * (
        n_arms ** (2.0 + 2.0 / q) * log(horizon) / horizon ** exploration_exponent_unchecked(q, beta)
    ) ** (q / (2.0 * beta))


def epsilon_ucb(horizon: int, n_arms: int, q: float = 1.0, beta: float = 2.0, constant: float = 1.0) -> float:
    """The spacing ε of PM-UCB-M and CE-UCB-M by the paper's schedule (``eq:vareps_kappa_UCB``).

    It is constant · (K^(2/q) · log T / T)^κ, with κ = 1/(2β/q + 2).

    >>> round(epsilon_ucb(60_000, 2), 3)
    0.3
    """
    horizon, n_arms = (
        _validation.check_whole_number("horizon", horizon, 2),
        _validation.check_whole_number("n_arms", n_arms, 1),
    )
    return constant * (n_arms ** (2.0 / q) * log(horizon) / horizon) ** spacing_exponent_unchecked(q, beta)


def exploration(horizon: int, n_arms: int, epsilon: float, gap: float, q: float, constant: float) -> float:
    """N(ε): how many rounds PM-ETC-M explores, by the paper's formula (``eq:number of samples main paper``).

    With δ_13 for ``gap`` it is N_13(ε). ``constant`` is the Hölder constant. For every horizon that can be played in
    practice, N(ε) is far larger than the horizon.

    >>> exploration(60_000, 2, 0.1, gap=0.0025, q=1.0, constant=1.0) > 1e9
    True
    """
    gap = _validation.check_within(
        "gap", gap, 0.0, open_lo=True, hint="With tied mixtures the gap is 0: give N, or use delta_13."
    )
    rate = (2.0 * n_arms * constant / gap) ** (2.0 / q)
    inner = 32.0 / sqrt(e) + sqrt(log(2.0 * n_arms * horizon**2 * (epsilon ** -(n_arms - 1) + 1.0)))
    return 256.0 * n_arms * e * rate * inner**2


# ---- CIRT ------------------------------------------------------------------------------------------------
def refinement_phases(epsilon: float, branching: int = 4) -> int:
    """L = ⌈log_{A/2}(1/ε)⌉: how many phases CIRT needs.

    (The loop test in the paper's pseudocode stops one phase early.)

    >>> refinement_phases(0.06), refinement_phases(0.25)
    (5, 2)
    """
    epsilon = _validation.check_within("epsilon", epsilon, 0.0, 1.0, open_lo=True, open_hi=True)
    branching = _validation.check_whole_number("branching", branching, 3)
    return max(1, ceil(log(1.0 / epsilon) / log(branching / 2.0) - 1e-9))


def arm_failure(delta: float, n_arms: int) -> float:
    """δ_K = (1 + δ)^(1/K) − 1: the probability with which CIRT lets the set of each arm fail.

    This is in ``eq:any_UCB_confidence_sets``.

    >>> round(arm_failure(0.21, 2), 12)
    0.1
    """
    return float((1.0 + delta) ** (1.0 / n_arms) - 1.0)
