"""What a compiled policy of your own is made of: public names, and nothing else is needed.

A policy is two kernels and a class. The kernel ``choose`` answers which arm to pull, and ``update`` brings the mixture
that the policy names up to date. Both are given the policy's memory, and ``s = unpack(memory)`` gives names to what is
in it:

====================  =====================================================================================
``s.n_arms``          how many arms there are
``s.asked``           pulls so far, of all arms
``s.rewards``         rewards so far, of all arms
``s.dirty``           1 if rewards came since the mixture was brought up to date; set it to 0 when you did
``s.pulls[i]``        pulls of arm i
``s.told[i]``         rewards of arm i (late rewards make it smaller than the pulls)
``s.sums[i]``         their sum
``s.mix[i]``          the share of arm i in the mixture that the policy names
``s.index[i]``        room for a number of each arm, which :func:`largest` reads (one row of ``Setup.grid`` an arm)
``s.low``, ``s.high``  the ends of the support
``s.h``               the metric, for :func:`h_value` and :func:`h_slope`
====================  =====================================================================================

Numbers of your own are declared with ``unpack = state(boost=float, turns=int)`` and are then ``s.boost`` and
``s.turns``. Give their first values in ``Setup(numbers={"boost": 2.0})``.

The steps here are for kernels. See the guide "A policy of your own" for two complete policies.
"""

from __future__ import annotations

from pmbandits.confidence._bounds import utility
from pmbandits.metrics.packed import h_max, h_min, h_slope, h_value
from pmbandits.mixtures._climb import empirical_slopes, grain
from pmbandits.mixtures._continuous import arm_utilities, best_mixture
from pmbandits.mixtures._index import due, ready
from pmbandits.mixtures._sampling import explore_or_track, fewest, largest, most_behind, play_alone, pull
from pmbandits.policies.build import Setup
from pmbandits.policies.options import (
    above,
    anything,
    one_of,
    option,
    probability,
    share,
    whole,
    within,
)
from pmbandits.policies.policy import Policy
from pmbandits.policies.simple import random_below, random_share
from pmbandits.state.compile import kernel
from pmbandits.state.views import state, unpack

__all__ = [
    "Policy",
    "Setup",
    "above",
    "anything",
    "arm_utilities",
    "best_mixture",
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
    "largest",
    "most_behind",
    "one_of",
    "option",
    "play_alone",
    "probability",
    "pull",
    "random_below",
    "random_share",
    "ready",
    "share",
    "state",
    "unpack",
    "utility",
    "whole",
    "within",
]
