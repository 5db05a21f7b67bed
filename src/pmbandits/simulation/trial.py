"""One trial of one policy: the policy's own compiled step in a compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.state.shared import address
from pmbandits.arms import Bandit
from pmbandits.policies import _state as st
from pmbandits.policies.base import Policy
from pmbandits.simulation import _kernels as kernels
from pmbandits.simulation.rewards import Stream, policy_seed
from pmbandits.state.timing import Stopwatch

# Large, and either constant or of no meaning before the first reward.
_KEPT = {"size", "h", "points", "radii", "table", "envelope", "x", "owner", "mass", "items", "curve", "width"}


class Outcome(NamedTuple):
    """What one trial left behind at each checkpoint, and when its phases ended."""

    pulls: NDArray[np.int64]
    mixture: FloatArray
    ends: NDArray[np.int64]
    seconds: float


class Player:
    """Plays trials of one policy, one after the other, always from the policy's state as given."""

    def __init__(self, policy: Policy, bandit: Bandit, seed: int, checkpoints: NDArray[np.int64]) -> None:
        self.policy = policy._twin()
        self.first = {
            name: field.copy()
            for name, field in st.views(self.policy._ints, self.policy._floats).items()
            if name not in _KEPT
        }
        self.stream, self.seed, self.checkpoints = Stream(bandit, seed), seed, checkpoints
        cls = type(policy)
        self.loop: Any = kernels.play
        self.steps = address(cls._choose, kernels.CHOOSE), address(cls._update, kernels.UPDATE)

    def play(self, trial: int) -> Outcome:
        """The trial of this number."""
        watch = Stopwatch()
        policy, stream = self.policy, self.stream
        fields = st.views(policy._ints, policy._floats)
        for name, content in self.first.items():
            fields[name][:] = content
        if policy.confidence is not None:  # whether radii fall was found for the table as it is now
            policy._note_radii()
        fields["knobs"][st.SEED] = policy_seed(self.seed, trial, policy.seed)
        stream.start(trial)
        rows, k = self.checkpoints.size, policy.n_arms
        cursor = np.array([-1, 0], dtype=np.int64)
        pulls, mixture = np.zeros((rows, k), dtype=np.int64), np.zeros((rows, k))
        while True:
            status = self.loop(
                *self.steps, policy._ints, policy._floats, *stream.arrays, self.checkpoints, cursor, pulls, mixture
            )
            if status == kernels.DONE:
                break
            if status == kernels.NEEDS_RADII:  # doubled, but never more than the run can use
                told = int(policy._view("told").max())
                policy._resize(RADII=max(min(2 * told, int(self.checkpoints[-1])), told, 256) + 2)
            elif status == kernels.NEEDS_ROOM:
                policy._grow_room()
            elif status == kernels.NEEDS_BLOCK:
                stream.refill(int(cursor[kernels.WAITING]))
            else:
                arm = int(cursor[kernels.WAITING])
                raise ValueError(
                    f"{policy.names[arm]} paid a reward outside the support {policy.support!r}; declare a wider one."
                )
        ends = policy._view("ends")
        return Outcome(pulls, mixture, ends[ends > 0].copy(), watch.seconds)
