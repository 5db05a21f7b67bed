"""The best mixture over the whole simplex, without a grid: compiled, warm-started, certified.

For concave h the empirical utility, the largest utility inside the bands, and either with a bonus added are concave
in the weights. So with the slopes G_i at a mixture a, no mixture b is better than a by more than ⟨G, b − a⟩, and the
largest of that is the ``gap``. Weight moves from the arm with the least slope to the one with the greatest, as far as
that helps, until the gap is small. All slopes together cost one pass over the rewards, however many arms there are.

h enters by its slope between u − e and u + e. With e below half a reward's weight nothing is lost, and h needs no
derivative: corners and vertical ends are rounded by less than the rewards can show.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.confidence._kernels import CONCAVE, CONVEX
from pmbandits.metrics._kernels import h_max, h_min, h_value
from pmbandits.policies import _state as st
from pmbandits.policies._state import (
    ARMS,
    ATOMS,
    BAND,
    BINARY,
    BOUNDED,
    CURRENT,
    DIRTY,
    FINITE,
    FLOOR,
    HIGH,
    HOLDER_C,
    HOLDER_Q,
    KIND,
    LIPSCHITZ,
    LOOK_AT,
    LOW,
    MODE,
    OPTIMISTIC,
    PESSIMISTIC,
    REWARDS,
    SHAPE,
    SHARE,
    TIE,
    TOLERANCE,
    WIDE_AT,
)

UTILITY, BANDS, POOLED, BONUS = range(4)  # what is maximised: U; the most in the bands; U + 𝓛·Σ a·r; U + 𝓛·Σ (a·r)^q
EXACT = 1e-9  # e for certificates


@kernel
def slope(h, u, e):
    """The slope of h between u − e and u + e."""
    lo, hi = max(u - e, 0.0), min(u + e, 1.0)
    if h[0] == 1.0 and h[4] == 8.0:  # the Gini deviation alone
        return h[5] * (1.0 - lo - hi)
    return (h_value(h, hi) - h_value(h, lo)) / (hi - lo)


@kernel
def empirical_slopes(whole, a, e, out):
    """∂U_h/∂a_i of the mixture of the empirical laws.

    The sum over cells of width·h'(S)·S_i, where S_i is the share of arm i's rewards that lie above. Summed the other
    way round it is the mean, over arm i's rewards x, of Φ(x) = Σ width·h'(S) over the cells below x.
    """
    s = st.parts(whole)
    k, h = s.size[ARMS], s.h
    out[:] = 0.0
    if s.size[MODE] == BINARY:
        u = 0.0
        for i in range(k):
            u += a[i] * st.share_of_ones(s.whole, i)
        steep = slope(h, u, e)
        for i in range(k):
            out[i] = steep * st.share_of_ones(s.whole, i)
        return
    inverse = st.inverses(s.told)
    u, phi = 1.0, 0.0
    if s.size[MODE] == FINITE:
        m, points, counts = s.size[ATOMS], s.points, s.counts
        drop = np.zeros(m)
        for i in range(k):
            each = a[i] * inverse[i]
            if each > 0.0:
                for c in range(m):
                    drop[c] += each * counts[i, c]
        for c in range(m):
            if c > 0:
                phi += (points[c] - points[c - 1]) * slope(h, u, e)
            u -= drop[c]
            drop[c] = phi
        for i in range(k):
            total = 0.0
            for c in range(m):
                total += counts[i, c] * drop[c]
            out[i] = total * inverse[i]
        return
    st.tidy(s.whole)
    x, owner = s.x, s.owner
    before = x[0]
    for c in range(st.pooled(s)):
        here, i = x[c], owner[c]
        if here > before:
            phi += (here - before) * slope(h, u, e)
            before = here
        each = inverse[i] * st.stands_for(s, c)
        out[i] += phi * each
        u -= a[i] * each


@kernel
def band_slopes(whole, a, e, out):
    """The slopes of the largest U_h inside the bands, for concave h.

    In each cell the mixture's survival may lie between low and high, and is best at high where h rises there, at low
    where h falls there, else at the peak between, where more weight changes nothing.
    """
    s = st.parts(whole)
    k, h = s.size[ARMS], s.h
    out[:] = 0.0
    if s.size[MODE] == BINARY:
        low, high = st.dot(a, s.lower), st.dot(a, s.upper)
        up, down = slope(h, high, e), slope(h, low, e)
        for i in range(k):
            out[i] = up * s.upper[i] if up > 0.0 else down * s.lower[i] if down < 0.0 else 0.0
        return
    st.tidy(s.whole)
    finite = s.size[MODE] == FINITE
    cells = s.size[ATOMS] if finite else st.pooled(s)
    inverse = st.inverses(s.told)
    left = np.empty(k)
    floor, top = np.empty(k), np.empty(k)  # each arm's own lowest and highest survival here
    since_up, since_down = np.zeros(k), np.zeros(k)  # Φ when they last changed
    for i in range(k):
        left[i], floor[i], top[i] = s.told[i], max(1.0 - s.radius[i], 0.0), 1.0
    low, high, up, down = st.dot(a, floor), st.dot(a, top), 0.0, 0.0
    before = s.knobs[LOW]
    for c in range(cells + 1):
        here = s.knobs[HIGH]
        if c < cells:
            here = s.points[c] if finite else s.x[c]
        if here > before:
            rising = slope(h, high, e)
            if rising > 0.0:
                up += (here - before) * rising
            else:
                down += (here - before) * min(slope(h, low, e), 0.0)
            before = here
        if c == cells:
            break
        first, last = (0, k) if finite else (s.owner[c], s.owner[c] + 1)
        for i in range(first, last):
            gone = s.counts[i, c] if finite else st.stands_for(s, c)
            if gone > 0:
                out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]
                since_up[i], since_down[i] = up, down
                left[i] -= gone
                share = left[i] * inverse[i]
                lower, upper = max(share - s.radius[i], 0.0), min(share + s.radius[i], 1.0)
                low += a[i] * (lower - floor[i])
                high += a[i] * (upper - top[i])
                floor[i], top[i] = lower, upper
    for i in range(k):
        out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]


@shared("state, floats, int, floats, float, floats -> none")
def slopes(whole, a, kind, far, e, out):
    """The slopes of what is maximised; ``far`` holds the arms' radii in W1."""
    s = st.parts(whole)
    if kind == BANDS:
        band_slopes(whole, a, e, out)
        return
    empirical_slopes(whole, a, e, out)
    q = s.knobs[HOLDER_Q]
    if kind == POOLED:
        for i in range(a.size):
            out[i] += s.knobs[LIPSCHITZ] * far[i]
    elif kind == BONUS:
        for i in range(a.size):
            if q == 1.0:
                out[i] += s.knobs[HOLDER_C] * far[i]
            elif far[i] > 0.0:
                lo, hi = max(a[i] - e, 0.0) * far[i], (a[i] + e) * far[i]
                out[i] += s.knobs[HOLDER_C] * (hi**q - lo**q) / (hi - lo) * far[i]


@kernel
def most_ahead(g, a, low, high):
    """max ⟨g, b − a⟩ over the mixtures b between low and high: the best arms filled up first."""
    rest, total = 1.0, 0.0
    for i in range(a.size):
        rest -= low[i]
        total += g[i] * (low[i] - a[i])
    order = np.argsort(-g)
    for i in order:
        more = min(high[i] - low[i], rest)
        total += g[i] * more
        rest -= more
        if rest <= 0.0:
            break
    return max(total, 0.0)


@kernel
def walk(whole, a, low, high, way, lead, room, first, kind, far, e, most, kept):
    """How far to go from a along a way that rises by ``lead`` at first, and the passes that this took.

    The way ends where it still rises, if only a little, so the utility never falls. ``kept`` gets the slopes there.
    """
    k = a.size
    trial, there = np.empty(k), np.empty(k)
    step, left, ahead, right, behind = min(first, room), 0.0, lead, -1.0, 0.0
    passes = 0
    while passes < min(most, 24):
        for m in range(k):
            trial[m] = min(max(a[m] + step * way[m], low[m]), high[m])
        slopes(whole, trial, kind, far, e, there)
        passes += 1
        along = st.dot(there, way)
        if along >= 0.0:
            left, ahead = step, along
            kept[:] = there
            if along <= 0.25 * lead or step >= room:
                break
        else:
            right, behind = step, along
        if right < 0.0:  # nowhere downhill yet: along the secant, a little short of the peak
            further = 10.0 * left
            if ahead < lead:
                further = min(further, left * 0.9 * lead / (lead - ahead))
            step = min(max(further, 2.0 * left), room)
        else:
            share = (ahead - 0.1 * lead) / (ahead - behind)
            step = left + (right - left) * min(max(share, 0.02), 0.9)
            if step <= left or step >= right or right - left < 1e-15:
                break
    return left, passes


@shared("state, floats, floats, floats, int, floats, float, float, int -> float")
def climb(whole, a, low, high, kind, far, e, goal, most):
    """Improve the mixture a in place, within low ≤ a ≤ high, until the gap is at most the goal; returns the gap.

    Weight moves from arm to arm; after every two moves, along what they added up to, as far as that helps (parallel
    tangents: where the utility is a long ridge, single moves would zigzag). At most about ``most`` passes.
    """
    k = a.size
    g, kept, way, since = np.empty(k), np.empty(k), np.empty(k), a.copy()
    slopes(whole, a, kind, far, e, g)
    passes, stride, moves = 1, 1.0, 0
    while True:
        gap = most_ahead(g, a, low, high)
        if gap <= goal or passes >= most:
            return gap
        room, lead = np.inf, 0.0
        if moves == 2:
            for m in range(k):
                way[m] = a[m] - since[m]
                if way[m] > 0.0:
                    room = min(room, (high[m] - a[m]) / way[m])
                elif way[m] < 0.0:
                    room = min(room, (low[m] - a[m]) / way[m])
            lead = st.dot(g, way)
        if lead > 0.0 and room > 0.0:
            left, used = walk(whole, a, low, high, way, lead, room, 1.0, kind, far, e, most - passes, kept)
        else:
            i, j = -1, -1
            for m in range(k):
                if a[m] < high[m] and (i < 0 or g[m] > g[i]):
                    i = m
                if a[m] > low[m] and (j < 0 or g[m] < g[j]):
                    j = m
            if i < 0 or j < 0 or not g[i] > g[j]:
                return gap
            way[:] = 0.0
            way[i], way[j] = 1.0, -1.0
            room = min(a[j] - low[j], high[i] - a[i])
            left, used = walk(whole, a, low, high, way, g[i] - g[j], room, stride, kind, far, e, most - passes, kept)
            if left == 0.0:  # a corner: nothing to gain along this pair
                return gap
            stride = max(4.0 * left, 1e-6)
        passes += used
        moves += 1
        moves %= 3
        if left > 0.0:
            for m in range(k):
                a[m] = min(max(a[m] + left * way[m], low[m]), high[m])
            g[:] = kept
        if moves == 0:
            since[:] = a


@kernel
def fineness(whole, share):
    """How close to the best mixture an answer must be: a share of what chance does to the estimates."""
    s = st.parts(whole)
    n = s.clock[REWARDS]
    span = s.knobs[HIGH] - s.knobs[LOW]
    if s.size[MODE] == st.SAMPLES:
        st.tidy(s.whole)
        span = s.x[st.pooled(s) - 1] - s.x[0]
    return share * span * (h_max(s.h, 0.0, 1.0) - h_min(s.h, 0.0, 1.0)) / math.sqrt(n)


@kernel
def grain(whole):
    """Half of what a reward weighs; atoms that rewards share can show more."""
    s = st.parts(whole)
    return (0.5 if s.size[MODE] == st.SAMPLES else 0.05) / s.clock[REWARDS]


@shared("state, floats, floats, floats, int, floats -> float")
def maximise(whole, a, low, high, kind, far):
    """Climb to the top. Where corners of h hold that up, first with h well rounded, then as it is."""
    s = st.parts(whole)
    e, goal, most = grain(whole), fineness(whole, s.knobs[SHARE]), 40 + 2 * a.size
    gap = climb(whole, a, low, high, kind, far, e, goal, most)
    if gap > goal:
        climb(whole, a, low, high, kind, far, 0.1, goal, most)
        gap = climb(whole, a, low, high, kind, far, e, goal, most)
    return gap


@shared("state, floats -> none")
def arm_utilities(whole, out):
    """U_h of every arm alone, in one pass over the rewards."""
    s = st.parts(whole)
    k, h = s.size[ARMS], s.h
    inverse, one = st.inverses(s.told), h_value(s.h, 1.0)
    if s.size[MODE] != st.SAMPLES:
        for i in range(k):
            left, before = s.told[i], s.points[0]
            out[i] = before * one
            for c in range(s.size[ATOMS]):
                if s.counts[i, c] > 0:
                    out[i] += (s.points[c] - before) * h_value(h, left * inverse[i])
                    left -= s.counts[i, c]
                    before = s.points[c]
        return
    st.tidy(s.whole)
    left, before = s.told.copy(), np.empty(k)
    for c in range(st.pooled(s)):
        i, here = s.owner[c], s.x[c]
        if left[i] == s.told[i]:
            out[i] = here * one
        else:
            out[i] += (here - before[i]) * h_value(h, left[i] * inverse[i])
        before[i] = here
        left[i] -= st.stands_for(s, c)


# ---- the best empirical mixture -------------------------------------------------------------------------


@kernel
def move_mean(whole):
    """Bernoulli arms: U_h = h(mean), so go to the nearest best mean, towards the arm beyond it. Closed form."""
    s = st.parts(whole)
    k, a = s.size[ARMS], s.mix
    low, high, mean = 0, 0, 0.0
    p = np.empty(k)
    for i in range(k):
        p[i] = st.share_of_ones(s.whole, i)
        mean += a[i] * p[i]
        low = i if p[i] < p[low] else low
        high = i if p[i] > p[high] else high
    best = h_max(s.h, p[low], p[high])
    slack = TIE * max(1.0, abs(best))
    if h_value(s.h, mean) >= best - slack:
        return
    goal = p[low]
    if h_value(s.h, p[low]) < best - slack or (h_value(s.h, p[high]) >= best - slack and p[high] - mean < mean - goal):
        goal = p[high]
    near = abs(goal - mean) if h_value(s.h, goal) >= best - slack else np.inf
    at = 4 + 4 * int(s.h[0])
    for m in range(int(s.h[1])):
        u = s.h[at + 2 * m]
        if p[low] < u < p[high] and s.h[at + 2 * m + 1] >= best - slack and abs(u - mean) < near:
            goal, near = u, abs(u - mean)
    end = high if goal > mean else low
    part = min(max((goal - mean) / (p[end] - mean), 0.0), 1.0)
    total = 0.0
    for i in range(k):
        a[i] *= 1.0 - part
        if i == end:
            a[i] += part
        total += a[i]
    for i in range(k):
        a[i] /= total


@kernel
def best_arm(whole):
    """Convex h: some arm alone is best; the one being played if it is among them."""
    s = st.parts(whole)
    k = s.size[ARMS]
    value = np.empty(k)
    arm_utilities(whole, value)
    top = np.max(value)
    slack = TIE * max(1.0, abs(top))
    for i in range(k):
        if s.mix[i] == 1.0 and value[i] >= top - slack:
            return
    chosen = 0
    while value[chosen] < top - slack:
        chosen += 1
    s.mix[:] = 0.0
    s.mix[chosen] = 1.0


@shared("state, float -> none")
def best_of_many(whole, goal):
    """Neither concave nor convex: climb from where we are and, when a tenth more is known, from elsewhere too.

    Elsewhere: the even mixture, the eight best arms and, up to five arms, the middle of every pair; with h smoothed
    less and less. No certificate: the answer is the best that was found.
    """
    s = st.parts(whole)
    k, n = s.size[ARMS], s.clock[REWARDS]
    none, one, far = np.zeros(k), np.ones(k), np.zeros(k)
    fine, most = grain(whole), 12 + 2 * k
    a = s.mix.copy()
    climb(whole, a, none, one, UTILITY, far, fine, goal, most)
    best = st.utility(s.whole, s.mix)
    if n >= s.clock[WIDE_AT]:
        s.clock[WIDE_AT] = n + max(1, n // 10)
        value = np.empty(k)
        arm_utilities(whole, value)
        order = np.argsort(-value)
        pairs = k * (k - 1) // 2 if k <= 5 else 0
        for start in range(-1, 1 + min(k, 8) + pairs):
            b = np.zeros(k)
            if start < 0:
                b[:] = a
            elif start == 0:
                b[:] = 1.0 / k
            elif start <= min(k, 8):
                b[order[start - 1]] = 1.0
            else:
                at = start - 1 - min(k, 8)
                for i in range(k):
                    if at < k - 1 - i:
                        b[i], b[i + 1 + at] = 0.5, 0.5
                        break
                    at -= k - 1 - i
            for e in (0.1, 0.02, fine):
                climb(whole, b, none, one, UTILITY, far, max(e, fine), goal, most)
                found = st.utility(s.whole, b)
                if found > best + goal:
                    best = found
                    s.mix[:] = b
    else:
        found = st.utility(s.whole, a)
        if found > best + goal:
            s.mix[:] = a


@shared("state -> none")
def best_mixture(whole):
    """Bring the mixture up to date: the largest empirical utility over all mixtures; tied, stay."""
    s = st.parts(whole)
    if not st.ready(s):
        return
    n, k, share = s.clock[REWARDS], s.size[ARMS], s.knobs[SHARE]
    if s.size[MODE] == BINARY:
        move_mean(whole)
    elif s.size[SHAPE] == CONVEX:
        best_arm(whole)
    elif s.size[SHAPE] == CONCAVE:
        maximise(whole, s.mix, np.zeros(k), np.ones(k), UTILITY, np.zeros(k))
    else:
        best_of_many(whole, fineness(whole, share))
    s.clock[LOOK_AT] = n + (1 if s.size[MODE] == BINARY else 1 + int(share * n))
    s.clock[DIRTY] = 0


# ---- what any mixture could still be worth --------------------------------------------------------------


@shared("state -> float")
def all_cells(whole):
    """A bound for every mixture and any h: in each cell the best between the lowest and the highest arm."""
    s = st.parts(whole)
    k, bounded, finite = s.size[ARMS], s.size[BOUNDED] == 1, s.size[MODE] == FINITE
    banded = s.size[KIND] == BAND
    st.tidy(s.whole)
    cells = s.size[ATOMS] if finite else st.pooled(s)
    inverse, left = st.inverses(s.told), s.told.copy()
    before = s.knobs[LOW] if bounded else s.x[0]
    total = before * h_value(s.h, 1.0)
    for c in range(cells + 1):
        if c == cells and not bounded:
            break
        here = s.knobs[HIGH]
        if c < cells:
            here = s.points[c] if finite else s.x[c]
        if here > before:
            low, high = 1.0, 0.0
            for i in range(k):
                wide = s.radius[i] if banded else 0.0
                low = min(low, max(left[i] * inverse[i] - wide, 0.0))
                high = max(high, min(left[i] * inverse[i] + wide, 1.0))
            total += (here - before) * h_max(s.h, low, high)
            before = here
        if c < cells:
            if finite:
                for i in range(k):
                    left[i] -= s.counts[i, c]
            else:
                left[s.owner[c]] -= st.stands_for(s, c)
    return total + (s.knobs[st.OFFSET] if banded else 0.0)


@kernel
def most_of_any(ints, floats):
    """What no mixture's utility exceeds while every arm's law is in its confidence set."""
    s = st.unpack(ints, floats)
    whole, k = s.whole, s.size[ARMS]
    st.refresh(whole)
    if s.size[MODE] == BINARY:
        return h_max(s.h, np.min(s.lower), np.max(s.upper))
    if not st.ready(s):
        return np.inf if s.size[BOUNDED] == 0 else all_cells(whole)
    best = -np.inf
    if s.size[SHAPE] == CONVEX:
        for i in range(k):
            alone = np.zeros(k)
            alone[i] = 1.0
            best = max(best, st.bound(whole, alone, OPTIMISTIC))
        return best
    ball = s.size[KIND] == st.BALL
    if ball and s.size[BOUNDED] == 1:  # W1 balls: by the Hölder pair (infinite without one)
        worst = s.knobs[HOLDER_C] * np.max(s.radius) ** s.knobs[HOLDER_Q] if s.knobs[HOLDER_C] > 0.0 else np.inf
        return min(all_cells(whole) + worst, span_bound(s.h, s.knobs[LOW], s.knobs[HIGH]))
    plain = all_cells(whole) + (s.knobs[LIPSCHITZ] * np.max(s.radius) if ball else 0.0)
    if s.size[SHAPE] != CONCAVE:
        return plain
    far = s.radius.copy()
    kind = POOLED if ball else BANDS
    a = s.mix.copy()
    maximise(whole, a, np.zeros(k), np.ones(k), kind, far)
    gap = climb(whole, a, np.zeros(k), np.ones(k), kind, far, EXACT, np.inf, 1)
    # Between u − e and u + e the slope is not h's own; the gap misses what h does there, at most.
    span = s.knobs[HIGH] - s.knobs[LOW] if s.size[BOUNDED] == 1 else s.x[st.pooled(s) - 1] - s.x[0]
    rough = h_max(s.h, 0.0, 2.0 * EXACT) - h_min(s.h, 0.0, 2.0 * EXACT)
    rough += h_max(s.h, 1.0 - 2.0 * EXACT, 1.0) - h_min(s.h, 1.0 - 2.0 * EXACT, 1.0)
    return min(st.bound(whole, a, OPTIMISTIC) + gap + span * (rough + 4.0 * EXACT), plain)


@kernel
def span_bound(h, lo, hi):
    """What U_h cannot exceed on [lo, hi]."""
    return lo * h_value(h, 1.0) + (hi - lo) * h_max(h, 0.0, 1.0)


# ---- the paper's algorithms without their grids ---------------------------------------------------------


@kernel
def index_of(whole, a, kind, far):
    """The value of what is maximised."""
    s = st.parts(whole)
    if kind == UTILITY:
        return st.utility(whole, a)
    if kind != BONUS:
        return st.bound(whole, a, OPTIMISTIC)
    total = 0.0
    for i in range(a.size):
        total += (a[i] * far[i]) ** s.knobs[HOLDER_Q]
    return st.utility(whole, a) + s.knobs[HOLDER_C] * total


@shared("state, floats, float, int, floats -> none")
def best_corner(whole, a, floor, kind, far):
    """Convex: the best of the mixtures that give all to one arm but the floor to each; tied, stay; else the first."""
    s = st.parts(whole)
    k = s.size[ARMS]
    value, corner = np.empty(k), np.empty(k)
    for i in range(k):
        corner[:] = floor
        corner[i] = 1.0 - (k - 1) * floor
        value[i] = index_of(whole, corner, kind, far)
    top = np.max(value)
    slack = TIE * max(1.0, abs(top))
    chosen = -1
    for i in range(k):
        if value[i] >= top - slack and (chosen < 0 or a[i] == 1.0 - (k - 1) * floor):
            chosen = i
    a[:] = floor
    a[chosen] = 1.0 - (k - 1) * floor


@shared("state, bool -> none")
def continuous_mixture(whole, bonus):
    """The largest optimistic value (or ``bonus`` index) over all mixtures with the floor; tied, stay."""
    s = st.parts(whole)
    if not st.ready(s):
        return
    st.refresh(whole)
    n, k, floor = s.clock[REWARDS], s.size[ARMS], s.knobs[FLOOR]
    if s.clock[CURRENT] < 0:
        s.mix[:] = 1.0 / k
    far = s.radius.copy()
    kind = POOLED if s.size[BOUNDED] == 0 else BANDS
    if bonus:
        kind = BONUS
        for i in range(k):
            far[i] = st.wasserstein_radius(whole, i)
    if s.size[SHAPE] == CONVEX:
        best_corner(whole, s.mix, floor, kind, far)
    else:
        low, high = np.full(k, floor), np.full(k, 1.0 - (k - 1) * floor)
        maximise(whole, s.mix, low, high, kind, far)
    s.clock[CURRENT] = 0
    s.clock[LOOK_AT] = n + 1 + int(s.knobs[SHARE] * n)
    s.clock[DIRTY] = 0


@shared("state, floats, floats, floats -> none")
def best_within(whole, a, low, high):
    """The best empirical mixture of a box."""
    s = st.parts(whole)
    if s.size[SHAPE] == CONVEX:
        best_corner(whole, a, 0.0, UTILITY, a)
    else:
        maximise(whole, a, low, high, UTILITY, a)


@kernel
def enter(a, low, high, arm, limit, above, out):
    """A mixture near a that gives an arm at least (or at most) ``limit``; False if the box has none."""
    k = a.size
    out[:] = a
    out[arm] = max(a[arm], limit) if above else min(a[arm], limit)
    rest = a[arm] - out[arm]  # to be spread over the others
    room = 0.0
    for i in range(k):
        if i != arm:
            room += high[i] - a[i] if rest > 0.0 else a[i] - low[i]
    if abs(rest) > room * (1.0 + 1e-12):
        return False
    for i in range(k):
        if i != arm and rest != 0.0:
            out[i] += rest / room * (high[i] - a[i] if rest > 0.0 else a[i] - low[i])
    return True


@shared("state, floats, floats, float, int -> int")
def rival_outside(whole, low, high, reach, first):
    """Which way out of the box around the current mixture may still lead to a better one, or −1.

    Out is an arm's weight above or below by ``reach``: 2K concave programs, the one that succeeded last time first.
    A way is closed when its certificate shows that nothing there is better than the worst that the current mixture can
    be worth by more than the tolerance.
    """
    s = st.parts(whole)
    k, mix = s.size[ARMS], s.mix
    safe = st.bound(whole, mix, PESSIMISTIC) + s.knobs[TOLERANCE]
    kind = POOLED if s.size[BOUNDED] == 0 else BANDS
    far, b = s.radius.copy(), np.empty(k)
    e, goal = grain(whole), fineness(whole, s.knobs[SHARE])
    for j in range(2 * k):
        way = (first + j) % (2 * k)
        arm, above = way // 2, way % 2 == 0
        if s.size[SHAPE] == CONVEX:
            if above and mix[arm] < 1.0:
                b[:] = 0.0
                b[arm] = 1.0
                if st.bound(whole, b, OPTIMISTIC) > safe:
                    return way
            continue
        limit = mix[arm] + reach if above else mix[arm] - reach
        if limit > high[arm] or limit < low[arm]:
            continue
        floor, top = low.copy(), high.copy()
        if above:
            floor[arm] = limit
        else:
            top[arm] = limit
        if not enter(mix, floor, top, arm, limit, above, b):
            continue
        for _ in range(12 + k):  # a few passes at a time: most ways are decided early
            gap = climb(whole, b, floor, top, kind, far, e, goal, 8)
            value = st.bound(whole, b, OPTIMISTIC)
            if value > safe:
                return way
            if value + gap <= safe or gap <= goal:
                break
    return -1
