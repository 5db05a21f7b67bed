"""Threads for what takes long to look for or to work out: of each key and of each experiment one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class ReaderThreads:
    """Two threads. Who hangs up leaves the queue, and keeps its place only as long as its work goes on in a thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="readers")
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def start_work(self, key: str, experiment: str, work: Callable[[], T]) -> asyncio.Future[T]:
        """Wait until a key and an experiment have no other work, and begin this one; a future for its result."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as places:
            for place in (("key", key), ("experiment", experiment)):
                await places.enter_async_context(self._locks.setdefault(place, asyncio.Lock()))
            begun = self._pool.submit(work)
            held = places.pop_all()  # until the thread is free again, whoever waits for it

        def leave(_done: Future[Any]) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(loop.create_task, held.aclose())

        begun.add_done_callback(leave)
        return asyncio.wrap_future(begun)

    def close(self) -> None:
        """Take no more work, and drop what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)
