"""Intervals of utilities: their sign for losses, and where they must end."""

from __future__ import annotations

from math import isfinite, nan

from pmbandits.advice import checks
from pmbandits.advice.problem import Problem
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Heavy, Real


def signed_interval(sign: float, interval: tuple[float, float]) -> tuple[float, float]:
    """The interval as it is for losses, if the sign is negative."""
    low, high = interval
    return (low, high) if sign > 0.0 else (-high + 0.0, -low + 0.0)  # never -0


def finite_or_nan(bounds: tuple[float, float]) -> tuple[float, float]:
    """The bounds, or NaN for both if one is infinite."""
    return bounds if all(map(isfinite, bounds)) else (nan, nan)


def clip_to_metric_range(interval: tuple[float, float], metric: Distortion, problem: Problem) -> tuple[float, float]:
    """Clip an interval to the range of the metric on the support, which standard errors do not know."""
    support = problem.support
    if not problem.declared and isfinite(interval[0]):
        lowest, highest = checks.score_limits_at_zero(support, metric)
        return max(interval[0], lowest), min(interval[1], highest)
    if isinstance(support, (Real, Heavy)) or not problem.declared or not isfinite(interval[0]):
        return interval
    base = support.lo * float(metric(1.0))
    low, high = (base + support.width * end.value for end in (metric.minimum(), metric.maximum()))
    return min(max(interval[0], low), high), min(max(interval[1], low), high)
