"""What all pages share: headers, files, error responses, and the token check of local pages."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits import __version__, _html
from pmbandits.palette import MIXTURE, arm_colour

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

ASSETS = Path(__file__).parent / "assets"
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain"}
_MAX_JSON_BYTES = 1 << 20  # bytes of a question
# Nothing from elsewhere, no script in the page itself, and no other page may frame this one.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_N_COLOURS = 18  # colours that differ


def check_web_server_installed(command: str) -> None:
    """Raise an error of one sentence if the web server is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError(
            f"{command} needs a web server that is not installed; install it with: pip install 'pmbandits[service]'"
        ) from None


def html_page(template: str, **values: Any) -> str:
    """A page from one of the templates among the assets; ``root`` is the prefix of the addresses of assets."""
    return _templates().get_template(template).render({"root": "", "version": __version__, **values})


@cache
def _templates() -> Environment:
    return _html.jinja_environment(lambda name: asset_files()[name].decode())


def asset_response(name: str) -> Response:
    """The response with an asset file; ``palette.css`` is made from the colours that plots use."""
    from starlette.responses import PlainTextResponse
    from starlette.responses import Response as Answer

    headers = {**HEADERS, "Cache-Control": "no-cache"}
    if name == "palette.css":
        lines = "".join(f"--arm-{k}: {arm_colour(k)}; " for k in range(_N_COLOURS))
        return Answer(
            f":root {{ {lines}--mixture-light: {MIXTURE}; }}\n", headers=headers, media_type=_MEDIA_TYPES[".css"]
        )
    kind = Path(name).suffix
    if name not in asset_files() or kind not in (*_MEDIA_TYPES, ".svg"):
        return PlainTextResponse("there is no such file", 404, headers=headers)
    return Answer(asset_files()[name], headers=headers, media_type=_MEDIA_TYPES.get(kind, "image/svg+xml"))


async def asset_route(request: Request) -> Response:
    """The route of the assets, ``/assets/{name}``."""
    return asset_response(request.path_params["name"])


@cache
def asset_files() -> dict[str, bytes]:
    """All files of the pages, read once: an upgrade must not give new scripts to a server that runs."""
    return {file.name: file.read_bytes() for file in ASSETS.iterdir() if file.is_file()}


def json_response(data: Any, status: int = 200) -> Response:
    """A JSON response for a script. NaN and infinity become null."""
    from starlette.responses import Response as Answer

    text = data if isinstance(data, bytes) else json_bytes(data)
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return Answer(text, status, headers=headers, media_type="application/json")


def json_bytes(data: Any) -> bytes:
    """Data encoded as JSON."""
    return json.dumps(to_rounded_json_types(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def to_rounded_json_types(data: Any) -> Any:
    """Data with numpy numbers as JSON numbers of seven digits; what is not finite becomes ``None``."""
    if isinstance(data, np.ndarray):
        return _to_seven_digits(data) if data.dtype.kind == "f" else to_rounded_json_types(data.tolist())
    if isinstance(data, dict):
        return {str(key): to_rounded_json_types(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [to_rounded_json_types(value) for value in data]
    if isinstance(data, (float, np.floating)):
        return float(f"{data:.7g}") if np.isfinite(data) else None
    return int(data) if isinstance(data, np.integer) else data


def _to_seven_digits(numbers: np.ndarray) -> Any:
    """An array rounded to seven significant digits, as nested lists; faster than one by one."""
    good = np.isfinite(numbers) & (numbers != 0.0)
    size = np.floor(np.log10(np.abs(numbers), where=good, out=np.zeros(numbers.shape)))
    if good.any() and np.abs(size[good]).max() > 15:  # powers of ten beyond that are not exact
        return to_rounded_json_types(numbers.tolist())
    up, down = 10.0 ** np.maximum(6.0 - size, 0.0), 10.0 ** np.maximum(size - 6.0, 0.0)
    with np.errstate(invalid="ignore"):
        rounded = np.round(numbers * up / down) / up * down
    if not np.isfinite(numbers).all():
        rounded = rounded.astype(object)
        rounded[~np.isfinite(numbers)] = None
    return rounded.tolist()


async def json_body(request: Request) -> dict[str, Any]:
    """The body of a request, which must be a JSON object and not too large."""
    if int(request.headers.get("content-length") or 0) > _MAX_JSON_BYTES:
        raise ValueError("the request is too large.")
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > _MAX_JSON_BYTES:
            raise ValueError("the request is too large.")
    try:
        parsed = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the request is not JSON.") from None
    if not isinstance(parsed, dict):
        raise ValueError("the request must be a JSON object.")
    return parsed


Handler = Callable[["Request"], Awaitable["Response"]]


def with_error_responses(handler: Handler) -> Handler:
    """Wrap a handler: bad input gets a 400 with one sentence; other exceptions get a 500 and a printed traceback."""

    async def handled(request: Request) -> Response:
        try:
            return await handler(request)
        except (ValueError, TypeError, IndexError, KeyError) as error:
            more = getattr(error, "more", {})  # such as what could have been meant
            return json_response({"error": str(error) or "that cannot be answered.", **more}, 400)
        except OSError as error:
            ours = error.filename is None  # one of our sentences
            said = str(error) if ours else f"cannot use {Path(str(error.filename)).name!r}: {error.strerror}."
            return json_response({"error": said}, 400)
        except Exception as error:
            import traceback

            traceback.print_exception(error, file=sys.stderr)
            said = "something went wrong; the window in which the page was started says what."
            return json_response({"error": said}, 500)

    return handled


class LocalTokenMiddleware:
    """ASGI middleware that admits only requests with the secret token in the path and a local ``Host``.

    Pages without accounts are for one person at one machine. They are bound to the loopback address, and their own
    address holds a random token that no other web page knows. A name that somebody points at the loopback address (DNS
    rebinding) is refused by the ``Host`` header, and a request that another page sends by the ``Origin`` header.
    """

    def __init__(self, app: Any, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            return
        refusal = self._reason_to_refuse(scope)
        if refusal:
            from starlette.responses import PlainTextResponse

            await PlainTextResponse(refusal, 403, headers=HEADERS)(scope, receive, send)
            return
        _, _, rest = scope["path"].lstrip("/").partition("/")
        await self.app({**scope, "path": "/" + rest, "raw_path": b"/" + rest.encode()}, receive, send)

    def _reason_to_refuse(self, scope: Any) -> str:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return "This page answers at its own address only."
        origin = headers.get("origin", [])
        if origin and origin != [f"http://{hosts[0]}"]:
            return "Another page may not ask here."
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            return "Another page may not ask here."
        token = scope["path"].lstrip("/").partition("/")[0]
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return "The address is not complete: take the whole one, as it was printed when the page was started."
        return ""


def call_on_shutdown_signal(act: Callable[[], None]) -> None:
    """Call ``act`` as soon as this process gets SIGINT or SIGTERM: the server itself waits for open responses first.

    To be called from the event loop after the server has started; does nothing outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def chained(before: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
        def handle(number: int, frame: Any) -> None:
            before(number, frame)
            loop.call_soon_threadsafe(act)

        return handle

    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if callable(before):  # the server's own, which gives back what was there before it
            signal.signal(number, chained(before))


def serve_locally(make: Callable[[], Any], *, port: int, show: Callable[[str], None], browse: bool) -> None:
    """Serve an app to one person at this machine, until Ctrl-C."""
    import uvicorn

    token = secrets.token_urlsafe(18)
    listening = socket.create_server(("127.0.0.1", port))
    port = listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}/{token}/"
    show(address)
    if browse:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(
        LocalTokenMiddleware(make(), token, port),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    if threading.current_thread() is threading.main_thread():
        # The server ends on SIGTERM, and sends it again to whoever was there before it: by default that ends the
        # process at once, with no time to tidy up.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    uvicorn.Server(config).run(sockets=[listening])
