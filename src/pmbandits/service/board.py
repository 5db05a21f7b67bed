"""The board: pages of the service. All here only reads; who changes something sends it to the routes of ``api``."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from sqlalchemy import func, select
from starlette.responses import HTMLResponse, RedirectResponse

from pmbandits import _check
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.policies.policy import Policy
from pmbandits.service import history, reading
from pmbandits.service.events import ADD, ARCHIVED, ASK, LIMITS, PAUSE, RESUME, RETIRE, STATUS
from pmbandits.service.fold import Fold, made, unpacked
from pmbandits.service.live import Live, Refused
from pmbandits.service.schema import events, points
from pmbandits.service.service import Service
from pmbandits.service.store import Record, Store
from pmbandits.service.watch import Watch

if TYPE_CHECKING:
    from pmbandits.service.keys import Key

_DECISIONS = 12  # that are shown
_MARKS = 100  # acts that are shown
_BEHIND = 20_000  # events that are replayed to find reasons of decisions before the board was opened
_TRAILS = 32  # experiments whose reasons are kept
_SAID = {
    ADD: "{} was added",
    PAUSE: "{} pauses",
    RESUME: "{} plays again",
    RETIRE: "{} left for good",
    LIMITS: "new limits: {}",
    STATUS: "the experiment is {}",
}


class Trail:
    """Why the last decisions were taken: a policy that follows the events, and is asked before each of the last asks.

    Decisions follow from the order of events alone, so what it says is what the policy that decided would have said.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.fold: Fold | None = None
        self.found: list[dict[str, Any]] = []
        self.watch = Watch()

    def follow(self, service: Service, live_fold: Fold, record: Record) -> None:
        """Go on to the event that the live policy has reached."""
        goal, exp = live_fold.seen, record.id
        if self.fold is None or goal - self.fold.seen > _BEHIND:
            self.fold = _some_time_ago(service.store, record, goal) or Fold(live_fold.twin(), goal)
            self.found = []
        asks = _last_asks(service.store, exp, self.fold.seen, goal)
        for seq, at, arm in asks:
            self._apply(service, exp, seq - 1)
            said = _reason(self.fold.policy) if self.fold.seen == seq - 1 else ""
            name = self.fold.policy.names[arm]
            self.found.append({"seq": seq, "when": _clock(at), "what": f"ask {seq:,}", "arm": name, "reason": said})
        self._apply(service, exp, goal)
        self.found = self.found[-_DECISIONS:]

    def _apply(self, service: Service, exp: int, upto: int) -> None:
        assert self.fold is not None
        while self.fold.seen < upto:
            rows = _rows(service.store, exp, self.fold.seen, upto)
            if not rows:
                return
            self.fold.apply(rows)


def _some_time_ago(store: Store, record: Record, goal: int) -> Fold | None:
    """The newest saved policy, or that of the beginning, if not too much has happened since."""
    saved = store.snapshot(record.id, goal)
    if goal - (saved[0] if saved else 0) > _BEHIND:
        return None
    return Fold(made(record.spec)) if saved is None else Fold(unpacked(saved[1]), saved[0])


def _rows(store: Store, exp: int, after: int, upto: int) -> list[Any]:
    wanted = (
        select(events.c.seq, events.c.kind, events.c.ticket, events.c.arm, events.c.value, events.c.data)
        .where(events.c.exp == exp, events.c.seq > after, events.c.seq <= upto)
        .order_by(events.c.seq)
        .limit(_BEHIND)
    )
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(wanted)]


def _last_asks(store: Store, exp: int, after: int, upto: int) -> list[tuple[int, int, int]]:
    wanted = (
        select(events.c.seq, events.c.at, events.c.arm)
        .where(events.c.exp == exp, events.c.kind == ASK, events.c.seq > after, events.c.seq <= upto)
        .order_by(events.c.seq.desc())
        .limit(_DECISIONS)
    )
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(wanted)][::-1]


def _reason(policy: Policy) -> str:
    """The part of an explanation that says why: without the shares before it and the certainty after it."""
    text = policy.explain()
    found = re.search(r"\(and wanted\): .*?%\)\. (.*)$", text, flags=re.DOTALL)
    if found is None:
        return text
    return re.split(r" The (?:mixture's utility|utility of the mixture) is | [\d,]+ rewards? ha(?:s|ve) not", found[1])[
        0
    ]


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# ---- what is shown ---------------------------------------------------------------------------------------


def _past(store: Store, exp: int, after: int, names: tuple[str, ...]) -> dict[str, Any]:
    found = history.written(store, exp, after)
    return {
        "x": [p["t"] for p in found],
        "rows": [_row(p, names) for p in found],
        "seq": found[-1]["seq"] if found else after,
    }


def _row(point: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    t = max(point["t"], 1)
    row: dict[str, Any] = {
        "played": [round(100.0 * point["pulls"].get(name, 0) / t, 3) for name in names],
        "wanted": [round(100.0 * point["wanted"].get(name, 0.0), 3) for name in names],
    }
    return row | {key: point.get(key) for key in ("utility", "lower", "upper", "rival")}


def _marks(store: Store, exp: int, policy: Policy, watch: Watch, seen: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Acts of administration and changes of arms, by the round in which they were; and warnings.

    Changes are those that the policy found itself, if it watches its arms; else those that the board found.
    """
    acts = (
        select(events.c.seq, events.c.at, events.c.kind, events.c.data)
        .where(events.c.exp == exp, events.c.kind.in_(tuple(_SAID)))
        .order_by(events.c.seq.desc())
        .limit(_MARKS)
    )
    rounds = select(points.c.seq, points.c.content).where(points.c.exp == exp).order_by(points.c.seq)
    with store.engine.connect() as connection:
        rows = connection.execute(acts).all()[::-1]
        seqs, times = [0], [0]
        if rows or watch.found:
            for seq, content in connection.execute(rounds):
                seqs.append(seq)
                times.append(json.loads(content)["t"])
    out = []

    def about(seq: int) -> int:
        """The round in which an event was, about."""
        return max(1, round(float(np.interp(seq, [*seqs, seen], [*times, policy.t]))))

    for seq, at, kind, data in rows:
        given = json.loads(data) if data else None
        what = "none" if given is None else given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        said = f"{_clock(at)}, about round {about(seq):,}: {_SAID[kind].format(what)}"
        out.append({"x": about(seq), "text": said})
    warnings = []
    own = [(max(change.round, 1), change) for change in policy.changes]
    for found, change in own or [(about(seq), change) for seq, change in watch.found]:
        sentence = str(change)
        out.append({"x": found, "text": f"About round {found:,}: {sentence}"})
        warnings.append(f"{sentence} Found about round {found:,}.")
    return sorted(out, key=lambda mark: mark["x"]), warnings[-3:]


def shown(policy: Policy, live: Live, seen: int) -> dict[str, Any]:
    """What the page shows of the policy as it is now."""
    state, metric = reading.state(policy), policy.metric
    assert metric is not None
    arms = view.coloured(policy.names)
    retired = set(getattr(policy, "retired", ()))
    for arm, found in zip(arms, state["arms"], strict=True):
        arm |= {key: found.get(key) for key in ("plays", "pulls", "pending", "rewards", "mean", "alone")}
        played = found["played"]
        arm |= {
            "played": None if played is None else view.share(played),
            "wanted": view.share(found["wanted"]),
            "retired": arm["name"] in retired,
        }
    spec = live.record.spec
    sure = state["certainty"]
    return {
        "kind": "experiment",
        "title": live.record.name,
        "status": live.status,
        "facts": [
            ["preference", str(spec["metric"])],
            ["policy", " ".join([str(spec["policy"]), *(f"{k}={v}" for k, v in (spec.get("options") or {}).items())])],
            ["rounds", f"{policy.t:,}"],
            ["rewards awaited", f"{int(policy.pending.sum()):,}"],
            ["began", _clock(live.record.created)],
        ],
        "arms": arms,
        "metric": view.preference(metric),
        "curves": view.estimated(metric, policy.estimates, view.most_played(np.asarray(policy.pulls, dtype=float))),
        "limits": state["limits"],
        "sure": {
            "certainty": None if sure is None else _certain(sure),
            "explanation": f"Next: {state['explanation']}",
            "forecast": _ahead(policy),
        },
        "events": seen,
    }  # fmt: skip


def _certain(sure: dict[str, Any]) -> str:
    about, low, high = (f"{sure[key]:.4g}" for key in ("utility", "lower", "upper"))
    return f"{sure['sentence']} The mixture is worth about {about}, between {low} and {high}."


def _ahead(policy: Policy) -> str | None:
    if policy.confidence is None or policy.t == 0:
        return None
    try:
        return str(policy.forecast("5%"))
    except (ValueError, TypeError, ArithmeticError):  # not for this policy, or nothing is worth anything yet
        return None


def preview(fold: Fold, status: str, do: str, arm: str | None, shares: str | None) -> list[str]:
    """What an act would do, in sentences: it is tried on a copy."""
    names = fold.policy.names
    before = np.asarray(fold.policy.mixture)
    if do in ("paused", "running"):
        if do == status:
            raise Refused(409, f"the experiment is {status} already.")
        if do == "paused":
            waiting = int(fold.policy.pending.sum())
            return [
                "No arm is given any more: every ask is refused until somebody lets the experiment run again.",
                f"Rewards are still taken in ({waiting:,} are awaited). Nothing that was learned is lost.",
            ]
        return ["Arms are given again from the next ask on. The policy goes on where it was."]
    trial = Fold(fold.twin(), fold.seen)
    try:
        if do == "limits":
            trial.control(LIMITS, json.dumps((shares or "").strip() or None))
        else:
            if arm is None:
                raise Refused(422, "say which arm.")
            trial.control({"pause": PAUSE, "resume": RESUME}[do], json.dumps(arm))
        after = np.asarray(trial.policy.mixture)
    except (ValueError, TypeError, IndexError) as error:
        raise Refused(422, _check.readable(str(error))) from None
    except AttributeError:
        raise Refused(409, "this version of the library cannot do that to a policy that plays.") from None
    if do == "pause":
        told = [
            f"{arm} is not given any more, from the next ask on. What was learned of it stays, and rewards that are "
            "still on their way are taken in.",
            "It can be resumed at any time.",
        ]
    elif do == "resume":
        told = [f"{arm} is given again, from the next ask on, with all that was learned of it."]
    elif shares and shares.strip():
        told = [f"From the next round on these limits are kept: {shares.strip()}. Rounds before now do not count."]
    else:
        told = ["All limits are taken away, from the next round on."]
    return [*told, f"Shares wanted now: {_listed(names, before)}. Afterwards: {_listed(trial.policy.names, after)}."]


def _listed(names: tuple[str, ...], weights: np.ndarray) -> str:
    used = [k for k in np.argsort(-weights, kind="stable").tolist() if weights[k] >= 0.005]
    text = " + ".join(f"{100 * weights[k]:.0f} % {names[k]}" for k in used[:8])
    return text + (f" + {len(used) - 8} more" if len(used) > 8 else "") if used else "none"


def _glance(live: Live | None, record: Any, last: dict[str, Any] | None) -> dict[str, Any]:
    spec = record.spec
    out = {"name": record.name, "status": record.status, "metric": spec["metric"], "policy": spec["policy"], "t": None,
           "arms": [], "wants": "", "sure": None, "warning": None}  # fmt: skip
    if live is not None:
        policy = live.fold.twin()
        arms = view.coloured(policy.names)
        for arm, share in zip(arms, policy.mixture, strict=True):
            arm["wanted"] = view.share(share)
        out |= {
            "t": policy.t,
            "status": live.status,
            "arms": arms,
            "wants": _listed(policy.names, np.asarray(policy.mixture)),
        }
        changes = policy.changes
        if changes:
            out["warning"] = str(changes[-1])
    if last is not None and last.get("regret") is not None:
        out["sure"] = f"Surely short of the best by at most {last['regret']:.3g} (round {last['t']:,})."
    return out


def _last_point(store: Store, exp: int) -> dict[str, Any] | None:
    newest = select(func.max(points.c.seq)).where(points.c.exp == exp).scalar_subquery()
    with store.engine.connect() as connection:
        row = connection.execute(select(points.c.content).where(points.c.exp == exp, points.c.seq == newest)).first()
    return None if row is None else json.loads(row[0])


# ---- the addresses ---------------------------------------------------------------------------------------


def pages(app: FastAPI, service: Service, needs: Callable[[str], Any]) -> None:
    """Add the board to the application; ``needs`` makes what checks the key of a request."""
    trails: OrderedDict[int, Trail] = OrderedDict()
    keyed, reader = not service.settings.open, needs("read")

    def html(text: str) -> HTMLResponse:
        return HTMLResponse(text, headers=web.HEADERS)

    @app.get("/", include_in_schema=False)
    @app.get("/board", include_in_schema=False)
    async def front() -> Response:
        return RedirectResponse("/board/", 307)

    @app.get("/board/", include_in_schema=False)
    async def all_of_them() -> Response:
        return html(view.page("Experiments", kind="list", keys=keyed))

    @app.get("/board/assets/{file}", include_in_schema=False)
    async def asset(file: str) -> Response:
        return web.asset(file)

    async def glances(key: Key) -> list[dict[str, Any]]:
        found = await asyncio.to_thread(service.store.experiments)
        mine = [record for record in found if key.may("read", record.name)]
        out = []
        for record in mine:
            live = await service.live(record.name) if record.status != ARCHIVED else None
            last = await asyncio.to_thread(_last_point, service.store, record.id)
            out.append(await service.aside(partial(_glance, live, record, last)))
        return out

    @app.get("/board/view", include_in_schema=False)
    async def list_view(request: Request) -> Response:
        return web.as_json({"experiments": await glances(request.scope["pmbandits.key"])})

    @app.get("/board/stream", include_in_schema=False)
    async def list_stream(request: Request) -> Response:
        key = request.scope["pmbandits.key"]

        async def seen() -> Any:
            if not service.still(key):
                return None
            lives = [live for name, live in service.book.lives.items() if key.may("read", name)]
            return {"events": sum(live.fold.seen for live in lives), "experiments": len(lives)}

        return view.as_stream(view.stream(seen, every=2.0))

    @app.get("/board/{name}", include_in_schema=False)
    async def slash(name: str, key: Any = reader) -> Response:
        return RedirectResponse(f"/board/{name}/", 307)

    @app.get("/board/{name}/", include_in_schema=False)
    async def one(name: str, key: Any = reader) -> Response:
        await service.live(name)
        return html(view.page(name, kind="experiment", root="../", keys=keyed))

    @app.get("/board/{name}/view", include_in_schema=False)
    async def one_view(name: str, after: Annotated[int, Query(ge=0, le=2**53)] = 0, key: Any = reader) -> Response:
        live = await service.newest(name)
        fold = Fold(live.fold.twin(), live.fold.seen)
        exp, twin = live.record.id, fold.policy
        trail = trails.setdefault(exp, Trail())
        trails.move_to_end(exp)
        while len(trails) > _TRAILS:
            trails.popitem(last=False)

        def work() -> dict[str, Any]:
            out = shown(twin, live, fold.seen)
            past = _past(service.store, exp, after, twin.names)
            past["now"] = {"x": twin.t, "row": _row(history.point(twin), twin.names)} if twin.t else None
            if not twin.changes:
                trail.watch.follow(service.store, exp, twin.names, fold.seen)
            marks, warnings = _marks(service.store, exp, twin, trail.watch, fold.seen)
            return out | {"history": past, "marks": marks, "warnings": warnings}

        async with trail.lock:
            out = await service.aside(work)
            await service.aside(partial(trail.follow, service, fold, live.record))
            out["decisions"] = trail.found[::-1]
        return web.as_json(out)

    @app.get("/board/{name}/stream", include_in_schema=False)
    async def one_stream(name: str, key: Any = reader) -> Response:
        async def seen() -> Any:
            if not service.still(key):
                return None
            live = await service.newest(name)
            return {"events": live.fold.seen, "status": live.status}

        await service.live(name)
        return view.as_stream(view.stream(seen))

    @app.get("/board/{name}/preview", include_in_schema=False)
    async def what_would_happen(
        name: str,
        do: Annotated[str, Query(pattern="^(pause|resume|limits|paused|running)$")],
        arm: Annotated[str | None, Query(max_length=200)] = None,
        shares: Annotated[str | None, Query(max_length=10_000)] = None,
        key: Any = reader,
    ) -> Response:
        live = await service.newest(name)
        fold, status = Fold(live.fold.twin(), live.fold.seen), live.status
        return web.as_json({"sentences": await service.aside(partial(preview, fold, status, do, arm, shares))})
