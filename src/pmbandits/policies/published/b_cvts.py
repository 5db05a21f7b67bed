"""B-CVTS: Thompson sampling for CVaR on rewards with a known upper bound."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies._state import ARMS
from pmbandits.policies.base import Policy, Setup
from pmbandits.policies.published._checks import bounded, tail_level, tail_metric
from pmbandits.policies.published._kernels import LEVEL, draw_rewards, largest, lower_cvar, scratch, update_cvar
from pmbandits.supports import Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    weight, anchor, total = scratch(s), np.empty((s.size[ARMS], 2)), np.empty(s.size[ARMS])
    draw_rewards(s.whole, False, weight, anchor, total)
    lower_cvar(s.whole, s.knobs[LEVEL], weight, total, s.index)
    return st.pull(s, largest(s))


class BCVTS(Policy):
    """B-CVTS: reweight each arm's rewards and the upper bound at random, and pull the arm with the best CVaR.

    **Objective:** the largest lower-tail CVaR (mean of the worst α share of rewards): maximised.
    **Assumes:** rewards at most B, the upper end of the support. No horizon. Asymptotically optimal.

    1. For each arm draw Dirichlet(1, …, 1) weights on B and all its rewards.
    2. Pull the arm whose weighted rewards have the largest CVaR.

    ``mixture`` is the arm with the largest empirical CVaR. **A round costs O(rewards so far)**, for all arms in one
    pass, so T rounds cost O(T²); on a finite support equal rewards share one variate and a round costs O(K × atoms).

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`; the metric is ``LowerCVaR(alpha)``.
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

    name: ClassVar[str] = "b_cvts"
    _choose = staticmethod(choose)
    _update = staticmethod(update_cvar)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        alpha: float | None = None,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        metric, alpha = tail_metric(metric, alpha)
        self._start(metric, n_arms, support, names, seed, alpha=alpha)

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        bounded("BCVTS", support)
        return Setup(grid=np.eye(n_arms), knobs={LEVEL: tail_level("BCVTS", metric, self.options["alpha"])})
