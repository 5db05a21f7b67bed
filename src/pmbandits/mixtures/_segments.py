"""Segments of a population: the weights of a segment's columns add up to how often it comes; compiled.

A column is a pair of a segment and an arm (``pmbandits/segments.py``), and is what all kernels call an arm. The columns
of a segment lie side by side. Without segments, all arms are one segment, and its weights add up to 1.

A segment is *open* once each of its columns has a reward. Before that its weights are the shares played so far.

What is ``shared`` here is compiled only when there are segments: others ask for it after a look at ``s.n_segments``.
"""

from __future__ import annotations

from pmbandits._validation import FloatArray, IntArray
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State


@step("ints, int, int -> int")
def end_of_segment(segment_of: IntArray, start: int, n_columns: int) -> int:
    """The column after the last one of the segment whose first column is ``start``."""
    if segment_of.size == 0:
        return n_columns
    end = start + 1
    while end < n_columns and segment_of[end] == segment_of[start]:
        end += 1
    return end


@step("state, int -> int")
def segment_number(s: State, i: int) -> int:
    """The segment of a column; 0 without segments."""
    return s.segment_of[i] if s.n_segments > 0 else 0


@shared("state, int -> two ints")
def columns_of_segment(s: State, segment: int) -> tuple[int, int]:
    """The first column of a segment, and the one after its last; without segments, of all arms."""
    if s.n_segments == 0:
        return 0, s.n_arms
    start = 0
    while start < s.n_arms and s.segment_of[start] != segment:
        start += 1
    return start, end_of_segment(s.segment_of, start, s.n_arms)


@shared("state, int, int -> int")
def n_pulls_of_columns(s: State, start: int, end: int) -> int:
    """The pulls of a segment, whose columns are those from ``start`` to before ``end``."""
    if s.n_segments <= 1:
        return s.t
    total = 0
    for i in range(start, end):
        total += s.pulls[i]
    return total


@shared("state, int, int -> int")
def n_elapsed_rounds_of_columns(s: State, start: int, end: int) -> int:
    """The pulls of a segment, or its rewards if there are more."""
    if s.n_segments <= 1:
        return max(s.t, s.rewards)
    rewards = 0
    for i in range(start, end):
        rewards += s.n_rewards[i]
    return max(n_pulls_of_columns(s, start, end), rewards)


@step("state, int, int -> bool")
def have_all_paid(s: State, start: int, end: int) -> bool:
    """Whether each of the columns from ``start`` to before ``end`` has a reward."""
    all_paid = True
    for i in range(start, end):
        all_paid &= s.n_rewards[i] > 0
    return all_paid


@step("state, floats, int, int -> float")
def weight_of_columns(s: State, a: FloatArray, start: int, end: int) -> float:
    """What the weights of a segment add up to in the mixture a; exactly 1 if there are not several segments."""
    if s.n_segments <= 1:
        return 1.0
    total = 0.0
    for i in range(start, end):
        total += a[i]
    return total


@shared("state, floats -> none")
def fill_segment_frequencies(s: State, out: FloatArray) -> None:
    """How often each segment came so far, among those that have rewards, into ``out``; together 1.

    Where shares are limited, among those that are open.
    """
    fill_array_with(out, 0.0)
    start, total = 0, 0.0
    while start < s.n_arms:
        end, segment = end_of_segment(s.segment_of, start, s.n_arms), segment_number(s, start)
        arrivals, rewards = s.earlier_arrivals[segment] if s.n_segments > 0 else 0, 0
        for i in range(start, end):
            arrivals += s.pulls[i]
            rewards += s.n_rewards[i]
        if rewards > 0 and (s.n_limited == 0 or have_all_paid(s, start, end)):
            out[segment] = float(max(arrivals, rewards))
            total += out[segment]
        start = end
    for segment in range(out.size):
        out[segment] /= max(total, 1.0)


@shared("state, floats -> none")
def move_mix_to_frequencies(s: State, totals: FloatArray) -> None:
    """Make the weights of each segment in ``s.mix`` add up to its total.

    Weights of an open segment keep their proportions, or become equal if there were none. Others are those played.
    """
    start = 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        total, all_paid = totals[segment_number(s, start)], have_all_paid(s, start, end)
        weight, played = 0.0, 0
        for i in range(start, end):
            weight += s.mix[i]
            played += max(s.pulls[i], s.n_rewards[i]) if s.n_rewards[i] > 0 else 0
        for i in range(start, end):
            if not all_paid:
                s.mix[i] = total * max(s.pulls[i], s.n_rewards[i]) / played if s.n_rewards[i] > 0 else 0.0
            elif weight > 0.0:
                s.mix[i] *= total / weight
            else:
                s.mix[i] = total / (end - start)
        start = end


@shared("state, floats -> none")
def fill_least_weights(s: State, low: FloatArray) -> None:
    """The least weight of each column in a search, into ``low``: 0; in segments that are not open, what it has."""
    fill_array_with(low, 0.0)
    start = 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        if not have_all_paid(s, start, end):
            for i in range(start, end):
                low[i] = s.mix[i]
        start = end
