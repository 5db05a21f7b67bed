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
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import FastAPI, Query, Request, Response
from sqlalchemy import func, select
from starlette.responses import HTMLResponse, RedirectResponse

from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.palette import arm_colour
from pmbandits.service.alarms import Watched
from pmbandits.service.board_state import BoardState
from pmbandits.service.change_log import ChangeAlarm
from pmbandits.service.columns import columns_of_policy, format_wanted_shares
from pmbandits.service.events import ARCHIVED, LIMITS, PAUSE, RESUME
from pmbandits.service.experiment import RANDOMISED_LIMITS_MESSAGE, CommittedExperiment, LiveExperiment, Refused
from pmbandits.service.replay import PolicyReplay
from pmbandits.service.schema import points
from pmbandits.service.service import Service
from pmbandits.service.store import ExperimentRecord, Store

if TYPE_CHECKING:
    from pmbandits.service.keys import Key

T = TypeVar("T")
MAX_KEPT = 32  # experiments of which it is remembered what was shown
OVERVIEW_SECONDS = 2.0  # seconds between two looks at all experiments


def preview_admin_action(replay: PolicyReplay, status: str, do: str, arm: str | None, shares: str | None) -> list[str]:
    """What an act would do, in sentences: it is tried on a copy."""
    before = columns_of_policy(replay.policy)
    if do in ("paused", "running"):
        if do == status:
            raise Refused(409, f"the experiment is {status} already.")
        if do == "paused":
            waiting = int(replay.policy.pending.sum())
            return [
                "No arm is given any more: every ask is refused until somebody lets the experiment run again.",
                f"Rewards are still taken in ({waiting:,} are awaited). Nothing that was learned is lost.",
            ]
        return ["Arms are given again from the next ask on. The policy goes on where it was."]
    trial = replay.copy()
    try:
        if do == "limits":
            if replay.draws is not None and (shares or "").strip():
                raise Refused(422, RANDOMISED_LIMITS_MESSAGE)
            trial.apply_admin_event(LIMITS, json.dumps((shares or "").strip() or None))
        else:
            if arm is None:
                raise Refused(422, "say which arm.")
            trial.apply_admin_event({"pause": PAUSE, "resume": RESUME}[do], json.dumps(arm))
        after = columns_of_policy(trial.policy)
    except (ValueError, TypeError, IndexError) as error:
        raise Refused(422, str(error)) from None
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
    return [
        *told,
        f"Shares wanted now: {format_wanted_shares(before)}. Afterwards: {format_wanted_shares(after)}.",
    ]


def _overview_entry(
    record: ExperimentRecord, live: CommittedExperiment | None, last: dict[str, Any] | None, changes: list[ChangeAlarm]
) -> dict[str, Any]:
    spec = record.spec
    out = {"name": record.name, "status": record.status, "metric": spec["metric"], "policy": spec["policy"], "t": None,
           "arms": [], "wants": "", "sure": None, "warning": None}  # fmt: skip
    if live is not None:
        policy = live.replay.policy
        columns = columns_of_policy(policy)
        arms = view.arms_with_colours([one.name for one in columns])
        for arm, one in zip(arms, columns, strict=True):
            arm |= {"wanted": view.clean_share(one.wanted_of_all), "colour": arm_colour(policy.names.index(one.arm))}
        out |= {"t": policy.t, "status": live.status, "arms": arms, "wants": format_wanted_shares(columns)}
        playing = {one.name for one in columns if one.plays}
        warnings = [str(alarm) for alarm in changes if alarm.change.arm in playing]
        if warnings:
            out["warning"] = warnings[-1]
    if last is not None and last.get("regret") is not None:
        worth = "" if last.get("utility") is None else f" (it is worth about {last['utility']:.3g})"
        out["sure"] = (
            f"Another mixture can be better by {last['regret']:.3g} at most{worth}, as of round {last['t']:,}."
        )
    return out


def _newest_history_points(store: Store) -> dict[int, dict[str, Any]]:
    """The newest point of each experiment."""
    latest_state = select(points.c.exp, func.max(points.c.seq).label("seq")).group_by(points.c.exp).subquery()
    wanted = select(points.c.exp, points.c.content).join(
        latest_state, (points.c.exp == latest_state.c.exp) & (points.c.seq == latest_state.c.seq)
    )
    with store.engine.connect() as connection:
        return {exp: json.loads(content) for exp, content in connection.execute(wanted)}


class Overview:
    """All experiments at a glance, for all who look: each is looked at when it has moved."""

    def __init__(self, service: Service) -> None:
        self._service, self._lock, self._next_run_at = service, asyncio.Lock(), 0.0
        self._entries: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def readable_entries(self, key: Key) -> list[dict[str, Any]]:
        """Those that a key may read."""
        async with self._lock:
            if time.monotonic() >= self._next_run_at:
                await self._refresh_entries()
                self._next_run_at = time.monotonic() + OVERVIEW_SECONDS / 2
        return [found for name, (_, found) in self._entries.items() if key.allows("read", name)]

    async def _refresh_entries(self) -> None:
        service, known = self._service, {}
        records = await service.run_in_thread(service.store.experiments)
        last = await service.run_in_thread(partial(_newest_history_points, service.store))
        watched = [await self._peek_or_none(record, Watched.from_experiment) for record in records]
        found = await asyncio.gather(*(service.alarms.changes_found(what) for what in watched if what is not None))
        changes = iter(found)
        for record, what in zip(records, watched, strict=True):
            alarms = [] if what is None else next(changes)[0]
            moved = await self._peek_or_none(record, lambda live: (live.replay.seen, live.status))
            sign = (record.status, last.get(record.id, {}).get("t"), moved, len(alarms))
            before = self._entries.get(record.name)
            if before is None or before[0] != sign:
                live = await self._peek_or_none(record, LiveExperiment.copy)
                before = (
                    sign,
                    await service.run_in_thread(partial(_overview_entry, record, live, last.get(record.id), alarms)),
                )
            known[record.name] = before
        self._entries = known

    async def _peek_or_none(self, record: ExperimentRecord, view: Callable[[LiveExperiment], T]) -> T | None:
        try:
            return (
                await self._service.view_without_catching_up(record.name, view) if record.status != ARCHIVED else None
            )
        except Refused:  # it cannot be read now
            return None

    async def value_that_changes_with_any(self, key: Key) -> Any:
        """Something that differs when one of them has moved."""
        live_experiments = [
            live for name, live in self._service.experiment_cache.live_experiments.items() if key.allows("read", name)
        ]
        return {"events": sum(live.committed for live in live_experiments), "experiments": len(live_experiments)}


class Board:
    """What is shown, of all experiments that somebody looks at."""

    def __init__(self, service: Service) -> None:
        self._service, self._shown = service, OrderedDict[str, BoardState]()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="board")
        self.notifier, self.overview = view.Notifier(), Overview(service)
        service.on_divergence.append(self._forget_experiment)

    async def board_state_of(self, name: str) -> BoardState:
        """An experiment; a refusal if there is none."""
        await self._service.live_experiment_or_refuse(name)
        if name not in self._shown:
            self._shown[name] = BoardState(self._service, name, self._pool, self._count_watched)
        self._shown.move_to_end(name)
        idle = [old for old, showing in self._shown.items() if not showing.viewers]
        for old in idle[: max(0, len(self._shown) - MAX_KEPT)]:
            del self._shown[old]
        return self._shown[name]

    def _forget_experiment(self, exp: int) -> None:
        for showing in self._shown.values():
            showing.forget_experiment(exp)

    def _count_watched(self) -> int:
        return sum(showing.viewers > 0 for showing in self._shown.values())

    def close_streams(self) -> None:
        """End all streams, because the service is stopping and waits for them."""
        for notifier in (self.notifier, *(showing.notifier for showing in self._shown.values())):
            notifier.close()

    def close(self) -> None:
        """No more."""
        self.close_streams()
        self._pool.shutdown(cancel_futures=True)


# ---- the addresses ---------------------------------------------------------------------------------------


def add_board_routes(app: FastAPI, service: Service, require_scope: Callable[[str], Any]) -> Board:
    """Add the board to the application; ``needs`` makes what checks the key of a request."""
    board, keyed, reader = Board(service), not service.settings.open, require_scope("read")
    web.asset_files()  # those of this version, whatever is installed later

    def html(text: str) -> HTMLResponse:
        return HTMLResponse(text, headers=web.HEADERS)

    def stream_until_revoked(parts: AsyncGenerator[bytes, None], key: Key) -> Response:
        async def until_revoked() -> AsyncIterator[bytes]:
            async with aclosing(parts):  # so that who does not look any more is not counted
                async for part in parts:
                    if not service.is_key_still_valid(key):
                        return
                    yield part

        return cast("Response", view.server_sent_events_response(until_revoked()))

    @app.get("/", include_in_schema=False)
    @app.get("/board", include_in_schema=False)
    async def front() -> Response:
        return RedirectResponse("/board/", 307)

    @app.get("/board/", include_in_schema=False)
    async def overview_page() -> Response:
        return html(view.board_page("Experiments", kind="list", keys=keyed))

    @app.get("/board/assets/{file}", include_in_schema=False)
    async def asset_response(file: str) -> Response:
        return web.asset_response(file)

    @app.get("/board/view", include_in_schema=False)
    async def list_view(request: Request) -> Response:
        return web.json_response({"experiments": await board.overview.readable_entries(request.scope["pmbandits.key"])})

    @app.get("/board/stream", include_in_schema=False)
    async def list_stream(request: Request) -> Response:
        key = request.scope["pmbandits.key"]
        return stream_until_revoked(
            view.server_sent_events(
                lambda: board.overview.value_that_changes_with_any(key), board.notifier, every=OVERVIEW_SECONDS
            ),
            key,
        )

    @app.get("/board/{name}", include_in_schema=False)
    async def add_slash(name: str, key: Any = reader) -> Response:
        return RedirectResponse(f"/board/{name}/", 307)

    @app.get("/board/{name}/", include_in_schema=False)
    async def one(name: str, key: Any = reader) -> Response:
        await service.live_experiment_or_refuse(name)
        change = key.allows("admin", name)
        return html(view.board_page(name, kind="experiment", root="../", keys=keyed, change=change))

    @app.get("/board/{name}/view", include_in_schema=False)
    async def one_view(
        name: str,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        have: Annotated[str, Query(max_length=200)] = "",
        key: Any = reader,
    ) -> Response:
        return web.json_response(await (await board.board_state_of(name)).newer_parts_as_json(after, have))

    @app.get("/board/{name}/stream", include_in_schema=False)
    async def one_stream(name: str, key: Any = reader) -> Response:
        return stream_until_revoked((await board.board_state_of(name)).event_stream(), key)

    @app.get("/board/{name}/preview", include_in_schema=False)
    async def preview_action(
        name: str,
        request: Request,
        do: Annotated[str, Query(pattern="^(pause|resume|limits|paused|running)$")],
        arm: Annotated[str | None, Query(max_length=200)] = None,
        shares: Annotated[str | None, Query(max_length=10_000)] = None,
        key: Any = require_scope("admin"),  # noqa: B008
    ) -> Response:
        now = await service.read(name, LiveExperiment.copy)
        if do == "limits" and shares and shares.strip():
            await service.compile_limits_in_other_process(now, shares, request.is_disconnected)
        return web.json_response(
            {
                "sentences": await service.run_in_thread(
                    partial(preview_admin_action, now.replay, now.status, do, arm, shares)
                )
            }
        )

    return board
