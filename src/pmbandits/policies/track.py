"""Track: estimate and track. Not one of the paper's: it is in the line of ForcingBalance and of D-tracking."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._certifying import to_certify
from pmbandits.mixtures._continuous import best_mixture
from pmbandits.mixtures._index import due, ready
from pmbandits.mixtures._sampling import explore_or_track, pull
from pmbandits.policies.build import Setup
from pmbandits.policies.options import above, known_estimates, known_set, option, part, probability, share
from pmbandits.policies.policy import Policy
from pmbandits.policies.sets import certifying_share, reading_set
from pmbandits.state.compile import kernel
from pmbandits.state.views import unpack
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """Estimate the best mixture; pull an under-explored arm, else the one furthest behind its share."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)
    arm = to_certify(s)
    return pull(s, arm if arm >= 0 else explore_or_track(s))


@kernel
def update(memory: int) -> None:
    """Name the mixture with the newest rewards."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)


class Track(Policy, name="track", choose=choose, update=update, uses_sets=False):
    """Estimate and track: play the proportions of the best mixture of what was seen so far, and explore all arms.

    It needs no grid, no ε and no horizon. Every arm is pulled about √(t/K) times whatever happens. The mixture is the
    best one for the rewards seen so far, and the arm that is furthest behind its share is pulled. It is a variant, for
    preference metrics, of ForcingBalance (forced exploration of about √t pulls, the best mixture of the estimates,
    tracking), with D-tracking. No regret bound is proved for it. It had no more regret than the paper's four algorithms
    in all our runs where a mixture is best.

    Bernoulli rewards: closed form, every round. Concave metrics: a warm-started solver that stops when it has proved
    that no mixture is better by more than a hundredth of what chance does to the estimates. Convex metrics: the best
    arm. Others: from many starts, without a certificate. Where several mixtures are best it stays with the one it
    plays.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    exploration : ξ; every arm is pulled about (t/K)^(1/(1+ξ)) times at least. Larger explores less.
    tolerance : beyond Bernoulli rewards the mixture is worked out again when this share of new rewards has come (so
        the law of all rewards has moved by no more), and to this share of (range of rewards)·(range of h)/√t.
        Smaller is closer and slower.
    certify : the share of pulls, from 0 to below 1, that serves to be certain sooner (:meth:`Policy.certainty`). These
        pulls go in turn to the arm whose rewards narrow what the best mixture can be worth the fastest, and to the arm
        with the fewest pulls. With 0.1 you can stop much sooner; the page "When can I stop?" says how much, and what it
        costs. Default: 0.
    confidence, delta : the sets behind :meth:`Policy.certainty`; without ``certify`` they do not change what is played.

    References
    ----------
    A. Erraqabi, A. Lazaric, M. Valko, E. Brunskill and Y.-E. Liu (2017), *Trading off rewards and errors in
    multi-armed bandits*, AISTATS. A. Garivier and E. Kaufmann (2016), *Optimal best arm identification with fixed
    confidence*, COLT.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> for t in range(2000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.round(2).tolist()
    [0.8, 0.2]
    """

    exploration: float = option(default=1.0, check=above(0.0))
    tolerance: float = option(default=0.01, check=share)
    certify: float = option(default=0.0, check=part)
    sets: Any = option(default="auto", alias="confidence", check=known_set)
    delta: float = option(default=0.05, check=probability)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)
    forgets: ClassVar[bool] = True

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        chosen = reading_set(self, metric, n_arms, support)
        numbers: dict[str, float] = {
            "exploration": self.options["exploration"],
            "fineness": self.options["tolerance"],
            "certify": certifying_share(self, metric, support, chosen),
        }
        return Setup(grid=np.zeros((0, n_arms)), numbers=numbers, confidence=chosen)
