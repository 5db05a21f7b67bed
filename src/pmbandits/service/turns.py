"""Turns: all requests that wait are decided together, written together, and answered when they are on disk.

Python stays in one thread, the event loop, which alone touches policies. While one turn is on its way to the disk,
requests for the next one gather: so the more there are, the more of them share a commit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pmbandits import _check
from pmbandits.service.book import Book
from pmbandits.service.events import Batch, Behind, Found, Lane, Want
from pmbandits.service.fold import Gap
from pmbandits.service.live import Live, Refused
from pmbandits.service.wire import Ask, Tell

log = logging.getLogger("pmbandits.service")
MOST_WAITING = 20_000  # requests; more are sent away at once
PASSES = 8  # of the event loop, at most, in which requests gather before a turn
PATIENCE = 9.0  # seconds until who waits is sent away: before a client that waits for ten hangs up
PAUSES = (0.0, 0.1, 0.3, 1.0, 2.0)  # seconds in which nothing is tried, after so many failures in a row


class Unavailable(Refused):
    """The store cannot be reached now, or is full: nothing was acknowledged, and trying again may help."""

    def __init__(self, sentence: str) -> None:
        super().__init__(503, sentence)


BUSY = "the service is busy; try again in a moment."
AGAIN = "this experiment is read anew; try again in a moment."
MAYBE = (
    "the store did not say whether this was written, so it may have been counted; send it again with the same key, or "
    "the same ticket: then it counts once."
)
DOWN = "the store cannot be written now, so nothing was counted; try again in a moment."


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way: ask and tell by what they say, all others by what they do.

    With both, ``request`` only says what must be known before ``act`` can be done.
    """

    live: Live
    request: Ask | Tell | None
    act: Callable[[Batch], Any] | None
    answer: asyncio.Future[Any]
    since: float = field(default_factory=time.monotonic)


class Turns:
    """The turns of one process."""

    def __init__(self, lane: Lane, book: Book) -> None:
        self.lane, self.book = lane, book
        self.waiting: deque[Job] = deque()
        self.failures, self.not_before = 0, 0.0
        self.counts = {"turns": 0, "events": 0, "failures": 0}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._open = self._alone = True
        self._now: Sequence[Job] = ()
        self._began, self._writing = 0.0, False

    def start(self) -> None:
        """From now on requests are answered."""
        loop = asyncio.get_running_loop()
        self._task, self._sweeper = loop.create_task(self._run()), loop.create_task(self._sweep())

    async def stop(self) -> None:
        """Finish what waits, and no more."""
        self._open = False
        self._wake.set()
        if self._task is not None and self._sweeper is not None:
            await self._task
            self._sweeper.cancel()

    async def decide(self, live: Live, request: Ask | Tell) -> Any:
        """The answer to an ask or a tell, when it is on disk."""
        return await self._queued(Job(live, request, None, self._future()))

    async def do(self, live: Live, act: Callable[[Batch], Any], request: Tell | None = None) -> Any:
        """The result of an act of administration, when it is on disk; ``request`` names what the act must know."""
        return await self._queued(Job(live, request, act, self._future()))

    async def newest(self, live: Live) -> None:
        """Bring an experiment up to date with what others did; also while nothing can be written."""
        await self._queued(Job(live, None, None, self._future()))

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    def _queued(self, job: Job) -> asyncio.Future[Any]:
        if not self._open or len(self.waiting) >= MOST_WAITING:
            raise Unavailable(BUSY)
        stalls = self.stalls > PATIENCE
        if (self.not_before > job.since or stalls) and (job.request or job.act):
            raise Unavailable(DOWN)
        if stalls:
            job.answer.set_result(None)
            return job.answer
        self.waiting.append(job)
        self._wake.set()
        return job.answer

    # ---- the loop -----------------------------------------------------------------------------------------
    async def _run(self) -> None:
        while True:
            self._wake.clear()  # before looking: who comes after this look sets it again
            if self.waiting:
                await self._gather()
                jobs = self._take()
                if jobs:
                    self._now, self._began = jobs, time.monotonic()
                    await self._turn(jobs)
                    self._now, self._writing = (), False
            elif not self._open:
                return
            elif self._due():
                await self._probe()
            else:
                await self._wake.wait()

    @property
    def stalls(self) -> float:
        """For how many seconds the turn of this moment has lasted."""
        return time.monotonic() - self._began if self._now else 0.0

    async def _gather(self) -> None:
        """Let those in who stand at the door already: one turn for all of them costs less than two."""
        for _ in range(PASSES):
            before = len(self.waiting)
            await asyncio.sleep(0)
            if len(self.waiting) == before:
                return

    def _due(self) -> bool:
        return self.failures > 0 and time.monotonic() > self.not_before

    async def _probe(self) -> None:
        """See whether the store can be reached again: whoever waits for that sends no requests meanwhile."""
        try:
            await self.lane.begin([], alone=False)
            await self.lane.abandon()
            self.failures = 0
        except Exception as error:
            self._failed(error, [])

    async def _sweep(self) -> None:
        """Send away who waited too long, for example for a process that holds the lock and is stopped."""
        while True:
            await asyncio.sleep(1.0)
            if self._due():
                self._wake.set()
            at = time.monotonic()
            for job in (*self._now, *self.waiting):
                if at > job.since + PATIENCE:
                    reads = job.request is None and job.act is None  # what is in memory must do
                    sentence = MAYBE if self._writing and job in self._now else DOWN
                    _give(job, None if reads else Unavailable(sentence))

    def _take(self) -> list[Job]:
        """All who wait. An experiment that was dropped meanwhile may remember what never came to the disk."""
        jobs: list[Job] = []
        gone: list[Job] = []
        while self.waiting:
            job = self.waiting.popleft()
            if not job.answer.done():
                (jobs if self.book.lives.get(job.live.record.name) is job.live else gone).append(job)
        _give_all(gone, Unavailable(AGAIN))
        return jobs

    async def _turn(self, jobs: list[Job]) -> None:
        """One turn. Whatever happens, every job has an answer afterwards."""
        if all(job.request is None and job.act is None for job in jobs):
            await self._read(jobs)
            return
        lane, wants = self.lane, _wants(jobs)
        lives = {job.live.record.id: job.live for job in jobs}
        began = False
        try:
            found = await lane.begin(list(wants.values()), alone=self._alone)
            began = True
            self._alone = all(len(news.tail) <= 1 for news in found)
            drafts = {exp: self._learnt(lives[exp], news) for exp, news in zip(wants, found, strict=True)}
            jobs = self._now = [job for job in jobs if not job.answer.done()] + self._late(lives)
            answers = [self._decided(job, drafts) for job in jobs]
            batch = _together(drafts.values())
            self._writing = bool(batch)
            await (lane.commit(batch) if batch else lane.abandon())
        except Behind as far:
            if await self._catch_up(lives[far.exp]):
                self.waiting.extendleft(reversed(jobs))  # who waited goes on waiting
            else:
                _give_all(jobs, Unavailable(DOWN))
            return
        except Exception as error:
            if began:
                await lane.abandon()
            self._failed(error, jobs)
            return
        self.failures = 0
        self.counts["turns"] += 1
        self.counts["events"] += len(batch.events)
        for job, answer in zip(jobs, answers, strict=True):
            _give(job, answer if drafts[job.live.record.id] is not None else Unavailable(AGAIN))
        for exp, live in lives.items():
            live.forget()
            if drafts[exp] is not None:
                self.book.moved(live)

    def _learnt(self, live: Live, news: Found) -> Batch | None:
        """Take in what others did; an empty draft. An experiment whose events make no sense hinders no other one."""
        try:
            live.learn(news)
        except Exception as error:
            self.book.drop(live, error)
            return None
        return Batch()

    def _late(self, lives: dict[int, Live]) -> list[Job]:
        """Requests that came while the lock was waited for, and need nothing from the store."""
        late: list[Job] = []
        for _ in range(len(self.waiting)):
            job = self.waiting.popleft()
            known = lives.get(job.live.record.id) is job.live
            if known and not job.answer.done() and (job.request is None or not job.live.needs(job.request)):
                late.append(job)
            else:
                self.waiting.append(job)
        return late

    def _decided(self, job: Job, drafts: dict[int, Batch | None]) -> Any:
        """The answer to a job, or why there is none. A refusal has changed nothing."""
        exp = job.live.record.id
        draft = drafts[exp]
        if draft is None:
            return None
        try:
            if job.act is not None:
                return job.act(draft)
            if type(job.request) is Ask:
                return job.live.ask(job.request, draft)
            return job.live.tell(job.request, draft) if type(job.request) is Tell else None
        except Refused as error:
            return error
        except (ValueError, TypeError, IndexError) as error:
            return Refused(422, _check.readable(str(error)))
        except Exception as error:  # nobody knows what it changed: this experiment is read anew, others go on
            log.exception("a request failed")
            self.book.drop(job.live, error)
            drafts[exp] = None
            return None

    async def _read(self, jobs: list[Job]) -> None:
        """Bring experiments up to date for who only reads; if the store is away, what is in memory must do."""
        for live in {job.live for job in jobs}:
            await self._catch_up(live)
        _give_all(jobs, None)

    async def _catch_up(self, live: Live) -> bool:
        """Take in what others did, without the lock; whether that worked."""
        try:
            while tail := await asyncio.to_thread(self.lane.tail, live.record.id, live.fold.seen, 10_000):
                live.catch_up(tail)
        except (Gap, ValueError, TypeError, IndexError) as error:
            self.book.drop(live, error)
            return False
        except Exception as error:
            self._failed(error, [])
            return False
        live.forget()
        return True

    def _failed(self, error: Exception, jobs: list[Job]) -> None:
        """Nothing was acknowledged. What was decided in memory may not be on disk, so it is forgotten and read anew."""
        self.failures += 1
        self.counts["failures"] += 1
        self.not_before = time.monotonic() + PAUSES[min(self.failures, len(PAUSES)) - 1]
        log.warning("a turn failed: %s: %s", type(error).__name__, _check.readable(str(error))[:300])
        for live in {job.live for job in jobs}:
            self.book.drop(live)
        _give_all(jobs, Unavailable(MAYBE if self._writing else DOWN))


def _wants(jobs: list[Job]) -> dict[int, Want]:
    wants: dict[int, Want] = {}
    for job in jobs:
        exp = job.live.record.id
        want = wants.get(exp)
        if want is None:
            want = wants[exp] = Want(exp, job.live.fold.seen)
        if job.request is not None:
            job.live.look_up(job.request, want)
    return wants


def _together(drafts: Iterable[Batch | None]) -> Batch:
    """What all experiments write, without those that failed."""
    good = [draft for draft in drafts if draft is not None]
    if len(good) == 1:
        return good[0]
    batch = Batch()
    for draft in good:
        batch.add(draft)
    return batch


def _give_all(jobs: Iterable[Job], answer: Any) -> None:
    for job in jobs:
        _give(job, answer)


def _give(job: Job, answer: Any) -> None:
    if not job.answer.done():  # else whoever asked went away
        if isinstance(answer, Refused):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)
