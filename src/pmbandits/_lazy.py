"""Packages that are light to import: each of their names is loaded when it is first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(
    package: str, exports: Mapping[str, str], submodules: tuple[str, ...] = (), hints: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package : the name of the package.
    exports : for each module the names that it has, with blanks between them.
    submodules : modules of the package that are loaded when they are used, but are not in ``__all__``.
    hints : for names that people may look for, a sentence that says what there is instead.
    """
    module_of = {name: module for module, names in exports.items() for name in names.split()}

    def load(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        if name not in module_of:
            hint = "" if not hints or name not in hints else f": {hints[name]}"
            if hint and sys._getframe(1).f_code.co_name == "_handle_fromlist":
                raise ImportError(f"cannot import name {name!r} from {package!r}{hint}")  # Python would drop the hint
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds it there
        return value

    def names() -> list[str]:
        return sorted({*(n for n in vars(sys.modules[package]) if n.startswith("__")), *module_of, *submodules})

    return load, names, sorted(module_of)
