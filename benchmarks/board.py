"""The board of a real experiment: a store with a million events and 20 arms, served as users serve it.

What a browser needs (first paint, bytes, main thread while events keep coming), and what people who look cost the
service and those who ask it. Computing time of the service is that of its process, as the system counts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sqlalchemy import insert

from benchmarks.live import serving
from pmbandits.service import history
from pmbandits.service.events import WriteBatch
from pmbandits.service.experiment import LiveExperiment
from pmbandits.service.messages import Ask, AskedMany, Tell
from pmbandits.service.replay import PolicyReplay, policy_from_spec, policy_to_bytes
from pmbandits.service.schema import points
from pmbandits.service.store import Snapshot, Store, now_ms

EVENTS = int(float(os.environ.get("BOARD_EVENTS", "1e6")))
ARMS = 20
RATE = 200.0  # asks a second, each with its tell, while somebody looks
SECONDS = float(os.environ.get("BOARD_SECONDS", "20"))
CHROMIUM = shutil.which("chromium")


async def fill(url: str, name: str, options: dict[str, Any], events: int = EVENTS, batch: int = 500) -> None:
    """An experiment in a store, by the service's own code but without HTTP: events, points of its past, its policy."""
    names = [f"arm {k}" for k in range(ARMS)]
    spec = {
        "metric": "gini", "arms": names, "support": {"kind": "interval", "lo": 0.0, "hi": 1.0}, "policy": "track",
        "options": options, "seed": 0, "shares": None,
    }  # fmt: skip
    store, rng, last = Store(url), np.random.default_rng(0), 0
    record, transaction, past = store.create_experiment(name, spec, "benchmark"), store.new_transaction(), []
    live, place = (
        LiveExperiment(record, PolicyReplay(policy_from_spec(spec), 0, record.root)),
        {arm: k for k, arm in enumerate(names)},
    )
    while live.replay.seen < events:
        draft = WriteBatch()
        asked = live.ask(Ask(n=batch), draft)
        assert isinstance(asked, AskedMany)
        k = np.array([place[arm] for arm in asked.arms])
        rewards = rng.beta(2.0 + k / 5.0, 2.0 + (ARMS - 1.0 - k) / 5.0)
        live.tell(Tell(tickets=asked.tickets, rewards=rewards.tolist()), draft)
        live.extend_hash_chain(draft)
        await transaction.run([], lambda _, written=draft: written, alone=True)  # type: ignore[misc]
        live.trim_caches()
        if history.is_point_due(last, live.replay.seen):
            last = live.replay.seen
            point = {"exp": record.id, "seq": last, "digest": live.replay.digest, "at": now_ms()}
            past.append({**point, "content": json.dumps(history.history_point(live.replay.policy))})
    with store.write_transaction() as connection:
        connection.execute(insert(points), past)
    store.save_snapshot(record.id, Snapshot(live.replay.seen, live.replay.digest, policy_to_bytes(live.replay.policy)))
    transaction.close()
    store.close()


def watched(address: str, key: str, name: str, viewers: int, process: int) -> dict[str, float]:
    """What asks take while so many look, and what all of it costs the service."""
    numbers = [str(viewers), str(SECONDS), str(RATE), str(process)]
    command = [sys.executable, "-m", "benchmarks.onlookers", address, key, name, *numbers]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def in_a_browser(address: str, key: str, name: str, updates: int = 20) -> dict[str, float] | None:
    """What the page costs a browser while events keep coming."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if CHROMIUM is None:
        return None
    numbers = ["0", str(updates * 3 + 30), str(RATE), str(os.getpid())]
    command = [sys.executable, "-m", "benchmarks.onlookers", address, key, name, *numbers]
    with sync_playwright() as play, subprocess.Popen(command, stdout=subprocess.DEVNULL) as load:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_context(http_credentials={"username": "me", "password": key}).new_page()
        size: list[int] = []
        tab.on("response", lambda answer: size.append(int(answer.headers.get("content-length", 0))))
        talk = tab.context.new_cdp_session(tab)
        talk.send("Performance.enable", {"timeDomain": "threadTicks"})  # computing time, not the clock
        start = time.perf_counter()
        tab.goto(f"{address}/board/{name}/")
        tab.wait_for_selector("body[data-ready]")
        stands = 1e3 * (time.perf_counter() - start)
        tab.wait_for_timeout(3000)
        loaded = sum(size)
        paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")

        def busy() -> float:
            found = {m["name"]: m["value"] for m in talk.send("Performance.getMetrics")["metrics"]}
            return 1e3 * float(found["TaskDuration"])

        def drawn() -> int:
            return int(tab.evaluate("Number(document.body.dataset.drawn)"))

        spent = []
        for _ in range(updates):
            count, before = drawn(), busy()
            while (more := drawn() - count) == 0:
                tab.wait_for_timeout(50)
            tab.wait_for_timeout(150)
            spent.append((busy() - before) / max(more, 1))
        browser.close()
        load.terminate()
    return {"paint": paint, "stands": stands, "bytes": loaded, "median": float(np.median(spent)), "most": max(spent)}


def tables() -> Iterator[Table]:
    """The browser, and the service, with rewards kept one by one and in bins."""
    page = Table(title=f"The board in a browser: {EVENTS:,} events, {ARMS} arms, {RATE:g} asks a second meanwhile")
    cost = Table(title=f"People who look at it, {RATE:g} asks a second meanwhile ({SECONDS:g} s each)")
    for head in ("estimates", "first paint (ms; ≤ 1,000)", "numbers stand (ms)", "bytes in 3 s (≤ 1,000,000)",
                 "update, main thread (ms; ≤ 100)", "largest"):  # fmt: skip
        page.add_column(head, justify="left" if head == "estimates" else "right")
    for head in ("estimates", "people", "service (CPU ms/s)", "more than alone", "updates/s each", "bytes each",
                 "ask p50 (ms)", "ask p99 (ms)"):  # fmt: skip
        cost.add_column(head, justify="left" if head == "estimates" else "right")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'board.db'}"
        kinds: dict[str, dict[str, Any]] = {"exact": {}, "binned": {"estimates": "binned"}}
        for name, options in kinds.items():
            asyncio.run(fill(url, name, options))
        with serving(url, 1) as (address, key, process):
            for name in kinds:
                seen = in_a_browser(address, key, name)
                if seen is not None:
                    numbers = [f"{seen[k]:,.0f}" for k in ("paint", "stands", "bytes", "median", "most")]
                    page.add_row(name, *numbers)
            for name in kinds:
                alone = 0.0
                for viewers in (0, 1, 20):
                    found = watched(address, key, name, viewers, process)
                    alone = found["cpu"] if viewers == 0 else alone
                    shown = [f"{found['cpu']:.0f}", f"{found['cpu'] - alone:+.0f}", f"{found['fetched']:.2f}"]
                    shown += [f"{found['bytes']:,.0f}", f"{found['ask50']:.1f}", f"{found['ask99']:.1f}"]
                    cost.add_row(name, str(viewers), *shown)
    if page.row_count:
        yield page
    yield cost
