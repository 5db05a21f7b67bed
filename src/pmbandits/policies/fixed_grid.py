"""The fixed-grid anytime variant: PM-UCB-M's index with CIRT's sampling rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits.engine.grid_choice import search_options_as_state_numbers, use_continuous_search
from pmbandits.engine.options import (
    above,
    check_confidence,
    check_search,
    known_estimates,
    option,
    probability,
    share,
    whole,
)
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.engine.share_constraints import feasible_share_floor, project_grid
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import grid_size, ucb_grid
from pmbandits.mixtures._index import due
from pmbandits.mixtures._tracking import explore_or_track, pull
from pmbandits.policies.pm_ucb import update, update_most_optimistic_mixture
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import unpack
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """PM-UCB-M's mixture, and CIRT's rule for the arm."""
    s = unpack(memory)
    if due(s):
        update_most_optimistic_mixture(s)
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
    sets: Any = option(default="auto", alias="confidence", check=check_confidence)
    delta: float = option(default=0.05, check=probability)
    search: str = option(default="auto", check=check_search)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        spacing = o["epsilon"] / o["branching"]
        chosen = self.choose_confidence_set(support, n_arms)
        if n_arms > 1:
            spacing = min(spacing, 1.0 / n_arms) if o["search"] != "grid" else spacing
        continuous = use_continuous_search(
            o["search"], grid_size(n_arms, spacing, "ucb"), metric, support, chosen, self.limits
        )
        return Setup(
            grid=np.zeros((0, n_arms)) if continuous else project_grid(self.limits, ucb_grid(n_arms, spacing)),
            epsilon=spacing,
            blocks=True,
            numbers={
                "exploration": o["exploration"],
                **search_options_as_state_numbers(continuous, feasible_share_floor(self.limits, 0.5 * spacing)),
            },
            confidence=chosen,
        )
