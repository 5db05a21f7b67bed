"""How many more rewards settle a question, and of which arms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st
from scipy.optimize import brentq

import pmbandits as pmb
from pmbandits.advice.sample_size import growth_factor, is_at_the_limit
from pmbandits.advice.standard_errors import Margin


def test_the_factor_is_the_textbooks_where_nothing_is_added() -> None:
    plain = Margin(0, 0.2, 0.1, 0.0, 1e9, plain_error=0.1)
    wanted = ((st.norm.ppf(0.975) + st.norm.ppf(0.8)) / 2.0) ** 2
    assert growth_factor(plain, 0.025, 0.0, split=False) == pytest.approx(wanted, rel=0.03)
    guarded = Margin(0, 0.2, 0.2, 0.0, 1e9, plain_error=0.1)
    assert wanted < growth_factor(guarded, 0.025, 0.0, split=False) < 4 * wanted
    assert growth_factor(plain, 0.025, 0.2, split=False) == pytest.approx(max(wanted / 4, 1.0), rel=0.03)
    assert growth_factor(Margin(0, 1e-4, 0.1, 0.0, 1e9, plain_error=0.1), 0.025, 0.0, split=False) == 20.0


@pytest.mark.parametrize("lead", [0.5, 0.75, 0.9, 1.05, 1.9])  # in standard errors
def test_the_lead_that_is_planned_for_is_median_unbiased_given_that_nothing_is_settled(lead: float) -> None:
    curve = st.norm.ppf((np.arange(5_000) + 0.5) / 5_000)
    error = np.sqrt(2.0 / 5_000) * curve.std()
    said = pmb.advise({"a": curve, "b": curve + lead * error}, "mean")
    z = st.norm.ppf(0.975)

    def share_that_shows_less(true: float) -> float:  # of the data sets in which neither arm is beaten
        below = [st.norm.cdf(x - true) - st.norm.cdf(-x - true) for x in (lead, z)]
        return float(below[0] / below[1])

    if share_that_shows_less(0.0) <= 0.5:  # more than half show a larger lead although there is none
        assert said.decision.next_step.or_more and is_at_the_limit(said.more["a"], 5_000)
        return
    cut = share_that_shows_less(np.sqrt(2.0) * lead) >= 0.5
    true = np.sqrt(2.0) * lead if cut else brentq(lambda x: share_that_shows_less(x) - 0.5, 0.0, np.sqrt(2.0) * lead)
    assert cut == (lead > 1.5)
    wanted = ((z + st.norm.ppf(0.8)) / true) ** 2
    assert 1.0 + said.more["a"] / 5_000 == pytest.approx(min(max(wanted, 1.0), 20.0), rel=0.15)


def test_more_is_asked_of_the_arm_that_has_less_or_varies_more() -> None:
    curve = st.norm.ppf((np.arange(2_000) + 0.5) / 2_000)
    few = st.norm.ppf((np.arange(100) + 0.5) / 100)
    said = pmb.advise({"much": curve + 0.15, "little": few}, "mean")
    assert said.decision.kind == "leads" and set(said.more) == {"little"}
    n = 100 + said.more["little"]
    error = np.sqrt(1 / n + 1 / 2_000)
    planned = np.sqrt(2.0) * 0.15  # a lead of 1.5 standard errors that is not settled is likely to be larger
    assert planned / error == pytest.approx(st.norm.ppf(0.975) + st.norm.ppf(0.8), rel=0.05)
    uneven = pmb.advise({"wild": 4 * few + 0.4, "calm": few}, "mean").more
    assert (100 + uneven["wild"]) / (100 + uneven["calm"]) == pytest.approx(4.0, rel=0.1)  # Neyman's allocation
