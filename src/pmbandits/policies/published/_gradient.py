"""Slopes of the utility at the shares played so far, for the policies that step towards an arm each round; compiled."""

from __future__ import annotations

from typing import Any

from pmbandits.estimates._utility import fill_influence_moments
from pmbandits.mixtures._pairwise_ascent import grain
from pmbandits.mixtures._tracking import fill_shares_played
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import unpack
from pmbandits.supports import Binary, Support


def growth_between_gradient_updates(tolerance: float, support: Support) -> float:
    """The share by which pulls and rewards grow between two looks at slopes: 0 where slopes have a closed form."""
    return 0.0 if isinstance(support, Binary) else tolerance


@step("state -> bool")
def gradient_is_due(s: Any) -> bool:
    """Whether pulls and rewards together have grown by enough since the last look."""
    due: bool = s.t + s.rewards >= s.next_update_at
    return due


@step("state, float -> none")
def schedule_next_gradient(s: Any, wait: float) -> None:
    """Note that the next look is due when pulls and rewards have grown by the share ``wait``."""
    clock = s.t + s.rewards
    s.next_update_at = clock + 1 + int(wait * clock)


@shared("state, float -> float")
def update_slopes_and_variances(s: Any, wait: float) -> float:
    """Work out the slope towards each arm at the shares played, and the variance of Φ over its rewards.

    Returns the range of Φ over the support: how far one reward can lie from another, as the slope sees it.
    """
    fill_shares_played(s, s.mix)
    least, most = fill_influence_moments(s, s.mix, grain(s), s.slope, s.slope_variance)
    for i in range(s.n_arms):
        s.slope_variance[i] = max(s.slope_variance[i] - s.slope[i] * s.slope[i], 0.0)
    schedule_next_gradient(s, wait)
    reach: float = most - least
    return reach


@kernel
def set_mixture_to_shares_played(memory: int) -> None:
    """The mixture is the shares played so far."""
    s = unpack(memory)
    fill_shares_played(s, s.mix)
    s.dirty = 0
