"""A policy's two kernels, called by address: which arm to pull, and which mixture to name."""

from __future__ import annotations

from pmbandits.state.compile import kernel
from pmbandits.state.shared import caller

CHOOSE, UPDATE = "memory -> int", "memory -> none"
choose_at, update_at = caller(CHOOSE), caller(UPDATE)


@kernel
def choose_many(choose, memory, out):
    """The next arms, in one step that nothing can interrupt; ``choose`` is the address of the policy's kernel."""
    for j in range(out.size):
        out[j] = choose_at(choose, memory)
