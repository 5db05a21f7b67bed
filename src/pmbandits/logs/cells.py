"""From the cells of a table to numbers and names of arms, with a reason for every row that cannot be used."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray, is_number, readable
from pmbandits.logs.account import Collector


def pick(name: str, known: list[str], source: str, what: str) -> int:
    """Where a column is: by its name, else by its name in any case; or a sentence with what there is."""
    if name in known:
        return known.index(name)
    plain = [k.strip().lower() for k in known]
    if plain.count(name.strip().lower()) == 1:
        return plain.index(name.strip().lower())
    near = difflib.get_close_matches(name.lower(), plain, n=1, cutoff=0.4)
    hint = f" Did you mean {known[plain.index(near[0])]!r}?" if near else ""
    listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "") or "none"
    raise ValueError(f"{source} has no column {name!r} for the {what}; it has: {readable(listed)[:500]}.{hint}")


def take_rows(into: Collector, arms: Any, rewards: Any, word: str, first: int) -> None:
    """Rows of an in-memory table or of a piece of one; ``first`` is the number of its first row."""
    values, reasons = as_numbers(rewards)
    names, codes = as_codes(arms)
    for k in np.flatnonzero(codes < 0).tolist():
        if is_missing(rewards[k]):
            into.empty += 1
            reasons.pop(k, None)
        else:
            reasons[k] = "no arm"
        values[k] = np.nan
    into.rows += len(arms)
    for at, reason in sorted(reasons.items()):
        into.bad(first + at, f"{word} {first + at}", reason, f"{arms[at]}, {rewards[at]}")
    good = np.isfinite(values)
    into.codes(codes[good], names, values[good])


def as_codes(arms: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the arms, and each row's place among them; -1 where there is no name."""
    import pyarrow as pa

    if isinstance(arms, np.ma.MaskedArray):
        arms = np.ma.filled(arms.astype(object), None)
    try:
        coded = pa.array(arms, from_pandas=True).dictionary_encode()
        found, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # of several types
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


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: nothing, NaN or blanks."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or value is np.ma.masked or (np.ndim(value) == 0 and str(value) in ("nan", "NaT", "<NA>"))


def as_numbers(values: Any) -> tuple[FloatArray, dict[int, str]]:
    """As numbers, with NaN where that fails; and why it failed, by position."""
    raw = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):  # a masked cell is an empty one
        raw = np.ma.filled(values.astype(object), None)
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
                out[k] = float(value)
            except (TypeError, ValueError, OverflowError):
                reasons[k] = "a reward that is not a number"
    for k in np.flatnonzero(~np.isfinite(out)).tolist():
        if k not in reasons:
            reasons[k] = "no reward" if is_missing(raw[k]) else "an infinite reward"
    out[~np.isfinite(out)] = np.nan
    return out, reasons
