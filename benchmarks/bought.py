"""Parts of the service that could be bought, each beside the one that we wrote: ``python -m benchmarks.bought``.

One transaction on PostgreSQL, with our pipeline, with that of psycopg, and with asyncpg if it is installed; one ask
through our ASGI application, and through a route of Starlette; the page of the interface beside a viewer that is
bought. Times are of the processor of this process, and the best of several rounds, so that other work does not count.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from rich import print as show
from rich.table import Table
from sqlalchemy import func, select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.live import SPEC, stores
from pmbandits.service import api_docs, schema
from pmbandits.service.api import create_app
from pmbandits.service.asgi_app import read_body
from pmbandits.service.events import ASK, Lookup, LookupResult, WriteBatch, chain_digest
from pmbandits.service.messages import Ask
from pmbandits.service.postgres import _COLUMNS, _SELECT_FROM, SETTINGS, STATEMENTS, PostgresTransaction
from pmbandits.service.settings import Settings
from pmbandits.service.store import ExperimentRecord, Store

ROUNDS, TIMES = 12, 40
_EVENTS = STATEMENTS[b"events"]


class Writer:
    """Writes so many events in one transaction after the other, as a group commit does."""

    def __init__(self, record: ExperimentRecord) -> None:
        self.exp, self.seen, self.digest = record.id, 0, record.root

    def batch(self, n: int) -> WriteBatch:
        batch = WriteBatch()
        batch.drafted = [
            (self.exp, seq, ASK, None, 1, 0.25, 10**12, None) for seq in range(self.seen + 1, self.seen + n + 1)
        ]
        self.digest = chain_digest(self.digest, batch.drafted)
        batch.events = [(*event, self.digest) for event in batch.drafted]
        self.seen += n
        return batch


async def with_our_pipeline(address: str, writer: Writer, measure: Callable[..., Awaitable[Any]]) -> Any:
    transaction = PostgresTransaction(address)

    async def one(n: int) -> None:
        def decide(_found: list[LookupResult]) -> WriteBatch:
            return writer.batch(n)

        await transaction.run([Lookup(writer.exp, writer.seen)], decide, alone=True)

    found = await measure(one)
    transaction.close()
    return found


async def with_psycopg(address: str, writer: Writer, measure: Callable[..., Awaitable[Any]]) -> Any:
    connection = await psycopg.AsyncConnection.connect(address, autocommit=True, prepare_threshold=0)
    await connection.execute("; ".join(SETTINGS), prepare=False)
    insert = _EVENTS
    for k in range(len(_COLUMNS), 0, -1):
        insert = insert.replace(f"${k}", "%s")

    async def one(n: int) -> None:
        async with connection.pipeline():
            await connection.execute("BEGIN")
            await connection.execute("SELECT pg_advisory_xact_lock(1, %s)", (writer.exp,))
            store = await connection.execute(STATEMENTS[b"store"])
            news = await connection.execute(_SELECT_FROM, (writer.exp, writer.seen, writer.exp, 2000))
            await store.fetchall()
            await news.fetchall()
        async with connection.pipeline():
            await connection.execute(insert, [list(column) for column in zip(*writer.batch(n).events, strict=True)])
            await connection.execute("COMMIT")

    found = await measure(one)
    await connection.close()
    return found


async def with_asyncpg(address: str, writer: Writer, measure: Callable[..., Awaitable[Any]]) -> Any:
    import asyncpg

    connection = await asyncpg.connect(address)
    await connection.execute("; ".join(SETTINGS))
    lock = await connection.prepare("SELECT pg_advisory_xact_lock(1, $1::int)")
    store, news = await connection.prepare(STATEMENTS[b"store"]), await connection.prepare(STATEMENTS[b"from"])
    insert = await connection.prepare(_EVENTS)

    async def one(n: int) -> None:
        await connection.execute("BEGIN")
        await lock.fetch(writer.exp)
        await store.fetch()
        await news.fetch(writer.exp, writer.seen, writer.exp, 2000)
        await insert.fetch(*(list(column) for column in zip(*writer.batch(n).events, strict=True)))
        await connection.execute("COMMIT")

    found = await measure(one)
    await connection.close()
    return found


async def milliseconds(work: Callable[..., Awaitable[Any]], *given: Any) -> tuple[float, float]:
    """Processor and clock of one call, in milliseconds: the best of some rounds of calls."""
    used, passed = [], []
    for _ in range(ROUNDS):
        began, clock = time.process_time(), time.perf_counter()
        for _ in range(TIMES):
            await work(*given)
        used.append(1e3 * (time.process_time() - began) / TIMES)
        passed.append(1e3 * (time.perf_counter() - clock) / TIMES)
    return min(used), min(passed)


async def compare_transactions(url: str) -> None:
    """Print what a transaction with so many events takes with each library."""
    sizes, store = (1, 10, 100, 1000), Store(url)
    table = Table("one transaction, ms of processor / clock", *(f"{n:,} events" for n in sizes))
    for name, way in (("ours", with_our_pipeline), ("psycopg", with_psycopg), ("asyncpg", with_asyncpg)):
        writer = Writer(store.create_experiment(f"bought-{name}", dict(SPEC), "benchmark"))

        async def measure(one: Callable[..., Awaitable[Any]]) -> list[str]:
            return ["{:.2f} / {:.2f}".format(*await milliseconds(one, n)) for n in sizes]

        try:
            table.add_row(name, *await way(url, writer, measure))
        except ImportError:
            table.add_row(name, "not installed")
        with store.engine.connect() as connection:
            count = select(func.count()).where(schema.events.c.exp == writer.exp)
            assert connection.execute(count).scalar() == writer.seen + 1
    store.close()
    show(table)


async def compare_routes(folder: Path) -> None:
    """Print what one ask takes through our application, through Starlette, and through FastAPI."""
    app: Any = create_app(Settings(store=f"sqlite:///{folder / 'routes.db'}", open=True, warm=False))
    service = app.service
    await service.start()
    service.store.create_experiment("shop", {**SPEC, "policy": "uniform", "options": {}}, "benchmark")
    answer = await service.ask_or_tell("shop", Ask())

    async def known(_name: str, _request: Any, _who: str = "") -> Any:
        return answer  # so that only the way to it is measured

    service.ask_or_tell = known

    async def route(request: Request) -> Response:
        key = await app._authenticate(request.scope)
        name = request.path_params["name"]
        service.check_permission(key, "ask", name)
        asked = msgspec.json.decode(await read_body(request.receive, service.settings.body), type=Ask)
        return Response(msgspec.json.encode(await service.ask_or_tell(name, asked, key.id)))

    path = "/v1/experiments/{name}/ask"
    bare = Starlette(routes=[Route(path, route, methods=["POST"])])
    app.fallback_app.router.routes.insert(0, Route(path, route, methods=["POST"]))

    async def send(_message: Any) -> None:
        pass

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"n": null}', "more_body": False}

    def scope() -> dict[str, Any]:
        return {"type": "http", "method": "POST", "path": "/v1/experiments/shop/ask", "query_string": b"",
                "headers": [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")],
                "asgi": {"version": "3.0"}, "root_path": "", "scheme": "http"}  # fmt: skip

    async def one(target: Any) -> None:
        for _ in range(50):
            await target(scope(), receive, send)

    table = Table("one ask without its transaction", "µs of processor")
    for name, target in (("ours", app), ("Starlette", bare), ("Starlette, inside FastAPI", app.fallback_app)):
        await one(target)
        table.add_row(name, f"{1e3 * (await milliseconds(one, target))[0] / 50:.1f}")
    description = app.fallback_app.openapi()
    began = time.process_time()
    page = api_docs.api_docs_page(description)
    seconds = time.process_time() - began
    lines = len(Path(api_docs.__file__).read_text().splitlines())
    await service.stop()
    show(table)
    show(
        f"/docs: {lines} lines, {len(page.encode()) / 1000:.0f} kB in one page without scripts, made in "
        f"{1e3 * seconds:.0f} ms; the description for a viewer: {len(json.dumps(description)) / 1000:.0f} kB"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as kept:
        with stores(Path(kept)) as addresses:
            if "PostgreSQL" in addresses:
                asyncio.run(compare_transactions(addresses["PostgreSQL"]))
        asyncio.run(compare_routes(Path(kept)))
