"""Forgetting in three worlds that change, new best arms, and what late rewards and pieces cost a round.

``python -m benchmarks worlds``. Arms, policies, horizons, trials and seeds were written down, and committed, before
anything was run. ``python -m benchmarks.worlds`` draws ``docs/_static/worlds.png`` again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.stats as st
from rich.table import Table

import pmbandits as pmb
from pmbandits.tables.distributions import Atoms

SEED, TRIALS, HORIZON = 20, 40, 30_000
GINI = pmb.GiniDeviation()
STARS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
HIGH, MIDDLE, LOW = [0.02, 0.03, 0.05, 0.2, 0.7], [0.05, 0.2, 0.5, 0.2, 0.05], [0.7, 0.2, 0.05, 0.03, 0.02]


def stars(*distributions: list[float]) -> pmb.Bandit:
    """Arms that pay so many stars, from none (0) to four (1)."""
    return pmb.Bandit(
        [Atoms(STARS, np.array(p)) for p in distributions],
        list("ABCDEFG")[: len(distributions)],
        support=pmb.Finite(STARS),
    )


# At first half A and half B is best, later half B and half C.
FIRST, LATER = stars(HIGH, LOW, MIDDLE), stars(MIDDLE, HIGH, LOW)
WORLDS = {
    "steps": pmb.Changing.steps([(0, FIRST), (10_000, LATER), (20_000, FIRST)]),
    "drift": pmb.Changing.drift(FIRST, LATER, 5_000, 25_000, every=200),
    "season": pmb.Changing.season(FIRST, LATER, 10_000, every=200),
}
POLICIES: dict[str, pmb.Policy] = {
    "plain": pmb.Track(),
    "window of 2,000": pmb.Track(estimates="window:2000"),
    "discount of 0.9995": pmb.Track(estimates="discount:0.9995"),
    "restart": pmb.Track(detect="restart"),
    "uniform": pmb.Uniform(),
}
# A new best arm after half of the rounds: with D half B and half D is best.
NEWCOMER = stars(MIDDLE, LOW, [0.1, 0.2, 0.4, 0.2, 0.1], [0.005, 0.005, 0.02, 0.07, 0.9])
ADD_AT = 10_000


def forgetting(n_jobs: int = 1) -> dict[str, pmb.Run]:
    """The runs of the figure."""
    return {
        name: pmb.simulate(GINI, world, POLICIES, HORIZON, trials=TRIALS, seed=SEED, checkpoints=60, n_jobs=n_jobs)
        for name, world in WORLDS.items()
    }


def forgetting_table(runs: dict[str, pmb.Run]) -> Table:
    """Regret at the end, and what the declared mixture falls short of, on average over the checkpoints."""
    table = Table(title=f"Track in worlds that change: regret against the best mixture of each period, {TRIALS} trials")
    table.add_column("estimates")
    for name in runs:
        table.add_column(f"{name}: regret", justify="right")
        table.add_column("declared", justify="right")
    for label in POLICIES:
        cells = [label]
        for run in runs.values():
            end = run.regret(label)[1][:, -1]
            declared = run.column("declared", label)[1].mean()
            cells += [f"{end.mean():.4f} ± {end.std(ddof=1) / np.sqrt(TRIALS):.4f}", f"{declared:.4f}"]
        table.add_row(*cells)
    return table


def newcomer_table(n_jobs: int = 1) -> Table:
    """Regret where the best arm comes after half of the rounds, beside that of policies that had it from the start."""
    table = Table(title=f"The best arm, D, is added after {ADD_AT:,} of {2 * ADD_AT:,} rounds, {TRIALS} trials")
    for head in ("policy", "regret after it came", "had it at once", "share of D after 200", "1,000", "10,000 rounds"):
        table.add_column(head, justify="left" if head == "policy" else "right")
    marks = [ADD_AT, ADD_AT + 200, ADD_AT + 1_000, 2 * ADD_AT]
    policies = {"Vet": pmb.Vet(), "Track": pmb.Track()}
    given = {"trials": TRIALS, "seed": SEED, "n_jobs": n_jobs}
    late = pmb.simulate(
        GINI, NEWCOMER, policies, 2 * ADD_AT, **given, schedule=[(ADD_AT, "add", "D")], checkpoints=marks
    )
    early = pmb.simulate(GINI, NEWCOMER, policies, ADD_AT, **given, checkpoints=[ADD_AT])
    for label in policies:
        regret, pulls = late.regret(label)[1], late.column("pulls", label)[1]
        after = (2 * ADD_AT * regret[:, -1] - ADD_AT * regret[:, 0]) / ADD_AT
        shares = [(pulls[:, c, 3] / (marks[c] - ADD_AT)).mean() for c in (1, 2, 3)]
        table.add_row(
            label,
            f"{after.mean():.1e} ± {after.std(ddof=1) / np.sqrt(TRIALS):.0e}",
            f"{early.regret(label)[1][:, -1].mean():.1e}",
            *(f"{share:.1%}" for share in shares),
        )
    return table


def cost_table(rounds: int = 200_000) -> Table:
    """Computing time of a round, as a multiple of that in a world that stands still."""
    table = Table(title="Computing time of a round, Track on two Bernoulli arms; the first is 1")
    for head in ("world", "times"):
        table.add_column(head, justify="left" if head == "world" else "right")
    a, b = pmb.Bandit.bernoulli([0.4, 0.9]), pmb.Bandit.bernoulli([0.5, 0.8])
    cases = {
        "stands still": (a, {}),
        "10 steps": (pmb.Changing.steps([(0, a), (rounds // 20, b)], repeat=rounds // 10), {}),
        "season in 1,000 pieces": (pmb.Changing.season(a, b, rounds // 10, every=rounds // 1000), {}),
        "delay of 50": (a, {"delay": 50}),
        "delay by Poisson(50)": (a, {"delay": st.poisson(50)}),
        "batches of 100": (a, {"batch": 100}),
    }
    first = None
    for name, (world, more) in cases.items():
        seconds = []
        for _ in range(3):
            run = pmb.simulate(GINI, world, "track", rounds, trials=1, seed=1, n_jobs=1, checkpoints=1, **more)
            seconds.append(float(run.seconds("Track")[0]))
        first = first or min(seconds)
        table.add_row(name, f"{min(seconds) / first:.2f}")
    return table


def draw(runs: dict[str, pmb.Run], path: Path) -> None:
    """Three pictures beside each other: the regret of each period's end, and of all rounds so far."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from pmbandits._plot_style import save_figure
    from pmbandits.plots import plot_regret

    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.6), sharey=True)
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        plot_regret(run, ax, title=name)
        if ax is not axes[-1]:
            ax.get_legend().remove()
        if ax is not axes[0]:
            ax.set_ylabel("")
    figure.tight_layout()
    save_figure(figure, path)


def tables() -> Iterator[Table]:
    yield forgetting_table(forgetting())
    yield newcomer_table()
    yield cost_table()


if __name__ == "__main__":
    draw(forgetting(), Path("docs/_static/worlds.png"))
