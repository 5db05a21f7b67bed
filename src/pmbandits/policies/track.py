"""Track: estimate and track. Ours, not the paper's."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.confidence import ConfidenceSet
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _search as search
from pmbandits.policies import _state as st
from pmbandits.policies._state import DIRTY, HOLDER_C, HOLDER_Q, LOOK_AT, REWARDS, SHARE, XI
from pmbandits.policies.base import Policy, Setup, known_estimates, known_set, probability
from pmbandits.supports import Real, Support


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    """Estimate the best mixture; pull an under-explored arm, else the one furthest behind its share."""
    s = st.unpack(ints, floats)
    if s.clock[DIRTY] == 1 and s.clock[REWARDS] >= s.clock[LOOK_AT]:
        search.best_mixture(s.whole)
    return st.pull(s, st.explore_or_track(s))


@kernel
def update(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    if s.clock[DIRTY] == 1 and s.clock[REWARDS] >= s.clock[LOOK_AT]:
        search.best_mixture(s.whole)


class Certainty(NamedTuple):
    """How sure a policy is of a mixture. With probability 1 − δ, at all times at once.

    utility : the mixture's empirical utility.
    lower, upper : between these lies its true utility.
    rival : no mixture's true utility exceeds this.
    regret : so the mixture falls short of the best by at most this (rival − lower).
    """

    utility: float
    lower: float
    upper: float
    rival: float
    regret: float


class Track(Policy):
    """Estimate and track: play the proportions of the best mixture of what was seen so far. Anytime; the default.

    No grid, no ε, no horizon, no optimism: every arm is pulled about √(t/K) times whatever happens, the empirical
    utility is maximised over all mixtures, and the arm furthest behind its share is pulled. Ours, beside the paper's
    four algorithms: it has no proved regret bound, and the least regret in all our runs where a mixture is best.

    Bernoulli rewards: closed form, every round. Concave metrics: a warm-started solver that stops when it has proved
    that no mixture is better by more than a hundredth of what chance does to the estimates. Convex metrics: the best
    arm. Others: from many starts, without a certificate. Where several mixtures are best it stays with the one it
    plays.

    Parameters
    ----------
    metric, n_arms, support, names, seed, estimates : see :class:`Policy`.
    exploration : ξ; every arm is pulled about (t/K)^(1/(1+ξ)) times at least. Larger explores less.
    tolerance : beyond Bernoulli rewards the mixture is worked out again when this share of new rewards has come (so
        the law of all rewards has moved by no more), and to this share of (range of rewards)·(range of h)/√t.
        Smaller is closer and slower.
    confidence, delta : the sets behind :meth:`certainty`; they do not change what is played.

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

    name: ClassVar[str] = "track"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        exploration: float = 1.0,
        tolerance: float = 0.01,
        confidence: Any = "auto",
        delta: float = 0.05,
        estimates: str = "exact",
        names: Any = None,
        seed: int = 0,
    ) -> None:
        self._start(
            metric,
            n_arms,
            support,
            names,
            seed,
            exploration=_check.within("exploration", exploration, 0.0, open_lo=True),
            tolerance=_check.within("tolerance", tolerance, 0.0, 1.0, open_lo=True),
            confidence=known_set(confidence),
            delta=probability(delta),
            estimates=known_estimates(estimates),
        )

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        chosen: ConfidenceSet | None
        knobs = {XI: self.options["exploration"], SHARE: self.options["tolerance"]}
        try:
            pair = metric.holder(support)
            knobs |= {HOLDER_Q: pair.q, HOLDER_C: pair.constant}
            chosen = self._confidence_set(support, n_arms)
        except ValueError:
            # On Real rewards no bound holds for such a metric. It can be played all the same.
            chosen = None if isinstance(support, Real) else self._confidence_set(support, n_arms)
        return Setup(grid=np.zeros((0, n_arms)), knobs=knobs, confidence=chosen)

    def certainty(self, weights: ArrayLike | None = None) -> Certainty:
        """How sure the utility of a mixture is (default: the current one), and what any other could still be worth.

        >>> import pmbandits as pmb
        >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
        >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
        >>> policy.certainty().regret < 0.02
        True
        """
        low, middle, high = self.utility_bounds(weights)
        twin = self._twin()
        rival = max(float(search.most_of_any(twin._ints, twin._floats)), high)
        return Certainty(middle, low, high, rival, rival - low)
