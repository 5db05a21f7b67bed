"""PM-ETC-M: explore, then commit to a mixture."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import inlined, kernel
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _search as search
from pmbandits.policies import _state as st
from pmbandits.policies._state import ASKED, COMMITTED, CONTINUOUS, DIRTY, EXPLORE, HORIZON
from pmbandits.policies.base import (
    Policy,
    Setup,
    known_estimates,
    known_search,
    schedule_epsilon,
    search_knobs,
    spacing,
)
from pmbandits.mixtures import etc_grid
from pmbandits.supports import Real, Support
from pmbandits.schedules import exploration


@kernel
def commit(whole: Any) -> None:
    """``eq:ETC_alpha``, over the grid or over all mixtures."""
    s = st.parts(whole)
    if s.knobs[CONTINUOUS] == 1.0:
        s.mix[:] = 1.0 / s.size[0]
        search.best_mixture(whole)
    else:
        st.empirical_mixture(whole)


@kernel
def _update(whole: Any) -> None:
    s = st.parts(whole)
    if s.clock[COMMITTED] == 0 and s.clock[DIRTY] == 1 and st.ready(s):
        commit(s.whole)


@inlined
def _select(s: Any) -> int:
    """Algorithm 1 (``algorithm:PM-ETC-M-Alg``)."""
    k, t = s.size[0], s.clock[ASKED]
    if t < k * int(s.knobs[EXPLORE]):  # line 2: sample each arm ⌈N(ε)/K⌉ times
        return st.fewest(s)
    if s.clock[COMMITTED] == 0 and not st.ready(s):  # rewards are late: nothing to commit to yet
        return st.fewest(s)
    if s.clock[COMMITTED] == 0:  # eq:ETC_alpha, once
        commit(s.whole)
        s.clock[COMMITTED] = 1
    if t >= s.knobs[HORIZON]:  # the paper stops here; whoever goes on keeps the proportions
        return st.most_behind(s)
    for i in range(k - 1):  # lines 4–7, eq:ETC_samp: arms 1 … K−1 up to T·a(i) each
        if s.pulls[i] < math.floor(s.knobs[HORIZON] * s.mix[i] + 1e-9):
            return i
    return k - 1  # the remaining budget


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    return st.pull(s, _select(s))


@kernel
def update(ints: st.IntArray, floats: FloatArray) -> None:
    _update((ints, floats))


class PMETC(Policy):
    """PM-ETC-M (Algorithm 1): explore every arm equally, fix the best mixture of the grid, play its proportions.

    Parameters
    ----------
    metric, n_arms, support, names, seed, estimates : see :class:`Policy`.
    horizon : T, the number of rounds that will be played. The proportions are met at T, not before.
    epsilon : spacing of the grid. Smaller is closer to the best mixture but needs more exploration to tell grid
        points apart. Default: the paper's schedule with ``epsilon_constant``.
    n_explore : rounds of exploration N, all arms together. More gives a better mixture, and leaves fewer rounds to
        make up for the equal shares. Default: from ``delta_12`` or ``delta_13`` if given, else ½KεT.
    delta_12, delta_13 : a gap of the instance, if you know it: N(ε) or N_13(ε) of the paper. At usual horizons N
        exceeds T/2; then ½KεT is taken, as the paper's own experiments do.
    epsilon_constant : leading constant of the schedule of ε.
    search : ``"grid"`` is the paper's; ``"continuous"`` looks at all mixtures, for metrics that are concave or convex;
        ``"auto"`` takes that when the grid would pass 20,000 points.

    All of the grid is worked out, once: there is nothing to be lazy about.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.PMETC(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=0.1)
    >>> policy.ask()
    0
    """

    name: ClassVar[str] = "pmetc"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        horizon: int,
        epsilon: float | None = None,
        n_explore: int | None = None,
        delta_12: float | None = None,
        delta_13: float | None = None,
        epsilon_constant: float = 0.2,
        search: str = "auto",
        estimates: str = "exact",
        names: Any = None,
        seed: int = 0,
    ) -> None:
        horizon = _check.whole("horizon", horizon, 2)
        hint = "With tied mixtures the gap is 0: give n_explore instead."
        if delta_12 is not None:
            delta_12 = _check.within("delta_12", delta_12, 0.0, open_lo=True, hint=hint)
        if delta_13 is not None:
            delta_13 = _check.within("delta_13", delta_13, 0.0, open_lo=True, hint=hint)
        if n_explore is not None:
            n_explore = _check.whole("n_explore", n_explore, 1)
        if sum(x is not None for x in (n_explore, delta_12, delta_13)) > 1:
            raise ValueError("give one of n_explore, delta_12 and delta_13: each sets the exploration by itself.")
        self._start(
            metric,
            n_arms,
            support,
            names,
            seed,
            horizon=horizon,
            epsilon=spacing(epsilon),
            n_explore=n_explore,
            delta_12=delta_12,
            delta_13=delta_13,
            epsilon_constant=_check.within("epsilon_constant", epsilon_constant, 0.0, open_lo=True),
            search=known_search(search),
            estimates=known_estimates(estimates),
        )

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        horizon: int = o["horizon"]
        if isinstance(support, Real) and not isinstance(metric._modulus(), str):
            metric.holder(support)  # says why, where the metric needs a bounded support
        epsilon, continuous = schedule_epsilon(o, metric, n_arms, support, "etc", None)
        grid = np.zeros((0, n_arms)) if continuous else etc_grid(n_arms, epsilon)
        rounds = o["n_explore"]
        gap = o["delta_12"] if o["delta_12"] is not None else o["delta_13"]
        if rounds is None:
            rule = min(0.5 * n_arms * epsilon, 0.5) * horizon
            rounds = rule
            if gap is not None:
                pair = metric.holder(support)
                needed = exploration(horizon, n_arms, epsilon, gap, pair.q, pair.constant)
                rounds = needed if needed <= 0.5 * horizon else rule
        each = max(1, math.ceil(rounds / n_arms - 1e-9))
        if each * n_arms > horizon:
            raise ValueError(
                f"the exploration of {each * n_arms} rounds does not fit in a horizon of {horizon}; "
                "take a longer horizon, a larger epsilon or a smaller n_explore."
            )
        return Setup(
            grid=grid, epsilon=epsilon, knobs={HORIZON: horizon, EXPLORE: each, **search_knobs(continuous, 0.0)}
        )

    @property
    def phase(self) -> str:
        """``"explore"`` or ``"commit"``."""
        asked = int(self._view("clock")[ASKED])
        each = int(self._view("knobs")[EXPLORE])
        return "explore" if asked < each * self.n_arms else "commit"
