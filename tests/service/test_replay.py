"""A store that went back in time, as after a restore or when a lagging copy takes over: nobody keeps what is gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pmbandits.service import experiment_cache, history
from pmbandits.service.events import chain_digest
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, Served, serving
from tests.service.test_processes import play, policy_of

TABLES = ("experiments", "events", "requests", "units", "snapshots", "points", "audit")


class Backup:
    """What a store holds at a moment; put back, it is as if nothing had happened since."""

    def __init__(self, execute: Any) -> None:
        self._execute = execute
        self._rows = {table: execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}

    def restore(self, mark: str) -> None:
        for table, rows in self._rows.items():
            self._execute(f"DELETE FROM {table}")
            for row in rows:
                self._execute(f"INSERT INTO {table} VALUES ({', '.join([mark] * len(row))})", row)


def check_going_back(store: str, execute: Any, mark: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes know events that are gone, others come in their place, and all go on with what is there."""
    with serving(store) as one, serving(store) as two, serving(store) as idle:
        one.post("", SHOP)
        play([one, two, idle], "shop", 60, seed=1)
        backup = Backup(execute)
        play([one, two], "shop", 200, seed=2)
        for served in (one, two, idle):
            served.get("/shop/state")
        gone = one.get("/shop")["events"]
        due = history.is_point_due
        monkeypatch.setattr(history, "is_point_due", lambda last, seen: False)  # requests are the first to notice
        backup.restore(mark)
        with serving(store) as fresh:  # other events than those that are gone, and more of them
            while fresh.get("/shop")["events"] <= gone:
                tickets = fresh.post("/shop/ask", {"n": 20})["tickets"]
                fresh.post("/shop/tell", {"tickets": tickets, "rewards": [0] * 20})
            assert one.send("POST", "/v1/experiments/shop/ask", json={"n": 3}).status_code == 503, "it is read anew"
            assert two.send("GET", "/v1/experiments/shop/export").status_code == 503
            monkeypatch.setattr(history, "is_point_due", due)
            for served in (one, two, idle):
                _settle(served)
            play([one, two, idle, fresh], "shop", 40, seed=3)
            alone = replayed(*rows_of(store, "shop"))
            for served in (one, two, idle, fresh):
                same(policy_of(served, "shop", folder), alone)
                assert served.get("/shop/state")["awaited"]["rewards"] == int(alone.pending.sum())
    with serving(store) as later:
        same(policy_of(later, "shop", folder), alone)
        assert all(point["t"] <= alone.t for point in later.get("/shop/history")["points"])


def _settle(served: Served) -> None:
    for _ in range(3):
        if served.send("GET", "/v1/experiments/shop/state").status_code == 200:
            return
    raise AssertionError("the experiment was not read anew")


def test_a_file_that_was_restored_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(experiment_cache, "FEWEST", 40)
    monkeypatch.setattr(history, "EVERY", 0.05)
    file = tmp_path / "store.db"
    with serving(file):
        pass
    with sqlite3.connect(file, timeout=60) as connection:
        connection.isolation_level = None
        check_going_back(f"sqlite:///{file}", connection.execute, "?", tmp_path, monkeypatch)
    connection.close()
    assert any(one.levelname == "ERROR" and "went back in time" in one.message for one in caplog.records)


def test_a_process_that_knows_more_than_the_store_saves_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"n": 10})
        live = served.service.experiment_cache.live_experiments["shop"]
        replay, store = live.replay.copy(), served.service.store
        for seq, digest in ((10, replay.digest + 1), (11, replay.digest), (10, replay.digest)):
            replay.seen, replay.digest, before = seq, digest, replay.digest
            served.service.experiment_cache._save_snapshot(1, replay)
            served.service.history_writer._write_point(1, replay)
            replay.digest = before
        kept = store.newest_snapshot(1)
        assert kept is not None and (kept.seq, kept.digest) == (10, live.replay.digest)
        assert [point["seq"] for point in history.stored_points(store, 1, 0)] == [10]
        with store.write_transaction() as connection:
            connection.exec_driver_sql("UPDATE snapshots SET digest = digest + 1")
    with serving(tmp_path / "store.db") as served:
        assert served.service.store.newest_snapshot(1) is None, "a saved policy of other events is dropped"
        assert served.post("/shop/ask")["ticket"] == 11


def test_an_experiment_with_the_number_of_one_that_is_gone_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with serving(file) as one, serving(file) as two:
        one.post("", SHOP)
        assert two.get("/shop")["events"] == 0
        with sqlite3.connect(file, timeout=60) as connection:
            for table in ("experiments", "events", "sqlite_sequence"):  # as in a store that was put back
                connection.execute(f"DELETE FROM {table}")
        with serving(file) as three:
            three.post("", {**SHOP, "name": "other"})
            assert three.service.experiment_cache.live_experiments["other"].record.id == 1
            assert two.send("POST", "/v1/experiments/shop/ask", json={}).status_code == 404
            assert three.post("/other/ask")["ticket"] == 1


def test_a_digest_names_an_event_and_all_before_it() -> None:
    events: list[Any] = [(1, seq, 0, None, seq % 3, 0.5, 7, None) for seq in range(1, 6)]
    whole = chain_digest(chain_digest(5, events[:3]), events[3:])
    assert whole == chain_digest(chain_digest(5, events[:3]), events[3:])
    for at in range(5):
        other = [*events]
        other[at] = (*events[at][:4], 3, *events[at][5:])
        assert chain_digest(chain_digest(5, other[:3]), other[3:]) != whole
    assert chain_digest(chain_digest(6, events[:3]), events[3:]) != whole


def test_a_process_that_comes_later_knows_which_arms_were_available(tmp_path: Path) -> None:
    """Asks with a choice of arms move the bookkeeping of joint limits, also when they are read from the log."""
    limits = {"shares": "A >= 10%; B + C <= 0.7"}
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SHOP, "arms": ["A", "B", "C", "D"], **limits})
        for k in range(120):
            asked = served.post("/shop/ask", {"n": 1 + k % 3, "among": [["A", "B"], ["B", "C"], ["D", "A"]][k % 3]})
            served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": [k % 2] * len(asked["tickets"])})
            served.post("/shop/ask")
        live = served.service.experiment_cache.live_experiments["shop"].replay.policy._memory
    with serving(tmp_path / "store.db") as later:
        loaded = later.service.experiment_cache.live_experiments["shop"]
        assert loaded.replay.policy._memory.limit_deficit.tolist() == live.limit_deficit.tolist()
        assert loaded.disagreements == 0
        same(policy_of(later, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{tmp_path}/store.db", "shop")))
