"""The search over all mixtures: against the oracle, grids, linear programs and finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.optimize as opt

import pmbandits as pmb
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    mixture_utility_with_bounds,
    utility,
    utility_bound,
    wasserstein_radius,
)
from pmbandits.estimates._utility import empirical_slopes
from pmbandits.metrics.encoding import encode_metric, h_value
from pmbandits.mixtures._continuous_search import (
    holder_bonus_value,
    mean_inside_flat_top,
    nearest_best_mean,
    optimistic_mixture_value,
)
from pmbandits.mixtures._optimistic_objectives import fill_optimistic_gradient
from pmbandits.mixtures._pairwise_ascent import frank_wolfe_gap
from pmbandits.state.memory import Memory
from tests.helpers import SUPPORTS, final_regret, taught

GINI = pmb.GiniDeviation()
CONCAVE = [
    GINI,
    pmb.WangRightTail(),
    pmb.Quadratic(0.5),
    pmb.UpperCVaR(0.8),
    pmb.InterESRange(0.5),
    pmb.PHT(0.5),
    pmb.MeanMedianDeviation(),
    pmb.Mean(),
    0.5 * pmb.Mean() + GINI,
    pmb.Distortion.from_function(lambda u: u**0.7 - u, name="mine"),
]


def up_to_date(policy: pmb.Policy) -> Memory:
    """A copy of its state with the radii up to date."""
    memory = policy._memory_with_radii()
    mixture_utility_with_bounds(memory, np.full(policy.n_arms, 1 / policy.n_arms))
    return memory


# ---- the solver ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", CONCAVE, ids=repr)
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_mixture_is_as_good_as_the_oracles(metric: Any, support: str) -> None:
    for n_arms, n in ((2, 60), (5, 400)):
        policy, data = taught(metric, support, n_arms, n)
        best = pmb.oracle(metric, pmb.Bandit.from_samples(data))
        got = pmb.utility(metric, pmb.Bandit.from_samples(data), policy.mixture)
        spread = np.ptp(np.concatenate(list(data.values())))
        reach = metric.maximum().value - metric.minimum().value
        assert got <= best.value + best.gap + 1e-9
        # The stated tolerance, and what rounding corners and vertical ends by half a reward may hide.
        assert got >= best.value - 0.01 * spread * reach / math.sqrt(n) - 0.1 * spread * reach / n


@pytest.mark.parametrize("metric", [pmb.LowerCVaR(0.3), pmb.WangTransform(-0.7)], ids=repr)
@pytest.mark.parametrize("support", SUPPORTS)
def test_convex_metrics_play_the_best_arm(metric: Any, support: str) -> None:
    policy, data = taught(metric, support, 5, 300)
    values = [metric.value(x) for x in data.values()]
    assert policy.mixture.tolist() == np.eye(5)[int(np.argmax(values))].tolist()


@pytest.mark.parametrize("metric", [pmb.InvertedS(0.5), pmb.InvertedS(2.0), pmb.TverskyKahneman(0.61)], ids=repr)
@pytest.mark.parametrize("support", ["binary", "interval", "real"])
def test_other_metrics_come_near_the_best_of_a_fine_grid(metric: Any, support: str) -> None:
    policy, data = taught(metric, support, 3, 150)
    bandit = pmb.Bandit.from_samples(data)
    grid = pmb.etc_grid(3, 1 / 12)
    values = [pmb.utility(metric, bandit, a) for a in grid]
    got = pmb.utility(metric, bandit, policy.mixture)
    assert got >= max(values) - 0.02 * (max(values) - min(values))


@pytest.mark.parametrize("metric", [pmb.VaR(0.6), pmb.InterQuantileRange(0.25, 0.75)], ids=repr)
def test_steps_in_h_are_searched_too(metric: Any) -> None:
    policy, data = taught(metric, "interval", 2, 100)
    bandit = pmb.Bandit.from_samples(data)
    values = [pmb.utility(metric, bandit, [a, 1 - a]) for a in np.linspace(0, 1, 101)]
    assert pmb.utility(metric, bandit, policy.mixture) >= max(values) - 0.2 * (max(values) - min(values))


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.Quadratic(0.5)], ids=repr)
def test_slopes_are_those_of_the_utility(metric: Any, support: str) -> None:
    policy, _ = taught(metric, support, 4, 200)
    state = up_to_date(policy)
    rng = np.random.default_rng(1)
    for _ in range(3):
        a = rng.dirichlet(np.ones(4))
        got = np.empty(4)
        empirical_slopes(state, a, 1e-7, got)
        for i in range(1, 4):
            step = 1e-5 * (np.eye(4)[i] - np.eye(4)[0])
            rise = (utility(state, a + step) - utility(state, a - step)) / 2e-5
            assert got[i] - got[0] == pytest.approx(rise, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("support", ["binary", "finite", "interval"])
@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.Quadratic(0.5)], ids=repr)
def test_slopes_in_the_bands_are_those_of_the_optimistic_value(metric: Any, support: str) -> None:
    policy, _ = taught(metric, support, 4, 4000 if support != "interval" else 1500)
    state = up_to_date(policy)
    rng = np.random.default_rng(1)
    for _ in range(3):
        a = rng.dirichlet(np.ones(4))
        got = np.empty(4)
        fill_optimistic_gradient(state, a, np.zeros(4), 1e-8, got)
        for i in range(1, 4):
            step = 1e-6 * (np.eye(4)[i] - np.eye(4)[0])
            up = utility_bound(state, a + step, OPTIMISTIC) - utility_bound(state, a - step, OPTIMISTIC)
            assert got[i] - got[0] == pytest.approx(up / 2e-6, rel=1e-3, abs=1e-5)


def test_the_most_that_slopes_promise_is_the_value_of_a_linear_program() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        k = int(rng.integers(2, 7))
        low, high = rng.random(k) * 0.5 / k, 0.5 / k + rng.random(k)
        a = opt.linprog(rng.normal(size=k), A_eq=np.ones((1, k)), b_eq=[1], bounds=list(zip(low, high, strict=True)))
        if a.status:
            continue
        g = rng.normal(size=k)
        best = opt.linprog(-g, A_eq=np.ones((1, k)), b_eq=[1], bounds=list(zip(low, high, strict=True)))
        assert frank_wolfe_gap(g, a.x, low, high, np.empty(0, int)) == pytest.approx(-best.fun - g @ a.x, abs=1e-9)


# ---- the paper's policies without a grid -----------------------------------------------------------------
@pytest.mark.parametrize("support", ["binary", "finite", "interval", "real"])
@pytest.mark.parametrize("cls", [pmb.PMUCB, pmb.CEUCB])
def test_the_continuous_search_beats_every_point_of_a_grid(cls: Any, support: str) -> None:
    policy, _ = taught(GINI, support, 3, 900, cls=cls, horizon=1000, epsilon=0.1, search="continuous")
    state = up_to_date(policy)
    far = np.array([wasserstein_radius(state, i) for i in range(3)])
    value = holder_bonus_value if cls is pmb.CEUCB else optimistic_mixture_value
    mine = policy.mixture
    assert mine.min() >= 0.05 - 1e-12 and mine.sum() == pytest.approx(1)
    spread = 8.0 if support == "real" else 2.0
    best = max(value(state, np.ascontiguousarray(a), far) for a in pmb.ucb_grid(3, 0.1))
    assert value(state, mine, far) >= best - 0.01 * spread * 0.25 / 30


def test_the_grid_gives_way_when_it_would_be_too_large() -> None:
    few = pmb.PMUCB(GINI, n_arms=3, support=pmb.Binary(), horizon=10_000)
    many = pmb.PMUCB(GINI, n_arms=40, support=pmb.Binary(), horizon=100_000, epsilon=0.01)
    assert few._memory.n_grid > 0 and many._memory.n_grid == 0
    assert pmb.CIRT(GINI, n_arms=30, support=pmb.Binary()).ask() == 0
    with pytest.raises(ValueError, match="neither concave nor convex"):
        pmb.PMUCB(pmb.InvertedS(0.5), n_arms=3, support=pmb.Binary(), horizon=1000, search="continuous")
    with pytest.raises(ValueError, match="more than 200,000"):
        pmb.CIRT(pmb.InvertedS(0.5), n_arms=30, support=pmb.Binary())
    with pytest.raises(ValueError, match="literal"):
        pmb.CIRT(GINI, n_arms=3, support=pmb.Binary(), stopping="literal", search="continuous")
    with pytest.raises(ValueError, match="unknown search"):
        pmb.PMETC(horizon=100, search="everywhere")


@pytest.mark.parametrize("n_arms", [2, 3, 7, 50, 100, 300])
@pytest.mark.parametrize("make", [pmb.PMUCB, pmb.CEUCB, pmb.PMETC])
def test_default_grids_have_something_to_choose_from_at_any_number_of_arms(make: type, n_arms: int) -> None:
    policy = make(GINI, n_arms=n_arms, support=pmb.Binary(), horizon=60_000, search="grid")
    assert n_arms <= policy._memory.n_grid <= 50_000


@pytest.mark.parametrize("metric", [GINI, pmb.LowerCVaR(0.5)], ids=repr)
def test_continuous_policies_learn(metric: Any) -> None:
    bandit = pmb.Bandit.bernoulli([0.1, 0.2, 0.9])
    recipes = [
        pmb.PMETC(horizon=20_000, epsilon=0.1, search="continuous"),
        pmb.PMUCB(horizon=20_000, epsilon=0.05, search="continuous"),
        pmb.CEUCB(horizon=20_000, epsilon=0.05, search="continuous"),
        pmb.CIRT(search="continuous"),
        pmb.FixedGrid(epsilon=0.2, search="continuous"),
        pmb.Uniform(),
    ]
    run = pmb.simulate(metric, bandit, recipes, horizon=20_000, trials=8, seed=3, progress=False)
    uniform = final_regret(run, "Uniform")
    for name in ("PMETC", "PMUCB", "CIRT", "FixedGrid"):
        assert final_regret(run, name) < 0.35 * uniform, name


def test_cirt_without_a_grid_ends_its_phases_and_tracks() -> None:
    rng = np.random.default_rng(0)
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=0.25, search="continuous", tolerance=0.004)
    for _ in range(20_000):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.4, 0.9)[arm]))
    assert policy.phase == "track" and list(policy.phase_ends) == sorted(policy.phase_ends)
    assert policy.mixture == pytest.approx([0.8, 0.2], abs=0.08)


def limits_of(kind: str, rng: np.random.Generator) -> tuple[list[str], str]:
    """Arms, and limits with 81, some hundreds and some hundreds of corners."""
    groups = [[f"g{i}x{j}" for j in range(3)] for i in range(4)]
    names = [name for group in groups for name in group]
    if kind == "single arms":
        return names[:10], "; ".join(f"{name} <= {rng.uniform(0.15, 0.4):.3f}" for name in names[:10])
    totals = rng.dirichlet(np.full(4, 3.0))
    sign, factor = ("=", 1.0) if kind == "equalities" else ("<=", 1.5)
    rows = list(zip(groups, totals, strict=True))[: 3 if kind == "equalities" else 4]
    return names, "; ".join(f"{' + '.join(g)} {sign} {min(factor * w, 1.0):.6f}" for g, w in rows)


@pytest.mark.parametrize("metric", ["lower_cvar(0.3)", "wang_transform(-0.8)"])
@pytest.mark.parametrize("kind", ["equalities", "groups", "single arms"])
def test_a_search_among_corners_finds_the_best_of_all_corners(
    kind: str, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    for _ in range(4):
        names, shares = limits_of(kind, rng)
        rewards = {name: rng.beta(*rng.uniform(0.3, 4.0, 2), 30).round(2) for name in names}
        utilities = []
        for most in (512, 5):
            monkeypatch.setattr("pmbandits.engine.share_constraints.MAX_CORNERS", most)
            policy = pmb.Track(metric, n_arms=len(names), names=names, support=pmb.Interval(0, 1), shares=shares)
            for name in names:
                for reward in rewards[name]:
                    policy.tell(name, float(reward))
            policy.ask()
            bandit = pmb.Bandit.from_samples(rewards)
            utilities.append(pmb.utility(metric, bandit, np.asarray(policy.mixture) / np.sum(policy.mixture)))
        assert utilities[1] == pytest.approx(utilities[0], rel=1e-9)


@pytest.mark.parametrize("make", [pmb.Track, pmb.Vet])
def test_thirteen_groups_of_two_arms_are_served(make: Any) -> None:
    """Their 8,192 corners are not listed. The oracle finds the best one of a lower CVaR exactly, in another way."""
    names = [f"g{i}x{j}" for i in range(13) for j in range(2)]
    shares = "; ".join(f"g{i}x0 + g{i}x1 = {1.0 / 13.0!r}" for i in range(12))
    rng = np.random.default_rng(3)
    rewards = {name: rng.beta(*rng.uniform(0.3, 4.0, 2), 30).round(2) for name in names}
    policy = make("lower_cvar(0.3)", n_arms=26, names=names, support=pmb.Interval(0, 1), shares=shares)
    for name in names:
        for reward in rewards[name]:
            policy.tell(name, float(reward))
    policy.ask()
    best = pmb.oracle("lower_cvar(0.3)", pmb.Bandit.from_samples(rewards), shares=shares)
    mixture = np.asarray(policy.mixture)
    assert best.gap <= 1e-9
    found = pmb.utility("lower_cvar(0.3)", pmb.Bandit.from_samples(rewards), mixture / mixture.sum())
    assert found == pytest.approx(best.value, rel=1e-3 if make is pmb.Vet else 1e-9)  # Vet's table has 256 cells


# ---- where concave h is flat on top ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("metric", "first", "last"),
    [
        (pmb.InterESRange(0.8), 0.2, 0.8),
        (pmb.UpperCVaR(0.35), 0.65, 1.0),
        (pmb.UpperCVaR(0.35) + 0.5 * pmb.InterESRange(0.7), 0.65, 0.7),
        (pmb.GiniDeviation(), 0.5, 0.5),
        (pmb.Mean(), 1.0, 1.0),
    ],
    ids=str,
)
def test_a_best_mean_is_moved_into_the_middle_half_of_a_flat_top(
    metric: pmb.Distortion, first: float, last: float
) -> None:
    rng, h = np.random.default_rng(0), encode_metric(metric)
    for _ in range(300):
        low, high = np.sort(rng.random(2))
        mean = nearest_best_mean(h, low, high, float(rng.uniform(low, high)))
        found = mean_inside_flat_top(h, low, high, mean)
        assert low <= found <= high
        assert h_value(h, found) >= h_value(h, mean) - 1e-12
        if high < first or low > last or first == last:
            assert found == mean  # nothing is flat between the arms
        else:
            quarter = 0.25 * (last - first)
            least, most = first + quarter, last - quarter if last < 1.0 else 1.0
            inside = np.clip(found, least, most)
            assert abs(found - inside) <= abs(np.clip(inside, low, high) - inside) + 1e-12
            if least <= mean <= most:
                assert found == mean  # it is there already
