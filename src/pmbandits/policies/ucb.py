"""PM-UCB-M: optimism over mixtures, and tracking."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _search as search
from pmbandits.policies import _state as st
from pmbandits.policies._state import ASKED, CONTINUOUS, EXPLORE, GROW
from pmbandits.policies.base import (
    Policy,
    Setup,
    known_estimates,
    known_search,
    known_set,
    probability,
    schedule_epsilon,
    search_knobs,
    spacing,
)
from pmbandits.mixtures import ucb_grid
from pmbandits.supports import Support


@kernel
def optimistic_mixture(whole: Any) -> None:
    """``eq:UCB_alpha``, over the grid or over all mixtures."""
    if st.parts(whole).knobs[CONTINUOUS] == 1.0:
        search.continuous_mixture(whole, False)
    else:
        st.optimistic_mixture(whole)


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    """Algorithm 2 (``algorithm:B-UCB-M``)."""
    s = st.unpack(ints, floats)
    if s.clock[ASKED] < s.size[0] * int(s.knobs[EXPLORE]):  # line 2: sample each arm N(ρ, ε) times
        return st.pull(s, st.fewest(s))
    if st.due(s):  # lines 6–8: estimates, sets, optimistic mixture
        if st.short_table(s):
            return GROW
        optimistic_mixture(s.whole)
    return st.pull(s, st.most_behind(s))  # line 5, eq:UCB_sampling_rule


@kernel
def update(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    if st.due(s):
        optimistic_mixture(s.whole)
        if s.clock[ASKED] < s.size[0] * int(s.knobs[EXPLORE]):
            st.forget_choice(s)


class PMUCB(Policy):
    """PM-UCB-M (Algorithm 2): play the mixture whose best possible utility is the largest.

    Parameters
    ----------
    metric, n_arms, support, names, seed, estimates : see :class:`Policy`.
    horizon : T. Sets the exploration and how long the confidence sets must hold.
    epsilon : spacing of the grid, at most 2/K: every arm keeps a share of at least ε/2. Smaller is closer to the
        best mixture and costs time for each round. Default: the paper's schedule with ``epsilon_constant``.
    rho : each arm is first pulled ⌈ρTε/4⌉ times. More is safer against a poor start; it costs nothing while it is
        below the arm's final share.
    confidence : ``"auto"`` (tight and valid), ``"paper"`` (its constants to the letter: inert at usual horizons),
        ``"dkw"``, ``"wasserstein"``, ``"kl"`` or an object; see :func:`pmbandits.confidence.confidence_set`.
    delta : probability that an arm's confidence set ever fails; default 1/T. Larger explores less.
    epsilon_constant : leading constant of the schedule of ε.
    search : ``"grid"`` is the paper's; ``"continuous"`` looks at all mixtures with weights ≥ ε/2, for metrics that
        are concave (a certified solver) or convex (the corners), again whenever 1 % more rewards are in; ``"auto"``
        takes that when the grid would pass 20,000 points. With many arms the floor ε/2 of each costs up to Kε/2 of all
        pulls, and optimism over mixtures explores for long: :class:`Track` does better.

    A round works out only mixtures that may have become the best. Where nothing bounds how fast a value drifts (no
    Hölder pair, unless the metric is concave and the support bounded) it works out all of the grid.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.PMUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=1 / 8)
    >>> for t in range(1000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.tolist()
    [0.9375, 0.0625]
    """

    name: ClassVar[str] = "pmucb"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        horizon: int,
        epsilon: float | None = None,
        rho: float = 0.1,
        confidence: Any = "auto",
        delta: float | None = None,
        epsilon_constant: float = 0.2,
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
            horizon=_check.whole("horizon", horizon, 2),
            epsilon=spacing(epsilon),
            rho=_check.within("rho", rho, 0.0, 1.0, open_lo=True),
            confidence=known_set(confidence),
            delta=probability(delta),
            epsilon_constant=_check.within("epsilon_constant", epsilon_constant, 0.0, open_lo=True),
            search=known_search(search),
            estimates=known_estimates(estimates),
        )

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        chosen = self._confidence_set(support, n_arms)
        epsilon, continuous = schedule_epsilon(o, metric, n_arms, support, "ucb", chosen)
        each = max(1, math.ceil(o["rho"] * o["horizon"] * epsilon / 4.0))
        if each * n_arms > o["horizon"]:
            raise ValueError(
                f"the exploration of {each * n_arms} rounds does not fit in a horizon of {o['horizon']}; "
                "take a longer horizon or a smaller rho."
            )
        return Setup(
            grid=np.zeros((0, n_arms)) if continuous else ucb_grid(n_arms, epsilon),
            epsilon=epsilon,
            knobs={EXPLORE: each, **search_knobs(continuous, 0.5 * epsilon)},
            confidence=chosen,
        )

    @property
    def phase(self) -> str:
        """``"explore"`` or ``"track"``."""
        asked = int(self._view("clock")[ASKED])
        return "explore" if asked < int(self._view("knobs")[EXPLORE]) * self.n_arms else "track"
