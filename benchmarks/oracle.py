"""The best mixture of known arms: computing time and certified gap against the number of arms and atoms."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from pmbandits.optimize import utility_function

QUICK = bool(os.environ.get("BENCH_QUICK"))
METRICS = (pmb.GiniDeviation(), pmb.WangRightTail(), pmb.UpperCVaR(0.9))


def tables() -> Iterator[Table]:
    yield by_arms()
    yield many_mixtures()
    yield atoms()
    yield limited()


def beta_arms(count: int) -> pmb.Bandit:
    rng = np.random.default_rng(0)
    return pmb.Bandit([st.beta(*rng.uniform(0.5, 5.0, 2)) for _ in range(count)])


def normal_arms(count: int) -> pmb.Bandit:
    rng = np.random.default_rng(0)
    return pmb.Bandit([st.norm(*rng.uniform(0.4, 4.0, 2)) for _ in range(count)])


def logged_arms(count: int) -> pmb.Bandit:
    rng = np.random.default_rng(0)
    return pmb.Bandit([rng.normal(*rng.uniform(0.4, 4.0, 2), 1_000) for _ in range(count)])


def solved(metric: pmb.Distortion, bandit: pmb.Bandit, shares: object = None) -> tuple[float, float]:
    """Seconds of computing time, and the certified gap relative to the value."""
    start = time.process_time()
    best = pmb.oracle(metric, bandit, shares=shares)
    took = time.process_time() - start
    assert best.certified
    return took, best.gap / abs(best.value)


def by_arms() -> Table:
    counts = (3, 10, 30) if QUICK else (3, 10, 30, 100, 300, 1000)
    table = Table(
        title="Oracle against the number of arms: CPU seconds (largest relative gap in the last column)",
        caption="Logged: 1,000 rewards an arm. Goals: 100 Beta arms in 1 s, 1,000 normal arms in 10 s, gaps ≤ 1e-9.",
    )
    for head in ("arms", "metric", *(f"K = {k}" for k in counts), "grows like", "gap"):
        table.add_column(head, justify="right")
    kinds = {"Beta": beta_arms, "normal": normal_arms, "logged": logged_arms}
    for kind, metric in track([(k, m) for k in kinds for m in METRICS], description="oracle"):
        runs = [solved(metric, kinds[kind](k)) for k in counts]
        seconds = [took for took, _ in runs]
        large = slice(counts.index(30), None) if not QUICK else slice(0, None)
        power = np.polyfit(np.log(counts[large]), np.log(seconds[large]), 1)[0]
        gap = max(gap for _, gap in runs)
        table.add_row(kind, repr(metric), *(f"{s:.2f}" for s in seconds), f"K^{power:.1f}", f"{gap:.0e}")
    return table


def many_mixtures() -> Table:
    count = 10 if QUICK else 100
    table = Table(title=f"Utilities of 10,000 mixtures of {count} Beta arms, CPU seconds (goal: 1)")
    for head in ("metric", "preparing", "10,000 mixtures"):
        table.add_column(head, justify="right")
    grid = np.random.default_rng(0).dirichlet(np.full(count, 0.3), 10_000)
    for metric in (*METRICS, pmb.VaR(0.9), pmb.GiniShortfall(0.5, 0.3)):
        start = time.process_time()
        score = utility_function(metric, beta_arms(count))
        ready = time.process_time()
        score(grid)
        table.add_row(repr(metric), f"{ready - start:.2f}", f"{time.process_time() - ready:.2f}")
    return table


def atoms() -> Table:
    cases = [(20, 1_000), (100, 1_000)] if QUICK else [(20, 1_000), (100, 1_000), (100, 10_000), (10, 100_000)]
    table = Table(
        title="Oracle, logged rewards (atoms): CPU seconds and relative gap",
        caption="20 × 1,000 is comparable to the Gini problem of 1,000 observations in skfolio#7 (1,019 s there).",
    )
    for head in ("arms × atoms", "metric", "CPU s", "gap"):
        table.add_column(head, justify="right")
    for count, size in cases:
        rng = np.random.default_rng(1)
        bandit = pmb.Bandit([rng.normal(rng.normal(), rng.uniform(0.5, 1.5), size) for _ in range(count)])
        for metric in (*METRICS, pmb.MeanMedianDeviation()):
            took, gap = solved(metric, bandit)
            table.add_row(f"{count} × {size:,}", repr(metric), f"{took:.3f}", f"{gap:.0e}")
    return table


def limited() -> Table:
    count = 10 if QUICK else 100
    table = Table(
        title=f"Oracle within limits, {count} arms: CPU seconds (largest relative gap in the last column)",
        caption="Floors: 0.2 % each; caps: 5 % each (K = 10: 15 %); groups: three limits on 25, 50 and 1 arms.",
    )
    kinds = {
        "none": None,
        "floors": dict.fromkeys(range(count), (0.002, None)),
        "caps": dict.fromkeys(range(count), (None, max(0.05, 1.5 / count))),
        "groups": {tuple(range(count // 4)): (None, 0.3), tuple(range(count // 2)): (0.2, 0.5), 3: (0.1, None)},
    }
    for head in ("arms", "metric", *kinds, "gap"):
        table.add_column(head, justify="right")
    for name, make in {"Beta": beta_arms, "logged": logged_arms}.items():
        for metric in METRICS:
            runs = [solved(metric, make(count), shares) for shares in kinds.values()]
            gap = max(gap for _, gap in runs)
            table.add_row(name, repr(metric), *(f"{took:.2f}" for took, _ in runs), f"{gap:.0e}")
    return table
