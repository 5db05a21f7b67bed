"""Checks of a whole table, also of columns that are not read: copies of rows, units that repeat, times of arms."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits.logs.column_names import UNIT_WORDS, may_name_propensity, words_of_name
from pmbandits.logs.columns import ReadSettings, parse_labels, parse_weights, to_numpy
from pmbandits.logs.files import (
    SkippedLines,
    file_kind,
    open_csv,
    open_parquet,
    open_sheet,
    read_errors_as_one_sentence,
    read_header,
)
from pmbandits.logs.findings import Finding, check_time_spans
from pmbandits.logs.parse import parse_numbers
from pmbandits.logs.periods import parse_times
from pmbandits.logs.row_report import RewardCollector

_LARGEST_FILE = 1 << 26  # bytes up to which rows are compared
_LARGEST_FRAME = 200_000  # rows
_FEWEST_ROWS, _MOST_ROWS_CORRELATED = 20, 100_000
_FEWEST_UNITS, _ROWS_OF_A_UNIT = (
    5,
    1.2,
)  # different units at least, and rows of one on average, from which on it is said


def read_whole_table(
    path: Path, sheet: str | None = None, collector: RewardCollector | None = None
) -> tuple[list[str], Any, str, Callable[[int], int]] | None:
    """The names of the columns; all rows as an Arrow table with columns c0, c1, …; "line" or "row"; and its number.

    The result is ``None`` for JSON lines, and for files that are too large to be looked at as a whole. Lines of a wrong
    width are reported to the collector.
    """
    import pyarrow as pa

    kind = file_kind(path)
    if kind == "jsonl" or path.stat().st_size > _LARGEST_FILE:
        return None
    with read_errors_as_one_sentence(path, kind):
        if kind == "csv":
            header, delimiter, above = read_header(path)
            names = [f"c{k}" for k in range(len(header))]
            skipped = SkippedLines(above, collector)
            table = pa.Table.from_batches(open_csv(path, names, names, delimiter, above, skipped.skip))
            return header, table, "line", skipped.line_number
        if kind == "parquet":
            table = open_parquet(path).to_table()
            return table.schema.names, table.rename_columns([f"c{k}" for k in range(table.num_columns)]), "row", int
        with open_sheet(path, sheet) as found:
            rows = [["" if cell is None else str(cell) for cell in row] for row in found.rows]
            table = pa.table(
                {f"c{k}": [row[k] if k < len(row) else "" for row in rows] for k in range(len(found.columns))}
            )
            return found.columns, table, "row", found.first.__add__


def drop_duplicate_rows(table: Any) -> Any:
    """The table with every row once, in the order of the first of each, whose place is in the column ``at_min``."""
    numbered = table.append_column("at", [np.arange(table.num_rows)])
    return numbered.group_by(table.column_names, use_threads=False).aggregate([("at", "min")])


def check_whole_table(data: Any, settings: ReadSettings, dates: Sequence[str]) -> list[Finding]:
    """What the whole table shows, also its other columns: copies of rows, units that repeat, and times of arms."""
    import pyarrow as pa

    try:
        found = read_whole_table(Path(data), settings.sheet) if isinstance(data, (str, Path)) else _frame(data)
        if found is None:
            large = isinstance(data, (str, Path)) and Path(data).stat().st_size > _LARGEST_FILE
            seen = f"Rows were not checked for copies: the file is larger than {_LARGEST_FILE >> 20} MB."
            return [Finding("copies not checked", seen, "")] if large else []
        header, table = found[:2]
        look = isinstance(data, (str, Path)) and not settings.distinct
        copies = _check_duplicates(header, table, settings) if look else []
        return [
            *copies,
            *_check_units(header, table, settings),
            *_check_opposite_columns(header, table, settings),
            *_check_times(header, table, settings, dates),
            *_check_propensities(header, table, settings),
        ]
    except (ValueError, pa.ArrowException):  # reading it for the answer says what is wrong
        return []


def _frame(data: Any) -> tuple[list[str], Any] | None:
    """The names of the columns and the columns of a frame, as texts; ``None`` for others, and for large ones."""
    import pyarrow as pa

    names = getattr(data, "column_names", getattr(data, "columns", None))
    if names is None or callable(names) or not hasattr(data, "__len__") or len(data) > _LARGEST_FRAME:
        return None
    texts = {f"c{k}": pa.array(np.asarray(data[name]).astype(str)) for k, name in enumerate(names)}
    return [str(name) for name in names], pa.table(texts)


def _check_units(header: list[str], table: Any, settings: ReadSettings) -> Iterator[Finding]:
    """A finding if a column of people or places names many of them several times."""
    import pyarrow.compute as pc

    if settings.unit is not None or settings.per is not None or settings.is_weighted:
        return
    for k, name in enumerate(header):
        if name in (settings.arm, settings.reward) or not UNIT_WORDS & set(words_of_name(name)):
            continue
        count = pc.count_distinct(table.column(k)).as_py()
        if _FEWEST_UNITS <= count <= table.num_rows / _ROWS_OF_A_UNIT:
            yield Finding(
                "units",
                f"“{name}” repeats ({count:,} in {table.num_rows:,} rows), so some rows are of the same one.",
                "They were taken as independent, which makes verdicts too sure.",
                f"To allow for that: --unit {shlex.quote(name)} (unit={name!r} in Python).",
            )
            return


def _check_opposite_columns(header: list[str], table: Any, settings: ReadSettings) -> Iterator[Finding]:
    """A finding if two arms of a wide table move against each other: then their difference varies more than it seems.

    Columns that move together do no harm: their difference varies less.
    """
    import pyarrow.compute as pc

    if not settings.wide or settings.unit is not None or settings.time is not None:
        return
    arms = [k for k, name in enumerate(header) if settings.wide is True or name in settings.wide]
    values = np.column_stack([parse_numbers(table.column(k).combine_chunks(), settings)[0] for k in arms])
    values = values[np.isfinite(values).all(axis=1)][:_MOST_ROWS_CORRELATED]
    if values.shape[0] < _FEWEST_ROWS or len(arms) < 2 or (np.ptp(values, axis=0) == 0.0).any():
        return
    ranks = values.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    rank_correlation = np.asarray(np.corrcoef(ranks, rowvar=False))
    one, two = divmod(int(np.argmin(rank_correlation)), len(arms))
    lowest = float(rank_correlation[one, two])
    pairs = len(arms) * (len(arms) - 1) / 2
    if lowest > -math.sqrt(2.0 * math.log(20.0 * pairs) / values.shape[0]):
        return
    rows = [k for k in range(len(header)) if k not in arms]
    name = next((header[k] for k in rows if pc.count_distinct(table.column(k)).as_py() == table.num_rows), None)
    option = f"--unit {shlex.quote(name or 'no')} (unit={name or 'no'!r} in Python)"
    yield Finding(
        "units",
        f"In {f'rows of the same “{name}”' if name else 'the same row'}, {header[arms[one]]} is often high where "
        f"{header[arms[two]]} is low (rank correlation −{-lowest:.2f}).",
        "They were taken as independent, which makes verdicts too sure.",
        f"To allow for that: {'' if name else 'number the rows in a column called no, and say '}{option}.",
    )


def _check_times(header: list[str], table: Any, settings: ReadSettings, dates: Sequence[str]) -> Iterator[Finding]:
    """A finding if there are dates that were not looked at; and one if arms were tried only a part of the time."""
    import pyarrow as pa

    name = next((date for date in dates if date in header and date != settings.arm), None)
    if settings.time is not None or name is None:
        return
    change = f"To look at changes over time: --time {shlex.quote(name)} (time={name!r} in Python)."
    yield Finding("times", f"“{name}” has dates, which were not looked at.", "", change)
    if settings.arm in header and all(condition.column in header for condition in settings.conditions):
        fulfilled = [
            condition.mask_of_rows_that_fulfil(parse_labels(to_numpy(table.column(header.index(condition.column)))))
            for condition in settings.conditions
        ]
        table = table.filter(pa.array(np.logical_and.reduce(fulfilled))) if fulfilled else table
        labels = parse_labels(to_numpy(table.column(header.index(settings.arm))))
        names, arm = np.unique(labels.astype(str), return_inverse=True)
        moments = parse_times(to_numpy(table.column(header.index(name))))
        change = f"For the time that all have: --time {shlex.quote(name)} (time={name!r} in Python)."
        yield from (replace(finding, change=change) for finding in check_time_spans(names.tolist(), arm, moments))


def _check_propensities(header: list[str], table: Any, settings: ReadSettings) -> Iterator[Finding]:
    """A finding if a column seems to hold the chance with which the arm of the row was chosen."""
    if settings.is_weighted or settings.wide:
        return
    for k, name in enumerate(header):
        if name in (settings.arm, settings.reward) or not may_name_propensity(name):
            continue
        weights = parse_weights(to_numpy(table.column(k)), inverse=True)
        if weights.size >= _FEWEST_ROWS and np.isfinite(weights).all() and np.ptp(weights) > 0.0:
            yield Finding(
                "propensities",
                f"“{name}” may be the chance with which the row's choice was made; it was not looked at.",
                "If it is, and depended on earlier results, verdicts are too sure.",
                f"To allow for that: --propensity {shlex.quote(name)} (propensity={name!r} in Python).",
            )
            return


def _check_duplicates(header: list[str], table: Any, settings: ReadSettings) -> list[Finding]:
    """A finding if rows are exact copies of others, and a column such as an id or a time says that this is no chance.

    Where no column tells rows apart, equal rows are to be expected: two customers may have paid the same.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    arms = header if settings.wide is True else settings.wide or (settings.arm, settings.reward)
    others = [k for k, name in enumerate(header) if name not in arms]
    if not others:
        return []
    try:
        distinct = drop_duplicate_rows(table)
    except pa.ArrowException:  # columns of lists cannot be compared
        return []
    copies = table.num_rows - distinct.num_rows
    if not copies or distinct.num_rows < _FEWEST_ROWS:
        return []
    keys = [header[k] for k in others if pc.count_distinct(distinct.column(f"c{k}")).as_py() == distinct.num_rows]
    if not keys:
        return []
    are = "are exact copies" if copies > 1 else "is an exact copy"
    return [
        Finding(
            "duplicates",
            f"{copies:,} of {table.num_rows:,} rows {are} of others, also in “{keys[0]}”.",
            "They were counted.",
            "To count each of them once: --distinct (distinct=True in Python).",
        )
    ]
