"""PM-UCB-M and CE-UCB-M over single arms: what remains of them when mixtures are ruled out (ε = 1)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _state as st
from pmbandits.policies._state import (
    ARMS,
    BAND,
    BINARY,
    BOUNDED,
    GROW,
    HOLDER_C,
    HOLDER_Q,
    KIND,
    LIPSCHITZ,
    MODE,
    OPTIMISTIC,
)
from pmbandits.policies.base import Policy, Setup, known_set, probability
from pmbandits.policies.published._kernels import LEVEL, banded, empirical_utilities, largest, update_utility
from pmbandits.supports import Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    if st.short_table(s):
        return GROW
    st.refresh(s.whole)
    k = s.size[ARMS]
    if s.knobs[LEVEL] == 1.0:  # eq:UCB_alpha2: the empirical utility plus 𝓛·r^q
        empirical_utilities(s.whole, s.index)
        for i in range(k):
            s.index[i] += s.knobs[HOLDER_C] * st.wasserstein_radius(s.whole, i) ** s.knobs[HOLDER_Q]
    elif s.size[BOUNDED] == 0:
        empirical_utilities(s.whole, s.index)
        for i in range(k):
            s.index[i] += s.knobs[LIPSCHITZ] * s.radius[i]
    elif s.size[MODE] != BINARY and s.size[KIND] == BAND:
        banded(s.whole, s.index)  # eq:UCB_alpha at all vertices in one pass
    else:
        for i in range(k):
            s.index[i] = st.bound(s.whole, s.grid[i], OPTIMISTIC)
    for i in range(k):
        if s.told[i] == 0:
            s.index[i] = np.inf
    return st.pull(s, largest(s))


class SolitaryUCB(Policy):
    """PM-UCB-M or CE-UCB-M over single arms: for risk-sensitive bandits, where only one arm may be played.

    The paper compares with risk-sensitive bandits by letting its algorithms decide for one arm (ε = 1). PM-UCB-M's own
    grid keeps a share ε/2 for every arm and cannot do that; here the grid is the K vertices, so tracking is pulling.

    1. Pull every arm once.
    2. Then the arm whose utility can be the largest in its confidence set (``index="optimistic"``, PM-UCB-M), or the
       one with the largest U_h(rewards) + 𝓛·r^q (``index="additive"``, CE-UCB-M).

    ``mixture`` is the arm with the largest empirical U_h. With ``LowerCVaR`` and the default band it is CVaR-UCB to
    the letter. A round costs one pass over the rewards so far (over the atoms on a finite support), for all arms.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`.
    horizon : T: how long the confidence sets must hold.
    index : ``"optimistic"`` or ``"additive"``.
    confidence, delta : as for :class:`PMUCB`.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.SolitaryUCB(pmb.LowerCVaR(0.5), n_arms=2, support=pmb.Interval(0, 1), horizon=1000)
    >>> policy.ask(2).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "solitary_ucb"
    _choose = staticmethod(choose)
    _update = staticmethod(update_utility)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        horizon: int,
        index: Literal["optimistic", "additive"] = "optimistic",
        confidence: Any = "auto",
        delta: float | None = None,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        self._start(
            metric,
            n_arms,
            support,
            names,
            seed,
            horizon=_check.whole("horizon", horizon, 2),
            index=_check.choice("index", index, ["optimistic", "additive"]),
            confidence=known_set(confidence),
            delta=probability(delta),
        )

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        knobs: dict[int, float] = {}
        if self.options["index"] == "additive":
            pair = metric.holder(support)
            knobs = {LEVEL: 1.0, HOLDER_Q: pair.q, HOLDER_C: pair.constant}
        return Setup(grid=np.eye(n_arms), knobs=knobs, confidence=self._confidence_set(support, n_arms))
