"""The client against a real service, over a real connection: the same pulls as a policy in this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

uvicorn = pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from pmbandits.service.api import create_app
    from pmbandits.service.settings import Settings

    store = f"sqlite:///{tmp_path_factory.mktemp('store') / 'x.db'}"
    app = create_app(Settings(store=store, open=True, warm=False))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def make_shop(url: str, name: str, **given: Any) -> Any:
    client = pmb.connect(url, timeout=60.0, patience=120.0)  # the first ask compiles
    known = {"metric": "gini", "arms": ["A", "B"], "support": pmb.Binary(), "policy": pmb.Track(tolerance=0.02)}
    return client.create(name, **{**known, **given})


def test_the_same_pulls_as_a_policy(url: str, tmp_path: Path) -> None:
    shop = make_shop(url, "same")
    policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary(), tolerance=0.02)
    rng = np.random.default_rng(0)
    for _ in range(60):
        ticket = shop.ask()
        arm = policy.ask()
        assert ticket.arm == policy.names[arm]
        reward = float(rng.random() < (0.4, 0.9)[arm])
        assert shop.tell(ticket, reward).taken == 1
        assert shop.tell(ticket.id, reward).repeated == 1
        policy.tell(arm, reward)
    assert shop.t == policy.t and shop.names == policy.names
    assert shop.pulls.tolist() == policy.pulls.tolist()
    assert np.allclose(shop.mixture, policy.mixture, atol=0, rtol=0)
    assert shop.certainty() == policy.certainty()
    assert shop.explain() == policy.explain()
    shop.save(tmp_path / "same.pmb")
    other = pmb.load(tmp_path / "same.pmb")
    assert other.ask(20).tolist() == policy.ask(20).tolist()
    assert len(shop.log(limit=7)) == 7 and shop.history()[-1]["seq"] == 120
    shop.client.close()


def test_an_uploaded_policy_goes_on(url: str, tmp_path: Path) -> None:
    policy = pmb.Vet("upper_cvar(0.9)", names=["x", "y", "z"], support=pmb.Interval(0, 1))
    policy.tell([0, 1, 2] * 10, np.linspace(0, 1, 30))
    policy.ask(5)
    with pmb.connect(url, timeout=60.0, patience=120.0) as client:
        shop = client.upload("moved", policy)
        policy.save(tmp_path / "p.pmb")
        again = client.upload("moved-file", tmp_path / "p.pmb")
        wanted = [policy.names[arm] for arm in policy.ask(20)]
        assert [ticket.arm for ticket in shop.ask(20)] == wanted == [ticket.arm for ticket in again.ask(20)]


def test_many_threads_and_async_lose_nothing(url: str) -> None:
    shop = make_shop(url, "many")

    def play(_: int) -> None:
        tickets = shop.ask(3)
        shop.tell(tickets, [1.0, 0.0, 1.0])
        shop.client.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(play, range(40)))
    assert shop.t == 120

    async def asynchronously() -> float:
        async with pmb.connect_async(url, connections=8) as client:
            one = client["many"]
            tickets = await asyncio.gather(*(one.ask() for _ in range(40)))
            await asyncio.gather(*(one.tell(ticket, 1.0) for ticket in tickets))
            assert (await one.certainty()).regret >= 0.0 and "next" in await one.explain()
            return float((await one.mixture()).sum())

    assert asyncio.run(asynchronously()) == pytest.approx(1.0)
    assert shop.t == 160 and shop.state()["arms"][0]["pending"] == 0
    shop.client.close()


def test_corrections_history_and_status(url: str) -> None:
    shop = make_shop(url, "status")
    ticket = shop.ask()
    shop.tell(ticket, 1.0)
    with pytest.raises(pmb.ServiceError, match="has the reward 1 already"):
        shop.tell(ticket, 0.0)
    assert shop.tell(arm="A", reward=[0.0, 1.0]).taken == 2
    assert shop.state()["arms"][0]["rewards"] == 3
    shop.pause()
    with pytest.raises(pmb.ServiceError, match="is paused"):
        shop.ask()
    shop.resume()
    assert shop.ask().arm in shop.names
    assert shop.info["status"] == "running"
    with pytest.raises(pmb.ServiceError, match="already"):
        make_shop(url, "status")
    assert "status" in [known["name"] for known in shop.client.experiments()]
    shop.client.close()


def test_tickets_that_never_came_back(url: str) -> None:
    shop = make_shop(url, "late")
    lost = shop.ask(3)
    shop.tell(lost[1], 1.0)
    assert shop.expire(older_than=timedelta(days=1), reward=0.0) == []
    time.sleep(0.01)
    assert shop.expire(older_than=timedelta(0), reward=0.0) == [lost[0].id, lost[2].id]
    with pytest.raises(TypeError, match="length of time"):
        shop.expire(older_than=10, reward=0.0)
    with pytest.raises(pmb.ServiceError, match="support"):
        shop.expire(older_than=timedelta(0), reward=7.0)

    async def later() -> list[int]:
        async with pmb.connect_async(url) as client:
            asked = await client["late"].ask()
            await asyncio.sleep(0.01)
            gone = await client["late"].expire(older_than=timedelta(0), reward=1.0)
            assert gone == [asked.id]
            return gone

    assert asyncio.run(later()) == [lost[2].id + 4]
    assert [arm["pending"] for arm in shop.state()["arms"]] == [0, 0]
    shop.client.close()


def test_a_long_log_comes_whole(url: str) -> None:
    shop = make_shop(url, "long")
    for _ in range(3):
        shop.tell(arm="A", reward=[1.0, 0.0] * 4_000)
    found = shop.log()
    assert [event["seq"] for event in found] == list(range(1, 24_001))
    assert [event["reward"] for event in found] == [1.0, 0.0] * 12_000
    assert [event["seq"] for event in shop.log(after=100, limit=15_000)] == list(range(101, 15_101))
    assert shop.log(after=24_000) == [] and shop.log(after=23_999)[0]["seq"] == 24_000

    async def later() -> int:
        async with pmb.connect_async(url) as client:
            return len(await client["long"].log())

    assert asyncio.run(later()) == 24_000
    shop.client.close()


def test_segments_are_those_of_a_policy(url: str) -> None:
    segments = {"new": ["A", "B"], "returning": ["C", "B"]}
    arms = ["A", "B", "C"]
    shop = make_shop(url, "segments", policy="uniform", arms=arms, segments=segments)
    policy = pmb.Uniform("gini", names=arms, support=pmb.Binary(), segments=segments)
    for k in range(20):
        who = ("new", "returning")[k % 3 == 0]
        ticket, arm = shop.ask(segment=who), policy.ask(segment=who)
        assert (ticket.arm, ticket.segment) == (arms[arm], who)
        shop.tell(ticket, k % 2)
        policy.tell(arm, float(k % 2), segment=who)
    shop.tell(reward=[1, 0], arm="B", segment=["new", "returning"])
    policy.tell(["B", "B"], [1.0, 0.0], segment=["new", "returning"])
    several = shop.ask(segment=["new", "returning"])
    assert [one.arm for one in several] == [arms[k] for k in policy.ask(segment=["new", "returning"])]
    assert [one.segment for one in several] == ["new", "returning"] == [*shop.segments]
    assert len(shop.ask(3, segment="new")) == 3 and len(policy.ask(3, segment="new")) == 3
    assert shop.names == policy.names and shop.arrivals.tolist() == policy.arrivals.tolist()
    assert shop.pulls.tolist() == policy.pulls.tolist() and shop.mixture.tolist() == policy.mixture.tolist()
    with pytest.raises(pmb.ServiceError, match="say who arrives"):
        shop.ask()
    shop.client.close()

    async def work() -> None:
        async with pmb.connect_async(url, timeout=60.0, patience=120.0) as client:
            other = await client.create(
                "segments-async", metric="gini", arms=arms, support=pmb.Binary(), policy="uniform", segments=segments
            )
            assert await client.ready() and "segments-async" in [one["name"] for one in await client.experiments()]
            ticket = await other.ask(segment="new")
            assert ticket.segment == "new"
            await other.tell(arm="C", reward=1.0, segment="returning")
            assert (await other.mixture()).shape == (2, 3)

    asyncio.run(work())
