"""Threads, processes or a cluster, one worker or several, one that dies: the same results to the last bit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.engine.plan import Setup
from pmbandits.mixtures._tracking import pull
from pmbandits.simulation import workers
from pmbandits.simulation.progress import ProgressBar
from pmbandits.simulation.trial import Player
from pmbandits.state.numba_types import unpack

GINI = pmb.GiniDeviation()
BANDIT = pmb.Bandit.bernoulli([0.4, 0.9])
BACKENDS = [("threads", 2), ("threads", 5), ("processes", 2)]


def play(backend: str, n_jobs: int | None, **changes: Any) -> pmb.Run:
    given: dict[str, Any] = {
        "bandit": BANDIT,
        "metric": GINI,
        "policies": [pmb.CIRT(epsilon=0.25), pmb.PMUCB(horizon=2000, epsilon=0.25), pmb.Uniform()],
        "horizon": [500, 2000],
        "trials": 9,
        "seed": 4,
    }
    return pmb.simulate(**{**given, **changes}, backend=backend, n_jobs=n_jobs)


@pytest.fixture(scope="module")
def alone() -> pmb.Run:
    return play("threads", 1)


# ---- threads and processes -------------------------------------------------------------------------------
@pytest.mark.parametrize(("backend", "n_jobs"), [*BACKENDS, ("processes", 1), ("threads", None), ("threads", -1)])
def test_results_do_not_depend_on_workers(alone: pmb.Run, backend: str, n_jobs: int | None) -> None:
    run = play(backend, n_jobs)
    assert run.equals(alone)
    assert (run.seconds("CIRT") > 0.0).all()


@pytest.mark.parametrize(("backend", "n_jobs"), [("threads", 2), ("processes", 2)])
def test_laws_without_a_compiled_sampler_do_not_depend_on_workers(backend: str, n_jobs: int) -> None:
    bandit = pmb.Bandit([st.truncnorm(-1, 1, loc=0.5, scale=0.5), st.beta(2, 3)])
    given = {"bandit": bandit, "policies": [pmb.Uniform(), pmb.UCB1()], "horizon": 3000, "trials": 4}
    assert play(backend, n_jobs, **given).equals(play("threads", 1, **given))


def test_results_do_not_depend_on_what_was_played_before(alone: pmb.Run) -> None:
    play("threads", 2, seed=5)
    play("threads", 1, trials=[8, 2])
    assert play("threads", 2).equals(alone)
    assert workers._IDLE_PLAYERS == {}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_trial_comes_out(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Player.play

    def fail(player: Player, number: int) -> Any:
        if number == 7:
            raise ValueError("broken arm")
        return real(player, number)

    monkeypatch.setattr(Player, "play", fail)
    with pytest.raises(ValueError, match="broken arm"):
        play("threads", n_jobs)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backend"):
        play("thread", 1)
    with pytest.raises((TypeError, ValueError), match="n_jobs"):
        play("threads", 1.5)  # type: ignore[arg-type]
    for n_jobs in (0, -2):
        with pytest.raises(ValueError, match="n_jobs"):
            play("threads", n_jobs)


# ---- what users bring ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("backend", "n_jobs"), [("threads", 2), ("processes", 2)])
def test_a_metric_of_ones_own_is_played_anywhere(backend: str, n_jobs: int) -> None:
    scale = 0.5
    own = pmb.Distortion.from_function(lambda u: scale * u * (1.0 - u), name="hump", holder=(1.0, 0.5))
    given: dict[str, Any] = {"metric": own, "policies": [pmb.PMUCB(horizon=500, epsilon=0.25), pmb.CIRT(epsilon=0.25)]}
    given |= {"horizon": 500, "trials": 4}
    run = play(backend, n_jobs, **given)
    assert run.equals(play("threads", 1, **given))
    assert run.regret("CIRT")[1].min() >= 0.0


@numba.njit
def choose_in_turn(memory: Any) -> Any:
    s = unpack(memory)
    return pull(s, s.t % s.n_arms)


@numba.njit
def keep(memory: Any) -> None:
    s = unpack(memory)
    s.dirty = 0


class InTurn(pmb.Policy, name="in_turn_of_test_backends", choose=choose_in_turn, update=keep):
    """One arm after the other, as a user may write it."""

    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup(grid=np.zeros((1, n_arms)))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_policy_of_ones_own_is_played(n_jobs: int) -> None:
    bandit = pmb.Bandit.bernoulli([0.1, 0.5, 0.9])
    run = play(
        "threads", n_jobs, bandit=bandit, policies=[InTurn(), pmb.Uniform()], horizon=100, checkpoints=[1, 2, 50]
    )
    assert run.policies == ("InTurn", "Uniform")
    t, pulls = run.column("pulls", "InTurn")
    assert t.tolist() == [1, 2, 50, 100]
    assert (pulls == [[1, 0, 0], [1, 1, 0], [17, 17, 16], [34, 33, 33]]).all()


# ---- progress --------------------------------------------------------------------------------------------
def test_progress_is_silent_where_nobody_looks(alone: pmb.Run, capfd: pytest.CaptureFixture[str]) -> None:
    for progress in (None, False):
        assert play("threads", 1, progress=progress).equals(alone)
        assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("backend", "n_jobs"), [("threads", 1), ("threads", 2), ("processes", 2)])
def test_progress_is_shown_on_demand_and_changes_nothing(
    alone: pmb.Run, capsys: pytest.CaptureFixture[str], backend: str, n_jobs: int
) -> None:
    assert play(backend, n_jobs, progress=True).equals(alone)
    out, err = capsys.readouterr()
    assert out == ""
    assert "simulate" in err
    assert "100 %" in err
    assert "rounds/s" in err


def test_progress_shows_nothing_when_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play("threads", 1, out=tmp_path)
    play("threads", 1, out=tmp_path, progress=True)
    assert capsys.readouterr() == ("", "")


def test_progress_of_a_run_that_goes_on_starts_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    real = ProgressBar.__enter__

    def enter(bar: ProgressBar) -> ProgressBar:
        seen.append((bar.done, bar.total))
        return real(bar)

    monkeypatch.setattr(ProgressBar, "__enter__", enter)
    play("threads", 1, out=tmp_path, trials=3)
    play("threads", 1, out=tmp_path, trials=9, progress=True)
    each = 2000 + 500 + 2000 + 2000
    assert seen == [(0, 3 * each), (3 * each, 9 * each)]
    assert "100 %" in capsys.readouterr().err


def test_a_terminal_is_noticed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with ProgressBar(10) as bar:
        bar.advance(5)
        bar.advance(5)
    assert "simulate" in capsys.readouterr().err
    assert bar.done == 10


# ---- a cluster -------------------------------------------------------------------------------------------
@pytest.fixture
def client() -> Iterator[Any]:
    """Two workers of one thread each, in processes of their own; closed whatever happens."""
    distributed = pytest.importorskip("distributed")
    import dask

    quiet = {"distributed.comm.timeouts.connect": "20s", "distributed.worker.memory.terminate": False}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as opened,
    ):
        yield opened


def test_dask_without_a_cluster_is_refused_with_a_sentence() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match=r"dask\.distributed\.Client"):
        play("dask", None)


def test_dask_that_is_not_installed_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'pmbandits\[distributed\]'"):
        play("dask", None)


@pytest.mark.slow
def test_a_cluster_gives_the_same_also_when_a_worker_dies(alone: pmb.Run, client: Any, tmp_path: Path) -> None:
    assert play("dask", None).equals(alone)

    own = pmb.Distortion.from_function(lambda u: u * (1.0 - u), name="hump", holder=(1.0, 1.0))
    given: dict[str, Any] = {"metric": own, "policies": pmb.CIRT(epsilon=0.25), "trials": 3, "out": tmp_path / "own"}
    assert play("dask", None, **given).equals(play("threads", 1, **{**given, "out": None}))

    long: dict[str, Any] = {"horizon": 500_000, "trials": 6, "out": tmp_path / "long"}
    long["policies"] = [pmb.PMUCB(horizon=500_000, epsilon=0.1), pmb.Uniform()]
    before = client.run(os.getpid)
    killed: list[int] = []

    def kill() -> None:
        """One worker, as soon as it has work in its hands."""
        until = time.monotonic() + 60.0
        while time.monotonic() < until and not killed:
            for address, tasks in client.processing().items():
                if tasks and address in before:
                    killed.append(before[address])
                    os.kill(before[address], signal.SIGKILL)
                    break
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    run = play("dask", None, **long)
    killer.join()
    assert len(killed) == 1
    assert run.equals(play("threads", 2, **{**long, "out": None}))
    assert pmb.Run.load(tmp_path / "long" / "run.parquet").equals(run)
