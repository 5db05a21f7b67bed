"""Mixture-Greedy: draw arms from the best mixture of what was seen so far, without a bonus."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits.engine.options import known_estimates, one_of, option
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._continuous_search import best_mixture
from pmbandits.mixtures._index import due, ready
from pmbandits.mixtures._tracking import fewest, n_elapsed_rounds, pull
from pmbandits.policies._draws import random_share
from pmbandits.policies.published.mixture_ucb import draw_arm_from_mix
from pmbandits.state.compile import kernel
from pmbandits.state.linking import step
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(has_floor=int)


@step("state -> float", unpack)
def floor_share(s: Any) -> float:
    """The least probability of each arm: min(1/K, t^(−1/3)), or 0 without a floor."""
    floor: float = min(1.0 / s.n_arms, n_elapsed_rounds(s) ** (-1.0 / 3.0)) if s.has_floor == 1 else 0.0
    return floor


@kernel
def choose(memory: int) -> int:
    """Draw an arm from the best mixture of the rewards so far, or any arm with the probability of the floor."""
    s = unpack(memory)
    if not ready(s):
        return pull(s, fewest(s))
    if due(s):
        best_mixture(s)
    floor = floor_share(s)
    if floor > 0.0:
        place = random_share(s)
        if place < s.n_arms * floor:
            return pull(s, min(int(place / floor), s.n_arms - 1))
    return pull(s, draw_arm_from_mix(s))


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)


class MixtureGreedy(Policy, name="mixture_greedy", choose=choose, update=update, unpack=unpack):
    """Mixture-Greedy: draw arms from the mixture that is best for the rewards so far, without a bonus for exploration.

    **What it looks for:** the best mixture, for any metric.

    **What it assumes:** that the best mixture gives every arm a share, so that all arms are explored by themselves.
    Where an arm has no share, it may be left out after a few bad rewards and never be tried again. A floor prevents
    this. The horizon need not be known.

    **What is proved:** by its authors, sublinear regret for utilities of generative models whose best mixtures lie in
    the interior. Nothing is proved for preference metrics.

    1. Pull the arms in turn until each has paid.
    2. Find the mixture with the largest empirical utility, and draw the arm from it.
    3. With ``floor="cube_root"``, each arm is drawn with a probability of at least min(1/K, t^(−1/3)) in round t, for K
       arms.

    ``mixture`` is the mixture that was found, without the floor.

    **What differs from the publication:** we know its abstract and a summary, not its pseudocode. It plays generative
    models, scored by kernels; here rewards take their place. With the floor f, an arm is drawn from (1 − K·f)·a + f,
    where a is the mixture that was found. The mixture is found as :class:`Track` does, and beyond 0/1 rewards only
    after 1 % more rewards.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`; the seed draws
        the arms.
    floor : ``"none"`` (the default) or ``"cube_root"``, as above.

    References
    ----------
    B. Dibaei Nia and F. Farnia (2026), *When exploration comes for free with Mixture-Greedy: do we need UCB in
    diversity-aware multi-armed bandits?*, arXiv 2603.21716.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.MixtureGreedy(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> for t in range(2000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.round(1).tolist()
    [0.8, 0.2]
    """

    floor: str = option(default="none", check=one_of("none", "cube_root"))
    keep: str = option(default="exact", alias="estimates", check=known_estimates)
    forgets: ClassVar[bool] = True

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        numbers = {"has_floor": int(self.options["floor"] == "cube_root"), "search_tolerance": 0.01}
        return Setup(grid=np.zeros((0, n_arms)), numbers=numbers)
