"""Plans: how long to run for a target regret, by the bounds and by trying."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.theory import planning

theory = pmb.theory
GINI = pmb.GiniDeviation()
TWO = pmb.Bandit.bernoulli([0.4, 0.9])
MAKERS = {"pmetc": theory.etc_bound, "pmucb": theory.ucb_bound, "ceucb": theory.ce_ucb_bound}


@pytest.mark.parametrize("policy", MAKERS)
@pytest.mark.parametrize("target", [0.05, 0.005])
def test_the_bounds_columns_are_the_shortest_horizons_at_which_the_bounds_hold(policy: str, target: float) -> None:
    plan = theory.plan(GINI, TWO, target_regret=target, policy=policy, trials=2, longest=128)
    for column, confidence in ((plan.by_bound, "paper"), (plan.by_tight_set, "auto")):
        options: dict[str, Any] = {"epsilon": column.epsilon, "gap": "distinct", "confidence": confidence}
        bound = MAKERS[policy](GINI, TWO, int(column.horizon), **options)
        assert bound.require().value == pytest.approx(column.regret) and column.regret <= target
        assert column.exploration == pytest.approx(bound.exploration)
        shorter = MAKERS[policy](GINI, TWO, int(0.98 * column.horizon), **options)
        assert not (shorter.holds and shorter.value <= target)
        # no other grid of the kind is better
        for steps in range(1, 12):
            epsilon = 1 / (steps if policy == "pmetc" else steps + 1)
            try:
                other = MAKERS[policy](GINI, TWO, int(0.9 * column.horizon), **{**options, "epsilon": epsilon})
            except ValueError:
                continue  # every point of the grid is equally good
            assert not (other.holds and other.value <= target)
    assert plan.by_tight_set.horizon < plan.by_bound.horizon / 1000


def test_the_simulated_column_reaches_the_target_where_it_says() -> None:
    plan = theory.plan(GINI, TWO, target_regret=0.004, policy="pmetc", seed=3)
    column = plan.by_simulation
    regrets = planning._simulated_final_regrets(
        TWO, GINI, pmb.PMETC(horizon=int(column.horizon)), int(column.horizon), 20, 3
    )
    assert regrets.mean() == pytest.approx(column.regret)
    assert regrets.mean() + 2 * regrets.std(ddof=1) / math.sqrt(20) <= 0.004
    half = int(column.horizon) // 2
    before = planning._simulated_final_regrets(TWO, GINI, pmb.PMETC(horizon=half), half, 20, 3)
    assert before.mean() + 2 * before.std(ddof=1) / math.sqrt(20) > 0.004
    assert column.horizon < plan.by_tight_set.horizon
    assert column.epsilon == pytest.approx(pmb.PMETC(horizon=int(column.horizon)).bind(GINI, 2, pmb.Binary()).epsilon)


def test_simulated_regret_is_that_of_the_average_mixture() -> None:
    horizon = 500
    found = planning._simulated_final_regrets(TWO, GINI, pmb.Uniform(), horizon, 3, 0)
    # equal shares of .4 and .9: mean .65
    assert found == pytest.approx(np.full(3, 0.25 - 0.65 * 0.35), abs=1e-12)
    again = planning._simulated_final_regrets(TWO, GINI, pmb.PMETC(horizon=horizon), horizon, 3, 7)
    assert (again == planning._simulated_final_regrets(TWO, GINI, pmb.PMETC(horizon=horizon), horizon, 3, 7)).all()


def test_cirts_plan_is_its_theorem() -> None:
    plan = theory.plan(GINI, TWO, target_regret=0.05, policy="cirt", trials=4)
    for column, confidence in ((plan.by_bound, "paper"), (plan.by_tight_set, "auto")):
        bound = theory.cirt_bound(
            GINI, TWO, math.ceil(column.horizon), column.epsilon, gap="distinct", confidence=confidence
        )
        assert bound.value == pytest.approx(column.regret) and column.regret <= 0.05
        assert column.horizon >= bound.earliest
    assert "not valid" in plan.by_bound.note and "probability" in plan.by_tight_set.note
    assert plan.by_simulation.horizon < 10_000


@pytest.mark.parametrize(
    ("support", "metric"),
    [
        (pmb.Binary(), GINI),
        (pmb.Interval(-1, 3), GINI),
        (pmb.Finite([0.0, 1.0, 5.0]), pmb.Mean()),
        (pmb.Real(2.0), pmb.Mean()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("target", [0.005, 0.02])
def test_the_hard_instance_punishes_ignorance_by_three_targets(
    support: pmb.Support, metric: pmb.Distortion, target: float
) -> None:
    bandit = planning.hard_instance(metric, support, 3, target)
    assert bandit.n_arms == 3 and bandit.support == support
    loss = pmb.oracle(metric, bandit).value - pmb.utility(metric, bandit, np.full(3, 1 / 3))
    assert 3 * target <= loss
    assert loss <= 20 * target


def test_a_hard_instance_for_a_target_beyond_reach_has_the_most_to_lose() -> None:
    bandit = planning.hard_instance(GINI, pmb.Binary(), 2, 10.0)
    loss = pmb.oracle(GINI, bandit).value - pmb.utility(GINI, bandit, [0.5, 0.5])
    others = [pmb.oracle(GINI, b).value - pmb.utility(GINI, b, [0.5, 0.5]) for b in _two_armed()]
    assert loss >= max(others) - 0.03


def _two_armed() -> list[pmb.Bandit]:
    grid = np.linspace(0.1, 0.9, 9)
    return [pmb.Bandit.bernoulli([p, q]) for p in grid for q in grid if p < q]


def test_a_plan_for_a_support_says_which_arms_it_made_up() -> None:
    plan = theory.plan(GINI, pmb.Binary(), 2, 0.02, trials=3, longest=256)
    assert repr(plan.bandit) in plan.text() and "the paper's bound" in repr(plan)
    assert plan.text().count("\n") >= 6


def test_a_target_that_is_not_reached_is_said_so() -> None:
    plan = theory.plan(GINI, TWO, target_regret=1e-7, policy="pmetc", trials=2, longest=256)
    assert plan.by_simulation.horizon == math.inf and "take a larger longest" in plan.by_simulation.note
    assert "out of reach" in plan.text()


def test_what_a_bound_needs_is_said_in_its_column() -> None:
    wide = pmb.Bandit([[0.0, 10.0], [3.0, 9.0]])
    plan = theory.plan(pmb.Mean(), wide, target_regret=0.5, trials=2, longest=256)
    assert plan.by_bound.horizon == math.inf and "divide the rewards by 5" in plan.by_bound.note
    assert math.isfinite(plan.by_tight_set.horizon)
    jumpy = theory.plan(pmb.VaR(0.5), TWO, target_regret=0.5, trials=2, longest=256)
    assert "no Hölder pair" in jumpy.by_bound.note and math.isfinite(jumpy.by_simulation.horizon)


def test_bad_requests_are_explained() -> None:
    with pytest.raises(ValueError, match="n_arms=3"):
        theory.plan(GINI, pmb.Binary())
    with pytest.raises(ValueError, match="leave n_arms out"):
        theory.plan(GINI, TWO, 3)
    with pytest.raises(ValueError, match="target_regret"):
        theory.plan(GINI, TWO, target_regret=0.0)
    with pytest.raises(ValueError, match="unknown policy 'etc'"):
        theory.plan(GINI, TWO, policy="etc")
    with pytest.raises(TypeError, match="Bandit or a support"):
        theory.plan(GINI, [0.4, 0.9])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="support is not known"):
        theory.plan(GINI, pmb.Bandit([st.expon(), st.norm()]))
    for metric in (3, [1], None):
        with pytest.raises(TypeError, match="metric"):
            theory.plan(metric, TWO)  # type: ignore[arg-type]


def test_a_metric_can_be_given_by_name() -> None:
    given: dict[str, Any] = {"target_regret": 0.1, "trials": 2, "longest": 256}
    assert theory.plan("gini", TWO, **given) == theory.plan(GINI, TWO, **given)
