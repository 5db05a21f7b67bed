"""Errors of routes as JSON: a status, and one sentence."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy.exc
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.exceptions import HTTPException

from pmbandits import _validation
from pmbandits.service.experiment import Refused
from pmbandits.service.group_commit import STORE_UNAVAILABLE_MESSAGE
from pmbandits.service.store import NameTaken

log = logging.getLogger("pmbandits.service")
FAST_PATHS = re.compile(r"/v1/experiments/[^/]+/(ask|tell)")


class JsonResponse(Response):
    """JSON by msgspec: numbers that are none become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def add_error_handlers(app: FastAPI) -> None:
    """Add what answers when something went wrong."""

    def problem(status: int, sentence: str) -> JsonResponse:
        return JsonResponse({"error": sentence}, status, headers={"retry-after": "1"} if status in (429, 503) else None)

    @app.exception_handler(Refused)
    async def refused(_request: Request, error: Refused) -> JsonResponse:
        return problem(error.status, error.sentence)

    @app.exception_handler(NameTaken)
    async def taken(_request: Request, error: NameTaken) -> JsonResponse:
        return problem(409, str(error))

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    @app.exception_handler(sqlalchemy.exc.TimeoutError)
    @app.exception_handler(sqlite3.OperationalError)
    async def away(_request: Request, error: Exception) -> JsonResponse:
        log.warning(
            "the store did not answer: %s",
            str(getattr(error, "orig", error))[:300],
        )
        return problem(503, STORE_UNAVAILABLE_MESSAGE)

    @app.exception_handler(RequestValidationError)
    async def unreadable(_request: Request, error: RequestValidationError) -> JsonResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = _validation.escape_control_characters(str(first["msg"])).removeprefix("Value error, ")
        return problem(422, f"{_validation.escape_control_characters(where)}: {why.removesuffix('.')}.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JsonResponse:
        status, takes = error.status_code, (error.headers or {}).get("Allow")
        if status == 404 and FAST_PATHS.fullmatch(request.url.path):  # these are not known here, but before
            status, takes = 405, "POST"
        if status == 405:
            found = problem(405, f"this address takes {takes or 'another method'}, not {request.method}.")
            if takes is not None:
                found.headers["allow"] = takes
            return found
        return problem(status, "there is no such address." if status == 404 else str(error.detail))


def call_or_refuse_bad_input(work: Callable[[], Any]) -> Any:
    """Mistakes in what was given are one sentence of the library's, and status 422."""
    try:
        return work()
    except (ValueError, TypeError, IndexError) as error:
        raise Refused(422, str(error)) from None
    except (LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError) as error:
        raise Refused(422, f"this cannot be worked out ({type(error).__name__}); check what was given.") from None
