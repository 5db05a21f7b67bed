"""Which columns of a table are read, and how numbers and times are written in it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray, readable

_THOUSANDS_SIGNS = (".", ",", " ", "'", "’", "_")  # signs that can stand between thousands
PERIODS = ("day", "week", "month", "time")
_DAY = 86_400_000_000  # microseconds
_MONDAY = 4  # the first Monday of 1970 was its fifth day
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class ReadSettings:
    """How a table is to be read; the fields are those of :func:`pmbandits.advise`.

    >>> ReadSettings(decimal=",", thousands=".", currency="€").normalise_number(" € 1.234,50 ")
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
        if self.thousands and (self.thousands not in _THOUSANDS_SIGNS or self.thousands == self.decimal):
            raise ValueError(
                f"thousands must be one of {', '.join(map(repr, _THOUSANDS_SIGNS))} and not the decimal sign, got "
                f"{self.thousands!r}."
            )
        if not isinstance(self.wide, bool) and (isinstance(self.wide, str) or not list(self.wide)):
            raise ValueError(f"wide must be True, or a list of the columns that are arms, got {self.wide!r}.")
        if re.search(r"[\d.,+-]", self.currency):
            raise ValueError(f"currency must be a sign or a word such as '€' or 'USD', got {self.currency!r}.")

    @property
    def uses_python_format(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self.decimal == "." and not self.thousands and not self.currency

    @property
    def keeps_rows(self) -> bool:
        """Whether every row is kept, for its unit or its time."""
        return self.unit is not None or self.time is not None

    def normalise_number(self, text: str) -> str:
        """A number as Python writes it; what is not written as declared stays no number."""
        text = text.strip()
        if self.currency:
            text = text.replace(self.currency, "").replace("\u00a0", " ").replace("\u202f", " ").strip()
        if self.thousands and re.fullmatch(self.thousands_pattern, text):
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            text = text.replace(".", "?").replace(",", ".")
        return text

    @property
    def thousands_pattern(self) -> str:
        """A pattern for numbers with signs between thousands."""
        sign, point = re.escape(self.thousands), re.escape(self.decimal)
        return rf"^[+-]?[0-9]{{1,3}}({sign}[0-9]{{3}})+({point}[0-9]+)?$"

    def normalise_column(self, texts: Any) -> Any:
        """A column of Arrow strings with every cell rewritten as :meth:`normalise_number` does."""
        import pyarrow.compute as pc

        if self.uses_python_format:
            return texts
        if self.currency:
            texts = pc.replace_substring(texts, self.currency, "")
            texts = pc.utf8_trim(texts, " \t\u00a0\u202f")
        if self.thousands:
            grouped = pc.match_substring_regex(texts, self.thousands_pattern)
            texts = pc.if_else(grouped, pc.replace_substring(texts, self.thousands, ""), texts)
        if self.decimal == ",":
            texts = pc.replace_substring(pc.replace_substring(texts, ".", "?"), ",", ".")
        return texts


@dataclass(frozen=True)
class UnitsAndTimes:
    """The unit and the time of each row, where such columns were named.

    Attributes
    ----------
    unit : a text for each row, empty where there is none.
    time : numbers that grow with time, NaN where a time cannot be read.
    raw_times : the times as they stand in the table.
    """

    unit: NDArray[Any] | None = None
    time: FloatArray | None = None
    raw_times: Any = None

    def at_rows(self, rows: NDArray[np.bool_]) -> UnitsAndTimes:
        """The units and times of some rows."""
        return UnitsAndTimes(*(None if column is None else column[rows] for column in (self.unit, self.time)))

    def without_unit(self) -> NDArray[np.bool_] | bool:
        """Of which rows the unit is missing."""
        return False if self.unit is None else self.unit == ""

    def without_time(self) -> NDArray[np.bool_] | bool:
        """Of which rows the time is missing or cannot be read."""
        return False if self.time is None else ~np.isfinite(self.time)


@dataclass(frozen=True)
class ColumnSelection:
    """The columns that are read.

    Attributes
    ----------
    reward_columns : (name of the arm, or ``None`` if a column says it; index of the column of rewards).
    arm, unit, time : indices of columns, or ``None``.
    per : the period to which times are brought, or ``None``.
    """

    reward_columns: tuple[tuple[str | None, int], ...]
    arm: int | None
    unit: int | None
    time: int | None
    per: str | None = None

    def units_and_times(self, cells: Callable[[int], Any]) -> UnitsAndTimes | None:
        """Units and times of some rows; ``cells`` returns the cells of a column by its index."""
        if self.unit is None and self.time is None:
            return None
        unit = None if self.unit is None else parse_labels(to_numpy(cells(self.unit)))
        if self.time is None:
            return UnitsAndTimes(unit)
        raw_times = to_numpy(cells(self.time))
        return UnitsAndTimes(unit, floor_to_period(raw_times, self.per), raw_times)

    @property
    def column_indices(self) -> list[int]:
        """The sorted indices of all columns that are read."""
        used = {at for _, at in self.reward_columns} | {at for at in (self.arm, self.unit, self.time) if at is not None}
        return sorted(used)


def find_column(name: str, known: list[str], source: str, what: str) -> int:
    """The index of a column by its name, in any case; raises an error that lists the columns if there is none."""
    if name in known:
        return known.index(name)
    plain = [k.strip().lower() for k in known]
    if plain.count(name.strip().lower()) == 1:
        return plain.index(name.strip().lower())
    near = difflib.get_close_matches(name.lower(), plain, n=1, cutoff=0.4)
    hint = f" Did you mean {known[plain.index(near[0])]!r}?" if near else ""
    listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "") or "none"
    raise ValueError(f"{source} has no column {name!r} for the {what}; it has: {readable(listed)[:500]}.{hint}")


def select_columns(settings: ReadSettings, known: list[str], source: str) -> ColumnSelection:
    """The columns to read; raises an error that lists the columns if one is missing."""
    unit = find_column(settings.unit, known, source, "unit") if settings.unit is not None else None
    time = find_column(settings.time, known, source, "time") if settings.time is not None else None
    if settings.wide is False:
        arm = find_column(settings.arm, known, source, "arm")
        return ColumnSelection(
            ((None, find_column(settings.reward, known, source, "reward")),), arm, unit, time, settings.per
        )
    if settings.wide is True:
        arms = [k for k in range(len(known)) if k not in (unit, time)]
    else:
        arms = [find_column(str(name), known, source, "arm") for name in settings.wide]
    if not arms:
        raise ValueError(f"{source} has no columns left for arms; it has: {', '.join(known) or 'none'}.")
    return ColumnSelection(tuple((known[k], k) for k in arms), None, unit, time, settings.per)


_DAY_FIRST = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})(?:,?\s+(?=\d)|$)")


def _to_iso_date(found: re.Match[str]) -> str:
    day, month, year = found.groups()
    return f"{year}-{int(month):02d}-{int(day):02d}{' ' if found.end() < len(found.string) else ''}"


def parse_times(cells: Any) -> FloatArray:
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
    texts = [_DAY_FIRST.sub(_to_iso_date, text) for text in texts]
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


def are_numeric(cells: Any) -> bool:
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
    if are_numeric(cells):
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


def is_arrow(column: Any) -> bool:
    """Whether a column is an Arrow array, not one of numpy."""
    return type(column).__module__.startswith("pyarrow")


def to_numpy(column: Any) -> NDArray[Any]:
    """A column as a numpy array; Arrow's numbers stay numbers, and its other cells become Python objects."""
    if not is_arrow(column):
        return np.asarray(column)
    if str(column.type) == "double":
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return object_array(column.to_pylist())


def object_array(cells: Iterable[Any]) -> NDArray[Any]:
    """An array of Python objects; lists among the cells stay lists."""
    return np.fromiter(cells, dtype=object)


def parse_labels(cells: Any) -> NDArray[Any]:
    """Units as texts; empty where there is none."""
    raw = np.asarray(cells, dtype=object)
    return np.array(["" if c is None or c != c else str(c).strip() for c in raw.tolist()], dtype=object)
