"""``python -m tests.faults [--store sqlite|postgres|both] [--kills N]``."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults import disks, frozen
from tests.faults.clients import Administrator, Client, Known
from tests.faults.experiments import EXPERIMENTS
from tests.faults.nursery import Nursery
from tests.faults.verdict import verdict

OUT = Path("out/faults")
ROUNDS = OUT / "rounds.jsonl"
EACH = 25  # kills in a round
CLIENTS = 16


class Round:
    """Two servers of one store under load, and faults."""

    def __init__(self, kind: str, store: str, nursery: Nursery, database: Any, seed: int) -> None:
        self.kind, self.store, self.nursery, self.database = kind, store, nursery, database
        self.rng, self.known = random.Random(seed), Known()
        self.ports = [_free_port(), _free_port()]
        self.pids: dict[int, int] = {}
        self.kills = self.cuts = self.crashes = self.full = self.frozen = 0

    async def play(self, kills: int, disk: Path | None = None, *, still: int = 0) -> dict[str, Any]:
        """Make so many kills under load (or fill the disk, or stop servers so often), let all finish, and look."""
        prepare(self.store)
        for port in self.ports:
            self.pids[port] = self.nursery.start(self.store, port)
        await asyncio.to_thread(self.wait)
        going = asyncio.Event()
        going.set()
        began = time.monotonic()
        clients = [Client(self.ports, self.known, self.rng.getrandbits(32)) for _ in range(CLIENTS)]
        clients.append(Administrator(self.ports, self.known, self.rng.getrandbits(32)))
        tasks = [asyncio.create_task(client.run(going)) for client in clients]
        try:
            if disk is not None:
                await disks.play(self, disk, kills)
            if still:
                await frozen.play(self, still)
            while self.kills < kills and disk is None:
                if self.rng.random() < 0.7:
                    await asyncio.to_thread(self.wait)
                await asyncio.sleep(self.rng.uniform(0.1, 0.8))
                await self._fault()
                for task in tasks:
                    if task.done():
                        task.result()
            await asyncio.sleep(0.5)
            going.clear()
            await asyncio.wait_for(asyncio.gather(*tasks), 300)
            await asyncio.to_thread(self.wait)
            try:
                found = await asyncio.to_thread(verdict, self.store, self.ports, self.known)
            except AssertionError:
                if self.store.startswith("sqlite"):  # to look at
                    shutil.copy(self.store.removeprefix("sqlite:///"), OUT / "failed.db")
                raise
        finally:
            for task in tasks:
                task.cancel()
            for pid in self.pids.values():
                kill(pid)
        seconds = round(time.monotonic() - began, 1)
        faults = {name: getattr(self, name) for name in ("kills", "cuts", "crashes", "full", "frozen")}
        return {"store": self.kind, **faults, **found, "seconds": seconds}

    async def _fault(self) -> None:
        chance = self.rng.random()
        if self.database is not None and chance < 0.1:
            self.cuts += 1
            await asyncio.to_thread(self.database.cut)
            return
        if self.database is not None and chance < 0.13:
            self.crashes += 1
            await asyncio.to_thread(self.database.kill)
            return
        for port in self.ports if self.rng.random() < 0.1 else [self.rng.choice(self.ports)]:
            kill(self.pids[port])
            self.kills += 1
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.uniform(0.0, 0.3))
            self.pids[port] = self.nursery.start(self.store, port)

    def wait(self) -> None:
        """Wait until both servers are ready."""
        for port in self.ports:
            until = time.monotonic() + 240
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.05)


def prepare(store: str) -> None:
    """Make a store with the experiments."""
    from pmbandits.service.store import Store

    opened = Store(store)
    for name, spec in EXPERIMENTS.items():
        opened.create_experiment(name, spec, "faults")
    opened.close()


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def done(kind: str) -> int:
    """Kills of rounds that were finished."""
    if not ROUNDS.exists():
        return 0
    lines = [json.loads(line) for line in ROUNDS.read_text().splitlines()]
    return sum(line["kills"] for line in lines if line["store"] == kind)


def note(result: dict[str, Any]) -> None:
    """A finished round."""
    with ROUNDS.open("a") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result), flush=True)


def kill_on(kind: str, kills: int, each: int, nursery: Nursery, folder: Path) -> None:
    """Rounds with kills, until there were so many."""
    database = _database(kind, folder)
    number = 0
    while done(kind) < kills:
        number += 1
        store = f"sqlite:///{folder}/round{number}.db" if database is None else database.new(f"round{number}")
        turn = Round(kind, store, nursery, database, random.SystemRandom().getrandbits(32))
        note(asyncio.run(turn.play(each)))
        print(f"{done(kind)} of {kills} kills on {kind}", flush=True)
    if database is not None:
        database.close()


def fill_disk_of(kind: str, times: int, nursery: Nursery) -> None:
    """A round in which the disk is full now and then."""
    with disks.small_disk(24 if kind == "sqlite" else 800) as disk:
        if disk is None:
            print("no disk could be made (that needs root), so none was filled", flush=True)
            return
        database = _database(kind, disk)
        store = f"sqlite:///{disk}/store.db" if database is None else database.new("filled")
        turn = Round(f"full disk, {kind}", store, nursery, database, random.SystemRandom().getrandbits(32))
        note(asyncio.run(turn.play(times, disk)))
        if database is not None:
            database.close()


def stop_servers_of(kind: str, times: int, nursery: Nursery, folder: Path) -> None:
    """A round in which servers stand still, one after the other."""
    database = _database(kind, folder)
    store = f"sqlite:///{folder}/frozen.db" if database is None else database.new("frozen")
    turn = Round(f"standing still, {kind}", store, nursery, database, random.SystemRandom().getrandbits(32))
    note(asyncio.run(turn.play(0, still=times)))
    if database is not None:
        database.close()


def _database(kind: str, folder: Path) -> Any:
    if kind == "sqlite":
        return None
    from tests.faults.postgres import Database

    return Database(folder / "pg")


def main() -> None:
    """Go on until there were so many kills on each store; then fill disks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--kills", type=int, default=500, help="on each store, with those of earlier rounds")
    parser.add_argument("--each", type=int, default=EACH, help="in one round")
    parser.add_argument("--full", type=int, default=3, help="how often the disk of each store is full")
    parser.add_argument("--still", type=int, default=6, help="how often a server of each store stands still")
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    nursery = Nursery()
    try:
        for kind in ("sqlite", "postgres") if given.store == "both" else (given.store,):
            if given.full:
                fill_disk_of(kind, given.full, nursery)
            with tempfile.TemporaryDirectory() as folder:
                if given.still:
                    stop_servers_of(kind, given.still, nursery, Path(folder))
                kill_on(kind, given.kills, given.each, nursery, Path(folder))
    finally:
        nursery.close()


if __name__ == "__main__":
    main()
