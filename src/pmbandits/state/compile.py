"""The one decorator for compiled kernels, with a disk cache that cannot go stale.

numba notices when the file of a cached function changes, but not when a helper in *another* file does: the old
machine code then answers for the new source; constants of other files are frozen in, too. So the cache folder is
named after a hash of every source file of the package whose code or constants are compiled. An edit of any other file
compiles nothing anew. ``PMBANDITS_CACHE_DIR`` moves the folder. Only its owner can read it and write to it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pmbandits.state.compiler_speed import is_about_our_kernel, speed_up_compiler

PACKAGE = Path(__file__).parent.parent
_CONFIG_LOCK = threading.Lock()

HINT = (
    "pmbandits compiles its kernels for this machine when they are first needed, and keeps them. "
    "To compile all of them at once, in about 45 seconds on one core and half of that on two: pmbandits warm"
)

# module and name of all kernels outside of the library
KERNELS_OF_USERS: set[tuple[str, str]] = set()

F = TypeVar("F", bound=Callable[..., Any])


# Files with kernels have one of these lines. Others that kernels take code or constants from: a test finds them all.
_KERNEL_LINE = re.compile(rb"^@(kernel|inner|step|shared|inlined|intrinsic)\b|^unpack\w* = state\(", re.MULTILINE)
_ALSO_COMPILED = (
    "state/*.py",
    "metrics/families/*.py",
    "metrics/fam*.py",
    "metrics/form*.py",
    "metrics/distortion.py",
    "supports.py",
)


def source_files_of_machine_code(package: Path) -> list[Path]:
    """The source files whose code or constants end up in machine code."""
    besides = {path for pattern in _ALSO_COMPILED for path in package.glob(pattern)}
    return sorted(p for p in package.rglob("*.py") if p in besides or _KERNEL_LINE.search(p.read_bytes()))


def hash_of_files(files: Iterable[Path]) -> str:
    """Hash of the files, in an order that does not depend on the file system."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path:
    """Where compiled kernels of exactly this source are kept."""
    base = os.environ.get("PMBANDITS_CACHE_DIR")
    if base is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(home, "pmbandits")
    # numba forgets what another version of it compiled, so each has a folder.
    version = f"py{sys.version_info.major}{sys.version_info.minor}-numba{metadata.version('numba')}"
    return Path(base) / f"{hash_of_files(source_files_of_machine_code(PACKAGE))}-{version}"


@cache
def cache_is_safe() -> bool:
    """Whether kernels can be kept: there is a folder that nobody else can write to. If not, says why, once."""
    folder = cache_folder()
    for part in (folder.parent, folder):
        try:
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = part.stat()
        except OSError:  # no home, or a disk that cannot be written to
            return False
        theirs = os.name == "posix" and found.st_uid != os.geteuid()
        if theirs or (os.name == "posix" and found.st_mode & 0o022):
            why = "belongs to somebody else" if theirs else "can be written to by others"
            warnings.warn(
                f"the folder of compiled kernels {str(part)!r} {why}, who could place code there; it is not used, so "
                "kernels are compiled anew in every process. Delete it, or set PMBANDITS_CACHE_DIR to a folder of your "
                "own (chmod 700).",
                stacklevel=2,
            )
            return False
    return True


@cache
def _show_compile_hint_once() -> Any:
    """What says, on a terminal, that kernels are being compiled; once, and only if none were kept before."""
    from numba.core import event

    class Hint(event.Listener):
        due = sys.stderr.isatty()

        def on_start(self, event: Any) -> None:
            if self.due and is_about_our_kernel(event):
                self.due = False
                if not any(cache_folder().rglob("*.nbc")):
                    print(HINT, file=sys.stderr)

        def on_end(self, event: Any) -> None:
            pass

    made = Hint()
    event.register("numba:compile", made)
    return made


def silence_compile_hint() -> None:
    """Do not say that kernels are being compiled: whoever calls this says it already."""
    _show_compile_hint_once().due = False


def kernel(
    function: F,
    *,
    inline: Literal["never", "always"] = "never",
    python: bool = True,
    force_inline: bool = False,
    divides_by_0: bool = False,
) -> F:
    """Compile a function with numba when it is first used, and keep the result on disk.

    ``python=False`` leaves out what Python needs to call it, which halves compile time. ``force_inline`` makes it
    part of its callers: for small steps in loops. With ``divides_by_0`` a division by 0 is never an error.

    Kernels release the interpreter lock, and do not reorder arithmetic (no fast-math). So a result is the same to the
    last bit wherever it is computed. Those of the library follow numpy's rules for division. In yours a division by 0
    is an error, as in Python.
    """
    import numba

    if not function.__module__.startswith("pmbandits."):
        KERNELS_OF_USERS.add((function.__module__, function.__qualname__))
    speed_up_compiler()
    _show_compile_hint_once()
    settings: Any = numba.config
    with _CONFIG_LOCK:  # the setting is the process's
        before = settings.CACHE_DIR
        # Both kinds of one function must not be taken for each other: numba's files do not tell them apart.
        settings.CACHE_DIR = str(cache_folder() / ("python" if python else "kernels"))
        try:
            njit: Any = numba.njit
            compiled: Any = njit(
                nogil=True,
                error_model="numpy" if divides_by_0 or function.__module__.startswith("pmbandits.") else "python",
                inline=inline,
                no_cpython_wrapper=not python,
                no_cfunc_wrapper=True,
                forceinline=force_inline,
            )(function)
            if cache_is_safe():
                from pmbandits.state.disk_cache import KernelCache

                with suppress(RuntimeError):  # typed at a prompt: there is no file to keep it for
                    compiled._cache = KernelCache(compiled.py_func)
        finally:
            settings.CACHE_DIR = before
    return cast(F, compiled)


def inner_kernel(function: F) -> F:
    """A kernel that only other kernels call, each compiled with it: for parts of a large one."""
    return kernel(function, python=False)


def inlined(function: F) -> F:
    """A kernel that is written into its callers: for small steps that take many arrays, where the call is the cost."""
    return kernel(function, inline="always")
