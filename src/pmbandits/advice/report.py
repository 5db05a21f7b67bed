"""Advice that you can send: as one HTML file that needs nothing else, as Markdown, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pmbandits import _html
from pmbandits._files import write_whole
from pmbandits.advice import drawing, words
from pmbandits.advice.evidence import value_of
from pmbandits.advice.spoken import spoken
from pmbandits.supports import Binary, Finite, Interval, Real

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice, AdviceTable, ArmAdvice

KINDS = (".html", ".htm", ".md", ".json", ".png", ".svg", ".pdf")
_DRAWN = 20  # arms in a picture
_BADGES = {"surely": ("sure", "yes"), "looks": ("likely, not sure", "open"), "unclear": ("not decided", "no")}
_STYLE = """
body { margin: 0; color: #1b1f24; background: #fff; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto,
sans-serif; } main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1.1rem 3rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; border-top: 1px solid #d8dee4;
  padding-top: .8rem; }
p { margin: .5rem 0; } .soft { color: #57606a; font-size: .88rem; }
.answer { font-size: 1.2rem; font-weight: 600; line-height: 1.35; }
.badge { display: inline-block; font-size: .85rem; font-weight: 600; padding: .05rem .6rem; border-radius: .8rem;
  border: 1px solid; }
.yes { color: #0b5a44; background: #e6f4ef; } .no { color: #9a3400; background: #fdeee5; }
.open { color: #6b5200; background: #fdf8e6; }
.warning { padding: .5rem .9rem; border-left: 4px solid #c04a00; background: #fdeee5; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .88rem; display: block; max-width: 100%;
  overflow-x: auto; } th, td { text-align: left; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid #d8dee4; } code, pre { font: .84rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
pre { background: #f6f8fa; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
li { margin: .25rem 0; } svg { display: block; margin: .4rem 0; max-width: 100%; height: auto; }
@media print { main { max-width: none; padding: 0; } h2, svg, tr { break-inside: avoid; } h2 { break-after: avoid; } }
"""


def save(result: Advice | AdviceTable, path: str | Path) -> Path:
    """Write a report or a picture; the ending of the name says which."""
    where = Path(path)
    kind = where.suffix.lower()
    if kind not in KINDS:
        raise ValueError(
            f"a report ends in .html, .md or .json, a picture in .png, .svg or .pdf, got {where.name!r}; "
            "a report in HTML can be printed to PDF from a browser."
        )
    if kind in (".png", ".svg", ".pdf"):
        result.plot(where)
        return where
    if kind == ".json":
        text = json.dumps(result.to_dict(), ensure_ascii=False, indent=1, allow_nan=False)
    else:
        text = markdown(result) if kind == ".md" else page(result)
    where.parent.mkdir(parents=True, exist_ok=True)
    write_whole(where, lambda file: file.write(text.encode("utf-8")))
    return where


def page(result: Advice | AdviceTable) -> str:
    """One HTML file: no other file, no script, nothing from elsewhere."""
    title = f"Advice on {_all(result)[0].log.source}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>{body(result)}</main></body></html>\n"
    )


def body(result: Advice | AdviceTable) -> str:
    """The content of the page, which notebooks show, too."""
    every = _all(result)
    parts = []
    if len(every) > 1 or not _is_one(result):
        head, *rows = result.rows()
        parts.append(_html.table(head, rows))
        parts.append(_html.paragraphs([*words.general_notes(every[0]), *words.general_checks(every[0])]))
    for advice in every:
        if len(every) > 1:
            parts.append(f"<h2>{escape(meaning(advice))}</h2>")
        parts += _answer(advice, len(every) == 1)
    parts += _crossed(every)
    shown = every[0]
    parts += _arms(shown)
    for advice in every:
        parts += _preference(advice)
    parts += _data(shown)
    parts.append("<h2>How to repeat it</h2>" + f"<pre>{escape(shown.repeat)}</pre>")
    return "".join(parts)


def _all(result: Advice | AdviceTable) -> list[Advice]:
    from pmbandits.advice.result import Advice

    return [result] if isinstance(result, Advice) else list(result)


def _is_one(result: Advice | AdviceTable) -> bool:
    from pmbandits.advice.result import Advice

    return isinstance(result, Advice)


def meaning(advice: Advice) -> str:
    """The preference in words."""
    return f"{advice.metric!r}: {spoken(advice.metric)}"


def _answer(advice: Advice, alone: bool) -> list[str]:
    said, kind = _BADGES[advice.sure]
    order = sorted(range(len(advice.names)), key=lambda k: -advice.weights[k])
    played = [k for k in order if advice.weights[k] > 0.0]
    rows = [(a.name, a.utility, a.interval, k) for k, a in _worth_rows(advice)]
    if len(played) > 1:
        rows.append(("recommended", advice.value, advice.interval, -1))
    left = len(advice.names) - len(rows) + (len(played) > 1)
    out = [f'<p class="warning">{escape(w)}</p>' for w in advice.warnings]  # what must be known comes first
    out.append(f'<p class="answer">{escape(advice.recommendation)}</p>')
    if advice.tied:
        out.append(f"<p>{escape(advice.reason)}</p>")
    elif len(advice.names) > 1:
        out.append(f'<p><span class="badge {kind}">{said}</span> {escape(advice.reason)}</p>')
    out += [f"<p>{escape(said)}</p>" for said in (advice.price, advice.outlook) if said]
    if len(played) > 1:
        out.append(
            drawing.shares([advice.names[k] for k in played], [float(advice.weights[k]) for k in played], played)
        )
    if not any(t.no_average for t in advice.tails):
        known = any(isfinite(low) for _, _, (low, _), _ in rows)
        off = "Lines show how far that may be off." if known else "How far that may be off is not known."
        out.append(f'<p class="soft">What each arm is worth by this preference. {off}</p>')
        out.append(drawing.worths(rows))
        out.append(f'<p class="soft">{left:,} more arms, of lower worth, are not drawn.</p>' if left > 0 else "")
    once = () if alone else (*words.general_notes(advice), *words.general_checks(advice))  # they stand at the top
    listed = "".join(f"<li>{escape(note)}</li>" for note in (*advice.checks, *advice.notes) if note not in once)
    out.append(f"<details open><summary>Checks and notes</summary><ul>{listed}</ul></details>")
    return out


def _worth_rows(advice: Advice) -> Iterator[tuple[int, ArmAdvice]]:
    order = sorted(range(len(advice.arms)), key=lambda k: (-advice.arms[k].share, -advice.arms[k].utility))
    for k in order[:_DRAWN]:
        yield k, advice.arms[k]


def _arms(advice: Advice) -> list[str]:
    order = sorted(range(len(advice.arms)), key=lambda k: (-advice.arms[k].share, -advice.arms[k].utility))
    shown = sorted(order[:_DRAWN])
    samples = [advice.log.arms[k].all for k in shown]
    picture, scale = drawing.distributions([advice.names[k] for k in shown], samples, shown)
    far = max(float(s.x[-1]) for s in samples), min(float(s.x[0]) for s in samples)
    left = len(advice.names) - len(shown)
    said = (
        "Each line shows the rewards without the lowest and the highest 5 %. The box holds the middle half, the bar "
        f"is the median, and the circle the average. The scale is {scale.words}. The rewards that are not drawn reach "
        f"down to {far[1]:.4g} and up to {far[0]:.4g}."
    )
    more = f" {left:,} more arms are not drawn." if left else ""
    table = _html.table(
        ("arm", "rewards", "average", "worth", "probably between", "share"),
        advice.rows(),
    )
    hidden = len(advice.arms) - len(advice.rows())
    rest = f'<p class="soft">… and {hidden:,} more arms.</p>' if hidden else ""
    by = f'<p class="soft">Worth is by {escape(repr(advice.metric))}.</p>'
    return ["<h2>The arms</h2>", picture, f'<p class="soft">{said}{more}</p>', by, table, rest]


def _crossed(every: Sequence[Advice]) -> list[str]:
    """What each of several choices loses by the preferences that did not choose it."""
    if len(every) < 2:
        return []
    rows = [(f"{k}", repr(a.metric), *cells) for k, (a, cells) in enumerate(zip(every, losses(every), strict=True), 1)]
    head = ("", "by this preference", *(f"choice {k}" for k in range(1, len(every) + 1)))
    said = "How much less each choice is worth than the best one, by each of the preferences, in these data."
    return ["<h2>What a choice loses by the others</h2>", f'<p class="soft">{said}</p>', _html.table(head, rows)]


def losses(every: Sequence[Advice]) -> list[list[str]]:
    """For each preference (row): what the choice by each of them (column) loses, in percent where that has a sense."""
    samples = [arm.all for arm in every[0].log.arms]
    out = []
    for judge in every:
        best, cells = judge.apparent, []
        for other in every:
            lost = max(best - value_of(judge.metric, samples, other.weights), 0.0)
            lost = 0.0 if lost <= 1e-9 * abs(best) else lost
            cells.append(
                "–" if lost == 0.0 else f"{words.few_digits(100 * lost / best)} %" if best > 0.0 else f"{lost:.3g}"
            )
        out.append(cells)
    return out


def _preference(advice: Advice) -> list[str]:
    """How much outcomes count, from the worst to the best: the slope of h, averaged over hundredths."""
    u = np.linspace(1.0, 0.0, 101)
    h = np.asarray(advice.metric(u), dtype=np.float64)
    weight = (h[:-1] - h[1:]) * 100.0
    said = meaning(advice)
    explained = (
        "How much outcomes count, from the worst to the best. Below “not at all” larger rewards lower the worth."
    )
    return [f"<h2>What is valued: {escape(said)}</h2>", drawing.attention(np.linspace(0.005, 0.995, 100), weight),
            f'<p class="soft">{explained}</p>']  # fmt: skip


def _data(advice: Advice) -> list[str]:
    log = advice.log
    rows = [
        ("source", log.source),
        ("rows read", f"{log.rows:,}"),
        ("rows used", f"{log.used:,}"),
        ("arms", f"{len(log.arms):,}"),
        ("rewards of an arm", _span(sorted(a.n for a in log.arms))),
        ("where rewards can lie", _support(advice)),
    ]
    examples = "".join(f"<li>{escape(str(bad))}</li>" for bad in log.shown())
    account = log.account()
    return [
        "<h2>The data</h2>",
        _html.table((), rows),
        f"<p>{escape(account)}</p><ul>{examples}</ul>" if account else "<p>Every row could be used.</p>",
    ]


def _span(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"


def _support(advice: Advice) -> str:
    support = advice.support
    if isinstance(support, Binary):
        return "0 or 1"
    if isinstance(support, Interval):
        known = "seen, not known" if advice.support_assumed else "declared"
        return f"{support.lo:g} to {support.hi:g} ({known})"
    if isinstance(support, Finite):
        return f"{support.atoms.size} numbers from {support.lo:g} to {support.hi:g} (declared)"
    return f"any number, σ = {support.sigma:g} (declared)" if isinstance(support, Real) else f"{support!r} (declared)"


def markdown(result: Advice | AdviceTable) -> str:
    """The same as Markdown, without pictures."""
    every = _all(result)
    lines = [f"# Advice on {_plain(every[0].log.source)}", ""]
    if not _is_one(result):
        lines += [*_table(result.rows()), ""]
        lines += [
            *(f"- {_plain(note)}" for note in (*words.general_notes(every[0]), *words.general_checks(every[0]))),
            "",
        ]
    for advice in every:
        if len(every) > 1:
            lines += [f"## {_plain(meaning(advice))}", ""]
        for warning in advice.warnings:
            lines += [f"> **Mind:** {_plain(warning)}", ""]
        lines += [f"**{_plain(advice.recommendation)}**", "", _plain(advice.reason), ""]
        lines += [line for said in (advice.price, advice.outlook) if said for line in (_plain(said), "")]
        once = () if _is_one(result) else (*words.general_notes(advice), *words.general_checks(advice))
        lines += [*(f"- {_plain(note)}" for note in (*advice.checks, *advice.notes) if note not in once), ""]
        head = ("arm", "rewards", "average", "worth", "probably between", "share")
        lines += [*_table([head, *advice.rows()]), ""]
        hidden = len(advice.arms) - len(advice.rows())
        lines += [f"… and {hidden:,} more arms.", ""] if hidden else []
    log = every[0].log
    lines += ["## The data", "", f"{log.rows:,} rows read, {log.used:,} used, {len(log.arms):,} arms."]
    lines += [_plain(log.account()), *(f"- {_plain(str(bad))}" for bad in log.shown())]
    lines += ["", "## How to repeat it", "", "```", every[0].repeat, "```", ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Put a backslash before the signs that Markdown would read."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = [[_plain(cell) for cell in row] for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rest)]
