"""The paper's four tables, computed: each entry comes from a metric's (q, 𝓛) and (β, β̄).

=====  ==================================  ===========================================================
table  label in the paper                  shows
=====  ==================================  ===========================================================
1      ``table:table_regrets``             how regret falls with T, UCB-type and ETC-type, β = 1 and 2
2      ``table:table_regrets_bernoulli``   how regret of PM-ETC-M falls with T for K Bernoulli arms
3      ``table:beta_values``               β and β̄ for Bernoulli arms
4      ``table:table_risks``               Hölder exponents and constants
=====  ==================================  ===========================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pmbandits import _html, _text_tables, _validation
from pmbandits._text_tables import escape_latex
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import (
    PHT,
    DualPower,
    GiniDeviation,
    InterESRange,
    Mean,
    MeanMedianDeviation,
    Quadratic,
    UpperCVaR,
    WangRightTail,
)
from pmbandits.supports import Interval
from pmbandits.theory.exponents import Range, known_exponents
from pmbandits.theory.rates import Rate, format_power, rate

# The nine metrics of the paper's tables; where it leaves a parameter open, an ordinary one.
PAPER_METRICS: tuple[Distortion, ...] = (
    Mean(),
    DualPower(2.0),
    Quadratic(0.5),
    UpperCVaR(0.9),
    PHT(0.5),
    MeanMedianDeviation(),
    InterESRange(),
    WangRightTail(),
    GiniDeviation(),
)


@dataclass(frozen=True)
class Formula:
    """h(u), as text and for LaTeX."""

    text: str


@dataclass(frozen=True)
class WidthScaledConstant:
    """A number times a power of the support's width: the Hölder constant 𝓛."""

    factor: float
    power: float


@dataclass(frozen=True)
class PaperTable:
    """One of the paper's tables: its rows as data, and as text, Markdown or LaTeX.

    Attributes
    ----------
    number, title, equation : which table it is.
    head : the names of the columns.
    rows : for each metric a tuple of values (:class:`Distortion`, :class:`Rate`, :class:`Range`, text, ``None``).
    notes : where the printed table and the paper's own formulas differ, and what the entries need.
    """

    number: int
    title: str
    equation: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The table as text with aligned columns."""
        lines = _text_tables.aligned_columns(self.cells(), rule=True)
        notes = [f"Note: {note}" for note in self.notes]
        return "\n".join([f"Table {self.number}. {self.title} ({self.equation})", *lines, *notes])

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [
            f"**Table {self.number}.** {self.title} (`{self.equation}`)",
            "",
            _text_tables.markdown_table_text(self.cells()),
        ]
        lines += [f"\n{note}" for note in self.notes]
        return "\n".join(lines)

    def latex(self) -> str:
        """The table in LaTeX. It is ASCII, and needs no package."""
        rows = [
            [escape_latex(name) for name in self.head],
            *([_format_cell_as_latex(v) for v in row] for row in self.rows),
        ]
        return _text_tables.latex_table(rows, caption=escape_latex(self.title), label=self.equation, ready=True)

    def cells(self) -> list[list[str]]:
        """All cells as text, row by row; the first row has the names of the columns."""
        return [list(self.head), *([format_cell(v) for v in row] for row in self.rows)]

    def _repr_html_(self) -> str:
        head, *rows = self.cells()
        title = f"Table {self.number}. {self.title} ({self.equation})"
        return _html.html_titled_block(title, _html.html_table(head, rows), _html.html_paragraphs(self.notes))

    def render(self, form: str = "text") -> str:
        """The table as ``"text"``, ``"markdown"`` or ``"latex"``."""
        _validation.check_choice("format", form, ["text", "markdown", "latex"])
        return str(getattr(self, form)())

    def __str__(self) -> str:
        return self.text()


def table(number: int, metrics: Sequence[Distortion | str] | None = None) -> PaperTable:
    """Work out table 1, 2, 3 or 4 of the paper, for its nine metrics or for yours.

    Parameters
    ----------
    number : which table.
    metrics : any metrics with a Hölder pair; by default those of the paper.

    Examples
    --------
    >>> print(table(1).text())
    Table 1. How fast regret falls with T (table:table_regrets)
    metric            UCB-type, β = 1          UCB-type, β = 2          ETC-type, β = 1          ETC-type, β = 2
    ...
    GiniDeviation     T^(−1/4)·(log T)^(1/4)   T^(−1/6)·(log T)^(1/6)   T^(−1/3)·(log T)^(1/2)   T^(−1/5)·(log T)^(1/4)
    ...
    >>> str(table(2, metrics=[GiniDeviation()]).rows[0][2])
    'T^(−1/5)·(log T)^(1/4)'
    """
    number = _validation.check_whole_number("table number", number, 1, 4)
    chosen = [as_metric(metric) for metric in (PAPER_METRICS if metrics is None else metrics)]
    if number == 1 and metrics is None:  # the paper's table has the differentiable ones
        chosen = [metric for metric in chosen if not metric.kinks]
    return replace(_EMPTY_TABLES[number - 1], rows=tuple(map(_ROW[number], chosen)))


def _rates_row(metric: Distortion) -> tuple[Any, ...]:
    q = known_exponents(metric).q
    return (metric, *(rate(family, q, beta) for family in ("ucb", "etc") for beta in (1.0, 2.0)))


def _bernoulli_rates_row(metric: Distortion) -> tuple[Any, ...]:
    known = known_exponents(metric)
    slow = rate("etc", known.q, known.beta_bar.high) if known.beta_bar is not None else None
    fast = rate("etc_one_arm", known.q) if known.one_arm else None
    return metric, "one arm" if known.one_arm else "a mixture", slow, fast


def _gap_exponents_row(metric: Distortion) -> tuple[Any, ...]:
    known = known_exponents(metric)
    formula = Formula(metric.formula) if metric.formula and not len(metric.terms) > 1 else None
    return metric, formula, known.beta, known.beta_bar, known.proviso or None


def _holder_pair_row(metric: Distortion) -> tuple[Any, ...]:
    pair = metric.holder(Interval(0.0, 1.0))
    return metric, _fraction_with_small_denominator(pair.q), WidthScaledConstant(pair.constant, 1.0 - pair.q)


_ROW = {1: _rates_row, 2: _bernoulli_rates_row, 3: _gap_exponents_row, 4: _holder_pair_row}
_EMPTY_TABLES = (
    PaperTable(
        1,
        "How fast regret falls with T",
        "table:table_regrets",
        ("metric", "UCB-type, β = 1", "UCB-type, β = 2", "ETC-type, β = 1", "ETC-type, β = 2"),
        notes=(
            "β = 1 where one arm alone is best, 2 where a mixture is, also if that lies on the simplex's boundary (the "
            "paper says 1 there: see pmb.theory.gradient_exponent).",
            "The printed ETC column has T^(1/β)·ϖ(T^γ) for q = 1 and ϖ^(1/β)(T^γ) for q = ½; theorem:PM-ETC-M gives "
            "ϖ^(q²/β)(T^γ), which is what is here. If the first is read as ϖ^(1/β)(T^γ), with its superscript moved, "
            "the entries with q = 1 agree.",
            "In every row the ETC-type rate is the faster one, for both β: q²/(2β + q) is more than q²/(2β + 2q).",
        ),
    ),
    PaperTable(
        2,
        "How fast PM-ETC-M's regret falls with T for K Bernoulli arms",
        "table:table_regrets_bernoulli",
        ("metric", "best is", "with δ_13", "with δ_12, ε = 1"),
        notes=(
            "β̄ at the upper end of its range. With ε = 1 only single arms are compared.",
            "Where a mixture is best the entry rests on the β̄ of table 3, which was found to hold for two arms only.",
            "For Wang's right-tail deviation the printed entry equals T^(−1/18)·(log T)^(1/8); "
            "theorem:PM-ETC-M_beta13 gives (log T)^(1/16).",
        ),
    ),
    PaperTable(
        3,
        "Gap exponents for Bernoulli arms",
        "table:beta_values",
        ("metric", "h(u)", "β", "β̄", "needs"),
        notes=(
            "With three arms or more, where h peaks inside (0, 1), gaps were measured to shrink about twice as fast as "
            "β̄ says, or to be 0; see pmb.theory.known_exponents.",
        ),
    ),
    PaperTable(
        4,
        "Hölder exponents and constants with respect to the Wasserstein distance",
        "table:table_risks",
        ("metric", "q", "𝓛"),
        notes=("Z − V is the width of the rewards' support; where it occurs the support must be bounded.",),
    ),
)


# ---- how values are written ------------------------------------------------------------------------------
def format_cell(value: Any) -> str:
    """Format a value of a table as plain text."""
    if value is None:
        return "–"
    if isinstance(value, Distortion):
        return repr(value).replace("()", "")
    if isinstance(value, Formula):
        return value.text
    if isinstance(value, WidthScaledConstant):
        width = "" if value.power == 0.0 else f"(Z − V)^({_fraction_with_small_denominator(value.power)})"
        return width if width and value.factor == 1.0 else f"{value.factor:g}{'·' + width if width else ''}"
    return str(value)


def _format_cell_as_latex(value: Any) -> str:
    if value is None:
        return "--"
    if isinstance(value, Distortion):
        return rf"\texttt{{{escape_latex(format_cell(value))}}}"
    if isinstance(value, Formula):
        return f"${_formula_to_latex(value.text)}$"
    if isinstance(value, Rate):
        slow = r"\log T" if value.log == 1 else rf"(\log T)^{{{format_power(value.log)}}}"
        return rf"$T^{{-{format_power(value.horizon)}}}\,{slow}$"
    if isinstance(value, (Range, Fraction)):
        return f"${value}$"
    if isinstance(value, WidthScaledConstant):
        width = "" if value.power == 0.0 else f"(Z-V)^{{{_fraction_with_small_denominator(value.power)}}}"
        return f"${width}$" if width and value.factor == 1.0 else f"${value.factor:g}{width}$"
    return escape_latex(str(value))


_LATEX_MATH = {
    "−": "-",
    "²": "^2",
    "α": r"\alpha",
    "β": r"\beta",
    "γ": r"\gamma",
    "λ": r"\lambda",
    "Φ⁻¹": r"\Phi^{-1}",
    "Φ": r"\Phi",
    "≤": r"\le",
    "·": r"\cdot ",
    "min(": r"\min(",
    "max(": r"\max(",
    "exp(": r"\exp(",
    "ln ": r"\ln ",
    "shift": r"\mathrm{shift}",
    "upper": r"\mathrm{upper}",
    "lower": r"\mathrm{lower}",
}


def _formula_to_latex(text: str) -> str:
    text = re.sub(r"√(\w)", r"\\sqrt{\1}", text).replace("1{", r"\mathbf{1}\{")
    if r"\mathbf{1}\{" in text:
        text = text[:-1] + r"\}"
    pattern = "|".join(re.escape(sign) for sign in _LATEX_MATH)
    return re.sub(pattern, lambda found: _LATEX_MATH[found[0]], text)


def _fraction_with_small_denominator(x: float) -> Fraction:
    return Fraction(x).limit_denominator(1000)
