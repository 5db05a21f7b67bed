"""``pmbandits board FOLDER``: a simulation, while it is played or afterwards."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pmbandits.metrics.distortion import Distortion
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.simulation.live_view import FolderReader

_MOST_LINES = 12  # policies in the chart of regret
_MOST_MARKS = 50  # changes of the arms that are listed
_MOST_VALUED = 200  # arms; of more, each alone is not valued


class WatchedRun:
    """The folder of a simulation, read by several requests at a time."""

    def __init__(self, folder: Path) -> None:
        self.seen = FolderReader(folder)
        self._lock = threading.Lock()
        self.seen.read_new_records()

    def trials_done_and_total(self) -> dict[str, Any]:
        """How many trials are done, and of how many."""
        with self._lock:
            self.seen.read_new_records()
            return {"done": self.seen.n_finished_trials, "total": self.seen.n_trials_in_all}

    def view(self, policy: str | None = None, trial: str | None = None) -> dict[str, Any]:
        """What the page shows, of one policy and one trial."""
        with self._lock:
            self.seen.read_new_records()
            return _run_for_page(self.seen, policy, trial)


def _run_for_page(seen: FolderReader, policy: str | None, trial: str | None) -> dict[str, Any]:
    line = seen.line_index(policy)
    trials = seen.finished_trials[line]
    shown = sorted(trials)
    at = int(trial) if trial and trial.isdigit() and int(trial) in trials else (shown[0] if shown else None)
    policy_names = seen.policy_names()
    known = seen.true_instance_and_best_mixture()
    out: dict[str, Any] = {
        "kind": "folder",
        "title": seen.folder.name or str(seen.folder),
        "status": "finished" if seen.is_finished else "running",
        "facts": _run_facts_table(seen, known),
        "progress": {"done": seen.n_finished_trials, "total": seen.n_trials_in_all},
        "choices": {"policies": policy_names, "policy": policy_names[line], "trials": shown[:500], "trial": at},
        "policies": _regret_lines(seen, policy_names[:_MOST_LINES]),
        "metric": _metric_for_page(known, seen),
        "arms": view.arms_with_colours(seen.names),
        "history": {"x": [], "played": [], "wanted": []},
        "marks": [],
        "curves": {"x": [], "bend": 0.0, "arms": []},
        "warnings": [],
        "decisions": [],
    }
    if at is not None:
        _add_trial_to_view(out, seen, line, trials[at], known)
    return out


def _regret_lines(seen: FolderReader, policy_names: Sequence[str]) -> list[dict[str, Any]]:
    """The curve of regret of each policy that has one."""
    out = []
    for k, label in enumerate(policy_names):
        regret = seen.mean_regret_and_error(k)
        if regret is not None:
            trials = seen.finished_trials[k].values()
            seconds = float(np.mean([trial.seconds for trial in trials]))
            out.append(
                {
                    "label": label,
                    "t": seen.lines[k].checkpoints,
                    "mean": regret[0],
                    "error": regret[1],
                    "trials": len(trials),
                    "seconds": seconds,
                }
            )
    return out


def _add_trial_to_view(out: dict[str, Any], seen: FolderReader, line: int, trial: Any, known: Any) -> None:
    """Add what one trial shows: shares over time, what happened, the arms at the end, and their curves."""
    t = seen.lines[line].checkpoints
    drawn = view.most_played_arms(np.maximum(trial.played[-1], trial.wanted[-1]), 8)
    out["history"] = {
        "x": t,
        "log": True,
        "played": [{"place": k, "y": 100.0 * trial.played[:, k]} for k in drawn],
        "wanted": [{"place": k, "y": 100.0 * trial.wanted[:, k]} for k in drawn],
    }
    out["marks"] = _events_of_trial(seen, [end for end in trial.ends if 0 < end <= t[-1]])
    weights = known[2].weights if known is not None else None
    arm_utilities = seen.arm_utilities() if len(seen.names) <= _MOST_VALUED else None
    for k, arm in enumerate(out["arms"]):
        arm |= {
            "played": view.clean_share(trial.played[-1, k]),
            "wanted": view.clean_share(trial.wanted[-1, k]),
            "best": None if weights is None else view.clean_share(weights[k]),
            "pulls": round(float(trial.played[-1, k]) * int(t[-1])),
            "worth": None if arm_utilities is None else arm_utilities[k],
        }
    if known is not None:
        out["curves"] = view.true_curves(known[0], known[1].distributions, drawn)


def _events_of_trial(seen: FolderReader, phase_ends: Sequence[int]) -> list[dict[str, Any]]:
    """What happened in a trial, in the order of rounds: phases, arms that came and went, and changes of the arms."""
    said_of = {"add": "came", "pause": "paused", "resume": "came back", "retire": "left for good"}
    schedule = seen.spec.get("schedule", [])
    planned = {after for after, *_ in schedule}
    marks = [(end, f"a phase ended after round {end:,}") for end in phase_ends]
    marks += [(after, f"{arm} {said_of.get(verb, verb)} after round {after:,}") for after, verb, arm in schedule]
    changes = [turn for turn in seen.period_ends[:-1][:_MOST_MARKS] if turn not in planned]
    marks += [(turn, f"the arms changed after round {turn:,}") for turn in changes]
    return [{"x": x, "text": text} for x, text in sorted(marks, key=lambda mark: mark[0])]


def _metric_for_page(known: Any, seen: FolderReader) -> dict[str, Any]:
    if known is not None:
        return view.metric_text_and_curve(known[0])
    try:
        return view.metric_text_and_curve(Distortion.from_dict(seen.spec["metric"]))
    except (ValueError, TypeError, LookupError):
        return {"text": seen.metric_text, "words": "", "u": [], "h": []}


def _run_facts_table(seen: FolderReader, known: Any) -> list[list[str]]:
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


def make_app(watched: WatchedRun) -> Starlette:
    """The Starlette app of the board, without the token middleware."""
    notifier = view.Notifier()

    async def page(request: Request) -> Response:
        text = view.board_page(watched.seen.folder.name or "a simulation", kind="folder")
        return HTMLResponse(text, headers={**web.HEADERS, "Cache-Control": "no-store"})

    async def shown(request: Request) -> Response:
        given = request.query_params
        return web.json_response(await run_in_threadpool(watched.view, given.get("policy"), given.get("trial")))

    async def stream(request: Request) -> Response:
        return view.server_sent_events_response(
            view.server_sent_events(lambda: run_in_threadpool(watched.trials_done_and_total), notifier)
        )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        web.call_on_shutdown_signal(notifier.close)
        yield

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", page),
            Route("/assets/{name}", web.asset_route),
            Route("/view", web.with_error_responses(shown)),
            Route("/stream", stream),
        ],
    )


def serve_board(folder: Path, *, port: int, show: Callable[[str], None], browse: bool) -> None:
    """``pmbandits board``."""
    watched = WatchedRun(folder)
    web.serve_locally(lambda: make_app(watched), port=port, show=show, browse=browse)
