"""CVaR-UCB: optimism over a band around each arm's CDF."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.engine.options import option, whole
from pmbandits.engine.plan import Setup
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import pull
from pmbandits.policies._draws import TIES, pick_largest
from pmbandits.policies.published._checks import TailPolicy, require_upper_end_of_support
from pmbandits.policies.published._functionals import fill_optimistic_cvars, unpack_tail
from pmbandits.state.compile import kernel
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """The arm whose lower-tail CVaR can be the largest in a band around its empirical distribution."""
    s = unpack_tail(memory)
    shift = np.empty(s.n_arms)
    for i in range(s.n_arms):
        shift[i] = s.scale / math.sqrt(s.n_rewards[i]) if s.n_rewards[i] > 0 else 1.0
    fill_optimistic_cvars(s, s.tail, shift, s.index)
    for i in range(s.n_arms):
        if s.n_rewards[i] == 0:
            s.index[i] = np.inf
    return pull(s, pick_largest(s, s.ties))


class CVaRUCB(TailPolicy, name="cvar_ucb", choose=choose):
    """CVaR-UCB: pull the arm whose lower-tail CVaR can be the largest inside a confidence band.

    **What it looks for:** the arm with the largest lower-tail CVaR, which is the mean of the worst α share of its
    rewards.

    **What it assumes:** no reward is larger than B, the upper end of the support, and the horizon is known.

    The band is that of Dvoretzky, Kiefer and Wolfowitz (DKW): all distribution functions (CDFs) that are at no point
    further than b from the one of the arm's rewards.

    1. Pull every arm once.
    2. Then pull the arm with the largest CVaR that is possible in its band: B − (1/α)·Σ_{i=1..n} (x_(i+1) −
       x_(i))·clip(i/n − b, 0, α). Here x_(1) ≤ … ≤ x_(n) are its rewards in order, x_(n+1) = B, and b =
       √(ln(2T²)/(2n)).

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest lower-tail CVaR. A round
    costs one pass over the rewards so far (over the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is
        ``LowerCVaR(alpha)``.
    horizon : T, how many rounds will be played.
    alpha : the share α of rewards that counts as the worst, above 0 and at most 1. By default it is that of the metric.
        If you give it, any metric is accepted, and the metric is not used.
    ties : which of several arms with the same index is pulled: the one with the fewest pulls (``"fewest"``), any
        (``"random"``), or the first (``"first"``). The paper does not say.

    References
    ----------
    A. Tamkin, R. Keramati, C. Dann and E. Brunskill (2019), *Distributionally-aware exploration for CVaR bandits*.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.CVaRUCB(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Interval(0, 1), horizon=1000)
    >>> policy.ask(2).tolist()
    [0, 1]
    """

    horizon: int = option(check=whole(2))

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("CVaRUCB", support)
        level = self.tail_level(metric)
        scale = math.sqrt(0.5 * math.log(2.0 * self.options["horizon"] ** 2))
        return Setup(grid=np.eye(n_arms), numbers={"ties": TIES[self.options["ties"]], "tail": level, "scale": scale})
