"""Run files and records of journals with edits and checksums that fit: refused, or a run that can be read."""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pmbandits as pmb
from pmbandits.simulation import files as runs
from pmbandits.simulation.journal import Journal, JournalWarning, decode_trials, encode_trials
from pmbandits.simulation.prepare import prepare_experiment
from tests.fuzz import Failed, sentence
from tests.fuzz.policy_files import COUNTS, OTHERS, STRANGE, pick

ARGUMENTS: dict[str, Any] = {
    "bandit": pmb.Bandit.bernoulli([0.4, 0.9]),
    "metric": "gini",
    "policies": ["cirt", "uniform"],
    "horizon": [50, 120],
    "trials": 3,
}


FIRST, LATER = pmb.Bandit.bernoulli([0.4, 0.9]), pmb.Bandit.bernoulli([0.9, 0.1])
WORLDS = (
    FIRST,
    pmb.Changing.steps([(0, FIRST), (30, LATER)], repeat=70),
    pmb.Changing.drift(FIRST, LATER, 20, 90, every=20),
    pmb.Changing.season(FIRST, LATER, 60, every=25),
)


@cache
def played(world: int) -> pmb.Run:
    """A short run, in a world that stands still or in one that changes."""
    return pmb.simulate(**{**ARGUMENTS, "bandit": WORLDS[world]}, n_jobs=1)


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One file or journal with a few edits."""
    return attack_journal(rng, folder) if rng.random() < 0.5 else attack_run(rng, folder)


# ---- runs ------------------------------------------------------------------------------------------------
def attack_run(rng: np.random.Generator, folder: Path) -> str:
    """A Parquet file whose columns, types or description were edited, with a digest that fits if there can be one."""
    run, path = played(int(rng.integers(len(WORLDS)))), folder / "run.parquet"
    provenance, columns = copy.deepcopy(run.provenance), run._table.to_pydict()
    schema = {field.name: field.type for field in run._table.schema}
    for _ in range(int(rng.integers(1, 4))):
        try:
            pick(rng, (edit_cell, edit_cell, edit_rows, edit_provenance, edit_provenance))(rng, columns, provenance)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            continue
    if rng.random() < 0.1:
        schema[pick(rng, schema)] = pick(
            rng, (pa.string(), pa.int32(), pa.float32(), pa.list_(pa.int64(), 3), pa.binary())
        )
    try:
        table = pa.table(columns, schema=pa.schema(list(schema.items())))
        text = json.dumps(provenance, sort_keys=True).encode()
        check = runs.table_checksum(table, text) if rng.random() < 0.95 else b"0" * 64
    except Exception:  # it cannot be written, or has no digest
        return "refused"
    pq.write_table(
        table.replace_schema_metadata({runs.PROVENANCE_KEY: text, runs.CHECKSUM_KEY: check}), path, compression="zstd"
    )
    if rng.random() < 0.1:  # and a few bytes of the file itself
        raw = bytearray(path.read_bytes())
        for at in rng.integers(len(raw), size=int(rng.integers(1, 5))):
            raw[at] = int(rng.integers(256))
        path.write_bytes(bytes(raw)[: int(rng.integers(1, len(raw) + 1))] if rng.random() < 0.2 else bytes(raw))
    try:
        loaded = pmb.Run.load(path)
    except Exception as error:
        sentence(error)
        return "refused"
    use(loaded)
    return "taken"


def edit_cell(rng: np.random.Generator, columns: dict[str, Any], provenance: dict[str, Any]) -> None:
    name = pick(rng, columns)
    column, at = columns[name], int(rng.integers(len(columns[name])))
    if isinstance(column[at], list):
        column[at] = list(column[at])
        column[at][int(rng.integers(len(column[at])))] = pick(rng, COUNTS if name != "mixture" else OTHERS)
    else:
        kinds = {"policy": ("x", "", "CIRT", None), "regret": OTHERS, "utility": OTHERS, "declared": OTHERS}
        column[at] = pick(rng, kinds.get(name, COUNTS))


def edit_rows(rng: np.random.Generator, columns: dict[str, Any], provenance: dict[str, Any]) -> None:
    at, kind = int(rng.integers(len(columns["t"]))), int(rng.integers(3))
    for column in columns.values():
        if kind == 0:
            del column[at]
        elif kind == 1:
            column.insert(at, column[at])
        else:
            column[0], column[at] = column[at], column[0]


def edit_provenance(rng: np.random.Generator, columns: dict[str, Any], provenance: dict[str, Any]) -> None:
    where: Any = provenance
    while True:
        key = pick(rng, where if isinstance(where, dict) else range(len(where)))
        if isinstance(where[key], (dict, list)) and where[key] and rng.random() < 0.8:
            where = where[key]
            continue
        if rng.random() < 0.2:
            del where[key]
        else:
            where[key] = pick(rng, (*COUNTS, *STRANGE, "\x1b[2J"))
        return


def use(run: pmb.Run) -> None:
    """Whatever a run can be asked."""
    text = str(run.summary()) + repr(run)
    if "\x1b" in text:
        raise Failed("control characters reach the terminal")
    for label in run.policies:
        for horizon in run.horizons(label):
            t, pulls = run.column("pulls", label, horizon)
            if (pulls < 0).any() or (pulls.sum(axis=2) != t).any():
                raise Failed("impossible pulls")
            run.phase_ends(label, run.trials[0], horizon)
            run.regret(label, horizon)
            if not run.is_stationary:
                run.column("declared", label, horizon)
    if list(run.changes) != sorted(set(run.changes)):
        raise Failed("changes out of order")
    run.to_arrow()
    for what in ("bandit", "metric"):
        try:
            getattr(run, what)
        except Exception as error:
            sentence(error)


# ---- journals --------------------------------------------------------------------------------------------
@cache
def records(folder: Path) -> tuple[bytes, list[bytes]]:
    """The first line and the records of the journal of that run."""
    at = folder / "whole"
    shutil.rmtree(at, ignore_errors=True)
    pmb.simulate(**ARGUMENTS, n_jobs=1, out=at)
    identity = prepare_experiment(**ARGUMENTS, seed=0, checkpoints=None).identity_hash
    with Journal(at, identity) as journal:
        return identity.encode(), list(journal.records())


def attack_journal(rng: np.random.Generator, folder: Path) -> str:
    """A journal one of whose records was edited, with a checksum that fits; the simulation goes on from it."""
    identity, found = records(folder)
    at, which = folder / "journal", int(rng.integers(len(found)))
    shutil.rmtree(at, ignore_errors=True)
    payloads = list(found)
    if rng.random() < 0.5:
        rows = decode_trials(payloads[which])
        name = pick(rng, [field.name for field in fields(rows)])
        if name == "entry":
            rows = replace(rows, entry=pick(rng, COUNTS))
        else:
            numbers = getattr(rows, name).copy()
            kind = rng.random()
            if numbers.size and (kind < 0.6 or numbers.ndim == 1):
                value = pick(rng, OTHERS if name in ("mixture", "seconds") else COUNTS)
                numbers.flat[int(rng.integers(numbers.size))] = value
            else:
                numbers = numbers[:, :-1] if kind < 0.8 else np.hstack((numbers, numbers[:, :1]))
            rows = replace(rows, **{name: numbers})
        payloads[which] = encode_trials(rows)
    else:
        raw = bytearray(payloads[which])
        for place in rng.integers(len(raw), size=int(rng.integers(1, 6))):
            raw[place] = int(pick(rng, (0, 1, 127, 128, 255, int(rng.integers(256)))))
        payloads[which] = bytes(raw) if rng.random() < 0.8 else bytes(raw)[: int(rng.integers(len(raw)))]
    with Journal(at, identity.decode()) as journal:
        for payload in payloads:
            journal.append(payload)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JournalWarning)
            run = pmb.simulate(**ARGUMENTS, n_jobs=1, out=at)
    except Exception as error:
        sentence(error)
        return "refused"
    use(run)
    return "taken"
