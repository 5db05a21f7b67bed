"""Blocks of time: rewards that came one after the other may depend on each other, and whole blocks less so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pmbandits._validation import FloatArray

_MOST_BLOCKS, _FEWEST_BLOCKS = 32, 8
_FEWEST_ROWS = 4  # of a block, on average
_ALARM = 0.1  # the probability of halving the number of blocks though rewards are independent
_STILL_DEPENDENT = 0.01  # the probability of saying that rewards depend on each other for too long, though they do not


def time_blocks_and_whether_dependent(
    arm: NDArray[np.int64], reward: FloatArray, time: FloatArray
) -> tuple[NDArray[np.int64] | None, bool]:
    """The block of time of each row, and whether even whole blocks depend on the ones before.

    Blocks have about the same number of rows, and rows of the same time are in one block. There are 32 of them, or
    half or a quarter of that as long as neighbouring blocks of an arm are alike (the method of batch means). ``None``
    if there are too few rows or times for blocks.
    """
    known = np.isfinite(time)
    if not known.all():
        time = np.where(known, time, np.min(time[known], initial=0.0))
    _, at, counts = np.unique(time, return_inverse=True, return_counts=True)
    first = (np.cumsum(counts) - counts)[at]  # how many rows are earlier
    blocks = _MOST_BLOCKS
    while blocks > _FEWEST_BLOCKS and (counts.size < blocks or time.size < _FEWEST_ROWS * blocks):
        blocks //= 2
    if counts.size < blocks or time.size < _FEWEST_ROWS * blocks:
        return None, False
    while True:
        block = first * blocks // time.size
        z, arms = _neighbour_block_correlation_z(arm, reward, block, blocks)
        dependent = z > float(ndtri(1.0 - _STILL_DEPENDENT / max(arms, 1)))
        if z <= float(ndtri(1.0 - _ALARM / max(arms, 1))) or blocks == _FEWEST_BLOCKS:
            return np.unique(block, return_inverse=True)[1].astype(np.int64), dependent and blocks == _FEWEST_BLOCKS
        blocks //= 2
        if blocks == _FEWEST_BLOCKS and dependent:
            return np.unique(first * blocks // time.size, return_inverse=True)[1].astype(np.int64), True


def _neighbour_block_correlation_z(
    arm: NDArray[np.int64], reward: FloatArray, block: NDArray[np.int64], blocks: int
) -> tuple[float, int]:
    """The largest z of the correlation between neighbouring blocks of an arm (by its ranks), and of how many arms."""
    from scipy.stats import rankdata

    largest, arms = -np.inf, 0
    for k in range(int(arm.max()) + 1):
        mine = np.flatnonzero(arm == k)
        if mine.size < _FEWEST_ROWS * _FEWEST_BLOCKS:
            continue
        rank = rankdata(reward[mine])
        rows = np.bincount(block[mine], minlength=blocks)
        total = np.bincount(block[mine], weights=rank - rank.mean(), minlength=blocks)
        score = np.where(rows > 0, total / np.sqrt(np.maximum(rows, 1)), 0.0)
        seen = np.flatnonzero(rows)
        if seen.size > 4:  # a steady rise or fall is not dependence: the check for drift finds it
            score[seen] -= np.polyval(np.polyfit(seen, score[seen], 1), seen)
        power = float(score @ score)
        pairs = int(((rows[1:] > 0) & (rows[:-1] > 0)).sum())
        if power == 0.0 or pairs < 4:
            continue
        arms += 1
        expected = -2.0 / blocks  # because a line was taken out
        largest = max(largest, (float(score[1:] @ score[:-1]) / power - expected) * blocks / np.sqrt(pairs))
    return float(largest), arms
