"""Distributions of scipy's new kind as arms, and mixtures of two distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
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
