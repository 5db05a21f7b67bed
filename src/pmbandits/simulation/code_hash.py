"""Hash of Python code, so that stored results of an older version are not taken for those of a changed one."""

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

_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes, type(...))
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
    hasher = _CodeHasher()
    for thing in things:
        hasher.hash_object(thing)
    return hasher.digest.hexdigest()


class _CodeHasher:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: dict[int, tuple[int, Any]] = {}  # with the object, so that no other one gets its place in memory

    def add_to_hash(self, *words: Any) -> None:
        self.digest.update(repr(words).encode() + b"\0")

    def hash_object(self, thing: Any) -> None:
        if isinstance(thing, _PRIMITIVES):
            self.add_to_hash(type(thing).__name__, thing)
        elif id(thing) in self.seen:
            self.add_to_hash("again", self.seen[id(thing)][0])
        else:
            self.seen[id(thing)] = len(self.seen), thing
            self._hash_by_type(thing)

    def _hash_by_type(self, thing: Any) -> None:
        if isinstance(thing, (tuple, list)):
            self._hash_sequence(type(thing).__name__, thing)
        elif isinstance(thing, (set, frozenset)):
            self.add_to_hash("set", sorted(code_hash(item) for item in thing))
        elif isinstance(thing, Mapping):
            self._hash_sequence("mapping", [part for pair in thing.items() for part in pair])
        elif isinstance(thing, (np.ndarray, np.generic)):
            array = np.asarray(thing)
            self.add_to_hash(
                "array", str(array.dtype), array.shape, array.tobytes() if array.dtype != object else array.size
            )
        elif isinstance(thing, ModuleType):
            self._hash_module(thing)
        elif isinstance(thing, functools.partial):
            self._hash_sequence("partial", [thing.func, thing.args, thing.keywords])
        elif isinstance(thing, MethodType):
            self._hash_sequence("method", [thing.__self__, thing.__func__])
        elif isinstance(thing, property):
            self._hash_sequence("property", [thing.fget, thing.fset])
        elif isinstance(thing, (staticmethod, classmethod)):
            self._hash_sequence(type(thing).__name__, [thing.__func__])
        elif isinstance(thing, type):
            self._hash_class(thing)
        elif isinstance(thing, FunctionType):
            self._hash_function(thing)
        elif isinstance(thing, BuiltinFunctionType):
            self.add_to_hash("builtin", thing.__module__, thing.__qualname__)
        else:
            inner = getattr(thing, "py_func", None) or getattr(thing, "__wrapped__", None)  # numba's, functools'
            if isinstance(inner, FunctionType):
                self._hash_sequence("wrapped", [inner])
            else:
                self._hash_instance(thing)

    def _hash_sequence(self, what: str, parts: Any) -> None:
        self.add_to_hash(what, len(parts))
        for part in parts:
            self.hash_object(part)

    def _hash_module(self, module: ModuleType) -> None:
        self.add_to_hash("module", module.__name__)
        if not self._is_installed(module.__name__):
            file = getattr(module, "__file__", None)
            self.add_to_hash(hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else "")

    def _hash_class(self, cls: type) -> None:
        self.add_to_hash("class", cls.__module__, cls.__qualname__)
        if self._is_installed(cls.__module__):
            return
        self._hash_sequence("bases", cls.__bases__)
        for name, member in sorted(vars(cls).items()):
            code = callable(member) or isinstance(member, (property, staticmethod, classmethod))
            if code or not name.startswith("_"):
                self.add_to_hash(name)
                self.hash_object(member)

    def _hash_function(self, function: FunctionType) -> None:
        self.add_to_hash("function", function.__name__)
        if self._is_installed(function.__module__ or "__main__"):
            self.add_to_hash(function.__module__, function.__qualname__)
            return
        self.hash_object(function.__defaults__)
        self.hash_object(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.hash_object(cell.cell_contents)
            except ValueError:
                self.add_to_hash("an empty cell")
        self._hash_code(function.__code__, function.__globals__, function.__doc__)

    def _hash_code(self, code: CodeType, names: Mapping[str, Any], doc: str | None = None) -> None:
        self.add_to_hash("code", code.co_code, code.co_names, code.co_freevars, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._hash_code(constant, names)
            elif doc is None or constant != doc:
                self.hash_object(constant)
        for name in code.co_names:
            if name in names:
                self.add_to_hash("global", name)
                self.hash_object(names[name])

    def _hash_instance(self, thing: Any) -> None:
        self.hash_object(type(thing))
        text = repr(thing)
        if self._is_installed(type(thing).__module__) and " at 0x" not in text:
            self.add_to_hash(text)
        else:
            self.hash_object(getattr(thing, "__dict__", None))

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
        self.add_to_hash(top, str(getattr(sys.modules.get(top), "__version__", "")))
        return True
