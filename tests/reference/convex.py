"""The best mixture of arms with finitely many atoms, as a convex program for cvxpy: plain, slow, independent.

    max  x_1·h(1) + Σ_k (x_{k+1} − x_k)·h(Σ_i a_i·P(X_i > x_k))    over a ≥ 0, Σa = 1

Each distortion is written twice: as numbers (``number``) and as a concave expression (``program``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np


@dataclass(frozen=True)
class Concave:
    """A concave distortion: h on numbers, and h as a cvxpy expression of u with the constraints it needs."""

    number: Callable[[np.ndarray], np.ndarray]
    program: Callable[[cp.Expression], tuple[cp.Expression, list[Any]]]


def _plain(
    expression: Callable[[cp.Expression], cp.Expression],
) -> Callable[[cp.Expression], tuple[Any, list[Any]]]:
    return lambda u: (expression(u), [])


def mean() -> Concave:
    return Concave(lambda u: u, _plain(lambda u: u))


def gini() -> Concave:
    return Concave(lambda u: u * (1 - u), _plain(lambda u: u - cp.square(u)))


def quadratic(s: float) -> Concave:
    return Concave(lambda u: (1 + s) * u - s * u**2, _plain(lambda u: (1 + s) * u - s * cp.square(u)))


def dual_power(s: float) -> Concave:
    return Concave(lambda u: 1 - (1 - u) ** s, _plain(lambda u: 1 - cp.power(1 - u, s)))


def wang_right_tail() -> Concave:
    return Concave(lambda u: np.sqrt(u) - u, _plain(lambda u: cp.sqrt(u) - u))


def pht(s: float) -> Concave:
    return Concave(lambda u: u**s, _plain(lambda u: cp.power(u, s)))


def upper_cvar(c: float) -> Concave:
    return Concave(lambda u: np.minimum(u / (1 - c), 1), _plain(lambda u: cp.minimum(u / (1 - c), 1)))


def mean_median_deviation() -> Concave:
    return Concave(lambda u: np.minimum(u, 1 - u), _plain(lambda u: cp.minimum(u, 1 - u)))


def inter_es_range(c: float) -> Concave:
    return Concave(
        lambda u: np.minimum(u / (1 - c), 1) - np.maximum(0, u - c) / (1 - c),
        _plain(lambda u: cp.minimum(u / (1 - c), 1) - cp.pos(u - c) / (1 - c)),
    )


def tsallis_past_entropy(alpha: float) -> Concave:
    if alpha == 1.0:
        return Concave(
            lambda u: np.where(u < 1, -(1 - u) * np.log(np.where(u < 1, 1 - u, 1)), 0),
            _plain(lambda u: cp.entr(1 - u)),
        )
    return Concave(
        lambda u: ((1 - u) - (1 - u) ** alpha) / (alpha - 1),
        _plain(lambda u: (1 - u) / (alpha - 1) - cp.power(1 - u, alpha) / (alpha - 1)),
    )


def gini_shortfall(p: float, loading: float) -> Concave:
    """Concave for loading ≤ ½: increasing in w, so w may be relaxed to w ≤ min(u/(1−p), 1)."""
    assert loading <= 0.5

    def number(u: np.ndarray) -> np.ndarray:
        w = np.minimum(u / (1 - p), 1)
        return w + 2 * loading * w * (1 - w)

    def program(u: cp.Expression) -> tuple[cp.Expression, list[Any]]:
        w = cp.Variable(u.shape)
        return (1 + 2 * loading) * w - 2 * loading * cp.square(w), [w <= u / (1 - p), w <= 1]

    return Concave(number, program)


def total(*terms: tuple[float, Concave]) -> Concave:
    """Σ weight · distortion, with positive weights."""

    def program(u: cp.Expression) -> tuple[cp.Expression, list[Any]]:
        parts = [(weight, *term.program(u)) for weight, term in terms]
        return sum(w * e for w, e, _ in parts), [c for _, _, cs in parts for c in cs]

    return Concave(lambda u: sum(w * t.number(u) for w, t in terms), program)


def survival(arms: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """All atoms in order, and P(X_i > x_k) for every atom but the last: one row an arm."""
    points = np.array(sorted({float(x) for xs, _ in arms for x in xs}))
    rows = [[sum(p for x, p in zip(xs, ps, strict=True) if x > point) for point in points[:-1]] for xs, ps in arms]
    return points, np.array(rows, dtype=float)


def utility(h: Concave, points: np.ndarray, above: np.ndarray, weights: np.ndarray) -> float:
    """U_h of a mixture, from the formula."""
    mixed = np.clip(weights @ above, 0, 1)
    return float(points[0] * h.number(np.ones(1))[0] + np.diff(points) @ h.number(mixed))


Rule = tuple[np.ndarray, str, float]  # Σ coefficient · share, compared with a number


def best_mixture(
    h: Concave, points: np.ndarray, above: np.ndarray, rules: Sequence[Rule] = ()
) -> tuple[np.ndarray, float]:
    """Weights (cleaned to lie on the simplex) and the optimal value that the solver reports, under linear rules."""
    weights = cp.Variable(above.shape[0], nonneg=True)
    cells, constraints = h.program(above.T @ weights)
    for coefficients, sign, number in rules:
        left = coefficients @ weights
        constraints.append(left <= number if sign == "<=" else left >= number if sign == ">=" else left == number)
    problem = cp.Problem(cp.Maximize(np.diff(points) @ cells), [cp.sum(weights) == 1, *constraints])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL, problem.status
    found = np.maximum(weights.value, 0)
    return found / found.sum(), float(points[0] * h.number(np.ones(1))[0] + problem.value)
