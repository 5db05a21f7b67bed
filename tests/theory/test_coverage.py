"""The concentration lemma and every radius cover, by Monte Carlo with distances from quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.confidence import confidence_set
from pmbandits.theory.deviations import (
    deviation_valid_at_all_times,
    deviation_valid_at_fixed_n,
    deviation_valid_up_to_horizon,
)

theory = pmb.theory
LAWS = {
    "bernoulli": (st.bernoulli(0.3), pmb.Binary()),
    "uniform": (st.uniform(0, 1), pmb.Interval(0, 1)),
    "beta": (st.beta(0.5, 0.5), pmb.Interval(0, 1)),
    "normal": (st.norm(0.5, 1.0), pmb.Real(1.0)),
}
SETS = [
    (law, name)
    for law, (_, support) in LAWS.items()
    for name in ("auto", "wasserstein", "dkw")  # the paper's radius is beyond [0, 1] here: it could not fail
    if name != "dkw" or not isinstance(support, pmb.Real)
]


def distances(law: str, size: int, at: list[int], trials: int, seed: int) -> np.ndarray:
    """W1 between the true law and the first n of each trial's rewards, by quadrature; one row a trial."""
    frozen, _ = LAWS[law]
    rng = np.random.default_rng(seed)
    if law == "bernoulli":
        seen = rng.binomial(1, 0.3, (trials, size)).cumsum(axis=1)
        return np.stack([np.abs(seen[:, n - 1] / n - 0.3) for n in at], axis=1)
    rewards = frozen.rvs((trials, size), random_state=rng)
    edges = np.linspace(-8.0, 9.0, 1701) if law == "normal" else np.linspace(0.0, 1.0, 401)
    middle = 0.5 * (edges[1:] + edges[:-1])
    true = frozen.cdf(middle)
    out = np.empty((trials, len(at)))
    for k, n in enumerate(at):
        for trial in range(trials):
            empirical = np.searchsorted(np.sort(rewards[trial, :n]), middle, side="right") / n
            out[trial, k] = np.abs(empirical - true).sum() * (edges[1] - edges[0])
    return out


# ---- coverage --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [10**6, 10**8, 10**10, 10**12])
def test_the_concentration_lemma_is_true_on_the_widest_interval_that_it_allows(n: int) -> None:
    """Wherever it says something, McDiarmid's inequality for rewards in [−1, 1] says more; both in logarithms."""
    for y in 512 / math.sqrt(n) * np.array([1.001, 1.1, 1.5, 3.0, 10.0]):
        lemma = math.log(2) - n / (256 * math.e) * (y - 512 / math.sqrt(n)) ** 2
        if 1e-300 < theory.concentration(n, float(y)) < 1.0:
            assert math.log(theory.concentration(n, float(y))) == pytest.approx(lemma, rel=1e-9)
        # E W1 ≤ 2·½/√n, and one reward moves W1 by 2/n at most
        mcdiarmid = -2 * n * (y - 1 / math.sqrt(n)) ** 2 / 4
        assert mcdiarmid <= lemma


def test_the_concentration_lemma_is_loose_by_a_known_factor() -> None:
    """A normal arm's mean alone: ½ny² against the lemma's ny²/256e. Any other constant would change the ratio."""
    n, sigmas = 10**8, 1100.0  # y is so many standard errors of the mean; the lemma begins at 512
    exact = -st.norm.logsf(sigmas)
    lemma = -math.log(theory.concentration(n, sigmas / math.sqrt(n)) / 2)
    assert exact / lemma * (1 - 512 / sigmas) ** 2 == pytest.approx(128 * math.e, rel=1e-3)


def test_the_concentration_lemma_needs_arms_that_are_sub_gaussian_enough() -> None:
    """A coin of 0 and 1000 breaks it as printed, and keeps it in units of its scale, 500."""
    n, y, trials = 5000, 8.84, 2000
    off = 1000 * np.abs(np.random.default_rng(2).binomial(n, 0.5, trials) / n - 0.5)
    assert (off > y).mean() > 0.15 > 1e6 * theory.concentration(n, y)
    for distance in np.quantile(off, [0.5, 0.9, 0.999]):
        assert (off > distance).mean() <= theory.concentration(n, float(distance) / pmb.Interval(0, 1000).scale)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "name"), SETS)
def test_every_radius_for_one_n_covers(law: str, name: str) -> None:
    at = [1, 8, 64]
    found = distances(law, 64, at, 1000, seed=3)
    off = deviation_valid_at_fixed_n(name, LAWS[law][1], 1, 0.1)
    for k, n in enumerate(at):
        # 0.1 plus three standard errors of the simulation
        assert (found[:, k] > off.radius(n)).mean() <= 0.1 + 3 * math.sqrt(0.09 / 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "name"), SETS)
def test_every_radius_up_to_a_horizon_covers_at_all_times_together(law: str, name: str) -> None:
    at = [1, 2, 3, 5, 8, 13, 21, 34, 55, 80]
    found = distances(law, 80, at, 300, seed=4)
    off = deviation_valid_up_to_horizon(name, LAWS[law][1], 1, 80)
    outside = (found > np.array([off.radius(n) for n in at])).any(axis=1)
    assert outside.mean() <= min(1.0, off.failure_ever) + 3 * math.sqrt(0.02 / 300)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "name"), SETS)
def test_every_radius_without_a_horizon_covers_at_all_times_together(law: str, name: str) -> None:
    at = [1, 2, 3, 5, 8, 13, 21, 34, 55, 80]
    found = distances(law, 80, at, 300, seed=5)
    off = deviation_valid_at_all_times(name, LAWS[law][1], 1, 0.1)
    outside = (found > np.array([off.radius(n) for n in at])).any(axis=1)
    assert outside.mean() <= 0.1 + 3 * math.sqrt(0.09 / 300)
    assert off.condition.holds


def test_the_papers_cirt_set_is_reported_as_not_valid_at_all_times() -> None:
    assert not deviation_valid_at_all_times("paper", pmb.Binary(), 2, 0.05).condition.holds
    assert confidence_set("paper", pmb.Binary(), 2, delta=0.05).radius(100) == pytest.approx(
        deviation_valid_at_all_times("paper", pmb.Binary(), 2, 0.05).radius(100)
    )
