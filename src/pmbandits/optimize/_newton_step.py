"""The Newton step of the interior point method: equalities eliminated, then a Cholesky factorisation; compiled."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.optimize import _barrier_problem as at
from pmbandits.optimize._barrier_problem import TINY, corner_multiplier_stiffness, dot_in_blocks, survival_minus_place
from pmbandits.state.compile import inner_kernel

_BLOCK = 8  # cells that are added to the matrix at a time


@inner_kernel
def eliminate_equalities(w):
    """Which arms keep the equalities, and what they give for relative steps of the others; sets right their shares.

    They have shares as large as possible: one in each segment.
    """
    a, g, m = w.weights, w.give, w.level.size
    n = a.size
    for r in range(m):
        for i in range(n):
            g[r, i] = w.equal[r, i] * a[i]
        for q in range(m):
            g[r, n + q] = 1.0 * (q == r)
        g[r, n + m] = w.level[r] - dot_in_blocks(w.equal[r], a, n)
    for r in range(m):
        pivot = 0
        for i in range(n):
            if abs(g[r, i]) > abs(g[r, pivot]):
                pivot = i
        w.basic[r] = pivot
        inverse = 1.0 / g[r, pivot]
        for i in range(n + m + 1):
            g[r, i] *= inverse
        for q in range(m):
            factor = g[q, pivot]
            if q != r and factor != 0.0:
                for i in range(n + m + 1):
                    old = g[q, i]
                    new = old - factor * g[r, i]
                    g[q, i] = new if abs(new) > 1e-15 * abs(old) else 0.0
    for r in range(m):
        i = int(w.basic[r])
        a[i] *= 1.0 + g[r, n + m]


@inner_kernel
def square_roots_of_stiffness(w):
    """The root of how stiff V is in each cell; then of corners inside panels, and of limits."""
    cells, n_kinks, mu = w.cell_widths.size, w.kinks.shape[0], w.numbers[at.MU]
    out = np.empty(w.rows.shape[1])
    for c in range(cells):
        p = w.p[c]
        bend = -w.bend[c] * p * p
        if not abs(bend) < np.inf:  # far out in a tail h'' overflows; it is about h'/p there
            bend = abs(w.slope[c]) * p
        root = math.sqrt(w.cell_widths[c] * bend) / p if p > 0.0 and 0.0 < bend < np.inf else 0.0
        if mu > 0.0 and w.corner_widths[c] > 0.0 and p > 0.0:
            stiff = 0.0
            for k in range(n_kinks):
                stiff -= w.kinks[k, 1] * corner_multiplier_stiffness(
                    survival_minus_place(w.sign[c], w.kinks[k, 0], w.p[c]), w.duals[k, c], mu
                )
            root = math.hypot(root, math.sqrt(w.corner_widths[c] * max(stiff, 0.0)))
        out[c] = root
    for k in range(n_kinks):
        out[cells + k] = math.sqrt(w.extra[k])
    for f in range(w.bound.size):
        out[cells + n_kinks + f] = math.sqrt(w.limit_price[f] / w.slack[f])
    return out


@inner_kernel
def factorise_newton_matrix(w, roots):
    """The matrix of the equations for the arms that are not basic, as Uᵀ·D·U; which arms these are, and their scale."""
    a, m = w.weights, w.level.size
    n = a.size - m
    order, is_basic = np.empty(n, np.int64), np.zeros(a.size, np.bool_)
    for r in range(m):
        is_basic[int(w.basic[r])] = True
    n_rest = 0
    for i in range(a.size):
        if not is_basic[i]:
            order[n_rest] = i
            n_rest += 1
    matrix, block = np.zeros((n, n)), np.zeros((_BLOCK, n))
    filled = 0
    for c in range(roots.size):
        if roots[c] > 0.0:
            for e in range(n):
                block[filled, e] = roots[c] * a[order[e]] * w.rows[order[e], c]
            for r in range(m):
                i = int(w.basic[r])
                given = roots[c] * a[i] * w.rows[i, c]
                if given != 0.0:
                    for e in range(n):
                        block[filled, e] -= w.give[r, order[e]] * given
            filled += 1
        if filled == _BLOCK or (c == roots.size - 1 and filled > 0):
            for b in range(filled, _BLOCK):
                for e in range(n):
                    block[b, e] = 0.0
            _add_products_of_eight_cells(matrix, block)
            filled = 0
    for e in range(n):
        i = order[e]
        matrix[e, e] += w.price[i] * a[i]
        for r in range(m):
            b = int(w.basic[r])
            given = w.give[r, i] * w.price[b] * a[b]
            if given != 0.0:
                for f in range(e, n):
                    matrix[e, f] += given * w.give[r, order[f]]
    size = np.empty(n)
    for e in range(n):
        size[e] = math.sqrt(max(matrix[e, e], TINY))
    for e in range(n):
        for f in range(e, n):
            x = matrix[e, f] / (size[e] * size[f])
            matrix[e, f] = x if abs(x) < np.inf else 0.0
        matrix[e, e] += 1e-15
    for k in range(n):
        matrix[k, k] = max(matrix[k, k], 1e-15)
        for i in range(k + 1, n):
            share = matrix[k, i] / matrix[k, k]
            if share != 0.0:
                for j in range(i, n):
                    matrix[i, j] -= share * matrix[k, j]
    return matrix, order, size


@inner_kernel
def _add_products_of_eight_cells(matrix, b):
    """Add the products of eight cells to the upper triangle."""
    n = matrix.shape[0]
    for e in range(n):
        row = matrix[e]
        x0, x1, x2, x3, x4, x5, x6, x7 = b[0, e], b[1, e], b[2, e], b[3, e], b[4, e], b[5, e], b[6, e], b[7, e]
        for f in range(e, n):
            row[f] += (
                ((x0 * b[0, f] + x1 * b[1, f]) + (x2 * b[2, f] + x3 * b[3, f]))
                + ((x4 * b[4, f] + x5 * b[5, f]) + (x6 * b[6, f] + x7 * b[7, f]))
            )  # fmt: skip


@inner_kernel
def solve_newton_step(w, matrix, order, size):
    """The step for a load on each arm: it keeps the equalities."""
    n, m, load = order.size, w.level.size, w.load
    x = np.empty(n)
    for e in range(n):
        x[e] = load[order[e]]
        for r in range(m):
            x[e] -= w.give[r, order[e]] * load[int(w.basic[r])]
        x[e] /= size[e]
    for k in range(n):
        share = x[k] / matrix[k, k]
        for i in range(k + 1, n):
            x[i] -= matrix[k, i] * share
    for k in range(n - 1, -1, -1):
        total = x[k]
        for j in range(k + 1, n):
            total -= matrix[k, j] * x[j]
        x[k] = total / matrix[k, k]
    for r in range(m):
        w.step[int(w.basic[r])] = 0.0
    for e in range(n):
        i = order[e]
        w.step[i] = x[e] / size[e]
        for r in range(m):
            w.step[int(w.basic[r])] -= w.give[r, i] * w.step[i]
