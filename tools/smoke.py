"""What every user does, on a package that has just been installed, with or without extras.

    python smoke.py smallest   # only numpy and numba are there: enough to ask and tell
    python smoke.py bare       # only what the package always brings along is there
    python smoke.py service    # the service, the command line and all that they bring are there

``make wheels`` runs this in clean environments. It is one file that needs nothing but the package. Where an extra is
missing, the parts that need it must say so in one sentence.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import pmbandits as pmb

COMMAND = Path(sys.executable).with_name("pmbandits")


def play(policy: pmb.Policy, rounds: int) -> pmb.Policy:
    """Two coins, which pay in 20 % and in 90 % of the rounds."""
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < [0.2, 0.9][arm]))
    return policy


def asking_and_telling(folder: Path) -> None:
    """A policy learns, explains itself, and goes on the same from a file."""
    policy = play(pmb.Vet(pmb.GiniDeviation(), names=["A", "B"], support=pmb.Binary()), 1000)
    assert abs(policy.mixture[0] - 0.57) < 0.1, policy.mixture
    assert str(policy.explain()) and policy.certainty().regret > 0.0
    ticket = policy.ask_ticket()
    policy.tell(ticket=ticket, reward=1.0)
    policy.save(folder / "policy.pmb")
    again = pmb.load(folder / "policy.pmb")
    assert [again.ask() for _ in range(20)] == [policy.ask() for _ in range(20)]
    track = play(pmb.Track("upper_cvar(0.9)", n_arms=2, support=pmb.Interval(0, 1)), 50)
    assert track.t == 50


def known_arms_and_logs() -> None:
    """The best mixture of known arms, and advice on rewards that were logged."""
    best = pmb.oracle("gini", pmb.Bandit.bernoulli([0.2, 0.9]))
    assert best.certified and abs(best.value - 0.25) < 1e-9
    rng = np.random.default_rng(1)
    log = {"A": (rng.random(300) < 0.2).astype(float), "B": (rng.random(300) < 0.9).astype(float)}
    assert "A" in str(pmb.advise(log, "gini"))


def extras_are_asked_for() -> None:
    """Without extras each part that needs one says which, and the command does, too."""
    coins = pmb.Bandit.bernoulli([0.2, 0.9])
    for action, extra in (
        (lambda: pmb.simulate("gini", coins, "track", 10, trials=1), "tables"),
        (lambda: pmb.plot_mixture(pmb.GiniDeviation(), coins), "plots"),
    ):
        try:
            action()
        except ImportError as error:
            assert f"pip install 'pmbandits[{extra}]'" in str(error), error
        else:
            raise AssertionError(f"the extra {extra!r} is not installed, but nobody asked for it")
    done = command("metrics")
    assert done.returncode == 1 and "pip install 'pmbandits[cli]'" in done.stderr, done


def simulations_and_pictures(folder: Path) -> None:
    """A simulation, its table, its file and its picture."""
    coins = pmb.Bandit.bernoulli([0.2, 0.9])
    run = pmb.simulate("gini", coins, ["vet", "track", "uniform"], 500, trials=4, seed=0, n_jobs=2)
    assert "vet" in str(run.summary()).lower()
    run.save(folder / "run.parquet")
    assert np.array_equal(pmb.Run.load(folder / "run.parquet").regret("Vet")[1], run.regret("Vet")[1])
    run.plot(path=folder / "run.png")
    assert (folder / "run.png").stat().st_size > 5000


def commands(folder: Path) -> None:
    """The command line."""
    (folder / "log.csv").write_text("arm,reward\n" + "".join(f"{'AB'[k % 2]},{k % 3 % 2}\n" for k in range(200)))
    for arguments, says in (
        (["--version"], pmb.__version__),
        (["metrics"], "gini"),
        (["oracle", "--metric", "gini", "--arms", "bernoulli:0.4,0.9", "--json"], "weights"),
        (["advise", str(folder / "log.csv"), "--metric", "gini"], "A"),
        (["theory", "table", "2"], "GiniDeviation"),
        (["serve", "--help"], "--"),
    ):
        done = command(*arguments)
        assert done.returncode == 0 and says in done.stdout, (arguments, done)
    done = command("oracle", "--metric", "ginny", "--arms", "bernoulli:0.4,0.9")
    assert done.returncode == 2 and "ginny" in done.stderr, done


def service(folder: Path) -> None:
    """A service, a visitor who asks and tells, and a clean end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = [COMMAND, "serve", "--example", "--port", str(port), "--store", f"sqlite:///{folder / 'store.db'}"]
    with (folder / "serve.txt").open("w") as said, subprocess.Popen(serving, stdout=said, stderr=said) as process:
        try:
            key = None
            for _ in range(600):
                if key := re.search(r"pmb_\w+", (folder / "serve.txt").read_text()):
                    break
                time.sleep(0.1)
            assert key, (folder / "serve.txt").read_text()
            done = command("visit", f"http://127.0.0.1:{port}", "--key", key[0], "--rounds", "30")
            assert done.returncode == 0 and "After 30 asks and tells" in done.stdout, done
        finally:
            process.terminate()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What the installed command prints."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def main(kind: str) -> None:
    """All that holds for an installation of this kind."""
    warnings.filterwarnings("error", module=r"pmbandits(\.|$)")  # also what newer versions of Python announce
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asking_and_telling(folder)
        if kind != "smallest":
            known_arms_and_logs()
        if kind == "bare":
            extras_are_asked_for()
        if kind == "service":
            simulations_and_pictures(folder)
            commands(folder)
            service(folder)
    print(f"{kind}: all of it works")


if __name__ == "__main__":
    main(sys.argv[1])
