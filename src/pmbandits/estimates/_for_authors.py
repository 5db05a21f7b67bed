"""What kernels of users read of the rewards so far, however they are kept; compiled."""

from __future__ import annotations

from pmbandits._validation import FloatArray
from pmbandits.estimates._rewards import SAMPLES, n_pooled_values, n_rewards_of_pooled_value, sort_pool
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import State


@shared("state, int, floats -> int")
def rewards_of(s: State, arm: int, out: FloatArray) -> int:
    """Write the rewards of an arm into ``out``, from the smallest to the largest; returns how many were written.

    There are ``s.n_rewards[arm]``; those that do not fit into ``out`` are left out. Rewards that are kept in bins or in
    a sketch come as they are kept.
    """
    written = 0
    if s.storage_mode == SAMPLES:
        sort_pool(s)
        for j in range(n_pooled_values(s)):
            if s.pool_arm[j] == arm:
                for _ in range(n_rewards_of_pooled_value(s, j)):
                    if written < out.size:
                        out[written] = s.x[j]
                        written += 1
        return written
    for a in range(s.n_atoms):
        for _ in range(s.counts[arm, a]):
            if written < out.size:
                out[written] = s.points[a]
                written += 1
    return written


@shared("state, int, float -> float")
def cdf_of(s: State, arm: int, x: float) -> float:
    """The share of the rewards of an arm that are at most x; 0 if there are none."""
    if s.n_rewards[arm] == 0:
        return 0.0
    count = 0
    if s.storage_mode == SAMPLES:
        sort_pool(s)
        for j in range(n_pooled_values(s)):
            if s.x[j] > x:
                break
            if s.pool_arm[j] == arm:
                count += n_rewards_of_pooled_value(s, j)
    else:
        for a in range(s.n_atoms):
            if s.points[a] <= x:
                count += s.counts[arm, a]
    return count / s.n_rewards[arm]
