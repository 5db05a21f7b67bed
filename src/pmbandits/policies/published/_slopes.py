"""Slopes of the utility at the shares played so far, for the policies that step towards an arm each round; compiled."""

from __future__ import annotations

from typing import Any

from pmbandits.mixtures._climb import grain, slope_moments
from pmbandits.mixtures._sampling import shares_played
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared, step
from pmbandits.state.views import unpack
from pmbandits.supports import Binary, Support


def wait_for_slopes(tolerance: float, support: Support) -> float:
    """The share by which pulls and rewards grow between two looks at slopes: 0 where slopes have a closed form."""
    return 0.0 if isinstance(support, Binary) else tolerance


@step("state -> bool")
def time_to_look(s: Any) -> bool:
    """Whether pulls and rewards together have grown by enough since the last look."""
    due: bool = s.asked + s.rewards >= s.look_at
    return due


@step("state, float -> none")
def look_again(s: Any, wait: float) -> None:
    """Note that the next look is due when pulls and rewards have grown by the share ``wait``."""
    clock = s.asked + s.rewards
    s.look_at = clock + 1 + int(wait * clock)


@shared("state, float -> float")
def look_at_slopes(s: Any, wait: float) -> float:
    """Work out the slope towards each arm at the shares played, and the variance of Φ over its rewards.

    Returns the range of Φ over the support: how far one reward can lie from another, as the slope sees it.
    """
    shares_played(s, s.mix)
    least, most = slope_moments(s, s.mix, grain(s), s.slope, s.spread)
    for i in range(s.n_arms):
        s.spread[i] = max(s.spread[i] - s.slope[i] * s.slope[i], 0.0)
    look_again(s, wait)
    reach: float = most - least
    return reach


@kernel
def name_shares(memory: int) -> None:
    """The mixture is the shares played so far."""
    s = unpack(memory)
    shares_played(s, s.mix)
    s.dirty = 0
