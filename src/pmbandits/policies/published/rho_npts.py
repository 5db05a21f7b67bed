"""ρ-NPTS: non-parametric Thompson sampling for any continuous risk functional."""

from __future__ import annotations

import numpy as np

from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._sampling import largest, pull
from pmbandits.policies.build import Setup
from pmbandits.policies.policy import Policy
from pmbandits.policies.published._checks import bounded, continuous
from pmbandits.policies.published._laws import distorted, draw_rewards, scratch, update_utility
from pmbandits.state.compile import kernel
from pmbandits.state.views import state
from pmbandits.supports import Support

unpack = state(both_ends=int)


@kernel
def choose(memory: int) -> int:
    """The arm whose utility is the largest under weights drawn from the posterior."""
    s = unpack(memory)
    weight, anchor, total = scratch(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    draw_rewards(s, s.both_ends == 1, weight, anchor, total)
    distorted(s, weight, anchor, total, s.index)
    return pull(s, largest(s))


class RhoNPTS(Policy, name="rho_npts", choose=choose, update=update_utility, unpack=unpack):
    """ρ-NPTS: reweight each arm's rewards and an anchor at random, and pull the arm with the best U_h.

    **Objective:** the largest U_h of a single arm: maximised, for whatever the metric says.
    **Assumes:** a bounded support, whose upper end is the anchor; h is continuous. No horizon.

    1. For each arm draw Dirichlet(1, …, 1) weights on the anchor and all its rewards.
    2. Pull the arm whose weighted rewards have the largest U_h.

    The upper end alone is optimistic only where h is increasing. For the other metrics (deviations, which are 0 for an
    arm that always pays the most) the published rule would give up an arm after one reward; there the lower end is a
    second anchor, which is our addition. With ``LowerCVaR`` it is B-CVTS.

    ``mixture`` is the arm with the largest empirical U_h. **A round costs O(rewards so far)**, for all arms in one
    pass, so T rounds cost O(T²); on a finite support a round costs O(K × atoms).

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`.

    References
    ----------
    J. Q. L. Chang and V. Y. F. Tan (2022), *A unifying theory of Thompson sampling for continuous risk-averse
    bandits*, AAAI.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.RhoNPTS(pmb.DualPower(2), n_arms=2, support=pmb.Interval(0, 1))
    >>> for _ in range(200):
    ...     arm = policy.ask()
    ...     policy.tell(arm, 0.2 + 0.5 * arm)
    >>> policy.mixture.tolist()
    [0.0, 1.0]
    """

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        bounded("RhoNPTS", support)
        continuous("RhoNPTS", metric)
        return Setup(grid=np.eye(n_arms), numbers={"both_ends": int(metric.monotonicity != "increasing")})
