"""KL limits of Bernoulli means: against scipy, bisection, and 60 digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.optimize import brentq

from pmbandits.confidence._bernoulli_wasserstein import bernoulli_kl_divergence, bernoulli_kl_lower, bernoulli_kl_upper
from tests.reference.confidence import kl_interval

MEANS = [0.0, 1e-12, 1e-6, 1e-3, 0.1, 1 / 3, 0.5, 0.77, 0.999, 1 - 1e-9, 1.0]


def stable_kl(p: float, q: float) -> float:
    """kl without cancellation where q is near p: x = (q − p)/p and y = (p − q)/(1 − p)."""
    left = -p * math.log1p((q - p) / p) if p > 0 else 0.0
    right = -(1 - p) * math.log1p((p - q) / (1 - p)) if p < 1 else 0.0
    return left + right


@pytest.mark.parametrize("p", MEANS)
def test_kl_limits_equal_scipys_root(p):
    for level in (1e-5, 1e-3, 0.02, 0.3, 1.0, 3.0, 12.0):
        upper, lower = bernoulli_kl_upper(p, level), bernoulli_kl_lower(p, level)
        if p == 1.0:
            assert upper == 1.0
        else:
            edge = 1.0 - 1e-15
            inside = stable_kl(p, edge) <= level if p < edge else True
            root = 1.0 if inside else brentq(lambda q, x=level: stable_kl(p, q) - x, p, edge, xtol=1e-15, rtol=1e-15)
            assert upper == pytest.approx(root, rel=0, abs=1e-12)
        if p == 0.0:
            assert lower == 0.0
        else:
            root = 0.0
            if stable_kl(p, p * 1e-15) > level:
                root = brentq(lambda q, x=level: stable_kl(p, q) - x, p * 1e-15, p, xtol=1e-15, rtol=1e-15)
            assert lower == pytest.approx(root, rel=0, abs=1e-12)


def exact_upper(p: float, level: float) -> float:
    """The same with 60 digits, by bisection."""
    with localcontext() as context:
        context.prec = 60
        mean, goal, one = Decimal(p), Decimal(level), Decimal(1)
        lo, hi = mean, one
        for _ in range(90):
            q = (lo + hi) / 2
            entropy = (one - mean) * ((one - mean) / (one - q)).ln()
            entropy += mean * (mean / q).ln() if p > 0 else Decimal(0)
            lo, hi = (q, hi) if entropy <= goal else (lo, q)
        return float(lo)


@pytest.mark.parametrize("level", [1e-9, 1e-8, 1e-6, 1e-4, 0.1, 5.0, 36.0, 40.0, 200.0, 700.0])
def test_kl_limits_equal_those_with_sixty_digits(level):
    for p in (0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 0.9999):
        expected = exact_upper(p, level)
        assert bernoulli_kl_upper(p, level) == pytest.approx(expected, rel=0, abs=1e-12)
        assert bernoulli_kl_lower(1.0 - p, level) == pytest.approx(
            1.0 - exact_upper(1.0 - (1.0 - p), level), rel=0, abs=1e-12
        )


@pytest.mark.parametrize("level", [1e-15, 1e-13, 1e-11])
def test_kl_limits_at_tiny_levels_are_as_good_as_rounding_allows(level):
    """kl rounds to about 2e-16, and q depends on it with slope 1/kl'(q) ≈ √(p(1−p)/(2·level))."""
    for p in (0.01, 0.3, 0.5, 0.9):
        rounding = 4e-16 * math.sqrt(p * (1 - p) / (2 * level))
        assert bernoulli_kl_upper(p, level) == pytest.approx(exact_upper(p, level), rel=0, abs=rounding)
        assert p <= bernoulli_kl_upper(p, level) <= p + math.sqrt(level / 2)


def test_kl_limits_equal_bisection_on_random_instances():
    rng = np.random.default_rng(4)
    for _ in range(300):
        n = int(10.0 ** rng.uniform(0, 6))
        p = float(rng.integers(0, n + 1) / n)
        level = math.log((n + 1) / 0.05) / n
        low, high = kl_interval(p, level)
        assert bernoulli_kl_lower(p, level) == pytest.approx(low, rel=0, abs=1e-12)
        assert bernoulli_kl_upper(p, level) == pytest.approx(high, rel=0, abs=1e-12)


def test_kl_limits_at_the_ends():
    for level in (1e-9, 0.5, 3.0, 40.0):
        assert bernoulli_kl_upper(0.0, level) == pytest.approx(-math.expm1(-level), rel=1e-14)  # −ln(1 − q) = level
        assert bernoulli_kl_lower(1.0, level) == pytest.approx(math.exp(-level), rel=0, abs=1e-15)
        assert bernoulli_kl_lower(0.0, level) == 0.0
        assert bernoulli_kl_upper(1.0, level) == 1.0
    for p in MEANS:
        assert bernoulli_kl_upper(p, math.inf) == 1.0
        assert bernoulli_kl_lower(p, math.inf) == 0.0
        assert bernoulli_kl_upper(p, 0.0) == pytest.approx(p, rel=0, abs=1e-15)
        assert bernoulli_kl_lower(p, 0.0) == pytest.approx(p, rel=0, abs=1e-15)
        assert bernoulli_kl_upper(p, 1e308) == pytest.approx(1.0, rel=0, abs=1e-15)
        assert bernoulli_kl_lower(p, 1e308) == pytest.approx(0.0, rel=0, abs=1e-15)


def test_kl_limits_grow_with_the_level_and_stay_within_pinsker():
    levels = np.logspace(-8, 2, 60)
    for p in MEANS:
        upper = np.array([bernoulli_kl_upper(p, x) for x in levels])
        lower = np.array([bernoulli_kl_lower(p, x) for x in levels])
        assert (np.diff(upper) >= -1e-12).all()
        assert (np.diff(lower) <= 1e-12).all()
        assert ((lower >= 0) & (lower <= p + 1e-15) & (p - 1e-15 <= upper) & (upper <= 1)).all()
        assert (upper - p <= np.sqrt(levels / 2) + 1e-12).all()
        assert (p - lower <= np.sqrt(levels / 2) + 1e-12).all()


def test_kl_is_the_relative_entropy():
    assert bernoulli_kl_divergence(0.5, 0.5) == 0.0
    assert bernoulli_kl_divergence(0.0, 0.25) == pytest.approx(-math.log(0.75), rel=1e-15)
    assert bernoulli_kl_divergence(1.0, 0.25) == pytest.approx(-math.log(0.25), rel=1e-15)
    assert bernoulli_kl_divergence(0.3, 0.6) == pytest.approx(
        0.3 * math.log(0.5) + 0.7 * math.log(0.7 / 0.4), rel=1e-15
    )
