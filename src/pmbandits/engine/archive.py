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
_MAX_PART_ENTRY_BYTES = 512  # of the list of parts, for each
MAX_JSON_BYTES = 10 << 20  # more than the longest names of 10,000 arms take
MAX_JSON_VALUES = 500_000  # each may take a hundred bytes of memory
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


def is_json_too_large(raw: bytes) -> bool:
    """Whether a JSON text is too long, or has too many values; commas, colons and brackets in texts count as well."""
    return len(raw) > MAX_JSON_BYTES or sum(map(raw.count, (b",", b":", b"[", b"{"))) > MAX_JSON_VALUES


class Archive:
    """The parts of a file, by name and without being unpacked.

    Attributes
    ----------
    checksums : by name, the SHA-256 that an array must have; the description of the file says it.
    unread : the names of the parts that nobody has read yet.
    """

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._bytes_left = max_bytes
        try:
            end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # before all parts are listed
            if end and end[5] > _MAX_PARTS * _MAX_PART_ENTRY_BYTES:  # bytes of that list
                raise DamagedFile("too many parts")
            self._zip = zipfile.ZipFile(file)
            self._parts = {part.filename: part for part in self._zip.infolist()}
        except DamagedFile:
            raise
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
        raw = self._read_part(name, MAX_JSON_BYTES)
        if is_json_too_large(raw):
            raise DamagedFile(f"{name} has more than {MAX_JSON_VALUES:,} values")
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
