"""All routes but ask and tell (FastAPI), and the description of all routes (OpenAPI)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request, Response
from starlette.responses import HTMLResponse, StreamingResponse

from pmbandits import __version__, _validation
from pmbandits.pages import web
from pmbandits.service import (
    api_docs,
    board,
    deletion,
    history,
    keys,
    login,
    prometheus,
    reading,
    replay,
    responses,
)
from pmbandits.service.alarms import Watched
from pmbandits.service.api_errors import JsonResponse, add_error_handlers, call_or_refuse_bad_input
from pmbandits.service.asgi_app import App, AsgiApp
from pmbandits.service.columns import columns_of_policy
from pmbandits.service.events import ADD, ARCHIVED, LIMITS, PAUSE, PAUSED, RESUME, RETIRE, RUNNING, STATUS
from pmbandits.service.experiment import (
    RANDOMISED_LIMITS_MESSAGE,
    RANDOMISED_SEGMENTS_MESSAGE,
    LiveExperiment,
    Refused,
    refuse_limits_too_long_to_read,
)
from pmbandits.service.openapi import openapi_description
from pmbandits.service.processes import with_default_signal_handlers
from pmbandits.service.randomised import RANDOMISED
from pmbandits.service.request_bodies import (
    ArmAct,
    Expire,
    NewExperiment,
    NewKey,
    NewLimits,
    NewStatus,
    Retention,
    Rotation,
    require_visible,
)
from pmbandits.service.service import Service
from pmbandits.service.settings import Settings
from pmbandits.service.store import ExperimentRecord, check_name, iso_utc, now_ms

log = logging.getLogger("pmbandits.service")
DAY = 86_400_000  # milliseconds
_NO_NULL = r"^[^\x00]*$"  # the one character that PostgreSQL cannot keep in a text
MAX_IMPORT_MEMORY = 1 << 30  # bytes of memory that an imported policy may take


def create_app(settings: Settings) -> App:
    """The application of one process."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with with_default_signal_handlers():
            await service.start()
        web.call_on_shutdown_signal(shown.close_streams)
        yield
        shown.close()
        await service.stop()

    # Mistakes of our own go up to the front, which answers and writes them to the log.
    app = FastAPI(
        title="pmbandits", version=__version__, lifespan=lifespan, default_response_class=JsonResponse, docs_url=None,
        redoc_url=None, openapi_url=None, redirect_slashes=False,
    )  # fmt: skip
    app.state.service = service
    add_error_handlers(app)
    _add_health_routes(app, service)
    _add_experiment_routes(app, service)
    _add_control_routes(app, service)
    _add_reading_routes(app, service)
    _add_key_routes(app, service)
    login.add_login_routes(app, service)
    shown = board.add_board_routes(app, service, require_scope)
    app.openapi = cache(lambda: openapi_description(app))  # type: ignore[method-assign]
    return AsgiApp(service, app)


def require_scope(scope: str) -> Any:
    """The key of a request, if it is for this scope of the experiment in its path."""

    def check(request: Request) -> keys.Key:
        key: keys.Key = request.scope["pmbandits.key"]
        request.app.state.service.check_permission(key, scope, request.path_params.get("name"))
        return key

    check.scope = scope  # type: ignore[attr-defined]  # for the description
    return Depends(check)


async def _require_admin_of_new_experiment(request: Request) -> keys.Key:
    """The key of a request, if it may create the experiment that the body names, before the body is checked."""
    key: keys.Key = request.scope["pmbandits.key"]
    body = await request.json() if await request.body() else None
    name = body.get("name") if isinstance(body, dict) else None
    if isinstance(name, str) or "admin" not in key.scopes:
        request.app.state.service.check_permission(key, "admin", name if isinstance(name, str) else None)
    return key


def _add_health_routes(app: FastAPI, service: Service) -> None:
    docs_page = cache(lambda: api_docs.api_docs_page(app.openapi()))

    @app.get("/health", tags=["health"])
    async def health() -> Any:
        """Whether the process is alive. Needs no key."""
        return {"status": "alive"}

    @app.get("/ready", tags=["health"])
    async def ready() -> Any:
        """Whether it can answer: experiments are read, kernels are compiled, and the store answers. Needs no key."""
        if not service.is_serving:
            return JsonResponse({"status": "not ready"}, 503)
        return {"status": "ready"}

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics(key: Annotated[keys.Key, require_scope("read")]) -> Response:
        """Counters of all processes, for Prometheus."""
        names = list(service.experiment_cache.live_experiments)
        # Scrapes reach one process or another, and all must know the same: also of what others did.
        found = await asyncio.gather(*map(service.experiment_numbers_for_prometheus, names), return_exceptions=True)
        numbers = {name: one for name, one in zip(names, found, strict=True) if not isinstance(one, BaseException)}
        service.metrics.hand_on_counts(len(service.group_commit.waiting))
        text = await service.run_in_thread(partial(service.metrics.prometheus_text, numbers))
        return Response(text, media_type=prometheus.CONTENT_TYPE)

    @app.get("/v1/openapi.json", tags=["health"])
    async def openapi(request: Request) -> Any:
        """This description, in the format OpenAPI."""
        return app.openapi()

    @app.get("/docs", tags=["health"], response_class=HTMLResponse)
    async def docs() -> Any:
        """This description, as a page."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
        return HTMLResponse(docs_page(), headers={"content-security-policy": policy})


def _add_experiment_routes(app: FastAPI, service: Service) -> None:
    @app.get("/v1/experiments", tags=["experiments"])
    async def list_experiments(request: Request) -> Any:
        """All experiments that the key may read."""
        key: keys.Key = request.scope["pmbandits.key"]
        found = await service.run_in_thread(service.store.experiments)
        shown = [await _experiment_list_entry(service, record) for record in found if key.allows("read", record.name)]
        return {"experiments": shown}

    @app.post("/v1/experiments", tags=["experiments"], status_code=201, openapi_extra={"x-scope": "admin"})
    async def create_experiment(
        key: Annotated[keys.Key, Depends(_require_admin_of_new_experiment)], body: NewExperiment, request: Request
    ) -> Any:
        """Begin an experiment."""
        call_or_refuse_bad_input(partial(check_name, body.name))
        spec = body.model_dump(exclude={"name"})
        refuse_limits_too_long_to_read(body.shares)
        if body.play == RANDOMISED and body.shares is not None:
            raise Refused(422, RANDOMISED_LIMITS_MESSAGE)
        if body.play == RANDOMISED and (body.segments is not None or body.options.get("segments") is not None):
            raise Refused(422, RANDOMISED_SEGMENTS_MESSAGE)
        if body.shares is not None:  # they may take too long: nothing is done with them here before that is known
            await service.compile_in_other_process(spec, request.is_disconnected)
        await service.run_in_thread(partial(_policy_from_spec_or_refuse, spec))
        if body.shares is None:
            await service.compile_in_other_process(spec)
        record = await service.write_in_thread(partial(service.store.create_experiment, body.name, spec, key.id))
        return await service.read(record.name, _experiment_response)

    @app.post("/v1/import", tags=["experiments"], status_code=201, openapi_extra={"x-scope": "admin"})
    async def import_policy(request: Request, name: Annotated[str, Query(max_length=100)]) -> Any:
        """Begin an experiment with a saved policy (the bytes of its file): it goes on exactly where that one was."""
        key: keys.Key = request.scope["pmbandits.key"]
        service.check_permission(key, "admin", name)
        call_or_refuse_bad_input(partial(check_name, name))
        content = await request.body()
        policy = await service.run_in_thread(
            partial(call_or_refuse_bad_input, lambda: replay.policy_from_bytes(content, MAX_IMPORT_MEMORY))
        )
        for arm in policy.names:
            call_or_refuse_bad_input(partial(require_visible, arm))
        spec = call_or_refuse_bad_input(partial(replay.spec_of_imported_policy, policy))
        record = await service.write_in_thread(partial(service.store.create_experiment, name, spec, key.id, content))
        return await service.read(record.name, _experiment_response)

    @app.get("/v1/experiments/{name}/export", tags=["experiments"], response_class=Response)
    async def export_policy(name: str, key: Annotated[keys.Key, require_scope("read")]) -> Response:
        """The policy as a file that pmbandits.load reads: it goes on exactly where this one is."""
        now = await service.read(name, LiveExperiment.copy)
        content = await service.read_in_thread(key, name, partial(replay.policy_to_bytes, now.replay.policy))
        headers = {"content-disposition": f'attachment; filename="{name}.pmb"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @app.get("/v1/experiments/{name}", tags=["experiments"])
    async def show_experiment(name: str, key: Annotated[keys.Key, require_scope("read")]) -> Any:
        """What an experiment is, as it is now: its arms, which of them play, and the limits."""
        return await service.read(name, _experiment_response)

    @app.delete("/v1/experiments/{name}", tags=["experiments"])
    async def delete_experiment(
        name: str,
        confirm: Annotated[str, Query(max_length=100, description="The name once more, because nothing stays.")],
        key: Annotated[keys.Key, require_scope("admin")],
    ) -> Any:
        """Delete an experiment with all its events, saved policies and units. Only the audit trail says that it was."""
        if confirm != name:
            raise Refused(422, f"to delete this experiment, send confirm={name}; nothing was deleted.")
        live = await service.live_experiment_or_refuse(name)
        await service.write_in_thread(partial(deletion.delete_experiment, service.store, name, key.id))
        service.experiment_cache.evict(live)
        return {"deleted": name}

    @app.delete("/v1/experiments/{name}/unit", tags=["experiments"])
    async def delete_unit(
        name: str,
        unit: Annotated[str, Query(min_length=1, max_length=200, pattern=_NO_NULL)],
        key: Annotated[keys.Key, require_scope("admin")],
    ) -> Any:
        """Delete what is kept of a unit (a user, say): which arm it was given. Its rewards stay, without its name."""
        live = await service.live_experiment_or_refuse(name)
        work = partial(deletion.delete_unit, service.store, live.record, unit, key.id)
        return {"deleted": await service.write_in_thread(work)}

    @app.post("/v1/experiments/{name}/forget", tags=["experiments"])
    async def forget_old(name: str, body: Retention, key: Annotated[keys.Key, require_scope("admin")]) -> Any:
        """Delete units and keys of requests that are older than some seconds; send it daily to keep them no longer."""
        live = await service.live_experiment_or_refuse(name)
        work = partial(deletion.delete_older_units_and_keys, service.store, live.record, body.seconds, key.id)
        return {"deleted": await service.write_in_thread(work)}

    @app.get("/v1/audit", tags=["experiments"])
    async def audit(
        key: Annotated[keys.Key, require_scope("admin")],
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    ) -> Any:
        """Acts of administration, newest first: who did what, and when."""
        found = await service.run_in_thread(partial(service.store.audit_entries, limit, before))
        return {"acts": [_replace_at_by_iso_time(admin_action) for admin_action in found]}


def _add_key_routes(app: FastAPI, service: Service) -> None:
    @app.get("/v1/keys", tags=["keys"])
    async def list_keys(key: Annotated[keys.Key, require_scope("admin")]) -> Any:
        """All keys, without their secrets: what they allow, until when, and when they were used last."""
        found = await service.run_in_thread(partial(keys.list_keys, service.store))
        return {"keys": [responses.key_to_dict(one) for one in found]}

    @app.post("/v1/keys", tags=["keys"], status_code=201)
    async def create_key(body: NewKey, key: Annotated[keys.Key, require_scope("admin")]) -> Any:
        """Make a key. It is in this answer, and cannot be shown again."""
        for name in body.experiments or ():
            call_or_refuse_bad_input(partial(check_name, name))
        now = await service.run_in_thread(service.store.now_ms)
        expires = None if body.days is None else now + int(body.days * DAY)
        token = await service.write_in_thread(
            partial(
                keys.create_key_in_store,
                service.store,
                body.scopes,
                body.experiments,
                body.label,
                key.id,
                expires=expires,
            )
        )
        return {"key": token}

    @app.post("/v1/keys/rotate", tags=["keys"], status_code=201)
    async def rotate_key(body: Rotation, key: Annotated[keys.Key, require_scope("admin")]) -> Any:
        """Make a key for the same as another one, which then expires."""
        work = partial(keys.rotate_key_in_store, service.store, body.id, key.id, grace=body.grace_days * DAY / 1000)
        return {"key": await service.write_in_thread(partial(call_or_refuse_bad_input, work))}

    @app.delete("/v1/keys", tags=["keys"])
    async def revoke_key(
        id: Annotated[str, Query(max_length=100, pattern=_NO_NULL)], key: Annotated[keys.Key, require_scope("admin")]
    ) -> Any:
        """Make a key invalid: all processes know it after a second at most."""
        await service.write_in_thread(
            partial(call_or_refuse_bad_input, partial(keys.revoke_key_in_store, service.store, id, key.id))
        )
        return {"revoked": id}


def _add_control_routes(app: FastAPI, service: Service) -> None:
    async def control(name: str, kind: int, given: Any, key: keys.Key, request: Request | None = None) -> Any:
        is_gone = None if request is None else request.is_disconnected
        return await service.run_admin_action_on(name, kind, given, key.id, _experiment_response, is_gone)

    @app.post("/v1/experiments/{name}/status", tags=["control"])
    async def set_status(name: str, body: NewStatus, key: Annotated[keys.Key, require_scope("admin")]) -> Any:
        """Pause (no arms are given, but rewards are taken), archive (neither), or go on."""
        assert body.status in (RUNNING, PAUSED, ARCHIVED)
        return await control(name, STATUS, body.status, key)

    @app.post("/v1/experiments/{name}/arms", tags=["control"])
    async def change_arms(name: str, body: ArmAct, key: Annotated[keys.Key, require_scope("admin")]) -> Any:
        """Add an arm, let one pause or resume, or retire it for good. What was learned stays."""
        kind = {"add": ADD, "pause": PAUSE, "resume": RESUME, "retire": RETIRE}[body.do]
        return await control(name, kind, body.arm, key)

    @app.post("/v1/experiments/{name}/expire", tags=["control"])
    async def expire(name: str, body: Expire, key: Annotated[keys.Key, require_scope("tell")]) -> Any:
        """Give a default reward to tickets that have waited for one for too long, the oldest first.

        One request does up to 10,000; ``more`` says whether to send it again.
        """
        return await service.expire(name, body.seconds, body.reward, key.id)

    @app.put("/v1/experiments/{name}/limits", tags=["control"])
    async def set_limits(
        name: str, body: NewLimits, request: Request, key: Annotated[keys.Key, require_scope("admin")]
    ) -> Any:
        """Set new limits on the shares of arms."""
        return await control(name, LIMITS, body.shares, key, request)


def _add_reading_routes(app: FastAPI, service: Service) -> None:
    @app.get("/v1/experiments/{name}/state", tags=["reading"])
    async def state(
        name: str,
        key: Annotated[keys.Key, require_scope("read")],
        regret: Annotated[
            str | None, Query(max_length=40, description='Also forecast when this is certain: 0.02 or "2%".')
        ] = None,
    ) -> Any:
        """Shares wanted and played, estimates with bands, certainty, why the next arm is next, changes, and a forecast.

        ``changes`` has the arms whose rewards changed. All else assumes that they did not.
        """
        now = await service.read(name, LiveExperiment.copy)
        policy_copy, seen, status = now.replay.policy, now.replay.seen, now.status
        goal = None if regret is None else regret if regret.strip().endswith("%") else _parse_regret(regret)

        def work() -> tuple[dict[str, Any], Any, Any]:
            return (
                call_or_refuse_bad_input(lambda: reading.experiment_state(policy_copy, goal)),
                service.sample_ratios.sample_ratio_of(now),
                service.overdue_tickets.oldest_open_ticket(now.record.id),
            )

        found, ratio, oldest_open = await service.read_in_thread(key, name, work)
        if now.replay.draws is not None:
            found["explanation"] = now.replay.draws.explain(policy_copy.names)
        changes, watched = await service.alarms.changes_found(Watched.from_experiment(now))
        changed = {"changes": [alarm.to_response_dict() for alarm in changes], "watched": watched}
        if found["certainty"] is not None:  # a policy that begins anew has forgotten what was before
            playing = {column.name for column in columns_of_policy(policy_copy) if column.plays}
            moved = {alarm.change.arm for alarm in changes} & playing
            holds = not moved or str(policy_copy.options.get("detect")).startswith("restart")
            lost = ratio is not None and ratio["alarm"]
            found["certainty"]["holds"] = holds and not lost
            if not holds or lost:
                why = "rewards do not come in as arms were drawn" if lost else "an arm changed"
                found["certainty"]["sentence"] = (
                    f"This is not valid now, because {why}. {found['certainty']['sentence']}"
                )
        awaited = {
            "rewards": int(policy_copy.pending.sum()),
            "oldest": None if oldest_open is None else oldest_open[0],
            "since": None if oldest_open is None else iso_utc(oldest_open[1]),
        }
        return {
            "name": name,
            "status": status,
            "events": seen,
            **found,
            "awaited": awaited,
            **changed,
            "sample_ratio": ratio,
        }

    @app.get("/v1/experiments/{name}/history", tags=["reading"])
    async def show_history(
        name: str,
        key: Annotated[keys.Key, require_scope("read")],
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    ) -> Any:
        """How it went: shares wanted and played, and how sure the mixture was; the last point is now."""
        now = await service.read(name, LiveExperiment.copy)
        policy_copy, seen, exp = now.replay.policy, now.replay.seen, now.record.id

        def work() -> list[dict[str, Any]]:
            found = history.stored_points(service.store, exp, after)
            if seen > after and (not found or found[-1]["seq"] < seen):
                found.append({"seq": seen, "at": now_ms(), **history.history_point(policy_copy)})
            return found

        found = await service.read_in_thread(key, name, work)
        return {"points": [_replace_at_by_iso_time(one) for one in found]}

    @app.get("/v1/experiments/{name}/log", tags=["reading"], response_class=Response)
    async def log(
        name: str,
        key: Annotated[keys.Key, require_scope("read")],
        form: Annotated[Literal["json", "csv", "parquet"], Query(alias="format")] = "json",
        after: Annotated[int, Query(ge=0, le=2**53, description="Only what came after this event.")] = 0,
        limit: Annotated[
            int | None, Query(ge=1, le=2**53, description="How many events at most; without it, all.")
        ] = None,
    ) -> Response:
        """Every event, oldest first: all of them, or ``limit`` after the event ``after``.

        ``share`` is the share with which an arm was asked for, ``reward`` its reward. When ``limit`` cuts the log
        off, the header ``Link`` has the address of what comes next.
        """
        names, record, last = await service.read(
            name,
            lambda live: (
                reading.ArmNames(live.replay.policy.names, live.replay.segments),
                live.record,
                live.replay.seen,
            ),
        )
        rows = partial(reading.event_dicts, service.store, record, names, last)
        kind, content = reading.LOG_FORMATS[form]
        parts = content(rows, after, last if limit is None else limit, partial(service.read_in_thread, key, name))
        first = await anext(parts)  # what is wrong with the store is noticed before the answer begins
        headers = {"content-disposition": f'attachment; filename="{name}.{form}"'} if form != "json" else {}
        if limit is not None and after + limit < last:  # events have numbers without gaps
            headers["link"] = f'<log?format={form}&after={after + limit}&limit={limit}>; rel="next"'
        return StreamingResponse(_prepend_chunk(first, parts), media_type=kind, headers=headers)


async def _prepend_chunk(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in rest:
        yield part


def _replace_at_by_iso_time(found: dict[str, Any]) -> dict[str, Any]:
    """Replace ``at`` (milliseconds) by ``time``, as text in UTC."""
    found["time"] = iso_utc(found.pop("at"))
    return found


async def _experiment_list_entry(service: Service, record: ExperimentRecord) -> dict[str, Any]:
    if record.status == ARCHIVED:
        return responses.experiment_to_dict(record, None)
    try:
        found, watched = await service.view_without_catching_up(
            record.name, lambda live: (_experiment_response(live), Watched.from_experiment(live))
        )
    except Refused:  # it cannot be read now
        return responses.experiment_to_dict(record, None)
    return found | {"changes": [one.to_response_dict() for one in (await service.alarms.changes_found(watched))[0]]}


def _experiment_response(live: LiveExperiment) -> dict[str, Any]:
    return responses.experiment_to_dict(live.record, live)


def _policy_from_spec_or_refuse(spec: dict[str, Any]) -> Any:
    return call_or_refuse_bad_input(lambda: replay.policy_from_spec(spec))


def _parse_regret(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refused(
            422, f"regret must be a number such as 0.02, or a share such as 2%, got {_validation.short_repr(text)}."
        ) from None
