"""From the cells of a table to numbers and names of arms, with a reason for every row that cannot be used.

A column is an Arrow array (CSV, Parquet, results of queries) or a numpy array (frames, JSON lines, Excel).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray, is_list, is_number
from pmbandits.logs.columns import ColumnSelection, ReadSettings, UnitsAndTimes, is_arrow, object_array, to_numpy
from pmbandits.logs.row_report import MOST_EXAMPLES, NO_TIME, NOT_A_NUMBER, PLACEHOLDER, RewardCollector

MISSING_WORDS = ("", "nan", "na", "n/a", "#n/a", "null", "none", "nil", "k.a.", "-", "–", "—")  # of a missing reward
TRUTH_WORDS = {"true": 1.0, "false": 0.0}  # a reward of yes or no, as spreadsheets and pandas write it
PAIR_SIGN = "\uf001"  # between a segment and an arm: a sign for private use, so it stands in no name
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


class Problem(IntEnum):
    """Why a row cannot be used. In a blank cell nothing was written; other missing rewards are words such as "nan"."""

    NONE = 0
    BLANK = 1
    MISSING = 2
    INFINITE = 3
    NOT_A_NUMBER = 4
    NO_ARM = 5
    NO_UNIT = 6
    NO_TIME = 7
    PLACEHOLDER = 8
    NO_WEIGHT = 9


REASONS = (
    "",
    "no reward",
    "no reward",
    "an infinite reward",
    NOT_A_NUMBER,
    "no arm",
    "no unit",
    NO_TIME,
    PLACEHOLDER,
    "no weight above 0, or no propensity between 0 and 1",
)  # by problem
Problems = NDArray[np.uint8]


def collect_table_piece(
    collector: RewardCollector,
    columns: ColumnSelection,
    settings: ReadSettings,
    cells: Callable[[int], Any],
    row_word: str,
    number: Callable[[int], int],
) -> None:
    """Collect a table, or a piece of one.

    Parameters
    ----------
    cells : returns a column by its index.
    row_word, number : what a row is called (``"row"`` or ``"line"``), and its number by its position in the piece.
    """
    kept = columns.indices_of_kept_rows(cells)
    if kept is not None:
        rows, all_cells, all_numbers = len(cells(columns.conditions[0][0])), cells, number
        collector.left_out += rows - kept.size

        def cells(at: int) -> Any:
            return to_numpy(all_cells(at))[kept] if not is_arrow(all_cells(at)) else all_cells(at).take(kept)

        def number(row: int) -> int:
            return all_numbers(int(kept[row]))

    units_and_times = columns.units_and_times(cells)
    for arm, at in columns.reward_columns:
        arms = arm if columns.arm is None else cells(columns.arm)
        if columns.segment is not None:
            arms = pairs_of_names(cells(columns.segment), arms)
        _collect_reward_column(collector, arms, cells(at), settings, units_and_times, row_word, number)


def _collect_reward_column(
    collector: RewardCollector,
    arms: Any,
    rewards: Any,
    settings: ReadSettings,
    units_and_times: UnitsAndTimes | None,
    row_word: str,
    number: Callable[[int], int],
) -> None:
    """Collect a column of rewards. ``arms`` is a name if all of them are of one arm: then a blank cell is no row."""
    values, problems = parse_numbers(rewards, settings)
    if isinstance(arms, str):
        names, codes = [arms], np.zeros(values.size, dtype=np.int64)
        skipped = problems == Problem.BLANK
        collector.rows += values.size - int(skipped.sum())
    else:
        names, codes = encode_arm_names(arms)
        skipped = (codes < 0) & (problems == Problem.BLANK)
        problems[codes < 0] = Problem.NO_ARM
        collector.rows += values.size
        collector.empty += int(skipped.sum())
    if units_and_times is not None:
        for absent, problem in (
            (units_and_times.mask_of_rows_without_unit(), Problem.NO_UNIT),
            (units_and_times.mask_of_rows_without_time(), Problem.NO_TIME),
            (units_and_times.mask_of_rows_without_weight(), Problem.NO_WEIGHT),
        ):
            problems[absent & (problems == Problem.NONE)] = problem
    good = problems == Problem.NONE
    malformed = np.flatnonzero(~(good | skipped))
    kinds, first, counts = np.unique(problems[malformed], return_index=True, return_counts=True)
    for k in np.argsort(first).tolist():
        collector.count_malformed(REASONS[kinds[k]], int(counts[k]))
    for k, count in enumerate(np.bincount(codes[problems == Problem.NOT_A_NUMBER], minlength=len(names)).tolist()):
        if count:
            collector.count_unreadable(names[k], count)
    for k in malformed[:MOST_EXAMPLES].tolist():
        text = f"{arms if isinstance(arms, str) else _cell_text(arms, k)}, {_cell_text(rewards, k)}"
        if problems[k] == Problem.NO_TIME and units_and_times is not None:
            text = str(units_and_times.raw_times[k])
        collector.keep_malformed_example(number(k), f"{row_word} {number(k)}", REASONS[problems[k]], text)
    if not good.all():
        codes, values = codes[good], values[good]
        units_and_times = None if units_and_times is None else units_and_times.select_rows(good)
    collector.add_rewards(names, codes, values, units_and_times)


def _cell_text(column: Any, at: int) -> str:
    return str(column[at].as_py() if is_arrow(column) else column[at]).strip()


def encode_arm_names(arms: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct names of arms, and each row's index into them; -1 where there is no name.

    In a column of Arrow strings any word is a name; elsewhere words such as "nan" may stand for nothing.
    """
    import pyarrow as pa

    if isinstance(arms, np.ma.MaskedArray):
        arms = _masked_to_none(arms)
    texts = is_arrow(arms) and _is_arrow_string_type(arms.type)
    try:
        coded = arms if is_arrow(arms) else pa.array(arms, from_pandas=True)
        coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
        found, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # names of several types
        cells = [None if isinstance(arm, (list, dict, set, np.ndarray)) else arm for arm in to_numpy(arms).tolist()]
        found = list(dict.fromkeys(cells))
        at = {name: k for k, name in enumerate(found)}
        codes = np.array([at[name] for name in cells], dtype=np.int64)
    names: dict[str, int] = {}
    place = np.full(len(found) + 1, -1, dtype=np.int64)
    for k, name in enumerate(found):
        label = "" if name is None or (not texts and is_missing(name)) else str(name).strip()
        if label:
            place[k] = names.setdefault(label, len(names))
    return list(names), place[codes]


def pairs_of_names(segments: Any, arms: Any) -> Any:
    """The name of each row's segment and arm in one text; nothing where one of them is missing."""
    import pyarrow as pa

    (outer, segment), (inner, arm) = encode_arm_names(segments), encode_arm_names(arms)
    names = pa.array([f"{one}{PAIR_SIGN}{two}" for one in outer for two in inner], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(segment * len(inner) + arm, mask=(segment < 0) | (arm < 0)), names)


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: nothing, NaN, blanks, or a word for nothing such as "NaN" or "null"."""
    if isinstance(value, str):
        return value.strip().lower() in MISSING_WORDS
    return value is None or value is np.ma.masked or (np.ndim(value) == 0 and str(value) in ("nan", "NaT", "<NA>"))


def parse_numbers(cells: Any, settings: ReadSettings | None = None) -> tuple[FloatArray, Problems]:
    """Cells as numbers, NaN where that fails; and what is wrong with each cell."""
    values, problems = _parse_cells(cells, settings or ReadSettings())
    if settings is not None and settings.missing_numbers:
        problems[np.isin(values, settings.missing_numbers)] = Problem.PLACEHOLDER
    return values, problems


def _parse_cells(cells: Any, settings: ReadSettings) -> tuple[FloatArray, Problems]:
    if is_arrow(cells):
        import pyarrow as pa
        import pyarrow.compute as pc

        if _is_arrow_string_type(cells.type):
            return _parse_numbers_from_arrow_strings(cells, settings)
        if pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type):
            cells = pc.cast(cells, pa.float64(), safe=False)
        cells = to_numpy(cells)
    elif isinstance(cells, np.ma.MaskedArray):
        cells = _masked_to_none(cells)
    elif isinstance(cells, (list, tuple)) and any(cell is np.ma.masked or is_list(cell) for cell in cells):
        cells = object_array(None if cell is np.ma.masked else cell for cell in cells)
    raw = np.asarray(cells)
    if raw.dtype.kind not in "biuf":
        return _parse_numbers_from_objects(list(cells) if raw.dtype.kind in "Mm" else cells, settings)
    values = raw.astype(np.float64)
    problems = np.zeros(raw.size, dtype=np.uint8)
    bad = np.flatnonzero(~np.isfinite(values))
    problems[bad] = np.where(np.isnan(values[bad]), Problem.BLANK, Problem.INFINITE)
    values[bad] = np.nan
    return values, problems


def _parse_numbers_from_objects(cells: Any, settings: ReadSettings) -> tuple[FloatArray, Problems]:
    """Python objects as numbers, one by one; and what is wrong with the others."""
    raw = np.asarray(cells, dtype=object)
    values, problems = np.full(raw.size, np.nan), np.zeros(raw.size, dtype=np.uint8)
    for k, cell in enumerate(raw):
        if is_missing(cell):
            problems[k] = Problem.BLANK
            continue
        try:
            if not (isinstance(cell, (str, bool, np.bool_)) or is_number(cell)):
                raise TypeError
            if isinstance(cell, str):
                cell = TRUTH_WORDS.get(cell.strip().lower(), settings.normalise_number(cell))
            values[k] = float(cell)
        except (TypeError, ValueError, OverflowError):
            problems[k] = Problem.NOT_A_NUMBER
    bad = ~np.isfinite(values)
    problems[bad & (problems == Problem.NONE)] = Problem.INFINITE
    values[bad] = np.nan
    return values, problems


def _parse_numbers_from_arrow_strings(texts: Any, settings: ReadSettings) -> tuple[FloatArray, Problems]:
    """The cells of a column of Arrow strings as numbers, all at once; and what is wrong with the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(texts.fill_null(""))
    written = texts if settings.uses_python_number_format else settings.normalise_column(texts)
    numeric = np.ones(len(texts), dtype=bool)
    try:
        values = pc.cast(written, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        written = settings.normalise_column(texts) if settings.uses_python_number_format else written
        numeric = pc.match_substring_regex(written, _NUMBER).to_numpy(zero_copy_only=False)
        values = pc.cast(pc.if_else(pa.array(numeric), written, "nan"), pa.float64()).to_numpy(zero_copy_only=False)
    problems = np.zeros(values.size, dtype=np.uint8)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        values = values.copy()  # Arrow's own may be read-only
        values[bad] = np.nan
        words = np.array([text.lower() for text in texts.take(pa.array(bad)).to_pylist()])
        for word, value in TRUTH_WORDS.items():
            values[bad[words == word]] = value
        bad, words = bad[np.isnan(values[bad])], words[np.isnan(values[bad])]
        infinite = numeric[bad] | np.isin(np.char.lstrip(words, "+-"), ("inf", "infinity"))
        problems[bad] = np.select(
            [words == "", np.isin(words, MISSING_WORDS), infinite],
            [Problem.BLANK, Problem.MISSING, Problem.INFINITE],
            Problem.NOT_A_NUMBER,
        )
    return values, problems


def _is_arrow_string_type(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _masked_to_none(cells: Any) -> NDArray[Any]:
    """The cells of a masked array, with nothing where they are masked."""
    out: NDArray[Any] = np.array(cells.data, dtype=object)
    out[np.ma.getmaskarray(cells)] = None
    return out
