"""Tickets that never came back get a reward that is agreed on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from pmbandits.service import events as kinds
from pmbandits.service import keys
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, Served, serving
from tests.service.test_processes import policy_of
from tests.service.test_reader_threads import hang_up_at_once

DAY = 86_400


def aged(store: Path, upto: int) -> None:
    """Let tickets up to this one be two days old."""
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE events SET at = at - 172800000 WHERE seq <= ?", (upto,))


def expire(served: Served, reward: float = 0.0, seconds: float = DAY) -> list[int]:
    found: list[int] = served.post("/shop/expire", {"seconds": seconds, "reward": reward})["tickets"]
    return found


def test_old_tickets_without_a_reward_get_one_and_all_processes_know_it(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as one, serving(store) as two:
        one.post("", SHOP)
        one.post("/shop/ask", {"n": 10})
        one.post("/shop/tell", {"tickets": [2, 5], "rewards": [1, 1]})
        aged(store, 12)
        two.post("/shop/ask", {"n": 3})  # 13 to 15: young
        assert expire(two) == [1, 3, 4, 6, 7, 8, 9, 10]
        assert expire(one) == []
        _, rows = rows_of(f"sqlite:///{store}", "shop")
        assert [row[2] for row in rows if row[1] == kinds.TELL and row[5]] == [1, 3, 4, 6, 7, 8, 9, 10]
        assert [arm["pending"] for arm in one.get("/shop/state")["arms"]] == [1, 1, 1]
        # A reward that comes after all is refused like any second one, unless it is a correction.
        status, sentence = one.refused("/shop/tell", {"ticket": 3, "reward": 1})
        assert status == 409 and "correct" in sentence
        assert one.post("/shop/tell", {"ticket": 3, "reward": 1, "correct": True})["corrected"] == 1
        act = one.send("GET", "/v1/audit").json()["acts"][0]
        assert act["act"] == "expire" and json.loads(act["detail"])["tickets"] == 8
        alone = replayed(*rows_of(f"sqlite:///{store}", "shop"))
        for served in (one, two):
            same(policy_of(served, "shop", tmp_path), alone)


def test_many_are_done_in_several_requests_and_what_is_finished_is_not_looked_at_again(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store, batch=4) as served:
        served.post("", SHOP)
        for _ in range(3):
            served.post("/shop/ask", {"n": 3})
        aged(store, 7)
        first = served.post("/shop/expire", {"seconds": DAY, "reward": 0})
        second = served.post("/shop/expire", {"seconds": DAY, "reward": 0})
        assert (first, second) == ({"tickets": [1, 2, 3, 4], "more": True}, {"tickets": [5, 6, 7], "more": False})
        assert expire(served) == []
        exp = served.service.experiment_cache.live_experiments["shop"].record.id
        assert served.service.overdue_tickets._rewarded_upto[exp] == 7
        aged(store, 9)
        assert expire(served) == [8, 9]
        assert expire(served) == []


@pytest.mark.parametrize("statement", range(3))
def test_a_ticket_that_is_asked_for_while_old_ones_are_looked_for_is_found_later(
    tmp_path: Path, statement: int
) -> None:
    store, done = tmp_path / "store.db", 0
    with serving(store) as served:
        served.post("", SHOP)
        served.post("/shop/ask")
        served.post("/shop/tell", {"ticket": 1, "reward": 1})
        aged(store, 2)
        overdue_tickets = served.service.overdue_tickets

        def ask(*_: Any) -> None:
            nonlocal done
            if done == statement:
                done += 1
                served.post("/shop/ask")  # ticket 3, young
            done += 1

        engine = served.service.store.engine
        connected = engine.connect

        def watched() -> Any:
            connection = connected()
            event.listen(connection, "after_cursor_execute", ask)
            return connection

        engine.connect = watched  # type: ignore[method-assign]
        try:
            assert overdue_tickets.overdue_tickets(1, DAY, 10) == []
        finally:
            engine.connect = connected  # type: ignore[method-assign]
        aged(store, 3)
        assert expire(served) == [3]


def test_a_ticket_that_is_told_at_the_last_moment_keeps_its_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.db"
    with serving(store) as one, serving(store) as two:
        one.post("", SHOP)
        one.post("/shop/ask", {"n": 3})
        aged(store, 3)
        find = one.service.overdue_tickets.overdue_tickets

        def slowly(exp: int, seconds: float, most: int) -> list[int]:
            found = find(exp, seconds, most)
            two.post("/shop/tell", {"ticket": 2, "reward": 1})
            return found

        monkeypatch.setattr(one.service.overdue_tickets, "overdue_tickets", slowly)
        assert expire(one) == [1, 3]
        same(policy_of(one, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))


def test_many_that_expire_tickets_of_an_experiment_keep_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "store.db", open=False) as served:
        admin = keys.create_key_in_store(served.service.store, ["admin"], None, "", "test")
        for name in ("shop", "other"):
            served.post("", SHOP | {"name": name}, key=admin)
        key = keys.create_key_in_store(served.service.store, ["tell"], ["shop"], "", "test")
        let_go, calls, find = threading.Event(), list[int](), served.service.overdue_tickets.overdue_tickets

        def slowly(exp: int, seconds: float, most: int) -> list[int]:
            calls.append(exp)
            assert exp != 1 or let_go.wait(30)
            return find(exp, seconds, most)

        monkeypatch.setattr(served.service.overdue_tickets, "overdue_tickets", slowly)
        body = {"seconds": DAY, "reward": 0}
        for _ in range(20):  # who has hung up leaves the queue
            hang_up_at_once(served, "/v1/experiments/shop/expire", key, "POST", json.dumps(body).encode())
        assert calls == [1]

        async def send_many() -> list[Any]:
            return [
                asyncio.ensure_future(
                    served.client.post(
                        "/v1/experiments/shop/expire", json=body, headers={"authorization": f"Bearer {key}"}
                    )
                )
                for _ in range(10)
            ]

        sent = served.wait(send_many())
        assert served.post("/other/expire", body, key=admin) == {"tickets": [], "more": False}
        served.post("/other/arms", {"do": "pause", "arm": "B"}, key=admin)
        assert served.send("GET", "/metrics", key=admin).status_code == 200
        assert calls == [1, 2]
        let_go.set()

        async def answers() -> list[Any]:
            return await asyncio.gather(*sent)

        found = sorted(served.wait(answers()), key=lambda one: one.status_code)
        assert [one.status_code for one in found] == [200] * 2 + [429] * 8
        assert found[-1].headers["retry-after"] == "1" and "already" in found[-1].json()["error"]
        assert served.post("/shop/expire", body, key=key)["tickets"] == []


def test_what_cannot_be(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        for body, word in (
            ({"seconds": -1, "reward": 0}, "seconds"),
            ({"seconds": 1}, "reward"),
            ({"seconds": 1, "reward": 0.5}, "support"),
            ({"seconds": 1, "reward": 0, "rounds": 3}, "rounds"),
        ):
            status, sentence = served.refused("/shop/expire", body)
            assert status == 422 and word in sentence
        served.post("/shop/ask")
        aged(store, 1)
        served.post("/shop/status", {"status": "archived"})
        assert served.refused("/shop/expire", {"seconds": 1, "reward": 0})[0] == 409
        served.post("/shop/status", {"status": "paused"})
        assert expire(served) == [1]
