"""W-UCB: a confidence bound for distorted expectations."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import largest, n_elapsed_rounds, pull
from pmbandits.policies.baselines import unpack_scale
from pmbandits.policies.published._checks import require_upper_end_of_support
from pmbandits.policies.published._functionals import fill_empirical_utilities, set_mixture_to_largest_utility
from pmbandits.state.compile import kernel
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """The arm with the largest utility plus a Hölder bonus."""
    s = unpack_scale(memory)
    fill_empirical_utilities(s, s.index)
    depth = 1.5 * math.log(n_elapsed_rounds(s) + 1.0)
    for i in range(s.n_arms):
        if s.n_rewards[i] > 0:
            s.index[i] += s.scale * (depth / s.n_rewards[i]) ** (0.5 * s.holder_q)
        else:
            s.index[i] = np.inf
    return pull(s, largest(s))


class WUCB(Policy, name="w_ucb", choose=choose, update=set_mixture_to_largest_utility, unpack=unpack_scale):
    """W-UCB: pull the arm whose distorted expectation so far, plus a bonus, is the largest.

    It is the natural one to compare with for metrics that distort probabilities.

    **What it looks for:** the single arm with the largest distorted expectation, which is U_h with w = h.

    **What it assumes:** rewards lie in an interval of width M, and w is (L, q)-Hölder: |w(u) − w(v)| ≤ L|u − v|^q for
    all u and v.

    1. Pull every arm once.
    2. Then pull the arm with the largest Σ x_(i)·[w((n+1−i)/n) − w((n−i)/n)] + L·M·(3·ln t/(2n))^(q/2). Here x_(1) ≤ …
       ≤ x_(n) are its rewards in order, and t is the round.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest U_h. A round costs one pass
    over the rewards so far (over the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`.

    References
    ----------
    A. Gopalan, L. A. Prashanth, M. Fu and S. Marcus (2017), *Weighted bandits or: how bandits learn distorted values
    that are not expected*, AAAI.

    R. K. Kolla, L. A. Prashanth, A. Gopalan, K. Jagannathan, M. Fu and S. Marcus (2023), *Bandit algorithms to emulate
    human decision making using probabilistic distortions*.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.WUCB(pmb.PHT(0.5), n_arms=2, support=pmb.Interval(0, 1)).ask(2).tolist()
    [0, 1]
    """

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("WUCB", support)
        pair = metric.holder(support)  # its constant is L·width^(1−q)
        return Setup(grid=np.eye(n_arms), numbers={"scale": pair.constant * support.width**pair.q})
