"""PM-ETC-M: explore, then commit to a mixture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits.engine.confidence_choice import tail_assumption_as_state_numbers
from pmbandits.engine.grid_choice import (
    check_beta,
    check_ties,
    epsilon_and_whether_continuous,
    search_options_as_state_numbers,
)
from pmbandits.engine.options import above, check_search, known_estimates, option, share, whole
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.engine.share_constraints import project_grid
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import etc_grid
from pmbandits.mixtures._continuous_search import best_mixture
from pmbandits.mixtures._grid_search import update_empirical_grid_mixture
from pmbandits.mixtures._index import ready
from pmbandits.mixtures._tracking import fewest, least_observed_arm, most_behind, n_pulls_or_rewards, pull
from pmbandits.schedules import exploration
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.compile import kernel
from pmbandits.state.linking import step
from pmbandits.state.memory import Memory
from pmbandits.state.numba_types import state
from pmbandits.supports import Heavy, Real, Support

unpack = state(horizon=int, explore=int, committed=int, rest_arm=int)


@step("state -> none")
def set_mix_to_largest_utility(s: Any) -> None:
    """``eq:ETC_alpha``: the mixture with the largest empirical utility, on the grid or among all."""
    if s.continuous == 1:
        if s.n_limited == 0:
            fill_array_with(s.mix, 1.0 / s.n_arms)
        best_mixture(s)
    else:
        update_empirical_grid_mixture(s)


@kernel
def choose(memory: int) -> int:
    """Algorithm 1 (``algorithm:PM-ETC-M-Alg``)."""
    s = unpack(memory)
    arm = least_observed_arm(s)
    if n_pulls_or_rewards(s, arm) < s.explore:  # line 2: sample each arm ⌈N(ε)/K⌉ times
        return pull(s, arm)
    if s.committed == 0 and not ready(s):  # rewards are late: nothing to commit to yet
        return pull(s, fewest(s))
    if s.committed == 0:  # eq:ETC_alpha, once
        set_mix_to_largest_utility(s)
        s.committed = 1
    if s.t >= s.horizon or s.n_limited > 0:  # the paper stops here; whoever goes on keeps the proportions
        return pull(s, most_behind(s))
    for i in range(s.n_arms):  # lines 4–7, eq: ETC_samp: each arm of S up to T·a(i)
        if i != s.rest_arm and s.pulls[i] < math.floor(s.horizon * s.mix[i] + 1e-9):
            return pull(s, i)
    return pull(s, s.rest_arm)  # the remaining budget


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards, until the policy has committed."""
    s = unpack(memory)
    if s.committed == 0 and s.dirty == 1 and ready(s):
        set_mix_to_largest_utility(s)


def check_share_or_none(name: str, value: Any) -> float | None:
    """A number above 0 and at most 1, or ``None``: no limit."""
    return None if value is None else share(name, value)


_TIED_HINT = "With tied mixtures the gap is 0: give n_explore instead."


class PMETC(Policy, name="pmetc", choose=choose, update=update, unpack=unpack):
    """PM-ETC-M (Algorithm 1): explore every arm equally, choose the best mixture of a grid, play its proportions.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    horizon : T, the number of rounds that will be played. The proportions are met at T, not before (with limits on
        shares: all the time once the mixture is chosen).
    epsilon : ε, the spacing of the grid of mixtures. A smaller one comes closer to the best mixture, but more
        exploration is needed to tell the points of the grid apart. Default: the paper's schedule with
        ``epsilon_constant``.
    n_explore : N, how many rounds explore, for all arms together. More give a better mixture, and leave fewer rounds to
        make up for the equal shares. By default it follows from ``delta_12`` or ``delta_13``. Without these it is ½KεT
        for K arms.
    delta_12, delta_13 : a gap of the problem, if you know it: then N is N(ε) or N_13(ε) of the paper. At usual horizons
        that exceeds T/2; then ½KεT is taken, as the paper's own experiments do.
    explore_cap : the largest share of the horizon that ½KεT may take. This is ours, and ½ by default, so that half of
        the rounds are left for the mixture. ``None`` is the paper's rule, without a cap.
    epsilon_constant : the leading constant of the schedule of ε, by default 0.2.
    beta : β of that schedule: see :class:`PMUCB`.
    ties : which mixture is chosen where several have the largest utility so far: ``"best"`` (the default), the first of
        the grid, or ``"random"``, any of them, drawn with the policy's seed.
    rest_arm : the position of the arm that gets the rounds that are left when all others have their shares
        (``eq: ETC_samp``; S are the others). By default it is the last arm, as in the paper.
    search : ``"grid"`` is the paper's. ``"continuous"`` looks at all mixtures, for metrics that are concave or convex.
        ``"auto"`` (the default) takes that when the grid would have more than 20,000 points.

    The whole grid is worked out, but only once.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.PMETC(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=0.1)
    >>> policy.ask()
    0
    """

    horizon: int = option(check=whole(2))
    epsilon_: float | None = option(default=None, alias="epsilon", check=share)
    n_explore: int | None = option(default=None, check=whole(1))
    delta_12: float | None = option(default=None, check=above(0.0, hint=_TIED_HINT))
    delta_13: float | None = option(default=None, check=above(0.0, hint=_TIED_HINT))
    explore_cap: float | None = option(default=0.5, check=check_share_or_none)
    epsilon_constant: float = option(default=0.2, check=above(0.0))
    beta: float | str = option(default="auto", check=check_beta)
    ties: str = option(default="best", check=check_ties)
    rest_arm: int | None = option(default=None, check=whole(0))
    search: str = option(default="auto", check=check_search)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)

    def check_options(self) -> None:
        given = [self.options[key] for key in ("n_explore", "delta_12", "delta_13")]
        if sum(x is not None for x in given) > 1:
            raise ValueError("give one of n_explore, delta_12 and delta_13: each sets the exploration by itself.")

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        horizon: int = o["horizon"]
        if isinstance(support, Heavy):
            tail_assumption_as_state_numbers(metric, support)  # says why, where the metric can be infinite
        elif isinstance(support, Real) and not isinstance(metric._holder_modulus_or_reason(), str):
            metric.holder(support)  # says why, where the metric needs a bounded support
        epsilon, continuous = epsilon_and_whether_continuous(o, metric, n_arms, support, "etc", None)
        rest_arm = n_arms - 1 if o["rest_arm"] is None else o["rest_arm"]
        if rest_arm >= n_arms:
            raise ValueError(f"rest_arm={rest_arm} is no arm: arms are numbered 0 to {n_arms - 1}.")
        grid = np.zeros((0, n_arms)) if continuous else project_grid(self.limits, etc_grid(n_arms, epsilon))
        rounds = o["n_explore"]
        gap = o["delta_12"] if o["delta_12"] is not None else o["delta_13"]
        if rounds is None:
            cap = np.inf if o["explore_cap"] is None else o["explore_cap"]
            rule = min(0.5 * n_arms * epsilon, cap) * horizon
            rounds = rule
            if gap is not None:
                pair = metric.holder(support)
                wide = max(1.0, support.scale) ** pair.q  # N(ε) is for 1-sub-Gaussian arms: count in units of σ
                needed = exploration(horizon, n_arms, epsilon, gap, pair.q, wide * pair.constant)
                rounds = needed if needed <= 0.5 * horizon else rule
        each = max(1, math.ceil(rounds / n_arms - 1e-9))
        if each * n_arms > horizon:
            raise ValueError(
                f"the exploration of {each * n_arms} rounds does not fit in a horizon of {horizon}; "
                "take a longer horizon, a smaller epsilon, explore_cap=0.5 or a smaller n_explore."
            )
        return Setup(
            grid=grid,
            epsilon=epsilon,
            numbers={
                "horizon": max(horizon - self._clock_start_round, 0),
                "explore": each,
                "rest_arm": rest_arm,
                **search_options_as_state_numbers(continuous, 0.0, o["ties"]),
            },
        )

    def holds_together(self, memory: Memory) -> bool:
        return memory.committed == 0 or (memory.committed == 1 and memory.n_rewards.min() > 0)

    @property
    def phase(self) -> str:
        """``"explore"`` or ``"commit"``."""
        return "explore" if self._is_exploring() else "commit"
