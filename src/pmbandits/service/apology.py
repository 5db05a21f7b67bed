"""Refusals for people: who opens a page in a browser gets a page, and no JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from typing import Any

import msgspec

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STYLE = (
    "body{font:18px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}a{color:#005a8c}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}a{color:#7cc4f0}}"
)
_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_KEY = (
    "Enter any name, and as password a key that may read. If your browser does not ask for it, it remembers another "
    "one: open a private window."
)
_TITLES = {
    401: ("A key is needed", _KEY),
    403: ("This key is for something else", _KEY),
    404: ("There is no such page", ""),
    429: ("Too many requests", "Wait a moment, and load the page again."),
    503: ("Not now", "Wait a moment, and load the page again."),
}


def for_people(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request is that of somebody who opens a page."""
    path = scope["path"]
    if scope["method"] != "GET" or not (path in ("/", "/docs", "/board") or path.startswith("/board/")):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def in_words(send: Send) -> Send:
    """Send a page wherever a refusal as JSON would be sent."""
    held: MutableMapping[str, Any] | None = None
    parts: list[bytes] = []

    async def sent(message: MutableMapping[str, Any]) -> None:
        nonlocal held
        if message["type"] == "http.response.start":
            json = any(name.lower() == b"content-type" and b"json" in value for name, value in message["headers"])
            if message["status"] >= 400 and json:
                held = message
                return
        elif held is not None:
            parts.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            body = page(held["status"], b"".join(parts))
            ours = {b"content-type": b"text/html; charset=utf-8", b"content-length": str(len(body)).encode(),
                    b"content-security-policy": _POLICY}  # fmt: skip
            kept = [(name, value) for name, value in held["headers"] if name.lower() not in ours]
            held["headers"] = [*kept, *ours.items()]
            await send(held)
            message = {"type": "http.response.body", "body": body}
        await send(message)

    return sent


def page(status: int, answer: bytes) -> bytes:
    """A page that says what a refusal says."""
    try:
        sentence = str(msgspec.json.decode(answer)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        sentence = "something went wrong."
    title, advice = _TITLES.get(status, ("That did not work", ""))
    link = '<p><a href="/board/">All experiments</a></p>' if status == 404 else ""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body><h1>{title}</h1>'
        f"<p>{escape(sentence[:1].upper() + sentence[1:])}</p><p>{advice}</p>{link}</body></html>"
    )
    return text.encode()
