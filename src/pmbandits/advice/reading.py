"""Logged rewards from a dict, a frame or a file; malformed rows are counted and shown, never silently dropped."""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.advice.summary import HalfArm, distinct

SHOWN = 10  # malformed rows that are shown
_ROWS = 1 << 18  # rows of a piece
_BLOCK = 1 << 20  # bytes of a piece of text
_LARGE = 1 << 25  # bytes of a file from which on a progress bar is shown
_KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_NOTHING = "no rewards"  # of an arm of a dict
_HELP = "give a CSV (.csv, .tsv, .txt), Parquet (.parquet, .pq) or JSON lines (.jsonl, .ndjson) file"


@dataclass(frozen=True)
class Malformed:
    """A row that could not be used: where it is, why, and what stands there."""

    where: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}{f' ({self.text})' if self.text else ''}"


@dataclass(frozen=True)
class ArmLog:
    """What a log says of one arm.

    Attributes
    ----------
    name, n : the arm and how many rewards it has.
    x, p : distinct rewards and their shares.
    error : how far any of the summed-up shares can be off, because rewards were summarised; 0 when exact.
    halves : the same of two random halves, ``(n, x, p, error)`` each.
    """

    name: str
    n: int
    x: FloatArray = field(repr=False)
    p: FloatArray = field(repr=False)
    error: float
    halves: tuple[tuple[int, FloatArray, FloatArray, float], ...] = field(repr=False)


@dataclass(frozen=True)
class Log:
    """Logged rewards by arm, with an account of every row.

    Attributes
    ----------
    arms : the arms, in the order of their first row.
    rows, used, empty : rows read, rows used, and rows with nothing in them.
    malformed : how many rows could not be used, by reason.
    examples : the first of them.
    source : what was read.
    """

    arms: tuple[ArmLog, ...]
    rows: int
    used: int
    empty: int
    malformed: dict[str, int]
    examples: tuple[Malformed, ...]
    source: str

    @property
    def n_malformed(self) -> int:
        """How many rows could not be used."""
        return sum(self.malformed.values())

    def account(self) -> str:
        """One sentence on the rows that were not used; empty if there are none."""
        rows = {reason: count for reason, count in self.malformed.items() if reason != _NOTHING}
        text = ""
        if rows:
            parts = ", ".join(f"{count:,} with {reason}" for reason, count in rows.items())
            text = f"{sum(rows.values()):,} of {self.rows:,} rows could not be used: {parts}."
        if _NOTHING in self.malformed:
            arms = self.malformed[_NOTHING]
            text += f"{' ' if text else ''}{arms:,} arm{'s have' if arms > 1 else ' has'} no rewards."
        if self.empty:
            text += f"{' ' if text else ''}{self.empty:,} empty rows were skipped."
        return text


class _Reader:
    """Sorts rewards into arms and halves, and keeps the account of the rows."""

    def __init__(self, seed: int, loss: bool) -> None:
        self.sign = -1.0 if loss else 1.0
        self.seed = np.uint64(seed)
        self.places: dict[str, int] = {}
        self.halves: list[tuple[HalfArm, HalfArm]] = []
        self.rows = self.used = self.empty = 0
        self.malformed: dict[str, int] = {}
        self.examples: list[tuple[int, Malformed]] = []

    def place(self, name: str) -> int:
        at = self.places.setdefault(name, len(self.halves))
        if at == len(self.halves):
            self.halves.append((HalfArm(), HalfArm()))
        return at

    def bad(self, order: int, where: str, reason: str, text: str, count: int = 1) -> None:
        self.malformed[reason] = self.malformed.get(reason, 0) + count
        if len(self.examples) < SHOWN or order < self.examples[-1][0]:
            text = text if len(text) <= 40 else text[:39] + "…"
            self.examples.append((order, Malformed(where, reason, text)))
            self.examples.sort(key=lambda pair: pair[0])
            del self.examples[SHOWN:]

    def wants_examples(self, order: int) -> bool:
        return len(self.examples) < SHOWN or order < self.examples[-1][0]

    def arm(self, at: int, values: FloatArray) -> None:
        """Rewards of one arm: of each two in a row, one goes to each half, by chance."""
        pair = self.halves[at]
        first = pair[0].n + pair[1].n
        k = np.arange(first, first + values.size, dtype=np.uint64)
        side = (_mix((k >> np.uint64(1)) + _mix(np.uint64(at) + (self.seed << np.uint64(20)))) ^ k) & np.uint64(1)
        left = side == 0
        values = self.sign * values
        pair[0].extend(values[left])
        pair[1].extend(values[~left])
        self.used += values.size

    def codes(self, codes: NDArray[Any], names: list[str], values: FloatArray) -> None:
        """Rewards of several arms, given by codes into names."""
        if values.size == 0:
            return
        order = np.argsort(codes, kind="stable")
        codes, values = codes[order], values[order]
        cuts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
        firsts = np.minimum.reduceat(order, cuts)
        for k in np.argsort(firsts, kind="stable"):  # arms are numbered in the order of their first row
            start = cuts[k]
            stop = cuts[k + 1] if k + 1 < cuts.size else codes.size
            self.arm(self.place(names[int(codes[start])]), values[start:stop])

    def log(self, source: str) -> Log:
        if self.used == 0:
            why = (
                f"; {self.n_malformed()} rows are malformed, the first: {self.examples[0][1]}" if self.examples else ""
            )
            raise ValueError(f"{source} holds no usable rewards{why}; give rows with an arm and a number.")
        arms = []
        for name, at in self.places.items():
            parts = [half.result() for half in self.halves[at]]
            counts = [half.n for half in self.halves[at]]
            n = sum(counts)
            x, mass = distinct(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))
            error = sum(c * p[2] for c, p in zip(counts, parts, strict=True)) / n
            halves = tuple((c, p[0], p[1] / max(p[1].sum(), 1.0), p[2]) for c, p in zip(counts, parts, strict=True))
            arms.append(ArmLog(name, n, x, mass / mass.sum(), error, halves))
        shown = tuple(example for _, example in self.examples)
        return Log(tuple(arms), self.rows, self.used, self.empty, dict(self.malformed), shown, source)

    def n_malformed(self) -> int:
        return sum(self.malformed.values())


def _mix(z: Any) -> Any:
    """splitmix64's finaliser: a number that looks random from one that does not."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def read(
    data: Any,
    *,
    arm: str = "arm",
    reward: str = "reward",
    strict: bool = False,
    loss: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Log:
    """Logged rewards from a dict of arms, a frame, or a file; see :func:`pmbandits.advise`."""
    reader = _Reader(seed, loss)
    if isinstance(data, (str, Path)):
        source = Path(data).name
        _file(reader, Path(data), arm, reward, progress)
    elif isinstance(data, Mapping):
        source = "the data"
        _mapping(reader, data)
    elif _columns(data) is not None:
        source = "the frame"
        _frame(reader, data, arm, reward)
    else:
        raise TypeError(
            "data must be a dict of rewards by arm, a frame with an arm and a reward column, or the path of a file, "
            f"got {type(data).__name__}."
        )
    log = reader.log(source)
    if strict and log.malformed:
        shown = "; ".join(map(str, log.examples))
        raise ValueError(f"{source} has malformed rows: {log.account()} The first: {shown}. Repair or remove them.")
    return log


# ---- in memory -------------------------------------------------------------------------------------------
def _mapping(reader: _Reader, data: Mapping[Any, Any]) -> None:
    if not data:
        raise ValueError("the data hold no arms; give a dict such as {'a': [0, 1, 1], 'b': [2, 0, 5]}.")
    row = 0
    for name, rewards in data.items():
        if isinstance(rewards, (str, bytes)) or np.ndim(rewards) != 1:
            raise TypeError(
                f"the rewards of arm {str(name)!r} must be a list of numbers, got {_check._short(rewards)}."
            )
        values, reasons = _convert(rewards)
        for at, reason in reasons.items():
            reader.bad(row + at, f"arm {name}, position {at}", reason, _text(rewards, at))
        good = np.isfinite(values)
        reader.rows += values.size
        row += values.size
        if good.any():
            reader.arm(reader.place(str(name)), values[good])
        elif not reasons:
            reader.bad(row, f"arm {name}", _NOTHING, "")


def _columns(data: Any) -> list[str] | None:
    names = getattr(data, "column_names", None)
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or not hasattr(data, "__getitem__"):
        return None
    return [str(name) for name in names]


def _frame(reader: _Reader, data: Any, arm: str, reward: str) -> None:
    known = _columns(data) or []
    _pick(arm, known, "the frame", "arm")
    _pick(reward, known, "the frame", "reward")
    arms, rewards = np.asarray(data[_exact(data, arm)]), np.asarray(data[_exact(data, reward)])
    _rows(reader, arms, rewards, "row", 0)


def _exact(data: Any, name: str) -> Any:
    names = getattr(data, "column_names", None)
    names = list(getattr(data, "columns", ())) if names is None else list(names)
    return names[_pick(name, [str(n) for n in names], "the frame", "column")]


def _rows(reader: _Reader, arms: Any, rewards: Any, word: str, first: int) -> None:
    """Rows of an in-memory table or of a piece of one; ``first`` is the number of its first row."""
    values, reasons = _convert(rewards)
    names, codes = _codes(arms)
    for k in np.flatnonzero(codes < 0).tolist():
        if _is_missing(rewards[k]):
            reader.empty += 1
            reasons.pop(k, None)
        else:
            reasons[k] = "no arm"
        values[k] = np.nan
    reader.rows += len(arms)
    for at, reason in sorted(reasons.items()):
        reader.bad(first + at, f"{word} {first + at}", reason, f"{arms[at]}, {rewards[at]}")
    good = np.isfinite(values)
    reader.codes(codes[good], names, values[good])


def _codes(arms: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the arms, and each row's place among them; -1 where there is no name."""
    import pyarrow as pa

    try:
        coded = pa.array(arms, from_pandas=True).dictionary_encode()
        found, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):  # of several types
        found = list(dict.fromkeys(arms.tolist()))
        at = {name: k for k, name in enumerate(found)}
        codes = np.array([at[name] for name in arms.tolist()], dtype=np.int64)
    names: dict[str, int] = {}
    place = np.full(len(found) + 1, -1, dtype=np.int64)
    for k, name in enumerate(found):
        label = "" if name is None or name != name else str(name).strip()
        if label:
            place[k] = names.setdefault(label, len(names))
    return list(names), place[codes]


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _convert(values: Any) -> tuple[FloatArray, dict[int, str]]:
    """As numbers, with NaN where that fails; and why it failed, by position."""
    raw = np.asarray(values)
    reasons: dict[int, str] = {}
    if raw.dtype.kind in "biuf":
        out = raw.astype(np.float64)
    else:
        if raw.dtype != object:
            raw = np.asarray(values, dtype=object)
        out = np.full(raw.size, np.nan)
        for k, value in enumerate(raw.tolist()):
            if _is_missing(value):
                continue
            try:
                out[k] = float(value)
            except (TypeError, ValueError):
                reasons[k] = "a reward that is not a number"
    for k in np.flatnonzero(~np.isfinite(out)).tolist():
        if k not in reasons:
            reasons[k] = "no reward" if _is_missing(raw[k]) else "an infinite reward"
    out[~np.isfinite(out)] = np.nan
    return out, reasons


def _text(values: Any, at: int) -> str:
    return str(np.asarray(values, dtype=object)[at])


# ---- files -----------------------------------------------------------------------------------------------
def _file(reader: _Reader, path: Path, arm: str, reward: str, progress: bool | None) -> None:
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path.name!r} has an extension that is not known ({path.suffix or 'none'}); {_HELP}.")
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}; {_HELP} with an arm and a reward column.")
    read_file = {"csv": _csv, "parquet": _parquet, "jsonl": _json_lines}[kind]
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty; give rows with an arm and a number.")
    if progress is False or (progress is None and size < _LARGE):
        read_file(reader, path, arm, reward, lambda done: None)
        return
    from pmbandits.simulation.progress import Bar

    with Bar(size, shown=progress, label=f"read {path.name}", unit="bytes") as bar:
        read_file(reader, path, arm, reward, lambda done: bar.advance(min(done, size) - bar.done))


_Tick = Callable[[int], None]


def _pick(name: str, known: list[str], source: str, what: str) -> int:
    """Where a column is: by its name, else by its name in any case; or a sentence with what there is."""
    if name in known:
        return known.index(name)
    plain = [k.strip().lower() for k in known]
    if plain.count(name.strip().lower()) == 1:
        return plain.index(name.strip().lower())
    import difflib

    near = difflib.get_close_matches(name.lower(), plain, n=1, cutoff=0.4)
    hint = f" Did you mean {known[plain.index(near[0])]!r}?" if near else ""
    listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "") or "none"
    raise ValueError(f"{source} has no column {name!r} for the {what}; it has: {listed}.{hint}")


def _csv(reader: _Reader, path: Path, arm: str, reward: str, tick: _Tick) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    header, mark = _header(path)
    at = (_pick(arm, header, path.name, "arm"), _pick(reward, header, path.name, "reward"))
    names = [f"c{k}" for k in range(len(header))]
    wrong = array("q")  # lines with a wrong number of columns

    def keep(row: Any) -> str:
        wrong.append(row.number)
        said = f"{row.actual_columns} columns instead of {row.expected_columns}"
        reader.bad(row.number, f"line {row.number}", "a wrong number of columns", f"{said}: {row.text}")
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

            _texts(reader, batch.column(picked[0]), batch.column(picked[1]), line)
            done += batch.num_rows
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error) or "UTF-8" in str(error):
            raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
        if "Empty CSV" not in str(error):
            raise ValueError(f"cannot read {path.name}: {error}.") from None
    reader.rows += len(wrong)


def _header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and the mark between them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            first = handle.readline()
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8; save it as CSV UTF-8.") from None
    mark = max(",;\t|", key=first.count)
    header = next(csv.reader([first], delimiter=mark), [])
    return [name.strip() for name in header], mark


def _texts(reader: _Reader, arms: Any, rewards: Any, line: Callable[[int], int]) -> None:
    """A piece of a text file: both columns as strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arms, rewards = pc.utf8_trim_whitespace(arms), pc.utf8_trim_whitespace(rewards)
    reader.rows += len(arms)
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
        _account(reader, np.flatnonzero(~good), arms, rewards, numeric, named, line)
        keep = pa.array(good)
        arms, values = arms.filter(keep), values[good]
    coded = pc.dictionary_encode(arms)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    reader.codes(coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist(), values)


_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def _account(
    reader: _Reader, bad: NDArray[Any], arms: Any, rewards: Any, numeric: Any, named: Any, line: Callable[[int], int]
) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    blank = pc.equal(rewards, "").take(pa.array(bad)).to_numpy(zero_copy_only=False)
    empty = blank & ~named[bad]
    reader.empty += int(empty.sum())
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
        reader.malformed[reason] = reader.malformed.get(reason, 0) + int(mine.size)
        for k in mine[:SHOWN].tolist():
            number = line(k)
            if not reader.wants_examples(number):
                break
            reader.bad(number, f"line {number}", reason, f"{arms[k]}, {rewards[k]}", count=0)


def _parquet(reader: _Reader, path: Path, arm: str, reward: str, tick: _Tick) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name} is not a Parquet file: {error}.") from None
    known = list(file.schema_arrow.names)
    picked = [known[_pick(arm, known, path.name, "arm")], known[_pick(reward, known, path.name, "reward")]]
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
                reader.rows += values.size
                reader.codes(coded.indices.to_numpy(), names, values)
                done += batch.num_rows
                tick(size * done // total)
                continue
        _rows(reader, _objects(arms), _objects(rewards), "row", done)
        done += batch.num_rows
        tick(size * done // total)


def _objects(column: Any) -> NDArray[Any]:
    out = np.empty(len(column), dtype=object)
    out[:] = column.to_pylist()
    return out


def _json_lines(reader: _Reader, path: Path, arm: str, reward: str, tick: _Tick) -> None:
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
            except ValueError:
                row = None
            if not isinstance(row, dict):
                broken[k] = text
                continue
            if not known:
                known = [str(name) for name in row]
                arm, reward = (known[_pick(c, known, path.name, w)] for c, w in ((arm, "arm"), (reward, "reward")))
            arms[k], rewards[k] = row.get(arm), row.get(reward)
        for k, text in broken.items():
            reader.bad(first + k, f"line {first + k}", "no JSON object", text.strip())
        reader.empty -= len(broken)  # their cells are empty, but they are counted
        _rows(reader, arms, rewards, "line", first)
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
