"""Memory that grows with the rewards of a policy, and what must be written again when it has grown."""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._envelopes import n_of_coarse_radius_table
from pmbandits.engine.forgetting import (
    Forgetting,
    arms_with_unhandled_change,
    forget_excess_rewards,
    restart_detectors_of_changed_arms,
    set_merged_delta_share,
)
from pmbandits.engine.plan import Plan
from pmbandits.estimates._rewards import BINARY, SAMPLES
from pmbandits.state.memory import Memory

INITIAL_CAPACITY = 256  # rewards and radii that fit into a new policy's memory; doubled when full
_NO_LIMIT = 1 << 62
_CHUNK = 1 << 16


def write_state_constants(memory: Memory, plan: Plan) -> None:
    """Write the constants that follow from the options and the sizes."""
    for name, content in plan.arrays.items():
        part = memory.field(name)
        if part.size:  # the memory of inactive arms has no limits on shares
            part[:] = content
    set_reward_counts_at_which_to_stop(memory, plan)
    memory.max_arm_rewards = _NO_LIMIT
    if plan.confidence is None or memory.n_radii == 0:
        return
    radii, falling = memory.radii, True
    if memory.coarse_radii == 1:
        radii[:] = plan.confidence.radius(n_of_coarse_radius_table())
        falling = bool(np.all(radii[2:] <= radii[1:-1]))
        if not falling:
            raise ValueError(
                f"the radii of {plan.confidence.name} do not fall with n, so a table of bounded size cannot "
                "hold them; take estimates='exact'."
            )
    else:
        memory.max_arm_rewards = radii.size - 1 if plan.decides_by_sets else _NO_LIMIT
        for at in range(0, radii.size, _CHUNK):  # in pieces: the table can be long, and its temporaries longer
            piece = plan.confidence.radius(np.arange(at, min(at + _CHUNK, radii.size)))
            radii[at : at + _CHUNK] = piece
            before = radii[max(at, 2) - 1 : at + piece.size - 1]
            falling &= bool(np.all(radii[max(at, 2) : at + piece.size] <= before))
    # With sketches radii do not fall: a compaction can widen a set.
    memory.radii_decrease = int(plan.rounding_safe and falling and memory.sketch_size == 0)


def set_reward_counts_at_which_to_stop(memory: Memory, plan: Plan) -> None:
    """At how many rewards memory must grow, or some must be forgotten; at none while a change is to be dealt with."""
    memory.max_rewards = memory.reward_capacity if plan.keeps_all_rewards else _NO_LIMIT
    if plan.forgetting is None:
        return
    if plan.forgetting.kind:
        memory.max_rewards = min(memory.max_rewards, memory.window_capacity or _NO_LIMIT, plan.forgetting.most)
    if arms_with_unhandled_change(memory).size:
        memory.max_rewards = 0


def handle_detected_changes(memory: Memory, plan: Plan) -> Forgetting | None:
    """Handle detected changes of arms, so that rewards can be recorded again; returns the plan's forgetting."""
    if plan.forgetting is not None and arms_with_unhandled_change(memory).size:
        restart_detectors_of_changed_arms(memory, plan.forgetting)
        set_reward_counts_at_which_to_stop(memory, plan)
    return plan.forgetting


def ensure_capacity(memory: Memory, plan: Plan, more: int = 1, limit: int | None = None) -> Memory:
    """The memory, or a larger copy of it, in which ``more`` further rewards fit, whichever arms they are from.

    The copy is at least twice as large where it must grow, but not larger than ``limit`` rewards need. Where rewards
    are forgotten, that frees memory in place: for one more reward at least, not for all.
    """
    forgetting = handle_detected_changes(memory, plan)
    if forgetting is not None and forgetting.kind:
        if memory.rewards >= forgetting.most:
            forget_excess_rewards(memory, forgetting)
        more = min(more, forgetting.most - memory.rewards)
        limit = forgetting.most if limit is None else min(limit, forgetting.most)

    def enough(needed: int, doubled: int) -> int:
        return max(needed, doubled if limit is None else min(doubled, limit))

    sizes = {}
    rewards, most = memory.rewards + more, int(memory.n_rewards.max(initial=0)) + more
    if rewards > memory.max_rewards:
        for name in ("reward_capacity", "window_capacity"):
            if memory.sizes[name]:
                sizes[name] = enough(rewards, 2 * memory.sizes[name])
    if most > memory.max_arm_rewards:
        sizes["n_radii"] = enough(most, 2 * max(most, INITIAL_CAPACITY // 2)) + 2
    if not sizes:
        return memory
    larger = memory.resized(**sizes)
    write_state_constants(larger, plan)
    return larger


def memory_grown_by(memory: Memory, plan: Plan, more: int) -> Memory:
    """A copy of the memory in which ``more`` further rewards fit, even if some must then be forgotten."""
    sizes = {name: memory.rewards + more for name in ("reward_capacity", "window_capacity") if memory.sizes[name]}
    larger = memory.resized(**sizes) if sizes else memory
    write_state_constants(larger, plan)
    return larger


def forget_after_merge(memory: Memory, other: Memory, plan: Plan) -> Memory:
    """What two policies that forget keep together, in memory as large as that of one."""
    forgetting = plan.forgetting
    assert forgetting is not None
    if forgetting.forgets_rewards:
        set_merged_delta_share(memory, other, forgetting)
        forgetting.after(memory)
    if forgetting.kind and memory.rewards > forgetting.keep:
        forget_excess_rewards(memory, forgetting)
        sizes = {name: forgetting.most for name in ("reward_capacity", "window_capacity") if memory.sizes[name]}
        memory = memory.resized(**sizes) if sizes else memory
        write_state_constants(memory, plan)
    return memory


def memory_with_radius_table(memory: Memory, plan: Plan) -> Memory:
    """The memory, or a copy of it, in which the table has the radii with which to work out the confidence sets now."""
    most = int(memory.n_rewards.max(initial=0))
    lacks_line = memory.sub_gaussian_sigma > 0.0 and memory.line_capacity == 0
    has_radii = memory.coarse_radii == 1 or most < memory.n_radii
    if plan.confidence is None or (has_radii and not lacks_line):
        return memory
    larger = memory.resized(
        n_radii=memory.n_radii if has_radii else most + 1,
        line_capacity=n_sub_gaussian_cells(memory.n_arms) if lacks_line else memory.line_capacity,
    )
    larger.line_built_at = 0
    if not has_radii:
        larger.radii[memory.n_rewards] = plan.confidence.radius(memory.n_rewards)  # no others are looked at
    return larger


def n_sub_gaussian_cells(n_arms: int) -> int:
    """The number of cells of KL bands on an unbounded support (``confidence/_sub_gaussian.py``)."""
    return min(max((1 << 19) // n_arms, 512), 4096)


def recompute_derived_fields(memory: Memory) -> None:
    """Recompute fields that are not saved but follow from rewards: sums of squares, and the largest reward."""
    if memory.sketch_size > 0 or memory.storage_mode == BINARY:
        return
    with np.errstate(over="ignore"):
        if memory.storage_mode == SAMPLES:
            x, owner = memory.x[: memory.rewards], memory.pool_arm[: memory.rewards]
            memory.sums_of_squares[:] = np.bincount(owner, weights=x**2, minlength=memory.n_arms)
        else:
            x = memory.points
            memory.sums_of_squares[:] = memory.counts @ x**2
    ends = np.array([memory.low, memory.high])
    memory.max_abs_reward = np.abs(np.append(x, ends[np.isfinite(ends)])).max(initial=0.0)
