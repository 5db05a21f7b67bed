"""How sure a policy is of a mixture, by its confidence sets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _check, _html
from pmbandits._check import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.confidence._bounds import bounds
from pmbandits.estimates._rewards import BINARY, SAMPLES
from pmbandits.mixtures._rivals import most_of_any, rival_mixture
from pmbandits.policies import lineup
from pmbandits.policies.build import with_radii
from pmbandits.policies.condensed import CELLS, laws_of, small
from pmbandits.policies.sets import failure, plan_now
from pmbandits.policies.shown import estimates
from pmbandits.policies.together import FINE, regret_together
from pmbandits.state.memory import Memory

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy

MANY = 4 * CELLS  # from so many rewards on, a search in cells comes first


class Certainty(NamedTuple):
    """How sure a policy is of a mixture: the result of :meth:`Policy.certainty`.

    With at least this ``probability``, all of it is true at once, for every mixture and at every time for which the
    confidence sets of the policy are valid. So you may look as often as you like, and stop when you like. ``meaning``
    says for which times that is. The sets of policies without a horizon (Vet, Track, CIRT) are valid however many
    rewards come. Those of policies with a horizon (PMUCB, CEUCB, SolitaryUCB) are valid only for that many rewards of
    each arm. When printed, it is one sentence.

    Attributes
    ----------
    utility : the utility of the mixture, from the rewards so far.
    lower, upper : the true utility of the mixture lies between these two.
    rival : no mixture has a true utility above this.
    regret : the mixture falls short of the best one by at most this. It is at most rival − lower. It can be less,
        because ``rival`` and ``lower`` look at the worst case separately, for different distributions of the arms. For
        many metrics both are also valued for the same distributions.
    probability : with at least this probability all of this is true. It is 1 − K·(the probability that the set of one
        arm fails), where K is how many arms there may ever be (``most_arms``). It is nan where that is not known: for
        the paper's constants, and for sets of your own.
    meaning : what is guaranteed for the confidence set of each arm, and for which times.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
    >>> print(policy.certainty())
    With probability 95 %, this mixture falls short of the best mixture by at most 0.0039.
    >>> policy.certainty().meaning
    'with probability at least 97.5 %, the true distribution of an arm stays inside its set, however many rewards come'
    """

    utility: float
    lower: float
    upper: float
    rival: float
    regret: float
    probability: float
    meaning: str

    def __str__(self) -> str:
        if not np.isfinite(self.regret):
            return "Nothing is certain yet about how far this mixture is from the best one."
        known = self.probability > 0.0
        when = f"With probability {100 * self.probability:.6g} %" if known else "If the confidence sets hold"
        return f"{when}, this mixture falls short of the best mixture by at most {self.regret:.2g}."

    def _repr_html_(self) -> str:
        rows = [
            ("the utility of this mixture", f"{self.utility:.4g}, between {self.lower:.4g} and {self.upper:.4g}"),
            ("the utility of any other mixture", f"at most {self.rival:.4g}"),
            ("so the regret of this mixture", f"at most {self.regret:.4g}"),
            ("what this rests on", self.meaning),
        ]
        return _html.block("How sure is this mixture?", _html.paragraphs([str(self)]), _html.table((), rows))


def utility_bounds(
    policy: Policy, weights: ArrayLike | None = None, *, exact: bool = False
) -> tuple[float, float, float]:
    """The pessimistic, the empirical and the optimistic utility of a mixture.

    The pessimistic and the optimistic one hold for all mixtures at once, if the true distribution of every arm lies in
    its confidence set. If each of K sets holds with probability p, that is so with probability 1 − K(1 − p) at least.
    They are exact for one arm and for ``Binary`` rewards. In all other cases they are bounds.

    Parameters
    ----------
    weights : the shares of the arms; by default those of the current mixture.
    exact : whether to work out what is possible while the survival curve of every single arm falls, too
        (:func:`pmbandits.confidence.exact.extreme_value`). This is narrower. It is for sets that limit the arms'
        curves, and takes about ten milliseconds to a tenth of a second.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
    >>> low, empirical, high = policy.utility_bounds([0.5, 0.5])
    >>> low < empirical < high
    True
    """
    chosen = sets_of(policy)
    twin, memory, mix = moment(policy, weights)
    low, middle, high = (float(value) for value in bounds(memory, mix))
    if exact and memory.mode != BINARY and int((mix > 0.0).sum()) > 1:
        low, high = _exact_ends(twin, chosen, memory, mix, low, high)
    return low, middle, high


def _exact_ends(
    policy: Policy, chosen: ConfidenceSet, memory: Memory, mix: FloatArray, low: float, high: float
) -> tuple[float, float]:
    """The least and the largest utility while every arm's curve falls, from limits that are looser."""
    from pmbandits.confidence.exact import extreme_value  # with scipy's solvers, which take a while to load

    metric, support = policy.metric, policy.support
    assert metric is not None and support is not None
    if chosen.kind == "ball":
        raise ValueError(
            f"exact=True is not possible with the confidence set {chosen.name!r}: it limits how far away a curve is, "
            "but not the curve itself. Leave exact out, or, on a bounded support, take confidence='dkw'."
        )
    if not np.isfinite(support.width):
        raise ValueError(f"exact=True needs a bounded support, but rewards are {support!r}; leave it out.")
    known = estimates(policy)
    arms = [replace(known[i], rounding=0.0) for i in policy._seated]  # rounding is counted by ``offset``
    points = np.unique(np.concatenate([[support.lo, support.hi], *(arm.x for arm in arms)]))
    sides = [arm.band(points[:-1]) for arm in arms]
    lower, upper = (np.clip(1.0 - np.array([side[k] for side in sides]), 0.0, 1.0) for k in (1, 0))
    lower, upper = np.minimum.accumulate(lower, axis=1), np.minimum.accumulate(upper, axis=1)
    least = extreme_value(metric, points, lower, upper, mix, largest=False).value - memory.offset
    most = extreme_value(metric, points, lower, upper, mix).value + memory.offset
    return max(low, least), min(high, most)


def certainty(policy: Policy, weights: ArrayLike | None = None) -> Certainty:
    """How sure the utility of a mixture is, and what any other mixture could still be worth.

    This is for every policy that keeps confidence sets. What it says holds while those are valid: see
    :class:`~pmbandits.policies.certainty.Certainty`.

    Parameters
    ----------
    weights : the shares of the arms; by default those of the current mixture.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.PMUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=10_000)
    >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
    >>> sure = policy.certainty()
    >>> sure.regret < 0.02, sure.probability
    (True, 0.9998)
    """
    sets_of(policy)
    twin, memory, mix = moment(policy, weights)
    low, middle, high, rival, regret = what_is_sure(memory, mix)
    wrong, chosen = failure(twin), sets_of(twin)
    probability = max(1.0 - wrong, 0.0) if np.isfinite(wrong) else float("nan")
    return Certainty(middle, low, high, rival, regret, probability, chosen.meaning)


def what_is_sure(memory: Memory, mix: FloatArray, cells: int = FINE) -> tuple[float, float, float, float, float]:
    """The least, empirical and largest utility of a mixture, what none exceeds, and the largest regret of this one."""
    low, middle, high = (float(value) for value in bounds(memory, mix))
    rival = max(float(most_of_any(memory.address, first_guess(memory))), high)
    return low, middle, high, rival, min(rival - low, regret_together(memory, mix, cells))


def first_guess(memory: Memory) -> FloatArray:
    """Where the search for the best rival begins. With many rewards it is what a search over a few cells has found."""
    few = memory.mode != SAMPLES or memory.sketch_size > 0 or memory.rewards < MANY or memory.told.min() == 0
    if few or memory.tail_order > 0.0 or memory.tail_sigma > 0.0:
        return np.full(memory.n_arms, 1.0 / memory.n_arms)
    rough = small(memory, laws_of(memory))
    rival_mixture(rough.address)
    return rough.mix.copy()


def moment(policy: Policy, weights: ArrayLike | None) -> tuple[Policy, Memory, FloatArray]:
    """A copy of the policy at one moment, its memory, from which sets can be worked out, and a mixture of its arms.

    By default it is the current mixture. Arms that wait for their first reward are in that memory like all others: as
    long as nothing is known of them, little is certain. Arms that do not play are not in it, because nobody can play
    them now.
    """
    twin = policy._twin() if weights is not None else policy._updated()  # rewards are put in order once, for both
    given = lineup.spread(twin, twin._memory.mix.copy()) if weights is None else _check.weights(weights, twin.n_arms)
    twin = lineup.everybody(twin)
    seated = list(twin._seated)
    idle = [name for i, name in enumerate(twin.names) if given[i] > 0.0 and i not in seated]
    if idle:
        raise ValueError(f"{', '.join(idle[:5])} does not play now; give it a weight of 0, or resume it.")
    return twin, with_radii(twin._memory, plan_now(twin, twin._memory)), given[seated]


def sets_of(policy: Policy) -> ConfidenceSet:
    """The policy's confidence sets, or an error in one sentence if it keeps none."""
    policy._must_be_bound()
    if policy.confidence is None:
        why = ", so it has no bounds to report"
        if policy._plan.forgetting is not None and policy._plan.forgetting.kind == "discount":
            why = ": none is known to hold for rewards that are discounted; take estimates='window:...'"
        elif "confidence" in policy.options:
            why = f": no bound holds for {policy.metric!r} on {policy.support!r}; declare Interval(lo, hi)"
        raise ValueError(f"{type(policy).__name__} keeps no confidence sets here{why}.")
    return policy.confidence
