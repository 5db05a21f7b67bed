"""Pulls for certifying: which arm's rewards reduce the certified regret the fastest; compiled.

Take the largest possible utility of the best rival mixture, less the least one of the mixture that is played. Both
depend on each arm's confidence set, and a set shrinks like 1/√n. So with one more reward of arm i the difference
falls by about c_i/(2·n_i), where c_i is what it would fall by if the arm's distribution were known. For
the rival, c_i is taken of the mixture that is the best rival now; to first order it stays that when a set shrinks. But
where sets are wide many mixtures are equally good rivals, and then none of their arms alone makes a difference. So the
arm alone is taken as a rival, too, as far as it is not behind the best. Each c_i takes a few passes over the rewards.

For arms that pay 0 or 1, all is about one set for the chances of all arms (``confidence/_joint_bernoulli.py``). The
chances p in it where the mixture that is played loses most are what its next rewards must make unlikely. By the
information bound, the best shares of pulls are those for which every arm that matters gives equal information against p
for each reward (Garivier and Kaufmann 2016): kl(p̂_i, p_i). With more rewards of arm i this falls like 1/n_i². So the
arm with the largest is pulled, as if p answered each time: self-play, in the way of Frank and Wolfe's method (Degenne,
Koolen and Ménard 2019; Wang, Tzeng and Proutiere 2021).

Elsewhere, every other pull for certifying is of the arm with the fewest pulls. The certified regret is not that
difference but often much less (``_joint_regret.py``), because the arms of the mixture count for both sides; then it is
the others that matter, and c_i does not see it. With c_i alone, 1 % was certain after 3,000 to 30,000 rounds where both
rules in turn took 900 to 3,600 (coins, Wang and quadratic), and both took the same on Beta arms. What twice as many
rewards would change, in place of c_i, was worse: nothing, for arms with few rewards, so they never got more.

All c_i are worked out when 5 % more rewards have come. In between c_i/n_i falls like n_i^(−3/2), and that is reckoned
with: so pulls spread over the arms as if all were worked out in every round. They are pulls, not rewards, that count
then, so late rewards do no harm.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    PESSIMISTIC,
    bernoulli_interval_lower,
    bernoulli_interval_upper,
    update_confidence_sets,
    utility_bound,
)
from pmbandits.confidence._envelopes import BALL, INTERVAL, KL_BAND
from pmbandits.confidence._joint_bernoulli import (
    TANGENTS,
    fill_tangents_of_all_arms,
    joint_bernoulli_bounds,
    martingale_weight_of_one,
    tangent_cost_at,
)
from pmbandits.confidence._kl_bands import fill_kl_band
from pmbandits.estimates._rewards import BINARY
from pmbandits.estimates._utility import share_of_ones
from pmbandits.metrics.encoding import h_max
from pmbandits.mixtures._index import ready
from pmbandits.mixtures._optimistic_bound import (
    fill_single_arm_upper_bounds,
    reachable_mean_range,
    utility_upper_bound_by_cells,
)
from pmbandits.mixtures._optimistic_objectives import objective_of_largest_utility_in_sets
from pmbandits.mixtures._pairwise_ascent import maximise_objective_in_place
from pmbandits.mixtures._tracking import n_pulls_or_rewards
from pmbandits.state.arrays import copy_numbers_into, fill_array_with, largest_of
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State, unpack

KNOWN_RADIUS_FACTOR = 1e-4  # of a radius, is left when an arm is taken to be known
RECOMPUTE_FRACTION = 20  # what is gained is worked out again when one in so many more rewards has come


@step("state, int, float -> none")
def set_confidence_radius(s: State, i: int, r: float) -> None:
    """Give arm i's confidence set another radius."""
    s.radius[i] = r
    s.line_built_at = 0
    if s.set_kind == KL_BAND:
        fill_kl_band(s.n_rewards[i], r, s.stretched == 1, s.n_exact_ends, s.kl_band[i])
    if s.storage_mode == BINARY:
        p = share_of_ones(s, i)
        s.lower[i], s.upper[i] = bernoulli_interval_lower(s.set_kind, p, r), bernoulli_interval_upper(s.set_kind, p, r)


@shared("state -> none")
def set_rival_mixture(s: State) -> None:
    """Write the mixture with the largest possible utility to ``s.rival_mixture``."""
    k = s.n_arms
    if s.metric_shape == CONVEX:
        upper_bounds, top = np.empty(k), 0
        fill_single_arm_upper_bounds(s, upper_bounds)
        for i in range(1, k):
            top = i if upper_bounds[i] > upper_bounds[top] else top
        fill_array_with(s.rival_mixture, 0.0)
        s.rival_mixture[top] = 1.0
        return
    fill_array_with(s.rival_mixture, 1.0 / k)
    maximise_objective_in_place(
        s, objective_of_largest_utility_in_sets(s), s.rival_mixture, np.zeros(k), np.ones(k), s.radius.copy()
    )


@shared("state, bool -> float")
def rival_utility_upper_bound(s: State, has_rival_mixture: bool) -> float:
    """Upper bound on the rival's utility: of ``s.rival_mixture`` where it is one mixture, else for all mixtures."""
    if s.storage_mode == BINARY:
        low, high = reachable_mean_range(s, s.mix)
        return h_max(s.h, low, high)
    if has_rival_mixture:
        return utility_bound(s, s.rival_mixture, OPTIMISTIC)
    worst = 0.0
    if s.set_kind == BALL:  # see upper_bound_of_any_mixture
        worst = largest_of(s.radius)
        worst = s.lipschitz * worst if s.bounded == 0 else s.holder_c * worst**s.holder_q
    return utility_upper_bound_by_cells(s, s.mix) + worst


@step("state -> bool")
def uses_joint_bernoulli_set(s: State) -> bool:
    """Whether one set for the chances of all arms says what is certain."""
    return s.storage_mode == BINARY and s.set_kind == INTERVAL and s.n_limited == 0


@shared("state -> none")
def set_information_gains(s: State) -> None:
    """Write to ``s.certify_gain`` √(n·information) to the power 3/2, for the chances where the mixture loses most.

    The information is ln M of the arm at its worst chance. Pulls where this gain/n^(3/2) is largest then make it equal
    for each reward.
    """
    k, each = s.n_arms, np.inf
    chances, costs, worst = np.empty((k, TANGENTS + 1)), np.empty((k, TANGENTS + 1)), np.empty(k)
    for i in range(k):  # ln 1/δ of an interval, from its radius
        each = min(each, s.n_rewards[i] * s.radius[i] - 0.5 * math.log(4.0 * s.n_rewards[i]))
    rest, budget = martingale_weight_of_one(max(k, 2)), max(each - math.log(k), 1.0)
    fill_tangents_of_all_arms(
        s.counts[:, 1].copy(), s.n_rewards, rest, budget - (k - 1) * math.log(rest), chances, costs
    )
    joint_bernoulli_bounds(s.h, s.mix, chances, costs, budget, worst)
    for i in range(k):
        cost = (
            tangent_cost_at(chances[i], costs[i], min(max(worst[i], chances[i, 0]), chances[i, TANGENTS]))
            - costs[i].min()
        )
        s.certify_gain[i] = (cost * s.n_rewards[i]) ** 0.75
        s.certify_n_rewards[i] = s.n_rewards[i]


@shared("state -> none")
def set_certification_gains(s: State) -> None:
    """Write to ``s.certify_gain`` what the certified regret would fall by if an arm were known, times √n."""
    update_confidence_sets(s)
    if uses_joint_bernoulli_set(s):
        set_information_gains(s)
        return
    has_rival_mixture = s.storage_mode != BINARY and (
        s.metric_shape == CONVEX or (s.metric_shape == CONCAVE and (s.set_kind != BALL or s.bounded == 0))
    )
    if has_rival_mixture:
        set_rival_mixture(s)
    most, least = rival_utility_upper_bound(s, has_rival_mixture), utility_bound(s, s.mix, PESSIMISTIC)
    alone = np.zeros(s.n_arms)
    for i in range(s.n_arms):
        n, r = s.n_rewards[i], s.radius[i]
        s.certify_n_rewards[i] = n
        behind = 0.0
        if has_rival_mixture:  # by how much the arm alone, at its best, is behind the rival
            alone[i] = 1.0
            behind = most - utility_bound(s, alone, OPTIMISTIC)
        set_confidence_radius(s, i, KNOWN_RADIUS_FACTOR * r)
        gain = (
            0.0
            if has_rival_mixture and s.rival_mixture[i] == 0.0
            else max(most - rival_utility_upper_bound(s, has_rival_mixture), 0.0)
        )
        if has_rival_mixture:
            gain = max(gain, most - utility_bound(s, alone, OPTIMISTIC) - 2.0 * behind)
            alone[i] = 0.0
        if s.mix[i] > 0.0:
            gain += max(utility_bound(s, s.mix, PESSIMISTIC) - least, 0.0)
        set_confidence_radius(s, i, r)
        s.certify_gain[i] = gain * math.sqrt(n)


@shared("state -> int")
def arm_with_largest_certification_gain(s: State) -> int:
    """The arm whose next reward tells most; without a joint set, every other time the arm with the fewest pulls."""
    n_at_last_update = 0
    for i in range(s.n_arms):
        n_at_last_update += s.certify_n_rewards[i]
    if s.rewards >= n_at_last_update + max(n_at_last_update // RECOMPUTE_FRACTION, 1):
        set_certification_gains(s)
    spent = 0
    for i in range(s.n_arms):
        spent += s.certify_pulls[i]
    arm, most, count = 0, -1.0, 0.0
    for i in range(s.n_arms):
        n = float(n_pulls_or_rewards(s, i))
        # every other one: the fewest pulls
        gain = s.certify_gain[i] / (n * math.sqrt(n)) if spent % 2 == 0 or uses_joint_bernoulli_set(s) else 0.0
        if gain > most or (gain == most and n < count):
            arm, most, count = i, gain, n
    s.certify_pulls[arm] += 1
    return arm


@step("state -> int")
def arm_to_certify_if_due(s: State) -> int:
    """The arm to pull for certifying, if a certifying pull is due; else −1."""
    if s.certify == 0.0:
        return -1
    spent = 0
    for i in range(s.n_arms):
        spent += s.certify_pulls[i]
    if spent + 1.0 > s.certify * (s.t + 1.0) or not ready(s):
        return -1
    return arm_with_largest_certification_gain(s)


@kernel
def fill_certification_gains(memory: int, out: FloatArray) -> None:
    """Write to ``out`` what the certified regret would fall by if an arm's distribution were known, times √n."""
    s = unpack(memory)
    set_certification_gains(s)
    copy_numbers_into(out, s.certify_gain)
