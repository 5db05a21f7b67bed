"""The service of one process: its store, its experiments and its turns, under one roof."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy.exc import OperationalError

from pmbandits import _check
from pmbandits.service.alarms import Alarms
from pmbandits.service.book import Book
from pmbandits.service.counting import OFTEN, Counted, Counting
from pmbandits.service.events import ARCHIVED, Batch
from pmbandits.service.expiry import Overdue
from pmbandits.service.fold import Gap
from pmbandits.service.history import Historian
from pmbandits.service.keys import ANYBODY, Key, Keyring
from pmbandits.service.live import Live, Refused
from pmbandits.service.settings import Settings, is_loopback
from pmbandits.service.store import PAUSES, Store, is_name
from pmbandits.service.turns import DOWN, Turns, Unavailable
from pmbandits.service.wire import Ask, Tell

log = logging.getLogger("pmbandits.service")
T = TypeVar("T")
_PORT = re.compile(r":[0-9]*\Z")
MOST_NAMED = 1_000_000  # arms of an ask times the arms that it is among: each is in the log with all of these
_NO_KEY = "a key is needed: send the header Authorization: Bearer pmb_…"
_NOT_KNOWN = (  # it is not said which of these: that is nobody's business
    "this key is not known here, not whole, or revoked; pmbandits key list shows the good ones, and pmbandits key "
    "create makes another."
)
SILENCE = 5.0  # seconds without an answer of the store, after which it counts as away


class Service:
    """What all routes share."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.counting = settings, Counting(settings.shared)
        self.ready = False
        self.store: Store
        self.book: Book
        self.turns: Turns
        self.keyring: Keyring
        self._counts: asyncio.Task[None] | None = None
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="readers")
        self.historian: Historian
        self.overdue: Overdue
        self.alarms: Alarms

    async def start(self) -> None:
        """Read the experiments that run, and warm up; only then is it ready."""
        began = time.perf_counter()
        gc.disable()  # a million events are a million small things, of which none is garbage
        try:
            await self._start()
        finally:
            gc.enable()
        gc.collect()
        gc.freeze()  # what is here now stays: the collector need not look at it again
        self.ready = True
        log.info("ready after %.1f s; store %s", time.perf_counter() - began, self.store.shown)

    async def _start(self) -> None:
        self.store = await self._open()
        lane = await asyncio.to_thread(self.store.lane)
        self.book = Book(self.store, lane, warm=self.settings.warm)
        self.turns = Turns(lane, self.book)
        self.historian = Historian(self.store, self.book)
        self.overdue = Overdue(self.store)
        self.alarms = Alarms(self.store, self.aside)
        self.keyring = Keyring(self.store, self.settings.rate)
        await self.keyring.start()
        running = [record for record in await asyncio.to_thread(self.store.experiments) if record.status != ARCHIVED]
        if running:
            log.info(
                "experiments that run: %d; what they need is compiled at the first start, for a minute", len(running)
            )
        for record in running:
            await self._warm_up(record.name)
        self.turns.start()
        self.historian.start()
        if self.counting.shared:
            self._counts = asyncio.get_running_loop().create_task(self._share_counts())

    def counted(self) -> Counted:
        """What this process counted."""
        lives = list(self.book.lives.values())
        return self.counting.counted(
            self.turns.counts, {live.record.name: (live.fold.seen, live.others) for live in lives}
        )

    async def _share_counts(self) -> None:
        while True:
            with suppress(OSError):  # a full disk, for example: the others see what was left before
                await asyncio.to_thread(self.counting.leave, self.counted())
            await asyncio.sleep(OFTEN)

    async def aside(self, work: Callable[[], T]) -> T:
        """Work that takes long, in threads of its own: two at a time, so that asks and tells need not wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _open(self) -> Store:
        """The store; if it cannot be reached yet, a little later."""
        for pause in (*PAUSES, 0.0):
            try:
                return await asyncio.to_thread(Store, self.settings.store)
            except OperationalError as error:
                if not pause:
                    raise
                log.warning("the store cannot be reached yet: %s", type(error.orig).__name__)
                await asyncio.sleep(pause)
        raise AssertionError

    async def _warm_up(self, name: str) -> None:
        try:
            await self.book.find(name)
        except Exception as error:  # the others can be served
            log.error("%s cannot be read: %s", _check.readable(name), _check.readable(str(error))[:300])

    async def stop(self) -> None:
        """Answer who waits, and close everything."""
        self.ready = False
        if self._counts is not None:
            self._counts.cancel()
        await self.historian.stop()
        await self.alarms.stop()
        await self.turns.stop()
        await self.book.close()
        await self.keyring.stop()
        self._readers.shutdown()
        self.turns.lane.close()
        self.store.close()

    # ---- who may come in ----------------------------------------------------------------------------------
    async def admit(
        self, authorization: bytes | None, host: bytes | None, origin: bytes | None, *, reading: bool
    ) -> Key:
        """The key of a request, or a refusal."""
        if self.settings.open:
            # Pages of strangers in a browser of this machine could reach a loopback address: they are sent away.
            named = (host or b"").decode("latin-1")
            foreign = origin is not None and origin.decode("latin-1").partition("://")[2] != named
            if foreign or not is_loopback(_PORT.sub("", named)):
                raise Refused(403, "without keys this service answers only programs and pages of this machine.")
            return ANYBODY
        key = await self.keyring.find(authorization, browser=reading)
        if key is None:
            raise Refused(401, _NO_KEY if authorization is None else _NOT_KNOWN)
        if not self.keyring.within_rate(key):
            raise Refused(429, f"this key may send {self.settings.rate:g} requests a second; wait a moment.")
        return key

    def still(self, key: Key) -> bool:
        """Whether a key that was let in may stay: it was not revoked meanwhile."""
        return self.settings.open or self.keyring.good(key)

    @property
    def serves(self) -> bool:
        """Whether requests can be served now: all is read and compiled, and the store answers."""
        quiet = max(self.keyring.age, self.turns.stalls)
        return self.ready and not self.turns.failures and quiet < SILENCE

    # ---- experiments --------------------------------------------------------------------------------------
    async def live(self, name: str) -> Live:
        """An experiment, or a refusal."""
        live = self.book.lives.get(name)
        if live is not None:
            return live
        try:
            found = await self.book.find(name) if is_name(name) else None
        except Gap as error:
            raise Refused(500, f"the events of this experiment cannot be read: {error}.") from None
        except Exception as error:
            log.warning("%s cannot be read: %s", name, _check.readable(str(error))[:300])
            raise Unavailable(DOWN) from None
        if found is None:
            raise Refused(404, f"there is no experiment {_check.short(name)}.")
        return found

    async def decide(self, name: str, request: Ask | Tell) -> Any:
        """The answer to an ask or a tell."""
        batch = self.settings.batch
        if isinstance(request, Ask):
            size = request.n or 1
        else:
            size = max(len(request.tickets or ()), len(request.rewards or ()), len(request.arms or ()))
        if size > batch:
            raise Refused(413, f"a request can ask or tell at most {batch:,} at once, got {size:,}; send several.")
        if isinstance(request, Ask) and request.among is not None and size * len(request.among) > MOST_NAMED:
            raise Refused(
                413,
                f"{size:,} arms among {len(request.among):,} are too many to write down at once; ask for fewer.",
            )
        if isinstance(request, Ask) and request.unit is not None:
            if request.n is not None:
                raise Refused(422, "unit is for one arm at a time; leave n out.")
            _storable("unit", request.unit)
        if request.key is not None:
            _storable("key", request.key)
        return await self.turns.decide(await self.live(name), request)

    async def act(self, name: str, act: Callable[[Live, Batch], Any]) -> Any:
        """The result of an act of administration."""
        live = await self.live(name)
        return await self.turns.do(live, lambda batch: act(live, batch))

    async def expire(self, name: str, seconds: float, reward: float, who: str) -> dict[str, Any]:
        """Give a reward to the oldest tickets that have waited for one for too long; which, and if there are more."""
        live = await self.live(name)
        support = live.fold.policy.support
        assert support is not None
        try:
            support.check([reward])
        except ValueError as error:
            raise Refused(422, _check.readable(str(error))) from None
        found = await self.aside(lambda: self.overdue.find(live.record.id, seconds, self.settings.batch))
        about = Tell(tickets=found) if found else None
        late = await self.turns.do(live, lambda batch: live.expire(found, reward, seconds, who, batch), about)
        return {"tickets": late, "more": len(found) == self.settings.batch}

    async def newest(self, name: str) -> Live:
        """An experiment, with all that other processes did until now."""
        live = await self.live(name)
        await self.turns.newest(live)
        return live


def _storable(what: str, text: str) -> None:
    if "\0" in text:  # the one character that PostgreSQL cannot keep in a text
        raise Refused(422, f"{what} has a null character in it; take it out.")
