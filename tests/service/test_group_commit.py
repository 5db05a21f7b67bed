"""What a client sees of asks and tells: tickets, repetitions, corrections, and refusals that change nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pmbandits as pmb
from pmbandits.engine.ticket_methods import propensity_of_chosen_arm
from pmbandits.service import experiment, group_commit, keys, warmup
from pmbandits.service import service as service_module
from tests.service.replaying import replayed, rows_of
from tests.service.serving import SHOP, Served, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("asks") / "store.db") as served:
        yield served


@pytest.fixture
def shop(service: Served, request: Any) -> str:
    name = request.node.name[:90].replace("[", "-").replace("]", "")
    service.post("", {**SHOP, "name": name})
    return f"/{name}"


def counted(service: Served, shop: str) -> int:
    return int(service.get(shop)["events"])


def test_the_arms_are_those_of_a_policy_in_one_process(service: Served, shop: str) -> None:
    policy = pmb.Track("gini", names=SHOP["arms"], support=pmb.Binary())
    for k in range(60):
        asked = service.post(f"{shop}/ask")
        arm = policy.ask()
        assert asked == {"ticket": 2 * k + 1, "arm": policy.names[arm], "share": propensity_of_chosen_arm(policy, arm)}
        reward = float(k % 3 == arm % 2)
        policy.tell(arm, reward)
        assert service.post(f"{shop}/tell", {"ticket": asked["ticket"], "reward": reward})["taken"] == 1
    state = service.get(f"{shop}/state")
    assert [arm["pulls"] for arm in state["arms"]] == policy.pulls.tolist()
    assert [arm["wanted"] for arm in state["arms"]] == policy.mixture.tolist()
    assert state["certainty"]["regret"] == policy.certainty().regret
    assert state["explanation"] == policy.explain()


def test_a_reward_counts_once_however_often_it_is_sent(service: Served, shop: str) -> None:
    ticket = service.post(f"{shop}/ask")["ticket"]
    answers = [service.post(f"{shop}/tell", {"ticket": ticket, "reward": 1}) for _ in range(3)]
    assert [(a["taken"], a["repeated"]) for a in answers] == [(1, 0), (0, 1), (0, 1)]
    assert counted(service, shop) == 2


def test_another_reward_is_refused(service: Served, shop: str) -> None:
    ticket = service.post(f"{shop}/ask")["ticket"]
    service.post(f"{shop}/tell", {"ticket": ticket, "reward": 1})
    status, sentence = service.refused(f"{shop}/tell", {"ticket": ticket, "reward": 0})
    assert status == 409
    assert sentence.startswith(f"ticket {ticket} has the reward 1 already, not 0; nothing was stored.")


def test_a_reward_can_be_corrected(service: Served, shop: str) -> None:
    asked = service.post(f"{shop}/ask", {"n": 4})
    service.post(f"{shop}/tell", {"tickets": asked["tickets"], "rewards": [1, 1, 1, 1]})
    for _ in range(2):  # sent twice it is corrected once
        told = service.post(f"{shop}/tell", {"tickets": [1, 2], "rewards": [0, 1], "correct": True})
        assert told["taken"] == 0 and told["corrected"] + told["repeated"] == 2
    assert counted(service, shop) == 9
    means = {arm["arm"]: arm["mean"] for arm in service.get(f"{shop}/state")["arms"]}
    assert means[asked["arms"][0]] == 0.5 and means[asked["arms"][1]] == 1.0
    assert service.refused(f"{shop}/tell", {"ticket": 1, "reward": 1})[0] == 409
    assert service.refused(f"{shop}/tell", {"ticket": 1, "reward": 7, "correct": True})[0] == 422


def test_corrections_are_taken_whole_or_not_at_all(service: Served, shop: str) -> None:
    asked = service.post(f"{shop}/ask", {"n": 9})
    first = {arm: [t for t, a in zip(asked["tickets"], asked["arms"], strict=True) if a == arm] for arm in "AB"}
    service.post(f"{shop}/tell", {"tickets": first["A"] + first["B"][:1], "rewards": [1] * 4})
    one, two, new = first["A"][0], first["A"][1], first["B"][1]
    before = service.get(f"{shop}/state")
    for tickets, rewards, status in (
        ([new, one], [1, 7], 422),  # a new reward, and a correction that cannot be
        ([one, two], [0, 7], 422),  # a correction that can be, and one that cannot
        ([one, two, 999], [0, 0, 1], 404),
        ([one, one], [0, 1], 409),  # two rewards of one ticket
        ([new, new], [0, 1], 409),
    ):
        body = {"tickets": tickets, "rewards": rewards, "correct": True}
        assert service.refused(f"{shop}/tell", body)[0] == status, body
        assert service.get(f"{shop}/state") == before
    told = service.post(f"{shop}/tell", {"tickets": [one, one, new], "rewards": [0, 0, 1], "correct": True})
    assert told == {"taken": 1, "repeated": 1, "corrected": 1}
    means = {arm["arm"]: (arm["rewards"], arm["mean"]) for arm in service.get(f"{shop}/state")["arms"]}
    assert means == {"A": (3, pytest.approx(2 / 3)), "B": (2, 1.0), "C": (0, None)}, "only its own reward was replaced"


def test_a_correction_that_is_sent_again_late_does_not_undo_a_newer_one(service: Served, shop: str) -> None:
    ticket = service.post(f"{shop}/ask")["ticket"]
    service.post(f"{shop}/tell", {"ticket": ticket, "reward": 1})
    first = {"ticket": ticket, "reward": 0, "correct": True, "key": "one"}
    assert service.post(f"{shop}/tell", first)["corrected"] == 1
    assert service.post(f"{shop}/tell", {**first, "reward": 1, "key": "two"})["corrected"] == 1
    for _ in range(2):
        assert service.post(f"{shop}/tell", first) == {"taken": 0, "repeated": 1, "corrected": 0}
        service.service.experiment_cache.live_experiments[shop[1:]].keys.clear()  # so that it must be looked up
    assert service.get(f"{shop}/state")["arms"][0]["mean"] == 1.0
    assert service.refused(f"{shop}/tell", {**first, "reward": 1})[0] == 409, "a key is for one request"
    known = {"ticket": ticket, "reward": 1, "key": "three"}  # it changes nothing, and its key is known nevertheless
    assert service.post(f"{shop}/tell", known)["repeated"] == 1
    service.service.experiment_cache.live_experiments[shop[1:]].keys.clear()
    assert service.refused(f"{shop}/ask", {"key": "three"})[0] == 409


def test_arms_come_and_go(service: Served, shop: str) -> None:
    for _ in range(12):
        service.post(f"{shop}/tell", {"ticket": service.post(f"{shop}/ask")["ticket"], "reward": 1})
    service.post(f"{shop}/arms", {"do": "add", "arm": "D"})
    service.post(f"{shop}/arms", {"do": "pause", "arm": "A"})
    arms = []
    for k in range(30):
        asked = service.post(f"{shop}/ask")
        arms.append(asked["arm"])
        service.post(f"{shop}/tell", {"ticket": asked["ticket"], "reward": k % 2})
    assert "D" in arms and "A" not in arms
    assert service.refused(f"{shop}/ask", {"among": ["A"]})[0] == 422
    service.post(f"{shop}/arms", {"do": "resume", "arm": "A"})
    service.post(f"{shop}/arms", {"do": "retire", "arm": "B"})
    state = service.get(f"{shop}/state")
    assert [arm["plays"] for arm in state["arms"]] == [True, False, True, True]
    for body in (
        {"do": "add", "arm": "A"},
        {"do": "pause", "arm": "Z"},
        {"do": "resume", "arm": "B"},
        {"do": "x", "arm": "A"},
    ):
        assert service.refused(f"{shop}/arms", body)[0] == 422
    acts = service.send("GET", "/v1/audit").json()["acts"]
    assert [(act["act"], act["detail"]) for act in acts[:4]] == [
        ("retire", '"B"'),
        ("resume", '"A"'),
        ("pause", '"A"'),
        ("add", '"D"'),
    ]


def test_limits_on_shares_change(service: Served, shop: str) -> None:
    def limit(shares: Any) -> int:
        return service.send("PUT", f"/v1/experiments{shop}/limits", json={"shares": shares}).status_code

    assert limit("A >= 50%") == 200
    arms = service.post(f"{shop}/ask", {"n": 40})["arms"]
    assert arms.count("A") >= 19
    assert service.get(f"{shop}/state")["limits"] == "A >= 50%"
    for shares in ("A >= 200%", "Z >= 1%", 7, {"A": "x"}, {"A": [2, 1]}, [[[]]]):
        assert limit(shares) == 422, shares
    assert limit({"A": [0.0, 0.1]}) == 200
    arms = service.post(f"{shop}/ask", {"n": 40})["arms"]
    assert arms.count("A") <= 5
    assert limit(None) == 200
    assert service.get(f"{shop}/state")["limits"] is None


def test_many_at_once_are_taken_whole_or_not_at_all(service: Served, shop: str) -> None:
    asked = service.post(f"{shop}/ask", {"n": 20})
    assert asked["tickets"] == list(range(1, 21))
    assert len(asked["arms"]) == 20
    for rewards, tickets in (
        ([1.0] * 19 + [2.0], asked["tickets"]),  # outside the support
        ([1.0] * 20, [*asked["tickets"][:19], 999]),  # no such ticket
        ([1.0] * 19 + [0.0], [*asked["tickets"][:19], 1]),  # two rewards of one ticket
        ([1.0] * 19, asked["tickets"]),
    ):
        status, _ = service.refused(f"{shop}/tell", {"tickets": tickets, "rewards": rewards})
        assert status in (404, 409, 422)
        assert counted(service, shop) == 20
    told = service.post(f"{shop}/tell", {"tickets": [*asked["tickets"], 1], "rewards": [1] * 21})
    assert told == {"taken": 20, "repeated": 1, "corrected": 0}
    assert counted(service, shop) == 40


def test_a_key_makes_an_ask_safe_to_repeat(service: Served, shop: str) -> None:
    first = service.post(f"{shop}/ask", {"key": "k", "n": 3})
    service.post(f"{shop}/ask")
    assert service.post(f"{shop}/ask", {"key": "k", "n": 3}) == first
    service.service.experiment_cache.live_experiments[shop[1:]].keys.clear()  # so that it must be looked up
    assert service.post(f"{shop}/ask", {"key": "k", "n": 3}) == first
    assert counted(service, shop) == 4
    status, sentence = service.refused(f"{shop}/ask", {"key": "k"})
    assert (status, sentence) == (
        409,
        "the key 'k' was sent before with another request; take a new key for a new one.",
    )


def test_rewards_without_tickets_are_history(service: Served, shop: str) -> None:
    body = {"arms": ["A", "B"], "rewards": [1, 0], "key": "import 1"}
    assert service.post(f"{shop}/tell", body)["taken"] == 2
    assert service.post(f"{shop}/tell", body) == {"taken": 0, "repeated": 2, "corrected": 0}
    assert service.post(f"{shop}/tell", {"arm": "C", "reward": 1})["taken"] == 1
    state = service.get(f"{shop}/state")
    assert [(arm["pulls"], arm["rewards"]) for arm in state["arms"]] == [(0, 1)] * 3


def test_a_unit_gets_the_same_arm_again(service: Served, shop: str) -> None:
    first = [service.post(f"{shop}/ask", {"unit": f"user {k}"})["arm"] for k in range(6)]
    assert len(set(first)) > 1
    for _ in range(2):
        again = [service.post(f"{shop}/ask", {"unit": f"user {k}"}) for k in range(6)]
        assert [asked["arm"] for asked in again] == first
    pulls = [arm["pulls"] for arm in service.get(f"{shop}/state")["arms"]]
    assert pulls == [3 * first.count(arm) for arm in "ABC"]
    elsewhere = service.post(f"{shop}/ask", {"unit": "user 0", "among": [next(a for a in "ABC" if a != first[0])]})
    assert elsewhere["arm"] != first[0]  # its arm is not available now …
    assert service.post(f"{shop}/ask", {"unit": "user 0"})["arm"] == elsewhere["arm"]  # … and the new one stays


def test_only_arms_that_are_available(service: Served, shop: str) -> None:
    for _ in range(10):
        assert service.post(f"{shop}/ask", {"among": ["A", "C"]})["arm"] in "AC"
    assert service.refused(f"{shop}/ask", {"among": ["Z"]})[0] == 422
    at_once = service.post(f"{shop}/ask", {"among": ["A", "C"], "n": 30})
    policy = pmb.Track("gini", names=SHOP["arms"], support=pmb.Binary())
    one_by_one = [policy.names[policy.ask(among=["A", "C"])] for _ in range(40)]
    assert at_once["arms"] == one_by_one[10:]


def test_a_paused_experiment_takes_late_rewards_and_gives_no_arms(service: Served, shop: str) -> None:
    ticket = service.post(f"{shop}/ask")["ticket"]
    service.post(f"{shop}/status", {"status": "paused"})
    assert service.refused(f"{shop}/ask", {})[0] == 409
    assert service.post(f"{shop}/tell", {"ticket": ticket, "reward": 1})["taken"] == 1
    service.post(f"{shop}/status", {"status": "archived"})
    assert service.refused(f"{shop}/tell", {"ticket": ticket, "reward": 1})[0] == 409
    service.post(f"{shop}/status", {"status": "running"})
    assert service.post(f"{shop}/ask")["ticket"] == 6
    acts = [act["act"] for act in service.send("GET", "/v1/audit").json()["acts"]]
    assert acts[:4] == ["status", "status", "status", "create"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("ask", {"n": 0}, 422),
        ("ask", {"n": 10_001}, 413),
        ("ask", {"n": 2, "unit": "u"}, 422),
        ("ask", {"unit": "\0"}, 422),
        ("ask", {"m": 1}, 422),
        ("ask", [], 422),
        ("tell", {}, 422),
        ("tell", {"ticket": 1}, 422),
        ("tell", {"ticket": 1, "rewards": [1]}, 422),
        ("tell", {"ticket": 1, "arm": "A", "reward": 1}, 422),
        ("tell", {"ticket": "1", "reward": 1}, 422),
        ("tell", {"ticket": 1, "reward": 1}, 404),
        ("tell", {"ticket": 2**60, "reward": 1}, 422),
        ("tell", {"arm": "Z", "reward": 1}, 422),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(
    service: Served, shop: str, path: str, body: Any, status: int
) -> None:
    found, sentence = service.refused(f"{shop}/{path}", body)
    assert found == status
    assert sentence.endswith(".")
    assert counted(service, shop) == 0


def test_experiments_that_cannot_be_are_refused(service: Served) -> None:
    for change in (
        {"name": "<script>"}, {"name": "x" * 101}, {"metric": "upper_cvar("}, {"metric": "nothing"}, {"arms": []},
        {"arms": ["A", "A"]}, {"arms": ["A\u001b[2J", "B"]}, {"support": {"kind": "interval", "lo": 1, "hi": 0}},
        {"support": {}}, {"policy": "best"}, {"options": {"speed": 3}}, {"seed": -1}, {"shares": "A >= 200%"},
        {"extra": 1},
    ):  # fmt: skip
        status, sentence = service.refused("", {**SHOP, "name": "never", **change})
        assert status == 422, (change, sentence)
    names = [found["name"] for found in service.get("")["experiments"]]
    assert "never" not in names
    assert service.refused("", {**SHOP, "name": names[0]})[0] == 409


def test_names_of_arms_are_only_data(service: Served) -> None:
    arms = ["<script>alert(1)</script>", "'; DROP TABLE events; --", "=cmd()", '"\\', "ä 🎲"]
    service.post("", {**SHOP, "name": "names", "arms": arms})
    for _ in arms:
        asked = service.post("/names/ask")
        service.post("/names/tell", {"ticket": asked["ticket"], "reward": 1})
    assert [arm["arm"] for arm in service.get("/names/state")["arms"]] == arms
    log = service.send("GET", "/v1/experiments/names/log")
    assert log.headers["content-type"] == "application/json"
    assert log.headers["x-content-type-options"] == "nosniff"
    assert {event["arm"] for event in log.json()["events"]} == set(arms)


def test_the_arms_that_are_available_are_written_once_for_a_request(tmp_path: Path) -> None:
    names = [f"arm {k}" for k in range(1000)]
    with serving(tmp_path / "store.db") as served:
        served.post("", {**SHOP, "policy": "uniform", "arms": names})
        served.post("/shop/ask", {"n": 1000, "among": names})
        rows = rows_of(f"sqlite:///{tmp_path / 'store.db'}", "shop")[1]
        assert json.loads(rows[0][5]) == list(range(1000)) and {row[5] for row in rows[1:]} == {"1"}
        size = sum(len(str(row)) for row in rows)
        assert size < 100_000, "a list of arms for each of them would be 4 MB"
        assert served.post("/shop/ask", {"n": 3, "among": names[:2]})["tickets"] == [1001, 1002, 1003]
        replayed(*rows_of(f"sqlite:///{tmp_path / 'store.db'}", "shop"))
    with serving(tmp_path / "store.db") as served:
        assert served.get("/shop")["events"] == 1003


@pytest.mark.parametrize("policy", ["track", "thompson"])  # the mixture of the second changes with every ask
def test_shares_of_many_at_once_are_those_of_single_asks(service: Served, policy: str) -> None:
    shop = f"/shares-{policy}"
    service.post("", {**SHOP, "name": shop[1:], "policy": policy, "metric": "mean"})
    alone = {"track": pmb.Track, "thompson": pmb.Thompson}[policy]("mean", names=SHOP["arms"], support=pmb.Binary())
    for body in 3 * ({"n": 15}, {"n": 15, "among": ["A", "C"]}, {"n": 4}):
        asked = service.post(f"{shop}/ask", body)
        for arm, share in zip(asked["arms"], asked["shares"], strict=True):
            chosen = alone.ask(among=body.get("among"))
            assert (alone.names[chosen], propensity_of_chosen_arm(alone, chosen)) == (arm, share)
        rewards = [float(k % 3 == 0) for k in range(len(asked["arms"]))]
        service.post(f"{shop}/tell", {"tickets": asked["tickets"], "rewards": rewards})
        alone.tell([SHOP["arms"].index(arm) for arm in asked["arms"]], rewards)


@pytest.mark.parametrize("reader", ["the process that changes it", "another process"])
def test_limits_that_take_long_make_no_other_experiment_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    limit, slow, goes_on = pmb.Policy.limit, threading.Event(), threading.Event()

    def slowly(self: pmb.Policy, *given: Any) -> None:
        if not slow.is_set():  # the first time, while it is compiled and worked out
            slow.set()
            goes_on.wait(30)
        limit(self, *given)

    with serving(tmp_path / "store.db") as one, serving(tmp_path / "store.db") as two:
        for name in ("slow", "quick"):
            one.post("", {**SHOP, "name": name})
            two.post(f"/{name}/ask")
        if reader == "another process":  # it reads that there are new limits
            one.send("PUT", "/v1/experiments/slow/limits", json={"shares": "A <= 50%"}).raise_for_status()
        monkeypatch.setattr(pmb.Policy, "limit", slowly)
        done: list[int] = []

        def change() -> None:
            path = "/v1/experiments/slow"
            if reader == "another process":
                done.append(two.send("POST", f"{path}/ask", json={}).status_code)
            else:
                done.append(two.send("PUT", f"{path}/limits", json={"shares": "A <= 50%"}).status_code)

        thread = threading.Thread(target=change)
        thread.start()
        assert slow.wait(30)
        two.post("/quick/ask")
        assert not done
        goes_on.set()
        thread.join(30)
        assert done == [200]
        assert two.get("/slow")["limits"] == "A <= 50%"


def test_what_one_request_may_cost_is_bounded(service: Served, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"; ".join(["A >= 0.001%"] * 1001): 413, "A >= 1%;" + " " * 50_000: 413}
    for shares, status in many.items():
        found = service.send("PUT", f"/v1/experiments{shop}/limits", json={"shares": shares})
        assert found.status_code == status
        assert service.refused("", {**SHOP, "name": "costly", "shares": shares})[0] == status
    tickets = service.post(f"{shop}/ask", {"n": 10})["tickets"]
    service.post(f"{shop}/tell", {"tickets": tickets, "rewards": [1] * 10})
    monkeypatch.setattr(experiment, "MAX_CORRECTION_WORK", 100)
    body = {"tickets": tickets, "rewards": [0] * 10, "correct": True}
    assert service.refused(f"{shop}/tell", body)[0] == 413
    assert service.post(f"{shop}/tell", {**body, "tickets": tickets[:5], "rewards": [0] * 5})["corrected"] == 5


@pytest.mark.parametrize("what", ["asks", "unknown tickets"])
def test_large_requests_of_one_key_keep_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(group_commit, "MAX_TURN_EVENTS", 500)
    monkeypatch.setattr(group_commit, "EQUAL_SHARE", 50)
    done: list[str] = []
    with serving(tmp_path / "store.db", open=False) as served:
        admin, greedy, modest = (
            keys.create_key_in_store(served.service.store, scopes, None, "", "test")
            for scopes in (["admin"], ["ask", "tell"], ["ask"])
        )
        for name in ("big", "small"):
            served.post("", {**SHOP, "name": name, "policy": "uniform"}, key=admin)
        turns = served.service.metrics.turns

        async def send(path: str, body: dict[str, Any], key: str, note: str) -> Any:
            headers = {"authorization": f"Bearer {key}"}
            found = await served.client.post(f"/v1/experiments/{path}", json=body, headers=headers)
            done.append(note)
            return found.status_code, found.json()

        async def send_all() -> list[Any]:
            unknown = {"tickets": list(range(1_000_000, 1_000_500)), "rewards": [1] * 500}
            path, body = ("big/ask", {"n": 500}) if what == "asks" else ("big/tell", unknown)
            large = [send(path, body, greedy, "large") for _ in range(20)]
            return await asyncio.gather(
                *large, *(send(f"{name}/ask", {}, modest, "other") for name in ("small", "big") for _ in range(20))
            )

        found = served.wait(send_all())
        assert {status for status, _ in found[20:]} == {200}
        before = done[: max(k for k, note in enumerate(done) if note == "other")].count("large")
        assert before <= 3, "the others waited for three transactions at most"
        assert served.service.metrics.turns - turns >= 20, "each large request had a transaction of its own"
        if what == "asks":
            tickets = [ticket for _, body in found[:20] for ticket in body["tickets"]]
            tickets += [body["ticket"] for _, body in found[40:]]
            assert sorted(tickets) == list(range(1, 10_021))
        else:
            assert {status for status, _ in found[:20]} == {404}


@pytest.mark.parametrize("way", ["takes too long", "client hangs up", "one after the other"])
def test_limits_are_worked_out_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    alive: list[int] = []
    start = subprocess.Popen

    def start_and_note(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        processes.append(start(*given, **named))
        alive.append(sum(one.returncode is None for one in processes))
        return processes[-1]

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        monkeypatch.setattr(served.service, "settings", replace(served.service.settings, warm=True))
        monkeypatch.setattr(subprocess, "Popen", start_and_note)
        seconds = 0.3 if way == "one after the other" else 1000
        monkeypatch.setattr(warmup, "_COMMAND", (sys.executable, "-c", f"import time; time.sleep({seconds})"))
        body = {"shares": "A >= 10%"}
        if way == "takes too long":
            monkeypatch.setattr(service_module, "LIMITS_SECONDS", 0.2)
            status, sentence = served.refused("/shop/limits", body, method="PUT")
            assert status == 422 and "take more than 0.2 s" in sentence
            status, sentence = served.refused("", {**SHOP, "name": "other", **body})
            assert status == 422 and "take more than 0.2 s" in sentence
            found = served.send("GET", "/board/shop/preview?do=limits&shares=A%20%3E%3D%2010%25")
            assert found.status_code == 422 and len(processes) == 3
        elif way == "client hangs up":
            served.wait(asyncio.wait_for(_hang_up(served, "/v1/experiments/shop/limits", json.dumps(body)), 30))
        else:

            async def put_all() -> None:
                path = "/v1/experiments/shop/limits"
                found = await asyncio.gather(*(served.client.put(path, json=body) for _ in range(3)))
                assert [one.status_code for one in found] == [200] * 3

            served.wait(put_all())
            assert alive == [1, 1, 1]
        for process in processes:
            process.wait(10)
        assert processes
        assert served.get("/shop")["limits"] == ("A >= 10%" if way == "one after the other" else None)


def test_limits_of_unknown_arms_are_refused_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def compile(*_: Any) -> None:
        raise AssertionError("a process was started")

    with serving(tmp_path / "store.db") as served:
        served.post("", SHOP)
        monkeypatch.setattr(served.service, "settings", replace(served.service.settings, warm=True))
        monkeypatch.setattr(warmup, "warm_in_subprocess", compile)
        for shares, words in (("NOPE >= 2", "unknown arm"), ("A >= 60%; B >= 60%", "")):
            status, said = served.refused("/shop/limits", {"shares": shares}, method="PUT")
            assert status == 422 and words in said
            assert served.refused("", {**SHOP, "name": "other", "shares": shares})[0] == 422


async def _hang_up(served: Served, path: str, body: str) -> None:
    """Send limits, and do not wait for the answer."""
    messages = [{"type": "http.request", "body": body.encode()}]

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    headers = [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "PUT", "path": path, "query_string": b"", "headers": headers}
    await served.app(scope, receive, send)
