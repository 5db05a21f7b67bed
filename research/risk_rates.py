"""Regret against the horizon for risk measures of which one arm is best: what is played, and the exponents.

The paper compares orders in T (``sec: risk_application``). So each algorithm that needs its horizon is played anew for
every one, and the exponent of log T / T is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log
from typing import NamedTuple

import numpy as np

from pmbandits import PMETC, PMUCB, UUCB, WUCB, Distortion, Finite, Policy, RhoNPTS, SolitaryUCB
from pmbandits.theory import spacing_exponent
from research import risk_arms as arms
from research.measure import Mean, play
from research.outcome import Context, FloatArray
from research.risk_series import OURS_BETA, OURS_CE, OURS_ETC, OURS_UCB, Series

# PM-ETC-M explores each arm c·log T times: the order of N(ε), whose constant hangs on a gap that the user must know.
EXPLORATIONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
BETA = 1.0  # as the paper sets it here: one arm is best
LEAST = 1e-12  # regrets below are taken for this
NPTS = "ρ-NPTS"
HEAVY = (NPTS, OURS_BETA, OURS_UCB)  # these take long, and are played less often


class Trials(NamedTuple):
    """How often policies are played, and how often those that take long."""

    light: int
    heavy: int


@dataclass(frozen=True)
class Rate:
    """A measure played over several horizons: its curves, and what the paper says about them."""

    metric: Distortion
    series: Series  # columns are horizons, rows trials
    swept: Mapping[float, FloatArray]  # PM-ETC-M for each constant of its exploration

    @property
    def q(self) -> float:
        """The Hölder exponent."""
        return float(self.metric.holder(Finite(arms.TENTHS)).q)

    @property
    def etc_order(self) -> float:
        """The exponent of log T / T that the paper gives for PM-ETC-M with ε = 1."""
        return self.q

    @property
    def ucb_order(self) -> float:
        """The exponent that it gives for PM-UCB-M with β = 1."""
        return self.q * spacing_exponent(self.q, BETA)

    def exponent(self, label: str) -> Mean:
        """The fitted exponent of an algorithm."""
        return exponent(self.series.t.astype(np.float64), self.series.regret[label])


def explorers(horizon: int, n_arms: int) -> dict[str, Policy]:
    """PM-ETC-M with ε = 1 for all constants of its exploration; never more than half of the rounds."""
    return {
        explorer(c): PMETC(horizon=horizon, epsilon=1.0, n_explore=min(ceil(n_arms * c * log(horizon)), horizon // 2))
        for c in EXPLORATIONS
    }


def explorer(constant: float) -> str:
    """The name under which it is played."""
    return f"{OURS_ETC}, c = {constant:g}"


def tuned(found: Mapping[float, FloatArray]) -> FloatArray:
    """Each half of the rows with a constant that was chosen on the other half: one step above the best, by the last
    column.

    So nothing is judged on the rewards on which it was chosen. One step above, because deciding for a wrong arm is rare
    and costs everything: a constant that is best on a few runs is often too small.

    >>> one, two, four = np.array([[1.0], [9.0]]), np.array([[2.0], [2.0]]), np.array([[4.0], [5.0]])
    >>> tuned({1.0: one, 2.0: two, 4.0: four})  # the second row is best with 2, the first with 1
    array([[4.],
           [2.]])
    """
    constants = sorted(found)
    out = np.array(found[constants[0]])
    for half in (0, 1):
        other = slice(1 - half, None, 2) if len(out) > 1 else slice(None)
        best = min(range(len(constants)), key=lambda k: float(found[constants[k]][other, -1].mean()))
        out[half::2] = found[constants[min(best + 1, len(constants) - 1)]][half::2]
    return out


def take_tuned(regret: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """The curves with one PM-ETC-M in place of all its explorations."""
    names = {explorer(c): c for c in EXPLORATIONS}
    found = {names[label]: values for label, values in regret.items() if label in names}
    return {label: values for label, values in regret.items() if label not in names} | {OURS_ETC: tuned(found)}


def exponent(horizons: FloatArray, regret: FloatArray) -> Mean:
    """The slope of log regret over log(log T / T), with its standard error over the trials (jackknife).

    >>> t = np.array([1e3, 1e4, 1e5])
    >>> flat = np.sqrt(np.log(t) / t) * np.array([[1.0], [1.0], [1.0]])
    >>> round(exponent(t, flat).value, 9)
    0.5
    """
    x = np.log(np.log(horizons) / horizons)
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    n = len(regret)

    def slope(mean: FloatArray) -> float:
        return float(weights @ np.log(np.maximum(mean, LEAST)))

    left_out = (
        np.array([slope((regret.sum(axis=0) - row) / (n - 1)) for row in regret]) if n > 1 else np.array([np.nan])
    )
    error = float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
    return Mean(slope(regret.mean(axis=0)), error)


def exponent_text(found: Mean) -> str:
    """An exponent with its standard error.

    >>> exponent_text(Mean(1.0567, 0.0312))
    '1.06 ± 0.03'
    """
    return f"{found.value:.2f} ± {found.error:.2f}"


def rate(context: Context, metric: Distortion, horizons: tuple[int, ...], trials: Trials) -> Rate:
    """Play one measure."""
    bandit = arms.binomial_arms()
    anytime: dict[str, Policy] = {"U-UCB": UUCB(), "W-UCB": WUCB(), NPTS: RhoNPTS()}
    columns: dict[str, list[FloatArray]] = {}
    for key, count in zip(("light", "heavy"), trials, strict=True):
        wanted = {label: policy for label, policy in anytime.items() if (label in HEAVY) == (key == "heavy")}
        folder = f"rate-{metric}/{key}"
        run = play(context, f"{folder}-anytime", metric, bandit, wanted, horizons[-1], count, checkpoints=horizons)
        for label in wanted:
            t, values = run.regret(label)
            columns[label] = list(values[:, np.searchsorted(t, horizons)].T)
        for horizon in horizons:
            policies = _with_horizon(horizon, bandit.n_arms, heavy=key == "heavy")
            run = play(context, f"{folder}-{horizon}", metric, bandit, policies, horizon, count, checkpoints=1)
            for label in policies:
                columns.setdefault(label, []).append(run.regret(label)[1][:, -1])
    regret = {label: np.stack(found, axis=1) for label, found in columns.items()}
    swept = {c: regret[explorer(c)] for c in EXPLORATIONS}
    return Rate(metric, Series(repr(metric), np.array(horizons), take_tuned(regret), {}), swept)


def _with_horizon(horizon: int, n_arms: int, *, heavy: bool) -> dict[str, Policy]:
    """The paper's algorithms, which need to know the horizon."""
    if heavy:
        return {OURS_BETA: PMUCB(horizon=horizon, beta=BETA), OURS_UCB: SolitaryUCB(horizon=horizon)}
    return {OURS_CE: additive(horizon), **explorers(horizon, n_arms)}


def additive(horizon: int) -> Policy:
    """CE-UCB-M over single arms. Its bonus needs a radius only, and DKW's is found at once."""
    return SolitaryUCB(horizon=horizon, index="additive", confidence="dkw")
