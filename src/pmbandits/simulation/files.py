"""A run as a Parquet file: written the same every time, and checked when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits import _check
from pmbandits._extras import need
from pmbandits.simulation.checks import check_provenance, check_sizes, check_table

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "pmbandits-run"
SCHEMA = 2  # 1: nothing changes; 2: with moments, and a column more
KEY = b"pmbandits"
CHECK = b"pmbandits sha256"


def signed(table: pa.Table, provenance: Mapping[str, Any]) -> pa.Table:
    """The table, with what made it and a hash of both in its metadata."""
    text = json.dumps(provenance, ensure_ascii=False, sort_keys=True).encode()
    return table.replace_schema_metadata({KEY: text, CHECK: digest(table, text)})


def read(file: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the provenance of a run file; what cannot be a run is refused."""
    need("pyarrow", "files of runs")
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.is_file():
        raise FileNotFoundError(f"there is no run file {str(file)!r}.")
    try:
        with pq.ParquetFile(file) as content:
            metadata = content.schema_arrow.metadata or {}
            text = metadata[KEY]
            provenance = json.loads(text)
            if provenance["format"] != FORMAT or type(provenance["schema"]) is not int:
                raise ValueError("format")
            if provenance["schema"] <= SCHEMA:
                check_provenance(provenance)
                wanted = schema(len(provenance["spec"]["bandit"]["names"]), still=provenance["schema"] == 1)
                if not content.schema_arrow.remove_metadata().equals(wanted):
                    raise ValueError("schema")
                check_sizes(content.metadata, len(provenance["spec"]["bandit"]["names"]), file.stat().st_size)
                table = content.read(use_threads=False).replace_schema_metadata(None).cast(wanted)
                check_table(table, provenance)
                if metadata[CHECK] != digest(table, text):
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
        library = _check.readable(str(provenance.get("library")))[:40]
        raise ValueError(
            f"{file.name} was written by a newer pmbandits ({library}, "
            f"schema {provenance['schema']}); this one reads up to schema {SCHEMA}: upgrade pmbandits."
        )
    return table, provenance


def schema(n_arms: int, *, still: bool = True) -> pa.Schema:
    """The columns of a run; there is one more where things change."""
    import pyarrow as pa

    more = [] if still else [("declared", pa.float64())]
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


def digest(table: pa.Table, text: bytes) -> bytes:
    """A hash of all that a run holds, however it is laid out."""
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
