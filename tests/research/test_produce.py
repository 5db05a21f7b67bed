"""Several experiments beside each other: the same files, and clean ends."""

from __future__ import annotations

import filecmp
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from research.produce import Done, Order, produce_all
from research.registry import chosen

from tests.helpers import allow_interrupts

NAMES = ["fig1", "fig5", "table1", "table3"]


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "research", *NAMES, "--quick", "--out", str(folder), *more]


def same_files(one: Path, two: Path) -> bool:
    names = sorted(p.name for p in one.iterdir())
    return bool(names) and filecmp.cmpfiles(one, two, names, shallow=False)[0] == names


@pytest.mark.slow
def test_workers_leave_what_one_process_leaves(tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        subprocess.run(command(tmp_path / jobs, "--jobs", jobs), check=True, capture_output=True)
    for part in ("data", "outcomes", "figures"):
        assert same_files(tmp_path / "1" / part, tmp_path / "2" / part)
    assert filecmp.cmp(tmp_path / "1" / "claims.json", tmp_path / "2" / "claims.json", shallow=False)


def test_ctrl_c_ends_all_workers_and_the_next_call_goes_on(tmp_path: Path) -> None:
    run = subprocess.Popen(
        command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=allow_interrupts
    )
    while not (tmp_path / "reproduction.json").exists() and run.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command" in said and "Traceback" not in said
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    assert {p.stem for p in (tmp_path / "outcomes").iterdir()} == set(NAMES)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_noticed(tmp_path: Path) -> None:
    import multiprocessing

    def kill_one(name: str, share: float) -> None:
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)  # type: ignore[arg-type]

    going = produce_all(chosen(["fig2", "fig3"]), Order(tmp_path, True, 0, 2), kill_one)
    with pytest.raises(ValueError, match="a worker was killed"):
        list(going)


@pytest.mark.slow
def test_what_goes_wrong_in_a_worker_is_said_here(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text("a file where a folder must be")
    going = produce_all(chosen(["fig1", "table1"]), Order(tmp_path, True, 0, 2), lambda name, share: None)
    with pytest.raises(RuntimeError, match=r"fig1: .*Error"):
        list(going)


def test_one_at_a_time_when_there_is_one_job(tmp_path: Path) -> None:
    ticks: list[Any] = []
    done = list(produce_all(chosen(["table3", "table1"]), Order(tmp_path, True, 0, 1), lambda *t: ticks.append(t)))
    assert [d.name for d in done] == ["table1", "table3"] and all(isinstance(d, Done) for d in done)
