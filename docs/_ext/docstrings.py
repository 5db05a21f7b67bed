"""Our docstrings for autodoc: ``name : what it is`` under *Parameters* means a description, not a type."""

from __future__ import annotations

import re
from typing import Any

import pmbandits

# Powers and indices that are written in one line, such as T^(1/2), T^γ, δ_13 or log_{A/2}, become small letters.
_POWER = re.compile(r"(?<=[\w)\]}|])\^(?:\(([^()]*)\)|([−-]?\w+))")
_INDEX = re.compile(r"(?<![\w`:.])(log|max|min|[^\W\d_])_(?:\{([^{}]*)\}|(\w{1,2})(?![\w(]))")
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.*)$")
_ROLE = re.compile(r":(class|func|meth):`([A-Za-z_]\w*)(\.\w+)?`")


def _prose(line: str) -> str:
    """Bars are absolute values here, and short names are those of the package."""

    def full(found: re.Match[str]) -> str:
        known = found[2] in pmbandits.__all__
        return f":{found[1]}:`~pmbandits.{found[2]}{found[3] or ''}`" if known else found[0]

    if line.lstrip().startswith((">>>", "...")):
        return line
    pieces = re.split(r"(``.*?``|:\w+:`.*?`)", _ROLE.sub(full, line))
    return "".join(piece if piece.startswith(("``", ":")) else _typeset(piece) for piece in pieces)


def _typeset(text: str) -> str:
    raised = _POWER.sub(lambda found: rf"\ :sup:`{(found[1] or found[2]).strip()}`\ ", text)
    lowered = _INDEX.sub(lambda found: rf"{found[1]}\ :sub:`{found[2] or found[3]}`\ ", raised)
    return lowered.replace("|", r"\|")


def _convert(lines: list[str]) -> list[str]:
    out: list[str] = []
    section = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        under = lines[at + 1].strip() if at + 1 < len(lines) else ""
        if line.strip() and re.fullmatch(r"-{3,}", under):
            section = line.strip()
            out += ["", f".. rubric:: {section}", ""]
            at += 2
            continue
        entry = _ENTRY.match(line) if section in ("Parameters", "Attributes") else None
        if entry:
            names = ", ".join(f"``{name}``" for name in entry[1].split(", "))
            out += [names, f"    {_prose(entry[2])}"]
        else:
            out.append(_prose(line))
        at += 1
    return out


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _convert(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
