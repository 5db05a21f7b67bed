"""The loop that plays a trial whose rewards come late, or in batches; compiled.

Rewards on their way wait in a heap: the one that comes first is at its top, and of those that come together the one
that was pulled first.
"""

from __future__ import annotations

import math

from pmbandits.estimates._rewards import CHANGED, NEEDS_ROOM, OK, record
from pmbandits.policies._steps import WRONG, choice
from pmbandits.simulation._kernels import (
    ARM_CHANGED,
    CHECKPOINT,
    DONE,
    NEEDS_BLOCK,
    NEEDS_MEMORY,
    NEEDS_QUEUE,
    NEEDS_TELLING,
    REFUSED,
    ROUND,
    WAITING,
    WRONG_CHOICE,
    look,
    next_reward,
)
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.state.views import borrowed, unpack

SIZE = 3  # of the cursor: how many rewards are on their way
DUE, PULLED, WHOSE = range(3)  # of the heap: after which round a reward is told, in which it was pulled, and the arm
NEVER = 2**53  # later than any round


@shared("table of ints, floats, int, int, int, int, float -> none")
def push(heap, paid, size, due, pulled, arm, reward):
    """Put a reward on its way; there must be room."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if heap[above, DUE] < due or (heap[above, DUE] == due and heap[above, PULLED] < pulled):
            break
        heap[at, DUE], heap[at, PULLED], heap[at, WHOSE] = heap[above, DUE], heap[above, PULLED], heap[above, WHOSE]
        paid[at] = paid[above]
        at = above
    heap[at, DUE], heap[at, PULLED], heap[at, WHOSE], paid[at] = due, pulled, arm, reward


@shared("table of ints, floats, int -> none")
def pop(heap, paid, size):
    """Take the reward at the top away, of so many."""
    last = size - 1
    due, pulled = heap[last, DUE], heap[last, PULLED]
    at = 0
    while 2 * at + 1 < last:
        below = 2 * at + 1
        right = below + 1
        if right < last and (
            heap[right, DUE] < heap[below, DUE]
            or (heap[right, DUE] == heap[below, DUE] and heap[right, PULLED] < heap[below, PULLED])
        ):
            below = right
        if due < heap[below, DUE] or (due == heap[below, DUE] and pulled < heap[below, PULLED]):
            break
        heap[at, DUE], heap[at, PULLED], heap[at, WHOSE] = heap[below, DUE], heap[below, PULLED], heap[below, WHOSE]
        paid[at] = paid[below]
        at = below
    heap[at, DUE], heap[at, PULLED], heap[at, WHOSE] = due, pulled, heap[last, WHOSE]
    paid[at] = paid[last]


@kernel
def play_late(
    choose, update, memory, words, changing, before, key, used, words_of, kinds, parameters, starts, points, levels,
    blocks, block_at, seats, stop, checkpoints, cursor, pulls, mixture, ends, places, heap, paid, waits, first, batch,
    last,
):  # fmt: skip
    """Like ``play``, but a reward is told after the round in which it is due.

    The reward of round r is due after round r + ``waits[r − 1 − first]`` (of the arm, if there is a column for each;
    one row holds for all rounds), and then at the end of a ``batch``. What is due after the round ``last`` never comes.
    ``places`` says which arm of the policy each arm of the bandit is, −1 if it does not play now: its reward is
    handed over, at ``paid[0]`` and ``heap[0]``, to be told and taken away.
    """
    words, before, key, used, words_of, kinds, parameters = (
        borrowed(words), borrowed(before), borrowed(key), borrowed(used), borrowed(words_of), borrowed(kinds),
        borrowed(parameters),
    )  # fmt: skip
    starts, points, levels, blocks, block_at, checkpoints, cursor, seats = (
        borrowed(starts), borrowed(points), borrowed(levels), borrowed(blocks), borrowed(block_at),
        borrowed(checkpoints), borrowed(cursor), borrowed(seats),
    )  # fmt: skip
    places, heap, paid, waits = borrowed(places), borrowed(heap), borrowed(paid), borrowed(waits)
    s = unpack(memory)
    now, size = cursor[ROUND], cursor[SIZE]
    while cursor[CHECKPOINT] < checkpoints.size:
        c = cursor[CHECKPOINT]
        until = min(checkpoints[c], stop)
        while True:
            while size > 0 and heap[0, DUE] <= now:
                arm = places[heap[0, WHOSE]]
                code = record(s, arm, paid[0]) if arm >= 0 else OK
                if arm < 0 or (code != OK and code != CHANGED):
                    cursor[ROUND], cursor[SIZE] = now, size
                    return NEEDS_TELLING if arm < 0 else NEEDS_MEMORY if code == NEEDS_ROOM else REFUSED
                pop(heap, paid, size)
                size -= 1
                if code == CHANGED:
                    cursor[ROUND], cursor[SIZE] = now, size
                    return ARM_CHANGED
            if now >= until:
                break
            arm = cursor[WAITING]  # pulled, but not yet paid
            if arm < 0:
                if size == paid.size:
                    cursor[ROUND], cursor[SIZE] = now, size
                    return NEEDS_QUEUE
                arm = choice(memory, choose)
                if arm == WRONG:
                    return WRONG_CHOICE
            seat = seats[arm]
            reward = next_reward(seat, key, used, words_of, kinds, parameters, starts, points, levels, blocks, block_at)
            if math.isnan(reward):
                cursor[WAITING], cursor[ROUND], cursor[SIZE] = arm, now, size
                return NEEDS_BLOCK
            cursor[WAITING] = -1
            row = min(now - first, waits.shape[0] - 1)
            now += 1
            due = now + waits[row, min(seat, waits.shape[1] - 1)]
            due = (due + batch - 1) // batch * batch
            if due <= last:
                push(heap, paid, size, due, now, seat, reward)
                size += 1
        cursor[ROUND], cursor[SIZE] = now, size
        if now < checkpoints[c]:
            return DONE
        look(memory, s, update, words, changing, before, used, seats, c, pulls, mixture, ends)
        cursor[CHECKPOINT] = c + 1
    return DONE
