"""Asking and telling, for Python; and a policy's two kernels, called by address."""

from __future__ import annotations

from pmbandits.estimates._rewards import CHANGED, OK, record
from pmbandits.mixtures._gate import SOME
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


@step("memory, int, int -> int", frees=True)
def choice_of(memory, choose, arm):
    """Let the policy choose as ever, but count the pull for this arm; answers the arm that it would have taken.

    Its looks and its random numbers are those of an ask. If the pull was one for certifying, it is that now, too.
    """
    s = unpack(memory)
    spent = 0
    for i in range(s.sure_pulls.size):
        spent += s.sure_pulls[i]
    own = choice(memory, choose)
    if own in (arm, WRONG):
        return own
    s.pulls[own] -= 1
    s.pending[own] -= 1
    s.pulls[arm] += 1
    s.pending[arm] += 1
    for i in range(s.sure_pulls.size):
        spent -= s.sure_pulls[i]
    if spent < 0:
        s.sure_pulls[own] -= 1
        s.sure_pulls[arm] += 1
    if s.n_rows > 0:
        s.owed[own] += 1.0
        s.owed[arm] -= 1.0
    return own


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
    """Take in rewards that were checked, in one step that nothing can interrupt; returns how many it took.

    It stops where there is no room, and after a reward with which an arm has changed.
    """
    s = unpack(memory)
    for j in range(arms.size):
        code = record(s, arms[j], rewards[j])
        if code != OK:
            return j + 1 if code == CHANGED else j
    return arms.size


@kernel
def choose_many(choose, memory, out):
    """The next arms, in one step that nothing can interrupt; ``choose`` is the address of the policy's kernel."""
    for j in range(out.size):
        out[j] = choice(memory, choose)
        if out[j] == WRONG:
            return WRONG
    return OK


@kernel
def choose_among(choose, memory, barred, out):
    """The same while some arms (those where ``barred`` is 1) are not available."""
    s = unpack(memory)
    for i in range(s.n_arms):
        s.barred[i] = barred[i]
    s.gate |= SOME
    code = OK
    for j in range(out.size):
        out[j] = choice(memory, choose)
        if out[j] == WRONG:
            code = WRONG
            break
    s.gate &= SOME - 1
    return code


@kernel
def follow(choose, memory, arms, rewards, check, code):
    """Take in events that were checked, and for which there is room: asks where the reward is NaN, and tells.

    Returns how many were taken in. That is fewer than there are if ``check`` is true and the policy would have asked
    for another arm, or if something is wrong; then the memory is of no use, and ``code`` says what it was. Or there is
    no room, or an arm has changed: then it goes on when that was dealt with.
    """
    s = unpack(memory)
    for j in range(arms.size):
        if rewards[j] == rewards[j]:
            code[0] = record(s, arms[j], rewards[j])
            if code[0] != OK:
                return j + 1 if code[0] == CHANGED else j
        else:
            own = choice_of(memory, choose, arms[j])
            if own == WRONG:
                code[0] = WRONG
            if own == WRONG or (check and own != arms[j]):
                return j
    return arms.size


@kernel
def tell_both(memory, shelf, arms, rewards):
    """The same for arms that play, and for those on a shelf (−1 and below: −1 − the place there)."""
    s, beside = unpack(memory), unpack(shelf)
    for j in range(arms.size):
        code = record(s, arms[j], rewards[j]) if arms[j] >= 0 else record(beside, -1 - arms[j], rewards[j])
        if code != OK:
            return j
    return arms.size


@kernel
def count_pull(memory, arm):
    """Count a pull that nobody chose here; one step, which nothing can interrupt."""
    s = unpack(memory)
    s.pulls[arm] += 1
    s.pending[arm] += 1
    s.asked += 1
