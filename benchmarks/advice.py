"""Advice on logged rewards: how often noise is called a real gain, how soon a real gain is seen, and large files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.progress import track
from rich.table import Table

import pmbandits as pmb

QUICK = bool(os.environ.get("BENCH_QUICK"))
Arms = Callable[[np.random.Generator, int], list[np.ndarray]]

# No mixture is better than the best single arm in any of these.
NULLS: dict[str, tuple[Arms, tuple[str, ...]]] = {
    "2 equal coins, p = .5": (lambda r, n: [r.binomial(1, 0.5, n) for _ in range(2)], ("gini", "inter_es_range")),
    "3 equal rare events, p = .05": (
        lambda r, n: [r.binomial(1, 0.05, n) for _ in range(3)],
        ("gini", "wang_right_tail"),
    ),
    "coins .5, .4, .3": (lambda r, n: [r.binomial(1, p, n) for p in (0.5, 0.4, 0.3)], ("gini", "inter_es_range")),
    "3 equal normal arms": (lambda r, n: [r.normal(0, 1, n) for _ in range(3)], ("gini", "cvar:c=0.95")),
    "2 equal lognormal arms": (lambda r, n: [r.lognormal(0, 1.5, n) for _ in range(2)], ("gini", "cvar:c=0.95")),
    "4 equal counts, Poisson .3": (lambda r, n: [r.poisson(0.3, n) for _ in range(4)], ("gini", "wang_right_tail")),
    "normal, σ = 2, 1, 1": (lambda r, n: [r.normal(0, s, n) for s in (2, 1, 1)], ("gini",)),
}
GAINS: dict[str, tuple[Arms, str]] = {
    "coins .4, .9 (gain .01)": (lambda r, n: [r.binomial(1, p, n) for p in (0.4, 0.9)], "gini"),
    "normal 1, 3, 5 (gain .72)": (lambda r, n: [r.normal(m, 1, n) for m in (1, 3, 5)], "gini"),
    "normal 0, 1 (gain .06)": (lambda r, n: [r.normal(m, 1, n) for m in (0, 1)], "gini"),
}


def tables() -> Iterator[Table]:
    yield false_verdicts()
    yield power()
    yield streaming()


def _share(make: Arms, metric: str, n: int, times: int) -> float:
    rng = np.random.default_rng(0)
    real = 0
    for seed in range(times):
        data = {str(k): x for k, x in enumerate(make(rng, n))}
        real += pmb.advise(data, metric, bootstrap=0, seed=seed).verdict == "real"
    return real / times


def false_verdicts() -> Table:
    times, sizes = (40, (40, 200)) if QUICK else (200, (40, 200, 1000))
    table = Table(title=f"Share of {times} data sets in which noise is called a real gain (goal: at most 5 %)")
    for head in ("arms", "metric", *(f"{n} rewards" for n in sizes)):
        table.add_column(head)
    for name, (make, metrics) in track(NULLS.items(), description="noise", transient=True):
        for metric in metrics:
            table.add_row(name, metric, *(f"{100 * _share(make, metric, n, times):.1f} %" for n in sizes))
    return table


def power() -> Table:
    times, sizes = (20, (50, 500)) if QUICK else (60, (50, 200, 1000, 5000))
    table = Table(title=f"Share of {times} data sets in which a gain that exists is called real")
    for head in ("arms", *(f"{n} rewards" for n in sizes)):
        table.add_column(head)
    for name, (make, metric) in track(GAINS.items(), description="gains", transient=True):
        table.add_row(name, *(f"{100 * _share(make, metric, n, times):.0f} %" for n in sizes))
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
log = read(sys.argv[1], progress=False)
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
