"""The description of the interface: its examples work, answers look as it says, and the page shows all of it."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pmbandits.service import api_docs, keys
from pmbandits.service.api_examples import API_EXAMPLES
from tests.service.serving import Served, serving
from tests.service.test_keys import ROUTES


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("manual") / "store.db") as served:
        yield served


def test_every_example_works_and_its_answer_looks_as_described(service: Served) -> None:
    exported, number = b"", ""
    deleting = ("delete", "/v1/experiments/{name}")
    for (verb, path), sample in [(route, sample) for route, sample in API_EXAMPLES.items() if route != deleting]:
        given: dict[str, Any] = {} if sample.sent is None else {"json": sample.sent}
        if path == "/v1/keys/rotate":
            given = {"json": {**sample.sent, "id": number}}
        if path == "/v1/import":
            given = {"content": exported}
        found = service.send(
            verb.upper(), path.replace("{name}", "shop") + sample.query.replace("0123456789ab", number or "-"), **given
        )
        number = found.json()["key"].split("_")[1] if path.startswith("/v1/keys") and verb == "post" else number
        assert found.status_code in (200, 201), (verb, path, found.text)
        description = service.app.fallback_app.openapi()["paths"][path][verb]
        good = description["responses"][str(found.status_code)]["content"]
        assert found.headers["content-type"].partition(";")[0] in good
        exported = found.content if path.endswith("/export") else exported
        if not isinstance(sample.answer, str):
            msgspec.convert(found.json(), sample.answer)
            msgspec.convert(sample.answered, sample.answer)  # what is shown could have come
            assert good["application/json"]["example"] == sample.answered
    for name in ("history", "log", "state"):  # again, with something in it
        answer = API_EXAMPLES["get", f"/v1/experiments/{{name}}/{name}"].answer
        found = msgspec.convert(service.get(f"/shop/{name}"), answer)
        assert getattr(found, {"history": "points", "log": "events", "state": "arms"}[name])


def test_scopes_are_those_that_routes_ask_for(service: Served) -> None:
    """The table of ``test_keys`` is what every route was tried with."""
    tried = {(method.lower(), path.partition("?")[0]): scope for method, path, _, scope, _ in ROUTES}
    for path, routes in service.app.fallback_app.openapi()["paths"].items():
        for verb, route in routes.items():
            scope = tried[verb, path.replace("{name}", "shop")]
            assert route["security"] == ([] if scope is None else [{"key": [] if scope == "any" else [scope]}])
            assert (verb, path) in API_EXAMPLES
    assert len(API_EXAMPLES) == sum(len(routes) for routes in service.app.fallback_app.openapi()["paths"].values())


def test_the_page_has_examples_defaults_scopes_and_answers(service: Served) -> None:
    page = service.send("GET", "/docs").text
    text = html.unescape(re.sub("<[^>]+>", " ", page))
    assert '"support": {"kind": "interval", "lo": 0, "hi": 100}' in text
    assert re.search(r"policy\s+text \(usually vet\)", text) and re.search(
        r"limit\s+whole number.* \(usually 100\)", text
    )
    assert "needs a key for admin" in re.sub(r"\s+", " ", text) and "``" not in text and "white-space:pre-wrap" in page
    for part in ("watched", "Link", "corrected", "Also forecast when this is certain", "one sentence"):
        assert part in text


def test_the_page_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(api_docs, "api_docs_page", lambda description: made.append(description) or "a page")
    with serving(tmp_path / "store.db") as served:
        assert [served.send("GET", "/docs").text for _ in range(3)] == ["a page"] * 3
    assert len(made) == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_page_are_commands(service: Served) -> None:
    page = service.send("GET", "/docs").text
    commands = [html.unescape(found) for found in re.findall(r"<pre>(curl .*?)</pre>", page, re.S)]
    assert len(commands) == len(API_EXAMPLES)
    script = "curl() { printf '%s|' \"$@\"; echo; }\nPMBANDITS_URL=URL PMBANDITS_KEY=KEY\n" + "\n".join(commands)
    done = subprocess.run(["bash", "-eu"], input=script, text=True, capture_output=True, check=True, timeout=60)
    for (verb, path), line in zip(API_EXAMPLES, sorted(done.stdout.splitlines(), key=_place), strict=True):
        words = line.split("|")
        assert words[0] == "-sS" and f"URL{path.replace('{name}', 'shop')}" in line
        assert verb == "get" or words[words.index("-X") + 1] == verb.upper()
        sent = API_EXAMPLES[verb, path].sent
        assert sent is None or msgspec.json.decode(words[words.index("-d") + 1]) == sent


def _place(line: str) -> int:
    words = line.split("|")
    verb = words[words.index("-X") + 1].lower() if "-X" in words else "get"
    path = next(word for word in words if word.startswith("URL"))[3:].partition("?")[0].replace("/shop", "/{name}")
    return list(API_EXAMPLES).index((verb, path))


def test_a_key_may_read_the_page_whatever_it_is_for(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db", open=False) as served:
        key = keys.create_key_in_store(served.service.store, ["ask"], ["other"], "", "test")
        assert served.send("GET", "/docs", key=key).status_code == 200
