"""Metrics, oracle and import."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from scipy.optimize import minimize

import pmbandits as pmb
from benchmarks.timing import best_of, cpu_of, fresh_import
from pmbandits.optimize.concave import maximise_concave
from pmbandits.tables.from_distributions import survival_table
from pmbandits.tables.survival_table import SurvivalTable


def tables() -> Iterator[Table]:
    yield samples()
    yield best_mixture()
    yield imports()


def samples() -> Table:
    table = Table(title="U_h of 1e6 samples against np.sort of the same array (goal ≤ 1.5)")
    for head in ("metric", "U_h, ms", "np.sort, ms", "ratio", "limited by"):
        table.add_column(head, justify="left" if head in ("metric", "limited by") else "right")
    x = np.random.default_rng(0).normal(size=1_000_000)
    u = np.arange(1_000_000) / 1_000_000
    for metric in (
        pmb.Mean(),
        pmb.GiniDeviation(),
        pmb.WangRightTail(),
        pmb.UpperCVaR(0.9),
        pmb.Quadratic(0.5),
        pmb.PHT(0.3),
        pmb.InvertedS(0.7),
        pmb.TverskyKahneman(0.61),
    ):
        sort = best_of(lambda: np.sort(x))
        ours = best_of(lambda m=metric: m.value(x))
        bare = best_of(lambda m=metric: m(u))
        limit = "the sort" if bare < sort else f"h itself ({1e3 * bare:.0f} ms for its exp, log, pow)"
        table.add_row(repr(metric), f"{1e3 * ours:.1f}", f"{1e3 * sort:.1f}", f"{ours / sort:.2f}", limit)
    return table


def best_mixture() -> Table:
    table = Table(
        title="Best mixture of K = 100 arms against scipy's SLSQP (same start, gradient by the same O(atoms) pass)",
        caption="shared: 1,000 atoms common to all arms; own: 1,000 atoms each. Loss: relative to the better of both.",
    )
    for head in ("atoms", "metric", "ours, CPU ms", "rel. gap", "SLSQP, CPU ms", "its loss", "its steps", "faster"):
        table.add_column(head, justify="left" if head in ("atoms", "metric") else "right")
    rng = np.random.default_rng(0)
    count = 100
    own = pmb.Bandit.from_samples(
        [rng.beta(*rng.uniform(0.5, 4, 2), size=1000) + rng.uniform(0, 0.5) for _ in range(count)]
    )
    draws = [rng.multinomial(5000, rng.dirichlet(np.full(1000, 0.1))) for _ in range(count)]
    shared = pmb.Bandit([np.repeat(np.arange(1000) / 1000, row) for row in draws])
    for label, bandit in (("shared", shared), ("own", own)):
        for metric in (pmb.GiniDeviation(), pmb.WangRightTail(), pmb.Quadratic(0.5), pmb.UpperCVaR(0.9)):
            laid = survival_table(metric, list(bandit.distributions), np.eye(count))
            start = np.full(count, 1 / count)
            weights, gap, _ = maximise_concave(metric, laid, start, accuracy=1e-9, scale=1e-300)
            ours = cpu_of(lambda m=metric, p=laid, s=start: maximise_concave(m, p, s, accuracy=1e-9, scale=1e-300), 5)
            theirs = cpu_of(lambda m=metric, p=laid, s=start: slsqp(m, p, s), 3)
            other = slsqp(metric, laid, start)
            value = laid.value(metric, weights)
            best = max(value, -other.fun)
            table.add_row(
                label,
                repr(metric),
                f"{1e3 * ours:.1f}",
                f"{gap / value:.0e}",
                f"{1e3 * theirs:.0f}",
                f"{max(0.0, (best + other.fun) / best):.0e}",
                str(other.nit),
                f"{theirs / ours:.0f}×",
            )
    return table


def slsqp(metric: pmb.Distortion, laid: SurvivalTable, start: np.ndarray) -> object:
    def loss(a: np.ndarray) -> float:
        return -laid.value(metric, np.maximum(a, 0.0))

    def slope(a: np.ndarray) -> np.ndarray:
        curve = laid.curve_of_mixture(np.maximum(a, 0.0))
        cells = np.nan_to_num(curve.choose_by_side(metric._negative_dual_dh, metric._dh), posinf=1e6)
        return -laid.sum_cells_times_curves_by_arm(laid.cell_widths * cells, curve.split)

    ones = np.ones(start.size)
    return minimize(
        loss,
        start,
        jac=slope,
        bounds=[(0, 1)] * start.size,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda _: ones},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )


def imports() -> Table:
    table = Table(title="Import time in a fresh interpreter, ms")
    table.add_column("statement")
    table.add_column("ms", justify="right")
    for statement in (
        "import pmbandits",
        "import pmbandits as pmb; pmb.GiniDeviation(); pmb.Bandit",
        "import numpy",
        "import numba",
        "import scipy.stats",
    ):
        table.add_row(statement, f"{1e3 * fresh_import(statement):.0f}")
    return table
