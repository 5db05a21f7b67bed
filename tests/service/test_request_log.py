"""The log as JSON with level, process, request and duration; settings from file and environment; traces if wanted."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import types
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from pmbandits.cli.app import app
from pmbandits.service import request_log, run
from tests.service.serving import SHOP, serving


def test_a_failure_is_one_json_object_with_the_number_of_its_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatter, lines = request_log._JsonFormatter(), []
    monkeypatch.setattr(caplog.handler, "emit", lambda record: lines.append(json.loads(formatter.format(record))))
    caplog.set_level(logging.DEBUG, "pmbandits.service")
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        monkeypatch.setattr(served.service, "ask_or_tell", lambda *_: 1 / 0)
        found = served.send("POST", "/v1/experiments/shop/ask", json={}, headers={"x-request-id": "order-4711"})
        assert found.status_code == 500 and found.headers["x-request-id"] == "order-4711"
        evil = served.send("POST", "/v1/experiments/shop/ask", json={}, headers={"x-request-id": "a b"})
        assert evil.headers["x-request-id"] != "a b"
    mine = [line for line in lines if line.get("request_id") == "order-4711"]
    assert "ZeroDivisionError" in mine[0]["traceback"] and mine[0]["level"] == "error"
    assert mine[1]["status"] == 500 and mine[1]["route"] == "ask" and 0.0 < mine[1]["seconds"] < 60.0
    assert mine[1]["process"] and mine[1]["time"].endswith("Z")


def test_every_answer_that_is_no_success_has_the_number_of_its_request(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        for method, path, status in (
            ("GET", "/v1/experiments/none", 404),
            ("GET", "/nothing", 404),
            ("POST", "/v1/experiments", 422),
            ("PUT", "/health", 405),
            ("POST", "/login", 401),
        ):
            found = served.send(method, path, headers={"x-request-id": "order-4711"})
            assert found.status_code == status and found.headers.get_list("x-request-id") == ["order-4711"], path
        assert "x-request-id" not in served.send("GET", "/health").headers


def test_settings_come_from_options_then_environment_then_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(run, "serve", seen.append)
    monkeypatch.setattr(run, "check_address_and_store", lambda settings: None)
    file = tmp_path / "service.toml"
    file.write_text(f'store = "sqlite:///{tmp_path}/a.db"\nport = 1001\nprocesses = 2\nrate = 7\nopen = true\n')
    environment = {"PMBANDITS_CONFIG": str(file), "PMBANDITS_PORT": "1002", "PMBANDITS_PROCESSES": "3"}
    (tmp_path / "a.db").touch()
    done = CliRunner().invoke(app, ["serve", "--processes", "4", "--log-format", "json"], env=environment)
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["address"] for line in done.output.splitlines()] == ["http://127.0.0.1:1002"]
    (found,) = seen
    assert (found.port, found.processes, found.rate, found.open) == (1002, 4, 7.0, True)
    assert found.store.endswith("a.db") and found.log_format == "json"
    file.write_text("prot = 1\n")
    wrong = CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert wrong.exit_code != 0 and len(seen) == 1


def test_traces_are_made_where_packages_and_variables_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    application = object()
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    assert request_log.with_opentelemetry_traces(application) is application
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    module = types.ModuleType("opentelemetry.instrumentation.asgi")
    module.OpenTelemetryMiddleware = lambda inner: ("traced", inner)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.instrumentation.asgi", module)
    for name in ("opentelemetry", "opentelemetry.instrumentation"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert request_log.with_opentelemetry_traces(application) == ("traced", application)


def test_a_request_is_a_span_of_the_real_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.instrumentation.asgi")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    pytest.importorskip("opentelemetry.trace").set_tracer_provider(provider)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    application = request_log.with_opentelemetry_traces(refuse)
    assert application is not refuse
    transport = httpx.ASGITransport(app=application)

    async def ask() -> int:
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            return (await client.post("/v1/experiments/shop/ask")).status_code

    assert asyncio.run(ask()) == 503
    (span,) = [span for span in memory.get_finished_spans() if span.kind.name == "SERVER"]
    found = dict(span.attributes)
    assert 503 in (found.get("http.status_code"), found.get("http.response.status_code"))
    assert "POST" in (found.get("http.method"), found.get("http.request.method"))


def test_a_line_of_text_stays_one_line_whatever_is_in_it() -> None:
    formatter = request_log._TextFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s cannot be read", ("a\nERROR fake\u202e\t\u200b",), None)
    assert formatter.format(record) == r"INFO a\nERROR fake\u202e\t\u200b cannot be read"
