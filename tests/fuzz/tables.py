"""Files of logged rewards, and specifications of simulations, as strangers might write them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pmbandits as pmb
from pmbandits.logs import read_log
from pmbandits.simulation.spec import EXAMPLE, read_spec
from tests.fuzz import Failed, sentence
from tests.fuzz.policy_files import pick

CELLS: tuple[Any, ...] = (
    "a",
    "b",
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1",
    "0.5",
    "x\x1b[2J",
    "\u202eabc",
    "\x00",
    '"',
    "'",
    ",",
    ";",
    "\n",
    "\r",
    "é" * 9,
    "a" * 3000,
    10**400,
    -1,
    0,
    1,
    2.5,
    None,
    True,
    [1, 2],
    {"a": 1},
    [[[]]],
    float("nan"),
    float("inf"),
    b"bytes",
    10**5000,
)
TYPES: tuple[Any, ...] = (
    pa.string(),
    pa.int64(),
    pa.float64(),
    pa.binary(),
    pa.list_(pa.int64()),
    pa.bool_(),
    pa.timestamp("s"),
    pa.date32(),
    pa.struct([("a", pa.int64())]),
    pa.dictionary(pa.int32(), pa.string()),
    pa.decimal128(20, 3),
    pa.large_string(),
    pa.float16(),
    pa.uint64(),
    pa.null(),
    pa.duration("s"),
    pa.map_(pa.string(), pa.int64()),
)


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One file."""
    kind = pick(rng, (csv_file, json_file, json_file, parquet_file, parquet_file, toml_file, toml_file, bytes_file))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(rng, folder)


def try_to_read(path: Path, **options: Any) -> str:
    """Refused with a sentence, or read into arms with finite rewards."""
    try:
        log = read_log(path, **options)
    except Exception as error:
        sentence(error)
        return "refused"
    shown = " ".join([log.unused_rows_sentence(), *(arm.name for arm in log.arms), *map(str, log.examples)])
    if any((ord(letter) < 32 and letter not in "\n\t") or letter in "\x7f\x9b\u202e" for letter in shown):
        raise Failed(f"control characters in {shown!r}")
    if sum(arm.n for arm in log.arms) != log.used or log.used + log.n_malformed + log.empty < log.used:
        raise Failed("rows are not counted")
    return "taken"


def rows(rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Arms and rewards, most of them good."""
    out: list[tuple[Any, Any]] = []
    for _ in range(int(rng.integers(1, 30))):
        good = rng.random() < 0.8
        out.append((f"arm {rng.integers(3)}" if good else pick(rng, CELLS), float(rng.random())))
        if rng.random() < 0.2:
            out[-1] = (out[-1][0], pick(rng, CELLS))
    return out


def csv_file(rng: np.random.Generator, folder: Path) -> str:
    path = folder / pick(rng, ("t.csv", "t.tsv", "t.txt"))
    mark = pick(rng, (",", ";", "\t", "|"))
    lines = [mark.join(pick(rng, (("arm", "reward"), ("arm", "reward", "x"), ("reward",), ("ARM ", "Reward"))))]
    for arm, reward in rows(rng):
        cells = [str(cell) if not isinstance(cell, int) or abs(cell) < 10**9 else "9" * 400 for cell in (arm, reward)]
        lines.append(mark.join(cells[: int(rng.integers(1, 4))]))
    text = "\n".join(lines)
    if rng.random() < 0.02:
        text += f'\na{mark}"' + "x" * (1 << 20) + f'"\nb{mark}1'
    path.write_bytes(text.encode("utf-8" if rng.random() < 0.9 else "utf-16", "surrogatepass"))
    return try_to_read(path)


def json_file(rng: np.random.Generator, folder: Path) -> str:
    path, lines = folder / "t.jsonl", []
    for arm, reward in rows(rng):
        try:
            lines.append(json.dumps({"arm": arm, "reward": reward}))
        except (TypeError, ValueError):
            lines.append('{"arm": "a", "reward": ' + "9" * 5000 + "}")
        if rng.random() < 0.1:
            lines.append(
                pick(rng, ("[" * 100_000, '{"arm":' * 5000, "null", "3", "{", '"', "{}", '{"arm": 1e999, "reward": 1}'))
            )
    path.write_text("\n".join(lines), encoding="utf-8")
    return try_to_read(path)


def parquet_file(rng: np.random.Generator, folder: Path) -> str:
    path, found = folder / "t.parquet", rows(rng)
    kinds = [pa.string(), pa.float64()]
    if rng.random() < 0.6:
        kinds[int(rng.integers(2))] = pick(rng, TYPES)
    columns = []
    for kind, cells in zip(kinds, zip(*found, strict=True), strict=True):
        out = []
        for cell in cells:
            try:
                out.append(pa.scalar(cell, kind).as_py())
            except Exception:
                out.append(None)
        columns.append(pa.array(out, kind))
    names = pick(rng, (["arm", "reward"], ["arm", "reward"], ["reward", "arm"], ["arm", "arm"], ["x", "y"]))
    try:
        pq.write_table(
            pa.Table.from_arrays(columns, names=names), path, compression=pick(rng, ("zstd", "snappy", "none"))
        )
    except Exception:
        return "refused"
    if rng.random() < 0.5:
        damage(rng, path)
    return try_to_read(path)


def damage(rng: np.random.Generator, path: Path) -> None:
    """A few other bytes, or an end that is cut off."""
    raw = bytearray(path.read_bytes())
    for at in rng.integers(len(raw), size=int(rng.integers(1, 8))):
        raw[at] = int(rng.integers(256))
    path.write_bytes(bytes(raw)[: int(rng.integers(1, len(raw) + 1))] if rng.random() < 0.3 else bytes(raw))


def bytes_file(rng: np.random.Generator, folder: Path) -> str:
    path = folder / pick(rng, ("r.csv", "r.jsonl", "r.parquet", "r.pq", "r.txt", "r.pmb", "r.run", "r.toml"))
    path.write_bytes(rng.bytes(int(rng.integers(0, 400))) if rng.random() < 0.5 else b"PAR1" + rng.bytes(50) + b"PAR1")
    if path.suffix in (".pmb", ".run", ".toml"):
        reader: Any = {".pmb": pmb.load, ".run": pmb.Run.load, ".toml": read_spec}[path.suffix]
        try:
            reader(path)
        except Exception as error:
            sentence(error)
            return "refused"
        raise Failed("random bytes were taken")
    return try_to_read(path)


VALUES = (
    "1",
    "0",
    "-1",
    '"x"',
    "[]",
    "{}",
    "true",
    "nan",
    "inf",
    "1e999",
    "2024-01-01",
    "[[1]]",
    '[[5, "pause", "arm 0"]]',
    "{bernoulli = [0.9, 0.1]}",
    '"poisson(3)"',
    '["a", 1]',
    "9" * 4400,
    "9" * 30,
    '"\\u001b[2J"',
    '"gini"',
    "[" * 3000,
    "0.5",
    "{a = {b = 1}}",
    '"upper_cvar(0.9"',
    '"0.7*"',
)


KEYS = (
    "x", "support", "names", "epsilon", '""', '"1"', "a.b", "label", "delay", "batch", "schedule", "world.steps",
    "world.period", "world.every", "world.season", "world.drift",
)  # fmt: skip
WORLD = """
[world]
period = 100
every = 10
season = {bernoulli = [0.9, 0.1]}
"""


def toml_file(rng: np.random.Generator, folder: Path) -> str:
    path, lines = folder / "spec.toml", (EXAMPLE + (WORLD if rng.random() < 0.5 else "")).splitlines()
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(lines))), int(rng.integers(6))
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[int(rng.integers(len(lines)))])
        elif kind == 2 and "=" in lines[at]:
            lines[at] = f"{lines[at].split('=')[0]}= {pick(rng, VALUES)}"
        elif kind == 3:
            lines.insert(
                at,
                f"{pick(rng, KEYS)} = {pick(rng, VALUES)}",
            )
        elif kind == 4:
            lines.insert(at, pick(rng, ("[bandit.support]", "[[policies]]", "[x]", "[[bandit]]", "[policies]", '[""]')))
        elif lines[at]:
            place = int(rng.integers(len(lines[at])))
            lines[at] = (
                lines[at][:place] + pick(rng, ('"', "[", "]", "=", "\\", "\x00", "é", "#", ".")) + lines[at][place:]
            )
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        found = read_spec(path)
    except Exception as error:
        sentence(error)
        return "refused"
    try:
        from pmbandits.simulation.prepare import prepare_experiment

        if len(found["policies"]) < 8 and max(found["horizon"]) < 10**6 and found["trials"] < 10**5:
            prepare_experiment(**found)
    except Exception as error:
        sentence(error)
        return "refused"
    return "taken"
