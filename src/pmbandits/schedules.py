"""Schedules of ε and of the exploration, as the policies use them. Orders are Θ(·): the constant is yours."""

from __future__ import annotations

from math import e, log, sqrt

from pmbandits import _check


def epsilon_etc(horizon: int, n_arms: int, q: float = 1.0, beta: float = 2.0, constant: float = 1.0) -> float:
    """ε of PM-ETC-M (``eq:ETC_var_gamma``): constant · (K^(2 + 2/q) · log T / T^γ)^(q/2β), γ = 2β/(2β + q).

    >>> round(epsilon_etc(60_000, 2), 3)
    0.403
    """
    horizon, n_arms = _check.whole("horizon", horizon, 2), _check.whole("n_arms", n_arms, 1)
    gamma = 2.0 * beta / (2.0 * beta + q)
    return constant * (n_arms ** (2.0 + 2.0 / q) * log(horizon) / horizon**gamma) ** (q / (2.0 * beta))


def epsilon_ucb(horizon: int, n_arms: int, q: float = 1.0, beta: float = 2.0, constant: float = 1.0) -> float:
    """ε of PM-UCB-M and CE-UCB-M (``eq:vareps_kappa_UCB``): constant · (K^(2/q) · log T / T)^κ, κ = 1/(2β/q + 2).

    >>> round(epsilon_ucb(60_000, 2), 3)
    0.3
    """
    horizon, n_arms = _check.whole("horizon", horizon, 2), _check.whole("n_arms", n_arms, 1)
    kappa = 1.0 / (2.0 * beta / q + 2.0)
    return constant * (n_arms ** (2.0 / q) * log(horizon) / horizon) ** kappa


def exploration(horizon: int, n_arms: int, epsilon: float, gap: float, q: float, constant: float) -> float:
    """N(ε) of PM-ETC-M (``eq:number of samples main paper``; with δ_13 for ``gap``, N_13(ε)).

    ``constant`` is the Hölder constant. At horizons that people run it is far larger than the horizon.

    >>> exploration(60_000, 2, 0.1, gap=0.0025, q=1.0, constant=1.0) > 1e9
    True
    """
    gap = _check.within("gap", gap, 0.0, open_lo=True, hint="With tied mixtures the gap is 0: give N, or use delta_13.")
    rate = (2.0 * n_arms * constant / gap) ** (2.0 / q)
    inner = 32.0 / sqrt(e) + sqrt(log(2.0 * n_arms * horizon**2 * (epsilon ** -(n_arms - 1) + 1.0)))
    return 256.0 * n_arms * e * rate * inner**2
