"""What was deleted is gone from every table, and what was not asked for stays."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select

from pmbandits.service import schema
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
        served.post("/shop/ask", {"unit": "another"})
        before = rows(served)
        for count in (1, 0):
            found = served.send("DELETE", "/v1/experiments/shop/unit?unit=secret%2Fme%40example.com")
            assert found.json() == {"deleted": count}
        assert rows(served) == {**before, "units": 1}
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
