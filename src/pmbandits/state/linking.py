"""Kernels that other kernels share: compiled once, when one is first reached, and called by their address.

numba compiles all that a kernel calls again for every kernel that calls it; what ten policies have in common would be
compiled ten times over. A call by address costs some nanoseconds: right for whatever passes over rewards or mixtures.

``shared`` is for kernels that are known beforehand, ``dispatch_table`` for several of one signature that are called by
a number. Others are called by an address that is handed over: ``kernel_address`` of the kernel (within kernels
``make_pointer_getter``), and a ``make_caller`` for it.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import inspect
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaError, TypingError
from numba.extending import lower_builtin, type_callable

from pmbandits.state.compile import F, kernel
from pmbandits.state.layout import Own
from pmbandits.state.lock import emit_unlock
from pmbandits.state.numba_types import STATE, StateType

_ints, _floats = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
_TYPES: dict[str, Any] = {
    "state": STATE,
    "memory": types.int64,
    "ints": _ints,
    "floats": _floats,
    "table": types.Array(types.float64, 2, "C"),
    "table of ints": types.Array(types.int64, 2, "C"),
    "words": types.Array(types.uint64, 1, "C"),
    "table of words": types.Array(types.uint64, 2, "C"),
    "word": types.uint64,
    "int": types.int64,
    "float": types.float64,
    "bool": types.boolean,
    "none": types.none,
    "two floats": types.UniTuple(types.float64, 2),
    "two ints": types.UniTuple(types.int64, 2),
    "float and int": types.Tuple((types.float64, types.int64)),
    "two words": types.UniTuple(types.uint64, 2),
    "two arrays": types.UniTuple(_floats, 2),
}


def numba_argument_types(text: str, own: Own | None = None) -> tuple[Any, ...]:
    """numba's types for ``"state, floats"``; the state has a policy's own numbers, if there are any."""
    known = {**_TYPES, "state": StateType(own)} if own else _TYPES
    return tuple(known[word] for word in text.split(", "))


def _numba_signature(text: str, unpack: Any = None) -> Any:
    """numba's signature for ``"state, floats -> float"``; with ``unpack`` the state has that policy's own numbers."""
    arguments, _, result = text.partition(" -> ")
    return _TYPES[result](*numba_argument_types(arguments, None if unpack is None else unpack.own))


def kernel_address(own: Any, signature: Any) -> int:
    """Where the code of a kernel is. The kernel must be kept as long as it may be called."""
    made = _compiled_overload(own, _numba_signature(signature) if isinstance(signature, str) else signature)
    return cast(int, made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _compiled_overload(own: Any, typed: Any) -> Any:
    """What numba made of a kernel for these types."""
    try:
        own.compile(typed.args)
    except NumbaError as error:
        if own.py_func.__module__.startswith("pmbandits."):
            raise
        raise TypeError(f"the kernel {own.py_func.__name__} cannot be compiled: {_main_line(error)}") from error
    made = own.overloads[typed.args]
    if made.signature.return_type != typed.return_type:
        raise TypeError(_wrong_result_message(own.py_func.__name__, made.signature.return_type, typed))
    return made


def _wrong_result_message(name: str, given: Any, typed: Any) -> str:
    """The sentence for a kernel of a user that returns something else than it must."""
    found = (
        "nothing" if given == types.none else repr(given.literal_value) if isinstance(given, types.Literal) else given
    )
    found = "nothing in some cases" if isinstance(given, types.Optional) else found
    must = "return nothing" if typed.return_type == types.none else f"return {typed.return_type}"
    if typed == types.int64(types.int64):  # the kernel choose of a policy
        must = "end with return pull(s, arm) in every case"
    return f"the kernel {name} returns {found}; it must {must}."


def _main_line(error: Exception) -> str:
    """The line of numba's long message that says what is wrong."""
    text = str(error)
    if (ours := re.search(rf"{_OURS} number .*", text)) is not None:
        return ours[0]
    if (helper := re.search(r"Untyped global name '(\w+)'.*<class 'function'>", text)) is not None:
        return f"it calls {helper[1]}, which is not compiled; write @kernel above def {helper[1]}."
    if (unknown := re.search(r"Unknown attribute '(\w+)' of type pmbandits\.(State|Own)", text)) is not None:
        name = unknown[1]
        if (unknown[2], name) == ("State", "own"):
            return "s.own is empty; declare what is in it, unpack = state(name=float), and write s = unpack(memory)."
        where = f"s.own has no {name!r}" if unknown[2] == "Own" else f"s has no field {name!r}"
        return f"{where}; to have s.own.{name}, declare it: unpack = state({name}=float)."
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in nopython")), "numba does not say why")


class TypedKernel(NamedTuple):
    """A kernel that is compiled for the types of one signature."""

    own: Any
    arguments: tuple[Any, ...]
    kind: str  # "shared", "step" or "dispatch"


# by what kernels call: one, or all kernels that are called by a number
TYPED_KERNELS: dict[Any, list[TypedKernel]] = {}


_OURS = "argument"  # begins what we say of a wrong call
_POINTER = ir.IntType(8).as_pointer()
_NULL = ir.Constant(_POINTER, None)
_MAKE = "pmbandits.make"  # what compiled code calls to have a slot filled
_slots: dict[int, tuple[ctypes.c_void_p, Any, Any]] = {}  # by their place: the address once known, kernel, signature


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _compile_kernel_of_slot(place: int) -> None:
    """Compile the kernel whose slot this is, or load it from disk. Ctrl-C waits: a kernel is at work, half-way."""
    slot, own, signature = _slots[place]
    interrupted = False
    while not slot.value:
        try:
            slot.value = kernel_address(own, signature)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        threading.Timer(0.1, _thread.interrupt_main).start()


llvmlite.binding.add_symbol(_MAKE, cast(int, ctypes.cast(_compile_kernel_of_slot, ctypes.c_void_p).value))


def _register_signature(function: Any, typed: Any) -> None:
    """Tell numba the one signature that a function has in kernels."""

    name, known = getattr(function, "__name__", "a step"), list(inspect.signature(function).parameters)

    def sentence(number: int, fault: str) -> str:
        return f"{_OURS} number {number} of {name} {fault}; write {name}({', '.join(known)})."

    def typer(*given: Any, **named: Any) -> Any:
        if named:
            raise TypingError(sentence(len(given) + 1, "must be given without its name"))
        if len(given) != len(typed.args):
            short = len(given) < len(typed.args)
            raise TypingError(
                sentence(min(len(given), len(typed.args)) + 1, "is missing" if short else "is one too many")
            )
        for number, (wanted, found) in enumerate(zip(typed.args, given, strict=True), start=1):
            if isinstance(wanted, StateType) != isinstance(found, StateType):
                raise TypingError(
                    sentence(number, f"must {'' if isinstance(wanted, StateType) else 'not '}be s = unpack(memory)")
                )
            if isinstance(wanted, types.Integer) and isinstance(found, types.Float):
                raise TypingError(sentence(number, f"must be a whole number, not {found}"))
        return typed

    names = (inspect.Parameter(f"_{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(typed.args)))
    typer.pysig = inspect.Signature(tuple(names))  # type: ignore[attr-defined]
    type_callable(function)(lambda context: typer)


def _emit_call(context: Any, builder: Any, where: Any, typed: Any, given: Any) -> Any:
    """Emit the call of the code that is there."""
    convention = context.call_conv
    code = builder.bitcast(where, convention.get_function_type(typed.return_type, typed.args).as_pointer())
    status, value = convention.call_function(builder, code, typed.return_type, typed.args, given)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return value


def _global_variable_of_slot(builder: Any, name: str) -> Any:
    """The slot of that name, or the first of several."""
    return builder.module.globals.get(name) or ir.GlobalVariable(builder.module, _POINTER, name)


def _emit_slot_address(context: Any, builder: Any, slot: Any, name: str) -> Any:
    """Emit what reads the address in a slot, and has the slot filled if it is empty."""
    make = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [_POINTER]), _MAKE)
    for _ in range(2):  # again, should Ctrl-C have come before ``_compile_kernel_of_slot`` could wait for it
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", builder.load(slot), _NULL)):
            builder.call(make, [builder.bitcast(slot, _POINTER)])
    where = builder.load(slot)
    with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", where, _NULL)):
        context.call_conv.return_user_exc(builder, RuntimeError, (f"{name} could not be compiled.",))
    return where


def _python_version_of_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """What Python calls instead of a kernel that is made for kernels: the same, compiled for Python on first use."""

    @functools.cache
    def for_python() -> Any:
        return kernel(function)

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        return for_python()(*given)

    call.for_python = for_python  # type: ignore[attr-defined]
    return call


def _make_callable_from_kernels(function: Callable[..., Any], compiled: TypedKernel, typed: Any) -> Callable[..., Any]:
    """What kernels and Python call: numba knows its one signature, and what stands behind it."""
    call = _python_version_of_kernel(function)
    TYPED_KERNELS[call] = [compiled]
    _register_signature(call, typed)
    return call


def shared(signature: str, unpack: Any = None) -> Callable[[F], F]:
    """Make a shared kernel: ``@shared("state, floats, int -> float")``, in the words of ``_TYPES``.

    A policy's kernel that needs the policy's own numbers gives its ``unpack`` too.
    """
    typed = _numba_signature(signature, unpack)

    def decorate(function: F) -> F:
        own: Any = kernel(function, python=False)
        # Code that is kept on disk finds the slot by this name.
        name, slot = f"{function.__module__}.{function.__qualname__}", ctypes.c_void_p()
        place = ctypes.addressof(slot)
        _slots[place] = slot, own, typed
        llvmlite.binding.add_symbol(name, place)

        call = _make_callable_from_kernels(function, TypedKernel(own, typed.args, "shared"), typed)

        @lower_builtin(call, *typed.args)
        def emit(context: Any, builder: Any, _: Any, given: Any) -> Any:
            return _emit_call(
                context,
                builder,
                _emit_slot_address(context, builder, _global_variable_of_slot(builder, name), name),
                typed,
                given,
            )

        return cast(F, call)

    return decorate


def step(signature: str, unpack: Any = None, *, frees: bool = False) -> Callable[[F], F]:
    """Make a kernel with one fixed signature, in the words of ``_TYPES``, that is built into whoever calls it.

    For small steps that run in every round. It is compiled once, whatever state it is given: a policy's state has
    numbers of its own, and is handed over as a plain one (or, with ``unpack``, as it is). With ``frees``, an error in
    it gives the memory back whose address is its first argument (state/lock.py).
    """
    typed = _numba_signature(signature, unpack)

    def decorate(function: F) -> F:
        own: Any = kernel(function, python=False, force_inline=True)
        call = _make_callable_from_kernels(function, TypedKernel(own, typed.args, "step"), typed)

        @lower_builtin(call, *typed.args)
        def emit(context: Any, builder: Any, _: Any, given: Any) -> Any:
            made = _compiled_overload(own, typed)
            context.active_code_library.add_linking_library(made.library)
            status, value = context.call_internal_no_propagate(builder, made.fndesc, typed, given)
            with cgutils.if_unlikely(builder, status.is_error):
                if frees:
                    emit_unlock(builder, given[0])
                context.call_conv.return_status_propagate(builder, status)
            return value

        return cast(F, call)

    return decorate


def dispatch_table(name: str, signature: str, functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Shared kernels of one signature that are called by their number: ``call(number, …)``.

    Each is compiled when it is first called. A number beyond the last is not noticed.
    """
    typed = _numba_signature(signature)
    own: list[Any] = [kernel(function, python=False) for function in functions]
    entries = [_python_version_of_kernel(function) for function in functions]
    slots = (ctypes.c_void_p * len(own))()
    start, size = ctypes.addressof(slots), ctypes.sizeof(ctypes.c_void_p)
    for k, one in enumerate(own):
        # The slot keeps the memory of all slots.
        _slots[start + k * size] = ctypes.c_void_p.from_buffer(slots, k * size), one, typed
    llvmlite.binding.add_symbol(name, start)

    def call(number: int, *given: Any) -> Any:
        return entries[number](*given)

    TYPED_KERNELS[call] = [TypedKernel(one, typed.args, "dispatch") for one in own]
    _register_signature(call, typed.return_type(types.int64, *typed.args))

    @lower_builtin(call, types.int64, *typed.args)
    def emit_indirect_call(context: Any, builder: Any, _: Any, given: Any) -> Any:
        at = builder.gep(_global_variable_of_slot(builder, name), [given[0]])
        return _emit_call(context, builder, _emit_slot_address(context, builder, at, name), typed, given[1:])

    return call


def make_pointer_getter(function: Callable[..., Any]) -> Callable[[], int]:
    """A function that gives, within a kernel, the address of a shared kernel, for a ``make_caller``.

    So a solver takes its objective as an argument. Only what is asked for is compiled.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    def pointer() -> int:
        raise NotImplementedError("for kernels only")

    TYPED_KERNELS[pointer] = TYPED_KERNELS[function]
    _register_signature(pointer, types.int64())

    @lower_builtin(pointer)
    def emit(context: Any, builder: Any, _: Any, given: Any) -> Any:
        del given
        where = _emit_slot_address(context, builder, _global_variable_of_slot(builder, name), name)
        return builder.ptrtoint(where, ir.IntType(64))

    return pointer


def make_caller(signature: str) -> Any:
    """What calls, within a kernel, the code at an address: ``call(address, …)``."""
    typed = _numba_signature(signature)

    def call(where: int, *given: Any) -> Any:
        raise NotImplementedError("for kernels only")

    _register_signature(call, typed.return_type(types.int64, *typed.args))

    @lower_builtin(call, types.int64, *typed.args)
    def emit_indirect_call(context: Any, builder: Any, _: Any, given: Any) -> Any:
        return _emit_call(context, builder, builder.inttoptr(given[0], _POINTER), typed, given[1:])

    return call
