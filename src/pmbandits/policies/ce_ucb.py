"""CE-UCB-M: PM-UCB-M with a bonus in place of the search over confidence sets."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits.confidence._bounds import update_confidence_sets, wasserstein_radius
from pmbandits.confidence._envelopes import confidence_radius_after, has_tail_assumption
from pmbandits.engine.plan import Setup
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import _look_ahead as look_ahead
from pmbandits.mixtures._continuous_search import update_optimistic_mixture
from pmbandits.mixtures._grid_search import fill_grid_utilities, grid_point_with_largest_index
from pmbandits.mixtures._index import (
    HOLDER_BONUS,
    ROUNDING_MARGIN,
    due,
    mixture_bonus,
    postpone_next_update,
    ready,
    set_current_grid_point,
)
from pmbandits.mixtures._lazy_argmax import can_use_lazy_argmax, lazy_argmax_grid_point
from pmbandits.mixtures._line_argmax import argmax_on_line, is_concave_on_line
from pmbandits.mixtures._tracking import least_observed_arm, most_behind, n_pulls_or_rewards, pull
from pmbandits.policies.pm_ucb import PMUCB, unpack
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import unpack as unpack_any
from pmbandits.supports import Support


@shared("state -> none")
def set_mix_to_largest_value_with_bonus(s: Any) -> None:
    """``eq:UCB_alpha2``: the largest U_h(Σ a(i)·F̂_i) + 𝓛·Σ (a(i)·r_i)^q."""
    if s.continuous == 1:
        update_optimistic_mixture(s, True)
        return
    if not ready(s):
        return
    update_confidence_sets(s)
    if has_tail_assumption(s):
        postpone_next_update(s)
    if is_concave_on_line(s, HOLDER_BONUS):
        set_current_grid_point(s, argmax_on_line(s, HOLDER_BONUS))
        return
    if s.random_ties == 0 and can_use_lazy_argmax(s, HOLDER_BONUS):
        set_current_grid_point(s, lazy_argmax_grid_point(s, HOLDER_BONUS))
        return
    fill_grid_utilities(s)
    radius = np.empty(s.n_arms)
    for i in range(s.n_arms):
        radius[i] = wasserstein_radius(s, i)
    for g in range(s.n_grid_used):
        s.index[g] = s.value[g] + mixture_bonus(s, s.grid[g], radius, HOLDER_BONUS)
    set_current_grid_point(s, grid_point_with_largest_index(s, s.n_grid_used))
    if look_ahead.is_look_ahead_due(s):
        look_ahead.adjust_look_ahead_length(s, stays_largest_for_next_rewards(s))


@shared("state -> bool")
def stays_largest_for_next_rewards(s: Any) -> bool:
    """Whether the current mixture keeps the largest index for the next ``look_ahead`` rewards of each arm."""
    k, ahead, q, c = s.n_arms, s.look_ahead, s.holder_q, s.holder_c
    share_low, share_high = look_ahead.possible_shares_of_ones(s, ahead)
    least, most = np.empty(k), np.empty(k)  # of each arm's radius
    if s.paper_bonus == 1:
        for i in range(k):
            least[i], most[i] = (
                confidence_radius_after(s, s.n_rewards[i] + ahead),
                confidence_radius_after(s, s.n_rewards[i]),
            )
    else:
        sure_low, sure_high = look_ahead.intervals_kept_for_next_rewards(s, ahead)
        maybe_low, maybe_high = look_ahead.widest_intervals_in_next_rewards(s, ahead)
        for i in range(k):
            least[i] = max(sure_high[i] - share_high[i], share_low[i] - sure_low[i], 0.0)
            most[i] = max(maybe_high[i] - share_low[i], share_high[i] - maybe_low[i])
    mine = s.grid[s.current_point]
    for g in range(s.n_grid_used):
        if g == s.current_point:
            continue
        other = s.grid[g]
        lead = look_ahead.utility_lead_lower_bound(s.h, s.metric_shape, mine, other, share_low, share_high)
        for i in range(k):
            d = mine[i] - other[i]
            if q == 1.0:
                lead += c * d * (least[i] if d > 0.0 else most[i])
            else:
                lead += c * ((mine[i] * least[i]) ** q - (other[i] * most[i]) ** q)
        if not lead > ROUNDING_MARGIN * max(1.0, abs(s.max_h)):
            return False
    return True


@kernel
def choose(memory: int) -> int:
    """Algorithm 3 (``algorithm:UCB-M``)."""
    s = unpack(memory)
    arm = least_observed_arm(s)
    if n_pulls_or_rewards(s, arm) < s.explore:  # line 2: sample each arm N(ρ, ε) times
        return pull(s, arm)
    if due(s):  # lines 6–7: estimates, mixture with the largest bonus index
        set_mix_to_largest_value_with_bonus(s)
    return pull(s, most_behind(s))  # line 5


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards."""
    s = unpack_any(memory)
    if due(s):
        set_mix_to_largest_value_with_bonus(s)


class CEUCB(PMUCB, name="ceucb", choose=choose, update=update):
    """CE-UCB-M (Algorithm 3): play the mixture with the largest utility so far plus a bonus.

    The bonus is made of the Hölder pair of the metric and of the radius of each arm's confidence set, so the metric
    must have a Hölder pair on the support. On continuous rewards this is cheaper than PM-UCB-M, and looser: the bonus
    is of first order where the best value inside the sets is of second order.

    All else is as in PM-UCB-M. Parameters as :class:`PMUCB`.

    A round works out only mixtures that may have become the best. On ``Real`` rewards ``confidence="auto"`` takes
    balls, because the bonus is made of their radius. ``"kl"`` gives narrower bounds to those who read them, and a bonus
    that is 5 to 17 % larger.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.CEUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=1 / 8)
    >>> policy.ask(4)
    array([0, 1, 0, 1])
    """

    _adds_bonus: ClassVar = True

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        try:
            pair = metric.holder(support)
        except ValueError as error:
            raise ValueError(
                f"CE-UCB-M adds a bonus made of the Hölder pair, but {error} Use PMUCB (on a bounded support)."
            ) from None
        setup = super().setup(metric, n_arms, support)
        if setup.numbers["continuous"] == 1 and metric.shape == "convex" and pair.q < 1.0:
            raise ValueError(f"the index of {metric!r} is neither concave nor convex; use search='grid', or Track.")
        return setup
