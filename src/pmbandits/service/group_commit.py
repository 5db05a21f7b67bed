"""Group commit: waiting requests are decided together, written in one transaction, and answered once on disk.

Python stays in one thread, the event loop, which alone touches policies. While one commit is on its way to disk,
requests for the next one gather: so the more there are, the more of them share a commit.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pmbandits import _validation
from pmbandits.service.events import (
    ADMINISTRATION,
    MAX_EVENTS_BEHIND,
    Lookup,
    LookupResult,
    TooFarBehind,
    Transaction,
    WriteBatch,
)
from pmbandits.service.experiment import LiveExperiment, Refused
from pmbandits.service.experiment_cache import ExperimentCache
from pmbandits.service.messages import Ask, Tell
from pmbandits.service.prometheus import ServiceMetrics
from pmbandits.service.replay import Diverged, MissingEvent

T = TypeVar("T")
log = logging.getLogger("pmbandits.service")
MAX_WAITING = 20_000  # requests; more are sent away at once
MAX_TURN_EVENTS = 10_000  # in a transaction; a request more may be begun, if there are fewer before it
EQUAL_SHARE = 1_000  # events of one key and experiment before it is the turn of others, if there are too many
GATHER_PASSES = 8  # of the event loop, at most, in which requests gather before a commit
PATIENCE = 9.0  # seconds until who waits is sent away: before a client that waits for ten hangs up
STOP_SECONDS = 5.0  # seconds for which a process that shall stop waits for the store
CHUNK = 5_000  # events that are taken in at once while others are served
RETRY_PAUSES = (0.0, 0.1, 0.3, 1.0, 2.0)  # seconds in which nothing is tried, after so many failures in a row


class Unavailable(Refused):
    """The store cannot be reached now, or is full: nothing was acknowledged, and trying again may help."""

    def __init__(self, sentence: str) -> None:
        super().__init__(503, sentence)


SERVICE_BUSY_MESSAGE = "the service is busy; try again in a moment."
EXPERIMENT_RELOADED_MESSAGE = "this experiment is read anew; try again in a moment."
OUTCOME_UNKNOWN_MESSAGE = (
    "the store did not say whether this was written, so it may have been counted; send it again with the same key, or "
    "the same ticket: then it counts once."
)
STORE_UNAVAILABLE_MESSAGE = "the store cannot be written now, so nothing was counted; try again in a moment."


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way: ``request`` for ask and tell, ``admin_action`` for what else writes, ``view`` for readers.

    With an action, ``request`` only says what must be looked up before that can run. ``size``: how many events it is
    worth, by the time that it takes. ``who``: the key that sent it.
    """

    live: LiveExperiment
    answer: asyncio.Future[Any]
    request: Ask | Tell | None = None
    admin_action: Callable[[WriteBatch], Any] | None = None
    view: Callable[[LiveExperiment], Any] | None = None
    size: int = 1
    who: str = ""
    since: float = field(default_factory=time.monotonic)


class GroupCommit:
    """The queue of requests of one process, and the loop that commits them in groups."""

    def __init__(self, transaction: Transaction, experiment_cache: ExperimentCache, metrics: ServiceMetrics) -> None:
        self.transaction, self.experiment_cache, self.metrics = transaction, experiment_cache, metrics
        self.waiting: deque[Job] = deque()
        self.failures, self.retry_at = 0, 0.0
        self.failed_write_at = -math.inf  # when writing failed last, and was not possible since
        self._idle: asyncio.Future[None] | None = None  # until there is something to do
        self._task: asyncio.Task[None] | None = None
        self._stale_job_task: asyncio.Task[None] | None = None
        self._accepting = self._alone = True
        self._current_jobs: Sequence[Job] = ()
        self._store_called_at, self._committing = 0.0, False
        self._catching_up: dict[LiveExperiment, asyncio.Task[None]] = {}
        self._held: list[Job] = []  # whose experiments are catching up
        self._last_turns: dict[tuple[int, str], int] = {}  # of those for whom there was no time in a turn

    def start(self) -> None:
        """From now on requests are answered."""
        loop = asyncio.get_running_loop()
        self._task, self._stale_job_task = (
            loop.create_task(self._commit_forever()),
            loop.create_task(self._reject_stale_jobs()),
        )

    async def stop(self) -> None:
        """Finish what waits, and no more; if the store does not answer, without it."""
        self._accepting = False
        self._wake_up()
        if self._task is None or self._stale_job_task is None:
            return
        tasks = {self._task, *self._catching_up.values()}
        _, unfinished = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        if unfinished:
            log.warning("the store has not answered for %g s; stopping without it", STOP_SECONDS)
        for task in (*unfinished, self._stale_job_task):
            task.cancel()
        for job in (*self._current_jobs, *self.waiting, *self._held):
            _set_job_answer(job, Unavailable(self._no_answer_sentence(job)))

    def ask_or_tell(
        self, live: LiveExperiment, request: Ask | Tell, size: int = 1, who: str = ""
    ) -> asyncio.Future[Any]:
        """The answer to an ask or a tell, when it is on disk; ``size`` and ``who`` as in :class:`Job`."""
        return self._enqueue(Job(live, self._new_future(), request, size=size, who=who))

    async def run_admin_action(
        self, live: LiveExperiment, admin_action: Callable[[WriteBatch], Any], request: Tell | None = None
    ) -> Any:
        """The result of an act of administration, when it is on disk; ``request`` names what the act must know."""
        size = 1 if request is None else len(request.tickets or "1")
        return await self._enqueue(Job(live, self._new_future(), request, admin_action, size=size))

    async def read(self, live: LiveExperiment, view: Callable[[LiveExperiment], T]) -> T:
        """What ``view`` makes of an experiment that is up to date, between two transactions.

        So it sees what is on disk, and nothing else. While the store is away, it sees what was last known to be there.
        """
        found: T = await self._enqueue(Job(live, self._new_future(), view=view, size=0))
        return found

    async def view_without_catching_up(self, live: LiveExperiment, view: Callable[[LiveExperiment], T]) -> T:
        """What ``view`` makes of an experiment as it is known here, maybe without the newest of what others did."""
        return view(live) if _is_as_on_disk(live) else await self.read(live, view)

    def _new_future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    def _enqueue(self, job: Job) -> asyncio.Future[Any]:
        if not self._accepting or len(self.waiting) + len(self._held) >= MAX_WAITING:
            raise Unavailable(SERVICE_BUSY_MESSAGE)
        stalled = self.current_commit_seconds > PATIENCE
        if stalled and job.view is not None and _is_as_on_disk(job.live):
            job.answer.set_result(job.view(job.live))
            return job.answer
        if stalled or (self.retry_at > job.since and job.view is None):
            raise Unavailable(STORE_UNAVAILABLE_MESSAGE)
        self.waiting.append(job)
        self._wake_up()
        return job.answer

    def _wake_up(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # ---- the loop -----------------------------------------------------------------------------------------
    async def _commit_forever(self) -> None:
        rested = False
        while True:
            if self.waiting:
                if not (rested and len(self.waiting) == 1):  # else this one came, and nobody with it
                    await self._wait_for_arriving_requests()
                rested = False
                jobs = self._pop_waiting_jobs()
                if jobs:
                    self._current_jobs = jobs
                    await self._commit_group(jobs)
                    self._current_jobs, self._committing = (), False
            elif not self._accepting:
                return
            elif self._is_retry_due():
                await self._probe_store()
            else:
                self._idle = self._new_future()
                await self._idle
                rested = True

    @property
    def current_commit_seconds(self) -> float:
        """For how many seconds the current group commit has waited for the store; 0 if there is none."""
        return time.monotonic() - self._store_called_at if self._current_jobs else 0.0

    async def _wait_for_arriving_requests(self) -> None:
        """Let requests that are arriving join the queue: one commit for all of them costs less than two."""
        for _ in range(GATHER_PASSES):
            before = len(self.waiting)
            await asyncio.sleep(0)
            if len(self.waiting) == before:
                return

    def _is_retry_due(self) -> bool:
        return self.failures > 0 and time.monotonic() > self.retry_at

    async def _probe_store(self) -> None:
        """Test whether the store can be reached again: clients that wait for it send no requests meanwhile."""
        try:
            await self.transaction.run([], lambda found: WriteBatch(), alone=False)
            self.failures = 0
        except Exception as error:
            self._handle_failed_commit(error, [])

    async def _reject_stale_jobs(self) -> None:
        """Refuse jobs that waited too long, for example for a process that holds the lock and is stopped."""
        while True:
            await asyncio.sleep(1.0)
            if self._is_retry_due():
                self._wake_up()
            at, stale = time.monotonic(), 0
            for job in (*self._current_jobs, *self.waiting, *self._held):
                if at > max(job.since, self._store_called_at) + PATIENCE and not job.answer.done():
                    stale += 1
                    if job.view is not None and _is_as_on_disk(job.live):
                        _set_job_answer_from_view(job)  # what was last known must do
                    else:
                        _set_job_answer(job, Unavailable(self._no_answer_sentence(job)))
            if stale:
                log.warning("the store has not answered for %g s; requests that were refused: %d", PATIENCE, stale)

    def _no_answer_sentence(self, job: Job) -> str:
        """What a job is told that got no answer from the store."""
        unknown = self._committing and job.view is None and job in self._current_jobs
        return OUTCOME_UNKNOWN_MESSAGE if unknown else STORE_UNAVAILABLE_MESSAGE

    def _pop_waiting_jobs(self) -> list[Job]:
        """Return the jobs that write, or as many as one transaction takes; the queue keeps no others.

        Those of experiments that were evicted are refused. Readers, and all whose experiment is catching up, are held.
        """
        jobs = [job for job in self.waiting if not job.answer.done()]
        live_experiments = self.experiment_cache.live_experiments
        self.waiting.clear()
        writing = {job.live for job in jobs if job.view is None}
        wanted: list[Job] = []
        for job in jobs:
            if live_experiments.get(job.live.record.name) is not job.live:
                _set_job_answer(job, Unavailable(EXPERIMENT_RELOADED_MESSAGE))
            elif job.live in self._catching_up or job.live not in writing:
                self._hold_until_caught_up(job)
            else:
                wanted.append(job)
        return wanted if sum(job.size for job in wanted) <= MAX_TURN_EVENTS else self._share_turn(wanted)

    def _share_turn(self, jobs: list[Job]) -> list[Job]:
        """Of too many jobs, those for this transaction; the others go back to the queue.

        Each key has a share for each of its experiments: small requests first, then who has waited for longer.
        """
        taken, events, queues = [job for job in jobs if not job.size], 0, dict[tuple[int, str], deque[Job]]()
        for job in jobs:
            if job.size:
                queues.setdefault((job.live.record.id, job.who), deque()).append(job)
        last, now = self._last_turns, self.metrics.turns
        while events < MAX_TURN_EVENTS:
            for sender, queue in sorted(queues.items(), key=lambda one: (one[1][0].size, last.get(one[0], 0))):
                share = 0
                while queue and share < EQUAL_SHARE and events < MAX_TURN_EVENTS:
                    taken.append(queue.popleft())
                    share += taken[-1].size
                    events += taken[-1].size
                    last[sender] = now
                if not queue:
                    del queues[sender]
        self._last_turns = {sender: last.get(sender, 0) for sender in queues}
        self.waiting.extend(job for queue in queues.values() for job in queue)
        return taken

    async def _commit_group(self, jobs: list[Job]) -> None:
        """Decide and commit a group of jobs. Whatever happens, every job has an answer afterwards, or is held."""
        lookups = _lookups_of_jobs(jobs)
        live_experiments = {job.live.record.id: job.live for job in jobs}
        drafts: dict[int, WriteBatch | None] = {}
        answers: list[Any] = []
        batch = WriteBatch()

        def decide(found: list[LookupResult]) -> WriteBatch:
            nonlocal jobs, batch
            self.metrics.begin_seconds.observe(time.monotonic() - self._store_called_at)
            self._alone = all(len(news.new_events) <= 1 for news in found)
            for exp, news in zip(lookups, found, strict=True):
                drafts[exp] = self._empty_batch_after_catching_up(live_experiments[exp], news)
            jobs = [job for job in jobs if not job.answer.done()]
            jobs += self._jobs_that_came_while_locking(live_experiments, sum(job.size for job in jobs))
            self._current_jobs = jobs
            answers.extend(self._execute_job(job, drafts) for job in jobs)
            batch = self._merge_drafts_with_digests(drafts, live_experiments)
            self._committing, self._store_called_at = bool(batch), time.monotonic()
            return batch

        self._store_called_at = time.monotonic()
        try:
            await self.transaction.run(list(lookups.values()), decide, alone=self._alone)
            self.metrics.commit_seconds.observe(time.monotonic() - self._store_called_at)
        except TooFarBehind as behind:  # it reads without the lock first; the others go on
            for job in reversed(jobs):
                if job.live is live_experiments[behind.exp]:
                    self._hold_until_caught_up(job)
                else:
                    self.waiting.appendleft(job)
            return
        except Exception as error:
            self._handle_failed_commit(error, jobs)
            return
        self.failures = 0
        if batch:
            self.failed_write_at = -math.inf
        self.metrics.turns += 1
        self.metrics.events += len(batch.events)
        for exp, live in live_experiments.items():
            if drafts[exp] is not None:
                live.uncommitted, live.committed = False, live.replay.seen
        evicted = {exp: await self._why_evicted(live) for exp, live in live_experiments.items() if drafts[exp] is None}
        for job, answer in zip(jobs, answers, strict=True):
            if drafts[job.live.record.id] is None:
                _set_job_answer(job, evicted[job.live.record.id])
            elif job.view is not None:
                _set_job_answer_from_view(job)
            else:
                _set_job_answer(job, answer)
        for exp, live in live_experiments.items():
            live.trim_caches()
            if drafts[exp] is not None:
                self.experiment_cache.count_new_events_and_maybe_save(live)

    async def _why_evicted(self, live: LiveExperiment) -> Refused:
        """What those are told whose experiment was evicted: it was deleted, or it is read anew."""
        name = live.record.name
        try:
            finding = asyncio.to_thread(self.experiment_cache.store.find_experiment, name)
            if await asyncio.wait_for(finding, PATIENCE) is None:
                return Refused(404, f"there is no experiment {_validation.short_repr(name)}.")
        except Exception as error:  # the next request finds out
            log.warning("%s cannot be read: %s", name, str(error)[:300])
        return Unavailable(EXPERIMENT_RELOADED_MESSAGE)

    def _merge_drafts_with_digests(
        self, drafts: dict[int, WriteBatch | None], live_experiments: dict[int, LiveExperiment]
    ) -> WriteBatch:
        """What all experiments write, with digests, and without those that failed."""
        for exp, draft in drafts.items():
            if draft is not None:
                live_experiments[exp].extend_hash_chain(draft)
        good = [draft for draft in drafts.values() if draft is not None]
        if len(good) == 1:
            return good[0]
        batch = WriteBatch()
        for draft in good:
            batch.append_batch(draft)
        return batch

    def _empty_batch_after_catching_up(self, live: LiveExperiment, news: LookupResult) -> WriteBatch | None:
        """Apply what other processes wrote, and return an empty batch; None if these events cannot be applied."""
        try:
            live.apply_and_remember_lookup(news)
        except Exception as error:
            self.experiment_cache.evict(live, error)
            return None
        return WriteBatch(self.transaction.at)

    def _jobs_that_came_while_locking(self, live_experiments: dict[int, LiveExperiment], events: int) -> list[Job]:
        """Requests that came while the lock was waited for, and need nothing from the store; up to a full turn."""
        late: list[Job] = []
        for _ in range(len(self.waiting)):
            job = self.waiting.popleft()
            known = live_experiments.get(job.live.record.id) is job.live
            fits = events + job.size <= MAX_TURN_EVENTS and known and not job.answer.done()
            if fits and (job.request is None or not job.live.needs_lookup(job.request)):
                late.append(job)
                events += job.size
            else:
                self.waiting.append(job)
        return late

    def _execute_job(self, job: Job, drafts: dict[int, WriteBatch | None]) -> Any:
        """The answer to a job, or why there is none. A refusal has changed nothing."""
        exp = job.live.record.id
        draft = drafts[exp]
        if draft is None or job.view is not None:
            return None
        job.live.uncommitted = True
        try:
            if job.admin_action is not None:
                return job.admin_action(draft)
            if type(job.request) is Ask:
                return job.live.ask(job.request, draft)
            return job.live.tell(job.request, draft) if type(job.request) is Tell else None
        except Refused as error:
            return error
        except (ValueError, TypeError, IndexError) as error:
            return Refused(422, str(error))
        except Exception as error:  # nobody knows what it changed: this experiment is read anew, others go on
            log.exception("a request failed")
            self.experiment_cache.evict(job.live, error)
            drafts[exp] = None
            return None

    # ---- beside the loop: experiments that catch up with other processes ------------------------------------
    def _hold_until_caught_up(self, job: Job) -> None:
        """Let a job wait until its experiment has caught up with what other processes did, without the lock."""
        self._held.append(job)
        if job.live not in self._catching_up:
            self._catching_up[job.live] = asyncio.get_running_loop().create_task(
                self._catch_up_and_release_held_jobs(job.live)
            )

    async def _catch_up_and_release_held_jobs(self, live: LiveExperiment) -> None:
        """Take in what others did; then answer readers, and let writers go on."""
        problem: Refused | None = None
        try:
            more = True
            while more:
                rows = await asyncio.to_thread(self.transaction.new_events, live.record.id, live.replay.seen, CHUNK)
                more = len(rows) == CHUNK
                if len(rows) > MAX_EVENTS_BEHIND or any(row[1] in ADMINISTRATION for row in rows):
                    live.replaying = True
                    await asyncio.to_thread(live.apply_events_of_others, rows)
                    live.replaying = False
                else:
                    live.apply_events_of_others(rows)
            live.trim_caches()
        except (Diverged, MissingEvent, ValueError, TypeError, IndexError) as error:
            self.experiment_cache.evict(live, error)
            problem = await self._why_evicted(live)
        except Exception as error:
            self._handle_failed_commit(error, [])
            problem = Unavailable(STORE_UNAVAILABLE_MESSAGE)
        del self._catching_up[live]
        mine = [job for job in self._held if job.live is live]
        self._held = [job for job in self._held if job.live is not live]
        for job in mine:
            if job.view is not None and (problem is None or problem.sentence == STORE_UNAVAILABLE_MESSAGE):
                _set_job_answer_from_view(job)
            elif problem is not None:
                _set_job_answer(job, problem)
        self.waiting.extendleft(job for job in reversed(mine) if not job.answer.done())
        self._wake_up()

    def _handle_failed_commit(self, error: Exception, jobs: list[Job]) -> None:
        """Nothing was acknowledged. What was decided in memory may not be on disk, so it is forgotten and read anew."""
        self.failures += 1
        if self._committing:
            self.failed_write_at = time.monotonic()
        self.metrics.failures.inc()
        self.retry_at = time.monotonic() + RETRY_PAUSES[min(self.failures, len(RETRY_PAUSES)) - 1]
        log.warning(
            "a group commit failed: %s: %s",
            type(error).__name__,
            str(error)[:300],
        )
        for live in {job.live for job in jobs}:
            self.experiment_cache.evict(live)
        for job in jobs:
            _set_job_answer(job, Unavailable(self._no_answer_sentence(job)))


def _lookups_of_jobs(jobs: list[Job]) -> dict[int, Lookup]:
    lookups: dict[int, Lookup] = {}
    for job in jobs:
        exp = job.live.record.id
        lookup = lookups.get(exp)
        if lookup is None:
            lookup = lookups[exp] = Lookup(exp, job.live.replay.seen)
        if job.request is not None:
            job.live.add_lookups(job.request, lookup)
    return lookups


def _is_as_on_disk(live: LiveExperiment) -> bool:
    """Whether an experiment in memory is as it is on disk, or was a moment ago."""
    return not live.uncommitted and not live.replaying


def _set_job_answer_from_view(job: Job) -> None:
    if not job.answer.done():
        assert job.view is not None
        try:
            job.answer.set_result(job.view(job.live))
        except Exception as error:
            job.answer.set_exception(error)


def _set_job_answer(job: Job, answer: Any) -> None:
    if not job.answer.done():  # else whoever asked went away
        if isinstance(answer, Refused):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)
