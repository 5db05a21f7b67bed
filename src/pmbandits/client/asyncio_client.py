"""The client for asynchronous code: each method of the other client, run in a thread that has its own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.client.client import Client, Experiment, Given

P = ParamSpec("P")
T = TypeVar("T")


def _async_version_of_method(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of the other client, to be awaited."""

    @wraps(method)
    async def call(self: Any, *args: P.args, **given: P.kwargs) -> T:
        return await self._in_thread(partial(method, self._other, *args, **given))

    return call  # type: ignore[return-value]  # wraps() keeps the name of self


class AsyncClient:
    """A service, made by :func:`pmbandits.connect_async`. Every verb of :class:`Client` is awaited."""

    def __init__(self, client: Client, connections: int) -> None:
        self._other = client
        self._pool = ThreadPoolExecutor(
            _validation.check_whole_number("connections", connections, 1, 1000), "pmbandits-client"
        )

    def __repr__(self) -> str:
        return f"Async{self._other!r}"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, as soon as the requests that are on their way are answered."""
        await asyncio.to_thread(self._pool.shutdown)
        self._other.close_all()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    ready = _async_version_of_method(Client.ready)
    experiments = _async_version_of_method(Client.experiments)
    _create = _async_version_of_method(Client.create)

    def experiment(self, name: str) -> AsyncExperiment:
        """An experiment by its name. Nothing is sent."""
        return AsyncExperiment(self, self._other.experiment(name))

    def __getitem__(self, name: str) -> AsyncExperiment:
        return self.experiment(name)

    async def create(self, name: str, **given: Any) -> AsyncExperiment:
        """Begin an experiment; for what can be given see :meth:`Client.create`."""
        return AsyncExperiment(self, await self._create(name, **given))


class AsyncExperiment:
    """One experiment of a service. Every verb is awaited; for what they do see :class:`Experiment`."""

    def __init__(self, client: AsyncClient, experiment: Experiment) -> None:
        self.client, self.name, self._other, self._in_thread = (
            client,
            experiment.name,
            experiment,
            client._in_thread,
        )

    def __repr__(self) -> str:
        return f"Async{self._other!r}"

    @overload
    async def ask(
        self, *, segment: str | None = None, among: Sequence[str] | None = None, unit: str | None = None,
        key: str | None = None,
    ) -> Given: ...  # fmt: skip
    @overload
    async def ask(
        self, n: int, *, segment: str | Sequence[str] | None = None, among: Sequence[str] | None = None,
        unit: str | None = None, key: str | None = None,
    ) -> list[Given]: ...  # fmt: skip
    @overload
    async def ask(
        self, *, segment: list[str] | tuple[str, ...], among: Sequence[str] | None = None, key: str | None = None
    ) -> list[Given]: ...
    async def ask(self, n: int | None = None, **given: Any) -> Given | list[Given]:
        """The arm to play now, with the ticket for its reward; or a list of the next ``n``."""
        given = given if n is None else {"n": n, **given}
        return await self._in_thread(partial(self._other.ask, **given))

    async def mixture(self) -> FloatArray:
        """The current estimate of the best mixing weights."""
        return await self._in_thread(lambda: self._other.mixture)

    tell = _async_version_of_method(Experiment.tell)
    expire = _async_version_of_method(Experiment.expire)
    state = _async_version_of_method(Experiment.state)
    explain = _async_version_of_method(Experiment.explain)
    certainty = _async_version_of_method(Experiment.certainty)
    history = _async_version_of_method(Experiment.history)
    log = _async_version_of_method(Experiment.log)
    save = _async_version_of_method(Experiment.save)
    add_arm = _async_version_of_method(Experiment.add_arm)
    pause = _async_version_of_method(Experiment.pause)
    resume = _async_version_of_method(Experiment.resume)
    retire = _async_version_of_method(Experiment.retire)
    archive = _async_version_of_method(Experiment.archive)
    limit = _async_version_of_method(Experiment.limit)
