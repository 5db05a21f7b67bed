"""The description of all routes as a page: made here, so that nothing is loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h2{margin-top:2.5rem}section{border-top:1px solid #ccc;padding:.5rem 0}code,pre{font:14px/1.4 ui-monospace,monospace}
pre{background:#f4f4f4;padding:.6rem;overflow:auto}.verb{font-weight:700;color:#005a8c}
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}pre{background:#262626}.verb{color:#7cc4f0}}
"""


def page(description: dict[str, Any]) -> str:
    """A page with all routes."""
    groups: dict[str, list[str]] = {}
    for path, routes in description["paths"].items():
        for verb, route in routes.items():
            groups.setdefault(route.get("tags", ["other"])[0], []).append(_route(verb, path, route, description))
    body = "".join(f"<h2>{escape(group)}</h2>{''.join(parts)}" for group, parts in groups.items())
    words = escape(description["info"].get("description") or "")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The interface of pmbandits</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>The interface of pmbandits {escape(description['info']['version'])}</h1><p>{words}</p>"
        "<p>Send a key with every request: <code>Authorization: Bearer pmb_…</code> "
        'For programs, the same description is at <a href="/v1/openapi.json">/v1/openapi.json</a>.</p>'
        f"{body}</body></html>"
    )


def _route(verb: str, path: str, route: dict[str, Any], description: dict[str, Any]) -> str:
    words = escape(route.get("description") or route.get("summary") or "")
    rows = [
        f"{part['name']}: {_kind(part.get('schema', {}), description)}"
        for part in route.get("parameters", [])
        if part["in"] == "query"
    ]
    query = f"<p>In the address:</p><pre>{escape(chr(10).join(rows))}</pre>" if rows else ""
    content = route.get("requestBody", {}).get("content", {})
    sent = "".join(
        f"<p>Body:</p><pre>{escape(_shape(kind.get('schema', {}), description))}</pre>" for kind in content.values()
    )
    return (
        f'<section><p><span class="verb">{escape(verb.upper())}</span> <code>{escape(path)}</code></p>'
        f"<p>{words}</p>{query}{sent}</section>"
    )


def _found(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = description["components"]["schemas"].get(name, {}) if name else schema
    return found


def _shape(schema: dict[str, Any], description: dict[str, Any]) -> str:
    """The fields of an object, one in a line."""
    found = _found(schema, description)
    needed = found.get("required", [])
    lines = []
    for name, part in found.get("properties", {}).items():
        more = part.get("description") or next(
            (p["description"] for p in part.get("anyOf", []) if "description" in p), ""
        )
        must = "" if name in needed else " (may be left out)"
        lines.append(f"{name}: {_kind(part, description)}{must}{'. ' + more if more else ''}")
    return "\n".join(lines) or _kind(found, description)


def _kind(schema: dict[str, Any], description: dict[str, Any]) -> str:
    found = _found(schema, description)
    if "anyOf" in found:
        return " or ".join(dict.fromkeys(_kind(part, description) for part in found["anyOf"]))
    if "enum" in found:
        return " | ".join(map(str, found["enum"]))
    if found.get("type") == "array":
        return f"list of {_kind(found.get('items', {}), description)}"
    return str(found.get("type", "anything"))
