"""The description of the whole interface: what FastAPI knows, the two routes in front of it, and an example of each."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from pmbandits.service import messages
from pmbandits.service.api_examples import API_EXAMPLES

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
_PUBLIC_PATHS = ("/health", "/ready")


def openapi_description(app: FastAPI) -> dict[str, Any]:
    """The description, as JSON."""
    found = get_openapi(
        title=app.title,
        version=app.version,
        routes=app.routes,
        description="Experiments that learn the best mixture of arms. Every ask and every tell is on disk before it is "
        "answered.",
    )
    kinds = {sample.answer for sample in API_EXAMPLES.values() if isinstance(sample.answer, type)}
    asked = (messages.Ask, messages.Asked, messages.AskedMany, messages.Tell, messages.Told, messages.Problem)
    every = [*asked, *sorted(kinds - set(asked), key=lambda kind: kind.__name__)]
    schemas, parts = msgspec.json.schema_components(every, ref_template="#/components/schemas/{name}")
    known = dict(zip(every, schemas, strict=True))
    components = found.setdefault("components", {})
    components.setdefault("schemas", {}).update(parts)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"key": []}]
    paths = found["paths"]
    paths["/v1/experiments/{name}/ask"] = _fast_path_description(
        "ask",
        "The next arm to play, and its ticket.",
        known[messages.Ask],
        [known[messages.Asked], known[messages.AskedMany]],
    )
    paths["/v1/experiments/{name}/tell"] = _fast_path_description(
        "tell", "The reward of a ticket, or rewards of many.", known[messages.Tell], [known[messages.Told]]
    )
    scopes = _scopes_by_route(app)
    for path, routes in paths.items():
        for verb, route in routes.items():
            _add_answer_description(route, verb, path, known)
            route["responses"].pop("422", None)
            if path in _PUBLIC_PATHS:
                route["security"] = []
                continue
            route["security"] = [{"key": scopes.get((verb, path), [])}]
            for status, words in _REASONS.items():
                problem = {"application/json": {"schema": known[messages.Problem]}}
                route["responses"].setdefault(str(status), {"description": words, "content": problem})
    return found


def _scopes_by_route(app: FastAPI) -> dict[tuple[str, str], list[str]]:
    """Which scope of a key each route asks for: as it does so, not as somebody wrote down."""
    out = {("post", f"/v1/experiments/{{name}}/{verb}"): [verb] for verb in ("ask", "tell")}
    for route in app.routes:
        if isinstance(route, APIRoute):
            asked = [getattr(part.call, "scope", None) for part in route.dependant.dependencies]
            asked.append((route.openapi_extra or {}).get("x-scope"))
            for verb in route.methods or ():
                out[verb.lower(), route.path] = [scope for scope in asked if scope]
    return out


def _add_answer_description(route: dict[str, Any], verb: str, path: str, known: dict[Any, dict[str, Any]]) -> None:
    """Say how a good answer looks, and give an example."""
    route.pop("x-scope", None)
    sample = API_EXAMPLES[verb, path]
    good = next(status for status in route["responses"] if status.startswith("2"))
    answer = route["responses"][good]
    if isinstance(sample.answer, str):
        answer["content"] = {kind: {"schema": {"type": "string"}} for kind in sample.answer.split()}
    else:
        content = {} if verb == "post" and path.endswith("/ask") else {"schema": known[sample.answer]}
        json = {**answer.get("content", {}).get("application/json", {}), **content, "example": sample.answered}
        others = {kind: {"schema": {"type": "string"}} for kind in sample.also}
        answer["content"] = {"application/json": json, **others}
    if sample.sent is not None:
        route["requestBody"]["content"]["application/json"]["example"] = sample.sent
    elif path == "/v1/import":
        file = {"schema": {"type": "string", "format": "binary"}}
        route["requestBody"] = {"required": True, "content": {"application/octet-stream": file}}


def _fast_path_description(name: str, words: str, body: dict[str, Any], good: list[dict[str, Any]]) -> dict[str, Any]:
    schema = good[0] if len(good) == 1 else {"oneOf": good}
    return {
        "post": {
            "tags": ["ask and tell"],
            "summary": words,
            "operationId": name,
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {"200": {"description": "On disk", "content": {"application/json": {"schema": schema}}}},
        }
    }
