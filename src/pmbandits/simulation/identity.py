"""A hash of a piece of Python code, so that results of an older version are not taken for those of a changed one."""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_INSTALLED = tuple(Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib", "stdlib", "platstdlib"))


def code_hash(*things: Any) -> str:
    """A hash of functions and classes and of all that they reach: the same in every process.

    It covers bytecode, constants, defaults, what a closure holds, base classes, and the functions, classes and values
    of your own that the code names, wherever they are. Installed packages count with their name and version, and
    modules of your own that are used by name (``helpers.f``) with their whole file. Comments, line numbers and the
    docstrings of functions do not count. Another version of Python compiles to other bytecode, and so is other code.

    >>> from functools import partial
    >>> code_hash(partial(print, 0.1)) == code_hash(partial(print, 0.1))
    True
    >>> code_hash(partial(print, 0.1)) == code_hash(partial(print, 0.2))
    False
    """
    walk = _Walk()
    for thing in things:
        walk.visit(thing)
    return walk.digest.hexdigest()


class _Walk:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: dict[int, tuple[int, Any]] = {}  # with the object, so that no other one gets its place in memory

    def note(self, *words: Any) -> None:
        self.digest.update(repr(words).encode() + b"\0")

    def visit(self, thing: Any) -> None:
        if isinstance(thing, _PLAIN):
            self.note(type(thing).__name__, thing)
        elif id(thing) in self.seen:
            self.note("again", self.seen[id(thing)][0])
        else:
            self.seen[id(thing)] = len(self.seen), thing
            self._look_into(thing)

    def _look_into(self, thing: Any) -> None:
        if isinstance(thing, (tuple, list)):
            self._all(type(thing).__name__, thing)
        elif isinstance(thing, (set, frozenset)):
            self.note("set", sorted(code_hash(item) for item in thing))
        elif isinstance(thing, Mapping):
            self._all("mapping", [part for pair in thing.items() for part in pair])
        elif isinstance(thing, (np.ndarray, np.generic)):
            array = np.asarray(thing)
            self.note("array", str(array.dtype), array.shape, array.tobytes() if array.dtype != object else array.size)
        elif isinstance(thing, ModuleType):
            self._module(thing)
        elif isinstance(thing, functools.partial):
            self._all("partial", [thing.func, thing.args, thing.keywords])
        elif isinstance(thing, MethodType):
            self._all("method", [thing.__self__, thing.__func__])
        elif isinstance(thing, property):
            self._all("property", [thing.fget, thing.fset])
        elif isinstance(thing, (staticmethod, classmethod)):
            self._all(type(thing).__name__, [thing.__func__])
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, BuiltinFunctionType):
            self.note("builtin", thing.__module__, thing.__qualname__)
        else:
            inner = getattr(thing, "py_func", None) or getattr(thing, "__wrapped__", None)  # numba's, functools'
            if isinstance(inner, FunctionType):
                self._all("wrapped", [inner])
            else:
                self._object(thing)

    def _all(self, what: str, parts: Any) -> None:
        self.note(what, len(parts))
        for part in parts:
            self.visit(part)

    def _module(self, module: ModuleType) -> None:
        self.note("module", module.__name__)
        if not self._is_installed(module.__name__):
            file = getattr(module, "__file__", None)
            self.note(hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else "")

    def _class(self, cls: type) -> None:
        self.note("class", cls.__module__, cls.__qualname__)
        if self._is_installed(cls.__module__):
            return
        self._all("bases", cls.__bases__)
        for name, member in sorted(vars(cls).items()):
            code = callable(member) or isinstance(member, (property, staticmethod, classmethod))
            if code or not name.startswith("_"):
                self.note(name)
                self.visit(member)

    def _function(self, function: FunctionType) -> None:
        self.note("function", function.__name__)
        if self._is_installed(function.__module__ or "__main__"):
            self.note(function.__module__, function.__qualname__)
            return
        self.visit(function.__defaults__)
        self.visit(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:
                self.note("an empty cell")
        self._code(function.__code__, function.__globals__, function.__doc__)

    def _code(self, code: CodeType, names: Mapping[str, Any], doc: str | None = None) -> None:
        self.note("code", code.co_code, code.co_names, code.co_freevars, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, names)
            elif doc is None or constant != doc:
                self.visit(constant)
        for name in code.co_names:
            if name in names:
                self.note("global", name)
                self.visit(names[name])

    def _object(self, thing: Any) -> None:
        self.visit(type(thing))
        text = repr(thing)
        if self._is_installed(type(thing).__module__) and " at 0x" not in text:
            self.note(text)
        else:
            self.visit(getattr(thing, "__dict__", None))

    def _is_installed(self, name: str) -> bool:
        """Whether a module is of the library, of Python or of an installed package; notes the version of it."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            return True
        if top == "__main__":  # its file may be that of a tool, such as pytest, that runs your code
            return False
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if top != "pmbandits" and (file is None or not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)):
            return False
        self.note(top, str(getattr(sys.modules.get(top), "__version__", "")))
        return True
