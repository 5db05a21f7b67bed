"""Policies and metrics given by name are those given as objects."""

from __future__ import annotations

from typing import Any

import pytest

import pmbandits as pmb
from pmbandits.engine.registry import REGISTRY
from pmbandits.simulation.policy_specs import parse_policies, policy_by_name

BANDIT = pmb.Bandit.bernoulli([0.4, 0.9])
GINI = pmb.GiniDeviation()


def play(metric: Any, policies: Any, horizon: Any = 200) -> pmb.Run:
    return pmb.simulate(metric, BANDIT, policies, horizon, trials=2, n_jobs=1, checkpoints=3)


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("gini", GINI),
        ("upper_cvar:c=0.9", pmb.UpperCVaR(0.9)),
        ("0.7*mean+0.3*upper_cvar(0.9)", 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)),
    ],
)
def test_a_metric_by_text_is_the_metric(text: str, metric: pmb.Distortion) -> None:
    assert play(text, pmb.CIRT(epsilon=0.25)).equals(play(metric, pmb.CIRT(epsilon=0.25)))


def test_policies_by_name_are_the_policies_with_the_horizon_of_the_simulation() -> None:
    objects = [pmb.Track(), pmb.CIRT(), pmb.PMUCB(horizon=200)]
    assert play(GINI, ["track", "cirt", "pmucb"]).equals(play(GINI, objects))
    assert play(GINI, {"a": "PMUCB", "b": pmb.Uniform()}).equals(
        play(GINI, {"a": pmb.PMUCB(horizon=200), "b": "uniform"})
    )
    assert play(GINI, "cirt").equals(play(GINI, pmb.CIRT()))


def test_a_policy_by_name_plays_every_horizon() -> None:
    run = play(GINI, ["pmucb", "uniform"], [100, 200])
    assert run.equals(play(GINI, [pmb.PMUCB(horizon=200), pmb.Uniform()], [100, 200]))
    assert run.horizons("PMUCB") == (100, 200)


@pytest.mark.parametrize("name", ["solitary_arm", "SolitaryArm", "solitary-arm", " Solitary arm "])
def test_names_are_read_as_people_write_them(name: str) -> None:
    assert isinstance(policy_by_name(name, 100), pmb.SolitaryArm)


def test_every_policy_of_the_library_has_a_name_that_is_known() -> None:
    ours = {name: cls for name, cls in REGISTRY.items() if cls.__module__.startswith("pmbandits.")}
    assert len(ours) >= 18
    for name, cls in ours.items():
        assert type(policy_by_name(name, 5000)) is cls


def test_options_by_name_are_checked() -> None:
    assert policy_by_name("pmucb", 100, {"horizon": 50}).options["horizon"] == 50
    with pytest.raises(ValueError, match=r"pmucb 'epsilom'\. .* 'epsilon'"):
        policy_by_name("pmucb", 100, {"epsilom": 0.1})


def test_a_class_of_policies_stands_for_one_with_its_usual_options_and_this_horizon() -> None:
    made = parse_policies([pmb.PMUCB, pmb.Vet], 300)
    assert [type(policy) for policy in made.values()] == [pmb.PMUCB, pmb.Vet]
    assert made["PMUCB"].options == pmb.PMUCB(horizon=300).options
    assert list(parse_policies({"mine": pmb.Vet}, 300)) == ["mine"]
