"""Processes that serve: how they end, how they notice that their parent is gone, and who replaces those that die."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from pmbandits.service import prometheus

log = logging.getLogger("pmbandits.service")
LAST_MOMENT = 25.0  # seconds after which a process that was told to stop ends, whatever it waits for
LAST_MOMENT_OF_WORKERS = 20.0  # seconds after which the process that started others kills them
ORPHAN_SECONDS = 2.0  # that a process goes on without the one that started it: somebody else needs the port


@contextmanager
def with_default_signal_handlers() -> Iterator[None]:
    """Let SIGTERM and SIGINT end this process at once, for as long as it has acknowledged nothing.

    The server itself looks at signals only when it has started, and its start may wait for a lock or a database. After
    that, a stop is orderly, but not for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, _signal_handler_with_deadline(handler))


def _signal_handler_with_deadline(handler: Any) -> Any:
    """A handler of a signal that also ends the process if it does not end by itself."""

    def handle(number: int, frame: Any) -> None:
        timer = threading.Timer(LAST_MOMENT, _end_process_now)
        timer.daemon = True
        timer.start()
        handler(number, frame)

    return handle if callable(handler) else handler


def _end_process_now() -> None:
    log.error("this process was told to stop %g s ago and still waits; it ends now", LAST_MOMENT)
    os._exit(1)


def stop_when_parent_is_gone() -> None:
    """Let this process stop when the one that started it is gone: else it would keep the port, and nobody knew it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        log.error("the process that started this one is gone, so this one stops")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


class Config(uvicorn.Config):
    """What the server needs to know; a signal ends a process at once also while it imports and makes the application.

    The server takes signals from before that on, and looks at them when it has started, which may be a minute later.
    """

    def load(self) -> None:
        """Import and make the application; from its beginning on, a child looks after its parent."""
        stop_when_parent_is_gone()
        with with_default_signal_handlers():
            super().load()


class Supervisor(Multiprocess):
    """Starts the processes, and replaces one that dies, which it says."""

    def __init__(self, config: uvicorn.Config, sockets: list[Any], counters: str) -> None:
        super().__init__(config, sockets)
        self._counters = counters  # the folder in which processes count

    def keep_subprocess_alive(self) -> None:
        """Look after all processes once."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for old, new in zip(before, self.processes, strict=False):
            if new is not old:
                log.error(
                    "process %s has ended (%s); %s replaces it", old.pid, _how_process_ended(old.exitcode), new.pid
                )
                if old.pid is not None:
                    prometheus.drop_gauges_of_process(self._counters, old.pid)

    def join_all(self) -> None:
        """Wait until all processes have ended; kill those that do not, by which nothing acknowledged is lost."""
        until = time.monotonic() + LAST_MOMENT_OF_WORKERS
        for one in self.processes:
            one.process.join(max(until - time.monotonic(), 0.0))
            if one.process.is_alive():
                log.error("process %s was told to stop %g s ago; it is killed now", one.pid, LAST_MOMENT_OF_WORKERS)
                one.process.kill()
                one.process.join()


def _how_process_ended(code: int | None) -> str:
    """How a process ended, by its exit code."""
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
