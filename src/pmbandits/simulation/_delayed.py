"""Compiled loop that plays one trial whose rewards are delayed, or come in batches.

Rewards on their way wait in a heap: the one that comes first is at its top, and of those that come together the one
that was pulled first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pmbandits._validation import FloatArray
from pmbandits.engine._calls import INVALID_CHOICE, choose_checked
from pmbandits.estimates._rewards import CHANGED, NEEDS_CAPACITY, OK, record
from pmbandits.simulation._kernels import (
    BLOCK_USED_UP,
    CHANGE_DETECTED,
    CHECKPOINT,
    DONE,
    INVALID_ARM,
    MEMORY_FULL,
    PENDING_ARM,
    QUEUE_FULL,
    QUEUE_SIZE,
    REWARD_OF_INACTIVE_ARM,
    REWARD_OUTSIDE_SUPPORT,
    ROUND,
    IntArray,
    PolicyKernels,
    RewardArrays,
    TrialRecord,
    draw_next_reward,
    record_checkpoint,
)
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import unpack, without_refcount

# columns of the heap: the round after which a reward comes, the round of its pull, and the arm of the bandit
DUE_ROUND, PULL_ROUND, PULLED_ARM = range(3)
NEVER = 2**53  # later than any round


class DelayArrays(NamedTuple):
    """Rewards on their way, and the delays of the next rounds.

    Attributes
    ----------
    heap, heap_rewards : the heap, one row for each reward, and the rewards themselves.
    delay_table : by round and arm, after how many rounds a reward comes. One row holds for all rounds, and one column
        for all arms.
    first_round : the round of the first row of ``delay_table``.
    batch : rewards come after every so many rounds only.
    last_round : what would come after this round never comes.
    policy_arms : from arms of the bandit to arms of the policy; −1 for an arm that does not play now.
    """

    heap: IntArray
    heap_rewards: FloatArray
    delay_table: IntArray
    first_round: int
    batch: int
    last_round: int
    policy_arms: IntArray


@shared("table of ints, floats, int, int, int, int, float -> none")
def push_reward(
    heap: IntArray, heap_rewards: FloatArray, size: int, due: int, pulled: int, arm: int, reward: float
) -> None:
    """Push a reward onto a heap of ``size`` rewards, which must have a free row.

    It was pulled from this arm of the bandit in the round ``pulled``, and comes after the round ``due``.
    """
    slot = size
    while slot > 0:
        parent = (slot - 1) // 2
        if heap[parent, DUE_ROUND] < due or (heap[parent, DUE_ROUND] == due and heap[parent, PULL_ROUND] < pulled):
            break
        heap[slot, DUE_ROUND], heap[slot, PULL_ROUND], heap[slot, PULLED_ARM] = (
            heap[parent, DUE_ROUND],
            heap[parent, PULL_ROUND],
            heap[parent, PULLED_ARM],
        )
        heap_rewards[slot] = heap_rewards[parent]
        slot = parent
    heap[slot, DUE_ROUND], heap[slot, PULL_ROUND], heap[slot, PULLED_ARM], heap_rewards[slot] = due, pulled, arm, reward


@shared("table of ints, floats, int -> none")
def pop_reward(heap: IntArray, heap_rewards: FloatArray, size: int) -> None:
    """Remove the reward that is due first from a heap of ``size`` rewards."""
    last = size - 1
    due, pulled = heap[last, DUE_ROUND], heap[last, PULL_ROUND]
    slot = 0
    while 2 * slot + 1 < last:
        child = 2 * slot + 1
        right = child + 1
        if right < last and (
            heap[right, DUE_ROUND] < heap[child, DUE_ROUND]
            or (heap[right, DUE_ROUND] == heap[child, DUE_ROUND] and heap[right, PULL_ROUND] < heap[child, PULL_ROUND])
        ):
            child = right
        if due < heap[child, DUE_ROUND] or (due == heap[child, DUE_ROUND] and pulled < heap[child, PULL_ROUND]):
            break
        heap[slot, DUE_ROUND], heap[slot, PULL_ROUND], heap[slot, PULLED_ARM] = (
            heap[child, DUE_ROUND],
            heap[child, PULL_ROUND],
            heap[child, PULLED_ARM],
        )
        heap_rewards[slot] = heap_rewards[child]
        slot = child
    heap[slot, DUE_ROUND], heap[slot, PULL_ROUND], heap[slot, PULLED_ARM] = due, pulled, heap[last, PULLED_ARM]
    heap_rewards[slot] = heap_rewards[last]


@kernel
def play_delayed(
    policy: PolicyKernels, rewards: RewardArrays, trial: TrialRecord, delays: DelayArrays, stop: int
) -> int:
    """Play as ``play`` does, but the policy gets a reward only after the round in which it is due.

    The reward of an arm that does not play now stays at the top of the heap: the caller passes it to the policy and
    removes it.
    """
    policy, rewards = without_refcount(policy), without_refcount(rewards)
    trial, delays = without_refcount(trial), without_refcount(delays)
    cursor, checkpoints = trial.cursor, trial.checkpoints
    heap, heap_rewards, delay_table, batch = delays.heap, delays.heap_rewards, delays.delay_table, delays.batch
    s = unpack(policy.memory)
    t, size = cursor[ROUND], cursor[QUEUE_SIZE]
    while cursor[CHECKPOINT] < checkpoints.size:
        c = cursor[CHECKPOINT]
        stop_at = min(checkpoints[c], stop)
        while True:
            while size > 0 and heap[0, DUE_ROUND] <= t:
                arm = delays.policy_arms[heap[0, PULLED_ARM]]
                status = record(s, arm, heap_rewards[0]) if arm >= 0 else OK
                if arm < 0 or (status != OK and status != CHANGED):
                    cursor[ROUND], cursor[QUEUE_SIZE] = t, size
                    if arm < 0:
                        return REWARD_OF_INACTIVE_ARM
                    return MEMORY_FULL if status == NEEDS_CAPACITY else REWARD_OUTSIDE_SUPPORT
                pop_reward(heap, heap_rewards, size)
                size -= 1
                if status == CHANGED:
                    cursor[ROUND], cursor[QUEUE_SIZE] = t, size
                    return CHANGE_DETECTED
            if t >= stop_at:
                break
            arm = cursor[PENDING_ARM]  # pulled, but not yet paid
            if arm < 0:
                if size == heap_rewards.size:
                    cursor[ROUND], cursor[QUEUE_SIZE] = t, size
                    return QUEUE_FULL
                arm = choose_checked(policy.memory, policy.choose)
                if arm == INVALID_CHOICE:
                    return INVALID_ARM
            bandit_arm = policy.bandit_arms[arm]
            reward = draw_next_reward(bandit_arm, rewards)
            if math.isnan(reward):
                cursor[PENDING_ARM], cursor[ROUND], cursor[QUEUE_SIZE] = arm, t, size
                return BLOCK_USED_UP
            cursor[PENDING_ARM] = -1
            row = min(t - delays.first_round, delay_table.shape[0] - 1)
            t += 1
            due = t + delay_table[row, min(bandit_arm, delay_table.shape[1] - 1)]
            due = (due + batch - 1) // batch * batch
            if due <= delays.last_round:
                push_reward(heap, heap_rewards, size, due, t, bandit_arm, reward)
                size += 1
        cursor[ROUND], cursor[QUEUE_SIZE] = t, size
        if t < checkpoints[c]:
            return DONE
        record_checkpoint(s, policy, rewards.used, trial, c)
        cursor[CHECKPOINT] = c + 1
    return DONE
