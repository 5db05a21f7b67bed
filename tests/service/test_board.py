"""The board's numbers, without a browser: they are those of the policy, and reasons are those of the decisions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmbandits.policies.shown import why
from pmbandits.service import keys, showing
from pmbandits.service.fold import Fold, made
from tests.service.serving import SHOP, Served, serving


def _played(served: Served, rounds: int, key: str | None = None) -> None:
    rng = np.random.default_rng(0)
    for _ in range(rounds // 10):
        asked = served.post("/shop/ask", {"n": 10}, key=key)
        rewards = [float(rng.random() < {"A": 0.2, "B": 0.5, "C": 0.9}[arm]) for arm in asked["arms"]]
        served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": rewards}, key=key)


@pytest.fixture(scope="module", autouse=True)
def _at_once() -> Iterator[None]:
    """Everything is worked out whenever somebody looks, and waited for."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {"EVERY": 0.0, "REST": 0, "PATIENCE": 60.0}.items():
            patched.setattr(showing, name, value)
        yield


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("board") / "store.db") as served:
        served.post("", SHOP)
        _played(served, 200)
        yield served


def _view(served: Served, after: int = 0) -> dict[str, Any]:
    found = served.send("GET", f"/board/shop/view?after={after}")
    assert found.status_code == 200, found.text
    return found.json()


def test_shares_and_worths_are_those_of_the_policy(service: Served) -> None:
    seen, policy = _view(service), service.service.book.lives["shop"].fold.twin()
    assert [arm["pulls"] for arm in seen["arms"]] == policy.pulls.tolist()
    assert [arm["wanted"] for arm in seen["arms"]] == pytest.approx(policy.mixture.tolist(), abs=1e-6)
    assert seen["history"]["now"]["row"]["played"] == pytest.approx(
        (100.0 * policy.pulls / policy.t).tolist(), abs=1e-2
    )
    sure = policy.certainty()
    assert seen["history"]["now"]["row"]["lower"] == pytest.approx(sure.lower, rel=1e-5)
    assert str(sure) in seen["sure"]
    curve, estimate = seen["curves"]["arms"][0], policy.estimates[0]
    x = np.array(seen["curves"]["x"])
    np.testing.assert_allclose(curve["above"], 1.0 - estimate.cdf(x), atol=1e-6)
    np.testing.assert_allclose(curve["high"], 1.0 - estimate.band(x)[0], atol=1e-6)
    u = np.linspace(curve["low"], curve["high"], 2001)  # h between the ends of the band, looked at closely
    np.testing.assert_allclose(curve["bent_low"], (u * (1.0 - u)).min(axis=0), atol=1e-4)
    np.testing.assert_allclose(curve["bent_high"], (u * (1.0 - u)).max(axis=0), atol=1e-4)


def test_the_reason_of_a_decision_is_what_the_policy_would_have_said_before_it(service: Served) -> None:
    _view(service)
    asked = service.post("/shop/ask", {"n": 3})
    decisions = {d["seq"]: d for d in _view(service)["decisions"]}
    rows = service.get("/shop/log?limit=100000")["events"]
    fold = Fold(made(SHOP))
    kinds = {"ask": 0, "tell": 1}
    for row in rows:
        if row["seq"] in decisions:
            assert decisions[row["seq"]]["arm"] == row["arm"]
            assert decisions[row["seq"]]["reason"] == why(fold.policy)[1]
        ticket = None if row["kind"] == "ask" else row["ticket"]
        fold.apply([(row["seq"], kinds[row["kind"]], ticket, fold.places[row["arm"]], row["value"], row["data"])])
    assert set(asked["tickets"]) <= set(decisions) and all(d["reason"] for d in decisions.values())
    assert not any("probability" in d["reason"] or "not been told" in d["reason"] for d in decisions.values())
    service.post("/shop/tell", {"tickets": asked["tickets"], "rewards": [1.0, 0.0, 1.0]})


def test_the_board_warns_of_an_arm_that_changed_whatever_the_policy(service: Served, tmp_path: Path) -> None:
    assert _view(service)["warnings"] == []
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        for reward in (0.0, 1.0):
            served.post("/shop/tell", {"arms": ["B"] * 500 + ["A"] * 50, "rewards": [reward] * 500 + [0.0, 1.0] * 25})
        seen = _view(served)
        assert len(seen["warnings"]) == 1 and seen["warnings"][0].startswith("B changed: rewards above 0 were 0 %")
        assert "B changed" in seen["marks"][0]["text"]
        assert _view(served)["warnings"] == seen["warnings"]


def test_only_new_points_of_the_past_are_sent_again(service: Served) -> None:
    live = service.service.book.lives["shop"]
    service.wait(service.service.historian._look(live))
    first = _view(service)["history"]
    assert first["x"] and first["seq"] > 0
    assert _view(service, first["seq"])["history"]["x"] == []


def test_a_change_is_explained_before_it_is_made(service: Served) -> None:
    said = service.send("GET", "/board/shop/preview?do=paused").json()["sentences"]
    assert "every ask is refused" in said[0]
    before = _view(service)["arms"]
    said = service.send("GET", "/board/shop/preview?do=pause&arm=nobody")
    assert said.status_code in (409, 422) and said.json()["error"]
    assert _view(service)["arms"] == before  # looking changes nothing
    assert service.send("GET", "/board/shop/preview?do=delete").status_code == 422


def test_pages_have_a_strict_policy_and_all_experiments_are_seen_at_a_glance(service: Served) -> None:
    for path in ("/board/", "/board/shop/"):
        page = service.send("GET", path)
        assert page.status_code == 200 and "script-src 'self'" in page.headers["content-security-policy"]
    assert service.send("GET", "/").headers["location"] == "/board/"
    assert service.send("GET", "/board/assets/board.js").status_code == 200
    assert service.send("GET", "/board/nothing/").status_code == 404
    (found,) = service.send("GET", "/board/view").json()["experiments"]
    assert found["name"] == "shop" and found["t"] == service.service.book.lives["shop"].fold.policy.t


def test_a_key_sees_only_its_own_experiments(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db", open=False) as served:
        store = served.service.store
        admin = keys.create(store, ["admin"], None, "", "test")
        served.post("", SHOP, key=admin)
        served.post("", {**SHOP, "name": "secret"}, key=admin)
        mine, other = keys.create(store, ["read"], ["shop"], "", "test"), keys.create(store, ["ask"], None, "", "test")
        assert [e["name"] for e in served.send("GET", "/board/view", key=mine).json()["experiments"]] == ["shop"]
        assert served.send("GET", "/board/secret/view", key=mine).status_code == 403
        assert served.send("GET", "/board/shop/view", key=other).status_code == 403
        assert served.send("GET", "/board/").status_code == 401
        basic = {"authorization": "Basic " + base64.b64encode(f"me:{mine}".encode()).decode()}
        assert served.send("GET", "/board/shop/", headers=basic).status_code == 200
        body = {"status": "paused"}
        assert served.send("POST", "/v1/experiments/shop/status", headers=basic, json=body).status_code == 401
