"""Studies: several problems and metrics as one, beside runs that are played one by one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import CostEstimate, JournalWarning, workers

PROBLEMS = {
    "coins": pmb.Bandit.bernoulli([0.4, 0.9]),
    "betas": pmb.Bandit([st.beta(2, 5), st.beta(5, 2), st.beta(3, 3)], names=["low", "high", "mid"]),
}
METRICS = {"spread": "gini", "average": pmb.Mean()}
GIVEN: dict[str, Any] = {"policies": ["track", "uniform"], "horizon": 60, "trials": 3, "seed": 4, "n_jobs": 1}


@pytest.fixture(scope="module")
def study() -> pmb.Study:
    found: pmb.Study = pmb.simulate(METRICS, PROBLEMS, **GIVEN)
    return found


def test_every_run_is_the_one_that_is_played_alone(study: pmb.Study) -> None:
    assert list(study) == [(p, m) for p in PROBLEMS for m in METRICS] and len(study) == 4
    assert (study.problems, study.metrics, study.policies) == (
        ("coins", "betas"),
        ("spread", "average"),
        ("Track", "Uniform"),
    )
    for (problem, metric), run in study.runs.items():
        assert run.equals(pmb.simulate(METRICS[metric], PROBLEMS[problem], **GIVEN))


def test_one_table_names_problem_and_metric(study: pmb.Study) -> None:
    frame = study.to_pandas()
    assert list(frame.columns[:3]) == ["problem", "metric", "policy"]
    mine = frame[(frame["problem"] == "betas") & (frame["metric"] == "average")]
    assert mine["regret"].tolist() == study["betas", "average"].to_pandas()["regret"].tolist()
    assert mine["pulls_low"].notna().all() and mine["pulls_arm 0"].isna().all()
    assert study.to_arrow().num_rows == sum(run.to_arrow().num_rows for run in study.runs.values())
    pytest.importorskip("polars")
    assert study.to_polars().height == len(frame)


def test_a_data_set_has_the_dimensions_of_the_study(study: pmb.Study) -> None:
    pytest.importorskip("xarray")
    found = study.to_xarray()
    assert {"problem", "metric", "policy", "trial", "t", "arm"} <= set(found.dims)


def test_the_summary_has_chosen_columns_and_no_times_in_latex(study: pmb.Study) -> None:
    summary = study.summary()
    assert [(r["problem"], r["metric"], r["policy"]) for r in summary.rows][:2] == [
        ("coins", "spread", "Track"), ("coins", "spread", "Uniform"),
    ]  # fmt: skip
    text = summary.latex(columns=["problem", "policy", "mean regret"])
    assert text.count("&") == 2 * (1 + len(summary.rows)) and "s/trial" not in summary.latex()
    assert summary.markdown(columns=["metric", "median"]).splitlines()[2] == "| metric | median |"
    with pytest.raises(ValueError, match="mean regret"):
        summary.latex(columns=["meen regret"])


def test_small_pictures_for_problems_and_metrics(study: pmb.Study, tmp_path: Path) -> None:
    axes = study.plot(policies=["Track"], path=tmp_path / "study.png")
    assert axes.shape == (2, 2) and (tmp_path / "study.png").stat().st_size > 1000
    assert "betas: average" in axes[1, 1].get_title() + axes[1, 1].get_title(loc="left")
    plt.close("all")


def test_saved_and_loaded_it_is_the_same(study: pmb.Study, tmp_path: Path) -> None:
    study.save(tmp_path)
    again = pmb.Study.load(tmp_path)
    assert list(again) == list(study) and all(again[key].equals(study[key]) for key in study)
    with pytest.raises(FileNotFoundError, match=r"study\.json"):
        pmb.Study.load(tmp_path / "nowhere")
    (tmp_path / "study.json").write_text('{"run-0.parquet": ["one"]}')
    with pytest.raises(ValueError, match="not the list of a study"):
        pmb.Study.load(tmp_path)


def test_stopped_it_goes_on_as_a_whole(study: pmb.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = workers.play_trials_of_task, []

    def perform(task: workers.Task) -> Any:
        calls.append(task.number)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(task)

    with monkeypatch.context() as patch:
        patch.setattr(workers, "play_trials_of_task", perform)
        with pytest.raises(KeyboardInterrupt):
            pmb.simulate(METRICS, PROBLEMS, **GIVEN, out=tmp_path)
    before = len(calls)
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("error", JournalWarning)
        patch.setattr(workers, "play_trials_of_task", lambda task: (calls.append(task.number), real(task))[1])
        again = pmb.simulate(METRICS, PROBLEMS, **GIVEN, out=tmp_path)
    assert 0 < len(calls) - before < 24
    assert all(again[key].equals(study[key]) for key in study)
    assert all(pmb.Study.load(tmp_path)[key].equals(study[key]) for key in study)
    with pytest.raises(ValueError, match="another specification"):
        pmb.simulate(METRICS, {"coins": PROBLEMS["coins"]}, **GIVEN, out=tmp_path)


def test_a_dry_run_says_what_it_costs_and_plays_nothing(tmp_path: Path) -> None:
    found = pmb.simulate(["gini"], PROBLEMS, ["uniform"], 1e3, trials=50, out=tmp_path / "no", dry_run=True)
    assert isinstance(found, CostEstimate) and [row["problem"] for row in found.rows] == ["coins", "betas"]
    assert all(row["rounds"] == 50_000 for row in found.rows) and 0.0 < found.seconds < 1e3
    assert "seconds" in str(found) and not (tmp_path / "no").exists()
    assert "problem" not in pmb.simulate("gini", PROBLEMS["coins"], ["uniform"], 100, trials=2, dry_run=True).rows[0]


def test_mistakes_name_the_problem_or_the_argument() -> None:
    with pytest.raises(ValueError, match=r"problem 'betas', metric 'gini': .*UCB1|problem 'betas'"):
        pmb.simulate(["gini"], PROBLEMS, [pmb.MCVTS(alpha=0.5)], 20, trials=1)
    with pytest.raises(ValueError, match="given twice"):
        pmb.simulate(["gini", "gini"], PROBLEMS, "uniform", 20)
    with pytest.raises(TypeError, match=r"no argument 'random_state'. Did you mean 'seed'"):
        pmb.simulate("gini", PROBLEMS["coins"], "uniform", 20, random_state=3)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="give a seed"):
        pmb.simulate("gini", PROBLEMS["coins"], "uniform", 20, seed=None, out="nowhere")
    one, two = (pmb.simulate("gini", PROBLEMS["coins"], "uniform", 20, trials=1, seed=None) for _ in range(2))
    assert one.seed != two.seed and np.isfinite(one.best.value)
