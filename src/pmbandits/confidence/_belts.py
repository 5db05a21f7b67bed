"""Belts: at each x the true survival lies within {q : kl(k/n, q) ≤ radius}, where k of n rewards lie above x; compiled.

For the ends of a belt relative entropy must be inverted, which costs logarithms. A pass over the rewards cannot afford
that. So few ends are worked out exactly, for at most ``side`` rewards above or below, once for each number n of an
arm's rewards; between them stands a formula with one square root, on the safe side, cut off by the tangents where the
exact ends begin. The page "Bands" of the documentation has the proofs.

The upper end is concave in k/n and the lower end convex, and both are monotone. ``mixtures/_lazy.py`` relies on that.
"""

from __future__ import annotations

import math

from pmbandits.state.layout import BELT_EDGE as EDGE
from pmbandits.state.shared import shared, step

LONG = 1 << 20  # rewards for which ``side`` is made, if there is no horizon


def side_of(deepest: float) -> int:
    """For how many rewards above or below the ends are exact: as many as may have stretched ends, but not too many."""
    return min(EDGE, max(24, int(1.6 * deepest) + 1))


# What is kept of an arm. First the upper ends for 0, …, EDGE rewards above, then those for 0, …, EDGE rewards below.
ABOVE, BELOW = 0, EDGE + 1
SIDE = 2 * EDGE + 2  # up to how many rewards above or below there are exact ends
LINES = SIDE + 1  # the two tangents: value at 0, and slope
SHIFT, PRODUCT, SCALE = LINES + 4, LINES + 5, LINES + 6  # of the formula: 2r/3, 2r·(1 + 8r/9), 1/(1 + 8r/9)
STRETCHED = LINES + 7  # 1 if ends far from k/n are moved further out
DEPTH = LINES + 8  # n times the radius


@step("float, float -> float")
def outer(p, level):
    """A number above the largest q with kl(p, q) ≤ level: (q − p)² = 2·level·t(1 − t), t = (p + 2q)/3."""
    scale, shift = 1.0 / (1.0 + 8.0 * level / 9.0), 2.0 * level / 3.0 * (1.0 - 2.0 * p)
    return p + (shift + math.sqrt(shift * shift + 2.0 * level * p * (1.0 - p) / scale)) * scale


@shared("int, int, float, bool -> float")
def exact_upper(k, n, depth, stretched):
    """The upper end at k of n rewards above: n·kl(k/n, q) = depth, by Newton's method in ln(1 − q) from the right.

    Stretched: where 1 − q falls below a quarter of 1 − k/n, depth + ½ln(ratio/4)/(1 − 1/(2·depth)) in place of depth.
    """
    if k >= n:
        return 1.0
    p, below, rest = k / n, float(n - k), (n - k) / n
    gained = k * math.log(p) if k > 0 else 0.0
    left = max(1.0 - outer(p, depth / n), rest * math.exp((gained - depth) / below))  # 1 − q
    for _ in range(40):
        q = 1.0 - left
        gap = below * math.log(rest / left) - depth
        if k > 0:
            gap += k * math.log(p / q)
        move = gap * q / (n * (q - p))
        if not move > 1e-14:
            break
        left = min(left * math.exp(move), rest)
    if stretched and left < 0.25 * rest:
        half = 0.5 / (1.0 - 0.5 / depth)
        left = rest * math.exp(-(depth - gained - half * math.log(4.0)) / (below - half))
        for _ in range(60):
            q = 1.0 - left
            gap = below * math.log(rest / left) - depth - half * math.log(0.25 * rest / left)
            if k > 0:
                gap += k * math.log(p / q)
            move = gap / (n * (q - p) / q - half)
            if not move > 1e-14:
                break
            left = min(left * math.exp(move), rest)
    return 1.0 - left


@shared("int, float, bool, int, floats -> none")
def lay_belt(n, level, stretched, side, row):
    """Work out what is kept of the belt of n rewards, into ``row``; with exact ends for ``side`` rewards."""
    begin_belt(n, level, stretched, side, row)
    for k in range(min(side, n) + 1):
        row[ABOVE + k] = exact_upper(k, n, row[DEPTH], stretched)
        row[BELOW + k] = exact_upper(n - k, n, row[DEPTH], stretched)


@shared("int, int, floats -> none")
def lay_ends_at(k, n, row):
    """Work out the ends at k of n rewards above, at one more and at one less, where few k can occur."""
    side, depth, stretched = int(row[SIDE]), row[DEPTH], row[STRETCHED] == 1.0
    for j in range(max(k - 1, 0), min(k + 1, n) + 1):
        if j <= side:
            row[ABOVE + j] = exact_upper(j, n, depth, stretched)
            row[BELOW + j] = exact_upper(n - j, n, depth, stretched)
        if n - j <= side:
            row[ABOVE + n - j] = exact_upper(n - j, n, depth, stretched)
            row[BELOW + n - j] = exact_upper(j, n, depth, stretched)


@shared("int, float, bool, int, floats -> none")
def begin_belt(n, level, stretched, side, row):
    """All that is kept of the belt but its exact ends."""
    row[DEPTH], row[SIDE] = n * level, side
    row[STRETCHED] = 1.0 if stretched else 0.0
    scale = 1.0 / (1.0 + 8.0 * level / 9.0)
    row[SHIFT], row[PRODUCT], row[SCALE] = 2.0 * level / 3.0, 2.0 * level / scale, scale
    if n > 2 * side:
        for j in range(2):
            p = (side if j == 0 else n - side) / n
            q = exact_upper(side if j == 0 else n - side, n, row[DEPTH], stretched)
            slope = q * (1.0 - q) * math.log(q * (1.0 - p) / (p * (1.0 - q))) / (q - p)
            row[LINES + 2 * j], row[LINES + 2 * j + 1] = q - slope * p, slope


@step("int, int, floats -> two floats")
def belt_ends(k, n, row):
    """The lower and the upper end at k of n rewards above."""
    side = int(row[SIDE])
    if k <= side:
        return 1.0 - (row[ABOVE + n - k] if n - k <= side else row[BELOW + k]), row[ABOVE + k]
    if n - k <= side:
        return 1.0 - row[ABOVE + n - k], row[BELOW + n - k]
    p = k / n
    shift = row[SHIFT] * (1.0 - 2.0 * p)
    root = math.sqrt(shift * shift + row[PRODUCT] * (p * (1.0 - p)))
    upper = p + (shift + root) * row[SCALE]
    lower = p + (shift - root) * row[SCALE]
    upper = min(upper, min(row[LINES] + row[LINES + 1] * p, row[LINES + 2] + row[LINES + 3] * p))
    line = min(row[LINES] + row[LINES + 1] * (1.0 - p), row[LINES + 2] + row[LINES + 3] * (1.0 - p))
    lower = max(lower, 1.0 - line)
    if row[STRETCHED] == 1.0:  # happens only for a depth above side/1.6
        upper = upper if 1.0 - upper >= 0.25 * (1.0 - p) else 1.0
        lower = lower if lower >= 0.25 * p else 0.0
    return lower, upper


@step("float, float, floats -> two floats")
def blurred_ends(p, blur, row):
    """The same where the share above is known to ``blur`` only, and not a whole number of rewards."""
    out_lower, out_upper = 0.0, 1.0
    high, low = p + blur, p - blur
    if high < 1.0:
        shift = row[SHIFT] * (1.0 - 2.0 * high)
        upper = high + (shift + math.sqrt(shift * shift + row[PRODUCT] * (high * (1.0 - high)))) * row[SCALE]
        if row[STRETCHED] == 0.0 or 1.0 - upper >= 0.25 * (1.0 - high):
            out_upper = min(upper, 1.0)
    if low > 0.0:
        shift = row[SHIFT] * (1.0 - 2.0 * low)
        lower = low + (shift - math.sqrt(shift * shift + row[PRODUCT] * (low * (1.0 - low)))) * row[SCALE]
        if row[STRETCHED] == 0.0 or lower >= 0.25 * low:
            out_lower = max(lower, 0.0)
    return out_lower, out_upper


@step("int, int, floats -> two floats")
def belt_slopes(k, n, row):
    """By how much the upper end rises at most, and the lower end falls, for each unit that k/n rises, or falls."""
    up = (n + 1.0) * (belt_ends(1, n, row)[1] - belt_ends(0, n, row)[1])
    if k > 0:
        up = n * (belt_ends(k, n, row)[1] - belt_ends(k - 1, n, row)[1])
    down = (n + 1.0) * (belt_ends(n, n, row)[0] - belt_ends(n - 1, n, row)[0])
    if k < n:
        down = n * (belt_ends(k + 1, n, row)[0] - belt_ends(k, n, row)[0])
    return up, down
