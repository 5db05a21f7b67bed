"""What is looked at in the kernels of a policy when its class is made, before anything is compiled."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from pmbandits.state.layout import Own


def reaches_numpy_random(function: Any) -> bool:
    """Whether a function names numpy's random numbers."""
    words, names = function.__code__.co_names, function.__globals__
    used = [names.get(word) for word in words]
    return np.random in used or ("random" in words and np in used)


def _objects_named_in(function: Any) -> Iterator[tuple[str, Any]]:
    """The global and enclosing objects that a function names, and what it takes from modules by a dot."""
    code: CodeType = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    before: Any = None
    for instruction in dis.get_instructions(code):
        name, found = instruction.argval, None
        if instruction.opname == "LOAD_GLOBAL":
            found = function.__globals__.get(name)
        elif instruction.opname == "LOAD_DEREF" and name in cells:
            try:
                found = cells[name].cell_contents
            except ValueError:  # not assigned yet
                found = None
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(before, ModuleType):
            found = getattr(before, name, None)
        if found is not None:
            yield name, found
        before = found


def other_opener_of(function: Any, own: Own) -> str | None:
    """The name by which a kernel, or one that it calls, opens the memory with other numbers than the class declares."""
    seen, waiting = set(), [function]
    while waiting:
        one = waiting.pop()
        one = getattr(one, "py_func", one)
        if id(one) in seen or not hasattr(one, "__code__"):
            continue
        seen.add(id(one))
        for name, found in _objects_named_in(one):
            declared = getattr(found, "own", None)
            if isinstance(declared, tuple) and declared and declared != own:
                return name
            if hasattr(found, "py_func") and not found.py_func.__module__.startswith("pmbandits."):
                waiting.append(found)
    return None
