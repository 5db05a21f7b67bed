"""The studio's routes: each is a function, and the studio is the app's state."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pmbandits.pages import web
from pmbandits.pages.studio import answers, examples, sliders
from pmbandits.pages.studio.table import Table, create_upload_file
from pmbandits.pages.studio.verdict_worker import Superseded, VerdictWorker

_MAX_UPLOAD_BYTES = 1 << 30  # bytes of a file that is dropped in
_MOST_TABLES = 4  # tables that are kept at a time

Params = dict[str, Any]


class Studio:
    """The tables of one person, and the answers about them."""

    def __init__(self, path: Path | None = None) -> None:
        self.tables: dict[int, Table] = {}
        self.verdict_worker = VerdictWorker()
        self._ids = itertools.count(1)
        self.first: int | None = None  # which is never thrown out
        self.first = self.add(Table(path, path.name, is_upload=False)) if path is not None else None

    def add(self, table: Table) -> int:
        """Take in a table, and read it if it is clear which columns are meant."""
        table.read_if_unambiguous(examples.INITIAL_STATE.get(table.example, {}))
        at = next(self._ids)
        self.tables[at] = table
        for old in [k for k in self.tables if k != self.first][: max(len(self.tables) - _MOST_TABLES, 0)]:
            self.tables.pop(old).delete_upload()
        return at

    def add_upload(self, path: Path, name: str, example: str = "") -> dict[str, Any]:
        """Take in a file that was dropped in, which is deleted if it is no table; returns it as the page takes it."""
        try:
            table = Table(path, name, is_upload=True, example=example)
        except Exception:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
        return self.overview(self.add(table))

    def table(self, params: Params, *, read: bool = True) -> Table:
        """The table that a request is about."""
        found = self.tables.get(params.get("table", -1))
        if found is None:
            raise ValueError("this table is not there any more; drop it in again.")
        if read and not found.is_read:
            raise ValueError("say first which columns hold the arms and the rewards.")
        return found

    def overview(self, at: int) -> dict[str, Any]:
        """A table as the page takes it."""
        return {"table": at, **answers.table_overview(self.tables[at])}

    def read(self, params: Params) -> dict[str, Any]:
        """Read a table as the page says."""
        self.table(params, read=False).read(params)
        self.verdict_worker.start_process()
        return self.overview(params["table"])

    def verdict(self, params: Params) -> Any:
        """The advice on a preference; stale if a newer question came."""
        table = self.table(params)
        try:
            return self.verdict_worker.ask(table.problem, answers.verdict_request(table, params))
        except Superseded:
            return {"stale": True}

    def report(self, params: Params) -> str:
        """The HTML report on some preferences."""
        table = self.table(params)
        question = {**answers.verdict_request(table, params), "report": True}
        page: str = self.verdict_worker.ask(table.problem, question, replaceable=False)["page"]
        return page

    def stop_worker_and_delete_uploads(self) -> None:
        """End the verdict worker and delete all uploads."""
        self.verdict_worker.end_process()
        for table in self.tables.values():
            table.delete_upload()


_QUESTIONS: dict[str, Callable[[Studio, Params], Any]] = {
    "/read": Studio.read,
    "/wish": lambda _, params: sliders.parse_preference(
        str(params.get("said", "")), formula=bool(params.get("formula")), loss=bool(params.get("loss"))
    ),
    "/look": lambda studio, params: answers.best_mixture(studio.table(params), params),
    "/why": lambda studio, params: answers.explain_mixture(studio.table(params), params),
    "/way": lambda studio, params: answers.shares_along_slider(studio.table(params), params),
    "/compare": lambda studio, params: answers.compare_preferences(studio.table(params), params),
    "/verdict": Studio.verdict,
}


def make_app(studio: Studio) -> Starlette:
    """The Starlette app of the studio, without the token middleware."""
    posts = {
        "/drop": _upload_route,
        "/example": _example_route,
        "/report": _report_route,
        **dict.fromkeys(_QUESTIONS, _question_route),
    }
    app = Starlette(
        routes=[
            Route("/", _page_route),
            Route("/assets/{name}", web.asset_route),
            Route("/start", web.with_error_responses(_start_route)),
            Route("/table", web.with_error_responses(_download_route)),
            *(Route(at, web.with_error_responses(handler), methods=["POST"]) for at, handler in posts.items()),
        ]
    )
    app.state.studio = studio
    return app


async def _page_route(request: Request) -> Response:
    return HTMLResponse(web.html_page("studio.html"), headers={**web.HEADERS, "Cache-Control": "no-store"})


async def _start_route(request: Request) -> Response:
    studio, at = request.app.state.studio, _table_number_in_address(request)  # of a page that was loaded again
    at = at if at in studio.tables else studio.first
    first = await run_in_threadpool(studio.overview, at) if at in studio.tables else None
    return web.json_response(
        {
            "catalogue": sliders.all_statements_for_list(),
            "named": sliders.named_metrics(),
            "examples": examples.EXAMPLES,
            "first": first,
        }
    )


async def _upload_route(request: Request) -> Response:
    name = Path(request.query_params.get("name", "table.csv").replace("\\", "/")).name or "table.csv"
    path, handle = create_upload_file(name)
    size = 0
    with handle:
        async for piece in request.stream():
            size += len(piece)
            if size > _MAX_UPLOAD_BYTES:
                raise ValueError(
                    f"the file is larger than {_MAX_UPLOAD_BYTES >> 20} MB; start the studio with its path instead."
                )
            handle.write(piece)
    return web.json_response(await run_in_threadpool(request.app.state.studio.add_upload, path, name))


async def _example_route(request: Request) -> Response:
    params = await web.json_body(request)
    folder = Path(tempfile.mkdtemp(prefix="pmbandits-studio-"))
    path = await run_in_threadpool(examples.write_example_csv, str(params.get("name")), folder)
    return web.json_response(await run_in_threadpool(request.app.state.studio.add_upload, path, path.name, path.stem))


async def _download_route(request: Request) -> Response:
    table = request.app.state.studio.table({"table": _table_number_in_address(request)}, read=False)
    if not table.is_upload:
        raise ValueError("this file is on your machine already.")
    headers = {**web.HEADERS, "Content-Disposition": f"attachment; filename*=utf-8''{quote(table.name)}"}
    return Response(table.path.read_bytes(), headers=headers, media_type="application/octet-stream")


async def _report_route(request: Request) -> Response:
    page = await run_in_threadpool(request.app.state.studio.report, await web.json_body(request))
    headers = {**web.HEADERS, "Content-Disposition": 'attachment; filename="report.html"'}
    return Response(page, headers=headers, media_type="text/html; charset=utf-8")


async def _question_route(request: Request) -> Response:
    answer = _QUESTIONS[request.scope["path"]]
    return web.json_response(await run_in_threadpool(answer, request.app.state.studio, await web.json_body(request)))


def _table_number_in_address(request: Request) -> int:
    """The number of a table in the address; -1 if there is none."""
    given = request.query_params.get("table", "")
    return int(given) if given.isascii() and given.isdigit() else -1


def serve_studio(path: Path | None, *, port: int, show: Callable[[str], None], browse: bool) -> None:
    """``pmbandits studio``."""
    studio = Studio(path)
    studio.verdict_worker.start_process()
    try:
        web.serve_locally(lambda: make_app(studio), port=port, show=show, browse=browse)
    finally:
        studio.stop_worker_and_delete_uploads()
