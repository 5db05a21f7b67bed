"""B-CVTS: Thompson sampling for CVaR on rewards with a known upper bound."""

from __future__ import annotations

import numpy as np

from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._sampling import largest, pull
from pmbandits.policies.build import Setup
from pmbandits.policies.options import option, share
from pmbandits.policies.policy import Policy
from pmbandits.policies.published._checks import bounded, tail_level, tail_metric
from pmbandits.policies.published._laws import draw_rewards, lower_cvar, scratch, unpack_tail, update_cvar
from pmbandits.state.compile import kernel
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """The arm whose lower-tail CVaR is the largest under weights drawn from the posterior."""
    s = unpack_tail(memory)
    weight, anchor, total = scratch(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    draw_rewards(s, False, weight, anchor, total)
    lower_cvar(s, s.tail, weight, total, s.index)
    return pull(s, largest(s))


class BCVTS(Policy, name="b_cvts", choose=choose, update=update_cvar, unpack=unpack_tail):
    """B-CVTS: reweight each arm's rewards and the upper bound at random, and pull the arm with the best CVaR.

    **Objective:** the largest lower-tail CVaR (mean of the worst α share of rewards): maximised.
    **Assumes:** rewards at most B, the upper end of the support. No horizon. Asymptotically optimal.

    1. For each arm draw Dirichlet(1, …, 1) weights on B and all its rewards.
    2. Pull the arm whose weighted rewards have the largest CVaR.

    ``mixture`` is the arm with the largest empirical CVaR. **A round costs O(rewards so far)**, for all arms in one
    pass, so T rounds cost O(T²); on a finite support equal rewards share one variate and a round costs O(K × atoms).

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is
        ``LowerCVaR(alpha)``.
    alpha : the share; default that of the metric. Given, any metric is accepted and not used.

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

    alpha: float | None = option(default=None, check=share)

    def default_metric(self) -> Distortion | None:
        return tail_metric(self.options["alpha"])

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        bounded("BCVTS", support)
        return Setup(grid=np.eye(n_arms), numbers={"tail": tail_level("BCVTS", metric, self.options["alpha"])})
