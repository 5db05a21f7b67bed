"""Parquet files of runs: the same run always gives the same bytes, and a file is validated when it is read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._extras import import_optional
from pmbandits._validation import FloatArray, escape_control_characters

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "pmbandits-run"
SCHEMA = 1
PROVENANCE_KEY = b"pmbandits"
CHECKSUM_KEY = b"pmbandits sha256"
MAX_BYTES = 1 << 30  # largest size of a run in memory, plus the next number times the size of its file
MAX_UNPACK_RATIO = 100
_SLACK = 1e-6


def table_with_provenance(table: pa.Table, provenance: Mapping[str, Any]) -> pa.Table:
    """Return the table with its provenance, and a checksum of both, in its metadata."""
    text = json.dumps(provenance, ensure_ascii=False, sort_keys=True).encode()
    return table.replace_schema_metadata({PROVENANCE_KEY: text, CHECKSUM_KEY: table_checksum(table, text)})


def read_run(file: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the provenance of a run file; what cannot be a run is refused."""
    import_optional("pyarrow", "files of runs")
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.is_file():
        raise FileNotFoundError(f"there is no run file {str(file)!r}.")
    try:
        with pq.ParquetFile(file) as content:
            metadata = content.schema_arrow.metadata or {}
            text = metadata[PROVENANCE_KEY]
            provenance = json.loads(text)
            if provenance["format"] != FORMAT or type(provenance["schema"]) is not int:
                raise ValueError("format")
            if provenance["schema"] <= SCHEMA:
                check_provenance(provenance)
                n_arms = len(provenance["spec"]["bandit"]["names"])
                wanted = run_schema(n_arms, is_stationary="periods" not in provenance["best"])
                if not content.schema_arrow.remove_metadata().equals(wanted):
                    raise ValueError("schema")
                check_sizes(content.metadata, n_arms, file.stat().st_size)
                table = content.read(use_threads=False).replace_schema_metadata(None).cast(wanted)
                check_table(table, provenance)
                if metadata[CHECKSUM_KEY] != table_checksum(table, text):
                    raise ValueError("checksum")
    except (pa.ArrowException, LookupError, ValueError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise ValueError(
            f"{file.name} is not a run file, or it is damaged ({type(error).__name__}); nothing was loaded."
        ) from None
    if provenance["schema"] > SCHEMA:
        library = escape_control_characters(str(provenance.get("library")))[:40]
        raise ValueError(
            f"{file.name} was written by a newer pmbandits ({library}, "
            f"schema {provenance['schema']}); this one reads up to schema {SCHEMA}: upgrade pmbandits."
        )
    return table, provenance


def run_schema(n_arms: int, *, is_stationary: bool = True) -> pa.Schema:
    """Return the Arrow schema of a run; a run with changing arms has one more column."""
    import pyarrow as pa

    more = [] if is_stationary else [("declared", pa.float64())]
    return pa.schema(
        [
            ("policy", pa.string()),
            ("horizon", pa.int64()),
            ("trial", pa.int64()),
            ("t", pa.int64()),
            ("regret", pa.float64()),
            ("utility", pa.float64()),
            ("pulls", pa.list_(pa.int64(), n_arms)),
            ("mixture", pa.list_(pa.float64(), n_arms)),
            ("phase_ends", pa.list_(pa.int64())),
            *more,
        ]
    )


def table_checksum(table: pa.Table, text: bytes) -> bytes:
    """Return the SHA-256 of a table and its provenance, whatever the memory layout."""
    import pyarrow.compute as pc

    hashed = hashlib.sha256(text)
    for name in table.column_names:
        column = table[name].combine_chunks()
        hashed.update(name.encode())
        if name == "phase_ends":
            hashed.update(pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64).tobytes())
        if name in ("pulls", "mixture", "phase_ends"):
            column = column.flatten()
        if name == "policy":
            hashed.update("\0".join(column.to_pylist()).encode())
        else:
            hashed.update(column.to_numpy(zero_copy_only=False).tobytes())
    return hashed.hexdigest().encode()


# ---- whether what a run file or a journal says can be the result of a simulation ------------------------------


def why_trial_is_impossible(t: NDArray[np.int64], pulls: NDArray[np.int64], mixture: FloatArray) -> str | None:
    """Return why pulls and mixtures at checkpoints cannot come from a trial; ``None`` if they can.

    They have a row for each checkpoint, and a column for each arm; or there are many such tables, one for each trial.
    """
    if pulls.min(initial=0) < 0 or (pulls > t[:, None]).any() or (pulls.sum(axis=-1) != t).any():
        return "the pulls do not add up to the number of rounds"
    if (np.diff(pulls, axis=-2) < 0).any():
        return "an arm has fewer pulls than before"
    if not (
        np.isfinite(mixture).all() and mixture.min(initial=0.0) >= -_SLACK and mixture.max(initial=0.0) <= 1 + _SLACK
    ):
        return "a mixture has shares that cannot be"
    return None


def check_provenance(provenance: Any) -> None:
    """Raise a ValueError if what a run file says of itself lacks what a Run reads."""
    spec, best = provenance["spec"], provenance["best"]
    policies = spec["policies"]
    texts = [provenance["library"], spec["metric_text"], *(p["label"] for p in policies), *spec["bandit"]["names"]]
    wholes = [spec["seed"], *spec["trials"], *(h for p in policies for h in p["horizons"])]
    numbers = [best["value"], *best["weights"], *best["arms"]]
    labels = [p["label"] for p in policies]
    if not all(isinstance(text, str) and escape_control_characters(text) == text for text in texts):
        raise ValueError("names")
    if len(set(labels)) != len(labels) or not labels:
        raise ValueError("labels")
    if not all(type(n) is int and 0 <= n < 2**63 for n in wholes) or not spec["trials"]:
        raise ValueError("whole numbers")
    if not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
        raise ValueError("numbers")
    if not len(best["weights"]) == len(best["arms"]) == len(spec["bandit"]["names"]) or not all(
        p["horizons"] for p in policies
    ):
        raise ValueError("arms")
    if any(list(part) != sorted(set(part)) for part in (spec["trials"], *(p["horizons"] for p in policies))):
        raise ValueError("order")
    if "periods" in best:
        check_periods(best["periods"], spec)
    if not isinstance(spec["metric"], dict) or not isinstance(spec["bandit"], dict):
        raise ValueError("tables")


def check_periods(periods: Any, spec: Any) -> None:
    """Raise a ValueError if what a run says about its periods is not possible."""
    starts = [period["start"] for period in periods]
    longest = max(h for p in spec["policies"] for h in p["horizons"])
    if not starts or starts[0] != 0 or any(type(n) is not int or not 0 <= n < longest for n in starts):
        raise ValueError("starts")
    if starts != sorted(set(starts)):
        raise ValueError("order")
    for period in periods:
        numbers = [period["value"], *period["weights"]]
        if not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
            raise ValueError("numbers")
        if len(period["weights"]) != len(spec["bandit"]["names"]):
            raise ValueError("arms")


def check_sizes(metadata: Any, n_arms: int, size: int) -> None:
    """Raise a ValueError if a Parquet file would take too much memory, before any of it is unpacked."""
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    rows = 8 * metadata.num_rows * (2 * n_arms + 8)
    if max(unpacked, rows) > MAX_BYTES + MAX_UNPACK_RATIO * size or metadata.num_rows != sum(
        g.num_rows for g in groups
    ):
        raise ValueError("size")


def check_table(table: pa.Table, provenance: Any) -> None:
    """Raise a ValueError if the rows of a run do not fit its policies, horizons, trials and checkpoints."""
    table.validate(full=True)
    spec = provenance["spec"]
    k, trials = len(spec["bandit"]["names"]), np.array(spec["trials"], dtype=np.int64)
    if any(table[name].null_count for name in table.column_names):
        raise ValueError("empty cells")
    t, horizon, trial = (table[name].to_numpy() for name in ("t", "horizon", "trial"))
    pulls = table["pulls"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, k)
    mixture = table["mixture"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, k)
    if pulls.shape[0] != t.size or mixture.shape[0] != t.size:
        raise ValueError("arms")
    numbers = [name for name in ("regret", "utility", "declared") if name in table.column_names]
    if not all(np.isfinite(table[name].to_numpy()).all() for name in numbers):
        raise ValueError("numbers")
    ends = table["phase_ends"].combine_chunks()
    lengths = np.diff(ends.offsets.to_numpy())
    if (ends.flatten().to_numpy(zero_copy_only=False) > np.repeat(t, lengths)).any():
        raise ValueError("phases")
    at, labels = 0, table["policy"].to_pylist()
    for policy in spec["policies"]:
        for rounds in policy["horizons"]:
            mine = (horizon[at:] == rounds) & np.array([label == policy["label"] for label in labels[at:]])
            count = int(np.argmin(np.append(mine, False)))
            if count == 0 or count % trials.size:
                raise ValueError("rows")
            here, each = slice(at, at + count), count // trials.size
            times = t[here].reshape(trials.size, each)
            if not np.array_equal(trial[here], np.repeat(trials, each)) or (times != times[0]).any():
                raise ValueError("rows")
            if times[0][0] < 1 or times[0][-1] != rounds or (np.diff(times[0]) <= 0).any():
                raise ValueError("checkpoints")
            if why_trial_is_impossible(times[0], pulls[here].reshape(-1, each, k), mixture[here]) is not None:
                raise ValueError("pulls")
            at += count
    if at != t.size:
        raise ValueError("rows")
