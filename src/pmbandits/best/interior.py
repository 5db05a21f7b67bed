"""An interior point method for a concave utility of a few arms.

    max V(a) + τ·Σ log a_i over Σ a = 1,    V(a) = const + Σ_cells ω·φ(Σ_i a_i·curve_i),    τ → 0

Every arm always keeps a share, so slopes stay finite where h is vertical. Corners of φ in cells where the curves do
not move are rounded by an amount that goes to 0 with τ; elsewhere V is smooth although h is not. Directions are those
of the primal-dual method (τ/a² is replaced by price/a, and likewise for corners), lengths of steps are judged by the
rounded utility itself. The bound is a tangent plane: with any multiplier λ in [0, 1],

    −max(z, 0) ≤ −λ·z,    so V(b) ≤ T(a) + max_i g_i − ⟨g, a⟩   for every mixture b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.metrics.panels import Crossing, N
from pmbandits.metrics.pool import Curve, Pool, each
from pmbandits.metrics.smooth import Smooth

_MOST_STEPS = 150
_SHRINK = 0.1  # the factor by which τ shrinks once the steps have nearly arrived
_ALMOST = 0.995  # the share of the way to the boundary that a step may go
_SMALLEST = 1e-120  # share of an arm
_NEARLY = 1e-7  # rounding of corners from which on it can be told which cells sit on them
_MOST_CELLS = 300  # cells that can sit on a corner


@dataclass(frozen=True)
class Solution:
    """Weights, their utility, and what no mixture of these arms exceeds."""

    weights: FloatArray
    value: float
    upper: float
    cells: FloatArray  # the slope function of the bound: widths times slopes
    lower: NDArray[np.bool_]  # cells in which it belongs to CDFs


@dataclass
class _Point:
    weights: FloatArray
    curve: Curve
    rounded: float  # utility with rounded corners, what the steps increase
    value: float
    tangent: float  # utility with max(z, 0) replaced by λ·z
    shares: list[FloatArray]
    crossings: list[Crossing | None]


class Interior:
    """The problem for the arms of one pool."""

    def __init__(self, smooth: Smooth, laid: Pool) -> None:
        self.smooth, self.laid = smooth, laid
        self.below, self.above = laid.rows(range(laid.n_arms))
        self.flat = laid.flat
        self.base = laid.anchor * smooth.top
        width = float(laid.omega[self.flat].sum())
        self.sharpness = sum(-bend for _, bend in smooth.kinks) * width
        self.duals: list[FloatArray] = []

    # ---- utility, slope and bend at one mixture ---------------------------------------------------------
    def at(self, weights: FloatArray, mu: float) -> _Point:
        laid, smooth = self.laid, self.smooth
        curve = Curve.of(weights @ self.below, weights @ self.above)
        cells = laid.smooth_cells(smooth, curve)
        plain = self.base + float(laid.omega @ cells)
        rounded = value = tangent = plain
        shares, crossings = [], []
        for place, bend in smooth.kinks:
            crossing = laid.crossing(curve, place)
            share = laid.shares(curve, place, crossing)
            exact = bend * float(laid.omega @ laid.corner_cells(curve, place, share))
            value += exact
            # Rounded: max(z, 0) becomes (z + √(z² + 4μ²))/2, whose slope λ is a number between 0 and 1.
            z = _distance(curve, place)[self.flat]
            root = np.hypot(z, 2.0 * mu)
            soft = 0.5 * (1.0 + z / root) if mu > 0.0 else share[self.flat]
            omega = laid.omega[self.flat]
            rounded += exact + bend * float(omega @ (0.5 * (z + root) - np.maximum(z, 0.0)))
            tangent += exact + bend * float(omega @ (soft * z - np.maximum(z, 0.0)))
            share = share.copy()
            share[self.flat] = soft
            shares.append(share)
            crossings.append(crossing)
        return _Point(weights, curve, rounded, value, tangent, shares, crossings)

    def rows(self, point: _Point) -> FloatArray:
        """The arms' curves on the side that the mixture uses in each cell."""
        return np.where(point.curve.lower, self.below, self.above)

    def slope(self, point: _Point, shares: list[FloatArray]) -> FloatArray:
        """The slope function, with these multipliers of the corners."""
        with np.errstate(all="ignore"):
            cells = self.laid.omega * self.laid.slope_cells(self.smooth, point.curve, shares)
        return np.nan_to_num(cells, nan=0.0, posinf=1e300, neginf=-1e300)

    def by_duals(self, point: _Point, duals: list[FloatArray]) -> tuple[list[FloatArray], float]:
        """Other multipliers of the rounded corners, and the height of the tangent plane with them."""
        shares, tangent = [], point.value
        for (place, bend), share, dual in zip(self.smooth.kinks, point.shares, duals, strict=True):
            z = _distance(point.curve, place)[self.flat]
            tangent += bend * float(self.laid.omega[self.flat] @ (dual * z - np.maximum(z, 0.0)))
            share = share.copy()
            share[self.flat] = dual
            shares.append(share)
        return shares, tangent

    def hessian(self, point: _Point, rows: FloatArray, mu: float) -> FloatArray:
        """Minus the second derivative, with the primal-dual bend of rounded corners."""
        laid, curve = self.laid, point.curve
        p = curve.p
        with np.errstate(all="ignore"):
            bend = -each(self.smooth.bend_co, self.smooth.bend_h, curve) * p * p
            if not np.isfinite(bend).all():  # far out in a tail h'' overflows; it is about h'/p there
                slope = np.abs(each(self.smooth.slope_co, self.smooth.slope_h, curve)) * p
                bend = np.where(np.isfinite(bend), bend, slope)
        bend = np.where(p > 0.0, np.maximum(np.nan_to_num(bend, nan=0.0, posinf=0.0), 0.0), 0.0)
        extra = []
        for (place, size), crossing, dual in zip(self.smooth.kinks, point.crossings, self.duals, strict=True):
            if mu > 0.0 and dual.size:
                z = _distance(curve, place)[self.flat]
                bend[self.flat] += -size * _stiff(z, dual, mu) * p[self.flat] ** 2
            if crossing is not None and not self.flat[int(crossing.panel[0]) * N]:
                k = int(crossing.panel[0]) * N
                nodes = slice(k, k + N)
                falls = np.where(curve.lower[nodes], 1.0 - curve.p[nodes], curve.p[nodes])
                steep = abs(float(crossing.slope[0] @ falls)) / (self._width(k))
                if steep > 1e-300:
                    there = self.above[:, nodes] @ crossing.there[0]
                    extra.append((-size / steep, there))
        with np.errstate(all="ignore"):
            rooted = (rows / np.where(p > 0.0, p, 1.0)) * np.sqrt(laid.omega * bend)
        rooted[rooted < 1e-150] = 0.0  # their products are 0 anyway, and slow
        out = rooted @ rooted.T
        for weight, there in extra:
            out += weight * np.outer(there, there)
        return np.nan_to_num(out, nan=0.0, posinf=1e290, neginf=-1e290)

    def _width(self, node: int) -> float:
        return float(self.laid.omega[node : node + N].sum())

    # ---- the method -------------------------------------------------------------------------------------
    def solve(self, start: FloatArray, goal: float) -> Solution:
        """Weights whose utility and bound differ by at most the goal, or as little as rounding allows."""
        count = start.size
        if count == 1:
            point = self.at(np.ones(1), 0.0)
            return Solution(point.weights, point.value, point.value, self.slope(point, point.shares), point.curve.lower)
        weights = np.maximum(start, 1e-3 / count)
        weights = weights / weights.sum()
        smallest = 0.02 * goal / count
        tau, mu = self._first(weights, smallest)
        point = self.at(weights, mu)
        self._reset(point, mu)
        price = tau / weights
        best = Solution(weights, -np.inf, np.inf, np.zeros(0), point.curve.lower)
        since, waiting, shrunk = 0, 0, False
        for _ in range(_MOST_STEPS):
            rows = self.rows(point)
            cells = self.slope(point, point.shares)
            gradient = np.asarray(rows @ cells)
            mean = float(gradient @ point.weights)
            planes = [(point.tangent + float(gradient.max()) - mean, cells)]
            if mu > 0.0:
                shares, tangent = self.by_duals(point, self.duals)
                cells = self.slope(point, shares)
                other = rows @ cells
                planes.append((tangent + float(other.max()) - float(other @ point.weights), cells))
            better = False
            if point.value > best.value:
                best = Solution(point.weights, point.value, best.upper, best.cells, best.lower)
            for upper, cells in planes:
                if upper < best.upper:
                    better = better or upper - best.value < 0.9 * (best.upper - best.value)
                    best = Solution(best.weights, best.value, upper, cells, point.curve.lower)
            if best.upper - best.value <= goal:
                break
            if self.smooth.kinks and mu < _NEARLY and shrunk:
                best = self._settle(point, rows, best)
                if best.upper - best.value <= goal:
                    break
            waiting = 0 if better else waiting + 1
            if tau <= smallest and waiting >= 12:
                break
            hessian = self.hessian(point, rows, mu)
            step = _direction(point.weights, self._foreseen(point, rows, mu, gradient), hessian, price, tau)
            ascent = point.weights * (gradient - mean) + tau
            promise = float(ascent @ step)
            if mu > 0.0 and not promise > 0.0:
                step = _direction(point.weights, gradient, hessian, price, tau)
                promise = float(ascent @ step)
            if not np.isfinite(step).all():
                break
            longest = min(1.0, _ALMOST / max(float(-step.min()), 1e-300))
            trial, length = self._search(point, step, longest, promise, tau, mu)
            self._follow(point, trial, length, mu)
            moved = tau / point.weights - price * (1.0 + step)
            falling = moved < 0.0
            room = float(np.min(-price[falling] / moved[falling])) if falling.any() else np.inf
            price = price + min(1.0, _ALMOST * room) * moved
            point = trial
            since += 1
            shrunk = promise <= count * tau or since >= 12
            if shrunk:
                since = 0
                tau = max(smallest, min(_SHRINK * tau, tau))
                mu = self._rounding(tau, count)
                point = self.at(point.weights, mu)
            price = np.clip(price, 1e-8 * tau / point.weights, 1e8 * tau / point.weights)
        return best

    def _settle(self, point: _Point, rows: FloatArray, best: Solution) -> Solution:
        """The best multipliers of cells that sit on a corner, by a linear program: rounding hides them from steps."""
        from scipy.optimize import linprog

        omega, flat = self.laid.omega, np.flatnonzero(self.flat)
        shares: list[FloatArray] = []
        columns, costs, cells = [], [], []
        tangent = point.value
        for k, (place, bend) in enumerate(self.smooth.kinks):
            z = _distance(point.curve, place)[self.flat]
            share = point.shares[k].copy()
            share[flat] = z > 0.0
            near = np.flatnonzero((np.abs(z) < 1e-5) & (omega[flat] > 0.0))
            near = near[np.argsort(np.abs(z[near]), kind="stable")][:_MOST_CELLS]
            groups = [flat[i : i + 1] for i in near] + self._level_panels(point.curve, place)
            for nodes in groups:
                z = _distance(point.curve, place)[nodes]
                exact = share[nodes] if not self.flat[nodes[0]] else z > 0.0
                tangent -= bend * float(omega[nodes] @ (exact * z))
                share[nodes] = 0.0
                sign = np.where(point.curve.lower[nodes], -1.0, 1.0)
                columns.append(rows[:, nodes] @ (bend * omega[nodes] * sign))
                costs.append(bend * float(omega[nodes] @ z))
                cells.append((k, nodes))
            shares.append(share)
        if not cells:
            return best
        slope = rows @ self.slope(point, shares)
        table, cost = np.column_stack(columns), np.array(costs)
        # Least height of the plane's highest corner: slope_i − ⟨slope, a⟩ plus what the multipliers λ change.
        a = point.weights
        size = max(float(np.abs(slope - float(slope @ a)).max()), float(np.abs(table).max()), 1e-300)
        left = np.column_stack((table - a @ table, -np.full(a.size, size)))
        found = linprog(
            np.append(cost, size) / size,
            A_ub=left / size,
            b_ub=-(slope - float(slope @ a)) / size,
            bounds=[(0.0, 1.0)] * cost.size + [(None, None)],
            method="highs",
        )
        if not found.success:
            return best
        duals = np.clip(np.asarray(found.x)[:-1], 0.0, 1.0)
        for (k, nodes), dual in zip(cells, duals, strict=True):
            shares[k][nodes] = dual
        plane = self.slope(point, shares)
        slope = rows @ plane
        upper = tangent + float(cost @ duals) + float(slope.max()) - float(slope @ a)
        if upper < best.upper:
            return Solution(best.weights, best.value, upper, plane, point.curve.lower)
        return best

    def _level_panels(self, curve: Curve, place: float) -> list[NDArray[np.intp]]:
        """Panels that are not quite flat, on which the mixture hardly leaves a corner of h."""
        if self.flat.all():
            return []
        far = np.abs(_distance(curve, place)).reshape(-1, N).max(axis=1)
        chosen = np.flatnonzero((far < 1e-10) & ~self.flat[::N])[:_MOST_CELLS]
        return [np.arange(k * N, (k + 1) * N) for k in chosen]

    def _first(self, weights: FloatArray, smallest: float) -> tuple[float, float]:
        point = self.at(weights, 0.1 if self.sharpness > 0.0 else 0.0)
        gradient = self.rows(point) @ self.slope(point, point.shares)
        gap = float(gradient.max()) - float(gradient @ weights)
        tau = max(0.1 * gap / weights.size, smallest)
        return tau, self._rounding(tau, weights.size)

    def _rounding(self, tau: float, count: int) -> float:
        return min(tau * count / self.sharpness, 0.25) if self.sharpness > 0.0 else 0.0

    def _reset(self, point: _Point, mu: float) -> None:
        self.duals = [np.clip(share[self.flat], 1e-14, 1.0 - 1e-14) for share in point.shares]

    def _foreseen(self, point: _Point, rows: FloatArray, mu: float, gradient: FloatArray) -> FloatArray:
        """The gradient with the multipliers that corners would have after a step of length 0."""
        if mu <= 0.0:
            return gradient
        ahead = []
        for (place, _), dual in zip(self.smooth.kinks, self.duals, strict=True):
            z = _distance(point.curve, place)[self.flat]
            ahead.append(dual + _stiff(z, dual, mu) * (z + mu * (1.0 / dual - 1.0 / (1.0 - dual))))
        return np.asarray(rows @ self.slope(point, self.by_duals(point, ahead)[0]))

    def _search(
        self, point: _Point, step: FloatArray, length: float, promise: float, tau: float, mu: float
    ) -> tuple[_Point, float]:
        """Go along the step as far as it pays."""
        merit = point.rounded + tau * float(np.log(point.weights).sum())
        blind = promise <= 1e-12 * abs(point.rounded) + 1e-14 * abs(tau)
        trial = point
        for _ in range(40):
            weights = np.maximum(point.weights * (1.0 + length * step), _SMALLEST)
            trial = self.at(weights / weights.sum(), mu)
            if blind or trial.rounded + tau * float(np.log(trial.weights).sum()) >= merit + 1e-4 * length * promise:
                return trial, length
            length *= 0.5
        return trial, length

    def _follow(self, point: _Point, trial: _Point, length: float, mu: float) -> None:
        """Move the multipliers of rounded corners with the weights."""
        if mu <= 0.0:
            return
        for k, (place, _) in enumerate(self.smooth.kinks):
            dual = self.duals[k]
            z, z_new = _distance(point.curve, place)[self.flat], _distance(trial.curve, place)[self.flat]
            moved = _stiff(z, dual, mu) * (
                (z_new - z) / max(length, 1e-300) + z + mu * (1.0 / dual - 1.0 / (1.0 - dual))
            )
            with np.errstate(all="ignore"):
                down = np.where(moved < 0.0, -dual / moved, np.inf)
                up = np.where(moved > 0.0, (1.0 - dual) / moved, np.inf)
            share = min(1.0, _ALMOST * float(min(down.min(initial=np.inf), up.min(initial=np.inf))))
            dual = dual + share * moved
            # Not too far from what the weights themselves say.
            soft = 0.5 * (1.0 + z_new / np.hypot(z_new, 2.0 * mu))
            dual = np.clip(dual, 1e-4 * soft, 1.0 - 1e-4 * (1.0 - soft))
            self.duals[k] = np.clip(dual, 1e-14, 1.0 - 1e-14)


def _direction(a: FloatArray, gradient: FloatArray, hessian: FloatArray, price: FloatArray, tau: float) -> FloatArray:
    """The Newton step, relative to the weights."""
    matrix = hessian * np.outer(a, a)
    matrix[np.diag_indices(a.size)] += price * a
    right = np.column_stack((a * (gradient - float(gradient @ a)) + tau, a))
    size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    scaled = matrix / np.outer(size, size)
    scaled[np.diag_indices(a.size)] += 1e-15
    try:
        found = np.linalg.solve(scaled, right / size[:, None]) / size[:, None]
    except np.linalg.LinAlgError:
        found = np.linalg.lstsq(scaled, right / size[:, None], rcond=None)[0] / size[:, None]
    level = float(a @ found[:, 0]) / max(float(a @ found[:, 1]), 1e-300)
    return np.asarray(found[:, 0] - level * found[:, 1])


def _stiff(z: FloatArray, dual: FloatArray, mu: float) -> FloatArray:
    """How much the multiplier of a rounded corner changes when z does."""
    # t − z = μ + √(z²/4 + μ²) − z/2, without cancellation for large z.
    root = np.hypot(0.5 * z, mu)
    t = np.where(z >= 0.0, mu + 0.5 * z + root, mu + mu * mu / np.maximum(root - 0.5 * z, 1e-300))
    rest = np.where(z <= 0.0, mu - 0.5 * z + root, mu + mu * mu / np.maximum(root + 0.5 * z, 1e-300))
    return np.asarray(1.0 / (t / (1.0 - dual) + rest / dual))


def _distance(curve: Curve, place: float) -> FloatArray:
    """S − place in every cell."""
    return np.where(curve.lower, (1.0 - place) - curve.p, curve.p - place)
