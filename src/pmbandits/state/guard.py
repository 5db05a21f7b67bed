"""Who may touch a memory: one thread at a time.

A word of the memory says whether somebody is at work in it. Kernels that Python calls for one ask or one tell claim it
with one atomic instruction, which costs some nanoseconds; a lock of Python's would cost more than the kernels
themselves. If it is taken they answer :data:`BUSY` and do nothing, and Python waits (see ``Policy._alone``).
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core.cgutils import create_struct_proxy
from numba.extending import intrinsic

from pmbandits.state.compile import kernel
from pmbandits.state.layout import SINGLES
from pmbandits.state.views import StateType, unpack

BUSY = -1  # what a kernel answers if somebody else is at work


def _word(context, builder, s):
    return builder.gep(s.at, [context.get_constant(types.intp, SINGLES["busy"][1])])


@intrinsic
def claim(typingctx, s):
    """Take the memory, if nobody has it; says whether that worked."""
    del typingctx
    if not isinstance(s, StateType):
        return None

    def codegen(context, builder, signature, args):
        state = create_struct_proxy(signature.args[0])(context, builder, args[0])
        zero, one = (ir.Constant(ir.IntType(64), number) for number in (0, 1))
        result = builder.cmpxchg(_word(context, builder, state), zero, one, "acq_rel", "acquire")
        return builder.zext(builder.extract_value(result, 1), context.get_value_type(types.boolean))

    return types.boolean(s), codegen


@intrinsic
def release(typingctx, s):
    """Give the memory back."""
    del typingctx
    if not isinstance(s, StateType):
        return None

    def codegen(context, builder, signature, args):
        state = create_struct_proxy(signature.args[0])(context, builder, args[0])
        builder.store_atomic(ir.Constant(ir.IntType(64), 0), _word(context, builder, state), "release", 8)
        return context.get_dummy_value()

    return types.none(s), codegen


@kernel
def claim_memory(memory):
    """For Python: take the memory, if nobody has it."""
    return claim(unpack(memory))


@kernel
def release_memory(memory):
    """For Python: give the memory back."""
    release(unpack(memory))
