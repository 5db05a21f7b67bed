"""Errors as HTML pages: a browser that opens a page gets a page, and no JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from typing import Any

import msgspec

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:18px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}a{color:#005a8c}pre{white-space:pre-wrap}input,button{font:inherit;padding:.4rem .6rem}"
    "input{width:100%;box-sizing:border-box}"
    ".wrong{color:#8f1d1d;background:#fdecec;border-left:4px solid #8f1d1d;padding:.4rem .7rem}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}a{color:#7cc4f0}"
    ".wrong{color:#ffb4b4;background:#3a1a1a;border-color:#ffb4b4}}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action {form}; frame-ancestors 'none'"
_OTHER_KEY = '<p><a href="/login">Log in with another key</a></p>'
_TITLES = {
    401: ("A key is needed", _OTHER_KEY),
    403: ("This key is for something else", _OTHER_KEY),
    404: ("There is no such page", '<p><a href="/board/">All experiments</a></p>'),
    429: ("Too many requests", "<p>Wait a moment, and load the page again.</p>"),
    503: ("Not now", "<p>Wait a moment, and load the page again.</p>"),
}


def wants_html(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request comes from a browser that opens a page."""
    path = scope["path"]
    if scope["method"] != "GET" or not (path in ("/", "/docs", "/board") or path.startswith("/board/")):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def html_error_pages(send: Send, login_address: str) -> Send:
    """Wrap an ASGI ``send``: errors in JSON are sent as HTML pages instead; where a key is needed, the login page."""
    held_start: MutableMapping[str, Any] | None = None
    parts: list[bytes] = []

    async def send_or_replace(message: MutableMapping[str, Any]) -> None:
        nonlocal held_start
        if message["type"] == "http.response.start":
            json = any(name.lower() == b"content-type" and b"json" in value for name, value in message["headers"])
            if message["status"] >= 400 and json:
                held_start = message
                return
        elif held_start is not None:
            parts.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            body, page_headers = html_error_page(held_start["status"], b"".join(parts))
            ours = {name.encode(): value.encode() for name, value in page_headers.items()}
            ours |= {b"content-type": b"text/html; charset=utf-8", b"content-length": str(len(body)).encode()}
            kept = [(name, value) for name, value in held_start["headers"] if name.lower() not in ours]
            held_start["headers"] = [*kept, *ours.items()]
            if held_start["status"] == 401:  # the login page leads back
                held_start["status"] = 303
                held_start["headers"].append((b"location", login_address.encode()))
            await send(held_start)
            message = {"type": "http.response.body", "body": body}
        await send(message)

    return send_or_replace


def html_error_page(status: int, answer: bytes) -> tuple[bytes, dict[str, str]]:
    """A page that says what a refusal says, and its headers."""
    try:
        sentence = str(msgspec.json.decode(answer)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        sentence = "something went wrong."
    title, advice = _TITLES.get(status, ("That did not work", ""))
    return html_sentence_page(title, sentence, advice)


def html_sentence_page(
    title: str, sentence: str, html: str, *, form: bool = False, wrong: bool = False
) -> tuple[bytes, dict[str, str]]:
    """A small page with a sentence (any text; ``wrong`` if it is an error) and a piece of HTML (our own); headers."""
    look = ' class="wrong" role="alert"' if wrong else ""
    said = f"<p{look}>{escape(sentence[:1].upper() + sentence[1:])}</p>" if sentence else ""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body><h1>{title}</h1>'
        f"{said}{html}</body></html>"
    )
    return text.encode(), {"content-security-policy": _POLICY.format(form="'self'" if form else "'none'")}
