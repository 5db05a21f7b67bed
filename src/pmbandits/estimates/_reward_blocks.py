"""Blocks of rewards: in few intervals how many rewards of each arm lie there, and how far they are from its start.

A pass over all rewards costs more with every round. What lies in a block costs the same in all rounds, and from it
follows the mean of an arm's survival over the block, without error. Where a curve of the survival is concave, its mean
over the block is at most the curve at this mean (Jensen), and at least the chord between the block's ends. The two
differ by the square of what the survival loses in the block. So some hundred blocks enclose a utility to 1e-6.

Blocks begin and end at rewards of each arm, closer together near its least and its largest ones, where sets are
narrow and curves are steep. They are laid out anew when half as many rewards again are in.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.estimates._rewards import SAMPLES, sort_pool
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

N_BLOCK_ENDS = 2050  # ends of blocks that are kept, if any
FEWEST_REWARDS = 1024  # with fewer a pass over all of them is as quick


@step("state -> bool")
def has_reward_blocks(s: State) -> bool:
    """Whether rewards are counted in blocks, which costs less than a pass over them if there are many."""
    return s.n_block_ends > 0 and s.rewards >= FEWEST_REWARDS and s.storage_mode == SAMPLES


@shared("state, float -> int")
def block_of_reward(s: State, reward: float) -> int:
    """The block in which a reward lies; one at an end lies in the block that begins there."""
    lo, hi = 0, s.n_blocks - 1
    while lo < hi:
        middle = (lo + hi + 1) // 2
        if s.block_end[middle] <= reward:
            lo = middle
        else:
            hi = middle - 1
    return lo


@shared("state, int, int -> none")
def count_rewards_in_blocks(s: State, first: int, last: int) -> None:
    """Count the rewards of the pool from place ``first`` up to ``last`` in their blocks."""
    for j in range(first, last):
        block, i = block_of_reward(s, s.x[j]), s.pool_arm[j]
        s.block_count[i, block] += 1
        s.block_excess[i, block] += s.x[j] - s.block_end[block]


@shared("state -> none")
def lay_out_reward_blocks(s: State) -> None:
    """Choose the blocks' ends by the rewards so far, and count these."""
    sort_pool(s)
    k, count, bounded = s.n_arms, s.rewards, s.bounded == 1
    each = (s.n_block_ends - 2) // k
    seen, place = np.zeros(k, np.int64), np.zeros(k, np.int64)
    s.block_end[0] = s.low if bounded else s.x[0]
    last, top = 0, s.high if bounded else s.x[count - 1]
    for j in range(count):
        i, here = s.pool_arm[j], s.x[j]
        wanted = False
        while place[i] < each:
            turn = math.sin(0.5 * math.pi * place[i] / (each - 1.0))
            if seen[i] < int((s.n_rewards[i] - 1) * (turn * turn) + 0.5):
                break
            wanted = True
            place[i] += 1
        seen[i] += 1
        if wanted and s.block_end[last] < here < top:
            last += 1
            s.block_end[last] = here
    s.block_end[last + 1] = top
    s.n_blocks = last + 1
    for i in range(k):
        for block in range(s.n_blocks):
            s.block_count[i, block], s.block_excess[i, block] = 0, 0.0
    count_rewards_in_blocks(s, 0, count)
    s.blocks_laid_out_at = s.n_in_blocks = count


@shared("state -> none")
def update_reward_blocks(s: State) -> None:
    """Count the newest rewards in their blocks; if the pool has changed otherwise, or has grown much, begin anew."""
    count, done = s.rewards, s.n_in_blocks
    anew = done == 0 or done > count or s.n_sorted <= 0 or s.n_sorted > done or 2 * count > 3 * s.blocks_laid_out_at
    if not anew and s.bounded == 0:
        for j in range(done, count):
            if s.x[j] < s.block_end[0] or s.x[j] > s.block_end[s.n_blocks]:
                anew = True
    if anew:
        lay_out_reward_blocks(s)
        return
    count_rewards_in_blocks(s, done, count)
    s.n_in_blocks = count
