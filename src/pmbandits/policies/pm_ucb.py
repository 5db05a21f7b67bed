"""PM-UCB-M: optimism over mixtures, and tracking."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits.engine.grid_choice import (
    check_beta,
    check_ties,
    epsilon_and_whether_continuous,
    search_options_as_state_numbers,
)
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
from pmbandits.mixtures import ucb_grid
from pmbandits.mixtures._continuous_search import update_optimistic_mixture
from pmbandits.mixtures._grid_search import update_optimistic_grid_mixture
from pmbandits.mixtures._index import due
from pmbandits.mixtures._tracking import least_observed_arm, most_behind, n_pulls_or_rewards, pull
from pmbandits.state.compile import kernel
from pmbandits.state.linking import step
from pmbandits.state.numba_types import state
from pmbandits.state.numba_types import unpack as unpack_any
from pmbandits.supports import Support

unpack = state(explore=int)


@step("state -> none")
def update_most_optimistic_mixture(s: Any) -> None:
    """``eq:UCB_alpha``: the mixture whose best possible utility is the largest, on the grid or among all."""
    if s.continuous == 1:
        update_optimistic_mixture(s, False)
    else:
        update_optimistic_grid_mixture(s)


@kernel
def choose(memory: int) -> int:
    """Algorithm 2 (``algorithm:B-UCB-M``)."""
    s = unpack(memory)
    arm = least_observed_arm(s)
    if n_pulls_or_rewards(s, arm) < s.explore:  # line 2: sample each arm N(ρ, ε) times
        return pull(s, arm)
    if due(s):  # lines 6–8: estimates, sets, optimistic mixture
        update_most_optimistic_mixture(s)
    return pull(s, most_behind(s))  # line 5, eq:UCB_sampling_rule


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards."""
    s = unpack_any(memory)
    if due(s):
        update_most_optimistic_mixture(s)


class PMUCB(Policy, name="pmucb", choose=choose, update=update, unpack=unpack):
    """PM-UCB-M (Algorithm 2): play the mixture whose utility can be the largest inside the confidence sets.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    horizon : T, how many rounds will be played. It sets how much is explored, and how long the confidence sets must
        hold.
    epsilon : ε, the spacing of the grid of mixtures, at most 2/K for K arms: every arm keeps a share of at least ε/2. A
        smaller one comes closer to the best mixture, and every round takes longer. Default: the paper's schedule with
        ``epsilon_constant``.
    rho : ρ, by default 0.1. Each arm is first pulled ⌈ρTε/4⌉ times. More is safer against a poor start; it costs
        nothing while it is below the arm's final share.
    confidence : which confidence sets: ``"auto"`` (tight and valid), ``"paper"`` (its constants, too large to be of
        use), ``"dkw"``, ``"wasserstein"``, ``"kl"`` or an object; see :func:`pmbandits.confidence.confidence_set`.
    delta : the probability that an arm's confidence set ever fails; by default 1/T. A larger one explores less.
    epsilon_constant : the leading constant of the schedule of ε, by default 0.2.
    beta : β of that schedule: 1, 2 or any number above 0. ``"auto"`` (the default) takes 1 where the metric and the
        support leave no smooth peak (the mean, and others where one arm alone is best). Elsewhere it takes 2, as the
        paper does.
    ties : which mixture of the grid is taken where several have the largest index and the one played before is not
        among them. ``"best"`` (the default) takes the one with the highest utility so far. ``"random"`` takes any, as
        the paper allows; it is drawn with the policy's seed, and every round then works out the whole grid.
    search : ``"grid"`` is the paper's. ``"continuous"`` looks at all mixtures with weights ≥ ε/2, again whenever 1 %
        more rewards are in; it is for metrics that are concave (by a certified solver) or convex (at the corners).
        ``"auto"`` (the default) takes that when the grid would have more than 20,000 points. With many arms the
        smallest share ε/2 of each costs up to Kε/2 of all pulls, and optimism over mixtures explores for long:
        :class:`Track` does better.

    A round works out only mixtures that may have become the best, or the whole grid at once where that is faster. It
    works out the whole grid where nothing limits how fast a value can change: without a Hölder pair, unless the metric
    is concave and the support bounded.

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

    horizon: int = option(check=whole(2))
    epsilon_: float | None = option(default=None, alias="epsilon", check=share)
    rho: float = option(default=0.1, check=share)
    sets: Any = option(default="auto", alias="confidence", check=check_confidence)
    delta: float | None = option(default=None, check=probability)
    epsilon_constant: float = option(default=0.2, check=above(0.0))
    beta: float | str = option(default="auto", check=check_beta)
    ties: str = option(default="best", check=check_ties)
    search: str = option(default="auto", check=check_search)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)
    _adds_bonus: ClassVar = False  # whether the index uses the W1 radius of each arm's distribution

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        chosen = self.choose_confidence_set(support, n_arms, needs_wasserstein=self._adds_bonus)
        epsilon, continuous = epsilon_and_whether_continuous(o, metric, n_arms, support, "ucb", chosen, self.limits)
        each = max(1, math.ceil(o["rho"] * o["horizon"] * epsilon / 4.0))
        if each * n_arms > o["horizon"]:
            raise ValueError(
                f"the exploration of {each * n_arms} rounds does not fit in a horizon of {o['horizon']}; "
                "take a longer horizon or a smaller rho."
            )
        return Setup(
            grid=np.zeros((0, n_arms)) if continuous else project_grid(self.limits, ucb_grid(n_arms, epsilon)),
            epsilon=epsilon,
            blocks=True,
            numbers={
                "explore": each,
                **search_options_as_state_numbers(
                    continuous, feasible_share_floor(self.limits, 0.5 * epsilon), o["ties"]
                ),
            },
            confidence=chosen,
        )

    @property
    def phase(self) -> str:
        """``"explore"`` or ``"track"``."""
        return "explore" if self._is_exploring() else "track"
