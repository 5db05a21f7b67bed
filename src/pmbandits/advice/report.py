"""Advice that you can send: as one HTML file that needs nothing else, as Markdown, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pmbandits import __version__, _html
from pmbandits._files import write_atomically
from pmbandits.advice import charts, notes, sentences
from pmbandits.advice.inference import utility_of_mixture
from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.advice.numbers import NumberFormat, format_two_digits, plain_number
from pmbandits.supports import Binary, Finite, Interval

if TYPE_CHECKING:
    from jinja2 import Environment

    from pmbandits.advice.groups import AnswersByColumn
    from pmbandits.advice.result import Advice, AdviceTable

    Result: TypeAlias = "Advice | AdviceTable | AnswersByColumn[Any]"

FILE_SUFFIXES = (".html", ".htm", ".md", ".json", ".png", ".svg", ".pdf")
_MOST_ARMS_DRAWN = 20  # arms in a picture


def save_report(result: Result, path: str | Path, *, title: str = "", author: str = "") -> Path:
    """Write a report or a figure; the suffix of the path says which."""
    where = Path(path)
    kind = where.suffix.lower()
    if kind not in FILE_SUFFIXES:
        raise ValueError(
            f"a report ends in .html, .md or .json, a picture in .png, .svg or .pdf, got {where.name!r}; "
            "a report in HTML can be printed to PDF from a browser."
        )
    if kind in (".png", ".svg", ".pdf"):
        (result.whole if isinstance(result, Mapping) else result).plot(path=where)
        return where
    if kind == ".json":
        text = json.dumps(result.to_dict(), ensure_ascii=False, indent=1, allow_nan=False)
    else:
        text = _render_report_template("report.md" if kind == ".md" else "report.html", result, title, author)
    where.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(where, lambda file: file.write(text.encode("utf-8")))
    return where


def html_page(result: Result, *, title: str = "", author: str = "") -> str:
    """The report as one self-contained HTML page, without scripts."""
    return _render_report_template("report.html", result, title, author)


def html_body(result: Result) -> str:
    """The HTML body of the report, which notebooks show, too."""
    return _render_report_template("body.html", result)


def markdown_report(result: Result, *, title: str = "", author: str = "") -> str:
    """The report as Markdown, without figures."""
    return _render_report_template("report.md", result, title, author)


@cache
def _report_templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    made = _html.jinja_environment(lambda name: (folder / name).read_text(encoding="utf-8"))
    made.globals |= {
        "most_drawn": _MOST_ARMS_DRAWN,
        "id": id,
        "width": charts.WIDTH,
        "height": charts.HEIGHT,
        "left": charts.LEFT,
    }
    made.filters |= {
        "arms_head": sentences.arm_table_header,
        "attention": charts.attention_chart,
        "capitalise": lambda text: text[:1].upper() + text[1:],
        "describe": describe_metric,
        "md": _escape_markdown,
        "score_dots": charts.score_dot_chart,
        "share_parts": charts.share_bar_parts,
        "verdict": sentences.short_verdict,
    }
    return made


def _render_report_template(template: str, result: Result, title: str = "", author: str = "") -> str:
    groups, single = (result if isinstance(result, Mapping) else None), not isinstance(result, Sequence)
    whole = result.whole if isinstance(result, Mapping) else result
    all_advice = list(whole) if isinstance(whole, Sequence) else [whole]
    first = all_advice[0]
    survival, survival_note = charts.survival_chart(first)
    return (
        _report_templates()
        .get_template(template)
        .render(
            title=title or _default_title(first),
            made=_report_origin_lines(first, author),
            single=single,
            all_advice=all_advice,
            first=first,
            groups=groups,
            overview=None if single else result.rows(),
            caveats_of={id(a): a.without_before(a.caveats) for a in all_advice},
            common=[
                caveat
                for caveat in first.without_before(first.caveats)
                if all(caveat in other.caveats for other in all_advice)
            ],
            notes=[caveat for caveat in first.caveats if caveat.is_note and caveat.kind != "range not known"],
            changes=list(
                dict.fromkeys(
                    c.change for advice in all_advice for c in (advice.assumption, *advice.caveats) if c and c.change
                )
            ),
            method=first.notes if single else [*notes.general_notes(first), *notes.unchecked_assumptions(first)],
            losses=_table_of_losses_by_other_choices(all_advice),
            survival=survival,
            survival_note=survival_note,
            data_rows=_data_summary_rows(first),
        )
    )


def _default_title(advice: Advice) -> str:
    log = advice.log
    return f"{log.reward_column} by {log.arm_column}" if log.reward_column else f"Advice on {log.source}"


def _report_origin_lines(advice: Advice, author: str) -> list[str]:
    """When, from what, in which unit, and by whom the report was made."""
    log = advice.log
    return [
        date.today().isoformat(),
        f"from {log.source} ({log.used:,} {'rows' if log.arm_column else 'values'})",
        *([f"in {log.measured_in}"] if log.measured_in else []),
        f"by {author} with pmbandits {__version__}" if author else f"made with pmbandits {__version__}",
    ]


def _table_of_losses_by_other_choices(all_advice: Sequence[Advice]) -> list[tuple[str, ...]]:
    """A table of what the choice by each metric loses by the other metrics, with its head."""
    head = ("by this preference", *_different_choices(all_advice))
    rows = zip(all_advice, lost_by_other_choices(all_advice), strict=True)
    return [head, *((sentences.metric_title(advice.metric, advice.loss), *cells) for advice, cells in rows)]


def _different_choices(all_advice: Sequence[Advice]) -> dict[str, Advice]:
    """The choices, each once, by what stands at the head of a column, with the first advice that has it."""
    choices: dict[str, Advice] = {}
    for advice in all_advice:
        choices.setdefault(sentences.mixture_text(advice.mixture, advice.log.arm_column), advice)
    return choices


def lost_by_other_choices(all_advice: Sequence[Advice]) -> list[list[str]]:
    """For each preference (row): what each choice (column) loses; in percent, if that has a sense in all rows."""
    samples = [arm.whole_sample for arm in all_advice[0].log.arms]
    percent = all(advice.evidence.apparent > 0.0 for advice in all_advice)
    out = []
    for row_advice in all_advice:
        best, cells = row_advice.evidence.apparent, []
        for other in _different_choices(all_advice).values():
            lost = max(best - utility_of_mixture(row_advice.metric, samples, other.weights), 0.0)
            if lost <= 1e-9 * abs(best):
                cells.append("–")
            elif percent:
                cells.append(f"{format_two_digits(100 * lost / best)} %")
            else:
                cells.append(NumberFormat.for_resolution([lost], row_advice.log.measured_in).text_with_unit(lost))
        out.append(cells)
    return out


def _data_summary_rows(advice: Advice) -> list[tuple[str, str]]:
    log = advice.log
    what = "rows" if log.arm_column else "values"
    counts, weighted = [arm.n for arm in log.arms], "weighted " if notes.is_weighted(advice) else ""
    return [
        ("source", log.source),
        ("columns", f"{log.arm_column} (what was chosen), {log.reward_column} (the result)" if log.arm_column else "–"),
        (f"{what} read, {what} used", f"{log.rows:,}, {log.used:,}"),
        (f"different values of {sentences.arm_noun(advice)}", f"{len(log.arms):,}"),
        (f"{weighted}{what} of each", " to ".join(f"{n:,}" for n in sorted({min(counts), max(counts)}))),
        *([("weights", notes.weights_text(advice))] if weighted else []),
        ("where values can lie", _support_text(advice)),
    ]


def _support_text(advice: Advice) -> str:
    support = advice.support
    if isinstance(support, Binary):
        return "0 or 1"
    if advice.support_assumed:
        low, high = sorted(map(advice.shown, sentences.reward_range(advice)))
        seen = f"not declared; seen {plain_number(low)} to {plain_number(high)}"
        return f"{seen}, and a rare one far outside would not be foreseen"
    if isinstance(support, (Interval, Finite)):
        return f"{plain_number(support.lo)} to {plain_number(support.hi)} (declared)"
    return f"{support!r} (declared)"


def _escape_markdown(text: Any) -> str:
    """The text with Markdown's special characters escaped."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in str(text))
