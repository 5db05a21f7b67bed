"""Entries of compiled kernels that several processes write at once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from pmbandits.state.disk_cache import _ChecksummedFiles

WRITERS, ENTRIES = 4, 25


def write(folder: str, writer: int) -> None:
    files = _ChecksummedFiles(folder, "kernel", "stamp")
    for entry in range(ENTRIES):
        files.save((writer, entry), f"{writer}-{entry}")


def test_entries_that_processes_write_at_once_are_all_kept_and_none_is_mistaken(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(str(tmp_path), writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(60)
        assert process.exitcode == 0
    files = _ChecksummedFiles(str(tmp_path), "kernel", "stamp")
    for writer in range(WRITERS):
        for entry in range(ENTRIES):
            assert files.load((writer, entry)) == f"{writer}-{entry}"
