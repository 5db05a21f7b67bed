"""From settings to processes that serve."""

from __future__ import annotations

import dataclasses
import json
import logging
import os

import uvicorn

from pmbandits.service.api import make
from pmbandits.service.door import Door
from pmbandits.service.front import App
from pmbandits.service.settings import Settings

_TOLD = "PMBANDITS_SETTINGS"  # how the processes that serve are told


def serve(settings: Settings) -> None:
    """Serve until somebody stops it. The port opens when everything is warm; a process that dies is replaced."""
    os.environ[_TOLD] = json.dumps(dataclasses.asdict(settings))
    uvicorn.run(
        "pmbandits.service.run:one", factory=True, host=settings.host, port=settings.port, workers=settings.processes,
        access_log=False, log_level="warning", server_header=False, proxy_headers=False, lifespan="on",
        timeout_keep_alive=75, limit_concurrency=4096, timeout_graceful_shutdown=10, ws="none",
        http=Door,
    )  # fmt: skip


def one() -> App:
    """The application of one process, as :func:`serve` was told."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    return make(Settings(**json.loads(os.environ[_TOLD])))
