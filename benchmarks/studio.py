"""The studio and the board: how long a move of a slider takes, and what an update costs the browser.

Times of the server are computing time of its process. Those of the browser are computing time of its main thread for
all that an update needs (scripts, layout, painting), as chromium itself counts it.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from rich.table import Table

from pmbandits.pages.studio import answers
from pmbandits.pages.studio.table import Table as Rewards

MOVES = {
    "quadratic({})": (0.2, 0.9),
    "cvar({})": (0.5, 0.95),
    "{}*mean + 0.3*cvar(0.9)": (0.3, 0.9),
    "pht({})": (0.3, 0.9),
    "lower_cvar({})": (0.05, 0.5),
    "mean - {}*gini": (0.1, 0.9),
    "tversky_kahneman({})": (0.4, 0.9),
    "var({})": (0.2, 0.8),
    "{}*mean + inter_quantile_range": (0.1, 0.9),
}
LIMITS = {"arms": {"a1": [10, 100], "a2": [10, 100], "a3": [0, 30], "a9": [0, 40]}}


def rewards(kind: str, arms: int = 10, n: int = 10_000) -> Rewards:
    """A table in the studio, as if it had been dropped in."""
    rng = np.random.default_rng(0)
    file = Path(mkdtemp()) / f"{kind}.csv"
    with file.open("w") as out:
        out.write("arm,reward\n")
        for k in range(arms):
            x = rng.gamma(1.0 + 0.2 * k, 1.0, n)
            if kind == "mostly zero":
                x = np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(2.0 + 0.1 * k, 1.0, n)).round(2)
            out.writelines(f"a{k},{value!r}\n" for value in x.tolist())
    table = Rewards(file, file.name, own=False)
    table.read({"arm": "arm", "reward": "reward"})
    return table


def tables() -> Iterator[Table]:
    """What is measured."""
    for kind in ("all different", "mostly zero"):
        table = rewards(kind)
        shown = Table(title=f"A move of a slider: 10 arms × 10,000 rewards, {kind} (ms of the server; limit 100)")
        for head in ("preference", "median", "largest", "within limits", "largest "):
            shown.add_column(head, justify="left" if head == "preference" else "right")
        for text, (low, high) in MOVES.items():
            cells = []
            for limits in (None, LIMITS):
                spent = []
                for value in np.linspace(low, high, 12):
                    start = time.process_time()
                    answers.look(table, {"metric": text.format(round(float(value), 4)), "limits": limits})
                    spent.append(1e3 * (time.process_time() - start))
                cells += [f"{np.median(spent[1:]):.0f}", f"{max(spent[1:]):.0f}"]
            shown.add_row(text, *cells)
        yield shown
    found = _in_a_browser()
    if found is not None:
        yield found


# ---- the board -------------------------------------------------------------------------------------------


def _history(arms: int, points: int) -> tuple[list[int], list[dict[str, Any]]]:
    rng = np.random.default_rng(0)
    t = np.unique(np.geomspace(20, 500_000, points).astype(int))
    wanted = rng.dirichlet(np.ones(arms)) + 0.3 * rng.normal(size=(t.size, arms)).cumsum(axis=0) / np.sqrt(t.size)
    wanted = np.abs(wanted) / np.abs(wanted).sum(axis=1, keepdims=True)
    sure = {"utility": 0.5, "lower": 0.4, "upper": 0.6, "rival": 0.7}
    rows = [{"played": (100 * w).round(3).tolist(), "wanted": (100 * w).round(3).tolist(), **sure} for w in wanted]
    return t.tolist(), rows


def _view(arms: int, seq: int, after: int) -> dict[str, Any]:
    """What the service would send of an experiment with a million events."""
    from pmbandits.pages.board import view

    t, rows = _history(arms, 510)
    names = [f"arm {k}" for k in range(arms)]
    x = np.linspace(0.0, 1.0, view.GRID)
    curves = [
        {"place": k, "above": (1 - x) ** (1 + k / 5), "low": (1 - x) ** (1.2 + k / 5), "high": (1 - x) ** (0.8 + k / 5),
         "bent": x * (1 - x), "bent_low": 0.9 * x * (1 - x), "bent_high": 1.1 * x * (1 - x)}
        for k in range(arms)
    ]  # fmt: skip
    shares = np.random.default_rng(seq).dirichlet(np.ones(arms))
    listed = [
        arm | {"played": float(s), "wanted": float(s), "pulls": 25_000, "rewards": 25_000, "mean": 0.4, "plays": True,
               "alone": {"lower": 0.1, "utility": 0.2, "upper": 0.3}}
        for arm, s in zip(view.coloured(names), shares, strict=True)
    ]  # fmt: skip
    reasons = [
        {"when": "now", "what": f"ask {k}", "arm": "arm 1", "reason": "It is 0.4 pulls behind."} for k in range(12)
    ]
    new = after == 0
    return {
        "kind": "experiment", "title": "a million events", "status": "running", "facts": [["rounds", "500,000"]],
        "arms": listed, "metric": {"text": "gini", "words": "", "u": x, "h": x * (1 - x)},
        "history": {"x": t if new else [], "rows": rows if new else [], "seq": 1_000_000,
                    "now": {"x": 500_001 + seq, "row": rows[-1]}},
        "marks": [{"x": 1000 * k, "text": f"event {k}"} for k in range(1, 20)],
        "curves": {"x": x, "bend": 0.0, "arms": curves}, "limits": None, "warnings": [], "decisions": reasons,
        "sure": {"certainty": "With probability 95 %, …", "forecast": "", "explanation": "Next: …"},
    }  # fmt: skip


def _in_a_browser(arms: int = 20, updates: int = 20) -> Table | None:
    try:
        import uvicorn
        from playwright.sync_api import sync_playwright
        from starlette.applications import Starlette
        from starlette.responses import HTMLResponse
        from starlette.routing import Route
    except ImportError:
        return None
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from pmbandits.pages import web
    from pmbandits.pages.board import view

    moved = {"events": 1_000_000}

    async def page(request: Any) -> Any:
        return HTMLResponse(view.page("a million events", kind="experiment", root="../"), headers=web.HEADERS)

    async def shown(request: Any) -> Any:
        after = int(request.query_params.get("after", 0))
        return web.as_json(_view(arms, moved["events"] - 1_000_000, after))

    async def stream(request: Any) -> Any:
        async def seen() -> Any:
            return {"events": moved["events"], "status": "running"}

        return view.as_stream(view.stream(seen, every=0.1))

    async def asset(request: Any) -> Any:
        return web.asset(request.path_params["name"])

    app = Starlette(
        routes=[Route("/board/x/", page), Route("/board/x/view", shown), Route("/board/x/stream", stream),
                Route("/board/assets/{name}", asset)]
    )  # fmt: skip
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/board/x/"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        size: list[int] = []
        tab.on("response", lambda answer: size.append(int(answer.headers.get("content-length", 0))))
        talk = tab.context.new_cdp_session(tab)
        talk.send("Performance.enable", {"timeDomain": "threadTicks"})  # computing time, not the clock
        tab.goto(address)
        tab.wait_for_selector("body[data-ready]")
        tab.wait_for_timeout(500)
        loaded = sum(size)
        paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")

        def busy() -> float:
            found = {m["name"]: m["value"] for m in talk.send("Performance.getMetrics")["metrics"]}
            return 1e3 * float(found["TaskDuration"])

        spent = []
        for _ in range(updates):
            before, drawn = busy(), int(tab.evaluate("Number(document.body.dataset.drawn)"))
            moved["events"] += 1
            while int(tab.evaluate("Number(document.body.dataset.drawn)")) == drawn:
                tab.wait_for_timeout(50)
            tab.wait_for_timeout(150)
            spent.append(busy() - before)
        browser.close()
    server.should_exit = True
    thread.join(timeout=5)
    out = Table(title=f"The board in a browser: a million events, {arms} arms")
    for head in ("what", "measured", "limit"):
        out.add_column(head, justify="left" if head == "what" else "right")
    out.add_row("bytes until it stands", f"{loaded:,}", "1,000,000")
    out.add_row("first paint, ms of the clock", f"{paint:.0f}", "1,000")
    out.add_row("an update, ms of the main thread: median", f"{np.median(spent):.0f}", "100")
    out.add_row("an update, ms of the main thread: largest", f"{max(spent):.0f}", "100")
    return out
