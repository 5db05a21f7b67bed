"""The fixed-grid anytime variant: PM-UCB-M's index with CIRT's sampling rule."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies._state import GROW, XI
from pmbandits.policies.base import (
    Policy,
    Setup,
    continuous_search,
    known_estimates,
    known_search,
    known_set,
    probability,
    search_knobs,
)
from pmbandits.policies.ucb import optimistic_mixture, update
from pmbandits.mixtures import grid_size, ucb_grid
from pmbandits.supports import Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    if st.due(s):
        if st.short_table(s):
            return GROW
        optimistic_mixture(s.whole)
    return st.pull(s, st.explore_or_track(s))


class FixedGrid(Policy):
    """The anytime algorithm without refinement: all of the final grid, spacing ε/A, from the first round on.

    What CIRT is compared with in the paper: it finds as fine a mixture, at the price of the whole grid each round
    (of which it works out what may have become the best, with the exceptions of :class:`PMUCB`).

    Parameters
    ----------
    metric, n_arms, support, names, seed, estimates : see :class:`Policy`.
    epsilon, branching : the grid has spacing ε/A. Finer is closer to the best mixture and slower.
    exploration : ξ; every arm is pulled about (t/K)^(1/(1+ξ)) times at least. Larger explores less.
    confidence, delta : as for :class:`CIRT`.
    search : as for :class:`PMUCB`; with ``"continuous"`` ε/A only sets the floor ε/(2A) of every weight.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.FixedGrid(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary()).ask()
    0
    """

    name: ClassVar[str] = "fixed_grid"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        epsilon: float = 0.12,
        branching: int = 4,
        exploration: float = 1.0,
        confidence: Any = "auto",
        delta: float = 0.05,
        search: str = "auto",
        estimates: str = "exact",
        names: Any = None,
        seed: int = 0,
    ) -> None:
        self._start(
            metric,
            n_arms,
            support,
            names,
            seed,
            epsilon=_check.within("epsilon", epsilon, 0.0, 1.0, open_lo=True),
            branching=_check.whole("branching", branching, 1),
            exploration=_check.within("exploration", exploration, 0.0, open_lo=True),
            confidence=known_set(confidence),
            delta=probability(delta),
            search=known_search(search),
            estimates=known_estimates(estimates),
        )

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        spacing = o["epsilon"] / o["branching"]
        chosen = self._confidence_set(support, n_arms)
        if n_arms > 1:
            spacing = min(spacing, 1.0 / n_arms) if o["search"] != "grid" else spacing
        continuous = continuous_search(o["search"], grid_size(n_arms, spacing, "ucb"), metric, support, chosen)
        return Setup(
            grid=np.zeros((0, n_arms)) if continuous else ucb_grid(n_arms, spacing),
            epsilon=spacing,
            knobs={XI: o["exploration"], **search_knobs(continuous, 0.5 * spacing)},
            confidence=chosen,
        )
