"""The description of the whole interface: what FastAPI knows, and the two routes in front of it."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pmbandits.service.wire import Ask, Asked, AskedMany, Problem, Tell, Told

_REASONS = {
    400: "Something is wrong with the request",
    401: "No key, or one that is not known",
    403: "The key is not for this",
    404: "There is no such experiment or ticket",
    409: "It does not go with what happened before",
    413: "Too large",
    422: "Something in the request cannot be",
    429: "Too many requests",
    503: "The store cannot be written now; try again",
}


def described(app: FastAPI) -> dict[str, Any]:
    """The description, as JSON."""
    found = get_openapi(title=app.title, version=app.version, routes=app.routes, description=__doc__ and (
        "Experiments that learn the best mixture of arms. Every ask and every tell is on disk before it is answered."
    ))  # fmt: skip
    schemas, parts = msgspec.json.schema_components(
        (Ask, Asked, AskedMany, Tell, Told, Problem), ref_template="#/components/schemas/{name}"
    )
    ask, asked, many, tell, told, problem = schemas
    components = found.setdefault("components", {})
    components.setdefault("schemas", {}).update(parts)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"key": []}]
    found["paths"]["/v1/experiments/{name}/ask"] = _hurry(
        "ask", "The next arm to play, and its ticket", ask, {"oneOf": [asked, many]}
    )
    found["paths"]["/v1/experiments/{name}/tell"] = _hurry("tell", "The reward of a ticket, or of many", tell, told)
    for path, routes in found["paths"].items():
        for route in routes.values():
            route["responses"].pop("422", None)
            if path in ("/health", "/ready"):
                route["security"] = []
                continue
            for status, words in _REASONS.items():
                route["responses"].setdefault(
                    str(status), {"description": words, "content": {"application/json": {"schema": problem}}}
                )
    return found


def _hurry(name: str, words: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "post": {
            "tags": ["ask and tell"],
            "summary": words,
            "operationId": name,
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {
                "200": {"description": "On disk", "content": {"application/json": {"schema": answer}}},
            },
        }
    }
