"""The studio: how long a move of a slider takes, in computing time of its process. The board has its own: ``board``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from rich.table import Table

from pmbandits.cli import ONE_THREAD
from pmbandits.pages.studio import answers
from pmbandits.pages.studio.table import Table as Rewards

MOVES = {
    "quadratic({})": (0.2, 0.9),
    "upper_cvar({})": (0.5, 0.95),
    "{}*mean + 0.3*upper_cvar(0.9)": (0.3, 0.9),
    "pht({})": (0.3, 0.9),
    "lower_cvar({})": (0.05, 0.5),
    "mean - {}*gini": (0.1, 0.9),
    "tversky_kahneman({})": (0.4, 0.9),
    "var({})": (0.2, 0.8),
    "{}*mean + inter_quantile_range": (0.1, 0.9),
}
LIMITS = {"arms": {"a1": [10, 100], "a2": [10, 100], "a3": [0, 30], "a9": [0, 40]}}


def rewards(kind: str, arms: int = 10, n: int = 10_000) -> Rewards:
    """A table in the studio, as if it had been dropped in."""
    rng = np.random.default_rng(0)
    file = Path(mkdtemp()) / f"{kind}.csv"
    with file.open("w") as out:
        out.write("arm,reward\n")
        for k in range(arms):
            x = rng.gamma(1.0 + 0.2 * k, 1.0, n)
            if kind == "mostly zero":
                x = np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(2.0 + 0.1 * k, 1.0, n)).round(2)
            out.writelines(f"a{k},{value!r}\n" for value in x.tolist())
    table = Rewards(file, file.name, is_upload=False)
    table.read({"arm": "arm", "reward": "reward"})
    return table


def moves(kind: str) -> dict[str, list[float]]:
    """Of each preference: the median and the largest time of a move in milliseconds, without limits and within some."""
    table, out = rewards(kind), {}
    for text, (low, high) in MOVES.items():
        cells = []
        for limits in (None, LIMITS):
            spent = []
            for value in np.linspace(low, high, 12):
                start = time.process_time()
                answers.best_mixture(table, {"metric": text.format(round(float(value), 4)), "limits": limits})
                spent.append(1e3 * (time.process_time() - start))
            cells += [float(np.median(spent[1:])), max(spent[1:])]
        out[text] = cells
    return out


def _moves(kind: str) -> dict[str, list[float]]:
    """The same in a process like that of the studio."""
    command = [sys.executable, "-m", "benchmarks.studio", kind]
    alone = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    found: dict[str, list[float]] = json.loads(
        subprocess.run(command, env=alone, check=True, capture_output=True).stdout
    )
    return found


def tables() -> Iterator[Table]:
    """What is measured."""
    for kind in ("all different", "mostly zero"):
        shown = Table(title=f"A move of a slider: 10 arms × 10,000 rewards, {kind} (ms of the server; limit 100)")
        for head in ("preference", "median", "largest", "within limits", "largest "):
            shown.add_column(head, justify="left" if head == "preference" else "right")
        for text, cells in _moves(kind).items():
            shown.add_row(text, *(f"{ms:.0f}" for ms in cells))
        yield shown


if __name__ == "__main__":
    print(json.dumps(moves(sys.argv[1])))
