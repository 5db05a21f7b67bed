"""Quantiles by inversion of the CDF, beside closed forms, and rewards drawn by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.tables.inversion import quantiles

P = np.array([1e-12, 1e-6, 0.01, 0.3, 0.5, 0.77, 0.999])


class OnlyCdf(st.rv_continuous):
    """A distribution that has a CDF and nothing else."""

    def __init__(self, like: Any) -> None:
        self.like = like
        super().__init__(a=like.support()[0], b=like.support()[1], name="only_cdf")

    def _updated_ctor_param(self) -> dict[str, Any]:
        return {"like": self.like}

    def _cdf(self, x: Any) -> Any:  # type: ignore[override]
        return self.like.cdf(x)

    def _sf(self, x: Any) -> Any:  # type: ignore[override]
        return self.like.sf(x)


LIKE = [st.norm(3, 2), st.beta(2, 5), st.expon(1), st.cauchy(), st.uniform(-1, 4), st.beta(0.5, 0.5)]


@pytest.mark.parametrize("like", LIKE, ids=lambda d: d.dist.name)
@pytest.mark.parametrize("upper", [False, True])
def test_quantiles_are_those_of_the_closed_form(like: Any, upper: bool) -> None:
    found = quantiles(OnlyCdf(like), P, upper=upper)
    np.testing.assert_allclose(found, like.isf(P) if upper else like.ppf(P), rtol=1e-9, atol=2e-14)


@pytest.mark.parametrize("like", LIKE, ids=lambda d: d.dist.name)
def test_the_ends_have_the_quantiles_0_and_1(like: Any) -> None:
    assert quantiles(OnlyCdf(like), np.array([0.0, 1.0])).tolist() == list(like.support())


def test_rewards_of_a_distribution_without_quantiles_are_its_own() -> None:
    like = st.beta(2, 5)
    bandit = pmb.Bandit([OnlyCdf(like)(), OnlyCdf(like)(loc=1, scale=2)], support=pmb.Interval(0, 3))
    for arm, true in ((0, like), (1, st.beta(2, 5, loc=1, scale=2))):
        assert st.kstest(bandit.sample(arm, 4000, rng=7), true.cdf).pvalue > 0.01
    assert pmb.oracle("gini", bandit).value == pytest.approx(
        pmb.oracle("gini", pmb.Bandit([like, st.beta(2, 5, loc=1, scale=2)])).value, abs=1e-9
    )
