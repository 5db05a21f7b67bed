"""Asking and telling, for Python; and a policy's two kernels, called by address."""

from __future__ import annotations

from pmbandits.estimates._rewards import OK, record
from pmbandits.state.compile import kernel
from pmbandits.state.guard import BUSY, KERNEL, claim, release
from pmbandits.state.shared import caller
from pmbandits.state.views import unpack

CHOOSE, UPDATE = "memory -> int", "memory -> none"
choose_at, update_at = caller(CHOOSE), caller(UPDATE)


@kernel
def ask_one(choose, memory):
    """The next arm, or BUSY; ``choose`` is the address of the policy's kernel."""
    s = unpack(memory)
    if not claim(s, KERNEL):
        return BUSY
    arm = choose_at(choose, memory)
    release(s, KERNEL)
    return arm


@kernel
def tell_one(memory, arm, reward):
    """Take one reward in, or answer why not."""
    s = unpack(memory)
    if not claim(s, KERNEL):
        return BUSY
    code = record(s, arm, reward)
    release(s, KERNEL)
    return code


@kernel
def tell_many(memory, arms, rewards):
    """Take in rewards that were checked, and for which there is room; one step, which nothing can interrupt."""
    s = unpack(memory)
    for j in range(arms.size):
        code = record(s, arms[j], rewards[j])
        if code != OK:
            return code
    return OK


@kernel
def choose_many(choose, memory, out):
    """The next arms, in one step that nothing can interrupt; ``choose`` is the address of the policy's kernel."""
    for j in range(out.size):
        out[j] = choose_at(choose, memory)
