"""Intervals for the mean of trials: Student's and Hall's against their definitions, and how often they hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st
from scipy.optimize import brentq

from pmbandits._intervals import mean_interval


def by_definition(values: np.ndarray, level: float) -> tuple[float, float]:
    """The outer ends of Student's interval, and of where Hall's bent t statistic equals Student's quantiles."""
    n, middle, error = values.size, values.mean(), st.sem(values)
    skew = float(st.skew(values)) / np.sqrt(n)

    def bent(mean: float) -> float:
        x = (middle - mean) / error
        return x + skew * x**2 / 3 + skew**2 * x**3 / 27 + skew / 6

    reach = st.t.ppf(0.5 + level / 2, n - 1)
    far = 1e4 * error
    low, high = (
        brentq(lambda mean, end=end: bent(mean) - end, middle - far, middle + far, xtol=1e-13)
        for end in (reach, -reach)
    )
    return min(low, middle - reach * error), max(high, middle + reach * error)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 2.0])
def test_the_ends_are_those_of_the_definition(sigma: float, level: float) -> None:
    rng = np.random.default_rng(3)
    for n in (3, 10, 40):
        values = rng.lognormal(0, sigma, n)
        mean, low, high = mean_interval(values[:, None], level)
        assert mean[0] == pytest.approx(values.mean())
        assert (low[0], high[0]) == pytest.approx(by_definition(values, level), rel=1e-7)


def test_symmetric_values_have_students_interval() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    _, low, high = mean_interval(values[:, None])
    assert (low[0], high[0]) == pytest.approx(st.t.interval(0.95, 4, 0.0, st.sem(values)))


def test_turned_around_values_have_the_turned_around_interval() -> None:
    values = np.random.default_rng(0).exponential(size=(12, 5))
    _, low, high = mean_interval(values)
    _, low_back, high_back = mean_interval(-values)
    np.testing.assert_allclose(low_back, -high, rtol=1e-12)
    np.testing.assert_allclose(high_back, -low, rtol=1e-12)


def test_equal_trials_have_no_width_and_one_trial_has_no_interval() -> None:
    mean, low, high = mean_interval(np.full((7, 2), 0.3))
    assert (mean == low).all() and (mean == high).all()
    _, low, high = mean_interval([[1.0, 2.0]])
    assert np.isnan(low).all() and np.isnan(high).all()


def test_skewed_means_are_covered_more_often_than_by_two_standard_errors() -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(0, 1, (20, 4000))
    mean, low, high = mean_interval(values)
    truth = np.exp(0.5)
    error = values.std(axis=0, ddof=1) / np.sqrt(20)
    plain = (np.abs(mean - truth) <= 2 * error).mean()
    ours = ((low <= truth) & (truth <= high)).mean()
    assert plain < 0.89  # it promises 95 %
    assert 0.92 < ours < 0.97
