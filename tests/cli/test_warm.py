"""``pmbandits warm``: afterwards nothing is compiled; it goes on where it was stopped, and says what it did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits import warming
from pmbandits.cli.app import app
from pmbandits.engine.registry import REGISTRY
from pmbandits.state import precompile
from pmbandits.state.linking import TYPED_KERNELS
from tests.helpers import allow_interrupts

# Plays every policy on every support, and prints what numba compiled meanwhile.
PLAY = """
import sys
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())

import scipy.stats as st
import pmbandits as pmb
from pmbandits.engine.registry import REGISTRY
from pmbandits.simulation.policy_specs import policy_by_name

rounds, played, estimates = 600, set(), sys.argv[1]
pmb.Policy  # loads all policies
bandits = {
    pmb.Binary(): pmb.Bandit.bernoulli([0.4, 0.9]),
    pmb.Finite([0, 0.5, 1]): pmb.Bandit.from_samples([[0, 0.5, 1, 1], [0, 0, 0.5, 1]]),
    pmb.Interval(0, 1): pmb.Bandit([st.beta(2, 3), st.uniform()]),
    pmb.Real(1.0): pmb.Bandit([st.norm(0, 1), st.norm(0.5, 1)], support=pmb.Real(1.0)),
}
for support, bandit in bandits.items():
    for metric in ("gini", "upper_cvar(0.9)", "mean", "lower_cvar(0.5)"):
        for name, cls in REGISTRY.items():
            options = {"estimates": estimates} if "estimates" in cls._declared else {}
            if estimates != "exact" and not options:
                continue
            recipe = policy_by_name(name, rounds, options)
            try:
                policy = recipe.bind(metric, 2, support)
            except ValueError:  # not for this metric, or not for this support
                continue
            rewards = pmb.simulation.Rewards(bandit)
            for _ in range(rounds // 2):
                arm = policy.ask()
                policy.tell(arm, float(rewards.next(arm)[0]))
            policy.tell(policy.ask(4), [0.0, 1.0, 1.0, 0.0])
            policy.mixture, policy.estimates, policy.explain()
            if policy.confidence is not None:
                policy.certainty()
            policy.merge(recipe.bind(metric, 2, support))
            pmb.simulate(metric, bandit, recipe, rounds, trials=1, n_jobs=1)
            played.add(name)
print(len(played), compiled)
"""


def run(*command: str, cache: Path) -> str:
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env={**os.environ, "PMBANDITS_CACHE_DIR": str(cache)},
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_after_warming_a_fresh_process_compiles_nothing(tmp_path: Path) -> None:
    said = run("-m", "pmbandits", "warm", "--jobs", "2", cache=tmp_path)
    total = len(warming.kernels_to_compile())
    assert said.startswith(f"Compiled {total} kernels in ") and str(tmp_path) in said
    with_sets = sum("estimates" in cls._declared for cls in REGISTRY.values())
    ours = sum(cls.__module__.startswith("pmbandits.") for cls in REGISTRY.values())
    assert run("-c", PLAY, "exact", cache=tmp_path) == f"{ours} []"
    for estimates in ("binned", "sketch"):
        assert run("-c", PLAY, estimates, cache=tmp_path) == f"{with_sets} []"
    again = run("-m", "pmbandits", "warm", cache=tmp_path)
    assert again.startswith(f"Nothing to do: all {total} kernels are compiled.")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_stops_with_a_sentence_and_keeps_what_is_compiled(tmp_path: Path, jobs: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pmbandits", "warm", "--jobs", jobs],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PMBANDITS_CACHE_DIR": str(tmp_path)},
        start_new_session=True,  # Ctrl-C goes to the command and to its workers
        preexec_fn=allow_interrupts,
    )
    until = time.monotonic() + 120.0
    while len(list(tmp_path.rglob("*.nbc"))) < 10 and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=300)  # the kernel at work is finished first
    assert process.returncode == 130
    assert said.count("\n") == 1 and said.startswith("interrupted; ")
    code = "from pmbandits.warming import kernels_to_compile as k; print(sum(item.is_on_disk() for item in k()))"
    assert int(run("-c", code, cache=tmp_path)) >= 5


# ---- what is in the list ----------------------------------------------------------------------------------


def test_every_policy_and_every_kernel_of_the_package_is_in_the_list() -> None:
    listed = {(id(item.own), item.arguments) for item in warming.kernels_to_compile()}
    for kernels in TYPED_KERNELS.values():
        for fixed in kernels:
            if fixed.own.py_func.__module__.startswith("pmbandits."):
                assert (id(fixed.own), fixed.arguments) in listed
    for cls in REGISTRY.values():
        if cls.__module__.startswith("pmbandits."):
            assert {id(cls._choose), id(cls._update)} <= {own for own, _ in listed}


@pytest.mark.slow
def test_every_process_has_the_same_list() -> None:
    """Workers are told numbers of this list, whatever seed their hashes have, and whatever was imported before."""
    code = "from pmbandits.warming import kernels_to_compile as k; print([(str(i), str(i.arguments)) for i in k()])"
    before = ("", "import pmbandits.kit; ", "import pmbandits.theory, pmbandits.mixtures._for_authors; ")
    lists = {
        subprocess.run(
            [sys.executable, "-c", f"{first}{code}"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed, first in enumerate(before, 1)
    }
    assert len(lists) == 1


def test_what_a_kernel_needs_comes_before_it_and_the_default_policy_first() -> None:
    items = warming.kernels_to_compile()
    for at, item in enumerate(items):
        assert all(needed < at for needed in item.needs)
    names = [str(item) for item in items]
    assert names.index("pmbandits.policies.track.choose") < names.index("pmbandits.policies.cirt.cirt.choose")
    ucb1 = names.index("pmbandits.policies.baselines.pull_arm_with_largest_index_of_ucb1_index")
    assert names.index("pmbandits.policies.cirt.cirt.choose") < ucb1


def test_kernels_that_write_the_same_files_wait_for_each_other() -> None:
    items, last = warming.kernels_to_compile(), {}
    for at, item in enumerate(items):
        for own in (item.own, *precompile.callees_without_signature(item.own)):
            before = last.get(id(own))
            assert before is None or before in item.needs
            last[id(own)] = at


# ---- what it does with the list ---------------------------------------------------------------------------


class Kernel:
    """An item that compiles nothing."""

    def __init__(self, made: list[int], number: int, there: bool = False) -> None:
        self.made, self.number, self.there = made, number, there
        self.needs = frozenset[int]()

    def is_on_disk(self) -> bool:
        return self.there

    def compile_or_load(self) -> None:
        self.made.append(self.number)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Pretend that there are three kernels, some of which are on the disk."""

    def given(*there: bool) -> list[int]:
        made: list[int] = []
        items = [Kernel(made, number, known) for number, known in enumerate(there)]
        monkeypatch.setattr(warming, "kernels_to_compile", lambda: items)
        return made

    return given


def test_only_what_is_missing_is_compiled_in_order(three: Any) -> None:
    made = three(False, True, False)
    done = pmb.warm(1, progress=False)
    assert made == [0, 2]
    assert (done.compiled, done.found) == (2, 1)
    assert str(done).startswith("Compiled 2 kernels in 0 s; 1 were there already. They are kept in ")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_second_time_there_is_nothing_to_do(three: Any, jobs: str) -> None:
    made = three(True, True, True)
    done = CliRunner().invoke(app, ["warm", "--jobs", jobs])
    assert done.exit_code == 0 and made == []
    assert done.output.startswith("Nothing to do: all 3 kernels are compiled. They are kept in ")
    assert CliRunner().invoke(app, ["warm", "--quiet"]).output == ""
