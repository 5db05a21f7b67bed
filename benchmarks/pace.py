"""How fast one version of the library is: run it with two versions in turns, and compare the best of each.

    python -m benchmarks.pace OUT.json        # appends one line; repeat in turns with the other source on the path
    python -m benchmarks.pace compare BEFORE.json AFTER.json

Nanoseconds a round in the compiled loop, and nanoseconds for an ask and a tell from Python, for five policies on three
supports. Only public names are used, so the script runs with any version.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats as st

import pmbandits as pmb

POLICIES = ("UCB1", "PMUCB", "CEUCB", "CIRT", "Track")


def instances() -> dict[str, tuple[pmb.Bandit, pmb.Support, int]]:
    """Arms, their support, and how many rounds a trial has."""
    atoms = np.array([0.0, 0.3, 0.5, 1.0])
    shares = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0.6, 0.0, 0.1, 0.3])
    draws = {f"arm {i}": np.random.default_rng(i).choice(atoms, 4000, p=p) for i, p in enumerate(shares)}
    return {
        "binary": (pmb.Bandit.bernoulli([0.4, 0.9, 0.15]), pmb.Binary(), 200_000),
        "finite": (pmb.Bandit.from_samples(draws), pmb.Finite(atoms), 20_000),
        "gaussian": (pmb.Bandit([st.norm(1), st.norm(3), st.norm(2, 0.5)]), pmb.Real(1.0), 4_000),
    }


def recipe(name: str, horizon: int) -> Any:
    """A policy with its defaults."""
    cls = getattr(pmb, name)
    return cls(horizon=horizon) if name in ("PMUCB", "CEUCB") else cls()


def pace() -> dict[str, float]:
    """Nanoseconds of every case."""
    out = {}
    metric = pmb.GiniDeviation()
    for where, (bandit, support, rounds) in instances().items():
        for name in POLICIES:
            policy = recipe(name, rounds).bind(metric, 3, support)
            trials = 4
            if name == "UCB1":
                rounds_now, trials = (200_000, 4)
            else:
                rounds_now = rounds
            pmb.simulate(
                metric, bandit, {"it": policy}, horizon=rounds_now, trials=1, n_jobs=1, checkpoints=[rounds_now]
            )
            best = float("inf")
            for _ in range(3):
                run = pmb.simulate(
                    metric,
                    bandit,
                    {"it": policy},
                    horizon=rounds_now,
                    trials=trials,
                    seed=3,
                    n_jobs=1,
                    checkpoints=[rounds_now],
                )
                best = min(best, float(np.min(run.seconds("it"))))
            out[f"loop {name} {where}"] = 1e9 * best / rounds_now
            rewards = pmb.simulation.Rewards(bandit, seed=1)
            paid = [rewards.next(arm, 3000).tolist() for arm in range(3)]
            count = 2000 if where == "binary" or name == "UCB1" else 600
            fastest = float("inf")
            for _ in range(5):
                policy = recipe(name, rounds).bind(metric, 3, support)
                used = [0, 0, 0]
                start = time.perf_counter()
                for _ in range(count):
                    arm = policy.ask()
                    policy.tell(arm, paid[arm][used[arm]])
                    used[arm] += 1
                fastest = min(fastest, time.perf_counter() - start)
            out[f"ask+tell {name} {where}"] = 1e9 * fastest / count
    return out


def main() -> None:
    """Measure once, or compare."""
    if sys.argv[1] != "compare":
        with Path(sys.argv[1]).open("a") as file:
            file.write(json.dumps(pace()) + "\n")
        return
    before, after = ([json.loads(line) for line in Path(name).read_text().splitlines()] for name in sys.argv[2:])
    for key in before[0]:
        one, two = (min(row[key] for row in rows) for rows in (before, after))
        print(f"{key:28} {one:10.1f} {two:10.1f} {100 * (two / one - 1):+7.1f} %")


if __name__ == "__main__":
    main()
