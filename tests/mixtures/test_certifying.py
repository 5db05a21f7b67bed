"""Pulls for certifying: how many there are, whose they are, and that they do what they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.mixtures._certifying import fill_certification_gains
from tests.helpers import SUPPORTS, one_sentence, taught
from tests.reference.bands import kl

GINI = pmb.GiniDeviation()
KINDS = [pmb.Track, pmb.Vet]


def played(policy: Any, support: str, rounds: int, seed: int = 0) -> list[int]:
    """How many pulls were for certifying after each round."""
    rng, distribution, spent = np.random.default_rng(seed), SUPPORTS[support][1], []
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, distribution(rng, arm))
        spent.append(int(policy._memory.certify_pulls.sum()))
    return spent


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_stated_share_of_pulls_is_for_certifying(cls: Any, support: str) -> None:
    policy = cls(GINI, n_arms=3, support=SUPPORTS[support][0], certify=0.2)
    spent = np.array(played(policy, support, 200))
    rounds = np.arange(1, 201)
    assert (spent <= 0.2 * rounds).all()
    assert (spent[10:] >= 0.2 * rounds[10:] - 1.0).all()  # after the first pull of each arm
    assert (policy._memory.certify_pulls <= policy.pulls).all()


@pytest.mark.parametrize("cls", KINDS)
def test_without_the_option_nothing_is_played_otherwise_and_no_room_is_taken(cls: Any) -> None:
    policy = cls(GINI, n_arms=3, support=pmb.Interval(0, 1), certify=0.0)
    assert sum(played(policy, "interval", 100)) == 0
    same = cls(GINI, n_arms=3, support=pmb.Interval(0, 1))
    played(same, "interval", 100)
    assert policy.pulls.tolist() == same.pulls.tolist() and policy._memory.certify_gain.size == 0


# ---- whose pulls they are --------------------------------------------------------------------------------
def gains(policy: Any, mixture: Any) -> np.ndarray:
    """What the certified regret would fall by if each arm's law were known, by the kernel."""
    memory, out = policy._memory_with_radii(), np.empty(policy.n_arms)
    memory.mix[:] = mixture
    fill_certification_gains(memory.address, out)
    return out / np.sqrt(memory.n_rewards)


@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.LowerCVaR(0.3), pmb.InvertedS(0.7)], ids=repr)
def test_a_gain_is_at_least_what_certainty_gains_when_an_arm_becomes_known(metric: Any) -> None:
    """An arm becomes known by telling its rewards again and again: the law stays as it is, and the set shrinks."""
    policy, data = taught(metric, "finite", 3, 120, seed=3, certify=0.1)
    mixture = [0.2, 0.5, 0.3]
    before, found = policy.certainty(mixture), gains(policy, mixture)
    assert found.max() > 0.0
    for i in range(3):
        known = policy._clone()
        known.tell([i] * (3000 * data[str(i)].size), np.tile(data[str(i)], 3000))
        after = known.certainty(mixture)
        fell = (before.rival - after.rival, after.lower - before.lower)
        # A set of 3,000 times the rewards is not yet a point: a little is left of it, 1/√3000 of what there was.
        left = 0.05 * (before.regret + 1e-12)
        assert max(fell[0], 0.0) + max(fell[1], 0.0) <= found[i] + left


@pytest.mark.slow
def test_on_coins_pulls_come_near_the_shares_of_the_information_bound() -> None:
    """Quadratic: coin .7 alone is best, and must be told apart from .5, where each reward of both says as much."""
    p, pulls = (0.2, 0.5, 0.7), np.zeros(3)
    for seed in range(8):
        policy, rng = (
            pmb.Track(pmb.Quadratic(0.5), n_arms=3, support=pmb.Binary(), certify=0.95),
            np.random.default_rng(seed),
        )
        while not policy.done("1%"):
            arm = policy.ask()
            policy.tell(arm, float(rng.random() < p[arm]))
        pulls += policy.pulls
    share = np.linspace(0.01, 0.99, 99)  # of the second arm among both, and the chance where both meet
    meet = share * p[1] + (1 - share) * p[2]
    worth = [s * kl(p[1], x) + (1 - s) * kl(p[2], x) for s, x in zip(share, meet, strict=True)]
    assert pulls[1] / pulls[1:].sum() == pytest.approx(share[np.argmax(worth)], abs=0.08)
    assert pulls[0] <= 0.15 * pulls.sum() and pulls.sum() <= 8 * 450


def test_certifying_pulls_go_in_turn_to_the_largest_gain_for_each_reward_and_to_the_fewest() -> None:
    policy = pmb.Track(GINI, n_arms=3, support=pmb.Interval(0, 1), certify=0.3)
    rng, distribution = np.random.default_rng(0), SUPPORTS["interval"][1]
    seen = 0
    for _ in range(300):
        before = int(policy._memory.certify_pulls.sum())
        arm = policy.ask()
        memory = policy._memory
        if int(memory.certify_pulls.sum()) > before:
            n = np.maximum(memory.pulls - (np.arange(3) == arm), memory.n_rewards).astype(float)
            worth = memory.certify_gain / n**1.5 if before % 2 == 0 else -n
            assert worth[arm] >= worth.max() - 1e-12 * abs(worth.max())
            seen += 1
        policy.tell(arm, distribution(rng, arm))
    assert seen >= 85


def test_with_late_rewards_certifying_pulls_still_spread() -> None:
    policy, _ = taught(GINI, "interval", 3, 60, certify=0.5)
    asked = policy.ask(400)  # nothing is told meanwhile
    assert (np.bincount(asked, minlength=3) >= 20).all()


# ---- what they are for -----------------------------------------------------------------------------------
@pytest.mark.parametrize("cls", KINDS)
def test_a_regret_is_certain_sooner_where_an_arm_is_left_out(cls: Any) -> None:
    shapes = [(2, 8), (5, 5), (8, 2)]
    found = []
    for share in (0.0, 0.1):
        rng = np.random.default_rng(1)
        policy = cls(GINI, n_arms=3, support=pmb.Interval(0, 1), certify=share, estimates="binned:4096")
        for _ in range(6000):
            arm = policy.ask()
            policy.tell(arm, float(rng.beta(*shapes[arm])))
        found.append(policy.certainty().regret)
    assert found[1] < 0.8 * found[0]


# ---- state and words -------------------------------------------------------------------------------------
@pytest.mark.parametrize("cls", KINDS)
def test_a_loaded_policy_goes_on_certifying_as_before(cls: Any, tmp_path: Path) -> None:
    policy = cls(GINI, n_arms=3, support=pmb.Interval(0, 1), certify=0.25)
    played(policy, "interval", 97)
    policy.save(tmp_path / "p")
    again = pmb.load(tmp_path / "p")
    assert played(policy, "interval", 60, seed=1) == played(again, "interval", 60, seed=1)
    assert policy.pulls.tolist() == again.pulls.tolist()


def test_merging_adds_up_the_pulls_for_certifying() -> None:
    here, there, plain = (
        pmb.Track(GINI, n_arms=3, support=pmb.Interval(0, 1), certify=share) for share in (0.2, 0.2, 0.0)
    )
    for policy in (here, there, plain):
        played(policy, "interval", 100)
    here.merge(there)
    assert int(here._memory.certify_pulls.sum()) == 40
    here.merge(plain)  # it has none
    assert int(here._memory.certify_pulls.sum()) == 40
    plain.merge(there)
    spent = played(here, "interval", 100, seed=5)
    assert spent[-1] == 80  # of 400 pulls: what the plain one did not spend is made up for


def test_simulate_plays_the_same_pulls_for_certifying() -> None:
    bandit = pmb.Bandit.bernoulli([0.2, 0.5, 0.7])
    run = pmb.simulate("quadratic(0.5)", bandit, [pmb.Vet(certify=0.1), pmb.Vet()], 2000, 4, seed=3, progress=False)
    assert "certify" in repr(run.spec) and run.difference(*run.policies).mean > 0.0  # it costs regret


def test_explain_says_that_a_pull_is_for_certifying() -> None:
    policy = pmb.Track(GINI, n_arms=3, support=pmb.Interval(0, 1), certify=0.5)
    said = []
    rng, distribution = np.random.default_rng(0), SUPPORTS["interval"][1]
    for _ in range(40):
        said.append((policy.explain(), int(policy._memory.certify_pulls.sum())))
        arm = policy.ask()
        policy.tell(arm, distribution(rng, arm))
    counts = [n for _, n in said] + [int(policy._memory.certify_pulls.sum())]
    for (text, n), after in zip(said, counts[1:], strict=True):
        assert ("as 50 % of pulls" in text) == (after > n)


@pytest.mark.parametrize("bad", [1.0, -0.1, 2, "much"])
def test_a_share_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="certify"):
        pmb.Track(certify=bad)


def test_where_no_bound_holds_there_is_nothing_to_certify() -> None:
    with pytest.raises(ValueError, match=r"certify=0\.1 needs confidence sets") as caught:
        pmb.Track(pmb.VaR(0.9), n_arms=2, support=pmb.Real(1.0), certify=0.1)
    assert "Interval(lo, hi)" in one_sentence(caught.value)
