"""Processes that are killed while they save or simulate: what was there stays whole, and what follows is the same."""

from __future__ import annotations

import os
import shutil
import signal
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np

import pmbandits as pmb
from tests.fuzz import Failed
from tests.fuzz.policy_files import GINI, UNIT, pick
from tests.fuzz.run_files import ARGUMENTS


@cache
def expected() -> pmb.Run:
    """The run that was not killed."""
    return pmb.simulate(**{**ARGUMENTS, "trials": 12}, n_jobs=1)


@cache
def players() -> dict[int, pmb.Policy]:
    """The same policy at three moments."""
    out, rng = {}, np.random.default_rng(0)
    policy = pmb.CIRT(GINI, n_arms=3, support=UNIT, epsilon=0.3)
    for t in range(1, 4001):
        arm = policy.ask()
        policy.tell(arm, float(rng.random()))
        if t in (10, 500, 4000):
            out[t] = policy._clone()
    return out


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One process, killed at a random moment."""
    return kill_save(rng, folder) if rng.random() < 0.6 else kill_simulation(rng, folder)


def killed(work: object, after: float) -> None:
    """A copy of this process does some work, and is killed after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            work()  # type: ignore[operator]
        finally:
            os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def kill_save(rng: np.random.Generator, folder: Path) -> str:
    at, path = players(), folder / "saved" / "policy.pmb"
    path.parent.mkdir(exist_ok=True)

    def work() -> None:
        while True:
            for policy in at.values():
                policy.save(path)

    killed(work, 0.03 * float(rng.random()))
    if path.exists():
        loaded = pmb.load(path)
        if loaded.t not in at or loaded.mixture.tolist() != at[loaded.t].mixture.tolist():
            raise Failed("half of a policy was saved")
    at[500].save(path)
    left = [found.name for found in path.parent.iterdir()]
    if left != [path.name]:
        raise Failed(f"files are left behind: {left}")
    if pick(rng, (True, False)):
        path.unlink()
    return "taken"


def kill_simulation(rng: np.random.Generator, folder: Path) -> str:
    at, wanted = folder / "simulated", expected()
    shutil.rmtree(at, ignore_errors=True)
    for _ in range(int(rng.integers(1, 3))):
        killed(lambda: pmb.simulate(**{**ARGUMENTS, "trials": 12}, n_jobs=1, out=at), 0.08 * float(rng.random()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pmb.simulate(**{**ARGUMENTS, "trials": 12}, n_jobs=1, out=at)
    if not run.equals(wanted) or not pmb.Run.load(at / "run.parquet").equals(wanted):
        raise Failed("another run")
    return "taken"
