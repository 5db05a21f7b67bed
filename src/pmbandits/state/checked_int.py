"""``int(x)`` of a float in the kernels of users: a number that is no position, where x is NaN or too large.

numba leaves undefined what ``int`` makes of NaN. Where the compiler can see that x is NaN, it even leaves out what
comes after, such as the check in ``pull``. The kernels of the library look at x before, and are compiled as they are.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import Constant
from numba import types
from numba.core import ir
from numba.core.rewrites.registry import Rewrite, register_rewrite
from numba.extending import intrinsic, overload

from pmbandits.state.compile import KERNELS_OF_USERS

NOT_AN_INT = -(2**63)


def _int_of_float(typingctx: Any, x: Any) -> Any:
    """The whole number of a float, or NOT_AN_INT."""
    del typingctx

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, value = context.get_value_type(signature.return_type), args[0]
        most = Constant(value.type, 2.0**63)
        fits = builder.and_(
            builder.fcmp_ordered("<", value, most), builder.fcmp_ordered(">", value, builder.fneg(most))
        )
        return builder.select(fits, builder.fptosi(value, kind), Constant(kind, NOT_AN_INT))

    return types.int64(x), codegen


_int_of_float_in_kernel: Any = intrinsic(_int_of_float)


def checked_int(x: Any) -> int:
    """What ``int`` means in the kernels of users."""
    return int(x)


@overload(checked_int, strict=False)
def _compile_checked_int(x: Any) -> Any:
    if isinstance(x, types.Float):
        return lambda x: _int_of_float_in_kernel(x)
    return lambda x: int(x)


@register_rewrite("before-inference")
class _CheckInt(Rewrite):
    """Puts ``checked_int`` in the place of ``int`` where it is called; not in ``np.zeros(n, int)``."""

    def match(self, func_ir: Any, block: Any, typemap: Any, calltypes: Any) -> bool:
        """Whether a kernel of a user calls ``int`` in this block."""
        del typemap, calltypes
        self.block, code = block, func_ir.func_id
        if (code.modname, code.func_qualname) not in KERNELS_OF_USERS:
            return False
        called = {call.func.name for call in block.find_exprs(op="call")}
        self.found = [
            line
            for line in block.find_insts(ir.Assign)
            if isinstance(line.value, ir.Global) and line.value.value is int and line.target.name in called
        ]
        return bool(self.found)

    def apply(self) -> Any:
        """The block in which it calls ``checked_int``."""
        for line in self.found:
            line.value = ir.Global("checked_int", checked_int, line.loc)
        return self.block
