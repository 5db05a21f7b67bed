"""Past the paper's walls: what a round costs when only what may win is worked out, and when everything is."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from pmbandits.plots import COLOURS, STYLE
from pmbandits.simulation.trial import Outcome, Player

QUICK = bool(os.environ.get("BENCH_QUICK"))
PICTURES = Path(__file__).parents[1] / "docs" / "_static"

GAUSS = [st.norm(1), st.norm(3), st.norm(5)]
BETA = [st.beta(2, 5), st.beta(1, 1), st.beta(6, 2)]
INSTANCES: dict[str, tuple[list[Any], pmb.Distortion, Any]] = {
    "Gini, Gaussian 1, 3, 5": (GAUSS, pmb.GiniDeviation(), pmb.Real(1.0)),
    "Wang right-tail, Beta": (BETA, pmb.WangRightTail(), pmb.Interval(0.0, 1.0)),
    "inverted S (1.5), Beta": (BETA, pmb.InvertedS(1.5), pmb.Interval(0.0, 1.0)),
}


def tables() -> Iterator[Table]:
    yield lazy_argmax()
    draw_lazy(PICTURES / "lazy.png")


# ---- the lazy argmax -------------------------------------------------------------------------------------


def recipes(horizon: int) -> dict[str, pmb.Policy]:
    """The grids of the first two have 45 points for three arms."""
    return {
        "PM-UCB-M": pmb.PMUCB(horizon=horizon, epsilon=1 / 9.5),
        "CE-UCB-M": pmb.CEUCB(horizon=horizon, epsilon=1 / 9.5),
        "CIRT": pmb.CIRT(),
    }


def make(instance: str, name: str, horizon: int, *, naive: bool = False) -> pmb.Policy:
    arms, metric, support = INSTANCES[instance]
    policy = recipes(horizon)[name].bind(metric, len(arms), support)
    return wide_awake(policy) if naive else policy


def wide_awake(policy: pmb.Policy) -> pmb.Policy:
    """Work out every grid point in every round."""
    policy._plan = dataclasses.replace(policy._plan, rounding_safe=False)
    policy._memory.radii_decrease = 0
    return policy


def one_trial(instance: str, name: str, rounds: int, *, naive: bool = False) -> tuple[float, Outcome]:
    bandit, checkpoints = pmb.Bandit(INSTANCES[instance][0]), np.unique(np.linspace(1, rounds, 200).astype(np.int64))
    player = Player(make(instance, name, rounds, naive=naive), bandit, 0, checkpoints)
    start = time.perf_counter()
    outcome = player.play(0)
    return time.perf_counter() - start, outcome


def lazy_argmax() -> Table:
    """One trial both ways in turns, pull by pull; then longer ones."""
    table = Table(
        title="One trial, 3 arms, lazy against working out everything "
        "(goals, Gini: 50× at T = 8,000; twice the rounds in at most 2.5× the time)"
    )
    for head in ("instance", "policy", "T", "naive s", "lazy s", "ratio", "same pulls", "T", "s", "2T: s", "×"):
        table.add_column(head, justify="left" if head in ("instance", "policy") else "right")
    cases = [(instance, name) for instance in INSTANCES for name in recipes(100)]
    for instance, name in track(cases, description="Lazy argmax", transient=True):
        rounds, long = (8000, 100_000) if instance.startswith("Gini") else (2000, 10_000)
        if QUICK:
            rounds, long = 800, 2000
        one_trial(instance, name, 100)
        one_trial(instance, name, 100, naive=True)
        lazy, ours = one_trial(instance, name, rounds)
        naive, theirs = one_trial(instance, name, rounds, naive=True)
        lazy = min(lazy, one_trial(instance, name, rounds)[0])
        same = np.array_equal(ours.pulls, theirs.pulls) and np.array_equal(ours.mixture, theirs.mixture)
        once, twice = one_trial(instance, name, long)[0], one_trial(instance, name, 2 * long)[0]
        table.add_row(
            instance, name, f"{rounds:,}", f"{naive:.2f}", f"{lazy:.3f}", f"{naive / lazy:.0f}",
            "yes" if same else "NO", f"{long:,}", f"{once:.2f}", f"{twice:.2f}", f"{twice / once:.2f}",
        )  # fmt: skip
    return table


def costs(instance: str, name: str, marks: list[int]) -> tuple[list[float], list[float]]:
    """Seconds for a round around each mark: lazy (a stretch of rounds), and naive from the same state (a few)."""
    policy, rng = make(instance, name, marks[-1] + 1000), np.random.default_rng(0)
    draws = [arm.rvs(marks[-1] + 1000, random_state=rng).tolist() for arm in INSTANCES[instance][0]]
    at = [0] * len(draws)
    lazy, naive, t = [], [], 0
    for mark in marks:
        stretch = max(50, mark // 10)
        while t < mark - stretch:
            t = _round(policy, draws, at, t)
        start = time.perf_counter()
        while t < mark:
            t = _round(policy, draws, at, t)
        lazy.append((time.perf_counter() - start) / stretch)
        twin, few, own = wide_awake(policy._clone()), 3, list(at)
        _round(twin, draws, own, 0)
        start = time.perf_counter()
        for _ in range(few):
            _round(twin, draws, own, 0)
        naive.append((time.perf_counter() - start) / few)
    return lazy, naive


def _round(policy: pmb.Policy, draws: list[list[float]], at: list[int], t: int) -> int:
    arm = policy.ask()
    policy.tell(arm, draws[arm][at[arm]])
    at[arm] += 1
    return t + 1


def draw_lazy(file: Path) -> None:
    """The figure: cost per round against t, naive and lazy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    most = {name: 3000 if QUICK else 100_000 if name.startswith("Gini") else 10_000 for name in INSTANCES}
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(INSTANCES), figsize=(11.0, 3.4), sharey=True)
        for ax, instance in zip(axes, track(INSTANCES, description="Picture", transient=True), strict=True):
            for name, colour in zip(recipes(100), COLOURS, strict=False):
                marks = [int(t) for t in np.geomspace(200, most[instance], 8)]
                lazy, naive = costs(instance, name, marks)
                ax.loglog(marks, 1e6 * np.array(naive), "--", color=colour, lw=1.2)
                ax.loglog(marks, 1e6 * np.array(lazy), "-o", color=colour, ms=3.0, label=name)
            ax.set_title(instance)
            ax.set_xlabel("rounds so far")
        axes[0].set_ylabel("µs for a round")
        axes[0].plot([], [], "--", color="0.4", lw=1.2, label="everything worked out")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file)
        plt.close(figure)
