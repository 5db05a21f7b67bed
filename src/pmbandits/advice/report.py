"""Advice that you can send: as one HTML file that needs nothing else, as Markdown, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmbandits import _html
from pmbandits._files import write_atomically
from pmbandits.advice import sentences, svg_charts
from pmbandits.advice.inference import utility_of_mixture
from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.supports import Binary, Finite, Interval, Real

if TYPE_CHECKING:
    from jinja2 import Environment

    from pmbandits.advice.result import Advice, AdviceTable

FILE_SUFFIXES = (".html", ".htm", ".md", ".json", ".png", ".svg", ".pdf")
_MOST_ARMS_DRAWN = 20  # arms in a picture


def save(result: Advice | AdviceTable, path: str | Path) -> Path:
    """Write a report or a figure; the suffix of the path says which."""
    where = Path(path)
    kind = where.suffix.lower()
    if kind not in FILE_SUFFIXES:
        raise ValueError(
            f"a report ends in .html, .md or .json, a picture in .png, .svg or .pdf, got {where.name!r}; "
            "a report in HTML can be printed to PDF from a browser."
        )
    if kind in (".png", ".svg", ".pdf"):
        result.plot(path=where)
        return where
    if kind == ".json":
        text = json.dumps(result.to_dict(), ensure_ascii=False, indent=1, allow_nan=False)
    else:
        text = markdown(result) if kind == ".md" else html_page(result)
    where.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(where, lambda file: file.write(text.encode("utf-8")))
    return where


def html_page(result: Advice | AdviceTable) -> str:
    """The report as one self-contained HTML page, without scripts."""
    return _render("report.html", result)


def html_body(result: Advice | AdviceTable) -> str:
    """The HTML body of the report, which notebooks show, too."""
    return _render("body.html", result)


def markdown(result: Advice | AdviceTable) -> str:
    """The report as Markdown, without figures."""
    return _render("report.md", result)


@cache
def _templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    made = _html.environment(lambda name: (folder / name).read_text(encoding="utf-8"))
    made.globals |= {
        "most_drawn": _MOST_ARMS_DRAWN,
        "width": svg_charts.WIDTH,
        "left_margin": svg_charts.LEFT,
        "row_height": svg_charts.ROW,
    }
    made.filters |= {
        "isfinite": isfinite,
        "md": _escape_markdown,
        "place": lambda value, scale: scale.place(value),
        "px": "{:.1f}".format,
        "rank_weights": svg_charts.rank_weights,
        "share_bar": svg_charts.share_bar,
        "shorten": svg_charts.shorten,
        "metric_title": metric_title,
        "repr": repr,
        "utility_rows": lambda advice: svg_charts.utility_rows(advice, _MOST_ARMS_DRAWN),
        "utility_scale": svg_charts.utility_scale,
    }
    return made


def _render(template: str, result: Advice | AdviceTable) -> str:
    all_advice = list(result) if isinstance(result, Sequence) else [result]
    first = all_advice[0]
    shown = sorted(first.by_share()[:_MOST_ARMS_DRAWN])
    boxes = svg_charts.boxes([first.names[k] for k in shown], [first.log.arms[k].all for k in shown], shown)
    return (
        _templates()
        .get_template(template)
        .render(
            title=f"Advice on {first.log.source}",
            single=not isinstance(result, Sequence),
            all_advice=all_advice,
            first=first,
            overview=result.rows(),
            general=[*sentences.general_notes(first), *sentences.general_checks(first)],
            losses=_cross_losses_table(all_advice),
            boxes=boxes,
            box_scale=svg_charts.box_scale(boxes),
            reward_range=(min(first.log.arms[k].x[0] for k in shown), max(first.log.arms[k].x[-1] for k in shown)),
            arms_head=sentences.ARMS_HEAD,
            data_rows=_data_rows(first),
        )
    )


def metric_title(advice: Advice) -> str:
    """The metric with its description in words, as a title."""
    return f"{advice.metric!r}: {describe_metric(advice.metric)}"


def _cross_losses_table(all_advice: Sequence[Advice]) -> list[tuple[str, ...]]:
    """A table of what the choice by each metric loses by the other metrics, with its head."""
    head = ("", "by this preference", *(f"choice {k}" for k in range(1, len(all_advice) + 1)))
    rows = zip(all_advice, cross_metric_losses(all_advice), strict=True)
    return [head, *((f"{k}", repr(advice.metric), *cells) for k, (advice, cells) in enumerate(rows, 1))]


def cross_metric_losses(all_advice: Sequence[Advice]) -> list[list[str]]:
    """For each preference (row): what the choice by each of them (column) loses, in percent where that has a sense."""
    samples = [arm.all for arm in all_advice[0].log.arms]
    out = []
    for row_advice in all_advice:
        best, cells = row_advice.apparent, []
        for other in all_advice:
            lost = max(best - utility_of_mixture(row_advice.metric, samples, other.weights), 0.0)
            if lost <= 1e-9 * abs(best):
                cells.append("–")
            else:
                cells.append(f"{sentences.two_digits(100 * lost / best)} %" if best > 0.0 else f"{lost:.3g}")
        out.append(cells)
    return out


def _data_rows(advice: Advice) -> list[tuple[str, str]]:
    log = advice.log
    counts = [arm.n for arm in log.arms]
    return [
        ("source", log.source),
        ("rows read", f"{log.rows:,}"),
        ("rows used", f"{log.used:,}"),
        ("arms", f"{len(log.arms):,}"),
        ("rewards of an arm", " to ".join(f"{n:,}" for n in sorted({min(counts), max(counts)}))),
        ("where rewards can lie", _support_text(advice)),
    ]


def _support_text(advice: Advice) -> str:
    support = advice.support
    if isinstance(support, Binary):
        return "0 or 1"
    if isinstance(support, Interval):
        known = "seen, not known" if advice.support_assumed else "declared"
        return f"{support.lo:g} to {support.hi:g} ({known})"
    if isinstance(support, Finite):
        return f"{support.atoms.size} numbers from {support.lo:g} to {support.hi:g} (declared)"
    return f"any number, σ = {support.sigma:g} (declared)" if isinstance(support, Real) else f"{support!r} (declared)"


def _escape_markdown(text: Any) -> str:
    """The text with Markdown's special characters escaped."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in str(text))
