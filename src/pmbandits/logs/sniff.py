"""The first rows of a table, and a guess which columns hold the arms and the rewards: for people to confirm."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray, escape_control_characters
from pmbandits.logs.column_names import (
    ARM_WORDS,
    COUNTER_WORDS,
    EARLIER_WORDS,
    EVENT_WORDS,
    LIKELY_ARM_WORDS,
    PERIOD_WORDS,
    REWARD_WORDS,
    SURVIVAL_WORDS,
    UNIT_WORDS,
    may_name_reward,
    words_of_name,
)
from pmbandits.logs.columns import ReadSettings, with_plain_minus
from pmbandits.logs.files import (
    file_kind,
    first_lines,
    open_maybe_gzip,
    open_parquet,
    open_sheet,
    parse_json_line,
    read_errors_as_one_sentence,
    read_header,
    text_encoding,
)
from pmbandits.logs.parse import MISSING_WORDS, parse_numbers
from pmbandits.logs.periods import are_times_written_as_numbers, parse_times

SNIFFED_ROWS = 200  # rows that are looked at
_LONGEST_CELL = 80  # letters of a cell that are shown
_TRUTH = re.compile(r"true|false", re.IGNORECASE)
_MOST_CANDIDATES = 6
_MOST_OTHER_CELLS = 0.1  # of a column of numbers, or of dates: "?", "tbd" and the like
_FEWEST_IDS = 12
_FEWEST_FOR_TOTALS = 5  # rows, to say that a column is the sum of others
_NUMBER = re.compile(r"[+-]?\s*[€$£]?\s*[+-]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s*[€$£%]?")  # as people write them


@dataclass(frozen=True)
class SniffedTable:
    """The beginning of a table.

    Attributes
    ----------
    columns : the names of the columns.
    rows : the first rows, as text.
    numeric : of each column, whether what was seen of it are numbers.
    arm, reward : the columns that look like it; ``None`` where nothing does.
    arm_candidates, reward_candidates : all columns that could be meant, the likeliest first.
    dates : of each column, whether what was seen of it are dates.
    wide : whether the table looks as if each column was an arm.
    arms : if so, the columns that look like arms: no dates, no numbers of people or weeks, no counters, no totals.
    totals : the columns that are the sum or the average of all others that could be arms.
    arm_sure, reward_sure : whether no other column could as well be the arm, and the reward.
    sure : whether only one choice of columns is likely. Otherwise a person should confirm it.
    event, event_time : of survival data, the columns that say whether the event came, and when; else empty.
    decimal, thousands, currency : how numbers are written, as far as that can mean nothing else.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    arm: str | None
    reward: str | None
    arm_candidates: tuple[str, ...]
    reward_candidates: tuple[str, ...]
    dates: tuple[bool, ...]
    wide: bool
    arms: tuple[str, ...]
    totals: tuple[str, ...]
    arm_sure: bool
    reward_sure: bool
    sure: bool
    event: str
    event_time: str
    decimal: str
    thousands: str
    currency: str


def sniff(path: str | Path, sheet: str | None = None, reward: str | None = None) -> SniffedTable:
    """The first rows of a file (or of a sheet of a workbook), read as :func:`pmbandits.logs.read_log` reads it.

    How numbers are written is found out from the column ``reward``, or else from the one that looks like it.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("variant;revenue\\nA;0\\nB;3.5\\nA;1\\n")
    >>> found = sniff(file)
    >>> found.arm, found.reward, found.rows[1]
    ('variant', 'revenue', ('B', '3.5'))
    """
    path = Path(path)
    kind = file_kind(path)
    heads: dict[str, Callable[[Path], tuple[list[str], Sequence[Sequence[Any]]]]] = {
        "csv": _csv_first_rows, "jsonl": _json_lines_first_rows, "parquet": _parquet_first_rows,
        "excel": lambda path: _excel_first_rows(path, sheet),
    }  # fmt: skip
    with read_errors_as_one_sentence(path, kind):
        columns, rows = heads[kind](path)
    return sniff_rows(columns, rows, reward)


def sniff_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], reward: str | None = None) -> SniffedTable:
    """The first rows of a table, given as cells."""
    columns = [escape_control_characters(name) for name in columns]
    texts = [
        ["" if cell is None else escape_control_characters(str(cell))[:_LONGEST_CELL] for cell in row] for row in rows
    ]
    shown = tuple(tuple(islice(chain(row, repeat("")), len(columns))) for row in texts)
    return _guess_columns(tuple(columns), shown, reward)


def _csv_first_rows(path: Path) -> tuple[list[str], list[list[Any]]]:
    header, delimiter, above = read_header(path)
    code = text_encoding(path)
    lines = (line[:100_000].decode(code, errors="replace") for line in first_lines(path, SNIFFED_ROWS + 1)[above:])
    table = list(csv.reader(lines, delimiter=delimiter))
    return header, [row for row in table[1:] if row]


def _json_lines_first_rows(path: Path) -> tuple[list[str], list[list[Any]]]:
    with open_maybe_gzip(path) as handle:
        rows = [row for line in islice(handle, SNIFFED_ROWS) if (row := parse_json_line(line, path))]
    columns = list(rows[0]) if rows else []
    return columns, [[row.get(name) for name in columns] for row in rows]


def _parquet_first_rows(path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    table = open_parquet(path).head(SNIFFED_ROWS)
    return table.schema.names, list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _excel_first_rows(path: Path, name: str | None) -> tuple[list[str], list[tuple[Any, ...]]]:
    with open_sheet(path, name) as sheet:
        return sheet.columns, list(islice(sheet.rows, SNIFFED_ROWS))


@dataclass(frozen=True)
class _Column:
    """A column as far as it was seen: its name, what is in it, and what that is; of numbers, these only."""

    name: str
    cells: tuple[str, ...]
    is_date: bool
    is_number: bool

    @property
    def words_of_name(self) -> set[str]:
        """The words of which the name consists."""
        return set(words_of_name(self.name))

    @property
    def is_label(self) -> bool:
        """Whether its numbers only say which row it is: they count, or the name says that they are ids."""
        return _are_ids(self.cells) or bool(self.words_of_name & UNIT_WORDS)

    @property
    def may_be_arm(self) -> bool:
        """Whether it says one of few things again and again: in texts, or in whole numbers if its name says so, too."""
        few = self.is_number and len(set(self.cells)) <= 12 and all(re.fullmatch(r"\d{1,3}", c) for c in self.cells)
        return self.has_repeated_texts or (few and bool(self.words_of_name & LIKELY_ARM_WORDS))

    @property
    def has_various_numbers(self) -> bool:
        """Whether it has numbers of which most differ: they were measured, and are not names of anything."""
        return self.is_number and len(self.cells) >= _FEWEST_IDS and 2 * len(set(self.cells)) > len(self.cells)

    @property
    def names_rows(self) -> bool:
        """Whether it has dates, numbers of weeks and the like, or texts such as "Jan 2026" that all differ."""
        texts = not self.is_number and len(set(self.cells)) >= 0.95 * len(self.cells) > 0
        return self.is_date or texts or (self.numbers_rows and bool(self.words_of_name & PERIOD_WORDS))

    @property
    def numbers_rows(self) -> bool:
        """Whether its whole numbers only count, and its name says no more than that: "week", "no", or nothing."""
        return self.is_number and _are_ids(self.cells) and self.words_of_name <= PERIOD_WORDS | COUNTER_WORDS

    @property
    def has_repeated_texts(self) -> bool:
        """Whether it has texts that come again and again."""
        few = 2 * len(set(self.cells)) <= max(len(self.cells), 2)
        return bool(self.cells) and not self.is_number and not self.is_date and few


def _make_column(name: str, cells: Sequence[str]) -> _Column:
    filled = tuple(cell.strip() for cell in cells if cell.strip())
    known = [cell for cell in filled if cell.lower() not in MISSING_WORDS]
    if _are_dates(known):  # 03.08.2026 has only digits and points as well
        return _Column(name, filled, True, False)
    for pattern in (_NUMBER, _TRUTH):
        numbers = tuple(filter(pattern.fullmatch, map(with_plain_minus, known)))
        if numbers and len(numbers) >= max((1.0 - _MOST_OTHER_CELLS) * len(known), 0.5 * len(filled)):
            return _Column(name, numbers, False, True)
    return _Column(name, filled, False, False)


def _guess_columns(
    names: tuple[str, ...], rows: tuple[tuple[str, ...], ...], reward_name: str | None = None
) -> SniffedTable:
    """Guess which columns hold the arms and the rewards, or whether each column is an arm."""
    columns = [_make_column(name, [row[k] for row in rows]) for k, name in enumerate(names)]
    repeating = sorted(
        (c for c in columns if c.may_be_arm),
        key=lambda c: (not c.words_of_name & LIKELY_ARM_WORDS, len(set(c.cells))),
    )
    nameable = [c for c in columns if not c.has_various_numbers]
    arm, arm_sure, arm_candidates = _choose_column(nameable, ARM_WORDS, repeating)
    numbers = [c for c in columns if c.is_number and c is not arm]
    named = [c for c in numbers if may_name_reward(c.name)]
    likely = [c for c in named if not _are_ids(c.cells) or c.words_of_name & set(REWARD_WORDS)]
    arms, others = likely or named, likely or [c for c in numbers if not c.is_label]
    first, last = (sorted(x, key=lambda c: bool(c.words_of_name & EARLIER_WORDS)) for x in (others, others[::-1]))
    reward, reward_sure, reward_candidates = _choose_column(first, REWARD_WORDS, last)
    event, time = _survival_columns(numbers)
    if time is not None and (reward is None or reward.name.strip().lower() not in REWARD_WORDS):
        rest = [c for c in reward_candidates if c not in (event, time)]
        reward, reward_sure, reward_candidates = time, False, [time, *rest]
    wide = arm is None and len(numbers) > 1
    arms = arms or numbers
    number_format = _guess_number_format([cell for c in (arms if wide else ()) for cell in c.cells])
    values = _values_by_row(rows, [columns.index(c) for c in arms], number_format)
    is_total = _mask_of_totals(values)
    totals = [c for c, total in zip(arms, is_total, strict=True) if total]
    arms = [c for c in arms if c not in totals]
    if wide:
        measured = {word for c in arms for word in c.words_of_name & set(REWARD_WORDS)}
        alike = _are_alike(values[:, ~is_total], any(c.names_rows for c in columns)) and all(
            measured <= c.words_of_name for c in arms
        )
        sure = len(arms) > 1 and alike and all(c in (*arms, *totals) or c.names_rows or c.numbers_rows for c in columns)
    else:
        sure = arm_sure and reward_sure
    said = [c for c in columns if reward_name is not None and c.name.strip().lower() == reward_name.strip().lower()]
    written = said or (numbers if wide or reward is None else [reward])
    return SniffedTable(
        columns=names,
        rows=rows[:12],
        numeric=tuple(c.is_number for c in columns),
        arm=None if arm is None else arm.name,
        reward=None if reward is None or wide else reward.name,
        arm_candidates=tuple(c.name for c in arm_candidates[:_MOST_CANDIDATES]),
        reward_candidates=tuple(c.name for c in reward_candidates[:_MOST_CANDIDATES]),
        dates=tuple(c.is_date for c in columns),
        wide=wide,
        arms=tuple(c.name for c in arms),
        totals=tuple(c.name for c in totals),
        arm_sure=arm_sure,
        reward_sure=reward_sure,
        sure=sure,
        event="" if event is None else event.name,
        event_time="" if time is None else time.name,
        **_guess_number_format([cell for c in written for cell in c.cells if _NUMBER.fullmatch(cell)]),
    )


def _values_by_row(rows: Sequence[Sequence[str]], columns: Sequence[int], number_format: dict[str, str]) -> FloatArray:
    """The numbers in some columns, a row of the table in each row; NaN where there is none."""
    if not columns or not rows:
        return np.zeros((0, len(columns)))
    settings = ReadSettings(**number_format)  # type: ignore[arg-type]
    return np.column_stack([parse_numbers([row[k] for row in rows], settings)[0] for k in columns])


def _mask_of_totals(values: FloatArray) -> NDArray[np.bool_]:
    """Which columns are, in nearly all rows, the sum or the average of all others.

    >>> _mask_of_totals(np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 7.0], [0.0, 1.0, 1.0], [4.0, 4.0, 8.0], [3.0, 1.0, 4.0]]))
    array([False, False,  True])
    """
    known = values[np.isfinite(values).all(axis=1)]
    out = np.zeros(values.shape[1], dtype=bool)
    if known.shape[0] < _FEWEST_FOR_TOTALS or known.shape[1] < 3:
        return out
    for k in range(known.shape[1]):
        others = np.delete(known, k, axis=1)
        near = 0.005 * np.abs(others).sum(axis=1)
        for total in (others.sum(axis=1), others.mean(axis=1)):
            out[k] |= np.ptp(total) > 0.0 and bool((np.abs(known[:, k] - total) <= near).mean() >= 0.95)
    return out


def _are_alike(values: FloatArray, rows_have_names: bool) -> bool:
    """Whether columns can be of the same quantity: none of them varies more than ten times as much as another.

    If rows have no names such as dates, the columns must also have some numbers in common.

    >>> values = np.array([[1.0, 20.0], [2.0, 25.0], [3.0, 21.0], [4.0, 29.0], [9.0, 27.0]])
    >>> _are_alike(values, True), _are_alike(values * (1.0, 100.0), True), _are_alike(values, False)
    (True, False, False)
    """
    if values.shape[0] < _FEWEST_FOR_TOTALS or not np.isfinite(values).any(axis=0).all():
        return True
    low, high = np.nanquantile(values, (0.1, 0.9), axis=0)
    return bool((high - low).max() <= 10.0 * (high - low).min() and (rows_have_names or low.max() <= high.min()))


def _survival_columns(numbers: Sequence[_Column]) -> tuple[_Column | None, _Column | None]:
    """The two columns of survival data: whether the event came, and the time until then; ``None`` if they are not."""
    events = [c for c in numbers if c.words_of_name & EVENT_WORDS and len(set(c.cells)) == 2]
    times = [c for c in numbers if c.words_of_name & SURVIVAL_WORDS and c not in events]
    return (events[0], times[0]) if events and times else (None, None)


def _choose_column(
    columns: Sequence[_Column], words: Sequence[str], others: Sequence[_Column]
) -> tuple[_Column | None, bool, list[_Column]]:
    """The likeliest column, whether no other is as likely, and all that could be meant.

    A column whose whole name is one of the words is likelier than one with such a word in its name, and that one
    likelier than ``others``. Of two columns with such words nobody knows which is meant, unless it is the first word.
    """
    whole = [c for word in words for c in columns if c.name.strip().lower() == word]
    inside = [c for c in columns if c not in whole and c.words_of_name & set(words)]
    rest = [c for c in others if c not in whole and c not in inside]
    found = [*whole, *inside, *rest]
    best = next(group for group in (whole, inside, rest, [None]) if group)
    alone = len(best) + (len(inside) if best is whole else 0) == 1
    return best[0], best[0] is not None and (alone or best[0].name.strip().lower() == words[0]), found


def _guess_number_format(cells: Sequence[str]) -> dict[str, str]:
    """How numbers are written, where that can mean nothing else: the decimal sign, that of thousands, and of money.

    A percent sign counts as one of money if no number is without it: 5 % beside .05 could be the same.
    """
    signs = {found[0] if (found := re.search(r"[€$£¥₹%]", cell)) else "" for cell in cells if re.search("[1-9]", cell)}
    signs -= set() if "%" in signs else {""}
    currency = signs.pop() if len(signs) == 1 else ""
    plain = [re.sub(r"[\s\u00a0\u202f]", "", cell.replace(currency, "")) for cell in cells]

    def some(pattern: str) -> bool:
        return any(re.fullmatch(rf"[+-]?{pattern}", cell) for cell in plain)

    decimal, thousands = ".", ""
    if some(r"\d{1,3}(\.\d{3})+,\d+") and not some(r"\d+,\d*\.\d+|\d+\.(\d{1,2}|\d{4,})"):
        decimal, thousands = ",", "."
    elif some(r"\d{1,3}(,\d{3})+\.\d+") and not some(r"\d+\.\d*,\d+|\d+,(\d{1,2}|\d{4,})"):
        thousands = ","
    elif some(r"\d+,(\d{1,2}|\d{4,})") and all(re.fullmatch(r"[+-]?\d+(,(\d{1,2}|\d{4,}))?", c) for c in plain):
        decimal = ","
    return {"decimal": decimal, "thousands": thousands, "currency": currency}


def _are_ids(cells: Sequence[str]) -> bool:
    """Whether whole numbers only say which row it is: they count, or nearly all differ and grow, or lie close together.

    >>> _are_ids([str(10_000 + 7 * k) for k in range(20)]), _are_ids([str(k * 7 % 20) for k in range(20)])
    (True, True)
    >>> _are_ids([str(k * k % 97) for k in range(20)])
    False
    """
    if _counts_rows(cells):
        return True
    if len(set(cells)) < max(_FEWEST_IDS, 0.95 * len(cells)) or not all(re.fullmatch(r"\d+(\.0)?", c) for c in cells):
        return False
    numbers = [float(cell) for cell in cells]
    grown = sorted(numbers)
    return numbers in (grown, grown[::-1]) or grown[-1] - grown[0] < 2 * len(grown)


def _counts_rows(cells: Sequence[str]) -> bool:
    """Whether whole numbers only count: 1, 2, 3 and so on, also from 1 again (1, 2, 3, 1, 2, 3), or each several times.

    >>> _counts_rows(["1", "2", "3", "4"]), _counts_rows(["1", "2", "3"] * 5), _counts_rows([*"11112222333344445"])
    (True, True, True)
    >>> _counts_rows(["3", "1", "4", "1"]), _counts_rows(["0", "1"] * 9)
    (False, False)
    """
    try:
        numbers = [int(float(cell)) if float(cell).is_integer() else None for cell in cells]
    except ValueError:
        return False
    if None in numbers or len(numbers) < 4 or len(set(numbers)) < 3:
        return False
    steps = [b - a for a, b in pairwise(n for n in numbers if n is not None)]
    if all(step == 1 for step in steps):
        return True
    return len(numbers) >= 12 and all(
        step in (0, 1) or after == numbers[0] for step, after in zip(steps, numbers[1:], strict=True)
    )


def _are_dates(cells: Sequence[str]) -> bool:
    """Whether nearly all cells are dates."""
    if not cells or are_times_written_as_numbers(cells):
        return False
    return bool(np.isfinite(parse_times(cells)).mean() >= 1.0 - _MOST_OTHER_CELLS)
