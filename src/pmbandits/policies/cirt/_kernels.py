"""Kernels of CIRT: the grids of its phases, which candidates survive, and when a phase ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits.confidence._bernoulli_wasserstein import CONVEX
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    PESSIMISTIC,
    bernoulli_utility_bound,
    update_confidence_sets,
    utility_bound,
)
from pmbandits.confidence._envelopes import KL_BAND, has_tail_assumption
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.encoding import h_max, h_min
from pmbandits.mixtures import _lazy_argmax as lazy
from pmbandits.mixtures import _look_ahead as ahead
from pmbandits.mixtures._constraints import shrink_box_to_limits_in_place
from pmbandits.mixtures._continuous_search import set_to_best_mixture_in_box, way_out_of_box_to_better_mixture
from pmbandits.mixtures._grid_search import fill_grid_utilities, update_empirical_grid_mixture
from pmbandits.mixtures._index import (
    OPTIMISTIC_BOUND,
    ROUNDING_MARGIN,
    TIE,
    UTILITY,
    dot,
    due,
    max_utility_change_by_holder,
    postpone_next_update,
    ready,
    set_current_grid_point,
)
from pmbandits.state.arrays import copy_numbers_into
from pmbandits.state.fields import own_field
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import state

unpack = state(
    branching=int,  # A: into how many steps each side of the box is cut
    phases=int,  # how many phases there are
    phase=int,  # the current one, counted from 1
    tracking=int,  # 1 when all phases are over
    literal=int,  # 1 if phases end by the paper's rule
    tolerance=float,  # how much utility the box rule may give away
    grid_steps=own_field(int, "n_grid, n_arms", "saved"),  # the grid in whole steps
    kept_mixture=own_field(int, "n_arms", "saved"),  # the mixture that the phase before kept, in whole steps
    # The last check: the candidate that kept the phase open, and the utility of the leader at least.
    blocking_candidate=own_field(int, "", "cleared"),  # 1 + its grid point; 0: none is known
    checked_leader=own_field(int, "", "cleared"),  # 1 + the leader's grid point
    leader_lower_bound=own_field(float, "", "cleared"),
    leader_path_length=own_field(float, "n_arms", "cleared"),  # how far the arms had moved then (or their rewards),
    leader_radius=own_field(float, "n_arms", "cleared"),  # and the radii of their sets
)


@step("int, int -> int")
def grid_steps_per_unit(branching: int, phase: int) -> int:
    """1/spacing of a phase: A^ℓ / 2^(ℓ−1), a whole number because A is even."""
    out = branching
    for _ in range(phase - 1):
        out *= branching // 2
    return out


@shared("state -> none", unpack)
def fill_phase_grid(s: Any) -> None:
    """``eq:any_discrete_set``: multiples of the phase's spacing inside the box kept by the phase before."""
    k, half, phase, total = s.n_arms, s.branching // 2, s.phase, grid_steps_per_unit(s.branching, s.phase)
    step, low, high = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(k):
        low[i], high[i] = 0, total
        if phase > 1:
            low[i] = max(0, s.kept_mixture[i] * half - half)
            high[i] = min(total, s.kept_mixture[i] * half + half)
        step[i] = low[i]
    used = 0
    while True:
        last = total
        for i in range(k - 1):
            last -= step[i]
        if low[k - 1] <= last <= high[k - 1]:
            step[k - 1] = last
            for i in range(k):
                s.grid_steps[used, i] = step[i]
                s.grid[used, i] = step[i] / total
            used += 1
        if not next_lexicographic_in_place(step, low, high):
            break
    discard_grid_choices(s, used)


@shared("state -> none", unpack)
def fill_tracking_grid(s: Any) -> None:
    """``eq:any_discrete_set_tracking``: weights (n + ½)/N inside the box around the last kept mixture.

    Counted in halves of 1/N: odd numbers that add up to 2N. For odd K there are none, and as elsewhere in the paper
    the last weight takes the difference: a whole number of 1/N, positive, and inside the box too.
    """
    k, half, box = s.n_arms, s.branching // 2, grid_steps_per_unit(s.branching, s.phases)
    total = grid_steps_per_unit(s.branching, s.phases + 1)
    step, low, high = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(k):
        low[i] = max(0, s.kept_mixture[i] * half - half)
        high[i] = max(low[i], min(total, s.kept_mixture[i] * half + half) - 1)
        step[i] = low[i]
    used = 0
    while True:
        last = 2 * total
        for i in range(k - 1):
            last -= 2 * step[i] + 1
        if last > 0 and abs(last - 2 * half * s.kept_mixture[k - 1]) <= 2 * half:
            for i in range(k - 1):
                s.grid[used, i] = (step[i] + 0.5) / total
            s.grid[used, k - 1] = 0.5 * last / total
            used += 1
        if not next_lexicographic_in_place(step, low, high):
            break
    if used == 0:  # beside a vertex, with many arms: the nearest point with every weight positive
        left_over, top = 1.0, 0
        for i in range(k):
            s.grid[0, i] = max(s.kept_mixture[i] / box, 0.5 / total)
            left_over -= s.grid[0, i]
            top = i if s.kept_mixture[i] > s.kept_mixture[top] else top
        s.grid[0, top] += left_over
        used = 1
    discard_grid_choices(s, used)


@step("ints, ints, ints -> bool")
def next_lexicographic_in_place(step: Any, low: Any, high: Any) -> bool:
    """Go to the next vector in lexicographic order, the last entry left out; False after the last one."""
    i = step.size - 2
    while i >= 0 and step[i] >= high[i]:
        step[i] = low[i]
        i -= 1
    if i < 0:
        return False
    step[i] += 1
    return True


@step("state, int -> none", unpack)
def discard_grid_choices(s: Any, used: int) -> None:
    """The grid has changed: nothing is chosen, and nothing that is kept about its points is true."""
    s.n_grid_used = used
    s.current_point = -1
    s.blocking_candidate = 0
    lazy.discard_stored_grid_values(s)


@shared("state -> none")
def set_leader_of_phase(s: Any) -> None:
    """``eq:any_alpha``: the mixture of the phase's grid with the largest empirical utility; tied, stay."""
    if lazy.can_use_lazy_argmax(s, UTILITY):
        set_current_grid_point(s, lazy.lazy_argmax_grid_point(s, UTILITY))
        return
    used, before = s.n_grid_used, s.current_point
    fill_grid_utilities(s)
    top = -np.inf
    for g in range(used):
        top = max(top, s.value[g])
    slack = TIE * max(1.0, abs(top))
    chosen = before
    if before < 0 or s.value[before] < top - slack:
        chosen = 0
        while s.value[chosen] < top - slack:
            chosen += 1
    set_current_grid_point(s, chosen)


@shared("state -> int", unpack)
def find_candidate_not_ruled_out(s: Any) -> int:
    """A candidate that keeps the phase from ending, or −1: the phase is over.

    ``eq:stopping_rule``, or the box rule: all that may still be best lies in the box that would be kept. A candidate
    outside the box is also let go when it cannot be better than the leader by more than the tolerance.
    """
    leader, used, binary, literal = s.current_point, s.n_grid_used, s.storage_mode == BINARY, s.literal == 1
    can_be_lazy = lazy.can_use_lazy_argmax(s, OPTIMISTIC_BOUND)
    if can_be_lazy and is_last_witness_still_valid(s):
        return s.blocking_candidate - 1
    # the candidate that kept the phase open last time is checked first
    first = max(s.blocking_candidate - 1, 0) if can_be_lazy else 0
    if binary:
        least = bernoulli_utility_bound(s.h, s.grid[leader], s.lower, s.upper, PESSIMISTIC)
    else:
        least = utility_bound(s, s.grid[leader], PESSIMISTIC)
    for j in range(used):
        g = (first + j) % used
        if g == leader or (not literal and is_candidate_in_box(s.grid_steps[g], s.grid_steps[leader])):
            continue
        if binary:
            best = bernoulli_utility_bound(s.h, s.grid[g], s.lower, s.upper, OPTIMISTIC)
        else:
            lazy.evaluate_and_store_grid_point(s, g, OPTIMISTIC_BOUND)
            best = s.index[g]
        if best >= least and (literal or best - least > s.tolerance):
            s.leader_lower_bound, s.checked_leader, s.blocking_candidate = least, leader + 1, g + 1
            for i in range(s.n_arms):
                s.leader_path_length[i] = s.n_rewards[i] if s.set_kind == KL_BAND else s.w1_path_length[i]
                s.leader_radius[i] = s.radius[i]
            return g
    return -1


@step("ints, ints -> bool")
def is_candidate_in_box(steps: Any, middle: Any) -> bool:
    """Whether a candidate lies in the box that would be kept around the leader."""
    inside = True
    for i in range(steps.size):
        if abs(steps[i] - middle[i]) > 1:
            inside = False
    return inside


@shared("state -> bool", unpack)
def is_last_witness_still_valid(s: Any) -> bool:
    """Whether the last witness still keeps the phase open, by how far its value and the leader's can have moved."""
    leader, witness = s.current_point, s.blocking_candidate - 1
    if witness < 0 or s.checked_leader != leader + 1:
        return False
    off, each = lazy.rounding_error_of_grid_values(s)
    low = s.index[witness] - lazy.max_change_since_evaluation(s, witness, OPTIMISTIC_BOUND)[0]
    # The leader's pessimistic value: at most what Hölder allows, and not above its utility.
    high = np.inf
    if s.set_kind == KL_BAND and s.holder_q == 1.0:
        # A KL band's ends come nearer by at most θ (the share of new rewards), and by as much as its radius shrinks.
        moved = 0.0
        for i in range(s.n_arms):
            then = s.leader_radius[i]
            nearer = (1.0 - s.radius[i] / then) * min(1.0, 1.34 * math.sqrt(0.5 * then))
            moved += s.grid[leader, i] * (1.0 - s.leader_path_length[i] / s.n_rewards[i] + nearer)
        high = s.leader_lower_bound + s.holder_c * (s.high - s.low) * moved
    elif s.set_kind != KL_BAND and s.holder_c > 0.0:
        gain = 0.0
        for i in range(s.n_arms):
            gain += s.grid[leader, i] * (s.leader_radius[i] - s.radius[i])
        moved = lazy.max_wasserstein_movement(s.grid[leader], s.w1_path_length, s.leader_path_length)
        high = (
            s.leader_lower_bound
            + max_utility_change_by_holder(s, moved)
            + max_utility_change_by_holder(s, lazy.wasserstein_units_per_radius(s) * gain)
        )
    if s.value_at[leader] > 0.0:
        high = min(high, s.value[leader] + lazy.max_change_since_evaluation(s, leader, UTILITY)[1])
    return low - high > s.tolerance + 2.0 * off + each * (abs(low) + abs(high))


@shared("state, int -> bool", unpack)
def leader_stays_ahead(s: Any, witness: int) -> bool:
    """Whether leader and witness stay what they are for the next ``look_ahead`` rewards of each arm."""
    steps, leader = s.look_ahead, s.current_point
    sure = ROUNDING_MARGIN * max(1.0, abs(s.max_h))
    mine, other = s.grid[leader], s.grid[witness]
    low, high = ahead.intervals_kept_for_next_rewards(s, steps)
    left, right = dot(mine, low), dot(mine, high)
    other_low, other_high = dot(other, low), dot(other, high)
    if left > right or other_low > other_high:
        return False
    if h_max(s.h, other_low, other_high) - h_min(s.h, left, right) <= s.tolerance + sure:
        return False
    low, high = ahead.possible_shares_of_ones(s, steps)
    for g in range(s.n_grid_used):
        if g != leader and not ahead.utility_lead_lower_bound(s.h, s.metric_shape, mine, s.grid[g], low, high) > sure:
            return False
    return True


@shared("state -> none", unpack)
def refine_on_grid(s: Any) -> None:
    """Choose the leader by the newest rewards, and end the phase if the stopping rule says so."""
    if not ready(s):
        return
    update_confidence_sets(s)
    if has_tail_assumption(s):
        postpone_next_update(s)
    set_leader_of_phase(s)
    witness = find_candidate_not_ruled_out(s)
    if witness >= 0:
        if ahead.is_look_ahead_due(s):
            ahead.adjust_look_ahead_length(s, leader_stays_ahead(s, witness))
        return
    leader, phase = s.current_point, s.phase
    s.phase_ends[phase - 1] = s.t
    for i in range(s.n_arms):
        s.kept_mixture[i] = s.grid_steps[leader, i]
    if phase < s.phases:
        s.phase = phase + 1
        fill_phase_grid(s)
        set_leader_of_phase(s)
    else:  # the tracking process: one mixture from now on
        s.tracking = 1
        fill_tracking_grid(s)
        update_empirical_grid_mixture(s)


@shared("state -> none", unpack)
def refine_continuous(s: Any) -> None:
    """Refine over all mixtures of the box that was kept, without a grid; ``grid[0]`` is the middle of the box.

    For convex h only arms alone are compared: when one is left all phases end.
    """
    if not ready(s):
        return
    update_confidence_sets(s)
    s.next_update_at = s.rewards + 1 + int(s.search_tolerance * s.rewards)
    s.dirty = 0
    k, branching, last = s.n_arms, s.branching, s.phases
    low, high = np.zeros(k), np.ones(k)
    while True:
        phase = s.phase
        if phase > 1:
            before = 1.0 / grid_steps_per_unit(branching, phase - 1)
            for i in range(k):
                low[i], high[i] = max(0.0, s.grid[0, i] - before), min(1.0, s.grid[0, i] + before)
        shrink_box_to_limits_in_place(s, low, high)
        set_to_best_mixture_in_box(s, s.mix, low, high)
        witness = way_out_of_box_to_better_mixture(
            s, low, high, 1.0 / grid_steps_per_unit(branching, phase), s.tolerance, s.current_point + 1
        )
        if witness >= 0:
            s.current_point = witness - 1
            return
        s.phase_ends[phase - 1] = s.t
        copy_numbers_into(s.grid[0], s.mix)
        s.phase = phase + 1
        if phase == last:
            s.phase = last
            s.tracking = 1
            return
        if s.metric_shape != CONVEX:
            return


@step("state -> none", unpack)
def refine_if_due(s: Any) -> None:
    """Refine with the newest rewards, on the grid or over all mixtures, until one mixture is tracked."""
    if s.tracking == 1 or not due(s):
        return
    if s.continuous == 1:
        refine_continuous(s)
    else:
        refine_on_grid(s)
