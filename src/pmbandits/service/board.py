"""The board: pages of the service. All here only reads; who changes something sends it to the routes of ``api``."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from sqlalchemy import func, select
from starlette.responses import HTMLResponse, RedirectResponse

from pmbandits import _check
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.service.events import ARCHIVED, LIMITS, PAUSE, RESUME
from pmbandits.service.fold import Fold
from pmbandits.service.live import Live, Refused
from pmbandits.service.schema import points
from pmbandits.service.service import Service
from pmbandits.service.showing import Showing, listed
from pmbandits.service.store import Record, Store
from pmbandits.service.watch import Alarm

if TYPE_CHECKING:
    from pmbandits.service.keys import Key

KEPT = 32  # experiments of which it is remembered what was shown
GLANCES = 2.0  # seconds between two looks at all experiments


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
    return [*told, f"Shares wanted now: {listed(names, before)}. Afterwards: {listed(trial.policy.names, after)}."]


def _glance(record: Record, live: Live | None, last: dict[str, Any] | None, changes: list[Alarm]) -> dict[str, Any]:
    spec = record.spec
    out = {"name": record.name, "status": record.status, "metric": spec["metric"], "policy": spec["policy"], "t": None,
           "arms": [], "wants": "", "sure": None, "warning": None}  # fmt: skip
    if live is not None:
        policy = live.fold.twin()
        mixture = np.asarray(policy.mixture)
        arms = view.coloured(policy.names)
        for arm, share in zip(arms, mixture, strict=True):
            arm["wanted"] = view.share(share)
        out |= {"t": policy.t, "status": live.status, "arms": arms, "wants": listed(policy.names, mixture)}
        playing = set(policy.playing)
        warnings = [str(alarm) for alarm in changes if alarm.change.arm in playing]
        if warnings:
            out["warning"] = warnings[-1]
    if last is not None and last.get("regret") is not None:
        worth = "" if last.get("utility") is None else f" (it is worth about {last['utility']:.3g})"
        out["sure"] = (
            f"Another mixture can be better by {last['regret']:.3g} at most{worth}, as of round {last['t']:,}."
        )
    return out


def _last_points(store: Store) -> dict[int, dict[str, Any]]:
    """The newest point of each experiment."""
    newest = select(points.c.exp, func.max(points.c.seq).label("seq")).group_by(points.c.exp).subquery()
    wanted = select(points.c.exp, points.c.content).join(
        newest, (points.c.exp == newest.c.exp) & (points.c.seq == newest.c.seq)
    )
    with store.engine.connect() as connection:
        return {exp: json.loads(content) for exp, content in connection.execute(wanted)}


class Glances:
    """All experiments at a glance, for all who look: each is looked at when it has moved."""

    def __init__(self, service: Service) -> None:
        self._service, self._lock, self._ripe = service, asyncio.Lock(), 0.0
        self._known: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def of(self, key: Key) -> list[dict[str, Any]]:
        """Those that a key may read."""
        async with self._lock:
            if time.monotonic() >= self._ripe:
                await self._refresh()
                self._ripe = time.monotonic() + GLANCES / 2
        return [found for name, (_, found) in self._known.items() if key.may("read", name)]

    async def _refresh(self) -> None:
        service, known = self._service, {}
        records = await asyncio.to_thread(service.store.experiments)
        last = await asyncio.to_thread(_last_points, service.store)
        lives = [await self._live(record) for record in records]
        found = await asyncio.gather(*(service.alarms.of(live) for live in lives if live is not None))
        changes = iter(found)
        for record, live in zip(records, lives, strict=True):
            alarms = [] if live is None else next(changes)[0]
            moved = live and (live.fold.seen, live.status)
            sign = (record.status, last.get(record.id, {}).get("t"), moved, len(alarms))
            before = self._known.get(record.name)
            if before is None or before[0] != sign:
                before = (sign, await service.aside(partial(_glance, record, live, last.get(record.id), alarms)))
            known[record.name] = before
        self._known = known

    async def _live(self, record: Record) -> Live | None:
        try:
            return await self._service.live(record.name) if record.status != ARCHIVED else None
        except Refused:  # it cannot be read now
            return None

    async def moved(self, key: Key) -> Any:
        """Something that differs when one of them has moved."""
        lives = [live for name, live in self._service.book.lives.items() if key.may("read", name)]
        return {"events": sum(live.fold.seen for live in lives), "experiments": len(lives)}


class Board:
    """What is shown, of all experiments that somebody looks at."""

    def __init__(self, service: Service) -> None:
        self._service, self._shown = service, OrderedDict[str, Showing]()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="board")
        self.bell, self.glances = view.Bell(), Glances(service)

    async def of(self, name: str) -> Showing:
        """An experiment; a refusal if there is none."""
        await self._service.live(name)
        if name not in self._shown:
            self._shown[name] = Showing(self._service, name, self._pool, self._watched)
        self._shown.move_to_end(name)
        idle = [old for old, showing in self._shown.items() if not showing.viewers]
        for old in idle[: max(0, len(self._shown) - KEPT)]:
            del self._shown[old]
        return self._shown[name]

    def _watched(self) -> int:
        return sum(showing.viewers > 0 for showing in self._shown.values())

    def hang_up(self) -> None:
        """End all streams: the service is told to stop, and waits for them."""
        for bell in (self.bell, *(showing.bell for showing in self._shown.values())):
            bell.close()

    def close(self) -> None:
        """No more."""
        self.hang_up()
        self._pool.shutdown(cancel_futures=True)


# ---- the addresses ---------------------------------------------------------------------------------------


def pages(app: FastAPI, service: Service, needs: Callable[[str], Any]) -> Board:
    """Add the board to the application; ``needs`` makes what checks the key of a request."""
    board, keyed, reader = Board(service), not service.settings.open, needs("read")
    web.files()  # those of this version, whatever is installed later

    def html(text: str) -> HTMLResponse:
        return HTMLResponse(text, headers=web.HEADERS)

    def streamed(parts: AsyncGenerator[bytes, None], key: Key) -> Response:
        async def until_revoked() -> AsyncIterator[bytes]:
            async with aclosing(parts):  # so that who does not look any more is not counted
                async for part in parts:
                    if not service.still(key):
                        return
                    yield part

        return cast("Response", view.as_stream(until_revoked()))

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

    @app.get("/board/view", include_in_schema=False)
    async def list_view(request: Request) -> Response:
        return web.as_json({"experiments": await board.glances.of(request.scope["pmbandits.key"])})

    @app.get("/board/stream", include_in_schema=False)
    async def list_stream(request: Request) -> Response:
        key = request.scope["pmbandits.key"]
        return streamed(view.stream(lambda: board.glances.moved(key), board.bell, every=GLANCES), key)

    @app.get("/board/{name}", include_in_schema=False)
    async def slash(name: str, key: Any = reader) -> Response:
        return RedirectResponse(f"/board/{name}/", 307)

    @app.get("/board/{name}/", include_in_schema=False)
    async def one(name: str, key: Any = reader) -> Response:
        await service.live(name)
        return html(view.page(name, kind="experiment", root="../", keys=keyed))

    @app.get("/board/{name}/view", include_in_schema=False)
    async def one_view(
        name: str,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        have: Annotated[str, Query(max_length=200)] = "",
        key: Any = reader,
    ) -> Response:
        return web.as_json(await (await board.of(name)).view(after, have))

    @app.get("/board/{name}/stream", include_in_schema=False)
    async def one_stream(name: str, key: Any = reader) -> Response:
        return streamed((await board.of(name)).stream(), key)

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

    return board
