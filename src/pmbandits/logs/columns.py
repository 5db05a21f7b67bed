"""Which columns of a table are read, and how numbers and times are written in it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray, escape_control_characters
from pmbandits.logs.conditions import Condition, parse_condition
from pmbandits.logs.periods import PERIODS, floor_to_period

_THOUSANDS_SIGNS = (".", ",", " ", "'", "’", "_")  # signs that can stand between thousands
_MINUS = "\\-\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"  # hyphens, the minus sign and dashes
_NEGATIVE = rf"^(?:\(\s*([^(){_MINUS}]*[^(){_MINUS}\s])\s*\)|[{_MINUS}]\s*([^{_MINUS}].*)|([0-9.,]+)[{_MINUS}])$"


def with_plain_minus(text: str) -> str:
    """A number with a plain minus sign before it, if it is written with another one, after it, or in brackets.

    >>> [with_plain_minus(text) for text in ("(34)", "\u221234", "34-", "- 34", "34", "(a)", "\u2013")]
    ['-34', '-34', '-34', '-34', '34', '-a', '\u2013']
    """
    return re.sub(_NEGATIVE, r"-\1\2\3", text)


@dataclass(frozen=True)
class ReadSettings:
    """How a table is to be read; the fields are those of :func:`pmbandits.advise`.

    With a ``segment``, each pair of a segment and an arm is read as an arm of its own.

    >>> ReadSettings(decimal=",", thousands=".", currency="€").normalise_number(" € 1.234,50 ")
    '1234.50'
    """

    arm: str | None = None
    reward: str | None = None
    unit: str | None = None
    time: str | None = None
    wide: bool | Sequence[str] = False
    decimal: str | None = None
    thousands: str = ""
    currency: str = ""
    per: str | None = None
    sheet: str | None = None
    where: str | Sequence[str] = ()
    since: str | None = None
    missing: float | Sequence[float] | None = None
    same_names: bool = False
    distinct: bool = False
    measured_in: str = ""
    weight: str | None = None
    propensity: str | None = None
    segment: str | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and self.propensity is not None:
            raise ValueError("give weight or propensity, not both: a propensity p is the weight 1/p.")
        if self.is_weighted and (self.unit is not None or self.time is not None):
            raise ValueError("weights (or propensities) cannot be used together with unit, time or per.")
        if self.per is not None and self.per not in PERIODS:
            raise ValueError(f"per must be one of {', '.join(map(repr, PERIODS))}, got {self.per!r}.")
        if self.per is not None and self.time is None:
            raise ValueError(f"per={self.per!r} needs the column that says when: give time= (--time) as well.")
        if self.per is not None and self.unit is not None:
            raise ValueError("give unit or per, not both: the rewards of a period belong to no single unit.")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.' or ',', got {self.decimal!r}.")
        if self.thousands and (self.thousands not in _THOUSANDS_SIGNS or self.thousands == (self.decimal or ".")):
            raise ValueError(
                f"thousands must be one of {', '.join(map(repr, _THOUSANDS_SIGNS))} and not the decimal sign, got "
                f"{self.thousands!r}."
            )
        if not isinstance(self.wide, bool) and (isinstance(self.wide, str) or not list(self.wide)):
            raise ValueError(f"wide must be True, or a list of the columns that are arms, got {self.wide!r}.")
        if re.search(r"[\d.,+-]", self.currency):
            raise ValueError(f"currency must be a sign or a word such as '€' or 'USD', got {self.currency!r}.")

    @property
    def uses_python_number_format(self) -> bool:
        """Whether numbers are written as Python writes them, but perhaps for their minus signs."""
        return self.decimal != "," and not self.thousands and not self.currency

    @property
    def conditions(self) -> list[Condition]:
        """The conditions on rows, parsed; :func:`pmbandits.logs.reading.read_log` has put ``since`` among them."""
        texts = [self.where] if isinstance(self.where, str) else self.where
        return [parse_condition(part) for text in texts for part in text.split(";") if part.strip()]

    @property
    def missing_numbers(self) -> list[float]:
        """Numbers that stand for a missing reward."""
        if self.missing is None:
            return []
        return [float(self.missing)] if isinstance(self.missing, (int, float)) else list(map(float, self.missing))

    @property
    def keeps_every_row(self) -> bool:
        """Whether every row is kept, for its unit, its time or its weight."""
        return self.unit is not None or self.time is not None or self.is_weighted

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights, or propensities."""
        return self.weight is not None or self.propensity is not None

    def normalise_number(self, text: str) -> str:
        """A number as Python writes it; what is not written as declared stays no number."""
        text = text.strip()
        if self.currency:
            text = text.replace(self.currency, "").replace("\u00a0", " ").replace("\u202f", " ").strip()
        text = with_plain_minus(text)
        if self.thousands and re.fullmatch(self.thousands_pattern, text):
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            text = text.replace(".", "?").replace(",", ".")
        return text

    @property
    def thousands_pattern(self) -> str:
        """A pattern for numbers with signs between thousands."""
        sign, point = re.escape(self.thousands), re.escape(self.decimal or ".")
        return rf"^[+-]?[0-9]{{1,3}}({sign}[0-9]{{3}})+({point}[0-9]+)?$"

    def normalise_column(self, texts: Any) -> Any:
        """A column of Arrow strings with every cell rewritten as :meth:`normalise_number` does."""
        import pyarrow.compute as pc

        if self.currency:
            texts = pc.replace_substring(texts, self.currency, "")
            texts = pc.utf8_trim(texts, " \t\u00a0\u202f")
        texts = pc.replace_substring_regex(texts, _NEGATIVE, r"-\1\2\3")
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
    weight : the weight of each row, NaN where there is none that can be used.
    """

    unit: NDArray[Any] | None = None
    time: FloatArray | None = None
    raw_times: Any = None
    weight: FloatArray | None = None

    def select_rows(self, rows: NDArray[np.bool_]) -> UnitsAndTimes:
        """The units and times of some rows."""
        unit = None if self.unit is None else self.unit[rows]
        time, weight = (None if column is None else column[rows] for column in (self.time, self.weight))
        return UnitsAndTimes(unit, time, weight=weight)

    def mask_of_rows_without_weight(self) -> NDArray[np.bool_] | bool:
        """Of which rows the weight is missing or cannot be used."""
        return False if self.weight is None else ~np.isfinite(self.weight)

    def mask_of_rows_without_unit(self) -> NDArray[np.bool_] | bool:
        """Of which rows the unit is missing."""
        return False if self.unit is None else self.unit == ""

    def mask_of_rows_without_time(self) -> NDArray[np.bool_] | bool:
        """Of which rows the time is missing or cannot be read."""
        return False if self.time is None else ~np.isfinite(self.time)


@dataclass(frozen=True)
class ColumnSelection:
    """The columns that are read.

    Attributes
    ----------
    reward_columns : (name of the arm, or ``None`` if a column says it; index of the column of rewards).
    arm, segment, unit, time : indices of columns, or ``None``.
    per : the period to which times are brought, or ``None``.
    conditions : (index of a column; the condition on it) for each condition on the rows.
    weight, inverse : the index of the column of weights, or ``None``, and whether it holds propensities instead.
    """

    reward_columns: tuple[tuple[str | None, int], ...]
    arm: int | None
    unit: int | None
    time: int | None
    per: str | None = None
    conditions: tuple[tuple[int, Condition], ...] = ()
    weight: int | None = None
    inverse: bool = False
    segment: int | None = None

    def indices_of_kept_rows(self, cells: Callable[[int], Any]) -> NDArray[np.intp] | None:
        """The positions of the rows for which all conditions hold; ``None`` if there are no conditions."""
        if not self.conditions:
            return None
        held = [
            condition.mask_of_rows_that_fulfil(parse_labels(to_numpy(cells(at)))) for at, condition in self.conditions
        ]
        return np.flatnonzero(np.logical_and.reduce(held))

    def units_and_times(self, cells: Callable[[int], Any]) -> UnitsAndTimes | None:
        """Units and times of some rows; ``cells`` returns the cells of a column by its index."""
        if self.weight is not None:
            return UnitsAndTimes(weight=parse_weights(to_numpy(cells(self.weight)), self.inverse))
        if self.unit is None and self.time is None:
            return None
        unit = None if self.unit is None else parse_labels(to_numpy(cells(self.unit)))
        if self.time is None:
            return UnitsAndTimes(unit)
        raw_times = to_numpy(cells(self.time))
        return UnitsAndTimes(unit, floor_to_period(raw_times, self.per), raw_times)

    @property
    def sorted_column_indices(self) -> list[int]:
        """The sorted indices of all columns that are read."""
        used = {at for at in (self.arm, self.segment, self.unit, self.time, self.weight) if at is not None}
        used |= {at for _, at in self.reward_columns} | {at for at, _ in self.conditions}
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
    raise ValueError(
        f"{source} has no column {name!r} for the {what}; it has: {escape_control_characters(listed)[:500]}.{hint}"
    )


def select_columns(settings: ReadSettings, known: list[str], source: str) -> ColumnSelection:
    """The columns to read; raises an error that lists the columns if one is missing."""
    unit = find_column(settings.unit, known, source, "unit") if settings.unit is not None else None
    time = find_column(settings.time, known, source, "time") if settings.time is not None else None
    conditions = tuple((find_column(c.column, known, source, "condition"), c) for c in settings.conditions)
    if settings.is_weighted:
        if settings.wide is not False:
            raise ValueError("a wide table has one weight for several rewards; give a table with an arm column.")
        inverse = settings.propensity is not None
        column = settings.propensity if settings.propensity is not None else settings.weight
        weight = find_column(str(column), known, source, "propensity" if inverse else "weight")
        selected = select_columns(replace(settings, weight=None, propensity=None), known, source)
        return replace(selected, weight=weight, inverse=inverse)
    if settings.wide is False:
        arm = find_column(settings.arm or "arm", known, source, "arm")
        reward = find_column(settings.reward or "reward", known, source, "reward")
        segment = find_column(settings.segment, known, source, "segment") if settings.segment is not None else None
        return ColumnSelection(((None, reward),), arm, unit, time, settings.per, conditions, segment=segment)
    if settings.wide is True:
        arms = [k for k in range(len(known)) if k not in (unit, time, *(at for at, _ in conditions))]
    else:
        arms = [find_column(str(name), known, source, "arm") for name in settings.wide]
    if not arms:
        raise ValueError(f"{source} has no columns left for arms; it has: {', '.join(known) or 'none'}.")
    return ColumnSelection(tuple((known[k], k) for k in arms), None, unit, time, settings.per, conditions)


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


def parse_weights(cells: Any, inverse: bool) -> FloatArray:
    """Weights of rows, or from propensities p the weights 1/p; NaN where a cell is no weight that can be used.

    >>> parse_weights(["0.5", "x", 0.0, 2.0], inverse=True)
    array([ 2., nan, nan, nan])
    """
    out = np.full(len(cells), np.nan)
    for k, cell in enumerate(np.asarray(cells, dtype=object).tolist()):
        with suppress(TypeError, ValueError):
            value = float(cell)
            if 0.0 < value <= (1.0 if inverse else np.finfo(float).max):
                out[k] = 1.0 / value if inverse else value
    return out


def parse_labels(cells: Any) -> NDArray[Any]:
    """Units as texts; empty where there is none."""
    raw = np.asarray(cells, dtype=object)
    return np.array(["" if c is None or c != c else str(c).strip() for c in raw.tolist()], dtype=object)
