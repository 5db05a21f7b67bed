"""The exact maximiser within limits and in segments, against cvxpy, and where there are many arms or corners."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats as st
from benchmarks.oracle_instances import arms_of, as_shares, metric_of, rules_of

import pmbandits as pmb
from pmbandits.constraints import limits
from pmbandits.optimize import utilities
from pmbandits.optimize.concave import maximise_concave
from pmbandits.optimize.utilities import build_arm_table
from tests.reference import convex

pytestmark = pytest.mark.filterwarnings("ignore:Power atom.*:UserWarning")  # cvxpy says how it states u**e

KINDS = ("none", "box", "groups", "budget", "segments", "mixed")


def bandit_of(arms: list[tuple[np.ndarray, np.ndarray]]) -> pmb.Bandit:
    names = tuple(f"a{i}" for i in range(len(arms)))
    return pmb.Bandit([st.rv_discrete(values=(x, p)) for x, p in arms], names=names)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_cvxpy_does_not_beat_it_by_more_than_the_gap(kind: str, seed: int) -> None:
    rng = np.random.default_rng([33, seed, KINDS.index(kind)])
    metric, same = metric_of(rng)
    while same is None:
        metric, same = metric_of(rng)
    arms, rules = arms_of(rng, 5, 40), rules_of(rng, kind, 5)
    bandit = bandit_of(arms)
    best = pmb.oracle(metric, bandit, shares=as_shares(rules, bandit.names))
    assert best.gap <= 1e-9 * abs(best.value)
    points, above = convex.survival(arms)
    other, _ = convex.best_mixture(same, points, above, rules)
    found = convex.utility(same, points, above, other)
    assert found <= best.value + best.gap + 1e-7 * abs(best.value)  # cvxpy keeps limits up to its tolerance
    assert convex.utility(same, points, above, best.weights) == pytest.approx(best.value, rel=1e-10)


@pytest.mark.parametrize(("groups", "size"), [(13, 2), (7, 4), (4, 10)])
@pytest.mark.parametrize("metric", ["gini", "mean_median_deviation", "pht(0.6)"])
def test_segments_with_more_corners_than_could_be_listed(groups: int, size: int, metric: str) -> None:
    rng = np.random.default_rng([groups, size])
    bandit = bandit_of(arms_of(rng, groups * size, 60))
    group = [list(bandit.names[g * size : (g + 1) * size]) for g in range(groups)]
    shares = rng.dirichlet(np.full(groups, 5.0))
    rules = "; ".join(f"{' + '.join(names)} == {float(p)!r}" for names, p in zip(group[:-1], shares[:-1], strict=True))
    best = pmb.oracle(metric, bandit, shares=rules)
    assert best.gap <= 1e-9 * best.value
    assert best.weights.reshape(groups, size).sum(axis=1) == pytest.approx(shares, abs=1e-9)
    others = np.repeat(shares, size) * rng.dirichlet(np.full(size, 0.3), (500, groups)).reshape(500, -1)
    assert (utilities(pmb.metric(metric), bandit, others) <= best.value + best.gap).all()


@pytest.mark.parametrize("kind", KINDS)
def test_many_arms_come_by_columns_and_the_bound_holds_for_all(kind: str) -> None:
    rng = np.random.default_rng([1, KINDS.index(kind)])
    bandit, rules = bandit_of(arms_of(rng, 150, 600)), rules_of(rng, kind, 150)
    metric = pmb.GiniDeviation() + 0.5 * pmb.UpperCVaR(0.8)
    polytope = limits(as_shares(rules, bandit.names), bandit.names).polytope
    table = build_arm_table(metric, list(bandit.distributions))
    found = maximise_concave(metric, table, np.ones(150), accuracy=1e-10, scale=0.0, polytope=polytope)
    value = table.value(metric, found.weights)
    assert found.gap <= 1e-9 * value
    assert polytope.excess(found.weights).max(initial=0.0) <= 1e-9
    # The plane of the multipliers bounds V on all mixtures that keep the limits: also in the direction of each arm.
    for slopes in (table.gradient(metric, table.curve_of_mixture(found.weights)), *rng.normal(size=(20, 150))):
        top = polytope.maximise_linear(np.nan_to_num(slopes))
        assert top is not None
        for share in (0.01, 0.1, 1.0):
            other = table.value(metric, (1.0 - share) * found.weights + share * top.at)
            assert other <= value + found.gap + 1e-14 * value  # the rounding of the two sums


def test_an_answer_for_a_function_of_the_user_can_be_written_as_json() -> None:
    metric = pmb.Distortion.from_function(lambda u: np.log1p(9.0 * u) - u)
    best = pmb.oracle(metric, pmb.Bandit([[0.0, 1.0, 2.0], [0.0, 3.0, 4.0]]))
    assert json.loads(json.dumps({"certified": best.certified, "gap": best.gap})) == {
        "certified": False,
        "gap": best.gap,
    }


def test_a_vertical_end_of_h_that_is_known_by_values_only_is_not_overlooked() -> None:
    """Near 0 the root is steeper than any difference of values shows: a single arm must not pass for the best."""
    rng = np.random.default_rng([33, 202])
    metric, _ = metric_of(rng)
    bandit = pmb.Bandit([st.rv_discrete(values=pair) for pair in arms_of(rng, 2, 20)])
    best = pmb.oracle(metric, bandit)
    assert pmb.utility(metric, bandit, np.array([7e-8, 1.0 - 7e-8])) <= best.value + best.gap + 1e-11
