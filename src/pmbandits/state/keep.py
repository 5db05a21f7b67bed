"""Machine code on the disk: numba's cache, with a checksum in every file.

An entry that is cut off, damaged or of another make counts as missing: the kernel is compiled again, and the entry is
written anew. numba itself would fail at every start. Whoever can write to the folder can still run code here, because
entries are pickles; so ``compile.py`` uses only a folder that nobody else can write to.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

_MARK = b"pmbandits kernel 1\n"
_DIGEST = hashlib.sha256().digest_size


class Damaged(OSError):
    """A file that is not what was written."""


class _Files(IndexDataCacheFile):
    """The index and the entries of one kernel."""

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
        start = len(_MARK) + _DIGEST
        mark, digest, content = raw[: len(_MARK)], raw[len(_MARK) : start], raw[start:]
        if mark != _MARK or hashlib.sha256(content).digest() != digest:
            raise Damaged(path)
        try:
            return pickle.loads(content)
        except Exception:  # of another numba, or of none
            raise Damaged(path) from None

    def _write(self, path: str, thing: Any) -> None:
        content = self._dump(thing)
        with self._open_for_write(path) as file:
            file.write(_MARK + hashlib.sha256(content).digest() + content)


class KernelCache(FunctionCache):
    """The cache of one kernel."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        made = self._cache_file
        self._cache_file = _Files(self._cache_path, made._index_name.removesuffix(".nbi"), made._source_stamp)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super()._load_overload(sig, target_context)
        except Exception:  # machine code that cannot be used here
            return None
