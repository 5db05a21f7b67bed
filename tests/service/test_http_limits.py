"""What anybody can send without a key: heads without an end, requests that never become whole, and silence."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from pmbandits.service import http_limits

ENDLESS = 8 << 20  # bytes: far more than may be taken


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads a body, and answers with its length; or waits first."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(1.0)
    if scope["path"] == "/endless":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
    body = str(size).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]}
    )
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where the little application is served, with little patience."""
    monkeypatch.setattr(http_limits, "EVERY", 0.05)
    monkeypatch.setattr(http_limits, "PATIENCE", 0.4)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # who comes before the server is there waits
        server = uvicorn.Server(
            uvicorn.Config(app, http=http_limits.LimitedHttpProtocol, log_level="critical", lifespan="off")
        )
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def sent(port: int, first: bytes, piece: bytes = b"", pause: float = 0.0, pieces: int = 0) -> tuple[int, bytes]:
    """How many bytes were taken of a request that is sent piece by piece, and the answer until the end."""
    taken = 0
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        try:
            line.sendall(first)
            for _ in range(pieces):
                time.sleep(pause)
                line.sendall(piece)
                taken += len(piece)
        except OSError:
            return taken, b""
        answer = b""
        try:
            while part := line.recv(1 << 16):
                answer += part
        except ConnectionResetError:
            pass
        return taken, answer


MAX_HEAD_BYTES = b"POST / HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    "first",
    [
        b"GET /",
        b"GET / HTTP/1.1\r\nx: ",
        b"GET / HTTP/1.1\r\n",
        MAX_HEAD_BYTES + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: ",
        MAX_HEAD_BYTES + b"transfer-encoding: chunked\r\n\r\n1;",
    ],
)
def test_a_head_without_an_end_is_not_read(port: int, first: bytes) -> None:
    lines = first.endswith(b"1.1\r\n")
    piece = b"a:b\r\n" * 8192 if lines else b"a" * 40960
    taken, answer = sent(port, first, piece, pieces=ENDLESS // len(piece))
    assert taken < ENDLESS and (answer == b"" or answer.startswith(b"HTTP/1.1 431"))
    assert sent(port, MAX_HEAD_BYTES + b"connection: close\r\ncontent-length: 2\r\n\r\n{}")[1].endswith(b"\r\n\r\n2")


def test_a_head_that_is_too_long_is_refused_with_a_sentence(port: int) -> None:
    _, answer = sent(port, b"GET / HTTP/1.1\r\nx: " + b"a" * (http_limits.MAX_HEAD_BYTES + 1))
    assert answer.endswith(b'{"error":"the head of the request is too long; send less."}')
    assert b"content-length: 59\r\n" in answer


@pytest.mark.parametrize("first", [b"", b"GET / HT", MAX_HEAD_BYTES, MAX_HEAD_BYTES + b"content-length: 20\r\n\r\n{}"])
def test_who_says_nothing_more_is_not_waited_for(port: int, first: bytes) -> None:
    began = time.monotonic()
    assert sent(port, first) == (0, b"")
    assert time.monotonic() - began < 15


def test_one_byte_now_and_then_is_not_enough(port: int) -> None:
    taken, answer = sent(port, MAX_HEAD_BYTES + b"x: ", b"a", pause=0.05, pieces=200)
    assert taken < 200 and answer == b""


@pytest.mark.slow
def test_slow_answers_and_bodies_in_small_pieces_are_fine(port: int) -> None:
    close = b"host: x\r\nconnection: close\r\n"
    assert sent(port, b"GET /slow HTTP/1.1\r\n" + close + b"\r\n")[1].endswith(b"\r\n\r\n0")
    chunks = b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n"
    answer = sent(port, b"POST / HTTP/1.1\r\n" + close + b"transfer-encoding: chunked\r\n\r\n" + chunks)[1]
    assert answer.endswith(b"\r\n\r\n50000")
    two = MAX_HEAD_BYTES + b"content-length: 2\r\n\r\n{}" + b"GET /slow HTTP/1.1\r\n" + close + b"\r\n"
    assert sent(port, two)[1].count(b"HTTP/1.1 200") == 2, "one request after the other, in one go"
    steady = MAX_HEAD_BYTES + b"connection: close\r\ncontent-length: 200000\r\n\r\n"
    assert sent(port, steady, b"a" * 10_000, pause=0.05, pieces=20)[1].endswith(b"\r\n\r\n200000")


def test_a_whole_head_that_is_too_long_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000 + b"\r\n\r\n")
        assert b" 431 " in connection.recv(1000)


def test_an_answer_that_nobody_reads_is_given_up(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(2.0)
        received = 0
        with suppress(ConnectionError):
            while piece := connection.recv(1 << 20):
                received += len(piece)
    assert received < 1000 * 65536
