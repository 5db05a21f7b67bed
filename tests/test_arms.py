"""Bandits, the utility of mixtures, and the Wasserstein constant."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as hs

import pmbandits as pmb
from pmbandits.arms import Bandit, half_wasserstein_diameter, wasserstein_distance
from pmbandits.metrics import GiniDeviation, Mean, UpperCVaR
from pmbandits.optimize import utility
from pmbandits.supports import Binary, Finite, Interval, Real
from tests.helpers import one_sentence
from tests.reference.choquet import choquet_loop
from tests.strategies import METRICS, label


def name_of(x):
    if hasattr(x, "dist"):
        return f"{x.dist.name}{x.args}{x.kwds or ''}".replace(" ", "")
    if isinstance(x, list):
        return "+".join(str(name_of(item)) for item in x)
    return "values" if hasattr(x, "xk") else str(x)


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
        (lambda: Bandit([st.norm]), TypeError, "(?i)arm 0 .*fr(ee|o)ze"),
        (lambda: Bandit([st.poisson]), TypeError, "(?i)arm 0 .*fr(ee|o)ze"),
        (lambda: Bandit([st.norm(0, -1)]), ValueError, "arm 0 has invalid parameters"),
        (lambda: Bandit([st.norm(), st.norm()], names=["a"]), ValueError, "1 name was given for 2 arms"),
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


def test_samples_are_no_path():
    with pytest.raises(TypeError, match=r"rewards.csv"):
        Bandit.from_samples("rewards.csv")


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
    with pytest.raises(ValueError, match="size"):
        bandit.sample(0, -1)
    with pytest.raises(TypeError, match="size"):
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
    for m in (Mean(), GiniDeviation(), UpperCVaR(0.9)):
        assert utility(m, bandit, a) == pytest.approx(m.value(x), abs=0.03)


# ---- the Wasserstein constant ------------------------------------------------------------------------------
@settings(deadline=None, max_examples=50)
@given(hs.lists(hs.lists(hs.integers(-20, 20), min_size=1, max_size=6), min_size=1, max_size=4))
def test_w_of_logged_arms_is_half_the_largest_scipy_distance(logs):
    pairs = [st.wasserstein_distance(a, b) for a, b in combinations(logs, 2)]
    got = half_wasserstein_diameter(Bandit.from_samples(logs))
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
    assert half_wasserstein_diameter(Bandit(arms)) == pytest.approx(0.5 * distance, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("first", "second"), [((0, 1), (0.3, 3)), ((0, 1), (2, 1.1)), ((-4, 0.2), (1, 5))])
def test_w_of_normals_whose_curves_cross_is_half_the_mean_of_a_folded_normal(first, second):
    # W1 couples quantiles: |μ + σZ| with the differences of the means and of the deviations
    mu, sigma = second[0] - first[0], abs(second[1] - first[1])
    folded = sigma * np.sqrt(2 / np.pi) * np.exp(-(mu**2) / (2 * sigma**2)) + mu * (1 - 2 * st.norm.cdf(-mu / sigma))
    got = half_wasserstein_diameter(Bandit([st.norm(*first), st.norm(*second)]))
    assert got == pytest.approx(0.5 * folded, rel=1e-9)


@settings(deadline=None, max_examples=50)
@given(*[hs.lists(hs.integers(-20, 20), min_size=1, max_size=6)] * 2)
def test_the_distance_of_two_samples_is_scipys(first, second):
    assert wasserstein_distance(first, second) == pytest.approx(st.wasserstein_distance(first, second), abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [(st.norm(0), st.norm(3), 3.0), (st.expon(), [0.0], 1.0), (st.uniform(0, 1), st.uniform(0, 3), 1.0)],
    ids=name_of,
)
def test_the_distance_of_two_distributions(first, second, distance):
    assert wasserstein_distance(first, second) == pytest.approx(distance, rel=1e-9)
    assert wasserstein_distance(second, first) == wasserstein_distance(first, second)
    assert wasserstein_distance(first, first) == 0.0


@pytest.mark.parametrize("p", [0.0, 0.1, 0.45, 0.5, 0.7])
def test_two_opposite_coins_are_better_mixed_unless_they_are_alike(p):
    """``example utility``, which says so for every p: for p = ½ both sides are equal."""
    coins = Bandit.bernoulli([p, 1 - p])
    gain = utility("gini", coins, [0.5, 0.5]) - max(utility("gini", coins, arm) for arm in np.eye(2))
    assert gain == pytest.approx((p - 0.5) ** 2, abs=1e-15)
    assert (gain > 0.0) == (p != 0.5)


def test_w_is_infinite_only_with_an_error_that_names_the_tail():
    with pytest.raises(ValueError, match=r"upper tail"):
        half_wasserstein_diameter(Bandit([st.norm(), st.pareto(1)]))


def test_wasserstein_constant_does_not_depend_on_the_order_of_the_arms() -> None:
    for pair in ([st.t(1.5), st.norm()], [st.pareto(1.5), st.expon()], [st.lognorm(1), st.norm(3)]):
        forth, back = (pmb.half_wasserstein_diameter(pmb.Bandit(arms)) for arms in (pair, pair[::-1]))
        assert forth == pytest.approx(back, rel=1e-9)
    for pair in ([st.cauchy(), st.norm()], [st.norm(), st.cauchy()]):
        with pytest.raises(ValueError, match="infinite"):
            pmb.half_wasserstein_diameter(pmb.Bandit(pair))


@settings(deadline=None, max_examples=15)
@given(hs.lists(hs.tuples(hs.floats(0.01, 1), hs.floats(0.01, 1), hs.floats(0, 1)), min_size=2, max_size=5))
def test_w_of_arms_that_are_sub_gaussian_around_zero_is_at_most_root_two_pi(parts):
    # mean 0 on [−1, 1]: 1-sub-Gaussian by Hoeffding's lemma
    arms = [st.norm(0, 1), st.uniform(-1, 2)]
    for low, high, centre in parts:
        p = (1 - centre) * np.array([high, 0.0, low]) / (low + high) + centre * np.array([0.0, 1.0, 0.0])
        arms.append(st.rv_discrete(values=([-low, 0.0, high], p / p.sum())))
    assert half_wasserstein_diameter(Bandit(arms)) <= np.sqrt(2 * np.pi)


@settings(deadline=None, max_examples=40)
@given(hs.data())
def test_w_bounds_the_distance_of_mixtures_by_that_of_their_weights(data):
    rng = np.random.default_rng(data.draw(hs.integers(0, 2**32 - 1)))
    x = np.arange(6.0)
    distributions = rng.dirichlet(np.ones(6), 3)
    w = half_wasserstein_diameter(Bandit([st.rv_discrete(values=(x, p)) for p in distributions]))
    a, b = rng.dirichlet(np.ones(3), 2)
    assert st.wasserstein_distance(x, x, a @ distributions, b @ distributions) <= w * np.abs(a - b).sum() + 1e-12


# ---- bandits as data -------------------------------------------------------------------------------------
BANDITS = {
    "bernoulli": pmb.Bandit.bernoulli([0.0, 1.0, 0.3, 1 / 3], names=["a", "b", "c", "d"]),
    "samples": pmb.Bandit.from_samples({"a": [0.1, 0.2, 0.7, 0.7], "b": [-3, 4.5]}),
    "one point": pmb.Bandit([[1.0, 1.0], [0.0]]),
    "loc and scale": pmb.Bandit([st.norm(1, 2), st.norm(loc=3, scale=0.5), st.norm(1, scale=0.1)]),
    "shapes": pmb.Bandit([st.beta(2, 3, loc=-1, scale=2), st.uniform(-1, 2), st.truncnorm(-1, 1, loc=0.5)]),
    "shapes by name": pmb.Bandit([st.beta(b=2, a=3), st.beta(3, b=2)]),
    "declared support": pmb.Bandit([st.beta(2, 3), [0.1, 0.4]], support=pmb.Interval(-1, 2)),
    "real": pmb.Bandit([st.expon(scale=2), st.expon(1, 3)], support=pmb.Real(3.0)),
    "lattice": pmb.Bandit([st.poisson(3), st.poisson(mu=3, loc=2)], support=pmb.Real(3.0)),
    "finite discrete": pmb.Bandit([st.binom(5, 0.3), st.randint(0, 4), st.bernoulli(0.25, loc=1)]),
    "values": pmb.Bandit([st.rv_discrete(values=([0, 2, 5], [0.2, 0.3, 0.5])), [0, 1, 1]]),
    "unknown support": pmb.Bandit([st.gamma(2), st.gamma(2, scale=3)]),
}


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS)
def test_a_bandit_comes_back_from_its_description(bandit: pmb.Bandit) -> None:
    data = bandit.to_dict()
    again = pmb.Bandit.from_dict(json.loads(json.dumps(data)))
    assert again.to_dict() == data
    assert again.names == bandit.names
    assert again.support == bandit.support
    for old, new in zip(bandit.distributions, again.distributions, strict=True):
        assert type(new) is type(old)
        assert (new.lo, new.hi) == (old.lo, old.hi)
        x = np.linspace(max(old.lo, -5.0) - 0.1, min(old.hi, 9.0) + 0.1, 57)
        assert new.cdf(x) == pytest.approx(old.cdf(x), abs=1e-15)
        assert new.sample(50, np.random.default_rng(0)).tolist() == old.sample(50, np.random.default_rng(0)).tolist()


@pytest.mark.parametrize("name", ["samples", "loc and scale", "shapes", "finite discrete", "values"])
def test_a_bandit_that_came_back_pays_the_same(name: str) -> None:
    bandit = BANDITS[name]
    again = pmb.Bandit.from_dict(bandit.to_dict())
    one, two = (pmb.simulation.Rewards(b, seed=5, trial=2) for b in (bandit, again))
    for arm in range(bandit.n_arms):
        assert one.next(arm, 40).tolist() == two.next(arm, 40).tolist()


def test_a_distribution_that_scipy_does_not_have_is_refused() -> None:
    data = {"arms": [{"scipy": "nonesuch", "parameters": []}], "names": ["a"], "support": None}
    with pytest.raises(ValueError, match="'nonesuch'") as caught:
        pmb.Bandit.from_dict(data)
    one_sentence(caught.value)
    with pytest.raises(ValueError, match="'system'"):
        pmb.Bandit.from_dict({**data, "arms": [{"scipy": "system", "parameters": ["ls"]}]})


def test_two_histograms_are_two_bandits() -> None:
    one, two = (
        pmb.Bandit([st.rv_histogram(np.histogram(x, bins=4, range=(0, 1)), density=True)()])
        for x in ([0.1, 0.2, 0.9], [0.7, 0.8, 0.9])
    )
    try:
        descriptions = one.to_dict(), two.to_dict()
    except (TypeError, ValueError):  # refused: just as good
        return
    assert descriptions[0] != descriptions[1]


def test_wasserstein_constant_of_many_arms_is_half_the_largest_distance_of_two() -> None:
    rng = np.random.default_rng(4)
    logs = [rng.normal(rng.normal(), rng.uniform(0.5, 2.0), size=40) for _ in range(12)]
    largest = max(st.wasserstein_distance(a, b) for a, b in combinations(logs, 2))
    assert half_wasserstein_diameter(Bandit(logs)) == pytest.approx(0.5 * largest, rel=1e-12)
    means = rng.normal(size=9)  # equal widths: the distance is that of the means
    assert half_wasserstein_diameter(Bandit([st.norm(m, 0.7) for m in means])) == pytest.approx(
        0.5 * np.ptp(means), rel=1e-9
    )


def test_means_that_are_not_in_a_list_are_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"list: Bandit.bernoulli\(\[0.2, ...\]\)"):
        pmb.Bandit.bernoulli(0.2, 0.9)  # type: ignore[arg-type]
