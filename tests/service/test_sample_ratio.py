"""The sample-ratio check: seldom wrong however often one looks, and quick to see rewards that get lost."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from pmbandits.service import responses, sample_ratio
from pmbandits.service.sample_ratio import LEVEL, Bet
from tests.service.serving import serving
from tests.service.test_randomised import DRAWN


def _bet(rng: np.random.Generator, n: int, kept: tuple[float, ...]) -> tuple[float, int | None]:
    """The p-value after n asks whose probabilities follow earlier rewards; with which reward it alarmed, if it did."""
    bet, wealth, came = Bet(), np.ones(3), 0
    for _ in range(n):
        p = wealth / wealth.sum()
        arm = int(rng.choice(3, p=p))
        wealth[arm] += 0.3 * rng.random()  # what is played more is then played even more
        if rng.random() < kept[arm]:
            came += 1
            bet.add_ticket(arm, dict(enumerate(p.tolist())))
            if bet.p_value <= LEVEL:
                return bet.p_value, came
    return bet.p_value, None


def test_a_false_alarm_is_as_rare_as_promised() -> None:
    rng = np.random.default_rng(1)
    alarms = sum(_bet(rng, 400, (0.6, 0.6, 0.6))[1] is not None for _ in range(400))
    assert alarms <= 10  # 4 are expected at most; 11 or more have a chance below 0.3 %


def test_lost_rewards_of_one_arm_are_noticed() -> None:
    rng = np.random.default_rng(2)
    found = [_bet(rng, 4000, (1.0, 1.0, 0.7))[1] for _ in range(10)]
    assert all(came is not None for came in found)


def test_the_bet_is_a_likelihood_ratio() -> None:
    """With the same alternative written down otherwise: the product of q(arm)/p(arm)."""
    rng = np.random.default_rng(3)
    bet, wealth, best = Bet(), 1.0, 1.0
    arrived, expected = np.zeros(4), np.zeros(4)
    for _ in range(200):
        p = rng.dirichlet(np.ones(4))
        arm = int(rng.integers(4))
        q = p * (arrived + sample_ratio.PRIOR) / (expected + sample_ratio.PRIOR)
        wealth *= (q / q.sum())[arm] / p[arm]
        best = max(best, wealth)
        bet.add_ticket(arm, dict(enumerate(p.tolist())))
        arrived[arm] += 1
        expected += p
    assert bet.p_value == pytest.approx(1.0 / best, rel=1e-9)


def test_the_state_says_whose_rewards_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_ratio, "MAX_REWARDS", 150)
    with serving(tmp_path / "store.db") as served:
        served.post("", DRAWN)
        for k in range(12):
            body = {"n": 50, **({"among": ["A", "B"]} if k % 4 == 3 else {})}
            asked = served.post("/shop/ask", body)
            some = [t for t, arm in zip(asked["tickets"], asked["arms"], strict=True) if arm != "A" or t % 2]
            served.post("/shop/tell", {"tickets": some, "rewards": [1.0] * len(some)})
        served.post("/shop/expire", {"seconds": 0, "reward": 0})  # default rewards say nothing of what came
        while (state := served.get("/shop/state"))["sample_ratio"]["upto"] < state["events"]:
            pass
        msgspec.convert(state, responses.ExperimentState)
        ratio = state["sample_ratio"]
        log = served.get("/shop/log")["events"]
        text = served.send("GET", "/metrics").text
    own = {row["ticket"] for row in log if row["kind"] == "tell" and row["data"] is None}
    assert ratio["arrived"] == {arm: sum(row["seq"] in own and row["arm"] == arm for row in log) for arm in "ABC"}
    assert sum(ratio["expected"].values()) == pytest.approx(len(own))
    assert not state["certainty"]["holds"] and "as arms were drawn" in state["certainty"]["sentence"]
    assert ratio["alarm"] and ratio["p_value"] <= LEVEL and "A has" in ratio["sentence"]
    assert 'pmbandits_experiment_sample_ratio_p_value{experiment="shop"}' in text
