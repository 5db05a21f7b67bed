"""Ctrl-C at a random moment of a save: it is KeyboardInterrupt, and the file is the old one or the new one, whole."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np

import pmbandits as pmb
from tests.fuzz import Failed
from tests.fuzz.kills import expected, players
from tests.fuzz.policy_files import pick


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One save with one interrupt."""
    if rng.random() < 0.7:
        old, new = (players()[t] for t in rng.permutation([10, 500, 4000])[:2])
        path, read = folder / "policy.pmb", lambda file: pmb.load(file).t
        both, most = (old.t, new.t), 0.004
    else:
        old = new = expected()
        path, read = folder / "run.parquet", lambda file: pmb.Run.load(file).seed
        both, most = (0, 0), 0.006
    old.save(path)
    came = interrupted(lambda: new.save(path), most * float(rng.random()))
    if read(path) not in both or (not came and read(path) != both[1]):
        raise Failed("neither the old nor the new one")
    new.save(path)
    left = [found.name for found in folder.iterdir() if found.name.startswith(".")]
    if left:
        raise Failed(f"files are left behind: {left}")
    return pick(rng, ("taken",))


def interrupted(work: Any, after: float) -> bool:
    """Do some work, with Ctrl-C after so many seconds; whether it came in time. Any other error is passed on."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(after, 1e-6))
        work()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        while True:
            try:  # the signal may come here, too
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, before)
                break
            except KeyboardInterrupt:
                continue
