"""How long a start takes when there is much to read, and what becomes of memory when a service runs for long."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks import live
from pmbandits.service.events import ASK, INSERT, TELL
from pmbandits.service.replay import policy_from_spec, policy_to_bytes
from pmbandits.service.store import Snapshot, Store

EVENTS = int(float(os.environ.get("START_EVENTS", "1e6")))
MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
CLIENTS, PAUSE = 16, "0.02"  # each rests after each pair, so that the pace is that of a service with time to spare
PAGE = os.sysconf("SC_PAGE_SIZE")


# ---- a start --------------------------------------------------------------------------------------------------------
def starts() -> Iterator[Table]:
    """Seconds until a service with a million events says that it is ready, and of the processor."""
    title = f"A start with {EVENTS:,} events: imports, reading, warm-up, until /ready (median of {live.TIMES})"
    table = Table("storage", "saved policy", "seconds", "CPU seconds of the process", title=title)
    with tempfile.TemporaryDirectory() as folder, live.stores(Path(folder)) as known:
        for storage, url in known.items():
            exp, policy = _filled(url)
            for saved in (False, True):
                if saved:  # as far behind as the service ever leaves it
                    store = Store(url)
                    store.save_snapshot(exp, policy)
                    store.close()
                took = np.median([_start(url) for _ in range(live.TIMES)], axis=0)
                kind = f"after {policy.seq:,} events" if saved else "none"
                table.add_row(storage, kind, f"{took[0]:.1f}", f"{took[1]:.1f}")
    yield table


def _start(url: str) -> tuple[float, float]:
    began = time.perf_counter()
    with live.serving(url, 1) as (_, _, pid):
        seconds = time.perf_counter() - began
        cpu = _cpu(pid)
    return seconds, cpu


def _cpu(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def _filled(url: str) -> tuple[int, Snapshot]:
    """An experiment with so many events, asks and tells in turn; and its policy as it was after three quarters."""
    store = Store(url)
    exp = store.create_experiment("long", live.SPEC, "benchmark").id
    policy, rng, rows, kept = policy_from_spec(live.SPEC), np.random.default_rng(0), [], b""
    upto = 3 * EVENTS // 8 * 2 + 2
    for seq, reward in enumerate(rng.random(EVENTS // 2).tolist()):
        arm = policy.ask()
        policy.tell(arm, reward)
        rows.append((exp, 2 * seq + 1, ASK, None, arm, 0.2, 0, None, 2 * seq + 1))
        rows.append((exp, 2 * seq + 2, TELL, 2 * seq + 1, arm, reward, 0, None, 2 * seq + 2))
        if 2 * seq + 2 == upto:
            kept = policy_to_bytes(policy)
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.executemany(INSERT["events"], rows)
        connection.close()
    else:
        import psycopg

        with psycopg.connect(url) as server, server.cursor().copy("COPY events FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    store.close()
    return exp, Snapshot(upto, upto, kept)


# ---- many minutes ---------------------------------------------------------------------------------------------------
def soak() -> Iterator[Table]:
    """Memory, files and pace of two processes on one file of SQLite, minute by minute."""
    first = ("minute", "pairs/s", "ask p50", "ask p99 (ms)", "sent again")
    title = f"Two processes with {CLIENTS // 2} clients each, which rest {PAUSE} s after each pair; SQLite"
    table = Table(*first, "memory (MB)", "files", "events", "store (MB)", "WAL (MB)", title=title)
    os.environ["LOAD_PAUSE"] = PAUSE
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "soak.db"
        url = f"sqlite:///{file}"
        store = Store(url)
        exp = store.create_experiment("soak", live.SPEC, "benchmark").id
        # Each has its own port: of two at one port, the system gives most clients to one while there is little to do.
        with live.serving(url, 1) as one, live.serving(url, 1) as two, ThreadPoolExecutor(2) as both:
            for minute in range(1, max(1, round(MINUTES)) + 1):
                seen = list(both.map(_minute, (one, two)))
                pids = one[2], two[2]
                row = (
                    str(minute), f"{sum(side['pairs'] for side in seen):,.0f}",
                    f"{np.mean([side['ask50'] for side in seen]):.1f}", f"{max(side['ask99'] for side in seen):.1f}",
                    f"{sum(side['again'] for side in seen):.0f}",
                    " + ".join(f"{_memory(pid):.1f}" for pid in pids),
                    " + ".join(str(len(os.listdir(f"/proc/{pid}/fd"))) for pid in pids),
                    f"{store.last_seq(exp):,}", f"{file.stat().st_size / 1e6:.1f}",
                    f"{file.with_name(file.name + '-wal').stat().st_size / 1e6:.1f}",
                )  # fmt: skip
                print(*row, sep="\t", file=sys.stderr, flush=True)
                table.add_row(*row)
        store.close()
    yield table


def _minute(served: tuple[str, str, int]) -> dict[str, float]:
    return live.load(served[0], served[1], "soak", CLIENTS // 2, seconds=58.0)


def _memory(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6
