"""What a client does when the line breaks: against a server that answers badly, late, twice or not at all."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import pmbandits as pmb

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def good(handler: BaseHTTPRequestHandler, body: Any, status: int = 200, **headers: str) -> None:
    content = json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without an answer."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


@contextmanager
def server(answers: list[Answer]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that gives these answers, one after the other; its address, and the requests that it read."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            seen.append({"path": self.path, **json.loads(body or b"{}")})
            answers[min(len(seen), len(answers)) - 1](self, seen[-1])

        do_GET = do_PUT = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}", seen
        finally:
            http.shutdown()
            thread.join()


def arm(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    good(handler, {"ticket": 7, "arm": "A", "share": 0.5})


def told(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    good(handler, {"taken": 1, "repeated": 0, "corrected": 0})


def busy(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    good(handler, {"error": "not now."}, 503, retry_after="0")


def lost(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    cut(handler)


def test_an_ask_whose_answer_is_lost_is_sent_again_with_the_same_key() -> None:
    with server([lost, busy, arm]) as (url, seen), pmb.connect(url, key="pmb_x") as client:
        assert client["shop"].ask() == (7, "A", 0.5, None)
    assert len(seen) == 3 and len({request["key"] for request in seen}) == 1
    assert all(request["path"] == "/v1/experiments/shop/ask" for request in seen)


def test_two_asks_have_two_keys_and_one_of_your_own_is_kept() -> None:
    with server([arm]) as (url, seen), pmb.connect(url) as client:
        client["shop"].ask(), client["shop"].ask(), client["shop"].ask(key="mine")
    assert len({request["key"] for request in seen}) == 3 and seen[-1]["key"] == "mine"


def test_rewards_are_told_again_when_the_line_breaks() -> None:
    with server([lost, lost, told]) as (url, seen), pmb.connect(url) as client:
        assert client["shop"].tell(7, 0.25).taken == 1
    assert [(request["ticket"], request["reward"]) for request in seen] == [(7, 0.25)] * 3


def test_a_change_whose_answer_is_lost_is_not_sent_twice() -> None:
    with server([lost]) as (url, seen), pmb.connect(url) as client:
        with pytest.raises(pmb.ServiceError, match="not known whether"):
            client["shop"].add_arm("D")
        with pytest.raises(pmb.ServiceError):
            client.create("x", metric="gini", arms=["A"], support=pmb.Binary())
    assert len(seen) == 2


def test_a_change_is_made_also_if_the_connection_was_idle_for_too_long() -> None:
    def arm_and_hang_up(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        arm(handler, request)
        cut(handler)  # as servers do with connections that nobody uses

    with server([arm_and_hang_up, told]) as (url, seen), pmb.connect(url) as client:
        client["shop"].ask()
        time.sleep(0.2)
        client["shop"].add_arm("D")
    assert [request["path"].rpartition("/")[2] for request in seen] == ["ask", "arms"]


def test_corrections_and_history_carry_a_key_and_keep_it() -> None:
    with server([lost, told, told, told]) as (url, seen), pmb.connect(url) as client:
        client["shop"].tell(7, 0.5, correct=True)
        client["shop"].tell(arm="A", reward=0.5)
        client["shop"].tell(7, 0.5)
    assert seen[0]["key"] == seen[1]["key"] != seen[2]["key"] and "key" not in seen[3]


def test_connections_of_threads_that_ended_are_closed() -> None:
    opened: list[Any] = []
    with server([arm]) as (url, _), pmb.connect(url) as client:

        def once() -> None:
            client["shop"].ask()
            opened.append(client._transport._thread_local.held.connection.sock)

        for _ in range(5):
            thread = threading.Thread(target=once)
            thread.start()
            thread.join()
        gc.collect()
        assert [connection.fileno() for connection in opened] == [-1] * 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")
def test_a_copy_of_a_process_has_connections_of_its_own() -> None:
    """As when a web server loads everything, and then divides itself."""

    def slow(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        good(handler, {"ticket": 7, "arm": request["key"], "share": 0.5})

    script = (
        "import os, sys, pmbandits as pmb\n"
        "client = pmb.connect(sys.argv[1], timeout=20.0)\n"
        "client['shop'].ask(key='before')\n"
        "mine = 'parent' if os.fork() else 'child'\n"
        "for _ in range(50):\n"
        "    assert client['shop'].ask(key=mine).arm == mine\n"
        "os.write(1, f'{mine}\\n'.encode())\n"  # in one piece: both print
        "mine == 'parent' and os.wait()\n"
    )
    with server([slow]) as (url, seen):
        done = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.split()) == ["child", "parent"], done.stderr
    assert len(seen) == 101, "no request was sent twice"


def test_an_ask_that_is_given_up_mixes_up_no_later_answer() -> None:
    def slow(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        time.sleep(0.2)
        good(handler, {"ticket": 7, "arm": request["key"], "share": 0.5})

    async def ask(url: str) -> list[str]:
        async with pmb.connect_async(url, connections=1) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client["shop"].ask(key="given up"), 0.05)
            return [(await client["shop"].ask(key=key)).arm for key in ("one", "two")]

    with server([slow]) as (url, seen):
        assert asyncio.run(ask(url)) == ["one", "two"]
    assert [request["key"] for request in seen] == ["given up", "one", "two"], "it was sent, and counts"


def test_creating_an_experiment_may_take_longer_than_an_answer() -> None:
    def compiles(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        time.sleep(0.5)
        good(handler, {"ticket": 1, "arm": "A", "share": 0.5})

    with server([compiles]) as (url, _), pmb.connect(url, timeout=0.2, patience=0.0) as client:
        shop = client.create("x", metric="gini", arms=["A"], support=pmb.Binary())
        with pytest.raises(pmb.ServiceError, match="timed out"):
            shop.ask()


def test_patience_ends() -> None:
    with server([busy]) as (url, seen), pmb.connect(url, patience=0.3) as client:
        with pytest.raises(pmb.ServiceError, match=r"not now\.") as caught:
            client["shop"].ask()
        assert caught.value.status == 503
    assert 2 <= len(seen) <= 20
    with pytest.raises(pmb.ServiceError, match="cannot be reached"):
        pmb.connect(url, patience=0.1)["shop"].ask()


def test_a_refusal_is_not_sent_again() -> None:
    def refuse(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        good(handler, {"error": "this key is not for that."}, 403)

    told_off = pytest.raises(pmb.ServiceError, match="this key is not for that")
    with server([refuse]) as (url, seen), pmb.connect(url) as client, told_off:
        client["shop"].ask()
    assert len(seen) == 1


@pytest.mark.parametrize("body", ["<html>", "[]", '{"error": 3}'])
def test_answers_that_are_none_are_one_sentence(body: str) -> None:
    def odd(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        handler.send_response(500)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    with server([odd]) as (url, _), pmb.connect(url) as client, pytest.raises(pmb.ServiceError) as caught:
        client["shop"].ask()
    assert caught.value.status == 500


def test_the_key_is_sent_but_never_shown() -> None:
    with server([arm]) as (url, _), pmb.connect(url, key="pmb_secret") as client:
        client["shop"].ask()
        assert "secret" not in repr(client) + repr(client["shop"])


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("127.0.0.1:8000", {}),
        ("ftp://x", {}),
        ("http://me:pass@x", {}),
        ("http://x:99999999", {}),
        ("http://x", {"key": "a\nb"}),
        ("http://x", {"timeout": 0}),
        ("http://x", {"patience": -1}),
    ],
)
def test_what_cannot_be_an_address_is_refused(url: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        pmb.connect(url, **given)


@pytest.mark.parametrize(
    "call",
    [
        lambda shop: shop.tell(1),
        lambda shop: shop.tell(reward=1.0),
        lambda shop: shop.tell(1, 1.0, arm="A"),
        lambda shop: shop.tell(1, float("nan")),
        lambda shop: shop.tell(1, [1.0, 2.0]),
        lambda shop: shop.tell("one", 1.0),
        lambda shop: shop.ask(0),
        lambda shop: shop.log(after=-1),
        lambda shop: shop.client.experiment(3),
        lambda shop: shop.client.create("x", metric="gini", arms=["A"], support="interval"),
    ],
)
def test_mistakes_are_refused_before_anything_is_sent(call: Callable[[Any], Any]) -> None:
    with server([arm]) as (url, seen), pmb.connect(url) as client:
        with pytest.raises((ValueError, TypeError)):
            call(client["shop"])
        assert seen == []
