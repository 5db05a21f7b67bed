"""From the cells of a table to numbers and names of arms, with a reason for every row that cannot be used."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray, is_list, is_number, readable
from pmbandits.logs.account import NO_TIME, Collector

NOTHING = ("", "nan", "na", "n/a", "null", "none", "nil", "-")  # words for a reward that is missing


def pick(name: str, known: list[str], source: str, what: str) -> int:
    """Where a column is: by its name, or by its name in another case; or an error that says what there is."""
    if name in known:
        return known.index(name)
    plain = [k.strip().lower() for k in known]
    if plain.count(name.strip().lower()) == 1:
        return plain.index(name.strip().lower())
    near = difflib.get_close_matches(name.lower(), plain, n=1, cutoff=0.4)
    hint = f" Did you mean {known[plain.index(near[0])]!r}?" if near else ""
    listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "") or "none"
    raise ValueError(f"{source} has no column {name!r} for the {what}; it has: {readable(listed)[:500]}.{hint}")


@dataclass(frozen=True)
class Beside:
    """What stands beside arm and reward in each row: its unit and its time, where they are asked for."""

    unit: NDArray[Any] | None = None
    time: FloatArray | None = None
    written: Any = None  # the times as they stand in the table

    def some(self, rows: Any) -> Beside:
        """Of some rows."""
        return Beside(*(None if column is None else column[rows] for column in (self.unit, self.time)))

    def missing(self) -> Iterator[tuple[NDArray[np.bool_], str]]:
        """Where something is missing, and what. A time that cannot be read is shown by ``as_written``."""
        if self.unit is not None:
            yield self.unit == "", "no unit"
        if self.time is not None:
            yield ~np.isfinite(self.time), NO_TIME

    def as_written(self, reason: str, row: int, else_said: str) -> str:
        """What is shown of a row that cannot be used: its time, if that is what is wrong."""
        return str(self.written[row]) if reason == NO_TIME and self.written is not None else else_said


def take_rows(
    into: Collector,
    arms: Any,
    rewards: Any,
    word: str,
    first: int,
    beside: Beside | None = None,
    tidy: Callable[[str], str] | None = None,
) -> None:
    """Rows of an in-memory table or of a piece of one; ``first`` is the number of its first row.

    ``arms`` is one name if all rewards are of one arm: then an empty cell is no row.
    """
    values, reasons = as_numbers(rewards, tidy)
    if isinstance(arms, str):
        names, codes = [arms], np.zeros(len(rewards), dtype=np.int64)
        blank = [k for k, reason in reasons.items() if reason == "no reward"]
        for k in blank:
            del reasons[k]
        into.rows += len(rewards) - len(blank)
    else:
        names, codes = as_codes(arms)
        into.rows += len(arms)
    for k in np.flatnonzero(codes < 0).tolist():
        if is_missing(rewards[k]):
            into.empty += 1
            reasons.pop(k, None)
        else:
            reasons[k] = "no arm"
        values[k] = np.nan
    if beside is not None:
        for where, reason in beside.missing():
            for k in np.flatnonzero(where & np.isfinite(values)).tolist():
                reasons[k] = reason
                values[k] = np.nan
    for at, reason in sorted(reasons.items()):
        arm = arms if isinstance(arms, str) else arms[at]
        said = f"{arm}, {rewards[at]}"
        said = said if beside is None else beside.as_written(reason, at, said)
        into.bad(first + at, f"{word} {first + at}", reason, said)
    good = np.isfinite(values)
    into.codes(codes[good], names, values[good], None if beside is None else beside.some(good))


def as_codes(arms: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the arms, and each row's place among them; -1 where there is no name."""
    import pyarrow as pa

    if isinstance(arms, np.ma.MaskedArray):
        arms = _unmasked(arms)
    try:
        coded = pa.array(arms, from_pandas=True).dictionary_encode()
        found, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # names of several types
        cells = [None if isinstance(arm, (list, dict, set, np.ndarray)) else arm for arm in arms.tolist()]
        found = list(dict.fromkeys(cells))
        at = {name: k for k, name in enumerate(found)}
        codes = np.array([at[name] for name in cells], dtype=np.int64)
    names: dict[str, int] = {}
    place = np.full(len(found) + 1, -1, dtype=np.int64)
    for k, name in enumerate(found):
        label = "" if is_missing(name) else str(name).strip()
        if label:
            place[k] = names.setdefault(label, len(names))
    return list(names), place[codes]


def _unmasked(cells: Any) -> NDArray[Any]:
    """The cells of a masked array, with nothing where they are masked."""
    out: NDArray[Any] = np.array(cells.data, dtype=object)
    out[np.ma.getmaskarray(cells)] = None
    return out


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: nothing, NaN, blanks, or a word for nothing such as "NaN" or "null"."""
    if isinstance(value, str):
        return value.strip().lower() in NOTHING
    return value is None or value is np.ma.masked or (np.ndim(value) == 0 and str(value) in ("nan", "NaT", "<NA>"))


def as_numbers(values: Any, tidy: Callable[[str], str] | None = None) -> tuple[FloatArray, dict[int, str]]:
    """As numbers, with NaN where that fails; and why it failed, by position."""
    if isinstance(values, (list, tuple)) and any(value is np.ma.masked or is_list(value) for value in values):
        cells, values = values, np.empty(len(values), dtype=object)
        values[:] = [None if value is np.ma.masked else value for value in cells]
    raw = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):  # a masked cell is an empty one
        raw = _unmasked(values)
    reasons: dict[int, str] = {}
    if raw.dtype.kind in "biuf":
        out = raw.astype(np.float64)
    else:
        if raw.dtype != object:
            raw = np.asarray(list(values), dtype=object) if raw.dtype.kind in "Mm" else np.asarray(values, dtype=object)
        out = np.full(raw.size, np.nan)
        for k, value in enumerate(raw):
            if is_missing(value):
                continue
            try:
                if not (isinstance(value, (str, bool, np.bool_)) or is_number(value)):
                    raise TypeError
                out[k] = float(tidy(value) if tidy is not None and isinstance(value, str) else value)
            except (TypeError, ValueError, OverflowError):
                reasons[k] = "a reward that is not a number"
    for k in np.flatnonzero(~np.isfinite(out)).tolist():
        if k not in reasons:
            reasons[k] = "no reward" if is_missing(raw[k]) else "an infinite reward"
    out[~np.isfinite(out)] = np.nan
    return out, reasons
