"""Asking and telling, for Python; and a policy's two kernels, called by address."""

from __future__ import annotations

from pmbandits.estimates._rewards import OK, record
from pmbandits.state.compile import kernel
from pmbandits.state.guard import BUSY, KERNEL, claim, release
from pmbandits.state.shared import caller, step
from pmbandits.state.views import unpack

CHOOSE, UPDATE = "memory -> int", "memory -> none"
choose_at, update_at = caller(CHOOSE), caller(UPDATE)
WRONG = -2  # what the kernels here answer if the policy's own did not count one pull of one of the arms


@step("memory, int -> int", frees=True)
def choice(memory, choose):
    """The arm that the policy's kernel at the address ``choose`` takes next, or WRONG."""
    s = unpack(memory)
    before = s.asked
    arm = choose_at(choose, memory)
    return arm if arm >= 0 and arm < s.n_arms and s.asked == before + 1 else WRONG


@step("memory, int, float -> int", frees=True)
def taken(memory, arm, reward):
    """Take one reward in; see ``record``."""
    return record(unpack(memory), arm, reward)


def wrong_choice(policy: str, n_arms: int) -> RuntimeError:
    """The error for a policy of one's own that answered WRONG."""
    return RuntimeError(
        f"the kernel choose of {policy} must return pull(s, arm), once a round, with an arm from 0 to {n_arms - 1}; "
        "it returned another number, or counted no pull, or more than one."
    )


@kernel
def ask_one(choose, memory):
    """The next arm, BUSY, or WRONG; ``choose`` is the address of the policy's kernel."""
    s = unpack(memory)
    if s.waiting == 1 or not claim(s, KERNEL):
        return BUSY
    arm = choice(memory, choose)
    release(s, KERNEL)
    return arm


@kernel
def tell_one(memory, arm, reward):
    """Take one reward in, or answer why not."""
    s = unpack(memory)
    if s.waiting == 1 or not claim(s, KERNEL):
        return BUSY
    code = taken(memory, arm, reward)
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
        out[j] = choice(memory, choose)
        if out[j] == WRONG:
            return WRONG
    return OK
