"""The published risk-sensitive bandits beside the paper's algorithms (section ``sec: risk_application``).

Its parts: lower-tail CVaR on random arms, many arms with continuous rewards, rates in T for the paper's CVaR and for
distortion risk measures, on bounded and on normal arms, and instances whose best decision is a mixture. Every policy is
scored alike, by V(α*) − V(τ_T/T). MV-LCB has another objective and a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmbandits import (
    BCVTS,
    CEUCB,
    CIRT,
    MCVTS,
    MVLCB,
    PMETC,
    PMUCB,
    UCB1,
    UUCB,
    WUCB,
    Bandit,
    BrownUCB,
    CVaRUCB,
    Distortion,
    LowerCVaR,
    Mean,
    Policy,
    RhoNPTS,
    SolitaryUCB,
    Thompson,
    Track,
    Uniform,
    oracle,
    utility,
)
from pmbandits.simulation import simulate
from research import risk_arms as arms
from research import risk_claims as claims_of
from research import risk_gaussian
from research import risk_shown as shown_as
from research.outcome import Context, FloatArray, Outcome, Shown
from research.risk_rates import HEAVY, Trials, additive, explorers, rate, take_tuned
from research.risk_series import OURS_CE, OURS_UCB, TRACK, Series, mean_error


@dataclass(frozen=True)
class Sizes:
    """How much is played."""

    instances: int
    trials: int
    horizon: int
    long_trials: int
    long_horizon: int
    rate_trials: Trials
    rate_horizons: tuple[int, ...]
    mixed_trials: int
    mixed_horizon: int
    normal_trials: int = 4
    normal_horizons: tuple[int, ...] = (500, 1_000)


FULL = Sizes(
    20, 5, 10_000, 12, 10_000, Trials(64, 16), (1_000, 3_000, 10_000, 30_000), 30, 50_000, 16, (1_000, 3_000, 10_000)
)
QUICK = Sizes(2, 2, 1_000, 2, 1_000, Trials(8, 4), (500, 1_000, 2_000), 4, 5_000)
CHECKPOINTS = 16


def risk(context: Context) -> Outcome:
    """All parts, the mean–variance table, and what they say."""
    sizes = QUICK if context.quick else FULL
    cvar = [_cvar(context, sizes, level) for level in arms.LEVELS]
    many = _many_arms(context, sizes)
    upper, drms = (
        [rate(context, metric, sizes.rate_horizons, sizes.rate_trials) for metric in metrics]
        for metrics in (arms.UPPER_CVARS, arms.DISTORTIONS)
    )
    rates = [part.series for part in (*upper, *drms)]
    normal = [risk_gaussian.rate(context, m, sizes.normal_horizons, sizes.normal_trials) for m in risk_gaussian.METRICS]
    mixed = [_mixed(context, sizes, case) for case in arms.mixture_optimal()]
    figures = {
        "risk-cvar": shown_as.figure_of(cvar, "Lower-tail CVaR: 5 random distributions on tenths"),
        "risk-many-arms": shown_as.figure_of([many], "30 truncated Gaussian mixtures"),
        "risk-rates": shown_as.figure_of(rates, "Rates: the paper's CVaR, and distortion risk measures"),
        "risk-normal": shown_as.figure_of([part.series for part in normal], "Rates on normal arms"),
        "risk-mixtures": shown_as.figure_of(mixed, "Where a mixture is best"),
    }
    shown = [
        shown_as.table(
            "Part 1: lower-tail CVaR, 5 arms drawn uniformly from all distributions on tenths, "
            f"{sizes.instances} instances × {sizes.trials} trials, T = {sizes.horizon:,}. "
            "Regret ± standard error over instances.",
            cvar,
        ),
        shown_as.table(
            f"Part 2: lower-tail CVaR at α = {arms.MIXTURES_METRIC.alpha:g}, 30 truncated Gaussian mixtures, "
            f"{sizes.long_trials} trials, T = {sizes.long_horizon:,}.",
            [many],
        ),
        shown_as.table(
            "Part 3: the paper's CVaR (upper tail) and distortion risk measures on Binomial(10, p)/10, p = .35, .5, "
            f".65, {sizes.rate_trials.light} trials ({sizes.rate_trials.heavy} of {'; '.join(HEAVY)}), "
            f"T = {sizes.rate_horizons[-1]:,}.",
            rates,
        ),
        shown_as.exponents([*upper, *drms]),
        shown_as.sweep([*upper, *drms]),
        risk_gaussian.table(normal, sizes.normal_trials),
        shown_as.table(
            "Part 4: instances where a mixture is best, "
            f"{sizes.mixed_trials} trials, T = {sizes.mixed_horizon:,}. Floor: what the best single arm leaves. "
            "Track is not one of the paper's policies; no claim is about it.",
            mixed,
        ),
        shown_as.winners([*cvar, many, *rates, *mixed]),
        _mean_variance(context, sizes),
    ]
    claims = [
        *claims_of.rates(upper, "CVaR (upper tail)", "cvar"),
        *claims_of.rates(drms, "Distortion risk measures", "drm"),
        *claims_of.better_than_w_ucb(drms),
        *risk_gaussian.claims(normal),
        claims_of.matches_best_published([*cvar, many, *rates]),
        claims_of.beats_best_single_arm(mixed),
    ]
    return Outcome(
        name="risk",
        title="Risk-sensitive bandits: the published algorithms, on equal terms",
        text=shown_as.paragraphs(cvar, many, [*upper, *drms], mixed),
        claims=claims,
        figures=figures,
        data={
            "risk": shown_as.data(
                {
                    "cvar": cvar,
                    "many-arms": [many],
                    "rates": rates,
                    "normal": [part.series for part in normal],
                    "mixtures": mixed,
                }
            )
        },
        shown=shown,
        notes={"sizes": vars(sizes), "seed": context.seed},
    )


# ---- what is played --------------------------------------------------------------------------------------


def _solitary(horizon: int, n_arms: int) -> dict[str, Policy]:
    """The paper's algorithms when they must decide for one arm.

    PM-ETC-M takes ε = 1 as it stands. With ½KεT rounds it would only explore, so its exploration is swept.
    """
    return {
        OURS_UCB: SolitaryUCB(horizon=horizon),
        OURS_CE: additive(horizon),
        **explorers(horizon, n_arms),
    }


def _for_the_mean() -> dict[str, Policy]:
    return {"UCB1": UCB1(), "Thompson": Thompson()}


def _for_cvar(horizon: int, n_arms: int) -> dict[str, Policy]:
    return {
        **_for_the_mean(),
        "CVaR-UCB": CVaRUCB(horizon=horizon),
        "Brown-UCB": BrownUCB(horizon=horizon),
        "U-UCB": UUCB(),
        "B-CVTS": BCVTS(),
        **_solitary(horizon, n_arms),
    }


def _for_any(horizon: int) -> dict[str, Policy]:
    return {**_for_the_mean(), "U-UCB": UUCB(), "W-UCB": WUCB(), "ρ-NPTS": RhoNPTS()}


def _for_mixtures(horizon: int) -> dict[str, Policy]:
    return {
        **_for_any(horizon),
        "PM-ETC-M": PMETC(horizon=horizon, epsilon=1 / 16, explore_cap=None),
        "PM-UCB-M": PMUCB(horizon=horizon, epsilon=1 / 16),
        "CE-UCB-M": CEUCB(horizon=horizon, epsilon=1 / 16),
        "CIRT": CIRT(epsilon=0.12),
        TRACK: Track(),
    }


def _play(
    context: Context, name: str, bandit: Bandit, metric: Distortion, policies: Mapping[str, Policy], horizon: int,
    trials: int,
) -> Any:  # fmt: skip
    return simulate(
        metric, bandit, policies, horizon, trials, context.seed, checkpoints=CHECKPOINTS, n_jobs=context.jobs,
        progress=context.progress, out=context.folder / "risk" / name,
    )  # fmt: skip


def _series(run: Any, title: str, floor: float | None = None) -> Series:
    regret = {label: run.regret(label)[1] for label in run.policies}
    shares = {label: run.column("pulls", label)[1][:, -1].mean(axis=0) for label in run.policies}
    shares = {label: pulls / pulls.sum() for label, pulls in shares.items()}
    return Series(title, run.regret(run.policies[0])[0], regret, shares, floor)


def _tuned(series: Series) -> Series:
    """With one PM-ETC-M in place of all its explorations."""
    return replace(series, regret=take_tuned(series.regret), shares={})


def _cvar(context: Context, sizes: Sizes, level: float) -> Series:
    parts = []
    for number in range(sizes.instances):
        bandit = arms.simplex_arms(number)
        policies = {**_for_cvar(sizes.horizon, bandit.n_arms), "M-CVTS": MCVTS()}
        run = _play(context, f"cvar-{level:g}-{number}", bandit, LowerCVaR(level), policies, sizes.horizon,
                    sizes.trials)  # fmt: skip
        parts.append(_series(run, ""))
    regret = {label: np.stack([p.regret[label].mean(axis=0) for p in parts]) for label in parts[0].regret}
    return _tuned(Series(f"CVaR, α = {level:g}", parts[0].t, regret, {}))


def _many_arms(context: Context, sizes: Sizes) -> Series:
    bandit, horizon = arms.gaussian_mixtures(), sizes.long_horizon
    policies = _for_cvar(horizon, bandit.n_arms)
    run = _play(context, "many-arms", bandit, arms.MIXTURES_METRIC, policies, horizon, sizes.long_trials)
    return _tuned(_series(run, f"CVaR, α = {arms.MIXTURES_METRIC.alpha:g}, K = {bandit.n_arms}"))


def _mixed(context: Context, sizes: Sizes, case: arms.Mixed) -> Series:
    policies = _for_mixtures(sizes.mixed_horizon)
    run = _play(context, case.key, case.arms, case.metric, policies, sizes.mixed_horizon, sizes.mixed_trials)
    best = oracle(case.metric, case.arms)
    corners = [utility(case.metric, case.arms, row) for row in np.eye(case.arms.n_arms)]
    return _series(run, case.title, best.value - max(corners))


# ---- mean–variance: another objective, another score ------------------------------------------------------


def mean_variance(bandit: Bandit, weights: FloatArray, rho: float) -> float:
    """Variance − ρ·mean of the mixture of the arms: what MV-LCB makes small, scored for what was played.

    >>> import scipy.stats as st
    >>> mean_variance(Bandit([st.uniform(0, 1)]), np.ones(1), 1.0).__round__(12)
    -0.416666666667
    """
    moments = np.array([distribution.frozen.stats(moments="mv") for distribution in bandit.distributions])  # type: ignore[union-attr]
    mean = float(weights @ moments[:, 0])
    second = float(weights @ (moments[:, 1] + moments[:, 0] ** 2))
    return second - mean**2 - rho * mean


def _mean_variance(context: Context, sizes: Sizes) -> Shown:
    bandit, rho, horizon = arms.safe_and_risky(), 0.1, sizes.horizon
    policies = {"MV-LCB": MVLCB(horizon=horizon, rho=rho), **_for_the_mean(), "Uniform": Uniform()}
    run = _play(context, "mean-variance", bandit, Mean(), policies, horizon, sizes.long_trials)
    best = min(mean_variance(bandit, row, rho) for row in np.eye(bandit.n_arms))
    rows = []
    for label in run.policies:
        t, pulls = run.column("pulls", label)
        scores = np.array([mean_variance(bandit, p / t[-1], rho) - best for p in pulls[:, -1]])
        mean, error = mean_error(scores)
        shares = " / ".join(f"{100 * s:.0f}" for s in pulls[:, -1].mean(axis=0) / t[-1])
        rows.append([label, f"{mean:.4f} ± {error:.4f}", shares])
    return Shown(
        f"Mean–variance (σ² − ρμ, ρ = {rho:g}, minimised; of the average mixture played, above that of the best arm), "
        f"{', '.join(bandit.names)}, T = {horizon:,}. MV-LCB's bonus (5 + ρ)√(ln T/n) is larger than every variance on "
        "[0, 1] until n is some thousands, so it has hardly begun to choose.",
        ["policy", "mean–variance regret ± s.e.", "shares of the arms (%)"],
        rows,
    )
