"""Track beside the paper's four, and many arms: what is reached, and what a round costs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from pmbandits.plots import COLOURS, STYLE
from pmbandits.simulation.trial import Player

QUICK = bool(os.environ.get("BENCH_QUICK"))
PICTURES = Path(__file__).parents[1] / "docs" / "_static"
GINI = pmb.GiniDeviation()
GAUSS = pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)])


def tables() -> Iterator[Table]:
    yield estimate_and_track()
    draw_regret(PICTURES / "track.png")
    yield many_arms()
    yield cost_against_arms(PICTURES / "arms.png")


def final(run: pmb.Run, policy: str, horizon: int | None = None) -> np.ndarray:
    return run.regret(policy, horizon)[1][:, -1]


def estimate_and_track() -> Table:
    """The instances that the issue names."""
    rounds, trials = 60_000, 10 if QUICK else 100
    table = Table(title=f"Track, Gini, T = {rounds:,} (goal for (.4, .9): at most 1e-5)")
    for column in ("arms", "trials", "regret ± s.e.", "seconds a trial"):
        table.add_column(column)
    cases = {str(p): (pmb.Bandit.bernoulli(p), trials) for p in ((0.4, 0.9), (0.2, 0.5), (0.45, 0.55))}
    cases["Gaussian 1, 3, 5"] = (GAUSS, max(trials // 5, 2))
    for name, (bandit, count) in track(cases.items(), description="Track"):
        run = pmb.simulate(GINI, bandit, pmb.Track(), rounds, count, checkpoints=1, progress=False)
        got = final(run, "Track")
        error = got.std(ddof=1) / np.sqrt(count)
        table.add_row(name, str(count), f"{got.mean():.2e} ± {error:.0e}", f"{run.seconds('Track').mean():.3f}")
    return table


def draw_regret(file: Path) -> None:
    """Regret against T, log axes: Track, the paper's four, UCB1 and uniform."""
    sizes = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    panels = {
        "Bernoulli (.4, .9)": (pmb.Bandit.bernoulli([0.4, 0.9]), sizes[:5] if QUICK else sizes, 10 if QUICK else 100),
        "Gaussian 1, 3, 5": (GAUSS, sizes[:3] if QUICK else sizes[:6], 3 if QUICK else 10),
    }
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
        for ax, (title, (bandit, horizons, trials)) in zip(axes, panels.items(), strict=True):
            recipes = {"Track": pmb.Track, "CIRT": pmb.CIRT, "PM-ETC-M": pmb.PMETC, "PM-UCB-M": pmb.PMUCB,
                       "CE-UCB-M": pmb.CEUCB, "uniform": pmb.Uniform, "UCB1": pmb.UCB1}  # fmt: skip
            colours = [*COLOURS[:5], "0.6", "0.35"]  # yardsticks in grey
            for (name, cls), colour, mark in zip(recipes.items(), colours, "osD^vxP", strict=True):
                values = []
                for t in track(horizons, description=f"{title}: {name}", transient=True):
                    recipe = cls(horizon=t) if name in ("PM-ETC-M", "PM-UCB-M", "CE-UCB-M") else cls()
                    run = pmb.simulate(GINI, bandit, recipe, t, trials, checkpoints=1, progress=False)
                    got = final(run, run.policies[0])
                    values.append((got.mean(), got.std(ddof=1) / np.sqrt(trials)))
                middle, error = np.array(values).T
                width = 2.4 if name == "Track" else 1.2
                dash = "--" if name in ("uniform", "UCB1") else "-"
                ax.errorbar(horizons, middle, error, color=colour, marker=mark, ms=4, lw=width, ls=dash, label=name,
                            capsize=2)  # fmt: skip
            ax.set(xscale="log", yscale="log", title=title, xlabel="rounds T")
        axes[0].set_ylabel("regret")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=130)
        plt.close(figure)


def beta_arms(count: int, seed: int = 0) -> pmb.Bandit:
    """Random Beta arms, both parameters uniform on [½, 5]."""
    rng = np.random.default_rng(seed)
    return pmb.Bandit([st.beta(*rng.uniform(0.5, 5.0, 2)) for _ in range(count)])


def many_arms() -> Table:
    """How much of the way from uniform to the oracle each policy goes."""
    rounds, trials = (5_000, 2) if QUICK else (100_000, 4)
    table = Table(
        title=f"Beta arms, T = {rounds:,}, {trials} trials: share of the gap from uniform to the oracle that is closed "
        "(goal for Track, Gini: 95 % at K = 30, 90 % at K = 100)"
    )
    columns = ["metric", "K", "Track", "PM-ETC-M", "PM-UCB-M", "CE-UCB-M", "CIRT", "UCB1", "s/trial Track", "PM-UCB-M"]
    for column in columns:
        table.add_column(column, justify="right")
    arms = (10, 30) if QUICK else (10, 30, 100)
    cases = [(m, k) for m in (GINI, pmb.WangRightTail(), pmb.Quadratic(0.5)) for k in arms]
    for metric, k in track(cases, description="many arms"):
        recipes = [
            pmb.Track(),
            pmb.PMETC(horizon=rounds, search="continuous"),
            pmb.PMUCB(horizon=rounds, search="continuous"),
            pmb.CEUCB(horizon=rounds, search="continuous"),
            pmb.CIRT(search="continuous"),
            pmb.UCB1(),
            pmb.Uniform(),
        ]
        run = pmb.simulate(metric, beta_arms(k), recipes, rounds, trials, checkpoints=1, progress=False)
        uniform = final(run, "Uniform").mean()
        cells = [f"{100 * (1 - final(run, p).mean() / uniform):.1f} %" for p in run.policies[:-1]]
        seconds = [f"{run.seconds(p).mean():.2f}" for p in (run.policies[0], run.policies[2])]
        table.add_row(repr(metric), str(k), *cells, *seconds)
    return table


def cost_against_arms(file: Path) -> Table:
    """Time of one trial against the number of arms, grid and continuous."""
    rounds = 1_000 if QUICK else 10_000
    counts = (2, 3, 4, 5, 10, 30, 100)
    table = Table(title=f"Gini on Beta arms, T = {rounds:,}: microseconds a round (goal: K = 100 at most 40 × K = 3)")
    for column in ("policy", *(f"K = {k}" for k in counts), "K = 100 / K = 3"):
        table.add_column(column, justify="right")
    recipes = {
        "Track": lambda k: pmb.Track(),
        "PM-UCB-M, continuous": lambda k: pmb.PMUCB(horizon=rounds, epsilon=min(0.2, 1 / k), search="continuous"),
        "CIRT, continuous": lambda k: pmb.CIRT(search="continuous"),
        "PM-UCB-M, grid": lambda k: pmb.PMUCB(horizon=rounds, epsilon=1 / (8 + k / 2), search="grid"),
    }
    found: dict[str, dict[int, float]] = {}
    for name, recipe in recipes.items():
        found[name] = {}
        for k in track(counts, description=name, transient=True):
            if "grid" in name and k > (4 if QUICK else 5):
                continue
            bandit = beta_arms(k)
            policy = recipe(k).bind(GINI, k, bandit.support)
            player = Player(policy, bandit, 0, np.array([rounds]))
            player.play(0)  # compiles
            start = time.perf_counter()
            player.play(1)
            found[name][k] = 1e6 * (time.perf_counter() - start) / rounds
        cells = [f"{found[name][k]:.2f}" if k in found[name] else "–" for k in counts]
        ratio = f"{found[name][100] / found[name][3]:.1f}" if 100 in found[name] else "–"
        table.add_row(name, *cells, ratio)
    with plt.style.context(STYLE):
        figure, ax = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
        for (name, row), colour, mark in zip(found.items(), COLOURS, "osD^", strict=False):
            ax.plot(list(row), list(row.values()), marker=mark, color=colour, label=name)
        ax.set(xscale="log", yscale="log", xlabel="arms K", ylabel="microseconds a round")
        ax.set_xticks(counts, [str(k) for k in counts])
        ax.minorticks_off()
        ax.legend()
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=130)
        plt.close(figure)
    return table
