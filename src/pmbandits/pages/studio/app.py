"""The studio's addresses and its page."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pmbandits import __version__
from pmbandits.pages import web
from pmbandits.pages.studio import answers, examples, sliders
from pmbandits.pages.studio.careful import Careful, Stale
from pmbandits.pages.studio.table import Table, keep

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_LARGEST = 1 << 30  # bytes of a file that is dropped in
_KEPT = 4  # tables that are kept at a time


class Studio:
    """The tables of one person, and the answers about them."""

    def __init__(self, path: Path | None = None) -> None:
        self.tables: dict[int, Table] = {}
        self.careful = Careful()
        self._ids = itertools.count(1)
        self.first: int | None = None
        self.first = self.add(Table(path, path.name, own=False)) if path is not None else None

    def add(self, table: Table) -> int:
        """Take in a table, and read it if it is clear which columns are meant."""
        table.begin(examples.BEGIN.get(table.example, {}))
        at = next(self._ids)
        self.tables[at] = table
        for old in [k for k in self.tables if k != self.first][: max(len(self.tables) - _KEPT, 0)]:
            self.tables.pop(old).forget()
        return at

    def table(self, asked: dict[str, Any], *, read: bool = True) -> Table:
        """The table that a question is about."""
        found = self.tables.get(asked.get("table", -1))
        if found is None:
            raise ValueError("this table is not there any more; drop it in again.")
        if read and not found.is_read:
            raise ValueError("say first which columns hold the arms and the rewards.")
        return found

    def shown(self, at: int) -> dict[str, Any]:
        """A table as the page takes it."""
        return {"table": at, **answers.overview(self.tables[at])}

    def end(self) -> None:
        """Forget everything."""
        self.careful.end()
        for table in self.tables.values():
            table.forget()


def make(studio: Studio) -> Starlette:
    """The app, without its watchman."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse
    from starlette.responses import Response as Answer
    from starlette.routing import Route

    async def page(request: Request) -> Response:
        return HTMLResponse(_page(), headers={**web.HEADERS, "Cache-Control": "no-store"})

    async def file(request: Request) -> Response:
        return web.asset(request.path_params["name"])

    async def start(request: Request) -> Response:
        given = request.query_params.get("table", "")  # a page that was loaded again
        at = int(given) if given.isascii() and given.isdigit() and int(given) in studio.tables else studio.first
        first = await run_in_threadpool(studio.shown, at) if at in studio.tables else None
        return web.as_json(
            {"catalogue": sliders.catalogue(), "named": sliders.named(), "examples": examples.EXAMPLES, "first": first}
        )

    async def drop(request: Request) -> Response:
        name = Path(request.query_params.get("name", "table.csv").replace("\\", "/")).name or "table.csv"
        path, handle = keep(name)
        size = 0
        with handle:
            async for piece in request.stream():
                size += len(piece)
                if size > _LARGEST:
                    raise ValueError(
                        f"the file is larger than {_LARGEST >> 20} MB; start the studio with its path instead."
                    )
                handle.write(piece)
        return await run_in_threadpool(taken, path, name)

    def taken(path: Path, name: str, example: str = "") -> Response:
        try:
            table = Table(path, name, own=True, example=example)
        except Exception:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise
        return web.as_json(studio.shown(studio.add(table)))

    async def example(request: Request) -> Response:
        asked = await web.question(request)
        folder = Path(tempfile.mkdtemp(prefix="pmbandits-studio-"))
        path = await run_in_threadpool(examples.write, str(asked.get("name")), folder)
        return await run_in_threadpool(taken, path, path.name, path.stem)

    async def whole(request: Request) -> Response:
        given = request.query_params.get("table", "")
        table = studio.table({"table": int(given) if given.isascii() and given.isdigit() else -1}, read=False)
        if not table.own:
            raise ValueError("this file is on your machine already.")
        headers = {**web.HEADERS, "Content-Disposition": f"attachment; filename*=utf-8''{quote(table.name)}"}
        return Answer(table.path.read_bytes(), headers=headers, media_type="application/octet-stream")

    def asking(answer: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
        async def asked(request: Request) -> Response:
            question = await web.question(request)
            return web.as_json(await run_in_threadpool(answer, question))

        return asked

    def read(asked: dict[str, Any]) -> Any:
        studio.table(asked, read=False).read(asked)
        studio.careful.start()
        return studio.shown(asked["table"])

    def verdict(asked: dict[str, Any]) -> Any:
        table = studio.table(asked)
        try:
            return studio.careful.ask(table.problem, answers.careful(table, asked))
        except Stale:
            return {"stale": True}

    async def report(request: Request) -> Response:
        asked = await web.question(request)
        table = studio.table(asked)
        question = {**answers.careful(table, asked), "report": True}
        found = await run_in_threadpool(lambda: studio.careful.ask(table.problem, question, replaceable=False))
        headers = {**web.HEADERS, "Content-Disposition": 'attachment; filename="report.html"'}
        return Answer(found["page"], headers=headers, media_type="text/html; charset=utf-8")

    questions: dict[str, Callable[[dict[str, Any]], Any]] = {
        "/read": read,
        "/wish": lambda asked: sliders.understood(str(asked.get("said", "")), formula=bool(asked.get("formula"))),
        "/look": lambda asked: answers.look(studio.table(asked), asked),
        "/why": lambda asked: answers.why(studio.table(asked), asked),
        "/way": lambda asked: answers.way(studio.table(asked), asked),
        "/compare": lambda asked: answers.compare(studio.table(asked), asked),
        "/verdict": verdict,
    }
    return Starlette(
        routes=[
            Route("/", page),
            Route("/assets/{name}", file),
            Route("/start", web.kindly(start)),
            Route("/table", web.kindly(whole)),
            Route("/drop", web.kindly(drop), methods=["POST"]),
            Route("/example", web.kindly(example), methods=["POST"]),
            Route("/report", web.kindly(report), methods=["POST"]),
            *(Route(at, web.kindly(asking(answer)), methods=["POST"]) for at, answer in questions.items()),
        ]
    )


def run(path: Path | None, *, port: int, show: Callable[[str], None], browse: bool) -> None:
    """``pmbandits studio``."""
    web.check_installed("pmbandits studio")
    studio = Studio(path)
    studio.careful.start()
    try:
        web.serve(lambda: make(studio), port=port, show=show, browse=browse)
    finally:
        studio.end()


def _page() -> str:
    body = web.files()["studio.html"].decode().replace("{version}", escape(__version__))
    return web.document("pmbandits studio", body, scripts=("uplot.js", "charts.js", "copy.js", "table.js", "studio.js"))
