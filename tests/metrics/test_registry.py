"""A metric by its name or as text works wherever a metric is taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest

import pmbandits as pmb
from pmbandits import theory

matplotlib.use("Agg")

ARMS = pmb.Bandit.bernoulli([0.4, 0.87])
REWARDS = {"A": np.tile([0.0, 1.0], 30), "B": np.tile([0.2, 0.7, 0.9], 20)}

# One call for every public function that takes a metric; what it returns is compared as it prints.
CALLS: dict[Callable[..., Any], Callable[[Any], Any]] = {
    pmb.advise: lambda metric: pmb.advise(REWARDS, metric, progress=False),
    pmb.gaps: lambda metric: pmb.gaps(metric, ARMS, 0.1),
    pmb.oracle: lambda metric: pmb.oracle(metric, ARMS),
    pmb.plot_distortion: lambda metric: pmb.plot_distortion(metric).get_title(),
    pmb.plot_mixture: lambda metric: pmb.plot_mixture(metric, ARMS).get_title(),
    pmb.simulate: lambda metric: pmb.simulate(metric, ARMS, {"it": pmb.UCB1()}, 20, 2, progress=False).regret("it"),
    pmb.utility: lambda metric: pmb.utility(metric, ARMS, [0.5, 0.5]),
    theory.category: theory.category,
    theory.ce_ucb_bound: lambda metric: theory.ce_ucb_bound(metric, ARMS, 1000, 0.1),
    theory.cirt_bound: lambda metric: theory.cirt_bound(metric, ARMS, 1000, 0.1),
    theory.estimation_limit: lambda metric: theory.estimation_limit(metric, ARMS, 0.1),
    theory.etc_bound: lambda metric: theory.etc_bound(metric, ARMS, 1000, 0.1),
    theory.exploration_rounds: lambda metric: theory.exploration_rounds(metric, ARMS, 1000, 0.1),
    theory.exploration_scale: lambda metric: theory.exploration_scale(metric, ARMS, 1000, 0.1),
    theory.facts: lambda metric: theory.facts(metric, ARMS).metric,
    theory.gap_exponent: lambda metric: theory.gap_exponent(metric, ARMS, [0.1, 0.05, 0.025, 0.0125]),
    theory.gradient_exponent: lambda metric: theory.gradient_exponent(metric, ARMS),
    theory.known_exponents: theory.known_exponents,
    theory.largest_utility: lambda metric: theory.largest_utility(metric, ARMS),
    theory.plan: lambda metric: theory.plan(metric, ARMS, target_regret=0.2, trials=2, longest=128),
    theory.refinement_oracle: lambda metric: theory.refinement_oracle(metric, ARMS),
    theory.refinement_time: lambda metric: theory.refinement_time(metric, ARMS, 0.1),
    theory.separation_time: lambda metric: theory.separation_time(metric, ARMS, 0.1),
    theory.settling_time: lambda metric: theory.settling_time(metric, ARMS, 0.1),
    theory.table: lambda metric: theory.table(2, metrics=[metric]),
    theory.ucb_bound: lambda metric: theory.ucb_bound(metric, ARMS, 1000, 0.1),
    theory.utility_limit: theory.utility_limit,
    pmb.Bandit.shifted_exponentials: lambda metric: pmb.Bandit.shifted_exponentials([1.0, 2.0], metric=metric),
}
POLICIES = [policy for policy in map(pmb.__getattr__, pmb.__all__) if inspect.isclass(policy)]
POLICIES = [policy for policy in POLICIES if issubclass(policy, pmb.Policy) and policy is not pmb.Policy]


def test_every_public_function_with_a_metric_is_listed() -> None:
    found = {
        function
        for module in (pmb, theory)
        for function in (getattr(module, name) for name in module.__all__)
        if callable(function) and not inspect.isclass(function)
        if {"metric", "metrics"} & set(inspect.signature(function).parameters)
    }
    # A file knows its metric: load takes only a function of the user, again.
    assert found - {pmb.load} == set(CALLS) - {pmb.Bandit.shifted_exponentials}


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__qualname__)
def test_a_name_stands_for_the_metric(function: Callable[..., Any]) -> None:
    assert str(CALLS[function]("gini")) == str(CALLS[function](pmb.GiniDeviation()))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_policies_take_a_metric_as_text(policy: Any) -> None:
    options = {"horizon": 100} if "horizon" in inspect.signature(policy).parameters else {}
    assert policy("0.7*mean + 0.3*upper_cvar(0.9)", **options).metric == 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)


@pytest.mark.parametrize("given", [None, 3.0, ["gini"], pmb.GiniDeviation])
def test_what_is_neither_a_metric_nor_text_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="metric"):
        pmb.oracle(given, ARMS)


def test_a_text_that_would_take_long_to_read_is_refused() -> None:
    longest = "mean" + "+mean" * 1_999
    assert len(longest) == 9_999 and pmb.metric(longest).value([1.0], [1.0]) == pytest.approx(2_000.0)
    with pytest.raises(ValueError, match="10,000"):
        pmb.metric("mean" + "+mean" * 80_000)
