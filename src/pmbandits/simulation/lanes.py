"""Trials of index policies, many at once: which can be played so, and the player that does it."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.engine._calls import is_mixture
from pmbandits.engine.index_policy import LANES_SIGNATURE, set_mixture_to_largest_mean
from pmbandits.engine.policy import Policy
from pmbandits.estimates._rewards import BINARY
from pmbandits.simulation import _lane_kernels as kernels
from pmbandits.simulation._kernels import OWN_QUANTILES, PREDRAWN
from pmbandits.simulation.journal import FinishedTrials
from pmbandits.simulation.rewards import SamplerArrays, sampler_arrays_of_bandit
from pmbandits.simulation.timeline import Timeline
from pmbandits.simulation.trial import Player
from pmbandits.state.linking import kernel_address
from pmbandits.state.timing import Stopwatch

MOST_LANES, USUAL_LANES, LANES_OF_LONG_TRIALS = 256, 64, 16
SHORT_PULLS = 100_000  # rounds × arms up to which there are most lanes: one call of the kernel plays more trials
LONG_ROUNDS = 4_000_000  # trials with more are played in fewer lanes, so that finished ones do not wait for long
ROUNDS_AT_ONCE = 1_000_000  # after so many Ctrl-C is noticed
UPPER_BITS = 2.0**53


def can_play_in_lanes(policy: Policy, timeline: Timeline) -> bool:
    """Whether trials of a policy can be played in lanes, with the same results.

    The policy must have an index and know nothing yet. Its decisions must follow from pulls, rewards and sums alone: so
    no limits, no forgetting and no watch for changes. Arms stay, and rewards come at once from compiled samplers. With
    0/1 rewards these numbers are all that the memory holds; with others the mixture must be that of the largest mean.
    Where numba has Intel's vector functions, vectors of logarithms may differ from single ones in the last bit.
    """
    if policy._choose_in_lanes is None or numba.config.USING_SVML:  # type: ignore[attr-defined]
        return False
    if (
        timeline.schedule
        or timeline.population is not None
        or not (timeline.is_stationary and timeline.has_immediate_rewards)
    ):
        return False
    s = policy._memory
    features = (s.t, s.rewards, s.constraint_kind, s.n_detectors, s.n_forgetting_counters, s.window_capacity, s.n_radii)
    if any(features) or policy._roster is not None or not isinstance(timeline.bandit, Bandit):
        return False
    if s.storage_mode == BINARY:
        return True
    kinds = sampler_arrays_of_bandit(timeline.bandit).kinds
    mean = policy._update is set_mixture_to_largest_mean
    return bool(mean and not np.isin(kinds, (PREDRAWN, OWN_QUANTILES)).any())


class LanePlayer(Player):
    """Plays trials of an index policy, many at once or one by one."""

    def __init__(
        self,
        policy: Policy,
        bandit: Bandit | Changing,
        seed: int,
        checkpoints: NDArray[np.int64],
        timeline: Timeline | None = None,
    ) -> None:
        super().__init__(policy, bandit, seed, checkpoints, timeline)
        self.horizon = int(checkpoints[-1])
        self.n_lanes = USUAL_LANES if self.horizon < LONG_ROUNDS else LANES_OF_LONG_TRIALS
        if self.horizon * policy.n_arms <= SHORT_PULLS:
            self.n_lanes = MOST_LANES
        self._choose = 0  # address of the kernel; 0 before it is needed, and −1 if it cannot be compiled
        sampler, binary = sampler_arrays_of_bandit(self.periods[0].bandit), policy._memory.storage_mode == BINARY
        block = 64 if self.horizon > 256 * policy.n_arms else 16 if self.horizon > 32 * policy.n_arms else 4
        self._rewards = kernels.LaneRewards(seed, _limits_of_coins(sampler, binary), block, *sampler)

    def _address_of_choose(self) -> int:
        if self._choose == 0:
            try:
                self._choose = kernel_address(self._template._choose_in_lanes, LANES_SIGNATURE)
            except (TypeError, NotImplementedError, NumbaError):  # the index needs more than lanes have
                self._choose = -1
        return self._choose

    def play_in_lanes(self, entry: int, trials: Sequence[int]) -> FinishedTrials | None:
        """Play these trials side by side; ``None`` if they must be played one by one."""
        clock, choose = Stopwatch(), self._address_of_choose()
        if choose < 0:
            return None
        memory, rows, n = self.policy._memory, self.checkpoints.size, len(trials)
        memory.words[: self.start_words.size] = self.start_words
        k = memory.n_arms
        policy = kernels.LanePolicy(
            choose,
            self.kernel_addresses[1],
            memory.address,
            memory.words,
            self.start_words[: 0 if self._template._update is set_mixture_to_largest_mean else memory.places.changing],
            self._template.seed,
        )
        words = np.zeros((k, n if self._rewards.limits.size else 4 * n), dtype=np.uint64)
        numbers = np.array(trials, dtype=np.int64)
        lanes = kernels.Lanes(
            np.zeros(2, dtype=np.int64), numbers, np.zeros((k, n), dtype=np.int64), np.zeros((k, n)), words,
            np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n, dtype=np.int64),
        )  # fmt: skip
        pulls, mixture = np.zeros((n, rows, k), dtype=np.int64), np.zeros((n, rows, k))
        try:
            for stop in range(ROUNDS_AT_ONCE, self.horizon + ROUNDS_AT_ONCE, ROUNDS_AT_ONCE):
                if not kernels.play_lanes(policy, self._rewards, lanes, self.checkpoints, pulls, mixture, stop):
                    return None
        except ZeroDivisionError:
            return None
        if not is_mixture(mixture):
            return None
        seconds = np.full(n, clock.seconds / n)
        ends = np.zeros((n, 0), dtype=np.int64)
        return FinishedTrials(entry, numbers, seconds, pulls.reshape(n, -1), mixture.reshape(n, -1), ends)


def _limits_of_coins(sampler: SamplerArrays, binary: bool) -> NDArray[np.uint64]:
    """Below which number the upper 53 bits of a random word mean a reward of 1; empty if rewards are not 0 or 1."""
    if not binary:
        return np.zeros(0, dtype=np.uint64)
    last = sampler.points[sampler.starts[1:] - 1]  # an arm that always pays the same has one point
    shares: FloatArray = np.where(np.diff(sampler.starts) == 2, sampler.parameters[:, 0], last)
    return np.ceil(shares * UPPER_BITS).astype(np.uint64)
