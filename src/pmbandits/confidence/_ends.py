"""The ends of an arm's survival, at each x, in bands and belts; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmbandits.confidence._belts import begin_belt, belt_ends, blurred_ends, lay_belt, lay_ends_at
from pmbandits.estimates._rewards import FINITE, rank_error
from pmbandits.state.shared import shared, step

INTERVAL, BAND, BALL, BELT = range(4)  # kinds of confidence sets
FEW = 4  # atoms of a finite support, times this: below ``belt_side`` only the ends that occur are worked out

# Bounded memory: the table of radii has OCTAVE entries for each doubling of n. An entry is the radius at its smallest
# n. Radii fall, so it is at least the radius at n: valid, and wider by 1/OCTAVE of itself at most
# (by 5 % where a ball on the line is made of pieces, and a piece begins).
OCTAVE = 128
COARSE_TABLE = OCTAVE * 35  # n up to 2⁴¹; beyond, the last radius


@step("int -> int")
def slot(n):
    """The entry of the coarse table for n."""
    doublings = 0
    while n >= 2 * OCTAVE:
        n >>= 1
        doublings += 1
    return min(doublings * OCTAVE + n, COARSE_TABLE - 1)


def coarse_counts() -> NDArray[np.int64]:
    """The n of each entry of the coarse table."""
    entry = np.arange(COARSE_TABLE)
    doublings = np.maximum(entry // OCTAVE - 1, 0)
    return (entry - doublings * OCTAVE) << doublings


@step("state, int -> float")
def table_radius(s, n):
    """The radius of the confidence set after n rewards."""
    return s.radii[slot(n)] if s.coarse == 1 else s.radii[n]


@step("state -> bool")
def by_cells(s):
    """Whether the sets limit the survival at each x, so that their values are sums over cells."""
    return s.set_kind == BAND or s.set_kind == BELT


@step("state -> bool")
def tailed(s):
    """Whether belts lie on the whole line, and a moment or σ limits the tails (``_tails.py``, ``_line.py``)."""
    return s.tail_order > 0.0 or s.tail_sigma > 0.0


@shared("state -> floats")
def lay_belts(s):
    """Bring what is kept of belts up to date; returns how far each arm's shares may be off (by its sketch)."""
    blurs = np.zeros(s.n_arms)
    if s.set_kind == BELT:
        for i in range(s.n_arms):
            blurs[i] = rank_error(s, i)
            n = s.told[i]
            if n > 0 and s.belt_at[i] != n:
                s.belt_at[i] = n
                row, level = s.belt[i], table_radius(s, n)
                if s.mode != FINITE or FEW * s.n_atoms > s.belt_side:
                    lay_belt(n, level, s.stretched == 1, s.belt_side, row)
                    continue
                begin_belt(n, level, s.stretched == 1, s.belt_side, row)
                left = n
                lay_ends_at(left, n, row)
                for c in range(s.n_atoms):
                    if s.counts[i, c] > 0:
                        left -= s.counts[i, c]
                        lay_ends_at(left, n, row)
    return blurs


@step("int, int, int, float, float, table, int -> two floats")
def cell_ends(kind, above, n, radius, blur, belt, i):
    """The ends of arm i's survival where so many of its n rewards lie above; its band's radius, or its row of belts."""
    if n == 0:
        return 0.0, 1.0
    if kind == BAND:
        share = above / n
        return max(share - radius, 0.0), min(share + radius, 1.0)
    if blur > 0.0:
        return blurred_ends(above / n, blur, belt[i])
    return belt_ends(above, n, belt[i])
