"""Count the lines of source that a policy's kernel ``choose`` can reach, by walking the call graph of the kernels.

    python tools/reached_lines.py [policy ...]

A kernel reaches whatever its code names, and so on. Lines of a function are those of its source, with its docstring
and decorators. The package ``state``, which names and moves memory, is left out.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from numba.core.dispatcher import Dispatcher

from pmbandits.engine.registry import REGISTRY
from pmbandits.state.linking import TYPED_KERNELS
from pmbandits.state.precompile import objects_named_in_code

DEFAULT = ("ucb1", "track", "vet", "cirt", "pmucb", "ceucb", "pmetc")


def reached(kernel: Any) -> set[Any]:
    """All Python functions behind the kernels that a kernel can reach, itself included."""
    found: set[Any] = set()
    queue = [kernel.py_func]
    while queue:
        function = queue.pop()
        if function in found:
            continue
        found.add(function)
        for thing in objects_named_in_code(function):
            if isinstance(thing, Dispatcher):
                queue.append(thing.py_func)
            elif inspect.isfunction(thing):
                queue.extend(one.own.py_func for one in TYPED_KERNELS.get(thing, ()) if one.kind != "numbered")
    return found


def n_lines(functions: set[Any]) -> dict[str, int]:
    """Lines of source by module, without the package ``state``."""
    out: dict[str, int] = {}
    for function in functions:
        module = function.__module__.removeprefix("pmbandits.")
        if not module.startswith("state."):
            out[module] = out.get(module, 0) + len(inspect.getsourcelines(function)[0])
    return out


def main(names: list[str]) -> None:
    import pmbandits.policies  # noqa: F401  # fills the registry

    for name in names or DEFAULT:
        lines = n_lines(reached(REGISTRY[name]._choose))
        print(f"{name}: {sum(lines.values())} lines reached by choose")
        if names:
            for module, count in sorted(lines.items(), key=lambda item: -item[1]):
                print(f"  {count:5d}  {module}")


if __name__ == "__main__":
    main(sys.argv[1:])
