"""MV-LCB: a confidence bound for mean–variance."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.engine.options import option, probability, whole, within
from pmbandits.engine.plan import Setup
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import largest, pull
from pmbandits.policies.baselines import MeanPolicy
from pmbandits.policies.published._checks import log_inverse_delta, require_upper_end_of_support
from pmbandits.policies.published._functionals import fill_mean_variances, set_mixture_to_best_arm
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(rho=float, scale=float)


@kernel
def choose(memory: int) -> int:
    """The arm with the smallest lower bound of variance − ρ·mean."""
    s = unpack(memory)
    fill_mean_variances(s, s.rho, s.index)
    for i in range(s.n_arms):  # the smallest bound is the largest with the sign turned
        s.index[i] = s.scale / math.sqrt(s.n_rewards[i]) - s.index[i] if s.n_rewards[i] > 0 else np.inf
    return pull(s, largest(s))


@kernel
def update(memory: int) -> None:
    """Set the mixture to the arm whose rewards have the smallest variance − ρ·mean."""
    s = unpack(memory)
    fill_mean_variances(s, s.rho, s.value)
    for i in range(s.n_arms):
        s.value[i] = -s.value[i]
    set_mixture_to_best_arm(s)


class MVLCB(MeanPolicy, name="mv_lcb", choose=choose, update=update, unpack=unpack):
    """MV-LCB: pull the arm whose variance − ρ·mean may be the smallest.

    **What it looks for:** the single arm with the smallest mean–variance σ² − ρμ. This is not a distortion of the
    survival function, so the metric is not used. Score the policy with mean–variance itself; the ``risk`` page of
    ``python -m research risk`` does so.

    **What it assumes:** rewards lie in a bounded interval, and the horizon is known.

    1. Pull every arm once.
    2. Then pull the arm with the smallest σ̂² − ρμ̂ − (5 + ρ)·√(ln(1/δ)/(2n)), where n is the number of its rewards.
       This is for rewards in [0, 1]. On an interval of width w the factor is 5w² + ρw, which is the same rule in other
       units.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the smallest σ̂² − ρμ̂. A round costs one
    pass over the rewards so far (over the atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is not used.
    horizon : T, how many rounds will be played.
    rho : ρ, the weight of the mean, 0 or more. With 0 it looks for the smallest variance. The default is 1.
    delta : δ, the probability with which one bound may fail. By default 1/T². A smaller δ explores more.

    References
    ----------
    A. Sani, A. Lazaric and R. Munos (2012), *Risk-aversion in multi-armed bandits*, NeurIPS.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.MVLCB(n_arms=2, support=pmb.Interval(0, 1), horizon=1000, rho=0.5).ask(2).tolist()
    [0, 1]
    """

    horizon: int = option(check=whole(2))
    rho: float = option(default=1.0, check=within(0.0))
    delta: float | None = option(default=None, check=probability)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("MVLCB", support)
        o = self.options
        factor = 5.0 * support.width**2 + o["rho"] * support.width
        scale = factor * math.sqrt(0.5 * log_inverse_delta(o["horizon"], o["delta"]))
        return Setup(grid=np.eye(n_arms), numbers={"rho": o["rho"], "scale": scale})
