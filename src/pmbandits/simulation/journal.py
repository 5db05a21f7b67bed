"""What is finished, on disk at once: an append-only file of checked records."""

from __future__ import annotations

import hashlib
import os
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

from pmbandits._files import sync_folder

MAGIC = b"pmbandits journal 1\n"
HEAD = struct.Struct("<Q32s")


class JournalWarning(UserWarning):
    """The warning that the end of a journal was damaged; what was in it is computed again."""


class Journal:
    """Finished work of one specification, in ``folder``; one process writes it at a time.

    Every record is a length, a SHA-256 and its bytes, flushed to the disk before :meth:`append` returns. When it is
    opened, what does not check out at the end (a write that was cut off) is cut away with a warning.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.path = folder / "journal.bin"
        self._first = MAGIC + identity.encode() + b"\n"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        folder, known = self.path.parent, self.path.exists()
        if not known and (folder / "run.parquet").exists():
            raise ValueError(f"{folder} holds a run.parquet that no journal belongs to; give another folder.")
        self._file = self.path.open("r+b" if known else "w+b")
        first = self._file.read(len(self._first))
        if first != self._first[: len(first)]:
            self._file.close()
            raise ValueError(
                f"{folder} holds a run of another specification; give another folder, or delete it. "
                "Nothing was overwritten."
            )
        if len(first) < len(self._first):  # new, or cut off before anything was finished
            self._file.seek(0)
            self._file.write(self._first)
            self._flush()
            sync_folder(folder)
        self._start = len(self._first)

    def records(self) -> Iterator[bytes]:
        """All records that check out, oldest first; cuts off a damaged end."""
        size = os.fstat(self._file.fileno()).st_size
        at = self._start
        while at < size:
            self._file.seek(at)
            head = self._file.read(HEAD.size)
            payload, digest = None, b""
            if len(head) == HEAD.size:
                length, digest = HEAD.unpack(head)
                if length <= size - at - HEAD.size:
                    payload = self._file.read(length)
            if payload is None or hashlib.sha256(payload).digest() != digest:
                self._file.truncate(at)
                self._flush()
                self._file.seek(0, os.SEEK_END)
                warnings.warn(
                    f"{self.path.name} is damaged after {at:,} of {size:,} bytes; the rest is cut off and made again.",
                    JournalWarning,
                    stacklevel=4,
                )
                break
            yield payload
            at += HEAD.size + len(payload)
        self._file.seek(0, os.SEEK_END)

    def append(self, payload: bytes) -> None:
        """Add a record; it is on the disk when this returns."""
        self._file.seek(0, os.SEEK_END)
        self._file.write(HEAD.pack(len(payload), hashlib.sha256(payload).digest()) + payload)
        self._flush()

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.close()


class _lock:
    """Only one process at a time; the system releases it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / ".lock").open("a")
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ValueError(
                f"another process is running in {folder}; wait for it, stop it, or give another folder."
            ) from None

    def close(self) -> None:
        self._file.close()


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("entry", pa.int64()),
            ("trial", pa.int64()),
            ("pulls", pa.list_(pa.int64())),
            ("mixture", pa.list_(pa.float64())),
            ("ends", pa.list_(pa.int64())),
            ("seconds", pa.float64()),
        ]
    )


def encode(rows: list[dict[str, Any]]) -> bytes:
    """Finished trials as a record."""
    import pyarrow as pa

    schema = _schema()
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(payload: bytes) -> list[dict[str, Any]]:
    """The finished trials of a record; a ValueError if it holds anything else."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(payload) as reader:
            if not reader.schema.equals(_schema()):
                raise ValueError("schema")
            table = reader.read_all()
        table.validate(full=True)
        if any(table[name].null_count for name in table.column_names):
            raise ValueError("empty cells")
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ValueError(f"a record of the journal cannot be read ({type(error).__name__}).") from None
    columns = [table[name].combine_chunks() for name in table.column_names]
    rows = []
    for j in range(table.num_rows):
        values = [c[j].values.to_numpy() if hasattr(c[j], "values") else c[j].as_py() for c in columns]
        rows.append(dict(zip(table.column_names, values, strict=True)))
    return rows
