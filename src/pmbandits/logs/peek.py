"""The first rows of a table, and a guess which columns hold the arms and the rewards: for people to confirm."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits._check import readable
from pmbandits.logs.columns import are_numbers, as_times
from pmbandits.logs.files import kind_of, opened, top_line

ROWS = 200  # rows that are looked at
_LONGEST = 80  # letters of a cell that are shown
_ARMS = "arm variant group option action treatment campaign bucket version policy choice channel".split()  # noqa: SIM905
_REWARDS = "reward revenue value amount outcome profit sales score conversion converted income return y".split()  # noqa: SIM905
_NOT_REWARDS = "id time date day hour week month year index row user customer unit session who".split()  # noqa: SIM905
_WORD = re.compile(r"[a-z]+")
_NUMBER = re.compile(r"[€$£]?\s*[+-]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s*[€$£%]?")  # also as people write them


@dataclass(frozen=True)
class Peek:
    """The beginning of a table.

    Attributes
    ----------
    columns : the names of the columns.
    rows : the first rows, as text.
    numeric : of each column, whether what was seen of it are numbers.
    arm, reward : the columns that look like it; ``None`` where nothing does.
    dates : of each column, whether what was seen of it are dates.
    wide : whether the table looks as if each column was an arm.
    arms : if so, the columns that look like arms: no dates, no numbers of people or weeks, no counters.
    sure : whether only one choice is likely. Otherwise people should be asked.
    decimal : the decimal sign: a comma where all numbers are written so, and none could mean thousands.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    arm: str | None
    reward: str | None
    dates: tuple[bool, ...]
    wide: bool
    arms: tuple[str, ...]
    sure: bool
    decimal: str


def peek(path: str | Path) -> Peek:
    """The first rows of a file, read as :func:`pmbandits.logs.read` reads it.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("variant;revenue\\nA;0\\nB;3.5\\nA;1\\n")
    >>> found = peek(file)
    >>> found.arm, found.reward, found.rows[1]
    ('variant', 'revenue', ('B', '3.5'))
    """
    path = Path(path)
    kind = kind_of(path)
    try:
        columns, rows = {
            "csv": _csv, "jsonl": _json_lines, "parquet": _parquet, "folder": _folder, "excel": _excel
        }[kind](path)  # fmt: skip
    except Exception as error:  # whatever a foreign reader says of a foreign file
        if isinstance(error, (ValueError, OSError)) and type(error).__module__ == "builtins":
            raise
        raise ValueError(
            f"{path.name} is damaged, or is not what its name says ({type(error).__name__}); give another file."
        ) from None
    columns = [readable(name) for name in columns]
    shown = [tuple(readable(str(cell))[:_LONGEST] for cell in row[: len(columns)]) for row in rows]
    shown = [row + ("",) * (len(columns) - len(row)) for row in shown]
    return _guess(tuple(columns), tuple(shown))


def _csv(path: Path) -> tuple[list[str], list[list[Any]]]:
    header, mark = top_line(path)
    with opened(path) as handle:
        lines = (line.decode("utf-8-sig", errors="replace") for line in islice(handle, ROWS + 1))
        table = list(csv.reader(lines, delimiter=mark))
    return header, [row for row in table[1:] if row]


def _json_lines(path: Path) -> tuple[list[str], list[list[Any]]]:
    columns: list[str] = []
    rows = []
    with opened(path) as handle:
        for line in islice(handle, ROWS):
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and row:
                columns = columns or [str(name) for name in row]
                rows.append(["" if row.get(name) is None else row.get(name) for name in columns])
    return columns, rows


def _parquet(path: Path) -> tuple[list[str], list[list[Any]]]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    batch = next(iter(file.iter_batches(batch_size=ROWS)), None)
    return list(file.schema_arrow.names), [] if batch is None else _rows(batch)


def _folder(path: Path) -> tuple[list[str], list[list[Any]]]:
    import pyarrow.dataset as pd

    files = sorted(str(f) for kind in (".parquet", ".pq") for f in path.rglob(f"*{kind}"))
    table = pd.dataset(files, format="parquet", partitioning="hive", partition_base_dir=str(path))
    return list(table.schema.names), _rows(table.head(ROWS))


def _rows(table: Any) -> list[list[Any]]:
    columns = [column.to_pylist() for column in table.columns]
    return [["" if cell is None else cell for cell in row] for row in zip(*columns, strict=True)]


def _excel(path: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        import openpyxl  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ValueError(
            f"{path.name} is an Excel file: install its reader (pip install 'pmbandits[tables]'), or save the "
            "sheet as CSV UTF-8."
        ) from None
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        table = [list(row) for row in islice(book.worksheets[0].iter_rows(values_only=True), ROWS + 1)]
    finally:
        book.close()
    filled = [["" if cell is None else cell for cell in row] for row in table]
    return [str(cell).strip() for cell in filled[0]] if filled else [], filled[1:]


def _guess(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Peek:
    cells = [[row[k].strip() for row in rows if row[k].strip()] for k in range(len(columns))]
    dates = tuple(map(_are_dates, cells))  # 03.08.2026 has only digits and points as well
    numeric = tuple(bool(c) and not dates[k] and all(map(_is_number, c)) for k, c in enumerate(cells))
    lower = [name.strip().lower() for name in columns]
    arm = _named(lower, _ARMS, range(len(columns)))
    if arm is None:  # a text that comes again and again
        again = [
            k for k, c in enumerate(cells) if c and not (numeric[k] or dates[k]) and 2 * len(set(c)) <= max(len(c), 2)
        ]
        arm = min(again, key=lambda k: len(set(cells[k])), default=None)
    numbers = [k for k in range(len(columns)) if numeric[k] and k != arm]
    likely = [k for k in numbers if not set(_WORD.findall(lower[k])) & set(_NOT_REWARDS)]
    reward = _named(lower, _REWARDS, numbers)
    sure = arm is not None and (reward is not None or len(likely) == 1)
    if reward is None:
        reward = (likely or numbers or [None])[-1]  # type: ignore[list-item]
    arms = [k for k in likely if not _counts(cells[k])]
    wide = arm is None and len(numbers) > 1
    if wide:
        sure = len(arms) > 1 and len(arms) + sum(dates) == len(columns)
    return Peek(
        columns,
        rows[:12],
        numeric,
        None if arm is None else columns[arm],
        None if reward is None or wide else columns[reward],
        dates,
        wide,
        tuple(columns[k] for k in arms or likely or numbers),
        sure,
        _decimal([cell for k in numbers for cell in cells[k]]),
    )


def _named(names: list[str], words: list[str], among: Any) -> int | None:
    """The first column with one of the names, or with one in its name."""
    for word in words:
        for k in among:
            if names[k] == word:
                return int(k)
    for word in words:
        for k in among:
            if len(word) > 2 and word in names[k]:
                return int(k)
    return None


def _decimal(numbers: list[str]) -> str:
    commas = [cell for cell in numbers if re.fullmatch(r"[+-]?\d+,(\d{1,2}|\d{4,})", cell)]
    return "," if commas and all(re.fullmatch(r"[+-]?\d+", c) for c in numbers if c not in set(commas)) else "."


def _counts(cells: list[str]) -> bool:
    """Whether numbers only count the rows: 1, 2, 3 and so on."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return len(numbers) > 3 and all(b - a == 1 for a, b in pairwise(numbers))


def _are_dates(cells: list[str]) -> bool:
    return bool(cells) and not are_numbers(cells) and bool(np.isfinite(as_times(cells)).all())


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))
