"""Randomised play: draws that follow the mixture, propensities that are exact, and the same in every process."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.service.randomised import Draws, probabilities_event_data, uniform_from_numbers
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, serving
from tests.service.test_processes import policy_of

DRAWN = {**SHOP, "play": "randomised"}


def test_draws_have_their_probabilities() -> None:
    draws = Draws(5, (0.5, 0.3, 0.15, 0.05))
    n = 40_000
    for candidates in ((0, 1, 2, 3), (1, 3)):
        found = draws.draw_arms(range(1, n + 1), candidates)
        assert found[2:7] == [draws.draw_arms([seq], candidates)[0] for seq in range(3, 8)], "one by one the same"
        total = sum(draws.probabilities[arm] for arm in candidates)
        for arm in candidates:
            p = draws.probabilities[arm] / total
            seen = sum(drawn == arm for drawn, _ in found)
            assert abs(seen - n * p) < 4.5 * np.sqrt(n * p * (1 - p))
            assert {share for drawn, share in found if drawn == arm} <= {p, np.nextafter(p, 0.0), np.nextafter(p, 1.0)}
    other = [uniform_from_numbers(6, seq) for seq in range(1, n + 1)]
    mine = [uniform_from_numbers(5, seq) for seq in range(1, n + 1)]
    assert abs(np.corrcoef(mine, other)[0, 1]) < 0.025, "two experiments draw independently"
    assert abs(np.corrcoef(mine[1:], mine[:-1])[0, 1]) < 0.025 and abs(np.mean(mine) - 0.5) < 0.008


def test_many_draws_among_many_arms_cost_little() -> None:
    """A request may ask for 10,000 arms; each draw once walked over all arms, and everybody waited."""
    k = 10_000
    draws = Draws(5, tuple(np.full(k, 1.0 / k)))
    walked = Walked(range(k))
    assert len(draws.draw_arms(range(1, 1001), walked)) == 1000
    assert walked.reads <= k + 1001


class Walked(Sequence[int]):
    """Candidates that count how often one of them is read."""

    def __init__(self, arms: Sequence[int]) -> None:
        self.arms, self.reads = arms, 0

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        self.reads += 1
        return self.arms[at]


def test_probabilities_follow_the_mixture_and_leave_no_arm_out() -> None:
    policy = pmb.Track("gini", names=["A", "B", "C"], support=pmb.Binary())
    assert json.loads(probabilities_event_data(policy)) == {"round": 0, "probabilities": [1 / 3] * 3}
    for k in range(3000):
        arm = policy.ask()
        policy.tell(arm, float(arm == 0 or k % 5 == 0))
    found = np.array(json.loads(probabilities_event_data(policy))["probabilities"])
    floor = np.sqrt(3 / 3000)
    assert np.allclose(found, (1 - floor) * policy.mixture + floor / 3, atol=1e-3)
    policy.pause("B")
    policy.add_arm("D")
    found = np.array(json.loads(probabilities_event_data(policy))["probabilities"])
    assert found[1] == 0.0 and found.sum() == pytest.approx(1.0)
    assert found[[0, 2, 3]] == pytest.approx(1 / 3), "arms came and went: they are explored anew"


def test_played_shares_come_to_the_mixture_and_the_log_evaluates_other_policies(tmp_path: Path) -> None:
    """Arms of which a mixture is best; in the end shares are near it, and weighted rewards estimate each arm's mean."""
    means, rng = np.array([0.8, 0.2, 0.5]), np.random.default_rng(3)
    with serving(tmp_path / "store.db") as served:
        served.post("", DRAWN)
        for _ in range(60):
            asked = served.post("/shop/ask", {"n": 50})
            rewards = [float(rng.random() < means["ABC".index(arm)]) for arm in asked["arms"]]
            served.post("/shop/tell", {"tickets": asked["tickets"], "rewards": rewards})
        state = served.get("/shop/state")
        log = served.get("/shop/log")["events"]
    told = {row["ticket"]: row["reward"] for row in log if row["kind"] == "tell"}
    asks = [row for row in log if row["kind"] == "ask"]
    for arm, mean in zip("ABC", means, strict=True):
        terms = np.array([told[row["seq"]] / row["share"] if row["arm"] == arm else 0.0 for row in asks])
        assert abs(terms.mean() - mean) < 4.5 * terms.std() / np.sqrt(terms.size), "weighted by propensities"
    played = np.array([arm["played"] for arm in state["arms"]])
    wanted = np.array([arm["wanted"] for arm in state["arms"]])
    assert np.abs(played - wanted).max() < 0.15
    assert 0 < sum(row["kind"] == "probabilities" for row in log) <= 60
    assert state["sample_ratio"]["p_value"] > 1e-5  # drawn by chance: an alarm at .01 is possible


def test_every_process_draws_the_same_also_after_a_saved_policy(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as one, serving(store) as two:
        one.post("", DRAWN)
        assert one.get("/shop")["play"] == "randomised"
        for k in range(40):
            served = (one, two)[k % 2]
            asked = served.post("/shop/ask", {"n": 4, **({"among": ["A", "C"]} if k % 3 == 0 else {})})
            served.post("/shop/tell", {"tickets": asked["tickets"][:3], "rewards": [k % 2] * 3})
        kept = one.post("/shop/ask", {"unit": "u"})
        again = two.post("/shop/ask", {"unit": "u"})
        assert again["arm"] == kept["arm"] and again["share"] == 1.0 and 0.0 < kept["share"] < 1.0
        live = one.service.experiment_cache.live_experiments["shop"]
        one.service.experiment_cache._save_snapshot(1, live.replay.copy())
        alone = replayed(*rows_of(f"sqlite:///{store}", "shop"))
        for served in (one, two):
            same(policy_of(served, "shop", tmp_path), alone)
            assert served.service.experiment_cache.live_experiments["shop"].disagreements == 0
        before = copy.copy(two.service.experiment_cache.live_experiments["shop"].replay.draws)
    with serving(store) as later:
        loaded = later.service.experiment_cache.live_experiments["shop"]
        assert later.service.experiment_cache.saved[1] > 0 and loaded.replay.draws == before
        later.post("/shop/ask", {"n": 30})
        replayed(*rows_of(f"sqlite:///{store}", "shop"))


def test_a_changed_arm_in_the_log_is_noticed(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    with serving(store) as served:
        served.post("", DRAWN)
        arm = "ABC".index(served.post("/shop/ask")["arm"])
        served.service.store.engine.dispose()
    import sqlite3

    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE events SET arm = ? WHERE kind = 0", ((arm + 1) % 3,))
    with serving(store) as served:
        assert served.service.experiment_cache.live_experiments["shop"].disagreements == 1


def test_what_is_refused_draws_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "store.db") as served:
        assert served.refused("", {**DRAWN, "shares": "A >= 10%"})[0] == 422
        served.post("", DRAWN)
        served.post("/shop/arms", {"do": "pause", "arm": "B"})
        assert served.refused("/shop/ask", {"among": ["B"]})[0] == 422
        assert served.refused("/shop/limits", {"shares": "A >= 10%"}, method="PUT")[0] == 422
        assert served.send("GET", "/board/shop/preview?do=limits&shares=A>=10%25").status_code == 422
        assert served.get("/shop")["events"] == 1, "only the pause"
        assert served.refused("", {**DRAWN, "name": "other", "play": "dice"})[0] == 422
