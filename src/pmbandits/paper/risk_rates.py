"""Regret against the horizon for risk measures of which one arm is best: what is played, and the exponents.

The paper compares orders in T (``sec: risk_application``). So each algorithm that needs its horizon is played anew for
every one, and the exponent of log T / T is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.paper import risk_arms as arms
from pmbandits.paper.measure import Mean, play
from pmbandits.paper.outcome import Context
from pmbandits.paper.risk_series import OURS_BETA, OURS_CE, OURS_ETC, OURS_UCB, Series
from pmbandits.policies import PMETC, PMUCB, UUCB, WUCB, Policy, RhoNPTS, SolitaryUCB
from pmbandits.schedules import epsilon_ucb, kappa
from pmbandits.simulation import Run
from pmbandits.supports import Finite

# PM-ETC-M explores each arm c·log T times: the order of N(ε), whose constant hangs on a gap that the user must know.
EXPLORATIONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
CONSTANT = 0.2  # of the schedule of ε, as everywhere
BETA = 1.0  # as the paper sets it here: one arm is best
LEAST = 1e-12  # regrets below are taken for this


@dataclass(frozen=True)
class Rate:
    """A measure played over several horizons: its curves, and what the paper says about them."""

    metric: Distortion
    series: Series  # columns are horizons, rows trials
    swept: Mapping[float, FloatArray]  # PM-ETC-M for each constant of its exploration

    @property
    def q(self) -> float:
        """The Hölder exponent."""
        return _holder_exponent(self.metric)

    @property
    def etc_order(self) -> float:
        """The exponent of log T / T that the paper gives for PM-ETC-M with ε = 1."""
        return self.q

    @property
    def ucb_order(self) -> float:
        """The exponent that it gives for PM-UCB-M with β = 1."""
        return self.q * kappa(self.q, BETA)

    def exponent(self, label: str) -> Mean:
        """The fitted exponent of an algorithm."""
        return exponent(self.series.t.astype(np.float64), self.series.regret[label])


def _holder_exponent(metric: Distortion) -> float:
    return float(metric.holder(Finite(arms.TENTHS)).q)


def explorers(horizon: int, n_arms: int) -> dict[str, Policy]:
    """PM-ETC-M with ε = 1 for all constants of its exploration; never more than half of the rounds."""
    return {
        explorer(c): PMETC(horizon=horizon, epsilon=1.0, n_explore=min(ceil(n_arms * c * log(horizon)), horizon // 2))
        for c in EXPLORATIONS
    }


def explorer(constant: float) -> str:
    """The name under which it is played."""
    return f"{OURS_ETC}, c = {constant:g}"


def tuned(found: Mapping[float, FloatArray]) -> tuple[FloatArray, list[float]]:
    """Each half of the rows with the setting that is best in the other half, by the last column; and these settings.

    So nothing is judged on the rewards on which it was chosen.

    >>> good, bad = np.array([[1.0], [5.0]]), np.array([[2.0], [2.0]])
    >>> tuned({0.5: good, 1.0: bad})
    (array([[2.],
           [5.]]), [1.0, 0.5])
    """
    some = next(iter(found.values()))
    out, chosen = np.array(some), []
    for half in (0, 1):
        other = slice(1 - half, None, 2) if len(some) > 1 else slice(None)
        best = min(found, key=lambda key: float(found[key][other, -1].mean()))
        out[half::2] = found[best][half::2]
        chosen.append(best)
    return out, chosen


def take_tuned(regret: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """The curves with one PM-ETC-M in place of all its explorations."""
    names = {explorer(c): c for c in EXPLORATIONS}
    found = {names[label]: values for label, values in regret.items() if label in names}
    return {label: values for label, values in regret.items() if label not in names} | {OURS_ETC: tuned(found)[0]}


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


def rate(context: Context, metric: Distortion, horizons: tuple[int, ...], trials: int) -> Rate:
    """Play one measure."""
    bandit, key = arms.binomial_arms(), str(metric)
    folder = f"rate-{key}"
    anytime: dict[str, Policy] = {"U-UCB": UUCB(), "W-UCB": WUCB(), "ρ-NPTS": RhoNPTS()}
    long = play(context, f"{folder}/anytime", bandit, metric, anytime, horizons[-1], trials, checkpoints=horizons)
    columns: dict[str, list[FloatArray]] = {label: list(_at(long, label, horizons).T) for label in anytime}
    q = _holder_exponent(metric)
    for t in horizons:
        epsilon = min(2 / 3, epsilon_ucb(t, bandit.n_arms, q, BETA, CONSTANT))
        policies = {
            OURS_UCB: SolitaryUCB(horizon=t),
            OURS_CE: SolitaryUCB(horizon=t, index="additive"),
            OURS_BETA: PMUCB(horizon=t, epsilon=epsilon),
            **explorers(t, bandit.n_arms),
        }
        run = play(context, f"{folder}/{t}", bandit, metric, policies, t, trials, checkpoints=1)
        for label in policies:
            columns.setdefault(label, []).append(run.regret(label)[1][:, -1])
    regret = {label: np.stack(found, axis=1) for label, found in columns.items()}
    swept = {c: regret[explorer(c)] for c in EXPLORATIONS}
    return Rate(metric, Series(repr(metric), np.array(horizons), take_tuned(regret), {}), swept)


def _at(run: Run, label: str, horizons: tuple[int, ...]) -> FloatArray:
    t, regret = run.regret(label)
    return regret[:, np.searchsorted(t, horizons)]
