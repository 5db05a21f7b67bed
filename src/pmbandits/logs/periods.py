"""Periods: one outcome is the average of an arm's rewards in a day, a week or a month."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray


def by_period(
    arm: NDArray[np.int64], reward: FloatArray, time: FloatArray
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """One row for each arm and period, in the order of the periods: arm, average reward, period.

    >>> by_period(np.array([0, 1, 0, 0]), np.array([1.0, 5.0, 3.0, 8.0]), np.array([7.0, 7.0, 7.0, 14.0]))
    (array([0, 1, 0]), array([2., 5., 8.]), array([ 7.,  7., 14.]))
    """
    order = np.lexsort((arm, time))
    arm, reward, time = arm[order], reward[order], time[order]
    new = np.ones(arm.size, dtype=bool)
    new[1:] = (np.diff(arm) != 0) | (np.diff(time) != 0)
    start = np.flatnonzero(new)
    counts = np.diff(np.append(start, arm.size))
    return arm[start], np.add.reduceat(reward, start) / counts, time[start]
