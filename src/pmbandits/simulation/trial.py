"""One trial of one policy: the policy's own compiled step in a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.policies._steps import CHOOSE, UPDATE, wrong_choice
from pmbandits.policies.build import roomier, settled
from pmbandits.policies.policy import Policy
from pmbandits.simulation import _kernels as kernels
from pmbandits.simulation.rewards import Stream, policy_seed
from pmbandits.state.layout import PHASE_ENDS
from pmbandits.state.shared import address
from pmbandits.state.timing import Stopwatch


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
        self.stream, self.seed, self.checkpoints = Stream(bandit, seed), seed, checkpoints
        cls = type(policy)
        self.loop: Any = kernels.play
        self.steps = address(cls._choose, CHOOSE), address(cls._update, UPDATE)
        self._first = self.policy._memory.copy()
        self._blank()

    def _blank(self) -> None:
        """What a trial begins with, in the sizes that the memory has now, and room for a copy at checkpoints."""
        memory = self.policy._memory
        moving, self.changing = memory.places.moving, memory.places.changing
        blank = self._first.resized(room=memory.room, n_radii=memory.n_radii, n_recent=memory.n_recent)
        for name in ("most_rewards", "most_told", "radii_fall"):  # these follow from the sizes
            setattr(blank, name, getattr(memory, name))
        self.start = blank.words[:moving].copy()
        self.before = np.empty(self.changing, dtype=np.int64)

    def play(self, trial: int, watch: Callable[[Policy], bool] | None = None) -> Outcome:
        """The trial of this number; ``watch`` sees the policy at each checkpoint, and ends the trial if it says so."""
        clock = Stopwatch()
        policy, stream = self.policy, self.stream
        policy._memory.words[: self.start.size] = self.start
        policy._memory.seed = policy_seed(self.seed, trial, policy.seed)
        stream.start(trial)
        rows, k = self.checkpoints.size, policy.n_arms
        cursor = np.array([-1, 0], dtype=np.int64)
        pulls, mixture = np.zeros((rows, k), dtype=np.int64), np.zeros((rows, k))
        ends = np.zeros(PHASE_ENDS, dtype=np.int64)
        until = rows if watch is None else min(rows, 1)
        while True:
            memory = policy._memory
            status = self.loop(
                *self.steps, memory.address, memory.words, self.changing, self.before, *stream.arrays,
                self.checkpoints[:until], cursor, pulls, mixture, ends,
            )  # fmt: skip
            if status == kernels.DONE:
                if watch is None or watch(policy) or until == rows:
                    break
                until += 1
                continue
            if status == kernels.NEEDS_MEMORY:  # doubled, but never more than the run can use
                policy._memory = roomier(memory, policy._plan, limit=int(self.checkpoints[-1]) + self._first.rewards)
                if policy._memory is not memory:
                    self._blank()
            elif status == kernels.ARM_CHANGED:
                settled(memory, policy._plan)
            elif status == kernels.NEEDS_BLOCK:
                stream.refill(int(cursor[kernels.WAITING]))
            elif status == kernels.WRONG_CHOICE:
                raise wrong_choice(type(policy).__name__, k)
            else:
                arm = int(cursor[kernels.WAITING])
                raise ValueError(
                    f"{policy.names[arm]} paid a reward outside the support {policy.support!r}; declare a wider one."
                )
        return Outcome(pulls[:until], mixture[:until], ends[ends > 0].copy(), clock.seconds)
