"""U-UCB: a confidence bound for any stable functional of the empirical distribution."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.engine.options import above, option
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import largest, n_elapsed_rounds, pull
from pmbandits.policies.published._checks import require_upper_end_of_support
from pmbandits.policies.published._functionals import fill_empirical_utilities, set_mixture_to_largest_utility
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(growth=float, scale=float)


@kernel
def choose(memory: int) -> int:
    """The arm with the largest utility plus what its stability allows."""
    s = unpack(memory)
    fill_empirical_utilities(s, s.index)
    depth = 0.5 * s.growth * math.log(n_elapsed_rounds(s) + 1.0)
    for i in range(s.n_arms):
        if s.n_rewards[i] > 0:
            y = depth / s.n_rewards[i]
            s.index[i] += s.scale * max(math.sqrt(y), y ** (0.5 * s.holder_q))
        else:
            s.index[i] = np.inf
    return pull(s, largest(s))


class UUCB(Policy, name="u_ucb", choose=choose, update=set_mixture_to_largest_utility, unpack=unpack):
    """U-UCB: pull the arm whose utility so far, plus a bonus for what chance can do to it, is the largest.

    **What it looks for:** the single arm with the largest utility U_h, whatever the metric is. The authors call their
    framework EDPM (empirical distribution performance measures).

    **What it assumes:** a small change of the distribution changes the utility little: |U(F) − U(G)| ≤ b(‖F − G‖ + ‖F −
    G‖^q), where ‖F − G‖ is the largest distance of the two distribution functions. For U_h on a bounded support this
    follows from the Hölder pair of h.

    1. Pull every arm once.
    2. Then pull the arm with the largest U_h(rewards) + max{2b·√(x/2), 2b·(x/2)^(q/2)}, with x = A·ln t/n in round t,
       for an arm that has n rewards.

    2b is taken as C·width, with |h(u) − h(v)| ≤ C|u − v|^q: the smallest number for which the bonus is valid.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest U_h. A round costs one pass
    over the rewards so far (over the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`.
    growth : A, more than 2. A larger one explores more. The default is 2.01.

    References
    ----------
    A. Cassel, S. Mannor and A. Zeevi (2018), *A general approach to multi-armed bandits under risk criteria*, COLT.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.UUCB(pmb.DualPower(2), n_arms=2, support=pmb.Interval(0, 1)).ask(2).tolist()
    [0, 1]
    """

    growth: float = option(default=2.01, check=above(2.0))

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("UUCB", support)
        pair = metric.holder(support)
        numbers = {"growth": self.options["growth"], "scale": pair.constant * support.width**pair.q}
        return Setup(grid=np.eye(n_arms), numbers=numbers)
