"""Machine code on the disk: numba's cache, with a checksum in every file.

The checksum covers the name of the file: a file that was copied over that of another kernel is not run. An entry that
is cut off, damaged or of another make counts as missing: the kernel is compiled again, and the entry is written anew.
numba itself would fail at every start. Whoever can write to the folder can still run code here, because
entries are pickles; so ``compile.py`` uses only a folder that nobody else can write to.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from pmbandits.state.compile import cache_folder

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

_MAGIC = b"pmbandits kernel 2\n"
_DIGEST = hashlib.sha256().digest_size


class CorruptCacheFile(OSError):
    """A file that is not what was written."""


class _ChecksummedFiles(IndexDataCacheFile):
    """The index and the entries of one kernel."""

    def save(self, key: Any, data: Any) -> None:
        """Write an entry and its line in the index.

        One process at a time: of two that read the same index, one would lose its entry, or one number would name the
        entries of both and a kernel would run the other's code.
        """
        with _hold_folder_lock(self._cache_path):
            super().save(key, data)

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, known = self._read(self._index_path)
        except (OSError, ValueError, TypeError):
            return {}
        fresh = version == self._version and stamp == self._source_stamp and isinstance(known, dict)
        return known if fresh else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        with open(path, "rb") as file:
            raw = file.read()
        start = len(_MAGIC) + _DIGEST
        mark, digest, content = raw[: len(_MAGIC)], raw[len(_MAGIC) : start], raw[start:]
        if mark != _MAGIC or _cache_file_checksum(path, content) != digest:
            raise CorruptCacheFile(path)
        try:
            return pickle.loads(content)
        except Exception:  # of another numba, or of none
            raise CorruptCacheFile(path) from None

    def _write(self, path: str, thing: Any) -> None:
        content = self._dump(thing)
        with self._open_for_write(path) as file:
            file.write(_MAGIC + _cache_file_checksum(path, content) + content)


@contextmanager
def _hold_folder_lock(folder: str) -> Iterator[None]:
    """Wait until nobody else holds this folder's lock, and hold it."""
    if fcntl is None:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _cache_file_checksum(path: str, content: bytes) -> bytes:
    """Checksum of a file's place in the cache and of its content; the cache as a whole may be moved."""
    return hashlib.sha256(os.path.relpath(path, cache_folder()).encode() + b"\0" + content).digest()


class KernelCache(FunctionCache):
    """The cache of one kernel."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        made = self._cache_file
        self._cache_file = _ChecksummedFiles(
            self._cache_path, made._index_name.removesuffix(".nbi"), made._source_stamp
        )

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super()._load_overload(sig, target_context)
        except Exception:  # machine code that cannot be used here
            return None
