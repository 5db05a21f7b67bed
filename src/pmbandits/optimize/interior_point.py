"""The exact maximiser for concave h: an interior point method on one survival table, within any linear limits.

    max V(a) + τ·(Σ log a_i + Σ log(bound − rows·a)),    V(a) = const + Σ_cells ω·φ(Σ_i a_i·curve_i),    τ → 0,

over a > 0 with ``equal·a = level``: the simplex (Σ a = 1), products of simplices (one sum for each segment), and limits
on shares. Every arm always keeps a share, so slopes stay finite, whatever h. Corners of φ in cells where the curves do
not move are rounded by an amount that goes to 0 with τ; elsewhere V is smooth although h is not. Directions are those
of the primal-dual method (τ/a² is replaced by price/a, and likewise for limits and corners), lengths of steps are
judged by the rounded utility itself.

A cell holds the arms' CDFs left of ``split``, and their survivals right of it, so that neither tail loses digits. The
equations are solved for the shares that remain when the largest ones keep the equalities. With a multiplier for each
equality in their place, rounding would spoil the directions in which a stiff V is flat.

The bound is a tangent plane. It holds for any multipliers λ in [0, 1] of corners, ν ≥ 0 of limits and y of equalities:

    −max(z, 0) ≤ −λ·z,    so V(b) ≤ T + ν·bound + y·level + max_i (g − ν·rows − y·equal)_i    for every allowed b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import Interior
from pmbandits.tables.decomposition import SmoothPart
from pmbandits.tables.quadrature import N_NODES, Crossing
from pmbandits.tables.survival_table import MixtureCurve, SurvivalTable

_MAX_STEPS = 150
_BARRIER_SHRINK = 0.1  # the factor by which τ shrinks once the steps have nearly arrived
_NEARLY_ARRIVED = 30.0  # a step that promised less than this many times the barriers' part was nearly the last
_BOUNDARY_FRACTION = 0.995  # the share of the way to the boundary that a step may go
_SMALLEST_WEIGHT = 1e-120  # share of an arm
_MAX_CORNER_CELLS = 300  # cells that can sit on a corner
_TURN_ABOVE = 0.9  # cells are counted from the other side once a mixture's curve exceeds this


@dataclass(frozen=True)
class Solution:
    """Weights, their utility, and what no mixture of these arms that keeps the limits exceeds."""

    weights: FloatArray
    value: float
    upper: float
    cells: FloatArray  # the slope function of the bound: widths times slopes
    lower: NDArray[np.bool_]  # cells in which it belongs to CDFs


@dataclass
class _Point:
    weights: FloatArray
    p: FloatArray  # the mixture's CDF left of the split, and its survival right of it
    rounded: float  # utility with rounded corners, what the steps increase
    value: float
    tangent: float  # utility with max(z, 0) replaced by λ·z
    shares: list[FloatArray]
    crossings: list[Crossing | None]


class InteriorPoint:
    """The interior point method for the arms of one survival table, within the limits of ``interior``."""

    def __init__(self, smooth: SmoothPart, table: SurvivalTable, interior: Interior) -> None:
        self.smooth, self.table, self.limits = smooth, table, interior
        self.below, self.above = table.rows(range(table.n_arms))
        self.widths, self.flat = table.cell_widths, np.flatnonzero(table.flat)
        self.all_flat = self.flat.size == self.widths.size
        self.sharpness = sum(-bend for _, bend in smooth.kinks) * float(self.widths[self.flat].sum())
        self.n_barriers = table.n_arms + interior.bound.size
        self.duals: list[FloatArray] = []

    # ---- utility, slope and bend at one mixture ---------------------------------------------------------
    def _split_at_median(self, weights: FloatArray) -> None:
        """Count cells from below where this mixture's CDF is less than 1/2, and from above elsewhere."""
        split = int(np.searchsorted(weights @ self.below, 0.5))
        self.split = split
        self.rows = np.hstack((self.below[:, :split], self.above[:, split:]))
        self.lower = np.arange(self.widths.size) < split
        self.sign = np.where(self.lower, -1.0, 1.0)
        # What is 1 in the integrand left of the split, and is not there left of the anchor.
        moved = float(self.widths @ (self.lower.astype(np.float64) - self.table.left))
        self.base = self.table.anchor * self.smooth.top + moved * self.smooth.end
        self.kink_base = [moved * bend * (1.0 - place) for place, bend in self.smooth.kinks]

    def _by_side(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return np.concatenate((low, high))

    def at(self, weights: FloatArray, mu: float) -> _Point:
        p, m, smooth = np.minimum(weights @ self.rows, 1.0), self.split, self.smooth
        value = self.base + float(self.widths @ self._by_side(smooth.h_from_1(p[:m]), smooth.h(p[m:])))
        rounded = tangent = value
        shares, crossings = [], []
        curve = MixtureCurve(p, self.lower)
        for (place, bend), base in zip(smooth.kinks, self.kink_base, strict=True):
            crossing = self.table.crossing(curve, place)
            share = self.table.shares(curve, place, crossing)
            # max(S − place, 0), less 1 − place left of the split.
            low, high = -share[:m] * p[:m] - (1.0 - share[:m]) * (1.0 - place), share[m:] * (p[m:] - place)
            exact = base + bend * float(self.widths @ self._by_side(low, high))
            value, rounded, tangent = value + exact, rounded + exact, tangent + exact
            if mu > 0.0:  # max(z, 0) becomes (z + √(z² + 4μ²))/2, whose slope λ is a number between 0 and 1
                z, widths = self._above_place(p, place)[self.flat], self.widths[self.flat]
                root = np.hypot(z, 2.0 * mu)
                soft, hard = 0.5 * (1.0 + z / root), np.maximum(z, 0.0)
                rounded += bend * float(widths @ (0.5 * (z + root) - hard))
                tangent += bend * float(widths @ (soft * z - hard))
                share[self.flat] = soft
            shares.append(share)
            crossings.append(crossing)
        return _Point(weights, p, rounded, value, tangent, shares, crossings)

    def _above_place(self, p: FloatArray, place: float) -> FloatArray:
        """S − place in every cell, S the mixture's survival."""
        out = p - place
        out[: self.split] = (1.0 - place) - p[: self.split]
        return out

    def slope(self, point: _Point, shares: list[FloatArray]) -> FloatArray:
        """The slope function, with these multipliers of the corners."""
        p, m = point.p, self.split
        out = self._by_side(self.smooth.dh_from_1(p[:m]), self.smooth.dh(p[m:]))
        for (_, bend), share in zip(self.smooth.kinks, shares, strict=True):
            out = out + bend * self.sign * share
        with np.errstate(all="ignore"):
            out = self.widths * out
        return out if np.isfinite(out).all() else np.nan_to_num(out, nan=0.0, posinf=1e300, neginf=-1e300)

    def tangent_with_multipliers(self, point: _Point, duals: list[FloatArray]) -> tuple[list[FloatArray], float]:
        """Other multipliers of the rounded corners, and the height of the tangent plane with them."""
        shares, tangent = [], point.value
        for (place, bend), share, dual in zip(self.smooth.kinks, point.shares, duals, strict=True):
            z = self._above_place(point.p, place)[self.flat]
            tangent += bend * float(self.widths[self.flat] @ (dual * z - np.maximum(z, 0.0)))
            share = share.copy()
            share[self.flat] = dual
            shares.append(share)
        return shares, tangent

    def _bend(self, point: _Point, mu: float) -> tuple[FloatArray, list[tuple[float, FloatArray]]]:
        """Minus the second derivative of φ times p² by cell, and what corners inside panels add: (size, slopes)."""
        p, m = point.p, self.split
        with np.errstate(all="ignore"):
            bend = -self._by_side(self.smooth.d2h_from_1(p[:m]), self.smooth.d2h(p[m:])) * p * p
            if not np.isfinite(bend).all():  # far out in a tail h'' overflows; it is about h'/p there
                slope = np.abs(self._by_side(self.smooth.dh_from_1(p[:m]), self.smooth.dh(p[m:]))) * p
                bend = np.nan_to_num(np.where(np.isfinite(bend), bend, slope), nan=0.0, posinf=0.0)
        np.maximum(bend, 0.0, out=bend)
        bend[p <= 0.0] = 0.0
        extra = []
        for k, ((place, size), crossing) in enumerate(zip(self.smooth.kinks, point.crossings, strict=True)):
            if mu > 0.0 and self.flat.size:
                z = self._above_place(p, place)[self.flat]
                bend[self.flat] -= size * _corner_stiffness(z, self.duals[k], mu) * p[self.flat] ** 2
            if crossing is not None and not self.table.flat[int(crossing.panel[0]) * N_NODES]:
                nodes = slice(int(crossing.panel[0]) * N_NODES, int(crossing.panel[0] + 1) * N_NODES)
                falls = np.where(self.lower[nodes], 1.0 - p[nodes], p[nodes])
                steep = abs(float(crossing.slope[0] @ falls)) / float(self.widths[nodes].sum())
                if steep > 1e-300:
                    extra.append((-size / steep, self.above[:, nodes] @ crossing.there[0]))
        return bend, extra

    def _direction(
        self, point: _Point, gradient: FloatArray, price: FloatArray, limit_price: FloatArray, tau: float, mu: float
    ) -> FloatArray:
        """The Newton step, relative to the weights: it keeps the equalities."""
        a, limits = point.weights, self.limits
        slack = limits.slack(a)
        basic, rest, give = limits.eliminate(a)  # steps of basic arms are −give · steps of the rest
        load = a * (gradient - limits.rows.T @ (tau / slack)) + tau

        def reduce(columns: FloatArray) -> FloatArray:
            return np.asarray(columns[rest] - give.T @ columns[basic])

        bend, extra = self._bend(point, mu)
        with np.errstate(all="ignore"):
            rooted = reduce(self.rows * a[:, None])
            rooted *= np.sqrt(self.widths * bend) / np.where(point.p > 0.0, point.p, 1.0)
        matrix = rooted @ rooted.T
        if limits.bound.size:
            stiff = reduce(limits.rows.T * a[:, None])
            matrix += (stiff * (limit_price / slack)) @ stiff.T
        for weight, there in extra:
            moved = reduce(there * a)
            matrix += weight * np.outer(moved, moved)
        priced = price * a
        matrix[np.diag_indices(rest.size)] += priced[rest]
        matrix += (give.T * priced[basic]) @ give
        size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        scaled = np.nan_to_num(matrix / np.outer(size, size), nan=0.0, posinf=0.0, neginf=0.0)
        scaled[np.diag_indices(rest.size)] += 1e-15
        right = reduce(load) / size
        try:
            found = np.linalg.solve(scaled, right) / size
        except np.linalg.LinAlgError:
            found = np.linalg.lstsq(scaled, right, rcond=None)[0] / size
        step = np.empty(a.size)
        step[rest], step[basic] = found, -give @ found
        return step

    # ---- the method -------------------------------------------------------------------------------------
    def solve(self, start: FloatArray, goal: float) -> Solution:
        """Weights whose utility and bound differ by at most the goal, or as little as rounding allows."""
        limits = self.limits
        weights = limits.from_start(start)
        self._split_at_median(weights)
        smallest = 0.02 * goal / self.n_barriers
        point = self.at(weights, 0.1 if self.sharpness > 0.0 else 0.0)
        gradient = self.rows @ self.slope(point, point.shares)
        tau = max(0.1 * (float(gradient.max()) - float(gradient @ weights)) / self.n_barriers, smallest)
        mu = self._corner_rounding(tau)
        point = self.at(weights, mu)
        self.duals = [np.clip(share[self.flat], 1e-14, 1.0 - 1e-14) for share in point.shares]
        price, limit_price = tau / weights, tau / limits.slack(weights)
        best = Solution(weights, -np.inf, np.inf, np.zeros(0), self.lower)
        since, waiting, shrunk = 0, 0, False
        for _ in range(_MAX_STEPS):
            cells = self.slope(point, point.shares)
            gradient = np.asarray(self.rows @ cells)
            planes = [(point.tangent, gradient, cells)]
            if mu > 0.0:
                shares, tangent = self.tangent_with_multipliers(point, self.duals)
                cells = self.slope(point, shares)
                planes.append((tangent, self.rows @ cells, cells))
            better = False
            if point.value > best.value:
                best = Solution(point.weights, point.value, best.upper, best.cells, best.lower)
            for height, slopes, cells in planes:
                upper = height - float(slopes @ point.weights) + limits.highest(slopes, point.weights, limit_price)
                if upper < best.upper:
                    better = better or upper - best.value < 0.9 * (best.upper - best.value)
                    best = Solution(best.weights, best.value, upper, cells, self.lower)
            if best.upper - best.value <= goal:
                break
            stalled = tau <= smallest and bool(limits.bound.size or self.smooth.kinks)
            if shrunk and stalled:
                best = self._optimise_multipliers(point, best)
                if best.upper - best.value <= goal:
                    break
            waiting = 0 if better else waiting + 1
            if tau <= smallest and waiting >= 12:
                break
            ahead = self._predicted_gradient(point, mu, gradient)
            step = self._direction(point, ahead, price, limit_price, tau, mu)
            slack = limits.slack(point.weights)
            ascent = point.weights * (gradient - limits.rows.T @ (tau / slack)) + tau
            predicted_gain = float(ascent @ step)
            if mu > 0.0 and not predicted_gain > 0.0:
                step = self._direction(point, gradient, price, limit_price, tau, mu)
                predicted_gain = float(ascent @ step)
            if not np.isfinite(step).all():
                break
            move = point.weights * step
            slack_move = -limits.rows @ move
            longest = min(1.0, _BOUNDARY_FRACTION * min(_ratio(point.weights, move), _ratio(slack, slack_move)))
            trial = self._line_search(point, step, longest, predicted_gain, tau, mu)
            if mu > 0.0:
                self._update_corner_multipliers(point, move, trial, mu)
            moved, limit_moved = (
                tau / point.weights - price * (1.0 + step),
                (tau - limit_price * slack_move) / slack - limit_price,
            )
            reach = min(1.0, _BOUNDARY_FRACTION * min(_ratio(price, moved), _ratio(limit_price, limit_moved)))
            price, limit_price = price + reach * moved, limit_price + reach * limit_moved
            point = trial
            since += 1
            shrunk = predicted_gain <= _NEARLY_ARRIVED * self.n_barriers * tau or since >= 12
            turned = bool(point.p.size) and float(point.p.max()) > _TURN_ABOVE
            if turned:
                turned = self._turn(point.weights)
            if shrunk:
                since = 0
                tau = max(smallest, _BARRIER_SHRINK * tau)
                mu = self._corner_rounding(tau)
            if turned or (shrunk and mu > 0.0):
                point = self.at(point.weights, mu)
            price = np.clip(price, 1e-8 * tau / point.weights, 1e8 * tau / point.weights)
        return best

    def _turn(self, weights: FloatArray) -> bool:
        """Split the cells anew if the median has moved; says whether it has."""
        before = self.split
        if int(np.searchsorted(weights @ self.below, 0.5)) == before:
            return False
        self._split_at_median(weights)
        return True

    def _optimise_multipliers(self, point: _Point, best: Solution) -> Solution:
        """The best multipliers of limits, and of cells that sit on a corner, by a linear program.

        The steps know multipliers of such cells up to rounding only.
        """
        from scipy.optimize import linprog

        widths, limits, a = self.widths, self.limits, point.weights
        shares: list[FloatArray] = []
        columns, costs, cells = [], [], []
        tangent = point.value
        for k, (place, bend) in enumerate(self.smooth.kinks):
            z_all = self._above_place(point.p, place)
            z, share = z_all[self.flat], point.shares[k].copy()
            share[self.flat] = z > 0.0
            near = np.flatnonzero((np.abs(z) < 1e-5) & (widths[self.flat] > 0.0))
            near = near[np.argsort(np.abs(z[near]), kind="stable")][:_MAX_CORNER_CELLS]
            groups = [self.flat[i : i + 1] for i in near] + self._panels_on_corner(z_all)
            for nodes in groups:
                z = z_all[nodes]
                exact = z > 0.0 if self.table.flat[nodes[0]] else share[nodes]
                tangent -= bend * float(widths[nodes] @ (exact * z))
                share[nodes] = 0.0
                columns.append(self.rows[:, nodes] @ (bend * widths[nodes] * self.sign[nodes]))
                costs.append(bend * float(widths[nodes] @ z))
                cells.append((k, nodes))
            shares.append(share)
        if not cells and not limits.bound.size:
            return best
        slope = self.rows @ self.slope(point, shares)
        table, cost = np.array(columns).reshape(len(cells), a.size).T, np.array(costs)
        # Least height of the plane's highest corner: slope_i − ⟨slope, a⟩ plus what the multipliers change.
        level = float(slope @ a)
        size = max(float(np.abs(slope - level).max()), float(np.abs(table).max(initial=0.0)), 1e-300)
        slack, n_rows = limits.slack(a), limits.bound.size
        centred = (limits.rows - (limits.rows @ a)[:, None], limits.equal - limits.level[:, None])
        left = np.column_stack((table - a @ table, -size * centred[0].T, -size * centred[1].T, np.full(a.size, -size)))
        bounds: list[tuple[float | None, float | None]] = [(0.0, 1.0)] * cost.size + [(0.0, None)] * n_rows
        bounds += [(None, None)] * (limits.level.size + 1)
        found = linprog(
            np.concatenate((cost / size, slack, np.zeros(limits.level.size), [1.0])),
            A_ub=left / size,
            b_ub=-(slope - level) / size,
            bounds=bounds,
            method="highs",
        )
        if not found.success:
            return best
        duals = np.clip(np.asarray(found.x)[: cost.size], 0.0, 1.0)
        multipliers = np.maximum(np.asarray(found.x)[cost.size : cost.size + n_rows], 0.0) * size
        prices = np.asarray(found.x)[cost.size + n_rows : -1] * size
        for (k, nodes), dual in zip(cells, duals, strict=True):
            shares[k][nodes] = dual
        plane = self.slope(point, shares)
        slope = self.rows @ plane
        flat = tangent + float(cost @ duals) - float(slope @ a)
        upper = flat + limits.highest_with(slope, multipliers, prices)
        if upper < best.upper:
            return Solution(best.weights, best.value, upper, plane, self.lower)
        return best

    def _panels_on_corner(self, z: FloatArray) -> list[NDArray[np.intp]]:
        """Panels that are not quite flat, on which the mixture hardly leaves a corner of h."""
        if self.all_flat:
            return []
        deviation = np.abs(z).reshape(-1, N_NODES).max(axis=1)
        chosen = np.flatnonzero((deviation < 1e-10) & ~self.table.flat[::N_NODES])[:_MAX_CORNER_CELLS]
        return [np.arange(k * N_NODES, (k + 1) * N_NODES) for k in chosen]

    def _corner_rounding(self, tau: float) -> float:
        return min(tau * self.n_barriers / self.sharpness, 0.25) if self.sharpness > 0.0 else 0.0

    def _predicted_gradient(self, point: _Point, mu: float, gradient: FloatArray) -> FloatArray:
        """The gradient with the multipliers that corners would have after a step of length 0."""
        if mu <= 0.0:
            return gradient
        ahead = []
        for (place, _), share, dual in zip(self.smooth.kinks, point.shares, self.duals, strict=True):
            z = self._above_place(point.p, place)[self.flat]
            share = share.copy()
            share[self.flat] = dual + _corner_stiffness(z, dual, mu) * (z + mu * (1.0 / dual - 1.0 / (1.0 - dual)))
            ahead.append(share)
        return np.asarray(self.rows @ self.slope(point, ahead))

    def _line_search(
        self, point: _Point, step: FloatArray, length: float, predicted_gain: float, tau: float, mu: float
    ) -> _Point:
        """The new point along the step, by a backtracking line search."""
        limits = self.limits

        def merit(at: _Point) -> float:
            logs = float(np.log(at.weights).sum()) + float(np.log(limits.slack(at.weights)).sum())
            return at.rounded + tau * logs

        before = merit(point)
        below_rounding = predicted_gain <= 1e-12 * abs(point.rounded) + 1e-14 * abs(tau)
        trial = point
        for _ in range(40):
            weights = limits.without_drift(np.maximum(point.weights * (1.0 + length * step), _SMALLEST_WEIGHT))
            if limits.keeps(weights):
                trial = self.at(weights, mu)
                if below_rounding or merit(trial) >= before + 1e-4 * length * predicted_gain:
                    return trial
            length *= 0.5
        return trial

    def _update_corner_multipliers(self, point: _Point, move: FloatArray, trial: _Point, mu: float) -> None:
        """Move the multipliers of rounded corners with the weights, by what a whole step would change."""
        change = (self.sign * (move @ self.rows))[self.flat]  # not a difference of curves: its rounding would show
        for k, (place, _) in enumerate(self.smooth.kinks):
            dual = self.duals[k]
            z, z_new = (self._above_place(p, place)[self.flat] for p in (point.p, trial.p))
            moved = _corner_stiffness(z, dual, mu) * (change + z + mu * (1.0 / dual - 1.0 / (1.0 - dual)))
            dual = dual + min(1.0, _BOUNDARY_FRACTION * min(_ratio(dual, moved), _ratio(1.0 - dual, -moved))) * moved
            # Not too far from what the weights themselves say.
            soft = 0.5 * (1.0 + z_new / np.hypot(z_new, 2.0 * mu))
            dual = np.clip(dual, 1e-4 * soft, 1.0 - 1e-4 * (1.0 - soft))
            self.duals[k] = np.clip(dual, 1e-14, 1.0 - 1e-14)


def _ratio(now: FloatArray, move: FloatArray) -> float:
    """How many times a move can be made until one of some positive numbers is 0."""
    falling = move < 0.0
    return float(np.min(-now[falling] / move[falling])) if falling.any() else np.inf


def _corner_stiffness(z: FloatArray, dual: FloatArray, mu: float) -> FloatArray:
    """How much the multiplier of a rounded corner changes when z does."""
    # t − z = μ + √(z²/4 + μ²) − z/2, without cancellation for large z.
    root = np.hypot(0.5 * z, mu)
    t = np.where(z >= 0.0, mu + 0.5 * z + root, mu + mu * mu / np.maximum(root - 0.5 * z, 1e-300))
    rest = np.where(z <= 0.0, mu - 0.5 * z + root, mu + mu * mu / np.maximum(root + 0.5 * z, 1e-300))
    return np.asarray(1.0 / (t / (1.0 - dual) + rest / dual))
