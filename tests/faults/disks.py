"""A disk that is full while clients go on: a small one in memory, filled with junk and emptied again (needs root)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

JUNK = "junk"


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path | None]:
    """A disk of its own, or None where it cannot be made."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", folder]
        if subprocess.run(words, capture_output=True, check=False).returncode != 0:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=False)


def fill(disk: Path) -> None:
    """Leave nothing free."""
    with open(disk / JUNK, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    assert os.statvfs(disk).f_bavail == 0


def empty(disk: Path) -> None:
    """Give the room back."""
    (disk / JUNK).unlink()


async def play(turn: Any, disk: Path, times: int) -> None:
    """What happens in such a round: the disk is full, and then it is not, again and again."""
    for _ in range(times):
        await asyncio.sleep(1.5)
        await asyncio.to_thread(fill, disk)
        if turn.database is not None:
            await asyncio.to_thread(turn.database.new_log)
        before, seconds = turn.known.again, 0
        while turn.known.again < before + 20:  # room that a store took before can be used up first
            await asyncio.sleep(1.0)
            seconds += 1
            assert seconds < 120, "while the disk was full, no request failed"
        empty(disk)
        if turn.database is not None:
            await asyncio.to_thread(turn.database.be_there)
        turn.full += 1
