"""Experiments with segments: who is asked for is in the log, in the state and on the board, and a replay agrees."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pmbandits as pmb
from pmbandits.service import responses
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, Served, serving

ARMS = {"new": ["A", "B"], "returning": ["B", "C"], "staff": ["C"]}
SEGMENTED = {**SHOP, "policy": "uniform", "segments": ARMS}
VET = {**SEGMENTED, "policy": "vet"}


def play(served: Served, seed: int, rounds: int = 40) -> None:
    """All that clients can do to an experiment with segments, in some order."""
    rng = random.Random(seed)
    names = list(ARMS)
    tickets: list[int] = []
    for k in range(rounds):
        who = rng.choice(names)
        if k % 5 == 0:
            people = [rng.choice(names) for _ in range(rng.randint(1, 6))]
            found = served.post("/shop/ask", {"segment": people, "key": f"{seed} {k}"})
            assert all(arm in [*ARMS[one], "D"] for arm, one in zip(found["arms"], people, strict=True))
            assert served.post("/shop/ask", {"segment": people, "key": f"{seed} {k}"}) == found
            tickets += found["tickets"]
        elif k % 5 == 1:
            found = served.post("/shop/ask", {"segment": "new", "n": 3, "among": ["B"]})
            assert found["arms"] == ["B"] * 3
            tickets += found["tickets"]
        elif k % 5 == 2:
            found = served.post("/shop/ask", {"segment": who, "unit": f"u{rng.randrange(4)}"})
            assert found["arm"] in [*ARMS[who], "D"]
            tickets.append(found["ticket"])
        else:
            tickets.append(served.post("/shop/ask", {"segment": who})["ticket"])
        if k % 3 == 0:
            rng.shuffle(tickets)
            mine, tickets = tickets[:4], tickets[4:]
            served.post("/shop/tell", {"tickets": mine, "rewards": [rng.randint(0, 1) for _ in mine]})
            served.post("/shop/tell", {"ticket": mine[0], "reward": rng.randint(0, 1), "correct": True})
        if k % 7 == 0:
            served.post("/shop/tell", {"arms": ["B", "C"], "rewards": [1, 0], "segment": ["new", "returning"]})
            served.post("/shop/tell", {"arm": "C", "reward": 1, "segment": "staff"})


@pytest.mark.parametrize("spec", [SEGMENTED, VET], ids=["uniform", "vet"])
def test_two_processes_with_segments_agree_with_a_replay_of_the_log(tmp_path: Path, spec: dict[str, Any]) -> None:
    file = tmp_path / "store.db"
    with serving(file) as served, serving(file) as other:
        served.post("", spec)
        for seed, one in enumerate((served, other, served, other)):
            play(one, seed)
            if seed == 1:
                one.post("/shop/arms", {"do": "add", "arm": "D"})
                one.post("/shop/arms", {"do": "pause", "arm": "A"})
            if seed == 2:
                one.post("/shop/arms", {"do": "resume", "arm": "A"})
                shares = {"shares": "new: B >= 10%; B <= 90%"}
                assert one.send("PUT", "/v1/experiments/shop/limits", json=shares).status_code in (200, 422)
        expected = replayed(*rows_of(f"sqlite:///{file}", "shop"))
        for one in (served, other):
            assert one.get("/shop")["events"] > 300
            (tmp_path / "now.pmb").write_bytes(one.send("GET", "/v1/experiments/shop/export").content)
            same(pmb.load(tmp_path / "now.pmb"), expected)
            assert one.service.experiment_cache.live_experiments["shop"].disagreements == 0
    with serving(file) as again:
        (tmp_path / "now.pmb").write_bytes(again.send("GET", "/v1/experiments/shop/export").content)
        same(pmb.load(tmp_path / "now.pmb"), expected)


def test_segments_are_in_the_log_the_state_and_the_numbers(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        made = served.post("", SEGMENTED)
        assert made["segments"] == ARMS and made["arms"] == ["A", "B", "C"]
        msgspec.convert(made, responses.Experiment)
        found = served.post("/shop/ask", {"segment": ["new", "staff", "new"]})
        served.post("/shop/tell", {"tickets": found["tickets"], "rewards": [1, 0, 1]})
        state = msgspec.convert(served.get("/shop/state"), responses.ExperimentState)
        assert [(one.segment, one.arrivals) for one in state.segments or ()] == [
            ("new", 2), ("returning", 0), ("staff", 1),
        ]  # fmt: skip
        assert [(one.segment, one.arm) for one in state.arms] == [(s, arm) for s, mine in ARMS.items() for arm in mine]
        served.post("", {**VET, "name": "vet"})
        served.post("/vet/ask", {"segment": "new"})
        sure = msgspec.convert(served.get("/vet/state"), responses.ExperimentState).certainty
        assert sure is not None and sure.frequencies == [1.0, 0.0, 0.0]
        for name in ARMS:
            assert sum(one.wanted for one in state.arms if one.segment == name) == pytest.approx(1.0)
        log = served.get("/shop/log")["events"]
        assert [one["segment"] for one in log if one["kind"] == "ask"] == ["new", "staff", "new"]
        assert [one["arm"] for one in log if one["kind"] == "tell"] == found["arms"]
        assert [one["segment"] for one in log if one["kind"] == "tell"] == ["new", "staff", "new"]
        assert "segment" in served.send("GET", "/v1/experiments/shop/log?format=csv").text.splitlines()[0]
        assert served.send("GET", "/v1/experiments/shop/log?format=parquet").status_code == 200
        told = served.send("GET", "/metrics").text
        assert 'pmbandits_experiment_arrivals_total{experiment="shop",segment="new"} 2.0' in told
        points = served.get("/shop/history")["points"]
        assert points[-1]["pulls"]["staff: C"] == 1
        assert served.send("GET", "/v1/experiments").json()["experiments"][0]["segments"] == ARMS


def test_a_wrong_segment_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SEGMENTED)
        served.post("", {**SHOP, "name": "plain"})
        ticket = served.post("/shop/ask", {"segment": "new"})["ticket"]
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("/shop/ask", {}, "say who arrives"),
            ("/shop/ask", {"n": 2}, "say who arrives"),
            ("/shop/ask", {"unit": "u"}, "say who arrives"),
            ("/shop/ask", {"segment": "old"}, "unknown segment"),
            ("/shop/ask", {"segment": ["new", "old"]}, "unknown segment"),
            ("/shop/ask", {"segment": ["new", "staff"], "among": ["A", "B"]}, "none of the arms in among"),
            ("/shop/ask", {"segment": ["new"], "n": 2}, "must be"),
            ("/shop/ask", {"segment": []}, "empty list"),
            ("/shop/ask", {"segment": ["new"], "unit": "u"}, "one arm at a time"),
            ("/shop/ask", {"segment": "staff", "among": ["A"]}, "none of the arms in among"),
            ("/shop/tell", {"arm": "A", "reward": 1}, "say who arrives"),
            ("/shop/tell", {"arm": "A", "reward": 1, "segment": "staff"}, "does not have the arm"),
            ("/shop/tell", {"arms": ["A", "B"], "rewards": [1, 1], "segment": ["new"]}, "must be"),
            ("/shop/tell", {"ticket": ticket, "reward": 1, "segment": "new"}, "a ticket knows its segment"),
            ("/plain/ask", {"segment": "new"}, "no segments"),
            ("/plain/ask", {"segment": ["new", "new"]}, "no segments"),
            ("/plain/tell", {"arm": "A", "reward": 1, "segment": "new"}, "no segments"),
        ]
        for path, body, words in wrong:
            status, said = served.refused(path, body)
            assert status == 422 and words in said and said.count(". ") <= 1, (path, body, said)
        assert served.get("/shop")["events"] == 1 and served.get("/plain")["events"] == 0
        for more, words in (
            ({"policy": "track"}, "segments"),
            ({"segments": {"new": ["A", "B", "X"], "old": ["C"]}}, "X"),
            ({"segments": ["new", "new"]}, "twice"),
            ({"segments": []}, "segments"),
            ({"play": "randomised"}, "not drawn by chance"),
        ):
            status, said = served.refused("", {**SEGMENTED, "name": "another", **more})
            assert status == 422 and words in said, said


def test_a_key_of_a_request_stands_for_its_segment_too(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SEGMENTED)
        served.post("/shop/ask", {"segment": "new", "key": "k"})
        assert served.refused("/shop/ask", {"segment": "returning", "key": "k"})[0] == 409
        served.post("/shop/tell", {"arm": "B", "reward": 1, "segment": "new", "key": "t"})
        assert served.refused("/shop/tell", {"arm": "B", "reward": 1, "segment": "returning", "key": "t"})[0] == 409


def test_a_unit_keeps_its_arm_in_every_segment_that_has_it(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SEGMENTED)
        arms = {served.post("/shop/ask", {"segment": "staff", "unit": f"u{k}"})["arm"] for k in range(3)}
        assert arms == {"C"}
        assert served.post("/shop/ask", {"segment": "returning", "unit": "u0"})["arm"] == "C"
        assert served.post("/shop/ask", {"segment": "new", "unit": "u1"})["arm"] in ("A", "B")
        served.post("/shop/arms", {"do": "pause", "arm": "B"})
        assert served.post("/shop/ask", {"segment": "returning", "unit": "u1"})["arm"] == "C"


def test_a_policy_with_segments_is_imported_and_goes_on(tmp_path: Path) -> None:
    policy = pmb.Uniform("gini", names=["A", "B", "C"], support=pmb.Binary(), segments=ARMS)
    for k in range(20):
        policy.tell(policy.ask(segment="new"), float(k % 2), segment="new")
    policy.save(tmp_path / "p.pmb")
    with serving(tmp_path / "store.db") as served:
        content = (tmp_path / "p.pmb").read_bytes()
        made = served.send("POST", "/v1/import?name=shop", content=content).json()
        assert made["segments"] == ARMS
        got = [served.post("/shop/ask", {"segment": "returning"})["arm"] for _ in range(6)]
        assert got == [policy.names[policy.ask(segment="returning")] for _ in range(6)]


def test_the_board_has_a_row_for_each_segment(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SEGMENTED)
        play(served, 1, 10)
        found = json.loads(served.send("GET", "/board/shop/view").content)
        assert [(one["segment"], one["arm"]) for one in found["arms"]] == [
            (name, arm) for name, mine in ARMS.items() for arm in mine
        ]
        assert [one["segment"] for one in found["segments"]] == list(ARMS)
        colours = {one["arm"]: one["colour"] for one in found["arms"]}
        assert all(colours[one["arm"]] == one["colour"] for one in found["arms"]) and len(set(colours.values())) == 3
        told = served.send("GET", "/board/shop/preview?do=pause&arm=B").json()["sentences"][-1]
        assert "new: " in told and "staff: 100 % C" in told
        assert "new: " in json.loads(served.send("GET", "/board/view").content)["experiments"][0]["wants"]


def test_changes_of_an_arm_are_found_in_its_segment(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SEGMENTED, "segments": ["new", "old"]})
        for reward in (0, 1):
            served.post("/shop/tell", {"arms": ["B"] * 400, "rewards": [reward] * 400, "segment": "old"})
            served.post("/shop/tell", {"arms": ["B"] * 400, "rewards": [0, 1] * 200, "segment": "new"})
        assert [one["arm"] for one in served.get("/shop/state")["changes"]] == ["old: B"]


def test_of_one_segment_all_is_as_without(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP | {"policy": "uniform"})
        served.post("", {**SHOP, "policy": "uniform", "name": "one", "segments": ["all"]})
        for k in range(40):
            one, other = served.post("/shop/ask"), served.post("/one/ask", {"segment": "all"})
            assert one == other
            for path in ("/shop", "/one"):
                served.post(f"{path}/tell", {"ticket": one["ticket"], "reward": k % 2})
