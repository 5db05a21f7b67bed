"""Which confidence sets a policy keeps. This depends on how rewards are kept, and on how many arms share δ."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.engine.algorithm import Algorithm
from pmbandits.engine.forgetting import (
    Forgetting,
    confidence_set_after_forgetting,
    current_delta_share,
    parse_forgetting,
)
from pmbandits.engine.options import parse_estimates
from pmbandits.engine.plan import Plan
from pmbandits.engine.roster import arm_count_doubled_until_enough
from pmbandits.metrics.distortion import Distortion
from pmbandits.state.memory import Memory
from pmbandits.supports import Binary, Finite, Heavy, Real, Support


def tail_assumption_as_state_numbers(
    metric: Distortion, support: Support, chosen: ConfidenceSet | None = None
) -> dict[str, float]:
    """The promise about tails, and h near 0 and 1, as numbers of the state; or why values would be infinite."""
    modulus = metric._holder_modulus_or_reason()
    if isinstance(modulus, str):
        raise ValueError(f"{metric!r} has no bounds on {support!r}, because {modulus}; declare Interval(lo, hi).")
    q, constant = modulus
    if isinstance(support, Real) and chosen is not None:
        depth = -2.0 * float(np.log(chosen.mean_failure))
        return {
            "sub_gaussian_sigma": support.sigma,
            "mean_interval_log_term": depth,
            "modulus_exponent": q,
            "modulus_constant": constant,
        }
    assert isinstance(support, Heavy)
    if support.order * q <= 1.0:
        raise ValueError(
            f"{metric!r} on {support!r} can be infinite: h rises like u^{q:g} at 0, which needs a moment of an order "
            f"above {1.0 / q:g}; promise a higher order, or declare Interval(lo, hi)."
        )
    return {
        "moment_order": support.order,
        "moment_bound": support.bound,
        "modulus_exponent": q,
        "modulus_constant": constant,
    }


class ConfidenceChoice(Algorithm):
    """Which confidence sets a policy keeps, and with which share of δ."""

    def _reward_storage_and_size(self, support: Support) -> tuple[str, int]:
        """How rewards of this support are kept: exactly, in bins or in sketches; and the size of these."""
        name, size = parse_estimates(self.options.get("estimates", "exact"))
        if name in ("window", "discount"):  # what is kept at all is kept exactly
            return "exact", 0
        if name == "binned" and not np.isfinite(support.width):
            raise ValueError(f"estimates='binned' needs a bounded support, but rewards are {support!r}; "
                             "declare Interval(lo, hi), or take estimates='sketch'.")  # fmt: skip
        return ("exact", 0) if isinstance(support, (Binary, Finite)) else (name, int(size))

    def _forgetting(self, n_arms: int, support: Support) -> Forgetting | None:
        """What the options say of forgetting rewards and watching arms; ``None`` if nothing."""
        name, after = type(self).__name__, type(self).adjust_after_forgetting
        return parse_forgetting(self.options, n_arms, support, name=name, can_forget=self.forgets, after=after)

    def _max_rounding_error(self, support: Support) -> float:
        """How far rounding to bins moves a reward at most."""
        name, size = self._reward_storage_and_size(support)
        return 0.5 * support.width / size if name == "binned" else 0.0

    def _n_arms_sharing_delta(self, n_arms: int) -> tuple[int, int]:
        """How many arms share δ, and how often that number was doubled; see ``roster.arm_count_doubled_until_enough``.

        Not only the arms that play count, but all that ever came, because each had a set.
        """
        roster = self._roster
        n_initial_arms = max(self.options.get("most_arms") or 0, n_arms if roster is None else roster.n_initial_arms)
        return arm_count_doubled_until_enough(n_initial_arms, n_arms if roster is None else len(self._columns))

    def _total_failure_probability(self) -> float:
        """The probability that any set which the policy ever used fails, of all arms and all times; nan: unknown.

        With a set for each of M arms that fails with probability f: M·f. When more arms come than that, sets are made
        anew for 2M arms with f/4 each, which is half of that; and so on: all together less than twice as much.
        """
        assert self.confidence is not None
        arms, doubled = self._n_arms_sharing_delta(self._memory.n_arms)
        return arms * self.confidence.failure * (2.0 ** (doubled + 1) - 1.0)

    def _sketch_failure_probability(self, n_arms: int) -> float:
        """The probability that an arm's sketch is further off than stated: half of δ goes to the sketches."""
        horizon, delta = self.options.get("horizon"), self.options.get("delta")
        arms, doubled = self._n_arms_sharing_delta(n_arms)
        if "confidence" not in self.options:
            return 0.05 / (arms << doubled)
        half = 0.5 * (delta if delta is not None else 0.05 if horizon is None else 1.0 / horizon)
        return half / 4.0**doubled if horizon is not None else half / (arms << doubled)

    def choose_confidence_set(
        self, support: Support, n_arms: int, *, share: float = 1.0, needs_wasserstein: bool = False
    ) -> ConfidenceSet:
        """The confidence set that the options name; wider, as its meaning says, where rewards are not kept exactly.

        ``share`` is its share of δ. ``needs_wasserstein``: the policy needs W1 radii of the distributions. On the
        line that is best known of balls.
        """
        horizon, delta = self.options.get("horizon"), self.options.get("delta")
        how, fineness = self._reward_storage_and_size(support)
        arms, doubled = self._n_arms_sharing_delta(n_arms)
        if how == "sketch":  # half of δ is for the sketches
            share *= 0.5
        if doubled:  # with a horizon δ is of each arm, else of all together
            share /= 4.0**doubled if horizon is not None else 2.0**doubled
        if share < 1.0:
            delta = share * (delta if delta is not None else 0.05 if horizon is None else 1.0 / horizon)
        cells = fineness if how == "binned" else None
        name = self.options.get("confidence", "auto")
        if needs_wasserstein and isinstance(support, Real) and isinstance(name, str) and name == "auto":
            name = "wasserstein"
        chosen = confidence_set(name, support, arms, horizon=horizon, delta=delta, cells=cells)
        if how != "exact":
            lost = (
                f"rounding to bins, at most {self._max_rounding_error(support):.2g},"
                if how == "binned"
                else "its sketch"
            )
            also = self._sketch_failure_probability(n_arms) if how == "sketch" else 0.0
            meaning = f"{chosen.meaning}; and the error of {lost} is added"
            chosen = replace(chosen, meaning=meaning, failure=chosen.failure + also)
        if arms != n_arms or self._roster is not None:
            come = (
                f"so for {arms} arms that may come"
                if not doubled
                else (
                    f"for {arms} arms since more than {arms >> doubled} came; all sets since the start hold together "
                    f"with probability {1 - arms * chosen.failure * (2.0 ** (doubled + 1) - 1.0):.6g} at least"
                )
            )
            chosen = replace(chosen, meaning=f"{chosen.meaning}; {come}")
        if chosen.kind == "interval" and not isinstance(support, Binary):
            raise ValueError(f"a confidence set of kind 'interval' is for Binary rewards, not {support!r}.")
        return chosen

    @property
    def confidence(self) -> ConfidenceSet | None:
        """The confidence set of each arm, or ``None``. Where rewards are forgotten, it is the one of this moment."""
        return self._current_confidence_set(self._memory) if "_now" in self.__dict__ else None

    def _current_confidence_set(self, memory: Memory) -> ConfidenceSet | None:
        """The confidence sets for what this memory keeps: where rewards were forgotten, for the moments since."""
        plan, support = self._plan, self.support
        assert support is not None
        if plan.forgetting is None:
            return plan.confidence
        now = partial(
            self.choose_confidence_set, support, memory.n_arms, share=current_delta_share(memory, plan.forgetting)
        )
        return confidence_set_after_forgetting(plan.confidence, plan.forgetting, now)

    def _current_plan(self, memory: Memory) -> Plan:
        """The policy's plan with the confidence sets for what this memory keeps."""
        if self._plan.forgetting is None:
            return self._plan
        return replace(self._plan, setup=replace(self._plan.setup, confidence=self._current_confidence_set(memory)))
