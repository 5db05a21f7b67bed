"""Limits on HTTP connections: those with too large a head, or that are too slow to send or to read, are closed.

uvicorn reads the head of a request, and what comes after a body, whatever its size, and it waits for the rest of a
request for ever. So anybody without a key could fill the memory, or take all connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10  # bytes of a request that are not its body
MAX_OVERHEAD = 8  # bytes that each byte of a body may cost, when it comes in small pieces
EVERY = 5.0  # seconds between two looks at all connections
PATIENCE = 20.0  # seconds for a whole request …
MIN_BYTES_PER_SECOND = 10_000.0  # … and one more for so many bytes of it
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: 59\r\n"
    b'connection: close\r\n\r\n{"error":"the head of the request is too long; send less."}'
)


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection, as uvicorn serves it, with an eye on what has come of a request that is not whole yet."""

    received_bytes = body_bytes = 0  # bytes of this request until now, and how many of them are its body
    newest_bytes = 0  # bytes that came in the newest piece
    unread_bytes = 0  # bytes of an answer that the other side had not taken at the last look
    unread_seconds = 0.0  # seconds in which it took too few of them
    waited_seconds = 0.0  # seconds for which the rest of it, or a first request, has been waited for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        state: Any = self.server_state
        if not getattr(state, "watched", False):
            state.watched = True
            self.loop.call_later(EVERY, _close_slow_connections, self.loop, state)

    def data_received(self, data: bytes) -> None:
        self.newest_bytes = len(data)
        self.received_bytes += self.newest_bytes
        super().data_received(data)
        if (
            self.received_bytes - self.body_bytes > MAX_HEAD_BYTES + MAX_OVERHEAD * self.body_bytes
            and not self.transport.is_closing()
        ):
            self.transport.write(_TOO_LONG)
            self.transport.close()

    @property
    def is_head_too_long(self) -> bool:
        """Whether address and headers of this request are longer than they may be."""
        if self.received_bytes + self.newest_bytes <= MAX_HEAD_BYTES:
            return False
        lines = sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers or ())
        return len(self.url) + lines > MAX_HEAD_BYTES

    def on_headers_complete(self) -> None:
        if self.is_head_too_long:
            raise ValueError("the head of the request is too long.")  # the parser stops, and calls send_400_response
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if not self.is_head_too_long:
            super().send_400_response(msg)
        elif not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_body(self, body_bytes: bytes) -> None:
        self.body_bytes += len(body_bytes)
        super().on_body(body_bytes)

    def on_message_complete(self) -> None:
        self.received_bytes = self.body_bytes = 0
        self.waited_seconds = 0.0
        super().on_message_complete()

    @property
    def is_waiting_for_client(self) -> bool:
        """Whether the other side must send something now: the rest of a request, or a first one."""
        return (self.received_bytes > 0 or self.cycle is None) and not self.flow.read_paused

    def has_client_stopped_reading(self, seconds: float) -> bool:
        """Whether the other side has left an answer unread for too long; ``seconds`` have passed since the last look.

        What it has not taken stays in the memory of this process.
        """
        unread = self.transport.get_write_buffer_size()
        taken, self.unread_bytes = self.unread_bytes - unread, unread
        slow = self.flow.write_paused and taken < seconds * MIN_BYTES_PER_SECOND
        self.unread_seconds = self.unread_seconds + seconds if slow else 0.0
        return self.unread_seconds > PATIENCE


def _close_slow_connections(loop: asyncio.AbstractEventLoop, state: Any) -> None:
    """Close connections that are too slow to send or to read, and schedule the next look."""
    for connection in list(state.connections):
        if not isinstance(connection, LimitedHttpProtocol):
            continue
        if connection.has_client_stopped_reading(EVERY):
            connection.transport.abort()
        elif connection.is_waiting_for_client:
            connection.waited_seconds += EVERY
            if connection.waited_seconds > PATIENCE + connection.received_bytes / MIN_BYTES_PER_SECOND:
                connection.transport.close()
    state.watched = bool(state.connections)
    if state.watched:
        loop.call_later(EVERY, _close_slow_connections, loop, state)
