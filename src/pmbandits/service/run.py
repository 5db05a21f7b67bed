"""From settings to processes that serve."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import socket
from contextlib import nullcontext
from tempfile import TemporaryDirectory

import uvicorn

from pmbandits.service.api import make
from pmbandits.service.door import Door
from pmbandits.service.front import App
from pmbandits.service.settings import Settings
from pmbandits.service.store import PAUSES, opened

CONNECTIONS = 4096  # at the same time, in each process
_TOLD = "PMBANDITS_SETTINGS"  # how the processes that serve are told


def check(settings: Settings) -> None:
    """Say at once, in one sentence, if the address is taken or the store cannot be opened."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            line.bind((settings.host, settings.port))
        except OSError as error:
            raise ValueError(
                f"cannot listen at {settings.host}, port {settings.port} ({error.strerror}); give another --port or "
                "--host."
            ) from None
    opened(settings.store, pauses=PAUSES).close()


def serve(settings: Settings) -> None:
    """Serve until somebody stops it. The port opens when everything is warm; a process that dies is replaced."""
    with TemporaryDirectory(prefix="pmbandits-") if settings.processes > 1 else nullcontext() as shared:
        _serve(dataclasses.replace(settings, shared=shared))


def _serve(settings: Settings) -> None:
    os.environ[_TOLD] = json.dumps(dataclasses.asdict(settings))
    uvicorn.run(
        "pmbandits.service.run:one", factory=True, host=settings.host, port=settings.port, workers=settings.processes,
        access_log=False, log_level="error", server_header=False, proxy_headers=False, lifespan="on",
        timeout_keep_alive=75, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=10, ws="none",
        http=Door,
    )  # fmt: skip


def one() -> App:
    """The application of one process, as :func:`serve` was told."""
    _make_room()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    return make(Settings(**json.loads(os.environ[_TOLD])))


def _make_room() -> None:
    """Let this process have as many connections as it may, not only as many as most programs need."""
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + 200
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
