"""Studies: several problems and metrics as one, beside runs that are played one by one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import CostEstimate, JournalWarning, execute, workers
from tests.helpers import allow_interrupts, one_sentence

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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = study.to_xarray()
    assert list(found["arm"].values) == ["arm 0", "arm 1", "low", "high", "mid"]
    for name in ("regret", "utility", "arm_regret"):
        assert found[name].dims == ("problem", "metric", "policy", "trial", "t")
    assert found["pulls"].dims == found["mixture"].dims == ("problem", "metric", "policy", "trial", "t", "arm")
    frame = study.to_pandas()
    for row in frame.iloc[:: max(1, len(frame) // 40)].to_dict("records"):
        at = found.sel({name: row[name] for name in ("problem", "metric", "policy", "trial", "t")})
        assert float(at["regret"]) == row["regret"] and float(at["arm_regret"]) == row["arm_regret"]
        for arm in found["arm"].values:
            np.testing.assert_equal(float(at["pulls"].sel(arm=arm)), row[f"pulls_{arm}"])
    alone = study["betas", "spread"].to_xarray()
    mine = found["pulls"].sel(problem="betas", metric="spread", arm=["low", "high", "mid"])
    np.testing.assert_array_equal(mine.values, alone["pulls"].values)


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


def test_columns_are_given_by_their_heads_or_by_the_keys_of_rows(study: pmb.Study) -> None:
    summary = study.summary()
    assert summary.latex(columns=["policy", "regret", "q50"]) == summary.latex(
        columns=["policy", "mean regret", "median"]
    )
    row = summary.rows[0]
    _, regret = study["coins", "spread"].column("arm_regret", row["policy"])
    assert row["arm_regret"] == regret[:, -1].mean()
    assert f"{row['arm_regret']:.3g}" in summary.markdown(columns=["policy", "arm_regret"]).splitlines()[4]
    assert "arm regret" not in summary.latex()


def test_policies_are_compared_in_every_run(study: pmb.Study) -> None:
    found = study.difference("Track", "Uniform", level=0.99)
    assert list(found) == list(study)
    assert found["betas", "spread"] == study["betas", "spread"].difference("Track", "Uniform", level=0.99)


def test_a_run_that_does_not_exist_is_answered_with_those_that_do(study: pmb.Study) -> None:
    with pytest.raises(KeyError) as said:
        study["coin", "spread"]
    assert all(repr(name) in one_sentence(said.value) for name in ("coin", *PROBLEMS, *METRICS))


def test_small_pictures_for_problems_and_metrics(study: pmb.Study, tmp_path: Path) -> None:
    axes = study.plot(policies=["Track"], path=tmp_path / "study.png")
    assert axes.shape == (2, 2) and (tmp_path / "study.png").stat().st_size > 1000
    assert "betas: average" in axes[1, 1].get_title() + axes[1, 1].get_title(loc="left")
    plt.close("all")


def test_pictures_go_on_given_axes_and_show_the_regret_to_the_best_arm(study: pmb.Study) -> None:
    figure, given = plt.subplots(2, 2)
    axes = study.plot(given, column="arm_regret", title="all of it")
    assert axes[0, 1] is given[0, 1] and figure.get_suptitle() == "all of it"
    assert "best arm" in axes[0, 0].get_ylabel()
    run = study["coins", "average"]
    t, regret = run.column("arm_regret", "Uniform")
    drawn = {line.get_label(): line for line in axes[0, 1].get_lines()}["Uniform"]
    np.testing.assert_allclose(drawn.get_ydata(), regret.mean(axis=0))
    np.testing.assert_array_equal(drawn.get_xdata(), t)
    with pytest.raises(ValueError, match="2 × 2"):
        study.plot(given[0])
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


class Kumaraswamy(st.rv_continuous):
    def _cdf(self, x: Any, p: Any, q: Any) -> Any:
        return 1.0 - (1.0 - x**p) ** q


def test_a_loaded_study_is_scored_again_with_the_arms_that_are_given(tmp_path: Path) -> None:
    kumaraswamy = Kumaraswamy(a=0.0, b=1.0, name="kumaraswamy")
    arms = pmb.Bandit({"low": kumaraswamy(2.0, 5.0), "high": kumaraswamy(5.0, 2.0)})
    problems = {"coins": PROBLEMS["coins"], "own": arms}
    played = pmb.simulate(["gini"], problems, **GIVEN)
    played.save(tmp_path)
    loaded = pmb.Study.load(tmp_path)
    with pytest.raises(ValueError, match=r"kumaraswamy.*bandit="):
        loaded.rescore("mean")
    again = loaded.rescore("mean", bandit={"own": arms})
    for problem, bandit in problems.items():
        run = again[problem, "gini, scored by mean"]
        t, pulls = run.column("pulls", "Track")
        want = pmb.oracle("mean", bandit).value - pmb.utility("mean", bandit, pulls[0, -1] / t[-1])
        assert run.regret("Track")[1][0, -1] == pytest.approx(want, abs=1e-12)
    assert {row["metric"] for row in again.summary().rows} == {"gini, scored by mean"}
    assert again["own", "gini, scored by mean"].equals(played["own", "gini"].rescore("mean", arms))
    other = pmb.Bandit({"low": kumaraswamy(2.0, 4.0), "high": kumaraswamy(5.0, 2.0)})
    with pytest.raises(ValueError, match=r"low is .*kumaraswamy\(2, 4\).*kumaraswamy\(2, 5\)"):
        loaded.rescore("mean", bandit={"own": other})
    with pytest.raises(ValueError, match="unknown problem 'mine'"):
        loaded.rescore("mean", bandit={"mine": arms})
    with pytest.raises(TypeError, match="2 problems"):
        loaded.rescore("mean", bandit=arms)


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


def test_a_dry_run_stops_after_a_while_whatever_the_policy_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        rounds = 0

        def __init__(self, n_arms: int) -> None:
            self.mixture = [1.0 / n_arms] * n_arms

        def ask(self) -> int:
            Slow.rounds += 1
            until = time.thread_time() + 5e-4
            while time.thread_time() < until:
                pass
            return 0

        def tell(self, arm: int, reward: float) -> None:
            pass

    found = pmb.simulate("gini", PROBLEMS["coins"], Slow, 100_000, trials=10, dry_run=True, n_jobs=2)
    assert Slow.rounds * 5e-4 < 2.0 * execute.ESTIMATE_SECONDS + 0.1
    assert 200.0 < found.seconds < 700.0 and found.cpu_seconds == 2.0 * found.seconds  # 5 workers' trials of 50 s
    assert "2 workers" in str(found) and "CPU seconds" in str(found)


STOPPED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.simulation.test_study import long_study
long_study(sys.argv[1])
"""


def long_study(out: str | Path) -> pmb.Study:
    policies = {"vet": pmb.Vet(), "track": pmb.Track()}
    found: pmb.Study = pmb.simulate(METRICS, PROBLEMS, policies, 20_000, trials=12, seed=3, n_jobs=2, out=out)
    return found


@pytest.mark.slow
def test_killed_and_stopped_by_ctrl_c_a_study_ends_with_the_same_bytes(tmp_path: Path) -> None:
    long_study(tmp_path / "whole")
    folder, sizes = tmp_path / "stopped", [0]
    for how in (signal.SIGKILL, signal.SIGINT) * 2:
        child = subprocess.Popen(
            [sys.executable, "-c", STOPPED, str(folder)], stderr=subprocess.PIPE, preexec_fn=allow_interrupts
        )
        journal, until = folder / "journal.bin", time.monotonic() + 240.0
        while not journal.exists() or journal.stat().st_size <= sizes[-1] + 1000:
            assert child.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        child.send_signal(how)
        said = child.communicate()[1]
        assert child.returncode != 0
        if how == signal.SIGINT:
            assert b"of 96 trials are in" in said and b"threading.py" not in said
        sizes.append(journal.stat().st_size)
        assert not (folder / "study.json").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JournalWarning)  # a record may have been cut off in the middle
        long_study(folder)
    names = sorted(path.name for path in (tmp_path / "whole").glob("*.parquet"))
    assert len(names) == 4
    for name in (*names, "study.json"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


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


def test_small_pictures_say_where_a_regret_is_0() -> None:
    same = pmb.Bandit.bernoulli([0.5, 0.5])
    found = pmb.simulate(["gini", "mean"], {"far": PROBLEMS["coins"], "same": same}, ["track", "uniform"], 60, trials=2)
    axes = found.plot(policies="Track")
    assert [text.get_text() for text in axes[0, 1].get_legend().get_texts()] == ["Track"]
    assert any("regret 0" in text.get_text() for text in axes[1, 0].texts) and axes[1, 0].get_legend() is None
    plt.close("all")


def test_a_policy_in_the_place_of_the_metric_names_the_order() -> None:
    for given in ("vet", ["vet"]):
        with pytest.raises(TypeError, match=r"simulate\(metric, bandit, policies, horizon\)"):
            pmb.simulate(given, PROBLEMS["coins"], "gini", 10)
