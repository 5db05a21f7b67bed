"""Simulations with segments: who comes, what policies without segments do, and the regret of the whole population."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import IgnoringSegments, PerSegment, Rewards, policy_seed
from pmbandits.simulation.segments import draw_arrivals

COINS = {"new": pmb.Bandit.bernoulli([0.4, 0.9], ["A", "B"]), "old": pmb.Bandit.bernoulli([0.7, 0.2], ["A", "B"])}
SOME = {"new": pmb.Bandit.bernoulli([0.4, 0.9], ["A", "B"]), "old": pmb.Bandit.bernoulli([0.7, 0.2], ["B", "C"])}
OFTEN = {"new": 0.6, "old": 0.4}
T, SEED, TRIAL = 300, 5, 2


def played(arms: Any, policy: Any, **options: Any) -> np.ndarray:
    """Pulls at the end of one trial, by column."""
    run = pmb.simulate("gini", arms, policy, T, [TRIAL], SEED, segments=OFTEN, n_jobs=1, **options)
    return np.asarray(run.column("pulls", run.policies[0])[1][0, -1])


def columns_of(arms: Any) -> pmb.Bandit:
    return pmb.oracle("gini", arms, segments=OFTEN).population.columns


def test_who_comes_depends_on_seed_trial_and_round_only() -> None:
    long = draw_arrivals([0.6, 0.4], 20_000, SEED, TRIAL)
    assert np.array_equal(long[:37], draw_arrivals([0.6, 0.4], 37, SEED, TRIAL))
    assert not np.array_equal(long, draw_arrivals([0.6, 0.4], 20_000, SEED, TRIAL + 1))
    assert np.bincount(long) / 20_000 == pytest.approx([0.6, 0.4], abs=0.015)
    assert np.bincount(draw_arrivals([0.2, 0.3, 0.5], 20_000, 0, 0)) / 20_000 == pytest.approx(
        [0.2, 0.3, 0.5], abs=0.015
    )


@pytest.mark.parametrize("kind", [pmb.Uniform, pmb.Vet])
@pytest.mark.parametrize("arms", [COINS, SOME])
def test_a_policy_with_segments_plays_as_by_hand(arms: dict[str, pmb.Bandit], kind: type[pmb.Policy]) -> None:
    names = tuple(dict.fromkeys(name for bandit in arms.values() for name in bandit.names))
    policy = kind(
        "gini",
        names=names,
        support=pmb.Binary(),
        seed=policy_seed(SEED, TRIAL),
        segments={name: list(bandit.names) for name, bandit in arms.items()},
    )
    rewards = Rewards(columns_of(arms), seed=SEED, trial=TRIAL)
    for segment in draw_arrivals([0.6, 0.4], T, SEED, TRIAL):
        name = list(arms)[segment]
        arm = policy.ask(segment=name)
        policy.tell(arm, rewards.next(f"{name}: {names[arm]}")[0], segment=name)
    columns = [policy.pulls[s, names.index(arm)] for s, b in enumerate(arms.values()) for arm in b.names]
    assert played(arms, kind()).tolist() == columns


def test_one_policy_for_each_segment_plays_as_by_hand() -> None:
    policies = [
        pmb.Vet("gini", names=bandit.names, support=pmb.Binary(), seed=policy_seed(SEED, TRIAL))
        for bandit in SOME.values()
    ]
    rewards, counts = Rewards(columns_of(SOME), seed=SEED, trial=TRIAL), np.zeros(4, dtype=int)
    for segment in draw_arrivals([0.6, 0.4], T, SEED, TRIAL):
        arm = policies[segment].ask()
        column = 2 * int(segment) + arm
        policies[segment].tell(arm, rewards.next(column)[0])
        counts[column] += 1
    assert played(SOME, PerSegment(pmb.Vet())).tolist() == counts.tolist()


def test_a_policy_that_ignores_segments_plays_as_by_hand() -> None:
    policy = pmb.Vet("gini", names=["A", "B"], support=pmb.Binary(), seed=policy_seed(SEED, TRIAL))
    rewards, counts = Rewards(columns_of(COINS), seed=SEED, trial=TRIAL), np.zeros(4, dtype=int)
    for segment in draw_arrivals([0.6, 0.4], T, SEED, TRIAL):
        arm = policy.ask()
        column = 2 * int(segment) + arm
        policy.tell(arm, rewards.next(column)[0])
        counts[column] += 1
    assert played(COINS, IgnoringSegments("vet")).tolist() == counts.tolist()


def test_regret_is_that_of_the_whole_population() -> None:
    policies = [pmb.Uniform(), PerSegment("vet"), IgnoringSegments("vet")]
    run = pmb.simulate("mean - gini", COINS, policies, T, 4, SEED, segments=OFTEN, checkpoints=[1, 40, T])
    best = pmb.oracle("mean - gini", COINS, segments=OFTEN)
    assert run.policies == ("Uniform", "Vet per segment", "Vet ignoring segments")
    assert run.best.value == pytest.approx(best.value) and run.population is not None
    assert run.population.segments.names == ("new", "old")
    arrivals = [np.bincount(draw_arrivals([0.6, 0.4], T, SEED, trial), minlength=2) for trial in range(4)]
    for policy in run.policies:
        _, regret = run.regret(policy)
        _, pulls = run.column("pulls", policy)
        for trial in range(4):
            table = pulls[trial].reshape(-1, 2, 2)
            assert table[-1].sum(axis=1).tolist() == arrivals[trial].tolist()  # the same people for all policies
            for row, found in zip(table, regret[trial], strict=True):
                total = row.sum(axis=1, keepdims=True)
                shares = np.where(total > 0, row / np.maximum(total, 1), 0.5)  # nobody of a segment yet: even
                value = pmb.utility("mean - gini", COINS, shares, segments=OFTEN)
                assert found == pytest.approx(best.value - value, abs=1e-12) and found > -1e-9


@pytest.mark.parametrize("options", [{"delay": 7}, {"batch": 10}, {"delay": st.poisson(20), "batch": 5}])
def test_late_rewards_do_not_change_who_comes(options: dict[str, Any]) -> None:
    for policy in (pmb.Uniform(), PerSegment("vet"), IgnoringSegments("vet")):
        pulls = played(COINS, policy, **options)
        arrivals = np.bincount(draw_arrivals([0.6, 0.4], T, SEED, TRIAL))
        assert pulls.reshape(2, 2).sum(axis=1).tolist() == arrivals.tolist()
    assert played(COINS, PerSegment("vet"), **options).tolist() != played(COINS, PerSegment("vet")).tolist()


def test_rewards_that_are_drawn_ahead_belong_to_who_comes() -> None:
    arms = {name: pmb.Bandit([st.triang(0.5), st.triang(c)], ["A", "B"]) for name, c in (("new", 0.1), ("old", 0.9))}
    run = pmb.simulate("mean", arms, IgnoringSegments("uniform"), 5000, 1, SEED, segments=OFTEN, checkpoints=1)
    assert run.column("pulls", run.policies[0])[1][0, -1].sum() == 5000  # more than a block of each


def test_a_run_goes_on_and_is_read_again(tmp_path: Path) -> None:
    policies = [pmb.Uniform(), PerSegment("vet")]

    def play(trials: int, out: Path, **options: Any) -> pmb.Run:
        return pmb.simulate("gini", SOME, policies, T, trials, SEED, segments=OFTEN, out=out, **options)

    play(2, tmp_path / "a")
    again, whole = play(5, tmp_path / "a"), play(5, tmp_path / "b", n_jobs=2)
    loaded = pmb.Run.load(tmp_path / "a" / "run.parquet")
    for policy in whole.policies:
        assert np.array_equal(again.regret(policy)[1], whole.regret(policy)[1])
        assert np.array_equal(loaded.regret(policy)[1], whole.regret(policy)[1])
    assert loaded.population is not None and loaded.population.segments.arms == ("A", "B", "C")
    scored = loaded.rescore("mean")
    assert scored.best.value == pytest.approx(pmb.oracle("mean", SOME, segments=OFTEN).value)
    assert np.array_equal(scored.column("pulls", "Uniform")[1], whole.column("pulls", "Uniform")[1])
    other = pmb.simulate("mean", SOME, pmb.Uniform(), T, 5, SEED, segments=OFTEN)
    assert scored.regret("Uniform")[1] == pytest.approx(other.regret("Uniform")[1], abs=1e-12)
    with pytest.raises(ValueError, match="holds a run of another specification"):
        pmb.simulate("gini", SOME, policies, T, 2, SEED, segments={"new": 0.5, "old": 0.5}, out=tmp_path / "a")
    for asked in (whole.decomposition, whole.regret_parts):
        with pytest.raises(ValueError, match="people come from segments"):
            asked("Uniform")


def test_several_metrics_make_a_study() -> None:
    study = pmb.simulate(["gini", "mean"], COINS, "uniform", 50, 2, segments=OFTEN)
    assert study.metrics == ("gini", "mean") and "Uniform" in str(study.summary())


@pytest.mark.parametrize(
    ("arms", "policy", "options", "words"),
    [
        (COINS, "cirt", {}, "CIRT has no rule for segments; take Vet"),
        (COINS, lambda n_arms: None, {}, "plain Python, which cannot be played with segments"),
        (SOME, IgnoringSegments("vet"), {}, "needs all arms in all segments"),
        (COINS, PerSegment("vet"), {"shares": "A <= 30%"}, "cannot keep limits"),
        (COINS, "uniform", {"schedule": [(5, "pause", "new: A")]}, "no arms can come and go"),
        (COINS, "uniform", {"segments": {"new": 1.0}}, "the segment 'old' has no frequency"),
        (COINS["new"], PerSegment("vet"), {"segments": None}, "is for people of several segments"),
        (COINS["new"], "uniform", {}, "give a bandit for each"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_sentence(arms: Any, policy: Any, options: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        pmb.simulate("gini", arms, policy, 50, 2, **{"segments": OFTEN, **options})
