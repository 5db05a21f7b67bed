"""Clients that never give up, and write down every answer that they got."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.faults.experiments import EXPERIMENTS

LONG = 8.0  # seconds until a request is sent again


@dataclass
class Known:
    """What clients were told: it must be in the store, now and for ever."""

    asked: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)  # ticket, arm, key
    told: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    refused: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  # lost a race
    expired: dict[str, list[int]] = field(default_factory=dict)  # tickets that got the default reward
    again: int = 0  # requests that were sent again

    def __post_init__(self) -> None:
        for name in EXPERIMENTS:
            self.asked[name], self.told[name], self.refused[name], self.expired[name] = [], [], [], []


class Connection:
    """One connection for one request after the other; it breaks whenever a server dies."""

    def __init__(self) -> None:
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def send(self, port: int, path: str, body: Any, method: str = "POST") -> tuple[int, Any]:
        try:
            return await asyncio.wait_for(self._send(port, path, body, method), LONG)
        except BaseException:
            streams = self._streams.pop(port, None)
            if streams is not None:
                streams[1].transport.abort()
            raise

    async def _send(self, port: int, path: str, body: Any, method: str) -> tuple[int, Any]:
        if port not in self._streams:
            self._streams[port] = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = self._streams[port]
        content = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        lines = answer.decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        return int(lines[0].split()[1]), json.loads(await reader.readexactly(length))

    def close(self) -> None:
        for _, writer in self._streams.values():
            writer.transport.abort()


class Client:
    """Asks, and tells: at once, late, twice, in batches, and in races of two different rewards."""

    def __init__(self, ports: list[int], known: Known, seed: int) -> None:
        self.ports, self.known, self.rng = ports, known, random.Random(seed)
        self.one, self.two = Connection(), Connection()
        self.late: list[tuple[str, int]] = []

    async def run(self, going: asyncio.Event) -> None:
        """Go on until told to stop; then finish what was begun."""
        while going.is_set():
            name = self.rng.choice(list(EXPERIMENTS))
            tickets = await self._ask(name)
            self.late += [
                (name, ticket) for ticket in tickets if self.rng.random() < 0.95
            ]  # the others never come back
            while self.late and self.rng.random() < 0.7:
                await self._tell()
        self.one.close()
        self.two.close()

    async def _sure(self, connection: Connection, path: str, body: Any, method: str = "POST") -> tuple[int, Any]:
        """Send until there is an answer that means something."""
        while True:
            port = self.rng.choice(self.ports)
            try:
                status, found = await connection.send(port, path, body, method)
                if status < 500:
                    return status, found
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError):
                pass
            self.known.again += 1
            await asyncio.sleep(self.rng.uniform(0.01, 0.1))

    async def _ask(self, name: str) -> list[int]:
        body: dict[str, Any] = {"key": self._new_key()}
        chance = self.rng.random()
        if chance < 0.2:
            body["n"] = self.rng.randint(2, 12)
        elif chance < 0.3:
            body["unit"] = f"unit {self.rng.randint(0, 40)}"
        elif chance < 0.4:
            body["among"] = self.rng.sample(EXPERIMENTS[name]["arms"], 2)
        while True:
            status, found = await self._sure(self.one, f"/v1/experiments/{name}/ask", body)
            if status != 409:  # else it is paused
                break
            await asyncio.sleep(0.05)
        assert status == 200, found
        tickets = found.get("tickets") or [found["ticket"]]
        arms = found.get("arms") or [found["arm"]]
        self.known.asked[name] += [(ticket, arm, body["key"]) for ticket, arm in zip(tickets, arms, strict=True)]
        return tickets

    async def _reward(self, connection: Connection, path: str, body: dict[str, Any]) -> None:
        """Tell rewards; if a ticket got the default reward meanwhile, the true one takes its place."""
        status, found = await self._sure(connection, path, body)
        if status == 409:
            status, found = await self._sure(connection, path, {**body, "key": self._new_key(), "correct": True})
        assert status == 200, found

    def _new_key(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128)))

    async def _tell(self) -> None:
        name, ticket = self.late.pop(self.rng.randrange(len(self.late)))
        path, reward = f"/v1/experiments/{name}/tell", float(self.rng.random() < 0.6)
        chance = self.rng.random()
        if chance < 0.15:  # a race of two rewards
            rewards = (0.0, 1.0)
            answers = await asyncio.gather(
                *(
                    self._sure(c, path, {"ticket": ticket, "reward": r})
                    for c, r in zip((self.one, self.two), rewards, strict=True)
                )
            )
            for (status, found), one in zip(answers, rewards, strict=True):
                assert status in (200, 409), found
                (self.known.told if status == 200 else self.known.refused)[name].append((ticket, one))
            return
        if chance < 0.3:  # the same twice
            body: dict[str, Any] = {"ticket": ticket, "reward": reward}
            await asyncio.gather(self._reward(self.one, path, body), self._reward(self.two, path, body))
        elif chance < 0.4:  # several at once
            more = [t for other, t in self.late if other == name][:5]
            self.late = [(other, t) for other, t in self.late if t not in more or other != name]
            both = [ticket, *more]
            await self._reward(self.one, path, {"tickets": both, "rewards": [reward] * len(both)})
            self.known.told[name] += [(t, reward) for t in more]
        elif chance < 0.5:  # a reward that was wrong
            for body in ({"reward": 1.0 - reward}, {"reward": reward, "correct": True}):
                await self._reward(self.one, path, {"ticket": ticket, "key": self._new_key(), **body})
        else:
            await self._reward(self.one, path, {"ticket": ticket, "reward": reward})
        self.known.told[name].append((ticket, reward))


class Administrator(Client):
    """Changes arms, limits and the status of experiments, and lets tickets expire, again and again; at the end all run.

    Every experiment gets a few new arms, which come and go.
    """

    async def run(self, going: asyncio.Event) -> None:
        """Go on until told to stop."""
        while going.is_set():
            name = self.rng.choice(list(EXPERIMENTS))
            path = f"/v1/experiments/{name}"
            await self._sure(self.one, f"{path}/arms", {"do": self.rng.choice(["pause", "resume"]), "arm": "D"})
            if self.rng.random() < 0.5:
                act = {"do": self.rng.choice(["add", "add", "retire"]), "arm": f"new {self.rng.randint(1, 4)}"}
                await self._sure(self.one, f"{path}/arms", act)
            shares = self.rng.choice(["A >= 10%", "A >= 10%; B + C <= 0.7", None])
            await self._sure(self.one, f"{path}/limits", {"shares": shares}, "PUT")  # refused where arms are drawn
            status, found = await self._sure(self.one, f"{path}/expire", {"seconds": 0.5, "reward": 0.0})
            assert status == 200, found
            self.known.expired[name] += found["tickets"]
            for status in ("paused", "running"):
                await self._sure(self.one, f"{path}/status", {"status": status})
                await asyncio.sleep(self.rng.uniform(0.02, 0.3))
        self.one.close()
        self.two.close()
