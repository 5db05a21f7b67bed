"""What all pages share: headers, files, sentences for mistakes, and the watchman of pages without accounts."""

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
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits.palette import MIXTURE, colour

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

ASSETS = Path(__file__).parent / "assets"
_KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain"}
_MOST_JSON = 1 << 20  # bytes of a question
# Nothing from elsewhere, no script in the page itself, and no other page may frame this one.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_ARMS = 18  # colours that differ


def check_installed(command: str) -> None:
    """One sentence where what serves pages is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError(
            f"{command} needs a web server that is not installed; install it with: pip install 'pmbandits[service]'"
        ) from None


def document(title: str, body: str, *, scripts: tuple[str, ...], root: str = "") -> str:
    """A page around a body of HTML; ``root`` stands before the addresses of files."""
    loaded = "".join(f'<script src="{root}assets/{name}" defer></script>' for name in scripts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><link rel="stylesheet" href="{root}assets/uplot.css">'
        f'<link rel="stylesheet" href="{root}assets/pages.css"><link rel="stylesheet" href="{root}assets/palette.css">'
        f'<link rel="icon" href="{root}assets/icon.svg" type="image/svg+xml">'
        f'<script src="{root}assets/theme.js"></script>{loaded}</head><body>{body}</body></html>\n'
    )


def asset(name: str) -> Response:
    """A file of the pages; the colours of arms are made from the palette that pictures use."""
    from starlette.responses import PlainTextResponse
    from starlette.responses import Response as Answer

    headers = {**HEADERS, "Cache-Control": "no-cache"}
    if name == "palette.css":
        lines = "".join(f"--arm-{k}: {colour(k)}; " for k in range(_ARMS))
        return Answer(f":root {{ {lines}--mixture-light: {MIXTURE}; }}\n", headers=headers, media_type=_KINDS[".css"])
    kind = Path(name).suffix
    if name not in files() or kind not in (*_KINDS, ".svg"):
        return PlainTextResponse("there is no such file", 404, headers=headers)
    return Answer(files()[name], headers=headers, media_type=_KINDS.get(kind, "image/svg+xml"))


@cache
def files() -> dict[str, bytes]:
    """All files of the pages, read once: an upgrade must not give new scripts to a server that runs."""
    return {file.name: file.read_bytes() for file in ASSETS.iterdir() if file.is_file()}


def as_json(data: Any, status: int = 200) -> Response:
    """An answer for a script. Numbers that are none become null."""
    from starlette.responses import Response as Answer

    text = data if isinstance(data, bytes) else encoded(data)
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return Answer(text, status, headers=headers, media_type="application/json")


def encoded(data: Any) -> bytes:
    """As JSON."""
    return json.dumps(plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def plain(data: Any) -> Any:
    """Numbers of numpy as those of JSON, with seven digits; what is not finite becomes ``None``."""
    if isinstance(data, np.ndarray):
        return _short(data) if data.dtype.kind == "f" else plain(data.tolist())
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    if isinstance(data, (float, np.floating)):
        return float(f"{data:.7g}") if np.isfinite(data) else None
    return int(data) if isinstance(data, np.integer) else data


def _short(numbers: np.ndarray) -> Any:
    """Many numbers at once, each as near as seven digits say it; quicker than one by one."""
    good = np.isfinite(numbers) & (numbers != 0.0)
    size = np.floor(np.log10(np.abs(numbers), where=good, out=np.zeros(numbers.shape)))
    if good.any() and np.abs(size[good]).max() > 15:  # powers of ten beyond that are not exact
        return plain(numbers.tolist())
    up, down = 10.0 ** np.maximum(6.0 - size, 0.0), 10.0 ** np.maximum(size - 6.0, 0.0)
    with np.errstate(invalid="ignore"):
        rounded = np.round(numbers * up / down) / up * down
    if not np.isfinite(numbers).all():
        rounded = rounded.astype(object)
        rounded[~np.isfinite(numbers)] = None
    return rounded.tolist()


async def question(request: Request) -> dict[str, Any]:
    """What a script asks: a JSON object, not too large."""
    if int(request.headers.get("content-length") or 0) > _MOST_JSON:
        raise ValueError("the request is too large.")
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > _MOST_JSON:
            raise ValueError("the request is too large.")
    try:
        asked = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the request is not JSON.") from None
    if not isinstance(asked, dict):
        raise ValueError("the request must be a JSON object.")
    return asked


Answering = Callable[["Request"], Awaitable["Response"]]


def kindly(answer: Answering) -> Answering:
    """Bad input gets one sentence, and what nobody expected is told where the server was started."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except (ValueError, TypeError, IndexError, KeyError) as error:
            more = getattr(error, "more", {})  # such as what could have been meant
            return as_json({"error": str(error) or "that cannot be answered.", **more}, 400)
        except OSError as error:
            return as_json({"error": f"cannot use {Path(str(error.filename)).name!r}: {error.strerror}."}, 400)
        except Exception as error:
            import traceback

            traceback.print_exception(error, file=sys.stderr)
            said = "something went wrong; the window in which the page was started says what."
            return as_json({"error": said}, 500)

    return answered


class Watchman:
    """Lets in only who knows the word, and only through the front door.

    Pages without accounts are for one person at one machine. They are bound to the loopback address, and their own
    address holds a random word, which no other web page knows. A name that somebody points at the loopback address (DNS
    rebinding) is refused by the ``Host`` header, and a request that another page sends by the ``Origin`` header.
    """

    def __init__(self, app: Any, word: str, port: int) -> None:
        self.app, self.word = app, word
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            return
        refused = self._refused(scope)
        if refused:
            from starlette.responses import PlainTextResponse

            await PlainTextResponse(refused, 403, headers=HEADERS)(scope, receive, send)
            return
        _, _, rest = scope["path"].lstrip("/").partition("/")
        await self.app({**scope, "path": "/" + rest, "raw_path": b"/" + rest.encode()}, receive, send)

    def _refused(self, scope: Any) -> str:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if headers.get("host", []) != [h for h in headers.get("host", []) if h in self.hosts][:1]:
            return "This page answers at its own address only."
        if "host" not in headers:
            return "This page answers at its own address only."
        origin = headers.get("origin", [])
        if origin and origin != [f"http://{headers['host'][0]}"]:
            return "Another page may not ask here."
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            return "Another page may not ask here."
        word = scope["path"].lstrip("/").partition("/")[0]
        if not hmac.compare_digest(word.encode(), self.word.encode()):
            return "The address is not complete: take the whole one, as it was printed when the page was started."
        return ""


def when_told_to_stop(act: Callable[[], None]) -> None:
    """Do something as soon as this process is told to stop: a server waits for open answers first, and ends them last.

    To be called from the event loop when the server has begun; elsewhere than in the main thread nobody is told.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def also(before: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
        def handle(number: int, frame: Any) -> None:
            before(number, frame)
            loop.call_soon_threadsafe(act)

        return handle

    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if callable(before):  # the server's own, which gives back what was there before it
            signal.signal(number, also(before))


def serve(make: Callable[[], Any], *, port: int, show: Callable[[str], None], browse: bool) -> None:
    """Serve an app to one person at this machine, until Ctrl-C."""
    import uvicorn

    word = secrets.token_urlsafe(18)
    listening = socket.create_server(("127.0.0.1", port))
    port = listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}/{word}/"
    show(address)
    if browse:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(
        Watchman(make(), word, port),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listening])
