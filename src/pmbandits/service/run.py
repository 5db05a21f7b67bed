"""From settings to processes that serve."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from tempfile import TemporaryDirectory

import uvicorn

from pmbandits.service.api import create_app
from pmbandits.service.asgi_app import App
from pmbandits.service.http_limits import LimitedHttpProtocol
from pmbandits.service.processes import Config, Supervisor
from pmbandits.service.prometheus import FOLDER_VARIABLE, shared_memory
from pmbandits.service.request_log import configure_process_log, with_opentelemetry_traces
from pmbandits.service.settings import Settings
from pmbandits.service.store import RETRY_PAUSES, open_store

CONNECTIONS = 4096  # at the same time, in each process
_SETTINGS_VARIABLE = "PMBANDITS_SETTINGS"  # the environment variable with the settings of worker processes


def check_address_and_store(settings: Settings) -> None:
    """Say at once, in one sentence, if the address is taken or the store cannot be opened."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise ValueError(
                f"cannot listen at {settings.host}, port {settings.port} ({error.strerror}); give another --port or "
                "--host."
            ) from None
    open_store(settings.store, pauses=RETRY_PAUSES).close()


def serve(settings: Settings) -> None:
    """Serve until somebody stops it. The port opens when everything is warm; a process that dies is replaced."""
    os.environ[_SETTINGS_VARIABLE] = json.dumps(dataclasses.asdict(settings))
    config = Config(
        "pmbandits.service.run:app", factory=True, host=settings.host, port=settings.port, workers=settings.processes,
        access_log=False, log_level="error", server_header=False, proxy_headers=False, lifespan="on",
        timeout_keep_alive=75, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=10, ws="none",
        http=LimitedHttpProtocol,
    )  # fmt: skip
    if settings.processes == 1:
        uvicorn.Server(config).run()
        return
    configure_process_log(settings.log_format, settings.log_level)
    with TemporaryDirectory(prefix="pmbandits-", dir=shared_memory()) as counters:
        os.environ[FOLDER_VARIABLE] = counters  # worker processes read it when they begin
        Supervisor(config, [config.bind_socket()], counters).run()


def app() -> App:
    """The application of one worker process, with the settings of :func:`serve`."""
    _raise_open_file_limit()
    settings = Settings(**json.loads(os.environ[_SETTINGS_VARIABLE]))
    configure_process_log(settings.log_format, settings.log_level)
    application: App = with_opentelemetry_traces(create_app(settings))
    return application


def _raise_open_file_limit() -> None:
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
