"""A failover with a lagging copy: PostgreSQL's own standby takes over, and does not have the newest events.

``python -m tests.faults.replica`` needs root and Debian's PostgreSQL. What the copy never got is lost, as it must be.
What is looked at: whether any process keeps, saves or serves what is gone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.__main__ import OUT, Round, kill, prepare
from tests.faults.clients import Administrator, Client, Known
from tests.faults.experiments import EXPERIMENTS
from tests.faults.nursery import Nursery
from tests.faults.verdict import _exported
from tests.service.replaying import replayed, rows_of, same

BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
SECONDS = 4.0  # of load before the copy stops, after that, and after the failover


class Pair:
    """A PostgreSQL and its standby; who takes over gets the port of the first."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port, self.first, self.second = port, folder / "first", folder / "second"
        shutil.chown(folder, "postgres")
        self._run("initdb", "-D", self.first, "-A", "trust", "--no-sync")
        with (self.first / "postgresql.conf").open("a") as file:
            file.write(f"\nport = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\n")
        self._start(self.first)
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self._run("pg_basebackup", "-D", self.second, "-R", "-X", "stream", "-c", "fast", "-d", address)
        with (self.second / "postgresql.conf").open("a") as file:
            file.write(f"\nport = {port + 1}\n")
        self._start(self.second)
        self.url = f"postgresql://postgres@127.0.0.1:{port}/shop"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")

    def _run(self, program: str, *given: object) -> None:
        words = ["runuser", "-u", "postgres", "--", str(BIN[0] / program), *map(str, given)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/tmp", timeout=120)

    def _start(self, data: Path) -> None:
        self._run("pg_ctl", "-D", data, "-w", "-l", data.with_suffix(".log"), "start")

    def stop_copy(self) -> None:
        """From now on the standby gets nothing."""
        self._run("pg_ctl", "-D", self.second, "-m", "fast", "-w", "stop")

    def fail_over(self) -> None:
        """The first one dies, and the standby takes over, as it is."""
        self._run("pg_ctl", "-D", self.first, "-m", "immediate", "-w", "stop")
        with (self.second / "postgresql.conf").open("a") as file:
            file.write(f"\nport = {self.port}\n")
        self._start(self.second)
        self._run("pg_ctl", "-D", self.second, "-w", "promote")

    def close(self) -> None:
        self._run("pg_ctl", "-D", self.second, "-m", "immediate", "-w", "stop")


async def play(turn: Round, pair: Pair) -> dict[str, Any]:
    """Load, a copy that lags, a failover, and load again, with the same servers all the time."""
    before, after = Known(), Known()
    await _load(turn, before, SECONDS)
    await asyncio.to_thread(pair.stop_copy)
    await _load(turn, before, SECONDS)
    await asyncio.to_thread(pair.fail_over)
    kept = {name: rows_of(turn.store, name)[1] for name in EXPERIMENTS}
    await _load(turn, after, SECONDS)
    found = {"failovers": 1, "kept": 0, "lost": 0, "events": 0, "compared": 0}
    for name in EXPERIMENTS:
        spec, rows = rows_of(turn.store, name)
        alone = replayed(spec, rows)
        asks = {row[0]: alone.names[row[3]] for row in rows if row[1] in (0, 3)}
        last = kept[name][-1][0]
        assert rows[: len(kept[name])] == kept[name], "what the copy had is as it was"
        for ticket, arm, _ in before.asked[name]:
            found["kept" if ticket <= last else "lost"] += 1
            assert ticket > last or asks[ticket] == arm
        for ticket, arm, _ in after.asked[name]:
            assert asks[ticket] == arm, f"{name}: the ask {ticket} after the failover"
        tells = {row[2]: row[4] for row in rows if row[1] in (1, 2)}
        assert all(tells.get(ticket) == reward for ticket, reward in after.told[name])
        for port in turn.ports:
            same(_exported(port, name), alone)
            found["compared"] += 1
        found["events"] += len(rows)
    assert found["lost"] > 0, "the copy did not lag"
    return found


async def _load(turn: Round, known: Known, seconds: float) -> None:
    going = asyncio.Event()
    going.set()
    kinds = [Client] * 8 + [Administrator]
    tasks = [asyncio.create_task(kind(turn.ports, known, turn.rng.getrandbits(32)).run(going)) for kind in kinds]
    await asyncio.sleep(seconds)
    going.clear()
    await asyncio.wait_for(asyncio.gather(*tasks), 120)


def main(times: int) -> None:
    """Fail over so often."""
    OUT.mkdir(parents=True, exist_ok=True)
    nursery = Nursery()
    try:
        for number in range(times):
            with tempfile.TemporaryDirectory(prefix="replica-") as folder:
                pair = Pair(Path(folder), 54_000 + 2 * number)
                turn = Round("replica", pair.url, nursery, None, seed=number)
                began = time.monotonic()
                prepare(turn.store)
                turn.pids = {port: nursery.start(turn.store, port) for port in turn.ports}
                turn.wait()
                found = asyncio.run(play(turn, pair))
                for pid in turn.pids.values():
                    kill(pid)
                print(json.dumps({**found, "seconds": round(time.monotonic() - began)}), flush=True)
                pair.close()
    finally:
        nursery.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
