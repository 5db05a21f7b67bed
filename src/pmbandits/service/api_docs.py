"""The description of all routes as a page: made here, so that nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from pmbandits.service.api_examples import API_EXAMPLES

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h2{margin-top:2.5rem}h3{font-size:1rem;margin:.5rem 0}section{border-top:1px solid #ccc;padding:.5rem 0}
code,pre{font:14px/1.45 ui-monospace,monospace;overflow-wrap:anywhere}
pre{background:#f4f4f4;padding:.6rem;white-space:pre-wrap}.verb{font-weight:700;color:#005a8c}
.scope{font-weight:400;color:#555;margin-left:1rem;white-space:nowrap}a{color:#005a8c}summary{cursor:pointer}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}
td{border-top:1px solid #ddd}td code{overflow-wrap:normal;white-space:nowrap}
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}pre{background:#262626}.verb,a{color:#7cc4f0}
.scope{color:#bbb}section,td{border-color:#444}}
"""
_GROUPS = ("experiments", "ask and tell", "control", "reading", "keys", "health")
_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list"}


def api_docs_page(description: dict[str, Any]) -> str:
    """A page with all routes."""
    groups: dict[str, list[str]] = {name: [] for name in _GROUPS}
    for verb, path in API_EXAMPLES:  # in the order in which somebody needs them
        route = description["paths"][path][verb]
        groups.setdefault(route.get("tags", ["other"])[0], []).append(_route_html(verb, path, route, description))
    body = "".join(f'<h2 id="{_anchor_of_heading(name)}">{escape(name.capitalize())}</h2>{"".join(parts)}'
                   for name, parts in groups.items() if parts)  # fmt: skip
    links = ", ".join(
        f'<a href="#{_anchor_of_heading(name)}">{escape(name)}</a>' for name, parts in groups.items() if parts
    )
    words = escape(description["info"].get("description") or "")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The interface of pmbandits</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>The interface of pmbandits {escape(description['info']['version'])}</h1><p>{words}</p>"
        "<p>Send a key with every request: <code>Authorization: Bearer pmb_…</code> In the examples, the key and the "
        "address of the service are in the variables <code>PMBANDITS_KEY</code> and <code>PMBANDITS_URL</code>. "
        'For programs, the same description is at <a href="/v1/openapi.json">/v1/openapi.json</a>. '
        'What went wrong is said like this: <code>{"error": "one sentence"}</code>.</p>'
        f"<p>On this page: {links}.</p>{body}</body></html>"
    )


def _anchor_of_heading(name: str) -> str:
    return name.replace(" ", "-")


def _route_html(verb: str, path: str, route: dict[str, Any], description: dict[str, Any]) -> str:
    scopes = [scope for need in route.get("security", []) for scope in need.get("key", [])]
    needs = f"needs a key for <b>{scopes[0]}</b>" if scopes else "needs any key" if route["security"] else "no key"
    query = [
        (part["name"], part.get("schema", {}), part.get("required", False), part.get("description", ""))
        for part in route.get("parameters", [])
        if part["in"] == "query"
    ]
    content = route.get("requestBody", {}).get("content", {})
    sent = "".join(_fields_table("Body", _fields_of_schema(kind.get("schema", {}), description), description)
                   for media, kind in content.items() if media == "application/json")  # fmt: skip
    return (
        f'<section><h3><span class="verb">{escape(verb.upper())}</span> <code>{escape(path)}</code> '
        f'<span class="scope">{needs}</span></h3>'
        f"{_paragraphs_with_code(route.get('description') or route.get('summary') or '')}"
        f"{_fields_table('In the address', query, description)}{sent}"
        f"<p>Example</p><pre>{escape(_curl_example(verb, path))}</pre>"
        f"{_response_html(route, description)}</section>"
    )


def _paragraphs_with_code(text: str) -> str:
    """Paragraphs; what stands between double backticks is code."""
    parts = [escape(part.strip()) for part in text.split("\n\n") if part.strip()]
    return re.sub("``(.+?)``", r"<code>\1</code>", "".join(f"<p>{part}</p>" for part in parts))


def _curl_example(verb: str, path: str) -> str:
    """The example as a command."""
    sample = API_EXAMPLES[verb, path]
    free = path in ("/health", "/ready")
    words = ["curl -sS", *([] if free else ['-H "Authorization: Bearer $PMBANDITS_KEY"'])]
    if verb != "get":
        words.append(f"-X {verb.upper()}")
    words.append(f'"$PMBANDITS_URL{path.replace("{name}", "shop")}{sample.query}"')
    if sample.sent is not None:
        words.append(f"-d '{json.dumps(sample.sent)}'")
    elif path == "/v1/import":
        words.append("--data-binary @shop.pmb")
    elif path.endswith("/export"):
        words.append("-o shop.pmb")
    return " ".join(words)


def _response_html(route: dict[str, Any], description: dict[str, Any]) -> str:
    status, answer = next((code, found) for code, found in route["responses"].items() if code.startswith("2"))
    out = []
    for media, kind in answer.get("content", {}).items():
        if "example" not in kind:
            out.append(f"<p>Answer ({status}) as <code>{escape(media)}</code></p>")
            continue
        schemas = kind["schema"].get("oneOf", [kind["schema"]])
        fields = "".join(
            _fields_table(f"Fields of {_ref_name(schema)}", _fields_of_schema(schema, description), description)
            for schema in _with_nested_schemas(schemas, description)
        )
        more = f"<details><summary>All fields of the answer</summary>{fields}</details>" if fields else ""
        out.append(f"<p>Answer ({status})</p><pre>{escape(_pretty_json(kind['example']))}</pre>{more}")
    return "".join(out)


def _pretty_json(value: Any, deep: str = "") -> str:
    """JSON for people: what is short stands in one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(deep) <= 90 or not isinstance(value, (dict, list)):
        return line
    more = deep + "  "
    if isinstance(value, dict):
        parts = [f"{more}{json.dumps(name)}: {_pretty_json(part, more)}" for name, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{deep}}}"
    return "[\n" + ",\n".join(more + _pretty_json(part, more) for part in value) + f"\n{deep}]"


def _with_nested_schemas(schemas: Iterable[dict[str, Any]], description: dict[str, Any]) -> list[dict[str, Any]]:
    """These schemas and all that they are made of, each once."""
    seen: dict[str, dict[str, Any]] = {}
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop(0)
        if "$ref" in schema and schema["$ref"] not in seen:
            seen[schema["$ref"]] = schema
            text = json.dumps(_resolve_ref(schema, description))
            waiting += [{"$ref": name} for name in re.findall(r'"\$ref": "([^"]+)"', text)]
    return list(seen.values())


Field = tuple[str, dict[str, Any], bool, str]  # its name, kind, whether it must be given, and what it means


def _fields_of_schema(schema: dict[str, Any], description: dict[str, Any]) -> list[Field]:
    found = _resolve_ref(schema, description)
    needed = found.get("required", [])
    return [
        (name, part, name in needed, _field_description(part)) for name, part in found.get("properties", {}).items()
    ]


def _field_description(part: dict[str, Any]) -> str:
    inside = (one["description"] for one in part.get("anyOf", []) if "description" in one)
    return str(part.get("description") or next(inside, ""))


def _fields_table(title: str, fields: list[Field], description: dict[str, Any]) -> str:
    if not fields:
        return ""
    rows = []
    for name, part, needed, meaning in fields:
        usual = part.get("default")
        must = "" if needed else " (may be left out)" if usual in (None, {}, []) else f" (usually {usual})"
        kind = escape(_type_name(part, description) + must)
        rows.append(f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{escape(meaning)}</td></tr>")
    return f"<p>{escape(title)}</p><table>{''.join(rows)}</table>"


def _ref_name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _resolve_ref(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    name = _ref_name(schema)
    found: dict[str, Any] = description["components"]["schemas"].get(name, {}) if name else schema
    return found


def _type_name(schema: dict[str, Any], description: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _ref_name(schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type_name(part, description) for part in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type_name(schema.get('items', {}), description)}"
    if kind == "number" or kind == "integer":
        ends = [schema.get("minimum"), schema.get("maximum")]
        shown = [f"{end:,}" for end in ends if end is not None and abs(end) < 2**53]
        return str(_WORDS.get(kind, kind)) + (f" ({' to '.join(shown)})" if len(shown) == 2 else "")
    return str(_WORDS.get(kind, kind))
