"""Mixtures that keep the limits on shares: the furthest of them in a direction, and starts for searches; compiled.

Limits on single arms are a box, and the furthest mixture fills up the best arms first. Where one limit is on several
arms, the corners of what keeps all limits are known, and every mixture is an average of them: so a corner is treated
like an arm.
"""

from __future__ import annotations

import numpy as np

from pmbandits.mixtures._constraint_tracking import JOINT_LIMITS, max_excess, next_largest_index
from pmbandits.mixtures._index import dot
from pmbandits.state.arrays import copy_into, fill_with
from pmbandits.state.linking import shared, step


@step("floats, floats, floats -> none")
def box_centre(low, high, out):
    """The centre of a box: every arm is equally far, relatively, from its least share to its largest."""
    rest, width = 1.0, 0.0
    for i in range(out.size):
        rest -= low[i]
        width += high[i] - low[i]
    for i in range(out.size):
        out[i] = low[i] + (rest / width * (high[i] - low[i]) if width > 0.0 else 0.0)


@step("floats, floats, floats, floats -> none")
def maximise_linear_in_box(g, low, high, out):
    """The mixture b of a box with the largest ⟨g, b⟩: the best arms are filled up first."""
    rest, last = 1.0, -1
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


@shared("state, floats -> int")
def best_vertex_in_direction(s, g):
    """The corner with the largest ⟨g, corner⟩; the first of equals."""
    best, most = 0, -np.inf
    for c in range(s.n_corners):
        value = dot(s.corners[c], g)
        if value > most:
            best, most = c, value
    return best


@shared("state, floats, floats -> none")
def maximise_linear(s, g, out):
    """The mixture b within the limits with the largest ⟨g, b⟩, into ``out``."""
    if s.constraint_kind & JOINT_LIMITS == JOINT_LIMITS:
        copy_into(out, s.corners[best_vertex_in_direction(s, g)])
    elif s.n_limited > 0:
        maximise_linear_in_box(g, s.min_shares, s.max_shares, out)
    else:
        top = 0
        for i in range(1, s.n_arms):
            top = i if g[i] > g[top] else top
        fill_with(out, 0.0)
        out[top] = 1.0


@step("state, floats, floats -> none")
def intersect_box_with_limits(s, low, high):
    """Make a box no wider than the limits on single arms."""
    for i in range(s.n_limited):
        low[i], high[i] = max(low[i], s.min_shares[i]), min(high[i], s.max_shares[i])


@step("floats, floats, floats -> bool")
def is_in_box(a, low, high):
    """Whether a mixture lies in a box, up to rounding."""
    inside = True
    for i in range(a.size):
        inside &= a[i] >= low[i] - 1e-12 and a[i] <= high[i] + 1e-12
    return inside


@step("state, floats, floats -> none")
def average_of_vertices(s, shares, out):
    """The average of all vertices with the weights ``shares``, into ``out``."""
    fill_with(out, 0.0)
    for c in range(s.n_corners):
        if shares[c] > 0.0:
            for i in range(s.n_arms):
                out[i] += shares[c] * s.corners[c, i]


@step("floats, floats -> bool")
def is_same_mixture(a, b):
    """Whether two mixtures are the same, up to rounding."""
    largest_difference = 0.0
    for i in range(a.size):
        largest_difference = max(largest_difference, abs(a[i] - b[i]))
    return largest_difference <= 1e-9


@shared("state, floats -> floats")
def vertex_weights(s, a):
    """The mixture a as an average of corners; if that is not known, a becomes the average of all of them."""
    shares = s.corner_weights.copy()
    trial = np.empty(s.n_arms)
    average_of_vertices(s, shares, trial)
    if is_same_mixture(trial, a):
        return shares
    for c in range(s.n_corners):
        if is_same_mixture(s.corners[c], a):
            fill_with(shares, 0.0)
            shares[c] = 1.0
            return shares
    fill_with(shares, 1.0 / s.n_corners)
    average_of_vertices(s, shares, a)
    return shares


@shared("state, floats -> bool")
def keeps_limits(s, a):
    """Whether a mixture keeps the limits, up to rounding."""
    if s.constraint_kind & JOINT_LIMITS == JOINT_LIMITS:
        return max_excess(s, a, 1.0) <= 1e-9
    return s.n_limited == 0 or is_in_box(a, s.min_shares, s.max_shares)


@shared("state, floats -> none")
def make_feasible_start(s, a):
    """Replace a by a feasible start for a search: the mixture b within the limits with the largest ⟨a, b⟩."""
    if s.n_limited > 0:
        maximise_linear(s, a.copy(), a)
