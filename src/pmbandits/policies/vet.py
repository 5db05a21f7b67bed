"""Vet: estimate, track, and test the arms that are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._index import ready
from pmbandits.mixtures._sampling import fewest, pull
from pmbandits.mixtures._vetting import look, most_wanted, news, to_be_tried, unpack
from pmbandits.policies.build import Setup, reading_set
from pmbandits.policies.options import known_estimates, known_set, option, probability
from pmbandits.policies.policy import Policy
from pmbandits.state.compile import kernel
from pmbandits.supports import Real, Support


@kernel
def choose(memory: int) -> int:
    """Try an arm that is left out and not ruled out yet, else pull the one furthest behind its share."""
    s = unpack(memory)
    if not ready(s):
        return pull(s, fewest(s))
    if s.asked >= s.window_end or s.rewards >= s.next_look or news(s):
        look(s)
    arm = to_be_tried(s)
    return pull(s, arm if arm >= 0 else most_wanted(s))


@kernel
def update(memory: int) -> None:
    """Name the mixture with the newest rewards."""
    s = unpack(memory)
    if s.dirty == 1 and ready(s) and s.rewards >= s.next_look:
        look(s)


class Vet(Policy, name="vet", choose=choose, update=update, unpack=unpack, uses_sets=False):
    """Estimate and track, and test whoever is left out.

    Parameters
    ----------
    metric, n_arms, support, names, seed, estimates : see :class:`Policy`.
    confidence, delta : the sets behind :meth:`certainty`; they do not change what is played.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Vet(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> for t in range(2000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.round(2).tolist()
    [0.83, 0.17]
    """

    sets: Any = option(default="auto", alias="confidence", check=known_set)
    delta: float = option(default=0.05, check=probability)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        pad = support.sigma if isinstance(support, Real) else 0.0
        chosen = reading_set(self, metric, n_arms, support)
        return Setup(grid=np.zeros((0, n_arms)), numbers={"pad": pad}, confidence=chosen, table=True)
