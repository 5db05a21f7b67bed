"""The process that compiles: how it is started."""

from __future__ import annotations

import sys

import pytest

from tests.helpers import python


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc who forks")
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_process_that_compiles_is_started_without_a_fork(loop: str) -> None:
    """While a disk is stuck under SQLite's -shm file, a fork of the process that has it in memory stops all threads."""
    pytest.importorskip(loop)
    said = python(
        f"""
        import asyncio, ctypes, os, sys, {loop}
        from pmbandits.service import warmup

        forks = []
        note = ctypes.CFUNCTYPE(None)(lambda: forks.append(1))
        ctypes.CDLL(None)["__register_atfork"](note, None, None, None)
        warmup._COMMAND = (sys.executable, "-S", "-c", "import sys; sys.exit(len(sys.stdin.readline()))")
        ended = {loop}.new_event_loop().run_until_complete(warmup.warm_in_subprocess({{"a": 1}}))
        print(ended, len(forks))
        if not os.fork():
            os._exit(0)
        print(len(forks))
        """
    )
    assert said.split() == ["9", "0", "1"]
