"""Which confidence sets a policy keeps. This depends on how rewards are kept, and on how many arms share δ."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies.bench import sharing
from pmbandits.policies.forgetting import sets_at, share_of_delta
from pmbandits.policies.options import how_kept
from pmbandits.state.memory import Memory
from pmbandits.supports import Binary, Finite, Heavy, Real, Support

if TYPE_CHECKING:
    from pmbandits.policies.build import Plan
    from pmbandits.policies.policy import Policy


def kept(policy: Policy, support: Support) -> tuple[str, int]:
    """How rewards of this support are kept: exactly, in bins or in sketches; and the size of these."""
    name, size = how_kept(policy.options.get("estimates", "exact"))
    if name in ("window", "discount"):  # what is kept at all is kept exactly
        return "exact", 0
    if name == "binned" and not np.isfinite(support.width):
        raise ValueError(f"estimates='binned' needs a bounded support, but rewards are {support!r}; "
                         "declare Interval(lo, hi), or take estimates='sketch'.")  # fmt: skip
    return ("exact", 0) if isinstance(support, (Binary, Finite)) else (name, int(size))


def rounding_of(policy: Policy, support: Support) -> float:
    """How far rounding to bins moves a reward at most."""
    name, size = kept(policy, support)
    return 0.5 * support.width / size if name == "binned" else 0.0


def shared(policy: Policy, n_arms: int) -> tuple[int, int]:
    """How many arms share δ, and how often that number was doubled; see :func:`bench.sharing`.

    Not only the arms that play count, but all that ever came, because each had a set.
    """
    bench = policy._bench
    first = max(policy.options.get("most_arms") or 0, n_arms if bench is None else bench.first)
    return sharing(first, n_arms if bench is None else len(policy.names))


def failure(policy: Policy) -> float:
    """The probability that any set which the policy ever used fails, of all arms and all times together; nan: unknown.

    With a set for each of M arms that fails with probability f: M·f. When more arms come than that, sets are made anew
    for 2M arms with f/4 each, which is half of that; and so on: all together less than twice as much.
    """
    assert policy.confidence is not None
    arms, doubled = shared(policy, policy._memory.n_arms)
    return arms * policy.confidence.failure * (2.0 ** (doubled + 1) - 1.0)


def rank_delta(policy: Policy, n_arms: int) -> float:
    """The probability that an arm's sketch is further off than stated: half of δ goes to the sketches."""
    horizon, delta = policy.options.get("horizon"), policy.options.get("delta")
    arms, doubled = shared(policy, n_arms)
    if "confidence" not in policy.options:
        return 0.05 / (arms << doubled)
    half = 0.5 * (delta if delta is not None else 0.05 if horizon is None else 1.0 / horizon)
    return half / 4.0**doubled if horizon is not None else half / (arms << doubled)


def chosen_set(
    policy: Policy, support: Support, n_arms: int, *, share: float = 1.0, distance: bool = False
) -> ConfidenceSet:
    """The confidence set that the options ask for; wider, and said so, where rewards are not kept exactly.

    ``share`` is the share of δ that is for it. ``distance``: the policy needs to know how far laws are in W1. On the
    line that is best known of balls.
    """
    horizon, delta = policy.options.get("horizon"), policy.options["delta"]
    how, fineness = kept(policy, support)
    arms, doubled = shared(policy, n_arms)
    if how == "sketch":  # half of δ is for the sketches
        share *= 0.5
    if doubled:  # with a horizon δ is of each arm, else of all together
        share /= 4.0**doubled if horizon is not None else 2.0**doubled
    if share < 1.0:
        delta = share * (delta if delta is not None else 0.05 if horizon is None else 1.0 / horizon)
    cells = fineness if how == "binned" else None
    name = policy.options["confidence"]
    if distance and isinstance(support, Real) and isinstance(name, str) and name == "auto":
        name = "wasserstein"
    chosen = confidence_set(name, support, arms, horizon=horizon, delta=delta, cells=cells)
    if how != "exact":
        lost = f"rounding to bins, at most {rounding_of(policy, support):.2g}," if how == "binned" else "its sketch"
        also = rank_delta(policy, n_arms) if how == "sketch" else 0.0
        meaning = f"{chosen.meaning}; and the error of {lost} is added"
        chosen = replace(chosen, meaning=meaning, failure=chosen.failure + also)
    if arms != n_arms or policy._bench is not None:
        come = (
            f"so for {arms} arms that may come"
            if not doubled
            else (
                f"for {arms} arms since more than {arms >> doubled} came; all sets since the start hold together with "
                f"probability {1 - arms * chosen.failure * (2.0 ** (doubled + 1) - 1.0):.6g} at least"
            )
        )
        chosen = replace(chosen, meaning=f"{chosen.meaning}; {come}")
    if chosen.kind == "interval" and not isinstance(support, Binary):
        raise ValueError(f"a confidence set of kind 'interval' is for Binary rewards, not {support!r}.")
    return chosen


def reading_set(policy: Policy, metric: Distortion, n_arms: int, support: Support) -> ConfidenceSet | None:
    """The confidence sets of a policy that plays without them: for readers, where a bound holds."""
    if how_kept(policy.options.get("estimates", "exact"))[0] == "discount":
        if not isinstance(policy.options["confidence"], str):
            raise ValueError("with estimates='discount:...' there are no confidence sets; leave confidence out.")
        return None  # no set is known that holds for rewards that are drawn again and again
    chosen = chosen_set(policy, support, n_arms)
    if np.isfinite(support.width):
        return chosen
    try:
        if chosen.kind == "belt":
            tail_numbers(metric, support, chosen)
        else:
            metric.holder(support)
    except ValueError:
        return None  # no bound holds for such a metric; it can be played all the same
    return chosen


def certifying_share(policy: Policy, metric: Distortion, support: Support, chosen: ConfidenceSet | None) -> float:
    """The share of pulls that is for certifying, if there are confidence sets by which to certify."""
    share: float = policy.options["certify"]
    if share > 0.0 and chosen is None:
        raise ValueError(
            f"certify={share:g} needs confidence sets, but no bound holds for {metric!r} on {support!r}; declare "
            "Interval(lo, hi), or leave certify out."
        )
    return share


def tail_numbers(metric: Distortion, support: Support, chosen: ConfidenceSet | None = None) -> dict[str, float]:
    """The promise about tails, and h near 0 and 1, as numbers of the state; or why values would be infinite."""
    modulus = metric._modulus()
    if isinstance(modulus, str):
        raise ValueError(f"{metric!r} has no bounds on {support!r}, because {modulus}; declare Interval(lo, hi).")
    q, constant = modulus
    if isinstance(support, Real) and chosen is not None:
        depth = -2.0 * float(np.log(chosen.mean_failure))
        return {"tail_sigma": support.sigma, "tail_depth": depth, "tail_q": q, "tail_c": constant}
    assert isinstance(support, Heavy)
    if support.order * q <= 1.0:
        raise ValueError(
            f"{metric!r} on {support!r} can be infinite: h rises like u^{q:g} at 0, which needs a moment of an order "
            f"above {1.0 / q:g}; promise a higher order, or declare Interval(lo, hi)."
        )
    return {"tail_order": support.order, "tail_bound": support.bound, "tail_q": q, "tail_c": constant}


def sets_now(policy: Policy, memory: Memory) -> ConfidenceSet | None:
    """The confidence sets for what this memory keeps: where rewards were forgotten, for the moments since."""
    plan, support = policy._plan, policy.support
    assert support is not None
    if plan.forgetting is None:
        return plan.confidence
    now = partial(chosen_set, policy, support, memory.n_arms, share=share_of_delta(memory, plan.forgetting))
    return sets_at(plan.confidence, plan.forgetting, now)


def plan_now(policy: Policy, memory: Memory) -> Plan:
    """The policy's plan with the confidence sets for what this memory keeps."""
    if policy._plan.forgetting is None:
        return policy._plan
    return replace(policy._plan, setup=replace(policy._plan.setup, confidence=sets_now(policy, memory)))
