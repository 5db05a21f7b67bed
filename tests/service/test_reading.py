"""What the service says of an experiment: as it is now, and of arms whose rewards changed."""

from __future__ import annotations

import hashlib
import io
import json
import re
import resource
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.service import alarms, change_log, experiment, replay, responses, service
from tests.service.serving import SHOP, Served, serving


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, everything is looked at before the answer."""
    monkeypatch.setattr(alarms, "PATIENCE", 60.0)
    monkeypatch.setattr(alarms, "REST", 0)


def test_an_act_is_answered_with_the_experiment_as_it_is_now(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        made = served.post("", SHOP)
        assert made["playing"] == made["arms"] == ["A", "B", "C"] and made["limits"] is None and made["paused"] == []
        found = served.post("/shop/arms", {"do": "add", "arm": "D"})
        assert found["arms"] == found["playing"] == ["A", "B", "C", "D"] and found["events"] == 1
        served.post("/shop/arms", {"do": "pause", "arm": "A"})
        found = served.post("/shop/arms", {"do": "retire", "arm": "B"})
        assert (found["playing"], found["paused"], found["retired"]) == (["C", "D"], ["A"], ["B"])
        found = served.send("PUT", "/v1/experiments/shop/limits", json={"shares": "C >= 10%"}).json()
        assert "C" in found["limits"] and found["arms"] == ["A", "B", "C", "D"]
        found = served.post("/shop/status", {"status": "paused"})
        assert found["status"] == "paused"
        assert served.get("/shop") == found
        listed = served.get("")["experiments"][0]
        assert listed.pop("changes") == [] and listed == found
    with serving(tmp_path / "store.db") as served:  # also for a process that came later
        assert served.get("/shop") == found
        served.post("/shop/status", {"status": "archived"})
        msgspec.convert(served.get(""), responses.Experiments)


def test_an_imported_policy_says_in_which_round_it_came(tmp_path: Path) -> None:
    policy = pmb.Vet("upper_cvar(0.9)", names=["x", "y"], support=pmb.Interval(0, 1))
    policy.ask(7)
    with serving(tmp_path / "store.db") as served:
        sent = served.send("POST", "/v1/import?name=moved", content=replay.policy_to_bytes(policy))
        assert sent.json()["imported"]["round"] == served.get("/moved")["imported"]["round"] == 7
        assert served.get("/moved")["events"] == 0 and served.get("/moved/state")["t"] == 7
        msgspec.convert(sent.json(), responses.Experiment)


def _gauges(served: Served) -> dict[tuple[str, str], float]:
    text = served.send("GET", "/metrics").text
    found = re.findall(r'^pmbandits_experiment_changes\{arm="(.*)",experiment="(.*)"\} (\S+)$', text, re.M)
    return {(experiment, arm): float(n) for arm, experiment, n in found}


def test_a_change_is_told_wherever_somebody_looks(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        for name in ("shop", "quiet"):
            served.post("", {**SHOP, "name": name})
            served.post(f"/{name}/tell", {"arms": ["B"] * 500 + ["A"] * 50, "rewards": [0] * 500 + [0, 1] * 25})
        assert served.get("/shop/state")["changes"] == [] and served.get("/shop/state")["watched"] == 550
        assert _gauges(served) == {(name, arm): 0 for name in ("shop", "quiet") for arm in "ABC"}
        served.post("/shop/tell", {"arms": ["B"] * 100, "rewards": [1] * 100})
        state = served.get("/shop/state")
        msgspec.convert(state, responses.ExperimentState)
        (change,) = state["changes"]
        assert change["arm"] == "B" and state["watched"] == state["events"] == 650
        assert not state["certainty"]["holds"] and served.get("/quiet/state")["certainty"]["holds"]
        assert 550 < change["event"] <= 650 and change["before"]["share"] == 0.0 and change["after"]["share"] > 0.5
        detector = pmb.ChangeDetector(change_log.FALSE_ALARM_LEVEL * 6.0 / (np.pi * 2) ** 2)  # alone, with B's rewards
        assert detector.extend([0.0] * 500 + [1.0] * 100)[0] + 1 == 500 + change["event"] - 550
        assert str(detector.changes[0]).removeprefix("R") in change["sentence"]
        event = served.get(f"/shop/log?after={change['event'] - 1}&limit=1")["events"][0]
        assert event["time"] == change["time"] and event["arm"] == "B"
        assert {pair for pair, n in _gauges(served).items() if n} == {("shop", "B")}
        served.post("/shop/arms", {"do": "pause", "arm": "B"})
        assert served.get("/shop/state")["certainty"]["holds"]
        listed = {one["name"]: one["changes"] for one in served.get("")["experiments"]}
        assert listed == {"shop": [change], "quiet": []}
    with serving(tmp_path / "store.db") as served, serving(tmp_path / "store.db") as other:
        assert served.get("/shop/state")["changes"] == [change]  # a process that came later reads the rewards anew
        other.post("/quiet/tell", {"arms": ["B"] * 100, "rewards": [1] * 100})  # and what others did counts
        assert {pair for pair, n in _gauges(served).items() if n} == {("shop", "B"), ("quiet", "B")}


def test_a_policy_that_watches_its_arms_is_believed(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SHOP, "options": {"detect": "restart"}})
        served.post("/shop/tell", {"arms": ["B"] * 600, "rewards": [0] * 500 + [1] * 100})
        (change,) = served.get("/shop/state")["changes"]
        assert change["arm"] == "B" and change["event"] is None and change["round"] is not None
        assert served.get("/shop/state")["certainty"]["holds"]  # the rewards from before are forgotten
        assert _gauges(served)["shop", "B"] == 1


def test_rewards_are_looked_at_in_pieces_and_none_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that were decided, but not on disk yet, when somebody looked."""
    monkeypatch.setattr(change_log, "REWARDS_PER_STEP", 70)
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/tell", {"arms": ["B"] * 500, "rewards": [0] * 500})
        service: Any = served.service
        live = service.experiment_cache.live_experiments["shop"]
        one = alarms.ChangeAlarms(service.store, service.run_in_thread)
        done, rounds = False, 0
        while not done:
            seen, done = one.catch_up_to(live.record.id, live.replay.column_names, live.replay.seen + 200)
            rounds += 1
        assert rounds == 8 and seen.seen == 500
        served.post("/shop/tell", {"arms": ["B"] * 200, "rewards": [1] * 200})
        while not one.catch_up_to(live.record.id, live.replay.column_names, 700)[1]:
            pass
        assert [alarm.change.arm for alarm in seen.found] == ["B"]


def test_of_very_many_arms_nothing_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "MOST_ARMS", 2)
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.post("/shop/tell", {"arms": ["B"] * 600, "rewards": [0] * 500 + [1] * 100})
        state = served.get("/shop/state")
        assert state["changes"] == [] and state["watched"] is None and _gauges(served) == {}


def test_mistakes_with_the_support_are_answered_with_an_example(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        for support in ({"lo": 0, "hi": 1}, "Interval(0, 1)", {"kind": "interval", "min": 0, "max": 1}, [0, 1]):
            status, sentence = served.refused("", {**SHOP, "support": support})
            assert status == 422 and '{"kind": "interval", "lo": 0, "hi": 1}' in sentence, sentence
            assert "Value error" not in sentence and not sentence.endswith("..")
        served.post("", {**SHOP, "support": {"kind": "interval", "lo": 0, "hi": 100}})
        ticket = served.post("/shop/ask")["ticket"]
        status, sentence = served.refused("/shop/tell", {"ticket": ticket, "reward": 250})
        assert status == 422 and "cannot be changed" in sentence and "cut off at 100" in sentence
        assert served.post("/shop/tell", {"ticket": ticket, "reward": 100})["taken"] == 1
        status, sentence = served.refused("/shop/tell", {"ticket": ticket, "reward": -3, "correct": True})
        assert status == 422 and "cut off at 0" in sentence
        assert served.get("/shop/state")["arms"][0]["mean"] == 100


def test_the_wrong_method_is_said_to_be_wrong_everywhere(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        for method, path, takes in (
            ("GET", "shop/ask", "POST"), ("PUT", "shop/tell", "POST"), ("GET", "shop/arms", "POST"),
            ("POST", "shop/limits", "PUT"), ("DELETE", "shop/state", "GET"),
        ):  # fmt: skip
            found = served.send(method, f"/v1/experiments/{path}", json={})
            assert found.status_code == 405 and found.headers["allow"] == takes, (method, path, found.text)
            assert found.json()["error"] == f"this address takes {takes}, not {method}."
        assert served.send("GET", "/v1/experiments/shop/asks").status_code == 404
        served.post("/shop/arms", {"do": "pause", "arm": "A"})
        assert served.refused("/shop/ask", {"among": ["A"]})[1].endswith("name one that does: B, C.")


def test_the_state_has_the_oldest_ticket_without_a_reward(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        assert served.get("/shop/state")["awaited"] == {"rewards": 0, "oldest": None, "since": None}
        open_ones: list[int] = []
        rng = np.random.default_rng(3)
        for _ in range(12):
            open_ones += served.post("/shop/ask", {"n": 5})["tickets"]
            for ticket in rng.permutation(open_ones)[: int(rng.integers(0, 8))].tolist():
                served.post("/shop/tell", {"ticket": ticket, "reward": 1})
                open_ones.remove(ticket)
            found = served.get("/shop/state")["awaited"]
            assert found["rewards"] == len(open_ones) and found["oldest"] == min(open_ones, default=None)
            event = served.get(f"/shop/log?after={min(open_ones) - 1}&limit=1")["events"][0] if open_ones else {}
            assert found["since"] == event.get("time")
        served.post("/shop/tell", {"tickets": open_ones, "rewards": [0] * len(open_ones)})
        assert served.get("/shop/state")["awaited"]["oldest"] is None
        late = served.post("/shop/ask")["ticket"]
        assert served.get("/shop/state")["awaited"]["oldest"] == late
        assert served.post("/shop/expire", {"seconds": 0, "reward": 0})["tickets"] in ([late], [])


@pytest.mark.parametrize("strange", ["a\nERROR fake", "a\tb", "a\u200b", "\ufeffa", "a\x7f", "a\u2028b"])
def test_names_with_characters_that_nobody_sees_are_refused(tmp_path: Path, strange: str) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        sent = [("", SHOP | {"name": "other", "arms": ["A", strange]}), ("/shop/arms", {"do": "add", "arm": strange})]
        for path, body in sent:
            status, said = served.refused(path, body)
            assert status == 422 and "invisible characters" in said and said.isprintable()
        file = io.BytesIO()
        pmb.Track("gini", n_arms=2, support=pmb.Binary()).save(file)
        with zipfile.ZipFile(file) as parts:
            content = {name: parts.read(name) for name in parts.namelist()}
        description = json.loads(content["policy.json"]) | {"names": ["A", strange]}
        del description["sha256"]
        description["sha256"] = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
        content["policy.json"] = json.dumps(description).encode()
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as made:
            for name, part in content.items():
                made.writestr(name, part)
        found = served.send("POST", "/v1/import?name=other", content=file.getvalue())
        shown = [] if found.status_code == 422 else found.json()["arms"]
        assert all(name.isprintable() for name in shown)  # a part of them is written out by the reader of files


def test_among_many_arms_few_are_asked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_AMONG_WORK", 10)
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        assert served.refused("/shop/ask", {"n": 6, "among": ["A", "B"]})[0] == 413
        assert len(served.post("/shop/ask", {"n": 5, "among": ["A", "B"]})["arms"]) == 5
        assert len(served.post("/shop/ask", {"n": 11})["arms"]) == 11
        served.post("", SHOP | {"name": "drawn", "play": "randomised"})  # here every ask draws from all arms
        most = 10 // len(SHOP["arms"])
        assert served.refused("/drawn/ask", {"n": most + 1})[0] == 413
        assert len(served.post("/drawn/ask", {"n": most})["arms"]) == most


def test_limits_that_would_let_everybody_wait_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        served.send("PUT", "/v1/experiments/shop/limits", json={"shares": "A >= 5%"}).raise_for_status()
        before = served.get("/shop")["limits"]
        monkeypatch.setattr(experiment, "MAX_LIMITS_SECONDS", 0.0)
        status, said = served.refused("/shop/limits", {"shares": "A >= 10%"}, method="PUT")
        assert status == 422 and "nobody is answered" in said
        assert served.get("/shop")["limits"] == before
        served.post("/shop/arms", {"do": "pause", "arm": "B"})  # other acts are quick


@pytest.mark.slow
def test_limits_that_take_long_are_refused_soon(tmp_path: Path) -> None:
    """Working these out takes minutes; a process tries it for some seconds of computing, and not once more."""
    rng = np.random.default_rng(0)
    arms = [f"a{k}" for k in range(200)]
    sums = "; ".join(" + ".join(rng.choice(arms, 3, replace=False)) + " >= 0.1%" for _ in range(200))
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SHOP, "arms": arms})
        served.service.settings = replace(served.service.settings, warm=True)
        for ways in (("/shop/limits", {"shares": sums}, "PUT"), ("", {**SHOP, "arms": arms, "shares": sums}, "POST")):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            status, said = served.refused(ways[0], ways[1], method=ways[2])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert status == 422 and "nobody is answered" in said
            assert after.ru_utime - before.ru_utime < 45.0, "with code to compile, it may take some seconds more"
