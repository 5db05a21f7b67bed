"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from pmbandits._files import write_atomically


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.bin"
    write_atomically(path, lambda file: file.write(b"one"))
    write_atomically(path, lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_an_error_while_writing_leaves_the_old_file_and_no_temporary_one(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write(file: BinaryIO) -> None:
        file.write(b"half of the new")
        raise error

    with pytest.raises(error):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_error_of_the_disk_leaves_the_old_file_and_no_temporary_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(OSError, match="no space left"):
            write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_the_content_is_on_the_disk_before_the_name_is_and_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"{os.fstat(handle).st_size} bytes")
        fsync(handle)

    def note_replace(one: Path, two: Path) -> None:
        done.append("rename")
        replace(one, two)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(tmp_path / "a.bin", lambda file: file.write(b"12345"))
    assert done == ["5 bytes", "rename", "folder"]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            write_atomically(tmp_path / f"{mask}", lambda file: file.write(b""))
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mask}").stat().st_mode) == 0o666 & ~mask


# ---- what killed processes leave behind ------------------------------------------------------------------
KILLED = """
import os, signal, sys
from pathlib import Path
from pmbandits._files import write_atomically

def write(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

write_atomically(Path(sys.argv[1]), write)
"""


@pytest.mark.skipif(os.name != "posix", reason="processes are killed in another way there")
def test_what_a_killed_save_left_behind_goes_with_the_next_one(tmp_path: Path) -> None:
    path, other = tmp_path / "a.bin", tmp_path / "other.bin"
    write_atomically(path, lambda file: file.write(b"old"))
    for target in (path, path, other):
        done = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
        assert done.returncode == -9
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 3  # the second one swept already
    mine = tmp_path / ".a.bin.1234.part"  # not of ours: the name is another one
    mine.write_bytes(b"mine")
    write_atomically(path, lambda file: file.write(b"new"))
    left = [p.name for p in tmp_path.iterdir()]
    assert path.read_bytes() == b"new"
    assert sorted(name for name in left if name.startswith(".a.")) == [mine.name]
    assert len(left) == 3  # and the one that another file left behind


def test_a_save_leaves_the_temporary_file_of_one_that_goes_on(tmp_path: Path) -> None:
    path, begun, finish = tmp_path / "a.bin", threading.Event(), threading.Event()

    def slowly(file: BinaryIO) -> None:
        file.write(b"slow")
        begun.set()
        assert finish.wait(20.0)

    slow = threading.Thread(target=write_atomically, args=(path, slowly))
    slow.start()
    assert begun.wait(20.0)
    write_atomically(path, lambda file: file.write(b"quick"))
    assert path.read_bytes() == b"quick"
    finish.set()
    slow.join(20.0)
    assert path.read_bytes() == b"slow"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_many_saves_of_one_file_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path, errors = tmp_path / "a.bin", []

    def work(k: int) -> None:
        try:
            for _ in range(20):
                write_atomically(path, lambda file: file.write(bytes([k]) * 5000))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = path.read_bytes()
    assert not errors
    assert content == content[:1] * 5000
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


# ---- links -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing yet"])
def test_a_link_stays_and_what_it_points_to_is_replaced(there: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "data" / "a.bin", tmp_path / "link.bin"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"old")
    link.symlink_to(Path("data") / "a.bin")
    write_atomically(link, lambda file: file.write(b"new"))
    assert link.is_symlink() and target.read_bytes() == b"new" and not target.is_symlink()
    assert [p.name for p in target.parent.iterdir()] == ["a.bin"]


def test_new_folders_are_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    write_atomically(tmp_path / "one" / "two" / "a.bin", lambda file: file.write(b"1"))
    for folder in (tmp_path, tmp_path / "one", tmp_path / "one" / "two"):
        assert folder.stat().st_ino in synced


# ---- Ctrl-C ----------------------------------------------------------------------------------------------
def test_ctrl_c_in_a_zip_file_that_complains_of_it_is_still_ctrl_c(tmp_path: Path) -> None:
    """Closing a zip file in the middle of a part is a ValueError of its own."""

    @contextmanager
    def archive() -> Iterator[None]:
        try:
            yield
        finally:
            raise ValueError("cannot close the file while there is an open handle on it")

    def write(file: BinaryIO) -> None:
        with archive():
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.zip", write)
    assert not list(tmp_path.iterdir())
