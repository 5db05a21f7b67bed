"""Quantiles of distributions that only have a CDF, for many probabilities at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray

_MAX_STEPS = 200  # of the root finder; it needs about ten
_LARGEST = 1e300  # no quantile is looked for beyond


def has_own_quantiles(dist: Any) -> bool:
    """Whether a scipy distribution says how its quantiles are worked out; if not, scipy searches for each alone."""
    from scipy.stats import rv_continuous

    return not isinstance(dist, rv_continuous) or type(dist)._ppf is not rv_continuous._ppf


def would_scipy_sample_by_search(dist: Any) -> bool:
    """Whether scipy would draw each reward by a search of its own: neither quantiles nor a way to draw are given."""
    from scipy.stats import rv_continuous

    return not has_own_quantiles(dist) and type(dist)._rvs is rv_continuous._rvs


def quantiles(dist: Any, p: FloatArray, shapes: tuple[float, ...] = (), *, upper: bool = False) -> FloatArray:
    """The points that a scipy distribution exceeds (``upper``), or does not exceed, with probability p.

    >>> import scipy.stats as st
    >>> quantiles(st.norm, np.array([0.5, 0.975])).round(4).tolist()
    [0.0, 1.96]
    """
    if has_own_quantiles(dist):
        return np.asarray((dist.isf if upper else dist.ppf)(p, *shapes), dtype=np.float64)
    lo, hi = (float(end) for end in dist.support(*shapes))

    def rise(x: FloatArray) -> FloatArray:
        return -dist.sf(x, *shapes) if upper else dist.cdf(x, *shapes)

    levels = -np.asarray(p, dtype=np.float64) if upper else np.asarray(p, dtype=np.float64)
    if not np.isfinite(lo):
        lo = _point_beyond_level(rise, min(hi, 0.0) - 1.0, -1.0, float(np.min(levels, initial=np.inf)))
    if not np.isfinite(hi):
        hi = _point_beyond_level(rise, max(lo, 0.0) + 1.0, 1.0, float(np.max(levels, initial=-np.inf)))
    found = invert_increasing_function(
        rise, levels, np.full(levels.shape, lo), np.full(levels.shape, hi), float(dist.xtol)
    )
    ends = dist.support(*shapes)[:: -1 if upper else 1]
    return np.where(p <= 0.0, ends[0], np.where(p >= 1.0, ends[1], found))


def _point_beyond_level(rise: Callable[[FloatArray], FloatArray], start: float, step: float, level: float) -> float:
    """A point on the far side of a level, in the direction of the step."""
    x = start
    while abs(x) < _LARGEST and (float(rise(np.array([x]))[0]) - level) * step < 0.0:
        x, step = x + step, 2.0 * step
    return x


def invert_increasing_function(
    rise: Callable[[FloatArray], FloatArray], level: FloatArray, lo: FloatArray, hi: FloatArray, tolerance: float
) -> FloatArray:
    """Where an increasing function reaches each level, between ``lo`` and ``hi``: Chandrupatla's method, all at once.

    T. R. Chandrupatla (1997), *A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
    function without using derivatives*. A level that is not reached gives the nearer end.
    """
    a, b = np.array(hi, dtype=np.float64), np.array(lo, dtype=np.float64)
    fa, fb = rise(a) - level, rise(b) - level
    x = np.where(fb >= 0.0, b, np.where(fa <= 0.0, a, np.nan))
    open_ = np.flatnonzero(np.isnan(x) & ~np.isnan(level))
    a, b, fa, fb = (v[open_] for v in (a, b, fa, fb))
    t = np.full(open_.size, 0.5)
    for _ in range(_MAX_STEPS):
        if open_.size == 0:
            break
        new = a + t * (b - a)
        f_new = rise(new) - level[open_]
        same = np.sign(f_new) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = new, f_new
        nearest = np.where(np.abs(fa) < np.abs(fb), a, b)
        width = np.abs(b - a)
        limit = 0.5 * tolerance + 2.0 * np.finfo(np.float64).eps * np.abs(nearest)
        x[open_] = nearest
        going = (width > 2.0 * limit) & (f_new != 0.0)
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            quadratic = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            inner = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            t = np.where(quadratic & np.isfinite(inner), inner, 0.5)
            edge = limit / width
        t = np.clip(t, np.minimum(edge, 0.5), np.maximum(1.0 - edge, 0.5))
        open_, a, b, fa, fb, t = (v[going] for v in (open_, a, b, fa, fb, t))
    return x


def is_new_distribution(x: Any) -> bool:
    """Whether this is a distribution of scipy's new kind."""
    return all(callable(getattr(x, name, None)) for name in ("icdf", "ccdf", "sample"))
