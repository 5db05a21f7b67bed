"""The objectives by which mixtures are chosen, and small helpers that all searches share; compiled."""

from __future__ import annotations

from pmbandits._validation import FloatArray
from pmbandits.confidence._envelopes import has_tail_assumption
from pmbandits.state.linking import step
from pmbandits.state.numba_types import State

# What is maximised: the empirical utility U; U + 𝓛·Σ a·r; U + 𝓛·Σ (a·r)^q; the largest utility in the confidence sets.
UTILITY, LIPSCHITZ_BONUS, HOLDER_BONUS, OPTIMISTIC_BOUND = range(4)
TIE = 1e-12  # values closer than this (relative above 1) are tied
ROUNDING_MARGIN = 1e-9  # a lead this large cannot be an accident of rounding


@step("floats, floats -> float")
def dot(a: FloatArray, x: FloatArray) -> float:
    """Σ a·x."""
    total = 0.0
    for i in range(x.size):
        total += a[i] * x[i]
    return total


@step("state, floats, floats, int -> float")
def mixture_bonus(s: State, a: FloatArray, radius: FloatArray, kind: int) -> float:
    """What is added to the empirical utility of the mixture a; ``radius`` of each arm, in W1."""
    total = 0.0
    if kind == LIPSCHITZ_BONUS:
        for i in range(a.size):
            if a[i] > 0.0:
                total += a[i] * radius[i]
        return s.lipschitz * total
    if kind == HOLDER_BONUS:
        q = s.holder_q
        for i in range(a.size):
            share_of_radius = a[i] * radius[i]
            total += share_of_radius if q == 1.0 else share_of_radius**q
        return s.holder_c * total
    return 0.0


@step("state, float -> float")
def max_utility_change_by_holder(s: State, distance: float) -> float:
    """By how much U_h can change at most when a distribution moves by a distance in W1."""
    return s.holder_c * (distance if s.holder_q == 1.0 else distance**s.holder_q)


@step("state -> int")
def objective_that_is_optimistic(s: State) -> int:
    """The objective that is the largest utility in the sets: LIPSCHITZ_BONUS on the line, else OPTIMISTIC_BOUND."""
    return LIPSCHITZ_BONUS if s.bounded == 0 and not has_tail_assumption(s) else OPTIMISTIC_BOUND


@step("state -> none")
def postpone_next_update(s: State) -> None:
    """Postpone the next look until 1 % more rewards are in: where a look is a pass over all cells per mixture."""
    s.next_update_at = s.rewards + 1 + int(s.search_tolerance * s.rewards)


@step("state -> bool")
def ready(s: State) -> bool:
    """Whether every arm has paid at least one reward. Before that no mixture is known to be better than another."""
    least = s.n_rewards[0]
    for i in range(1, s.n_arms):
        least = min(least, s.n_rewards[i])
    return least > 0


@step("state -> bool")
def due(s: State) -> bool:
    """Whether rewards came since the mixture was brought up to date, and enough of them to look again."""
    if s.dirty == 0 or s.rewards < s.next_update_at:
        return False
    stands = True
    for i in range(s.n_arms):
        if s.n_rewards[i] > s.choice_valid_until[i]:
            stands = False
    return not stands


@step("state, int -> none")
def set_current_grid_point(s: State, g: int) -> None:
    """Make grid point g the current mixture."""
    s.current_point = g
    for i in range(s.n_arms):
        s.mix[i] = s.grid[g, i]
    s.dirty = 0
