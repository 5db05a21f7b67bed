"""Tracking: from a mixture to the arm that is pulled; compiled."""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.mixtures._constraint_tracking import is_arriving
from pmbandits.mixtures._constraints import make_feasible_start_in_place
from pmbandits.mixtures._index import TIE
from pmbandits.state.linking import step
from pmbandits.state.numba_types import State


@step("state -> int")
def fewest(s: State) -> int:
    """The arm with the fewest pulls (the first of equals); with segments, of the one that arrives."""
    arm = -1
    for i in range(s.n_arms):
        if is_arriving(s, i) and (arm < 0 or s.pulls[i] < s.pulls[arm]):
            arm = i
    return arm


@step("state, int -> int")
def n_pulls_or_rewards(s: State, i: int) -> int:
    """n of an arm: its pulls, or its rewards if there are more (rewards can be given without a pull)."""
    return max(s.pulls[i], s.n_rewards[i])


@step("state -> int")
def n_elapsed_rounds(s: State) -> int:
    """t: the pulls so far, or the rewards if there are more."""
    return max(s.t, s.rewards)


@step("state -> int")
def least_observed_arm(s: State) -> int:
    """The arm with the least evidence (the first of equals): the one to explore first."""
    arm = 0
    for i in range(1, s.n_arms):
        if n_pulls_or_rewards(s, i) < n_pulls_or_rewards(s, arm):
            arm = i
    return arm


@step("state, floats -> none")
def fill_shares_played(s: State, out: FloatArray) -> None:
    """The shares of the arms in all pulls so far, into ``out``; equal shares before the first pull."""
    for i in range(s.n_arms):
        out[i] = s.pulls[i] / s.t if s.t > 0 else 1.0 / s.n_arms


@step("state -> int")
def most_behind(s: State) -> int:
    """The arm that is furthest behind its share in ``s.mix``: argmax t·a(i) − τ(i) (``eq:UCB_sampling_rule``)."""
    t = s.t
    arm, lag = 0, t * s.mix[0] - s.pulls[0]
    for i in range(1, s.n_arms):
        behind = t * s.mix[i] - s.pulls[i]
        if behind > lag + 1e-9:
            arm, lag = i, behind
    return arm


@step("state -> int")
def explore_or_track(s: State) -> int:
    """An arm that was explored too little, if there is one; otherwise the arm that is furthest behind its share.

    This is ``eq:any_sampling_rule``. Rewards that came without a pull, or before the clock began anew, count like
    pulls. An arm that came late has much to catch up with: it is explored in every other round at most.
    """
    k, t = s.n_arms, n_elapsed_rounds(s)
    if t < s.next_exploration_at:
        return most_behind(s)
    arm = least_observed_arm(s)
    known = n_pulls_or_rewards(s, arm)
    enough = math.ceil((t / k) ** (1.0 / (1.0 + s.exploration)))
    if known <= enough:
        return arm if 2 * s.pulls[arm] <= s.t else most_behind(s)
    # Evidence only grows: no arm is due before the root reaches what the least known has.
    due = k * float(known - 1) ** (1.0 + s.exploration) * (1.0 - 1e-9) - 1.0
    s.next_exploration_at = int(min(due, 1e15))
    return most_behind(s)


@step("state, int -> int")
def pull(s: State, arm: int) -> int:
    """Count a pull of the arm, and return the arm. It counts at once, whether or not its reward ever comes.

    An arm that does not exist is not counted, and gives −1, which the library reports as a mistake. Where there are
    limits, or arms that are not available, the pull may afterwards become one of another arm
    (``choose_arm_or_invalid`` in ``engine/_calls.py``).
    """
    if arm < 0 or arm >= s.n_arms:
        s.refused_arm = arm
        return -1
    s.pulls[arm] += 1
    s.pending[arm] += 1
    s.t += 1
    return arm


@step("state -> int")
def largest(s: State) -> int:
    """The arm with the largest ``s.index``; of equals, up to rounding, the one with the fewest pulls, or the first."""
    top = s.index[0]
    for i in range(1, s.n_arms):
        top = max(top, s.index[i])
    least = top if top == np.inf else top - TIE * max(1.0, abs(top))
    arm = -1
    for i in range(s.n_arms):
        if s.index[i] >= least and (arm < 0 or s.pulls[i] < s.pulls[arm]):
            arm = i
    return arm


@step("state, int -> none")
def play_alone(s: State, arm: int) -> None:
    """Make one arm alone the mixture, or as much of it as limits allow, and note that the mixture is up to date."""
    for i in range(s.n_arms):
        s.mix[i] = 0.0
    s.mix[arm] = 1.0
    make_feasible_start_in_place(s, s.mix)
    s.dirty = 0
