"""What a simulation leaves: numbers as numpy has them, files that come back whole, tables and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats as st
from matplotlib.axes import Axes

import pmbandits as pmb
from pmbandits._intervals import mean_interval
from pmbandits.simulation import Difference, Summary
from pmbandits.simulation import files as run_files
from tests.helpers import one_sentence

GINI = pmb.GiniDeviation()
BANDIT = pmb.Bandit.bernoulli([0.4, 0.9], names=["slow", "fast"])
TRIALS = 7


@pytest.fixture(scope="module")
def run() -> pmb.Run:
    policies = [pmb.UCB1(), pmb.Uniform(), pmb.CIRT(epsilon=0.25)]
    return pmb.simulate(GINI, BANDIT, policies, 400, trials=TRIALS, seed=1, checkpoints=[10, 100, 250], n_jobs=1)


@pytest.fixture(scope="module")
def several() -> pmb.Run:
    """PMUCB plays each horizon as a run of its own, Uniform one run to the longest."""
    policies = [pmb.PMUCB(horizon=1000, epsilon=0.25), pmb.Uniform()]
    return pmb.simulate(GINI, BANDIT, policies, [100, 1000, 300], trials=4, n_jobs=1, checkpoints=6)


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def rows_of(run: pmb.Run, policy: str, t: int, horizon: int | None = None) -> list[dict[str, Any]]:
    """Rows of the table, found the slow way."""
    rows = run.to_arrow().to_pylist()
    return [r for r in rows if r["policy"] == policy and r["t"] == t and horizon in (None, r["horizon"])]


# ---- the table -------------------------------------------------------------------------------------------
def test_one_row_for_each_policy_trial_and_checkpoint(run: pmb.Run) -> None:
    frame = run.to_pandas()
    arms = [f"{name}_{arm}" for name in ("pulls", "mixture") for arm in BANDIT.names]
    assert list(frame.columns) == ["policy", "horizon", "trial", "t", "regret", "utility", "arm_regret", *arms]
    assert (frame[arms[: BANDIT.n_arms]].sum(axis=1) == frame["t"]).all()
    keys = list(zip(frame["policy"], frame["trial"], frame["t"], strict=True))
    times = (10, 100, 250, 400)  # the end is always one
    assert keys == [(p, k, t) for p in ("UCB1", "Uniform", "CIRT") for k in range(TRIALS) for t in times]
    assert (frame["horizon"] == 400).all()


def test_regret_is_that_of_the_shares_of_pulls(run: pmb.Run) -> None:
    best = pmb.oracle(GINI, BANDIT)
    for row in run.to_arrow().to_pylist():
        pulls = np.array(row["pulls"])
        assert pulls.sum() == row["t"]
        utility = pmb.utility(GINI, BANDIT, pulls / row["t"])
        assert row["utility"] == pytest.approx(utility, abs=1e-12)
        assert row["regret"] == best.value - row["utility"]
        assert sum(row["mixture"]) == pytest.approx(1.0, abs=1e-9)
    found = run.best
    assert isinstance(found, pmb.OracleResult) and found.weights.tolist() == best.weights.tolist()
    assert (found.value, found.gap, found.certified, found.names) == (best.value, best.gap, best.certified, best.names)
    assert (found.best_arm, found.best_arm_value) == (best.best_arm, pytest.approx(best.best_arm_value, abs=1e-12))


def test_arm_regret_is_that_of_each_pull_to_the_best_arm(run: pmb.Run) -> None:
    alone = np.array([pmb.utility(GINI, BANDIT, row) for row in np.eye(BANDIT.n_arms)])
    assert run.arm_utilities == pytest.approx(alone, abs=1e-9)
    for label in run.policies:
        _, pulls = run.column("pulls", label)
        slow = sum(pulls[:, :, i] * (alone.max() - alone[i]) for i in range(BANDIT.n_arms))
        assert run.column("arm_regret", label)[1] == pytest.approx(slow, abs=1e-9)


def test_another_metric_scores_the_same_pulls(run: pmb.Run) -> None:
    again = run.rescore("mean")
    direct = pmb.oracle("mean", BANDIT)
    assert again.metric == pmb.Mean() and again.best.value == direct.value
    for row, before in zip(again.to_arrow().to_pylist(), run.to_arrow().to_pylist(), strict=True):
        assert row["pulls"] == before["pulls"]
        assert row["utility"] == pytest.approx(
            pmb.utility("mean", BANDIT, np.array(row["pulls"]) / row["t"]), abs=1e-12
        )
        assert row["regret"] == pytest.approx(direct.value - row["utility"], abs=1e-12)
    assert run.rescore(GINI).to_arrow()["regret"].to_pylist() == run.to_arrow()["regret"].to_pylist()


def test_the_facts_of_a_run_are_attributes(run: pmb.Run) -> None:
    assert (run.names, run.n_arms, run.horizon, run.shares) == (BANDIT.names, BANDIT.n_arms, 400, None)
    assert run.library == pmb.__version__ and run.periods == []


def test_a_trial_alone_is_the_same_as_among_others(run: pmb.Run) -> None:
    policies = [pmb.UCB1(), pmb.Uniform(), pmb.CIRT(epsilon=0.25)]
    alone = pmb.simulate(GINI, BANDIT, policies, 400, trials=[5], seed=1, checkpoints=[10, 100, 250], n_jobs=1)
    assert alone.trials == (5,)
    for policy in run.policies:
        for name in ("regret", "utility", "pulls", "mixture"):
            assert (alone.column(name, policy)[1][0] == run.column(name, policy)[1][5]).all()


def test_phases_that_have_ended_are_kept() -> None:
    cirt = pmb.simulate(GINI, BANDIT, pmb.CIRT(epsilon=0.25), 3000, trials=2, n_jobs=1, checkpoints=20)
    rewards = pmb.simulation.Rewards(BANDIT, seed=0, trial=1)
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=0.25)
    for _ in range(3000):
        arm = policy.ask()
        policy.tell(arm, float(rewards.next(arm)[0]))
    rows = [row for row in cirt.to_arrow().to_pylist() if row["trial"] == 1]
    assert rows[-1]["pulls"] == policy.pulls.tolist()
    assert rows[-1]["phase_ends"] == list(policy.phase_ends)
    assert all(row["phase_ends"] == [x for x in policy.phase_ends if x <= row["t"]] for row in rows)
    assert len(policy.phase_ends) > 0


# ---- reading ---------------------------------------------------------------------------------------------
def test_columns_are_trials_by_checkpoints(run: pmb.Run) -> None:
    for policy in run.policies:
        for name in ("regret", "utility", "pulls", "mixture"):
            t, values = run.column(name, policy)
            assert t.tolist() == [10, 100, 250, 400]
            assert values.shape == ((TRIALS, 4, 2) if name in ("pulls", "mixture") else (TRIALS, 4))
            for c, when in enumerate(t):
                assert values[:, c].tolist() == [row[name] for row in rows_of(run, policy, when)]
        assert (run.regret(policy)[1] == run.column("regret", policy)[1]).all()


def test_several_horizons_are_runs_of_their_own(several: pmb.Run) -> None:
    assert several.horizons("PMUCB") == (100, 300, 1000)
    assert several.horizons("Uniform") == (1000,)
    for horizon in (100, 300, 1000):
        t, regret = several.regret("PMUCB", horizon)
        assert t[-1] == horizon
        assert {h for h in (100, 300, 1000) if h <= horizon} <= set(t.tolist())
        assert regret[:, -1].tolist() == [row["regret"] for row in rows_of(several, "PMUCB", horizon, horizon)]
        recipe = pmb.PMUCB(horizon=horizon, epsilon=0.25)
        alone = pmb.simulate(GINI, BANDIT, recipe, horizon, trials=4, n_jobs=1, checkpoints=[horizon])
        assert (alone.column("pulls", "PMUCB")[1][:, -1] == several.column("pulls", "PMUCB", horizon)[1][:, -1]).all()
    assert (several.regret("PMUCB")[1] == several.regret("PMUCB", 1000)[1]).all()  # the longest
    assert several.seconds("PMUCB", 300).shape == (4,)


def test_wall_times_are_those_of_each_trial(run: pmb.Run) -> None:
    for policy in run.policies:
        seconds = run.seconds(policy)
        assert seconds.shape == (TRIALS,)
        assert (seconds > 0.0).all()


def test_what_is_not_there_is_said(run: pmb.Run, several: pmb.Run) -> None:
    with pytest.raises(ValueError, match="Unifrom"):
        run.regret("Unifrom")
    with pytest.raises(ValueError, match="policy"):
        run.horizons("nobody")
    with pytest.raises(ValueError, match="column"):
        run.column("reward", "UCB1")
    with pytest.raises(ValueError, match=r"7 rounds, .* 100, 300, 1000"):
        several.regret("PMUCB", 7)
    with pytest.raises(ValueError, match="no common checkpoint 11"):
        run.difference("UCB1", "CIRT", 11)
    with pytest.raises(ValueError, match="checkpoint at 11"):
        run.summary(t=11)


@pytest.mark.parametrize(("policy", "horizon"), [("PMUCB", 7), ("nobody", 100)])
def test_wall_times_of_what_is_not_there_are_refused_with_a_sentence(
    several: pmb.Run, policy: str, horizon: int
) -> None:
    with pytest.raises(ValueError) as caught:
        several.seconds(policy, horizon)
    one_sentence(caught.value)


# ---- the summary -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("t", [None, 100])
def test_the_summary_has_the_numbers_that_numpy_has(run: pmb.Run, t: int | None) -> None:
    summary = run.summary(t)
    assert isinstance(summary, Summary)
    assert [row["policy"] for row in summary.rows] == list(run.policies)
    for row in summary.rows:
        mine = rows_of(run, row["policy"], t or 400)
        regret = np.array([r["regret"] for r in mine])
        assert (row["t"], row["horizon"], row["trials"]) == (t or 400, 400, TRIALS)
        assert row["regret"] == pytest.approx(regret.mean(), rel=1e-12)
        assert row["standard_error"] == pytest.approx(st.sem(regret), rel=1e-9, abs=1e-15)
        for name, q in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
            assert row[name] == pytest.approx(np.quantile(regret, q), rel=1e-12)
        assert row["pulls"] == pytest.approx(np.mean([r["pulls"] for r in mine], axis=0) / (t or 400), rel=1e-12)
        assert row["mixture"] == pytest.approx(np.mean([r["mixture"] for r in mine], axis=0), rel=1e-12)
        assert row["seconds"] == run.seconds(row["policy"]).mean()


def test_the_summary_compares_all_with_the_best(run: pmb.Run) -> None:
    summary = run.summary()
    leader = min(summary.rows, key=lambda row: row["regret"])["policy"]
    others = [policy for policy in run.policies if policy != leader]
    pairs = len(run.policies) * (len(run.policies) - 1) // 2  # the leader was picked from the same trials
    assert summary.differences == [run.difference(policy, leader, level=1 - 0.05 / pairs) for policy in others]
    assert all(d.low < run.difference(d.policy, leader).low for d in summary.differences if d.standard_error > 0.0)
    assert all(d.mean >= 0.0 for d in summary.differences)
    single = pmb.simulate(GINI, BANDIT, pmb.Uniform(), 50, trials=2, n_jobs=1).summary()
    assert single.differences == []


def test_a_difference_is_paired_by_trial(run: pmb.Run) -> None:
    for t in (None, 10, 250):
        at = t or 400
        mine, theirs = (np.array([r["regret"] for r in rows_of(run, p, at)]) for p in ("CIRT", "UCB1"))
        found = run.difference("CIRT", "UCB1", t)
        assert isinstance(found, Difference)
        assert (found.policy, found.other, found.t) == ("CIRT", "UCB1", at)
        assert found.mean == pytest.approx(np.mean(mine - theirs), rel=1e-12)
        assert found.standard_error == pytest.approx(st.sem(mine - theirs), rel=1e-9)
        assert found.better == np.mean(mine < theirs)
        assert (found.low, found.high) == pytest.approx(
            tuple(end[0] for end in mean_interval((mine - theirs)[:, None])[1:])
        )
        back = run.difference("UCB1", "CIRT", t)
        assert back.mean == -found.mean
        assert (back.low, back.high) == pytest.approx((-found.high, -found.low))
        said = {
            "less regret": found.high < 0.0,
            "more regret": found.low > 0.0,
            "cannot tell": found.low <= 0.0 <= found.high,
        }
        assert said[found.verdict]
    itself = run.difference("CIRT", "CIRT")
    assert (itself.mean, itself.standard_error, itself.better) == (0.0, 0.0, 0.0)
    text = repr(run.difference("CIRT", "UCB1"))
    assert text.startswith("Difference(CIRT − UCB1 after 400 rounds: ")
    assert "% of the trials" in text


def test_the_summary_of_several_horizons_has_a_row_for_each(several: pmb.Run) -> None:
    rows = several.summary().rows
    assert [(r["policy"], r["horizon"], r["t"]) for r in rows] == [
        ("PMUCB", 100, 100), ("PMUCB", 300, 300), ("PMUCB", 1000, 1000), ("Uniform", 1000, 1000),
    ]  # fmt: skip
    assert {d.t for d in several.summary().differences} == {1000}
    early = several.summary(t=300).rows
    assert [(r["policy"], r["horizon"], r["t"]) for r in early] == [
        ("PMUCB", 300, 300), ("PMUCB", 1000, 300), ("Uniform", 1000, 300),
    ]  # fmt: skip
    for row in early:
        mine = [r["regret"] for r in rows_of(several, row["policy"], 300, row["horizon"])]
        assert row["regret"] == pytest.approx(np.mean(mine), rel=1e-12)


def test_a_difference_at_a_horizon_is_of_the_run_that_was_made_for_it(several: pmb.Run) -> None:
    own = several.regret("PMUCB", 100)[1][:, -1]
    t, uniform = several.regret("Uniform")
    gap = own - uniform[:, t.tolist().index(100)]
    assert several.difference("PMUCB", "Uniform", 100).mean == pytest.approx(gap.mean(), rel=1e-9)


def test_the_summary_compares_each_pair_once(several: pmb.Run) -> None:
    pairs = [(d.policy, d.other) for d in several.summary(t=100).differences]
    assert len(pairs) == len(set(pairs))


def test_one_trial_has_no_standard_error() -> None:
    run = pmb.simulate(GINI, BANDIT, [pmb.Uniform(), pmb.UCB1()], 50, trials=1, n_jobs=1)
    summary = run.summary()
    assert all(np.isnan(row["standard_error"]) for row in summary.rows)
    assert all(row["q05"] == row["q50"] == row["q95"] == row["regret"] for row in summary.rows)
    assert np.isnan(summary.differences[0].standard_error)
    assert np.isnan(summary.rows[0]["low"]) and summary.differences[0].verdict == "cannot tell"
    assert "nan" not in str(summary) and "no intervals" in str(summary)


def test_the_summary_can_be_taken_elsewhere(run: pmb.Run) -> None:
    summary = run.summary()
    frames = summary.to_pandas(), summary.to_polars()
    for frame in frames:
        assert list(frame["policy"]) == list(run.policies)
        assert list(frame["regret"]) == [row["regret"] for row in summary.rows]
    assert frames[1]["pulls"].to_list() == [row["pulls"] for row in summary.rows]
    lines = summary.markdown().splitlines()
    assert lines[2].count("|") == lines[3].count("|") == lines[4].count("|") == 12
    latex = summary.latex(label="tab:run")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert r"\label{tab:run}" in latex and r"\label{tab:run-pairs}" in latex and r"95 \% interval" in latex
    assert run.to_polars().columns == list(run.to_pandas().columns)


def test_the_summary_prints_as_a_table(run: pmb.Run, tmp_path: Path) -> None:
    text = str(run.summary())
    assert repr(run.summary()) == text
    assert "GiniDeviation()" in text
    assert "best utility 0.25 (slow 80.0 %, fast 20.0 %)" in text
    for word in (*run.policies, "400", "95 % interval", "median", "less regret in"):
        assert word in text
    assert "\x1b" not in text
    run.save(tmp_path / "run.parquet")
    loaded = pmb.Run.load(tmp_path / "run.parquet").summary()
    assert all(np.isnan(row["seconds"]) for row in loaded.rows)
    assert "–" in str(loaded)


# ---- what it says of itself ------------------------------------------------------------------------------
def test_repr_and_properties(run: pmb.Run, several: pmb.Run) -> None:
    assert repr(run) == "Run(UCB1, Uniform, CIRT; 7 trials, up to 400 rounds, seed 1)"
    assert repr(several) == "Run(PMUCB, Uniform; 4 trials, up to 1,000 rounds, seed 0)"
    assert run.policies == ("UCB1", "Uniform", "CIRT")
    assert run.trials == tuple(range(TRIALS))
    assert run.seed == 1
    assert run.metric == GINI
    assert repr(run.bandit) == repr(BANDIT)
    assert run.bandit.to_dict() == BANDIT.to_dict()
    assert run.spec["checkpoints"] == [10, 100, 250]


def test_a_run_can_be_repeated_from_what_it_says(run: pmb.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run.parquet")
    loaded = pmb.Run.load(tmp_path / "run.parquet")
    policies = [pmb.UCB1(), pmb.Uniform(), pmb.CIRT(epsilon=0.25)]
    again = pmb.simulate(loaded.metric, loaded.bandit, policies, loaded.spec["horizons"], loaded.trials, loaded.seed,
                         checkpoints=loaded.spec["checkpoints"], n_jobs=1)  # fmt: skip
    assert again.equals(run)


class Rising(st.rv_continuous):
    def _cdf(self, x: Any) -> Any:
        return x * x

    def _ppf(self, u: Any) -> Any:
        return np.sqrt(u)


def test_objects_of_the_user_are_in_a_fresh_run_but_not_in_its_file(tmp_path: Path) -> None:
    own = pmb.Distortion.from_function(lambda u: u * (1.0 - u), name="hump", holder=(1.0, 1.0))
    arms = pmb.Bandit([Rising(a=0.0, b=1.0, name="rising")(), st.uniform(0, 1)])
    run = pmb.simulate(own, arms, pmb.Uniform(), 50, trials=2, n_jobs=1)
    run.save(tmp_path / "run.parquet")
    loaded = pmb.Run.load(tmp_path / "run.parquet")
    assert run.metric is own and run.bandit is arms and loaded.equals(run)
    assert np.allclose(run.decomposition("Uniform").regret, run.regret("Uniform")[1])
    scored = run.rescore("mean")
    assert scored.equals(loaded.rescore("mean", arms)) and scored.bandit is arms and scored.metric == pmb.Mean()
    for fact, read in (("hump", lambda: loaded.metric), ("rising", lambda: loaded.bandit)):
        with pytest.raises(ValueError, match=fact) as caught:
            read()
        assert "code is never stored" in one_sentence(caught.value)
    assert "hump" in str(run.summary()) and "hump" in str(loaded.summary())


def test_arms_that_are_equal_but_for_rounding_have_no_regret() -> None:
    """0.1 + 0.2 is not 0.3 in binary numbers, and utilities of equal arms differ as little."""
    arms = pmb.Bandit.bernoulli([0.1 + 0.2, 0.3, 0.2])
    run = pmb.simulate("mean", arms, pmb.Uniform(), 30, trials=2, n_jobs=1)
    assert run.arm_utilities[0] != run.arm_utilities[1]
    pulls, regret = run.column("pulls", "Uniform")[1], run.column("arm_regret", "Uniform")[1]
    assert np.allclose(regret, 0.1 * pulls[..., 2], rtol=1e-13)
    two = pmb.simulate("mean", pmb.Bandit.bernoulli([0.1 + 0.2, 0.3]), pmb.Uniform(), 30, trials=2, n_jobs=1)
    assert (two.column("arm_regret", "Uniform")[1] == 0.0).all()
    assert (two.wide_table()["arm_regret"].to_numpy() == 0.0).all()


def test_columns_that_are_one_in_the_table_are_there_once(run: pmb.Run) -> None:
    tables = run.summary().latex(columns=["policy", "low", "high"])
    assert tables.split(r"\end{tabular}")[0].count("interval") == 1


def labels(policies: Any, **options: Any) -> tuple[str, ...]:
    return pmb.simulate(GINI, BANDIT, policies, 60, trials=1, n_jobs=1, checkpoints=1, **options).policies


def test_policies_of_one_class_are_told_apart_by_what_differs() -> None:
    ucb = [pmb.PMUCB(horizon=60, epsilon=e, delta=d) for e, d in ((0.25, 0.1), (0.125, 0.1), (0.25, 0.1))]
    assert labels(ucb) == ("PMUCB(epsilon=0.25)", "PMUCB(epsilon=0.125)", "PMUCB(epsilon=0.25) #2")
    assert labels([pmb.Uniform(), pmb.Uniform(seed=3), pmb.UCB1()]) == ("Uniform(seed=0)", "Uniform(seed=3)", "UCB1")
    assert labels([pmb.UCB1(), pmb.UCB1(), pmb.UCB1()]) == ("UCB1", "UCB1 #2", "UCB1 #3")
    assert labels([pmb.SolitaryArm(arm=0), pmb.SolitaryArm(arm="fast")]) == (
        "SolitaryArm(arm=0)", "SolitaryArm(arm=fast)",
    )  # fmt: skip
    two = labels([pmb.CIRT(epsilon=0.25), pmb.CIRT(pmb.UpperCVaR(0.9), epsilon=0.25)])
    assert len(set(two)) == 2
    assert "UpperCVaR" in two[1]


def test_a_mapping_names_the_policies() -> None:
    named = {"mine": pmb.UCB1(), "équipartition": pmb.Uniform(), "mine too": pmb.UCB1()}
    run = pmb.simulate(GINI, BANDIT, named, 60, trials=2, n_jobs=1)
    assert run.policies == ("mine", "équipartition", "mine too")
    assert (run.regret("mine")[1] == run.regret("mine too")[1]).all()
    assert run.difference("mine", "équipartition").other == "équipartition"


def test_names_that_are_alike_as_text_are_refused() -> None:
    with pytest.raises(ValueError, match="1"):
        labels({1: pmb.UCB1(), "1": pmb.Uniform()})


class Narrow:
    kind = "band"

    def radius(self, n: Any) -> Any:
        return 0.5 / np.sqrt(n)


def test_a_confidence_set_of_ones_own_gives_the_same_run_every_time() -> None:
    one, two = (
        pmb.simulate(GINI, BANDIT, pmb.PMUCB(horizon=60, epsilon=0.25, confidence=own), 60, trials=1, n_jobs=1)
        for own in (Narrow(), Narrow())
    )
    assert one.regret("PMUCB")[1].tolist() == two.regret("PMUCB")[1].tolist()
    assert one.equals(two)


# ---- files -----------------------------------------------------------------------------------------------
def test_saved_and_loaded_it_is_the_same(run: pmb.Run, several: pmb.Run, tmp_path: Path) -> None:
    for one in (run, several):
        path = tmp_path / "new" / "folder" / "run.parquet"
        one.save(str(path))
        loaded = pmb.Run.load(str(path))
        assert loaded.equals(one)
        assert one.equals(loaded)
        assert loaded.provenance == one.provenance
        assert loaded.to_arrow().schema.metadata == one.to_arrow().schema.metadata
        assert loaded.to_arrow().equals(one.to_arrow())
        assert repr(loaded) == repr(one)
        assert np.isnan(loaded.seconds("Uniform")).all()
        assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_same_run_gives_the_same_bytes(run: pmb.Run, tmp_path: Path) -> None:
    policies = [pmb.UCB1(), pmb.Uniform(), pmb.CIRT(epsilon=0.25)]
    again = pmb.simulate(GINI, BANDIT, policies, 400, TRIALS, 1, checkpoints=[10, 100, 250], n_jobs=2)
    run.save(tmp_path / "one")
    again.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    other = pmb.simulate(GINI, BANDIT, policies, 400, TRIALS, 2, checkpoints=[10, 100, 250], n_jobs=1)
    assert not other.equals(run)
    assert not other.equals(again)


def test_a_loaded_run_is_saved_to_the_same_bytes(run: pmb.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "one")
    loaded = pmb.Run.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert loaded.to_arrow().equals(run.to_arrow(), check_metadata=True)


def test_the_file_is_plain_parquet_with_its_provenance(run: pmb.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    assert {f.name: f.type for f in table.schema} == {
        "policy": pa.string(), "horizon": pa.int64(), "trial": pa.int64(), "t": pa.int64(), "regret": pa.float64(),
        "utility": pa.float64(), "pulls": pa.list_(pa.int64(), 2), "mixture": pa.list_(pa.float64(), 2),
        "phase_ends": pa.list_(pa.int64()),
    }  # fmt: skip
    provenance = json.loads(table.schema.metadata[b"pmbandits"])
    assert set(provenance) == {"format", "schema", "library", "generator", "spec", "best"}
    assert provenance["format"] == "pmbandits-run"
    assert provenance["schema"] == 1
    assert provenance["library"] == pmb.__version__
    assert provenance["generator"] == "philox4x64-10"
    spec = provenance["spec"]
    assert spec["seed"] == 1
    assert spec["horizons"] == [400]
    assert spec["trials"] == list(range(TRIALS))
    assert spec["metric"] == GINI.to_dict()
    assert spec["bandit"] == BANDIT.to_dict()
    assert [p["policy"] for p in spec["policies"]] == ["ucb1", "uniform", "cirt"]
    assert spec["policies"][2]["options"]["epsilon"] == 0.25
    assert provenance["best"]["weights"] == pytest.approx([0.8, 0.2], abs=1e-9)
    assert json.loads(json.dumps(run.provenance)) == run.provenance


def test_a_write_that_fails_leaves_the_old_file(run: pmb.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(b"old")

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no space left")

    for module, name in ((os, "replace"), (pq, "write_table")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            with pytest.raises(OSError, match="no space"):
                run.save(path)
        assert [p.name for p in tmp_path.iterdir()] == ["run.parquet"]
        assert path.read_bytes() == b"old"


def rewritten(path: Path, run: pmb.Run, text: bytes | None) -> None:
    """A file with other provenance."""
    pq.write_table(run.to_arrow().replace_schema_metadata(None if text is None else {b"pmbandits": text}), path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.parquet", tmp_path):
        with pytest.raises(FileNotFoundError, match=path.name) as caught:
            pmb.Run.load(path)
        one_sentence(caught.value)


def test_a_newer_file_is_refused_with_a_sentence(run: pmb.Run, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    rewritten(path, run, json.dumps({**run.provenance, "schema": run_files.SCHEMA + 1, "library": "99.0"}).encode())
    with pytest.raises(ValueError, match="newer") as caught:
        pmb.Run.load(path)
    text = one_sentence(caught.value)
    assert path.name in text
    assert "99.0" in text
    assert "upgrade" in text


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a run", b"PAR1" * 100], ids=repr)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.parquet is not a run file") as caught:
        pmb.Run.load(path)
    one_sentence(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"{",
        b"\xff",
        b"{}",
        b'{"format": "pandas"}',
        b"[]",
        b"null",
        b"3",
        b'{"format": "pmbandits-run"}',
        b'{"format": "pmbandits-run", "schema": "x"}',
        b'{"format": "pmbandits-run", "schema": 1}',
    ],
    ids=repr,
)
def test_parquet_that_is_no_run_is_refused(run: pmb.Run, tmp_path: Path, text: bytes | None) -> None:
    path = tmp_path / "run.parquet"
    rewritten(path, run, text)
    with pytest.raises(ValueError, match="not a run file") as caught:
        pmb.Run.load(path)
    one_sentence(caught.value)


def test_a_file_that_was_cut_off_is_refused(run: pmb.Run, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    run.save(path)
    content = path.read_bytes()
    for size in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="damaged"):
            pmb.Run.load(path)


def test_no_flipped_bit_changes_what_is_loaded(run: pmb.Run, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    run.save(path)
    content = path.read_bytes()
    for place in range(4, len(content), 61):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        path.write_bytes(bytes(damaged))
        try:
            loaded = pmb.Run.load(path)
        except ValueError:
            continue
        assert loaded.equals(run), place


# ---- pictures --------------------------------------------------------------------------------------------
def named(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_a_picture_has_a_line_and_a_band_for_each_policy(run: pmb.Run) -> None:
    ax = run.plot()
    assert isinstance(ax, Axes)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert named(ax) == list(run.policies)
    assert len(ax.lines) == len(ax.collections) == 3
    for line, policy in zip(ax.lines, run.policies, strict=True):
        t, regret = run.regret(policy)
        mean = regret.mean(axis=0)
        shown = mean > 1e-15
        assert np.asarray(line.get_xdata()).tolist() == t.tolist()
        assert np.asarray(line.get_ydata())[shown].tolist() == mean[shown].tolist()
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == 3
    assert len({line.get_linestyle() for line in ax.lines}) == 3  # in grey, too
    assert "GiniDeviation()" in ax.get_title(loc="left") + ax.get_title()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rounds", "regret per round")


def test_a_picture_goes_where_it_is_told(run: pmb.Run, tmp_path: Path) -> None:
    _, mine = plt.subplots()
    assert run.plot(mine, title="My title") is mine
    assert "My title" in mine.get_title(loc="left") + mine.get_title()
    run.plot(path=tmp_path / "new" / "regret.png")
    assert (tmp_path / "new" / "regret.png").read_bytes().startswith(b"\x89PNG")
    run.plot(path=str(tmp_path / "regret.svg"))
    assert "<svg" in (tmp_path / "regret.svg").read_text()
    run.plot(path=tmp_path / "bare")
    assert (tmp_path / "bare.png").read_bytes().startswith(b"\x89PNG")
    assert pmb.plot_regret(run).get_xscale() == "log"


def test_several_horizons_are_points_with_error_bars(several: pmb.Run, tmp_path: Path) -> None:
    ax = several.plot(path=tmp_path / "regret.png")
    assert sorted(named(ax)) == ["PMUCB", "Uniform"]
    assert len(ax.containers) == 1
    points = ax.containers[0].lines[0]
    assert np.asarray(points.get_xdata()).tolist() == [100, 300, 1000]
    expected = [several.regret("PMUCB", h)[1][:, -1].mean() for h in (100, 300, 1000)]
    assert np.asarray(points.get_ydata()).tolist() == pytest.approx(expected)
    assert (tmp_path / "regret.png").stat().st_size > 1000


def test_one_trial_can_be_drawn(tmp_path: Path) -> None:
    policies = [pmb.PMUCB(horizon=100, epsilon=0.25), pmb.Uniform()]
    for horizon in (50, [50, 100]):
        run = pmb.simulate(GINI, BANDIT, policies, horizon, trials=1, n_jobs=1)
        assert sorted(named(run.plot(path=tmp_path / "regret.png"))) == ["PMUCB", "Uniform"]


def test_no_regret_at_all_can_be_drawn(tmp_path: Path) -> None:
    run = pmb.simulate(pmb.Mean(), BANDIT, pmb.SolitaryArm(arm="fast"), 100, trials=3, n_jobs=1)
    assert np.abs(run.regret("SolitaryArm")[1]).max() <= 1e-15
    ax = run.plot(path=tmp_path / "regret.png")
    assert named(ax) == ["SolitaryArm (regret 0)"] and "is 0" in ax.texts[0].get_text()


def test_a_policy_without_regret_beside_another_can_be_drawn(tmp_path: Path) -> None:
    both = pmb.simulate(pmb.Mean(), BANDIT, [pmb.SolitaryArm(arm="fast"), pmb.Uniform()], 100, trials=3, n_jobs=1)
    ax = both.plot(path=tmp_path / "both.svg")
    assert ax.get_yscale() == "log"
    assert named(ax) == ["SolitaryArm (regret 0)", "Uniform"]
    assert np.isnan(np.asarray(ax.lines[0].get_ydata(), dtype=float)).all()


def test_many_policies_are_told_apart(tmp_path: Path) -> None:
    policies = {f"policy {j}": pmb.UCB1(seed=j) for j in range(8)}
    run = pmb.simulate(GINI, BANDIT, policies, 100, trials=1, n_jobs=1, checkpoints=4)
    ax = run.plot(path=tmp_path / "regret.png")
    assert named(ax) == list(policies)


def test_drawing_leaves_the_style_alone(run: pmb.Run) -> None:
    before = dict(mpl.rcParams)
    run.plot()
    assert dict(mpl.rcParams) == before


# ---- files that somebody made ----------------------------------------------------------------------------
def forged(run: pmb.Run, path: Path, provenance: Any = None, **columns: Any) -> None:
    """A file with other columns or another description, and a checksum that fits."""
    table = run._table
    for name, values in columns.items():
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    text = json.dumps(provenance or run.provenance, sort_keys=True).encode()
    meta = {run_files.PROVENANCE_KEY: text, run_files.CHECKSUM_KEY: run_files.table_checksum(table, text)}
    pq.write_table(table.replace_schema_metadata(meta), path)


@pytest.mark.parametrize("name", ["pulls", "mixture", "t", "trial", "horizon", "policy", "regret"])
def test_a_file_with_results_that_cannot_be_is_refused_in_spite_of_its_checksum(
    run: pmb.Run, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "run.parquet"
    forged(run, path)
    assert pmb.Run.load(path).equals(run)
    values = run._table[name].to_pylist()
    strange = {"pulls": [[-5, 5]], "mixture": [[2.0, -1.0]], "policy": ["x"], "regret": [float("nan")]}
    arms = len(values[0]) if isinstance(values[0], list) else 0
    first = strange.get(name, [10**6])[0]
    values[3] = first[:1] * arms if arms else first
    forged(run, path, **{name: values})
    with pytest.raises(ValueError, match="damaged"):
        pmb.Run.load(path)


def test_a_description_that_is_none_is_refused(run: pmb.Run, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    for change in ({"spec": {}}, {"best": None}, {"spec": {**run.spec, "trials": [0, 1]}}, {"schema": True}):
        forged(run, path, {**run.provenance, **change})
        with pytest.raises(ValueError, match="damaged"):
            pmb.Run.load(path)
    spec = {**run.spec, "policies": [{**p, "label": "\x1b[2J"} for p in run.spec["policies"]]}
    forged(run, path, {**run.provenance, "spec": spec})
    with pytest.raises(ValueError, match="damaged"):
        pmb.Run.load(path)
