"""What the policies achieve: regret at the sizes that the issues name, by the policies' own compiled steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb

QUICK = bool(os.environ.get("BENCH_QUICK"))


def regrets(
    bandit: pmb.Bandit, metric: pmb.Distortion, recipe: pmb.Policy, rounds: int, trials: int
) -> tuple[np.ndarray, pmb.Run]:
    """Regret V(α*) − V(τ/T) of each trial."""
    run = pmb.simulate(metric, bandit, recipe, rounds, trials, checkpoints=1, progress=False)
    return run.regret(run.policies[0])[1][:, -1], run


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.1e} ± {values.std() / np.sqrt(values.size):.0e}"


def tables() -> Iterator[Table]:
    yield bernoulli()
    yield cirt()
    yield falling()


def bernoulli() -> Table:
    rounds, trials = 60_000, 10 if QUICK else 100
    table = Table(
        title=f"Bernoulli (.4, .9), Gini, T = {rounds:,}, ε = 1/16, {trials} trials (goal: PM-UCB-M below 2e-4)"
    )
    table.add_column("policy")
    table.add_column("regret ± s.e.", justify="right")
    table.add_column("seconds", justify="right")
    bandit, gini = pmb.Bandit.bernoulli([0.4, 0.9]), pmb.GiniDeviation()
    rows = {
        "PM-UCB-M, default confidence (kl)": pmb.PMUCB(horizon=rounds, epsilon=1 / 16),
        "PM-UCB-M, dkw": pmb.PMUCB(horizon=rounds, epsilon=1 / 16, confidence="dkw"),
        "PM-UCB-M, the paper's constants": pmb.PMUCB(horizon=rounds, epsilon=1 / 16, confidence="paper"),
        "CE-UCB-M, default": pmb.CEUCB(horizon=rounds, epsilon=1 / 16),
        "CE-UCB-M, the paper's constants": pmb.CEUCB(horizon=rounds, epsilon=1 / 16, confidence="paper"),
        "PM-ETC-M": pmb.PMETC(horizon=rounds, epsilon=1 / 16),
        "CIRT, ε = .06": pmb.CIRT(),
        "fixed grid, ε = .12": pmb.FixedGrid(),
        "uniform": pmb.Uniform(),
        "UCB1": pmb.UCB1(),
        "best single arm": pmb.SolitaryArm(arm=0),
    }
    for name, recipe in track(rows.items(), description="Bernoulli", transient=True):
        start = time.perf_counter()
        values, _ = regrets(bandit, gini, recipe, rounds, trials)
        table.add_row(name, _mean(values), f"{time.perf_counter() - start:.1f}")
    return table


def cirt() -> Table:
    rounds, trials = 3_000_000, 2 if QUICK else 6
    table = Table(
        title=f"CIRT, Gini, A = 4, δ = .05, T = {rounds:,}, {trials} trials (goal: .12 and .06 always track; ≤ 1e-3)"
    )
    for head in ("arms", "ε", "reached tracking", "tracking from (median)", "final regret"):
        table.add_column(head, justify="left" if head == "arms" else "right")
    cases = [([0.4, 0.9], e) for e in (0.12, 0.06, 0.03)] + [([0.2, 0.5, 0.8], e) for e in (0.12, 0.06)]
    for means, epsilon in track(cases, description="CIRT", transient=True):
        bandit = pmb.Bandit.bernoulli(means)
        recipe = pmb.CIRT(epsilon=epsilon)
        values, run = regrets(bandit, pmb.GiniDeviation(), recipe, rounds, trials)
        phases = recipe.bind(pmb.GiniDeviation(), bandit.n_arms, bandit.support).phases
        ends = run.to_arrow()["phase_ends"].to_pylist()
        starts = [e[-1] for e in ends if len(e) == phases]
        median = f"{np.median(starts):,.0f}" if starts else "–"
        table.add_row(str(means), f"{epsilon:g}", f"{len(starts)} of {trials}", median, _mean(values))
    return table


def falling() -> Table:
    trials = 3 if QUICK else 8
    table = Table(title=f"Does regret fall with T (0/1 rewards: 1e3, 3e4, 1e6; else 250, 1000, 2500)? {trials} trials")
    for head in ("instance", "policy", "short", "middle", "long", "falls"):
        table.add_column(head, justify="left" if head in ("instance", "policy") else "right")
    betas = pmb.Bandit([st.beta(1, 3), st.beta(0.5, 0.5)])
    safe = pmb.Bandit([st.beta(3, 2), st.beta(0.5, 0.5)])
    cases: list[tuple[str, pmb.Bandit, pmb.Distortion]] = [
        ("Wang right-tail, Bernoulli (.1,.7)", pmb.Bandit.bernoulli([0.1, 0.7]), pmb.WangRightTail()),
        ("lower CVaR(.2), Beta", safe, pmb.LowerCVaR(0.2)),
        ("inverted-S(.5), Beta", betas, pmb.InvertedS(0.5)),
        ("0.7 mean + 0.3 upper CVaR(.9), Beta", betas, 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)),
        ("Gini, normal 1, 3, 5", pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)]), pmb.GiniDeviation()),
    ]
    for label, bandit, metric in track(cases, description="falling", transient=True):
        # Counts are cheap; on continuous rewards a round looks at all rewards so far.
        horizons = (1000, 30_000, 1_000_000) if bandit.support == pmb.Binary() else (250, 1000, 2500)
        makers: dict[str, Callable[[int], pmb.Policy]] = {
            "PM-ETC-M": lambda t: pmb.PMETC(horizon=t, epsilon=1 / 8),
            "PM-UCB-M": lambda t: pmb.PMUCB(horizon=t, epsilon=1 / 8),
            "CE-UCB-M": lambda t: pmb.CEUCB(horizon=t, epsilon=1 / 8),
            "CIRT": lambda t: pmb.CIRT(),
            "fixed grid": lambda t: pmb.FixedGrid(epsilon=0.5),
        }
        for name, make in makers.items():
            try:
                rows = [regrets(bandit, metric, make(t), t, trials)[0].mean() for t in horizons]
            except ValueError as error:
                table.add_row(label, name, str(error)[:60] + "…", "", "", "does not apply")
                continue
            falls = "yes" if rows[-1] < rows[0] else "is best" if rows[-1] <= 1e-5 else "NO"
            table.add_row(label, name, *(f"{r:.1e}" for r in rows), falls)
    return table
