"""Means of independent trials, with intervals that also hold where single trials are far from the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray

CONFIDENCE_LEVEL = 0.95


def standard_error(values: FloatArray) -> float:
    """The standard error of the mean of independent numbers; NaN for a single one."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def mean_interval(values: ArrayLike, level: float = CONFIDENCE_LEVEL) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The mean of each column, and the ends of an interval for the mean of all trials that could be played.

    Regrets are skewed: most trials have little, few have very much. "Mean ± 2 standard errors" then lies too low, and
    it is wrong far more often than in 5 % of cases (``python -m benchmarks intervals`` measures it). This goes
    from the lower to the upper of the ends of two intervals: Student's, and Student's after Hall's transformation
    (1992), which takes the skewness of the values into account.

    Parameters
    ----------
    values : one row for each trial.
    level : how often the interval should hold, about. It cannot know of bad trials that are so rare that none was seen.

    Examples
    --------
    >>> mean, low, high = mean_interval([[0.0], [0.1], [0.2], [0.1], [3.0]])
    >>> f"{mean[0]:.2f}, between {low[0]:.2f} and {high[0]:.2f}"
    '0.68, between -0.93 and 5.84'
    """
    from scipy.special import stdtrit

    level = _validation.check_within("level", level, 0.0, 1.0, open_lo=True, open_hi=True)
    table = np.asarray(values, dtype=np.float64)
    n = table.shape[0]
    mean = table.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    spread = table.std(axis=0)
    is_constant = spread <= 1e-12 * np.abs(table).max(axis=0)  # all trials are the same, up to rounding
    safe = np.where(is_constant, 1.0, spread)
    skew = np.where(is_constant, 0.0, (((table - mean) / safe) ** 3).mean(axis=0)) / np.sqrt(n)
    error = np.where(is_constant, 0.0, spread / np.sqrt(n - 1.0))
    t_quantile = float(stdtrit(n - 1, 0.5 + 0.5 * level))
    low, high = (
        np.maximum(_inverse_hall_transform(t_quantile, skew), t_quantile),
        np.minimum(_inverse_hall_transform(-t_quantile, skew), -t_quantile),
    )
    return mean, mean - low * error, mean - high * error


def _inverse_hall_transform(t: float, skew: FloatArray) -> FloatArray:
    """The inverse of Hall's x + s·x²/3 + s²·x³/27 + s/6, which makes a studentized mean with skewness s symmetric."""
    y = t - skew / 6.0
    small = np.abs(skew) < 1e-6
    s = np.where(small, 1.0, skew)
    return np.where(small, y, 3.0 * (np.cbrt(1.0 + s * y) - 1.0) / s)
