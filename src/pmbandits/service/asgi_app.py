"""The ASGI application: authentication, and the two fast routes ask and tell without any framework."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from pmbandits.service import login, request_log
from pmbandits.service.experiment import Refused
from pmbandits.service.group_commit import OUTCOME_UNKNOWN_MESSAGE
from pmbandits.service.html_errors import html_error_pages, wants_html
from pmbandits.service.keys import Key
from pmbandits.service.messages import Ask, Problem, Tell
from pmbandits.service.service import Service

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("pmbandits.service")
PREFIX = "/v1/experiments/"
PUBLIC_PATHS = frozenset({"/health", "/ready", "/login"})
LONG_RESPONSES = {  # by the last part of their path
    "log": "download", "export": "download", "stream": "stream", "state": "read", "history": "read",
}  # fmt: skip
_decode_ask = msgspec.json.Decoder(Ask).decode
_decode_tell = msgspec.json.Decoder(Tell).decode
_encode = msgspec.json.Encoder().encode
LOGIN_BYTES = 4096  # of the one form that strangers may send: a key, and a page to go on to
_INTERNAL_ERROR = "something went wrong here, not with your request; the log of the service says what."
_STOPPING = "the service is stopping, and did not finish this; try again in a moment."
_JSON = (b"content-type", b"application/json")
_SECURITY_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class AsgiApp:
    """The application: asks and tells are answered here, all else is passed on when its key is good."""

    def __init__(self, service: Service, fallback_app: App) -> None:
        self.service, self.fallback_app = service, fallback_app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.fallback_app(scope, receive, send)
            return
        began, path = time.perf_counter(), scope["path"]
        request_log.begin_request(scope)
        verb = path.rpartition("/")[2] if path.startswith(PREFIX) else ""
        if verb in ("ask", "tell") and scope["method"] == "POST" and path.count("/") == 4:
            status = 500
            try:
                status, body = (
                    200,
                    await self._answer_ask_or_tell(scope, receive, path[len(PREFIX) : -len(verb) - 1], verb),
                )
            except Refused as error:
                status, body = error.status, _encode(Problem(error.sentence))
            except asyncio.CancelledError:  # by the server, which stops and has waited long enough
                status, body = 503, _encode(Problem(OUTCOME_UNKNOWN_MESSAGE))
            except Exception:
                log.exception("a request failed")
                body = _encode(Problem(_INTERNAL_ERROR))
            finally:
                self._count_and_log_request(verb, status, began)
            await send_json(send, status, body)
            return
        if wants_html(scope):
            send = html_error_pages(send, login.login_address(path))
        try:
            key = None if path in PUBLIC_PATHS else await self._authenticate(scope)
        except Refused as error:
            self._count_and_log_request("refused", error.status, began)
            await send_json(send, error.status, _encode(Problem(error.sentence)))
            return
        scope["pmbandits.key"] = key
        kind = LONG_RESPONSES.get(path.rpartition("/")[2])
        if kind is None or key is None:
            await self._forward_to_app(scope, receive, send, began)
            return
        try:
            with self.service.key_cache.count_open_response(key, kind):
                await self._forward_to_app(scope, receive, send, began)
        except Refused as error:
            await send_json(send, error.status, _encode(Problem(error.sentence)))

    async def _answer_ask_or_tell(self, scope: Scope, receive: Receive, name: str, verb: str) -> bytes:
        service, headers = self.service, dict(scope["headers"])
        key = service.authenticate_from_cache(headers.get(b"authorization")) or await self._authenticate(scope)
        service.check_permission(key, verb, name)
        raw = await read_body(receive, service.settings.body)
        try:
            request: Ask | Tell = (_decode_ask if verb == "ask" else _decode_tell)(raw or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # also what has another shape
            raise Refused(422, f"the request cannot be read: {error}.") from None
        return _encode(await service.ask_or_tell(name, request, key.id))

    async def _authenticate(self, scope: Scope) -> Key:
        headers, reading = dict(scope["headers"]), scope["method"] in ("GET", "HEAD")
        authorization = headers.get(b"authorization")
        if authorization is None and reading and b"cookie" in headers:  # what changes something needs a header
            authorization = login.authorization_from_cookie(headers[b"cookie"])
        return await self.service.authenticate(
            authorization, headers.get(b"host"), headers.get(b"origin"), reading=reading
        )

    async def _forward_to_app(self, scope: Scope, receive: Receive, send: Send, began: float) -> None:
        limit = {"/v1/import": self.service.settings.file, "/login": LOGIN_BYTES}.get(scope["path"])
        if limit is None:  # all other bodies are JSON, whatever a client calls them
            limit = self.service.settings.body
            scope["headers"] = [(k, v) for k, v in scope["headers"] if k != b"content-type"] + [_JSON]
        status, waiting = 0, True
        try:
            body = await read_body(receive, limit)
        except Refused as error:
            self._count_and_log_request("refused", error.status, began)
            await send_json(send, error.status, _encode(Problem(error.sentence)))
            return

        async def buffered_receive() -> MutableMapping[str, Any]:
            nonlocal waiting
            if waiting:
                waiting = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        async def send_with_security_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                number = [(b"x-request-id", request_log.request_id().encode())] if status >= 400 else []
                message["headers"] = [*message.get("headers", []), *_SECURITY_HEADERS, *number]
            await send(message)

        work = self.fallback_app(scope, buffered_receive, send_with_security_headers)
        # Of what writes, only looking for old tickets takes long, and a transaction is never left half done.
        method = scope["method"]
        try:
            if method != "GET" and not (method == "POST" and scope["path"].endswith("/expire")):
                await work
            elif not await finished_before_hang_up(work, receive):
                status = status or 499  # as web servers call it
        except Refused as error:
            if not status:
                status = error.status
                await send_json(send, error.status, _encode(Problem(error.sentence)))
        except asyncio.CancelledError:  # by the server, which stops and has waited long enough
            if not status:
                status = 503
                await send_json(send, 503, _encode(Problem(_STOPPING)))
        except Exception:
            log.exception("a request failed")
            if not status:
                await send_json(send, 500, _encode(Problem(_INTERNAL_ERROR)))
        finally:
            route = scope.get("route")
            name = getattr(route, "path", "other")
            self._count_and_log_request(name, status or 500, began)

    def _count_and_log_request(self, route: str, status: int, began: float) -> None:
        """Count a request, and write it to the log if it matters."""
        seconds = time.perf_counter() - began
        self.service.metrics.count_request(route, status, seconds)
        request_log.log_request(route, status, seconds)


async def finished_before_hang_up(work: Awaitable[None], receive: Receive) -> bool:
    """Answer a request, and return True; if the client hangs up before, no more is begun for it."""

    async def hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answering, gone = asyncio.ensure_future(work), asyncio.ensure_future(hang_up())
    try:
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
        return answering.done()
    finally:
        answering.cancel()
        gone.cancel()


async def read_body(receive: Receive, limit: int) -> bytes:
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


async def send_json(send: Send, status: int, body: bytes) -> None:
    """Send JSON."""
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *_SECURITY_HEADERS]
    if status >= 400:  # so that a client can name the line in the log
        headers.append((b"x-request-id", request_log.request_id().encode()))
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="pmbandits"'))
    elif status in (429, 503):
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
