"""Tables as text, Markdown and LaTeX; :mod:`pmbandits._html` makes those for notebooks. Cells are texts already."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

Rows = Sequence[Sequence[str]]

# What LaTeX would take for a command, and signs that its plain fonts do not have; what is longer comes first.
_LATEX = {
    "δ_13": r"$\delta_{13}$",
    "δ_12": r"$\delta_{12}$",
    "β̄": r"$\bar\beta$",
    "h(u)": "$h(u)$",
    "𝓛": r"$\mathcal{L}$",
    "ö": r"\"o",
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "ρ": r"$\rho$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
}


def aligned_columns(rows: Rows, right: Collection[int] = (), *, rule: bool = False) -> list[str]:
    r"""Rows of cells (heads first) as lines of text, one column below the other.

    Parameters
    ----------
    rows : the heads, and the lines below them.
    right : the numbers of the columns that are pushed to the right, such as columns of numbers.
    rule : whether a line of dashes stands below the heads.

    >>> print("\n".join(aligned_columns([("arm", "n"), ("a", "12")], right=[1], rule=True)))
    arm   n
    ---  --
    a    12
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(w) if k in right else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * w for w in widths), *lines[1:]] if rule else lines


def markdown_table_text(rows: Rows, right: Collection[int] = ()) -> str:
    r"""A table for Markdown, heads first.

    >>> print(markdown_table_text([("arm", "share"), ("a|b", "1")], right=[1]))
    | arm | share |
    | --- | ---: |
    | a\|b | 1 |
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    marks = "| " + " | ".join("---:" if k in right else "---" for k in range(len(rows[0]))) + " |"
    return "\n".join([lines[0], marks, *lines[1:]])


def latex_table(
    rows: Rows, right: Collection[int] = (), *, caption: str = "", label: str = "", ready: bool = False
) -> str:
    r"""A table for LaTeX that needs no package, heads first.

    Parameters
    ----------
    rows, right : as in :func:`aligned_columns`.
    caption, label : of the table.
    ready : whether the cells and the caption are LaTeX already. Otherwise they are plain text, and are made safe.

    >>> print(latex_table([("arm", "share"), ("a_1", "50 %")], right=[1]))
    \begin{table}
      \centering
      \begin{tabular}{lr}
        \hline
        arm & share \\
        \hline
        a\_1 & 50 \% \\
        \hline
      \end{tabular}
    \end{table}
    """
    lines = [" & ".join(cell if ready else escape_latex(cell) for cell in row) + r" \\" for row in rows]
    heads = [rf"\caption{{{caption if ready else escape_latex(caption)}}}"] if caption else []
    heads += [rf"\label{{{label}}}"] if label else []
    marks = "".join("r" if k in right else "l" for k in range(len(rows[0])))
    inner = ["    " + line for line in [r"\hline", lines[0], r"\hline", *lines[1:], r"\hline"]]
    body = ["  " + line for line in [*heads, r"\centering", rf"\begin{{tabular}}{{{marks}}}"]]
    return "\n".join([r"\begin{table}", *body, *inner, r"  \end{tabular}", r"\end{table}"])


def escape_latex(text: str) -> str:
    """Plain text as LaTeX."""
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)
