"""Rows of a file that are copies of others: found where a column tells rows apart, and left out if that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pmbandits.logs.columns import ReadSettings
from pmbandits.logs.files import file_kind, open_csv, open_parquet, open_sheet, read_errors_as_one_sentence, read_header
from pmbandits.logs.findings import Finding

_LARGEST_FILE = 1 << 26  # bytes up to which rows are compared
_FEWEST_ROWS = 20


def read_whole_table(path: Path, sheet: str | None = None) -> tuple[list[str], Any] | None:
    """The names of the columns, and all rows as an Arrow table whose columns are called c0, c1, …; ``None`` for others.

    Others are JSON lines, and files that are too large to be looked at as a whole.
    """
    import pyarrow as pa

    kind = file_kind(path)
    if kind == "jsonl" or path.stat().st_size > _LARGEST_FILE:
        return None
    with read_errors_as_one_sentence(path, kind):
        if kind == "csv":
            header, delimiter, above = read_header(path)
            names = [f"c{k}" for k in range(len(header))]
            return header, pa.Table.from_batches(open_csv(path, names, names, delimiter, above, lambda row: "skip"))
        if kind == "parquet":
            table = open_parquet(path).to_table()
            return table.schema.names, table.rename_columns([f"c{k}" for k in range(table.num_columns)])
        with open_sheet(path, sheet) as found:
            rows = [["" if cell is None else str(cell) for cell in row] for row in found.rows]
            return found.columns, pa.table(
                {f"c{k}": [row[k] if k < len(row) else "" for row in rows] for k in range(len(found.columns))}
            )


def drop_duplicate_rows(table: Any) -> Any:
    """The table with every row once, in the order of the first of each."""
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def check_duplicates(path: Path, settings: ReadSettings) -> list[Finding]:
    """A finding if rows are exact copies of others, and a column such as an id or a time says that this is no chance.

    Where no column tells rows apart, equal rows are to be expected: two customers may have paid the same.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = read_whole_table(path, settings.sheet)
    except (ValueError, pa.ArrowException):  # reading it for the answer says what is wrong
        return []
    if found is None:
        return []
    header, table = found
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
    keys = [header[k] for k in others if pc.count_distinct(distinct.column(k)).as_py() == distinct.num_rows]
    if not keys:
        return []
    return [
        Finding(
            "duplicates",
            f"{copies:,} of {table.num_rows:,} rows are exact copies of others, also in “{keys[0]}”.",
            "They were counted.",
            "To count each of them once: --distinct (distinct=True in Python).",
        )
    ]
