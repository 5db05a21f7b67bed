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
from pmbandits.simulation.course import METHODS, Course, Moment
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
        self.policy, self._origin = policy._twin(), policy
        self.seed, self.checkpoints = seed, checkpoints
        self.course = Course(bandit) if course is None else course
        self.moments = self.course.moments(int(checkpoints[-1]))
        self.sources = {id(m.bandit): source(m.bandit) for m in self.moments}
        self.stream = Stream(self.moments[0].bandit, seed)
        cls = type(policy)
        self.steps = address(cls._choose, CHOOSE), address(cls._update, UPDATE)
        self._first = self.policy._memory.copy()
        self._take_seats()
        self.pulled = np.zeros(self.course.bandit.n_arms, dtype=np.int64)
        self.pulled[self.seats] = self.policy.pulls
        self._blank()

    def _take_seats(self) -> None:
        """Note which arm of the bandit each arm in the policy's memory is, and the other way round."""
        known, policy = self.course.bandit.names, self.policy
        seats = policy._seated
        if self.course.schedule:
            seats = tuple(known.index(policy.names[i]) for i in seats)
        self.seats = np.array(seats, dtype=np.int64)
        self.places = np.full(len(known), -1, dtype=np.int64)
        self.places[self.seats] = np.arange(self.seats.size)

    def _blank(self) -> None:
        """What a trial begins with, in the sizes that the memory has now, and room for a copy at checkpoints."""
        memory = self.policy._memory
        self.changing = memory.places.changing
        self.before = np.empty(self.changing, dtype=np.int64)
        if self.course.schedule:  # then every trial begins with a new copy
            return
        blank = self._first.resized(room=memory.room, n_radii=memory.n_radii, n_recent=memory.n_recent)
        for name in ("most_rewards", "most_told", "radii_fall"):  # these follow from the sizes
            setattr(blank, name, getattr(memory, name))
        self.start = blank.words[: memory.places.moving].copy()

    def _begin_anew(self, trial: int) -> None:
        """The policy as it was given, with the seed of the trial."""
        own = policy_seed(self.seed, trial, self._origin.seed)
        if self.course.schedule:
            self.policy = self._origin._twin()
            self.policy.seed = own  # for the memory that is made when arms come and go
            self._seats_changed()
        else:
            self.policy._memory.words[: self.start.size] = self.start
        self.policy._memory.seed = own
        self.stream.start(trial)

    def play(self, trial: int, watch: Callable[[Policy], bool] | None = None) -> Outcome:
        """The trial of this number; ``watch`` sees the policy at each checkpoint, and ends the trial if it says so."""
        clock = Stopwatch()
        self._begin_anew(trial)
        notes, used = _Notes(self, trial, watch), self.stream.used
        turns = np.zeros((0 if self.course.still else len(self.moments), used.size), dtype=np.int64)
        for number, moment in enumerate(self.moments):
            self._begin(moment)
            goes_on = self._play_until(moment.end, notes)
            turns[number : number + 1] = used
            if not goes_on:
                break
        seen = int(notes.cursor[kernels.CHECKPOINT])
        ends = notes.ends[notes.ends > 0].copy()
        return Outcome(notes.pulls[:seen], notes.mixture[:seen], ends, clock.seconds, turns)

    def _begin(self, moment: Moment) -> None:
        """Let happen what a moment begins with."""
        if moment.bandit is not self.stream.bandit:
            self.stream.become(moment.bandit, self.sources[id(moment.bandit)])
        for event in moment.events:
            getattr(self.policy, METHODS[event.verb])(event.arm)
        if moment.events:
            self._seats_changed()

    def _seats_changed(self) -> None:
        """The policy's memory may be another one, with other arms in it."""
        self._take_seats()
        self._blank()

    def _play_until(self, end: int, notes: _Notes) -> bool:
        """Play until this many rounds were played, and say whether to go on after them."""
        cursor, rows = notes.cursor, self.checkpoints.size
        while True:
            bench = self.policy._bench
            if bench is not None and bench.waiting and cursor[kernels.WAITING] < 0:
                self._round_by_hand(end, notes)
                status = kernels.DONE
            else:
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
        """Play on in compiled code, and say why it stopped."""
        memory, queue = self.policy._memory, notes.queue
        given = (
            *self.steps, memory.address, memory.words, self.changing, self.before, *self.stream.arrays, self.seats,
        )  # fmt: skip
        seen = self.checkpoints[: notes.until], notes.cursor, notes.pulls, notes.mixture, notes.ends
        if queue is None:
            return int(kernels.play(*given, end, *seen))  # type: ignore[call-arg]
        stop, first = queue.up_to(end, int(notes.cursor[kernels.ROUND]))
        how = (self.places, queue.heap, queue.paid, queue.waits, first, self.course.batch, queue.last)
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
        elif status == kernels.NEEDS_TELLING:
            self._tell_next(notes)
        else:
            seat = int(self.seats[arm]) if queue is None else int(queue.heap[0, late.WHOSE])
            name = self.course.bandit.names[seat]
            raise ValueError(f"{name} paid a reward outside the support {policy.support!r}; declare a wider one.")

    # ---- in Python: rewards of arms that do not play, and arms of which nothing is known yet ------------------------
    def _tell(self, seat: int, reward: float) -> None:
        """Tell a reward as users do; an arm that waited for its first one plays with the others from then on."""
        memory = self.policy._memory
        self.policy.tell(self.policy.names.index(self.course.bandit.names[seat]), reward)
        if self.policy._memory is not memory:
            self._seats_changed()

    def _tell_next(self, notes: _Notes) -> None:
        """Tell the reward that comes next."""
        queue = notes.queue
        assert queue is not None
        seat, reward = int(queue.heap[0, late.WHOSE]), float(queue.paid[0])
        late.pop(queue.heap, queue.paid, int(notes.cursor[late.SIZE]))
        notes.cursor[late.SIZE] -= 1
        self._tell(seat, reward)

    def _round_by_hand(self, end: int, notes: _Notes) -> None:
        """Play one round by asking and telling; if all rounds were played, only tell what is due."""
        cursor, queue, k = notes.cursor, notes.queue, self.course.bandit.n_arms
        now = int(cursor[kernels.ROUND])
        if now < end:
            seat = self.course.bandit.names.index(self.policy.names[self.policy.ask()])
            reward = self.stream.draw(seat)
            now += 1
            cursor[kernels.ROUND] = now
            if queue is None:
                self._tell(seat, reward)
            else:
                _, first = queue.up_to(end, now - 1)
                row = min(now - 1 - first, queue.waits.shape[0] - 1)
                due = now + int(queue.waits[row, min(seat, queue.waits.shape[1] - 1)])
                due = -(-due // self.course.batch) * self.course.batch
                if due <= queue.last:
                    if cursor[late.SIZE] == queue.paid.size:
                        queue.grow()
                    late.push(queue.heap, queue.paid, int(cursor[late.SIZE]), due, now, seat, reward)
                    cursor[late.SIZE] += 1
        while queue is not None and cursor[late.SIZE] > 0 and queue.heap[0, late.DUE] <= now:
            self._tell_next(notes)
        row = int(cursor[kernels.CHECKPOINT])
        if row < notes.until and now == self.checkpoints[row]:
            shares = np.zeros(k)
            shares[[self.course.bandit.names.index(name) for name in self.policy.names]] = self.policy.mixture
            notes.pulls[row] += self.stream.used
            notes.mixture[row] = shares
            cursor[kernels.CHECKPOINT] += 1


class _Notes:
    """What is written down in a trial, and where it is."""

    def __init__(self, player: Player, trial: int, watch: Callable[[Policy], bool] | None) -> None:
        rows, k = player.checkpoints.size, player.course.bandit.n_arms
        self.cursor = np.array([-1, 0, player.policy.t, 0], dtype=np.int64)
        self.pulls, self.mixture = np.tile(player.pulled, (rows, 1)), np.zeros((rows, k))
        self.ends = np.zeros(PHASE_ENDS, dtype=np.int64)
        self.watch, self.until = watch, rows if watch is None else min(rows, 1)
        last = int(player.checkpoints[-1])
        self.queue = None if player.course.prompt else _Queue(player.course.delays, player.seed, trial, last)


class _Queue:
    """Rewards on their way, and how long those of the next rounds will take."""

    def __init__(self, delays: Delays | None, seed: int, trial: int, last: int) -> None:
        self.delays, self.seed, self.trial, self.number = delays, seed, trial, -1
        self.last = last  # what comes after this round is not waited for
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
