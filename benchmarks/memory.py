"""Memory of a policy against the rewards it was told, and what bounded memory costs in regret.

``BENCH_QUICK=1`` plays fewer rounds and trials.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import scipy.stats as distributions
from rich.table import Table

import pmbandits as pmb
from pmbandits.simulation.trial import Player
from pmbandits.state.layout import memory_layout_for

QUICK = bool(os.environ.get("BENCH_QUICK"))
KEPT = ("exact", "binned", "sketch")
GINI = pmb.GiniDeviation()


def tables() -> Iterator[Table]:
    yield memory()
    yield regret()


def memory() -> Table:
    """Bytes of the policy's memory after a trial of Track (2 arms on an interval) in the compiled loop."""
    rounds = (10**4, 10**5, 10**6) if QUICK else (10**4, 10**6, 10**8)
    bandit = pmb.Bandit([distributions.uniform(0.0, 0.6), distributions.uniform(0.2, 0.8)], support=pmb.Interval(0, 1))
    table = Table(title="State of Track after so many rewards, 2 arms (goal: binned and sketch flat, in kilobytes)")
    table.add_column("estimates")
    for n in rounds:
        table.add_column(f"{n:.0e}", justify="right")
    table.add_column("ns a round (most rounds)", justify="right")
    for kept in KEPT:
        row, each = [kept], ""
        for n in rounds:
            if kept == "exact" and n > 10**6:
                row.append(f"{_exact_bytes(n) / 1e6:,.0f} MB (reckoned)")
                continue
            policy = pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1), estimates=kept)
            player = Player(policy, bandit, 0, np.array([n]))
            start = time.perf_counter()
            player.play(0)
            each = f"{1e9 * (time.perf_counter() - start) / n:,.0f}"
            size = player.policy._memory.words.nbytes
            row.append(f"{size / 1e3:,.0f} kB" if size < 1e7 else f"{size / 1e6:,.0f} MB")
        table.add_row(*row, each)
    return table


def _exact_bytes(n: int) -> int:
    """What the memory of an exact policy takes when it has just room for n rewards."""
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1))
    sizes = {**policy._memory.sizes, "reward_capacity": n}
    return 8 * memory_layout_for(*sizes.values()).end


def regret() -> Table:
    """The same trials with exact and with bounded memory."""
    bandit = pmb.Bandit(
        [distributions.beta(2, 5), distributions.beta(5, 2), distributions.beta(1, 1)], support=pmb.Interval(0, 1)
    )
    long, short = (10**4, 2000) if QUICK else (10**5, 10**4)
    trials = 4 if QUICK else 10
    table = Table(title=f"Regret beside the exact one's: 3 Beta arms, Gini, {trials} trials, the same rewards")
    for head in ("policy", "T", "estimates", "regret", "± s.e.", "against exact", "s a trial"):
        table.add_column(head, justify="left" if head in ("policy", "estimates") else "right")
    for name, horizon in (("Track", long), ("PMUCB", short), ("CIRT", short)):
        base = None
        for kept in KEPT:
            options = {"horizon": horizon, "epsilon": 1 / 8} if name == "PMUCB" else {}
            recipe = getattr(pmb, name)(**options, estimates=kept)
            run = pmb.simulate(GINI, bandit, [recipe], horizon, trials, 1, checkpoints=[horizon], n_jobs=1)
            found = run.to_arrow()["regret"].to_numpy()
            base = base or found.mean()
            spread = found.std(ddof=1) / np.sqrt(trials)
            table.add_row(
                name, f"{horizon:,}", kept, f"{found.mean():.2e}", f"{spread:.0e}", f"{found.mean() / base:.2f}×",
                f"{np.median(run.seconds(name)):.2f}",
            )  # fmt: skip
    return table
