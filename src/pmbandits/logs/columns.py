"""Which columns of a table are read, and how numbers and times are written in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.logs.cells import Beside, pick

_SIGNS = (".", ",", " ", "'", "’", "_")  # signs that can stand between thousands
PERIODS = ("day", "week", "month", "time")
_DAY = 86_400_000_000  # microseconds
_MONDAY = 4  # the first Monday of 1970 was its fifth day
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Reading:
    """How a table is to be read; the fields are those of :func:`pmbandits.advise`.

    >>> Reading(decimal=",", thousands=".", currency="€").number(" € 1.234,50 ")
    '1234.50'
    """

    arm: str = "arm"
    reward: str = "reward"
    unit: str | None = None
    time: str | None = None
    wide: bool | Sequence[str] = False
    decimal: str = "."
    thousands: str = ""
    currency: str = ""
    per: str | None = None

    def __post_init__(self) -> None:
        if self.per is not None and self.per not in PERIODS:
            raise ValueError(f"per must be one of {', '.join(map(repr, PERIODS))}, got {self.per!r}.")
        if self.per is not None and self.time is None:
            raise ValueError(f"per={self.per!r} needs the column that says when: give time= (--time) as well.")
        if self.per is not None and self.unit is not None:
            raise ValueError("give unit or per, not both: the rewards of a period belong to no single unit.")
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal must be '.' or ',', got {self.decimal!r}.")
        if self.thousands and (self.thousands not in _SIGNS or self.thousands == self.decimal):
            raise ValueError(
                f"thousands must be one of {', '.join(map(repr, _SIGNS))} and not the decimal sign, got "
                f"{self.thousands!r}."
            )
        if not isinstance(self.wide, bool) and (isinstance(self.wide, str) or not list(self.wide)):
            raise ValueError(f"wide must be True, or a list of the columns that are arms, got {self.wide!r}.")
        if re.search(r"[\d.,+-]", self.currency):
            raise ValueError(f"currency must be a sign or a word such as '€' or 'USD', got {self.currency!r}.")

    @property
    def plain(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self.decimal == "." and not self.thousands and not self.currency

    @property
    def keeps_rows(self) -> bool:
        """Whether every row is kept, for its unit or its time."""
        return self.unit is not None or self.time is not None

    def number(self, text: str) -> str:
        """A number as Python writes it; what is not written as declared stays no number."""
        text = text.strip()
        if self.currency:
            text = text.replace(self.currency, "").replace("\u00a0", " ").replace("\u202f", " ").strip()
        if self.thousands and re.fullmatch(self.grouped, text):
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            text = text.replace(".", "?").replace(",", ".")
        return text

    @property
    def grouped(self) -> str:
        """A pattern for numbers with signs between thousands."""
        sign, point = re.escape(self.thousands), re.escape(self.decimal)
        return rf"^[+-]?[0-9]{{1,3}}({sign}[0-9]{{3}})+({point}[0-9]+)?$"

    def numbers(self, texts: Any) -> Any:
        """:meth:`number` for a column of arrow."""
        import pyarrow.compute as pc

        if self.plain:
            return texts
        if self.currency:
            texts = pc.replace_substring(texts, self.currency, "")
            texts = pc.utf8_trim(texts, " \t\u00a0\u202f")
        if self.thousands:
            grouped = pc.match_substring_regex(texts, self.grouped)
            texts = pc.if_else(grouped, pc.replace_substring(texts, self.thousands, ""), texts)
        if self.decimal == ",":
            texts = pc.replace_substring(pc.replace_substring(texts, ".", "?"), ",", ".")
        return texts


@dataclass(frozen=True)
class Picked:
    """The columns that are read.

    Attributes
    ----------
    pairs : (name of the arm, or ``None`` if a column says it; the place of the rewards).
    arm, unit, time : places of columns, or ``None``.
    per : the period to which times are brought, or ``None``.
    """

    pairs: tuple[tuple[str | None, int], ...]
    arm: int | None
    unit: int | None
    time: int | None
    per: str | None = None

    def beside(self, cells: Callable[[int], Any]) -> Beside | None:
        """Units and times of some rows; ``cells`` gives those of the column at a place."""
        if self.unit is None and self.time is None:
            return None
        unit = None if self.unit is None else as_labels(cells(self.unit))
        if self.time is None:
            return Beside(unit)
        written = cells(self.time)
        return Beside(unit, as_periods(written, self.per), written)

    @property
    def places(self) -> list[int]:
        """The places of all columns that are read, each once, in order."""
        used = {at for _, at in self.pairs} | {at for at in (self.arm, self.unit, self.time) if at is not None}
        return sorted(used)


def picked(how: Reading, known: list[str], source: str) -> Picked:
    """Find the columns, or say in a sentence which there are."""
    unit = pick(how.unit, known, source, "unit") if how.unit is not None else None
    time = pick(how.time, known, source, "time") if how.time is not None else None
    if how.wide is False:
        arm = pick(how.arm, known, source, "arm")
        return Picked(((None, pick(how.reward, known, source, "reward")),), arm, unit, time, how.per)
    if how.wide is True:
        arms = [k for k in range(len(known)) if k not in (unit, time)]
    else:
        arms = [pick(str(name), known, source, "arm") for name in how.wide]
    if not arms:
        raise ValueError(f"{source} has no columns left for arms; it has: {', '.join(known) or 'none'}.")
    return Picked(tuple((known[k], k) for k in arms), None, unit, time, how.per)


_DAY_FIRST = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})(?:,?\s+(?=\d)|$)")


def _year_first(found: re.Match[str]) -> str:
    day, month, year = found.groups()
    return f"{year}-{int(month):02d}-{int(day):02d}{' ' if found.end() < len(found.string) else ''}"


def as_times(cells: Any) -> FloatArray:
    """Times as numbers that grow; NaN where a cell is no time.

    Numbers stay. Dates and timestamps are in ISO form (2026-08-03), or day.month.year (3.8.2026 14:30).
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
    texts = [_DAY_FIRST.sub(_year_first, text) for text in texts]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            filled = pa.array([text or None for text in texts], pa.string())
            moments = pc.cast(filled, kind).cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
        return np.asarray(moments, dtype=np.float64)
    return _one_by_one(texts)


def _one_by_one(texts: list[str]) -> FloatArray:
    """Dates of which some cannot be read."""
    out = np.full(len(texts), np.nan)
    for k, text in enumerate(texts):
        try:
            out[k] = float(np.datetime64(text, "us").astype(np.int64)) if text else np.nan
        except ValueError:
            continue
    return out


def are_numbers(cells: Any) -> bool:
    """Whether times are written as numbers, of which nobody knows how long a day is."""
    raw = np.asarray(cells)
    return raw.dtype.kind in "biuf" or (raw.dtype.kind != "M" and any(_NUMBER.fullmatch(str(c).strip()) for c in raw))


def as_periods(cells: Any, per: str | None) -> FloatArray:
    """Times as numbers that grow, each brought to the beginning of its period; NaN where a cell is no time.

    Weeks begin on Monday. ``"time"`` takes each time as a period of its own, so that it also takes numbers.

    >>> days = as_periods(["2026-08-03", "2026-08-09", "2026-08-10"], "week") / 86_400_000_000
    >>> (days - days[0]).tolist()
    [0.0, 0.0, 7.0]
    """
    times = as_times(cells)
    if per is None or per == "time":
        return times
    if are_numbers(cells):
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


def as_labels(cells: Any) -> NDArray[Any]:
    """Units as texts; empty where there is none."""
    raw = np.asarray(cells, dtype=object)
    return np.array(["" if c is None or c != c else str(c).strip() for c in raw.tolist()], dtype=object)
