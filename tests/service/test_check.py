"""The rehearsal of an upgrade: a store is read from its first event on, and nothing in it changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits.cli.app import app
from pmbandits.service import schema
from pmbandits.service.store import Store
from tests.service.serving import SHOP, serving
from tests.service.test_processes import COME_AND_GO, play


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = tmp_path / "store.db"
    with serving(file) as one, serving(file) as two:
        one.post("", SHOP)
        play([one, two], "shop", 150, seed=5, changes=COME_AND_GO)
        live = one.service.experiment_cache.live_experiments["shop"]
        one.wait(one.service.history_writer._write_point_if_due(live))
        one.post("/shop/expire", {"seconds": 0, "reward": 0})
        for status in ("paused", "running"):
            one.post("/shop/status", {"status": status})
        policy = pmb.Track("gini", names=["x", "y"], support=pmb.Binary())
        policy.tell(policy.ask(5), [1, 0, 1, 0, 1])
        policy.save(tmp_path / "policy.pmb")
        one.send("POST", "/v1/import?name=moved", content=(tmp_path / "policy.pmb").read_bytes())
        one.post("/moved/ask", {"n": 4, "among": ["x"]})
    return file


def _rehearsed(store: Path) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["serve", "--check", "--store", f"sqlite:///{store}"])
    return found.exit_code, found.output + (str(found.exception) if found.exception else "")


def test_a_whole_store_is_read_and_left_as_it_is(store: Path) -> None:
    before = store.read_bytes()
    code, text = _rehearsed(store)
    assert code == 0, text
    assert "shop" in text and "moved: 4 events" in text
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET value = 1 - value WHERE exp = 1 AND seq = (SELECT max(seq) FROM events WHERE kind = 1)",
        "DELETE FROM events WHERE exp = 1 AND seq = 7",
        "UPDATE experiments SET root = root + 1 WHERE id = 1",
        "UPDATE schema_version SET version = version + 1",
        "DELETE FROM events WHERE exp = 1 AND seq = 0",
        "UPDATE events SET digest = 1 WHERE exp = 1 AND seq = 0",
        "DELETE FROM events WHERE exp = 1 AND seq >= (SELECT max(seq) FROM units WHERE exp = 1)",
        "DELETE FROM events WHERE exp = 1 AND seq >= (SELECT max(seq) FROM requests WHERE exp = 1)",
        "DELETE FROM events WHERE exp = 1 AND seq >= (SELECT max(seq) FROM points WHERE exp = 1)",
        "UPDATE points SET digest = digest + 1 WHERE exp = 1",
        "UPDATE experiments SET status = 'paused' WHERE id = 1",
        "UPDATE experiments SET spec = replace(spec, 'gini', 'mean') WHERE id = 1",
    ],
)
def test_a_store_that_was_changed_or_is_too_new_is_noticed(store: Path, damage: str) -> None:
    with sqlite3.connect(store) as connection:
        assert connection.execute(damage).rowcount > 0
    code, text = _rehearsed(store)
    assert code != 0
    assert (str(schema.VERSION + 1) if "version" in damage else "shop") in text


def test_no_store_is_made(tmp_path: Path) -> None:
    code, _ = _rehearsed(tmp_path / "none.db")
    assert code != 0 and not (tmp_path / "none.db").exists()


def test_an_empty_store_stays_empty_and_tables_of_others_are_left_alone(tmp_path: Path) -> None:
    for name, words in (("empty.db", "PRAGMA user_version = 1"), ("other.db", "CREATE TABLE events (x)")):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute(words)
        connection.close()
        code, text = _rehearsed(tmp_path / name)
        assert code != 0 and "tables" in text
        with sqlite3.connect(tmp_path / name) as connection:
            assert len(connection.execute("SELECT * FROM sqlite_master").fetchall()) == (name == "other.db")
        connection.close()
    with pytest.raises(ValueError, match="events"):
        Store(f"sqlite:///{tmp_path / 'other.db'}")
