"""Supports, bandits, the utility of mixtures, the Wasserstein constant, and the discrete simplexes."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as hs

from pmbandits.arms import Bandit, utility, wasserstein_constant
from pmbandits.metrics import CVaR, GiniDeviation, Mean
from pmbandits.mixtures.grids import LARGEST_GRID, etc_grid, grid_size, ucb_grid
from pmbandits.supports import Binary, Finite, Interval, Real, Support
from tests.reference.choquet import choquet_loop
from tests.strategies import METRICS, label


def name_of(x):
    if hasattr(x, "dist"):
        return f"{x.dist.name}{x.args}{x.kwds or ''}".replace(" ", "")
    if isinstance(x, list):
        return "+".join(str(name_of(item)) for item in x)
    return "values" if hasattr(x, "xk") else str(x)


SUPPORTS = [Binary(), Finite([0, 0.5, 2]), Finite([-1.5, 3]), Interval(-1, 2.5), Real(), Real(sigma=0.3)]


# ---- supports ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("support", SUPPORTS, ids=repr)
def test_a_support_survives_json(support):
    again = Support.from_dict(json.loads(json.dumps(support.to_dict())))
    assert again == support
    assert type(again) is type(support)
    assert hash(again) == hash(support)


@pytest.mark.parametrize(
    ("support", "inside", "outside"),
    [
        (Binary(), [0, 1, 1.0], [0.5, -1, 2, np.nan, np.inf]),
        (Finite([0, 0.5, 2]), [0, 0.5, 2], [0.25, 3, -0.5, np.nan]),
        (Interval(-1, 2.5), [-1, 0, 2.5], [-1.01, 2.51, np.inf, np.nan]),
        (Real(), [-1e300, 0, 1e300], [np.inf, -np.inf, np.nan]),
    ],
    ids=repr,
)
def test_contains_and_check_agree_on_what_may_occur(support, inside, outside):
    assert support.contains(inside).tolist() == [True] * len(inside)
    assert support.contains(outside).tolist() == [False] * len(outside)
    assert support.check(inside).tolist() == inside
    for bad in outside:
        with pytest.raises(ValueError, match=r"outside the declared support|must be finite"):
            support.check([inside[0], bad])


def test_check_names_the_first_reward_outside():
    with pytest.raises(ValueError, match=r"reward 1\.5 lies outside the declared support Interval\(lo=0\.0, hi=1\.0\)"):
        Interval(0, 1).check([0.5, 1.5, -7])


@pytest.mark.parametrize(
    ("support", "lo", "hi", "width"),
    [
        (Binary(), 0, 1, 1),
        (Finite([2, 0, 0.5]), 0, 2, 2),
        (Interval(-1, 2), -1, 2, 3),
        (Real(2), -np.inf, np.inf, np.inf),
    ],
    ids=repr,
)
def test_bounds_and_width(support, lo, hi, width):
    assert (support.lo, support.hi, support.width) == (lo, hi, width)


def test_finite_atoms_are_sorted_and_distinct():
    assert Finite([3, 1, 3, 2]).atoms.tolist() == [1, 2, 3]
    assert Finite([1, 2]) == Finite([2, 1, 1])
    assert Finite([1, 2]) != Finite([1, 3])
    assert Finite([0, 1]) != Binary()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Interval(1, 1), ValueError, "lo < hi"),
        (lambda: Interval(2, 1), ValueError, "lo < hi"),
        (lambda: Interval(0, np.inf), ValueError, "hi must be a finite number"),
        (lambda: Interval(np.nan, 1), ValueError, "lo must be a finite number"),
        (lambda: Interval("0", 1), TypeError, "lo must be a number"),
        (lambda: Finite([]), ValueError, "is empty"),
        (lambda: Finite([1]), ValueError, "at least 2"),
        (lambda: Finite([1, 1]), ValueError, "two different atoms"),
        (lambda: Finite([0, np.nan]), ValueError, "must be finite"),
        (lambda: Real(0), ValueError, "sigma must lie in"),
        (lambda: Real(-1), ValueError, "sigma must lie in"),
        (lambda: Real(np.inf), ValueError, "sigma must be a finite number"),
        (lambda: Support.from_dict({"kind": "intervall"}), ValueError, "Did you mean 'interval'"),
        (lambda: Support.from_dict({}), ValueError, "unknown support None"),
        (lambda: Support.from_dict({"kind": "interval", "lo": 0}), ValueError, "support 'interval'.*hi"),
        (lambda: Support.from_dict({"kind": "real", "scale": 1}), ValueError, "support 'real'.*scale"),
    ],
)
def test_bad_supports_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


# ---- bandits -----------------------------------------------------------------------------------------------
def test_bernoulli_arms():
    bandit = Bandit.bernoulli([0.4, 0.9, 0.0, 1.0])
    assert bandit.n_arms == len(bandit) == 4
    assert bandit.names == ("arm 0", "arm 1", "arm 2", "arm 3")
    assert bandit.support == Binary()
    assert bandit.sample(2, 5, rng=0).tolist() == [0.0] * 5
    assert bandit.sample(3, 5, rng=0).tolist() == [1.0] * 5


def test_arms_from_samples_keep_their_names_and_values():
    bandit = Bandit.from_samples({"a": [0, 1, 1], "b": [2, 0, 5]})
    assert bandit.names == ("a", "b")
    assert bandit.support == Finite([0, 1, 2, 5])
    assert set(bandit.sample("b", 200, rng=0)) == {0.0, 2.0, 5.0}
    assert utility(Mean(), bandit, [1, 0]) == pytest.approx(2 / 3)
    assert Bandit.from_samples([[0, 1], [1, 1]]).names == ("arm 0", "arm 1")


def test_arms_are_found_by_position_and_by_name():
    bandit = Bandit([st.norm(1), st.norm(3)], names=["low", "high"])
    assert [bandit.index(arm) for arm in ("low", "high", 0, 1, np.int64(1))] == [0, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("arm", "error", "message"),
    [
        ("hihg", ValueError, "unknown arm 'hihg'. Did you mean 'high'"),
        (2, IndexError, "no arm 2; arms are numbered 0 to 1"),
        (-1, IndexError, "no arm -1"),
        (0.0, TypeError, "position or its name"),
        (True, TypeError, "position or its name"),
        (None, TypeError, "position or its name"),
    ],
)
def test_an_arm_that_does_not_exist_is_refused(arm, error, message):
    bandit = Bandit([st.norm(1), st.norm(3)], names=["low", "high"])
    with pytest.raises(error, match=message):
        bandit.index(arm)
    with pytest.raises(error, match=message):
        bandit.sample(arm)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Bandit([]), ValueError, "at least one arm"),
        (lambda: Bandit("norm"), ValueError, "at least one arm"),
        (lambda: Bandit(st.norm(0, 1)), ValueError, "at least one arm"),
        (lambda: Bandit({"a": [1, 2]}), ValueError, "list of scipy.stats distributions or samples"),
        (lambda: Bandit([st.norm]), TypeError, "(?i)arm 0 .*fr(ee|o)ze"),
        (lambda: Bandit([st.poisson]), TypeError, "(?i)arm 0 .*fr(ee|o)ze"),
        (lambda: Bandit([st.norm(0, -1)]), ValueError, "arm 0 has invalid parameters"),
        (lambda: Bandit([st.norm(), st.norm()], names=["a"]), ValueError, "1 names were given for 2 arms"),
        (
            lambda: Bandit([st.norm(), st.norm()], names=["a", "a"]),
            ValueError,
            "must differ, but 'a' occurs twice",
        ),
        (lambda: Bandit([[1, 2], [np.nan]]), ValueError, "the sample of arm 1 must be finite"),
        (lambda: Bandit.from_samples({"a": [1], "b": []}), ValueError, "the sample of b is empty"),
        (lambda: Bandit([["x"]]), TypeError, "the sample of arm 0 must be an array of numbers"),
        (lambda: Bandit.bernoulli([0.5, 1.2]), ValueError, r"mean of Bernoulli arm 1 must lie in \[0, 1\]"),
        (lambda: Bandit.bernoulli([-0.1]), ValueError, "mean of Bernoulli arm 0"),
        (lambda: Bandit.bernoulli([]), ValueError, "means is empty"),
        (lambda: Bandit.bernoulli([np.nan]), ValueError, "means must be finite"),
        (
            lambda: Bandit([st.norm()], support=Interval(0, 1)),
            ValueError,
            "arm 0.*outside the declared support",
        ),
        (lambda: Bandit([st.uniform(0, 2)], support=Interval(0, 1)), ValueError, "declare a wider support"),
        (lambda: Bandit([st.uniform(0, 1)], support=Binary()), ValueError, "outside the declared support"),
        (lambda: Bandit([[0, 0.5, 1]], support=Binary()), ValueError, "outside the declared support"),
        (lambda: Bandit([st.poisson(3)], support=Finite([0, 1])), ValueError, "outside the declared support"),
    ],
)
def test_bad_bandits_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("arms", "support"),
    [
        ([st.bernoulli(0.3), st.bernoulli(0.8)], Binary()),
        ([[0, 1, 1], [0, 0]], Binary()),
        ([st.binom(3, 0.5), [7.0]], Finite([0, 1, 2, 3, 7])),
        ([st.rv_discrete(values=([1, 4], [0.5, 0.5]))], Finite([1, 4])),
        ([st.uniform(0, 1), st.beta(2, 2, loc=-1)], Interval(-1, 1)),
        ([st.uniform(0, 1), [5.0]], Interval(0, 5)),
        ([st.norm(0, 1), st.norm(5, 3)], Real(3.0)),
        ([st.norm(0, 1), st.uniform(0, 10)], Real(5.0)),
        ([st.norm(0, 1), [-4.0, 4.0]], Real(4.0)),
        ([st.expon()], None),
        ([st.norm(), st.t(3)], None),
        ([st.poisson(3)], None),
    ],
    ids=name_of,
)
def test_the_support_is_inferred_where_that_is_possible(arms, support):
    assert Bandit(arms).support == support


def test_a_declared_support_that_is_wide_enough_is_kept():
    assert Bandit([st.uniform(0, 1)], support=Interval(-3, 3)).support == Interval(-3, 3)
    assert Bandit.bernoulli([0.5]).support == Binary()
    assert Bandit([[0, 1]], support=Interval(0, 1)).support == Interval(0, 1)
    assert Bandit([st.expon()], support=Real(2.0)).support == Real(2.0)


ARMS = {
    "norm": (st.norm(2, 3), 2.0, 3.0),
    "beta": (st.beta(2, 5), 2 / 7, np.sqrt(10 / (49 * 8))),
    "poisson": (st.poisson(3.7), 3.7, np.sqrt(3.7)),
    "bernoulli": (st.bernoulli(0.3), 0.3, np.sqrt(0.21)),
    "sample": ([1.0, 1.0, 4.0, -2.0], 1.0, np.sqrt(4.5)),
    "values": (st.rv_discrete(values=([-1, 3, 10], [0.5, 0.3, 0.2])), 2.4, np.sqrt(0.5 + 2.7 + 20 - 5.76)),
}


@pytest.mark.parametrize("name", ARMS)
def test_samples_are_reproducible_and_have_the_right_moments(name):
    arm, mean, deviation = ARMS[name]
    bandit = Bandit([arm])
    x = bandit.sample(0, 40_000, rng=3)
    assert x.shape == (40_000,)
    assert x.dtype == np.float64
    assert x.mean() == pytest.approx(mean, abs=4.5 * deviation / 200)
    assert x.std() == pytest.approx(deviation, rel=0.05)
    assert np.array_equal(x, bandit.sample(0, 40_000, rng=3))
    assert np.array_equal(x, bandit.sample("arm 0", 40_000, rng=np.random.default_rng(3)))
    assert not np.array_equal(x, bandit.sample(0, 40_000, rng=4))


def test_a_generator_advances_from_call_to_call():
    bandit, rng = Bandit([st.norm()]), np.random.default_rng(0)
    assert bandit.sample(0, 3, rng).tolist() != bandit.sample(0, 3, rng).tolist()


def test_an_empty_draw_and_a_bad_size():
    bandit = Bandit.bernoulli([0.5])
    assert bandit.sample(0, 0).shape == (0,)
    with pytest.raises(ValueError, match="size must be at least 0"):
        bandit.sample(0, -1)
    with pytest.raises(TypeError, match="size must be a whole number"):
        bandit.sample(0, 2.5)


def test_a_mixture_draws_arms_by_weight_and_rewards_from_them():
    bandit = Bandit([st.norm(-100), [0.0, 1.0], st.norm(100)])
    arms, x = bandit.sample_mixture([0.2, 0.5, 0.3], 20_000, rng=1)
    share = np.bincount(arms, minlength=3) / 20_000
    np.testing.assert_allclose(share, [0.2, 0.5, 0.3], atol=0.02)
    assert (x[arms == 0] < -90).all()
    assert set(x[arms == 1]) == {0.0, 1.0}
    assert (x[arms == 2] > 90).all()
    again = bandit.sample_mixture([0.2, 0.5, 0.3], 20_000, rng=1)
    assert np.array_equal(arms, again[0])
    assert np.array_equal(x, again[1])
    only, _ = bandit.sample_mixture([0, 1, 0], 50, rng=1)
    assert (only == 1).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5], "1 entries for 2 arms"),
        ([0.5, 0.6], "add up to 1"),
        ([1.5, -0.5], "must not be negative"),
        ([np.nan, 1], "weights must be finite"),
    ],
)
def test_bad_mixing_weights_are_refused(weights, message):
    bandit = Bandit.bernoulli([0.4, 0.9])
    with pytest.raises(ValueError, match=message):
        utility(GiniDeviation(), bandit, weights)
    with pytest.raises(ValueError, match=message):
        bandit.sample_mixture(weights)


@pytest.mark.parametrize(
    ("bandit", "text"),
    [
        (
            Bandit.bernoulli([0.4, 0.9]),
            "Bandit(arm 0: bernoulli(0.4), arm 1: bernoulli(0.9); support Binary())",
        ),
        (Bandit([st.expon()]), "Bandit(arm 0: expon(); support unknown)"),
    ],
)
def test_a_bandit_prints_its_arms_and_support(bandit, text):
    assert repr(bandit) == text


# ---- utility -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("m", METRICS, ids=label)
def test_utility_of_bernoulli_arms_is_h_of_the_mixed_mean(m):
    bandit = Bandit.bernoulli([0.41, 0.87, 0.03])
    a = np.array([0.3, 0.2, 0.5])
    assert utility(m, bandit, a) == pytest.approx(m(float(a @ [0.41, 0.87, 0.03])), abs=1e-14)


@pytest.mark.parametrize("m", [m for m in METRICS if not m.jumps], ids=label)
def test_utility_of_logged_arms_matches_a_plain_loop_over_the_pooled_points(m):
    logs = [[0.0, 1.0, 1.0, -3.0], [2.0, 0.0, 5.0], [7.5]]
    a = [0.3, 0.6, 0.1]
    points = [x for log in logs for x in log]
    mass = [w / len(log) for w, log in zip(a, logs, strict=True) for _ in log]
    expected = choquet_loop(lambda u: m(min(u, 1.0)), points, mass)
    assert utility(m, Bandit.from_samples(logs), a) == pytest.approx(expected, abs=1e-12)


def test_utility_of_gaussian_arms_one_three_five():
    bandit = Bandit([st.norm(1), st.norm(3), st.norm(5)])
    assert utility(GiniDeviation(), bandit, [0.5, 0, 0.5]) == pytest.approx(1.282584, abs=5e-7)
    for vertex in np.eye(3):
        assert utility(GiniDeviation(), bandit, vertex) == pytest.approx(1 / np.sqrt(np.pi), rel=1e-12)


def test_utility_agrees_with_the_value_of_a_large_draw():
    bandit = Bandit([st.norm(0), st.expon(), [0.0, 3.0]])
    a = [0.3, 0.3, 0.4]
    _, x = bandit.sample_mixture(a, 200_000, rng=5)
    for m in (Mean(), GiniDeviation(), CVaR(0.9)):
        assert utility(m, bandit, a) == pytest.approx(m.value(x), abs=0.03)


# ---- the Wasserstein constant ------------------------------------------------------------------------------
@settings(deadline=None, max_examples=50)
@given(hs.lists(hs.lists(hs.integers(-20, 20), min_size=1, max_size=6), min_size=1, max_size=4))
def test_w_of_logged_arms_is_half_the_largest_scipy_distance(logs):
    pairs = [st.wasserstein_distance(a, b) for a, b in combinations(logs, 2)]
    got = wasserstein_constant(Bandit.from_samples(logs))
    assert got == pytest.approx(0.5 * max(pairs, default=0.0), abs=1e-12)


@pytest.mark.parametrize(
    ("arms", "distance"),
    [
        ([st.norm(1), st.norm(4.5)], 3.5),
        ([st.norm(1), st.norm(3), st.norm(-2)], 5.0),
        ([st.norm(0, 1), st.norm(0, 3)], 2 * np.sqrt(2 / np.pi)),
        ([st.norm(5, 1), st.norm(5, 1)], 0.0),
        ([st.norm(5, 1)], 0.0),
        ([st.uniform(0, 1), st.uniform(0, 3)], 1.0),
        ([st.uniform(0, 1), st.uniform(-1, 3)], 0.5),
        ([st.expon(), st.expon(scale=3)], 2.0),
        ([st.expon(), [0.0]], 1.0),
        ([st.uniform(0, 1), [0.5]], 0.25),
        ([st.uniform(0, 1), [0.0, 1.0]], 0.25),
        ([st.poisson(3), st.poisson(5)], 2.0),
        ([st.geom(0.5), st.geom(0.1)], 8.0),
        ([st.bernoulli(0.4), st.bernoulli(0.9)], 0.5),
        ([st.pareto(3), st.pareto(2)], 0.5),
        ([st.t(3), st.t(3, loc=2)], 2.0),
        ([st.cauchy(0), st.cauchy(1)], 1.0),
    ],
    ids=name_of,
)
def test_w_of_known_arms(arms, distance):
    assert wasserstein_constant(Bandit(arms)) == pytest.approx(0.5 * distance, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("first", "second"), [((0, 1), (0.3, 3)), ((0, 1), (2, 1.1)), ((-4, 0.2), (1, 5))])
def test_w_of_normals_whose_curves_cross_is_half_the_mean_of_a_folded_normal(first, second):
    # W1 couples quantiles: |μ + σZ| with the differences of the means and of the deviations
    mu, sigma = second[0] - first[0], abs(second[1] - first[1])
    folded = sigma * np.sqrt(2 / np.pi) * np.exp(-(mu**2) / (2 * sigma**2)) + mu * (1 - 2 * st.norm.cdf(-mu / sigma))
    got = wasserstein_constant(Bandit([st.norm(*first), st.norm(*second)]))
    assert got == pytest.approx(0.5 * folded, rel=1e-9)


def test_w_is_infinite_only_with_an_error_that_names_the_tail():
    with pytest.raises(ValueError, match=r"Wasserstein distance of .* is infinite: the upper tail diverges"):
        wasserstein_constant(Bandit([st.norm(), st.pareto(1)]))


@settings(deadline=None, max_examples=15)
@given(hs.lists(hs.tuples(hs.floats(0.01, 1), hs.floats(0.01, 1), hs.floats(0, 1)), min_size=2, max_size=5))
def test_w_of_arms_that_are_sub_gaussian_around_zero_is_at_most_root_two_pi(parts):
    # mean 0 on [−1, 1]: 1-sub-Gaussian by Hoeffding's lemma
    arms = [st.norm(0, 1), st.uniform(-1, 2)]
    for low, high, centre in parts:
        p = (1 - centre) * np.array([high, 0.0, low]) / (low + high) + centre * np.array([0.0, 1.0, 0.0])
        arms.append(st.rv_discrete(values=([-low, 0.0, high], p / p.sum())))
    assert wasserstein_constant(Bandit(arms)) <= np.sqrt(2 * np.pi)


@settings(deadline=None, max_examples=40)
@given(hs.data())
def test_w_bounds_the_distance_of_mixtures_by_that_of_their_weights(data):
    rng = np.random.default_rng(data.draw(hs.integers(0, 2**32 - 1)))
    x = np.arange(6.0)
    laws = rng.dirichlet(np.ones(6), 3)
    w = wasserstein_constant(Bandit([st.rv_discrete(values=(x, p)) for p in laws]))
    a, b = rng.dirichlet(np.ones(3), 2)
    assert st.wasserstein_distance(x, x, a @ laws, b @ laws) <= w * np.abs(a - b).sum() + 1e-12


# ---- grids -------------------------------------------------------------------------------------------------
CASES = [
    (1, 0.3),
    (2, 0.5),
    (2, 0.1),
    (3, 0.1),
    (4, 0.25),
    (3, 0.3),
    (2, 0.07),
    (5, 0.37),
    (2, 1.0),
    (3, 1 / 7),
]


@pytest.mark.parametrize(("k", "epsilon"), CASES)
@pytest.mark.parametrize("kind", ["etc", "ucb"])
def test_grids_are_distinct_weights_as_many_as_grid_size(k, epsilon, kind):
    grid = (etc_grid if kind == "etc" else ucb_grid)(k, epsilon)
    assert grid.shape == (grid_size(k, epsilon, kind), k)
    np.testing.assert_allclose(grid.sum(axis=1), 1.0, atol=1e-14)
    assert (grid >= 0).all()
    assert len({tuple(row) for row in grid.round(9)}) == len(grid)


@pytest.mark.parametrize(("k", "n"), [(1, 5), (2, 7), (3, 10), (4, 6), (5, 3)])
def test_the_etc_grid_holds_exactly_the_multiples_of_epsilon_that_sum_to_one(k, n):
    expected = {c for c in product(range(n + 1), repeat=k) if sum(c) == n}
    grid = etc_grid(k, 1 / n)
    counts = grid * n
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert {tuple(row) for row in counts.round().astype(int)} == expected
    assert len(grid) == comb(n + k - 1, k - 1)


@pytest.mark.parametrize(("k", "n"), [(2, 7), (2, 6), (4, 6), (4, 9), (6, 5)])
def test_the_ucb_grid_holds_exactly_the_half_shifted_multiples_that_sum_to_one(k, n):
    whole = n - k // 2
    expected = {c for c in product(range(whole + 1), repeat=k) if sum(c) == whole}
    counts = ucb_grid(k, 1 / n) * n - 0.5
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert {tuple(row) for row in counts.round().astype(int)} == expected


@pytest.mark.parametrize(("k", "epsilon"), [*CASES[1:], (3, 2 / 3), (7, 2 / 7), (4, 0.5), (3, 0.2)])
def test_every_weight_of_the_ucb_grid_is_at_least_half_of_epsilon(k, epsilon):
    grid = ucb_grid(k, epsilon)
    assert grid.min() >= epsilon / 2 - 1e-12
    counts = grid[:, :-1] / epsilon - 0.5
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 0.3), (3, 0.3), (3, 0.45), (2, 0.07)])
def test_where_one_over_epsilon_is_not_whole_the_last_weight_takes_the_difference(k, epsilon):
    steps = int(1 / Fraction(str(epsilon)))
    grid = etc_grid(k, epsilon)
    counts = grid[:, :-1] / epsilon
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    expected = {c for c in product(range(steps + 1), repeat=k - 1) if sum(c) <= steps}
    assert {tuple(row) for row in counts.round().astype(int)} == expected
    assert grid[:, -1].min() == pytest.approx(1 - steps * epsilon, abs=1e-12)


def test_grid_sizes_are_known_without_building_the_grid():
    assert grid_size(3, 0.1) == 66
    assert grid_size(3, 0.1, "ucb") == 45
    assert grid_size(100, 0.01) == comb(199, 99)


@pytest.mark.parametrize("build", [etc_grid, ucb_grid])
def test_a_grid_too_large_to_enumerate_is_refused_with_its_count(build):
    kind = "etc" if build is etc_grid else "ucb"
    count = grid_size(10, 0.05, kind)
    assert count > LARGEST_GRID or kind == "ucb"
    count = grid_size(10, 0.02, kind)
    with pytest.raises(ValueError, match=f"has {count:,} points"):
        build(10, 0.02)


def test_the_ucb_grid_needs_epsilon_of_at_most_two_over_k():
    assert ucb_grid(4, 0.5).tolist() == [[0.25] * 4]
    with pytest.raises(ValueError, match=r"4 arms needs epsilon ≤ 2/4 = 0\.5, got 0\.51"):
        ucb_grid(4, 0.51)
    with pytest.raises(ValueError, match="needs epsilon ≤ 2/4"):
        grid_size(4, 0.51, "ucb")


@pytest.mark.parametrize(
    ("k", "epsilon", "error", "message"),
    [
        (0, 0.1, ValueError, "n_arms must be at least 1"),
        (2.0, 0.1, TypeError, "n_arms must be a whole number"),
        (2, 0.0, ValueError, "epsilon must lie in"),
        (2, 1.5, ValueError, "epsilon must lie in"),
        (2, np.nan, ValueError, "epsilon must be a finite number"),
        (2, "a", TypeError, "epsilon must be a number"),
    ],
)
@pytest.mark.parametrize("build", [etc_grid, ucb_grid, grid_size])
def test_bad_grid_arguments_are_refused(build, k, epsilon, error, message):
    with pytest.raises(error, match=message):
        build(k, epsilon)


def test_an_unknown_kind_of_grid_is_refused():
    with pytest.raises(ValueError, match="unknown grid kind 'utc'"):
        grid_size(2, 0.1, "utc")
