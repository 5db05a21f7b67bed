"""Brown-UCB: the empirical CVaR plus Brown's deviation bound."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies._state import ARMS
from pmbandits.policies.base import Policy, Setup, probability
from pmbandits.policies.published._checks import bounded, tail_level, tail_metric
from pmbandits.policies.published._kernels import LEVEL, SCALE, empirical_cvars, largest, update_cvar
from pmbandits.supports import Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    empirical_cvars(s.whole, s.index)
    for i in range(s.size[ARMS]):
        s.index[i] = s.index[i] + s.knobs[SCALE] / math.sqrt(s.told[i]) if s.told[i] > 0 else np.inf
    return st.pull(s, largest(s))


class BrownUCB(Policy):
    """Brown-UCB: the empirical lower-tail CVaR plus an additive bonus.

    **Objective:** the largest lower-tail CVaR (mean of the worst α share of rewards): maximised.
    **Assumes:** rewards in a bounded interval of width B; the horizon is known.

    1. Pull every arm once.
    2. Then the arm with the largest index CVaR(rewards) + (B/α)·√(ln(1/δ)/(2n)).

    ``mixture`` is the arm with the largest empirical CVaR. A round costs one pass over the rewards so far (over the
    atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`; the metric is ``LowerCVaR(alpha)``.
    horizon : T.
    alpha : the share; default that of the metric. Given, any metric is accepted and not used.
    delta : probability that a bound fails; default T⁻².

    References
    ----------
    D. B. Brown (2007), *Large deviations bounds for estimating conditional value-at-risk*, OR Letters 35; as the
    yardstick of Tamkin, Keramati, Dann and Brunskill (2019).

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.BrownUCB(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Interval(0, 1), horizon=1000)
    >>> policy.ask(2).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "brown_ucb"
    _choose = staticmethod(choose)
    _update = staticmethod(update_cvar)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        horizon: int,
        alpha: float | None = None,
        delta: float | None = None,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        metric, alpha = tail_metric(metric, alpha)
        self._start(
            metric, n_arms, support, names, seed,
            horizon=_check.whole("horizon", horizon, 2), alpha=alpha, delta=probability(delta),
        )  # fmt: skip

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        bounded("BrownUCB", support)
        o = self.options
        level = tail_level("BrownUCB", metric, o["alpha"])
        depth = 2.0 * math.log(o["horizon"]) if o["delta"] is None else -math.log(o["delta"])
        return Setup(grid=np.eye(n_arms), knobs={LEVEL: level, SCALE: support.width / level * math.sqrt(0.5 * depth)})
