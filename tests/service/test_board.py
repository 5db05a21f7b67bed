"""The board's numbers, without a browser: they are those of the policy, and reasons are those of the decisions."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmbandits.engine.explanation import next_arm_and_reason
from pmbandits.engine.stopping import Forecast
from pmbandits.pages.board import view
from pmbandits.service import board_state, change_log, keys
from pmbandits.service.replay import PolicyReplay, policy_from_spec
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
            patched.setattr(board_state, name, value)
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


def _rewards(seen: dict[str, Any], arm: int) -> int:
    """As the page works it out, from parts that may be of different moments."""
    return seen["arms"][arm]["pulls"] - seen["arms"][arm]["pending"] + seen["known"][arm]["unasked"]


def test_shares_and_worths_are_those_of_the_policy(service: Served) -> None:
    seen, policy = _view(service), service.service.experiment_cache.live_experiments["shop"].replay.copy().policy
    assert [arm["pulls"] for arm in seen["arms"]] == policy.pulls.tolist()
    assert [_rewards(seen, k) for k in range(3)] == [arm.n for arm in policy.estimates]
    assert [arm["wanted"] for arm in seen["arms"]] == pytest.approx(policy.mixture.tolist(), abs=1e-6)
    assert seen["history"]["now"]["row"]["played"] == pytest.approx(
        (100.0 * policy.pulls / policy.t).tolist(), abs=1e-2
    )
    sure = policy.certainty()
    assert seen["history"]["now"]["row"]["lower"] == pytest.approx(sure.lower, rel=1e-5)
    said = [float(number) for number in re.findall(r"\d+\.\d+", seen["sure"])]
    want = [sure.utility, sure.lower, sure.upper, sure.regret]
    assert said == pytest.approx(want, rel=1e-2) and f"{100 * sure.probability:.4g} %" in seen["sure"]
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
    replay = PolicyReplay(policy_from_spec(SHOP), 0, 0)
    kinds = {"ask": 0, "tell": 1}
    for row in rows:
        if row["seq"] in decisions:
            assert decisions[row["seq"]]["arm"] == row["arm"]
            assert decisions[row["seq"]]["reason"] == next_arm_and_reason(replay.policy)[1]
        ticket, value = (None, row["share"]) if row["kind"] == "ask" else (row["ticket"], row["reward"])
        replay.apply_stored_events(
            [(row["seq"], kinds[row["kind"]], ticket, replay.arm_indices[row["arm"]], value, row["data"], 0)]
        )
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
        assert [_rewards(seen, k) for k in range(3)] == [100, 1000, 0]  # though nobody asked for them
        (warning,) = seen["warnings"]
        assert warning["arm"] == "B" and warning["text"].startswith("B changed for the better, noticed 20")
        assert "rewards above 0 were 0 % of 4" in warning["text"]
        assert "B changed" in seen["marks"][0]["text"]
        assert _view(served)["warnings"] == seen["warnings"]
        (told,) = served.get("/shop/state")["changes"]  # programs see it, too
        assert told["arm"] == "B" and told["before"]["share"] == 0.0 and told["after"]["share"] > 0.5
        assert told["sentence"] == warning["text"]
        (one,) = served.send("GET", "/board/view").json()["experiments"]
        assert one["warning"] == warning["text"]


def test_only_new_points_of_the_past_are_sent_again(service: Served) -> None:
    live = service.service.experiment_cache.live_experiments["shop"]
    service.wait(service.service.history_writer._write_point_if_due(live))
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
    assert (
        found["name"] == "shop"
        and found["t"] == service.service.experiment_cache.live_experiments["shop"].replay.policy.t
    )


def test_a_key_sees_only_its_own_experiments(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db", open=False) as served:
        store = served.service.store
        admin = keys.create_key_in_store(store, ["admin"], None, "", "test")
        served.post("", SHOP, key=admin)
        served.post("", {**SHOP, "name": "secret"}, key=admin)
        mine, other = (
            keys.create_key_in_store(store, ["read"], ["shop"], "", "test"),
            keys.create_key_in_store(store, ["ask"], None, "", "test"),
        )
        assert [e["name"] for e in served.send("GET", "/board/view", key=mine).json()["experiments"]] == ["shop"]
        assert served.send("GET", "/board/secret/view", key=mine).status_code == 403
        assert served.send("GET", "/board/shop/view", key=other).status_code == 403
        assert served.send("GET", "/board/").status_code == 401
        basic = {"authorization": "Basic " + base64.b64encode(f"me:{mine}".encode()).decode()}
        assert served.send("GET", "/board/shop/", headers=basic).status_code == 200
        body = {"status": "paused"}
        assert served.send("POST", "/v1/experiments/shop/status", headers=basic, json=body).status_code == 401


def test_a_change_that_was_told_by_mistake_is_taken_back_when_the_rewards_are_corrected(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        tickets = []
        for reward in (0.0, 1.0):
            asked = served.post("/shop/ask", {"n": 900})
            mine = [t for t, arm in zip(asked["tickets"], asked["arms"], strict=True) if arm == "B"]
            rewards = [reward if t in set(mine) else 0.0 for t in asked["tickets"]]
            served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": rewards})
            tickets.append(mine)
        warned = _view(served)["warnings"]
        assert [one["arm"] for one in warned] == ["B"]
        served.post("/shop/tell", {"tickets": tickets[1], "rewards": [0.0] * len(tickets[1]), "correct": True})
        assert _view(served)["warnings"] == []  # no reward of B was ever 1
        late = served.post("/shop/ask", {"n": 900})
        served.post("/shop/tell", {"tickets": late["tickets"], "rewards": [0.0] * 900})
        mine = [t for t, arm in zip(late["tickets"], late["arms"], strict=True) if arm == "B"]
        served.post("/shop/tell", {"tickets": mine, "rewards": [1.0] * len(mine), "correct": True})
        assert [one["arm"] for one in _view(served)["warnings"]] == ["B"]


def test_what_was_found_is_the_same_whether_rewards_were_corrected_before_or_after_they_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "REWARDS_PER_STEP", 700)
    rng = np.random.default_rng(3)
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SHOP, "policy": "uniform"})
        early = change_log.ChangeWatch()
        for shift in (0.0, 0.6):
            asked = served.post("/shop/ask", {"n": 1500})
            served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": [0.0] * 1500})
            live = served.service.experiment_cache.live_experiments["shop"]
            early.catch_up_to(served.service.store, live.record.id, live.replay.column_names, live.replay.seen)
            right = (rng.random(1500) < 0.2 + shift).astype(float).tolist()
            served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": right, "correct": True})
        late = change_log.ChangeWatch()
        for one in (early, late):
            while not one.catch_up_to(served.service.store, live.record.id, live.replay.column_names, live.replay.seen):
                pass
        assert late.found and early.found == late.found
        assert {alarm.change.arm for alarm in late.found} == {"A", "B", "C"}


def test_what_happened_names_the_round_and_who_is_wanted_most(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        _played(served, 100)
        assert served.send("POST", "/v1/experiments/shop/arms", json={"do": "pause", "arm": "A"}).status_code == 200
        _played(served, 50)
        seen = _view(served)
        assert any("after round 100: A pauses" in mark["text"] and mark["x"] == 100 for mark in seen["marks"])
        estimate = served.service.experiment_cache.live_experiments["shop"].replay.policy.estimates[
            0
        ]  # what was learned of it is still shown
        share = estimate.mean
        assert seen["known"][0]["worth"] == pytest.approx(share * (1.0 - share), rel=1e-5)
        assert seen["known"][1]["worth"] is None and seen["alone"][0] is None and seen["alone"][1] is not None
    leads = [board_state._arm_that_took_the_lead(wanted, before) for wanted, before in
             (({"A": 0.6, "B": 0.4}, None), ({"A": 0.45, "B": 0.5}, "A"), ({"A": 0.3, "B": 0.7}, "A"))]  # fmt: skip
    assert leads == ["A", None, "B"]


def test_a_forecast_is_said_for_people() -> None:
    said = [board_state._forecast_sentence(Forecast(*numbers, "x"), 300.0) for numbers in
            ((0, 0, 0), (np.nan,) * 3, (np.inf,) * 3, (2345, 2000, 3100), (82_000, 40_000, 1_100_000))]  # fmt: skip
    assert "can stop" in said[0] and "no reward" in said[1] and "goes on to learn" in said[2]
    assert "about 2,300 more rounds" in said[3] and "about 8 days" in said[3]
    assert "between 40,000 and 1,100,000" in said[4] and "about 9 months" in said[4]


def test_before_the_first_reward_nothing_is_claimed(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        assert _view(served)["sure"].startswith("No reward has come yet")


def test_many_who_look_at_once_share_what_is_worked_out(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    plain = board_state.BoardState._compute_part

    def noted(self: Any, name: str, *rest: Any) -> Any:
        computed.append(name)
        return plain(self, name, *rest)

    monkeypatch.setattr(board_state.BoardState, "_compute_part", noted)
    service.post("/shop/ask")

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(service.client.get("/board/shop/view") for _ in range(20)))

    answers = [answer.json() for answer in service.wait(all_at_once())]
    assert all(answer["arms"] == answers[0]["arms"] and answer["forecast"] for answer in answers)
    assert sorted(computed) == sorted(set(computed))  # each part once, for all of them
    again = service.send("GET", f"/board/shop/view?have={answers[0]['version']}").json()
    assert "arms" not in again and "curves" not in again and again["version"] == answers[0]["version"]


def test_a_part_that_takes_long_is_worked_out_more_rarely(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_state, "REST", 1e6)
    before = _view(service)
    service.post("/shop/ask")
    first = _view(service)
    service.post("/shop/ask")
    second = _view(service)
    assert int(first["events"]) == int(before["events"]) + 1
    assert "arms" in second and second["events"] == first["events"]  # not looked at again yet
    service.send("POST", "/v1/experiments/shop/status", json={"status": "paused"})
    assert _view(service)["status"] == "paused"  # but an act is shown at once
    service.send("POST", "/v1/experiments/shop/status", json={"status": "running"})
    assert _view(service)["status"] == "running"


def test_a_stream_ends_when_the_server_is_told_to_stop(service: Served) -> None:
    async def listen() -> list[bytes]:
        notifier, out = view.Notifier(), []

        async def seen() -> Any:
            return 1

        async for message in view.server_sent_events(seen, notifier, every=3600.0):
            out.append(message)
            if len(out) == 2:
                asyncio.get_running_loop().call_later(0.01, notifier.close)
        return out

    assert len(service.wait(asyncio.wait_for(listen(), 10))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_open_board_does_not_hold_up_a_service_that_is_told_to_stop(tmp_path: Path, processes: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = ["serve", "--example", "--open", "--port", str(port), "--store", f"sqlite:///{tmp_path / 'store.db'}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pmbandits", *command, "--processes", processes],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    for _ in range(1200):
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            break
        time.sleep(0.1)
    time.sleep(1.0 if processes == "2" else 0.0)
    opened = [urllib.request.urlopen(f"http://127.0.0.1:{port}/board/{name}", timeout=30) for name in
              ("example/stream", "example/stream", "stream")]  # fmt: skip
    assert all(stream.readline().startswith(b"retry") for stream in opened)
    begun = time.monotonic()
    process.terminate()
    said = process.communicate(timeout=60)[0]
    assert time.monotonic() < begun + 8.0  # else it waited ten seconds for them
    assert "Traceback" not in said and "Cancel" not in said, said
    for stream in opened:
        stream.close()


def test_a_part_that_cannot_be_made_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, live: Any, replay: Any) -> Any:
        raise ZeroDivisionError("nobody knows")

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        monkeypatch.setattr(board_state.BoardState, "_forecast_part", broken)
        _played(served, 20)
        seen = _view(served)
        assert "forecast" not in seen and seen["arms"] and seen["sure"]
    with serving(tmp_path / "other.db") as served:
        served.post("", SHOP)
        monkeypatch.setattr(board_state.BoardState, "_summary_part", broken)
        answer = served.send("GET", "/board/shop/view")
        assert answer.status_code == 503 and "cannot be shown now" in answer.json()["error"]
