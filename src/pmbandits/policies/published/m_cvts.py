"""M-CVTS: Thompson sampling for CVaR on a known finite support."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies._state import ARMS
from pmbandits.policies.base import Policy, Setup
from pmbandits.policies.published._checks import tail_level, tail_metric
from pmbandits.policies.published._kernels import LEVEL, draw_atoms, largest, lower_cvar, scratch, update_cvar
from pmbandits.supports import Binary, Finite, Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    weight, anchor, total = scratch(s), np.empty((s.size[ARMS], 2)), np.empty(s.size[ARMS])
    draw_atoms(s.whole, 1.0, 0.0, 0.0, weight, anchor, total)
    lower_cvar(s.whole, s.knobs[LEVEL], weight, total, s.index)
    return st.pull(s, largest(s))


class MCVTS(Policy):
    """M-CVTS: draw a law of each arm from its Dirichlet posterior, and pull the one with the best CVaR.

    **Objective:** the largest lower-tail CVaR (mean of the worst α share of rewards): maximised.
    **Assumes:** a known finite support: ``Finite(atoms)`` or ``Binary()``.

    1. For each arm draw probabilities of the atoms from Dirichlet(1 + counts).
    2. Pull the arm whose draw has the largest CVaR.

    ``mixture`` is the arm with the largest empirical CVaR. A round costs O(K × atoms), however many rewards there are.

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
    >>> policy = pmb.MCVTS(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Finite([0, 0.5, 1]))
    >>> for _ in range(200):
    ...     arm = policy.ask()
    ...     policy.tell(arm, 0.5 * arm)
    >>> policy.mixture.tolist()
    [0.0, 1.0]
    """

    name: ClassVar[str] = "m_cvts"
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
        if not isinstance(support, (Binary, Finite)):
            raise ValueError(
                f"MCVTS assumes a known finite support, but it is {support!r}; "
                "declare Finite(atoms), or take BCVTS, which needs an upper bound only."
            )
        return Setup(grid=np.eye(n_arms), knobs={LEVEL: tail_level("MCVTS", metric, self.options["alpha"])})
