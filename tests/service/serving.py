"""A service without a network: the application in an event loop of its own, and a client that waits for answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from pmbandits.service.api import create_app
from pmbandits.service.service import Service
from pmbandits.service.settings import Settings

SHOP = {
    "name": "shop",
    "metric": "gini",
    "arms": ["A", "B", "C"],
    "support": {"kind": "binary"},
    "policy": "track",
}


class Served:
    """One process that serves, as far as its clients can tell."""

    def __init__(self, settings: Settings) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.app: Any = create_app(settings)
        self.service: Service = self.app.service
        self.wait(self.service.start())
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", timeout=60)

    def wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def send(self, method: str, path: str, *, key: str | None = None, **given: Any) -> httpx.Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        headers |= given.pop("headers", {})
        return self.wait(self.client.request(method, path, headers=headers, **given))

    def post(self, path: str, body: Any = None, **given: Any) -> Any:
        """The answer of an experiment's route, which must be good."""
        found = self.send("POST", f"/v1/experiments{path}", json={} if body is None else body, **given)
        assert found.status_code in (200, 201), found.text
        return found.json()

    def get(self, path: str, **given: Any) -> Any:
        found = self.send("GET", f"/v1/experiments{path}", **given)
        assert found.status_code == 200, found.text
        return found.json()

    def refused(self, path: str, body: Any, *, method: str = "POST", **given: Any) -> tuple[int, str]:
        """Status and sentence of an answer that must be a refusal."""
        found = self.send(method, f"/v1/experiments{path}", json=body, **given)
        assert found.status_code >= 400, found.text
        return found.status_code, found.json()["error"]

    def close(self) -> None:
        self.wait(self.client.aclose())
        self.wait(self.service.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@contextmanager
def serving(store: str | Path, **settings: Any) -> Iterator[Served]:
    """A service on a store; the path of a file, or a URL."""
    url = f"sqlite:///{store}" if isinstance(store, Path) else store
    served = Served(Settings(**{"store": url, "open": True, "warm": False, **settings}))
    try:
        yield served
    finally:
        served.close()
