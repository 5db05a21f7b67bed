"""Track: estimate and track. Not one of the paper's: it is in the line of ForcingBalance and of D-tracking."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pmbandits.confidence import ConfidenceSet
from pmbandits.engine.confidence_choice import tail_assumption_as_state_numbers
from pmbandits.engine.options import (
    above,
    check_confidence,
    fraction_below_1,
    known_estimates,
    option,
    parse_estimates,
    probability,
    share,
)
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._certifying import arm_to_certify_if_due
from pmbandits.mixtures._continuous_search import best_mixture
from pmbandits.mixtures._index import due, ready
from pmbandits.mixtures._tracking import explore_or_track, pull
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import unpack
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """Estimate the best mixture; pull an under-explored arm, else the one furthest behind its share."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)
    return pull(s, explore_or_track(s))


@kernel
def choose_certifying(memory: int) -> int:
    """As ``choose``, but a share of the pulls is for certifying."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)
    arm = arm_to_certify_if_due(s)
    return pull(s, arm if arm >= 0 else explore_or_track(s))


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards."""
    s = unpack(memory)
    if due(s) and ready(s):
        best_mixture(s)


class TrackingPolicy(Policy, uses_sets=False):
    """What Track and Vet share: they play by estimates, can forget, and keep confidence sets for certainty only."""

    certify: float = option(default=0.0, check=fraction_below_1)
    sets: Any = option(default="auto", alias="confidence", check=check_confidence)
    delta: float = option(default=0.05, check=probability)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)
    forgets: ClassVar[bool] = True

    def confidence_set_if_bounds_hold(self, metric: Distortion, n_arms: int, support: Support) -> ConfidenceSet | None:
        """The confidence sets, where a bound holds; refuses to certify without any."""
        chosen, share = self._confidence_set_or_none(metric, n_arms, support), self.options["certify"]
        if share > 0.0 and chosen is None:
            raise ValueError(
                f"certify={share:g} needs confidence sets, but no bound holds for {metric!r} on {support!r}; declare "
                "Interval(lo, hi), or leave certify out."
            )
        return chosen

    def _confidence_set_or_none(self, metric: Distortion, n_arms: int, support: Support) -> ConfidenceSet | None:
        if parse_estimates(self.options.get("estimates", "exact"))[0] == "discount":
            if not isinstance(self.options["confidence"], str):
                raise ValueError("with estimates='discount:...' there are no confidence sets; leave confidence out.")
            return None  # no set is known that holds for rewards that are drawn again and again
        chosen = self.choose_confidence_set(support, n_arms)
        if np.isfinite(support.width):
            return chosen
        try:
            if chosen.kind == "kl_band":
                tail_assumption_as_state_numbers(metric, support, chosen)
            else:
                metric.holder(support)
        except ValueError:
            return None  # no bound holds for such a metric; it can be played all the same
        return chosen


class Track(TrackingPolicy, name="track", choose=choose, choose_certifying=choose_certifying, update=update):
    """Play the proportions of the best mixture of what was seen so far, and explore all arms a little.

    It needs no grid, no ε and no horizon. In each round:

    1. If some arm has fewer than about √(t/K) pulls after t rounds, for K arms, that arm is pulled.
    2. Otherwise the best mixture of the rewards seen so far is worked out, and the arm that is furthest behind its
       share of it is pulled.

    It is a variant, for preference metrics, of ForcingBalance (which forces about √t pulls of each arm, takes the best
    mixture of the estimates, and tracks it), with the tracking rule called D-tracking. No regret bound is proved for
    it. It had no more regret than the paper's four algorithms in all our runs where a mixture is best.

    How the mixture is found depends on the rewards and on the metric:

    - 0/1 rewards: by a closed form, in every round.
    - Concave metrics: by a solver that goes on from the last mixture. It stops when it has proved that no mixture is
      better by more than a hundredth of what chance does to the estimates.
    - Convex metrics: it is the best arm.
    - Other metrics: by a search from many starts, without a proof.

    Where several mixtures are best, the policy stays with the one that it plays.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    exploration : ξ, above 0. Every arm is pulled about (t/K)^(1/(1+ξ)) times at least. A larger one explores less. The
        default 1 is the square root.
    tolerance : a share, by default 0.01. Beyond 0/1 rewards the mixture is worked out again when this share of new
        rewards has come, so that the distribution of all rewards has moved by no more. It is worked out to this share
        of (range of rewards)·(range of h)/√t. A smaller one is closer and slower.
    certify : the share of pulls, from 0 to below 1, that serves to be certain sooner (:meth:`Policy.certainty`). These
        pulls go where 0/1 rewards tell most against the worst case that is still possible. With other rewards they go
        in turn to the arm whose rewards narrow what the best mixture can be worth the fastest, and to the arm with the
        fewest pulls. With 0.1 you can stop much sooner; the page "When can I stop?" says how much, and what it costs.
        Default: 0.
    confidence, delta : the confidence sets behind :meth:`Policy.certainty`, and the probability (by default 5 %) that
        one of them ever fails. Without ``certify`` they do not change what is played.

    References
    ----------
    A. Erraqabi, A. Lazaric, M. Valko, E. Brunskill and Y.-E. Liu (2017), *Trading off rewards and errors in multi-armed
    bandits*, AISTATS.

    A. Garivier and E. Kaufmann (2016), *Optimal best arm identification with fixed confidence*, COLT.

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

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        return Setup(
            grid=np.zeros((0, n_arms)),
            numbers={"exploration": o["exploration"], "search_tolerance": o["tolerance"], "certify": o["certify"]},
            confidence=self.confidence_set_if_bounds_hold(metric, n_arms, support),
        )
