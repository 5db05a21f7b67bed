"""CE-UCB-M: PM-UCB-M with a bonus in place of the search over confidence sets."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits.confidence._bounds import refresh, wasserstein_radius
from pmbandits.confidence._ends import table_radius, tailed
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._ahead import (
    least_lead,
    may_look_ahead,
    maybe_inside,
    settle_down,
    shares_within,
    surely_inside,
)
from pmbandits.mixtures._continuous import continuous_mixture
from pmbandits.mixtures._grid import settle, utilities
from pmbandits.mixtures._index import BONUS, SURE, bonus, due, ready, rest, take
from pmbandits.mixtures._lazy import lazy_choice, may_be_lazy
from pmbandits.mixtures._sampling import evidence, least_known, most_behind, pull
from pmbandits.policies.build import Setup
from pmbandits.policies.ucb import PMUCB, unpack
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.state.views import unpack as unpack_any
from pmbandits.supports import Support


@shared("state -> none")
def bonus_mixture(s: Any) -> None:
    """``eq:UCB_alpha2``: the largest U_h(Σ a(i)·F̂_i) + 𝓛·Σ (a(i)·r_i)^q."""
    if s.continuous == 1:
        continuous_mixture(s, True)
        return
    if not ready(s):
        return
    refresh(s)
    if tailed(s):
        rest(s)
    if s.random_ties == 0 and may_be_lazy(s, BONUS):
        take(s, lazy_choice(s, BONUS))
        return
    utilities(s)
    radius = np.empty(s.n_arms)
    for i in range(s.n_arms):
        radius[i] = wasserstein_radius(s, i)
    for g in range(s.used):
        s.index[g] = s.value[g] + bonus(s, s.grid[g], radius, BONUS)
    take(s, settle(s, s.used))
    if may_look_ahead(s):
        settle_down(s, stays(s))


@shared("state -> bool")
def stays(s: Any) -> bool:
    """Whether the current mixture keeps the largest index for the next ``look_ahead`` rewards of each arm."""
    k, ahead, q, c = s.n_arms, s.look_ahead, s.holder_q, s.holder_c
    share_low, share_high = shares_within(s, ahead)
    least, most = np.empty(k), np.empty(k)  # of each arm's radius
    if s.plain_bonus == 1:
        for i in range(k):
            least[i], most[i] = table_radius(s, s.told[i] + ahead), table_radius(s, s.told[i])
    else:
        sure_low, sure_high = surely_inside(s, ahead)
        maybe_low, maybe_high = maybe_inside(s, ahead)
        for i in range(k):
            least[i] = max(sure_high[i] - share_high[i], share_low[i] - sure_low[i], 0.0)
            most[i] = max(maybe_high[i] - share_low[i], share_high[i] - maybe_low[i])
    mine = s.grid[s.current]
    for g in range(s.used):
        if g == s.current:
            continue
        other = s.grid[g]
        lead = least_lead(s.h, s.metric_shape, mine, other, share_low, share_high)
        for i in range(k):
            d = mine[i] - other[i]
            if q == 1.0:
                lead += c * d * (least[i] if d > 0.0 else most[i])
            else:
                lead += c * ((mine[i] * least[i]) ** q - (other[i] * most[i]) ** q)
        if not lead > SURE * max(1.0, abs(s.peak)):
            return False
    return True


@kernel
def choose(memory: int) -> int:
    """Algorithm 3 (``algorithm:UCB-M``)."""
    s = unpack(memory)
    arm = least_known(s)
    if evidence(s, arm) < s.explore:  # line 2: sample each arm N(ρ, ε) times
        return pull(s, arm)
    if due(s):  # lines 6–7: estimates, mixture with the largest bonus index
        bonus_mixture(s)
    return pull(s, most_behind(s))  # line 5


@kernel
def update(memory: int) -> None:
    """Name the mixture with the newest rewards."""
    s = unpack_any(memory)
    if due(s):
        bonus_mixture(s)


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
