"""Kernels read and write only what is theirs: every policy, every kind of estimate, with numba's checks switched on.

Compiled code does not look where it reads. Here it does, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import scipy.stats as laws
import pmbandits as pmb

T = 3000
SUPPORTS = {
    "binary": [laws.bernoulli(0.3), laws.bernoulli(0.6), laws.bernoulli(0.9)],
    "finite": None,
    "interval": [laws.beta(2, 5), laws.beta(1, 1), laws.beta(6, 2)],
    "real": [laws.norm(1), laws.norm(3), laws.norm(5)],
}
GINI, NEITHER, CAUTIOUS, JUMPS = pmb.GiniDeviation(), pmb.InvertedS(0.7), pmb.LowerCVaR(0.3), pmb.VaR(0.5)
MIXING = {
    "Track": lambda **o: pmb.Track(**o),
    "PMETC": lambda **o: pmb.PMETC(horizon=T, epsilon=0.25, **o),
    "PMUCB": lambda **o: pmb.PMUCB(horizon=T, epsilon=0.25, **o),
    "CEUCB": lambda **o: pmb.CEUCB(horizon=T, epsilon=0.25, **o),
    "CIRT": lambda **o: pmb.CIRT(epsilon=0.25, **o),
    "FixedGrid": lambda **o: pmb.FixedGrid(epsilon=0.5, **o),
}
ALONE = [pmb.UCB1(), pmb.Thompson(), pmb.RhoNPTS(), pmb.UUCB(), pmb.WUCB(), pmb.SolitaryUCB(horizon=400), pmb.Uniform(),
         pmb.SolitaryArm(arm=1)]
TAIL = [pmb.BCVTS(), pmb.MCVTS(), pmb.CVaRUCB(horizon=400), pmb.BrownUCB(horizon=400)]

def arms(support):
    if support == "finite":
        return pmb.Bandit.from_samples({"a": [0, 0, 1, 4], "b": [1, 2, 2], "c": [4, 0]})
    return pmb.Bandit(SUPPORTS[support])

played = refused = 0
def play(bandit, metric, recipe, rounds, **more):
    global played, refused
    try:
        run = pmb.simulate(metric, bandit, recipe, rounds, 1, progress=False, n_jobs=1, **more)
    except ValueError as error:  # the policy does not take this metric or support, and says so
        refused += 1
        return
    played += 1

which = sys.argv[1]
for support in SUPPORTS:
    bandit = arms(support)
    if which == "mixing":
        for name, make in MIXING.items():
            for metric in (GINI, NEITHER, CAUTIOUS, JUMPS):
                play(bandit, metric, make(), 400)
            if name not in ("Track",):
                for metric in (GINI, CAUTIOUS):
                    play(bandit, metric, make(search="continuous"), 400)
    elif which == "estimates":
        for make in MIXING.values():
            for estimates in ("sketch:8", "binned:16"):
                for metric in (GINI, CAUTIOUS):
                    play(bandit, metric, make(estimates=estimates), T)
    elif which == "late":  # more rewards are on their way than there is room for at first
        world = pmb.Changing.steps([(0, bandit), (40, bandit), (90, bandit)], repeat=130)
        for delay in (5, laws.poisson(150), {bandit.names[1]: laws.geom(0.01)}):
            play(world, GINI, pmb.Uniform(), 700, delay=delay, batch=7)
    else:
        for recipe in ALONE:
            play(bandit, GINI, recipe, 400)
        for recipe in TAIL:
            play(bandit, CAUTIOUS, recipe, 400)
print(played, refused)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("which", "least"), [("mixing", 80), ("estimates", 30), ("late", 12), ("alone", 30)])
def test_no_kernel_reads_or_writes_beyond_its_arrays(tmp_path: Path, which: str, least: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    settings = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "PMBANDITS_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script), which], capture_output=True, text=True, env=settings, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) >= least
