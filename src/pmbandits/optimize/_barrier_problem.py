"""The interior point method's memory, and what its kernels share: curves of mixtures, and rounded corners of h."""

from __future__ import annotations

import math
from typing import NamedTuple

from pmbandits._validation import FloatArray
from pmbandits.state.compile import inner_kernel, kernel

TINY = 1e-300


class Work(NamedTuple):
    """One problem, where the method is, and what it tries next. C cells, K arms, R limits, N corners of h."""

    # The problem. Cells left of the split count CDFs, those right of it survivals.
    rows: FloatArray  # K × (C + N + R): curves, what corners inside panels add, and limits
    base: FloatArray  # C: the curve of the shares that are fixed
    cell_widths: FloatArray  # C
    corner_widths: FloatArray  # C: cell_widths of the cells on which curves do not move; 0 elsewhere
    sign: FloatArray  # C: −1 left of the split, 1 right of it
    kinks: FloatArray  # N × 2: place and change of slope
    bound: FloatArray  # R: of the limits
    equal: FloatArray  # equalities × K; the first says Σ a
    level: FloatArray
    # Where it is.
    weights: FloatArray  # K
    p: FloatArray  # C: the mixture's curve
    slack: FloatArray  # R
    price: FloatArray  # K: multipliers of a ≥ 0
    limit_price: FloatArray  # R
    duals: FloatArray  # N × C: multipliers of corners, between 0 and 1
    gradient: FloatArray  # K
    # What it tries: weights, their curve; and, filled in by Python, the smooth part of h, its slope and its bend there.
    step: FloatArray  # K: relative to the weights
    slack_move: FloatArray  # R: what a whole step does to the slack
    trial: FloatArray  # K
    trial_p: FloatArray  # C
    h: FloatArray  # C
    slope: FloatArray  # C
    bend: FloatArray  # C
    extra: FloatArray  # N: the stiffness of corners inside panels
    # What was found.
    best: FloatArray  # K
    plane: FloatArray  # C: the slope function of the least bound
    plane_price: FloatArray  # R: its multipliers of the limits
    plane_equal_price: FloatArray  # and of the equalities
    # Scratch.
    basic: FloatArray  # equalities: the arms that keep them, as numbers
    give: FloatArray  # equalities × (K + equalities + 1)
    equal_price: FloatArray  # equalities
    cells: FloatArray  # C
    load: FloatArray  # K
    numbers: FloatArray  # see below


TABLES = ("rows", "kinks", "equal", "duals", "give")  # fields of two dimensions; all others have one

# The places of Work.numbers.
N_NUMBERS = 17
TAU, MU, SMALLEST_TAU, GOAL = 0, 1, 2, 3
OFFSET, SPLIT = 4, 5  # what does not depend on the weights
VALUE, UPPER, HEIGHT, PLANE_SPLIT = 6, 7, 8, 9  # what was found: utility, bound, and the bound's plane at weights 0
MERIT, GAIN, LENGTH, HALVINGS = 10, 11, 12, 13  # before the step, what it promises, and how much of it is tried
SINCE, WAITING, IS_NEW = 14, 15, 16  # steps with one τ, and without a better bound; whether there is no step to judge


@inner_kernel
def dot_in_blocks(x, y, n):
    """Σ x·y of the first n numbers, in blocks: little rounding adds up."""
    total = 0.0
    for start in range(0, n, 256):
        end = min(start + 256, n)
        a, b, c, d, i = 0.0, 0.0, 0.0, 0.0, start
        while i + 3 < end:
            a += x[i] * y[i]
            b += x[i + 1] * y[i + 1]
            c += x[i + 2] * y[i + 2]
            d += x[i + 3] * y[i + 3]
            i += 4
        while i < end:
            a += x[i] * y[i]
            i += 1
        total += (a + b) + (c + d)
    return total


@inner_kernel
def largest_entry(x):
    out = x[0]
    for i in range(x.size):
        out = max(out, x[i])
    return out


@inner_kernel
def copy_array_into(x, out):
    for i in range(x.size):
        out[i] = x[i]


@inner_kernel
def add_weighted_rows_in_place(rows, shares, out):
    """Add the rows, each times its share."""
    for i in range(shares.size):
        if shares[i] != 0.0:
            row, share = rows[i], shares[i]
            for c in range(out.size):
                out[c] += share * row[c]


@kernel
def fill_mixture_curve(w, shares, out):
    """The curve of a mixture."""
    for c in range(out.size):
        out[c] = w.base[c]
    add_weighted_rows_in_place(w.rows, shares, out)
    for c in range(out.size):
        out[c] = min(out[c], 1.0)


@inner_kernel
def survival_minus_place(sign, place, p):
    """S − place in a cell, S the survival: p right of the split, and 1 − p left of it."""
    return (1.0 - place) - p if sign < 0.0 else p - place


@inner_kernel
def smoothed_corner_slope(z, mu):
    """The slope of (z + √(z² + 4μ²))/2, which stands for max(z, 0)."""
    return 0.5 * (1.0 + z / math.hypot(z, 2.0 * mu))


@inner_kernel
def corner_multiplier_stiffness(z, dual, mu):
    """How much the multiplier of a rounded corner changes when z does."""
    root = math.hypot(0.5 * z, mu)  # t − z = μ + √(z²/4 + μ²) − z/2, without cancellation for large z
    if z >= 0.0:
        t, rest = mu + 0.5 * z + root, mu + mu * mu / max(root + 0.5 * z, TINY)
    else:
        t, rest = mu + mu * mu / max(root - 0.5 * z, TINY), mu - 0.5 * z + root
    return 1.0 / (t / (1.0 - dual) + rest / dual)


@inner_kernel
def foreseen_multiplier_change(z, dual, mu):
    """What a rounded corner's multiplier would change by if z moved no more."""
    return corner_multiplier_stiffness(z, dual, mu) * (z + mu * (1.0 / dual - 1.0 / (1.0 - dual)))
