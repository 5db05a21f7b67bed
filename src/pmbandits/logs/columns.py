"""Which columns of a table are read, and how numbers and times are written in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.logs.cells import pick

_SIGNS = (".", ",", " ", "'", "’", "_")  # signs that can stand between thousands


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

    def __post_init__(self) -> None:
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
    """

    pairs: tuple[tuple[str | None, int], ...]
    arm: int | None
    unit: int | None
    time: int | None

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
        return Picked(((None, pick(how.reward, known, source, "reward")),), arm, unit, time)
    if how.wide is True:
        arms = [k for k in range(len(known)) if k not in (unit, time)]
    else:
        arms = [pick(str(name), known, source, "arm") for name in how.wide]
    if not arms:
        raise ValueError(f"{source} has no columns left for arms; it has: {', '.join(known) or 'none'}.")
    return Picked(tuple((known[k], k) for k in arms), None, unit, time)


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
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
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


def as_labels(cells: Any) -> NDArray[Any]:
    """Units as texts; empty where there is none."""
    raw = np.asarray(cells, dtype=object)
    return np.array(["" if c is None or c != c else str(c).strip() for c in raw.tolist()], dtype=object)
