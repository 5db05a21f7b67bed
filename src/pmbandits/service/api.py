"""All routes that are in no hurry (FastAPI), and the description of all routes (OpenAPI)."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy.exc
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, StreamingResponse

from pmbandits import __version__, _check
from pmbandits.pages import web
from pmbandits.service import answers, board, counting, fold, history, keys, manual, reading, warmth
from pmbandits.service.events import ADD, ARCHIVED, LIMITS, PAUSE, PAUSED, RESUME, RETIRE, RUNNING, STATUS
from pmbandits.service.front import App, Front, allow
from pmbandits.service.live import Refused
from pmbandits.service.openapi import described
from pmbandits.service.service import Service
from pmbandits.service.settings import Settings
from pmbandits.service.store import Record, Taken, check_name, iso, now
from pmbandits.service.turns import DOWN

log = logging.getLogger("pmbandits.service")
IN_A_HURRY = re.compile(r"/v1/experiments/[^/]+/(ask|tell)")
IMPORTED = 1 << 30  # bytes of memory that an imported policy may take
ArmName = Annotated[str, Field(min_length=1, max_length=200)]


class Json(Response):
    """JSON by msgspec: numbers that are none become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _an_object(given: Any) -> Any:
    if not isinstance(given, dict):
        raise ValueError(
            f'must be an object such as {{"kind": "interval", "lo": 0, "hi": 1}}, got {_check.short(given)}'
        )
    return given


class NewExperiment(_Body):
    """An experiment: what is valued, what can be played, and which policy learns."""

    name: Annotated[str, Field(description="Letters, digits, dots, dashes and underscores.", max_length=100)]
    metric: Annotated[
        str,
        Field(max_length=2000, description="What is valued: mean, gini, cvar(0.9), lower_cvar(0.1), or a sum of them."),
    ]
    arms: Annotated[list[ArmName], Field(min_length=1, max_length=10_000, description="The names of the arms.")]
    support: Annotated[
        dict[str, Any],
        BeforeValidator(_an_object),
        Field(
            description='Where rewards can lie. It cannot be changed later: {"kind": "interval", "lo": 0, "hi": 100}, '
            '{"kind": "binary"} for 0 and 1, {"kind": "finite", "atoms": [0, 1, 5]} for a few values.'
        ),
    ]
    policy: Annotated[str, Field(max_length=100, description="The policy that plays, such as vet or track.")] = "vet"
    options: Annotated[dict[str, Any], Field(description='Options of the policy, such as {"detect": "restart"}.')] = {}
    seed: Annotated[int, Field(ge=0, le=2**53, description="The seed of the policy's own random choices.")] = 0
    shares: Annotated[Any, Field(description='Limits on shares, such as "A >= 10%; B + C <= 0.3".')] = None


class ArmAct(_Body):
    """An arm, and what to do with it."""

    do: Literal["add", "pause", "resume", "retire"]
    arm: ArmName


class NewLimits(_Body):
    """Limits on the shares of arms."""

    shares: Annotated[Any, Field(description='Text such as "A >= 10%", or {"A": [0.1, 1.0]}; null removes all limits.')]


class Expire(_Body):
    """A default reward for tickets whose own reward never came."""

    seconds: Annotated[float, Field(ge=0, le=1e11, description="Tickets that are older than this and have no reward.")]
    reward: Annotated[float, Field(description="The reward that each of them gets.", examples=[0.0])]


class NewStatus(_Body):
    """Whether an experiment runs, pauses, or is archived."""

    status: Literal["running", "paused", "archived"]


def make(settings: Settings) -> App:
    """The application of one process."""
    service = Service(settings)

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        web.when_told_to_stop(shown.hang_up)
        yield
        shown.close()
        await service.stop()

    # Mistakes of our own go up to the front, which answers and writes them to the log.
    app = FastAPI(
        title="pmbandits", version=__version__, lifespan=life, default_response_class=Json, docs_url=None,
        redoc_url=None, openapi_url=None, redirect_slashes=False,
    )  # fmt: skip
    _errors(app)
    _health(app, service)
    _experiments(app, service)
    _changes(app, service)
    _reads(app, service)
    shown = board.pages(app, service, needs)
    app.openapi = cache(lambda: described(app))  # type: ignore[method-assign]
    return Front(service, app)


def needs(scope: str) -> Any:
    """The key of a request, if it is for this scope of the experiment in its path."""

    def check(request: Request) -> keys.Key:
        key: keys.Key = request.scope["pmbandits.key"]
        allow(key, scope, request.path_params.get("name"))
        return key

    check.scope = scope  # type: ignore[attr-defined]  # for the description
    return Depends(check)


def _errors(app: FastAPI) -> None:
    def problem(status: int, sentence: str) -> Json:
        return Json({"error": sentence}, status, headers={"retry-after": "1"} if status in (429, 503) else None)

    @app.exception_handler(Refused)
    async def refused(_request: Request, error: Refused) -> Json:
        return problem(error.status, error.sentence)

    @app.exception_handler(Taken)
    async def taken(_request: Request, error: Taken) -> Json:
        return problem(409, str(error))

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    @app.exception_handler(sqlalchemy.exc.TimeoutError)
    @app.exception_handler(sqlite3.OperationalError)
    async def away(_request: Request, error: Exception) -> Json:
        log.warning("the store did not answer: %s", _check.readable(str(getattr(error, "orig", error)))[:300])
        return problem(503, DOWN)

    @app.exception_handler(RequestValidationError)
    async def unreadable(_request: Request, error: RequestValidationError) -> Json:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = _check.readable(str(first["msg"])).removeprefix("Value error, ")
        return problem(422, f"{_check.readable(where)}: {why}.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Json:
        status, takes = error.status_code, (error.headers or {}).get("Allow")
        if status == 404 and IN_A_HURRY.fullmatch(request.url.path):  # these are not known here, but before
            status, takes = 405, "POST"
        if status == 405:
            found = problem(405, f"this address takes {takes or 'another method'}, not {request.method}.")
            if takes is not None:
                found.headers["allow"] = takes
            return found
        return problem(status, "there is no such address." if status == 404 else str(error.detail))


def _health(app: FastAPI, service: Service) -> None:
    @app.get("/health", tags=["health"])
    async def health() -> Any:
        """Whether the process is alive. Needs no key."""
        return {"status": "alive"}

    @app.get("/ready", tags=["health"])
    async def ready() -> Any:
        """Whether it can answer: experiments are read, kernels are compiled, and the store answers. Needs no key."""
        if not service.serves:
            return Json({"status": "not ready"}, 503)
        return {"status": "ready"}

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics(key: Annotated[keys.Key, needs("read")]) -> Response:
        """Counters of all processes, for Prometheus."""
        mine, names = service.counted(), list(service.book.lives)
        found = await service.aside(lambda: service.counting.all(mine))
        lines = list(counting.lines(found))
        # Scrapes reach one process or another, and all must know the same: also of what others did.
        lives = await asyncio.gather(*map(service.newest, names), return_exceptions=True)
        lines += await service.alarms.lines(live for live in lives if not isinstance(live, BaseException))
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    @app.get("/v1/openapi.json", tags=["health"])
    async def openapi(request: Request) -> Any:
        """This description, in the format OpenAPI."""
        return app.openapi()

    @app.get("/docs", tags=["health"], response_class=HTMLResponse)
    async def docs() -> Any:
        """This description, as a page."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
        return HTMLResponse(manual.page(app.openapi()), headers={"content-security-policy": policy})


def _experiments(app: FastAPI, service: Service) -> None:
    compiling = asyncio.Semaphore(1)  # it takes a whole core

    @app.get("/v1/experiments", tags=["experiments"])
    async def list_experiments(request: Request) -> Any:
        """All experiments that the key may read."""
        key: keys.Key = request.scope["pmbandits.key"]
        found = await asyncio.to_thread(service.store.experiments)
        shown = [await _listed(service, record) for record in found if key.may("read", record.name)]
        return {"experiments": shown}

    @app.post("/v1/experiments", tags=["experiments"], status_code=201, openapi_extra={"x-scope": "admin"})
    async def create_experiment(body: NewExperiment, request: Request) -> Any:
        """Begin an experiment."""
        key: keys.Key = request.scope["pmbandits.key"]
        _refusing(partial(check_name, body.name))
        allow(key, "admin", body.name)
        spec = body.model_dump(exclude={"name"})
        await service.aside(partial(_made, spec))
        if service.settings.warm:
            async with compiling:
                await warmth.warm_elsewhere(spec)
        record = await asyncio.to_thread(service.store.create, body.name, spec, key.id)
        return answers.experiment(record, await service.live(record.name))

    @app.post("/v1/import", tags=["experiments"], status_code=201, openapi_extra={"x-scope": "admin"})
    async def import_policy(request: Request, name: Annotated[str, Query(max_length=100)]) -> Any:
        """Begin an experiment with a saved policy (the bytes of its file): it goes on exactly where that one was."""
        key: keys.Key = request.scope["pmbandits.key"]
        _refusing(partial(check_name, name))
        allow(key, "admin", name)
        content = await request.body()
        policy = await service.aside(partial(_refusing, lambda: fold.unpacked(content, IMPORTED)))
        spec = fold.described(policy)
        record = await asyncio.to_thread(service.store.create, name, spec, key.id, content)
        return answers.experiment(record, await service.live(record.name))

    @app.get("/v1/experiments/{name}/export", tags=["experiments"], response_class=Response)
    async def export_policy(name: str, key: Annotated[keys.Key, needs("read")]) -> Response:
        """The policy as a file that pmbandits.load reads: it goes on exactly where this one is."""
        twin = (await service.newest(name)).fold.twin()
        content = await service.aside(partial(fold.packed, twin))
        headers = {"content-disposition": f'attachment; filename="{name}.pmb"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @app.get("/v1/experiments/{name}", tags=["experiments"])
    async def show_experiment(name: str, key: Annotated[keys.Key, needs("read")]) -> Any:
        """What an experiment is, as it is now: its arms, which of them play, and the limits."""
        live = await service.newest(name)
        return answers.experiment(live.record, live)

    @app.get("/v1/audit", tags=["experiments"])
    async def audit(
        key: Annotated[keys.Key, needs("admin")],
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    ) -> Any:
        """Acts of administration, newest first: who did what, and when."""
        found = await asyncio.to_thread(service.store.audit, limit, before)
        return {"acts": [_dated(act) for act in found]}


def _changes(app: FastAPI, service: Service) -> None:
    async def control(name: str, kind: int, given: Any, key: keys.Key) -> Any:
        await service.act(name, lambda live, batch: live.control(kind, given, key.id, batch))
        live = await service.live(name)
        return answers.experiment(live.record, live)

    @app.post("/v1/experiments/{name}/status", tags=["control"])
    async def set_status(name: str, body: NewStatus, key: Annotated[keys.Key, needs("admin")]) -> Any:
        """Pause (no arms are given, but rewards are taken), archive (neither), or go on."""
        assert body.status in (RUNNING, PAUSED, ARCHIVED)
        return await control(name, STATUS, body.status, key)

    @app.post("/v1/experiments/{name}/arms", tags=["control"])
    async def change_arms(name: str, body: ArmAct, key: Annotated[keys.Key, needs("admin")]) -> Any:
        """Add an arm, let one pause or resume, or retire it for good. What was learned stays."""
        kind = {"add": ADD, "pause": PAUSE, "resume": RESUME, "retire": RETIRE}[body.do]
        return await control(name, kind, body.arm, key)

    @app.post("/v1/experiments/{name}/expire", tags=["control"])
    async def expire(name: str, body: Expire, key: Annotated[keys.Key, needs("tell")]) -> Any:
        """Give a default reward to tickets that have waited for one for too long, the oldest first.

        One request does up to 10,000; ``more`` says whether to send it again.
        """
        return await service.expire(name, body.seconds, body.reward, key.id)

    @app.put("/v1/experiments/{name}/limits", tags=["control"])
    async def set_limits(name: str, body: NewLimits, key: Annotated[keys.Key, needs("admin")]) -> Any:
        """Set new limits on the shares of arms."""
        return await control(name, LIMITS, body.shares, key)


def _reads(app: FastAPI, service: Service) -> None:
    @app.get("/v1/experiments/{name}/state", tags=["reading"])
    async def state(
        name: str,
        key: Annotated[keys.Key, needs("read")],
        regret: Annotated[
            str | None, Query(max_length=40, description='Also forecast when this is certain: 0.02 or "2%".')
        ] = None,
    ) -> Any:
        """Shares wanted and played, estimates with bands, certainty, why the next arm is next, changes, and a forecast.

        ``changes`` has the arms whose rewards changed. All else assumes that they did not.
        """
        live = await service.newest(name)
        twin, seen, status = live.fold.twin(), live.fold.seen, live.status
        goal = None if regret is None else regret if regret.strip().endswith("%") else _number(regret)
        found = await service.aside(partial(_refusing, lambda: reading.state(twin, goal)))
        changes, watched = await service.alarms.of(live)
        changed = {"changes": [alarm.shown() for alarm in changes], "watched": watched}
        if found["certainty"] is not None:  # a policy that begins anew has forgotten what was before
            moved = {alarm.change.arm for alarm in changes} & set(twin.playing)
            holds = not moved or str(twin.options.get("detect")).startswith("restart")
            found["certainty"]["holds"] = holds
            if not holds:
                before = found["certainty"]["sentence"]
                found["certainty"]["sentence"] = f"This is not valid now, because an arm changed. {before}"
        oldest = await service.aside(lambda: service.overdue.oldest(live.record.id))
        awaited = {
            "rewards": int(twin.pending.sum()),
            "oldest": None if oldest is None else oldest[0],
            "since": None if oldest is None else iso(oldest[1]),
        }
        return {"name": name, "status": status, "events": seen, **found, "awaited": awaited, **changed}

    @app.get("/v1/experiments/{name}/history", tags=["reading"])
    async def show_history(
        name: str,
        key: Annotated[keys.Key, needs("read")],
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    ) -> Any:
        """How it went: shares wanted and played, and how sure the mixture was; the last point is now."""
        live = await service.newest(name)
        twin, seen, exp = live.fold.twin(), live.fold.seen, live.record.id
        found = await asyncio.to_thread(history.written, service.store, exp, after)
        if seen > after and (not found or found[-1]["seq"] < seen):
            found.append({"seq": seen, "at": now(), **await service.aside(partial(history.point, twin))})
        return {"points": [_dated(one) for one in found]}

    @app.get("/v1/experiments/{name}/log", tags=["reading"], response_class=Response)
    async def log(
        name: str,
        key: Annotated[keys.Key, needs("read")],
        form: Annotated[Literal["json", "csv", "parquet"], Query(alias="format")] = "json",
        after: Annotated[int, Query(ge=0, le=2**53, description="Only what came after this event.")] = 0,
        limit: Annotated[
            int | None, Query(ge=1, le=2**53, description="How many events at most; without it, all.")
        ] = None,
    ) -> Response:
        """Every event, oldest first: all of them, or ``limit`` after the event ``after``.

        ``share`` is the share with which an arm was asked for, ``reward`` what was told. When ``limit`` cuts the log
        off, the header ``Link`` has the address of what comes next.
        """
        live = await service.newest(name)
        names, record, last = live.fold.policy.names, live.record, live.fold.seen
        rows = partial(reading.log, service.store, record, names, last)
        kind, content = reading.FORMS[form]
        parts = content(rows, after, last if limit is None else limit, service.aside)
        first = await anext(parts)  # what is wrong with the store is noticed before the answer begins
        headers = {"content-disposition": f'attachment; filename="{name}.{form}"'} if form != "json" else {}
        if limit is not None and after + limit < last:  # events have numbers without gaps
            headers["link"] = f'<log?format={form}&after={after + limit}&limit={limit}>; rel="next"'
        return StreamingResponse(_with(first, parts), media_type=kind, headers=headers)


async def _with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in rest:
        yield part


def _dated(found: dict[str, Any]) -> dict[str, Any]:
    """The same, with its time as text."""
    found["time"] = iso(found.pop("at"))
    return found


async def _listed(service: Service, record: Record) -> dict[str, Any]:
    try:
        live = await service.live(record.name) if record.status != ARCHIVED else None
    except Refused:  # it cannot be read now
        live = None
    found = answers.experiment(record, live)
    return found if live is None else found | {"changes": [one.shown() for one in (await service.alarms.of(live))[0]]}


def _made(spec: dict[str, Any]) -> Any:
    return _refusing(lambda: fold.made(spec))


def _refusing(work: Callable[[], Any]) -> Any:
    """Mistakes in what was given are one sentence of the library's, and status 422."""
    try:
        return work()
    except (ValueError, TypeError, IndexError) as error:
        raise Refused(422, _check.readable(str(error))) from None
    except (LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError) as error:
        raise Refused(422, f"this cannot be worked out ({type(error).__name__}); check what was given.") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refused(
            422, f"regret must be a number such as 0.02, or a share such as 2%, got {_check.short(text)}."
        ) from None
