"""PM-UCB-M and CE-UCB-M over single arms: what remains of them when mixtures are ruled out (ε = 1)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pmbandits.confidence._bounds import OPTIMISTIC, update_confidence_sets, utility_bound, wasserstein_radius
from pmbandits.confidence._envelopes import bounds_survival_pointwise, has_tail_assumption
from pmbandits.engine.options import check_confidence, one_of, option, probability, whole
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._index import max_utility_change_by_holder
from pmbandits.mixtures._tracking import largest, pull
from pmbandits.policies.published._functionals import (
    fill_empirical_utilities,
    fill_optimistic_utilities,
    set_mixture_to_largest_utility,
)
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(additive=int)


@kernel
def choose(memory: int) -> int:
    """The arm whose utility can be the largest."""
    s = unpack(memory)
    update_confidence_sets(s)
    if s.additive == 1:  # eq:UCB_alpha2: the empirical utility plus 𝓛·r^q
        fill_empirical_utilities(s, s.index)
        for i in range(s.n_arms):
            s.index[i] += max_utility_change_by_holder(s, wasserstein_radius(s, i))
    elif s.bounded == 0 and not has_tail_assumption(s):
        fill_empirical_utilities(s, s.index)
        for i in range(s.n_arms):
            s.index[i] += s.lipschitz * s.radius[i]
    elif s.storage_mode != BINARY and s.bounded == 1 and bounds_survival_pointwise(s):
        fill_optimistic_utilities(s, s.index)  # eq:UCB_alpha at all vertices in one pass
    else:
        for i in range(s.n_arms):
            s.index[i] = utility_bound(s, s.grid[i], OPTIMISTIC)
    for i in range(s.n_arms):
        if s.n_rewards[i] == 0:
            s.index[i] = np.inf
    return pull(s, largest(s))


class SolitaryUCB(Policy, name="solitary_ucb", choose=choose, update=set_mixture_to_largest_utility, unpack=unpack):
    """PM-UCB-M or CE-UCB-M over single arms: for risk-sensitive bandits, where only one arm may be played.

    The paper compares with risk-sensitive bandits by letting its algorithms decide for one arm (ε = 1). The grid of
    PM-UCB-M keeps a share ε/2 for every arm, so it cannot do that. Here the grid is the K arms alone, and to track a
    mixture is to pull that arm.

    1. Pull every arm once.
    2. Then pull the arm whose utility can be the largest in its confidence set (``index="optimistic"``, PM-UCB-M), or
       the one with the largest U_h(rewards) + 𝓛·r^q (``index="additive"``, CE-UCB-M). Here r is the radius of the arm's
       confidence set, and (q, 𝓛) is the Hölder pair of the metric on the support.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest U_h. With ``LowerCVaR`` and
    ``confidence="dkw"`` the policy takes exactly the decisions of CVaR-UCB. A round costs one pass over the rewards so
    far (over the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`.
    horizon : T, how many rounds will be played: so long the confidence sets must hold.
    index : ``"optimistic"`` (the default) or ``"additive"``, as above.
    confidence, delta : as for :class:`PMUCB`.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.SolitaryUCB(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Interval(0, 1), horizon=1000)
    >>> policy.ask(2).tolist()
    [0, 1]
    """

    horizon: int = option(check=whole(2))
    index: Literal["optimistic", "additive"] = option(default="optimistic", check=one_of("optimistic", "additive"))
    sets: Any = option(default="auto", alias="confidence", check=check_confidence)
    delta: float | None = option(default=None, check=probability)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        additive = self.options["index"] == "additive"
        if additive:
            metric.holder(support)  # says why, where there is no Hölder pair to make the bonus of
        numbers = {"additive": int(additive)}
        return Setup(
            grid=np.eye(n_arms),
            numbers=numbers,
            confidence=self.choose_confidence_set(support, n_arms, needs_wasserstein=additive),
        )
