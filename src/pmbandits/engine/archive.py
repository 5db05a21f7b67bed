"""A zip of one JSON text and plain arrays, opened as if a stranger had made it.

Sizes are known before anything is unpacked: a part is read only if it says that it has the size that the reader wants,
and no more of it is unpacked than that. No array can hold anything but whole or floating point numbers of 64 bits.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

from pmbandits.state.layout import MOST

_MAX_PARTS = 256
_MAX_JSON_BYTES = 1 << 26
_JSON_BASE_BYTES, _JSON_BYTES_PER_FILE_BYTE = 1 << 20, 16  # a small file unpacks to a small description
_MAX_HEADER_BYTES = 4096
_READ_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError, struct.error,
)  # fmt: skip


class DamagedFile(ValueError):
    """Raised when a file is damaged or was not written by this library; the message says why."""


def is_json_count(number: Any) -> bool:
    """Whether something that was read from JSON is a count."""
    return type(number) is int and 0 <= number <= MOST


def npy_bytes(array: np.ndarray) -> bytes:
    """An array as the bytes of a file of numpy."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return out.getvalue()


class Archive:
    """The parts of a file, by name and without being unpacked.

    Attributes
    ----------
    checksums : by name, the SHA-256 that an array must have; the description of the file says it.
    unread : the names of the parts that nobody has read yet.
    """

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._size, self._bytes_left = file.seek(0, io.SEEK_END), max_bytes
        try:
            self._zip = zipfile.ZipFile(file)
            self._parts = {part.filename: part for part in self._zip.infolist()}
        except _READ_ERRORS:
            raise DamagedFile("not a zip file") from None
        if len(self._parts) != len(self._zip.infolist()) or len(self._parts) > _MAX_PARTS:
            raise DamagedFile("too many parts")
        if any(part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for part in self._parts.values()):
            raise DamagedFile("packed in another way")
        self.unread = set(self._parts)
        self.checksums: Any = None

    def _read_part(self, name: str, most: int) -> bytes:
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
        self.unread.discard(name)
        return found

    def read_json_object(self, name: str) -> dict[str, Any]:
        """A part as a JSON object."""
        most = _JSON_BASE_BYTES + _JSON_BYTES_PER_FILE_BYTE * self._size
        raw = self._read_part(name, min(_MAX_JSON_BYTES, most))
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            raise DamagedFile(f"{name} is not JSON") from None
        if not isinstance(found, dict):
            raise DamagedFile(f"{name} is not a JSON object")
        return found

    def read_array(self, name: str, shape: tuple[int, ...], kind: Any) -> np.ndarray:
        """A part as an array of this shape and type; nothing is unpacked if it has another size."""
        size = 8 * int(np.prod(shape))
        if size > self._bytes_left:
            raise DamagedFile(f"its part {name!r} is too large")
        raw = self._read_part(f"{name}.npy", size + _MAX_HEADER_BYTES)
        self._bytes_left -= size
        if not isinstance(self.checksums, dict) or self.checksums.get(name) != hashlib.sha256(raw).hexdigest():
            raise DamagedFile(f"the checksum of its part {name!r} is wrong")
        content = io.BytesIO(raw)
        try:
            if np.lib.format.read_magic(content) != (1, 0):
                raise ValueError("version")
            found = np.lib.format.read_array_header_1_0(content, max_header_size=_MAX_HEADER_BYTES)
        except Exception:  # numpy reads a header as Python, which fails in many ways
            raise DamagedFile(f"{name} is not an array") from None
        if found != (tuple(shape), False, np.dtype(kind)) or len(raw) - content.tell() != size:
            raise DamagedFile(f"its part {name!r} is not as large as it should be")
        return np.frombuffer(raw, kind, offset=content.tell()).reshape(shape)
