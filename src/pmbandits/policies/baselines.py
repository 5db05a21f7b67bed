"""The plain baselines: equal shares, one arm, and UCB1 for the mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits.arms import arm_index
from pmbandits.engine.options import option
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics import Mean
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._constraint_tracking import is_arriving
from pmbandits.mixtures._tracking import play_alone, pull
from pmbandits.policies._draws import random_below
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import state, unpack
from pmbandits.supports import Support

unpack_scale = state(scale=float)  # the factor of the bonus, or of the posterior's standard deviation
unpack_arm = state(arm=int)


@kernel
def choose_uniform(memory: int) -> int:
    """One of the arms with the fewest pulls, at random; with segments, of those of the segment that arrives."""
    s = unpack(memory)
    least = -1
    for i in range(s.n_arms):
        if is_arriving(s, i) and (least < 0 or s.pulls[i] < least):
            least = s.pulls[i]
    tied = 0
    for i in range(s.n_arms):
        tied += is_arriving(s, i) and s.pulls[i] == least
    nth = random_below(s, tied)
    for i in range(s.n_arms):
        if is_arriving(s, i) and s.pulls[i] == least:
            if nth == 0:
                return pull(s, i)
            nth -= 1
    return pull(s, s.n_arms - 1)


@kernel
def leave_mixture_unchanged(memory: int) -> None:
    """The mixture never changes."""
    s = unpack(memory)
    s.dirty = 0


@kernel
def choose_fixed_arm(memory: int) -> int:
    """Always the same arm."""
    s = unpack_arm(memory)
    return pull(s, s.arm)


@kernel
def set_mixture_to_fixed_arm(memory: int) -> None:
    """The mixture is that arm alone."""
    s = unpack_arm(memory)
    play_alone(s, s.arm)


@kernel
def ucb1_index(s: Any, i: int) -> float:
    """The upper bound of the mean of an arm."""
    n = s.n_rewards[i]
    level = 8.0 * math.log(max(s.t, s.rewards))
    return s.sums[i] / n + s.scale * math.sqrt(level / n)


class MeanPolicy(Policy):
    """A policy that does not use the metric: the mean is what it is scored by, where none is given."""

    def default_metric(self) -> Distortion:
        return Mean()


class Uniform(MeanPolicy, name="uniform", choose=choose_uniform, update=leave_mixture_unchanged):
    """Play every arm equally often: in every K rounds each of the K arms once, in random order.

    It learns nothing, and is here for comparison. With segments it does so in each segment.

    Parameters
    ----------
    metric, n_arms, support, names, segments, seed, shares, cost, budget, detect : see :class:`Policy`; the seed orders
        the arms.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Uniform(pmb.Mean(), n_arms=3, support=pmb.Binary())
    >>> sorted(policy.ask(3).tolist())
    [0, 1, 2]
    """

    takes_segments = True

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        return Setup(grid=np.zeros((1, n_arms)))


def _check_arm(name: str, value: Any) -> int | str:
    return value if isinstance(value, str) else _validation.check_whole_number(name, value, 0)


class SolitaryArm(
    MeanPolicy, name="solitary_arm", choose=choose_fixed_arm, update=leave_mixture_unchanged, unpack=unpack_arm
):
    """Play always the same arm. It learns nothing, and is here for comparison.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`.
    arm : the position of the arm, counted from 0 (the default), or its name.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.SolitaryArm(pmb.Mean(), n_arms=3, support=pmb.Binary(), arm=2).ask()
    2
    """

    arm: int | str = option(default=0, check=_check_arm)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        arm = arm_index(self.options["arm"], self.names)
        if arm not in self._active_arms:
            raise ValueError(f"SolitaryArm plays {self.names[arm]} alone, so that arm must play.")
        place = self._active_arms.index(arm)
        return Setup(grid=np.zeros((1, n_arms)), numbers={"arm": place}, begin=set_mixture_to_fixed_arm)


class UCB1(MeanPolicy, name="ucb1", index=ucb1_index, unpack=unpack_scale):
    """UCB1: pull the arm whose mean so far, plus a bonus for what chance can do to it, is the largest.

    It is the usual one to compare with. It looks for the largest mean and settles on one arm, whatever the metric is.
    The index of an arm with n rewards in round t is mean + s·√(8·ln t/n), with s half the width of the support (so the
    bonus is √(2·ln t/n) on [0, 1]), or σ on ``Real``.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is not used.

    References
    ----------
    P. Auer, N. Cesa-Bianchi and P. Fischer (2002), *Finite-time analysis of the multiarmed bandit problem*, Machine
    Learning 47.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.UCB1(pmb.Mean(), n_arms=2, support=pmb.Binary()).ask(2)
    array([0, 1])
    """

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        return Setup(grid=np.zeros((1, n_arms)), numbers={"scale": support.scale})
