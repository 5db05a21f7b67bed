"""The comparison of the family: its instances, its statistics, what it leaves, and that it goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from research.__main__ import app
from research.family_arms import CONTINUOUS, GROUPS, UNSEEN, Instance, instances
from research.family_plan import OURS, TRACK, VET, Player
from research.family_scores import Cell, Scores, against, best_of, compare, goals
from research.family_shown import picture, relative, tables
from research.outcome import Context, Outcome
from research.registry import chosen
from scipy.optimize import minimize
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits.tables.distributions import Atoms
from research import family, family_arms, family_plan

BY_KEY = {instance.key: instance for instance in instances()}


def matrix(bandit: pmb.Bandit) -> tuple[Any, Any]:
    """All atoms, and the probabilities of each arm on them."""
    distributions = [distribution for distribution in bandit.distributions if isinstance(distribution, Atoms)]
    x = np.unique(np.concatenate([distribution.x for distribution in distributions]))
    p = np.zeros((len(distributions), x.size))
    for row, distribution in zip(p, distributions, strict=True):
        row[np.searchsorted(x, distribution.x)] = distribution.p
    return x, p


def utility(h: Callable[[Any], Any], x: Any, mass: Any) -> Any:
    """U_h of laws on the atoms x (one a row): x_0·h(1) + Σ (x_k − x_(k−1))·h(P(X ≥ x_k))."""
    above = np.cumsum(mass[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return x[0] * h(np.ones(1))[0] + h(np.clip(above, 0.0, 1.0)) @ np.diff(x)


# ---- instances -------------------------------------------------------------------------------------------
def test_every_instance_is_what_it_says_and_the_same_every_time() -> None:
    assert len(BY_KEY) == len(instances()) == 45
    assert {one.group for one in instances()} == set(GROUPS)
    assert len({one.title for one in instances()}) == 45
    for one in instances():
        first, again = one.make(0), one.make(0)
        assert first.to_dict() == again.to_dict()
        assert first.n_arms == one.n_arms
        assert one.arms(3 * one.count).to_dict() == first.to_dict()
        if one.count > 1:
            assert one.arms(1).to_dict() != first.to_dict()
        if one.group == CONTINUOUS:
            assert not any(isinstance(distribution, Atoms) for distribution in first.distributions)
        else:
            x, p = matrix(first)
            assert x.size <= 256
            assert p.sum(axis=1) == pytest.approx(1.0)


def test_the_drawn_ones_are_balanced_and_cover_all_shapes() -> None:
    drawn = [one for one in instances() if one.group == UNSEEN]
    assert sorted(one.n_arms for one in drawn) == sorted(2 * family_arms.DRAWN_SIZES)
    assert sorted(one.distribution for one in drawn) == sorted(2 * family_arms.DRAWN_DISTRIBUTIONS)
    assert {repr(one.metric) for one in drawn} == {repr(metric) for _, metric in family_arms.DRAWN_METRICS}
    assert {one.metric.shape for one in drawn} == {"linear", "concave", "convex", "neither"}


def test_laws_on_cells_have_the_probabilities_of_the_laws() -> None:
    x, p = matrix(BY_KEY["three-pht"].make(0))
    assert x == pytest.approx((np.arange(200) + 0.5) / 200)
    edges = np.arange(201) / 200
    assert p[2] == pytest.approx(np.diff(edges**3), abs=1e-12)  # Beta(3, 1)
    x, p = matrix(BY_KEY["jackpot"].make(0))
    assert p.tolist() == [[0.0, 1.0, 0.0], [0.98, 0.0, 0.02]]


def check_best(one: Instance, number: int) -> None:
    """The oracle's value is that of its weights, and neither arms nor random mixtures are worth more."""
    bandit = one.make(number)
    best = pmb.oracle(one.metric, bandit)
    x, p = matrix(bandit)
    assert utility(one.metric, x, best.weights @ p) == pytest.approx(best.value, abs=1e-10)
    rng = np.random.default_rng(5)
    tried = np.vstack((np.eye(len(p)), rng.dirichlet(np.ones(len(p)), 200), rng.dirichlet(np.full(len(p), 0.2), 200)))
    near = np.abs(best.weights + 0.01 * rng.normal(size=(100, len(p))))
    tried = np.vstack((tried, near / near.sum(axis=1, keepdims=True)))
    assert utility(one.metric, x, tried @ p).max() <= best.value + 1e-9
    if one.metric.shape != "neither":
        assert best.certified and best.gap <= 1e-9


DISCRETE = [one for one in instances() if one.group != CONTINUOUS]


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.key, marks=[pytest.mark.slow] * (one.key == "drawn-9")) for one in DISCRETE]
)  # where the oracle searches among twenty arms it takes seconds
def test_nothing_is_better_than_the_best_mixture(one: Instance) -> None:
    check_best(one, 0)


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in DISCRETE if one.count > 1], ids=lambda one: one.key)
def test_nothing_is_better_than_the_best_mixture_of_the_other_sets(one: Instance) -> None:
    for number in range(1, one.count):
        check_best(one, number)


def prelec(u: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.exp(-np.sqrt(-np.log(u)))


def entropy(u: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(u < 1.0, -(1.0 - u) * np.log(1.0 - u), 0.0)


FORMULAS: dict[str, Callable[[Any], Any]] = {
    "gauss-gini": lambda u: u * (1 - u),
    "beta10-gini": lambda u: u * (1 - u),
    "beta10-wang": lambda u: np.sqrt(u) - u,
    "jackpot": np.sqrt,
    "drawn-1": lambda u: u + u * (1 - u),
    "drawn-8": entropy,
    "beta30-quadratic": lambda u: 1.5 * u - 0.5 * u * u,
    "five-bent": lambda u: prelec(u) - u,
    "two-s-0.5": prelec,
}


@pytest.mark.parametrize("key", FORMULAS)
def test_the_best_value_is_what_scipy_finds_on_the_simplex(key: str) -> None:
    one = BY_KEY[key]
    x, p = matrix(one.make(0))
    k, rng = len(p), np.random.default_rng(3)

    def loss(z: Any) -> Any:  # weights as squares: no bounds are needed
        return -utility(FORMULAS[key], x, (z * z / (z * z).sum()) @ p)

    starts = [np.ones(k), np.sqrt(rng.dirichlet(np.ones(k)))]  # for concave h one would do
    if one.metric.shape == "neither":
        starts += [*(np.eye(k) + 0.05), *np.sqrt(rng.dirichlet(np.ones(k), 5))]
    found = -min(minimize(loss, z, method="BFGS", options={"gtol": 1e-9}).fun for z in starts)
    assert pmb.oracle(one.metric, one.make(0)).value == pytest.approx(found, abs=2e-6)


def test_the_best_value_of_continuous_arms_is_near_that_of_their_cells() -> None:
    for exact, cells in (("gauss-exact", "gauss-gini"), ("beta10-exact", "beta10-gini"), ("three-exact", "three-pht")):
        values = [pmb.oracle(BY_KEY[key].metric, BY_KEY[key].make(0)).value for key in (exact, cells)]
        assert values[0] == pytest.approx(values[1], rel=1e-3)


# ---- statistics ------------------------------------------------------------------------------------------
def test_ratio_and_difference_are_those_of_the_trials_that_both_played() -> None:
    rng = np.random.default_rng(1)
    mine, other = rng.exponential(1.0, 16), rng.exponential(2.0, 64)
    found = compare(mine, other)
    gap = mine - other[:16]
    assert found.trials == 16
    assert found.difference.value == pytest.approx(gap.mean())
    assert found.difference.error == pytest.approx(np.sqrt(((gap - gap.mean()) ** 2).sum() / 15 / 16))
    assert found.ratio.value == pytest.approx(mine.sum() / other[:16].sum())


def test_the_error_of_a_ratio_is_what_repetition_shows() -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(3000):
        shared = rng.exponential(1.0, 64)
        found.append(compare(shared + rng.exponential(1.0, 64), shared + rng.exponential(3.0, 64)))
    spread = np.std([one.ratio.value for one in found])
    assert np.mean([one.ratio.error for one in found]) == pytest.approx(spread, rel=0.05)


def test_two_standard_errors_decide() -> None:
    noise = np.array([1.0, -1.0] * 8)
    one = noise.std(ddof=1) / 4
    for shift, said in ((-2.1, "better"), (-1.9, "not told apart"), (1.9, "not told apart"), (2.1, "worse")):
        assert compare(10.0 + noise + shift * one, np.full(16, 10.0)).verdict == said


def made(regret: dict[str, dict[str, float]], t: int = 100_000) -> Scores:
    """Scores with the same regret in all trials, at both judged horizons."""
    labels = list(dict.fromkeys(label for row in regret.values() for label in row))
    cells = {}
    for key, row in regret.items():
        for label in labels:
            values = {h: np.full(8, row[label]) for h in (10_000, t)} if label in row else {}
            cells[key, label] = Cell(values, {} if label in row else dict.fromkeys((10_000, t), "it refuses."))
    return Scores([BY_KEY[key] for key in regret], labels, [10_000, t], cells)


def test_the_best_other_leaves_out_whom_it_should() -> None:
    scores = made({"beta10-gini": {VET: 1.0, TRACK: 2.0, "CIRT": 3.0}})
    one = scores.instances[0]
    assert best_of(scores, one, 10_000, (VET,)) == TRACK
    assert best_of(scores, one, 10_000, OURS) == "CIRT"
    assert best_of(scores, one, 10_000, (*OURS, "CIRT")) is None
    assert against(scores, 10_000)["beta10-gini"].ratio.value == pytest.approx(0.5)
    assert against(scores, 10_000, OURS)["beta10-gini"].ratio.value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("vet", "verdicts"),
    [
        (0.5, ["holds", "holds", "holds", "holds", "holds"]),
        (1.1, ["holds", "holds", "holds", "holds", "does not hold"]),
        (2.0, ["does not hold", "holds", "does not hold", "holds", "does not hold"]),
        (3.1, ["does not hold", "does not hold", "does not hold", "does not hold", "does not hold"]),
    ],
)
def test_goals_are_judged_by_the_ratios(vet: float, verdicts: list[str]) -> None:
    scores = made({"beta10-gini": {VET: vet, TRACK: 1.0, "CIRT": 1.0}, "coins-gini": {VET: 1.0, TRACK: 1.0}})
    assert [goal.verdict for goal in goals(scores)] == verdicts


def test_an_instance_that_vet_does_not_play_is_missed() -> None:
    scores = made({"beta10-gini": {TRACK: 1.0, "CIRT": 1.0}, "coins-gini": {VET: 0.4, TRACK: 1.0, "CIRT": 1.0}})
    found = {goal.name: goal for goal in goals(scores)}
    assert found["close-10000"].numbers["share"] == 0.5
    assert {found[name].verdict for name in ("close-10000", "far-10000")} == {"does not hold"}
    assert "Vet was not played on Beta, K = 10, Gini." in found["far-100000"].evidence


def test_without_vet_nothing_is_judged() -> None:
    assert {goal.verdict for goal in goals(made({"coins-gini": {TRACK: 1.0}}))} == {"not decidable"}


def test_the_picture_is_about_the_best_of_each_row() -> None:
    scores = made({"coins-gini": {VET: 2.0, TRACK: 1.0}, "tenths-0.1": {TRACK: 3.0, "CIRT": 6.0}})
    assert relative(scores, 10_000) == pytest.approx(
        np.array([[2.0, 1.0, np.nan], [np.nan, 1.0, 2.0]]), nan_ok=True
    )  # fmt: skip
    texts = [text.get_text() for ax in picture(scores).axes for text in ax.texts]
    assert texts.count("–") == 4 and texts.count("1") == 4 and texts.count("2.0") == 4
    for shown in tables(scores):
        assert all(len(row) == len(shown.heads) for row in shown.rows)


# ---- the plan --------------------------------------------------------------------------------------------
def test_the_numbers_of_trials_follow_the_rule_and_play_all_sets_equally() -> None:
    for n in family_plan.TRIALS:
        assert n % family_arms.SETS == 0
        seconds = family_plan.BUDGET / n
        assert family_plan.trials(seconds) == n
    assert family_plan.trials(family_plan.BUDGET) == family_plan.TRIALS[-1]
    assert family_plan.FIRST % family_arms.SETS == 0


def test_a_cell_that_the_pilot_has_not_measured_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_plan, "read_costs", dict)
    with pytest.raises(ValueError, match=r"benchmarks\.family"):
        family.plan_jobs(quick=False, seed=0)


def test_slow_and_refusing_policies_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "instances", lambda: (BY_KEY["coins-gini"],))
    monkeypatch.setattr(family_plan, "read_costs", lambda: dict.fromkeys(
        [("coins-gini", one.label) for one in family_plan.players()], (0.1, 1.0, 50.0)))  # fmt: skip
    jobs = {job.player.label: job for job in family.plan_jobs(quick=False, seed=0)}
    assert jobs[TRACK].horizons == (1_000, 10_000)
    assert list(jobs[TRACK].why) == [100_000] and "s a trial" in jobs[TRACK].why[100_000]
    assert jobs[TRACK].trials == range(1_000, 1_008)
    assert jobs["M-CVTS"].horizons == ()
    assert "LowerCVaR" in jobs["M-CVTS"].why[1_000]


# ---- playing ---------------------------------------------------------------------------------------------
SMALL = ("coins-gini", "tenths-0.5", "two-s-1.5")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three instances and a few policies; one of them is called Vet, also where the library has none yet."""
    few = [one for one in family_plan.players() if one.label in (TRACK, "M-CVTS", "PM-UCB-M")]
    vet = Player(VET, lambda horizon: pmb.Track(exploration=2.0), "stands for Vet")
    monkeypatch.setattr(family_plan, "players", lambda: (vet, *few))
    monkeypatch.setattr(family, "instances", lambda: tuple(BY_KEY[key] for key in SMALL))
    monkeypatch.setattr(family_plan, "QUICK_ARMS", 5)


def play(folder: Path, **more: Any) -> Outcome:
    return family.run(Context(folder, quick=True, seed=0, jobs=2, progress=False, **more))


def test_cells_are_what_simulate_gives(small: None, tmp_path: Path) -> None:
    outcome = play(tmp_path)
    table = outcome.data["family-trials"].to_pylist()
    for key in SMALL:
        one = BY_KEY[key]
        for label, recipe in ((TRACK, pmb.Track()), ("PM-UCB-M", pmb.PMUCB(horizon=1000))):
            want = []
            for trial in range(family_plan.QUICK_TRIALS):
                run = pmb.simulate(one.metric, one.arms(trial), recipe, 1000, [trial], seed=0)
                want.append(run.regret(run.policies[0])[1][0, -1])
            got = [row["regret"] for row in table if (row["instance"], row["policy"]) == (key, label)]
            assert got == pytest.approx(want, rel=1e-12, abs=1e-15)  # scored in groups of another size
    refused = [row for row in outcome.data["family"].to_pylist() if row["why_not"]]
    assert {(row["instance"], row["policy"]) for row in refused} == {("coins-gini", "M-CVTS"), ("two-s-1.5", "M-CVTS")}


def test_an_interrupted_run_goes_on(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = play(tmp_path / "whole")

    def stop(share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "cut", tick=stop)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").rglob("*.json")}
    assert 0 < len(stored) < 10
    again = play(tmp_path / "cut")
    for path, stamp in stored.items():
        assert path.stat().st_mtime_ns == stamp  # not played again
    for name, table in whole.data.items():
        assert table.equals(again.data[name])
    monkeypatch.setattr(family, "simulate", lambda *a, **k: pytest.fail("all is stored"))
    assert play(tmp_path / "cut").text == whole.text


def test_a_stored_cell_of_something_else_is_played_anew(small: None, tmp_path: Path) -> None:
    play(tmp_path)
    path = tmp_path / "cells" / "coins-gini" / "Track.json"
    good = path.read_text()
    for bad in ("{", json.dumps({**json.loads(good), "identity": "another"})):
        path.write_text(bad)
        play(tmp_path)
        assert path.read_text() == good


def beaten(tmp_path: Path, key: str, proved: bool = True) -> tuple[Scores, list[str], float]:
    """Stored cells of an instance, in which Track was 0.001 above the best mixture, proved or not, in trial 1."""
    jobs = [job for job in family.plan_jobs(quick=True, seed=0) if job.instance.key == key and job.horizons]
    found = family.play_all(jobs, Context(tmp_path, quick=True, jobs=1, progress=False))
    regret = found[key, TRACK]["regret"]["1000"]
    before = found[key, VET]["regret"]["1000"][1]
    regret[1] = -0.001
    for cell in found.values():
        cell["proved"] = proved
    scores, notes = family.gather(jobs, found)
    return scores, notes, before


def test_a_policy_above_a_certified_best_mixture_is_an_error(small: None, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Track .* by 1\.00e-03"):
        beaten(tmp_path, "coins-gini")


def test_a_policy_above_a_searched_best_mixture_sets_the_mark(small: None, tmp_path: Path) -> None:
    scores, notes, before = beaten(tmp_path, "two-s-1.5", proved=False)
    assert scores.cells["two-s-1.5", TRACK].regret[1000][1] == 0.0
    assert scores.cells["two-s-1.5", VET].regret[1000][1] == pytest.approx(before + 0.001)
    assert len(notes) == 1 and "better by 1.0e-03" in notes[0]


# ---- on the page -----------------------------------------------------------------------------------------
def test_it_is_not_part_of_all_and_its_goals_are_no_claims_of_the_paper(small: None, tmp_path: Path) -> None:
    assert "family" not in [entry.name for entry in chosen(["all"])]
    assert [entry.name for entry in chosen(["family"])] == ["family"]
    for names in (["family"], ["table3"]):
        done = CliRunner().invoke(app, [*names, "--quick", "--jobs", "1", "--out", str(tmp_path / "out")])
        assert done.exit_code == 0, done.output
        page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        assert ("Every figure and table of the paper" in page) == (names == ["table3"])
        assert page.count('id="family"') == page.count('id="goals"') == 1
    found = json.loads((tmp_path / "out" / "claims.json").read_text(encoding="utf-8"))
    assert {claim["experiment"] for claim in found["paper"]} == {"table3"} and not found["ours"]
    assert {claim["experiment"] for claim in found["goals"]} == {"family"}
    assert sum(found["counts"]["paper"].values()) == len(found["paper"])
