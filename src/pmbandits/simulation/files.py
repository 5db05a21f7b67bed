"""Parquet files of runs: the same run always gives the same bytes, and a file is validated when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits import _validation
from pmbandits._extras import import_optional
from pmbandits.simulation.checks import check_provenance, check_sizes, check_table

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "pmbandits-run"
SCHEMA = 1
PROVENANCE_KEY = b"pmbandits"
CHECKSUM_KEY = b"pmbandits sha256"


def with_provenance(table: pa.Table, provenance: Mapping[str, Any]) -> pa.Table:
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
                wanted = run_schema(n_arms, is_stationary="moments" not in provenance["best"])
                if not content.schema_arrow.remove_metadata().equals(wanted):
                    raise ValueError("schema")
                check_sizes(content.metadata, n_arms, file.stat().st_size)
                table = content.read(use_threads=False).replace_schema_metadata(None).cast(wanted)
                check_table(table, provenance)
                if metadata[CHECKSUM_KEY] != table_checksum(table, text):
                    raise ValueError("checksum")
    except (
        pa.ArrowException,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        OSError,
        RecursionError,
    ) as error:
        raise ValueError(
            f"{file.name} is not a run file, or it is damaged ({type(error).__name__}); nothing was loaded."
        ) from None
    if provenance["schema"] > SCHEMA:
        library = _validation.readable(str(provenance.get("library")))[:40]
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
