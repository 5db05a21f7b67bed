"""Clients that ask and tell at a steady pace, while others look at the board: ``python -m benchmarks.onlookers …``.

Each onlooker does what the page does: it listens to the stream, and fetches what is new when it is told of news.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks.load import Line

GETTING_GOING = 10.0  # seconds that are not counted: what is worked out when the first one looks


class FolderReader:
    """One page that is open."""

    def __init__(self, url: str, key: str, name: str) -> None:
        where = urlsplit(url)
        self.host, self.port, self.path = str(where.hostname), where.port, f"/board/{name}"
        self.head = f"host: {where.netloc}\r\nauthorization: Bearer {key}\r\n\r\n"
        self.seq, self.version, self.fetched, self.got = 0, "", 0, 0
        self.news = asyncio.Event()

    async def look(self) -> None:
        """For ever."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(f"GET {self.path}/stream HTTP/1.1\r\n{self.head}".encode())
        listening = asyncio.create_task(self._listen(reader))
        try:
            line_in, line_out = await asyncio.open_connection(self.host, self.port, limit=1 << 26)
            while True:
                await self.news.wait()
                self.news.clear()
                await self._fetch(line_in, line_out)
                await asyncio.sleep(0.4)  # as the page does
        finally:
            listening.cancel()
            writer.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(1 << 16):
            if b"event: moved" in part:
                self.news.set()

    async def _fetch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"GET {self.path}/view?after={self.seq}&have={self.version} HTTP/1.1\r\n{self.head}".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        found = msgspec.json.decode(await reader.readexactly(size))
        self.seq, self.version = found["history"]["seq"], found["version"]
        self.fetched, self.got = self.fetched + 1, self.got + size


async def ask(url: str, key: str, name: str, rate: float, end: float) -> list[float]:
    """Ask and tell, one pair after the other at this pace; how long each ask took."""
    where = urlsplit(url)
    known = f"host: {where.netloc}\r\nauthorization: Bearer {key}\r\n"
    heads = [f"POST /v1/experiments/{name}/{verb} HTTP/1.1\r\n{known}".encode() for verb in ("ask", "tell")]
    _, line = await asyncio.get_running_loop().create_connection(Line, where.hostname, where.port)
    took, begin, draw = [], time.perf_counter(), random.Random(0).random
    while (now := time.perf_counter()) < end:
        await asyncio.sleep(max(0.0, begin + len(took) / rate - now))
        start = time.perf_counter()
        found = msgspec.json.decode(await line.send(heads[0], b"{}"))
        took.append(time.perf_counter() - start)
        await line.send(heads[1], b'{"ticket":%d,"reward":%f}' % (found["ticket"], draw()))
    return took


def spent(process: int) -> float:
    """Seconds of computing that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(
    url: str, key: str, name: str, viewers: int, seconds: float, rate: float, process: int
) -> dict[str, float]:
    """Ask while they look: what asks took, what the process that serves used, and what each onlooker fetched."""
    people = [FolderReader(url, key, name) for _ in range(viewers)]
    looking = [asyncio.create_task(one.look()) for one in people]
    await ask(url, key, name, rate, time.perf_counter() + GETTING_GOING)
    for one in people:
        one.fetched = one.got = 0
    before = spent(process)
    took = await ask(url, key, name, rate, time.perf_counter() + seconds)
    used = spent(process) - before
    for task in looking:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    took.sort()
    each = max(viewers, 1)
    return {
        "cpu": 1e3 * used / seconds,
        "asks": len(took) / seconds,
        "ask50": 1e3 * took[len(took) // 2],
        "ask99": 1e3 * took[len(took) * 99 // 100],
        "fetched": sum(one.fetched for one in people) / each / seconds,
        "bytes": sum(one.got for one in people) / max(sum(one.fetched for one in people), 1),
    }


if __name__ == "__main__":
    address, secret, experiment, n, duration, pace, served_by = sys.argv[1:]
    result = main(address, secret, experiment, int(n), float(duration), float(pace), int(served_by))
    print(json.dumps(asyncio.run(result)))
