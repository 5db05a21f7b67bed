"""How sure a policy is: on simulated runs against the truth, and against convex programs and brute force."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.confidence.joint_bernoulli import martingale_weight_of_one
from tests.helpers import SUPPORTS, taught
from tests.reference import convex
from tests.reference.confidence import Confidence, belts, bounds, distributions
from tests.reference.joint_bernoulli import worst_on_grid

GINI = pmb.GiniDeviation()
BOTH = pmb.UpperCVaR(0.75) + pmb.LowerCVaR(0.25)  # neither concave nor convex, with a Hölder pair
METRICS = {"concave": GINI, "convex": pmb.LowerCVaR(0.3), "neither": BOTH}
HORIZON = 80
# Failures are made likely (0.3 for all arms together), so that a promise that is too good shows.
SHARE = 0.3
POLICIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Vet": (pmb.Vet, {"delta": SHARE}),
    "Track": (pmb.Track, {"delta": SHARE}),
    "CIRT": (pmb.CIRT, {"delta": SHARE}),
    "FixedGrid": (pmb.FixedGrid, {"delta": SHARE}),
    "PMUCB": (pmb.PMUCB, {"horizon": HORIZON, "delta": SHARE / 3}),
    "CEUCB": (pmb.CEUCB, {"horizon": HORIZON, "delta": SHARE / 3}),
    "SolitaryUCB": (pmb.SolitaryUCB, {"horizon": HORIZON, "delta": SHARE / 3}),
}


# ---- against the truth -----------------------------------------------------------------------------------
class World(NamedTuple):
    """Three arms with few atoms: their support, the atoms, and the laws."""

    support: pmb.Support
    atoms: Any
    distributions: Any


SPREAD = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]])
WORLDS = {
    "binary": World(pmb.Binary(), np.array([0.0, 1.0]), np.array([[0.8, 0.2], [0.1, 0.9], [0.5, 0.5]])),
    "finite": World(pmb.Finite([0.0, 0.5, 2.0]), np.array([0.0, 0.5, 2.0]), SPREAD),
    "interval": World(pmb.Interval(0, 1), np.array([0.1, 0.4, 0.95]), SPREAD),
    "real": World(pmb.Real(1.0), np.array([-1.0, 0.2, 1.0]), SPREAD),  # within [−1, 1], so 1-sub-Gaussian
}
STEPS = 30
EVERYWHERE = np.array([a for a in product(range(STEPS + 1), repeat=3) if sum(a) == STEPS]) / STEPS


def values(metric: Any, world: World, weights: Any) -> Any:
    """U_h of mixtures, one in a row, from the formula."""
    above = 1.0 - np.cumsum(np.atleast_2d(weights) @ world.distributions, axis=1)[:, :-1]
    return world.atoms[0] * metric(1.0) + metric(np.clip(above, 0.0, 1.0)) @ np.diff(world.atoms)


@cache
def best(shape: str, support: str) -> float:
    """The largest utility among many mixtures."""
    return float(values(METRICS[shape], WORLDS[support], EVERYWHERE).max())


def holds(policy: Any, world: World, top: float) -> bool:
    """Whether all that certainty says is true, of the current mixture."""
    mixture = policy.mixture
    sure = policy.certainty(mixture)
    truth = float(values(policy.metric, world, mixture)[0])
    assert sure.lower <= sure.utility <= sure.upper <= sure.rival
    assert 0.0 <= sure.regret <= sure.rival - sure.lower
    slack = 1e-9
    inside = sure.lower - slack <= truth <= sure.upper + slack and sure.rival >= top - slack
    return inside and top - truth <= sure.regret + 2 * slack  # regret is a joint bound, which can fail by itself


def fails(name: str, support: str, shape: str, seed: int, **options: Any) -> bool:
    """Whether certainty is wrong at one of many times of a run: who stops where it looks worst sees just this."""
    make, given = POLICIES[name]
    world, metric, top = WORLDS[support], METRICS[shape], best(shape, support)
    rng = np.random.default_rng([seed, *name.encode(), *support.encode(), *shape.encode()])
    policy = make(metric, n_arms=3, support=world.support, **{**given, **options})
    levels, chance = np.cumsum(world.distributions, axis=1)[:, :-1], rng.random(HORIZON)
    for t in range(HORIZON):
        arm = policy.ask()
        policy.tell(arm, float(world.atoms[np.searchsorted(levels[arm], chance[t], side="right")]))
        if (t < 20 or t % 4 == 3) and not holds(policy, world, top):
            return True
    return False


@pytest.mark.parametrize(
    "name", [pytest.param(p, marks=[] if p in ("Track", "PMUCB", "Vet") else [pytest.mark.slow]) for p in POLICIES]
)
def test_what_is_certain_is_true_whenever_one_looks_in_the_promised_share_of_runs(name: str) -> None:
    cases = [(support, shape, seed) for support in WORLDS for shape in METRICS for seed in range(3)]
    wrong = sum(fails(name, *case) for case in cases)
    assert wrong <= SHARE * len(cases)


@pytest.mark.slow
@pytest.mark.parametrize("support", WORLDS)
@pytest.mark.parametrize("name", POLICIES)
def test_what_is_certain_is_true_in_many_more_runs(name: str, support: str) -> None:
    for shape in METRICS:
        wrong = sum(fails(name, support, shape, seed) for seed in range(100, 140))
        assert wrong <= SHARE * 40


class Shrunk:
    """A band, a ball, or a belt (whose radius is that of a band squared) that is too small on purpose."""

    def __init__(self, kind: str, scale: float) -> None:
        self.kind, self.scale = kind, scale

    def radius(self, n: Any) -> Any:
        return self.scale**2 / n if self.kind == "kl_band" else self.scale / np.sqrt(n)


@pytest.mark.parametrize(
    ("support", "kind"), [("finite", "band"), ("interval", "band"), ("interval", "kl_band"), ("real", "ball")]
)
@pytest.mark.parametrize("name", ["Track", "PMUCB"])
def test_sets_that_are_too_small_are_found_out_by_these_runs(name: str, support: str, kind: str) -> None:
    wrong = sum(fails(name, support, "concave", seed, confidence=Shrunk(kind, 0.05)) for seed in range(10))
    assert wrong > SHARE * 10


# ---- tight where it claims to be -------------------------------------------------------------------------
def reference(policy: Any) -> Confidence:
    """The same set, from its definition."""
    horizon, delta = (policy.options.get(key) for key in ("horizon", "delta"))
    return Confidence(None, policy.support, policy.n_arms, delta, horizon)


@pytest.mark.parametrize("metric", [*METRICS.values(), pmb.WangRightTail(), pmb.InvertedS(0.7)], ids=repr)
@pytest.mark.parametrize("name", ["Track", "PMUCB", "SolitaryUCB"])
def test_for_bernoulli_arms_the_rival_is_the_best_of_all_mixtures_and_all_means(name: str, metric: Any) -> None:
    """In the joint set of all arms' chances; with a horizon δ is of each arm."""
    make, given = POLICIES[name]
    for seed, n in enumerate((6, 40, 400)):
        policy, data = taught(metric, "binary", 2, n, seed=seed, cls=make, **{**given, "delta": 0.2})
        delta, mix = 0.2 if name == "Track" else 0.4, policy.mixture
        ones, sizes = [int(x.sum()) for x in data.values()], [x.size for x in data.values()]
        low, high, rival, regret = worst_on_grid(metric, ones, sizes, mix, delta, martingale_weight_of_one(2), 400)
        sure = policy.certainty()
        left = 2.0 * float(np.abs(np.diff(np.asarray(metric(np.linspace(0.0, 1.0, 401))))).max())  # by the grid
        assert rival - 1e-9 <= sure.rival <= rival + left
        assert regret - 1e-9 <= sure.regret <= 1.02 * regret + 2.0 * left
        assert low - left <= sure.lower <= low + 1e-9 and high - 1e-9 <= sure.upper <= high + left


def edges(policy: Any, data: dict[str, Any]) -> tuple[Any, Any, Any, float]:
    """Cells, each arm's lowest and highest survival in them, and what lies below the first; from the data alone."""
    points, survival = distributions(policy.support, [x.tolist() for x in data.values()])
    low, high = belts(reference(policy), list(data.values()), survival)
    return np.diff(points), low, high, float(points[0])


def accuracy(policy: Any, data: dict[str, Any]) -> float:
    """How close the rival must be: a hundredth of (range of rewards)·(range of h)/√n, or where h has corners and
    rewards are continuous, a tenth of the regret bound."""
    if policy.metric.kinks and not isinstance(policy.support, pmb.Finite):
        return 0.1 * float(policy.certainty().regret)
    reach = policy.metric.maximum().value - policy.metric.minimum().value
    rewards = np.concatenate(list(data.values()))
    span = np.ptp(rewards) if isinstance(policy.support, pmb.Real) else policy.support.width
    return 0.01 * span * reach / math.sqrt(rewards.size)


CONCAVE = [(GINI, convex.gini()), (pmb.UpperCVaR(0.6), convex.upper_cvar(0.6)), (pmb.Mean(), convex.mean()),
           (pmb.MeanMedianDeviation(), convex.mean_median_deviation()),
           (pmb.Quadratic(0.5), convex.quadratic(0.5))]  # fmt: skip


@pytest.mark.parametrize(("metric", "h"), CONCAVE, ids=lambda x: repr(x) if isinstance(x, pmb.Distortion) else "")
@pytest.mark.parametrize("support", ["finite", "interval"])
@pytest.mark.parametrize("name", ["Track", "PMUCB"])
def test_for_concave_metrics_the_rival_is_the_best_of_all_mixtures_and_all_laws_in_the_bands(
    name: str, support: str, metric: Any, h: convex.Concave
) -> None:
    """Exact: w[i] = a[i]·(survival of arm i), which falls and stays in a[i] times its band; then all is concave."""
    if metric.shape == "linear":
        pytest.skip("the mean of bounded rewards is bounded by betting: tests/confidence/test_betting.py")
    make, given = POLICIES[name]
    n = 300 if support == "finite" else 60
    policy, data = taught(metric, support, 3, n, seed=4, cls=make, **given)
    width, low, high, start = edges(policy, data)
    a, w = cp.Variable(3, nonneg=True), cp.Variable(low.shape)
    inside = [cp.sum(a) == 1]
    for i in range(3):
        inside += [w[i] >= a[i] * low[i], w[i] <= a[i] * high[i], cp.diff(w[i]) <= 0]
    cells, needed = h.program(cp.sum(w, axis=0))
    problem = cp.Problem(cp.Maximize(width @ cells), [*inside, *needed])
    problem.solve(solver=cp.CLARABEL)
    exact = start * float(metric(1.0)) + problem.value
    sure = policy.certainty()
    assert exact - 1e-6 <= sure.rival <= exact + accuracy(policy, data) + 1e-6


@pytest.mark.parametrize(("metric", "h"), CONCAVE, ids=lambda x: repr(x) if isinstance(x, pmb.Distortion) else "")
def test_on_the_line_the_rival_is_the_best_utility_plus_the_steepest_slope_times_the_radius(
    metric: Any, h: convex.Concave
) -> None:
    policy, data = taught(metric, "real", 3, 80, seed=5, confidence="wasserstein")
    points, survival = distributions(policy.support, [x.tolist() for x in data.values()])
    far = np.array([reference(policy).radius(x.size) for x in data.values()])
    a = cp.Variable(3, nonneg=True)
    cells, needed = h.program(survival.T @ a)
    steepest = metric.holder(policy.support).constant
    problem = cp.Problem(cp.Maximize(np.diff(points) @ cells + steepest * (far @ a)), [cp.sum(a) == 1, *needed])
    problem.solve(solver=cp.CLARABEL)
    exact = float(points[0] * metric(1.0)) + problem.value
    assert exact - 1e-6 <= policy.certainty().rival <= exact + accuracy(policy, data) + 1e-6


@pytest.mark.parametrize("metric", [pmb.LowerCVaR(0.3) + pmb.LowerCVaR(0.6), pmb.Mean() - 2.0 * GINI], ids=repr)
@pytest.mark.parametrize("support", [name for name in SUPPORTS if name != "binary"])  # which has a joint set
def test_for_convex_metrics_the_rival_is_the_best_optimistic_value_of_all_mixtures(metric: Any, support: str) -> None:
    policy, data = taught(metric, support, 3, 200, seed=6, confidence="wasserstein" if support == "real" else "auto")
    every = bounds(metric, reference(policy), [x.tolist() for x in data.values()], EVERYWHERE, 1)
    assert policy.certainty().rival == pytest.approx(float(every.max()), abs=1e-9)


@pytest.mark.parametrize("kind", ["auto", "wasserstein"])
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("metric", [GINI, pmb.LowerCVaR(0.3), pmb.InvertedS(0.7), BOTH, pmb.VaR(0.4)], ids=repr)
@pytest.mark.parametrize("name", ["Track", "CIRT", "SolitaryUCB"])
def test_the_rival_bounds_every_mixture(name: str, metric: Any, support: str, kind: str) -> None:
    make, given = POLICIES[name]
    try:
        policy, _ = taught(metric, support, 3, 300, cls=make, **given, confidence=kind)
    except ValueError:
        assert support == "real" and metric.shape == "neither"
        return
    if policy.confidence is None:
        with pytest.raises(ValueError, match="no confidence sets"):
            policy.certainty()
        return
    sure = policy.certainty()
    rng = np.random.default_rng(0)
    for a in [*rng.dirichlet(np.ones(3) * 0.5, 4), *np.eye(3)]:
        assert policy.utility_bounds(a)[2] <= sure.rival + 1e-9


# ---- what it says ----------------------------------------------------------------------------------------
def test_the_regret_bound_shrinks() -> None:
    rng = np.random.default_rng(2)
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary())
    found = []
    for t in range(1, 4001):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.4, 0.9)[arm]))
        if t in (10, 100, 1000, 4000):
            found.append(policy.certainty().regret)
    assert found == sorted(found, reverse=True) and found[-1] < 0.05


@pytest.mark.parametrize(
    ("policy", "probability"),
    [
        (pmb.Track(GINI, n_arms=4, support=pmb.Binary()), 0.95),
        (pmb.CIRT(GINI, n_arms=2, support=pmb.Interval(0, 1), delta=0.1), 0.9),
        (pmb.Track(GINI, n_arms=4, support=pmb.Interval(0, 1), estimates="sketch"), 0.95),
        (pmb.Track(GINI, n_arms=4, support=pmb.Interval(0, 1), estimates="binned"), 0.95),
        (pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=1000), 0.998),
        (pmb.PMUCB(GINI, n_arms=2, support=pmb.Interval(0, 1), horizon=1000, estimates="sketch"), 0.998),
        (pmb.SolitaryUCB(GINI, n_arms=3, support=pmb.Real(1), horizon=1000, delta=0.1), 0.7),
        (pmb.SolitaryUCB(GINI, n_arms=3, support=pmb.Real(1), horizon=1000, delta=0.5), 0.0),
    ],
    ids=repr,
)
def test_the_probability_counts_every_arm(policy: Any, probability: float) -> None:
    sure = policy.certainty()
    assert sure.probability == pytest.approx(probability, abs=1e-12)
    if isinstance(policy.support, pmb.Binary):
        assert f"{100 * probability:.6g} %" in sure.meaning and "all arms" in sure.meaning
    else:
        assert sure.meaning == policy.confidence.meaning
    said = f"With probability {100 * probability:.6g} %" if probability else "If the confidence sets hold"
    known = f"{said}, this mixture falls short of the best mixture by at most "
    unknown = "Nothing is certain yet about how far this mixture is from the best one."
    assert str(sure).startswith(known if np.isfinite(sure.regret) else unknown)


@pytest.mark.parametrize("given", ["paper", Shrunk("ball", 1.0)], ids=["paper", "own"])
def test_where_nobody_says_a_probability_none_is_said(given: Any) -> None:
    sure = pmb.CIRT(GINI, n_arms=2, support=pmb.Interval(0, 1), confidence=given).certainty()
    assert math.isnan(sure.probability)
    assert str(sure).startswith("If the confidence sets hold, ")


def test_sets_with_a_horizon_say_up_to_when_they_hold() -> None:
    sure = pmb.PMUCB(GINI, n_arms=2, support=pmb.Interval(0, 1), horizon=1000).certainty()
    assert "for its first 1,000 rewards" in sure.meaning
    assert "however many rewards come" in pmb.Track(GINI, n_arms=2, support=pmb.Binary()).certainty().meaning


@pytest.mark.parametrize("name", POLICIES)
def test_looking_changes_nothing_and_is_of_the_mixture_that_is_asked_for(name: str) -> None:
    make, given = POLICIES[name]
    policy, _ = taught(GINI, "interval", 3, 70, cls=make, **given)
    same, _ = taught(GINI, "interval", 3, 70, cls=make, **given)
    sure = policy.certainty([0.2, 0.3, 0.5])
    assert (sure.lower, sure.utility, sure.upper) == policy.utility_bounds([0.2, 0.3, 0.5])
    now = policy.certainty()
    assert now[1:3] == (policy.utility_bounds()[0], policy.utility_bounds()[2])
    assert now == policy.certainty(policy.mixture)
    assert policy._memory.words.tolist() == same._memory.words.tolist()


def test_where_no_bound_holds_certainty_says_so() -> None:
    policy = pmb.Track(pmb.PHT(0.5), n_arms=2, support=pmb.Real(1.0), confidence="wasserstein")
    with pytest.raises(ValueError, match=r"PHT\(s=0\.5\) on Real"):
        policy.certainty()
    with pytest.raises(ValueError, match="is a recipe"):
        pmb.Track("gini").certainty()
