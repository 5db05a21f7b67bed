"""The door to the street: connections that say too much before a key is known, or nothing at all, are closed.

uvicorn reads the head of a request, and what comes after a body, whatever its size, and it waits for the rest of a
request for ever. So anybody without a key could fill the memory, or take all connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = 64 << 10  # bytes of a request that are not its body
FRAMES = 8  # bytes that each byte of a body may cost, when it comes in small pieces
EVERY = 5.0  # seconds between two looks at all connections
PATIENCE = 20.0  # seconds for a whole request …
SLOWEST = 10_000.0  # … and one more for so many bytes of it
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: 59\r\n"
    b'connection: close\r\n\r\n{"error":"the head of the request is too long; send less."}'
)


class Door(HttpToolsProtocol):
    """A connection, as uvicorn serves it, with an eye on what has come of a request that is not whole yet."""

    got = body = 0  # bytes of this request until now, and how many of them are its body
    waits = 0.0  # seconds for which the rest of it, or a first request, has been waited for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        state: Any = self.server_state
        if not getattr(state, "watched", False):
            state.watched = True
            self.loop.call_later(EVERY, _look, self.loop, state)

    def data_received(self, data: bytes) -> None:
        self.got += len(data)
        super().data_received(data)
        if self.got - self.body > HEAD + FRAMES * self.body and not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        self.body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.got = self.body = 0
        self.waits = 0.0
        super().on_message_complete()

    @property
    def owes(self) -> bool:
        """Whether the other side must send something now: the rest of a request, or a first one."""
        return (self.got > 0 or self.cycle is None) and not self.flow.read_paused


def _look(loop: asyncio.AbstractEventLoop, state: Any) -> None:
    """Close the connections of those who keep us waiting."""
    for door in list(state.connections):
        if isinstance(door, Door) and door.owes:
            door.waits += EVERY
            if door.waits > PATIENCE + door.got / SLOWEST:
                door.transport.close()
    state.watched = bool(state.connections)
    if state.watched:
        loop.call_later(EVERY, _look, loop, state)
