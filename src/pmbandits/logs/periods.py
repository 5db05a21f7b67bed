"""Times as numbers, and periods: one outcome is the average of an arm's rewards in a day, a week or a month."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray

PERIODS = ("day", "week", "month", "time")
_DAY = 86_400_000_000  # microseconds
_MONDAY = 4  # the first Monday of 1970 was its fifth day
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DAY_FIRST = re.compile(r"^(?:(\d{1,2})\.(\d{1,2})\.|(\d{1,2})/)(\d{4})(?:,?\s+(?=\d)|$)")  # or the month: 8/2026


def _iso_date_from_match(found: re.Match[str]) -> str:
    day, month, only_month, year = found.groups()
    return f"{year}-{int(month or only_month):02d}-{int(day or 1):02d}{' ' if found.end() < len(found.string) else ''}"


def parse_times(cells: Any) -> FloatArray:
    """Times as numbers that grow; NaN where a cell is no time.

    Numbers stay. Dates and timestamps are in ISO form (2026-08-03), day.month.year (3.8.2026 14:30), or month/year.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = np.asarray(cells)
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64)
    if raw.dtype.kind == "M":
        out = raw.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(raw), np.nan, out)
    texts = ["" if c is None or c != c else str(c).strip() for c in raw.tolist()]
    out = np.full(len(texts), np.nan)
    for k, text in enumerate(texts):
        if _NUMBER.fullmatch(text):
            out[k] = float(text)
    if np.isfinite(out).any():
        return out
    texts = [_DAY_FIRST.sub(_iso_date_from_match, text) for text in texts]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            filled = pa.array([text or None for text in texts], pa.string())
            moments = pc.cast(filled, kind).cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
        return np.asarray(moments, dtype=np.float64)
    return _parse_dates_one_by_one(texts)


def _parse_dates_one_by_one(texts: list[str]) -> FloatArray:
    """Dates parsed one by one; NaN where one cannot be read."""
    out = np.full(len(texts), np.nan)
    for k, text in enumerate(texts):
        try:
            out[k] = float(np.datetime64(text, "us").astype(np.int64)) if text else np.nan
        except ValueError:
            continue
    return out


def are_times_written_as_numbers(cells: Any) -> bool:
    """Whether times are written as numbers, of which nobody knows how long a day is."""
    raw = np.asarray(cells)
    return raw.dtype.kind in "biuf" or (raw.dtype.kind != "M" and any(_NUMBER.fullmatch(str(c).strip()) for c in raw))


def floor_to_period(cells: Any, per: str | None) -> FloatArray:
    """Times as numbers that grow, each brought to the beginning of its period; NaN where a cell is no time.

    Weeks begin on Monday. ``"time"`` takes each time as a period of its own, so that it also takes numbers.

    >>> days = floor_to_period(["2026-08-03", "2026-08-09", "2026-08-10"], "week") / 86_400_000_000
    >>> (days - days[0]).tolist()
    [0.0, 0.0, 7.0]
    """
    times = parse_times(cells)
    if per is None or per == "time":
        return times
    if are_times_written_as_numbers(cells):
        raise ValueError(
            f"per={per!r} needs dates in the time column, got numbers; say per='time' (--per time) to take each of "
            "them as a period."
        )
    known = np.isfinite(times)
    days = np.floor(times[known] / _DAY)
    if per == "week":
        days = np.floor((days - _MONDAY) / 7.0) * 7.0 + _MONDAY
    elif per == "month":
        days = days.astype("datetime64[D]").astype("datetime64[M]").astype("datetime64[D]").astype(np.float64)
    times[known] = days * _DAY
    return times


def mean_by_arm_and_period(
    arm: NDArray[np.int64], reward: FloatArray, time: FloatArray
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """One row for each arm and period, in the order of the periods: arm, average reward, period.

    >>> mean_by_arm_and_period(np.array([0, 1, 0, 0]), np.array([1.0, 5.0, 3.0, 8.0]), np.array([7.0, 7.0, 7.0, 14.0]))
    (array([0, 1, 0]), array([2., 5., 8.]), array([ 7.,  7., 14.]))
    """
    order = np.lexsort((arm, time))
    arm, reward, time = arm[order], reward[order], time[order]
    new = np.ones(arm.size, dtype=bool)
    new[1:] = (np.diff(arm) != 0) | (np.diff(time) != 0)
    start = np.flatnonzero(new)
    counts = np.diff(np.append(start, arm.size))
    return arm[start], np.add.reduceat(reward, start) / counts, time[start]
