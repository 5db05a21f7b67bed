"""U-UCB: a confidence bound for any stable functional of the empirical distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies._state import ARMS, ASKED, HOLDER_Q
from pmbandits.policies.base import Policy, Setup
from pmbandits.policies.published._checks import bounded
from pmbandits.policies.published._kernels import LEVEL, SCALE, empirical_utilities, largest, update_utility
from pmbandits.supports import Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    empirical_utilities(s.whole, s.index)
    depth = 0.5 * s.knobs[LEVEL] * math.log(s.clock[ASKED] + 1.0)
    for i in range(s.size[ARMS]):
        if s.told[i] > 0:
            y = depth / s.told[i]
            s.index[i] += s.knobs[SCALE] * max(math.sqrt(y), y ** (0.5 * s.knobs[HOLDER_Q]))
        else:
            s.index[i] = np.inf
    return st.pull(s, largest(s))


class UUCB(Policy):
    """U-UCB: the utility of the empirical distribution plus what its stability allows (the EDPM framework).

    **Objective:** the largest U_h of a single arm: maximised, for whatever the metric says.
    **Assumes:** U is stable in the sup norm of CDFs, |U(F) − U(G)| ≤ b(‖F − G‖ + ‖F − G‖^q): for U_h on a bounded
    support this follows from the Hölder pair of h.

    1. Pull every arm once.
    2. Then the arm with the largest index U_h(rewards) + max{2b·√(x/2), 2b·(x/2)^(q/2)}, x = A·ln t/n.

    2b is taken as C·width, with |h(u) − h(v)| ≤ C|u − v|^q: the smallest for which the bonus is valid.
    ``mixture`` is the arm with the largest empirical U_h. A round costs one pass over the rewards so far (over the
    atoms on a finite support), for all arms together.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`.
    growth : A, more than 2. Larger explores more.

    References
    ----------
    A. Cassel, S. Mannor and A. Zeevi (2018), *A general approach to multi-armed bandits under risk criteria*, COLT.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.UUCB(pmb.DualPower(2), n_arms=2, support=pmb.Interval(0, 1)).ask(2).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "u_ucb"
    _choose = staticmethod(choose)
    _update = staticmethod(update_utility)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        growth: float = 2.01,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        growth = _check.within("growth", growth, 2.0, open_lo=True)
        self._start(metric, n_arms, support, names, seed, growth=growth)

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        bounded("UUCB", support)
        pair = metric.holder(support)
        return Setup(
            grid=np.eye(n_arms),
            knobs={HOLDER_Q: pair.q, SCALE: pair.constant * support.width**pair.q, LEVEL: self.options["growth"]},
        )
