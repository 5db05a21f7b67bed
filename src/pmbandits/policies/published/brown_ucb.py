"""Brown-UCB: the empirical CVaR plus Brown's deviation bound."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.engine.options import option, probability, whole
from pmbandits.engine.plan import Setup
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import pull
from pmbandits.policies._draws import TIES, pick_largest
from pmbandits.policies.published._checks import TailPolicy, log_inverse_delta, require_upper_end_of_support
from pmbandits.policies.published._functionals import fill_empirical_cvars, unpack_tail
from pmbandits.state.compile import kernel
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """The arm with the largest upper bound of its lower-tail CVaR."""
    s = unpack_tail(memory)
    fill_empirical_cvars(s, s.tail, s.index)
    for i in range(s.n_arms):
        s.index[i] = s.index[i] + s.scale / math.sqrt(s.n_rewards[i]) if s.n_rewards[i] > 0 else np.inf
    return pull(s, pick_largest(s, s.ties))


class BrownUCB(TailPolicy, name="brown_ucb", choose=choose):
    """Brown-UCB: pull the arm whose lower-tail CVaR plus a bonus for what is not yet known is the largest.

    **What it looks for:** the arm with the largest lower-tail CVaR, which is the mean of the worst α share of its
    rewards.

    **What it assumes:** rewards lie in a bounded interval of width B, and the horizon is known.

    1. Pull every arm once.
    2. Then pull the arm with the largest CVaR(rewards) + (B/α)·√(ln(1/δ)/(2n)), where n is the number of its rewards.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest lower-tail CVaR. A round
    costs one pass over the rewards so far (over the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is
        ``LowerCVaR(alpha)``.
    horizon : T, how many rounds will be played.
    alpha : the share α of rewards that counts as the worst, above 0 and at most 1. By default it is that of the metric.
        If you give it, any metric is accepted, and the metric is not used.
    delta : δ, the probability with which one bound may fail. By default 1/T². A smaller δ explores more.
    ties : which of several arms with the same index is pulled: the one with the fewest pulls (``"fewest"``), any
        (``"random"``), or the first (``"first"``). The paper does not say.

    References
    ----------
    D. B. Brown (2007), *Large deviations bounds for estimating conditional value-at-risk*, OR Letters 35; as the
    baseline of Tamkin, Keramati, Dann and Brunskill (2019).

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.BrownUCB(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Interval(0, 1), horizon=1000)
    >>> policy.ask(2).tolist()
    [0, 1]
    """

    horizon: int = option(check=whole(2))
    delta: float | None = option(default=None, check=probability)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("BrownUCB", support)
        o = self.options
        level = self.tail_level(metric)
        scale = support.width / level * math.sqrt(0.5 * log_inverse_delta(o["horizon"], o["delta"]))
        return Setup(grid=np.eye(n_arms), numbers={"ties": TIES[self.options["ties"]], "tail": level, "scale": scale})
