"""How many more rewards settle a question, and of which arms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.advice.sample_size import growth_factor
from pmbandits.advice.standard_errors import Margin


def test_the_factor_is_the_textbooks_where_nothing_is_added() -> None:
    plain = Margin(0, 0.2, 0.1, 0.0, 1e9, plain_error=0.1)
    wanted = ((st.norm.ppf(0.975) + st.norm.ppf(0.8)) / 2.0) ** 2
    assert growth_factor(plain, 0.025, 0.0, split=False) == pytest.approx(wanted, rel=0.03)
    guarded = Margin(0, 0.2, 0.2, 0.0, 1e9, plain_error=0.1)
    assert wanted < growth_factor(guarded, 0.025, 0.0, split=False) < 4 * wanted
    assert growth_factor(plain, 0.025, 0.2, split=False) == pytest.approx(max(wanted / 4, 1.0), rel=0.03)
    assert growth_factor(Margin(0, 1e-4, 0.1, 0.0, 1e9, plain_error=0.1), 0.025, 0.0, split=False) == np.inf


def test_more_is_asked_of_the_arm_that_has_less_or_varies_more() -> None:
    curve = st.norm.ppf((np.arange(2_000) + 0.5) / 2_000)
    few = st.norm.ppf((np.arange(100) + 0.5) / 100)
    said = pmb.advise({"much": curve + 0.15, "little": few}, "mean")
    assert said.decision.kind == "leads" and set(said.more) == {"little"}
    n = 100 + said.more["little"]
    error = np.sqrt(1 / n + 1 / 2_000)
    assert 0.15 / error == pytest.approx(st.norm.ppf(0.975) + st.norm.ppf(0.8), rel=0.05)
    uneven = pmb.advise({"wild": 4 * few + 0.5, "calm": few}, "mean").more
    assert (100 + uneven["wild"]) / (100 + uneven["calm"]) == pytest.approx(4.0, rel=0.1)  # Neyman's allocation
