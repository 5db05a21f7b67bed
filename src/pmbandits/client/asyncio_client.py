"""The client for asynchronous code: each method runs in a thread that has its own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.client.client import Client, Experiment, Given, Told
from pmbandits.engine.certainty import Certainty
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Support

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """A service, made by :func:`pmbandits.connect_async`. Every verb is awaited."""

    def __init__(self, client: Client, connections: int) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(_validation.whole("connections", connections, 1, 1000), "pmbandits-client")

    def __repr__(self) -> str:
        return f"Async{self._client!r}"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, as soon as the requests that are on their way are answered."""
        await asyncio.to_thread(self._pool.shutdown)
        self._client.close_all()

    async def _in_thread(self, method: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(method, *args, **given))

    async def ready(self) -> bool:
        """Whether the service runs and is ready to answer."""
        return await self._in_thread(self._client.ready)

    async def experiments(self) -> list[dict[str, Any]]:
        """A description of each experiment that the key may read."""
        return await self._in_thread(self._client.experiments)

    def experiment(self, name: str) -> AsyncExperiment:
        """An experiment by its name. Nothing is sent."""
        return AsyncExperiment(self, self._client.experiment(name))

    def __getitem__(self, name: str) -> AsyncExperiment:
        return self.experiment(name)

    async def create(
        self,
        name: str,
        *,
        metric: Distortion | str,
        arms: Sequence[str],
        support: Support,
        policy: Policy | str = "vet",
        shares: Any = None,
        seed: int = 0,
    ) -> AsyncExperiment:
        """Begin an experiment; see :meth:`Client.create`."""
        made = await self._in_thread(
            self._client.create,
            name,
            metric=metric,
            arms=arms,
            support=support,
            policy=policy,
            shares=shares,
            seed=seed,
        )
        return AsyncExperiment(self, made)


class AsyncExperiment:
    """One experiment of a service. Every verb is awaited; for what they do see :class:`Experiment`."""

    def __init__(self, client: AsyncClient, experiment: Experiment) -> None:
        self.client, self.name, self._experiment, self._in_thread = (
            client,
            experiment.name,
            experiment,
            client._in_thread,
        )

    def __repr__(self) -> str:
        return f"Async{self._experiment!r}"

    @overload
    async def ask(
        self, *, among: Sequence[str] | None = None, unit: str | None = None, key: str | None = None
    ) -> Given: ...
    @overload
    async def ask(
        self, n: int, *, among: Sequence[str] | None = None, unit: str | None = None, key: str | None = None
    ) -> list[Given]: ...
    async def ask(
        self,
        n: int | None = None,
        *,
        among: Sequence[str] | None = None,
        unit: str | None = None,
        key: str | None = None,
    ) -> Given | list[Given]:
        """The arm to play now, with the ticket for its reward; or a list of the next ``n``."""
        if n is None:
            return await self._in_thread(self._experiment.ask, among=among, unit=unit, key=key)
        return await self._in_thread(self._experiment.ask, n, among=among, unit=unit, key=key)

    async def tell(
        self,
        ticket: int | Given | Sequence[int | Given] | None = None,
        reward: float | ArrayLike | None = None,
        *,
        arm: str | Sequence[str] | None = None,
        correct: bool = False,
        key: str | None = None,
    ) -> Told:
        """Tell the reward of a ticket, or rewards of several. A reward that is sent twice counts once."""
        return await self._in_thread(self._experiment.tell, ticket, reward, arm=arm, correct=correct, key=key)

    async def expire(self, *, older_than: timedelta, reward: float) -> list[int]:
        """Give a default reward to all tickets that have been open for too long, and return their numbers."""
        return await self._in_thread(self._experiment.expire, older_than=older_than, reward=reward)

    async def state(self, regret: float | str | None = None) -> dict[str, Any]:
        """Everything that is known now."""
        return await self._in_thread(self._experiment.state, regret)

    async def mixture(self) -> FloatArray:
        """The current estimate of the best mixing weights."""
        return await self._in_thread(lambda: self._experiment.mixture)

    async def explain(self, regret: float | str | None = None) -> str:
        """Why the next arm is the next one."""
        return await self._in_thread(self._experiment.explain, regret)

    async def certainty(self) -> Certainty:
        """By how much the mixture can fall short of the best one at most, and with which probability."""
        return await self._in_thread(self._experiment.certainty)

    async def history(self, after: int = 0) -> list[dict[str, Any]]:
        """How the experiment went."""
        return await self._in_thread(self._experiment.history, after)

    async def log(self, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """Every event, the oldest first: all of them, or at most ``limit``."""
        return await self._in_thread(self._experiment.log, after, limit)

    async def save(self, path: str | Path) -> None:
        """Write the policy to a file that ``pmbandits.load`` reads."""
        await self._in_thread(self._experiment.save, path)

    async def add_arm(self, arm: str) -> None:
        """Let a new arm play from now on."""
        await self._in_thread(self._experiment.add_arm, arm)

    async def pause(self, arm: str | None = None) -> None:
        """Let an arm, or the whole experiment, pause."""
        await self._in_thread(self._experiment.pause, arm)

    async def resume(self, arm: str | None = None) -> None:
        """Let an arm, or the whole experiment, go on."""
        await self._in_thread(self._experiment.resume, arm)

    async def retire(self, arm: str) -> None:
        """Take an arm out for good."""
        await self._in_thread(self._experiment.retire, arm)

    async def archive(self) -> None:
        """End the experiment."""
        await self._in_thread(self._experiment.archive)

    async def limit(self, shares: Any) -> None:
        """Set new limits on the shares of arms."""
        await self._in_thread(self._experiment.limit, shares)
