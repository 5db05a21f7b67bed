"""The exact maximiser for concave h: an interior point method on one survival table, within any linear limits.

    max V(a) + τ·(Σ log a_i + Σ log(bound − rows·a)),    V(a) = const + Σ_cells ω·φ(base + Σ_i a_i·curve_i),    τ → 0,

over a > 0 with ``equal·a = level``: the simplex (Σ a = 1), products of simplices (one sum for each segment), and limits
on shares. Every arm always keeps a share, so slopes stay finite, whatever h. Where all arms are on one side of a corner
of φ, it only adds a straight line. Where they are not, and the curves do not move in the cell, it is rounded by an
amount that goes to 0 with τ; elsewhere V is smooth although h is not. Directions are those of the primal-dual method
(τ/a² is replaced by price/a, and likewise for limits and corners), lengths of steps are judged by the rounded utility
itself.

A cell holds the arms' CDFs left of ``split``, and their survivals right of it, so that neither tail loses digits. The
equations are solved for the shares that remain when the largest ones keep the equalities. With a multiplier for each
equality in their place, rounding would spoil the directions in which a stiff V is flat.

The bound is a tangent plane. It holds for any multipliers λ in [0, 1] of corners, ν ≥ 0 of limits and y of equalities:

    −max(z, 0) ≤ −λ·z,    so V(b) ≤ T + ν·bound + y·level + max_i (g − ν·rows − y·equal)_i    for every allowed b.

The steps are compiled (``_interior_point.py``, when the first problem is solved). Between them h and its slopes are
evaluated here: h can be any function of a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import Interior
from pmbandits.tables.crossings import N_NODES
from pmbandits.tables.decomposition import SmoothPart
from pmbandits.tables.survival_table import MixtureCurve, SurvivalTable

if TYPE_CHECKING:
    from pmbandits.optimize._barrier_problem import Work

_MAX_EVALUATIONS = 300  # of h, on all cells
_MAX_CORNER_CELLS = 300  # cells, or panels, that can sit on a corner
_NEAR_CORNER = 1e-5  # how far a mixture's curve may be from a corner to count as on it
_MAX_POLISHES = 6
_JUMPED = 1e-9  # a curve that is further from the corner where it should cross it jumps over it
_ON_ONE_SIDE = 1e-9  # arms that are all further from a corner, on one side of it, never meet it


@dataclass(frozen=True)
class Solution:
    """Weights, their utility, and what no mixture of these arms that keeps the limits exceeds."""

    weights: FloatArray
    value: float
    upper: float
    cells: FloatArray  # the slope function of the bound: widths times slopes
    split: int  # in so many cells it belongs to CDFs
    height: float  # the plane of the bound is this plus ⟨its slopes, weights⟩
    prices: FloatArray  # the bound's multipliers of the limits
    equality_prices: FloatArray


class InteriorPoint:
    """The interior point method for the arms of one survival table, within the limits of ``interior``.

    If some of all shares are fixed, the last row of the table is their mixture, and ``fixed`` is their sum.
    """

    def __init__(self, smooth: SmoothPart, table: SurvivalTable, interior: Interior, fixed: float = 0.0) -> None:
        self.smooth, self.table, self.limits, self.fixed = smooth, table, interior, fixed
        self.n_arms, self.split = table.n_arms - (fixed > 0.0), -1
        self.moving = ~table.mask_of_flat_cells
        self.cuts_panels = bool(smooth.kinks) and bool(self.moving.any())
        # Cells that no corner bends: all survivals are above, or all below. A constant times a wide cell, taken away
        # again elsewhere, would leave its rounding, so these are counted from 0 on both sides of the split.
        self.above = [table.survival_rows.min(axis=0) > place + _ON_ONE_SIDE for place, _ in smooth.kinks]
        self.straight = ~self.moving
        for (place, _), above in zip(smooth.kinks, self.above, strict=True):
            self.straight &= above | (table.survival_rows.max(axis=0) < place - _ON_ONE_SIDE)
        self.lines = np.zeros((2, table.n_cells))  # what corners add there: a constant, and a slope in p

    def _allocate_work_arrays(self) -> Work:
        from pmbandits.optimize import _barrier_problem as at

        n, cells, limits = self.n_arms, self.table.n_cells, self.limits
        n_kinks, n_limits, m = len(self.smooth.kinks), limits.bound.size, limits.level.size
        rows = np.zeros((n, cells + n_kinks + n_limits))
        rows[:, cells + n_kinks :] = limits.rows.T
        corner_widths = np.where(self.moving | self.straight, 0.0, self.table.cell_widths)
        of_cells, of_arms = np.zeros((8, cells)), np.zeros((7, n))
        return at.Work(
            rows=rows,
            base=of_cells[0],
            cell_widths=self.table.cell_widths,
            corner_widths=corner_widths,
            sign=of_cells[1],
            kinks=np.array(self.smooth.kinks, dtype=np.float64).reshape(n_kinks, 2),
            bound=limits.bound,
            equal=np.ascontiguousarray(limits.equal),
            level=limits.level,
            weights=of_arms[0],
            p=np.zeros(cells),
            slack=np.zeros(n_limits),
            price=of_arms[1],
            limit_price=np.zeros(n_limits),
            duals=np.zeros((n_kinks, cells)),
            gradient=of_arms[2],
            step=of_arms[3],
            slack_move=np.zeros(n_limits),
            trial=of_arms[4],
            trial_p=of_cells[2],
            h=of_cells[3],
            slope=of_cells[4],
            bend=of_cells[5],
            extra=np.zeros(n_kinks),
            best=of_arms[5],
            plane=of_cells[6],
            plane_price=np.zeros(n_limits),
            plane_equal_price=np.zeros(m),
            basic=np.zeros(m),
            give=np.zeros((m, n + m + 1)),
            equal_price=np.zeros(m),
            cells=of_cells[7],
            load=of_arms[6],
            numbers=np.zeros(at.N_NUMBERS),
        )

    # ---- utility, slope and bend at one mixture ---------------------------------------------------------
    def _split_cells_at_median(self, w: Work, weights: FloatArray) -> bool:
        """Count cells from below where this mixture's CDF is less than 1/2; says whether that changes anything."""
        from pmbandits.optimize import _barrier_problem as at

        shares = np.append((1.0 - self.fixed) * weights, self.fixed) if self.fixed > 0.0 else weights
        split = int(np.searchsorted(shares @ self.table.cdf_rows, 0.5))
        if split == self.split:
            return False
        self.split, cells, n = split, w.cell_widths.size, self.n_arms
        w.rows[:, :split], w.rows[:, split:cells] = (
            self.table.cdf_rows[:n, :split],
            self.table.survival_rows[:n, split:],
        )
        if self.fixed > 0.0:
            w.rows[:, :cells] *= 1.0 - self.fixed
            w.base[:split], w.base[split:] = (
                self.fixed * self.table.cdf_rows[n, :split],
                self.fixed * self.table.survival_rows[n, split:],
            )
        w.sign[:split], w.sign[split:] = -1.0, 1.0
        self.lines[:] = 0.0
        for (place, bend), above in zip(self.smooth.kinks, self.above, strict=True):
            constant, slope = _line_of_corner(w.sign, np.where(above, 1.0, 0.0), place)
            self.lines += np.where(self.straight, bend, 0.0) * (constant, slope)
        # What is 1 in the integrand left of the split, and is not there left of the anchor.
        left = self.table.n_left
        between, sign = slice(min(left, split), max(left, split)), 1.0 if left < split else -1.0
        corners = sum(bend * (1.0 - place) for place, bend in self.smooth.kinks)
        turned = sign * float(w.cell_widths[between].sum())
        straight = sign * float((w.cell_widths - w.corner_widths)[between].sum())
        w.numbers[at.OFFSET] = self.table.anchor * self.smooth.top + turned * self.smooth.value_at_1
        w.numbers[at.OFFSET] += corners * (straight - float(w.corner_widths[:left].sum()))
        w.numbers[at.SPLIT], w.numbers[at.IS_NEW] = split, 1.0
        return True

    def _evaluate_and_move_to(self, w: Work, weights: FloatArray) -> None:
        """Evaluate h at some weights, and be there."""
        from pmbandits.optimize._barrier_problem import fill_mixture_curve

        w.trial[:] = weights
        fill_mixture_curve(w, w.trial, w.trial_p)
        w.p[:] = w.trial_p
        self._evaluate_smooth_part(w)

    def _evaluate_smooth_part(self, w: Work) -> None:
        """The smooth part of h with its slope and bend on the curve that is tried."""
        m, smooth, p = self.split, self.smooth, w.trial_p
        low, high = p[:m], p[m:]
        if m:
            w.h[:m], w.slope[:m], w.bend[:m] = (
                smooth.negative_dual_h(low),
                smooth.negative_dual_dh(low),
                smooth.negative_dual_d2h(low),
            )
        if m < p.size:
            w.h[m:], w.slope[m:], w.bend[m:] = smooth.h(high), smooth.dh(high), smooth.d2h(high)
        if smooth.kinks:
            w.h[:] += self.lines[0] + self.lines[1] * p
            w.slope[:] += self.lines[1]
        if self.cuts_panels:
            self._add_corners_inside_panels(w)

    def _add_corners_inside_panels(self, w: Work) -> None:
        """Corners of h that the curve crosses inside panels: there V is smooth."""
        curve = MixtureCurve(w.trial_p, self.split)
        for k, (place, bend) in enumerate(self.smooth.kinks):
            crossing = self.table.crossing_of_level(curve, place)
            constant, slope = _line_of_corner(w.sign, self.table.cell_shares_above_level(curve, place, crossing), place)
            bends = np.where(self.moving, bend, 0.0)
            w.h[:] += bends * (constant + slope * w.trial_p)
            w.slope[:] += bends * slope
            w.extra[k] = 0.0
            if crossing is None or not self.moving[int(crossing.panel[0]) * N_NODES]:
                continue
            nodes = slice(int(crossing.panel[0]) * N_NODES, int(crossing.panel[0] + 1) * N_NODES)
            falls = curve.survival_above_level(0.0)[nodes]
            steep = abs(float(crossing.slope[0] @ falls)) / float(w.cell_widths[nodes].sum())
            is_jumped = abs(float(crossing.there[0] @ falls) - place) > _JUMPED  # an atom at the panel's end
            if steep > 1e-300 and not is_jumped:
                w.extra[k] = -bend / steep
                there = self.table.survival_rows[: self.n_arms, nodes] @ crossing.there[0]
                w.rows[:, w.cell_widths.size + k] = (1.0 - self.fixed) * there

    # ---- the method -------------------------------------------------------------------------------------
    def solve(self, start: FloatArray, goal: float) -> Solution:
        """Weights whose utility and bound differ by at most the goal, or as little as rounding allows."""
        from pmbandits.optimize import _barrier_problem as at
        from pmbandits.optimize import _interior_point as steps

        limits, w = self.limits, self._allocate_work_arrays()
        number = w.numbers
        number[at.GOAL], number[at.SMALLEST_TAU] = goal, 0.02 * goal / (self.n_arms + limits.bound.size)
        w.weights[:] = limits.strictly_feasible_near(start)
        w.slack[:] = limits.slack(w.weights)
        self._split_cells_at_median(w, w.weights)
        with np.errstate(all="ignore"):
            self._evaluate_and_move_to(w, w.weights)
            steps.start_interior_point(w)
            for _ in range(_MAX_EVALUATIONS):
                code = steps.advance_interior_point(w, False)
                if code in (steps.TURN, steps.STALLED):
                    is_turned = w.p.size > 0 and float(w.p.max()) > steps.TURN_ABOVE
                    if is_turned and self._split_cells_at_median(w, w.weights):
                        self._evaluate_and_move_to(w, w.weights)
                        continue
                    if code == steps.STALLED:
                        self._optimise_multipliers(w)
                        if number[at.UPPER] - number[at.VALUE] <= goal:
                            break
                    code = steps.advance_interior_point(w, True)
                if code == steps.DONE:
                    break
                self._evaluate_smooth_part(w)
            if number[at.UPPER] - number[at.VALUE] > 100.0 * goal:
                self._polish(w, start, goal)
        return Solution(
            w.best,
            float(number[at.VALUE]),
            float(number[at.UPPER]),
            w.plane,
            int(number[at.PLANE_SPLIT]),
            float(number[at.HEIGHT]),
            w.plane_price,
            w.plane_equal_price,
        )

    def _polish(self, w: Work, start: FloatArray, goal: float) -> None:
        """Where steps stall at corners: from the best mixture, or the start, by linear programs to better ones."""
        from pmbandits.optimize import _barrier_problem as at

        number, ahead = w.numbers, self.limits.strictly_feasible_near(start, 1e-12)
        for _ in range(_MAX_POLISHES):
            shares = np.append((1.0 - self.fixed) * ahead, self.fixed) if self.fixed > 0.0 else ahead
            value = self.table.value(self.smooth.metric, shares)
            if value > number[at.VALUE]:
                number[at.VALUE], w.best[:] = value, ahead
            w.weights[:] = w.best
            self._evaluate_and_move_to(w, w.weights)
            found = self._optimise_multipliers(w)
            if found is None or number[at.UPPER] - number[at.VALUE] <= goal:
                return
            ahead = (1.0 - 1e-12) * found + 1e-12 * w.weights

    def _optimise_multipliers(self, w: Work) -> FloatArray | None:
        """The best multipliers of limits, and of cells that sit on a corner, by a linear program.

        The steps know multipliers of such cells up to rounding only. Returns the mixture that would be best if all else
        were linear, if that is known and there are no limits.
        """
        from scipy.optimize import linprog

        from pmbandits.optimize import _barrier_problem as at

        widths, limits, a, cells = w.cell_widths, self.limits, w.weights, w.cell_widths.size
        rows, flat = w.rows[:, :cells], w.corner_widths > 0.0
        plane = np.nan_to_num(widths * w.slope, nan=0.0, posinf=1e300, neginf=-1e300)
        height = float(w.numbers[at.OFFSET] + widths @ w.h)
        curve, columns, costs = MixtureCurve(w.p, self.split), [], []
        for place, bend in self.smooth.kinks:
            z, bends = curve.survival_above_level(place), bend * widths
            share = np.where(flat, z > 0.0, 0.0)
            plane += bends * w.sign * share
            height += float(bends @ (share * z))
            n_nodes = N_NODES if self.table.atoms is None else 1  # a panel has one multiplier
            if not flat.all():
                crossing = self.table.crossing_of_level(curve, place)
                share = np.where(flat, share, self.table.cell_shares_above_level(curve, place, crossing))
            deviation = np.abs(z).reshape(-1, n_nodes).max(axis=1)
            near = np.flatnonzero(deviation < _NEAR_CORNER)
            for k in near[np.argsort(deviation[near], kind="stable")][:_MAX_CORNER_CELLS]:  # multipliers of their own
                nodes = np.arange(k * n_nodes, (k + 1) * n_nodes)
                slopes = bends[nodes] * w.sign[nodes]
                plane[nodes] -= slopes * share[nodes]
                height -= float(bends[nodes] @ (share[nodes] * z[nodes]))
                columns.append((nodes, slopes))
                costs.append(float(bends[nodes] @ z[nodes]))
        if not columns and limits.is_simplex:
            return None
        slope, cost, n_rows = rows @ plane, np.array(costs), limits.bound.size
        table = np.array([rows[:, nodes] @ slopes for nodes, slopes in columns]).reshape(len(columns), a.size).T
        # Least height of the plane's highest corner: slope_i − ⟨slope, a⟩ plus what the multipliers change.
        level = float(slope @ a)
        size = max(float(np.abs(slope - level).max()), float(np.abs(table).max(initial=0.0)), 1e-300)
        centred = (limits.rows - (limits.rows @ a)[:, None], limits.equal - limits.level[:, None])
        left = np.column_stack((table - a @ table, -size * centred[0].T, -size * centred[1].T, np.full(a.size, -size)))
        bounds: list[tuple[float | None, float | None]] = [(0.0, 1.0)] * cost.size + [(0.0, None)] * n_rows
        found = linprog(
            np.concatenate((cost / size, limits.slack(a), np.zeros(limits.level.size), [1.0])),
            A_ub=left / size,
            b_ub=-(slope - level) / size,
            bounds=bounds + [(None, None)] * (limits.level.size + 1),
            method="highs",
        )
        if not found.success:
            return None
        duals = np.clip(np.asarray(found.x)[: cost.size], 0.0, 1.0)
        multipliers = np.maximum(np.asarray(found.x)[cost.size : cost.size + n_rows], 0.0) * size
        prices = np.asarray(found.x)[cost.size + n_rows : -1] * size
        for (nodes, slopes), dual in zip(columns, duals, strict=True):
            plane[nodes] += slopes * dual
        slope = rows @ plane
        height += float(cost @ duals) - float(slope @ a)
        upper = height + limits.linear_upper_bound_from_prices(slope, multipliers, prices)
        if upper < w.numbers[at.UPPER]:
            w.plane[:], w.plane_price[:], w.plane_equal_price[:] = plane, multipliers, prices
            w.numbers[at.UPPER], w.numbers[at.HEIGHT], w.numbers[at.PLANE_SPLIT] = upper, height, self.split
        mixture = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
        return mixture / mixture.sum() if limits.is_simplex else None


def _line_of_corner(sign: FloatArray, share: FloatArray, place: float) -> tuple[FloatArray, FloatArray]:
    """max(S − place, 0), less 1 − place for CDFs, as constant + slope·p; a ``share`` of each cell lies above."""
    return np.where(sign < 0.0, (share - 1.0) * (1.0 - place), -share * place), sign * share
