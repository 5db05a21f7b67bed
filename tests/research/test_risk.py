"""The comparison with risk-sensitive bandits: its instances, its scores, and the shape of what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as scipy_stats
from research.outcome import VERDICTS, Context, Outcome
from research.risk_shown import LOOKS

import pmbandits as pmb
from research import risk as module
from research import risk_arms as arms
from research import risk_claims, risk_gaussian, risk_rates, risk_series

TINY = module.Sizes(2, 2, 200, 2, 200, risk_rates.Trials(4, 2), (100, 200), 2, 400, 2, (100, 200))


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


@pytest.mark.parametrize("metric", (*arms.UPPER_CVARS, *arms.DISTORTIONS), ids=repr)
def test_one_arm_is_best_for_every_risk_measure(metric: Any) -> None:
    bandit = arms.binomial_arms()
    assert pmb.oracle(metric, bandit).weights.tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)
    above = np.array([scipy_stats.binom.sf(np.arange(10), 10, p) for p in (0.35, 0.5, 0.65)])
    h = metric(above.ravel()).reshape(above.shape)
    values = [pmb.utility(metric, bandit, row) for row in np.eye(3)]
    assert values == pytest.approx(0.1 * h.sum(axis=1))  # U_h on {0, .1, …, 1}
    assert (np.diff(above, axis=0) > 0.0).all()  # each dominates the one before


def test_the_cvar_of_the_paper_is_the_mean_of_the_best_part() -> None:
    distribution = arms.binomial_arms().distributions[0]
    for metric in arms.UPPER_CVARS:
        share = 1.0 - metric.c  # type: ignore[attr-defined]
        tail, left = 0.0, share
        for x, p in zip(distribution.x[::-1], distribution.p[::-1], strict=True):  # type: ignore[union-attr]
            tail, left = tail + x * min(p, left), left - min(p, left)
        assert pmb.utility(metric, arms.binomial_arms(), np.eye(3)[0]) == pytest.approx(tail / share)


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
    assert int(np.argmax([distribution.frozen.mean() for distribution in safe.distributions])) == 1


# ---- what it leaves --------------------------------------------------------------------------------------
def test_it_leaves_text_claims_figures_tables_and_data(outcome: Outcome) -> None:
    assert outcome.name == "risk"
    assert set(outcome.figures) == {"risk-cvar", "risk-many-arms", "risk-rates", "risk-normal", "risk-mixtures"}
    assert {c.verdict for c in outcome.claims} <= set(VERDICTS)
    assert len({c.name for c in outcome.claims}) == len(outcome.claims) == 10
    assert sum(bool(c.source) for c in outcome.claims) == 7
    for shown in outcome.shown:
        assert shown.caption
        assert all(len(row) == len(shown.heads) for row in shown.rows)
    table = outcome.data["risk"]
    assert set(table["part"].to_pylist()) == {"cvar", "many-arms", "rates", "normal", "mixtures"}
    assert np.isfinite(table["regret"].to_numpy()).all()


def test_every_published_algorithm_is_in_it(outcome: Outcome) -> None:
    played = set(outcome.data["risk"]["policy"].to_pylist())
    assert {"UCB1", "Thompson", "CVaR-UCB", "Brown-UCB", "U-UCB", "W-UCB", "M-CVTS", "B-CVTS", "ρ-NPTS"} <= played
    assert {"PM-UCB-M, ε = 1", "CE-UCB-M, ε = 1", "PM-ETC-M, ε = 1", "PM-UCB-M", "PM-ETC-M", "CIRT"} <= played
    assert "PM-UCB-M, β = 1" in played
    assert played <= set(LOOKS)
    assert any(row[0] == "MV-LCB" for shown in outcome.shown for row in shown.rows)


def test_the_same_call_goes_on_from_its_folder_with_the_same_answer(
    outcome: Outcome, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUICK", TINY)
    again = module.risk(Context(folder, quick=True, jobs=1, progress=False))
    assert again.data["risk"].equals(outcome.data["risk"])
    assert [c.evidence for c in again.claims] == [c.evidence for c in outcome.claims]


# ---- rates -----------------------------------------------------------------------------------------------
def test_exponents_are_those_of_a_least_squares_fit_and_their_errors_what_repetition_shows() -> None:
    t = np.array([1e3, 3e3, 1e4, 1e5])
    rng = np.random.default_rng(4)
    found = []
    for _ in range(400):
        regret = (np.log(t) / t) ** 0.7 * rng.gamma(4.0, 0.25, (40, 4))
        found.append(risk_rates.exponent(t, regret))
    line = np.polyfit(np.log(np.log(t) / t), np.log(regret.mean(axis=0)), 1)
    assert found[-1].value == pytest.approx(line[0])
    values = np.array([m.value for m in found])
    assert values.mean() == pytest.approx(0.7, abs=0.01)
    assert np.mean([m.error for m in found]) == pytest.approx(values.std(), rel=0.15)


@pytest.mark.parametrize(("power", "verdict"), [(1.0, "holds"), (0.85, "does not hold"), (0.0, "does not hold")])
def test_a_rate_is_judged_by_its_exponent(power: float, verdict: str) -> None:
    t = np.array([1_000, 10_000, 100_000])
    noise = 1.0 + 1e-3 * np.random.default_rng(0).standard_normal((20, 3))
    curve = (np.log(t) / t) ** power * noise
    part = module.Series("a", t, {"PM-ETC-M, ε = 1": curve, "PM-UCB-M, β = 1": curve}, {})
    etc, ucb = risk_claims.rates([risk_rates.Rate(pmb.UpperCVaR(0.5), part, {})], "CVaR", "cvar")
    assert etc.verdict == verdict
    assert ucb.verdict == ("does not hold" if power == 0.0 else "holds")  # κ = ¼
    assert etc.numbers["exponent a"] == pytest.approx(power, abs=0.01)


def test_the_exploration_is_chosen_on_the_other_half() -> None:
    rng = np.random.default_rng(0)
    found = {c: rng.random((10, 3)) for c in (1.0, 2.0, 4.0)}
    got = risk_rates.tuned(found)
    ladder = sorted(found)
    for half in (0, 1):
        others = [row for row in range(10) if row % 2 != half]
        means = [np.mean([found[c][row, -1] for row in others]) for c in ladder]
        wanted = ladder[min(int(np.argmin(means)) + 1, 2)]
        assert (got[half::2] == found[wanted][half::2]).all()


def test_two_standard_errors_decide_who_is_better() -> None:
    base = np.array([[1.0], [1.2], [0.8], [1.0]])
    error = (0.1 * base).std(ddof=1) / 2
    for shift, verdict in ((2.1, "holds"), (1.9, "not decidable"), (-2.1, "does not hold")):
        part = module.Series("x", np.array([9]), {"PM-ETC-M, ε = 1": base, "PM-UCB-M, ε = 1": base,
                                                  "W-UCB": 1.1 * base - 0.1 + shift * error}, {})  # fmt: skip
        for claim in risk_claims.better_than_w_ucb([risk_rates.Rate(pmb.PHT(0.5), part, {})]):
            assert claim.verdict == verdict


def test_who_is_tied_is_told_on_the_same_rewards() -> None:
    noise = np.linspace(0.0, 1.0, 20)[:, None]
    regret = {"a": 1.0 + noise, "b": 1.1 + noise, "c": 1.0 + noise[::-1]}
    part = module.Series("", np.array([10]), regret, {})
    assert part.ranking()[-1] == "b"
    assert set(part.tied()) == {"a", "c"}


def test_the_baseline_of_prashanth_and_bhat_is_their_index() -> None:
    """The arm with the largest empirical value plus 𝓛·r^q, with r = 16(√(2e·log T) + 32)/√n."""
    metric, horizon = pmb.UpperCVaR(0.5), 400
    bandit = risk_gaussian.arms()
    policy = pmb.SolitaryUCB(metric, n_arms=3, support=bandit.support, horizon=horizon, index="additive",
                             confidence="paper")  # fmt: skip
    rng, given = np.random.default_rng(0), [[], [], []]  # type: ignore[var-annotated]
    for _ in range(60):
        arm = policy.ask()
        if all(given):
            n = np.array([len(x) for x in given])
            radius = 16 * (np.sqrt(2 * np.e * np.log(horizon)) + 32) / np.sqrt(n)
            index = np.array([metric.value(x) for x in given]) + 2.0 * radius  # CVaR(½): q = 1 and 𝓛 = 2
            assert index[arm] == pytest.approx(index.max(), rel=1e-12)
        given[arm].append(float(bandit.sample(arm, rng=rng)[0]))
        policy.tell(arm, given[arm][-1])
    assert min(map(len, given)) >= 15  # with these constants nothing is chosen yet


@pytest.mark.parametrize("metric", risk_gaussian.METRICS, ids=repr)
def test_one_normal_arm_is_best_for_every_risk_measure(metric: Any) -> None:
    assert metric.is_distortion_risk_measure
    assert pmb.oracle(metric, risk_gaussian.arms()).weights.tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)


@pytest.mark.parametrize(("power", "verdict"), [(1.0, "holds"), (0.5, "does not hold")])
def test_rates_on_normal_arms_can_go_both_ways(power: float, verdict: str) -> None:
    horizons = np.array([1_000, 3_000, 10_000])
    path = (np.log(horizons) / horizons) ** power * (1 + 0.01 * np.sin(np.arange(16.0)))[:, None]
    regret = {risk_series.OURS_ETC: path, risk_series.PRASHANTH_BHAT: 2.0 * path}
    part = risk_rates.Rate(pmb.UpperCVaR(0.5), risk_series.Series("one", horizons, regret, {}), {})
    found = {claim.name: claim for claim in risk_gaussian.claims([part])}
    assert found["gaussian-etc-rate"].verdict == verdict
    assert found["gaussian-better-than-prashanth-bhat"].verdict == "holds"
    assert all(claim.source for claim in found.values())
