"""Readers: of each key and experiment one thing at a time, and nothing for who has hung up."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from pmbandits.service import keys, reading, service
from pmbandits.service.reader_threads import ReaderThreads
from tests.service.serving import SHOP, Served, serving


def test_a_key_and_an_experiment_have_one_thread_each() -> None:
    async def play() -> None:
        threads, release, began = ReaderThreads(), threading.Event(), list[str]()

        def work(name: str) -> str:
            began.append(name)
            assert release.wait(20)
            return name

        def start(key: str, experiment: str) -> Any:
            name = f"{key}-{experiment}"
            return asyncio.ensure_future(threads.start_work(key, experiment, lambda: work(name)))

        first = await start("k1", "wide")
        same_key, same_experiment, other = start("k1", "shop"), start("k2", "wide"), start("k3", "other")
        await asyncio.sleep(0.2)
        assert began == ["k1-wide", "k3-other"] and not same_key.done() and not same_experiment.done()
        first.cancel()  # who hangs up keeps the place until the thread is free
        same_key.cancel()  # and who waits leaves the queue
        await asyncio.sleep(0.2)
        assert len(began) == 2
        release.set()
        assert await (await other) == "k3-other" and await (await same_experiment) == "k2-wide"
        assert sorted(began) == ["k1-wide", "k2-wide", "k3-other"]
        threads.close()

    asyncio.run(asyncio.wait_for(play(), 30))


class SlowState:
    """The state of an experiment takes until somebody lets go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go, self.calls, real = threading.Event(), 0, reading.experiment_state

        def slow(policy: Any, regret: Any = None) -> Any:
            self.calls += 1
            assert self.let_go.wait(30)
            return real(policy, regret)

        monkeypatch.setattr(reading, "experiment_state", slow)


def hang_up_at_once(served: Served, path: str, key: str, method: str = "GET", body: bytes = b"") -> None:
    """Send a request, and close the connection when it has been sent."""
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
             "headers": [(b"authorization", b"Bearer " + key.encode())], "http_version": "1.1", "scheme": "http",
             "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1), "root_path": ""}  # fmt: skip
    sent = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        await asyncio.sleep(0.01)
        return next(sent, {"type": "http.disconnect"})

    async def send(_message: Any) -> None:
        raise AssertionError("nobody is there to be answered")

    served.wait(served.app(scope, receive, send))


def test_reads_that_were_hung_up_keep_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "store.db", open=False) as served:
        store = served.service.store
        admin = keys.create_key_in_store(store, ["admin"], None, "", "test")
        for name in ("shop", "other"):
            served.post("", SHOP | {"name": name}, key=admin)
        reader = keys.create_key_in_store(store, ["read"], ["shop"], "", "test")
        slow = SlowState(monkeypatch)
        for _ in range(40):
            hang_up_at_once(served, "/v1/experiments/shop/state", reader)
        assert slow.calls == 1  # all others had not begun, and never will
        assert served.post("/other/expire", {"seconds": 0, "reward": 0}, key=admin)["more"] is False
        served.post("/other/arms", {"do": "pause", "arm": "B"}, key=admin)
        assert served.send("GET", "/metrics", key=admin).status_code == 200
        assert served.get("/other/history", key=admin)["points"] is not None
        slow.let_go.set()
        assert served.get("/shop/state", key=reader)["t"] == 0 and slow.calls == 2


def test_a_key_has_only_so_many_reads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        slow = SlowState(monkeypatch)

        async def many() -> list[int]:
            one = served.client.get("/v1/experiments/shop/state")
            sent = [asyncio.ensure_future(one), *(
                asyncio.ensure_future(served.client.get("/v1/experiments/shop/state")) for _ in range(20)
            )]  # fmt: skip
            await asyncio.sleep(0.5)
            slow.let_go.set()
            return [answer.status_code for answer in await asyncio.gather(*sent)]

        found = served.wait(many())
        assert sorted(set(found)) == [200, 429] and found.count(200) == keys.MAX_OPEN["read"]


def test_who_waits_for_a_long_read_is_sent_away_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "store.db", open=False) as served:
        admin, reader = (
            keys.create_key_in_store(served.service.store, [scope], None, "", "test") for scope in ("admin", "read")
        )
        for name in ("shop", "other"):
            served.post("", SHOP | {"name": name}, key=admin)
        slow = SlowState(monkeypatch)
        monkeypatch.setattr(service, "READ_SECONDS", 0.3)
        status, said = served.refused("/shop/state", None, method="GET", key=reader)
        assert status == 503 and "0.3 s" in said and slow.calls == 1
        assert served.refused("/shop/state", None, method="GET", key=admin)[0] == 503
        assert slow.calls == 1, "the first one still runs, and keeps the place of its experiment"
        monkeypatch.setattr(service, "READ_SECONDS", 20.0)
        assert served.get("/other/history", key=admin)["points"] is not None
        slow.let_go.set()
        assert served.get("/shop/state", key=reader)["t"] == 0


def test_of_many_arms_there_is_no_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        arms = len(served.get("/shop")["arms"])
        assert served.get("/shop/state?regret=5%25")["forecast"] is not None
        monkeypatch.setattr(reading, "MAX_ARMS_FORECAST", arms - 1)
        status, said = served.refused("/shop/state?regret=5%25", None, method="GET")
        assert status == 422 and str(arms) in said
        assert served.get("/shop/state")["forecast"] is None
