"""The state in compiled code: ``s.t``, ``s.pulls[i]``, and a policy's own numbers such as ``s.explore``.

To numba, ``s`` is a type of its own: the address of the memory. Naming a field makes that number, or a view of that
array, where it stands. No references are counted: whoever calls a kernel holds the memory as long as the kernel runs,
and no kernel hands a field out. Sizes, and the places where arrays begin, do not change while a kernel runs; the
compiler knows it, and reads each of them once.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import Constant
from numba import types
from numba.core import cgutils
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

from pmbandits import _validation
from pmbandits.state.fields import Field, own_field
from pmbandits.state.layout import (
    BY_NAME,
    MOST,
    OWN_PREFIX,
    SCALARS,
    SIZES,
    Own,
    offset_words,
    policy_own_fields,
    types_and_words_of_scalars,
)
from pmbandits.state.memory import Memory

State = Any  # the state as it is given to kernels, for their signatures: to Python it has no type
_NUMBA = {int: types.int64, float: types.float64}


class StateType(types.Type):
    """What ``s`` is to numba. ``own`` are the fields that the policy has of its own."""

    def __init__(self, own: Own = ()) -> None:
        self.own = own
        self.has_namespace = any(field.name.startswith(OWN_PREFIX) for field in own)
        self.singles, self.offset_words = types_and_words_of_scalars(own), offset_words(own)
        self.fields = {**BY_NAME, **{field.name: field for field in own}}
        words = ", ".join(f"{field.name}: {field.type.__name__}[{field.shape}]" for field in own)
        super().__init__(name=f"pmbandits.State[{words}]")

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """A state with numbers of its own can be given to whatever takes a state."""
        from numba.core.typeconv.castgraph import Conversion

        return Conversion.safe if isinstance(other, StateType) else None


STATE = StateType()


class OwnType(types.Type):
    """What ``s.own`` is to numba: the fields of a policy's own by the names that its author gave, and nothing else."""

    def __init__(self, state: StateType) -> None:
        self.state = state
        super().__init__(name=f"pmbandits.Own[{state.name}]")


@register_model(OwnType)
@register_model(StateType)
class _StateModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("at", types.CPointer(types.int64))])


@lower_cast(StateType, StateType)
def _cast_state(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:
    del context, builder, given, wanted
    return value


@infer_getattr
class _StateAttributes(AttributeTemplate):
    key = StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return OwnType(kind) if name == "own" and kind.has_namespace else _type_of_field(kind, name)


@infer_getattr
class _OwnAttributes(AttributeTemplate):
    key = OwnType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return _type_of_field(kind.state, OWN_PREFIX + name)


def _type_of_field(kind: StateType, name: str) -> Any:
    """numba's type of a field; ``None`` if there is none of that name."""
    if name in kind.singles:
        return _NUMBA[kind.singles[name][0]]
    if name in kind.offset_words:
        field = kind.fields[name]
        return types.Array(_NUMBA[field.type], len(field.dimensions), "C")
    return None


def _pointer_to_field(context: Any, builder: Any, s: Any, word: Any, at: Any) -> Any:
    """Where a field begins, as a pointer to its own kind of number."""
    place = builder.gep(s.at, [at])
    return builder.bitcast(place, context.get_data_type(_NUMBA[word]).as_pointer())


def _load_constant_word(context: Any, builder: Any, s: Any, at: Any) -> Any:
    """A word that does not change while a kernel runs."""
    loaded = builder.load(builder.gep(s.at, [context.get_constant(types.intp, at)]))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@lower_getattr_generic(StateType)
def _emit_field_read(context: Any, builder: Any, kind: Any, value: Any, name: Any) -> Any:
    """A field by its name."""
    if name == "own" and kind.has_namespace:
        return value
    s = create_struct_proxy(kind)(context, builder, value)
    if name in SIZES:
        return _load_constant_word(context, builder, s, SCALARS[name][1])
    if name in kind.singles:
        word, at = kind.singles[name]
        return builder.load(_pointer_to_field(context, builder, s, word, context.get_constant(types.intp, at)))

    def length(terms: Any) -> Any:
        total = None
        for term in terms:
            if isinstance(term, int):
                one = context.get_constant(types.intp, term)
            else:
                one = _load_constant_word(context, builder, s, SCALARS[term][1])
            total = one if total is None else builder.add(total, one)
        return total

    word, lengths = kind.fields[name].type, [length(terms) for terms in kind.fields[name].dimensions]
    size = context.get_constant(types.intp, 8)
    view = context.make_array(types.Array(_NUMBA[word], len(lengths), "C"))(context, builder)
    strides = [size] if len(lengths) == 1 else [builder.mul(lengths[1], size), size]
    data = _pointer_to_field(
        context, builder, s, word, _load_constant_word(context, builder, s, kind.offset_words[name])
    )
    populate_array(view, data, pack_array(builder, lengths), pack_array(builder, strides), size, None)
    return view._getvalue()


@lower_setattr_generic(StateType)
def _emit_field_write(context: Any, builder: Any, signature: Any, args: Any, name: Any) -> Any:
    """Change a single number."""
    kind = signature.args[0]
    if name in SIZES or name not in kind.singles:
        raise AttributeError(f"{name} of the state cannot be set.")
    s = create_struct_proxy(kind)(context, builder, args[0])
    word, at = kind.singles[name]
    builder.store(args[1], _pointer_to_field(context, builder, s, word, context.get_constant(types.intp, at)))


@lower_getattr_generic(OwnType)
def _lower_own_getattr(context: Any, builder: Any, kind: Any, value: Any, name: Any) -> Any:
    """A field of the policy's own."""
    return _emit_field_read(context, builder, kind.state, value, OWN_PREFIX + name)


@lower_setattr_generic(OwnType)
def _lower_own_setattr(context: Any, builder: Any, signature: Any, args: Any, name: Any) -> Any:
    """Change a single number of the policy's own."""
    inner = signature.replace(args=(signature.args[0].state, *signature.args[1:]))
    return _emit_field_write(context, builder, inner, args, OWN_PREFIX + name)


def _state_from_address(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    s = create_struct_proxy(kind)(context, builder)
    s.at = builder.inttoptr(address, context.get_value_type(types.CPointer(types.int64)))
    return s._getvalue()


def state(**own: type | Field) -> Any:
    """Make the function that gives names to the memory in a policy's kernels: ``unpack = state(explore=int)``.

    The names given are the policy's own: single numbers, each an ``int`` or a ``float``, and arrays and numbers with a
    lifecycle (``own_field``). In a kernel, ``s = unpack(memory)`` makes them, and all fields of
    ``pmbandits.state.fields``, attributes of ``s``.
    """
    declared = policy_own_fields(own)
    kind = StateType(declared)

    def unpack(typingctx: Any, memory: Any) -> Any:
        del typingctx

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del signature
            return _state_from_address(context, builder, kind, args[0])

        return kind(types.int64), codegen

    made: Any = intrinsic(unpack)
    made.own = declared
    return made


def own_state(**own: type | Field) -> Any:
    """Declare what a policy of yours remembers; returns the function that opens its memory in kernels.

    What you declare is ``s.own.name`` in kernels, after ``s = unpack(memory)``. So no name can be one of the library's.
    All of it is saved with the policy, and begins with 0, or with what ``Setup(numbers={"name": …})`` says.

    Parameters
    ----------
    own : by name, ``int`` or ``float`` for one number, ``per_arm(float)`` for an array with one number for each arm,
        and ``per_pair(float)`` for a table with one row and one column for each arm.

    Examples
    --------
    >>> from pmbandits.kit import per_arm, state
    >>> unpack = state(level=float, rounds=int, wins=per_arm(float))
    """
    return state(**{OWN_PREFIX + name: kind for name, kind in own.items()})


def per_arm(kind: type) -> Field:
    """Declare an array with one number (``int`` or ``float``) for each arm: ``state(wins=per_arm(float))``."""
    return _own_array(kind, "n_arms")


def per_pair(kind: type) -> Field:
    """Declare a table with one number (``int`` or ``float``) for each pair of arms: ``s.own.beats[i, j]``."""
    return _own_array(kind, "n_arms, n_arms")


def _own_array(kind: type, shape: str) -> Field:
    if kind is not int and kind is not float:
        raise TypeError(f"an array is declared for int or float, got {_validation.short_repr(kind)}.")
    return own_field(kind, shape, "saved", "any" if kind is float else f"-{MOST} … {MOST}")


unpack = state()


# Python may hand a kernel its Memory: tests and readers do.


@typeof_impl.register(Memory)
def _typeof(value: Any, c: Any) -> Any:
    del c
    return StateType(value.places.own)


@unbox(StateType)
def _unbox(kind: Any, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(_state_from_address(c.context, c.builder, kind, address), is_error=c.pyapi.c_api_error())


def _view_without_refcount(typingctx: Any, given: Any) -> Any:
    """A view of an array, or of all arrays of a named tuple, that counts no references: for what the caller holds."""
    del typingctx

    def view(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if not isinstance(kind, types.Array):
            return value
        made = context.make_array(kind)(context, builder, value)
        made.meminfo = Constant(made.meminfo.type, None)
        made.parent = Constant(made.parent.type, None)
        return made._getvalue()

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.return_type
        if isinstance(kind, types.Array):
            return view(context, builder, kind, args[0])
        parts = cgutils.unpack_tuple(builder, args[0])
        return context.make_tuple(
            builder, kind, [view(context, builder, *pair) for pair in zip(kind.types, parts, strict=True)]
        )

    return given(given), codegen


without_refcount: Any = intrinsic(_view_without_refcount)
