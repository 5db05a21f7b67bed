"""Pulls for certifying: which arm's rewards make the certified regret smaller the fastest; compiled.

Take what the best rival mixture can be worth at most, less what the mixture that is played is worth at least. Both
depend on each arm's confidence set, and a set shrinks like 1/√n. So with one more reward of arm i the difference
falls by about c_i/(2·n_i), where c_i is what it would fall by if the law of the arm were known. For
the rival, c_i is taken of the mixture that is the best rival now; to first order it stays that when a set shrinks. But
where sets are wide many mixtures are equally good rivals, and then none of their arms alone makes a difference. So the
arm alone is taken as a rival, too, as far as it is not behind the best. Each c_i takes a few passes over the rewards.

Every other pull for certifying is of the arm with the fewest pulls. The certified regret is not that difference but
often much less (``_together.py``), because the arms of the mixture count for both sides; then it is the others that
matter, and c_i does not see it. With c_i alone, 1 % was certain after 3,000 to 30,000 rounds where both rules in turn
took 900 to 3,600 (coins, Wang and quadratic), and both took the same on Beta arms. What twice as many rewards would
change, in place of c_i, was worse: nothing, for arms with few rewards, so they never got more.

All c_i are worked out when 5 % more rewards have come. In between c_i/n_i falls like n_i^(−3/2), and that is reckoned
with: so pulls spread over the arms as if all were worked out in every round. They are pulls, not rewards, that count
then, so late rewards do no harm.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._belts import lay_belt
from pmbandits.confidence._bounds import OPTIMISTIC, PESSIMISTIC, bound, lower_end, refresh, share_of_ones, upper_end
from pmbandits.confidence._ends import BALL, BELT
from pmbandits.confidence._kernels import CONCAVE, CONVEX
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.packed import h_max
from pmbandits.mixtures._climb import maximise
from pmbandits.mixtures._index import BOUND, POOLED, ready
from pmbandits.mixtures._rivals import all_cells, most_alone, reachable_means
from pmbandits.mixtures._sampling import evidence
from pmbandits.state.arrays import copy_into, fill_with, largest_of
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared, step
from pmbandits.state.views import unpack

KNOWN = 1e-4  # of a radius, is left when an arm is taken to be known
AGAIN = 20  # what is gained is worked out again when one in so many more rewards has come


@step("state, int, float -> none")
def set_radius(s, i, r):
    """Give arm i's confidence set another radius."""
    s.radius[i] = r
    s.line_at = 0
    if s.set_kind == BELT:
        lay_belt(s.told[i], r, s.stretched == 1, s.belt_side, s.belt[i])
    if s.mode == BINARY:
        p = share_of_ones(s, i)
        s.lower[i], s.upper[i] = lower_end(s.set_kind, p, r), upper_end(s.set_kind, p, r)


@shared("state -> none")
def find_rival(s):
    """The mixture that can be worth the most, into ``s.rival``, from the one of last time."""
    k = s.n_arms
    if s.metric_shape == CONVEX:
        worth, top = np.empty(k), 0
        most_alone(s, worth)
        for i in range(1, k):
            top = i if worth[i] > worth[top] else top
        fill_with(s.rival, 0.0)
        s.rival[top] = 1.0
        return
    fill_with(s.rival, 1.0 / k)
    kind = POOLED if s.set_kind == BALL else BOUND
    maximise(s, s.rival, np.zeros(k), np.ones(k), kind, s.radius.copy())


@shared("state, bool -> float")
def most_now(s, one):
    """What the rival can be worth at most: of ``s.rival`` where it is one mixture, else the bound for all of them."""
    if s.mode == BINARY:
        low, high = reachable_means(s)
        return h_max(s.h, low, high)
    if one:
        return bound(s, s.rival, OPTIMISTIC)
    worst = 0.0
    if s.set_kind == BALL:  # see most_of_any
        worst = largest_of(s.radius)
        worst = s.lipschitz * worst if s.bounded == 0 else s.holder_c * worst**s.holder_q
    return all_cells(s) + worst


@shared("state -> none")
def work_out_gains(s):
    """By how much the certified regret would fall if an arm's law were known; times √n, into ``s.sure_gain``."""
    refresh(s)
    one = s.mode != BINARY and (
        s.metric_shape == CONVEX or (s.metric_shape == CONCAVE and (s.set_kind != BALL or s.bounded == 0))
    )
    if one:
        find_rival(s)
    most, least = most_now(s, one), bound(s, s.mix, PESSIMISTIC)
    alone = np.zeros(s.n_arms)
    for i in range(s.n_arms):
        n, r = s.told[i], s.radius[i]
        s.sure_told[i] = n
        behind = 0.0
        if one:  # by how much the arm alone, at its best, is behind the rival
            alone[i] = 1.0
            behind = most - bound(s, alone, OPTIMISTIC)
        set_radius(s, i, KNOWN * r)
        gain = 0.0 if one and s.rival[i] == 0.0 else max(most - most_now(s, one), 0.0)
        if one:
            gain = max(gain, most - bound(s, alone, OPTIMISTIC) - 2.0 * behind)
            alone[i] = 0.0
        if s.mix[i] > 0.0:
            gain += max(bound(s, s.mix, PESSIMISTIC) - least, 0.0)
        set_radius(s, i, r)
        s.sure_gain[i] = gain * math.sqrt(n)


@shared("state -> int")
def most_certifying(s):
    """The arm of which one more reward lets rival − lower fall the most, and every other time that with the fewest."""
    known = 0
    for i in range(s.n_arms):
        known += s.sure_told[i]
    if s.rewards >= known + max(known // AGAIN, 1):
        work_out_gains(s)
    spent = 0
    for i in range(s.n_arms):
        spent += s.sure_pulls[i]
    arm, most, count = 0, -1.0, 0.0
    for i in range(s.n_arms):
        n = float(evidence(s, i))
        gain = s.sure_gain[i] / (n * math.sqrt(n)) if spent % 2 == 0 else 0.0  # every other one: the fewest pulls
        if gain > most or (gain == most and n < count):
            arm, most, count = i, gain, n
    s.sure_pulls[arm] += 1
    return arm


@step("state -> int")
def to_certify(s):
    """The arm to pull for certifying, if it is time for such a pull; else −1."""
    if s.certify == 0.0:
        return -1
    spent = 0
    for i in range(s.n_arms):
        spent += s.sure_pulls[i]
    if spent + 1.0 > s.certify * (s.asked + 1.0) or not ready(s):
        return -1
    return most_certifying(s)


@kernel
def gains_now(memory, out):
    """What the certified regret would fall by if an arm's law were known, for each arm, times √n; into ``out``."""
    s = unpack(memory)
    work_out_gains(s)
    copy_into(out, s.sure_gain)
