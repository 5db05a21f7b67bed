"""Distributions of one's own: what is none is refused when the bandit is made, and compiled quantiles draw rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits import Bandit
from pmbandits.kit import kernel


def own_arm(ends: tuple[float, float] = (0.0, 1.0), kind: Any = st.rv_continuous, **methods: Any) -> Any:
    return type("Own", (kind,), methods)(a=ends[0], b=ends[1], name="own")()


@pytest.mark.parametrize(
    ("build", "error", "fact"),
    [
        (lambda: own_arm(), TypeError, r"arm 1 has neither _cdf nor _pdf.*class Own"),
        (lambda: own_arm(_rvs=lambda self, size=None, random_state=None: 0.0), TypeError, "neither _cdf nor _pdf"),
        (lambda: own_arm((0, 3), st.rv_discrete), TypeError, "neither _cdf nor _pmf"),
        (lambda: own_arm(_cdf=lambda self, x: 2 * x), ValueError, r"arm 1 is 1\.02 at 0\.51;.*0 to 1"),
        (lambda: own_arm(_cdf=lambda self, x: -x), ValueError, r"arm 1 is -0\.01 at 0\.01"),
        (lambda: own_arm(_cdf=lambda self, x: x * np.nan), ValueError, "arm 1 is nan"),
        (lambda: own_arm(_cdf=lambda self, x: 1 - x), ValueError, r"arm 1 is .* after .*0 to 1"),
        (lambda: own_arm(_pdf=lambda self, x: 3.0 + 0 * x), ValueError, "0 to 1"),
        (lambda: own_arm(_cdf=lambda self, x: x if x < 0.5 else 0.5), ValueError, r"arm 1 .*np\.where"),
        (lambda: own_arm(_cdf=lambda self, x: x.nothing), ValueError, "arm 1 .*AttributeError"),
        (lambda: own_arm((0, np.inf), _cdf=lambda self, x: np.sin(x)), ValueError, "0 to 1"),
        (lambda: own_arm((-np.inf, 0), _cdf=lambda self, x: np.cos(x)), ValueError, "0 to 1"),
        (lambda: own_arm((-np.inf, np.inf), _cdf=lambda self, x: np.sin(x)), ValueError, "0 to 1"),
    ],
)
def test_a_distribution_of_ones_own_that_is_none_is_refused(build: Any, error: type[Exception], fact: str) -> None:
    with pytest.raises(error, match=fact):
        Bandit([st.beta(1, 2), build()])


@pytest.mark.parametrize(
    ("arm", "mean"),
    [
        (own_arm(_cdf=lambda self, x: x**2), 2 / 3),
        (own_arm(_cdf=lambda self, x: x / 2), 3 / 4),  # the other half of the rewards is 1
        (own_arm(_pdf=lambda self, x: 2 * x), 2 / 3),
        (own_arm((0, np.inf), _cdf=lambda self, x: -np.expm1(-x)), 1.0),
        (own_arm((-np.inf, 0), _cdf=lambda self, x: np.exp(x)), -1.0),
        (own_arm((-np.inf, np.inf), _cdf=lambda self, x: 1 / (1 + np.exp(-x))), 0.0),
    ],
)
def test_a_distribution_of_ones_own_is_taken(arm: Any, mean: float) -> None:
    assert pmb.Mean().value(Bandit([arm]).distributions[0].frozen) == pytest.approx(mean, abs=1e-7)
    assert pmb.utility("mean", Bandit([arm]), [1.0]) == pytest.approx(mean, abs=1e-7)


@kernel
def kumaraswamy_quantile(u: float, shapes: Any) -> float:
    return (1.0 - (1.0 - u) ** (1.0 / shapes[1])) ** (1.0 / shapes[0])


@kernel
def wrong_quantile(u: float, shapes: Any) -> float:
    return u


@kernel
def quantile_with_a_hole(u: float, shapes: Any) -> float:
    return np.nan if 0.502 < u < 0.503 else u


class Kumaraswamy(st.rv_continuous):
    quantile_kernel = staticmethod(kumaraswamy_quantile)

    def _cdf(self, x: Any, p: Any, q: Any) -> Any:
        return 1.0 - (1.0 - x**p) ** q


def test_compiled_quantiles_must_be_those_of_the_distribution() -> None:
    wrong = type("Wrong", (Kumaraswamy,), {"quantile_kernel": staticmethod(wrong_quantile)})(a=0.0, b=1.0)
    with pytest.raises(ValueError, match=r"quantile_kernel of arm 0 is 0\.\d+ at 0\.\d+"):
        Bandit([wrong(2.0, 5.0)])
    plain = type("Plain", (Kumaraswamy,), {"quantile_kernel": staticmethod(lambda u, shapes: u)})(a=0.0, b=1.0)
    with pytest.raises(TypeError, match="@kernel"):
        Bandit([plain(2.0, 5.0)])
    bound = type("Bound", (Kumaraswamy,), {"quantile_kernel": kumaraswamy_quantile})(a=0.0, b=1.0)
    with pytest.raises(TypeError, match=r"quantile_kernel = staticmethod\(kumaraswamy_quantile\)\."):
        Bandit([bound(2.0, 5.0)])


def test_a_reward_that_is_no_number_ends_the_simulation() -> None:
    arm = own_arm(_cdf=lambda self, x: x, quantile_kernel=staticmethod(quantile_with_a_hole))
    with pytest.raises(ValueError, match=r"quantile_kernel of own.*NaN"):
        pmb.simulate("gini", Bandit([arm, st.uniform()]), "uniform", 20_000, trials=1)


@pytest.mark.parametrize(("loc", "scale"), [(0.0, 1.0), (-2.0, 3.0)])
def test_rewards_are_drawn_by_compiled_quantiles(loc: float, scale: float) -> None:
    arm = Kumaraswamy(a=0.0, b=1.0, name="kumaraswamy")(2.0, 5.0, loc=loc, scale=scale)
    bandit = Bandit([st.uniform(), arm])
    drawn = pmb.simulation.Rewards(bandit, seed=3, trial=1).next(1, 20_000)
    assert st.kstest(drawn, arm.cdf).pvalue > 0.01
    # a standard uniform arm in its place gets the same random numbers, moved off 0 by half a digit
    uniform = pmb.simulation.Rewards(Bandit([st.uniform(), st.uniform()]), seed=3, trial=1).next(1, 20_000)
    np.testing.assert_allclose(arm.cdf(drawn), uniform, atol=1e-9)
    found = pmb.simulate("gini", bandit, "track", 300, trials=2, n_jobs=1)
    assert found.equals(pmb.simulate("gini", bandit, "track", 300, trials=2, n_jobs=2))
