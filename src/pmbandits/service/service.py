"""The service of one process: its store, its experiments in memory and its group commit."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError

from pmbandits import _validation
from pmbandits.constraints import limits
from pmbandits.segments import Segments
from pmbandits.service import reading, warmup
from pmbandits.service.alarms import ChangeAlarms, Watched
from pmbandits.service.events import ADMINISTRATION, ARCHIVED, LIMITS, WriteBatch
from pmbandits.service.experiment import (
    SLOW_LIMITS_MESSAGE,
    CommittedExperiment,
    LiveExperiment,
    Refused,
    refuse_limits_too_long_to_read,
    rehearse_admin_action,
)
from pmbandits.service.experiment_cache import ExperimentCache
from pmbandits.service.expiry import OverdueTickets
from pmbandits.service.group_commit import PATIENCE, STOP_SECONDS, STORE_UNAVAILABLE_MESSAGE, GroupCommit, Unavailable
from pmbandits.service.history import HistoryWriter
from pmbandits.service.keys import OPEN_KEY, Key, KeyCache
from pmbandits.service.messages import Ask, Tell
from pmbandits.service.prometheus import ExperimentNumbers, ServiceMetrics
from pmbandits.service.reader_threads import ReaderThreads
from pmbandits.service.replay import MissingEvent
from pmbandits.service.sample_ratio import SampleRatios
from pmbandits.service.settings import Settings, is_loopback
from pmbandits.service.store import RETRY_PAUSES, Store, is_valid_name

log = logging.getLogger("pmbandits.service")
T = TypeVar("T")
IsGone = Callable[[], Awaitable[bool]] | None  # whether a client has hung up
_PORT = re.compile(r":[0-9]*\Z")
_NO_KEY = "a key is needed: send the header Authorization: Bearer pmb_…"
_NOT_KNOWN = (  # it is not said which of these: that is nobody's business
    "this key is not known here, not whole, expired, or revoked; pmbandits key list shows the good ones, and "
    "pmbandits key create makes another."
)
PROGRESS_SECONDS = 5.0  # seconds between two lines that say what a start is busy with
LIMITS_SECONDS = 120.0  # that limits on shares may take to be worked out
READ_SECONDS = 180.0  # until who reads is sent away; the first one may have to wait until code is compiled
QUEUE_SECONDS = 60.0  # for which one waits while others compile
MAX_EXPIRING = 2  # requests that expire tickets of an experiment: one is worked on, and one waits
MAX_AMONG_WORK = 10_000_000  # arms that are asked for in a request, times those that they are among or drawn from
EVENTS_PER_CORRECTION = 150  # that a correction looks through in the time that a usual event takes
ACT_UNKNOWN_MESSAGE = (
    "the store does not answer, so nobody knows whether this was done; look when it is back, before you send it again."
)
SILENCE = 5.0  # seconds without an answer of the store, after which it counts as away


class Service:
    """What all routes share."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        self.ready = False
        self.on_divergence: list[Callable[[int], None]] = []  # who remembers events of an experiment, to forget them
        self.store: Store
        self.experiment_cache: ExperimentCache
        self.group_commit: GroupCommit
        self.key_cache: KeyCache
        self._look_task: asyncio.Task[None] | None = None
        self._compiling = asyncio.Semaphore(1)  # it takes a whole core
        self._control_threads = ThreadPoolExecutor(4, thread_name_prefix="control")
        self._reader_threads, self._expiry_threads = ReaderThreads(), ReaderThreads()
        self._expiring: Counter[str] = Counter()  # requests that look for old tickets, by their experiment
        self.history_writer: HistoryWriter
        self.overdue_tickets: OverdueTickets
        self.alarms: ChangeAlarms
        self.sample_ratios: SampleRatios

    async def start(self) -> None:
        """Read the experiments that run, and warm up; only then is it ready."""
        began = time.perf_counter()
        gc.disable()  # a million events are a million small things, of which none is garbage
        try:
            await self._start_when_store_answers()
        finally:
            gc.enable()
        gc.collect()
        gc.freeze()  # what is here now stays: the collector need not look at it again,
        gc.set_threshold(10_000, 20, 20)  # and of what requests make almost nothing is left for it
        self.ready = True
        log.info("ready after %.1f s; store %s", time.perf_counter() - began, self.store.display_url)

    async def _start_when_store_answers(self) -> None:
        """Start; if the store cannot be reached yet, or is lost in the middle, begin again a little later."""
        for pause in (*RETRY_PAUSES, 0.0):
            try:
                await self._read_store_and_warm_up()
                return
            except (OperationalError, InterfaceError) as error:
                if not pause:
                    raise
                log.warning("the store cannot be reached yet: %s", type(error.orig).__name__)
                await asyncio.sleep(pause)

    async def _read_store_and_warm_up(self) -> None:
        self.store = await asyncio.to_thread(Store, self.settings.store)
        records = await asyncio.to_thread(self.store.experiments)
        self.key_cache = KeyCache(self.store, self.settings.rate)
        await self.key_cache.start()
        transaction = await asyncio.to_thread(self.store.new_transaction)
        self.experiment_cache = ExperimentCache(self.store, transaction, warm=self.settings.warm)
        self.group_commit = GroupCommit(transaction, self.experiment_cache, self.metrics)
        self.history_writer = HistoryWriter(self.store, self.group_commit)
        self.overdue_tickets = OverdueTickets(self.store)
        self.alarms = ChangeAlarms(self.store, self.run_in_thread)
        self.sample_ratios = SampleRatios(self.store)
        forgetters = (self.history_writer, self.overdue_tickets, self.alarms, self.sample_ratios)
        self.on_divergence += [one.forget_experiment for one in forgetters]
        self.experiment_cache.on_divergence = self.on_divergence
        running = [record for record in records if record.status != ARCHIVED]
        if running:
            log.info(
                "experiments that run: %d; they are read, and what is not yet compiled is, which takes a minute",
                len(running),
            )
        for record in running:
            await self._warm_up_experiment(record.name)
        self.group_commit.start()
        self.history_writer.start()
        self._look_task = asyncio.get_running_loop().create_task(self._sample_metrics_forever())

    async def _sample_metrics_forever(self) -> None:
        """Let the other processes see every second what this one counted."""
        while True:
            self.metrics.hand_on_counts(len(self.group_commit.waiting))
            await asyncio.sleep(1.0)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work of administration or metrics in a thread, so that asks and tells need not wait; its result."""
        return await self._wait_while_store_answers(
            asyncio.get_running_loop().run_in_executor(self._control_threads, work)
        )

    async def write_in_thread(self, work: Callable[[], T]) -> T:
        """Run work of administration that writes to the store in a thread; its result, unless the store is away."""
        try:
            return await self.run_in_thread(work)
        except Unavailable:
            raise Unavailable(ACT_UNKNOWN_MESSAGE) from None

    async def read_in_thread(self, key: Key, experiment: str, work: Callable[[], T]) -> T:
        """Run what a key reads of an experiment in a thread for readers, when it is its turn; its result."""
        return await self._run_in_turn(self._reader_threads, key.id, experiment, work)

    async def _run_in_turn(self, threads: ReaderThreads, key: str, experiment: str, work: Callable[[], T]) -> T:
        """Run what a key wants of an experiment in a thread, when it is its turn; its result.

        Who waits for too long is sent away. Work that has begun cannot be ended: it keeps the place of its key and of
        its experiment until it is done, and no other.
        """

        async def read() -> T:
            return await (await threads.start_work(key, experiment, work))

        try:  # who waits for a place may wait for work that a stuck disk keeps
            waiting = self._wait_while_store_answers(asyncio.ensure_future(read()))
            return await asyncio.wait_for(waiting, READ_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"this was not worked out within {READ_SECONDS:g} s: it is much, or others read, too; try again later."
            ) from None

    async def _wait_while_store_answers(self, future: asyncio.Future[T]) -> T:
        """The result of work, which may take long, but not while the store is away: even reading can wait for a disk.

        Who is cancelled takes along work that has not begun.
        """
        try:
            while not (await asyncio.wait({future}, timeout=1.0))[0]:
                if self._seconds_without_store > PATIENCE:
                    raise Unavailable(STORE_UNAVAILABLE_MESSAGE)
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def _warm_up_experiment(self, name: str) -> None:
        began = time.perf_counter()
        try:
            reading = asyncio.ensure_future(self.experiment_cache.find_live_experiment(name))
            while not (await asyncio.wait({reading}, timeout=PROGRESS_SECONDS))[0]:
                seconds = time.perf_counter() - began
                log.info(
                    "%s: still reading events and compiling after %.0f s",
                    name,
                    seconds,
                )
            reading.result()
        except Exception as error:  # the others can be served
            log.error(
                "%s cannot be read: %s",
                name,
                str(error)[:300],
            )

    async def stop(self) -> None:
        """Answer who waits, and close everything."""
        self.ready = False
        if self._look_task is not None:
            self._look_task.cancel()
        await self.history_writer.stop()
        await self.alarms.stop()
        await self.group_commit.stop()
        self.metrics.hand_on_counts(0)
        await self.experiment_cache.close()
        with suppress(TimeoutError):  # the store is away, or its disk is stuck
            await asyncio.wait_for(self.key_cache.stop(), STOP_SECONDS)
        self._reader_threads.close()
        self._expiry_threads.close()
        self._control_threads.shutdown(wait=False, cancel_futures=True)
        self.group_commit.transaction.close()
        self.store.close()

    # ---- authentication ------------------------------------------------------------------------------------
    def authenticate_from_cache(self, authorization: bytes | None) -> Key | None:
        """The key of a request if it was checked before and is within its rate; else None: see authenticate."""
        if authorization is None or self.settings.open:
            return None
        key = self.key_cache.key_if_checked_before(authorization, browser=False)
        return key if key is not None and self.key_cache.count_request_within_rate(key) else None

    async def authenticate(
        self, authorization: bytes | None, host: bytes | None, origin: bytes | None, *, reading: bool
    ) -> Key:
        """Return the key of a request, or raise a refusal (401, 403 or 429)."""
        if self.settings.open:
            # Pages of strangers in a browser of this machine could reach a loopback address: they are sent away.
            named = (host or b"").decode("latin-1")
            foreign = origin is not None and origin.decode("latin-1").partition("://")[2] != named
            if foreign or not is_loopback(_PORT.sub("", named)):
                raise Refused(403, "without keys this service answers only programs and pages of this machine.")
            return OPEN_KEY
        key = self.key_cache.key_if_checked_before(authorization, browser=reading) if authorization else None
        if key is None:  # it may have to be read
            looking = self.key_cache.find_key(authorization, browser=reading)
            key = await self._wait_while_store_answers(asyncio.ensure_future(looking))
        if key is None:
            raise Refused(401, _NO_KEY if authorization is None else _NOT_KNOWN)
        if not self.key_cache.count_request_within_rate(key):
            raise Refused(429, f"this key may send {self.settings.rate:g} requests a second; wait a moment.")
        return key

    def check_permission(self, key: Key, scope: str, experiment: str | None) -> None:
        """Raise 403 if a key lacks a scope; this does not reveal whether there is such an experiment."""
        if key.allows(scope, experiment):
            return
        of, option = "all experiments", ""
        if experiment is not None:
            of = f"the experiment {_validation.short_repr(experiment)}"
            option = f" --experiment {experiment}" if is_valid_name(experiment) else ""
        # Who has a key need not know where the store is.
        command = f"pmbandits key create --scopes {scope}{option}"
        raise Refused(
            403, f"this key is not for {scope!r} of {of}; make one that is, with the --store of the service: {command}"
        )

    def is_key_still_valid(self, key: Key) -> bool:
        """Whether a key that was accepted before is still valid: it was not revoked meanwhile."""
        return self.settings.open or self.key_cache.is_still_valid(key)

    @property
    def is_serving(self) -> bool:
        """Whether requests can be served now: all is read and compiled, and the store answers."""
        # A store that answers but cannot be written, as on a full disk, is found out only by who writes.
        unwritable = time.monotonic() - self.group_commit.failed_write_at < SILENCE
        waits = self._seconds_without_store >= SILENCE
        return self.ready and not (self.group_commit.failures or unwritable or waits)

    @property
    def _seconds_without_store(self) -> float:
        """For how many seconds the store has not answered, or not brought to disk what it was given."""
        return max(
            self.key_cache.seconds_since_keys_were_read,
            self.group_commit.current_commit_seconds,
            self.store.longest_commit_seconds,
        )

    # ---- experiments --------------------------------------------------------------------------------------
    async def live_experiment_or_refuse(self, name: str) -> LiveExperiment:
        """The experiment in memory by its name, read from the store if needed; raises a refusal if there is none."""
        live = self.experiment_cache.live_experiments.get(name)
        if live is not None:
            return live
        try:
            if is_valid_name(name):  # who hangs up does not end this, because others wait for the same
                found = await self._wait_while_store_answers(
                    asyncio.shield(self.experiment_cache.find_live_experiment(name))
                )
            else:
                found = None
        except Refused:
            raise
        except MissingEvent as error:
            raise Refused(500, f"the events of this experiment cannot be read: {error}.") from None
        except Exception as error:
            log.warning("%s cannot be read: %s", name, str(error)[:300])
            raise Unavailable(STORE_UNAVAILABLE_MESSAGE) from None
        if found is None:
            raise Refused(404, f"there is no experiment {_validation.short_repr(name)}.")
        return found

    async def ask_or_tell(self, name: str, request: Ask | Tell, who: str = "") -> Any:
        """The answer to an ask or a tell that this key sent."""
        batch = self.settings.batch
        if isinstance(request, Ask):
            size = request.n or (len(request.segment) if isinstance(request.segment, list) else 1)
        else:
            size = max(len(request.tickets or ()), len(request.rewards or ()), len(request.arms or ()))
        if size > batch:
            raise Refused(413, f"a request can ask or tell at most {batch:,} at once, got {size:,}; send several.")
        if isinstance(request, Ask) and request.unit is not None:
            if request.n is not None or isinstance(request.segment, list):
                raise Refused(422, "unit is for one arm at a time; leave n out, and give one segment if there are any.")
            _refuse_null_characters("unit", request.unit)
        if request.segment == []:
            raise Refused(422, "segment is an empty list; give one segment for all, or one for each.")
        if request.key is not None:
            _refuse_null_characters("key", request.key)
        live = self.experiment_cache.live_experiments.get(name) or await self.live_experiment_or_refuse(name)
        if isinstance(request, Ask) and (request.among is not None or live.replay.draws is not None):
            arms = len(live.replay.policy.names if request.among is None else request.among)
            if size * arms > MAX_AMONG_WORK:
                most = max(MAX_AMONG_WORK // max(arms, 1), 1)
                raise Refused(413, f"among {arms:,} arms at most {most:,} can be asked for at once.")
        if isinstance(request, Tell) and request.correct:
            size *= 1 + live.replay.seen // EVENTS_PER_CORRECTION
        return await self.group_commit.ask_or_tell(live, request, max(size, 1), who)

    async def compile_in_other_process(self, spec: dict[str, Any], is_gone: IsGone = None) -> None:
        """Compile what a policy needs in another process, one at a time; refuse limits that take too long there.

        With ``is_gone`` it ends when whoever wanted it is gone.
        """
        if not self.settings.warm:
            return
        limited = spec.get("shares") is not None
        if limited:
            await self.run_in_thread(lambda: _refuse_limits_that_cannot_be(spec))
        try:
            await asyncio.wait_for(self._compiling.acquire(), QUEUE_SECONDS)
        except TimeoutError:
            raise Unavailable("limits or experiments of others are being worked out; try again in a minute.") from None
        seconds = LIMITS_SECONDS if limited else warmup.COMPILE_TIMEOUT
        work = asyncio.ensure_future(warmup.warm_in_subprocess(spec, seconds))
        try:
            while not (await asyncio.wait({work}, timeout=1.0))[0]:
                if is_gone is not None and await is_gone():
                    raise Refused(400, "the connection was closed.")
            ended = work.result()
            if limited and ended is None:
                raise Refused(
                    422, f"these limits take more than {seconds:g} s to work out; give fewer, or sums of fewer arms."
                )
            if limited and ended == -signal.SIGPROF:
                raise Refused(422, SLOW_LIMITS_MESSAGE)
        finally:
            work.cancel()
            self._compiling.release()

    async def compile_limits_in_other_process(self, now: CommittedExperiment, given: Any, is_gone: IsGone) -> None:
        """Work new limits of an experiment out in another process, before anything is done with them here."""
        refuse_limits_too_long_to_read(given)
        policy = now.replay.policy
        spec = {**now.record.spec, "arms": list(policy.names), "segments": policy.options.get("segments")}
        await self.compile_in_other_process({**spec, "shares": given}, is_gone)

    async def run_admin_action_on(
        self,
        name: str,
        kind: int,
        given: Any,
        who: str,
        view: Callable[[LiveExperiment], T],
        is_gone: IsGone = None,
    ) -> T:
        """Change arms, limits or the status of an experiment; what ``view`` makes of it afterwards.

        It is done once on a copy, in a thread: there all that is slow happens (the code is compiled, limits are worked
        out), and what cannot be is refused. So nobody has to wait for it when it is done in a transaction.
        """
        live = await self.live_experiment_or_refuse(name)
        if kind in ADMINISTRATION:
            now = await self.group_commit.read(live, LiveExperiment.copy)
            if kind == LIMITS and given is not None:
                await self.compile_limits_in_other_process(now, given, is_gone)
                now = await self.group_commit.read(live, LiveExperiment.copy)
            await self.run_in_thread(lambda: rehearse_admin_action(now, kind, given))

        def change(batch: WriteBatch) -> T:
            live.apply_admin_action(kind, given, who, batch)
            return view(live)

        found: T = await self.group_commit.run_admin_action(live, change)
        return found

    async def expire(self, name: str, seconds: float, reward: float, who: str) -> dict[str, Any]:
        """Give a reward to the oldest tickets that have waited for one for too long; which, and if there are more."""
        live = await self.live_experiment_or_refuse(name)
        support = live.replay.policy.support  # it never changes
        assert support is not None
        try:
            support.check([reward])
        except ValueError as error:
            raise Refused(422, str(error)) from None
        if self._expiring[name] >= MAX_EXPIRING:
            raise Refused(429, f"tickets of {name} are being expired already; try again when that is done.")
        self._expiring[name] += 1
        try:
            found = await self._run_in_turn(
                self._expiry_threads,
                who,
                name,
                lambda: self.overdue_tickets.overdue_tickets(live.record.id, seconds, self.settings.batch),
            )
            return await self._expire_tickets(live, found, seconds, reward, who)
        finally:
            self._expiring[name] -= 1
            if not self._expiring[name]:
                del self._expiring[name]

    async def _expire_tickets(
        self, live: LiveExperiment, found: list[int], seconds: float, reward: float, who: str
    ) -> dict[str, Any]:
        about = Tell(tickets=found) if found else None
        late = await self.group_commit.run_admin_action(
            live, lambda batch: live.expire(found, reward, seconds, who, batch), about
        )
        return {"tickets": late, "more": len(found) == self.settings.batch}

    async def experiment_numbers_for_prometheus(self, name: str) -> ExperimentNumbers:
        """What Prometheus is told of an experiment."""
        what, disagreements, drawn, arrivals = await self.read(
            name,
            lambda live: (
                Watched.from_experiment(live),
                live.disagreements,
                live.copy() if live.replay.draws else None,
                reading.arrivals_by_segment(live.replay.policy),
            ),
        )
        changes = await self.alarms.n_changes_by_arm(what)
        ratio = None if drawn is None else await self.run_in_thread(lambda: self.sample_ratios.sample_ratio_of(drawn))
        came = None if arrivals is None else {one["segment"]: one["arrivals"] for one in arrivals}
        return ExperimentNumbers(what.upto, disagreements, changes, None if ratio is None else ratio["p_value"], came)

    async def read(self, name: str, view: Callable[[LiveExperiment], T]) -> T:
        """What ``view`` makes of an experiment with all that other processes did until now, and nothing uncommitted."""
        return await self.group_commit.read(await self.live_experiment_or_refuse(name), view)

    async def view_without_catching_up(self, name: str, view: Callable[[LiveExperiment], T]) -> T:
        """What ``view`` makes of an experiment as this process knows it, with nothing uncommitted."""
        return await self.group_commit.view_without_catching_up(await self.live_experiment_or_refuse(name), view)


def _refuse_limits_that_cannot_be(spec: dict[str, Any]) -> None:
    """Refuse limits that name an unknown arm, say, or that no mixture can keep: that is quickly found out."""
    try:
        segments = spec.get("segments")
        known = None if segments is None else Segments.from_arguments(segments, spec["arms"])
        limits(spec["shares"], spec["arms"], segments=known)
    except (ValueError, TypeError, IndexError) as error:
        raise Refused(422, str(error)) from None


def _refuse_null_characters(what: str, text: str) -> None:
    if "\0" in text:  # the one character that PostgreSQL cannot keep in a text
        raise Refused(422, f"{what} has a null character in it; take it out.")
