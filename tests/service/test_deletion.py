"""What was deleted is gone from every table, and what was not asked for stays."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import func, select

from pmbandits.service import schema
from pmbandits.service.sqlite import connect
from tests.service.serving import SHOP, Served, serving


def rows(served: Served) -> dict[str, int]:
    with served.service.store.engine.connect() as connection:
        return {
            table.name: int(connection.execute(select(func.count()).select_from(table)).scalar() or 0)
            for table in (schema.events, schema.requests, schema.units, schema.experiments, schema.points)
        }


def test_an_experiment_is_deleted_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SHOP, "name": "other"})
        served.post("/other/ask", {"unit": "u", "key": "k"})
        before = rows(served)
        served.post("", SHOP)
        served.post("/shop/ask", {"unit": "u", "key": "k"})
        assert served.refused("/shop?confirm=other", None, method="DELETE")[0] == 422
        assert served.send("DELETE", "/v1/experiments/shop?confirm=shop").json() == {"deleted": "shop"}
        assert rows(served) == before
        assert served.refused("/shop/ask", {})[0] == 404
        served.post("", SHOP)  # the name is free again, and nothing of the old one comes back
        assert served.post("/shop/ask", {"key": "k"})["ticket"] == 1
        assert served.send("GET", "/v1/audit").json()["acts"][1]["act"] == "delete"


def test_a_unit_is_forgotten_and_its_name_is_nowhere(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"unit": "secret/me@example.com"})
        served.post("/shop/ask", {"unit": "secret/me@example.com", "key": "1", "among": ["A", "B"]})
        served.post("/shop/ask", {"unit": "another", "key": "2"})
        assert served.refused("/shop/ask", {"unit": "somebody", "key": "2"})[0] == 409
        before = rows(served)
        for count in (2, 0):  # the unit, and the key of its request: a digest that others could guess is in it
            found = served.send("DELETE", "/v1/experiments/shop/unit?unit=secret%2Fme%40example.com")
            assert found.json() == {"deleted": count}
        assert rows(served) == {**before, "units": 1, "requests": 1}
        assert served.send("DELETE", "/v1/experiments/shop/unit?unit=%00").status_code == 422
        assert "secret" not in served.send("GET", "/v1/audit").text


def test_old_units_and_keys_of_requests_are_forgotten(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"unit": "u", "key": "k"})
        assert served.post("/shop/forget", {"seconds": 1000}) == {"deleted": 0}
        before = rows(served)
        served.service.store.now_ms = lambda: 2**60
        assert served.post("/shop/forget", {"seconds": 1000}) == {"deleted": 2}
        assert rows(served) == {**before, "units": 0, "requests": 0}


@pytest.mark.parametrize("way", ["forget", "unit"])
def test_no_process_answers_a_key_of_a_request_that_was_deleted(tmp_path: Path, way: str) -> None:
    file = tmp_path / "store.db"
    with serving(file) as served, serving(file) as other:
        served.post("", SHOP)
        asked = served.post("/shop/ask", {"unit": "u", "key": "ask"})
        told = {"arm": "A", "reward": 1, "key": "tell"}
        served.post("/shop/tell", told)
        for process in (served, other):  # both know them now
            assert process.post("/shop/ask", {"unit": "u", "key": "ask"}) == asked
            assert process.post("/shop/tell", told)["repeated"] == 1
        if way == "forget":
            other.service.store.now_ms = lambda: 2**60
            assert other.post("/shop/forget", {"seconds": 1}) == {"deleted": 3}
        else:
            assert other.send("DELETE", "/v1/experiments/shop/unit?unit=u").json() == {"deleted": 2}
        assert served.post("/shop/ask", {"unit": "another", "key": "ask"})["ticket"] > asked["ticket"]
        assert other.refused("/shop/ask", {"unit": "u", "key": "ask"})[0] == 409
        assert served.post("/shop/tell", told)["taken"] == (way == "forget")


def test_nothing_that_was_deleted_stays_in_the_files(tmp_path: Path) -> None:
    file = tmp_path / "store.db"

    def copies() -> int:
        return sum(part.read_bytes().count(b"secret-") for part in tmp_path.iterdir())

    with serving(file) as served, serving(file) as other:
        served.post("", SHOP)
        for k in range(20):
            (served, other)[k % 2].post("/shop/ask", {"unit": f"secret-{k}"})
        assert copies() >= 20
        for k in range(20):
            served.send("DELETE", f"/v1/experiments/shop/unit?unit=secret-{k}")
        assert copies() == 0
        served.post("/shop/ask", {"unit": "secret-unit", "key": "secret-key"})
        served.send("DELETE", "/v1/experiments/shop?confirm=shop")
        assert copies() == 0
        for connection in (served.service.group_commit.transaction._connection, connect(file)):  # type: ignore[attr-defined]
            assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


@pytest.mark.slow
def test_a_reader_that_stays_does_not_keep_writers_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "store.db"
    with serving(file) as served:
        served.post("", SHOP)
        served.post("/shop/ask", {"unit": "u"})
        reader = connect(file)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM units").fetchone()
        with ThreadPoolExecutor(1) as threads:
            deleted = threads.submit(served.send, "DELETE", "/v1/experiments/shop/unit?unit=u")
            waited = []
            while not deleted.done():
                began = time.monotonic()
                served.post("/shop/ask")
                waited.append(time.monotonic() - began)
        assert deleted.result().json() == {"deleted": 1} and max(waited) < 2.0
        assert "still in the journal" in caplog.text
        reader.close()
