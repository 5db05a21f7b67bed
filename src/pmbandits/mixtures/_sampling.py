"""From a mixture to the arm that is pulled; compiled."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.mixtures._gate import through_gate
from pmbandits.mixtures._index import TIE
from pmbandits.mixtures._within import to_start
from pmbandits.state.shared import step


@step("state -> int")
def fewest(s):
    """The arm with the fewest pulls (the first of equals)."""
    arm = 0
    for i in range(1, s.n_arms):
        if s.pulls[i] < s.pulls[arm]:
            arm = i
    return arm


@step("state, int -> int")
def evidence(s, i):
    """n of an arm: its pulls, or its rewards if more were told than asked for since the clock began."""
    return max(s.pulls[i], s.told[i])


@step("state -> int")
def time_so_far(s):
    """t: the pulls so far, or the rewards if there are more."""
    return max(s.asked, s.rewards)


@step("state -> int")
def least_known(s):
    """The arm with the least evidence (the first of equals): the one to explore first."""
    arm = 0
    for i in range(1, s.n_arms):
        if evidence(s, i) < evidence(s, arm):
            arm = i
    return arm


@step("state, floats -> none")
def shares_played(s, out):
    """The shares of the arms in all pulls so far, into ``out``; equal shares before the first pull."""
    for i in range(s.n_arms):
        out[i] = s.pulls[i] / s.asked if s.asked > 0 else 1.0 / s.n_arms


@step("state -> int")
def most_behind(s):
    """The arm that is furthest behind its share in ``s.mix``: argmax t·a(i) − τ(i) (``eq:UCB_sampling_rule``)."""
    t = s.asked
    arm, lag = 0, t * s.mix[0] - s.pulls[0]
    for i in range(1, s.n_arms):
        behind = t * s.mix[i] - s.pulls[i]
        if behind > lag + 1e-9:
            arm, lag = i, behind
    return arm


@step("state -> int")
def explore_or_track(s):
    """An arm that was explored too little, if there is one; otherwise the arm that is furthest behind its share.

    This is ``eq:any_sampling_rule``. Rewards that were told without an ask, or before the clock began anew, count like
    pulls. An arm that came late has much to catch up with: it is explored in every other round at most.
    """
    k, t = s.n_arms, time_so_far(s)
    if t < s.explored_until:
        return most_behind(s)
    arm = least_known(s)
    known = evidence(s, arm)
    enough = math.ceil((t / k) ** (1.0 / (1.0 + s.exploration)))
    if known <= enough:
        return arm if 2 * s.pulls[arm] <= s.asked else most_behind(s)
    # Evidence only grows: no arm is due before the root reaches what the least known has.
    due = k * float(known - 1) ** (1.0 + s.exploration) * (1.0 - 1e-9) - 1.0
    s.explored_until = int(min(due, 1e15))
    return most_behind(s)


@step("state, int -> int")
def pull(s, arm):
    """Count a pull of the arm, and return the arm. It counts at once, whether or not its reward ever comes.

    Where shares are limited, or only some arms are available, it may be another arm: see ``_gate.py``. If there is no
    such arm it counts nothing and returns −1, which the library reports as a mistake.
    """
    if arm < 0 or arm >= s.n_arms:
        return -1
    if s.gate != 0:
        arm = through_gate(s, arm)
    s.pulls[arm] += 1
    s.pending[arm] += 1
    s.asked += 1
    return arm


@step("state -> int")
def largest(s):
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
def play_alone(s, arm):
    """Make one arm alone the mixture, or as much of it as limits allow, and note that the mixture is up to date."""
    for i in range(s.n_arms):
        s.mix[i] = 0.0
    s.mix[arm] = 1.0
    to_start(s, s.mix)
    s.dirty = 0
