"""Bands from binomial relative entropy: their ends, and their levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from pmbandits.confidence import bands
from tests.reference.bands import kl, steck


@pytest.mark.parametrize(("k", "n", "depth"), [(0, 7, 2.0), (3, 7, 2.0), (7, 7, 2.0), (1, 10**6, 20.0), (5, 9, 30.0)])
def test_ends_invert_relative_entropy(k, n, depth):
    lower, upper = bands.kl_interval(k, n, depth)
    p = k / n
    if k > 0:
        assert lower == pytest.approx(brentq(lambda q: n * kl(p, q) - depth, 1e-300, p, xtol=1e-300), rel=1e-9)
    if k < n:
        gone = brentq(lambda v: n * kl(1 - p, v) - depth, 1e-300, 1 - p, xtol=1e-300)
        assert 1.0 - upper == pytest.approx(gone, rel=1e-9, abs=1e-15)
    assert (lower == 0.0) == (k == 0)
    assert (upper == 1.0) == (k == n)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 10])
@pytest.mark.parametrize("depth", [0.7, 2.0, 4.0])
def test_coverage_of_a_fixed_sample_is_stecks_determinant(n, depth):
    lower, upper = bands.kl_interval(np.arange(n + 1), n, depth)
    assert bands.berk_jones_coverage(n, depth) == pytest.approx(steck(lower[1:], upper[:-1]), abs=1e-12)


def test_one_reward_has_a_closed_form():
    assert bands.berk_jones_threshold(1, 0.95) == pytest.approx(math.log(2 / 0.05), rel=1e-5)


@pytest.mark.parametrize(("n", "level"), [(3, 0.5), (40, 0.95), (300, 0.99), (2000, 0.9)])
def test_the_level_is_met_and_not_by_far(n, level):
    assert level <= bands.berk_jones_coverage(n, bands.berk_jones_threshold(n, level)) <= level + 2e-5


def test_beyond_the_exact_levels_the_band_is_wider_and_only_slightly():
    for level in (0.8, 0.95, 0.999):
        exact = bands._interpolated_threshold(3000, -math.log(1 - level))
        assert bands.berk_jones_coverage(3000, exact) >= level
        assert 0.5 * exact < bands.berk_jones_threshold(2000, level) < exact
        assert exact < 1.06 * bands.berk_jones_threshold(2000, level)


def test_the_band_of_a_sample_covers_it_as_often_as_it_says():
    rng, n, misses = np.random.default_rng(5), 60, 0
    lower, upper = bands.berk_jones(n, 0.9)
    for _ in range(4000):
        ranks = np.sort(rng.random(n))  # of the true survival, so that k counts the rewards above
        misses += not ((ranks >= lower[1:]) & (ranks <= upper[:-1])).all()
    assert 0.1 - 4 * 0.0047 < misses / 4000 < 0.1 + 4 * 0.0047


@pytest.mark.parametrize(("n", "level"), [(150_000, 0.95), (50, 1 - 1e-10)])
def test_very_large_samples_and_tiny_failures_have_a_band_too(n, level):
    lower, upper = bands.berk_jones(n, level)
    p = np.arange(n + 1) / n
    even = math.sqrt(math.log(4 / (1 - level)) / (2 * n))
    assert (lower >= np.maximum(p - even, 0)).all() and (upper <= np.minimum(p + even, 1)).all()
    assert (lower <= p).all() and (upper >= p).all() and (np.diff(lower) >= -1e-12).all()
    assert np.allclose(lower, 1 - upper[::-1], atol=1e-12)


def test_level_and_size_are_checked():
    with pytest.raises(ValueError, match="level"):
        bands.berk_jones(10, 1.0)
    with pytest.raises(ValueError, match="n must be"):
        bands.berk_jones(0, 0.9)


@pytest.mark.parametrize("n", [1, 10, 10**4, 10**9])
@pytest.mark.parametrize("delta", [0.5, 1e-4])
def test_the_depth_at_all_times_is_a_root_from_above(n, delta):
    depth = float(bands.anytime_threshold(n, delta))
    left, right = math.expm1(depth), 4 * math.pi * n / delta * math.sqrt(depth)
    assert right <= left * (1 + 1e-12)
    assert left == pytest.approx(right, rel=1e-6)
