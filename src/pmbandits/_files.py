"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file such that a reader finds the old content or the new content, and never a part of it.

    The new content is written to a temporary file beside the target, brought to the disk, and then renamed. If
    anything goes wrong, also by Ctrl-C, the temporary file is removed and the target stays as it was. Missing folders
    are made. The permissions are those of any new file of the user.

    Parameters
    ----------
    path : the file to write.
    write : is given the open file, and writes the content to it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_whole(folder / "a.txt", lambda file: file.write(b"all of it"))
    >>> [(found.name, found.read_text()) for found in folder.iterdir()]
    [('a.txt', 'all of it')]
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names of the files in a folder to the disk, so that a new file is also found after a power cut."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
