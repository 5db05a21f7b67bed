"""The plain baselines: equal shares, one arm, and UCB1 for the mean."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.arms import arm_index
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import Mean
from pmbandits.policies import _state as st
from pmbandits.policies._state import ARM, ASKED, DIRTY, SEED, SIGMA, STREAM
from pmbandits.policies.base import Policy, Setup
from pmbandits.supports import Real, Support


@kernel
def random_below(whole: Any, count: int) -> int:
    """A whole number below ``count``: splitmix64 of the seed and a counter that is part of the state."""
    s = st.parts(whole)
    z = np.uint64(s.knobs[SEED]) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(s.clock[STREAM] + 1)
    s.clock[STREAM] += 1
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return int((z >> np.uint64(11)) * (1.0 / 9007199254740992.0) * count)


@kernel
def choose_uniform(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    k = s.size[0]
    least = s.pulls[st.fewest(s)]
    tied = 0
    for i in range(k):
        tied += s.pulls[i] == least
    nth = random_below(s.whole, tied)
    for i in range(k):
        if s.pulls[i] == least:
            if nth == 0:
                return st.pull(s, i)
            nth -= 1
    return st.pull(s, k - 1)


@kernel
def keep(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    s.clock[DIRTY] = 0


@kernel
def choose_one(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    return st.pull(s, int(s.knobs[ARM]))


@kernel
def begin_one(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    for i in range(s.size[0]):
        s.mix[i] = 0.0
    s.mix[int(s.knobs[ARM])] = 1.0


@kernel
def choose_ucb1(ints: st.IntArray, floats: FloatArray) -> int:
    s = st.unpack(ints, floats)
    k, t = s.size[0], s.clock[ASKED]
    if t < k:
        return st.pull(s, st.fewest(s))
    arm, best = 0, -np.inf
    level = 8.0 * math.log(t)
    for i in range(k):
        n = s.told[i]
        index = np.inf
        if n > 0:
            index = s.sums[i] / n + s.knobs[SIGMA] * math.sqrt(level / n)
        # An arm that waits for its first reward is asked again only when no other has a larger lag.
        if index > best or (index == best and s.pulls[i] < s.pulls[arm]):
            arm, best = i, index
    return st.pull(s, arm)


@kernel
def update_ucb1(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    arm, best = 0, -np.inf
    for i in range(s.size[0]):
        s.mix[i] = 0.0
        if s.told[i] > 0 and s.sums[i] / s.told[i] > best:
            arm, best = i, s.sums[i] / s.told[i]
    s.mix[arm] = 1.0
    s.clock[DIRTY] = 0


class Uniform(Policy):
    """Every arm equally often: in every K rounds each arm once, in random order.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`; the seed orders the arms.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Uniform(pmb.Mean(), n_arms=3, support=pmb.Binary())
    >>> sorted(policy.ask(3).tolist())
    [0, 1, 2]
    """

    name: ClassVar[str] = "uniform"
    _choose = staticmethod(choose_uniform)
    _update = staticmethod(keep)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        self._start(metric or Mean(), n_arms, support, names, seed)

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        return Setup(grid=np.zeros((1, n_arms)))


class SolitaryArm(Policy):
    """Always the same arm.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`.
    arm : its position or name.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.SolitaryArm(pmb.Mean(), n_arms=3, support=pmb.Binary(), arm=2).ask()
    2
    """

    name: ClassVar[str] = "solitary_arm"
    _choose = staticmethod(choose_one)
    _update = staticmethod(keep)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        arm: int | str = 0,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        arm = arm if isinstance(arm, str) else _check.whole("arm", arm, 0)
        self._start(metric or Mean(), n_arms, support, names, seed, arm=arm)

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        place = arm_index(self.options["arm"], self.names)
        return Setup(grid=np.zeros((1, n_arms)), knobs={ARM: place}, begin=begin_one)


class UCB1(Policy):
    """UCB1 for the mean: everybody's yardstick. It settles on one arm, whatever the metric.

    The index is mean + s·√(8·ln t/n), with s half the width of the support (√(2·ln t/n) on [0, 1]), or σ on ``Real``.

    Parameters
    ----------
    metric, n_arms, support, names, seed : see :class:`Policy`; the metric is not used.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.UCB1(pmb.Mean(), n_arms=2, support=pmb.Binary()).ask(2)
    array([0, 1])
    """

    name: ClassVar[str] = "ucb1"
    _choose = staticmethod(choose_ucb1)
    _update = staticmethod(update_ucb1)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        names: Any = None,
        seed: int = 0,
    ) -> None:
        self._start(metric or Mean(), n_arms, support, names, seed)

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        scale = support.sigma if isinstance(support, Real) else 0.5 * support.width
        return Setup(grid=np.zeros((1, n_arms)), knobs={SIGMA: scale})
