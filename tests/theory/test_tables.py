"""The paper's tables: each entry follows from (q, β), and the printed ones agree except where they are said not to."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from tests.reference import theory as paper
from tests.strategies import SMOOTH

theory = pmb.theory
HORIZONS = (10**3, 10**6, 10**12)


@pytest.mark.parametrize("row", theory.table(1).rows, ids=lambda row: repr(row[0]))
def test_table_1_is_the_two_theorems_at_both_exponents(row: tuple[Any, ...]) -> None:
    metric, ucb_1, ucb_2, etc_1, etc_2 = row
    q = metric.holder(pmb.Interval(0, 1)).q
    for horizon in HORIZONS:
        assert ucb_1.at(horizon) == pytest.approx(paper.ucb_rate(horizon, 1, q, 1), rel=1e-12)
        assert ucb_2.at(horizon) == pytest.approx(paper.ucb_rate(horizon, 1, q, 2), rel=1e-12)
        assert etc_1.at(horizon) == pytest.approx(paper.etc_rate(horizon, 1, q, 1), rel=1e-12)
        assert etc_2.at(horizon) == pytest.approx(paper.etc_rate(horizon, 1, q, 2), rel=1e-12)
        # as printed: ϖ(T)^(2κ) for q = 1, ϖ(T)^κ for q = ½
        for beta, cell in ((1, ucb_1), (2, ucb_2)):
            kappa = 1 / (2 * beta / q + 2)
            assert cell.at(horizon) == pytest.approx(paper.varpi(horizon) ** (2 * q * kappa), rel=1e-12)


def test_table_1_has_the_papers_metrics() -> None:
    names = [row[0].name for row in theory.table(1).rows]
    assert names == ["mean", "dual_power", "quadratic", "pht", "wang_right_tail", "gini_deviation"]


@pytest.mark.parametrize("row", theory.table(2).rows, ids=lambda row: repr(row[0]))
def test_table_2_is_as_printed_but_for_one_power_of_the_logarithm(row: tuple[Any, ...]) -> None:
    metric, best, slow, fast = row
    printed_slow, printed_fast = paper.PRINTED_TABLE_2[metric.name]
    for horizon in HORIZONS:
        wrong = np.log(horizon) ** (1 / 16) if metric.name == "wang_right_tail" else 1.0  # the paper's slip
        assert slow.at(horizon) * wrong == pytest.approx(printed_slow(horizon), rel=1e-12)
        if printed_fast is not None:
            assert fast.at(horizon) == pytest.approx(printed_fast(horizon), rel=1e-12)
    assert (fast is None) == (printed_fast is None) == (best == "a mixture")


def test_table_2_says_where_a_mixture_is_best_as_the_oracle_does() -> None:
    bandit = pmb.Bandit.bernoulli([0.03, 0.21, 0.93])  # on both sides of every peak
    for metric, best, *_ in theory.table(2).rows:
        if not isinstance(metric, pmb.UpperCVaR):  # flat above 1 − c: arms tie there
            assert pmb.oracle(metric, bandit).is_mixture == (best == "a mixture")


@pytest.mark.parametrize("row", theory.table(3).rows, ids=lambda row: repr(row[0]))
def test_table_3_is_as_printed(row: tuple[Any, ...]) -> None:
    metric, formula, beta, beta_bar, _ = row
    printed = paper.PRINTED_TABLE_3[metric.name]
    assert [None if r is None else (r.low, r.high) for r in (beta, beta_bar)] == list(printed)
    assert formula.text == metric.formula


@pytest.mark.parametrize("metric", [m for m in SMOOTH if not isinstance(m._holder_modulus_or_reason(), str)], ids=repr)
def test_the_holder_pairs_of_table_4_hold_on_random_laws(metric: pmb.Distortion) -> None:
    ((_, q, constant),) = theory.table(4, [metric]).rows
    rng = np.random.default_rng(0)
    for width in (1.0, 7.0):
        points = np.sort(rng.uniform(0, width, 12))
        for _ in range(40):
            a, b = rng.dirichlet(np.full(12, 0.3)), rng.dirichlet(np.full(12, 0.3))
            distance = float((np.abs(np.cumsum(a) - np.cumsum(b))[:-1] * np.diff(points)).sum())
            values = [metric.value(points, weights=w) for w in (a, b)]
            limit = constant.factor * width**constant.power * distance ** float(q)
            assert abs(values[0] - values[1]) <= limit * (1 + 1e-9) + 1e-12


def test_rates_are_exact_fractions() -> None:
    ((_, *cells),) = theory.table(1, [pmb.WangRightTail()]).rows
    assert [cell.horizon for cell in cells] == [Fraction(1, 12), Fraction(1, 20), Fraction(1, 10), Fraction(1, 18)]


def test_tables_take_metrics_of_ones_own() -> None:
    mine = pmb.Mean() + 3 * pmb.GiniDeviation()
    for number in (1, 2, 3, 4):
        found = theory.table(number, [mine, pmb.PHT(0.123)])
        assert len(found.rows) == 2 and "PHT(s=0.123)" in found.text()
    assert "a mixture" in theory.table(2, [mine]).text()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_three_forms_have_the_same_cells(number: int) -> None:
    found = theory.table(number)
    text, markdown, latex = found.text(), found.markdown(), found.latex()
    assert latex.isascii()
    body = [line for line in latex.splitlines() if line.strip().startswith(r"\texttt")]
    lines = [line for line in markdown.splitlines() if line.startswith("| ")][2:]
    assert len(body) == len(lines) == len(found.rows)
    for row, line, source in zip(found.rows, lines, body, strict=True):
        assert source.count(" & ") == len(row) - 1 and source.endswith(r"\\")
        assert line.count(" | ") == len(row) - 1
        name = repr(row[0]).replace("()", "")
        assert name in text and name in line and name in source
        assert source.count("$") % 2 == 0 and source.count("{") == source.count("}")
    assert latex.count(r"\begin{") == latex.count(r"\end{") == 2
    assert found.equation in text and found.render("latex") == latex and str(found) == text


def test_every_formula_of_the_library_is_written_in_ascii_mathematics() -> None:
    from pmbandits.theory.tables import _formula_to_latex

    for metric in SMOOTH:
        if len(metric.terms) == 1:
            assert _formula_to_latex(metric.formula).isascii(), metric.formula


@pytest.mark.parametrize("bad", [0, 5, "one", 1.5])
def test_there_are_four_tables(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="table number"):
        theory.table(bad)
    with pytest.raises(ValueError, match="unknown format 'html'"):
        theory.table(1).render("html")
