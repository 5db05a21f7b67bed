"""Track, and the search over all mixtures: against the oracle, convex and linear programs, finite differences and a
plain rule for the pulls."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize as opt
import scipy.stats as stats

import pmbandits as pmb
from pmbandits.policies import _search as search
from pmbandits.policies import _state as st
from pmbandits.policies.base import Policy

GINI = pmb.GiniDeviation()
CONCAVE = [
    GINI,
    pmb.WangRightTail(),
    pmb.Quadratic(0.5),
    pmb.CVaR(0.8),
    pmb.InterESRange(0.5),
    pmb.PHT(0.5),
    pmb.MeanMedianDeviation(),
    pmb.Mean(),
    0.5 * pmb.Mean() + GINI,
    pmb.Distortion.from_function(lambda u: u**0.7 - u, name="mine"),
]
SUPPORTS: dict[str, tuple[pmb.Support, Any]] = {
    "binary": (pmb.Binary(), lambda rng, i: float(rng.random() < 0.15 + 0.3 * (i % 3))),
    "finite": (pmb.Finite([0.0, 0.5, 2.0]), lambda rng, i: float(rng.choice([0.0, 0.5, 2.0], p=LAWS[i % 3]))),
    "interval": (pmb.Interval(0, 1), lambda rng, i: float(rng.beta(*SHAPES[i % 5]))),
    "real": (pmb.Real(1.0), lambda rng, i: float(rng.normal(2.0 * (i % 3), 1.0 + 0.3 * i))),
}
LAWS = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]]
SHAPES = [(1, 3), (3, 1), (2, 2), (0.5, 0.5), (5, 2)]


def taught(metric: Any, support: str, n_arms: int, n: int, seed: int = 0, cls: Any = pmb.Track, **options: Any) -> Any:
    """A policy that was told n rewards, and the rewards by arm."""
    rng = np.random.default_rng(seed)
    declared, law = SUPPORTS[support]
    policy = cls(metric, n_arms=n_arms, support=declared, **options)
    arms = np.concatenate((np.arange(n_arms), rng.integers(0, n_arms, n - n_arms)))
    rewards = np.array([law(rng, i) for i in arms])
    policy.tell(arms.tolist(), rewards.tolist())
    return policy, {str(i): rewards[arms == i] for i in range(n_arms)}


def final(run: Any, policy: str) -> float:
    """Mean regret at the end."""
    return float(run.regret(policy)[1][:, -1].mean())


def whole(policy: Policy) -> tuple[Any, Any]:
    """A copy of its state with the radii up to date."""
    twin = policy._twin()
    st.bounds(twin._ints, twin._floats, np.full(policy.n_arms, 1 / policy.n_arms))
    return twin._ints, twin._floats


# ---- the solver ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", CONCAVE, ids=repr)
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_mixture_is_the_oracles(metric: Any, support: str) -> None:
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
    state = whole(policy)
    rng = np.random.default_rng(1)
    for _ in range(3):
        a = rng.dirichlet(np.ones(4))
        got = np.empty(4)
        search.empirical_slopes(state, a, 1e-7, got)
        for i in range(1, 4):
            step = 1e-5 * (np.eye(4)[i] - np.eye(4)[0])
            rise = (st.utility(state, a + step) - st.utility(state, a - step)) / 2e-5
            assert got[i] - got[0] == pytest.approx(rise, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("support", ["binary", "finite", "interval"])
@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.Quadratic(0.5)], ids=repr)
def test_slopes_in_the_bands_are_those_of_the_optimistic_value(metric: Any, support: str) -> None:
    policy, _ = taught(metric, support, 4, 4000 if support != "interval" else 1500)
    state = whole(policy)
    rng = np.random.default_rng(1)
    for _ in range(3):
        a = rng.dirichlet(np.ones(4))
        got = np.empty(4)
        search.band_slopes(state, a, 1e-8, got)
        for i in range(1, 4):
            step = 1e-6 * (np.eye(4)[i] - np.eye(4)[0])
            up = st.bound(state, a + step, st.OPTIMISTIC) - st.bound(state, a - step, st.OPTIMISTIC)
            assert got[i] - got[0] == pytest.approx(up / 2e-6, rel=1e-3, abs=1e-5)


def test_how_far_a_slope_leads_is_a_linear_program() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        k = int(rng.integers(2, 7))
        low, high = rng.random(k) * 0.5 / k, 0.5 / k + rng.random(k)
        a = opt.linprog(rng.normal(size=k), A_eq=np.ones((1, k)), b_eq=[1], bounds=list(zip(low, high, strict=True)))
        if a.status:
            continue
        g = rng.normal(size=k)
        best = opt.linprog(-g, A_eq=np.ones((1, k)), b_eq=[1], bounds=list(zip(low, high, strict=True)))
        assert search.most_ahead(g, a.x, low, high) == pytest.approx(-best.fun - g @ a.x, abs=1e-9)


# ---- playing ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("support", SUPPORTS)
def test_pulls_follow_the_rule(support: str) -> None:
    """An arm with at most ⌈√(t/K)⌉ pulls, the fewest first; else the one furthest behind its share."""
    declared, law = SUPPORTS[support]
    policy = pmb.Track(GINI, n_arms=3, support=declared)
    rng = np.random.default_rng(0)
    for t in range(400):
        pulls, mixture = policy.pulls, policy.mixture
        fewest = int(np.argmin(pulls))
        behind = t * mixture - pulls
        wanted = (
            fewest if pulls[fewest] <= math.ceil(math.sqrt(t / 3)) else int(np.argmax(behind > behind.max() - 1e-9))
        )
        arm = policy.ask()
        assert arm == wanted
        policy.tell(arm, law(rng, arm))


def test_bernoulli_arms_by_hand() -> None:
    """The closed form beside its plain description: h(mean) is best nearest to the mean being played."""
    metrics = [GINI, pmb.WangRightTail(), pmb.InterESRange(0.4), pmb.CVaR(0.7), pmb.LowerCVaR(0.4), pmb.InvertedS(0.6)]
    grid = np.linspace(0, 1, 4001)
    for seed, metric in enumerate(metrics):
        for n_arms in (2, 4):
            policy, data = taught(metric, "binary", n_arms, 40 + 7 * seed, seed=seed)
            p = np.array([x.mean() for x in data.values()])
            mean = float(policy.mixture @ p)
            inside = grid[(grid >= p.min()) & (grid <= p.max())]
            top = max(float(np.max(metric(inside))), *(float(metric(q)) for q in (p.min(), p.max())))
            assert float(metric(mean)) >= top - 1e-6
            again = policy.mixture  # nothing new: it stays
            policy._update(policy._ints, policy._floats)
            assert policy.mixture.tolist() == again.tolist()


def test_tied_mixtures_are_not_left() -> None:
    """Three Bernoulli arms: many mixtures have the best mean, and rewards that keep it best move nothing."""
    policy = pmb.Track(GINI, n_arms=3, support=pmb.Binary())
    policy.tell([0, 1, 2] * 2, [0, 0, 1, 0, 1, 1])  # means 0, ½, 1: the even mixture is best already
    assert policy.mixture.tolist() == [1 / 3] * 3
    for _ in range(5):
        policy.tell([0, 2], [0.0, 1.0])
    assert policy.mixture.tolist() == [1 / 3] * 3


def test_equal_arms_keep_the_even_mixture() -> None:
    policy = pmb.Track(GINI, n_arms=3, support=pmb.Interval(0, 1))
    policy.tell([0, 1, 2] * 4, np.repeat([0.1, 0.4, 0.5, 0.9], 3).tolist())
    assert policy.mixture == pytest.approx([1 / 3] * 3)


def test_regret_is_what_the_notes_measured() -> None:
    run = pmb.simulate(pmb.Bandit.bernoulli([0.4, 0.9]), GINI, [pmb.Track()], horizon=60_000, trials=40, seed=5,
                       progress=False)  # fmt: skip
    assert final(run, "Track") <= 1e-5


def test_simulate_and_ask_tell_agree_and_a_restart_changes_nothing(tmp_path: Any) -> None:
    for support in ("interval", "real"):
        declared, law = SUPPORTS[support]
        one = pmb.Track(pmb.WangRightTail() if support == "interval" else GINI, n_arms=3, support=declared)
        two = one.bind(one.metric, 3, declared)
        rng, same = np.random.default_rng(1), np.random.default_rng(1)
        for t in range(300):
            a, b = one.ask(), two.ask()
            assert a == b
            if t % 7:  # some rewards never come
                one.tell(a, law(rng, a))
                two.tell(b, law(same, b))
            if t % 50 == 49:
                two.save(tmp_path / "track.pmb")
                two = pmb.load(tmp_path / "track.pmb")
                one.mixture  # noqa: B018  reading must not matter


# ---- certainty -------------------------------------------------------------------------------------------
def banded(policy: Any, data: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Cells of [0, 1] with each arm's lowest and highest survival, from the data alone."""
    cuts = np.unique(np.concatenate(([0.0, 1.0], *data.values())))
    width, low, high = np.diff(cuts), [], []
    for x in data.values():
        share = np.array([(x > c).mean() for c in cuts[:-1]])
        r = float(policy.confidence.radius(len(x)))
        low.append(np.maximum(share - r, 0))
        high.append(np.minimum(share + r, 1))
    return width, np.array(low), np.array(high)


def test_no_mixture_is_worth_more_than_the_rival() -> None:
    policy, data = taught(GINI, "interval", 3, 900)
    width, low, high = banded(policy, data)
    a, u = cp.Variable(3, nonneg=True), cp.Variable(width.size)
    problem = cp.Problem(
        cp.Maximize(width @ u - cp.sum(cp.multiply(width, cp.square(u)))), [cp.sum(a) == 1, u >= a @ low, u <= a @ high]
    )
    problem.solve(solver=cp.CLARABEL)
    sure = policy.certainty()
    assert sure.rival == pytest.approx(problem.value, abs=2e-4)
    assert sure.rival >= problem.value - 1e-7
    assert sure.lower <= sure.utility <= sure.upper <= sure.rival
    assert sure.regret == sure.rival - sure.lower


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("metric", [GINI, pmb.LowerCVaR(0.3), pmb.InvertedS(0.7), pmb.MeanMedianDeviation()], ids=repr)
def test_the_rival_bounds_random_mixtures(metric: Any, support: str) -> None:
    if support == "real" and isinstance(metric, pmb.InvertedS):
        policy, _ = taught(metric, support, 3, 60)
        with pytest.raises(ValueError, match="no confidence sets"):
            policy.certainty()
        return
    policy, _ = taught(metric, support, 3, 800)
    sure = policy.certainty()
    rng = np.random.default_rng(0)
    for a in [*rng.dirichlet(np.ones(3) * 0.5, 40), *np.eye(3)]:
        assert policy.utility_bounds(a)[2] <= sure.rival + 1e-9


def test_the_regret_bound_holds_and_shrinks() -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    rng = np.random.default_rng(2)
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary())
    bounds = []
    for t in range(1, 4001):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.4, 0.9)[arm]))
        if t in (10, 100, 1000, 4000):
            sure = policy.certainty()
            regret = 0.25 - pmb.utility(GINI, bandit, policy.mixture)
            assert regret <= sure.regret
            bounds.append(sure.regret)
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] < 0.05


# ---- the paper's policies without a grid -----------------------------------------------------------------
@pytest.mark.parametrize("support", ["binary", "finite", "interval", "real"])
@pytest.mark.parametrize("cls", [pmb.PMUCB, pmb.CEUCB])
def test_the_continuous_search_beats_every_point_of_a_grid(cls: Any, support: str) -> None:
    policy, _ = taught(GINI, support, 3, 900, cls=cls, horizon=1000, epsilon=0.1, search="continuous")
    state = whole(policy)
    far = np.array([st.wasserstein_radius(state, i) for i in range(3)])
    kind = search.BONUS if cls is pmb.CEUCB else search.BANDS
    mine = policy.mixture
    assert mine.min() >= 0.05 - 1e-12 and mine.sum() == pytest.approx(1)
    spread = 8.0 if support == "real" else 2.0
    best = max(search.index_of(state, np.ascontiguousarray(a), kind, far) for a in pmb.ucb_grid(3, 0.1))
    assert search.index_of(state, mine, kind, far) >= best - 0.01 * spread * 0.25 / 30


def test_the_grid_gives_way_when_it_would_be_too_large() -> None:
    few = pmb.PMUCB(GINI, n_arms=3, support=pmb.Binary(), horizon=10_000)
    many = pmb.PMUCB(GINI, n_arms=40, support=pmb.Binary(), horizon=100_000, epsilon=0.01)
    assert few._ints[st.GRID] > 0 and many._ints[st.GRID] == 0
    assert pmb.CIRT(GINI, n_arms=30, support=pmb.Binary()).ask() == 0
    with pytest.raises(ValueError, match="neither concave nor convex"):
        pmb.PMUCB(pmb.InvertedS(0.5), n_arms=3, support=pmb.Binary(), horizon=1000, search="continuous")
    with pytest.raises(ValueError, match="more than 200,000"):
        pmb.CIRT(pmb.InvertedS(0.5), n_arms=30, support=pmb.Binary())
    with pytest.raises(ValueError, match="literal"):
        pmb.CIRT(GINI, n_arms=3, support=pmb.Binary(), stopping="literal", search="continuous")
    with pytest.raises(ValueError, match="unknown search"):
        pmb.PMETC(horizon=100, search="everywhere")


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
    run = pmb.simulate(bandit, metric, recipes, horizon=20_000, trials=8, seed=3, progress=False)
    uniform = final(run, "Uniform")
    for name in ("PMETC", "PMUCB", "CIRT", "FixedGrid"):
        assert final(run, name) < 0.35 * uniform, name


def test_cirt_without_a_grid_ends_its_phases_and_tracks() -> None:
    rng = np.random.default_rng(0)
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=0.25, search="continuous", tolerance=0.01)
    for _ in range(20_000):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.4, 0.9)[arm]))
    assert policy.phase == "track" and list(policy.phase_ends) == sorted(policy.phase_ends)
    assert policy.mixture == pytest.approx([0.8, 0.2], abs=0.08)


def test_many_arms_in_one_picture() -> None:
    """Twenty arms: Track closes most of the gap from uniform to the best mixture."""
    rng = np.random.default_rng(0)
    laws = [stats.beta(*rng.uniform(0.5, 5, 2)) for _ in range(20)]
    bandit = pmb.Bandit.from_samples({str(i): law.rvs(200, random_state=rng) for i, law in enumerate(laws)})
    run = pmb.simulate(bandit, GINI, [pmb.Track(), pmb.Uniform()], horizon=20_000, trials=2, seed=0, progress=False)
    track, uniform = (final(run, name) for name in ("Track", "Uniform"))
    assert track < 0.15 * uniform
