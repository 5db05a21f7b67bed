"""What a round of Vet costs beside one of Track: ratios within one run, for all ways in which rewards are kept.

Seconds are those of the processor (``time.thread_time``), so that other work on the machine changes little.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from pmbandits.state import timing

ROUNDS = 100_000
ARMS = (3, 30, 100)
METRICS = ("gini", "upper_cvar(0.9)", "wang_right_tail", "lower_cvar(0.2)")
KINDS = ("0/1", "256 bins", "exact")


def arms(kind: str, count: int) -> pmb.Bandit:
    """Random arms: coins, Beta laws on 256 atoms, or samples of Beta laws, which are drawn from again."""
    rng = np.random.default_rng([77, count, 0])
    if kind == "0/1":
        return pmb.Bandit.bernoulli(rng.uniform(0.1, 0.9, count))
    distributions = [st.beta(*shape) for shape in rng.uniform(0.5, 5.0, (count, 2))]
    if kind == "exact":
        samples = [distribution.rvs(4000, random_state=rng) for distribution in distributions]
        return pmb.Bandit(samples, support=pmb.Interval(0.0, 1.0))
    edges = np.linspace(0.0, 1.0, 257)
    atoms = 0.5 * (edges[1:] + edges[:-1])
    shares = (np.diff(distribution.cdf(edges)) for distribution in distributions)
    return pmb.Bandit(
        [st.rv_discrete(values=(atoms, share / share.sum())) for share in shares], support=pmb.Finite(atoms)
    )


def cost() -> Table:
    """Microseconds a round of both, and their ratio."""
    usual, timing.clock = timing.clock, time.thread_time
    try:
        return compared()
    finally:
        timing.clock = usual


def compared() -> Table:
    """The least of three trials of each policy in each case."""
    table = Table(title=f"Vet beside Track, µs a round, T = {ROUNDS:,} (goal: at most 2 times)")
    for head in ("rewards", "K", "metric", "Vet", "Track", "ratio"):
        table.add_column(head, justify="right")
    cases = [(kind, count, metric) for kind in KINDS for count in ARMS for metric in METRICS]
    for kind, count, metric in track(cases, description="Vet and Track"):
        run = pmb.simulate(
            metric,
            arms(kind, count),
            [pmb.Vet(), pmb.Track()],
            ROUNDS,
            3,
            seed=3,
            checkpoints=1,
            progress=False,
            n_jobs=1,
        )
        vet, other = (1e6 * float(run.seconds(name).min()) / ROUNDS for name in ("Vet", "Track"))
        table.add_row(kind, str(count), metric, f"{vet:.2f}", f"{other:.2f}", f"{vet / other:.1f}")
    return table


def tables() -> list[Table]:
    """The table."""
    return [cost()]
