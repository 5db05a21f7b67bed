"""Who may touch a memory: one thread at a time.

A word of the memory says whether somebody is at work in it. Kernels that Python calls for one ask or one tell claim it
with one atomic instruction, which costs some nanoseconds; a lock of Python's would cost more than the kernels
themselves. If it is taken they answer :data:`BUSY` and do nothing, and Python waits (``LockedMemory._with_lock``). Who
waits says so in another word, and then single asks and tells wait, too: otherwise threads that ask all the time would
leave no moment for a thread that wants to read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import create_struct_proxy
from numba.extending import intrinsic

from pmbandits.state.compile import kernel
from pmbandits.state.layout import SCALARS
from pmbandits.state.memory import Memory
from pmbandits.state.numba_types import unpack

_intrinsic: Any = intrinsic  # the compiler gives the first argument, which callers leave out

BUSY = -1  # what a kernel answers if somebody else is at work
KERNEL_TOKEN = 1  # the token of kernels that take and give back a memory in one call; Python's are larger


def emit_unlock(builder: Any, address: Any, token: int = KERNEL_TOKEN) -> None:
    """Emit what gives the memory at an address back, if it is taken with this token."""
    word = ir.IntType(64)
    at = builder.gep(builder.inttoptr(address, word.as_pointer()), [ir.Constant(word, SCALARS["lock_token"][1])])
    builder.cmpxchg(at, ir.Constant(word, token), ir.Constant(word, 0), "acq_rel", "acquire")


def _emit_compare_and_swap_of_lock(context: Any, builder: Any, signature: Any, args: Any, *, claims: bool) -> Any:
    """Emit what puts the token into the word of the lock if it is free, or the other way round."""
    state = create_struct_proxy(signature.args[0])(context, builder, args[0])
    word = builder.gep(state.at, [context.get_constant(types.intp, SCALARS["lock_token"][1])])
    free = ir.Constant(ir.IntType(64), 0)
    return builder.cmpxchg(word, *((free, args[1]) if claims else (args[1], free)), "acq_rel", "acquire")


@_intrinsic
def try_lock_memory_in_kernel(typingctx: Any, s: Any, token: Any) -> Any:
    """Take the memory for whoever has this token, if nobody has it; says whether that worked."""
    del typingctx

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = _emit_compare_and_swap_of_lock(context, builder, signature, args, claims=True)
        return builder.zext(builder.extract_value(result, 1), context.get_value_type(types.boolean))

    return types.boolean(s, types.int64), codegen


@_intrinsic
def unlock_memory_in_kernel(typingctx: Any, s: Any, token: Any) -> Any:
    """Give the memory back, if it is taken with this token."""
    del typingctx

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _emit_compare_and_swap_of_lock(context, builder, signature, args, claims=False)
        return context.get_dummy_value()

    return types.none(s, types.int64), codegen


@kernel
def try_lock_memory(memory: int, token: int) -> bool:
    """For Python: take the memory, if nobody has it; if somebody has, say that one waits."""
    s = unpack(memory)
    got: bool = try_lock_memory_in_kernel(s, token)
    s.lock_wanted = 0 if got else 1
    return got


@kernel
def unlock_memory(memory: int, token: int) -> None:
    """For Python: give the memory back if it was taken with this token, and wait for it no longer."""
    s = unpack(memory)
    s.lock_wanted = 0
    unlock_memory_in_kernel(s, token)


@cache
def compile_lock_kernels() -> None:
    """Compile both lock kernels now, so that Ctrl-C cannot come between taking and giving back a memory."""
    memory = Memory.allocate({})
    try_lock_memory(memory.address, KERNEL_TOKEN)
    unlock_memory(memory.address, KERNEL_TOKEN)
