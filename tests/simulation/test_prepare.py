"""Limits on shares in simulations: who keeps them, and what regret is compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.simulation.prepare import prepare_experiment
from pmbandits.simulation.spec import read_spec
from tests.helpers import python

COINS = pmb.Bandit.bernoulli([0.15, 0.5, 0.9], ["A", "B", "C"])


class Watcher:
    """A plain policy that keeps its mixture within the limits that it is given."""

    def __init__(self, n_arms: int, limits: pmb.Limits | None) -> None:
        assert limits is not None and limits.keeps([0.4, 0.6, 0.0])
        self.t, self.mixture = 0, [0.4, 0.6, 0.0]

    def ask(self) -> int:
        self.t += 1
        return int(self.t % 5 >= 2)

    def tell(self, arm: int, reward: float) -> None:
        pass


def test_regret_is_against_the_best_mixture_within_the_limits() -> None:
    shares = "A >= 40%; C <= 0.05"
    policies = {"track": "track", "free": pmb.Track(shares="A <= 90%"), "plain": Watcher}
    run = pmb.simulate("gini", COINS, policies, 600, trials=5, shares=shares, n_jobs=1)
    best = pmb.oracle("gini", COINS, shares=shares)
    assert run.best.value == best.value < pmb.oracle("gini", COINS).value
    t, pulls = run.column("pulls", "track")
    assert (pulls[..., 0] >= 0.4 * t - 1.0 - 1e-9).all() and (pulls[..., 2] <= 0.05 * t + 1.0 + 1e-9).all()
    utility = run.column("utility", "track")[1]
    assert np.allclose(run.regret("track")[1], best.value - utility)
    assert run.regret("free")[1][:, -1].max() < 0.0  # it has limits of its own, which allow more
    assert run.spec["shares"] == shares
    assert run.regret("plain")[1][0, -1] == pytest.approx(best.value - 0.36 * 0.64, abs=1e-6)


def test_without_limits_a_run_is_the_run_that_it_was() -> None:
    plain, none = (
        prepare_experiment("gini", COINS, "track", 100, 2, 0, None),
        prepare_experiment("gini", COINS, "track", 100, 2, 0, None, shares="A <= 1"),
    )
    assert plain.identity_hash == none.identity_hash and "shares" not in plain.spec
    other = prepare_experiment("gini", COINS, "track", 100, 2, 0, None, shares="A <= 0.5")
    assert other.identity_hash != plain.identity_hash


def test_a_specification_has_limits_in_all_forms(tmp_path: Path) -> None:
    head = 'metric = "gini"\nhorizon = 100\ntrials = 2\n{}\n[bandit]\nbernoulli = [0.2, 0.9]\nnames = ["A", "B"]\n'
    tail = '[[policies]]\npolicy = "track"\n'
    for text, wanted in (
        ('shares = "A >= 10%"', "A >= 10%"),
        ('shares = ["A >= 10%", "B >= 0.2"]', "A >= 10%; B >= 0.2"),
        ("shares = {A = [0.1, 0.5]}", "A >= 0.1; A <= 0.5"),
        ("cost = {A = 2.0}\nbudget = 1.5", "2 * A <= 1.5"),
    ):
        path = tmp_path / "spec.toml"
        path.write_text(head.format(text) + tail)
        experiment = prepare_experiment(**read_spec(path))
        assert experiment.spec["shares"] == wanted
        assert str(experiment.entries[0].policy.limits) == wanted  # type: ignore[union-attr]
    path.write_text(head.format("") + tail + 'shares = "B <= 0.3"\n')
    assert str(prepare_experiment(**read_spec(path)).entries[0].policy.limits) == "B <= 0.3"  # type: ignore[union-attr]
    path.write_text(head.format('shares = "Z >= 10%"') + tail)
    with pytest.raises(ValueError, match="unknown arm"):
        prepare_experiment(**read_spec(path))
    path.write_text(head.format("shares = 3") + tail)
    with pytest.raises(ValueError, match="shares"):
        read_spec(path)


def test_a_policy_that_cannot_keep_the_limits_says_so_before_anything_is_played() -> None:
    with pytest.raises(ValueError, match=r"CIRT cannot play 100 rounds .*single arms"):
        pmb.simulate("gini", COINS, "cirt", 100, trials=2, shares="A == 2 * B")


@pytest.mark.parametrize("more", [{}, {"trials": 2, "seed": 1}])
def test_a_bandit_in_the_place_of_the_metric_is_refused_in_one_sentence(more: dict[str, int]) -> None:
    world = pmb.Changing.steps([(0, COINS), (5, COINS)])
    for arms in (COINS, world):
        with pytest.raises(TypeError, match=r"simulate\(metric, bandit") as said:
            pmb.simulate(arms, "gini", "uniform", horizon=10, **more)  # type: ignore[arg-type]
        assert "\n" not in str(said.value)
    by_name = pmb.simulate(bandit=COINS, metric="gini", policies="uniform", horizon=10, trials=2)
    assert by_name.equals(pmb.simulate("gini", COINS, "uniform", 10, 2))


def test_without_limits_no_linear_program_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    def solve(*_: object, **__: object) -> None:
        raise AssertionError("a linear program was solved")

    monkeypatch.setattr(scipy.optimize, "linprog", solve)
    pmb.simulate("gini", COINS, ["uniform", "track"], 10, trials=2)
    with pytest.raises(AssertionError):
        pmb.simulate("gini", COINS, "uniform", 10, trials=2, shares="A >= 10%")


def test_without_a_folder_nothing_is_packed_for_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    from pmbandits.simulation import execute, workers

    monkeypatch.delattr(workers, "encode_trials")
    monkeypatch.delattr(execute, "decode_trials")
    assert pmb.simulate("gini", COINS, "uniform", 10, trials=3, n_jobs=2).trials == (0, 1, 2)


@pytest.mark.slow
def test_policies_are_known_by_name_to_whoever_only_simulates() -> None:
    code = (
        "import pmbandits as pmb; print(pmb.simulate('mean', pmb.Bandit.bernoulli([0.4, 0.9]), 'ucb1', 5, 1).policies)"
    )
    assert python(code) == "('UCB1',)"
