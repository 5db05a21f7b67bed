"""The state in compiled code: ``s.asked``, ``s.pulls[i]``, and a policy's own numbers such as ``s.explore``.

To numba, ``s`` is a type of its own: the address of the memory. Naming a field makes that number, or a view of that
array, where it stands. No references are counted: whoever calls a kernel holds the memory as long as the kernel runs,
and no kernel hands a field out. Sizes, and the places where arrays begin, do not change while a kernel runs; the
compiler is told so, and reads each of them once.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import Constant
from numba import types
from numba.core.cgutils import create_struct_proxy, pack_array
from numba.core.pythonapi import NativeValue
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_cast,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array

from pmbandits.state.layout import BY_NAME, SINGLES, SIZES, STARTS, own_singles, shape_of
from pmbandits.state.memory import Memory

_NUMBA = {int: types.int64, float: types.float64}


class StateType(types.Type):
    """What ``s`` is to numba. ``own`` are the names and types of the policy's own numbers."""

    def __init__(self, own: tuple[tuple[str, type], ...] = ()) -> None:
        self.singles = {**SINGLES, **own_singles(dict(own))}
        words = ", ".join(f"{name}: {kind.__name__}" for name, kind in own)
        super().__init__(name=f"pmbandits.State[{words}]")

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """A state with numbers of its own can be given to whatever takes a state."""
        from numba.core.typeconv.castgraph import Conversion

        return Conversion.safe if isinstance(other, StateType) else None


STATE = StateType()


@register_model(StateType)
class _StateModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("at", types.CPointer(types.int64))])


@lower_cast(StateType, StateType)
def _same(context, builder, given, wanted, value):
    del context, builder, given, wanted
    return value


@infer_getattr
class _StateAttributes(AttributeTemplate):
    key = StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        if name in kind.singles:
            return _NUMBA[kind.singles[name][0]]
        if name in STARTS:
            return types.Array(_NUMBA[BY_NAME[name].type], len(shape_of(name)), "C")
        return None


def _pointer(context, builder, s, word, at):
    """Where a field begins, as a pointer to its own kind of number."""
    place = builder.gep(s.at, [at])
    return builder.bitcast(place, context.get_data_type(_NUMBA[word]).as_pointer())


def _constant(context, builder, s, at):
    """A word that does not change while a kernel runs."""
    loaded = builder.load(builder.gep(s.at, [context.get_constant(types.intp, at)]))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@lower_getattr_generic(StateType)
def _get(context, builder, kind, value, name):
    """A field by its name."""
    s = create_struct_proxy(kind)(context, builder, value)
    if name in SIZES:
        return _constant(context, builder, s, SINGLES[name][1])
    if name in kind.singles:
        word, at = kind.singles[name]
        return builder.load(_pointer(context, builder, s, word, context.get_constant(types.intp, at)))

    def length(terms):
        total = None
        for term in terms:
            if isinstance(term, int):
                one = context.get_constant(types.intp, term)
            else:
                one = _constant(context, builder, s, SINGLES[term][1])
            total = one if total is None else builder.add(total, one)
        return total

    word, lengths = BY_NAME[name].type, [length(terms) for terms in shape_of(name)]
    size = context.get_constant(types.intp, 8)
    view = context.make_array(types.Array(_NUMBA[word], len(lengths), "C"))(context, builder)
    strides = [size] if len(lengths) == 1 else [builder.mul(lengths[1], size), size]
    data = _pointer(context, builder, s, word, _constant(context, builder, s, STARTS[name]))
    populate_array(view, data, pack_array(builder, lengths), pack_array(builder, strides), size, None)
    return view._getvalue()


@lower_setattr_generic(StateType)
def _set(context, builder, signature, args, name):
    """Change a single number."""
    kind = signature.args[0]
    if name in SIZES or name not in kind.singles:
        raise AttributeError(f"{name} of the state cannot be set.")
    s = create_struct_proxy(kind)(context, builder, args[0])
    word, at = kind.singles[name]
    builder.store(args[1], _pointer(context, builder, s, word, context.get_constant(types.intp, at)))


def _from_address(context, builder, kind, address):
    s = create_struct_proxy(kind)(context, builder)
    s.at = builder.inttoptr(address, context.get_value_type(types.CPointer(types.int64)))
    return s._getvalue()


def state(**own: type) -> Any:
    """Make the function that gives names to the memory in a policy's kernels: ``unpack = state(explore=int)``.

    The names given are the policy's own single numbers, each an ``int`` or a ``float``. In a kernel, ``s =
    unpack(memory)`` makes them, and all fields of ``pmbandits.state.layout``, attributes of ``s``.
    """
    kind = StateType(tuple(own.items()))

    def unpack(typingctx, memory):
        del typingctx

        def codegen(context, builder, signature, args):
            del signature
            return _from_address(context, builder, kind, args[0])

        return kind(types.int64), codegen

    made: Any = intrinsic(unpack)
    made.own = dict(own)
    return made


unpack = state()


# Python may hand a kernel its Memory: tests and readers do.


@typeof_impl.register(Memory)
def _typeof(value, c):
    del c
    return StateType(tuple(value._own.items()))


@unbox(StateType)
def _unbox(kind, value, c):
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(_from_address(c.context, c.builder, kind, address), is_error=c.pyapi.c_api_error())


@intrinsic
def borrowed(typingctx, array):
    """The same array, without its reference count: for arrays that the caller holds."""
    del typingctx

    def codegen(context, builder, signature, args):
        made = context.make_array(signature.return_type)(context, builder, args[0])
        made.meminfo = Constant(made.meminfo.type, None)
        made.parent = Constant(made.parent.type, None)
        return made._getvalue()

    return array(array), codegen
