"""The login page: a browser sends a key once, and keeps it in a cookie that scripts cannot read.

The cookie is good for reading only, and no other site can make a browser send it (SameSite=Strict).
"""

from __future__ import annotations

import re
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from pmbandits.service.html_errors import html_sentence_page
from pmbandits.service.service import Service

COOKIE = "pmbandits_key"
_NEXT = re.compile(r"/(docs|board/[\w./-]*)?")  # pages of this service, and nothing else
_FORM = (
    '<form method="post"><input type="hidden" name="next" value="{next}"><p><label for="key">Key</label><br>'
    '<input id="key" name="key" type="password" autocomplete="current-password" required autofocus></p>'
    "<p><button>Log in</button></p></form><p>A key that may read is enough. Whoever runs the service makes one:</p>"
    "<pre>pmbandits key create --scopes read</pre>"
)


def authorization_from_cookie(cookie: bytes) -> bytes | None:
    """The header Authorization that stands for the key in a cookie; None if there is none."""
    try:
        found = SimpleCookie(cookie.decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else b"Bearer " + found.value.encode("latin-1")


def login_address(path: str) -> str:
    """Where a browser logs in that wanted to see a page."""
    return f"/login?next={quote(path)}" if _NEXT.fullmatch(path) else "/login"


def add_login_routes(app: FastAPI, service: Service) -> None:
    """Add the page at /login, and logging out."""

    def form(goal: str, sentence: str = "", status: int = 200) -> HTMLResponse:
        body, headers = html_sentence_page("Log in", sentence, _FORM.format(next=goal), form=True, wrong=True)
        return HTMLResponse(body, status, headers=headers)

    @app.get("/login", include_in_schema=False)
    async def show_form(request: Request) -> Response:
        goal = request.query_params.get("next", "")
        return form(goal if _NEXT.fullmatch(goal) else "/board/")

    @app.post("/login", include_in_schema=False)
    async def log_in(request: Request) -> Response:
        try:
            given = parse_qs((await request.body()).decode("latin-1"), max_num_fields=10)
        except ValueError:
            return form("/board/", "this form has more than 10 fields; it takes a key, and nothing else.", 400)
        goal, token = given.get("next", ["/board/"])[0], given.get("key", [""])[0].strip()
        goal = goal if _NEXT.fullmatch(goal) else "/board/"
        origin = request.headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host")
        if foreign or await service.key_cache.find_key(b"Bearer " + token.encode("latin-1", "replace")) is None:
            return form(goal, "this key is not known here, not whole, expired, or revoked.", 401)
        answer = RedirectResponse(goal, 303)
        secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, max_age=30 * 86400)
        return answer

    @app.get("/logout", include_in_schema=False)
    async def log_out() -> Any:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer
