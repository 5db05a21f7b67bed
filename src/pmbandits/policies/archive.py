"""A zip of one JSON text and plain arrays, opened as if a stranger had made it.

Sizes are known before anything is unpacked: a part is read only if it says that it has the size that the reader wants,
and no more of it is unpacked than that. No array can hold anything but whole or floating point numbers of 64 bits.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

_MOST_PARTS = 256
_LONGEST_TEXT = 1 << 26
_LONGEST_HEADER = 4096
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '(<[if]8)', 'fortran_order': False, 'shape': \(([0-9, ]{0,99})\), \} *\n")
_TYPES = {b"<i8": np.dtype(np.int64), b"<f8": np.dtype(np.float64)}
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    struct.error,
)


class Damaged(ValueError):
    """The file is not what was written; the message says in a few words why."""


class Archive:
    """The parts of a file, by name and without being unpacked."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._parts = {part.filename: part for part in self._zip.infolist()}
            if len(self._parts) != len(self._zip.infolist()) or len(self._parts) > _MOST_PARTS:
                raise Damaged("too many parts")
            if any(
                part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for part in self._parts.values()
            ):
                raise Damaged("packed in another way")
        except BaseException as error:
            self._file.close()
            if isinstance(error, _BROKEN):
                raise error if isinstance(error, Damaged) else Damaged("not a zip file") from None
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def arrays(self) -> dict[str, int]:
        """The arrays by name, with the size in bytes that each says it has."""
        return {n.removesuffix(".npy"): part.file_size for n, part in self._parts.items() if n.endswith(".npy")}

    @property
    def others(self) -> set[str]:
        """The names of all parts that are no arrays."""
        return {name for name in self._parts if not name.endswith(".npy")}

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a part, if it has no more than so many."""
        part = self._parts.get(name)
        if part is None:
            raise Damaged(f"{name} is missing")
        if part.file_size > most:
            raise Damaged(f"{name} is too large")
        try:
            with self._zip.open(part) as content:
                found = content.read(part.file_size)
                if len(found) != part.file_size or content.read(1):
                    raise Damaged(f"{name} has another size than it says")
        except _BROKEN as error:
            raise error if isinstance(error, Damaged) else Damaged(f"{name} cannot be read") from None
        return found

    def text(self, name: str) -> dict[str, Any]:
        """A part as a JSON object."""
        raw = self.read(name, _LONGEST_TEXT)
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            raise Damaged(f"{name} is not JSON") from None
        if not isinstance(found, dict):
            raise Damaged(f"{name} is not a JSON object")
        return found

    def array(self, name: str, most: int) -> tuple[bytes, np.ndarray]:
        """A part as its bytes and as an array of at most so many numbers."""
        raw = self.read(f"{name}.npy", 8 * most + _LONGEST_HEADER)
        try:
            return raw, _array(raw)
        except (ValueError, IndexError, struct.error, OverflowError):
            raise Damaged(f"{name} is not an array") from None


def _array(raw: bytes) -> np.ndarray:
    if raw[: len(_MAGIC)] != _MAGIC:
        raise ValueError("magic")
    start = len(_MAGIC) + 2
    (length,) = struct.unpack("<H", raw[len(_MAGIC) : start])
    header = _HEADER.fullmatch(raw[start : start + length])
    if header is None or length > _LONGEST_HEADER:
        raise ValueError("header")
    shape = tuple(int(number) for number in header[2].split(b",") if number.strip())
    content = raw[start + length :]
    if len(shape) > 2 or any(n < 0 for n in shape):
        raise ValueError("shape")
    return np.frombuffer(content, dtype=_TYPES[header[1]]).reshape(shape)  # the size must be that of the shape
