"""A process that has everything imported and compiled, and makes servers of itself, each in a tenth of a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from tests.faults.experiments import EXPERIMENTS


class Nursery:
    """The harness's side of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "warm"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, store: str, port: int) -> int:
        """A new server; its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{port} {store}\n")
        self._process.stdin.flush()
        return int(self._line())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)


def serve(store: str, port: int) -> None:
    """Be a server."""
    import uvicorn

    from pmbandits.service.api import create_app
    from pmbandits.service.settings import Settings

    app: Any = create_app(Settings(store=store, port=port, open=True, warm=False))
    uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, access_log=False, log_level="error", lifespan="on")
    ).run()


def main() -> None:
    """Warm up, and make servers as told."""
    from pmbandits.service import api, postgres  # noqa: F401
    from pmbandits.service.replay import policy_from_spec

    for spec in EXPERIMENTS.values():
        policy = policy_from_spec(spec)
        for k in range(50):
            policy.tell(policy.ask(), float(k % 2))
        policy.replay([0], [1.0], check=True)
        policy.asked(0)
        policy.ask(among=[policy.names[0]])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("warm", flush=True)
    for line in sys.stdin:
        port, _, store = line.strip().partition(" ")
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            log = os.open("out/faults/servers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            try:
                serve(store, int(port))
            finally:
                os._exit(1)
        print(child, flush=True)


if __name__ == "__main__":
    main()
