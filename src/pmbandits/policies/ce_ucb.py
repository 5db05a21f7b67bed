"""CE-UCB-M: PM-UCB-M with a bonus in place of the search over confidence sets."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _search as search
from pmbandits.policies import _state as st
from pmbandits.policies._state import (
    ASKED,
    BONUS,
    CONTINUOUS,
    CURRENT,
    EXPLORE,
    GRID_USED,
    GROW,
    HOLDER_C,
    HOLDER_Q,
    PEAK,
    PLAIN,
    SHAPE,
)
from pmbandits.policies.base import Setup
from pmbandits.policies.ucb import PMUCB
from pmbandits.supports import Support


@shared("state -> none")
def bonus_mixture(whole: Any) -> None:
    """``eq:UCB_alpha2``: the largest U_h(Σ a(i)·F̂_i) + 𝓛·Σ (a(i)·r_i)^q."""
    s = st.parts(whole)
    if s.knobs[CONTINUOUS] == 1.0:
        search.continuous_mixture(whole, True)
        return
    if not st.ready(s):
        return
    st.refresh(s.whole)
    if st.may_be_lazy(s, BONUS):
        st.take(s, st.lazy_choice(s.whole, BONUS))
        return
    st.utilities(s.whole)
    k, q = s.size[0], s.knobs[HOLDER_Q]
    radius = np.empty(k)
    for i in range(k):
        radius[i] = st.wasserstein_radius(s.whole, i)
    for g in range(s.clock[GRID_USED]):
        bonus = 0.0
        for i in range(k):
            far = s.grid[g, i] * radius[i]
            bonus += far if q == 1.0 else far**q
        s.index[g] = s.value[g] + s.knobs[HOLDER_C] * bonus
    st.take(s, st.settle(s.whole, s.clock[GRID_USED]))
    if st.may_doze(s.whole):
        st.doze_off(s.whole, stays(s.whole))


@shared("state -> bool")
def stays(whole: Any) -> bool:
    """Whether the current mixture keeps the largest index while no arm pays more than ``nap`` times."""
    s = st.parts(whole)
    k, current, q, c = s.size[0], s.clock[CURRENT], s.knobs[HOLDER_Q], s.knobs[HOLDER_C]
    ahead = s.nap[k]
    share = st.shares_within(s.whole, ahead)
    least, most = np.empty(k), np.empty(k)  # of each arm's radius
    if s.knobs[PLAIN] == 1.0:
        for i in range(k):
            least[i], most[i] = st.table_radius(s, s.told[i] + ahead), st.table_radius(s, s.told[i])
    else:
        sure, maybe = st.surely_inside(s.whole, ahead), st.maybe_inside(s.whole, ahead)
        for i in range(k):
            least[i] = max(sure[1][i] - share[1][i], share[0][i] - sure[0][i], 0.0)
            most[i] = max(maybe[1][i] - share[0][i], share[1][i] - maybe[0][i])
    mine = s.grid[current]
    for g in range(s.clock[GRID_USED]):
        if g == current:
            continue
        other = s.grid[g]
        lead = st.least_lead(s.h, s.size[SHAPE], mine, other, share[0], share[1])
        for i in range(k):
            d = mine[i] - other[i]
            if q == 1.0:
                lead += c * d * (least[i] if d > 0.0 else most[i])
            else:
                lead += c * ((mine[i] * least[i]) ** q - (other[i] * most[i]) ** q)
        if not lead > st.SURE * max(1.0, abs(s.knobs[PEAK])):
            return False
    return True


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    """Algorithm 3 (``algorithm:UCB-M``)."""
    s = st.unpack(ints, floats)
    if s.clock[ASKED] < s.size[0] * int(s.knobs[EXPLORE]):  # line 2
        return st.pull(s, st.fewest(s))
    if st.due(s):  # lines 6–7
        if st.short_table(s):
            return GROW
        bonus_mixture(s.whole)
    return st.pull(s, st.most_behind(s))  # line 5


@kernel
def update(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    if st.due(s):
        bonus_mixture(s.whole)
        if s.clock[ASKED] < s.size[0] * int(s.knobs[EXPLORE]):
            st.forget_choice(s)


class CEUCB(PMUCB):
    """CE-UCB-M (Algorithm 3): the empirical utility plus a Hölder bonus, then as PM-UCB-M.

    Cheaper than PM-UCB-M on continuous rewards, and looser: its bonus is first order where the exact optimistic
    value is second order. Needs a metric with a Hölder pair on the support. Parameters as :class:`PMUCB`.
    A round works out only mixtures that may have become the best.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.CEUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=1 / 8)
    >>> policy.ask(4)
    array([0, 1, 0, 1])
    """

    name: ClassVar[str] = "ceucb"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        try:
            pair = metric.holder(support)
        except ValueError as error:
            raise ValueError(
                f"CE-UCB-M adds a bonus made of the Hölder pair, but {error} Use PMUCB (on a bounded support)."
            ) from None
        setup = super()._setup(metric, n_arms, support)
        if setup.knobs[CONTINUOUS] == 1.0 and metric.shape == "convex" and pair.q < 1.0:
            raise ValueError(f"the index of {metric!r} is neither concave nor convex; use search='grid', or Track.")
        setup.knobs.update({HOLDER_Q: pair.q, HOLDER_C: pair.constant})
        return setup
