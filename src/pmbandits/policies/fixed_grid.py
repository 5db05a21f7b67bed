"""The fixed-grid anytime variant: PM-UCB-M's index with CIRT's sampling rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import grid_size, ucb_grid
from pmbandits.mixtures._index import due
from pmbandits.mixtures._sampling import explore_or_track, pull
from pmbandits.policies.build import Setup
from pmbandits.policies.choices import continuous_search, search_numbers
from pmbandits.policies.limited import floor_within, grid_within
from pmbandits.policies.options import (
    above,
    known_estimates,
    known_search,
    known_set,
    option,
    probability,
    share,
    whole,
)
from pmbandits.policies.policy import Policy
from pmbandits.policies.sets import chosen_set
from pmbandits.policies.ucb import look, update
from pmbandits.state.compile import kernel
from pmbandits.state.views import unpack
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """PM-UCB-M's mixture, and CIRT's rule for the arm."""
    s = unpack(memory)
    if due(s):
        look(s)
    return pull(s, explore_or_track(s))


class FixedGrid(Policy, name="fixed_grid", choose=choose, update=update):
    """The anytime algorithm without refinement: it looks at the whole final grid from the first round on.

    The paper compares CIRT with it. It finds a mixture that is as fine, but every round looks at the whole grid. Of
    that grid it works out what may have become the best, with the exceptions that :class:`PMUCB` names.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    epsilon, branching : the grid has the spacing ε/A; the defaults are ε = 0.12 and A = 4. A finer one comes closer to
        the best mixture, and is slower.
    exploration : ξ, above 0. Every arm is pulled about (t/K)^(1/(1+ξ)) times at least, for K arms after t rounds. A
        larger one explores less. The default 1 is the square root.
    confidence, delta : as for :class:`CIRT`.
    search : as for :class:`PMUCB`. With ``"continuous"`` the spacing only sets ε/(2A), the smallest share of every arm.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.FixedGrid(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary()).ask()
    0
    """

    spacing: float = option(default=0.12, alias="epsilon", check=share)
    branching: int = option(default=4, check=whole(1))
    exploration: float = option(default=1.0, check=above(0.0))
    sets: Any = option(default="auto", alias="confidence", check=known_set)
    delta: float = option(default=0.05, check=probability)
    search: str = option(default="auto", check=known_search)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        spacing = o["epsilon"] / o["branching"]
        chosen = chosen_set(self, support, n_arms)
        if n_arms > 1:
            spacing = min(spacing, 1.0 / n_arms) if o["search"] != "grid" else spacing
        continuous = continuous_search(
            o["search"], grid_size(n_arms, spacing, "ucb"), metric, support, chosen, self.limits
        )
        return Setup(
            grid=np.zeros((0, n_arms)) if continuous else grid_within(self.limits, ucb_grid(n_arms, spacing)),
            epsilon=spacing,
            numbers={
                "exploration": o["exploration"],
                **search_numbers(continuous, floor_within(self.limits, 0.5 * spacing)),
            },
            confidence=chosen,
        )
