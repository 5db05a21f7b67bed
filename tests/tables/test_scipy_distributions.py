"""Distributions of scipy's new kind as arms, and mixtures of two distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.tables import inversion
from pmbandits.tables.scipy_distributions import TwoComponentMixture

new_kind = pytest.mark.skipif(not hasattr(st, "Mixture"), reason="this scipy has no such distributions")


@new_kind
def test_new_distributions_are_worth_what_the_old_ones_are() -> None:
    gini: Any = pmb.GiniDeviation()
    assert gini.value(st.Normal(mu=1, sigma=2)) == pytest.approx(gini.value(st.norm(1, 2)), abs=1e-12)
    mixture = st.Mixture([st.Normal(), st.Normal(mu=3)], weights=[0.4, 0.6])
    both = pmb.Bandit([st.norm(0), st.norm(3)])
    assert gini.value(mixture) == pytest.approx(pmb.utility(gini, both, [0.4, 0.6]), abs=1e-9)
    beta = st.make_distribution(st.beta)(a=2.0, b=3.0)
    assert gini.value(beta) == pytest.approx(gini.value(st.beta(2, 3)), abs=1e-9)


@new_kind
def test_new_distributions_are_arms() -> None:
    bandit = pmb.Bandit({"a": st.Normal(mu=1, sigma=2), "b": st.norm(0)})
    assert bandit.names == ("a", "b") and bandit.support == pmb.Real(2.0)
    mixed = pmb.Bandit([st.Mixture([st.Uniform(a=0, b=1), st.Uniform(a=2, b=3)], weights=[0.5, 0.5])])
    assert mixed.support == pmb.Interval(0, 3)
    assert st.kstest(mixed.sample(0, 2000, rng=1), lambda x: np.clip(x, 0, 1) / 2 + np.clip(x - 2, 0, 1) / 2)[1] > 0.01
    run = pmb.simulate("mean", mixed, ["uniform"], 50, trials=2)
    assert run.trials == (0, 1)
    if hasattr(st, "Binomial"):
        assert pmb.Mean().value(st.Binomial(n=10, p=0.3)) == pytest.approx(3.0)
    with pytest.raises(ValueError, match="array of distributions"):
        pmb.Bandit([st.Normal(mu=[0.0, 1.0])])


def test_quantiles_of_a_mixture_of_two_invert_its_cdf() -> None:
    mixture = TwoComponentMixture(st.beta(2, 5), st.beta(5, 2), 0.3)()
    p = np.array([1e-9, 0.01, 0.5, 0.9, 1 - 1e-9])
    np.testing.assert_allclose(mixture.cdf(mixture.ppf(p)), p, rtol=1e-9)
    np.testing.assert_allclose(mixture.sf(mixture.isf(p)), p, rtol=1e-9)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.99])
def test_far_quantiles_of_a_mixture_of_two_are_near_its_nearer_part(share: float) -> None:
    p = np.array([1e-16, 1e-10, 1e-3, 0.4])
    for one, other in ((st.beta(2, 5), st.beta(6, 2)), (st.norm(0), st.norm(50, 0.01)), (st.gamma(2), st.uniform(3))):
        mixture = TwoComponentMixture(one, other, share)()
        x = mixture.ppf(p)
        np.testing.assert_allclose((1 - share) * one.cdf(x) + share * other.cdf(x), p, rtol=1e-10)
        everywhere = np.linspace(-5.0, 60.0, 200)  # also where one part, or both, pays nothing
        np.testing.assert_allclose(
            mixture.cdf(everywhere), (1 - share) * one.cdf(everywhere) + share * other.cdf(everywhere), rtol=1e-12
        )
        np.testing.assert_allclose(
            mixture.sf(everywhere), (1 - share) * one.sf(everywhere) + share * other.sf(everywhere), rtol=1e-12
        )


def test_quantiles_are_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    search = inversion.quantiles
    monkeypatch.setattr(
        inversion,
        "quantiles",
        lambda dist, p, *more, **kind: [searched.append(p.size), search(dist, p, *more, **kind)][1],
    )
    arm = pmb.Bandit([TwoComponentMixture(st.beta(2, 5), st.beta(5, 2), 0.3)()])
    pmb.oracle("gini", arm)
    first = len(searched)
    pmb.oracle("mean", arm)
    assert first > 0 and len(searched) == first
