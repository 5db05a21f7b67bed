"""One joint confidence set for the chances of all arms that pay 0 or 1: the product of their martingales."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.confidence._joint_bernoulli import (
    TANGENTS,
    fill_tangents_of_all_arms,
    joint_bernoulli_bounds,
    martingale_weight_of_one,
)


class JointBounds(NamedTuple):
    """Least and largest utility of a mixture, largest of any mixture, and regret; and the chances at the worst."""

    lower: float
    upper: float
    rival: float
    regret: float
    worst: FloatArray


class JointChances:
    """All chances p of arms with Σ ln M_i(p_i) < ln 1/δ. With probability 1 − δ the true ones are always among them.

    Parameters
    ----------
    ones, n_rewards : of each arm, how many rewards were 1, and how many there are.
    delta : the probability that the set ever fails.
    arms : how many arms there may ever be, if there may be others.

    Examples
    --------
    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> from pmbandits.metrics.encoding import encode_metric
    >>> joint = JointChances(np.array([408, 162]), np.array([1020, 180]), delta=0.05)
    >>> found = joint.utility_and_regret_bounds(encode_metric(pmb.GiniDeviation()), np.array([0.8, 0.2]))
    >>> round(found.regret, 4)
    0.0023
    """

    def __init__(self, ones: IntArray, n_rewards: IntArray, delta: float, arms: int | None = None) -> None:
        k, delta = ones.size, min(delta, 1.0)
        arms = max(k, arms or 0)
        self.weight = martingale_weight_of_one(arms)
        rest = log(self.weight) if arms > 1 else 0.0  # ln M of an arm is at least this
        self.budget = log(1.0 / delta) - (arms - k) * rest
        self.chances, self.costs = np.empty((k, TANGENTS + 1)), np.empty((k, TANGENTS + 1))
        ones, n_rewards = np.ascontiguousarray(ones, np.int64), np.ascontiguousarray(n_rewards, np.int64)
        fill_tangents_of_all_arms(
            ones, n_rewards, self.weight, log(1.0 / delta) - (arms - 1) * rest, self.chances, self.costs
        )

    def utility_and_regret_bounds(self, h: FloatArray, mix: FloatArray) -> JointBounds:
        """What a mixture can be worth, and can lose, for chances in the set; ``h`` is an encoded metric."""
        worst = np.empty(mix.size)
        lower, upper, rival, regret = joint_bernoulli_bounds(h, mix, self.chances, self.costs, self.budget, worst)
        return JointBounds(float(lower), float(upper), float(rival), float(regret), worst)
