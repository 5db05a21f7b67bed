"""Asks an app without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Client:
    """``get`` and ``post``, one after the other."""

    def __init__(self, app: Any, base: str = "http://127.0.0.1:5000") -> None:
        self.app, self.base = app, base

    def get(self, path: str, **more: Any) -> httpx.Response:
        """One question."""
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        """One question with a body."""
        return self.request("POST", path, **more)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Any question."""

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=self.base) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())
