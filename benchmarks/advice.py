"""Advice: how often "surely" is wrong, how soon a gain is seen, what the numbers are worth, many arms, large files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb

QUICK = bool(os.environ.get("BENCH_QUICK"))
TIMES = int(os.environ.get("BENCH_TIMES", "40" if QUICK else "400"))
Draw = Callable[[np.random.Generator, int], list[np.ndarray]]
UNIT = pmb.Interval(0, 1)
TEN = [
    "mean", "gini", "lower_cvar(0.1)", "upper_cvar(0.9)", "wang_right_tail", "pht(0.5)", "mean_median_deviation",
    "dual_power(3)", "quadratic(0.5)", "wang_transform(-0.5)",
]  # fmt: skip


def inflated(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Nine of ten rewards are 0, the others lognormal or exponential."""
    tail = rng.lognormal(1.0, 1.5, n) if kind == "lognormal" else rng.exponential(5.0, n)
    return np.where(rng.random(n) < 0.1, tail, 0.0)


@dataclass(frozen=True)
class Null:
    """Data in which "surely" is wrong: for every recommendation, or only for the arms in ``wrong``."""

    draw: Draw
    metric: Any
    support: pmb.Support | None
    sizes: tuple[int, ...]
    wrong: tuple[str, ...] = ()
    before: str = "–"


NULLS: dict[str, Null] = {
    "A .4 to .6, B 0 or 100 with 1 % (B is better)": Null(
        lambda r, n: [r.uniform(0.4, 0.6, n), 100.0 * (r.random(n) < 0.01)],
        "mean", pmb.Interval(0, 100), (50, 100, 200, 400), ("0",), "58, 34, 13, 5 %",
    ),
    "the same, B barely better (4 events expected at each n)": Null(
        lambda r, n: [(400 / 1.02 / n) * r.uniform(0.9, 1.1, n), 100.0 * (r.random(n) < 4 / n)],
        "mean", pmb.Interval(0, 100), (50, 200, 400), ("0",),
    ),
    "3 equal Beta(2, 5), one of them with 8 rewards": Null(
        lambda r, n: [r.beta(2, 5, n), r.beta(2, 5, n), r.beta(2, 5, 8)], "mean", UNIT, (50, 200)
    ),
    "2 identical Beta(2, 5), mean": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "mean", UNIT, (50, 200)),
    "4 identical Beta(2, 5), mean": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(4)], "mean", UNIT, (50, 200)),
    "2 identical Beta(2, 5), Gini": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "gini", UNIT, (50, 200)),
    "4 identical Beta(2, 5), Gini": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(4)], "gini", UNIT, (50, 200)),
    "2 equal coins .5, Gini": Null(lambda r, n: [r.binomial(1, 0.5, n) for _ in range(2)], "gini", None, (50, 200)),
    "3 equal rare events .05, Wang": Null(
        lambda r, n: [r.binomial(1, 0.05, n) for _ in range(3)], "wang_right_tail", None, (60, 200)
    ),
    "10 preferences at once, 2 identical Beta(2, 5)": Null(
        lambda r, n: [r.beta(2, 5, n) for _ in range(2)], TEN, UNIT, (100,)
    ),
    "2 equal zero-inflated lognormal, mean": Null(
        lambda r, n: [inflated(r, n, "lognormal") for _ in range(2)], "mean", None, (50, 200, 1000)
    ),
    "2 equal zero-inflated exponential, mean": Null(
        lambda r, n: [inflated(r, n, "exponential") for _ in range(2)], "mean", None, (50, 200, 1000)
    ),
    "the same, cut at 60 and declared so": Null(
        lambda r, n: [np.minimum(inflated(r, n, "exponential"), 60.0) for _ in range(2)],
        "mean", pmb.Interval(0, 60), (50, 200, 1000),
    ),
    "lognormal, cut at 200 and declared so": Null(
        lambda r, n: [np.minimum(inflated(r, n, "lognormal"), 200.0) for _ in range(2)],
        "mean", pmb.Interval(0, 200), (50, 200, 1000),
    ),
    "2 equal Pareto 2.5, mean": Null(lambda r, n: [r.pareto(2.5, n) for _ in range(2)], "mean", None, (50, 200, 1000)),
    "2 equal Cauchy, mean": Null(lambda r, n: [r.standard_cauchy(n) for _ in range(2)], "mean", None, (50, 200, 1000)),
}  # fmt: skip

# (arms, metric, support, percent called real by the version before, of 100 data sets with 50, 200 and 1,000 rewards)
GAINS: dict[str, tuple[Draw, str, pmb.Support | None, tuple[str, str, str]]] = {
    "coins .4, .9: Gini gains .01": (
        lambda r, n: [r.binomial(1, p, n) for p in (0.4, 0.9)], "gini", None, ("10", "16", "95"),
    ),
    "normal 1, 3, 5: Gini gains .72": (
        lambda r, n: [np.clip(r.normal(m, 1, n), -4, 10) for m in (1, 3, 5)],
        "gini", pmb.Interval(-4, 10), ("100", "100", "100"),
    ),
    "normal 0, 1: Gini gains .06": (
        lambda r, n: [np.clip(r.normal(m, 1, n), -5, 6) for m in (0, 1)], "gini", pmb.Interval(-5, 6), ("0", "6", "96"),
    ),
    "Beta(5, 5), (6, 5): mean .045 ahead": (
        lambda r, n: [r.beta(5, 5, n), r.beta(6, 5, n)], "mean", UNIT, ("10", "48", "100"),
    ),
    "4 Beta arms: lower CVaR(.1) .1 ahead": (
        lambda r, n: [r.beta(a, 5, n) for a in (2, 2, 3, 5)], "lower_cvar(0.1)", UNIT, ("0", "8", "100"),
    ),
}  # fmt: skip

# (arms, their laws, metric, support, bias before in percent)
WORTH: dict[str, tuple[Draw, list[Any], str, pmb.Support | None, int, str]] = {
    "mean, 4 equal Beta(2, 5), n = 50": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(4)], [st.beta(2, 5)] * 4, "mean", UNIT, 50, "+8.8 %",
    ),
    "lower CVaR(.1), 4 equal Beta(2, 5), n = 200": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(4)], [st.beta(2, 5)] * 4, "lower_cvar(0.1)", UNIT, 200, "+16.6 %",
    ),
    "mean, 4 equal zero-inflated exponential, n = 100": (
        lambda r, n: [inflated(r, n, "exponential") for _ in range(4)], [0.5] * 4, "mean", None, 100, "+46 %",
    ),
    "Gini, Beta(2, 6), (6, 3), (1.2, 1.1), n = 100": (
        lambda r, n: [r.beta(a, b, n) for a, b in ((2, 6), (6, 3), (1.2, 1.1))],
        [st.beta(2, 6), st.beta(6, 3), st.beta(1.2, 1.1)], "gini", UNIT, 100, "–",
    ),
    "Gini, coins .2 and .8, where the best mixture is at the top of h, n = 100": (
        lambda r, n: [(r.random(n) < p).astype(float) for p in (0.2, 0.8)],
        [st.bernoulli(0.2), st.bernoulli(0.8)], "gini", pmb.Binary(), 100, "–",
    ),
    "mean, Beta(2, 6), (6, 3), (1.2, 1.1), n = 100": (
        lambda r, n: [r.beta(a, b, n) for a, b in ((2, 6), (6, 3), (1.2, 1.1))],
        [st.beta(2, 6), st.beta(6, 3), st.beta(1.2, 1.1)], "mean", UNIT, 100, "–",
    ),
    "upper CVaR(.9), 3 equal Beta(2, 5), n = 200": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(3)], [st.beta(2, 5)] * 3, "upper_cvar(0.9)", UNIT, 200, "–",
    ),
    "Wang, 2 Pareto 2.5, n = 500, no limits known": (
        lambda r, n: [r.pareto(2.5, n) for _ in range(2)], [st.lomax(2.5)] * 2, "wang_right_tail", None, 500, "–",
    ),
}  # fmt: skip

MORE: dict[str, tuple[Draw, str, pmb.Support | None, int]] = {
    "4 Beta arms, mean": (lambda r, n: [r.beta(a, 5, n) for a in (4, 4.2, 4.4, 4.9)], "mean", UNIT, 100),
    "2 coins .40, .45, mean": (lambda r, n: [r.binomial(1, p, n) for p in (0.4, 0.45)], "mean", None, 300),
    "coins .38, .9, Gini": (lambda r, n: [r.binomial(1, p, n) for p in (0.38, 0.9)], "gini", None, 150),
    "2 identical Beta(2, 5), mean": (lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "mean", UNIT, 100),
}


def tables() -> Iterator[Table]:
    yield false_verdicts()
    yield power()
    yield worth()
    yield more_data()
    yield seeds()
    yield many_arms()
    yield streaming()


def named(arms: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {str(k): x for k, x in enumerate(arms)}


def share(hits: int, times: int) -> str:
    """A share with its standard error; with none, what is excluded at 95 %."""
    p = hits / times
    return f"{100 * p:.1f} ± {100 * sqrt(p * (1 - p) / times):.1f} %" if hits else f"0 (< {300 / times:.2g} %)"


def false_verdicts() -> Table:
    table = Table(title=f'Share of {TIMES} data sets in which "surely" (or "real") is wrong (goal: at most 5 %)')
    for head in ("data", "before", "at n rewards an arm"):
        table.add_column(head)
    for name, null in track(NULLS.items(), description="noise", transient=True):
        cells = []
        for n in null.sizes:
            rng = np.random.default_rng(n)
            wrong = 0
            for seed in range(TIMES):
                said = pmb.advise(named(null.draw(rng, n)), null.metric, support=null.support, seed=seed)
                found = [said] if isinstance(said, pmb.Advice) else list(said)
                wrong += any(a.proven and (not null.wrong or set(a.mixture) <= set(null.wrong)) for a in found)
            cells.append(f"{n}: {share(wrong, TIMES)}")
        table.add_row(name, null.before, "\n".join(cells))
    table.add_row("an arm that rises from .1 to .9 against .45, with the time column", "surely", f"300: {drifting()}")
    return table


def drifting() -> str:
    """An arm that rises from .1 to .9 against one that stays at .45: how often "surely", with the time column."""
    wrong = 0
    for seed in range(TIMES):
        rng = np.random.default_rng(seed)
        at = np.arange(300)
        rows = {
            "arm": ["rising", "steady"] * 300,
            "reward": np.stack((rng.random(300) < 0.1 + 0.8 * at / 299, rng.random(300) < 0.45))
            .T.ravel()
            .astype(float),
            "day": np.repeat(at, 2),
        }
        wrong += pmb.advise(pd.DataFrame(rows), "mean", time="day", seed=seed).proven
    return share(wrong, TIMES)


def power() -> Table:
    times = max(TIMES // 2, 20)
    sizes = (50, 200, 1000)
    table = Table(title=f"Share of {times} data sets in which a gain that exists is called sure (before → now)")
    for head in ("arms", *(f"{n} rewards" for n in sizes)):
        table.add_column(head)
    for name, (draw, metric, support, before) in track(GAINS.items(), description="gains", transient=True):
        cells = []
        for n, old in zip(sizes, before, strict=True):
            rng = np.random.default_rng(n)
            real = sum(pmb.advise(named(draw(rng, n)), metric, support=support, seed=s).proven for s in range(times))
            cells.append(f"{old} → {100 * real / times:.0f} %")
        table.add_row(name, *cells)
    return table


def worth() -> Table:
    table = Table(
        title=f"What is said of the worth, in {TIMES} data sets: bias beside the truth, and how often it is covered"
    )
    for head in ("data", "bias before", "bias", "covered by the interval", "by the bounds", "without interval"):
        table.add_column(head)
    for name, (draw, distributions, metric, support, n, before) in track(
        WORTH.items(), description="worth", transient=True
    ):
        rng = np.random.default_rng(n)
        said, true, inside, bounded, none = [], [], 0, 0, 0
        h = pmb.metric(metric)
        bandit = None if isinstance(distributions[0], float) else pmb.Bandit(distributions)
        cache: dict[bytes, float] = {}
        for seed in range(TIMES):
            a = pmb.advise(named(draw(rng, n)), metric, support=support, seed=seed)
            key = a.weights.round(9).tobytes()
            if key not in cache:
                cache[key] = float(distributions[0]) if bandit is None else float(pmb.utility(h, bandit, a.weights))
            said.append(a.value)
            true.append(cache[key])
            none += not isfinite(a.interval[0])
            inside += a.interval[0] <= cache[key] <= a.interval[1]
            bounded += a.bounds[0] <= cache[key] <= a.bounds[1]
        bias = 100 * (np.mean(said) / np.mean(true) - 1)
        error = 100 * np.std(np.array(said) - np.array(true)) / sqrt(TIMES) / abs(np.mean(true))
        given = TIMES - none
        table.add_row(
            name,
            before,
            f"{bias:+.1f} ± {error:.1f} %",
            f"{100 * inside / given:.1f} %" if given else "–",
            f"{100 * bounded / TIMES:.1f} %" if support is not None else "–",
            f"{100 * none / TIMES:.0f} %",
        )
    return table


def more_data() -> Table:
    """Whether as many rewards as were asked for settle the question."""
    times = max(TIMES // 2, 20)
    table = Table(title=f'"More data" in {times} data sets (goal: where a number is named, it settles ≥ 80 %)')
    for head in ("data", "sure already", "a number is named", "median rewards an arm", "settled with them"):
        table.add_column(head)
    for name, (draw, metric, support, n) in track(MORE.items(), description="more", transient=True):
        rng = np.random.default_rng(n)
        asked, settled, sure = [], 0, 0
        for seed in range(times):
            a = pmb.advise(named(draw(rng, n)), metric, support=support, seed=seed)
            sure += a.proven
            if a.more:
                asked.append(n + max(a.more.values()))
                settled += pmb.advise(named(draw(rng, asked[-1])), metric, support=support, seed=seed).proven
        table.add_row(
            name,
            f"{100 * sure / times:.0f} %",
            f"{100 * len(asked) / times:.0f} %",
            f"{np.median(asked):,.0f}" if asked else "–",
            f"{100 * settled / len(asked):.0f} %" if asked else "–",
        )
    return table


def seeds() -> Table:
    """Borderline data: how often the verdict changes with the seed of the random halves."""
    times = max(TIMES // 8, 10)
    table = Table(title=f"{times} borderline data sets, 8 seeds each: verdicts that hang on the seed (before: 53 %)")
    for head in ("data", "change"):
        table.add_column(head)
    rng = np.random.default_rng(1)
    cases: dict[str, tuple[Draw, str, pmb.Support | None, int]] = {
        "normal 0, 1: Gini": (*GAINS["normal 0, 1: Gini gains .06"][:3], 500),
        "Beta(5, 5), (6, 5): mean": (*GAINS["Beta(5, 5), (6, 5): mean .045 ahead"][:3], 200),
    }
    for name, (draw, metric, support, n) in cases.items():
        change = 0
        for _ in range(times):
            data = named(draw(rng, n))
            change += len({pmb.advise(data, metric, support=support, seed=s).proven for s in range(8)}) > 1
        table.add_row(name, f"{100 * change / times:.0f} %")
    return table


def many_arms() -> Table:
    table = Table(title="Many arms, 30 rewards each: CPU seconds of advise (mean)")
    for head in ("arms", "CPU s"):
        table.add_column(head, justify="right")
    for count in (200, 2_000) if QUICK else (200, 2_000, 20_000):
        rng = np.random.default_rng(0)
        data = {str(k): rng.normal(0, 1, 30) for k in range(count)}
        start = time.process_time()
        pmb.advise(data, "mean")
        table.add_row(f"{count:,}", f"{time.process_time() - start:.1f}")
    return table


_READ = """
import sys, time
from pathlib import Path
from pmbandits.logs import read
import pyarrow.csv, pyarrow.parquet

def peak():  # of this process alone, in kB
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before, start = peak(), time.process_time()
log = read(sys.argv[1])
print(time.process_time() - start, peak() - before, log.used)
"""


def streaming() -> Table:
    """Each file is read in a process of its own, so that peaks of memory do not mix."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    sizes = (100_000, 1_000_000) if QUICK else (1_000_000, 10_000_000)
    table = Table(title="Reading a log of 3 arms with continuous rewards (memory above that of an idle process; Linux)")
    for head in ("file", "rows", "MB on disk", "CPU s", "peak MB"):
        table.add_column(head, justify="left" if head == "file" else "right")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for rows in sizes:
            arm = rng.integers(0, 3, rows)
            names = pa.DictionaryArray.from_arrays(pa.array(arm), pa.array(["low", "mid", "high"])).dictionary_decode()
            logged = pa.table({"arm": names, "reward": np.round(rng.normal(1 + 2 * arm, 1), 6)})
            pc.write_csv(logged, f"{folder}/log.csv", pc.WriteOptions(quoting_style="needed"))
            pq.write_table(logged, f"{folder}/log.parquet")
            for kind in ("csv", "parquet"):
                path = Path(folder) / f"log.{kind}"
                done = subprocess.run(
                    [sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True
                )
                seconds, memory, used = done.stdout.split()
                assert int(used) == rows
                size = f"{path.stat().st_size / 1e6:.0f}"
                table.add_row(kind, f"{rows:,}", size, f"{float(seconds):.1f}", f"{float(memory) / 1e3:.0f}")
    return table
