"""What a compiled policy of your own is made of. Nothing else of the library is needed.

A policy is two kernels and a class. A kernel is a function that is compiled to machine code. The kernel ``choose``
answers which arm to pull, and ``update`` brings the mixture that the policy names up to date. Both are given the place
of the policy's memory, and ``s = unpack(memory)`` gives names to what is in it:

======================  ===================================================================================
``s.n_arms``            how many arms there are
``s.t``                 how many pulls there were, of all arms
``s.rewards``           how many rewards came, of all arms
``s.pulls[i]``          pulls of arm i
``s.n_rewards[i]``      rewards of arm i; late rewards make it smaller than the pulls
``s.sums[i]``           the sum of the rewards of arm i
``s.mix[i]``            the share of arm i in the mixture that the policy names
``s.index[i]``          space for one number of each arm, which :func:`largest` reads
``s.dirty``             1 if rewards came since the mixture was brought up to date; set it to 0 when you did
``s.low``, ``s.high``   the ends of the support
``s.h``                 the metric's distortion, for :func:`h_value` and its kin
======================  ===================================================================================

A policy that pulls the arm with the largest index needs one kernel only, ``index(s, i)``: the index of arm i, which has
paid at least one reward. The class is given ``index=`` in place of ``choose=``, and the library writes the loops. Every
arm is pulled once at first. Of arms with the same index the one with the fewest pulls is pulled. Without ``update=``,
the mixture is the arm with the largest mean. ``simulate`` plays many trials of such a policy at once, several times as
fast, if the index reads only ``s.t``, ``s.rewards``, ``s.n_arms``, ``s.pulls``, ``s.n_rewards``, ``s.sums``, ``s.low``,
``s.high``, ``s.h`` and ``s.own``, and draws no random numbers. The results are the same to the last bit.

If :class:`Setup` has a grid, ``s.index`` has one number for each row of the grid instead.

What a policy remembers of its own is declared with ``unpack = state(boost=float, wins=per_arm(float))``. It is then
``s.own.boost`` and ``s.own.wins[i]``, in a name space of its own. It begins with the values in
``Setup(numbers={"boost": 2.0})``, or with 0, and is saved with the policy. In Python it is ``policy.own``.

Rewards, estimates and confidence sets are read in kernels by functions that work for every support:

======================================  ====================================================================
``rewards_of(s, i, out)``               the rewards of arm i, sorted, into ``out``; returns how many
``cdf_of(s, i, x)``                     the share of the rewards of arm i that are at most x
``utility(s, a)``                       the utility of the mixture ``a`` for the rewards so far
``arm_utilities(s, out)``               the utility of every arm alone, into ``out``
``utility_interval(s, a)``              the smallest and largest utility inside the confidence sets; they are kept
                                        if ``setup`` returns ``Setup(confidence=self.choose_confidence_set(support,
                                        n_arms))``
``random_share(s)``, ``random_below``   random numbers by the policy's seed: from 0 to 1, and whole ones;
``random_normal``, ``random_beta``,     normal, Beta and gamma variates
``random_gamma``
``utility_of_survival``                 given ``(s.h, x, above, n)``: the utility of a distribution that the policy
                                        draws itself; ``above[c]`` is the share of rewards above ``x[c]``, of n points
``best_mixture_of_drawn``               given ``(s, x, above, a)``: the best mixture of such distributions, one row
                                        of ``above`` for each arm, into ``a``; returns its utility. It needs
                                        ``Setup(table=True)``, and takes at most ``s.knots.size`` points: 2 for 0/1
                                        rewards, as many as a ``Finite`` support or bins have, otherwise 512
======================================  ====================================================================

All other functions here are steps to be used in kernels, or checks of options. The guide "A policy of your own" has two
complete policies.

Examples
--------
>>> import pmbandits as pmb
>>> from pmbandits.kit import Policy, Setup, fewest, kernel, pull, unpack
>>> @kernel
... def choose(memory):
...     s = unpack(memory)
...     return pull(s, fewest(s))
>>> @kernel
... def update(memory):
...     s = unpack(memory)
...     s.dirty = 0
>>> class InTurn(Policy, name="in_turn", choose=choose, update=update):
...     def setup(self, metric, n_arms, support):
...         return Setup()
>>> InTurn("mean", n_arms=3, support=pmb.Binary()).ask(4).tolist()
[0, 1, 2, 0]

A policy with an index:

>>> import math
>>> @kernel
... def optimism(s, i):
...     return s.sums[i] / s.n_rewards[i] + math.sqrt(2.0 * math.log(s.t) / s.n_rewards[i])
>>> class Optimist(Policy, name="optimist", index=optimism):
...     def setup(self, metric, n_arms, support):
...         return Setup()
>>> Optimist("mean", n_arms=3, support=pmb.Binary()).ask(3).tolist()
[0, 1, 2]
"""

from __future__ import annotations

from pmbandits.confidence._bounds import utility_interval
from pmbandits.engine.options import (
    above,
    anything,
    check_confidence,
    known_estimates,
    one_of,
    option,
    probability,
    share,
    whole,
    within,
)
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.estimates._for_authors import cdf_of, rewards_of
from pmbandits.estimates._utility import arm_utilities, empirical_slopes, utility
from pmbandits.metrics.encoding import h_max, h_min, h_slope, h_value
from pmbandits.mixtures._continuous_search import best_mixture
from pmbandits.mixtures._for_authors import best_mixture_of_drawn
from pmbandits.mixtures._index import due, ready
from pmbandits.mixtures._pairwise_ascent import grain
from pmbandits.mixtures._survival_table import utility_of_survival
from pmbandits.mixtures._tracking import explore_or_track, fewest, largest, most_behind, play_alone, pull
from pmbandits.policies._draws import random_below, random_beta, random_gamma, random_normal, random_share
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import own_state as state
from pmbandits.state.numba_types import per_arm, per_pair, unpack

__all__ = [
    "Policy",
    "Setup",
    "above",
    "anything",
    "arm_utilities",
    "best_mixture",
    "best_mixture_of_drawn",
    "cdf_of",
    "check_confidence",
    "due",
    "empirical_slopes",
    "explore_or_track",
    "fewest",
    "grain",
    "h_max",
    "h_min",
    "h_slope",
    "h_value",
    "kernel",
    "known_estimates",
    "largest",
    "most_behind",
    "one_of",
    "option",
    "per_arm",
    "per_pair",
    "play_alone",
    "probability",
    "pull",
    "random_below",
    "random_beta",
    "random_gamma",
    "random_normal",
    "random_share",
    "ready",
    "rewards_of",
    "share",
    "state",
    "unpack",
    "utility",
    "utility_interval",
    "utility_of_survival",
    "whole",
    "within",
]
