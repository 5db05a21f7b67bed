"""Files of logged rewards, read in pieces: CSV, Parquet and JSON lines."""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import readable
from pmbandits.logs.account import SHOWN, Collector
from pmbandits.logs.cells import pick, take_rows

Tick = Callable[[int], None]  # is told how many bytes are read
Watch = Callable[[str, int], AbstractContextManager[Tick]]  # is given the name and the size of a file

_ROWS = 1 << 18  # rows of a piece
_BLOCK = 1 << 20  # bytes of a piece of text
_KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_HELP = "give a CSV (.csv, .tsv, .txt), Parquet (.parquet, .pq) or JSON lines (.jsonl, .ndjson) file"


def read_file(into: Collector, path: Path, arm: str, reward: str, watch: Watch | None) -> None:
    """Bring all rewards of a file to their arms, and say in one sentence why a file cannot be read."""
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}; {_HELP} with an arm and a reward column.")
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path.name!r} has an extension that is not known ({path.suffix or 'none'}); {_HELP}.")
    read = {"csv": _csv, "parquet": _parquet, "jsonl": _json_lines}[kind]
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty; give rows with an arm and a number.")
    import pyarrow as pa

    try:
        if watch is None:
            read(into, path, arm, reward, lambda done: None)
            return
        with watch(path.name, size) as tick:
            read(into, path, arm, reward, lambda done: tick(min(done, size)))
    except (pa.ArrowException, csv.Error, OSError, LookupError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's own: no rights, and the like
            raise
        raise ValueError(
            f"{path.name} is damaged, or is not what its name says: it cannot be read as {kind} "
            f"({type(error).__name__}); write it again, or give another file."
        ) from None


def _csv(into: Collector, path: Path, arm: str, reward: str, tick: Tick) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    header, mark = _header(path)
    at = (pick(arm, header, path.name, "arm"), pick(reward, header, path.name, "reward"))
    names = [f"c{k}" for k in range(len(header))]
    wrong = array("q")  # lines with a wrong number of columns

    def keep(row: Any) -> str:
        wrong.append(row.number)
        said = f"{row.actual_columns} columns instead of {row.expected_columns}"
        into.bad(row.number, f"line {row.number}", "a wrong number of columns", f"{said}: {row.text}")
        return "skip"

    raw = pa.OSFile(str(path), "rb")
    picked = [names[at[0]], names[at[1]]]
    try:
        batches = pc.open_csv(
            raw,
            read_options=pc.ReadOptions(use_threads=False, column_names=names, skip_rows=1, block_size=_BLOCK),
            parse_options=pc.ParseOptions(
                delimiter=mark, invalid_row_handler=keep, ignore_empty_lines=False, newlines_in_values=True
            ),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(picked, pa.string()),
                include_columns=list(dict.fromkeys(picked)),
                strings_can_be_null=False,
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

            _texts(into, batch.column(picked[0]), batch.column(picked[1]), line)
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


def _header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and the mark between them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            first = handle.readline(_BLOCK)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
    if len(first) == _BLOCK:
        raise ValueError(f"the first line of {path.name} has more than {_BLOCK:,} letters; give a CSV with a header.")
    mark = max(",;\t|", key=first.count)
    header = next(csv.reader([first], delimiter=mark), [])
    return [name.strip() for name in header], mark


def _texts(into: Collector, arms: Any, rewards: Any, line: Callable[[int], int]) -> None:
    """A piece of a text file: both columns as strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arms, rewards = pc.utf8_trim_whitespace(arms), pc.utf8_trim_whitespace(rewards)
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
        _bad_texts(into, np.flatnonzero(~good), arms, rewards, numeric, named, line)
        keep = pa.array(good)
        arms, values = arms.filter(keep), values[good]
    coded = pc.dictionary_encode(arms)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    into.codes(coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist(), values)


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
    nan = np.isin(lower, ("nan", "na", "n/a", "null", "none"))
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


def _parquet(into: Collector, path: Path, arm: str, reward: str, tick: Tick) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file: {readable(str(error))[:300]}.") from None
    known = list(file.schema_arrow.names)
    picked = [known[pick(arm, known, path.name, "arm")], known[pick(reward, known, path.name, "reward")]]
    size, total, done = path.stat().st_size, max(file.metadata.num_rows, 1), 0
    for batch in file.iter_batches(batch_size=_ROWS, columns=picked):
        arms, rewards = batch.column(batch.schema.names.index(picked[0])), batch.column(picked[1])
        if pa.types.is_dictionary(arms.type):
            arms = arms.dictionary_decode()
        plain = pa.types.is_floating(rewards.type) or pa.types.is_integer(rewards.type)
        if plain and rewards.null_count == 0 and arms.null_count == 0:
            values = pc.cast(rewards, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            coded = pc.dictionary_encode(pc.utf8_trim_whitespace(pc.cast(arms, pa.string())))
            names = coded.dictionary.to_pylist()
            if np.isfinite(values).all() and "" not in names:
                into.rows += values.size
                into.codes(coded.indices.to_numpy(), names, values)
                done += batch.num_rows
                tick(size * done // total)
                continue
        take_rows(into, _objects(arms), _objects(rewards), "row", done)
        done += batch.num_rows
        tick(size * done // total)


def _objects(column: Any) -> NDArray[Any]:
    out = np.empty(len(column), dtype=object)
    out[:] = column.to_pylist()
    return out


def _json_lines(into: Collector, path: Path, arm: str, reward: str, tick: Tick) -> None:
    known: list[str] = []
    for first, lines, done in _blocks_of_lines(path):
        arms = np.empty(len(lines), dtype=object)
        rewards = np.empty(len(lines), dtype=object)
        broken: dict[int, str] = {}
        for k, text in enumerate(lines):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                broken[k] = text
                continue
            if not known:
                known = [str(name) for name in row]
                arm, reward = (known[pick(c, known, path.name, w)] for c, w in ((arm, "arm"), (reward, "reward")))
            arms[k], rewards[k] = row.get(arm), row.get(reward)
        for k, text in broken.items():
            into.bad(first + k, f"line {first + k}", "no JSON object", text.strip())
        into.empty -= len(broken)  # their cells are empty, but they are counted
        take_rows(into, arms, rewards, "line", first)
        tick(done)


def _blocks_of_lines(path: Path) -> Iterator[tuple[int, list[str], int]]:
    """(number of the first line, lines, bytes read so far)."""
    number = 1
    with path.open("rb") as handle:
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
