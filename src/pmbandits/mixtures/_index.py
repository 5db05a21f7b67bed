"""What a mixture is chosen by, and the small steps that every search shares; compiled."""

from __future__ import annotations

from pmbandits.confidence._ends import tailed
from pmbandits.state.shared import step

# What is maximised: the empirical utility U; U + 𝓛·Σ a·r; U + 𝓛·Σ (a·r)^q; the largest utility in the confidence sets.
UTILITY, POOLED, BONUS, BOUND = range(4)
TIE = 1e-12  # values closer than this (relative above 1) are tied
SURE = 1e-9  # a lead this large cannot be an accident of rounding


@step("floats, floats -> float")
def dot(a, x):
    """Σ a·x."""
    total = 0.0
    for i in range(x.size):
        total += a[i] * x[i]
    return total


@step("state, floats, floats, int -> float")
def bonus(s, a, radius, kind):
    """What is added to the empirical utility of the mixture a; ``radius`` of each arm, in W1."""
    total = 0.0
    if kind == POOLED:
        for i in range(a.size):
            if a[i] > 0.0:
                total += a[i] * radius[i]
        return s.lipschitz * total
    if kind == BONUS:
        q = s.holder_q
        for i in range(a.size):
            far = a[i] * radius[i]
            total += far if q == 1.0 else far**q
        return s.holder_c * total
    return 0.0


@step("state, float -> float")
def holder_change(s, distance):
    """By how much U_h can change when a law moves by a distance in W1."""
    return s.holder_c * (distance if s.holder_q == 1.0 else distance**s.holder_q)


@step("state -> int")
def optimism(s):
    """What the largest utility in the sets is, of UTILITY, …, BOUND: in balls on the line 𝓛·Σ a·r is added."""
    return POOLED if s.bounded == 0 and not tailed(s) else BOUND


@step("state -> none")
def rest(s):
    """Do not look again before 1 % more rewards are in: where a look is a pass over all cells for every mixture."""
    s.look_at = s.rewards + 1 + int(s.fineness * s.rewards)


@step("state -> bool")
def ready(s):
    """Whether every arm has paid at least one reward. Before that no mixture is known to be better than another."""
    least = s.told[0]
    for i in range(1, s.n_arms):
        least = min(least, s.told[i])
    return least > 0


@step("state -> bool")
def due(s):
    """Whether rewards came since the mixture was brought up to date, and enough of them to look again."""
    if s.dirty == 0 or s.rewards < s.look_at:
        return False
    stands = True
    for i in range(s.n_arms):
        if s.told[i] > s.stands_until[i]:
            stands = False
    return not stands


@step("state, int -> none")
def take(s, g):
    """Make grid point g the current mixture."""
    s.current = g
    for i in range(s.n_arms):
        s.mix[i] = s.grid[g, i]
    s.dirty = 0
