"""B-CVTS: Thompson sampling for CVaR on rewards with a known upper bound."""

from __future__ import annotations

import numpy as np

from pmbandits.engine.options import one_of, option
from pmbandits.engine.plan import Setup
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import pull
from pmbandits.policies._draws import TIES, pick_largest
from pmbandits.policies.published._checks import TailPolicy, require_upper_end_of_support
from pmbandits.policies.published._functionals import (
    allocate_reward_weights,
    fill_dirichlet_weights_on_rewards,
    fill_weighted_lower_cvars,
    unpack_tail,
)
from pmbandits.state.compile import kernel
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """The arm whose lower-tail CVaR is the largest under weights drawn from the posterior."""
    s = unpack_tail(memory)
    weight, anchor, total = allocate_reward_weights(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    fill_dirichlet_weights_on_rewards(s, 1, weight, anchor, total)
    fill_weighted_lower_cvars(s, s.tail, weight, total, s.index)
    return pull(s, pick_largest(s, s.ties))


class BCVTS(TailPolicy, name="b_cvts", choose=choose):
    """B-CVTS: draw random weights for the rewards of each arm, and pull the arm whose CVaR is then the largest.

    **What it looks for:** the arm with the largest lower-tail CVaR, which is the mean of the worst α share of its
    rewards.

    **What it assumes:** no reward is larger than B, the upper end of the support. The horizon need not be known. Its
    regret is proved to be the best possible in the long run (it is asymptotically optimal).

    In each round:

    1. For each arm draw Dirichlet(1, …, 1) weights for B and all rewards of the arm: weights that add up to 1, with all
       choices of such weights equally likely.
    2. Pull the arm whose weighted rewards have the largest lower-tail CVaR.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest lower-tail CVaR. **The cost
    of a round grows with the number of rewards**: it is one pass over all of them, for all arms together, so T rounds
    cost O(T²). On a finite support equal rewards share one random number, and a round costs O(K × atoms) for K arms.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is
        ``LowerCVaR(alpha)``.
    alpha : the share α of rewards that counts as the worst, above 0 and at most 1. By default it is that of the metric.
        If you give it, any metric is accepted, and the metric is not used.
    ties : which of several arms with the same CVaR is pulled: any of them (``"random"``), the one with the fewest pulls
        (``"fewest"``), or the first (``"first"``). The paper does not say; ties are common where the worst reward has a
        probability above α, and ``"fewest"`` explores more.

    References
    ----------
    D. Baudry, R. Gautron, E. Kaufmann and O.-A. Maillard (2021), *Optimal Thompson sampling strategies for
    support-aware CVaR bandits*, ICML.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.BCVTS(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Interval(0, 1))
    >>> for _ in range(200):
    ...     arm = policy.ask()
    ...     policy.tell(arm, 0.2 + 0.5 * arm)
    >>> policy.mixture.tolist()
    [0.0, 1.0]
    """

    ties: str = option(default="random", check=one_of(*TIES))

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("BCVTS", support)
        return Setup(grid=np.eye(n_arms), numbers={"ties": TIES[self.options["ties"]], "tail": self.tail_level(metric)})
