"""One trial of one policy: the policy's own compiled step in a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.policies._steps import CHOOSE, UPDATE, wrong_choice
from pmbandits.policies.build import roomier, settled
from pmbandits.policies.policy import Policy
from pmbandits.simulation import _kernels as kernels
from pmbandits.simulation import _late as late
from pmbandits.simulation.course import Course, Moment
from pmbandits.simulation.delays import CHUNK, Delays
from pmbandits.simulation.rewards import Stream, policy_seed, source
from pmbandits.state.layout import PHASE_ENDS
from pmbandits.state.shared import address
from pmbandits.state.timing import Stopwatch

_FIRST_QUEUE = 64  # rewards on their way that there is room for at first


class Outcome(NamedTuple):
    """What one trial left behind at each checkpoint, when its phases ended, and the pulls at the end of each moment.

    There are no such moments where nothing changes.
    """

    pulls: NDArray[np.int64]
    mixture: FloatArray
    ends: NDArray[np.int64]
    seconds: float
    turns: NDArray[np.int64]


class Player:
    """Plays trials of one policy, one after the other, always from the policy's state as given.

    ``course`` says what happens on the way; without it the bandit stays as it is, and rewards come at once.
    """

    def __init__(
        self,
        policy: Policy,
        bandit: Bandit | Changing,
        seed: int,
        checkpoints: NDArray[np.int64],
        course: Course | None = None,
    ) -> None:
        self.policy = policy._twin()
        self.seed, self.checkpoints = seed, checkpoints
        self.course = Course(bandit) if course is None else course
        self.moments = self.course.moments(int(checkpoints[-1]))
        self.sources = {id(m.bandit): source(m.bandit) for m in self.moments}
        self.stream = Stream(self.moments[0].bandit, seed)
        cls = type(policy)
        self.steps = address(cls._choose, CHOOSE), address(cls._update, UPDATE)
        self._first = self.policy._memory.copy()
        self.pulled = self.policy.pulls
        self.seats = np.arange(self.course.bandit.n_arms)  # which arm of the bandit each arm of the policy is
        self.places = self.seats  # and the other way round
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
        notes = _Notes(self, trial, watch)
        turns = np.zeros((0 if self.course.still else len(self.moments), stream.used.size), dtype=np.int64)
        for number, moment in enumerate(self.moments):
            self._begin(moment)
            goes_on = self._play_until(moment.end, notes)
            turns[number : number + 1] = stream.used
            if not goes_on:
                break
        seen = int(notes.cursor[kernels.CHECKPOINT])
        ends = notes.ends[notes.ends > 0].copy()
        return Outcome(notes.pulls[:seen], notes.mixture[:seen], ends, clock.seconds, turns)

    def _begin(self, moment: Moment) -> None:
        """Let happen what a moment begins with."""
        if moment.bandit is not self.stream.bandit:
            self.stream.become(moment.bandit, self.sources[id(moment.bandit)])

    def _play_until(self, end: int, notes: _Notes) -> bool:
        """Play until so many rounds were played; whether to go on after them."""
        cursor, rows = notes.cursor, self.checkpoints.size
        while True:
            status = self._loop(end, notes)
            if status != kernels.DONE:
                self._help(status, notes)
            elif notes.watch is not None and cursor[kernels.CHECKPOINT] == notes.until:
                if notes.watch(self.policy) or notes.until == rows:
                    return False
                notes.until += 1
            elif cursor[kernels.ROUND] >= end:
                return True

    def _loop(self, end: int, notes: _Notes) -> int:
        """Play on in compiled code; why it stopped."""
        memory, queue = self.policy._memory, notes.queue
        given = (
            *self.steps, memory.address, memory.words, self.changing, self.before, *self.stream.arrays, self.seats,
        )  # fmt: skip
        seen = self.checkpoints[: notes.until], notes.cursor, notes.pulls, notes.mixture, notes.ends
        if queue is None:
            return int(kernels.play(*given, end, *seen))  # type: ignore[call-arg]
        stop, first = queue.up_to(end, int(notes.cursor[kernels.ROUND]))
        how = (self.places, queue.heap, queue.paid, queue.waits, first, self.course.batch, int(self.checkpoints[-1]))
        return int(late.play_late(*given, stop, *seen, *how))  # type: ignore[call-arg]

    def _help(self, status: int, notes: _Notes) -> None:
        """Give the loop what it stopped for."""
        policy, queue, arm = self.policy, notes.queue, int(notes.cursor[kernels.WAITING])
        if status == kernels.NEEDS_MEMORY:  # doubled, but never more than the run can use
            limit = int(self.checkpoints[-1]) + self._first.rewards
            memory = policy._memory
            policy._memory = roomier(memory, policy._plan, limit=limit)
            if policy._memory is not memory:
                self._blank()
        elif status == kernels.ARM_CHANGED:
            settled(policy._memory, policy._plan)
        elif status == kernels.NEEDS_BLOCK:
            self.stream.refill(int(self.seats[arm]))
        elif status == kernels.WRONG_CHOICE:
            raise wrong_choice(type(policy).__name__, policy.n_arms)
        elif status == kernels.NEEDS_QUEUE:
            assert queue is not None
            queue.grow()
        else:
            seat = int(self.seats[arm]) if queue is None else int(queue.heap[0, late.WHOSE])
            name = self.course.bandit.names[seat]
            raise ValueError(f"{name} paid a reward outside the support {policy.support!r}; declare a wider one.")


class _Notes:
    """What is written down in a trial, and where it is."""

    def __init__(self, player: Player, trial: int, watch: Callable[[Policy], bool] | None) -> None:
        rows, k = player.checkpoints.size, player.course.bandit.n_arms
        self.cursor = np.array([-1, 0, player.policy.t, 0], dtype=np.int64)
        self.pulls, self.mixture = np.tile(player.pulled, (rows, 1)), np.zeros((rows, k))
        self.ends = np.zeros(PHASE_ENDS, dtype=np.int64)
        self.watch, self.until = watch, rows if watch is None else min(rows, 1)
        self.queue = None if player.course.prompt else _Queue(player.course.delays, player.seed, trial)


class _Queue:
    """Rewards on their way, and how long those of the next rounds will take."""

    def __init__(self, delays: Delays | None, seed: int, trial: int) -> None:
        self.delays, self.seed, self.trial, self.number = delays, seed, trial, -1
        self.heap, self.paid = np.zeros((_FIRST_QUEUE, 3), dtype=np.int64), np.zeros(_FIRST_QUEUE)
        self.waits = np.zeros((1, 1), dtype=np.int64)
        if delays is not None and delays.fixed:
            self.waits = delays.table(seed, trial, 0)

    def up_to(self, end: int, now: int) -> tuple[int, int]:
        """How far the delays are known from now on, and the round that the first row of them is for."""
        if self.delays is None or self.delays.fixed:
            return end, 0
        number = now // CHUNK
        if number != self.number:
            self.waits, self.number = self.delays.table(self.seed, self.trial, number), number
        return min(end, (number + 1) * CHUNK), number * CHUNK

    def grow(self) -> None:
        """Room for twice as many."""
        self.heap, self.paid = np.tile(self.heap, (2, 1)), np.tile(self.paid, 2)
