"""Whether a memory that was read from a file can be that of a policy: every count and index against the others.

Compiled code trusts the memory: it does not look where it reads and writes. So whatever comes from a file is checked
here before any of it is used. What a field can hold by itself is declared with it (``state/fields.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits._validation import WEIGHT_TOLERANCE, FloatArray
from pmbandits.engine.algorithm import Algorithm
from pmbandits.estimates import _sketch as sketching
from pmbandits.estimates._rewards import CHANGES, SAMPLES, TIMES
from pmbandits.estimates.change_detector import is_valid_detector
from pmbandits.estimates.sketch import is_sketch
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory

_SHARE_TOLERANCE = 0.5 * WEIGHT_TOLERANCE  # by which shares may miss 1: whoever takes the mixture must take it, too
_SUM_TOLERANCE = 1e-6  # by which a sum of rewards may miss what the rewards say, as a share of the sum of their sizes


def why_memory_is_inconsistent(policy: Algorithm, memory: Memory) -> str | None:
    """Why this cannot be the memory of this policy, as the middle of a sentence; ``None`` if it can."""
    said = why_records_contradict(memory) or _why_mixture_is_wrong(memory) or _why_forgetting_is_wrong(policy, memory)
    if said is not None:
        return said
    if not policy.holds_together(memory):
        return f"its numbers do not go together in a {type(policy).__name__}"
    return None


def why_records_contradict(memory: Memory) -> str | None:
    """Why pulls and rewards in a memory contradict each other, as the middle of a sentence; ``None`` if not."""
    name = memory.first_field_out_of_range()
    if name is not None:
        return f"its part {name!r} holds a number that is not possible"
    if not _add_up_to_total(memory.pulls, memory.t):
        return "its pulls do not add up to the number of rounds"
    if not _add_up_to_total(memory.n_rewards, memory.rewards):
        return "the rewards of its arms do not add up to the number of rewards"
    pulls = memory.pulls + memory.earlier_pulls if memory.n_earlier_pulls else memory.pulls
    if (memory.pending > pulls).any():
        return "its part 'pending' holds a number that is not possible"
    known = memory.pulls if memory.n_forgetting_counters else pulls  # otherwise rewards may have been forgotten
    if (memory.pending < known - memory.n_rewards).any():
        return "it waits for fewer rewards than are missing"
    return _why_rewards_are_wrong(memory)


def _add_up_to_total(parts: Any, total: Any, axis: int | None = None) -> bool:
    """Whether whole numbers add up to a total; sums that are too large for 64 bits do not."""
    small = np.sum(parts, axis=axis, dtype=np.float64) < 2.0**62
    return bool(np.all(small) and np.array_equal(np.sum(parts, axis=axis), total))


def _why_rewards_are_wrong(memory: Memory) -> str | None:
    if memory.sketch_size > 0:
        return _why_sketches_are_wrong(memory)
    n_rewards, sums = memory.n_rewards, memory.sums
    if memory.storage_mode != SAMPLES:
        if not _add_up_to_total(memory.counts, n_rewards, axis=1):
            return "the counts of rewards do not add up to the number of rewards"
        counts = memory.counts.astype(np.float64)
        return _why_reward_sums_are_wrong(sums, counts @ memory.points, counts @ np.abs(memory.points))
    x, owner = memory.x[: memory.rewards], memory.pool_arm[: memory.rewards]
    if x.size and (x.min() < memory.low or x.max() > memory.high):
        return "it holds a reward outside its support"
    if not np.array_equal(np.bincount(owner, minlength=memory.n_arms), n_rewards):
        return "its rewards do not belong to the arms as it says"
    if memory.n_sorted < 0 or (np.diff(x[: memory.n_sorted]) < 0.0).any():
        return "its rewards are not in the order that it says"
    with np.errstate(over="ignore"):
        signed, plain = (np.bincount(owner, weights=w, minlength=memory.n_arms) for w in (x, np.abs(x)))
    return _why_reward_sums_are_wrong(sums, signed.astype(np.float64), plain.astype(np.float64))


def _why_forgetting_is_wrong(policy: Algorithm, memory: Memory) -> str | None:
    """What is wrong with the order of rewards, and with watching the arms."""
    forgetting, n = policy._plan.forgetting, memory.rewards
    if forgetting is None:
        return None
    if forgetting.kind and n > forgetting.most:
        return "it keeps more rewards than it should"
    if memory.window_capacity > 0:
        x, arms = memory.window_rewards[:n], memory.window_arms[:n]
        if memory.storage_mode == SAMPLES:
            mine, pool = np.argsort(x, kind="stable"), np.argsort(memory.x[:n], kind="stable")
            same = np.array_equal(x[mine], memory.x[:n][pool]) and np.array_equal(arms[mine], memory.pool_arm[:n][pool])
        else:
            atoms = np.searchsorted(memory.points, x)
            same = bool((atoms < memory.n_atoms).all()) and np.array_equal(memory.points[atoms], x)
            where = arms * memory.n_atoms + atoms
            same = same and np.array_equal(np.bincount(where, minlength=memory.counts.size), memory.counts.ravel())
        if not same:
            return "the order of its rewards names others than it has"
    tally = memory.forgetting_counters
    if (tally != np.floor(tally))[[TIMES, CHANGES]].any() or tally.max() > MOST:
        return "it has not forgotten as often as it says"
    for arm in range(memory.n_detectors):
        if not is_valid_detector(
            memory.detector_header[arm], memory.detector_thresholds[arm], memory.detector_counts[arm]
        ):
            return f"what it watches of arm {arm} is not possible"
    whole = memory.found_changes[: int(min(tally[CHANGES], memory.n_found_changes))][:, [0, 1, 2, 3, 5]]
    possible = (whole >= 0) & (whole == np.floor(whole))
    if not possible.all() or (whole[:, 0] >= memory.n_arms).any() or (whole[:, 4] > 2).any():
        return "it has noted a change that is not possible"
    return None


def _why_reward_sums_are_wrong(sums: FloatArray, wanted: FloatArray, sizes: FloatArray) -> str | None:
    with np.errstate(invalid="ignore"):  # nothing can be said if rewards are too large to be added up
        fits = ~np.isfinite(sizes) | (np.abs(sums - wanted) <= _SUM_TOLERANCE * sizes)
    return None if fits.all() else "the sums of its rewards are wrong"


def _why_sketches_are_wrong(memory: Memory) -> str | None:
    for arm, (book, marks) in enumerate(zip(memory.sketch_header, memory.sketch_stats, strict=True)):
        used, least, most = int(book[sketching.USED]), marks[sketching.LEAST], marks[sketching.MOST]
        items = memory.sketch_items[arm]
        if not 0 <= used <= items.size or not is_sketch(book, items[:used], marks, memory.sketch_size):
            return f"the sketch of arm {arm} is not a sketch"
        if book[sketching.COUNT] != memory.n_rewards[arm]:
            return f"the sketch of arm {arm} does not have as many rewards as were recorded"
        if used and (least < memory.low or most > memory.high):
            return "it holds a reward outside its support"
        mean = memory.sums[arm] / max(int(memory.n_rewards[arm]), 1)
        slack = _SUM_TOLERANCE * max(abs(least), abs(most))
        if (mean != 0.0) if not used else not least - slack <= mean <= most + slack:
            return "the sums of its rewards are wrong"
    return None


def _why_mixture_is_wrong(memory: Memory) -> str | None:
    if abs(float(memory.mix.sum()) - 1.0) > _SHARE_TOLERANCE:
        return "its mixture does not add up to 1"
    rows = memory.grid.sum(axis=1)
    if (np.minimum(np.abs(rows), np.abs(rows - 1.0)) > _SHARE_TOLERANCE).any():
        return "a mixture of its grid does not add up to 1"
    if memory.n_grid > 0 and memory.n_grid_used < 1:
        return "none of its grid is in use"
    points = 2 * memory.n_arms if memory.continuous == 1 else memory.n_grid_used
    if memory.current_point >= max(points, 0):
        return "the mixture that it plays is not one of its grid"
    clock = 2 * (memory.t + memory.rewards) + 2
    if max(memory.next_update_at, memory.next_multistart_at, memory.tail_multipliers[2:].max(initial=0.0)) > clock:
        return "it would not look at its rewards for too long"
    return None
