"""The steps of a sketch over plain arrays; compiled. See :mod:`pmbandits.estimates.sketch`.

Those who keep many sketches (a policy, one for each arm) keep their arrays and call these.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._random import COIN, philox_random_words
from pmbandits._validation import FloatArray, IntArray
from pmbandits.state.compile import kernel

# header: whole numbers of a sketch; the counts of the levels follow
COUNT, USED, LEVELS, COINS, LIMIT = range(5)
HEADER_LEVELS = 5
MOST_LEVELS = 56
HEADER_SIZE = HEADER_LEVELS + MOST_LEVELS
# stats: its other numbers: Σ 4^h and Σ 2^h over all compactions, the least and the largest number seen, and n times the
# way, in W1, that all compactions together have moved the distribution
SQUARES, SUM, LEAST, MOST, MOVED = range(5)
STATS_SIZE = 5
MIN_LEVEL_CAPACITY = 8  # a level is never compacted with fewer


@kernel
def sketch_level_capacity(k: int, levels: int, h: int) -> int:
    """How many numbers level h holds when there are so many levels: the top k, each below two thirds of it."""
    return max(math.ceil(k * (2.0 / 3.0) ** (levels - 1 - h)), MIN_LEVEL_CAPACITY)


@kernel
def sketch_total_capacity(k: int, levels: int) -> int:
    """How many numbers a sketch with so many levels holds."""
    total = 0
    for h in range(levels):
        total += sketch_level_capacity(k, levels, h)
    return total


# In ``items`` the top level comes first and level 0 last, so a new number is appended at the end.


@kernel
def compact_lowest_full_level(
    header: IntArray, items: FloatArray, stats: FloatArray, k: int, seed: int, stream: int
) -> None:
    """Free space: halve the lowest level that is full."""
    levels, h = header[LEVELS], 0
    while header[HEADER_LEVELS + h] < sketch_level_capacity(k, levels, h):
        h += 1
    if h == levels - 1:
        header[LEVELS] = levels + 1
        header[LIMIT] = sketch_total_capacity(k, levels + 1)
    start = 0
    for above in range(h + 1, levels):
        start += header[HEADER_LEVELS + above]
    count = header[HEADER_LEVELS + h]
    level = items[start : start + count]
    level.sort()
    word, _, _, _ = philox_random_words(
        np.uint64(seed), np.uint64(stream), np.uint64(header[COINS]), np.uint64(0), np.uint64(0), np.uint64(COIN)
    )
    coin = int(word & np.uint64(1))
    pairs = count // 2
    odd = level[count - 1]  # of an odd count one stays behind
    moved = 0.0
    for j in range(pairs):
        moved += level[2 * j + 1] - level[2 * j]
        level[j] = level[2 * j + coin]
    kept = pairs
    if count % 2 == 1:
        level[kept] = odd
        kept += 1
    for j in range(start + count, header[USED]):
        items[j - count + kept] = items[j]
    header[USED] -= count - kept
    header[HEADER_LEVELS + h] = count - 2 * pairs
    header[HEADER_LEVELS + h + 1] += pairs
    header[COINS] += 1
    stats[SQUARES] += 4.0**h
    stats[SUM] += 2.0**h
    stats[MOVED] += 2.0**h * moved


@kernel
def sketch_init(header: IntArray, stats: FloatArray, k: int) -> None:
    """Make the sketch empty."""
    header[:] = 0
    header[LEVELS], header[LIMIT] = 1, sketch_total_capacity(k, 1)
    stats[:] = 0.0
    stats[LEAST], stats[MOST] = np.inf, -np.inf


@kernel
def sketch_add(header: IntArray, items: FloatArray, stats: FloatArray, k: int, seed: int, stream: int, x: float) -> int:
    """Take one number in; returns how many compactions that took."""
    made = 0
    while header[USED] >= header[LIMIT]:
        compact_lowest_full_level(header, items, stats, k, seed, stream)
        made += 1
    items[header[USED]] = x
    header[USED] += 1
    header[COUNT] += 1
    header[HEADER_LEVELS] += 1
    stats[LEAST], stats[MOST] = min(stats[LEAST], x), max(stats[MOST], x)
    return made


@kernel
def sketch_add_many(
    header: IntArray, items: FloatArray, stats: FloatArray, k: int, seed: int, stream: int, values: FloatArray
) -> None:
    for x in values:
        sketch_add(header, items, stats, k, seed, stream, x)


@kernel
def merge_sketch_into(
    header: IntArray,
    items: FloatArray,
    stats: FloatArray,
    k: int,
    seed: int,
    stream: int,
    other_header: IntArray,
    other_items: FloatArray,
    other_stats: FloatArray,
) -> None:
    """Take another sketch of the same k in.

    The coins of the two may be the same (two servers with one seed), so their errors may add up: √Σ4^h adds at worst,
    by Minkowski's inequality, whatever they share. Coins that neither has used come next.
    """
    levels = max(header[LEVELS], other_header[LEVELS])
    both = np.empty(header[USED] + other_header[USED])
    mine, theirs, at = 0, 0, 0
    for h in range(levels - 1, -1, -1):
        for _ in range(header[HEADER_LEVELS + h]):
            both[at] = items[mine]
            mine += 1
            at += 1
        for _ in range(other_header[HEADER_LEVELS + h]):
            both[at] = other_items[theirs]
            theirs += 1
            at += 1
    for h in range(levels):
        header[HEADER_LEVELS + h] += other_header[HEADER_LEVELS + h]
    header[LEVELS], header[USED], header[LIMIT] = levels, at, sketch_total_capacity(k, levels)
    header[COUNT] += other_header[COUNT]
    header[COINS] = max(header[COINS], other_header[COINS])
    stats[SQUARES] = (math.sqrt(stats[SQUARES]) + math.sqrt(other_stats[SQUARES])) ** 2
    stats[SUM] += other_stats[SUM]
    stats[MOVED] += other_stats[MOVED]
    stats[LEAST] = min(stats[LEAST], other_stats[LEAST])
    stats[MOST] = max(stats[MOST], other_stats[MOST])
    while header[USED] > header[LIMIT]:
        compact_lowest_full_level(header, both, stats, k, seed, stream)
    items[: header[USED]] = both[: header[USED]]


@kernel
def fill_sketch_item_weights(header: IntArray, out: IntArray) -> int:
    """For how many rewards each item stands, in the order of ``items``, into ``out``; returns the number of items."""
    at = 0
    for h in range(header[LEVELS] - 1, -1, -1):
        for _ in range(header[HEADER_LEVELS + h]):
            out[at] = 1 << h
            at += 1
    return at


@kernel
def sketch_range(stats: FloatArray) -> float:
    """The distance between the least and the largest number that a sketch has seen."""
    return stats[MOST] - stats[LEAST]


@kernel
def sketch_rank_error_bound(n: int, squares: float, total: float, k: int, delta: float, anytime: bool) -> float:
    """sup_x |F_sketch(x) − F_n(x)| is at most this with probability 1 − δ: now, or at all times together.

    Ties in the data are broken by position. Take every (n/m)-th of the sorted data; between two of these points both
    CDFs only rise, so the error is at most that at a point plus 1/m + 1/n (nothing if all points are taken). At one
    point it is a sum of independent fair signs times 2^h: Hoeffding's √(2·Σ4^h·ln(2/δ)) now; at all times with n ≤ 2^u
    Robbins' mixture √((Σ4^h + ρ)·ln((Σ4^h + ρ)/(ρδ²))), any ρ, and δ is shared over u = 0, 1, … as 1/((u+1)(u+2)). The
    data, so the points too, do not depend on the coins. The best m is taken; it can be named beforehand, since n and
    the compactions do not depend on coins either. Never more than Σ2^h/n, which is sure.
    """
    if squares == 0.0:
        return 0.0
    last = float(n)
    if anytime:
        u = math.ceil(math.log2(max(n, 1)))
        last = 2.0**u
        delta /= (u + 1.0) * (u + 2.0)
        rho = 0.1 * (last / k) ** 2
    best = min(total, float(n))
    points = 2.0
    while True:
        points = min(points, last)
        gap = last / points + 1.0 if points < last else 0.0
        if anytime:
            inside = (squares + rho) * (math.log((squares + rho) / rho) + 2.0 * math.log(points / delta))
        else:
            inside = 2.0 * squares * math.log(2.0 * points / delta)
        best = min(best, math.sqrt(inside) + gap)
        if points >= last or last / points < 1e-3 * best:
            break
        points *= 2.0
    return best / n
