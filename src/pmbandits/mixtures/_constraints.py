"""Mixtures that keep the limits on shares: the best of them for a linear function, and starts for searches; compiled.

Limits on single arms are a box, and the best mixture fills up the best arms first. Where one limit is on several arms,
it is found by the simplex method. All searches need no more than that. Only for metrics that are convex the vertices
themselves are of use (``corners``), where there are not too many of them.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.mixtures._constraint_tracking import max_excess_over_limits, next_largest_index
from pmbandits.mixtures._segments import fill_segment_frequencies
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

SIMPLEX_TOLERANCE = 1e-11  # what counts as 0 in the simplex method, relative to the largest slope


@step("floats, floats, floats -> none")
def fill_box_centre(low: FloatArray, high: FloatArray, out: FloatArray) -> None:
    """The centre of a box: every arm is equally far, relatively, from its least share to its largest."""
    rest, width = 1.0, 0.0
    for i in range(out.size):
        rest -= low[i]
        width += high[i] - low[i]
    for i in range(out.size):
        out[i] = low[i] + (rest / width * (high[i] - low[i]) if width > 0.0 else 0.0)


@step("floats, floats, floats, float, floats -> none")
def fill_linear_maximiser_in_box(
    g: FloatArray, low: FloatArray, high: FloatArray, total: float, out: FloatArray
) -> None:
    """The b of a box that adds up to ``total``, with the largest ⟨g, b⟩: the best arms are filled up first."""
    rest, last = total, -1
    for i in range(out.size):
        out[i] = low[i]
        rest -= low[i]
    for _ in range(out.size):
        if rest <= 0.0:
            break
        last = next_largest_index(g, last)
        more = min(high[last] - low[last], rest)
        out[last] += more
        rest -= more


@shared("table, floats, floats, floats, floats -> none")
def fill_linear_maximiser_within_rows(
    rows: FloatArray, bounds: FloatArray, g: FloatArray, out: FloatArray, behind: FloatArray
) -> None:
    """The mixture b with rows·b ≤ bounds and the largest ⟨g, b⟩, into ``out``: the simplex method, in two phases.

    ``behind`` gets by how much the slope of each arm would have to be larger for the arm to have a share in the best
    mixture (its reduced cost); 0 for arms that have one. There must be a mixture that keeps the limits.

    A row of the tableau says what a basic variable is: an arm, the slack of a limit, or −1 for what a limit lacks in
    the first phase. Where moves gain nothing for long, the first one that may gain is taken (Bland), so it ends.
    """
    m, k = rows.shape
    n = k + m
    tableau, basis, gain = np.zeros((m + 1, n + 1)), np.empty(m + 1, np.int64), np.empty(n)
    size = 1e-300
    for i in range(k):
        size = max(size, abs(g[i]))
    for r in range(m + 1):
        sign = -1.0 if r < m and bounds[r] < 0.0 else 1.0
        for j in range(k):
            tableau[r, j] = sign * rows[r, j] if r < m else 1.0
        tableau[r, n] = sign * bounds[r] if r < m else 1.0
        basis[r] = -1
        if r < m:
            tableau[r, k + r] = sign
            basis[r] = k + r if sign > 0.0 else -1
    for pivots in range(20 * n):
        lacking = 0.0
        for r in range(m + 1):
            lacking += tableau[r, n] if basis[r] < 0 else 0.0
        first_phase = lacking > SIMPLEX_TOLERANCE
        enter, most = -1, SIMPLEX_TOLERANCE
        for j in range(n):
            total = 0.0 if first_phase or j >= k else g[j] / size
            for r in range(m + 1):
                if first_phase:
                    total += tableau[r, j] if basis[r] < 0 else 0.0
                elif basis[r] >= 0 and basis[r] < k:
                    total -= g[basis[r]] / size * tableau[r, j]
            gain[j] = total
            if total > most and (pivots < 4 * n or enter < 0):
                enter, most = j, total
        if enter < 0:
            break
        leave, ratio = -1, np.inf
        for r in range(m + 1):
            entry = tableau[r, enter]
            if basis[r] < 0 and not first_phase and abs(entry) > SIMPLEX_TOLERANCE:
                leave, ratio = r, -1.0  # what a limit lacked stays 0
            elif entry > SIMPLEX_TOLERANCE:
                here = tableau[r, n] / entry
                if here < ratio or (here == ratio and basis[r] < basis[leave]):
                    leave, ratio = r, here
        if leave < 0:
            break
        entry = tableau[leave, enter]
        for j in range(n + 1):
            tableau[leave, j] /= entry
        for r in range(m + 1):
            factor = tableau[r, enter]
            if r != leave and factor != 0.0:
                for j in range(n + 1):
                    tableau[r, j] -= factor * tableau[leave, j]
                tableau[r, n] = max(tableau[r, n], 0.0)
        basis[leave] = enter
    fill_array_with(out, 0.0)
    for r in range(m + 1):
        if basis[r] >= 0 and basis[r] < k:
            out[basis[r]] = tableau[r, n]
    for i in range(k):
        behind[i] = max(-gain[i] * size, 0.0)


@shared("state, floats, floats, floats -> none")
def fill_linear_maximiser_within_limits(s: State, g: FloatArray, out: FloatArray, behind: FloatArray) -> None:
    """The mixture b within limits on several arms with the largest ⟨g, b⟩, and what arms lack for a share in it.

    With segments, the weights of each add up to how often it came: one more row for each, because all together are 1.
    If no mixture keeps the limits with these frequencies, they are left aside.
    """
    if s.n_segments <= 1:
        fill_linear_maximiser_within_rows(s.limit_rows, s.limit_bounds, g, out, behind)
        return
    n, k, total = s.n_limit_rows, s.n_arms, 0.0
    rows, bounds = np.zeros((n + s.n_segments, k)), np.empty(n + s.n_segments)
    fill_segment_frequencies(s, bounds[n:])
    for r in range(n):
        bounds[r] = s.limit_bounds[r]
        for i in range(k):
            rows[r, i] = s.limit_rows[r, i]
    for i in range(k):
        rows[n + s.segment_of[i], i] = 1.0
    fill_linear_maximiser_within_rows(rows, bounds, g, out, behind)
    for i in range(k):
        total += out[i]
    if abs(total - 1.0) > 1e-6:
        fill_linear_maximiser_within_rows(rows[n:], bounds[n:], g, out, behind)


@shared("state, floats, floats -> none")
def fill_linear_maximiser(s: State, g: FloatArray, out: FloatArray) -> None:
    """The mixture b within the limits with the largest ⟨g, b⟩, into ``out``."""
    if s.n_limit_rows > 0:
        fill_linear_maximiser_within_limits(s, g, out, np.empty(s.n_arms))
    elif s.n_limited > 0:
        fill_linear_maximiser_in_box(g, s.min_shares, s.max_shares, 1.0, out)
    else:
        top = 0
        for i in range(1, s.n_arms):
            top = i if g[i] > g[top] else top
        fill_array_with(out, 0.0)
        out[top] = 1.0


@step("state, floats, floats -> none")
def shrink_box_to_limits_in_place(s: State, low: FloatArray, high: FloatArray) -> None:
    """Make a box no wider than the limits on single arms."""
    for i in range(s.n_limited):
        low[i], high[i] = max(low[i], s.min_shares[i]), min(high[i], s.max_shares[i])


@step("floats, floats, floats -> bool")
def is_in_box(a: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Whether a mixture lies in a box, up to rounding."""
    inside = True
    for i in range(a.size):
        inside &= a[i] >= low[i] - 1e-12 and a[i] <= high[i] + 1e-12
    return inside


@step("floats, floats -> bool")
def is_same_mixture(a: FloatArray, b: FloatArray) -> bool:
    """Whether two mixtures are the same, up to rounding."""
    largest_difference = 0.0
    for i in range(a.size):
        largest_difference = max(largest_difference, abs(a[i] - b[i]))
    return largest_difference <= 1e-9


@shared("state, floats -> bool")
def keeps_limits(s: State, a: FloatArray) -> bool:
    """Whether a mixture keeps the limits, up to rounding."""
    if s.n_limit_rows > 0:
        return max_excess_over_limits(s, a, 1.0) <= 1e-9
    return s.n_limited == 0 or is_in_box(a, s.min_shares, s.max_shares)


@shared("state, floats -> none")
def make_feasible_start_in_place(s: State, a: FloatArray) -> None:
    """Replace a by a feasible start for a search: the mixture b within the limits with the largest ⟨a, b⟩."""
    if s.n_limited > 0:
        fill_linear_maximiser(s, a.copy(), a)
