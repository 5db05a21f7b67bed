"""How sure a policy is of a mixture, by its confidence sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _html, _validation
from pmbandits._validation import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.confidence._bounds import mixture_utility_with_bounds
from pmbandits.confidence.betting import mean_interval
from pmbandits.confidence.cvar_betting import Corner, cvar_lower_bound, cvar_upper_bound, group_rewards
from pmbandits.confidence.joint_bernoulli import JointChances
from pmbandits.engine.capacity import memory_with_radius_table
from pmbandits.engine.coarsen import CELLS, coarse_distributions, memory_of_coarse_distributions
from pmbandits.engine.joint_regret import FINE_CELLS, joint_regret_bound
from pmbandits.engine.reading import Reading
from pmbandits.engine.roster import PAUSED, PLAYS
from pmbandits.engine.segment_bounds import columns_by_segment, upper_bound_of_plans
from pmbandits.estimates._rewards import BINARY, SAMPLES
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.encoding import h_value
from pmbandits.mixtures._optimistic_bound import set_mix_to_most_optimistic, upper_bound_of_any_mixture
from pmbandits.state.memory import Memory
from pmbandits.supports import Finite, Interval

SETS, MEANS, CORNER, CHANCES = "sets", "means", "corner", "chances"
COARSEN_FROM = 4 * CELLS  # from so many rewards on, a search in cells comes first
FOR_ARRIVALS_SO_FAR = "if the segments come as often as they did so far"


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
    meaning : what all of this rests on (the confidence set of each arm, an interval for each arm's mean or utility, or
        one set for the chances of all arms), with which probability it holds, and for which times.
    frequencies : with segments, how often people of each came so far. All of this is for a population in which they
        come as often; how often they will come is not known. Empty without segments.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
    >>> print(policy.certainty())
    With probability 95 %, this mixture falls short of the best mixture by at most 0.0027.
    >>> policy.certainty().meaning[:84]
    'with probability at least 95 %, the true chances of all arms stay inside one joint s'
    """

    utility: float
    lower: float
    upper: float
    rival: float
    regret: float
    probability: float
    meaning: str
    frequencies: tuple[float, ...] = ()

    def __str__(self) -> str:
        if not np.isfinite(self.regret):
            return "Nothing is certain yet about how far this mixture is from the best one."
        known = self.probability > 0.0
        when = f"With probability {100 * self.probability:.6g} %" if known else "If the confidence sets hold"
        of = f", {FOR_ARRIVALS_SO_FAR}" if self.frequencies else ""
        return f"{when}, this mixture falls short of the best mixture by at most {self.regret:.2g}{of}."

    def _repr_html_(self) -> str:
        rows = [
            ("the utility of this mixture", f"{self.utility:.4g}, between {self.lower:.4g} and {self.upper:.4g}"),
            ("the utility of any other mixture", f"at most {self.rival:.4g}"),
            ("so the regret of this mixture", f"at most {self.regret:.4g}"),
            ("what this rests on", self.meaning),
        ]
        if self.frequencies:
            rows.append(("for whom", f"{FOR_ARRIVALS_SO_FAR}: {', '.join(f'{p:.3g}' for p in self.frequencies[:8])}"))
        return _html.html_titled_block(
            "How sure is this mixture?", _html.html_paragraphs([str(self)]), _html.html_table((), rows)
        )


def mixture_utility_range(memory: Memory, mix: FloatArray) -> tuple[float, float, float]:
    """Lower, empirical and upper utility of a mixture; an error in one sentence if no distribution fits the rewards."""
    low, middle, high = (float(value) for value in mixture_utility_with_bounds(memory, mix))
    if np.isnan(low):
        raise ValueError(
            f"no distribution fits both the rewards and the promise of the support ({_tail_assumption_text(memory)}); "
            "declare a larger bound."
        )
    return low, middle, high


def _tail_assumption_text(memory: Memory) -> str:
    if memory.moment_order > 0.0:
        return f"E|X|^{memory.moment_order:g} ≤ {memory.moment_bound:g}"
    return f"σ ≤ {memory.sub_gaussian_sigma:g}"


class BoundsBasis(NamedTuple):
    """What bounds rest on, with which probability of failure; decided by metric, support and options, not by rewards.

    Attributes
    ----------
    kind : ``SETS``, the confidence set of each arm; ``MEANS``, an interval of each arm's mean, by betting, for linear
        metrics; ``CORNER``, bounds of the utility of each arm, by betting, for CVaR and its sums with the mean; or
        ``CHANCES``, one set for the chances of all arms that pay 0 or 1.
    failure : the probability that one of the sets or intervals fails; for ``CHANCES`` that of all together.
    arms : how many arms there may ever be.
    corner : for ``CORNER``, the metric.
    atoms : for ``CORNER`` on a ``Finite`` support, its points.
    convex : with several segments, the metric if it is convex.
    """

    kind: str
    failure: float
    arms: int
    corner: Corner | None = None
    atoms: FloatArray | None = None
    convex: Distortion | None = None

    def guarantee_text(self, of_sets: str) -> str:
        """What is guaranteed, in words, made from the same for confidence sets."""
        if self.kind == MEANS:
            return of_sets.replace(
                "distribution of an arm stays inside its set", "mean of an arm stays inside its interval (by betting)"
            )
        if self.kind == CORNER:
            return of_sets.replace(
                "distribution of an arm stays inside its set", "utility of an arm stays inside its bounds (by betting)"
            )
        if self.kind == CHANCES:
            _, more, rest = of_sets.partition(";")
            share = f"{100 * max(1.0 - self.failure, 0.0):.6g} %"
            return (
                f"with probability at least {share}, the true chances of all arms stay inside one joint set (a product "
                f"of their martingales), however many rewards come{more}{rest}"
            )
        return of_sets


def certified_utility_and_regret_bounds(
    memory: Memory, mix: FloatArray, basis: BoundsBasis, cells: int = FINE_CELLS
) -> tuple[float, float, float, float, float]:
    """Lower, empirical and upper utility of a mixture, an upper bound of any mixture's, and of this one's regret."""
    if basis.kind == MEANS:
        least, middle, most = arm_utility_intervals(memory, basis.failure)
        rival = regret = 0.0
        for arms in columns_by_segment(memory):
            a, low, high = mix[arms], least[arms], most[arms]
            weight = float(a.sum()) if memory.n_segments > 1 else 1.0
            rival += weight * float(high.max())
            # One arm alone is best. Where it is arm i, the mixture falls short by Σ a_j·(U_i − U_j): its own share is
            # none.
            regret += max(float(((weight - a) * high - (a @ low - a * low)).max()), 0.0)
        return float(mix @ least), float(mix @ middle), float(mix @ most), rival, regret
    if basis.corner is not None:
        return corner_utility_and_regret_bounds(memory, mix, basis, basis.corner)
    if basis.kind == CHANCES:
        joint = JointChances(memory.counts[:, 1], memory.n_rewards, basis.failure, basis.arms)
        low, high, rival, regret, _ = joint.utility_and_regret_bounds(memory.h, mix)
        mean = float(mix @ (memory.counts[:, 1] / np.maximum(memory.n_rewards, 1)))
        return low, float(h_value(memory.h, min(mean, 1.0))), high, rival, regret
    low, middle, high = mixture_utility_range(memory, mix)
    regret = joint_regret_bound(memory, mix, cells)
    if memory.metric_shape == CONVEX and np.isfinite(regret) and memory.bounded == 1 and memory.n_limited == 0:
        return low, middle, high, max(low + regret, high), regret  # the regret is that to the best other arm
    rival = float(upper_bound_of_any_mixture(memory.address, initial_rival_mixture(memory, mix)))
    if basis.convex is not None:
        rival = min(rival, upper_bound_of_plans(basis.convex, memory, mix))
    rival = max(rival, high)
    return low, middle, high, rival, min(rival - low, regret)


def rewards_and_counts_by_arm(memory: Memory) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The sorted rewards of each arm, and how often each came."""
    samples = memory.storage_mode == SAMPLES
    x, owner = memory.x[: memory.rewards], memory.pool_arm[: memory.rewards]
    if samples:
        if not (x[1:] >= x[:-1]).all():
            order = np.argsort(x, kind="stable")
            x, owner = x[order], owner[order]
        x = x[np.argsort(owner.astype(np.uint16), kind="stable")]  # arm by arm, each in order
    last = np.cumsum(memory.n_rewards)
    for i in range(memory.n_arms):
        seen = memory.counts[i] > 0
        rewards = x[last[i] - memory.n_rewards[i] : last[i]] if samples else memory.points[seen]
        yield rewards, np.ones(rewards.size) if samples else memory.counts[i][seen].astype(np.float64)


def arm_utility_intervals(memory: Memory, failure: float) -> FloatArray:
    """The least, the empirical and the largest utility of each arm, for a linear metric, from betting on the means."""
    slope, ends = float(h_value(memory.h, 1.0)), np.empty((memory.n_arms, 3))
    for i, (rewards, counts) in enumerate(rewards_and_counts_by_arm(memory)):
        low, high = mean_interval(rewards, counts, memory.low, memory.high, failure)
        mean = float((rewards * counts).sum() / counts.sum()) if counts.size else memory.low
        ends[i] = max(low - memory.rounding, memory.low), mean, min(high + memory.rounding, memory.high)
    return np.sort(slope * ends, axis=1).T


def corner_utility_and_regret_bounds(
    memory: Memory, mix: FloatArray, basis: BoundsBasis, corner: Corner
) -> tuple[float, float, float, float, float]:
    """What ``certified_utility_and_regret_bounds`` returns, by betting, for a metric with one corner.

    The utility is convex in the distribution. So that of a mixture is at most the average of its arms', and one arm
    alone is best.
    """
    width, lo = memory.high - memory.low, memory.low
    atoms = None if basis.atoms is None else _unit_rewards(basis.atoms, memory, corner)
    arms = []
    for rewards, counts in rewards_and_counts_by_arm(memory):
        arms.append((_unit_rewards(rewards, memory, corner), counts[::-1] if corner.mirrored else counts))
    groups = [group_rewards(x, counts, corner) for x, counts in arms]
    most, members = np.zeros(len(arms)), np.flatnonzero(mix > 0.0)
    seen = [corner.utility_and_quantile(x, counts)[0] if x.size else corner.largest for x, counts in arms]
    for i in np.argsort(-np.array(seen)):  # of arms that are not in the mixture, only the largest bound matters
        known = float(most[mix == 0.0].max()) if mix[i] == 0.0 else 0.0
        most[i] = cvar_upper_bound(groups[i], corner, basis.failure, known)
    nothing = np.array([1.0 if corner.mirrored else 0.0]), np.ones(1)  # an arm without rewards
    parts = [arms[i] if arms[i][0].size else nothing for i in members]
    x = np.concatenate([part[0] for part in parts])
    weights = np.concatenate([mix[i] / part[1].sum() * part[1] for i, part in zip(members, parts, strict=True)])
    order = np.argsort(x, kind="stable")
    middle, quantile = corner.utility_and_quantile(x[order], weights[order])
    low = cvar_lower_bound([groups[i] for i in members], mix[members], corner, quantile, basis.failure, atoms)
    utility = np.array(
        [low, middle, float(mix @ most), float(most.max()), float(np.append(most[mix < 1.0], 0.0).max())]
    )
    # From rewards in [0, 1] to those of the support; and what rounding to bins can move.
    utility = corner.total * (memory.high if corner.mirrored else lo) + width * utility
    error, ends = memory.rounding_utility_bound, np.sort([corner.total * lo, corner.total * memory.high])
    low, middle, high, rival, other = np.clip(utility + np.array([-error, 0.0, error, error, error]), *ends).tolist()
    return low, middle, high, rival, max(other - low, 0.0)


def _unit_rewards(rewards: FloatArray, memory: Memory, corner: Corner) -> FloatArray:
    """Sorted rewards in units of the support, from 0 to 1; mirrored and sorted again where the metric is."""
    x = np.clip((rewards - memory.low) / (memory.high - memory.low), 0.0, 1.0)
    return 1.0 - x[::-1] if corner.mirrored else x


def initial_rival_mixture(memory: Memory, mix: FloatArray) -> FloatArray:
    """The mixture from which the search for the best rival starts: with many rewards, that of a coarse search.

    Only concave metrics need a search. With segments, each has the weight that it has in ``mix``.
    """
    even = np.empty(memory.n_arms)
    for arms in columns_by_segment(memory):
        even[arms] = (1.0 if memory.n_segments <= 1 else mix[arms].sum()) / arms.size
    few = (
        memory.metric_shape != CONCAVE
        or memory.storage_mode != SAMPLES
        or memory.sketch_size > 0
        or memory.rewards < COARSEN_FROM
        or memory.n_rewards.min() == 0
    )
    if few or memory.moment_order > 0.0 or memory.sub_gaussian_sigma > 0.0:
        return even
    rough = memory_of_coarse_distributions(memory, coarse_distributions(memory))
    rough.mix[:] = even
    set_mix_to_most_optimistic(rough.address)
    return rough.mix.copy()


class CertaintyMethods(Reading):
    """The methods that say how sure a mixture is."""

    def utility_bounds(self, weights: ArrayLike | None = None, *, exact: bool = False) -> tuple[float, float, float]:
        """The pessimistic, the empirical and the optimistic utility of a mixture.

        The pessimistic and the optimistic one hold for all mixtures at once, if the true distribution of every arm lies
        in its confidence set. If each of K sets holds with probability p, that is so with probability 1 − K(1 − p) at
        least. They are exact for one arm. In all other cases they are bounds. For linear metrics on an ``Interval``
        or a ``Finite`` support they come from intervals of the arms' means (``pmbandits.confidence.betting``), and for
        lower CVaR and its sums with the mean from bounds by betting, too (``pmbandits.confidence.cvar_betting``). For
        ``Binary`` rewards they come from one set for all chances (``pmbandits.confidence.joint_bernoulli``). The
        probability is the same, and ``exact`` changes nothing then.

        Parameters
        ----------
        weights : the shares of the arms (with segments, a row for each); by default those of the current mixture.
        exact : whether to work out what is possible while the survival curve of every single arm falls, too
            (:func:`pmbandits.confidence.exact_bounds.extreme_value`). This is narrower. It is for sets that limit the
            arms' curves, and takes about ten milliseconds to a tenth of a second.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
        >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
        >>> low, empirical, high = policy.utility_bounds([0.5, 0.5])
        >>> low < empirical < high
        True
        """
        chosen = self._require_confidence_sets()
        clone, memory, mix = self._snapshot_with_mixture(weights)
        basis = clone._bounds_basis()
        if basis.kind != SETS:
            return certified_utility_and_regret_bounds(memory, mix, basis)[:3]
        low, middle, high = mixture_utility_range(memory, mix)
        if exact and memory.storage_mode != BINARY and int((mix > 0.0).sum()) > 1:
            low, high = clone._exact_utility_range(chosen, memory, mix, low, high)
        return low, middle, high

    def _exact_utility_range(
        self, chosen: ConfidenceSet, memory: Memory, mix: FloatArray, low: float, high: float
    ) -> tuple[float, float]:
        """The least and the largest utility while every arm's curve falls, from limits that are looser."""
        from pmbandits.confidence.exact_bounds import extreme_value  # with scipy's solvers, which take a while to load

        metric, support = self.metric, self.support
        assert metric is not None and support is not None
        if chosen.kind == "ball":
            raise ValueError(
                f"exact=True is not possible with the confidence set {chosen.name!r}: it limits how far away a curve "
                "is, but not the curve itself. Leave exact out, or, on a bounded support, take confidence='dkw'."
            )
        if not np.isfinite(support.width):
            raise ValueError(f"exact=True needs a bounded support, but rewards are {support!r}; leave it out.")
        known = self._arm_estimates()
        arms = [replace(known[i], rounding=0.0) for i in self._active_arms]  # rounding is counted by ``offset``
        points = np.unique(np.concatenate([[support.lo, support.hi], *(arm.x for arm in arms)]))
        sides = [arm.band(points[:-1]) for arm in arms]
        lower, upper = (np.clip(1.0 - np.array([side[k] for side in sides]), 0.0, 1.0) for k in (1, 0))
        lower, upper = np.minimum.accumulate(lower, axis=1), np.minimum.accumulate(upper, axis=1)
        least = extreme_value(metric, points, lower, upper, mix, largest=False).value - memory.rounding_utility_bound
        most = extreme_value(metric, points, lower, upper, mix).value + memory.rounding_utility_bound
        return max(low, least), min(high, most)

    def certainty(self, weights: ArrayLike | None = None) -> Certainty:
        """How sure the utility of a mixture is, and how large that of any other mixture could still be.

        This is for every policy that keeps confidence sets. What it says holds while those are valid: see
        :class:`~pmbandits.engine.certainty.Certainty`. With segments it is for a population in which these come as
        often as they did so far.

        Parameters
        ----------
        weights : the shares of the arms (with segments, a row for each); by default those of the current mixture.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.PMUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=10_000)
        >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
        >>> sure = policy.certainty()
        >>> sure.regret < 0.02, sure.probability
        (True, 0.9998)
        """
        self._require_confidence_sets()
        clone, memory, mix = self._snapshot_with_mixture(weights)
        basis = clone._bounds_basis()
        low, middle, high, rival, regret = certified_utility_and_regret_bounds(memory, mix, basis)
        wrong, chosen = clone._total_failure_probability(), clone._require_confidence_sets()
        probability = max(1.0 - wrong, 0.0) if np.isfinite(wrong) else float("nan")
        seen = () if clone._segments is None else tuple(self._segment_frequencies().tolist())
        return Certainty(middle, low, high, rival, regret, probability, basis.guarantee_text(chosen.meaning), seen)

    def _bounds_basis(self) -> BoundsBasis:
        """What bounds rest on: on what says most about this metric and support. Rewards have no say in it.

        For linear metrics only the means matter, and intervals by betting are narrower than what a band says of them.
        For convex metrics with one corner, such as lower CVaR, the utility is a largest mean, and bets bound it, too.
        For arms that pay 0 or 1 one set for all chances says more than an interval for each.
        """
        chosen, metric, support, memory = self.confidence, self.metric, self.support, self._memory
        assert chosen is not None and metric is not None and support is not None
        arms, _ = self._n_arms_sharing_delta(memory.n_arms)
        several = memory.n_segments > 1
        if chosen.name == "kl" and memory.sketch_size == 0 and self._plan.forgetting is None:
            if memory.storage_mode == BINARY and memory.n_limited == 0 and not several:
                return BoundsBasis(CHANCES, arms * chosen.failure, arms)
            if metric.shape == "linear" and isinstance(support, (Interval, Finite)) and memory.storage_mode != BINARY:
                return BoundsBasis(MEANS, chosen.failure, arms)
            corner = None if several else Corner.of_metric(metric)
            if corner is not None and isinstance(support, (Interval, Finite)) and memory.n_limited == 0:
                atoms = np.array(support.atoms) if isinstance(support, Finite) and memory.rounding == 0.0 else None
                return BoundsBasis(CORNER, chosen.failure, arms, corner, atoms)
        return BoundsBasis(SETS, chosen.failure, arms, convex=metric if several and metric.shape == "convex" else None)

    def _snapshot_with_mixture(self, weights: ArrayLike | None) -> tuple[Self, Memory, FloatArray]:
        """A copy of the policy at one moment, its memory, from which sets can be worked out, and a mixture of its arms.

        By default it is the current mixture. Arms that wait for their first reward are in that memory like all others:
        as long as nothing is known of them, little is certain. Arms that do not play are not in it, because nobody can
        play them now.
        """
        clone = (
            self._clone() if weights is not None else self._updated_clone()
        )  # rewards are put in order once, for both
        if clone._segments is not None:
            given = clone._joint_weights(weights)
        elif weights is None:
            given = clone._expand_to_all_arms(clone._memory.mix.copy())
        else:
            given = _validation.check_weights(weights, clone.n_arms)
        clone = clone._with_waiting_arms_in_memory()
        active_arms = list(clone._active_arms)
        playing = set(active_arms)
        idle = [name for i, name in enumerate(clone._columns) if given[i] > 0.0 and i not in playing]
        if idle:
            raise ValueError(f"{', '.join(idle[:5])} does not play now; give it a weight of 0, or resume it.")
        memory = memory_with_radius_table(clone._memory, clone._current_plan(clone._memory))
        if clone._segments is not None:
            memory.mix[:] = given[active_arms]
        return clone, memory, given[active_arms]

    def _joint_weights(self, weights: ArrayLike | None) -> FloatArray:
        """The weights of all columns, from the shares within each segment; by default those of the current mixture.

        Segments that nobody came from yet have no weight, and leave the memory: little is known of them.
        """
        segments = self._segments
        assert segments is not None
        rows = self.mixture if weights is None else np.asarray(weights)
        shape = (len(segments), len(segments.arms))
        if rows.shape != shape:
            raise ValueError(
                f"weights of shape {rows.shape} were given for {shape[0]} segments and {shape[1]} arms; give a row for "
                "each segment."
            )
        rows = np.array([_validation.check_weights(row, shape[1]) for row in rows])
        if (rows[segments.column_at < 0] > 0.0).any():
            raise ValueError("a segment has a weight for an arm that it does not have; give that a weight of 0.")
        frequencies = self._segment_frequencies()
        absent = frequencies == 0.0
        if absent.any() and self._plan.forgetting is None:
            states = tuple(
                PAUSED if absent[segment] and state == PLAYS else state
                for segment, state in zip(segments.segment_of, self._arm_states(), strict=True)
            )
            joined_at = {i: t for i, t in self._round_in_which_arms_joined().items() if states[i] == PLAYS}
            self.__dict__.update(self._state_rearranged_for_arms(states, joined_at, include_waiting_arms=True))
        joint: FloatArray = (frequencies[:, None] * rows)[segments.segment_of, segments.arm_of]
        return joint

    def _require_confidence_sets(self) -> ConfidenceSet:
        """The policy's confidence sets, or an error in one sentence if it keeps none."""
        self._require_bound_policy()
        if self.confidence is None:
            why = ", so it has no bounds to report"
            if self._plan.forgetting is not None and self._plan.forgetting.kind == "discount":
                why = ": none is known to hold for rewards that are discounted; take estimates='window:...'"
            elif "confidence" in self.options:
                why = f": no bound holds for {self.metric!r} on {self.support!r}; declare Interval(lo, hi)"
            raise ValueError(f"{type(self).__name__} keeps no confidence sets here{why}.")
        return self.confidence
