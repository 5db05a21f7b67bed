"""The page: one HTML file that needs nothing else, for a reviewer to read."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path
from typing import Any

from pmbandits import __version__
from research import store
from research.outcome import TWO_ERRORS, VERDICTS
from research.registry import ours

_MARKS = {
    "holds": ("yes", "✓"),
    "does not hold": ("no", "✗"),
    "depends on a choice": ("some", "◐"),
    "not decidable": ("open", "?"),
    "not observed": ("open", "–"),
}
_STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --paper: #fff; --panel: #f6f8fa; --link: #0059a3; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.55 Charter, "Bitstream Charter", "Sitka Text", Cambria, Georgia, serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1.1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 1rem 0 .4rem; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 3rem 0 .6rem; padding-top: .8rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .4rem; }
p { margin: .6rem 0; max-width: 46rem; }
a { color: var(--link); }
.lead { color: var(--soft); }
.sans, table, .badge, figcaption, nav { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .84rem; line-height: 1.4; min-width: 100%; }
caption { text-align: left; color: var(--soft); padding: .2rem 0 .4rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; background: var(--panel); }
td.num { white-space: nowrap; font-variant-numeric: tabular-nums; }
.badge { display: inline-block; white-space: nowrap; font-size: .8rem; font-weight: 600; padding: .05rem .5rem;
  border-radius: .8rem; border: 1px solid; }
.yes { color: #0b5a44; border-color: #0b5a44; background: #e6f4ef; }
.no { color: #9a3400; border-color: #9a3400; background: #fdeee5; }
.some { color: #6b4e00; border-color: #8a6500; background: #fdf6e0; }
.open { color: #4d4d4d; border-color: #777; background: #f2f2f2; }
.counts { display: flex; flex-wrap: wrap; align-items: center; gap: .6rem; margin: .6rem 0; }
.counts .badge { font-size: .95rem; padding: .25rem .9rem; }
.claim { margin: .7rem 0; padding: .7rem .9rem; background: var(--panel); border-left: 4px solid var(--line); }
.claim p { margin: .3rem 0; }
.claim.is-yes { border-color: #0b7a5b; } .claim.is-no { border-color: #c04a00; }
.claim.is-some { border-color: #b58900; } .claim.is-open { border-color: #888; }
.note { padding: .6rem .9rem; border: 1px solid #b58900; background: #fdf8e6; }
figure { margin: 1.2rem 0; } figure img { width: 100%; height: auto; background: #fff; }
figcaption, .files { font-size: .84rem; color: var(--soft); }
code, pre { font: .84rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
pre { background: var(--panel); padding: .7rem .9rem; overflow-x: auto; }
@media (max-width: 40rem) { body { font-size: 15px; } h1 { font-size: 1.5rem; } .wide { display: none; } }
@media print { .claim, figure, tr { break-inside: avoid; } a { color: inherit; } }
"""


PAPER = (
    "Meltem Tatlı, Arpan Mukherjee, Prashanth L.A., Karthikeyan Shanmugam and Ali Tajer: <em>Preference-centric "
    "Bandits: Optimality of Mixtures and Regret-efficient Algorithms</em>, arXiv:2504.20877. Partly presented as "
    "<em>Risk-sensitive Bandits: Arm Mixture Optimality and Regret-efficient Algorithms</em>, AISTATS 2025, PMLR "
    "258:3871."
)


def put_page(folder: Path, *, seed: int, quick: bool) -> Path:
    """Write ``claims.json`` and ``index.html`` from what is in the folder."""
    claims = store.put_claims(folder, seed=seed, quick=quick)
    path = folder / "index.html"
    store.write(path, render(folder, claims).encode())
    return path


def render(folder: Path, claims: dict[str, Any]) -> str:
    """The page as text."""
    records, times = store.records(folder), store.timings(folder)
    quick = claims["quick"]
    theirs = [record for record in records if not ours(record["name"])]
    own = [record for record in records if ours(record["name"])]
    parts = [_own_questions_note(quick)]
    if theirs:
        parts = [
            _head(claims),
            _summary(theirs, "What the paper claims", "claims", quick=quick, ours=False),
            _summary(theirs, "What we asked besides", "questions", quick=quick, ours=True),
        ]
    if own:
        title = "Goals of this library, which are no claims of the paper"
        parts.append(_summary(own, title, "goals", quick=quick, ours=True))
    parts += [_section(folder, record, times.get(record["name"], {})) for record in records]
    parts.append(_provenance(claims, times))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Preference-centric bandits, reproduced</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def label(name: str) -> str:
    """``fig3`` as a reader would write it.

    >>> label("fig3"), label("table2"), label("solitary")
    ('Figure 3', 'Table 2', 'Introduction')
    """
    found = re.fullmatch(r"(fig|table)(\d+)", name)
    if found:
        return f"{'Figure' if found[1] == 'fig' else 'Table'} {found[2]}"
    known = {"risk": "Risk-sensitive bandits", "family": "Our own comparison", "solitary": "Introduction"}
    return known.get(name, "Beyond the paper")


def badge(verdict: str) -> str:
    kind, mark = _MARKS[verdict]
    return f'<span class="badge {kind}">{mark} {escape(verdict)}</span>'


def _counts(name: str, counts: dict[str, int]) -> str:
    """Whose claims, how many, and a badge for each verdict with how often it was reached."""
    badges = "".join(
        f'<span class="badge {_MARKS[verdict][0]}">{_MARKS[verdict][1]} {count} {escape(verdict)}</span>'
        for verdict, count in counts.items()
        if count or verdict in ("holds", "does not hold")
    )
    return f'<div class="counts"><strong>{sum(counts.values())} {name}:</strong>{badges}</div>\n'


def _head(claims: dict[str, Any]) -> str:
    counts = _counts("claims of the paper", claims["counts"]["paper"])
    counts += _counts("questions of our own", claims["counts"]["ours"])
    quick = (
        '<p class="note">Quick sizes: few trials and short horizons. Every verdict on this page is indicative only; '
        "run without <code>--quick</code> to decide.</p>"
        if claims["quick"]
        else ""
    )
    meanings = "".join(f"<li>{badge(verdict)} {escape(meaning)}.</li>" for verdict, meaning in VERDICTS.items())
    return (
        "<h1>Preference-centric bandits: the experiments, reproduced</h1>\n"
        f'<p class="sans">{PAPER}</p>\n'
        '<p class="lead">Every figure and table of the paper’s empirical section: what it claims, what we measured, '
        "and "
        "whether the claim holds. A claim that fails is shown as such; the point is to know, not to agree.</p>\n"
        f"{quick}{counts}<ul>{meanings}</ul>\n"
        "<p>A claim of the paper is judged as the paper states it: by its own rules and on its own range, where it "
        "gives them. Other readings, other ranges and stricter questions are ours, and are counted apart.</p>\n"
        "<p>Regret is always V(α*) − V(τ<sub>T</sub>/T): the utility of the shares that were played, not a sum of "
        "gaps. "
        "A difference counts when it is two standard errors away from 0; where a claim is judged by another rule, the "
        "rule stands at the claim. Bars and bands show one standard error. Where trials repeat the "
        "same arms, trials are the independent units; where several pairs of arms are played, pairs are.</p>\n"
        "<p><strong>Two readings.</strong> The constants of the paper’s confidence sets are kept exactly, and shown "
        "where they matter: at the horizons of these experiments they leave every mixture tied, so that what "
        "is played hangs on how ties are broken, not on confidence. Claims are judged on the same algorithms with "
        "tight, valid "
        "confidence sets. PM-ETC-M uses no confidence set.</p>\n"
        "<p>The paper names no arms for its Bernoulli experiments and no constants for its schedules of ε. What was "
        "chosen, "
        "and why, is said at each figure; all choices are in <code>research/instances.py</code>. The pictures are "
        "missing in the LaTeX source that we have. Where a range of one of the paper’s pictures is named here, it "
        "comes from notes that somebody made who saw them, and we could not check it.</p>"
    )


def _own_questions_note(quick: bool) -> str:
    """The head of a page on which nothing is about the paper."""
    note = '<p class="note">Quick sizes: few trials and short horizons. Nothing here decides anything.</p>'
    return "<h1>pmbandits: policies compared</h1>\n" + (note if quick else "")


def _claims_by_owner(record: dict[str, Any], *, ours: bool) -> list[dict[str, Any]]:
    """The claims of an experiment that are the paper's, or those that are ours."""
    return [claim for claim in record["claims"] if bool(claim["source"]) != ours]


def _summary(records: list[dict[str, Any]], title: str, anchor: str, *, quick: bool, ours: bool) -> str:
    rows = []
    for record in records:
        for k, claim in enumerate(_claims_by_owner(record, ours=ours)):
            first = f'<a href="#{escape(record["name"])}">{escape(label(record["name"]))}</a>' if k == 0 else ""
            rows.append(
                "<tr><td "
                f'class="num">{first}</td><td>{escape(claim["says"])}</td><td>{badge(claim["verdict"])}</td></tr>'
            )
    head = "verdict" + (" (indicative)" if quick else "")
    return (
        f'<h2 id="{anchor}">{title}</h2>\n<div class="scroll"><table><thead><tr><th>where</th><th>claim</th>'
        f"<th>{head}</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _section(folder: Path, record: dict[str, Any], times: dict[str, Any]) -> str:
    name = record["name"]
    out = [f'<h2 id="{escape(name)}">{escape(label(name))}. {escape(record["title"])}</h2>']
    for mine, head in ((False, "The paper claims"), (True, "We asked besides")):
        found = _claims_by_owner(record, ours=mine)
        if found and not ours(name):
            out.append(f"<h3>{head}</h3>")
        out += [_claim(claim) for claim in found]
    for figure in record["figures"]:
        picture = base64.b64encode((folder / "figures" / f"{figure}.svg").read_bytes()).decode()
        claims_text = " ".join(f"{claim['says']} {claim['verdict']}." for claim in record["claims"])
        files = f'<a href="figures/{figure}.svg">SVG</a>, <a href="figures/{figure}.png">PNG</a>'
        out.append(
            f'<figure><img alt="{escape(record["title"])}. {escape(claims_text)}" '
            f'src="data:image/svg+xml;base64,{picture}">'
            f"<figcaption>{escape(label(name))}. {escape(record['title'])}. {files}.</figcaption></figure>"
        )
    out += [f"<p>{escape(paragraph)}</p>" for paragraph in record["text"]]
    out += [_table(shown) for shown in record["shown"]]
    if times.get("table"):
        out.append(_table(times["table"]))
        out.append(
            '<p class="files">These seconds are the only numbers here that another machine, or another run, '
            "changes.</p>"
        )
    links = [f'<a href="data/{d}.{s}">{d}.{s}</a>' for d in record["data"] for s in ("csv", "parquet")]
    if links:
        out.append(f'<p class="files sans">Data: {", ".join(links)}</p>')
    return "\n".join(out)


def _claim(claim: dict[str, Any]) -> str:
    kind = _MARKS[claim["verdict"]][0]
    below = []
    if claim["source"]:
        below.append(f"In the paper: {claim['source']}.")
    if claim["rule"] != TWO_ERRORS:
        below.append(f"Rule: {claim['rule']}.")
    if claim["timed"]:
        below.append("Seconds of the machine that made this page: another run may decide otherwise.")
    note = f'<p class="files">{escape(" ".join(below))}</p>' if below else ""
    return (
        f'<div class="claim is-{kind}"><p>{badge(claim["verdict"])} <strong>{escape(claim["says"])}</strong></p>'
        f"<p>{escape(claim['evidence'])}</p>{note}</div>"
    )


def _table(shown: dict[str, Any]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in shown["heads"])
    body = "".join(
        "<tr>" + "".join(f'<td class="num">{escape(cell)}</td>' for cell in row) + "</tr>" for row in shown["rows"]
    )
    return (
        f'<div class="scroll"><table><caption>{escape(shown["caption"])}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _provenance(claims: dict[str, Any], times: dict[str, Any]) -> str:
    quick = " --quick" if claims["quick"] else ""
    seed = f" --seed {claims['seed']}" if claims["seed"] else ""
    rows = [
        [label(n) + ("" if n[:3] in ("fig", "tab") else f" ({n})"), f"{t['seconds']:.1f}"] for n, t in times.items()
    ]
    rows.append(["all", f"{sum(t['seconds'] for t in times.values()):.1f}"])
    table = _table({"caption": "Seconds, on the machine that made this page", "heads": ["", "seconds"], "rows": rows})
    return (
        '<h2 id="again">How this page was made</h2>\n'
        f"<p>pmbandits {escape(__version__)}, seed {claims['seed']}. The same seed gives the same data files, "
        "figures and "
        "verdicts, byte for byte, whatever the number of workers; only seconds differ, and with them what figure 8 "
        "says about seconds. Interrupted, the same command "
        "goes "
        "on where it was stopped.</p>\n"
        f"<pre>python -m research all{quick}{seed} --out FOLDER\npython -m research fig3 table2{quick}{seed} --out "
        "FOLDER</pre>\n"
        '<p>Verdicts for programs: <a href="claims.json">claims.json</a>.</p>\n' + table
    )
