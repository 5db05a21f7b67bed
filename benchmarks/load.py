"""Clients of the service that ask and tell as fast as they are answered: ``python -m benchmarks.load …`` prints JSON.

With ``LOAD_PAUSE`` each of them rests for so many seconds after each pair.

Raw HTTP/1.1 over asyncio, so that the clients, which share the machine with the service, take little of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from urllib.parse import urlsplit

import msgspec
import uvloop


class Line(asyncio.Protocol):
    """One client: a request, its answer, the next request."""

    def __init__(self) -> None:
        self.buffer, self.waiting = b"", asyncio.get_running_loop().create_future()
        self.again = 0  # requests that had to be sent once more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.waiting.done():
            self.waiting.set_exception(exc or ConnectionError("the service hung up"))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self.buffer.find(b"content-length: ")
        size = int(self.buffer[at + 16 : self.buffer.index(b"\r\n", at)])
        if len(self.buffer) < end + 4 + size:
            return
        status, body = int(self.buffer[9:12]), self.buffer[end + 4 : end + 4 + size]
        self.buffer = self.buffer[end + 4 + size :]
        self.waiting.set_result((status, body))

    async def send(self, head: bytes, body: bytes) -> bytes:
        while True:
            self.waiting = asyncio.get_running_loop().create_future()
            self.transport.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
            status, answer = await self.waiting
            if status == 200:
                return answer
            if status != 503:
                raise RuntimeError(f"{status}: {answer[:200]!r}")
            self.again += 1
            await asyncio.sleep(0.2)


PAUSE = float(os.environ.get("LOAD_PAUSE", "0"))


async def play(url: str, key: str, name: str, clients: int, seconds: float, batch: int) -> dict[str, float]:
    """Ask and tell for so many seconds; how many pairs, and how long asks and tells took."""
    where = urlsplit(url)
    known = f"host: {where.netloc}\r\nauthorization: Bearer {key}\r\n"
    heads = [f"POST /v1/experiments/{name}/{verb} HTTP/1.1\r\n{known}".encode() for verb in ("ask", "tell")]
    asks: list[float] = []
    tells: list[float] = []
    again = 0
    ask_body = b"{}" if batch == 1 else json.dumps({"n": batch}).encode()
    begin = time.perf_counter() + 1.0  # a second to get going, which is not counted
    end = begin + seconds

    async def one(number: int) -> None:
        nonlocal again
        draw = random.Random(number).random
        _, line = await asyncio.get_running_loop().create_connection(Line, where.hostname, where.port)
        while (t0 := time.perf_counter()) < end:
            found = msgspec.json.decode(await line.send(heads[0], ask_body))
            t1 = time.perf_counter()
            if batch == 1:
                body = b'{"ticket":%d,"reward":%f}' % (found["ticket"], draw())
            else:
                body = msgspec.json.encode({"tickets": found["tickets"], "rewards": [draw() for _ in range(batch)]})
            await line.send(heads[1], body)
            t2 = time.perf_counter()
            if PAUSE:
                await asyncio.sleep(PAUSE)
            if t0 >= begin:
                asks.append(t1 - t0)
                tells.append(t2 - t1)
        again += line.again
        line.transport.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    asks.sort()
    tells.sort()
    pairs = len(asks)
    return {
        "pairs": pairs * batch / seconds,
        "again": again,
        "ask50": 1e3 * asks[pairs // 2],
        "ask99": 1e3 * asks[pairs * 99 // 100],
        "tell50": 1e3 * tells[pairs // 2],
        "tell99": 1e3 * tells[pairs * 99 // 100],
    }


if __name__ == "__main__":
    address, secret, experiment, n, duration, together = sys.argv[1:]
    uvloop.install()
    print(json.dumps(asyncio.run(play(address, secret, experiment, int(n), float(duration), int(together)))))
