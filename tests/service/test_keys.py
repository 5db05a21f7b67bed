"""Who may do what: every route with every kind of key, and what is kept of a key."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pmbandits.cli.app import app
from pmbandits.service import keys
from pmbandits.service.messages import Ask
from pmbandits.service.settings import Settings
from pmbandits.service.store import Store, now_ms
from tests.service.serving import SHOP, Served, serving

# Every route: method, path, body, the scope that it needs, and of what: this experiment, or all of them.
ROUTES: list[tuple[str, str, Any, str | None, str]] = [
    ("GET", "/health", None, None, ""),
    ("GET", "/ready", None, None, ""),
    ("GET", "/metrics", None, "read", "all"),
    ("GET", "/v1/openapi.json", None, "any", ""),
    ("GET", "/docs", None, "any", ""),
    ("GET", "/v1/experiments", None, "any", ""),
    ("GET", "/v1/audit", None, "admin", "all"),
    ("GET", "/login", None, None, ""),
    ("POST", "/login", "key=pmb_", None, ""),
    ("GET", "/logout", None, "any", ""),
    ("GET", "/v1/keys", None, "admin", "all"),
    ("POST", "/v1/keys", {"scopes": ["read"]}, "admin", "all"),
    ("POST", "/v1/keys/rotate", {"id": "nothing"}, "admin", "all"),
    ("DELETE", "/v1/keys?id=nothing", None, "admin", "all"),
    ("DELETE", "/v1/experiments/shop?confirm=another", None, "admin", "this"),
    ("DELETE", "/v1/experiments/shop/unit?unit=nobody", None, "admin", "this"),
    ("POST", "/v1/experiments/shop/forget", {"seconds": 1e9}, "admin", "this"),
    ("POST", "/v1/experiments", {**SHOP, "policy": "none"}, "admin", "this"),
    ("POST", "/v1/experiments", {"name": "shop", "nothing": 1}, "admin", "this"),
    ("POST", "/v1/import?name=shop", "no policy", "admin", "this"),
    ("GET", "/v1/experiments/shop", None, "read", "this"),
    ("GET", "/v1/experiments/shop/state", None, "read", "this"),
    ("GET", "/v1/experiments/shop/history", None, "read", "this"),
    ("GET", "/v1/experiments/shop/log", None, "read", "this"),
    ("GET", "/v1/experiments/shop/export", None, "read", "this"),
    ("GET", "/", None, "any", ""),
    ("GET", "/board", None, "any", ""),
    ("GET", "/board/assets/nothing", None, "any", ""),
    ("GET", "/board/stream", None, "any", ""),
    ("GET", "/board/shop", None, "read", "this"),
    ("GET", "/board/shop/stream", None, "read", "this"),
    ("GET", "/board/", None, "any", ""),
    ("GET", "/board/view", None, "any", ""),
    ("GET", "/board/shop/", None, "read", "this"),
    ("GET", "/board/shop/view", None, "read", "this"),
    ("GET", "/board/shop/preview?do=paused", None, "admin", "this"),
    ("POST", "/v1/experiments/shop/ask", {}, "ask", "this"),
    ("POST", "/v1/experiments/shop/tell", {"arm": "A", "reward": 1}, "tell", "this"),
    ("POST", "/v1/experiments/shop/expire", {"seconds": 1e9, "reward": 0}, "tell", "this"),
    ("POST", "/v1/experiments/shop/status", {"status": "running"}, "admin", "this"),
    ("POST", "/v1/experiments/shop/arms", {"do": "pause", "arm": "nobody"}, "admin", "this"),
    ("PUT", "/v1/experiments/shop/limits", {"shares": "nothing"}, "admin", "this"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("keys") / "store.db", open=False) as served:
        admin = keys.create_key_in_store(served.service.store, ["admin"], None, "", "test")
        served.post("", SHOP, key=admin)
        yield served


def holders(store: Store) -> Iterator[tuple[str, str | None, set[str], str]]:
    """Keys of every kind: what they are called, what they may do, and where."""
    for scope in keys.SCOPES:
        may = set(keys.SCOPES) if scope == "admin" else {scope}
        for where, names in (("all", None), ("this", ["shop"]), ("other", ["another"])):
            yield f"{scope} of {where}", keys.create_key_in_store(store, [scope], names, "", "test"), may, where
    token = keys.create_key_in_store(store, keys.SCOPES, None, "", "test")
    keys.revoke_key_in_store(store, token.split("_")[1], "test")
    time.sleep(keys.REFRESH_SECONDS)  # the service may have read the key before it was revoked
    yield "revoked", token, set(), "nowhere"
    good = keys.create_key_in_store(store, keys.SCOPES, None, "", "test")
    yield "wrong secret", good[:-1] + ("0" if good[-1] != "0" else "1"), set(), "nowhere"
    yield "unknown", f"pmb_{'0' * 12}_{'0' * 48}", set(), "nowhere"
    yield "no key at all", "hello", set(), "nowhere"
    yield "none", None, set(), "nowhere"


def test_every_route_with_every_kind_of_key(service: Served) -> None:
    for holder, key, may, where in holders(service.service.store):
        for method, path, body, scope, of in ROUTES:
            given: dict[str, Any] = (
                {"content": body} if isinstance(body, str) else {"json": body} if body is not None else {}
            )
            good = scope == "any" or (scope in may and where in ("all", of))
            if good and path.endswith("/stream"):
                continue  # it does not end
            seen = service.service.experiment_cache.live_experiments["shop"].replay.seen
            found = service.send(method, path, key=key, **given)
            assert good or service.service.experiment_cache.live_experiments["shop"].replay.seen == seen, (
                "who is refused changes nothing"
            )
            about = (holder, method, path, found.status_code, found.text[:200])
            if scope is None:
                assert found.status_code == (401 if path == "/login" and method == "POST" else 200), about
            elif where == "nowhere":
                assert found.status_code == 401, about
                assert found.headers["www-authenticate"]
                said = "a key is needed" if key is None else "this key is not known here"
                assert found.json()["error"].startswith(said), about
            elif good:
                # Nothing that goes further is a matter of keys: it is done, or refused for what was asked for.
                assert found.status_code in (200, 201, 303, 307, 404, 409, 422), about
            else:
                assert found.status_code == 403, about


def test_the_table_above_has_all_routes(service: Served) -> None:
    described = {
        (verb.upper(), path) for path, verbs in service.app.fallback_app.openapi()["paths"].items() for verb in verbs
    }
    routes = {(verb, route.path) for route in service.app.fallback_app.routes for verb in route.methods - {"HEAD"}}
    known = {(verb, path.replace("{name}", "shop").replace("{file}", "nothing")) for verb, path in described | routes}
    assert known == {(method, path.partition("?")[0]) for method, path, _, _, _ in ROUTES}
    assert {path for _, path in routes - described if not path.startswith("/board")} == {"/", "/login", "/logout"}


def test_there_are_no_other_ways_in(service: Served) -> None:
    admin = keys.create_key_in_store(service.service.store, ["admin"], None, "", "test")
    known = {(method, path.partition("?")[0]) for method, path, _, _, _ in ROUTES}
    before = service.get("/shop", key=admin)
    for path in {path for _, path in known}:
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "ASK"):
            if (method, path) not in known:
                assert service.send(method, path, key=admin, json={}).status_code in (404, 405), (method, path)
    for path in (
        "/v1/experiments/shop/ask/", "/v1/experiments//shop/ask", "/v1/experiments/shop/..%2fshop/ask",
        "/V1/experiments/shop/ask", "/v1/experiments/shop/ASK", "/v1/experiments/SHOP/ask",
        "/v1/experiments/shop%00/ask",
        "/v1/experiments/shop%2f/ask", "/v1/experiments/shop%20/ask", "/v1/experiments/%2e%2e/ask",
        "/v1/experiments/sho%EF%BD%90/ask", "/v1/experiments/shop;x/ask", "/v1/experiments/" + "a" * 5000 + "/ask",
        "/v1/experiments/shop%0d%0ax:y/ask", "/v1/experiments/shop/ask%3Fx",
    ):  # fmt: skip
        assert service.send("POST", path, key=admin, json={}).status_code in (404, 405), path
    assert service.get("/shop", key=admin) == before
    other = keys.create_key_in_store(service.service.store, keys.SCOPES, ["another"], "", "test")
    for path in ("another%2f..%2fshop/ask", "shop%23another/ask", "shop?name=another", "shop"):
        found = service.send("POST" if path.endswith("ask") else "GET", f"/v1/experiments/{path}", key=other, json={})
        assert found.status_code in (403, 404, 405), path


def test_the_list_shows_only_what_a_key_may_read(service: Served) -> None:
    store = service.service.store
    for scopes, names, shown in (
        (["read"], None, 1),
        (["read"], ["other"], 0),
        (["ask"], None, 0),
        (["admin"], ["shop"], 1),
    ):
        key = keys.create_key_in_store(store, scopes, names, "", "test")
        assert len(service.get("", key=key)["experiments"]) == shown


def test_a_key_without_access_learns_nothing_of_what_there_is(service: Served) -> None:
    key = keys.create_key_in_store(service.service.store, ["ask"], ["another"], "", "test")
    answers = {service.refused(f"/{name}/ask", {}, key=key)[0] for name in ("shop", "nothing")}
    assert answers == {403}


def test_secrets_are_not_kept(service: Served, tmp_path: Path) -> None:
    token = keys.create_key_in_store(service.service.store, ["read"], None, "label", "test")
    secret = token.split("_")[2]
    service.get("/shop", key=token)
    path = str(service.service.store.url.database)
    with sqlite3.connect(path) as connection:
        everything = "\n".join(connection.iterdump())
    assert secret not in everything
    row = next(key for key in keys.list_keys(service.service.store) if key.id == token.split("_")[1])
    import hashlib

    assert row.hash == hashlib.sha256(secret.encode()).hexdigest()


def test_a_revoked_key_is_known_after_a_second_and_its_use_is_shown(service: Served) -> None:
    store = service.service.store
    token = keys.create_key_in_store(store, ["read"], None, "", "test")
    number = token.split("_")[1]
    assert service.send("GET", "/v1/experiments", key=token).status_code == 200
    service.service.key_cache._write_last_use_of_keys()
    used = next(key for key in keys.list_keys(store) if key.id == number).used
    assert used is not None and abs(used / 1000 - time.time()) < 60
    keys.revoke_key_in_store(store, number, "test")
    time.sleep(1.1 * keys.REFRESH_SECONDS)
    assert service.send("GET", "/v1/experiments", key=token).status_code == 401
    with pytest.raises(ValueError, match="is revoked already"):
        keys.revoke_key_in_store(store, number, "test")


def test_a_revoked_key_is_known_though_the_process_is_busy_with_other_things(service: Served) -> None:
    store = service.service.store
    token = keys.create_key_in_store(store, ["ask"], None, "", "test")
    assert service.send("POST", "/v1/experiments/shop/ask", json={}, key=token).status_code == 200
    done = threading.Event()

    async def occupy() -> list[Any]:
        loop = asyncio.get_running_loop()
        return [loop.run_in_executor(None, done.wait, 60) for _ in range(64)]  # all threads, and a long queue

    service.wait(occupy())
    try:
        keys.revoke_key_in_store(store, token.split("_")[1], "test")
        time.sleep(1.2 * keys.REFRESH_SECONDS)
        assert service.send("POST", "/v1/experiments/shop/ask", json={}, key=token).status_code == 401
    finally:
        done.set()


def test_a_stream_ends_when_its_key_is_revoked(service: Served) -> None:
    store = service.service.store
    token = keys.create_key_in_store(store, ["read"], None, "", "test")

    async def seen() -> list[bytes]:
        request = {
            "type": "http", "method": "GET", "path": "/board/stream", "raw_path": b"/board/stream", "query_string": b"",
            "headers": [(b"authorization", f"Bearer {token}".encode())], "asgi": {"version": "3.0"}, "root_path": "",
            "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        parts: list[bytes] = []
        sent, never = iter([{"type": "http.request", "body": b"", "more_body": False}]), asyncio.Event()

        async def receive() -> Any:
            return next(sent, None) or await never.wait()

        async def send(message: Any) -> None:
            parts.append(message.get("body", b""))
            if b"moved" in parts[-1]:
                await asyncio.to_thread(keys.revoke_key_in_store, store, token.split("_")[1], "test")
                await asyncio.sleep(1.2 * keys.REFRESH_SECONDS)
                await service.service.ask_or_tell("shop", Ask())  # there is news, but not for this key

        await asyncio.wait_for(service.app(request, receive, send), 30)
        return parts

    assert sum(b"moved" in part for part in service.wait(seen())) == 1


def test_a_browser_may_read_with_the_key_as_password_and_not_write(service: Served) -> None:
    token = keys.create_key_in_store(service.service.store, ["admin"], None, "", "test")
    auth = ("anybody", token)
    assert service.send("GET", "/v1/experiments/shop", auth=auth).status_code == 200
    assert service.send("POST", "/v1/experiments/shop/ask", json={}, auth=auth).status_code == 401


def test_too_many_requests_are_sent_away(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db", open=False, rate=5.0) as served:
        token = keys.create_key_in_store(served.service.store, ["admin"], None, "", "test")
        answers = [served.send("GET", "/v1/experiments", key=token).status_code for _ in range(30)]
    assert answers[:5] == [200] * 5
    assert 429 in answers


def test_without_keys_pages_of_strangers_are_sent_away(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        for headers, status in (
            ({}, 200),
            ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
            ({"origin": "https://evil.example"}, 403),
            ({"host": "evil.example"}, 403),  # a name that somebody lets point to 127.0.0.1
            ({"host": "[::1]:8000"}, 200),
            ({"host": "[::1]"}, 200),
            ({"host": "127.0.0.1"}, 200),
            ({"host": "127.0.0.1.evil.example"}, 403),
            ({"host": "localhost.evil.example:8000"}, 403),
            ({"host": "evil.example:127.0.0.1"}, 403),
            ({"host": "0.0.0.0:8000"}, 403),
            ({"host": ""}, 403),
            ({"origin": "null"}, 403),
            ({"origin": "http://127.0.0.1:3000"}, 403),  # another program of this machine shows pages, too
            ({"origin": "http://127.0.0.1:8000.evil.example"}, 403),
        ):
            assert served.send("GET", "/v1/experiments", headers=headers).status_code == status, headers
    with pytest.raises(ValueError, match="loopback"):
        Settings(host="0.0.0.0", open=True)


def test_bodies_have_a_largest_size(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db", body=1000, file=2000) as served:
        served.post("", SHOP)
        for path, size in (("/v1/experiments/shop/ask", 1001), ("/v1/experiments", 1001), ("/v1/import?name=x", 2001)):
            found = served.send("POST", path, content=b" " * size)
            assert found.status_code == 413, found.text


def test_the_command_line(tmp_path: Path) -> None:
    run, store = CliRunner(), f"sqlite:///{tmp_path / 'store.db'}"
    made = run.invoke(
        app, ["key", "create", "--scopes", "ask, tell", "-e", "shop", "--label", "[red]web", "--store", store]
    )
    token = made.stdout.strip()
    assert re.fullmatch(r"pmb_[0-9a-f]{12}_[0-9a-f]{48}", token)
    list_keys = run.invoke(app, ["key", "list", "--store", store], env={"COLUMNS": "200"}).stdout
    assert token.split("_")[1] in list_keys and "[red]web" in list_keys and "ask, tell" in list_keys
    assert token.split("_")[2] not in list_keys
    narrow = run.invoke(app, ["key", "list", "--store", store], env={"COLUMNS": "80"}).stdout
    assert "…" not in narrow and all(len(line) <= 80 for line in narrow.splitlines())
    assert re.search(r"20\d\d-\d\d-\d\d", narrow) and "experiments" in narrow
    with pytest.raises(ValueError, match="'abc' is not known"):
        run.invoke(app, ["key", "revoke", "pmb_abc", "--store", store], catch_exceptions=False)
    assert "is revoked" in run.invoke(app, ["key", "revoke", token.rpartition("_")[0], "--store", store]).stdout
    assert "revoked" in run.invoke(app, ["key", "list", "--store", store], env={"COLUMNS": "200"}).stdout
    wrong = run.invoke(app, ["key", "create", "--scopes", "write", "--store", store])
    assert "unknown scope 'write'" in str(wrong.exception)
    acts = Store(store).audit_entries()
    assert [act["act"] for act in acts] == ["revoke key", "create key"]
    assert json.loads(acts[1]["detail"])["experiments"] == ["shop"]
    assert token.split("_")[2] not in json.dumps(acts)


def test_mistakes_on_the_command_line_are_one_sentence_and_leave_nothing_behind(tmp_path: Path) -> None:
    run, missing = CliRunner(), tmp_path / "missing.db"
    (tmp_path / "junk.db").write_text("no database, but longer than the head of one: " * 10)
    with socket.socket() as taken, socket.socket() as other:
        for line in (taken, other):
            line.bind(("127.0.0.1", 0))
        taken.listen()
        free = str(other.getsockname()[1])
        other.close()
        port = str(taken.getsockname()[1])
        for words, sentence in (
            (["key", "list", "--store", f"sqlite:///{missing}"], "there is no store at"),
            (["key", "revoke", "x", "--store", f"sqlite:///{missing}"], "there is no store at"),
            (["key", "create", "-e", "two words", "--store", f"sqlite:///{missing}"], "the name of an experiment has"),
            (["key", "list", "--store", f"sqlite:///{tmp_path / 'junk.db'}"], "cannot be opened: file is not a data"),
            (["key", "list", "--store", "postgresql://me:secret@127.0.0.1:1/x"], "cannot be opened: connection failed"),
            (["serve", "--store", f"sqlite:///{missing}", "--example", "--port", port], "cannot listen at 127.0.0.1"),
            (["serve", "--store", "mysql://me:secret@x/y", "--port", free], "there is no store of the kind 'mysql'"),
        ):
            found = run.invoke(app, words)
            assert isinstance(found.exception, ValueError) and sentence in str(found.exception), words
            assert "secret" not in str(found.exception) + found.output
    assert not missing.exists()


def test_who_opens_a_page_is_refused_with_a_page_and_programs_with_json(service: Served) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    wrong = keys.create_key_in_store(service.service.store, ["ask"], None, "", "test")
    reader = keys.create_key_in_store(service.service.store, ["read"], None, "", "test")
    for path, key, status, said in (
        ("/board/", None, 401, "A key is needed"),
        ("/board/shop/", "pmb_0", 401, "This key is not known here"),
        ("/board/shop/", wrong, 403, "This key is for something else"),
        ("/board/<b>nobody/", reader, 404, "There is no experiment &#x27;&lt;b&gt;nobody&#x27;"),
        ("/docs", None, 401, "A key is needed"),
    ):
        found = service.send("GET", path, key=key, headers=browser)
        assert found.status_code == (303 if status == 401 else status)  # a browser is led to the login page
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        assert said in found.text and "{" not in re.sub("<style>.*</style>", "", found.text)
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert len(found.content) == int(found.headers["content-length"])
        assert (status == 401) == ("www-authenticate" in found.headers)
        plain = service.send("GET", path, key=key)
        assert plain.status_code == status and list(plain.json()) == ["error"]
    assert service.send("GET", "/v1/experiments", headers=browser).headers["content-type"] == "application/json"
    good = service.send("GET", "/board/shop/", key=reader, headers=browser)
    assert good.status_code == 200 and "script-src 'self'" in good.headers["content-security-policy"]
    assert service.send("GET", "/board/shop/view", key=reader, headers=browser).json()["title"] == "shop"


def test_a_key_expires_and_is_rotated(service: Served) -> None:
    store = service.service.store
    admin = keys.create_key_in_store(store, ["admin"], None, "", "test")
    short = keys.create_key_in_store(store, ["read"], ["shop"], "", "test", expires=now_ms() + 1500)
    assert service.send("GET", "/v1/experiments/shop", key=short).status_code == 200
    made = service.send("POST", "/v1/keys", key=admin, json={"scopes": ["ask"], "experiments": ["shop"], "days": 30})
    first = made.json()["key"]
    number = first.split("_")[1]
    sent = {"id": number, "grace_days": 1.0}
    second = service.send("POST", "/v1/keys/rotate", key=admin, json=sent).json()["key"]
    for token in (first, second):  # for a day both are good
        service.post("/shop/ask", key=token)
    listed = {one["id"]: one for one in service.send("GET", "/v1/keys", key=admin).json()["keys"]}
    old, new = listed[number], listed[second.split("_")[1]]
    assert old["scopes"] == new["scopes"] == ["ask"] and old["experiments"] == new["experiments"] == ["shop"]
    assert old["expires"] < new["expires"] and "hash" not in old
    again = service.send("POST", "/v1/keys/rotate", key=admin, json=sent)
    assert again.status_code == 422 and "has a successor" in again.json()["error"]
    assert len(service.send("GET", "/v1/keys", key=admin).json()["keys"]) == len(listed)
    assert service.send("DELETE", f"/v1/keys?id={number}", key=admin).status_code == 200
    time.sleep(1.6)
    assert service.send("POST", "/v1/experiments/shop/ask", key=first, json={}).status_code == 401
    assert service.send("GET", "/v1/experiments/shop", key=short).status_code == 401
    service.post("/shop/ask", key=second)


def test_who_lacks_a_scope_is_told_the_command_that_makes_a_key_with_it(service: Served) -> None:
    reader = keys.create_key_in_store(service.service.store, ["read"], ["shop"], "", "test")
    _, said = service.refused("/shop/tell", {"arm": "A", "reward": 1}, key=reader)
    url = service.service.store.display_url
    assert url.partition("sqlite:///")[2] not in said  # who has a key need not know where the store is
    words = shlex.split(said.partition("pmbandits ")[2])
    done = CliRunner().invoke(app, [*words, "--store", url])
    assert done.exit_code == 0, done.output
    service.post("/shop/tell", {"arm": "A", "reward": 1}, key=done.output.strip())


def test_a_key_has_only_so_many_downloads_open_at_once(service: Served) -> None:
    reader = keys.create_key_in_store(service.service.store, ["read"], ["shop"], "", "test")
    key = next(one for one in keys.list_keys(service.service.store) if one.id == reader.split("_")[1])
    with ExitStack() as held:
        for _ in range(keys.MAX_OPEN["download"]):
            held.enter_context(service.service.key_cache.count_open_response(key, "download"))
        assert service.send("GET", "/v1/experiments/shop/log", key=reader).status_code == 429
        assert service.send("GET", "/v1/experiments/shop/state", key=reader).status_code == 200
    assert service.send("GET", "/v1/experiments/shop/log", key=reader).status_code == 200


def test_what_strangers_send_to_the_login_page_costs_nothing(service: Served) -> None:
    sent = {"content-type": "application/x-www-form-urlencoded"}
    for content, status in (("key=" + "%41" * 1400, 413), ("&".join(["a=1"] * 12), 400), ("key=\xff%ff", 401)):
        found = service.send("POST", "/login", content=content.encode("latin-1"), headers=sent)
        assert found.status_code == status, found.text
        assert "<form" in found.text or "error" in found.json()


def test_a_browser_logs_in_on_a_page_and_may_then_read_and_not_write(service: Served) -> None:
    token = keys.create_key_in_store(service.service.store, ["admin"], None, "", "test")
    page = {"accept": "text/html"}
    found = service.send("GET", "/board/shop/", headers=page)
    assert found.status_code == 303 and found.headers["location"] == "/login?next=/board/shop/"
    form = service.send("GET", found.headers["location"], headers=page)
    assert 'value="/board/shop/"' in form.text and "form-action 'self'" in form.headers["content-security-policy"]
    sent = {"content-type": "application/x-www-form-urlencoded"}
    assert service.send("POST", "/login", content="key=wrong", headers=sent).status_code == 401
    evil = {**sent, "origin": "https://evil.example"}
    assert service.send("POST", "/login", content=f"key={token}", headers=evil).status_code == 401
    done = service.send("POST", "/login", content=f"key={token}&next=https://evil.example", headers=sent)
    assert done.status_code == 303 and done.headers["location"] == "/board/"
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    service.client.cookies.clear()
    mine = {"cookie": cookie.partition(";")[0]}
    assert service.send("GET", "/board/shop/", headers={**page, **mine}).status_code == 200
    assert service.send("POST", "/v1/experiments/shop/ask", json={}, headers=mine).status_code == 401
    out = service.send("GET", "/logout", headers=mine)
    assert 'pmbandits_key=""' in out.headers["set-cookie"]


def test_who_may_only_read_sees_no_controls_and_all_can_log_out(service: Served) -> None:
    store = service.service.store
    for scope, change in (("read", "no"), ("admin", "yes")):
        page = service.send("GET", "/board/shop/", key=keys.create_key_in_store(store, [scope], None, "", "test")).text
        assert f'data-change="{change}"' in page and 'href="../../logout"' in page
    found = service.send("GET", "/logout", key=keys.create_key_in_store(store, ["read"], None, "", "test"))
    assert found.status_code == 303 and "pmbandits_key=" in found.headers["set-cookie"]
