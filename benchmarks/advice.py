"""Advice: how often "surely" is wrong, how soon a gain is seen, what the numbers are worth, many arms, large files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from math import isfinite, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.stats as st
from rich.progress import track
from rich.table import Table

import pmbandits as pmb
from benchmarks.advice_cases import GAINS, MIXED, MORE, NULLS, TAME, WORTH, Draw

QUICK = bool(os.environ.get("BENCH_QUICK"))
TIMES = int(os.environ.get("BENCH_TIMES", "40" if QUICK else "400"))


def tables() -> Iterator[Table]:
    yield false_verdicts()
    yield beside_z_test()
    yield power()
    yield worth()
    yield mixtures()
    yield more_data()
    yield row_orders()
    yield many_arms()
    yield streaming()


def named(arms: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {str(k): x for k, x in enumerate(arms)}


def share(hits: int, times: int) -> str:
    """A share with its standard error; with none, what is excluded at 95 %."""
    p = hits / times
    return f"{100 * p:.1f} ± {100 * sqrt(p * (1 - p) / times):.1f} %" if hits else f"0 (< {300 / times:.2g} %)"


def false_verdicts() -> Table:
    title = f'Share of {TIMES} data sets in which "surely", or the headline "choose", is wrong (goal: at most 5 %)'
    table = Table(title=title)
    for head in ("data", "surely, before", "surely, at n rewards an arm", "choose"):
        table.add_column(head)
    for name, null in track(NULLS.items(), description="noise", transient=True):
        cells, chosen = [], []
        for n in null.sizes:
            rng = np.random.default_rng(n)
            wrong = wrongly_chosen = 0
            for _ in range(TIMES):
                said = pmb.advise(named(null.draw(rng, n)), null.metric, support=null.support)
                found = [said] if isinstance(said, pmb.Advice) else list(said)
                bad = [a for a in found if not null.wrong or set(a.mixture) <= set(null.wrong)]
                wrong += any(a.proven for a in bad)
                wrongly_chosen += any(a.decision.kind == "choose" for a in bad)
            cells.append(f"{n}: {share(wrong, TIMES)}")
            chosen.append(f"{n}: {share(wrongly_chosen, TIMES)}")
        table.add_row(name, null.before, "\n".join(cells), "\n".join(chosen))
    rising = "an arm that rises from .1 to .9 against .45, with the time column"
    table.add_row(rising, "surely", f"300: {drifting()}", "–")
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
        wrong += pmb.advise(pd.DataFrame(rows), "mean", time="day").proven
    return share(wrong, TIMES)


def beside_z_test() -> Table:
    """How often a lead is seen, beside a two-sample z-test on the two arms that lead.

    It is seen if the headline is "choose", or says that the leader beats the other arm while a third one is open.
    """
    times, sizes = max(TIMES, 20), (50, 200)
    title = f"Share of {times} data sets in which a lead of 2.5 standard errors is seen (goal: .8 of a z-test)"
    table = Table(title=title)
    for head in ("arms", *(f"n = {n}: seen, surely, z-test, ratio" for n in sizes)):
        table.add_column(head)
    for name, (draw, support) in track(TAME.items(), description="power", transient=True):
        cells = []
        for n in sizes:
            rng = np.random.default_rng(n)
            chosen = proven = seen = 0
            for _ in range(times):
                pair, others = draw(rng, n)
                said = pmb.advise(named([*pair, *others]), "mean", support=support)
                right = set(said.mixture) == {"1"}
                chosen += right and (said.decision.kind == "choose" or "0" in said.decision.beaten)
                proven += right and said.proven
                error = sqrt(sum(float(np.var(x, ddof=1)) / x.size for x in pair))
                seen += (pair[1].mean() - pair[0].mean()) / error > st.norm.ppf(0.975)
            shares = (100 * x / times for x in (chosen, proven, seen))
            cells.append(", ".join(f"{x:.0f} %" for x in shares) + f", {chosen / max(seen, 1):.2f}")
        table.add_row(name, *cells)
    return table


def power() -> Table:
    times = max(TIMES // 2, 20)
    sizes = (50, 200, 1000)
    title = f"Share of {times} data sets in which a gain that exists is called sure (before → now), and chosen"
    table = Table(title=title)
    for head in ("arms", *(f"{n} rewards" for n in sizes)):
        table.add_column(head)
    for name, (draw, metric, support, before) in track(GAINS.items(), description="gains", transient=True):
        cells = []
        for n, old in zip(sizes, before, strict=True):
            rng = np.random.default_rng(n)
            found = [pmb.advise(named(draw(rng, n)), metric, support=support) for s in range(times)]
            real, chosen = sum(a.proven for a in found), sum(a.decision.kind == "choose" for a in found)
            cells.append(f"{old} → {100 * real / times:.0f} %, {100 * chosen / times:.0f} %")
        table.add_row(name, *cells)
    return table


def mixtures() -> Table:
    """Recommended mixtures: is their own held-out gain positive, and what do they truly gain?"""
    times = max(TIMES // 2, 20)
    title = f"Mixtures in {times} data sets (goal: none is recommended whose held-out gain is not positive)"
    table = Table(title=title)
    heads = (
        "arms",
        "a mixture is recommended",
        "held-out gain ≤ 0",
        "truly worse than the best arm",
        "true gain ÷ best",
    )
    for head in heads:
        table.add_column(head)
    for name, (draw, laws, metric, n) in track(MIXED.items(), description="mixtures", transient=True):
        rng, bandit, h = np.random.default_rng(n), pmb.Bandit(laws), pmb.metric(metric)
        best = max(float(h.value(law)) for law in laws)
        gains, negative = [], 0
        for _ in range(times):
            said = pmb.advise(named(draw(rng, n)), metric)
            if len(said.mixture) > 1:
                negative += not said.gain > 0.0
                gains.append(float(pmb.utility(h, bandit, said.weights)) / best - 1.0)
        table.add_row(
            f"{name}, n = {n}",
            f"{100 * len(gains) / times:.0f} %",
            f"{negative}",
            f"{100 * np.mean(np.array(gains) < 0.0):.0f} %" if gains else "–",
            f"{100 * np.mean(gains):+.1f} %" if gains else "–",
        )
    return table


def worth() -> Table:
    table = Table(
        title=f"What is said of the worth, in {TIMES} data sets: bias beside the truth, and how often it is covered"
    )
    heads = ("data", "bias before", "bias", "plain", "rmse ÷ plain", "covered by the interval", "by the bounds", "none")
    for head in heads:
        table.add_column(head)
    for name, (draw, distributions, metric, support, n, before) in track(
        WORTH.items(), description="worth", transient=True
    ):
        rng = np.random.default_rng(n)
        said, plain, true, inside, bounded, none = [], [], [], 0, 0, 0
        h = pmb.metric(metric)
        bandit = None if isinstance(distributions[0], float) else pmb.Bandit(distributions)
        cache: dict[bytes, float] = {}
        for _ in range(TIMES):
            a = pmb.advise(named(draw(rng, n)), metric, support=support)
            key = a.weights.round(9).tobytes()
            if key not in cache:
                cache[key] = float(distributions[0]) if bandit is None else float(pmb.utility(h, bandit, a.weights))
            said.append(a.value)
            plain.append(a.apparent)
            true.append(cache[key])
            none += not isfinite(a.interval[0])
            inside += a.interval[0] <= cache[key] <= a.interval[1]
            bounded += a.bounds[0] <= cache[key] <= a.bounds[1]
        bias, simple = (100 * (np.mean(x) / np.mean(true) - 1) for x in (said, plain))
        ratio = np.sqrt(np.mean((np.array(said) - true) ** 2) / np.mean((np.array(plain) - true) ** 2))
        error = 100 * np.std(np.array(said) - np.array(true)) / sqrt(TIMES) / abs(np.mean(true))
        given = TIMES - none
        table.add_row(
            name,
            before,
            f"{bias:+.1f} ± {error:.1f} %",
            f"{simple:+.1f} %",
            f"{ratio:.2f}",
            f"{100 * inside / given:.1f} %" if given else "–",
            f"{100 * bounded / TIMES:.1f} %" if support is not None else "–",
            f"{100 * none / TIMES:.0f} %",
        )
    return table


def more_data() -> Table:
    """How many rewards are asked for, beside how many settle the question in 80 % of data sets."""
    times = max(TIMES // 2, 20)
    table = Table(title=f'"More data" in {times} data sets (goal: within a factor 2 of what settles 80 %)')
    heads = (
        "data",
        "settled already",
        "a number is named",
        "median rewards an arm",
        "settles 80 %",
        "ratio",
        "or more",
        "settled",
    )
    for head in heads:
        table.add_column(head)
    for name, (draw, metric, support, n) in track(MORE.items(), description="more", transient=True):
        rng = np.random.default_rng(n)
        asked, settled, sure, or_more = [], 0, 0, 0
        for _ in range(times):
            a = pmb.advise(named(draw(rng, n)), metric, support=support)
            sure += a.decision.kind == "choose"
            if a.more:
                asked.append(n + max(a.more.values()))
                or_more += a.decision.next_step.or_more
                later = pmb.advise(named(draw(rng, asked[-1])), metric, support=support)
                settled += later.decision.kind == "choose"
        needed = None if "identical" in name else settling_size(draw, metric, support, n, times // 2)
        table.add_row(
            name,
            f"{100 * sure / times:.0f} %",
            f"{100 * len(asked) / times:.0f} %",
            f"{np.median(asked):,.0f}" if asked else "–",
            f"{needed:,.0f}" if needed else "–",
            f"{np.median(asked) / needed:.2f}" if needed and asked else "–",
            f"{100 * or_more / times:.0f} %",
            f"{100 * settled / len(asked):.0f} %" if asked else "–",
        )
    return table


def settling_size(draw: Draw, metric: str, support: pmb.Support | None, n: int, times: int) -> float:
    """How many rewards of each arm settle the question in 80 % of data sets."""

    def settled(size: int) -> float:
        rng = np.random.default_rng(size)
        found = (pmb.advise(named(draw(rng, size)), metric, support=support) for s in range(times))
        return sum(a.decision.kind == "choose" for a in found) / times

    low, high = n, 2 * n
    while settled(high) < 0.8:
        low, high = high, 2 * high
    while high > 1.1 * low:
        middle = round(sqrt(low * high))
        low, high = (low, middle) if settled(middle) >= 0.8 else (middle, high)
    return sqrt(low * high)


def row_orders() -> Table:
    """Borderline data: how often the verdict changes with the order of the rows, which decides who chooses."""
    times = max(TIMES // 8, 10)
    table = Table(title=f"{times} borderline data sets, 8 orders each: verdicts that hang on the order of the rows")
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
            orders = ({k: rng.permutation(x) for k, x in data.items()} for _ in range(8))
            kinds = {pmb.advise(rows, metric, support=support).decision.kind == "choose" for rows in orders}
            change += len(kinds) > 1
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
