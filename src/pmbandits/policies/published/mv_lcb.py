"""MV-LCB: a confidence bound for mean–variance."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import Mean
from pmbandits.policies import _state as st
from pmbandits.policies._state import ARMS
from pmbandits.policies.base import Policy, Setup, probability
from pmbandits.policies.published._checks import bounded
from pmbandits.policies.published._kernels import LEVEL, SCALE, call_best, largest, mean_variance
from pmbandits.supports import Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    mean_variance(s.whole, s.knobs[LEVEL], s.index)
    for i in range(s.size[ARMS]):  # the smallest bound is the largest with the sign turned
        s.index[i] = s.knobs[SCALE] / math.sqrt(s.told[i]) - s.index[i] if s.told[i] > 0 else np.inf
    return st.pull(s, largest(s))


@kernel
def update(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    mean_variance(s.whole, s.knobs[LEVEL], s.value)
    for i in range(s.size[ARMS]):
        s.value[i] = -s.value[i]
    call_best(s)


class MVLCB(Policy):
    """MV-LCB: play the arm whose variance − ρ·mean may be the smallest.

    **Objective:** the smallest mean–variance σ² − ρμ of a single arm: minimised. It is no distortion, so a metric is
    not used; score it with its own functional (see the ``risk`` page of ``pmbandits reproduce``).
    **Assumes:** rewards in a bounded interval; the horizon is known.

    1. Pull every arm once.
    2. Then the arm with the smallest σ̂² − ρμ̂ − (5 + ρ)·√(ln(1/δ)/(2n)) of rewards in [0, 1]; on an interval of width
       w the factor is 5w² + ρw, the same rule for rewards in other units.

    ``mixture`` is the arm with the smallest empirical σ̂² − ρμ̂. A round costs one pass over the rewards so far (over
    the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`; the metric is not used.
    horizon : T.
    rho : weight of the mean. 0 minimises the variance.
    delta : probability that a bound fails; default T⁻².

    References
    ----------
    A. Sani, A. Lazaric and R. Munos (2012), *Risk-aversion in multi-armed bandits*, NeurIPS.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.MVLCB(n_arms=2, support=pmb.Interval(0, 1), horizon=1000, rho=0.5).ask(2).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "mv_lcb"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        horizon: int,
        rho: float = 1.0,
        delta: float | None = None,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        self._start(
            metric or Mean(), n_arms, support, names, seed,
            horizon=_check.whole("horizon", horizon, 2), rho=_check.within("rho", rho, 0.0), delta=probability(delta),
        )  # fmt: skip

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        bounded("MVLCB", support)
        o = self.options
        depth = 2.0 * math.log(o["horizon"]) if o["delta"] is None else -math.log(o["delta"])
        factor = 5.0 * support.width**2 + o["rho"] * support.width
        return Setup(grid=np.eye(n_arms), knobs={LEVEL: o["rho"], SCALE: factor * math.sqrt(0.5 * depth)})
