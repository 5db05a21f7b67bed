"""Small steps over arrays that kernels share.

numpy has all of these. Compiled, its versions carry messages for shapes that do not fit, and sorts for every kind of
number, and take seconds to compile; these take none.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.state.linking import shared, step


@step("floats, floats -> none")
def copy_numbers_into(into: FloatArray, source: FloatArray) -> None:
    """Copy the numbers of one array into another of the same length."""
    for i in range(into.size):
        into[i] = source[i]


@step("floats, float -> none")
def fill_array_with(into: FloatArray, number: float) -> None:
    """Write one number everywhere."""
    for i in range(into.size):
        into[i] = number


@step("floats -> float")
def largest_of(x: FloatArray) -> float:
    """The largest number."""
    top = x[0]
    for i in range(1, x.size):
        top = max(top, x[i])
    return top


@step("floats -> float")
def smallest_of(x: FloatArray) -> float:
    """The smallest number."""
    bottom = x[0]
    for i in range(1, x.size):
        bottom = min(bottom, x[i])
    return bottom


@step("floats, floats -> int")
def mark_next_largest(x: FloatArray, taken: FloatArray) -> int:
    """The place of the largest number that is not ``taken`` yet (the first of equals); marks it as taken."""
    best = -1
    for i in range(x.size):
        if taken[i] == 0.0 and (best < 0 or x[i] > x[best]):
            best = i
    taken[best] = 1.0
    return best


@shared("floats -> ints")
def stable_argsort(x: FloatArray) -> IntArray:
    """The order that sorts x; equal numbers stay in their order. Merge sort: runs of 1, 2, 4, … are merged."""
    n = x.size
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    run = 1
    while run < n:
        start = 0
        while start < n:
            middle, end = min(start + run, n), min(start + 2 * run, n)
            left, right = start, middle
            for at in range(start, end):
                if left < middle and (right >= end or x[order[left]] <= x[order[right]]):
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
            start = end
        order, other = other, order
        run *= 2
    return order
