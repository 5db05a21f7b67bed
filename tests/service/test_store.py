"""Tables, turns that fail, and stores that cannot be."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from pmbandits.service import experiment as live_experiments
from pmbandits.service import group_commit, history, keys, schema, sqlite
from pmbandits.service import service as services
from pmbandits.service.events import WriteBatch
from pmbandits.service.experiment import LiveExperiment, Refused
from pmbandits.service.messages import Ask
from pmbandits.service.sqlite import SqliteTransaction
from pmbandits.service.store import Snapshot, Store
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, serving
from tests.service.test_keys import ROUTES
from tests.service.test_processes import play, policy_of


def test_a_store_is_made_once_and_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with serving(url) as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"n": 3})
    with serving(url) as served:
        assert served.post("/shop/ask")["ticket"] == 4
    with sqlite3.connect(tmp_path / "store.db") as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(schema.VERSION,)]


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
def test_a_store_of_another_version_is_left_alone(tmp_path: Path, version: int) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store(url).close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("UPDATE schema_version SET version = ?", (version,))
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises(schema.WrongVersion, match=str(version)):
        Store(url)
    assert (tmp_path / "store.db").read_bytes() == before


def test_a_process_writes_no_more_once_a_newer_version_has_changed_the_tables(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask")
        with sqlite3.connect(tmp_path / "store.db") as connection:
            connection.execute("UPDATE schema_version SET version = version + 1")
        assert served.refused("/shop/ask", {})[0] == 503
        assert served.send("GET", "/ready").status_code == 503
        assert len(rows_of(f"sqlite:///{tmp_path / 'store.db'}", "shop")[1]) == 1


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "hello", ""])
def test_stores_that_cannot_be(url: str) -> None:
    with pytest.raises(ValueError, match="store"):
        Store(url)


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?user=me&password=secret"]
)
def test_passwords_are_not_shown(url: str) -> None:
    from pmbandits.service.store import _display_url, _parse_url, open_store

    assert _display_url(_parse_url(url)).endswith("127.0.0.1:1/db")
    assert "secret" not in _display_url(_parse_url(url))
    with pytest.raises(ValueError, match="cannot be opened") as told:
        open_store(url)
    assert "secret" not in str(told.value)


def test_the_file_is_kept_safe(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'store.db'}")
    transaction: Any = store.new_transaction()
    assert transaction._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert transaction._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert transaction._connection.execute("PRAGMA journal_size_limit").fetchone() == (64 << 20,)
    transaction.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_turn_that_fails_acknowledges_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """``after``: the commit is on disk, but nobody knows, as when a connection breaks at the wrong moment."""
    store = tmp_path / "store.db"
    commit = SqliteTransaction._commit

    def fails(self: SqliteTransaction, batch: WriteBatch) -> None:
        if when == "after":
            commit(self, batch)
        raise sqlite3.OperationalError("disk I/O error")

    with serving(store) as served:
        served.post("", SHOP)
        play([served], "shop", 40, seed=3)
        before = len(rows_of(f"sqlite:///{store}", "shop")[1])
        with monkeypatch.context() as broken:
            broken.setattr(SqliteTransaction, "_commit", fails)
            asked = served.send("POST", "/v1/experiments/shop/ask", json={"key": "again"})
            assert asked.status_code == 503
            assert asked.headers["retry-after"] == "1"
        served.service.group_commit.retry_at = 0.0
        again = served.post("/shop/ask", {"key": "again"})
        assert again == served.post("/shop/ask", {"key": "again"})
        rows = rows_of(f"sqlite:///{store}", "shop")[1]
        assert len(rows) == before + 1, "it was counted once"
        play([served], "shop", 40, seed=4)
        same(policy_of(served, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))


def test_it_is_not_ready_until_the_store_answers_again(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        group_commit = served.service.group_commit
        group_commit.failures, group_commit.retry_at = 1, float("inf")
        assert served.send("GET", "/ready").status_code == 503
        group_commit.retry_at = 0.0  # from now on it looks again, though nobody asks
        until = time.monotonic() + 30
        while served.send("GET", "/ready").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_it_is_not_ready_while_the_store_answers_but_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: SqliteTransaction, batch: WriteBatch) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        with monkeypatch.context() as broken:
            broken.setattr(SqliteTransaction, "_commit", full)
            assert served.refused("/shop/ask", {})[0] == 503
            until = time.monotonic() + 30
            while served.service.group_commit.failures:  # it looks again, and finds that the store answers
                assert time.monotonic() < until
                time.sleep(0.02)
            assert served.send("GET", "/ready").status_code == 503
            served.service.group_commit.failed_write_at -= services.SILENCE
            assert served.send("GET", "/ready").status_code == 200, "else nobody would ever try again"
            served.service.group_commit.failed_write_at += services.SILENCE
        served.post("/shop/ask")
        assert served.send("GET", "/ready").status_code == 200


def test_it_is_not_ready_while_what_administration_writes_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, goes_on = threading.Event(), threading.Event()

    def commit(_connection: Any) -> None:
        stuck.set()
        goes_on.wait(30)

    with serving(tmp_path / "store.db") as served:
        event.listen(served.service.store.engine, "commit", commit)
        thread = threading.Thread(target=lambda: served.send("POST", "/v1/keys", json={"scopes": ["read"]}))
        thread.start()
        assert stuck.wait(30) and served.send("GET", "/ready").status_code == 200
        monkeypatch.setattr(services, "SILENCE", 2.0)  # keys are read every half second
        time.sleep(2.2)
        assert served.service.store.longest_commit_seconds > 2.0
        assert served.send("GET", "/ready").status_code == 503
        goes_on.set()
        thread.join(30)
        assert served.service.store.longest_commit_seconds == 0.0
        assert served.send("GET", "/ready").status_code == 200


ADMINISTRATION = {
    "create a key": ("POST", "/v1/keys", {"scopes": ["read"]}),
    "rotate a key": ("POST", "/v1/keys/rotate", {"id": "KEY"}),
    "revoke a key": ("DELETE", "/v1/keys?id=KEY", None),
    "create": ("POST", "/v1/experiments", {**SHOP, "name": "other"}),
    "delete": ("DELETE", "/v1/experiments/shop?confirm=shop", None),
    "delete a unit": ("DELETE", "/v1/experiments/shop/unit?unit=u", None),
    "forget": ("POST", "/v1/experiments/shop/forget", {"seconds": 0}),
}


@pytest.mark.parametrize(
    "act",
    [pytest.param(a, marks=[] if a in ("create", "revoke a key") else [pytest.mark.slow]) for a in ADMINISTRATION],
)
def test_administration_does_not_wait_for_a_stuck_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    goes_on = threading.Event()
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"unit": "u"})
        key = served.send("POST", "/v1/keys", json={"scopes": ["read"]}).json()["key"][4:16]
        monkeypatch.setattr(services, "PATIENCE", 0.5)
        event.listen(served.service.store.engine, "commit", lambda _connection: goes_on.wait(30))
        method, path, body = ADMINISTRATION[act]
        body = None if body is None else {k: key if v == "KEY" else v for k, v in body.items()}
        began = time.monotonic()
        found = served.send(method, path.replace("KEY", key), json=body)
        assert time.monotonic() - began < 15.0, "the disk waits for 30 seconds"
        assert found.status_code == 503 and "nobody knows whether this was done" in found.json()["error"]
        goes_on.set()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/keys",
        "/board/view",
        *(pytest.param(f"/v1/{p}", marks=pytest.mark.slow) for p in ("audit", "experiments", "experiments/other")),
    ],
)
def test_who_reads_lists_does_not_wait_for_a_stuck_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    goes_on = threading.Event()

    def stuck(*_: Any) -> None:
        goes_on.wait(30)

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("", {**SHOP, "name": "other"})
        served.service.experiment_cache.live_experiments.clear()
        monkeypatch.setattr(services, "PATIENCE", 0.5)
        event.listen(served.service.store.engine, "before_cursor_execute", stuck)
        began = time.monotonic()
        assert served.send("GET", path).status_code == 503
        assert time.monotonic() - began < 15.0, "the disk waits for 30 seconds"
        goes_on.set()


def test_a_key_that_is_not_known_does_not_wait_for_a_stuck_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    with serving(tmp_path / "store.db", open=False) as served:
        monkeypatch.setattr(services, "PATIENCE", 0.5)
        monkeypatch.setattr(served.service.key_cache, "_load_keys", lambda: goes_on.wait(30))
        time.sleep(1.0)
        for path in ("/v1/experiments/shop", "/v1/experiments/shop/ask"):
            began = time.monotonic()
            found = served.send("POST", path, key=f"pmb_{'0' * 12}_{'0' * 48}", json={})
            assert found.status_code == 503 and time.monotonic() - began < 15.0, path
        goes_on.set()


def test_a_store_that_is_lost_in_the_middle_of_a_start_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "RETRY_PAUSES", (0.01, 0.01))
    real, failures = keys.list_keys, [1, 2]

    def list_keys(store: Store) -> list[keys.Key]:
        if failures:
            failures.pop()
            raise OperationalError("SELECT", None, sqlite3.OperationalError("server closed the connection"))
        return real(store)

    monkeypatch.setattr(keys, "list_keys", list_keys)
    with serving(tmp_path / "store.db") as served:
        assert not failures and served.send("GET", "/ready").status_code == 200
    failures[:] = [1, 2, 3]
    with pytest.raises(OperationalError), serving(tmp_path / "store.db"):
        pass


def test_when_the_store_is_away_every_route_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask")

        def away(*_: Any, **__: Any) -> Any:
            raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("disk I/O error"))

        def gone(*_: Any, **__: Any) -> Any:
            raise sqlite3.OperationalError("disk I/O error")

        with monkeypatch.context() as broken:
            broken.setattr(served.service.store.engine, "connect", away)
            broken.setattr(served.service.store.engine, "begin", away)
            for name in ("_begin", "new_events"):
                broken.setattr(SqliteTransaction, name, gone)
            for method, path, body, _, _ in ROUTES:
                if path.endswith("/stream"):
                    continue  # it does not end
                given = {"content": body} if isinstance(body, str) else {} if body is None else {"json": body}
                found = served.send(method, path, **given)
                assert found.status_code < 500 or found.status_code == 503, (path, found.text)
                if path in ("/v1/experiments", "/v1/audit", "/board/view") and method == "GET":
                    assert found.status_code == 503 and found.headers["retry-after"] == "1"
            until = time.monotonic() + 30
            served.service.group_commit.failures, served.service.group_commit.retry_at = (
                0,
                0.0,
            )  # nobody sends anything, and it is noticed nevertheless
            monkeypatch.setattr(services, "SILENCE", 1.0)
            while served.send("GET", "/ready").status_code != 503:
                assert time.monotonic() < until
                time.sleep(0.05)
        until = time.monotonic() + 30
        while served.send("GET", "/ready").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert served.post("/shop/ask")["ticket"] == 2


def test_a_file_that_was_taken_away_acknowledges_nothing(tmp_path: Path) -> None:
    store, away = tmp_path / "store.db", tmp_path / "away.db"
    with serving(store) as served:
        served.post("", SHOP)
        assert served.post("/shop/ask")["ticket"] == 1
        store.rename(away)
        for path, body in (("/shop/ask", {}), ("/shop/tell", {"ticket": 1, "reward": 1}), ("", {**SHOP, "name": "b"})):
            found = served.send("POST", f"/v1/experiments{path}", json=body)
            assert found.status_code == 503, found.text
        assert served.send("GET", "/ready").status_code == 503
        store.unlink(missing_ok=True)
        away.rename(store)
        served.service.group_commit.retry_at = 0.0
        assert served.post("/shop/ask")["ticket"] == 2
    with serving(store) as served:
        assert served.post("/shop/ask")["ticket"] == 3


def test_who_finds_another_store_in_its_file_ends_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after cp of a backup while the service runs: the journal of before is gone, and the file is another one."""
    store, ended = tmp_path / "store.db", list[int]()
    monkeypatch.setattr(sqlite, "_end_process", ended.append)
    with serving(store) as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"n": 3})
        served.service.store.erase_deleted()  # its journal stays, though nothing is in it
        backup = store.read_bytes()
        served.post("/shop/ask", {"n": 3})
        assert not ended
        for end in ("-wal", "-shm"):
            store.with_name(store.name + end).unlink()
        store.write_bytes(backup)
        assert served.refused("/shop/ask", {})[0] == 503 and set(ended) == {1}
        ended.clear()
        assert served.refused("", {**SHOP, "name": "b"})[0] == 503 and set(ended) == {1}
        assert store.read_bytes() == backup and "ends, and leaves the file" in caplog.text


def test_a_process_that_holds_the_lock_and_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "PATIENCE", 0.8)
    monkeypatch.setattr(sqlite, "PATIENCE", 0.8)
    monkeypatch.setattr(services, "SILENCE", 1.5)
    store = tmp_path / "store.db"
    held = sqlite.WriteLock(store)
    with serving(store) as served:
        served.post("", SHOP)
        assert served.post("/shop/ask")["ticket"] == 1
        held.acquire_in_turn()
        for path, body in (("/shop/ask", {}), ("/shop/ask", {}), ("", {**SHOP, "name": "b"})):
            status, sentence = served.refused(path, body)
            assert status == 503 and "nothing was counted" in sentence
        began = time.monotonic()
        assert served.get("/shop/state")["t"] == 1, "who only reads is shown what is in memory"
        assert served.send("GET", "/health").status_code == 200 and time.monotonic() - began < 5
        assert served.send("GET", "/ready").status_code == 503
        held.__exit__()
        until = time.monotonic() + 30
        while served.send("GET", "/ready").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert served.post("/shop/ask")["ticket"] == 2, "what was refused was not done later"
        served.post("", {**SHOP, "name": "b"})
        same(policy_of(served, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))
    held.close()


def test_a_program_that_knows_no_lock_of_ours_is_waited_for_without_standing_still(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        stranger = sqlite3.connect(store, isolation_level=None, check_same_thread=False)
        stranger.execute("BEGIN IMMEDIATE")
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(served.post("/shop/ask")))
        thread.start()
        time.sleep(0.2)
        assert served.send("GET", "/health").status_code == 200  # the event loop goes on
        assert not found
        stranger.execute("COMMIT")
        thread.join(30)
        assert found[0]["ticket"] == 1
        stranger.close()


class StuckDisk:
    """A connection to SQLite whose commits wait until the disk goes on."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.stuck, self.goes_on = connection, threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, words: str, *given: Any) -> Any:
        if words == "COMMIT":
            self.stuck.set()
            self.goes_on.wait(60)
        return self.connection.execute(words, *given)


def test_while_the_disk_is_stuck_health_is_answered_and_nobody_sees_what_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SILENCE", 0.5)
    monkeypatch.setattr(group_commit, "PATIENCE", 1.0)
    monkeypatch.setattr(history, "EVERY", 0.1)
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        played = served.post("/shop/ask", {"n": 30})
        served.post("/shop/tell", {"tickets": played["tickets"], "rewards": [1] * 30})
        transaction: Any = served.service.group_commit.transaction
        disk = transaction._connection = StuckDisk(transaction._connection)
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(served.send("POST", "/v1/experiments/shop/ask", json={"n": 500, "key": "many"}))

        thread = threading.Thread(target=ask)
        thread.start()
        assert disk.stuck.wait(30)
        began = time.monotonic()
        assert served.send("GET", "/health").status_code == 200
        assert time.monotonic() - began < 5.0, "the event loop goes on: the disk waits for 60 seconds"
        thread.join(30)
        assert answers[0].status_code == 503
        assert served.send("GET", "/ready").status_code == 503
        for path in ("/v1/experiments/shop/export", "/v1/experiments/shop/state", "/board/shop/view"):
            assert served.send("GET", path).status_code == 503, path
        assert all(one["t"] == 30 for one in history.stored_points(served.service.store, 1, 0))
        disk.goes_on.set()
        until = time.monotonic() + 30
        while served.send("GET", "/ready").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert served.post("/shop/ask", {"n": 500, "key": "many"})["tickets"][0] == 61, "it was counted, and once"
        same(policy_of(served, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))


@pytest.mark.slow
def test_a_reader_whose_disk_is_stuck_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading can wait for a frozen disk, too; a read that only takes long is waited for."""
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.get("/shop/state")  # its code is compiled
        monkeypatch.setattr(services, "PATIENCE", 2.0)
        goes_on = threading.Event()
        monkeypatch.setattr(served.service.overdue_tickets, "oldest_open_ticket", lambda _: time.sleep(1.5))
        assert served.send("GET", "/v1/experiments/shop/state").status_code == 200
        monkeypatch.setattr(served.service.overdue_tickets, "oldest_open_ticket", lambda _: goes_on.wait(60))
        monkeypatch.setattr(served.service.key_cache, "_load_keys", lambda: goes_on.wait(60))

        async def read_both() -> list[int]:  # the second one waits for its place
            paths = [f"/v1/experiments/shop/{what}" for what in ("state", "history")]
            return [one.status_code for one in await asyncio.gather(*map(served.client.get, paths))]

        assert served.wait(asyncio.wait_for(read_both(), 20)) == [503, 503]
        goes_on.set()


def test_a_process_whose_disk_is_stuck_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(services, "STOP_SECONDS", 0.5)
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        transaction: Any = served.service.group_commit.transaction
        disk = transaction._connection = StuckDisk(transaction._connection)
        answers: list[int] = []

        def ask() -> None:
            answers.append(served.send("POST", "/v1/experiments/shop/ask", json={}).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        assert disk.stuck.wait(30)
        began = time.monotonic()
        served.wait(served.service.stop())
        assert time.monotonic() - began < 15.0
        thread.join(30)
        assert answers == [503]
        disk.goes_on.set()


def test_a_full_disk(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        transaction: Any = served.service.group_commit.transaction
        pages = transaction._connection.execute("PRAGMA page_count").fetchone()[0]
        transaction._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        taken = 0
        for _ in range(30):
            found = served.send("POST", "/v1/experiments/shop/ask", json={"n": 100})
            if found.status_code == 503:
                break
            taken += 100
        assert found.status_code == 503
        transaction._connection.execute("PRAGMA max_page_count = 100000")
        served.service.group_commit.retry_at = 0.0
        assert served.post("/shop/ask")["ticket"] == taken + 1
        same(policy_of(served, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))


def test_a_saved_policy_that_is_damaged_is_left_out(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        play([served], "shop", 40, seed=5)
        live = served.service.experiment_cache.live_experiments["shop"]
        saved = Snapshot(live.replay.seen, live.replay.digest, b"damaged")
        served.service.store.save_snapshot(live.record.id, saved)
    with serving(store) as served:
        same(policy_of(served, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))


def test_what_waits_behind_a_turn_that_fails_is_not_decided_by_what_never_came_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.db"
    there, going, commit = threading.Event(), threading.Event(), SqliteTransaction._commit

    def slow(self: SqliteTransaction, batch: WriteBatch) -> None:
        monkeypatch.setattr(SqliteTransaction, "_commit", commit)  # only once
        there.set()
        going.wait(30)
        raise sqlite3.OperationalError("disk I/O error")

    with serving(store) as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"n": 5})
        monkeypatch.setattr(SqliteTransaction, "_commit", slow)
        answers: list[int] = []

        def ask() -> None:
            answers.append(served.send("POST", "/v1/experiments/shop/ask", json={"n": 3}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        threads[0].start()
        assert there.wait(30)  # it is on its way to the disk, and the others wait
        for thread in threads[1:]:
            thread.start()
        until = time.monotonic() + 30
        while len(served.service.group_commit.waiting) < 3:
            assert time.monotonic() < until
            time.sleep(0.01)
        going.set()
        for thread in threads:
            thread.join()
        assert answers == [503] * 4
        served.service.group_commit.retry_at = 0.0
        assert served.post("/shop/ask")["ticket"] == 6
        replayed(*rows_of(f"sqlite:///{store}", "shop"))


def test_a_policy_that_fails_hinders_no_other_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        for name in ("bad", "good"):
            served.post("", {**SHOP, "name": name})
        ask = LiveExperiment.ask

        def fails(self: LiveExperiment, request: Ask, batch: WriteBatch) -> Any:
            found = ask(self, request, batch)
            if self.record.name == "bad":
                raise RuntimeError("a mistake of ours")
            return found

        monkeypatch.setattr(LiveExperiment, "ask", fails)
        group_commit, find = served.service.group_commit, served.service.live_experiment_or_refuse

        async def both() -> list[Any]:
            live_experiments = [await find(name) for name in ("bad", "good")]
            return await asyncio.gather(
                *(group_commit.ask_or_tell(live, Ask()) for live in live_experiments), return_exceptions=True
            )

        bad, good = served.wait(both())
        assert isinstance(bad, Refused) and bad.status == 503
        assert good.ticket == 1
        monkeypatch.setattr(LiveExperiment, "ask", ask)
        assert served.post("/bad/ask")["ticket"] == 1
        assert served.post("/good/ask")["ticket"] == 2


def test_what_a_transaction_looks_up_is_found_by_an_index(tmp_path: Path) -> None:
    """Else each reward that comes late would read all events of its experiment, and all others would wait."""
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        asked = served.post("/shop/ask", {"n": 4, "key": "k"})["tickets"]
        served.post("/shop/tell", {"tickets": asked, "rewards": [1] * 4})
        served.post("/shop/tell", {"ticket": asked[0], "reward": 0, "correct": True})
        live = served.service.experiment_cache.live_experiments["shop"]
        transaction: Any = served.service.group_commit.transaction
        said: list[str] = []
        transaction._connection.set_trace_callback(said.append)
        live.open_tickets.clear()
        live.rewarded.clear()
        assert served.post("/shop/tell", {"tickets": asked, "rewards": [0, 1, 1, 1]})["repeated"] == 4
        served.post("/shop/ask", {"n": 4, "key": "k"})
        served.post("/shop/ask", {"unit": "u", "key": "another"})
        transaction._connection.set_trace_callback(None)
        looked = {words for words in said if words.startswith("SELECT")}
        assert len(looked) >= 12
        for words in looked:
            for *_, how in transaction._connection.execute(f"EXPLAIN QUERY PLAN {words}"):
                assert "(exp=?)" not in how, (words, how)


def test_tickets_keys_and_units_that_were_forgotten_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_experiments, "MAX_OPEN_TICKETS", 4)
    monkeypatch.setattr(live_experiments, "MAX_ANSWERED", 4)
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", SHOP)
        asked = served.post("/shop/ask", {"n": 50, "key": "first"})
        arm = served.post("/shop/ask", {"unit": "me"})["arm"]
        for k in range(10):
            served.post("/shop/ask", {"key": str(k)})
        live = served.service.experiment_cache.live_experiments["shop"]
        assert 4 <= len(live.open_tickets) <= 5 and not live.keys  # a quarter more, then it is cut
        told = {"tickets": asked["tickets"], "rewards": [1] * 50}
        assert served.post("/shop/tell", told)["taken"] == 50
        assert served.post("/shop/tell", told)["repeated"] == 50
        assert served.post("/shop/ask", {"n": 50, "key": "first"}) == asked
        assert served.post("/shop/ask", {"unit": "me"})["arm"] == arm
        assert served.refused("/shop/tell", {"ticket": 1, "reward": 0})[0] == 409
        play([served], "shop", 60, seed=6)
        same(policy_of(served, "shop", tmp_path), replayed(*rows_of(f"sqlite:///{store}", "shop")))


def test_the_loop_stands_still_for_a_quick_disk_and_goes_on_for_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided meanwhile is decided by one thread at a time, and not at all if nobody waits any more."""
    thread, goes_on, events = sqlite.WriterThread(), threading.Event(), []

    def quick() -> None:
        thread.run_decision(lambda: events.append(("quick", threading.current_thread().name)))

    def slow() -> None:
        goes_on.wait(30)
        thread.run_decision(lambda: events.append(("slow", threading.current_thread().name)))

    def fails() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def play() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "QUICK", 30.0)  # on a busy machine nothing is done within milliseconds
            await thread.run_in_writer_thread(quick, quick=True)
        for work in (slow, quick):
            goes_on.clear()
            call = asyncio.ensure_future(thread.run_in_writer_thread(work, quick=work is slow))
            await asyncio.sleep(0.05)  # the loop goes on
            goes_on.set()
            await call
        with pytest.raises(sqlite3.OperationalError):
            await thread.run_in_writer_thread(fails, quick=True)
        goes_on.clear()
        call = asyncio.ensure_future(thread.run_in_writer_thread(slow, quick=True))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        goes_on.set()
        await asyncio.sleep(0.1)

    asyncio.run(play())
    here = threading.current_thread().name
    assert [(name, where == here) for name, where in events] == [("quick", False), ("slow", True), ("quick", True)]
    assert thread.close() and thread.close(), "it can be closed twice"
