"""Maximise a concave utility over the simplex, with a duality gap as certificate.

    max V(a) over a ≥ 0, Σa = 1,    V(a) = const + Σ_cells ω·φ(Σ_i a_i·curve_i)

V is concave, so V(b) ≤ V(a) + ⟨∇V(a), b − a⟩ for every mixture b, and the right side is largest at a vertex:

    gap(a) = max_i ∇_iV(a) − ⟨∇V(a), a⟩   bounds what any other mixture could gain.

Each step solves the second-order model on a few arms (those in use and the steepest others) and searches along the
way there. Corners of φ are rounded from above by an amount μ that goes to 0: the rounded V_μ ≥ V gives valid upper
bounds all along. If that stalls (a function with corners nobody told us of), cutting planes finish the work.
"""

from __future__ import annotations

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.pool import Curve, Pool

_ALL_ARMS = 50_000  # arms × cells up to which every step looks at all arms
_FEW = 6  # arms that join at a time where there are too many to look at all
_MOST_STEPS = 60  # for each amount of rounding
_MOST_CUTS = 400


def maximise_concave(
    metric: Distortion, laid: Pool, start: FloatArray, *, accuracy: float, scale: float
) -> tuple[FloatArray, float]:
    """The best mixture for a concave metric: weights and a certified gap.

    For the oracle, which knows the arms, and for resampling in advice. Stops at gap ≤ accuracy · max(|V|, scale).
    """
    problem = _Problem(metric, laid)
    weights = np.maximum(start, 0.0)
    weights = weights / weights.sum()
    if not problem.every and int((weights > 0.0).sum()) > _FEW:
        weights = problem.shortlist(weights)
    span = float(laid.omega.sum())
    size = max(abs(laid.value(metric, weights)), scale, 1e-15 * span, 1e-300)
    goal = accuracy * size
    bends = sum(-jump for _, jump in metric.kinks) if span > 0.0 else 0.0
    last = goal / (4.0 * bends * span) if bends > 0.0 else 0.0
    rounding = max(0.1, last) if bends > 0.0 else 0.0
    best, best_gap = weights, np.inf
    while True:
        final = rounding <= last
        target = goal if final else max(goal, 0.1 * bends * rounding * span)
        weights, upper = problem.newton_steps(weights, rounding, target)
        gap = upper - laid.value(metric, weights)
        if not final:  # often the corners do not matter any more, and the last bound holds at once
            gap = min(gap, problem.bound(weights, last) - laid.value(metric, weights))
        if gap < best_gap:
            best, best_gap = weights, gap
        if final or best_gap <= goal:
            break
        rounding = max(0.1 * rounding, last)
    if best_gap > 1e3 * goal:
        cut, cut_gap = _cutting_planes(problem, best, goal)
        if cut_gap < best_gap:
            best, best_gap = cut, cut_gap
    return best, max(best_gap, 0.0)


class _Problem:
    def __init__(self, metric: Distortion, laid: Pool) -> None:
        self.metric, self.laid = metric, laid
        self.kinks = [(u, -jump) for u, jump in metric.kinks]
        self.base = laid.anchor * float(metric(1.0))
        self.cache: dict[int, tuple[FloatArray, FloatArray]] = {}
        self.every = laid.n_arms * laid.omega.size <= _ALL_ARMS

    def rows(self, arms: list[int], curve: Curve) -> FloatArray:
        """The arms' curves, on the side that the mixture's curve uses in each cell."""
        missing = [i for i in arms if i not in self.cache]
        if missing:
            self.cache.update(zip(missing, zip(*self.laid.rows(missing), strict=True), strict=True))
        return np.stack([np.where(curve.lower, *self.cache[i]) for i in arms])

    def corners(self, curve: Curve) -> list[tuple[FloatArray, float]]:
        """Where each cell has its corners, and how sharp they are."""
        return [(np.where(curve.lower, 1.0 - u, u), bend) for u, bend in self.kinks]

    # φ_μ = smooth part of φ − Σ c·(z + √(z² + 4μ²))/2 + c·μ, with z the distance from a corner: the positive part
    # of z rounded from below, so φ_μ lies between φ and φ + Σ c·μ.
    def value(self, curve: Curve, mu: float) -> float:
        cells = self.laid.integrand(self.metric, curve)
        for place, bend in self.corners(curve):
            z = curve.p - place
            cells = cells + bend * (np.maximum(z, 0.0) - 0.5 * (z + np.hypot(z, 2.0 * mu)) + mu)
        return self.base + float(self.laid.omega @ cells)

    def gradient(self, curve: Curve, mu: float) -> FloatArray:
        corners = self.corners(curve)
        aside = curve.p
        for place, _ in corners:  # a hair off every corner, where one-sided slopes cannot be confused
            aside = np.where(np.abs(aside - place) < 1e-12, place - 2e-12, aside)
        cells = self.laid.slope(self.metric, Curve(aside, curve.lower))
        for place, bend in corners:
            z = curve.p - place
            cells = cells + bend * ((aside > place) - 0.5 * (1.0 + z / np.hypot(z, 2.0 * mu)))
        with np.errstate(all="ignore"):
            return self.laid.adjoint(self.laid.omega * cells, curve.lower)

    def bend(self, curve: Curve, mu: float) -> FloatArray:
        cells = self.laid.bend(self.metric, curve)
        for place, bend in self.corners(curve):
            z = curve.p - place
            cells = cells - bend * 2.0 * mu * mu / np.hypot(z, 2.0 * mu) ** 3
        return np.where(curve.p > 0.0, np.minimum(np.nan_to_num(cells, nan=0.0, neginf=-1e300), 0.0), 0.0)

    def bound(self, weights: FloatArray, mu: float) -> float:
        """What no mixture's value exceeds, by the tangent plane here."""
        curve = self.laid.curve(weights)
        gradient = self.gradient(curve, mu)
        used = weights > 0.0
        upper = self.value(curve, mu) + float(gradient.max()) - float(gradient[used] @ weights[used])
        return upper if np.isfinite(upper) else np.inf

    def newton_steps(self, weights: FloatArray, mu: float, goal: float) -> tuple[FloatArray, float]:
        """Newton steps for one amount of rounding; returns weights and an upper bound on every mixture's value."""
        laid = self.laid
        curve = laid.curve(weights)
        value = self.value(curve, mu)
        upper = np.inf
        stalled = rescues = 0
        for _ in range(_MOST_STEPS):
            gradient = self.gradient(curve, mu)
            steep = np.flatnonzero(np.isinf(gradient) & (gradient > 0.0))
            if steep.size:  # an arm that reaches where no other does, and h is vertical there: it takes part
                weights = self._insert(weights, int(steep[0]), mu)
                curve = laid.curve(weights)
                value = self.value(curve, mu)
                continue
            mean = float(gradient @ weights)
            gap = float(gradient.max()) - mean
            upper = min(upper, value + gap)
            if gap <= goal:
                break
            arms = self._working_set(weights, gradient)
            rows = self.rows(arms, curve)
            with np.errstate(all="ignore"):
                hessian = (rows * (laid.omega * self.bend(curve, mu))) @ rows.T
            hessian = np.nan_to_num(hessian, nan=0.0, posinf=0.0, neginf=-1e300)
            step = _quadratic_step(weights[arms], gradient[arms], hessian) - weights[arms]
            direction = np.zeros_like(weights)
            direction[arms] = step
            promise = float(gradient @ direction)
            if promise <= 0.0:
                break
            share = 1.0
            # Near the end a step gains less than rounding: values cannot judge it any more, only the gap can.
            blind = promise <= 1e-12 * abs(value)
            for _ in range(50):
                trial = np.maximum(weights + share * direction, 0.0)
                trial /= trial.sum()
                trial_curve = laid.curve(trial)
                trial_value = self.value(trial_curve, mu)
                if blind or trial_value >= value + 1e-4 * share * promise:
                    break
                share *= 0.5
            gained = trial_value - value
            if gained <= 0.0 and share < 1e-8:
                unused = np.flatnonzero((weights == 0.0) & (gradient > mean + goal))
                if unused.size == 0 or rescues == weights.size:
                    break
                rescues += 1
                weights = self._insert(weights, int(unused[np.argmax(gradient[unused])]), mu)
                curve = laid.curve(weights)
                value = self.value(curve, mu)
                continue
            stalled = stalled + 1 if gained <= 1e-3 * goal else 0
            if blind or trial_value >= value:
                weights, curve, value = trial, trial_curve, trial_value
            if stalled >= 8:
                break
        return weights, upper

    def _working_set(self, weights: FloatArray, gradient: FloatArray) -> list[int]:
        if self.every:
            return list(range(weights.size))
        used = np.flatnonzero(weights > 0.0)
        steepest = np.argsort(-gradient, kind="stable")[:_FEW]
        return sorted({int(i) for i in (*used, *steepest)})

    def shortlist(self, weights: FloatArray) -> FloatArray:
        """An even mixture of the few steepest arms: with many arms most of them take no part."""
        gradient = self.gradient(self.laid.curve(weights), 0.1)
        out = np.zeros_like(weights)
        out[np.argsort(-gradient, kind="stable")[:_FEW]] = 1.0 / _FEW
        return out

    def _insert(self, weights: FloatArray, arm: int, mu: float) -> FloatArray:
        """Give an unused arm the largest share 2^-k at which more of it would still help.

        Where h is vertical, or nearly, that share can be so small that no value shows it; the slope does.
        """
        target = np.zeros_like(weights)
        target[arm] = 1.0
        trial = weights
        for k in range(1, 61):
            share = 2.0**-k
            trial = (1.0 - share) * weights + share * target
            gradient = self.gradient(self.laid.curve(trial), mu)
            if gradient[arm] >= float(gradient[trial > 0.0] @ trial[trial > 0.0]):
                break
        return trial


def _quadratic_step(start: FloatArray, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    """argmax of gradient·(x − start) + ½(x − start)ᵀH(x − start) on the simplex face: a small active-set method."""
    n = start.size
    total = float(start.sum())
    q = -hessian
    # Each arm is damped by its own curvature: one that is very steep must not hold back the others.
    q = q + np.diag(1e-11 * np.abs(np.diag(q)) + 1e-14 * float(np.abs(gradient).max()) + 1e-300)
    c = gradient + q @ start
    x = start.copy()
    free = x > 0.0
    tiny = 1e-13 * (1.0 + float(np.abs(c).max()))
    for _ in range(10 * n + 20):
        idx = np.flatnonzero(free)
        system = np.zeros((idx.size + 1, idx.size + 1))
        system[:-1, :-1] = q[np.ix_(idx, idx)]
        system[:-1, -1] = system[-1, :-1] = 1.0
        try:
            solution = np.linalg.solve(system, np.append(c[idx], total))
        except np.linalg.LinAlgError:
            solution = np.linalg.lstsq(system, np.append(c[idx], total), rcond=None)[0]
        wanted, price = solution[:-1], float(solution[-1])
        if (wanted >= 0.0).all():
            x = np.zeros(n)
            x[idx] = wanted
            reduced = c - q @ x - price
            reduced[free] = -np.inf
            enter = int(np.argmax(reduced))
            if reduced[enter] <= tiny:
                break
            free[enter] = True
        else:
            falling = wanted < x[idx]
            with np.errstate(all="ignore"):
                room = np.where(falling, x[idx] / (x[idx] - wanted), np.inf)
            block = int(np.argmin(room))
            share = min(1.0, float(room[block]))
            x[idx] = np.maximum(x[idx] + share * (wanted - x[idx]), 0.0)
            x[idx[block]] = 0.0
            free[idx[block]] = False
            if not free.any():
                return start
    return x


def _cutting_planes(problem: _Problem, weights: FloatArray, goal: float) -> tuple[FloatArray, float]:
    """Kelley's method: V lies below every tangent plane; the highest point under all of them bounds the optimum."""
    from scipy.optimize import linprog

    laid, count = problem.laid, weights.size
    best, best_value, upper = weights, problem.value(laid.curve(weights), 0.0), np.inf
    planes: list[FloatArray] = []
    sides: list[float] = []
    point = weights
    for _ in range(_MOST_CUTS):
        curve = laid.curve(point)
        value = problem.value(curve, 0.0)
        if value > best_value:
            best, best_value = point, value
        gradient = problem.gradient(curve, 1e-15)
        if not np.isfinite(gradient).all():
            point = 0.5 * point + 0.5 / count
            continue
        planes.append(np.append(-gradient, 1.0))
        sides.append(value - float(gradient @ point))
        found = linprog(
            np.append(np.zeros(count), -1.0),
            A_ub=np.array(planes),
            b_ub=np.array(sides),
            A_eq=np.append(np.ones(count), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0.0, 1.0)] * count + [(None, None)],
            method="highs",
        )
        if not found.success:
            break
        upper = min(upper, -float(found.fun or 0.0))
        if upper - best_value <= goal:
            break
        point = np.maximum(np.asarray(found.x)[:-1], 0.0)
        point = point / point.sum()
    return best, upper - best_value
