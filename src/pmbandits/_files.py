"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file such that a reader finds the old content or the new content, and never a part of it.

    The new content is written to a temporary file beside the target, flushed to the disk, and then renamed. If anything
    goes wrong, also by Ctrl-C, the temporary file is removed and the target stays as it was. What a process left behind
    that was killed in the middle is removed, too. Missing folders are made. If the path is a link, the file that it
    points to is replaced. The permissions are those of any new file of the user.

    Parameters
    ----------
    path : the file to write.
    write : is given the open file, and writes the content to it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", lambda file: file.write(b"all of it"))
    >>> [(found.name, found.read_text()) for found in folder.iterdir()]
    [('a.txt', 'all of it')]
    """
    path = Path(os.path.realpath(path))
    _make_folder_and_fsync_parents(path.parent)
    _remove_stale_temporaries(path)
    temporary = None
    try:
        file, temporary = _create_locked_temporary(path)
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked nobody takes it for one that was left behind
                os.replace(temporary, path)
        if fcntl is None:  # an open file cannot be renamed there
            os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        interrupt = _keyboard_interrupt_behind_error(error)
        if interrupt is not None and interrupt is not error:  # whoever closed a half-written file may complain of that
            raise interrupt from None
        raise
    fsync_folder(path.parent)


def fsync_folder(folder: Path) -> None:
    """Bring the names of the files in a folder to the disk, so that a new file is also found after a power cut."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _make_folder_and_fsync_parents(folder: Path) -> None:
    """Make a folder and those above it; their names are on the disk, too."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for part in missing:
        fsync_folder(part.parent)


def _temporary_prefix(path: Path) -> str:
    return f".{path.name[:100]}."


def _create_locked_temporary(path: Path) -> tuple[BinaryIO, Path]:
    """A new file beside the target, open and locked, so that nobody else takes it for one that was left behind."""
    while True:
        temporary = path.with_name(f"{_temporary_prefix(path)}{secrets.token_hex(4)}.part")
        file = temporary.open("xb")
        try:
            if not _is_locked_elsewhere_else_lock(file) and os.path.samestat(os.fstat(file.fileno()), temporary.stat()):
                return file, temporary
        except FileNotFoundError:  # somebody took it for one that was left behind, before it was locked
            pass
        except BaseException:
            file.close()
            temporary.unlink(missing_ok=True)
            raise
        file.close()
        temporary.unlink(missing_ok=True)


def _is_locked_elsewhere_else_lock(file: BinaryIO) -> bool:
    """Whether somebody else has locked an open file; if not, and if there are locks here, it is locked now."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a disk without locks
            return False
    return False


def _remove_stale_temporaries(path: Path) -> None:
    """Remove the temporary files of saves that were killed; those of saves that go on are locked, and stay."""
    pattern = re.compile(re.escape(_temporary_prefix(path)) + r"[0-9a-f]{8}\.part")
    with suppress(OSError):
        for found in map(path.parent.joinpath, os.listdir(path.parent)):  # a list: an interrupt leaves nothing open
            if pattern.fullmatch(found.name) and found.is_file() and not found.is_symlink():
                with suppress(OSError), open(found, "rb") as file:
                    if fcntl is not None:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    found.unlink()


def _keyboard_interrupt_behind_error(error: BaseException | None) -> KeyboardInterrupt | None:
    """The Ctrl-C behind an error, if there is one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
