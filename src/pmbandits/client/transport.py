"""The connections of a client, and when to try again."""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import threading
import time
import weakref
from urllib.parse import urlsplit

from pmbandits import _validation

_RETRY_STATUSES = (429, 503)  # not now, but soon
_LONGEST_PAUSE = 5.0  # seconds between two tries


class ServiceError(RuntimeError):
    """The service refused a request, or could not be reached.

    ``status`` is the HTTP status of its answer; it is 0 if there was no answer.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _ThreadConnection:
    """The connection of one thread. It is closed when the thread ends, or when nobody has the client any more."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection, self.process = connection, os.getpid()

    def __del__(self) -> None:
        self.connection.close()


class Transport:
    """The connections of a client: one for each thread of each process, opened again when they break."""

    def __init__(self, url: str, key: str | None, timeout: float, patience: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"the address must be like http://127.0.0.1:8000, got {_validation.short_repr(url)}.")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the address must not hold a name or a password; give the key with key=….")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(
                f"the address {_validation.short_repr(url)} has no valid port; a port is a number from 1 to 65535."
            ) from None
        if key is not None and (not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key):
            raise ValueError("the key must be the text that pmbandits key create printed.")
        self.url, self._base, self._host, self._port = url, parts.path.rstrip("/"), parts.hostname, port
        self._ssl_context = ssl.create_default_context() if parts.scheme == "https" else None
        self._timeout = _validation.check_within("timeout", timeout, 0.0, open_lo=True)
        self._patience = _validation.check_within("patience", patience, 0.0)
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        self._thread_local = threading.local()
        self._connections: weakref.WeakSet[_ThreadConnection] = weakref.WeakSet()

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._ssl_context is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._ssl_context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def send_with_retries(
        self, method: str, path: str, body: bytes | None, *, repeatable: bool, min_timeout: float = 0.0
    ) -> bytes:
        """The body of the answer. What is not ``repeatable`` is sent again only if it cannot have arrived.

        ``min_timeout``: so many seconds the answer may take in any case.
        """
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            status, content, wait = self._send_once(method, path, body, repeatable, max(self._timeout, min_timeout))
            if 200 <= status < 300:
                return content
            retry = status == 0 or (status in _RETRY_STATUSES and (repeatable or status == 429))
            pause = max(pause, wait)
            if not retry or time.monotonic() + pause > until:
                raise ServiceError(status, _error_sentence_of_response(status, content, self.url))
            time.sleep(pause * random.uniform(0.5, 1.0))  # not all clients at the same moment
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _send_once(
        self, method: str, path: str, body: bytes | None, repeatable: bool, timeout: float
    ) -> tuple[int, bytes, float]:
        """Status, body, and how many seconds the service asks to wait; status 0 if there was no answer."""
        if not repeatable:  # a connection that was kept open may be closed on the other side, and nobody would know why
            self.close_thread_connection()
        held: _ThreadConnection | None = getattr(self._thread_local, "held", None)
        if held is not None and held.process != os.getpid():
            held = None  # this process is a copy of the one that opened it, and two cannot speak over one line
        if fresh := held is None:
            held = self._thread_local.held = _ThreadConnection(self._new_connection())
            self._connections.add(held)
        connection = held.connection
        try:
            if fresh or connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout)
            try:
                connection.request(method, self._base + path, body, self._headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.close_thread_connection()
                # A connection that was kept open may have been closed by the other side meanwhile, before it read.
                if repeatable:
                    return 0, str(error).encode(), 0.0
                raise ServiceError(
                    0,
                    f"the connection to {self.url} broke before the answer came, so it is not known whether the change "
                    "was made; look, and then send it again if it was not.",
                ) from None
        except OSError as error:  # it could not be opened: nothing was sent
            self.close_thread_connection()
            return 0, str(error).encode(), 0.0
        except BaseException:  # Ctrl-C: an answer may still be on its way in this connection
            self.close_thread_connection()
            raise
        wait = answer.headers.get("retry-after", "")
        if answer.will_close:
            self.close_thread_connection()
        return answer.status, content, float(wait) if wait.isdecimal() and len(wait) < 4 else 0.0

    def close_thread_connection(self) -> None:
        """Close this thread's connection."""
        held: _ThreadConnection | None = getattr(self._thread_local, "held", None)
        self._thread_local.held = None
        if held is not None:
            held.connection.close()

    def close_all_connections(self) -> None:
        """Close the connections of all threads, which must not use them now."""
        for held in list(self._connections):
            held.connection.close()  # each is opened again by whoever needs it


def _error_sentence_of_response(status: int, content: bytes, url: str) -> str:
    if status == 0:
        why = _validation.escape_control_characters(content.decode(errors="replace")[:200])
        return f"the service at {url} cannot be reached: {why}."
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the service answered with status {status}, and with no sentence that says why."
