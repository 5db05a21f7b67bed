"""The comparison with risk-sensitive bandits: its instances, its scores, and the shape of what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as scipy_stats

import pmbandits as pmb
from pmbandits.paper import risk as module
from pmbandits.paper import risk_arms as arms
from pmbandits.paper.outcome import Context, Outcome
from pmbandits.paper.risk_shown import LOOKS

TINY = module.Sizes(2, 2, 200, 2, 200, 2, 200, 2, 400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("risk")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUICK", TINY)
        return module.risk(Context(folder, quick=True, jobs=1, progress=False))


# ---- instances -------------------------------------------------------------------------------------------
def test_instances_are_the_same_every_time_and_differ_from_each_other() -> None:
    first, again, other = (arms.simplex_arms(n).to_dict() for n in (0, 0, 1))
    assert first == again != other
    assert arms.gaussian_mixtures().to_dict() == arms.gaussian_mixtures().to_dict()
    assert arms.gaussian_mixtures().n_arms == 30


@pytest.mark.parametrize("metric", arms.DISTORTIONS, ids=repr)
def test_one_beta_arm_is_best_for_every_distortion_risk_measure(metric: Any) -> None:
    best = pmb.oracle(metric, arms.beta_arms())
    assert best.weights.tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)


def test_single_arms_leave_the_floor_that_the_formulas_give() -> None:
    floors = {}
    for case in arms.mixture_optimal():
        best = pmb.oracle(case.metric, case.arms)
        single = max(pmb.utility(case.metric, case.arms, row) for row in np.eye(case.arms.n_arms))
        assert best.is_mixture
        floors[case.key] = best.value - single
    assert floors["gini-coins"] == pytest.approx(0.25 - 0.7 * 0.3, abs=1e-12)
    assert floors["wang-coins"] == pytest.approx(0.25 - np.sqrt(0.1) * (1 - np.sqrt(0.1)), abs=1e-12)
    assert floors["gini-three"] > 0.05


def test_mean_variance_of_a_mixture_counts_the_spread_between_arms() -> None:
    bandit = pmb.Bandit([scipy_stats.uniform(0, 1), scipy_stats.uniform(1, 1)])
    assert module.mean_variance(bandit, np.array([0.5, 0.5]), 0.3) == pytest.approx(4 / 12 - 0.3)
    assert module.mean_variance(bandit, np.array([1.0, 0.0]), 0.3) == pytest.approx(1 / 12 - 0.15)
    safe = arms.safe_and_risky()
    scores = [module.mean_variance(safe, row, 0.1) for row in np.eye(3)]
    assert int(np.argmin(scores)) == 0
    assert int(np.argmax([law.frozen.mean() for law in safe.laws])) == 1


# ---- what it leaves --------------------------------------------------------------------------------------
def test_it_leaves_text_claims_figures_tables_and_data(outcome: Outcome) -> None:
    assert outcome.name == "risk"
    assert set(outcome.figures) == {"risk-cvar", "risk-many-arms", "risk-drm", "risk-mixtures"}
    assert {c.verdict for c in outcome.claims} <= {"holds", "does not hold", "not decidable"}
    assert len({c.name for c in outcome.claims}) == len(outcome.claims) == 6
    for shown in outcome.shown:
        assert shown.caption
        assert all(len(row) == len(shown.heads) for row in shown.rows)
    table = outcome.data["risk"]
    assert set(table["part"].to_pylist()) == {"cvar", "many-arms", "drm", "mixtures"}
    assert np.isfinite(table["regret"].to_numpy()).all()


def test_every_published_algorithm_is_in_it(outcome: Outcome) -> None:
    played = set(outcome.data["risk"]["policy"].to_pylist())
    assert {"UCB1", "Thompson", "CVaR-UCB", "Brown-UCB", "U-UCB", "W-UCB", "M-CVTS", "B-CVTS", "ρ-NPTS"} <= played
    assert {"PM-UCB-M, ε = 1", "CE-UCB-M, ε = 1", "PM-ETC-M, ε = 1", "PM-UCB-M", "PM-ETC-M", "CIRT"} <= played
    assert played <= set(LOOKS)
    assert any(row[0] == "MV-LCB" for shown in outcome.shown for row in shown.rows)


def test_the_same_call_goes_on_from_its_folder_with_the_same_answer(
    outcome: Outcome, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUICK", TINY)
    again = module.risk(Context(folder, quick=True, jobs=1, progress=False))
    assert again.data["risk"].equals(outcome.data["risk"])
    assert [c.evidence for c in again.claims] == [c.evidence for c in outcome.claims]


def test_who_is_tied_is_told_on_the_same_rewards() -> None:
    noise = np.linspace(0.0, 1.0, 20)[:, None]
    regret = {"a": 1.0 + noise, "b": 1.1 + noise, "c": 1.0 + noise[::-1]}
    part = module.Series("", np.array([10]), regret, {})
    assert part.ranking()[-1] == "b"
    assert set(part.tied()) == {"a", "c"}
