"""``pmbandits board FOLDER``: a simulation, while it is played or afterwards."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits.metrics.distortion import Distortion
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.simulation.onlooker import Onlooker

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_MOST_LINES = 12  # policies in the chart of regret
_MOST_MARKS = 50  # changes of the arms that are listed
_MOST_VALUED = 200  # arms; of more, each alone is not valued


class Watched:
    """A folder, for several questions at a time."""

    def __init__(self, folder: Path) -> None:
        self.seen = Onlooker(folder)
        self._lock = threading.Lock()
        self.seen.refresh()

    def moved(self) -> dict[str, Any]:
        """How far it is."""
        with self._lock:
            self.seen.refresh()
            return {"done": self.seen.done, "total": self.seen.total}

    def view(self, policy: str | None = None, trial: str | None = None) -> dict[str, Any]:
        """What the page shows, of one policy and one trial."""
        with self._lock:
            self.seen.refresh()
            return _view(self.seen, policy, trial)


def _view(seen: Onlooker, policy: str | None, trial: str | None) -> dict[str, Any]:
    line = seen.place(policy)
    lives = seen.lives[line]
    shown = sorted(lives)
    at = int(trial) if trial and trial.isdigit() and int(trial) in lives else (shown[0] if shown else None)
    said = seen.said()
    known = seen.known()
    arms = view.coloured(seen.names)
    out: dict[str, Any] = {
        "kind": "folder",
        "title": seen.folder.name or str(seen.folder),
        "status": "finished" if seen.finished else "running",
        "facts": _facts(seen, known),
        "progress": {"done": seen.done, "total": seen.total},
        "choices": {"policies": said, "policy": said[line], "trials": shown[:500], "trial": at},
        "policies": [],
        "metric": _metric(known, seen),
        "arms": arms,
        "history": {"x": [], "played": [], "wanted": []},
        "marks": [],
        "curves": {"x": [], "bend": 0.0, "arms": []},
        "warnings": [],
        "decisions": [],
    }
    for k, label in list(enumerate(said))[:_MOST_LINES]:
        regret = seen.regret(k)
        if regret is None:
            continue
        mean, error = regret
        out["policies"].append({
            "label": label, "t": seen.lines[k].checkpoints, "mean": mean, "error": error, "trials": len(seen.lives[k]),
            "seconds": float(np.mean([life.seconds for life in seen.lives[k].values()])),
        })  # fmt: skip
    if at is None:
        return out
    life = lives[at]
    t = seen.lines[line].checkpoints
    drawn = view.most_played(np.maximum(life.played[-1], life.wanted[-1]), 8)
    out["history"] = {
        "x": t,
        "log": True,
        "played": [{"place": k, "y": 100.0 * life.played[:, k]} for k in drawn],
        "wanted": [{"place": k, "y": 100.0 * life.wanted[:, k]} for k in drawn],
    }
    out["marks"] = [{"x": end, "text": f"a phase ended after round {end:,}"} for end in life.ends if 0 < end <= t[-1]]
    said_of = {"add": "came", "pause": "paused", "resume": "came back", "retire": "left for good"}
    for after, verb, arm in seen.spec.get("schedule", []):
        out["marks"].append({"x": after, "text": f"{arm} {said_of.get(verb, verb)} after round {after:,}"})
    planned = {after for after, *_ in seen.spec.get("schedule", [])}
    out["marks"] += [
        {"x": turn, "text": f"the arms changed after round {turn:,}"}
        for turn in seen.turns[:-1][:_MOST_MARKS] if turn not in planned
    ]  # fmt: skip
    out["marks"].sort(key=lambda mark: mark["x"])
    weights = known[2].weights if known is not None else None
    singles = seen.singles() if len(seen.names) <= _MOST_VALUED else None
    for k, arm in enumerate(arms):
        arm |= {
            "played": view.share(life.played[-1, k]),
            "wanted": view.share(life.wanted[-1, k]),
            "best": None if weights is None else view.share(weights[k]),
            "pulls": round(float(life.played[-1, k]) * int(t[-1])),
            "worth": None if singles is None else singles[k],
        }
    if known is not None:
        out["curves"] = view.true(known[0], known[1].laws, drawn)
    return out


def _metric(known: Any, seen: Onlooker) -> dict[str, Any]:
    if known is not None:
        return view.preference(known[0])
    try:
        return view.preference(Distortion.from_dict(seen.spec["metric"]))
    except (ValueError, TypeError, LookupError):
        return {"text": seen.metric_text, "words": "", "u": [], "h": []}


def _facts(seen: Onlooker, known: Any) -> list[list[str]]:
    rounds = max(line.horizon for line in seen.lines)
    out = [
        ["preference", seen.metric_text],
        ["rounds", f"{rounds:,}"],
        ["trials", f"{len(seen.trials):,}"],
        ["seed", str(seen.spec.get("seed"))],
    ]
    if known is not None:
        best = known[2]
        used = [f"{100 * best.weights[k]:.0f} % {seen.names[k]}" for k in np.flatnonzero(best.weights > 0.0)[:6]]
        out.append(["a best mixture", f"{' + '.join(used)}, worth {best.value:.5g}"])
    else:
        out.append(["regret", "of a world that changes, it is shown when the run is finished"])
    return out


def make(watched: Watched) -> Starlette:
    """The app, without its watchman."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    async def page(request: Request) -> Response:
        text = view.page(watched.seen.folder.name or "a simulation", kind="folder")
        return HTMLResponse(text, headers={**web.HEADERS, "Cache-Control": "no-store"})

    async def file(request: Request) -> Response:
        return web.asset(request.path_params["name"])

    async def shown(request: Request) -> Response:
        given = request.query_params
        return web.as_json(await run_in_threadpool(watched.view, given.get("policy"), given.get("trial")))

    async def stream(request: Request) -> Response:
        return view.as_stream(view.stream(lambda: run_in_threadpool(watched.moved), bell))

    bell = view.Bell()

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        web.when_told_to_stop(bell.close)
        yield

    return Starlette(
        lifespan=life,
        routes=[
            Route("/", page),
            Route("/assets/{name}", file),
            Route("/view", web.kindly(shown)),
            Route("/stream", stream),
        ],
    )


def run(folder: Path, *, port: int, show: Callable[[str], None], browse: bool) -> None:
    """``pmbandits board``."""
    watched = Watched(folder)
    web.serve(lambda: make(watched), port=port, show=show, browse=browse)
