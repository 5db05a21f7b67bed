"""Compiled calls behind ask and tell, which run a policy's choose and update kernels by their address.

In all of them ``memory`` is the address of the policy's memory, and ``choose`` that of its kernel ``choose``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray, IntArray
from pmbandits.estimates._rewards import (
    BAD_REWARD,
    BINARY,
    CHANGED,
    FINITE,
    OK,
    atom_or_bin_index,
    record_reward_in_state,
)
from pmbandits.mixtures._constraint_tracking import SOME_ARMS_BARRED, apply_share_constraints, is_arriving
from pmbandits.state.checked_int import NOT_AN_INT
from pmbandits.state.compile import kernel
from pmbandits.state.linking import make_caller, shared, step
from pmbandits.state.lock import BUSY, KERNEL_TOKEN, try_lock_memory_in_kernel, unlock_memory_in_kernel
from pmbandits.state.memory import Memory
from pmbandits.state.numba_types import unpack

CHOOSE_SIGNATURE, UPDATE_SIGNATURE = "memory -> int", "memory -> none"
choose_by_address, update_by_address = make_caller(CHOOSE_SIGNATURE), make_caller(UPDATE_SIGNATURE)
MIXTURE_TOLERANCE = 1e-6  # by which shares may miss 1 in all
# returned if the policy's own kernel did not count exactly one pull of one of its arms, or left no mixture
INVALID_CHOICE = -2


@step("memory, int -> int", frees=True)
def choose_arm_or_invalid(memory: int, choose: int) -> int:
    """The arm that the policy's kernel at the address ``choose`` picks next, or INVALID_CHOICE.

    Where there are limits on shares, or arms that are not available, the policy's arm is a proposal: it is pulled, or
    another one in its place (``mixtures/_constraint_tracking.py``).
    """
    s = unpack(memory)
    before = s.t
    arm = choose_by_address(choose, memory)
    if arm < 0 or arm >= s.n_arms:
        if arm != -1:  # it is not from ``pull``
            s.refused_arm = arm
        return INVALID_CHOICE
    if s.t != before + 1 or not is_arriving(s, arm):
        return INVALID_CHOICE
    if s.mix_is_feasible == 0:  # a policy of a user: its mixture is looked at, too
        total, least = 0.0, 0.0
        for i in range(s.n_arms):
            total += s.mix[i]
            least = min(least, s.mix[i])
        if not (abs(total - 1.0) <= MIXTURE_TOLERANCE and least >= -MIXTURE_TOLERANCE):
            return INVALID_CHOICE
    if s.constraint_kind != 0:
        return pull_within_constraints(s, arm)
    return arm


@shared("state, int -> int")
def pull_within_constraints(s: Any, proposed: int) -> int:
    """Replace the pull of the ``proposed`` arm, which was just counted, by one that keeps the limits on shares."""
    s.t -= 1
    s.pulls[proposed] -= 1
    s.pending[proposed] -= 1
    arm: int = apply_share_constraints(s, proposed)
    if arm < 0:
        return INVALID_CHOICE
    s.t += 1
    s.pulls[arm] += 1
    s.pending[arm] += 1
    return arm


@step("memory, int, float -> int", frees=True)
def record_reward(memory: int, arm: int, reward: float) -> int:
    """Record one reward of an arm; returns the code of ``record_reward_in_state``: OK, CHANGED or why not."""
    return record_reward_in_state(unpack(memory), arm, reward)


@step("memory, int, int -> int", frees=True)
def choose_with_forced_arm(memory: int, choose: int, arm: int) -> int:
    """Let the policy choose, but count the pull for the given arm; returns the arm that it would have chosen.

    It updates its mixture and draws random numbers as in an ask. A pull for certifying stays one for certifying.
    """
    s = unpack(memory)
    spent = 0
    for i in range(s.certify_pulls.size):
        spent += s.certify_pulls[i]
    own = choose_arm_or_invalid(memory, choose)
    if own in (arm, INVALID_CHOICE):
        return own
    s.pulls[own] -= 1
    s.pending[own] -= 1
    s.pulls[arm] += 1
    s.pending[arm] += 1
    for i in range(s.certify_pulls.size):
        spent -= s.certify_pulls[i]
    if spent < 0:
        s.certify_pulls[own] -= 1
        s.certify_pulls[arm] += 1
    if s.n_limit_rows > 0:
        s.limit_deficit[own] += 1.0
        s.limit_deficit[arm] -= 1.0
    return own


def division_by_0_error(policy: str, kernel: str, memory: Memory) -> ZeroDivisionError:
    """The error to raise when a kernel of a user's policy divided by 0."""
    return ZeroDivisionError(
        f"the kernel {kernel} of {policy}, or one that it calls, divides by 0 after {int(memory.t):,} pulls; look at "
        "the divisor before you divide."
    )


def invalid_choice_error(policy: str, memory: Memory) -> RuntimeError:
    """The error to raise when the choose kernel of a user's policy returned INVALID_CHOICE."""
    refused, n_arms = int(memory.refused_arm), memory.n_arms
    memory.refused_arm = 0
    if 0 <= refused < n_arms and not is_mixture(memory.mix):
        return invalid_mixture_error(policy, memory.mix)
    if 0 <= refused < n_arms:
        what = "it returned another number, or counted no pull, or more than one"
    else:
        what = f"it gave the arm {'NaN, or one beyond all numbers' if refused == NOT_AN_INT else refused}"
    return RuntimeError(
        f"the kernel choose of {policy} must return pull(s, arm), once a round, with an arm from 0 to {n_arms - 1}; "
        f"{what}."
    )


def is_mixture(mixture: FloatArray) -> bool:
    """Whether these are shares: none below 0, and together 1. A row each, if there are several."""
    return bool((mixture >= -MIXTURE_TOLERANCE).all() and (abs(mixture.sum(axis=-1) - 1.0) <= MIXTURE_TOLERANCE).all())


def invalid_mixture_error(policy: str, mixture: FloatArray) -> RuntimeError:
    """The error to raise when the update kernel of a user's policy left something else than shares."""
    return RuntimeError(
        f"the kernels of {policy} must leave shares in s.mix that are at least 0 and add up to 1, but they left "
        f"{_validation.short_repr(mixture.tolist())}, which adds up to {mixture.sum():.6g}."
    )


@kernel
def ask_one_or_busy(choose: int, memory: int) -> int:
    """The next arm, BUSY, or INVALID_CHOICE; ``choose`` is the address of the policy's kernel."""
    s = unpack(memory)
    if s.lock_wanted == 1 or s.n_segments > 0 or not try_lock_memory_in_kernel(s, KERNEL_TOKEN):
        return BUSY
    arm = choose_arm_or_invalid(memory, choose)
    unlock_memory_in_kernel(s, KERNEL_TOKEN)
    return arm


@kernel
def ask_one_of_segment_or_busy(choose: int, memory: int, segment: int) -> int:
    """The column to pull for somebody of a segment, BUSY, or INVALID_CHOICE."""
    s = unpack(memory)
    if s.lock_wanted == 1 or not try_lock_memory_in_kernel(s, KERNEL_TOKEN):
        return BUSY
    s.arriving = segment
    column = choose_arm_or_invalid(memory, choose)
    unlock_memory_in_kernel(s, KERNEL_TOKEN)
    return column


@kernel
def tell_one_or_refuse(memory: int, arm: int, reward: float) -> int:
    """Record one reward; returns OK, or a code that says why it was not recorded."""
    s = unpack(memory)
    if s.lock_wanted == 1 or s.n_segments > 0 or not try_lock_memory_in_kernel(s, KERNEL_TOKEN):
        return BUSY
    code = record_reward(memory, arm, reward)
    unlock_memory_in_kernel(s, KERNEL_TOKEN)
    return code


@kernel
def tell_one_of_segment_or_refuse(memory: int, column: int, reward: float) -> int:
    """Record one reward of a column; returns OK, or a code that says why it was not recorded."""
    s = unpack(memory)
    if s.lock_wanted == 1 or not try_lock_memory_in_kernel(s, KERNEL_TOKEN):
        return BUSY
    code = record_reward(memory, column, reward)
    unlock_memory_in_kernel(s, KERNEL_TOKEN)
    return code


@step("memory, ints, floats -> bool", frees=True)
def can_record_all(memory: int, arms: IntArray, rewards: FloatArray) -> bool:
    """Whether all of these rewards can be recorded as they are: none is wrong, and memory need not change for them."""
    s = unpack(memory)
    n = arms.size
    if n != rewards.size or s.n_segments + s.n_forgetting_counters > 0 or s.rewards + n > s.max_rewards:
        return False
    for i in range(s.n_arms):
        if s.n_rewards[i] + n > s.max_arm_rewards:
            return False
    for j in range(n):
        x = rewards[j]
        if arms[j] < 0 or arms[j] >= s.n_arms or not (x > -np.inf and x < np.inf):
            return False
        if s.storage_mode == BINARY:
            if x not in (0.0, 1.0):
                return False
        elif x < s.low or x > s.high or (s.storage_mode == FINITE and atom_or_bin_index(s, x) < 0):
            return False
    return True


@kernel
def tell_all_or_refuse(memory: int, arms: IntArray, rewards: FloatArray) -> int:
    """Record all rewards; returns OK, or another code if none was recorded, and they are to be looked at one by one."""
    s = unpack(memory)
    if s.lock_wanted == 1 or not try_lock_memory_in_kernel(s, KERNEL_TOKEN):
        return BUSY
    code = OK if can_record_all(memory, arms, rewards) else BAD_REWARD
    if code == OK:
        for j in range(arms.size):
            record_reward(memory, arms[j], rewards[j])
    unlock_memory_in_kernel(s, KERNEL_TOKEN)
    return code


@kernel
def tell_many(memory: int, arms: IntArray, rewards: FloatArray) -> int:
    """Record rewards that were checked, in one uninterruptible step; returns how many were recorded.

    It stops when memory is full, and after a reward with which a change of an arm was detected.
    """
    s = unpack(memory)
    for j in range(arms.size):
        code = record_reward_in_state(s, arms[j], rewards[j])
        if code != OK:
            return j + 1 if code == CHANGED else j
    return arms.size


@step("memory, int -> float")
def propensity(memory: int, arm: int) -> float:
    """The share of an arm in the mixture, within its segment if there are any; of pulls, if that is 0."""
    s = unpack(memory)
    if s.n_segments == 0:
        return s.mix[arm] if s.mix[arm] > 0.0 else s.pulls[arm] / max(s.t, 1)
    total, arrivals = 0.0, 0
    for i in range(s.n_arms):
        if s.segment_of[i] == s.segment_of[arm]:
            total += s.mix[i]
            arrivals += s.pulls[i]
    return s.mix[arm] / total if s.mix[arm] > 0.0 else s.pulls[arm] / max(arrivals, 1)


@step("memory, int, ints, ints, floats -> int", frees=True)
def fill_next_arms_and_shares(memory: int, choose: int, arriving: IntArray, out: IntArray, shares: FloatArray) -> int:
    """Fill ``out`` with the next arms, and ``shares``, unless it is empty, with the propensity of each when chosen.

    ``arriving`` has the segment of each round; it is empty without segments.
    """
    s = unpack(memory)
    for j in range(out.size):
        if arriving.size > 0:
            s.arriving = arriving[j]
        arm = choose_arm_or_invalid(memory, choose)
        if arm == INVALID_CHOICE:
            return INVALID_CHOICE
        out[j] = arm
        if shares.size > 0:
            shares[j] = propensity(memory, arm)
    return OK


@kernel
def fill_next_arms(choose: int, memory: int, arriving: IntArray, out: IntArray, shares: FloatArray) -> int:
    """The next arms, in one step that nothing can interrupt; ``choose`` is the address of the policy's kernel."""
    return fill_next_arms_and_shares(memory, choose, arriving, out, shares)


@kernel
def fill_next_arms_among(
    choose: int, memory: int, arriving: IntArray, unavailable: IntArray, out: IntArray, shares: FloatArray
) -> int:
    """The next arms, chosen only among available ones (where the mask is 0)."""
    s = unpack(memory)
    for i in range(s.n_arms):
        s.unavailable[i] = unavailable[i]
    s.constraint_kind |= SOME_ARMS_BARRED
    code = fill_next_arms_and_shares(memory, choose, arriving, out, shares)
    s.constraint_kind &= SOME_ARMS_BARRED - 1
    return code


@kernel
def replay_events(
    choose: int, memory: int, arms: IntArray, rewards: FloatArray, mask_of: IntArray, masks: IntArray, check: bool,
    code: IntArray,
) -> int:  # fmt: skip
    """Replay checked events for which memory suffices: asks where the reward is NaN, and tells elsewhere.

    An ask in which not all arms were available has the number of its mask in ``mask_of`` (others −1); ``masks`` has
    them one after the other, with 1 for each arm that was not available.

    Returns how many were taken in. That is fewer than there are if ``check`` is true and the policy would have asked
    for another arm, or if something is wrong; then the memory is of no use, and ``code`` says why. Or memory is
    full, or an arm has changed: then the caller handles that and calls again.
    """
    s = unpack(memory)
    for j in range(arms.size):
        if rewards[j] == rewards[j]:
            code[0] = record_reward_in_state(s, arms[j], rewards[j])
            if code[0] != OK:
                return j + 1 if code[0] == CHANGED else j
        else:
            if mask_of[j] >= 0:
                for i in range(s.n_arms):
                    s.unavailable[i] = masks[mask_of[j] * s.n_arms + i]
                s.constraint_kind |= SOME_ARMS_BARRED
            if s.n_segments > 0:
                s.arriving = s.segment_of[arms[j]]
            own = choose_with_forced_arm(memory, choose, arms[j])
            s.constraint_kind &= SOME_ARMS_BARRED - 1
            if own == INVALID_CHOICE:
                code[0] = INVALID_CHOICE
            if own == INVALID_CHOICE or (check and own != arms[j]):
                return j
    return arms.size


@kernel
def record_active_and_inactive_rewards(memory: int, inactive_memory: int, arms: IntArray, rewards: FloatArray) -> int:
    """Record rewards of active arms (position ≥ 0) and of inactive ones (−1 − position); returns how many."""
    s, beside = unpack(memory), unpack(inactive_memory)
    for j in range(arms.size):
        code = (
            record_reward_in_state(s, arms[j], rewards[j])
            if arms[j] >= 0
            else record_reward_in_state(beside, -1 - arms[j], rewards[j])
        )
        if code != OK:
            return j
    return arms.size


@kernel
def count_pull(memory: int, arm: int, main: int, segment: int) -> None:
    """Count a pull that was chosen elsewhere, in one uninterruptible step.

    With segments, the ``main`` memory counts the arrival of the ``segment``; without, that is −1.
    """
    s = unpack(memory)
    s.pulls[arm] += 1
    s.pending[arm] += 1
    s.t += 1
    if segment >= 0:
        unpack(main).earlier_arrivals[segment] += 1
