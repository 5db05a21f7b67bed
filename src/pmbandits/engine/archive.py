"""A zip of one JSON text and plain arrays, opened as if a stranger had made it.

Sizes are known before anything is unpacked: a part is read only if it says that it has the size that the reader wants,
and no more of it is unpacked than that. No array can hold anything but whole or floating point numbers of 64 bits.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

_MAX_PARTS = 256
_MAX_JSON_BYTES = 1 << 26
_JSON_BASE_BYTES, _JSON_BYTES_PER_FILE_BYTE = 1 << 20, 16  # a small file unpacks to a small description
_MAX_HEADER_BYTES = 4096
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '(<[if]8)', 'fortran_order': False, 'shape': \(([0-9, ]{0,99})\), \} *\n")
_TYPES = {b"<i8": np.dtype(np.int64), b"<f8": np.dtype(np.float64)}
_READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    struct.error,
)


class DamagedFile(ValueError):
    """Raised when a file is damaged or was not written by this library; the message says why."""


class Archive:
    """The parts of a file, by name and without being unpacked."""

    def __init__(self, file: BinaryIO) -> None:
        self._size = file.seek(0, io.SEEK_END)
        try:
            self._zip = zipfile.ZipFile(file)
            self._parts = {part.filename: part for part in self._zip.infolist()}
        except _READ_ERRORS:
            raise DamagedFile("not a zip file") from None
        if len(self._parts) != len(self._zip.infolist()) or len(self._parts) > _MAX_PARTS:
            raise DamagedFile("too many parts")
        if any(part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for part in self._parts.values()):
            raise DamagedFile("packed in another way")

    @property
    def arrays(self) -> dict[str, int]:
        """The arrays by name, with the size in bytes that each says it has."""
        return {n.removesuffix(".npy"): part.file_size for n, part in self._parts.items() if n.endswith(".npy")}

    @property
    def non_array_names(self) -> set[str]:
        """The names of all parts that are no arrays."""
        return {name for name in self._parts if not name.endswith(".npy")}

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a part of the archive; raises if it is missing or larger than ``most`` bytes."""
        part = self._parts.get(name)
        if part is None:
            raise DamagedFile(f"{name} is missing")
        if part.file_size > most:
            raise DamagedFile(f"{name} is too large")
        try:
            with self._zip.open(part) as content:
                found = content.read(part.file_size)
                if len(found) != part.file_size or content.read(1):
                    raise DamagedFile(f"{name} has another size than it says")
        except _READ_ERRORS as error:
            raise error if isinstance(error, DamagedFile) else DamagedFile(f"{name} cannot be read") from None
        return found

    def read_json(self, name: str) -> dict[str, Any]:
        """A part as a JSON object."""
        most = _JSON_BASE_BYTES + _JSON_BYTES_PER_FILE_BYTE * self._size
        raw = self.read(name, min(_MAX_JSON_BYTES, most))
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            raise DamagedFile(f"{name} is not JSON") from None
        if not isinstance(found, dict):
            raise DamagedFile(f"{name} is not a JSON object")
        return found

    def array(self, name: str, most: int) -> tuple[bytes, np.ndarray]:
        """A part as its bytes and as an array of at most so many numbers."""
        raw = self.read(f"{name}.npy", 8 * most + _MAX_HEADER_BYTES)
        try:
            return raw, _parse_npy(raw)
        except (ValueError, IndexError, struct.error, OverflowError):
            raise DamagedFile(f"{name} is not an array") from None


def _parse_npy(raw: bytes) -> np.ndarray:
    if raw[: len(_MAGIC)] != _MAGIC:
        raise ValueError("magic")
    start = len(_MAGIC) + 2
    (length,) = struct.unpack("<H", raw[len(_MAGIC) : start])
    header = _HEADER.fullmatch(raw[start : start + length])
    if header is None or length > _MAX_HEADER_BYTES:
        raise ValueError("header")
    shape = tuple(int(number) for number in header[2].split(b",") if number.strip())
    content = raw[start + length :]
    if len(shape) > 2 or any(n < 0 for n in shape):
        raise ValueError("shape")
    return np.frombuffer(content, dtype=_TYPES[header[1]]).reshape(shape)  # the size must be that of the shape
