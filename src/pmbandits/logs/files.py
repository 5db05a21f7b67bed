"""Files of logged rewards, read in pieces: CSV, Parquet, JSON lines, Excel; folders of Parquet files."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import shlex
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from pmbandits._validation import escape_control_characters
from pmbandits.logs.columns import ColumnSelection, ReadSettings, object_array, select_columns
from pmbandits.logs.findings import Finding
from pmbandits.logs.parse import collect_table_piece
from pmbandits.logs.row_report import RewardCollector

OnProgress = Callable[[int], None]  # called with the number of bytes read so far
OpenProgress = Callable[[str, int], AbstractContextManager[OnProgress]]  # called with the name and the size of a file

_ROWS = 1 << 18  # rows of a piece
_BLOCK = 1 << 20  # bytes of a piece of text
_BLOCKS_DECODED = 64  # pieces that are looked at to find out how a file is encoded
_XLSX_BASE_BYTES, _XLSX_BYTES_PER_FILE_BYTE = 1 << 22, 50  # what an Excel file may unpack to; a cell takes 4 of them
MOST_COLUMNS = 5_000  # of a CSV file
_HEADER_LINES = 24  # lines below the first that are looked at to find the names of the columns
_BEGINS_AS_NUMBER = re.compile(r"[(+−-]?\s*[€$£]?\s*[+−-]?[.,]?\d")  # so do dates
_GZIP = ".gz"
_KINDS = {
    "csv": (".csv", ".tsv", ".txt"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "excel": (".xlsx", ".xlsm"),
}
_HELP = (
    "give a CSV (.csv, .tsv, .txt), JSON lines (.jsonl, .ndjson; both also with .gz), Parquet (.parquet, .pq) or Excel "
    "(.xlsx) file, or a folder of Parquet files"
)


def read_file(collector: RewardCollector, path: Path, settings: ReadSettings, watch: OpenProgress | None) -> None:
    """Collect all rewards of a file; raises an error of one sentence if it cannot be read."""
    kind = file_kind(path)
    readers = {"csv": _read_csv, "parquet": _read_parquet, "jsonl": _read_json_lines, "excel": _read_excel}
    size = sum(file.stat().st_size for file in _files_to_read(path))
    with (
        read_errors_as_one_sentence(path, kind),
        nullcontext(lambda done: None) if watch is None else watch(path.name, size) as on_progress,
    ):
        for done in readers[kind](collector, path, settings):
            on_progress(min(done, size))


@contextmanager
def read_errors_as_one_sentence(path: Path, kind: str) -> Iterator[None]:
    """Turn the errors of the libraries that read files into one sentence; our own, and the disk's, stay as they are."""
    import pyarrow as pa

    try:
        yield
    except (
        pa.ArrowException,
        csv.Error,
        zipfile.BadZipFile,
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
            f"{path.name} is damaged, or is not what its name says: it cannot be read as {kind} "
            f"({type(error).__name__}); write it again, or give another file."
        ) from None


def file_kind(path: Path) -> str:
    """``"csv"``, ``"parquet"`` (also a folder), ``"jsonl"`` or ``"excel"``; an error if there is nothing to read."""
    kind = "parquet"
    if path.is_dir():
        if not _files_to_read(path):
            raise ValueError(
                f"the folder {path.name!r} holds no Parquet files; {_HELP}, with an arm and a reward column."
            )
    else:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {str(path)!r}; {_HELP}, with an arm and a reward column.")
        suffixes = [suffix.lower() for suffix in path.suffixes]
        zipped = suffixes[-1:] == [_GZIP]
        suffix = "".join(suffixes[-2:-1] if zipped else suffixes[-1:])
        kind = next((kind for kind, known in _KINDS.items() if suffix in known), "")
        if not kind or (zipped and kind not in ("csv", "jsonl")):
            raise ValueError(f"{path.name!r} has an extension that is not known ({path.suffix or 'none'}); {_HELP}.")
    if sum(file.stat().st_size for file in _files_to_read(path)) == 0:
        raise ValueError(f"{path.name} is empty; give rows with an arm and a number.")
    return kind


def _files_to_read(path: Path) -> list[Path]:
    """The file itself; of a folder the Parquet files below it."""
    return (
        sorted(file for suffix in _KINDS["parquet"] for file in path.rglob(f"*{suffix}")) if path.is_dir() else [path]
    )


def _read_csv(collector: RewardCollector, path: Path, settings: ReadSettings) -> Iterator[int]:
    """Collect a CSV file; yields the number of bytes read after each piece."""
    import pyarrow as pa

    header, delimiter, above = read_header(path)
    columns = select_columns(settings, header, path.name)
    collector.findings += _titles_finding(above)
    if text_encoding(path) != "utf-8":
        done = "It was read as Windows-1252, which Excel writes."
        change = "If letters are wrong: save it as CSV UTF-8."
        collector.findings.append(Finding("encoding", f"{path.name} is not in UTF-8.", done, change))
    names = [f"c{k}" for k in range(len(header))]
    wanted = [names[k] for k in columns.sorted_column_indices]
    skipped = SkippedLines(above, collector)
    raw = pa.OSFile(str(path), "rb")
    try:
        batches = open_csv(path, names, wanted, delimiter, above, skipped.skip, raw)
        for _ in collect_record_batches(collector, batches, names, columns, settings, "line", skipped.line_number):
            yield raw.tell()
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error) or "UTF-8" in str(error):
            raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
        if "straddling" in str(error):
            raise ValueError(_row_too_long_message(path)) from None
        if "Empty CSV" not in str(error):
            raise ValueError(f"cannot read {path.name}: {escape_control_characters(str(error))[:300]}.") from None


class SkippedLines:
    """The lines of a CSV file with a wrong number of columns; they are reported to the collector, if there is one."""

    def __init__(self, above: int, collector: RewardCollector | None = None) -> None:
        self.above, self.collector = above, collector
        self.numbers = array("q")

    def skip(self, row: Any) -> str:
        """Skip a line, as Arrow asks for it."""
        self.numbers.append(row.number)
        if self.collector is not None:
            self.collector.rows += 1
            said = f"{row.actual_columns} columns instead of {row.expected_columns}: {row.text}"
            self.collector.count_and_keep_malformed(row.number, f"line {row.number}", "a wrong number of columns", said)
        return "skip"

    def line_number(self, row: int) -> int:
        """The line of a row that was not skipped; the header is line 1, if there are no lines above it."""
        number = row + 2 + self.above
        for skipped in self.numbers:
            if skipped > number:
                break
            number += 1
        return number


def open_csv(
    path: Path, names: list[str], wanted: list[str], delimiter: str, above: int, on_invalid_row: Any, raw: Any = None
) -> Any:
    """The rows of a CSV file below its header as Arrow's record batches: the wanted columns, as texts."""
    import pyarrow as pa
    import pyarrow.csv as pc

    raw = pa.OSFile(str(path), "rb") if raw is None else raw
    return pc.open_csv(
        pa.CompressedInputStream(raw, "gzip") if path.suffix.lower() == _GZIP else raw,
        read_options=pc.ReadOptions(
            use_threads=False, column_names=names, skip_rows=1 + above, block_size=_BLOCK, encoding=text_encoding(path)
        ),
        parse_options=pc.ParseOptions(
            delimiter=delimiter, invalid_row_handler=on_invalid_row, ignore_empty_lines=False, newlines_in_values=True
        ),
        convert_options=pc.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, strings_can_be_null=False
        ),
    )


def read_header(path: Path) -> tuple[list[str], str, int]:
    """The names of the columns of a CSV file, its delimiter, and how many lines are above the names."""
    try:
        raw, *more = [*first_lines(path, _HEADER_LINES + 1), b""]
        code = text_encoding(path)
        lines = [raw.decode(code), *(line[:100_000].decode(code, errors="replace") for line in more if line)]
        lines[0] = lines[0].removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
    except EOFError:
        raise ValueError(f"{path.name} is damaged: it ends too early; write it again, or give another file.") from None

    def fields_of_line(line: str, sign: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=sign), [])
        except csv.Error:  # a cell is too long, so this is not the sign between cells
            return [line]

    def fields(sign: str) -> list[list[str]]:
        return [fields_of_line(line, sign) for line in lines]

    def regularity(sign: str) -> tuple[int, int, int]:
        """How many cells are in lines of the usual width, how many such lines are at the end, and in the first line."""
        widths = [len(row) for row in fields(sign)]
        width, count = max(Counter(widths).items(), key=lambda pair: pair[1] * (pair[0] - 1))
        run = next((k for k, w in enumerate(reversed(widths)) if w != width), len(widths))
        return count * (width - 1), run, lines[0].count(sign)

    delimiter = max(",;\t|", key=regularity)
    table = fields(delimiter)
    above = index_of_header_row(table)
    if len(table[above]) > MOST_COLUMNS:
        raise ValueError(
            f"{path.name} has {len(table[above]):,} columns, more than the {MOST_COLUMNS:,} that are read; "
            "leave some out."
        )
    return [name.strip() for name in table[above]], delimiter, above


def first_lines(path: Path, count: int) -> list[bytes]:
    """The first lines of a CSV file; raises an error if one of them is too long to be read."""
    with open_maybe_gzip(path) as handle:
        lines = list(islice(iter(partial(handle.readline, _BLOCK), b""), count))
    if any(len(line) == _BLOCK for line in lines):
        raise ValueError(_row_too_long_message(path))
    return lines


def _row_too_long_message(path: Path) -> str:
    return (
        f"{path.name} has a row of more than {_BLOCK:,} bytes; is a quotation mark not closed? Leave out columns of "
        "long texts."
    )


def text_encoding(path: Path) -> str:
    """``"utf-8"``; or ``"cp1252"`` for a file that is not, but could be what Excel writes on Windows."""
    found = path.stat()
    return _text_encoding(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=8)
def _text_encoding(path: Path, changed: int, size: int) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_maybe_gzip(path) as handle:
        for _ in range(_BLOCKS_DECODED):
            block = handle.read(_BLOCK)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                return "utf-8" if re.search(rb"[\x00\x81\x8d\x8f\x90\x9d]", block) else "cp1252"
            if not block:
                break
    return "utf-8"


def index_of_header_row(rows: Sequence[Sequence[Any]]) -> int:
    """Which of the first rows has the names of the columns: 0, unless there are titles above it.

    Titles fill fewer cells than the rows of the table do, and the names of the columns are texts.

    >>> index_of_header_row([["Sales 2026"], [], ["arm", "reward"], ["a", "1"], ["b", "2"]])
    2
    """
    filled = [[text for cell in row if (text := "" if cell is None else str(cell).strip())] for row in rows]
    widths = Counter(len(row) for row in filled if len(row) > 1)
    width = max(widths, key=lambda w: (widths[w], w), default=0)
    for k, row in enumerate(filled):
        names = len(set(row)) == len(row) and not any(map(_BEGINS_AS_NUMBER.match, row))
        if len(row) >= width and (names or k == 0):
            return k
    return next((k for k, row in enumerate(filled) if len(row) > 1), 0) if len(filled[0]) < 2 else 0


def _titles_finding(above: int) -> list[Finding]:
    if not above:
        return []
    lines = "1 line stands" if above == 1 else f"{above} lines stand"
    return [Finding("titles", f"{lines} above the names of the columns.", "They were skipped.")]


def open_maybe_gzip(path: Path) -> Any:
    """A file opened for reading bytes, unpacked if it is zipped."""
    return gzip.open(path, "rb") if path.suffix.lower() == _GZIP else path.open("rb")


def open_parquet(path: Path) -> Any:
    """A Parquet file, or those below a folder, as one Arrow dataset; folders such as ``arm=north`` are a column."""
    import pyarrow.dataset as ds

    base = path if path.is_dir() else path.parent
    return ds.dataset(
        list(map(str, _files_to_read(path))), format="parquet", partitioning="hive", partition_base_dir=str(base)
    )


def _read_parquet(collector: RewardCollector, path: Path, settings: ReadSettings) -> Iterator[int]:
    """Collect a Parquet file or a folder of them; yields the number of bytes read after each piece."""
    table = open_parquet(path)
    known = table.schema.names
    columns = select_columns(settings, known, path.name)
    size, total = sum(file.stat().st_size for file in _files_to_read(path)), max(table.count_rows(), 1)
    batches = table.to_batches(columns=[known[k] for k in columns.sorted_column_indices], batch_size=_ROWS)
    for rows in collect_record_batches(collector, batches, known, columns, settings):
        yield size * rows // total


def collect_record_batches(
    collector: RewardCollector,
    batches: Iterable[Any],
    known: list[str],
    columns: ColumnSelection,
    settings: ReadSettings,
    row_word: str = "row",
    number: Callable[[int], int] = int,
) -> Iterator[int]:
    """Collect Arrow's record batches; yields the number of rows so far after each. ``number`` is that of a row."""
    done = 0
    for batch in batches:

        def cells(at: int, batch: Any = batch) -> Any:
            return batch.column(known[at])

        def number_in_batch(row: int, before: int = done) -> int:
            return number(before + row)

        collect_table_piece(collector, columns, settings, cells, row_word, number_in_batch)
        done += batch.num_rows
        yield done


@dataclass(frozen=True)
class Sheet:
    """A sheet of a workbook: the names of its columns, its other rows, the number of the first of them, findings."""

    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    first: int
    findings: list[Finding]


@contextmanager
def open_sheet(path: Path, name: str | None = None) -> Iterator[Sheet]:
    """A sheet of an Excel file by its name, or the first that has a table; needs openpyxl."""
    try:
        import openpyxl  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ValueError(
            f"{path.name} is an Excel file: install its reader (pip install 'pmbandits[tables]'), or save the "
            "sheet as CSV UTF-8."
        ) from None
    most = _XLSX_BASE_BYTES + _XLSX_BYTES_PER_FILE_BYTE * path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"{path.name} is not an Excel file: {error}.") from None
    if unpacked > most:
        raise ValueError(
            f"{path.name} unpacks to {unpacked:,} bytes, more than the {most:,} that an Excel file of its size may "
            "have; save the sheet as CSV UTF-8."
        )
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # whatever a foreign reader says of a foreign file
        raise ValueError(f"{path.name} is not an Excel file: {error}.") from None
    try:
        names = [sheet.title for sheet in book.worksheets]
        if name is not None and name not in names:
            raise ValueError(f"{path.name} has no sheet {name!r}; it has: {', '.join(names)}.")
        found = [_open_worksheet(book[title], path, most // 4) for title in names if name in (None, title)]
        at = next((k for k, sheet in enumerate(found) if len(sheet.columns) > 1), 0)
        if name is None and len(found) > 1:
            others = [title for title in names if title != names[at]]
            found[at].findings.append(
                Finding(
                    "sheets",
                    f"The workbook has {len(names)} sheets.",
                    f"“{names[at]}” was read, not {', '.join(f'“{title}”' for title in others)}.",
                    f"To read another one: --sheet {shlex.quote(others[0])} (sheet={others[0]!r} in Python).",
                )
            )
        yield found[at]
    finally:
        book.close()


def _raise_if_too_many_cells(rows: Iterable[tuple[Any, ...]], path: Path, most: int) -> Iterator[tuple[Any, ...]]:
    """The rows, or an error when they have too many cells: a cell that is far away makes thousands of empty ones."""
    for row in rows:
        most -= len(row) + 1
        if most < 0:
            raise ValueError(
                f"{path.name} has more cells than an Excel file of its size can hold, most of them empty; save the "
                "sheet as CSV UTF-8."
            )
        yield row


def _open_worksheet(worksheet: Any, path: Path, most_cells: int) -> Sheet:
    rows = _raise_if_too_many_cells(worksheet.iter_rows(values_only=True), path, most_cells)
    top = list(islice(rows, _HEADER_LINES + 1))
    above = index_of_header_row(top) if top else 0
    header = ["" if cell is None else str(cell).strip() for cell in (top[above] if top else ())]
    return Sheet(header, chain(top[above + 1 :], rows), above + 2, _titles_finding(above))


def _read_excel(collector: RewardCollector, path: Path, settings: ReadSettings) -> Iterator[int]:
    """Collect a sheet of an Excel file; yields its size in bytes at the end."""
    with open_sheet(path, settings.sheet) as sheet:
        columns = select_columns(settings, sheet.columns, path.name)
        collector.findings += sheet.findings
        for first in count(sheet.first, _ROWS):
            piece = list(islice(sheet.rows, _ROWS))
            if not piece:
                break

            def cells(at: int, piece: Iterable[tuple[Any, ...]] = piece) -> Any:
                return object_array(row[at] if at < len(row) else None for row in piece)

            collect_table_piece(collector, columns, settings, cells, "row", range(first, first + _ROWS).__getitem__)
    yield path.stat().st_size


def parse_json_line(line: bytes, path: Path) -> dict[str, Any] | None:
    """The JSON object on a line, empty for a blank line; ``None`` if there is something else."""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8; save it as UTF-8.") from None
    try:
        row = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _read_json_lines(collector: RewardCollector, path: Path, settings: ReadSettings) -> Iterator[int]:
    """Collect a file of JSON lines; yields the number of bytes read after each piece."""
    columns = None
    known: list[str] = []
    numbers = count(1)
    with open_maybe_gzip(path) as handle:
        while lines := handle.readlines(_BLOCK):
            rows: dict[int, dict[str, Any]] = {}
            for number, line in zip(numbers, lines):  # noqa: B905 (the numbers never end)
                row = parse_json_line(line, path)
                if row is None:
                    collector.rows += 1
                    collector.count_and_keep_malformed(
                        number, f"line {number}", "no JSON object", line.decode("utf-8-sig").strip()
                    )
                    continue
                rows[number] = row
                if row and columns is None:
                    known = [str(name) for name in row]
                    columns = select_columns(settings, known, path.name)
            if columns is None:
                collector.rows, collector.empty = collector.rows + len(rows), collector.empty + len(rows)
                continue

            def cells(at: int, rows: Iterable[dict[str, Any]] = rows.values(), known: list[str] = known) -> Any:
                return object_array(row.get(known[at]) for row in rows)

            collect_table_piece(collector, columns, settings, cells, "line", list(rows).__getitem__)
            yield handle.tell()
