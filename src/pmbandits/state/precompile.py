"""Compiling ahead of first use: which kernels there are, what each is made of, and whether it is on the disk."""

from __future__ import annotations

import dis
import inspect
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from numba.core.dispatcher import Dispatcher

from pmbandits.state.layout import Own
from pmbandits.state.linking import TYPED_KERNELS, numba_argument_types


@dataclass(frozen=True)
class CompileItem:
    """A kernel with the types that it is compiled for.

    needs : the positions of items that must be there first: steps that are built into this one, and whatever writes
        files of the same name. numba numbers the files of one function, and two processes could take the same number.
    """

    own: Any
    arguments: tuple[Any, ...]
    needs: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{self.own.py_func.__module__}.{self.own.py_func.__qualname__}"

    def is_on_disk(self) -> bool:
        """Whether its machine code is kept, for this source, this machine and this numba."""
        store = self.own._cache
        if not hasattr(store, "_cache_file"):  # typed at a prompt: it cannot be kept
            return False
        self.own.targetctx.refresh()
        files = store._cache_file
        name = files._load_index().get(store._index_key(self.arguments, self.own.targetctx.codegen()))
        return name is not None and os.path.exists(files._data_path(name))

    def compile_or_load(self) -> None:
        """Compile it, or load it from the disk."""
        self.own.compile(self.arguments)


def as_compile_item(function: Any, arguments: str, own: Own | None = None) -> CompileItem:
    """A kernel that Python calls with arguments of these types, in the words of ``shared``."""
    made = function if isinstance(function, Dispatcher) else function.for_python()
    return CompileItem(made, numba_argument_types(arguments, own))


def compile_items_in_order(entries: Iterable[CompileItem], package: str) -> list[CompileItem]:
    """The entries and all that they reach, and then every other kernel of the package that has one signature.

    What a kernel reaches comes before it. So whoever stops in the middle has all that the first entries need.
    """
    plan = _CompilePlan()
    for one in entries:
        plan.add_item(one.own, one.arguments)
    ours = [CompileItem(one.own, one.arguments) for kernels in TYPED_KERNELS.values() for one in kernels]
    for item in sorted(ours, key=str):  # by name: modules are imported in other orders elsewhere
        if str(item).startswith(f"{package}."):
            plan.add_item(item.own, item.arguments)
    return plan.items


class _CompilePlan:
    def __init__(self) -> None:
        self.items: list[CompileItem] = []
        self.place: dict[tuple[int, tuple[Any, ...]], int] = {}
        self.last: dict[int, int] = {}  # by kernel: the last item that writes its files

    def add_item(self, own: Any, arguments: tuple[Any, ...]) -> int:
        """Where the item is; it comes after all that it reaches."""
        key = id(own), arguments
        if key in self.place:
            return self.place[key]
        needs: set[int] = set()
        written = {id(own): own}  # this one, and those without a signature, which are compiled along with it
        for one in callees_without_signature(own):
            written[id(one)] = one
        for one in list(written.values()):
            for thing in objects_named_in_code(one.py_func):
                for fixed in TYPED_KERNELS.get(thing, ()) if inspect.isfunction(thing) else ():
                    if fixed.kind != "dispatch":  # there are many, and a run needs one of them
                        at = self.add_item(fixed.own, fixed.arguments)
                        if fixed.kind == "step":
                            needs.add(at)
        needs.update(self.last[one] for one in written if one in self.last)
        self.items.append(CompileItem(own, arguments, frozenset(needs)))
        at = self.place[key] = len(self.items) - 1
        self.last.update(dict.fromkeys(written, at))
        return at


def callees_without_signature(own: Any) -> list[Any]:
    """The kernels without a signature of their own that a kernel calls; they are compiled with it."""
    found = {id(own): own}
    queue = [own]
    while queue:
        for thing in objects_named_in_code(queue.pop().py_func):
            if isinstance(thing, Dispatcher) and id(thing) not in found:
                found[id(thing)] = thing
                queue.append(thing)
    return list(found.values())[1:]


def objects_named_in_code(function: Any) -> Iterator[Any]:
    """What the code of a function names: global objects, and parts of modules."""
    for name, attributes in _global_names_with_attributes(function.__code__):
        thing = function.__globals__.get(name)
        if inspect.ismodule(thing):
            yield from (vars(thing).get(part) for part in attributes)
        else:
            yield thing


def _global_names_with_attributes(code: CodeType) -> Iterator[tuple[str, list[str]]]:
    """The global names that code reads, each with all names of attributes (a field may have the name of a kernel).

    In the order of the code, which is the same in every process: that of a set of strings is not.
    """
    steps = list(dis.get_instructions(code))
    attributes = list(dict.fromkeys(step.argval for step in steps if step.opname in ("LOAD_ATTR", "LOAD_METHOD")))
    yield from ((step.argval, attributes) for step in steps if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names_with_attributes(constant)
