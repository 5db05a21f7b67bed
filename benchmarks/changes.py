"""Watching for changes and forgetting: false alarms, how long a change takes to be found, and what both cost a round.

``python -m benchmarks changes``. Laws, levels, runs and seeds were committed before anything was run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.table import Table

import pmbandits as pmb

Draw = Callable[[np.random.Generator, int], Any]
SEED, RUNS, ROUNDS, LEVEL = 2020, 400, 100_000, 0.05
DELAY_RUNS, PATIENCE = 100, 20_000


def normal(mean: float, sd: float) -> Draw:
    return lambda rng, n: rng.normal(mean, sd, n)


def coin(p: float) -> Draw:
    return lambda rng, n: (rng.random(n) < p).astype(float)


def rare(p: float, size: float = 1.0) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < p, rng.exponential(size, n), 0.0)


def beta(a: float, b: float) -> Draw:
    return lambda rng, n: rng.beta(a, b, n)


LAWS: dict[str, Draw] = {
    "skewed: lognormal(0, 1.5)": lambda rng, n: rng.lognormal(0.0, 1.5, n),
    "zero-inflated: 3 % exponential": rare(0.03),
    "coin: Bernoulli(0.1)": coin(0.1),
    "Beta(0.5, 0.5)": beta(0.5, 0.5),
    "normal": normal(0.0, 1.0),
}
CHANGES: dict[str, tuple[Draw, Draw]] = {
    "mean of a normal: + 1 sd": (normal(0, 1), normal(1, 1)),
    "mean of a normal: + 0.5 sd": (normal(0, 1), normal(0.5, 1)),
    "mean of a normal: + 0.25 sd": (normal(0, 1), normal(0.25, 1)),
    "spread of a normal: 2 times": (normal(0, 1), normal(0, 2)),
    "spread of a normal: 1.5 times": (normal(0, 1), normal(0, 1.5)),
    "Beta(2, 2) becomes Beta(0.5, 0.5)": (beta(2, 2), beta(0.5, 0.5)),
    "coin: 50 % becomes 60 %": (coin(0.5), coin(0.6)),
    "coin: 10 % becomes 20 %": (coin(0.1), coin(0.2)),
    "rare win: 1 % becomes 3 %": (rare(0.01), rare(0.03)),
    "rare win: 2 % becomes 10 %": (rare(0.02), rare(0.1)),
    "size of rare wins (10 %): 3 times": (rare(0.1), rare(0.1, 3.0)),
    "mean of a normal: + 2 sd": (normal(0, 1), normal(2, 1)),
    "mean of a normal: + 6 sd": (normal(0, 1), normal(6, 1)),
}


def thresholds(name: str) -> list[float] | None:
    return [0.0] if name.startswith("coin") else None


def false_alarms() -> Table:
    title = f"Runs with an alarm in {ROUNDS:,} rewards of a world that stands still, {RUNS} runs, level {LEVEL}"
    table = Table(title=title)
    table.add_column("law")
    table.add_column("runs with an alarm", justify="right")
    for k, (name, draw) in enumerate(LAWS.items()):
        found = 0
        for run in range(RUNS):
            rng = np.random.default_rng([SEED, k, run])
            found += bool(pmb.ChangeDetector(LEVEL, values=thresholds(name)).extend(draw(rng, ROUNDS)))
        table.add_row(name, f"{found} of {RUNS}")
    return table


def delays() -> Table:
    table = Table(title=f"Rewards until a change is found (median, and nine in ten), {DELAY_RUNS} runs, level 0.01")
    table.add_column("change")
    befores = (40, 500, 2_000, 20_000)
    for before in befores:
        table.add_column(f"after {before:,}", justify="right")
    for k, (name, (first, then)) in enumerate(CHANGES.items()):
        cells = [name]
        for before in befores:
            waits = []
            for run in range(DELAY_RUNS):
                rng = np.random.default_rng([SEED, 100 + k, before, run])
                detector = pmb.ChangeDetector(0.01, values=thresholds(name))
                early = detector.extend(first(rng, before))
                late = detector.extend(then(rng, PATIENCE)) if not early else []
                waits.append(late[0] + 1.0 if late else np.inf)
            low, high = np.sort(waits)[[DELAY_RUNS // 2, 9 * DELAY_RUNS // 10]]
            cells.append(f"{_shown(low)} ({_shown(high)})")
        table.add_row(*cells)
    return table


def _shown(wait: float) -> str:
    return f"{wait:,.0f}" if np.isfinite(wait) else "never"


def costs(rounds: int = 100_000) -> Table:
    table = Table(title=f"Computing time of a round in simulate, {rounds:,} rounds; exact estimates are 1")
    cases: dict[str, dict[str, str]] = {
        "exact": {},
        "window:10000": {"estimates": "window:10000"},
        "discount:0.9999": {"estimates": "discount:0.9999"},
        "detect='restart'": {"detect": "restart"},
    }
    bandits = {"Bernoulli": pmb.Bandit.bernoulli([0.4, 0.9]), "uniform and less": _uniform()}
    table.add_column("estimates")
    columns = [(policy, name, bandit) for policy in (pmb.Track, pmb.Vet) for name, bandit in bandits.items()]
    for policy, name, _ in columns:
        table.add_column(f"{policy.__name__}, {name}", justify="right")
    first: dict[int, float] = {}
    for label, options in cases.items():
        cells = [label]
        for column, (policy, _, bandit) in enumerate(columns):
            best = np.inf
            for _ in range(3):
                start = time.process_time()
                mine = {"mine": policy(**options)}
                pmb.simulate("gini", bandit, mine, rounds, trials=1, seed=1, n_jobs=1, checkpoints=1)
                best = min(best, time.process_time() - start)
            first.setdefault(column, best)
            cells.append(f"{best / first[column]:.2f}")
        table.add_row(*cells)
    return table


def _uniform() -> pmb.Bandit:
    import scipy.stats as st

    return pmb.Bandit([st.uniform(0, 1), st.uniform(0, 0.5)], support=pmb.Interval(0, 1))


def tables() -> Iterator[Table]:
    yield false_alarms()
    yield delays()
    yield costs()
