"""The front door: who may come in, and the two routes that are in a hurry, without any framework."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from pmbandits import _check
from pmbandits.service.apology import for_people, in_words
from pmbandits.service.keys import Key
from pmbandits.service.live import Refused
from pmbandits.service.service import Service
from pmbandits.service.wire import Ask, Problem, Tell

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("pmbandits.service")
PREFIX = "/v1/experiments/"
FREE = frozenset({"/health", "/ready"})
_read_ask = msgspec.json.Decoder(Ask).decode
_read_tell = msgspec.json.Decoder(Tell).decode
_write = msgspec.json.Encoder().encode
_OURS = "something went wrong here, not with your request; the log of the service says what."
_JSON = (b"content-type", b"application/json")
_SAFE = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Front:
    """The application: asks and tells are answered here, all else is passed on when its key is good."""

    def __init__(self, service: Service, rest: App) -> None:
        self.service, self.rest = service, rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.rest(scope, receive, send)
            return
        began, path = time.perf_counter(), scope["path"]
        verb = path.rpartition("/")[2] if path.startswith(PREFIX) else ""
        if verb in ("ask", "tell") and scope["method"] == "POST" and path.count("/") == 4:
            status = 500
            try:
                status, body = 200, await self._hurry(scope, receive, path[len(PREFIX) : -len(verb) - 1], verb)
            except Refused as error:
                status, body = error.status, _write(Problem(error.sentence))
            except Exception:
                log.exception("a request failed")
                body = _write(Problem(_OURS))
            finally:
                self.service.counting.note(verb, status, time.perf_counter() - began)
            await answer(send, status, body)
            return
        if for_people(scope):
            send = in_words(send)
        try:
            key = None if path in FREE else await self._key(scope)
        except Refused as error:
            self.service.counting.note("refused", error.status, time.perf_counter() - began)
            await answer(send, error.status, _write(Problem(error.sentence)))
            return
        scope["pmbandits.key"] = key
        await self._pass_on(scope, receive, send, began)

    async def _hurry(self, scope: Scope, receive: Receive, name: str, verb: str) -> bytes:
        service = self.service
        key = await self._key(scope)
        allow(key, verb, name)
        raw = await body_of(receive, service.settings.body)
        try:
            request: Ask | Tell = (_read_ask if verb == "ask" else _read_tell)(raw or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # also what has another shape
            raise Refused(422, f"the request cannot be read: {_check.readable(str(error))}.") from None
        return _write(await service.decide(name, request))

    async def _key(self, scope: Scope) -> Key:
        authorization = host = origin = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"host":
                host = value
            elif name == b"origin":
                origin = value
        reading = scope["method"] in ("GET", "HEAD")
        return await self.service.admit(authorization, host, origin, reading=reading)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, began: float) -> None:
        limit = self.service.settings.file
        if scope["path"] != "/v1/import":  # all other bodies are JSON, whatever a client calls them
            limit = self.service.settings.body
            scope["headers"] = [(k, v) for k, v in scope["headers"] if k != b"content-type"] + [_JSON]
        status, waiting = 0, True
        try:
            body = await body_of(receive, limit)
        except Refused as error:
            self.service.counting.note("refused", error.status, time.perf_counter() - began)
            await answer(send, error.status, _write(Problem(error.sentence)))
            return

        async def whole() -> MutableMapping[str, Any]:
            nonlocal waiting
            if waiting:
                waiting = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_SAFE]
            await send(message)

        try:
            await self.rest(scope, whole, noted)
        except Refused as error:
            if not status:
                status = error.status
                await answer(send, error.status, _write(Problem(error.sentence)))
        except Exception:
            log.exception("a request failed")
            if not status:
                await answer(send, 500, _write(Problem(_OURS)))
        finally:
            route = scope.get("route")
            name = getattr(route, "path", "other")
            self.service.counting.note(name, status or 500, time.perf_counter() - began)


def allow(key: Key, scope: str, experiment: str | None) -> None:
    """Refuse what a key is not for; it does not say whether there is such an experiment."""
    if not key.may(scope, experiment):
        of = "all experiments" if experiment is None else f"the experiment {_check.short(experiment)}"
        raise Refused(403, f"this key is not for {scope!r} of {of}; make one with pmbandits key create.")


async def body_of(receive: Receive, limit: int) -> bytes:
    """The body of a request, if it is not too large."""
    parts: list[bytes] = []
    seen = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection was closed.")
        part = message.get("body", b"")
        seen += len(part)
        if seen > limit:
            raise Refused(413, f"the request has more than {limit:,} bytes; send less at once.")
        if not message.get("more_body", False):
            return b"".join((*parts, part)) if parts else part
        parts.append(part)


async def answer(send: Send, status: int, body: bytes) -> None:
    """Send JSON."""
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *_SAFE]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="pmbandits: any name, and the key as password"'))
    elif status in (429, 503):
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
