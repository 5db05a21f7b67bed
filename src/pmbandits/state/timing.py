"""A stopwatch of computing time that does not count compiling."""

from __future__ import annotations

import threading
import time
from typing import Any

from numba.core import event

# Computing time of the thread: how busy the machine is with other things does not change it much. Where the system
# counts that in coarse steps, the time on the wall.
_FINE = 1e-5
clock = time.thread_time if time.get_clock_info("thread_time").resolution <= _FINE else time.perf_counter
_LOCK = "numba:compiler_lock"  # numba compiles one function at a time: when a thread wants to, and when it has


class _ThreadTimes(threading.local):
    depth = 0
    since = 0.0
    seconds = 0.0


class _Compiling(event.Listener):
    """Adds up, for each thread, the seconds in which it compiled, or waited for another thread that compiled."""

    def __init__(self) -> None:
        self.mine = _ThreadTimes()

    def on_start(self, event: Any) -> None:
        if self.mine.depth == 0:
            self.mine.since = clock()
        self.mine.depth += 1

    def on_end(self, event: Any) -> None:
        self.mine.depth -= 1
        if self.mine.depth == 0:
            self.mine.seconds += clock() - self.mine.since


_compiling = _Compiling()
event.register(_LOCK, _compiling)


class Stopwatch:
    """Runs from when it is made, in the thread that made it, and stands still while that thread compiles.

    A kernel is compiled, or loaded from the disk, when it is first reached: at any time of a trial. So compiling cannot
    be done before the watch starts; it is taken off.
    """

    def __init__(self) -> None:
        _compiling.mine.depth = 0  # an interrupted compilation may have left it open
        self._start, self._compiled = clock(), _compiling.mine.seconds

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return clock() - self._start - (_compiling.mine.seconds - self._compiled)
