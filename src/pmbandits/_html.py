"""Small pieces of HTML for notebooks: escaped, in one file, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.palette import arm_colour

if TYPE_CHECKING:
    from jinja2 import Environment

_CELL = "padding:2px 10px 2px 0;text-align:left;border:none"


def jinja_environment(load: Callable[[str], str]) -> Environment:
    """Jinja templates by name, as ``load`` returns them; whatever is put into HTML is escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=FunctionLoader(load),
        autoescape=lambda name: name is None or not name.endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {
        "table": lambda head, rows: Markup(html_table(head, rows)),
        "paragraphs": lambda sentences: Markup(html_paragraphs(sentences)),
    }
    return made


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A compact table; every cell is escaped."""
    top = "".join(f'<th style="{_CELL};border-bottom:1px solid #999">{escape(str(cell))}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(cell))}</td>' for cell in row) + "</tr>" for row in rows
    )
    start = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'<table style="border-collapse:collapse;margin:4px 0">{start}<tbody>{body}</tbody></table>'


def html_paragraphs(words: Sequence[str]) -> str:
    """Sentences, one below the other; empty ones are left out."""
    return "".join(f'<p style="margin:2px 0">{escape(text)}</p>' for text in words if text)


def html_titled_block(title: str, *parts: str) -> str:
    """A titled piece; the parts are HTML already."""
    return f'<div><div style="font-weight:bold;margin:2px 0">{escape(title)}</div>{"".join(parts)}</div>'


def html_side_by_side(*parts: str) -> str:
    """Pieces next to each other."""
    cells = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div style="display:flex;gap:24px;align-items:center;flex-wrap:wrap">{cells}</div>'


def svg_line_chart(
    x: FloatArray, lines: Sequence[FloatArray], *, label: str, steps: bool = False, width: int = 220, height: int = 130
) -> str:
    """Lines as an inline picture with its ranges written at the axes."""
    finite = np.concatenate([np.asarray(y)[np.isfinite(y)] for y in lines])
    lo, hi = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    lo, hi = min(lo, 0.0), max(hi, 0.0)
    hi = hi if hi > lo else lo + 1.0
    left, right = float(x[0]), float(x[-1]) if x[-1] > x[0] else float(x[0]) + 1.0
    inner, deep, edge = width - 46, height - 34, 38

    def across(v: float) -> float:
        return edge + inner * (v - left) / (right - left)

    def down(v: float) -> float:
        return 10 + deep * (hi - v) / (hi - lo)

    zero = f'<line x1="{edge}" x2="{edge + inner}" y1="{down(0):.1f}" y2="{down(0):.1f}" stroke="#999"/>'
    frame = f'<line x1="{edge}" x2="{edge}" y1="10" y2="{10 + deep}" stroke="#999"/>'
    paths = []
    for k, y in enumerate(lines):
        shown, before = [], None
        for a, b in zip(x.tolist(), np.asarray(y).tolist(), strict=True):
            if not np.isfinite(b):
                continue
            if steps and before is not None:
                shown.append(f"{across(a):.1f},{before:.1f}")
            before = down(b)
            shown.append(f"{across(a):.1f},{before:.1f}")
        paths.append(f'<polyline points="{" ".join(shown)}" fill="none" stroke="{arm_colour(k)}" stroke-width="2"/>')
    small = 'font-size="10" fill="currentColor" fill-opacity="0.8" font-family="sans-serif"'
    marks = (
        f'<text x="{edge - 4}" y="{down(hi) + 4:.1f}" text-anchor="end" {small}>{hi:.3g}</text>'
        f'<text x="{edge - 4}" y="{down(lo) + 4:.1f}" text-anchor="end" {small}>{lo:.3g}</text>'
        f'<text x="{edge}" y="{height - 8}" {small}>{left:.3g}</text>'
        f'<text x="{edge + inner}" y="{height - 8}" text-anchor="end" {small}>{right:.3g}</text>'
    )
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{zero}{frame}{"".join(paths)}{marks}</svg>'
    )


def html_share_bars(
    names: Sequence[str], shares: Sequence[float], *, places: Sequence[int] | None = None, most: int = 12
) -> str:
    """Shares as horizontal bars; ``places`` are those of the arms among all, for their colours."""
    rows = []
    places = range(len(names)) if places is None else places
    for name, share, place in list(zip(names, shares, places, strict=True))[:most]:
        wide = f"{max(min(float(share), 1.0), 0.0) * 160:.1f}"
        rows.append(
            f'<tr><td style="{_CELL}">{escape(name)}</td><td style="{_CELL}">'
            f'<span style="display:inline-block;height:10px;width:{wide}px;background:{arm_colour(place)}"></span> '
            f"{100 * float(share):.1f} %</td></tr>"
        )
    if len(names) > most:
        rows.append(f'<tr><td style="{_CELL}" colspan="2">… and {len(names) - most} more</td></tr>')
    return f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{"".join(rows)}</tbody></table>'
