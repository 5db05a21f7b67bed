"""Journal of finished trials: an append-only file of checksummed records, flushed to disk at once."""

from __future__ import annotations

import hashlib
import os
import struct
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from pmbandits._files import fsync_folder
from pmbandits._validation import FloatArray

MAGIC = b"pmbandits journal 2\n"
_RECORD_HEADER = struct.Struct("<Q32s")


class JournalWarning(UserWarning):
    """The warning that the end of a journal was damaged; what was in it is computed again."""


class OtherSpecification(ValueError):
    """A folder has a journal of another specification."""


class Journal:
    """Finished work of one specification, in ``folder``; one process writes it at a time.

    Every record is a length, a SHA-256 and its bytes, flushed to the disk before :meth:`append` returns. When it is
    opened, what does not check out at the end (a write that was cut off) is cut away with a warning.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.path = folder / "journal.bin"
        self._file_header = MAGIC + identity.encode() + b"\n"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock_folder(folder)
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
        first = self._file.read(len(self._file_header))
        if first != self._file_header[: len(first)]:
            if not first.startswith(MAGIC) or self._file.read(1):
                self._file.close()
                raise OtherSpecification(
                    f"{folder} holds a run of another specification; give another folder, or delete it. "
                    "Nothing was overwritten."
                )
            first = b""  # nothing was finished, so nothing is lost
        if len(first) < len(self._file_header):  # new, or cut off before anything was finished
            self._file.seek(0)
            self._file.write(self._file_header)
            self._flush_to_disk()
            fsync_folder(folder)

    def records(self) -> Iterator[bytes]:
        """All records that check out, oldest first; cuts off a damaged end."""
        size = os.fstat(self._file.fileno()).st_size
        at = len(self._file_header)
        for payload, end in read_journal_records(self._file, at, size):
            yield payload
            at = end
        if at < size:
            self._file.truncate(at)
            self._flush_to_disk()
            warnings.warn(
                f"{self.path.name} is damaged after {at:,} of {size:,} bytes; the rest is cut off and made again.",
                JournalWarning,
                stacklevel=5,  # the caller of simulate
            )

    def append(self, payload: bytes) -> None:
        """Add a record; it is on the disk when this returns."""
        self._file.seek(0, os.SEEK_END)
        self._file.write(_RECORD_HEADER.pack(len(payload), hashlib.sha256(payload).digest()) + payload)
        self._flush_to_disk()

    def _flush_to_disk(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._lock.close()


def read_journal_records(file: BinaryIO, at: int, size: int) -> Iterator[tuple[bytes, int]]:
    """The records of a journal of ``size`` bytes from byte ``at`` on, up to the first that is not whole.

    Each comes with the byte after it.
    """
    while at < size:
        file.seek(at)
        head = file.read(_RECORD_HEADER.size)
        length, digest = _RECORD_HEADER.unpack(head) if len(head) == _RECORD_HEADER.size else (size, b"")
        at += _RECORD_HEADER.size + length
        if at > size:
            return
        payload = file.read(length)
        if hashlib.sha256(payload).digest() != digest:
            return
        yield payload, at


def _lock_folder(folder: Path) -> TextIO:
    """Admit one process to a folder, until the file that is returned is closed or the process ends."""
    file = (folder / ".lock").open("a")
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(
            f"another process is running in {folder}; wait for it, stop it, or give another folder."
        ) from None
    return file


_HEAD = struct.Struct("<qqqqq")  # entry, how many trials, and how many numbers each has of pulls, mixture and ends
_INT, _FLOAT = np.dtype("<i8"), np.dtype("<f8")
_COLUMNS = (("trials", _INT), ("seconds", _FLOAT), ("pulls", _INT), ("mixture", _FLOAT), ("ends", _INT))


@dataclass(frozen=True, eq=False)
class FinishedTrials:
    """Finished trials of one policy at one horizon, as they are journalled: one row for each trial.

    entry : the number of the policy at its horizon.
    trials, seconds : the numbers of the trials, and the computing time of each.
    pulls, mixture : by checkpoint and arm, flat; the pulls at the ends of periods follow those at checkpoints.
    ends : the rounds after which phases ended, and 0 for each phase that a trial has fewer than another.
    """

    entry: int
    trials: NDArray[np.int64]
    seconds: FloatArray
    pulls: NDArray[np.int64]
    mixture: FloatArray
    ends: NDArray[np.int64]

    @property
    def size(self) -> int:
        """How many trials there are."""
        return self.trials.size

    def rows(self, which: Any) -> FinishedTrials:
        """Some of the trials: a mask, or positions."""
        return FinishedTrials(self.entry, *(getattr(self, name)[which] for name, _ in _COLUMNS))


def join_trials(parts: Sequence[FinishedTrials]) -> FinishedTrials:
    """Finished trials of the same policy, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    wide = max(part.ends.shape[1] for part in parts)
    if any(part.ends.shape[1] < wide for part in parts):
        parts = [replace(part, ends=np.pad(part.ends, ((0, 0), (0, wide - part.ends.shape[1])))) for part in parts]
    joined: Any = [np.concatenate([getattr(part, name) for part in parts]) for name, _ in _COLUMNS]
    return FinishedTrials(parts[0].entry, *joined)


def encode_trials(finished: FinishedTrials) -> bytes:
    """Encode finished trials as the bytes of one journal record: a head, and plain arrays."""
    arrays = [np.ascontiguousarray(getattr(finished, name), dtype=kind) for name, kind in _COLUMNS]
    head = _HEAD.pack(finished.entry, finished.size, *(array.shape[1] for array in arrays[2:]))
    return b"".join([head, *(array.tobytes() for array in arrays)])


def decode_trials(payload: bytes) -> FinishedTrials:
    """Decode the finished trials of a journal record; raise a ValueError if it holds anything else.

    Nothing is compressed, so what is read is never larger than the record.
    """
    try:
        entry, count, *widths = _HEAD.unpack_from(payload)
        if min(count, *widths) < 0 or _HEAD.size + 8 * count * (2 + sum(widths)) != len(payload):
            raise ValueError("size")
        arrays: list[Any] = []
        at = _HEAD.size
        for (_, kind), width in zip(_COLUMNS, (None, None, *widths), strict=True):
            numbers = count * (1 if width is None else width)
            array = np.frombuffer(payload, kind, numbers, at)
            arrays.append(array if width is None else array.reshape(count, width))
            at += 8 * numbers
    except (ValueError, struct.error) as error:
        raise ValueError(f"a record of the journal cannot be read ({type(error).__name__}).") from None
    return FinishedTrials(entry, *arrays)
