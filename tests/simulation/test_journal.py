"""The journal: what is finished is on the disk, and a run goes on where it was stopped, however it was stopped."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import JournalWarning, prepare, workers
from pmbandits.simulation.journal import FinishedTrials, Journal, decode_trials, encode_trials, join_trials
from tests.helpers import allow_interrupts

GINI = pmb.GiniDeviation()
BANDIT = pmb.Bandit.bernoulli([0.4, 0.9])
IDENTITY = "0" * 64
RECORD_HEADER = struct.Struct("<Q32s")
PAYLOADS = [b"one", b"two two", b"the third record\x00\xff"]


def first_line(identity: str = IDENTITY) -> int:
    return len(b"pmbandits journal 2\n") + len(identity) + 1


def written(folder: Path, payloads: list[bytes]) -> Path:
    with Journal(folder, IDENTITY) as journal:
        for payload in payloads:
            journal.append(payload)
        return journal.path


def read(folder: Path) -> list[bytes]:
    with Journal(folder, IDENTITY) as journal:
        return list(journal.records())


def ends(content: bytes) -> list[int]:
    """Where each record of a journal ends; the first is the end of its first line."""
    at = first_line()
    places = [at]
    while at < len(content):
        at += RECORD_HEADER.size + RECORD_HEADER.unpack_from(content, at)[0]
        places.append(at)
    return places


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """The trials that are really played, as (policy, trial)."""
    played: list[tuple[int, int]] = []
    real = workers.play_trials_of_task

    def perform(task: workers.Task) -> FinishedTrials:
        finished = real(task)
        played.extend((finished.entry, trial) for trial in finished.trials.tolist())
        return finished

    with monkeypatch.context() as patch:
        patch.setattr(workers, "play_trials_of_task", perform)
        yield played


def small(out: Path | None, trials: Any = 6, **changes: Any) -> pmb.Run:
    given: dict[str, Any] = {
        "bandit": BANDIT,
        "metric": GINI,
        "policies": [pmb.UCB1(), pmb.Uniform()],
        "horizon": 60,
        "seed": 1,
        "checkpoints": 4,
        "n_jobs": 1,
    }
    return pmb.simulate(**{**given, **changes}, trials=trials, out=out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    small(folder)
    return folder


# ---- the file --------------------------------------------------------------------------------------------
def test_a_record_is_its_length_its_sha256_and_its_bytes(tmp_path: Path) -> None:
    content = written(tmp_path, PAYLOADS).read_bytes()
    expected = b"pmbandits journal 2\n" + IDENTITY.encode() + b"\n"
    for payload in PAYLOADS:
        expected += struct.pack("<Q", len(payload)) + hashlib.sha256(payload).digest() + payload
    assert content == expected
    assert read(tmp_path) == PAYLOADS


def test_an_empty_journal_has_no_records(tmp_path: Path) -> None:
    assert written(tmp_path / "a" / "b", []).stat().st_size == first_line()
    assert read(tmp_path / "a" / "b") == []


def test_a_record_is_on_the_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        synced.append(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(tmp_path, IDENTITY) as journal:
        size = first_line()
        assert size in synced  # the file and the folder that names it
        assert len(synced) == 2
        for payload in PAYLOADS:
            journal.append(payload)
            size += RECORD_HEADER.size + len(payload)
            assert synced[-1] == size
            assert journal.path.stat().st_size == size


def test_records_are_appended_after_those_that_are_there(tmp_path: Path) -> None:
    written(tmp_path, PAYLOADS[:1])
    with Journal(tmp_path, IDENTITY) as journal:
        journal.append(PAYLOADS[1])  # without reading first
        assert list(journal.records()) == PAYLOADS[:2]
        journal.append(PAYLOADS[2])
    assert read(tmp_path) == PAYLOADS


def test_cut_off_at_every_byte_the_whole_records_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path, PAYLOADS)
    content = path.read_bytes()
    places = ends(content)
    for size in range(places[0], len(content)):
        path.write_bytes(content[:size])
        kept = sum(end <= size for end in places) - 1
        if size in places:
            assert read(tmp_path) == PAYLOADS[:kept], size
        else:
            with pytest.warns(JournalWarning, match=f"after {places[kept]:,} of {size:,} bytes"):
                assert read(tmp_path) == PAYLOADS[:kept], size
        assert path.read_bytes() == content[: places[kept]], size
        written(tmp_path, PAYLOADS[kept:])
        assert path.read_bytes() == content, size


def test_cut_off_in_the_first_line_it_starts_anew(tmp_path: Path) -> None:
    path = written(tmp_path, PAYLOADS)
    content = path.read_bytes()
    for size in range(first_line()):
        path.write_bytes(content[:size])
        assert read(tmp_path) == []
        assert path.read_bytes() == content[: first_line()]


@pytest.mark.parametrize("record", [1, 2])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_cuts_from_its_record_on(tmp_path: Path, record: int, mask: int) -> None:
    path = written(tmp_path, PAYLOADS)
    content = path.read_bytes()
    places = ends(content)
    for place in range(places[record], places[record + 1]):
        damaged = bytearray(content)
        damaged[place] ^= mask
        path.write_bytes(bytes(damaged))
        with pytest.warns(JournalWarning, match="made again"):
            assert read(tmp_path) == PAYLOADS[:record], place
        assert path.read_bytes() == content[: places[record]], place
        assert read(tmp_path) == PAYLOADS[:record]  # and silent from now on


@pytest.mark.parametrize(
    "garbage", [b"\0", b"\0" * 4096, b"x" * 39, b"\xff" * 500, bytes(range(7, 71))], ids=["0", "0s", "x", "ff", "mixed"]
)
def test_garbage_at_the_end_is_cut_off(tmp_path: Path, garbage: bytes) -> None:
    path = written(tmp_path, PAYLOADS)
    content = path.read_bytes()
    path.write_bytes(content + garbage)
    with pytest.warns(JournalWarning):
        assert read(tmp_path) == PAYLOADS
    assert path.read_bytes() == content


def test_a_damaged_first_line_is_another_specification(tmp_path: Path) -> None:
    path = written(tmp_path, PAYLOADS)
    damaged = bytearray(path.read_bytes())
    damaged[30] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(ValueError, match="another specification"):
        read(tmp_path)
    assert path.read_bytes() == bytes(damaged)


# ---- a run goes on ---------------------------------------------------------------------------------------
def test_the_folder_holds_journal_specification_and_run(whole: Path) -> None:
    assert set(files(whole)) == {".lock", "journal.bin", "spec.json", "run.parquet"}
    assert pmb.Run.load(whole / "run.parquet").equals(small(None))


def damage(content: bytes, how: str) -> bytes:
    places = ends(content)
    last, size = places[-2], len(content)
    if how.startswith("cut"):
        part = float(how.split()[1])
        return content[: last + int(part * (size - last))]
    if how.startswith("flip"):
        changed = bytearray(content)
        changed[last + int(how.split()[1])] ^= 0x10
        return bytes(changed)
    if how == "garbage":
        return content + b"garbage" * 20
    if how == "zeros":
        return content[:last] + b"\0" * (size - last)
    if how == "early":
        changed = bytearray(content)
        changed[places[1] - 5] ^= 0x10  # in the first record: all are lost
        return bytes(changed)
    return content[: int(how)]  # in the first line


@pytest.mark.parametrize(
    "how",
    ["cut 0.01", "cut 0.1", "cut 0.5", "cut 0.999", "flip 0", "flip 7", "flip 20", "flip 40", "flip 200", "garbage",
     "zeros", "early", "0", "10", "84"],
)  # fmt: skip
def test_after_damage_the_same_call_gives_the_same_bytes(
    tmp_path: Path, whole: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    journal = folder / "journal.bin"
    content = journal.read_bytes()
    journal.write_bytes(damage(content, how))
    (folder / "run.parquet").unlink()
    with warnings.catch_warnings(record=True) as seen, counted(monkeypatch) as played:
        warnings.simplefilter("always")
        run = small(folder)
    silent = how.isdigit()  # nothing finished was in it
    assert [w.category for w in seen] == ([] if silent else [JournalWarning])
    assert all(w.filename == __file__ for w in seen)
    everything = silent or how == "early"
    assert len(played) == (12 if everything else 0 if how == "garbage" else 3)
    assert len(set(played)) == len(played)
    assert (folder / "run.parquet").read_bytes() == (whole / "run.parquet").read_bytes()
    assert run.equals(pmb.Run.load(whole / "run.parquet"))
    with counted(monkeypatch) as played:
        assert small(folder).equals(run)
    assert played == []


def test_a_finished_run_is_not_played_again(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    before = files(folder)
    with counted(monkeypatch) as played:
        run = small(folder)
    assert played == []
    assert files(folder) == before
    assert run.equals(pmb.Run.load(folder / "run.parquet"))
    assert np.isfinite(run.seconds("UCB1")).all()  # the journal keeps them


def test_a_lost_result_is_put_together_from_the_journal(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(whole / "journal.bin", folder)
    with counted(monkeypatch) as played:
        small(folder)
    assert played == []
    assert (folder / "run.parquet").read_bytes() == (whole / "run.parquet").read_bytes()


def test_more_trials_later_play_only_those_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ten = small(tmp_path / "run", trials=10)
    with counted(monkeypatch) as played:
        twenty = small(tmp_path / "run", trials=20)
    assert sorted(played) == [(e, trial) for e in range(2) for trial in range(10, 20)]
    assert twenty.equals(small(tmp_path / "fresh", trials=20))
    assert (tmp_path / "run" / "run.parquet").read_bytes() == (tmp_path / "fresh" / "run.parquet").read_bytes()
    with counted(monkeypatch) as played:
        fewer = small(tmp_path / "run", trials=10)
        some = small(tmp_path / "run", trials=[3, 17, 5])
    assert played == []
    assert fewer.equals(ten)
    assert some.trials == (3, 5, 17)
    assert (some.regret("UCB1")[1] == twenty.regret("UCB1")[1][[3, 5, 17]]).all()
    with counted(monkeypatch) as played:  # nothing was forgotten in between
        assert small(tmp_path / "run", trials=20).equals(twenty)
    assert played == []


def test_trials_can_be_shared_out_between_calls_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ([5, 4], [0], [2, 3]):
        small(tmp_path / "run", trials=part)
    with counted(monkeypatch) as played:
        run = small(tmp_path / "run")
    assert sorted(played) == [(0, 1), (1, 1)]
    assert run.equals(small(None))


def test_another_number_of_workers_may_go_on(tmp_path: Path, whole: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    journal = folder / "journal.bin"
    content = journal.read_bytes()
    journal.write_bytes(content[: ends(content)[1]])
    small(folder, n_jobs=2)
    assert (folder / "run.parquet").read_bytes() == (whole / "run.parquet").read_bytes()


def test_an_error_in_the_middle_keeps_what_was_finished(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = workers.play_trials_of_task, []

    def perform(task: workers.Task) -> FinishedTrials:
        calls.append(task)
        if len(calls) == 3:
            raise RuntimeError("the third breaks")
        return real(task)

    with monkeypatch.context() as patch:
        patch.setattr(workers, "play_trials_of_task", perform)
        with pytest.raises(RuntimeError, match="third"):
            small(tmp_path / "run")
    assert not (tmp_path / "run" / "run.parquet").exists()
    with counted(monkeypatch) as played:
        small(tmp_path / "run")
    assert len(played) == 6
    assert (tmp_path / "run" / "run.parquet").read_bytes() == (whole / "run.parquet").read_bytes()


@pytest.mark.parametrize("jobs", [1, 2])
def test_long_trials_are_each_on_disk_before_the_next_of_that_worker_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    seen: list[int] = []

    class Waits:
        def __init__(self, n_arms: int) -> None:
            journal = tmp_path / "run" / "journal.bin"
            seen.append(len(ends(journal.read_bytes())) - 1 if journal.exists() else 0)
            self.mixture = [1.0 / n_arms] * n_arms

        def ask(self) -> int:
            return 0

        def tell(self, arm: int, reward: float) -> None:
            pass

    monkeypatch.setattr(workers, "TIME_SLICE", 0.0)  # every trial takes longer
    small(tmp_path / "run", policies={"waits": Waits}, n_jobs=jobs)
    begun = seen[1:]  # the first was made to look for mistakes
    assert len(begun) == 6 and all(done >= k + 1 - jobs for k, done in enumerate(begun))


# ---- what is refused -------------------------------------------------------------------------------------
OTHERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 2},
    "horizon": {"horizon": 61},
    "horizons": {"horizon": [30, 60]},
    "metric": {"metric": pmb.Mean()},
    "a mean": {"bandit": pmb.Bandit.bernoulli([0.4, np.nextafter(0.9, 1.0)])},
    "a name of an arm": {"bandit": pmb.Bandit.bernoulli([0.4, 0.9], names=["a", "b"])},
    "checkpoints": {"checkpoints": 5},
    "given checkpoints": {"checkpoints": [10, 60]},
    "fewer policies": {"policies": [pmb.UCB1()]},
    "order of policies": {"policies": [pmb.Uniform(), pmb.UCB1()]},
    "a name": {"policies": {"UCB1": pmb.UCB1(), "equal": pmb.Uniform()}},
    "a policy's seed": {"policies": [pmb.UCB1(), pmb.Uniform(seed=1)]},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_another_specification_is_refused_and_nothing_is_overwritten(
    tmp_path: Path, whole: Path, change: dict[str, Any]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    before = files(folder)
    with pytest.raises(ValueError, match="another specification") as caught:
        small(folder, **change)
    assert str(folder) in str(caught.value)
    assert str(caught.value).endswith("Nothing was overwritten.")
    assert files(folder) == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_a_refused_folder_is_left_closed(tmp_path: Path) -> None:
    path = written(tmp_path, [b"finished"])
    with pytest.raises(ValueError, match="another specification") as caught:
        Journal(tmp_path, "1" * 64)
    assert caught.value.__traceback__ is not None  # as long as somebody looks at the error
    assert str(path) not in [os.path.realpath(handle) for handle in Path("/proc/self/fd").iterdir()]


def identity(**changes: Any) -> str:
    given: dict[str, Any] = {
        "bandit": BANDIT,
        "metric": pmb.UpperCVaR(0.9),
        "policies": [pmb.PMUCB(horizon=60, epsilon=0.25)],
        "horizon": 60,
        "trials": 6,
        "seed": 1,
        "checkpoints": 4,
    }
    return prepare.prepare_experiment(**{**given, **changes}).identity_hash


def hump(u: Any) -> Any:
    return u * (1.0 - u)


def test_what_is_played_has_one_identity_and_everything_else_another() -> None:
    same = [
        {},
        {"trials": 7},
        {"trials": [100, 3]},
        {"bandit": pmb.Bandit.bernoulli([0.4, 0.9])},
        {"horizon": [60, 60]},
        {"policies": {"PMUCB": pmb.PMUCB(horizon=60, epsilon=0.25)}},
    ]
    assert {identity(**change) for change in same} == {identity()}
    ucb = {"horizon": 60, "epsilon": 0.25}
    others: list[dict[str, Any]] = [
        {"seed": 2},
        {"horizon": 59},
        {"checkpoints": None},
        {"checkpoints": 5},
        {"checkpoints": [4]},
        {"metric": pmb.UpperCVaR(0.8)},
        {"metric": 0.5 * pmb.UpperCVaR(0.9)},
        {"metric": pmb.Distortion.from_function(hump, name="hump", holder=(1.0, 1.0))},
        {"metric": pmb.Distortion.from_function(lambda u: 2 * hump(u), name="hump", holder=(1.0, 2.0))},
        {"bandit": pmb.Bandit.bernoulli([0.4, 0.8])},
        {"bandit": pmb.Bandit.bernoulli([0.9, 0.4])},
        {"bandit": pmb.Bandit.bernoulli([0.4, 0.9, 0.9])},
        {"bandit": pmb.Bandit([st.uniform(0, 0.5), st.uniform(0, 1)])},
        {"bandit": pmb.Bandit([st.uniform(0, 0.5), st.uniform(0, 0.9)])},
        {"policies": [pmb.PMUCB(**{**ucb, "epsilon": 0.2})]},
        {"policies": [pmb.PMUCB(**{**ucb, "horizon": 61})]},
        {"policies": [pmb.PMUCB(**ucb, confidence="dkw")]},
        {"policies": [pmb.PMUCB(**ucb, seed=1)]},
        {"policies": [pmb.PMUCB(pmb.Mean(), **ucb)]},
        {"policies": [pmb.PMUCB(**ucb, support=pmb.Interval(0, 1))]},
        {"policies": {"mine": pmb.PMUCB(**ucb)}},
        {"policies": [pmb.CEUCB(**ucb)]},
    ]
    found = [identity(**change) for change in others]
    assert len({*found, identity()}) == len(others) + 1


def test_the_library_version_is_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    monkeypatch.setattr(prepare, "__version__", "99.0")
    assert identity() != before


def test_a_custom_metric_goes_on_in_another_process_if_its_values_are_the_same(tmp_path: Path) -> None:
    run = small(tmp_path, metric=pmb.Distortion.from_function(hump, name="hump", holder=(1.0, 1.0)))
    again = pmb.Distortion.from_function(lambda u: u * (1.0 - u), name="hump", holder=(1.0, 1.0))
    assert small(tmp_path, metric=again).equals(run)
    other = pmb.Distortion.from_function(lambda u: u * (1.0 - u) ** 2, name="hump", holder=(1.0, 1.0))
    with pytest.raises(ValueError, match="another specification"):
        small(tmp_path, metric=other)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.write_text("mine")
    with pytest.raises(ValueError, match="is a file; give a folder"):
        small(target)
    assert target.read_text() == "mine"


def test_a_string_will_do_and_folders_are_made(tmp_path: Path, whole: Path) -> None:
    small(str(tmp_path / "a" / "b"))  # type: ignore[arg-type]
    assert (tmp_path / "a" / "b" / "run.parquet").read_bytes() == (whole / "run.parquet").read_bytes()


def test_one_process_at_a_time(tmp_path: Path, whole: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    before = files(folder)
    hold = (
        "import sys; from pathlib import Path; from pmbandits.simulation.journal import _lock_folder\n"
        "held = _lock_folder(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match="another process") as caught:
            small(folder)
        assert str(folder) in str(caught.value)
        assert files(folder) == before
        other.kill()  # the system gives the lock back
    assert small(folder).equals(small(None))


# ---- a real process that is killed -----------------------------------------------------------------------
LONG = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.simulation.test_journal import long
long(sys.argv[1])
"""


def long(out: str | Path | None) -> pmb.Run:
    policies = {
        "uniform": pmb.Uniform(),
        "etc": pmb.PMETC(horizon=300_000, epsilon=0.1),
        "ucb": pmb.PMUCB(horizon=300_000, epsilon=0.1),
        "fine": pmb.PMUCB(horizon=300_000, epsilon=0.02),
        "cirt": pmb.CIRT(epsilon=0.1),
    }
    return pmb.simulate(GINI, BANDIT, policies, 300_000, trials=6, seed=3, n_jobs=1, out=out)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    long(folder)
    return folder


def finished_trials(folder: Path) -> int:
    """How many trials a journal has in whole records now, while somebody may be writing."""
    path = folder / "journal.bin"
    content = path.read_bytes() if path.exists() else b""
    if len(content) < first_line():
        return 0
    found, at = 0, first_line()
    while at + RECORD_HEADER.size <= len(content):
        start = at + RECORD_HEADER.size
        at = start + RECORD_HEADER.unpack_from(content, at)[0]
        found += decode_trials(content[start:at]).size if at <= len(content) else 0
    return found


@contextmanager
def running(folder: Path, wanted: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of the long run, with that many trials behind it."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, str(folder)], stderr=subprocess.PIPE, preexec_fn=allow_interrupts
    )
    try:
        until = time.monotonic() + 240.0
        while finished_trials(folder) < wanted:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.002)
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def goes_on(folder: Path, uninterrupted: Path, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done = finished_trials(folder)
    assert least <= done < 30
    assert not (folder / "run.parquet").exists()
    with warnings.catch_warnings(), counted(monkeypatch) as played:
        warnings.simplefilter("ignore", JournalWarning)  # a record may have been cut off in the middle
        run = long(folder)
    assert len(played) == len(set(played)) == 30 - done
    assert (folder / "run.parquet").read_bytes() == (uninterrupted / "run.parquet").read_bytes()
    assert run.equals(pmb.Run.load(uninterrupted / "run.parquet"))


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, 6) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    goes_on(tmp_path, uninterrupted, 6, monkeypatch)


@pytest.mark.slow
def test_stopped_by_ctrl_c_it_goes_on_to_the_same_bytes(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, 9) as process:
        with pytest.raises(ValueError, match="another process is running"):
            long(tmp_path)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
        assert b"of 30 trials are in" in said and str(tmp_path).encode() in said
        assert b"workers.py" not in said and b"threading.py" not in said
        assert process.returncode != 0
    goes_on(tmp_path, uninterrupted, 9, monkeypatch)


# ---- records that cannot be ------------------------------------------------------------------------------
SMALL: dict[str, Any] = {
    "bandit": pmb.Bandit.bernoulli([0.4, 0.9]), "metric": "gini", "policies": "uniform", "horizon": 40, "trials": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pulls", lambda x: x + 1),
        ("pulls", lambda x: -x),
        ("pulls", lambda x: x[:, :-1]),
        ("pulls", lambda x: x[:, ::-1]),
        ("mixture", lambda x: x * np.nan),
        ("mixture", lambda x: x + 5.0),
        ("pulls", lambda x: np.where(np.arange(len(x))[:, None] == len(x) - 1, 7, x)),
        ("ends", lambda x: np.full((len(x), 1), 10**9)),
        ("ends", lambda x: np.ones((len(x), 65), dtype=np.int64)),
        ("seconds", lambda x: x * np.nan),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_record_that_no_simulation_can_have_left_is_refused(tmp_path: Path, name: str, change: Any) -> None:
    pmb.simulate(**SMALL, out=tmp_path, n_jobs=1)
    identity = prepare.prepare_experiment(**SMALL, seed=0, checkpoints=None).identity_hash
    with Journal(tmp_path, identity) as journal:
        payloads = list(journal.records())
    rows = decode_trials(payloads[0])
    rows = replace(rows, **{name: change(getattr(rows, name))})
    (tmp_path / "journal.bin").unlink()
    (tmp_path / "run.parquet").unlink()
    with Journal(tmp_path, identity) as journal:
        journal.append(encode_trials(rows))
    before = (tmp_path / "journal.bin").read_bytes()
    with pytest.raises(ValueError, match=r"nothing was overwritten"):
        pmb.simulate(**SMALL, out=tmp_path, n_jobs=1)
    assert (tmp_path / "journal.bin").read_bytes() == before


@pytest.mark.parametrize("size", [2**40, -1, 3])
def test_a_record_cannot_have_more_numbers_than_bytes(size: int) -> None:
    numbers = np.array([1]), np.array([0.5]), np.array([[1, 2]]), np.array([[0.5, 0.5]]), np.zeros((1, 0))
    payload = bytearray(encode_trials(FinishedTrials(0, *numbers)))
    assert decode_trials(bytes(payload)).pulls.tolist() == [[1, 2]]
    payload[16:24] = size.to_bytes(8, "little", signed=True)
    with pytest.raises(ValueError, match="cannot be read"):
        decode_trials(bytes(payload))


def test_trials_come_back_from_a_record_as_they_were() -> None:
    rng = np.random.default_rng(3)
    parts = [
        FinishedTrials(
            2, rng.integers(99, size=n), rng.random(n), rng.integers(9, size=(n, 6)), rng.random((n, 4)),
            rng.integers(5, size=(n, wide)),
        )
        for n, wide in ((3, 0), (1, 2), (4, 5))
    ]  # fmt: skip
    joined = join_trials(parts)
    again = decode_trials(encode_trials(joined))
    assert (again.entry, again.size) == (2, 8)
    for name in ("trials", "seconds", "pulls", "mixture"):
        assert np.array_equal(getattr(again, name), np.concatenate([getattr(part, name) for part in parts]))
    assert again.ends.shape == (8, 5) and not again.ends[:3].any() and not again.ends[3, 2:].any()
    assert np.array_equal(again.ends[4:], parts[2].ends)
