"""The log of a process as text or JSON, each line with the request that it belongs to; and traces, if they are on."""

from __future__ import annotations

import itertools
import logging
import os
import re
import secrets
import time
from contextvars import ContextVar
from typing import Any

import msgspec

from pmbandits import _validation

log = logging.getLogger("pmbandits.service")
_current: ContextVar[Any] = ContextVar("current", default=None)  # the ASGI scope of the request of this task
SLOW = 1.0  # seconds, from which on a request is in the log
_PREFIX, _numbers = secrets.token_hex(6), itertools.count(1 << 20)  # of requests that bring no number of their own
_KEY = "pmbandits.request_id"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")  # of a client or a proxy: nothing that could break a line


class _TextFormatter(logging.Formatter):
    """One line of text, whatever is in names and errors; only tracebacks have more."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = _validation.escape_invisible_characters(record.message)
        return super().formatMessage(record)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        out: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "process": record.process,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if number := request_id():
            out["request_id"] = number
        if record.exc_info:
            out["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(out).decode()


def configure_process_log(form: str = "text", level: str = "info") -> None:
    """Write the log of this process to stderr, as ``text`` or ``json``."""
    handler = logging.StreamHandler()
    text = _TextFormatter("%(asctime)s %(levelname)s %(process)d %(message)s")
    handler.setFormatter(_JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    log.setLevel(level.upper())


def json_line(message: str, fields: dict[str, Any]) -> str:
    """A line as the log has it as ``json``, for what is said before there is a log."""
    record = logging.LogRecord(log.name, logging.INFO, "", 0, message, None, None)
    record.fields = fields
    return _JsonFormatter().format(record)


begin_request = _current.set


def request_id() -> str:
    """The number of the request of this task: that of the header X-Request-ID, or a new one; without one, nothing."""
    scope = _current.get()
    if scope is None:
        return ""
    number: str = scope.get(_KEY, "")
    if not number:
        given = [value for name, value in scope["headers"] if name == b"x-request-id" and _REQUEST_ID.fullmatch(value)]
        number = scope[_KEY] = given[-1].decode() if given else f"{_PREFIX}{next(_numbers):x}"
    return number


def log_request(route: str, status: int, seconds: float) -> None:
    """Write a request to the log: if it failed here or was slow, or if all are wanted."""
    bad = status >= 500 or (seconds > SLOW and status != 503 and not route.endswith(("/stream", "/log", "/export")))
    level = logging.WARNING if bad else logging.DEBUG
    if log.isEnabledFor(level):
        fields = {"route": route, "status": status, "seconds": round(seconds, 6)}
        log.log(level, "request %s: status %d after %.3f s", route, status, seconds, extra={"fields": fields})


def with_opentelemetry_traces(app: Any) -> Any:
    """The application with OpenTelemetry's spans, if its packages are installed and its variables are set."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        return app
    try:
        from opentelemetry.instrumentation.asgi import (  # type: ignore[import-not-found,unused-ignore]
            OpenTelemetryMiddleware,
        )
    except ImportError:
        log.warning("OTEL_… is set, but opentelemetry-instrumentation-asgi is not installed: there are no traces")
        return app
    return OpenTelemetryMiddleware(app)
