"""What can be read of a policy: counts, the mixture, and what is known of each arm. Reading changes nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.confidence._bounds import (
    arm_set_radius,
    bernoulli_interval_lower,
    bernoulli_interval_upper,
    fill_arm_kl_band,
)
from pmbandits.engine._calls import division_by_0_error, invalid_mixture_error, is_mixture
from pmbandits.engine.capacity import memory_with_radius_table
from pmbandits.engine.forgetting import recorded_changes
from pmbandits.engine.merging import Merging
from pmbandits.engine.roster import PLAYS
from pmbandits.estimates import ArmEstimate, Change, Estimates
from pmbandits.estimates import _sketch as sketching
from pmbandits.estimates._rewards import SAMPLES
from pmbandits.state.layout import OWN_PREFIX
from pmbandits.state.memory import Memory


class Reading(Merging):
    """The attributes and methods that only read."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """The last 64 changes that were found in arms, the oldest first. They are looked for only with ``detect``.

        >>> import pmbandits as pmb
        >>> policy = pmb.Vet("gini", names=["A", "B"], support=pmb.Binary(), detect="restart")
        >>> policy.tell("A", [0.0, 0.0, 0.0, 1.0] * 100 + [1.0] * 40)
        >>> print(policy.changes[0])
        A changed: rewards above 0 were 25 % of 400 rewards, and are 100 % of the last 16.
        >>> [arm.n for arm in policy.estimates]
        [24, 0]
        """
        self._require_bound_policy()
        clone = self._clone()
        return recorded_changes(clone._memory, clone._columns)

    @property
    def t(self) -> int:
        """The number of rounds so far, that is of arms that :meth:`ask` returned."""
        self._require_bound_policy()
        return self._n_pulls_in_all()

    @property
    def explore_rounds(self) -> int:
        """How many rounds the policy only explores at the start; 0 if it has no such phase."""
        self._require_bound_policy()
        return int(self._memory.own.get("explore", 0) * self._memory.n_arms)

    def _is_exploring(self) -> bool:
        """Whether some arm has fewer pulls (or rewards) than the policy explores each one at first."""
        self._require_bound_policy()
        memory = self._memory
        return int(np.maximum(memory.pulls, memory.n_rewards).min()) < int(memory.explore)

    @property
    def pulls(self) -> NDArray[np.int64]:
        """How often each arm was asked for; with segments, a row for each segment."""
        return self._by_segment(self._copy_of_arm_field("pulls"))

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """How many people of each segment have come, that is how often :meth:`ask` was called for each.

        >>> import pmbandits as pmb
        >>> policy = pmb.Uniform("gini", names=["A", "B"], support=pmb.Binary(), segments=["new", "returning"])
        >>> arms = policy.ask(segment=["new", "returning", "new"])
        >>> policy.arrivals.tolist(), policy.pulls.tolist()
        ([2, 1], [[1, 1], [1, 0]])
        """
        if self._segments is None:
            raise AttributeError("this policy has no segments, so it has no arrivals of them; pulls counts its asks.")
        return np.asarray(self.pulls.sum(axis=1))

    @property
    def pending(self) -> NDArray[np.int64]:
        """How many asks of each arm still wait for their reward; with segments, a row for each segment."""
        return self._by_segment(self._copy_of_arm_field("pending"))

    def _copy_of_arm_field(self, name: str) -> NDArray[Any]:
        self._require_bound_policy()
        return self._with_lock(lambda: self._field_of_all_arms(name).copy())

    @property
    def mixture(self) -> FloatArray:
        """The current estimate of the best mixing weights, from all rewards so far; 0 for arms that do not play.

        With segments there is a row for each segment, and each row adds up to 1.
        """
        clone = self._updated_clone()
        joint = clone._joint_mixture()
        if clone._segments is None:
            return joint
        playing = [column for column, state in enumerate(clone._arm_states()) if state == PLAYS]
        return clone._segments.shares_within(joint, playing)

    def _segment_frequencies(self) -> FloatArray:
        """How often people of each segment came so far; evenly before the first."""
        assert self._segments is not None
        pulls, rewards = (self._copy_of_arm_field(name) for name in ("pulls", "n_rewards"))
        seen = np.maximum(self._segments.totals(pulls), self._segments.totals(rewards))
        return seen / seen.sum() if seen.any() else np.full(seen.size, 1.0 / seen.size)

    def _joint_mixture(self) -> FloatArray:
        """The mixture that is played, of all columns; with segments their shares of all arrivals."""
        mixture: FloatArray = self._memory.mix.copy()
        if not is_mixture(mixture):
            raise invalid_mixture_error(type(self).__name__, mixture)
        return self._expand_to_all_arms(mixture)

    @property
    def own(self) -> dict[str, Any]:
        """What a policy of yours remembers of its own, as ``kit.state`` declared it: numbers, and copies of arrays."""
        memory, names = self._clone()._memory, [field.name for field in self._own]
        single = memory.places.scalars
        found = {name: memory.number(name) if name in single else memory.field(name).copy() for name in names}
        return {name.removeprefix(OWN_PREFIX): value for name, value in found.items()}

    def _memory_of_updated_clone(self) -> Memory:
        """The state after an update with the newest rewards, on a copy: reading changes nothing."""
        return self._updated_clone()._memory

    def _updated_clone(self) -> Self:
        clone = self._clone()
        try:
            clone._update(clone._memory.address)
        except ZeroDivisionError:
            raise division_by_0_error(type(self).__name__, "update", clone._memory) from None
        return clone

    def _memory_with_radii(self) -> Memory:
        """A copy of the state in which confidence sets can be worked out."""
        clone = self._clone()
        return memory_with_radius_table(clone._memory, clone._current_plan(clone._memory))

    @property
    def estimates(self) -> Estimates:
        """What is known of each arm: its empirical distribution and its confidence band. It prints as a table."""
        return Estimates(self._arm_estimates())

    def _arm_estimates(self) -> tuple[ArmEstimate, ...]:
        """What is known of each arm: its empirical distribution and confidence band."""
        clone = self._clone()
        _, _, memory, roster = clone._now
        plan = clone._current_plan(memory)
        memory = memory_with_radius_table(memory, plan)
        beside = memory if roster is None else memory_with_radius_table(roster.inactive_memory, plan)
        places = range(len(clone._columns)) if roster is None else roster.place
        return tuple(
            _arm_estimate(name, memory if at >= 0 else beside, at if at >= 0 else -1 - at, clone.confidence)
            for name, at in zip(clone._columns, places, strict=True)
        )


def _arm_estimate(name: str, memory: Any, i: int, confidence: ConfidenceSet | None) -> ArmEstimate:
    """What a memory knows of one of its arms."""
    n = int(memory.n_rewards[i])
    if memory.sketch_size > 0:
        mass = np.empty(memory.sketch_items.shape[1], dtype=np.int64)
        used = sketching.fill_sketch_item_weights(memory.sketch_header[i], mass)
        x, which = np.unique(memory.sketch_items[i, :used], return_inverse=True)
        counts = np.bincount(which, weights=mass[:used], minlength=x.size)
    elif memory.storage_mode == SAMPLES:
        mine = memory.pool_arm[: memory.rewards] == i
        x, counts = np.unique(memory.x[: memory.rewards][mine], return_counts=True)
    else:
        counts = memory.counts[i]
        x, counts = memory.points[counts > 0], counts[counts > 0]
    kind, radius, low, high = "none", float("nan"), float("nan"), float("nan")
    if confidence is not None:
        kind = confidence.kind
        radius = float(arm_set_radius(memory, i) if memory.coarse_radii == 1 else confidence.radius(n))
    if kind == "interval":
        mean = float(x @ counts) / n if n else 0.5
        low, high = (
            float(end(memory.set_kind, mean, radius)) for end in (bernoulli_interval_lower, bernoulli_interval_upper)
        )
    ends = None
    if kind == "kl_band" and n:
        above = np.concatenate(([n], n - np.cumsum(counts))).astype(np.int64)
        ends = np.empty((2, above.size))
        fill_arm_kl_band(memory, i, above, ends[0], ends[1])
    return ArmEstimate(name, n, x.copy(), counts / max(n, 1), radius, kind, low, high, memory.rounding, ends)
