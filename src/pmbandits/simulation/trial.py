"""One trial of one policy: the policy's own compiled step in a compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.engine._calls import (
    CHOOSE_SIGNATURE,
    UPDATE_SIGNATURE,
    division_by_0_error,
    invalid_choice_error,
    invalid_mixture_error,
    is_mixture,
)
from pmbandits.engine.capacity import ensure_capacity, handle_detected_changes
from pmbandits.engine.policy import Policy
from pmbandits.simulation import _kernels as kernels
from pmbandits.simulation.delays import DelayTable
from pmbandits.simulation.rewards import RewardStream, policy_seed, sampler_arrays_of_bandit
from pmbandits.simulation.segments import arrival_levels
from pmbandits.simulation.timeline import POLICY_METHODS, StationaryPeriod, Timeline
from pmbandits.state.fields import PHASE_ENDS
from pmbandits.state.linking import kernel_address
from pmbandits.state.timing import Stopwatch

_INITIAL_QUEUE_SIZE = 64  # initial capacity of the heap of delayed rewards


class Outcome(NamedTuple):
    """Result of a trial: pulls and mixture at checkpoints, ends of phases, and pulls at the end of each period.

    ``period_ends`` holds the latter, one row for each period; it is empty if the arms are stationary.
    """

    pulls: NDArray[np.int64]
    mixture: FloatArray
    ends: NDArray[np.int64]
    seconds: float
    period_ends: NDArray[np.int64]


class Player:
    """Plays trials of one policy, one after the other, always from the policy's state as given.

    ``timeline`` has changes of arms and delays; without it the bandit is stationary and rewards come at once. A policy
    for one segment plays only when people of this segment come.
    """

    def __init__(
        self,
        policy: Policy,
        bandit: Bandit | Changing,
        seed: int,
        checkpoints: NDArray[np.int64],
        timeline: Timeline | None = None,
        segment: int = -1,
    ) -> None:
        self.policy, self._template, self.segment = policy._clone(), policy, segment
        self.seed, self.checkpoints = seed, checkpoints
        self.timeline = Timeline(bandit) if timeline is None else timeline
        self.periods = self.timeline.periods(int(checkpoints[-1]))
        self.sampler_arrays_of = {id(m.bandit): sampler_arrays_of_bandit(m.bandit) for m in self.periods}
        self.stream = RewardStream(self.periods[0].bandit, seed)
        self.kernel_addresses = (
            kernel_address(policy._choose_kernel, CHOOSE_SIGNATURE),
            kernel_address(policy._update, UPDATE_SIGNATURE),
        )
        self._given_memory = self.policy._memory.copy()
        people = self.timeline.population
        self.arrival_levels = np.zeros(0) if people is None else arrival_levels(people.frequencies)
        self._map_policy_arms_to_bandit_arms()
        self.pulls_at_start = np.zeros(self.timeline.bandit.n_arms, dtype=np.int64)
        if people is None:  # with segments, policies are always new
            self.pulls_at_start[self.bandit_arms] = self.policy.pulls
        self._make_start_state()

    def _map_policy_arms_to_bandit_arms(self) -> None:
        """Map the arms in the policy's memory to arms of the bandit, and the other way round."""
        known, policy, people = self.timeline.bandit.names, self.policy, self.timeline.population
        if people is not None and self.segment >= 0:
            self.bandit_arms = np.flatnonzero(people.segments.segment_of == self.segment)
            self.policy_arms = np.full(len(known), -1, dtype=np.int64)
            self.policy_arms[self.bandit_arms] = np.arange(self.bandit_arms.size)
            return
        if people is not None and not policy.segments:  # it ignores them
            self.bandit_arms, self.policy_arms = people.segments.column_at.ravel(), people.segments.arm_of
            return
        bandit_arms = policy._active_arms
        if self.timeline.schedule:
            bandit_arms = tuple(known.index(policy.names[i]) for i in bandit_arms)
        self.bandit_arms = np.array(bandit_arms, dtype=np.int64)
        self.policy_arms = np.full(len(known), -1, dtype=np.int64)
        self.policy_arms[self.bandit_arms] = np.arange(self.bandit_arms.size)

    def _make_start_state(self) -> None:
        """Build the initial state of a trial in the current size of the memory, and a buffer for its backup."""
        memory = self.policy._memory
        self.n_changing = memory.places.changing
        self.backup = np.empty(self.n_changing, dtype=np.int64)
        if self.timeline.schedule:  # then every trial begins with a new copy
            return
        blank = self._given_memory.resized(
            reward_capacity=memory.reward_capacity, n_radii=memory.n_radii, window_capacity=memory.window_capacity
        )
        for name in ("max_rewards", "max_arm_rewards", "radii_decrease"):  # these follow from the sizes
            setattr(blank, name, getattr(memory, name))
        self.start_words = blank.words[: memory.places.moving].copy()

    def _reset_policy(self, trial: int) -> None:
        """Reset the policy to the state it was given in, with the seed of the trial."""
        own = policy_seed(self.seed, trial, self._template.seed)
        if self.timeline.schedule:
            self.policy = self._template._clone()
            self.policy.seed = own  # for the memory that is made when arms come and go
            self._update_after_arms_changed()
        else:
            self.policy._memory.words[: self.start_words.size] = self.start_words
        self.policy._memory.seed = own
        self.stream.reset_to_trial(trial)

    def play(self, trial: int, watch: Callable[[Policy], bool] | None = None) -> Outcome:
        """Play the trial of this number; ``watch`` gets the policy at each checkpoint, and may end the trial."""
        clock = Stopwatch()
        self._reset_policy(trial)
        progress, used = _TrialProgress(self, trial, watch), self.stream.used
        period_ends = np.zeros((0 if self.timeline.is_stationary else len(self.periods), used.size), dtype=np.int64)
        for number, period in enumerate(self.periods):
            self._start_stationary_period(period)
            continues = self._play_rounds_until(period.end, progress)
            period_ends[number : number + 1] = used
            if not continues:
                break
        seen = int(progress.cursor[kernels.CHECKPOINT])
        wrong = next((row for row in range(seen) if not is_mixture(progress.mixture[row])), None)
        if wrong is not None:
            error = invalid_mixture_error(type(self.policy).__name__, progress.mixture[wrong])
            raise RuntimeError(f"in trial {trial}, after {self.checkpoints[wrong]:,} rounds: {error}")
        ends = progress.ends[progress.ends > 0].copy()
        return Outcome(progress.pulls[:seen], progress.mixture[:seen], ends, clock.seconds, period_ends)

    def _start_stationary_period(self, period: StationaryPeriod) -> None:
        """Start a period: switch to its arms, and apply its events to the policy."""
        if period.bandit is not self.stream.bandit:
            self.stream.switch_bandit(period.bandit, self.sampler_arrays_of[id(period.bandit)])
        for event in period.events:
            getattr(self.policy, POLICY_METHODS[event.verb])(event.arm)
        if period.events:
            self._update_after_arms_changed()

    def _update_after_arms_changed(self) -> None:
        """Update the arm maps and the initial state after the policy's memory or arms have changed."""
        self._map_policy_arms_to_bandit_arms()
        self._make_start_state()

    def _play_rounds_until(self, end: int, progress: _TrialProgress) -> bool:
        """Play until this many rounds were played, and say whether to go on after them."""
        cursor, rows = progress.cursor, self.checkpoints.size
        while True:
            roster = self.policy._roster
            if roster is not None and roster.waiting and cursor[kernels.PENDING_ARM] < 0:
                self._play_round_in_python(end, progress)
                status = kernels.DONE
            else:
                try:
                    status = self._run_compiled_loop(end, progress)
                except ZeroDivisionError:
                    error = division_by_0_error(type(self.policy).__name__, "choose or update", self.policy._memory)
                    raise ZeroDivisionError(f"in trial {progress.trial}: {error}") from None
            if status != kernels.DONE:
                self._resolve_interruption(status, progress)
            elif progress.watch is not None and cursor[kernels.CHECKPOINT] == progress.until:
                if progress.watch(self.policy) or progress.until == rows:
                    return False
                progress.until += 1
            elif cursor[kernels.ROUND] >= end:
                return True

    def _run_compiled_loop(self, end: int, progress: _TrialProgress) -> int:
        """Run the compiled loop, and return the code of why it stopped."""
        memory, queue, rewards = self.policy._memory, progress.queue, self.stream.arrays_for_kernels
        policy = kernels.PolicyKernels(
            *self.kernel_addresses, memory.address, memory.words, self.n_changing, self.backup, self.bandit_arms,
            self.arrival_levels, self.segment,
        )  # fmt: skip
        trial = kernels.TrialRecord(
            self.checkpoints[: progress.until], progress.cursor, progress.pulls, progress.mixture, progress.ends
        )
        if queue is None:
            return kernels.play_until_stopped(policy, rewards, trial, end)
        stop = min(end, queue.delays.draw_chunk_of_next_round(int(progress.cursor[kernels.ROUND])))
        return kernels.play_delayed(policy, rewards, trial, queue.arrays_for_kernels(self.policy_arms), stop)

    def _resolve_interruption(self, status: int, progress: _TrialProgress) -> None:
        """Handle what stopped the compiled loop: grow memory, draw a block, or raise an error."""
        policy, queue, arm = self.policy, progress.queue, int(progress.cursor[kernels.PENDING_ARM])
        if status == kernels.MEMORY_FULL:  # doubled, but never more than the run can use
            limit = int(self.checkpoints[-1]) + self._given_memory.rewards
            memory = policy._memory
            policy._memory = ensure_capacity(memory, policy._plan, limit=limit)
            if policy._memory is not memory:
                self._make_start_state()
        elif status == kernels.CHANGE_DETECTED:
            handle_detected_changes(policy._memory, policy._plan)
        elif status == kernels.BLOCK_USED_UP:
            self.stream.refill_block(self._bandit_arm_in_round(arm, progress))
        elif status == kernels.INVALID_ARM:
            error = invalid_choice_error(type(policy).__name__, policy._memory)
            raise RuntimeError(f"in trial {progress.trial}, after {policy._memory.t:,} pulls: {error}")
        elif status == kernels.QUEUE_FULL:
            assert queue is not None
            queue.double_capacity()
        elif status == kernels.REWARD_OF_INACTIVE_ARM:
            self._tell_next_due_reward(progress)
        else:
            bandit_arm = self._bandit_arm_in_round(arm, progress)
            bandit_arm = bandit_arm if queue is None else int(queue.heap[0, kernels.PULLED_ARM])
            name = self.timeline.bandit.names[bandit_arm]
            raise ValueError(f"{name} paid a reward outside the support {policy.support!r}; declare a wider one.")

    def _bandit_arm_in_round(self, arm: int, progress: _TrialProgress) -> int:
        """The arm of the bandit that an arm of the policy is in the present round: that of who has come."""
        row = 0
        if self.bandit_arms.size > self._given_memory.n_arms:  # it ignores segments
            found = np.zeros(1, dtype=np.int64)
            now = int(progress.cursor[kernels.ROUND])
            kernels.fill_segments_of_rounds(self.stream.key, now, self.arrival_levels, found)
            row = int(found[0]) * self._given_memory.n_arms
        return int(self.bandit_arms[row + arm])

    # ---- in Python: rewards of arms that do not play, and arms of which nothing is known yet ------------------------
    def _tell_reward(self, bandit_arm: int, reward: float) -> None:
        """Pass a reward to the policy with ``tell``; this may bring an arm into play that had no reward yet."""
        memory = self.policy._memory
        self.policy.tell(self.policy.names.index(self.timeline.bandit.names[bandit_arm]), reward)
        if self.policy._memory is not memory:
            self._update_after_arms_changed()

    def _tell_next_due_reward(self, progress: _TrialProgress) -> None:
        """Pop the delayed reward that is due first, and pass it to the policy."""
        queue = progress.queue
        assert queue is not None
        bandit_arm, reward = int(queue.heap[0, kernels.PULLED_ARM]), float(queue.heap_rewards[0])
        kernels.pop_reward(queue.heap, queue.heap_rewards, int(progress.cursor[kernels.QUEUE_SIZE]))
        progress.cursor[kernels.QUEUE_SIZE] -= 1
        self._tell_reward(bandit_arm, reward)

    def _play_round_in_python(self, end: int, progress: _TrialProgress) -> None:
        """Play one round with ``ask`` and ``tell``; if all rounds were played, only pass on rewards that are due."""
        cursor, queue, k = progress.cursor, progress.queue, self.timeline.bandit.n_arms
        now = int(cursor[kernels.ROUND])
        if now < end:
            bandit_arm = self.timeline.bandit.names.index(self.policy.names[self.policy.ask()])
            reward = float(self.stream.next_rewards(bandit_arm, 1)[0])
            now += 1
            cursor[kernels.ROUND] = now
            if queue is None:
                self._tell_reward(bandit_arm, reward)
            else:
                due, size = queue.delays.round_in_which_reward_comes(now, bandit_arm), int(cursor[kernels.QUEUE_SIZE])
                if due <= queue.last:
                    if size == queue.heap_rewards.size:
                        queue.double_capacity()
                    kernels.push_reward(queue.heap, queue.heap_rewards, size, due, now, bandit_arm, reward)
                    cursor[kernels.QUEUE_SIZE] += 1
        while queue is not None and cursor[kernels.QUEUE_SIZE] > 0 and queue.heap[0, kernels.DUE_ROUND] <= now:
            self._tell_next_due_reward(progress)
        row = int(cursor[kernels.CHECKPOINT])
        if row < progress.until and now == self.checkpoints[row]:
            shares = np.zeros(k)
            shares[[self.timeline.bandit.names.index(name) for name in self.policy.names]] = self.policy.mixture
            progress.pulls[row] += self.stream.used
            progress.mixture[row] = shares
            cursor[kernels.CHECKPOINT] += 1


class _TrialProgress:
    """Results and position of a trial that is being played."""

    def __init__(self, player: Player, trial: int, watch: Callable[[Policy], bool] | None) -> None:
        rows, k = player.checkpoints.size, player.timeline.bandit.n_arms
        self.trial = trial
        self.cursor = np.array([-1, 0, player.policy.t, 0], dtype=np.int64)
        self.pulls, self.mixture = np.tile(player.pulls_at_start, (rows, 1)), np.zeros((rows, k))
        self.ends = np.zeros(PHASE_ENDS, dtype=np.int64)
        self.watch, self.until = watch, rows if watch is None else min(rows, 1)
        timeline, last = player.timeline, int(player.checkpoints[-1])
        self.queue = None
        if not timeline.has_immediate_rewards:
            self.queue = _DelayQueue(DelayTable(timeline.delays, timeline.batch, player.seed, trial), last)


class _DelayQueue:
    """Heap of delayed rewards; what comes after the round ``last`` is not waited for."""

    def __init__(self, delays: DelayTable, last: int) -> None:
        self.delays, self.last = delays, last
        self.heap, self.heap_rewards = np.zeros((_INITIAL_QUEUE_SIZE, 3), dtype=np.int64), np.zeros(_INITIAL_QUEUE_SIZE)

    def arrays_for_kernels(self, policy_arms: NDArray[np.int64]) -> kernels.DelayArrays:
        """What the kernel takes; ``policy_arms`` maps arms of the bandit to arms of the policy."""
        delays = self.delays
        return kernels.DelayArrays(
            self.heap, self.heap_rewards, delays.table, delays.first_round, delays.batch, self.last, policy_arms
        )

    def double_capacity(self) -> None:
        """Double the capacity of the heap."""
        self.heap, self.heap_rewards = np.tile(self.heap, (2, 1)), np.tile(self.heap_rewards, 2)


class PerSegmentPlayer:
    """Plays trials of policies that each play for one segment: one after the other, and their pulls are put together.

    Who comes, and the n-th reward of an arm in a segment, depend on seed and trial only. So each policy can be played
    by itself, and meets the same people as if all played together.
    """

    def __init__(
        self, policies: Sequence[Policy], seed: int, checkpoints: NDArray[np.int64], timeline: Timeline
    ) -> None:
        self.players = [
            Player(policy, timeline.bandit, seed, checkpoints, timeline, segment)
            for segment, policy in enumerate(policies)
        ]

    def play(self, trial: int) -> Outcome:
        """Play the trial of this number; in the mixture all segments have the same weight."""
        found = [player.play(trial) for player in self.players]
        pulls, mixture = (sum(part) for part in zip(*((one.pulls, one.mixture) for one in found), strict=True))
        seconds = sum(one.seconds for one in found)
        return Outcome(pulls, mixture / len(found), found[0].ends[:0], seconds, found[0].period_ends)
