"""The steps of a sketch over plain arrays; compiled. See :mod:`pmbandits.estimates.sketch`.

Those who keep many sketches (a policy, one for each arm) keep their arrays and call these.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._random import COIN, philox
from pmbandits.state.compile import kernel

# book: whole numbers of a sketch; the counts of the levels follow
COUNT, USED, LEVELS, COINS, LIMIT = range(5)
BOOK_HEAD = 5
MOST_LEVELS = 56
BOOK = BOOK_HEAD + MOST_LEVELS
# marks: its other numbers: Σ 4^h and Σ 2^h over all compactions, the least and the largest number seen, and n times the
# way, in W1, that all compactions together have moved the distribution
SQUARES, SUM, LEAST, MOST, MOVED = range(5)
MARKS = 5
SMALLEST_LEVEL = 8  # a level is never compacted with fewer


@kernel
def capacity(k, levels, h):
    """How many numbers level h holds when there are so many levels: the top k, each below two thirds of it."""
    return max(math.ceil(k * (2.0 / 3.0) ** (levels - 1 - h)), SMALLEST_LEVEL)


@kernel
def total_capacity(k, levels):
    """How many numbers a sketch with so many levels holds."""
    total = 0
    for h in range(levels):
        total += capacity(k, levels, h)
    return total


# In ``items`` the top level comes first and level 0 last, so a new number is appended at the end.


@kernel
def compact(book, items, marks, k, seed, stream):
    """Make room: halve the lowest level that is full."""
    levels, h = book[LEVELS], 0
    while book[BOOK_HEAD + h] < capacity(k, levels, h):
        h += 1
    if h == levels - 1:
        book[LEVELS] = levels + 1
        book[LIMIT] = total_capacity(k, levels + 1)
    start = 0
    for above in range(h + 1, levels):
        start += book[BOOK_HEAD + above]
    count = book[BOOK_HEAD + h]
    level = items[start : start + count]
    level.sort()
    word, _, _, _ = philox(
        np.uint64(seed), np.uint64(stream), np.uint64(book[COINS]), np.uint64(0), np.uint64(0), np.uint64(COIN)
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
    for j in range(start + count, book[USED]):
        items[j - count + kept] = items[j]
    book[USED] -= count - kept
    book[BOOK_HEAD + h] = count - 2 * pairs
    book[BOOK_HEAD + h + 1] += pairs
    book[COINS] += 1
    marks[SQUARES] += 4.0**h
    marks[SUM] += 2.0**h
    marks[MOVED] += 2.0**h * moved


@kernel
def begin(book, marks, k):
    """An empty sketch."""
    book[:] = 0
    book[LEVELS], book[LIMIT] = 1, total_capacity(k, 1)
    marks[:] = 0.0
    marks[LEAST], marks[MOST] = np.inf, -np.inf


@kernel
def put(book, items, marks, k, seed, stream, x):
    """Take one number in; returns how many compactions that took."""
    made = 0
    while book[USED] >= book[LIMIT]:
        compact(book, items, marks, k, seed, stream)
        made += 1
    items[book[USED]] = x
    book[USED] += 1
    book[COUNT] += 1
    book[BOOK_HEAD] += 1
    marks[LEAST], marks[MOST] = min(marks[LEAST], x), max(marks[MOST], x)
    return made


@kernel
def put_all(book, items, marks, k, seed, stream, values):
    for x in values:
        put(book, items, marks, k, seed, stream, x)


@kernel
def join(book, items, marks, k, seed, stream, other_book, other_items, other_marks):
    """Take another sketch of the same k in.

    The coins of the two may be the same (two servers with one seed), so their errors may add up: √Σ4^h adds at worst,
    by Minkowski's inequality, whatever they share. Coins that neither has used come next.
    """
    levels = max(book[LEVELS], other_book[LEVELS])
    both = np.empty(book[USED] + other_book[USED])
    mine, theirs, at = 0, 0, 0
    for h in range(levels - 1, -1, -1):
        for _ in range(book[BOOK_HEAD + h]):
            both[at] = items[mine]
            mine += 1
            at += 1
        for _ in range(other_book[BOOK_HEAD + h]):
            both[at] = other_items[theirs]
            theirs += 1
            at += 1
    for h in range(levels):
        book[BOOK_HEAD + h] += other_book[BOOK_HEAD + h]
    book[LEVELS], book[USED], book[LIMIT] = levels, at, total_capacity(k, levels)
    book[COUNT] += other_book[COUNT]
    book[COINS] = max(book[COINS], other_book[COINS])
    marks[SQUARES] = (math.sqrt(marks[SQUARES]) + math.sqrt(other_marks[SQUARES])) ** 2
    marks[SUM] += other_marks[SUM]
    marks[MOVED] += other_marks[MOVED]
    marks[LEAST] = min(marks[LEAST], other_marks[LEAST])
    marks[MOST] = max(marks[MOST], other_marks[MOST])
    while book[USED] > book[LIMIT]:
        compact(book, both, marks, k, seed, stream)
    items[: book[USED]] = both[: book[USED]]


@kernel
def spread(book, out):
    """What each number stands for, in the order of ``items``; returns how many numbers there are."""
    at = 0
    for h in range(book[LEVELS] - 1, -1, -1):
        for _ in range(book[BOOK_HEAD + h]):
            out[at] = 1 << h
            at += 1
    return at


@kernel
def error_of(marks, n, k, delta):
    """How far a sketch of n numbers may be from them: sup |F_sketch − F_n|, at all times together."""
    return sketch_error(n, marks[SQUARES], marks[SUM], k, delta, True)


@kernel
def span_of(marks):
    """The distance between the least and the largest number that a sketch has seen."""
    return marks[MOST] - marks[LEAST]


@kernel
def sketch_error(n, squares, total, k, delta, anytime):
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
