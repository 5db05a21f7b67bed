"""Many trials side by side, in lanes: the state of one of them, as an index sees it.

``s`` of an index (``engine/index_policy.py``) is the memory of a policy, or one lane of many. Both have the same names.
A lane has what an index may read: the round, the pulls, rewards and sums of the arms, what follows from the options,
and the numbers that the policy declared. All else is unknown to numba, and nothing can be written: an index that needs
more cannot be compiled for lanes, and its trials are played one by one.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.cgutils import create_struct_proxy, pack_array
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import populate_array

from pmbandits.state.layout import OWN_PREFIX, SIZES, Own
from pmbandits.state.numba_types import (
    StateType,
    _emit_field_read,
    _pointer_to_field,
    _state_from_address,
    _type_of_field,
)

_ROUNDS = (
    "t",
    "rewards",
)  # in simulations with immediate rewards they are equal, and so are pulls and rewards of an arm
_BY_ARM = {"pulls": "pulls", "n_rewards": "pulls", "sums": "sums"}  # the table that has a row for each arm


class LaneType(types.Type):
    """What ``s`` is to numba in a lane: the memory for all that is constant, and two tables with a column a lane."""

    def __init__(self, own: Own = ()) -> None:
        self.state, self.prefix = StateType(own), ""
        super().__init__(name=f"pmbandits.Lane[{self.state.name}]")


class LaneOwnType(types.Type):
    """What ``s.own`` is to numba in a lane."""

    def __init__(self, own: Own) -> None:
        self.state, self.prefix = StateType(own), OWN_PREFIX
        super().__init__(name=f"pmbandits.LaneOwn[{self.state.name}]")


@register_model(LaneType)
@register_model(LaneOwnType)
class _LaneModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        numbers = types.CPointer(types.int64)
        members = [("at", types.int64), ("t", types.int64), ("lane", types.int64), ("width", types.int64)]
        super().__init__(manager, kind, [*members, ("pulls", numbers), ("sums", types.CPointer(types.float64))])


def _constant_type(kind: Any, name: str) -> Any:
    """numba's type of what does not change in a trial; ``None`` if that is not certain."""
    field = kind.state.fields.get(name)
    if name not in SIZES and (field is None or not (_is_own(kind, name) or "fixed" in field.lifecycle)):
        return None
    found = _type_of_field(kind.state, name)
    return found.copy(readonly=True) if isinstance(found, types.Array) else found


def _is_own(kind: Any, name: str) -> bool:
    return name in kind.state.fields and name not in StateType().fields


@infer_getattr
class _LaneAttributes(AttributeTemplate):
    key = LaneType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        if name in _ROUNDS:
            return types.int64
        if name in _BY_ARM:
            return types.Array(types.float64 if name == "sums" else types.int64, 1, "A", readonly=True)
        if name == "own" and kind.state.has_namespace:
            return LaneOwnType(kind.state.own)
        return _constant_type(kind, name)


@infer_getattr
class _LaneOwnAttributes(AttributeTemplate):
    key = LaneOwnType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return _constant_type(kind, OWN_PREFIX + name)


@lower_getattr_generic(LaneType)
def _emit_lane_read(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    s = create_struct_proxy(kind)(context, builder, value)
    if name in _ROUNDS:
        return s.t
    if name == "own":
        return value
    if name not in _BY_ARM:
        return _emit_constant(context, builder, kind, s, name)
    number = types.float64 if name == "sums" else types.int64
    view = context.make_array(types.Array(number, 1, "A", readonly=True))(context, builder)
    size = context.get_constant(types.intp, 8)
    data = builder.gep(getattr(s, _BY_ARM[name]), [s.lane])
    length, stride = _emit_constant(context, builder, kind, s, "n_arms"), builder.mul(s.width, size)
    populate_array(view, data, pack_array(builder, [length]), pack_array(builder, [stride]), size, None)
    return view._getvalue()


@lower_getattr_generic(LaneOwnType)
def _emit_lane_own_read(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    s = create_struct_proxy(kind)(context, builder, value)
    return _emit_constant(context, builder, kind, s, OWN_PREFIX + name)


def _emit_constant(context: Any, builder: Any, kind: Any, s: Any, name: str) -> Any:
    """Emit what reads a field of the memory that does not change while lanes are played, and tell LLVM so."""
    state = _state_from_address(context, builder, kind.state, s.at)
    if name in SIZES or name not in kind.state.singles:
        return _emit_field_read(context, builder, kind.state, state, name)
    word, at = kind.state.singles[name]
    memory = create_struct_proxy(kind.state)(context, builder, state)
    place = _pointer_to_field(context, builder, memory, word, context.get_constant(types.intp, at))
    loaded = builder.load(place)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def lane_state(own: Own) -> Any:
    """Make the function that gives names to one lane: ``s = lane(memory, t, pulls, sums, j)``, in kernels."""
    kind = LaneType(own)

    def lane(typingctx: Any, memory: Any, t: Any, pulls: Any, sums: Any, j: Any) -> Any:
        del typingctx

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tables = [context.make_array(signature.args[n])(context, builder, args[n]) for n in (2, 3)]
            s = create_struct_proxy(kind)(context, builder)
            s.at, s.t, s.lane = args[0], args[1], args[4]
            s.width = builder.extract_value(tables[0].shape, 1)
            s.pulls, s.sums = tables[0].data, tables[1].data
            return s._getvalue()

        return kind(types.int64, types.int64, pulls, sums, types.int64), codegen

    return intrinsic(lane)
