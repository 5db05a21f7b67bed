"""The first minutes of a new user: CPU seconds of a fresh process that finds no compiled kernels.

``python -m benchmarks cold`` prints the table. ``python -m benchmarks.cold 5 Vet`` takes the best of 5 in place of 3,
and only the cases with "Vet" in their name. Cases are played in turns, each once more at first: that writes the
bytecode, which users have on disk after an installation.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from rich.table import Table

REPEATS = 3

_README = """
import numpy as np, pmbandits as pmb
policy = pmb.Vet(pmb.GiniDeviation(), names=["A", "B"], support=pmb.Binary())
rng = np.random.default_rng(0)
for t in range(2000):
    arm = policy.ask()
    reward = float(rng.random() < [0.2, 0.9][arm])
    policy.tell(arm, reward)
print(policy.mixture, policy.explain(), policy.certainty())
"""
_FIRST_LOOK = """
import pmbandits as pmb
policy = pmb.Vet(pmb.GiniDeviation(), names=["A", "B"], support=pmb.{support})
for reward in {rewards}:
    policy.tell("A", reward)
    policy.tell("B", 1.0 - reward)
print(policy.ask())
"""
_SIMULATE = """
import scipy.stats as st, pmbandits as pmb
arms = pmb.Bandit([st.beta(2, 8), st.beta(5, 5), st.beta(8, 2)])
print(pmb.simulate("gini", arms, ["{policy}"], horizon={rounds}, trials=2, seed=0, n_jobs=1))
"""
_COINS = _FIRST_LOOK.format(support="Binary()", rewards=[0.0, 1.0, 0.0])
_INTERVAL = _FIRST_LOOK.format(support="Interval(0, 1)", rewards=[0.1, 0.7, 0.3])
CASES = {  # what is run, and the most CPU seconds that it should take
    "README: ten lines, explain, certainty": (_README, 11.0),
    "Vet, first ask with a full look, 0/1": (_COINS, 4.5),
    "Vet, first ask with a full look, interval": (_INTERVAL, 6.0),
    "the same, and explain": (_INTERVAL + "print(policy.explain())", 12.5),
    "simulate Vet, 3 Beta arms, 200 rounds": (_SIMULATE.format(policy="vet", rounds=200), 7.5),
    "simulate PM-UCB-M, 3 Beta arms, 200 rounds": (_SIMULATE.format(policy="pmucb", rounds=200), 9.5),
    "simulate PM-UCB-M, 3 Beta arms, 2,000 rounds": (_SIMULATE.format(policy="pmucb", rounds=2000), 9.5),
    "simulate CIRT, 3 Beta arms, 200 rounds": (_SIMULATE.format(policy="cirt", rounds=200), 11.0),
}


def cpu_of_fresh_process(code: str, bytecode: str) -> float:
    """CPU seconds of a new interpreter that runs the code with an empty folder of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = {"PMBANDITS_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "-c", code], env=os.environ | own, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tables(repeats: int = REPEATS, part: str = "") -> Iterator[Table]:
    chosen = {name: case for name, case in CASES.items() if part in name}
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as bytecode:
        for _ in range(1 + repeats):
            for name, (code, _goal) in chosen.items():
                seconds[name].append(cpu_of_fresh_process(code, bytecode))
    best = {name: min(every[1:]) for name, every in seconds.items()}
    table = Table(title=f"a fresh process, nothing compiled: CPU seconds, best of {repeats}")
    for head in ("what", "CPU s", "goal"):
        table.add_column(head, justify="left" if head == "what" else "right")
    for name, (_code, goal) in chosen.items():
        table.add_row(name, f"{best[name]:.1f}", f"{goal:.1f}")
    yield table


if __name__ == "__main__":
    from rich.console import Console

    given = sys.argv[1:]
    for shown in tables(int(given[0]) if given else REPEATS, *given[1:2]):
        Console(width=110).print(shown)
