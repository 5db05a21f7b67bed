"""The best mixture of known arms for a concave metric, among all mixtures or among those that keep limits."""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import FEASIBILITY_TOLERANCE, Polytope, simplex_polytope
from pmbandits.metrics.value import value_of_mixture
from pmbandits.optimize.concave import maximise_concave
from pmbandits.optimize.problem import ACCURACY, MAX_REFINEMENTS, TIE, Problem, gap_with_extrapolated_tails
from pmbandits.optimize.result import OracleResult
from pmbandits.tables.crossings import N_NODES
from pmbandits.tables.from_distributions import refine_for_gradient
from pmbandits.tables.survival_table import SurvivalTable


@np.errstate(all="ignore")
def solve_concave(problem: Problem, polytope: Polytope | None = None) -> OracleResult:
    """The best mixture with its certificate, on panels that are made finer around the solution."""
    metric, distributions, table = problem.metric, problem.distributions, problem.table
    allowed = simplex_polytope(table.n_arms) if polytope is None else polytope
    start = np.full(table.n_arms, 1.0 / table.n_arms)  # a hint only: it need not be allowed
    if table.atoms is None:
        table = refine_for_gradient(table, metric, start)
    found = None
    for _ in range(MAX_REFINEMENTS):
        found = maximise_concave(metric, table, start, accuracy=ACCURACY, scale=problem.scale, polytope=polytope)
        start = found.weights
        if table.atoms is not None:
            break
        # The panels were not made for this mixture, and its slopes are what the gap is made of.
        finer = refine_for_gradient(table, metric, found.weights)
        if finer.n_cells == table.n_cells:
            break
        table = finer
    assert found is not None
    weights, value = found.weights, table.value(metric, found.weights)
    size = max(abs(value), problem.scale, 1e-300)
    sparse, other = _mixture_without_small_shares(problem, table, allowed, weights, value - ACCURACY * size), None
    if polytope is None:
        sparse, other = _sparsest_best_mixture(problem, table, sparse, weights, value)
    on_table = table.value(metric, sparse)
    exact = on_table if table.atoms is not None else value_of_mixture(metric, distributions, sparse)
    gap = max(found.gap + value - exact, 0.0) + abs(exact - on_table) + table.error
    beyond = float(np.abs(problem.table.remainder).sum()) if problem.table.remainder is not None else 0.0

    def highest(slopes: FloatArray) -> float:
        top = allowed.maximise_linear(slopes)
        return np.inf if top is None else top.upper

    if beyond > 1e-12 * size:
        gap = gap_with_extrapolated_tails(problem, table, weights, exact, highest)
    else:
        gap += beyond
    if polytope is None:
        return problem.make_oracle_result(sparse, exact, gap, found.method, unique=other is None, alternative=other)
    return problem.make_oracle_result_within_limits(sparse, exact, gap, found.method, found.multipliers)


def _mixture_without_small_shares(
    problem: Problem, table: SurvivalTable, allowed: Polytope, weights: FloatArray, enough: float
) -> FloatArray:
    """The mixture on the face of P that it nearly touches, if that costs nothing: small shares only served the gap."""
    for threshold in (1e-6, 1e-8, 1e-10, 1e-12, 1e-15):
        trial = _mixture_on_nearest_face(allowed, weights, threshold)
        if trial is not None and table.value(problem.metric, trial) >= enough:
            return trial
    return weights


def _mixture_on_nearest_face(allowed: Polytope, weights: FloatArray, threshold: float) -> FloatArray | None:
    """The nearest mixture without shares below the threshold that meets the limits within the threshold exactly."""
    kept = weights >= threshold
    out = np.where(kept, weights, 0.0)
    if allowed.bound.size == 0:
        return np.asarray(out / out.sum())
    tight = allowed.equal | (allowed.bound - allowed.matrix @ weights < threshold)
    rows = np.vstack((np.ones(weights.size), allowed.matrix[tight]))[:, kept]
    level = np.append(1.0, allowed.bound[tight])
    out[kept] += np.linalg.lstsq(rows, level - rows @ out[kept], rcond=None)[0]
    broken = out.min() < 0.0 or float(allowed.excess(out).max(initial=0.0)) > 0.1 * FEASIBILITY_TOLERANCE
    return None if broken else np.asarray(out / out.sum())


def _sparsest_best_mixture(
    problem: Problem, table: SurvivalTable, weights: FloatArray, inside: FloatArray, value: float
) -> tuple[FloatArray, FloatArray | None]:
    """The sparsest of the best mixtures that we find, and another best one if there is any.

    Two mixtures are equally good when their curves agree wherever h bends. Among the arms that could take part
    (largest gradient) those mixtures form a polytope; its extreme points, found by linear programs, are sparse.
    ``inside`` is the same mixture with a share of every arm that matters, where slopes are finite.
    """
    metric = problem.metric
    tolerance = TIE * max(abs(value), problem.scale, 1e-300)
    curve = table.curve_of_mixture(inside)
    gradient = table.gradient(metric, curve)
    used = inside > 0.0
    level = float(gradient[used] @ inside[used])
    arms = np.flatnonzero((weights > 0.0) | (gradient >= level - 1e-6 * problem.scale))
    if arms.size < 2 or arms.size > 60:
        return weights, None
    below, above = table.cdf_and_survival_rows([int(i) for i in arms])
    rows = np.hstack((below[:, : curve.split], above[:, curve.split :]))
    smooth = metric._smooth_part
    bend = np.nan_to_num(curve.choose_by_side(smooth.negative_dual_d2h, smooth.d2h), nan=0.0, posinf=0.0, neginf=-1e6)
    curved = np.abs(bend) > 1e-9
    for place, _ in metric.kinks:
        curved |= np.abs(curve.survival_above_level(place)) <= 1e-6
    # Orthonormal directions in which the curve must not move.
    gram = (rows[:, curved] * table.cell_widths[curved]) @ rows[:, curved].T
    for place, _ in metric.kinks:  # a corner that is crossed inside a panel bends the utility at that point
        crossing = table.crossing_of_level(curve, place)
        if crossing is not None:
            nodes = slice(int(crossing.panel[0]) * N_NODES, int(crossing.panel[0]) * N_NODES + N_NODES)
            there = above[:, nodes] @ crossing.there[0]
            gram = gram + float(table.cell_widths.sum()) * 1e-3 * np.outer(there, there)
    size, vectors = np.linalg.eigh(np.nan_to_num(gram))
    kept = vectors[:, size > 1e-11 * max(float(size.max()), 1e-300)].T
    equal = np.vstack((kept, np.ones(arms.size)))
    if kept.shape[0] == arms.size or np.linalg.matrix_rank(equal, tol=1e-7) == arms.size:
        return weights, None
    best, count, other = weights, int((weights > 0.0).sum()), None
    rng = np.random.default_rng(0)
    directions = [sign * row for row in np.eye(arms.size) for sign in (-1.0, 1.0)]
    directions += [rng.normal(size=arms.size) for _ in range(8)]
    for direction in directions:
        candidate = np.zeros(weights.size)
        candidate[arms] = _extreme_point(equal, weights[arms], direction)
        candidate /= candidate.sum()
        if np.abs(candidate - weights).max() <= 1e-5 or table.value(metric, candidate) < value - tolerance:
            continue
        if int((candidate > 0.0).sum()) < count:
            best, other, count = candidate, best, int((candidate > 0.0).sum())
        elif other is None:
            other = candidate
    return best, other


def _extreme_point(equal: FloatArray, x: FloatArray, direction: FloatArray) -> FloatArray:
    """An extreme point of {y ≥ 0: equal·y = equal·x}: as far as possible in a direction, then in what is left of it."""
    x = x.copy()
    free = np.ones(x.size, dtype=bool)
    for _ in range(2 * x.size):
        _, size, axes = np.linalg.svd(equal[:, free])
        null = axes[(size > 1e-7 * size[0]).sum() :]
        if null.shape[0] == 0:
            break
        move = np.zeros(x.size)
        move[free] = null.T @ (null @ direction[free])
        if np.abs(move).max() <= 1e-9:  # nowhere to go in this direction: any other
            move[free] = null[0]
        if not (move < -1e-12).any():
            move = -move
        falls = move < -1e-12
        length = float((x[falls] / -move[falls]).min())
        x = np.maximum(x + length * move, 0.0)
        x[x <= 1e-9] = 0.0
        free &= (x > 0.0) | (move > 0.0)
    return x
