"""Files of logged rewards, read in pieces: CSV, Parquet, JSON lines, Excel; folders of Parquet files."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import readable
from pmbandits.logs.account import SHOWN, Collector
from pmbandits.logs.cells import NOTHING, Beside, take_rows
from pmbandits.logs.columns import Picked, Reading, picked

Tick = Callable[[int], None]  # is told how many bytes are read
Watch = Callable[[str, int], AbstractContextManager[Tick]]  # is given the name and the size of a file

_ROWS = 1 << 18  # rows of a piece
_BLOCK = 1 << 20  # bytes of a piece of text
_GZIP = ".gz"
_KINDS = {
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_SAID = {"folder": "Parquet files"}
_HELP = (
    "give a CSV (.csv, .tsv, .txt), JSON lines (.jsonl, .ndjson; both also with .gz), Parquet (.parquet, .pq) or Excel "
    "(.xlsx) file, or a folder of Parquet files"
)


def read_file(into: Collector, path: Path, how: Reading, watch: Watch | None) -> None:
    """Bring all rewards of a file to their arms, and say in one sentence why a file cannot be read."""
    kind = kind_of(path)
    read = {"csv": _csv, "parquet": _parquet, "jsonl": _json_lines, "excel": _excel, "folder": _folder}[kind]
    size = sum(file.stat().st_size for file in _parquet_files(path)) if kind == "folder" else path.stat().st_size
    import pyarrow as pa

    try:
        if watch is None:
            read(into, path, how, lambda done: None)
            return
        with watch(path.name, size) as tick:
            read(into, path, how, lambda done: tick(min(done, size)))
    except (
        pa.ArrowException,
        csv.Error,
        OSError,
        LookupError,
        ArithmeticError,
        RecursionError,
        MemoryError,
        UnicodeError,
        EOFError,
        zlib.error,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's own: no rights, and the like
            raise
        raise ValueError(
            f"{path.name} is damaged, or is not what its name says: it cannot be read as {_SAID.get(kind, kind)} "
            f"({type(error).__name__}); write it again, or give another file."
        ) from None


def kind_of(path: Path) -> str:
    """``"csv"``, ``"parquet"``, ``"jsonl"``, ``"excel"`` or ``"folder"``; an error if there is nothing to read."""
    if path.is_dir():
        files = _parquet_files(path)
        if not files:
            raise ValueError(
                f"the folder {path.name!r} holds no Parquet files; {_HELP}, with an arm and a reward column."
            )
        kind, size = "folder", sum(file.stat().st_size for file in files)
    else:
        if not path.is_file():
            raise ValueError(f"there is no file {str(path)!r}; {_HELP}, with an arm and a reward column.")
        suffixes = [suffix.lower() for suffix in path.suffixes]
        zipped = suffixes[-1:] == [_GZIP]
        kind = _KINDS.get("".join(suffixes[-2:-1] if zipped else suffixes[-1:]), "")
        if not kind or (zipped and kind not in ("csv", "jsonl")):
            raise ValueError(f"{path.name!r} has an extension that is not known ({path.suffix or 'none'}); {_HELP}.")
        size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty; give rows with an arm and a number.")
    return kind


def _parquet_files(folder: Path) -> list[Path]:
    return [file for kind in (".parquet", ".pq") for file in folder.rglob(f"*{kind}")]


def _csv(into: Collector, path: Path, how: Reading, tick: Tick) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    header, mark = top_line(path)
    columns = picked(how, header, path.name)
    names = [f"c{k}" for k in range(len(header))]
    wrong = array("q")  # lines with a wrong number of columns

    def keep(row: Any) -> str:
        wrong.append(row.number)
        said = f"{row.actual_columns} columns instead of {row.expected_columns}"
        into.bad(row.number, f"line {row.number}", "a wrong number of columns", f"{said}: {row.text}")
        return "skip"

    raw = pa.OSFile(str(path), "rb")
    source = pa.CompressedInputStream(raw, "gzip") if path.suffix.lower() == _GZIP else raw
    wanted = [names[k] for k in columns.places]
    try:
        batches = pc.open_csv(
            source,
            read_options=pc.ReadOptions(use_threads=False, column_names=names, skip_rows=1, block_size=_BLOCK),
            parse_options=pc.ParseOptions(
                delimiter=mark, invalid_row_handler=keep, ignore_empty_lines=False, newlines_in_values=True
            ),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
            ),
        )
        done = 0
        for batch in batches:
            tick(raw.tell())
            base = done

            def line(k: int, base: int = base) -> int:
                number = base + k + 2  # the header is line 1
                for skipped in wrong:
                    if skipped > number:
                        break
                    number += 1
                return number

            beside = _beside(batch, names, columns)
            for arm, at in columns.pairs:
                arms = arm if columns.arm is None else batch.column(names[columns.arm])
                _texts(into, arms, batch.column(names[at]), line, how, beside)
            done += batch.num_rows
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error) or "UTF-8" in str(error):
            raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
        if "straddling" in str(error):
            raise ValueError(
                f"{path.name} has a row of more than {_BLOCK:,} bytes; is a quotation mark not closed? "
                "Leave out columns of long texts."
            ) from None
        if "Empty CSV" not in str(error):
            raise ValueError(f"cannot read {path.name}: {readable(str(error))[:300]}.") from None
    into.rows += len(wrong)


def _beside(batch: Any, names: list[str], columns: Picked) -> Beside | None:
    """Units and times of a piece of a table."""
    return columns.beside(lambda at: _objects(batch.column(names[at])))


def top_line(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and the mark between them."""
    try:
        with opened(path) as handle:
            raw = handle.readline(_BLOCK)
        first = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
    except EOFError:
        raise ValueError(f"{path.name} is damaged: it ends too early; write it again, or give another file.") from None
    if len(raw) == _BLOCK:
        raise ValueError(f"the first line of {path.name} has more than {_BLOCK:,} letters; give a CSV with a header.")
    mark = max(",;\t|", key=first.count)
    header = next(csv.reader([first], delimiter=mark), [])
    return [name.strip() for name in header], mark


def opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == _GZIP else path.open("rb")


def _texts(
    into: Collector,
    arms: Any,
    rewards: Any,
    line: Callable[[int], int],
    how: Reading,
    beside: Beside | None,
) -> None:
    """A piece of a text file: the columns as strings; ``arms`` is a name where a column is an arm."""
    import pyarrow as pa
    import pyarrow.compute as pc

    shown = rewards = pc.utf8_trim_whitespace(rewards)
    rewards = how.numbers(rewards)
    if isinstance(arms, str):  # an empty cell is no row
        arms = pc.if_else(pc.equal(rewards, ""), "", arms)
        into.rows += pc.sum(pc.not_equal(rewards, "")).as_py() or 0
        into.empty -= pc.sum(pc.equal(rewards, "")).as_py() or 0
    else:
        arms = pc.utf8_trim_whitespace(arms)
        into.rows += len(arms)
    try:
        values = pc.cast(rewards, pa.float64()).to_numpy(zero_copy_only=False)
        numeric = np.ones(values.size, dtype=bool)
    except pa.ArrowInvalid:
        numeric = pc.match_substring_regex(rewards, _NUMBER).to_numpy(zero_copy_only=False)
        filled = pc.if_else(pa.array(numeric), rewards, "nan")
        values = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
    named = pc.not_equal(arms, "").to_numpy(zero_copy_only=False)
    good = numeric & named & np.isfinite(values)
    if not good.all():
        _bad_texts(into, np.flatnonzero(~good), arms, shown, numeric, named, line)
    if beside is not None:
        for where, reason in beside.missing():
            for k in np.flatnonzero(where & good).tolist():
                said = beside.as_written(reason, k, f"{arms[k]}, {shown[k]}")
                into.bad(line(k), f"line {line(k)}", reason, said)
            good &= ~where
    if not good.all():
        arms, values = arms.filter(pa.array(good)), values[good]
    coded = pc.dictionary_encode(arms)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    into.codes(codes, coded.dictionary.to_pylist(), values, None if beside is None else beside.some(good))


_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def _bad_texts(
    into: Collector, bad: NDArray[Any], arms: Any, rewards: Any, numeric: Any, named: Any, line: Callable[[int], int]
) -> None:
    """Rows of a text file that cannot be used: count them by reason, and show the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    blank = pc.equal(rewards, "").take(pa.array(bad)).to_numpy(zero_copy_only=False)
    empty = blank & ~named[bad]
    into.empty += int(empty.sum())
    lower = np.array([str(t).lower() for t in rewards.take(pa.array(bad)).to_pylist()])
    nan = np.isin(lower, NOTHING)
    infinite = (numeric[bad] | np.isin(np.char.lstrip(lower, "+-"), ("inf", "infinity"))) & ~nan
    reasons = np.select(
        [empty, ~named[bad], blank | nan, infinite],
        ["", "no arm", "no reward", "an infinite reward"],
        "a reward that is not a number",
    )
    for reason in np.unique(reasons[reasons != ""]).tolist():
        mine = bad[reasons == reason]
        into.malformed[reason] = into.malformed.get(reason, 0) + int(mine.size)
        for k in mine[:SHOWN].tolist():
            number = line(k)
            if not into.wants_examples(number):
                break
            into.bad(number, f"line {number}", reason, f"{arms[k]}, {rewards[k]}", count=0)


def _parquet(into: Collector, path: Path, how: Reading, tick: Tick) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file: {readable(str(error))[:300]}.") from None
    known = list(file.schema_arrow.names)
    columns = picked(how, known, path.name)
    size, total = path.stat().st_size, max(file.metadata.num_rows, 1)
    batches = file.iter_batches(batch_size=_ROWS, columns=[known[k] for k in columns.places])
    take_batches(into, batches, known, columns, how, lambda rows: tick(size * rows // total))


def _folder(into: Collector, path: Path, how: Reading, tick: Tick) -> None:
    """Parquet files in a folder and the folders in it; folders such as ``arm=north`` are a column."""
    import pyarrow as pa
    import pyarrow.dataset as pd

    try:
        files = sorted(str(f) for kind in (".parquet", ".pq") for f in path.rglob(f"*{kind}"))
        table = pd.dataset(files, format="parquet", partitioning="hive", partition_base_dir=str(path))
        known = list(table.schema.names)
        columns = picked(how, known, path.name)
        size, total = sum(Path(f).stat().st_size for f in files), max(table.count_rows(), 1)
        batches = table.to_batches(columns=[known[k] for k in columns.places], batch_size=_ROWS)
        take_batches(into, batches, known, columns, how, lambda rows: tick(size * rows // total))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the folder {path.name!r} cannot be read as Parquet files: {error}.") from None


def take_batches(
    into: Collector,
    batches: Iterable[Any],
    known: list[str],
    columns: Picked,
    how: Reading,
    tick: Callable[[int], None] = lambda rows: None,
) -> None:
    """Pieces of an arrow table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    done = 0
    for batch in batches:
        beside = _beside(batch, known, columns)
        for arm, at in columns.pairs:
            rewards = batch.column(known[at])
            arms: Any = arm if columns.arm is None else batch.column(known[columns.arm])
            if not isinstance(arms, str) and pa.types.is_dictionary(arms.type):
                arms = arms.dictionary_decode()
            plain = pa.types.is_floating(rewards.type) or pa.types.is_integer(rewards.type)
            if beside is None and plain and not isinstance(arms, str) and rewards.null_count + arms.null_count == 0:
                values = pc.cast(rewards, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
                coded = pc.dictionary_encode(pc.utf8_trim_whitespace(pc.cast(arms, pa.string())))
                names = coded.dictionary.to_pylist()
                if np.isfinite(values).all() and "" not in names:
                    into.rows += values.size
                    into.codes(coded.indices.to_numpy(), names, values)
                    continue
            cells = arms if isinstance(arms, str) else _objects(arms)
            take_rows(into, cells, _objects(rewards), "row", done, beside, how.number)
        done += batch.num_rows
        tick(done)


def _excel(into: Collector, path: Path, how: Reading, tick: Tick) -> None:
    """The first sheet of an Excel file, if its reader is installed."""
    try:
        import openpyxl  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ValueError(
            f"{path.name} is an Excel file: install its reader (pip install 'pmbandits[tables]'), or save the "
            "sheet as CSV UTF-8."
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # whatever a foreign reader says of a foreign file
        raise ValueError(f"{path.name} is not an Excel file: {error}.") from None
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        known = ["" if cell is None else str(cell).strip() for cell in next(rows, ())]
        columns = picked(how, known, path.name)
        first, piece = 2, []  # the header is row 1
        for row in rows:
            piece.append([row[k] if k < len(row) else None for k in columns.places])
            if len(piece) == _ROWS:
                _cells(into, piece, columns, how, first)
                first, piece = first + len(piece), []
        _cells(into, piece, columns, how, first)
    finally:
        book.close()
    tick(path.stat().st_size)


def _cells(
    into: Collector, rows: list[list[Any]], columns: Picked, how: Reading, first: int, word: str = "row"
) -> None:
    """Rows of cells, in the order of the places of the columns."""
    table = np.empty((len(rows), len(columns.places)), dtype=object)
    for k, row in enumerate(rows):
        table[k] = row
    at = {place: k for k, place in enumerate(columns.places)}
    beside = columns.beside(lambda place: table[:, at[place]])
    for arm, place in columns.pairs:
        arms = arm if columns.arm is None else table[:, at[columns.arm]]
        take_rows(into, arms, table[:, at[place]], word, first, beside, how.number)


def _objects(column: Any) -> NDArray[Any]:
    out = np.empty(len(column), dtype=object)
    out[:] = column.to_pylist()
    return out


def _json_lines(into: Collector, path: Path, how: Reading, tick: Tick) -> None:
    known: list[str] = []
    columns = None
    for first, lines, done in _blocks_of_lines(path):
        rows: list[dict[str, Any]] = []
        broken: dict[int, str] = {}
        for k, text in enumerate(lines):
            row: Any = {}
            if text.strip():
                try:
                    row = json.loads(text)
                except (ValueError, RecursionError):
                    row = None
            if not isinstance(row, dict):
                broken[k] = text
                row = {}
            elif row and columns is None:
                known = [str(name) for name in row]
                columns = picked(how, known, path.name)
            rows.append(row)
        for k, text in broken.items():
            into.bad(first + k, f"line {first + k}", "no JSON object", text.strip())
        into.empty -= len(broken)  # their cells are empty, but they are counted
        if columns is None:
            into.rows, into.empty = into.rows + len(lines), into.empty + len(lines)
            continue
        places = [known[k] for k in columns.places]
        _cells(into, [[row.get(name) for name in places] for row in rows], columns, how, first, "line")
        tick(done)


def _blocks_of_lines(path: Path) -> Iterator[tuple[int, list[str], int]]:
    """(number of the first line, lines, bytes read so far)."""
    number = 1
    with opened(path) as handle:
        while True:
            raw = handle.readlines(_BLOCK)
            if not raw:
                return
            try:
                lines = [line.decode("utf-8-sig") for line in raw]
            except UnicodeDecodeError:
                raise ValueError(f"{path.name} is not text in UTF-8; save it as UTF-8.") from None
            yield number, lines, handle.tell()
            number += len(lines)
