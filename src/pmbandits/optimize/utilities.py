"""Utilities of many mixtures of known arms at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.value import value_of_mixture
from pmbandits.tables.decomposition import JUMP_TOLERANCE, SmoothPart
from pmbandits.tables.distributions import Atoms, Distribution
from pmbandits.tables.quadrature import N_NODES, WEIGHTS, find_crossings
from pmbandits.tables.survival_table import AtomTable, PanelTable, SurvivalTable, survival_table

_MAX_TABLE_SIZE = 20_000_000  # arms × cells of a table of curves
_BLOCK_SIZE = 400_000  # mixtures × cells worked on at a time
_NOT_TINY = 1e-3  # a CDF or survival above this can be had from the other without losing digits
_RECHECK_WITHIN = 1e-9  # utilities of single arms that are closer to the best are worked out by themselves


def utilities(metric: Distortion, bandit: Bandit, grid: FloatArray) -> FloatArray:
    """V of many mixtures, one row of weights each.

    >>> import pmbandits as pmb
    >>> utilities(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([0.24  , 0.2275])
    """
    return utility_function(metric, bandit)(grid)


def utility_function(metric: Distortion, bandit: Bandit) -> Callable[[FloatArray], FloatArray]:
    """A function that returns V of many mixtures (rows); what does not depend on them is computed once."""
    return TableUtilities(metric, build_arm_table(metric, list(bandit.distributions)))


def build_arm_table(metric: Distortion, distributions: list[Distribution]) -> SurvivalTable:
    """The arms on common cells, accurate for single arms and for the even mixture of all."""
    count = len(distributions)
    return survival_table(metric, distributions, np.vstack((np.eye(count), np.full((1, count), 1.0 / count))))


def utilities_on_table(metric: Distortion, table: SurvivalTable, grid: FloatArray) -> FloatArray:
    """V of many mixtures of arms that lie on common cells already."""
    return TableUtilities(metric, table)(grid)


def single_arm_utilities(metric: Distortion, distributions: list[Distribution], table: SurvivalTable) -> FloatArray:
    """The utility of every arm by itself; the best ones to the last digit that integration gives."""
    count = len(distributions)
    own = [isinstance(distribution, Atoms) or distribution.lattice or count <= 4 for distribution in distributions]
    out = np.empty(count)
    if not all(own):
        out = utilities_on_table(metric, table, np.eye(count))
        if table.remainder is not None and table.remainder.size >= count:
            out = out + table.remainder[:count]
    for k in range(count):
        if own[k]:
            out[k] = _single_utility(metric, distributions[k])
    top = float(out.max())
    for k in (int(i) for i in np.flatnonzero(out >= top - _RECHECK_WITHIN * max(float(np.abs(out).max()), 1e-300))):
        if not own[k]:
            out[k] = _single_utility(metric, distributions[k])
    return out


def _single_utility(metric: Distortion, distribution: Distribution) -> float:
    if isinstance(distribution, Atoms):
        return AtomTable([distribution]).value(metric, np.ones(1))
    return value_of_mixture(metric, [distribution], np.ones(1))


class TableUtilities:
    """V as a function of a table of mixtures (rows), for arms on common cells."""

    def __init__(self, metric: Distortion, table: SurvivalTable) -> None:
        self.metric, self.table, self.smooth = metric, table, SmoothPart(metric)
        self.is_too_large = isinstance(table, AtomTable) and table.n_arms * table.cell_widths.size > _MAX_TABLE_SIZE
        if self.is_too_large:
            return
        below, above = table.rows(range(table.n_arms))
        self.curves = below, above
        if not isinstance(table, PanelTable) or self.smooth.is_smooth:
            self.corners: list[_KinkTerm] = []
            self.is_atomic = not isinstance(table, PanelTable)
        else:
            self.corners = [_KinkTerm(table, place) for place in self.smooth.places]
            self.is_atomic = False
        # Which side to count from, for all mixtures alike: where no arm's CDF is tiny the survival will do.
        from_above = below.min(axis=0, initial=1.0) >= _NOT_TINY
        from_below = (above.min(axis=0, initial=1.0) >= _NOT_TINY) & ~from_above
        either = ~from_above & ~from_below
        self.above, self.below = above[:, from_above], below[:, from_below]
        self.both = below[:, either], above[:, either]
        self.widths_by_side = [table.cell_widths[from_above], table.cell_widths[from_below], table.cell_widths[either]]
        self.left = [table.left[from_above], table.left[from_below], table.left[either]]

    def __call__(self, grid: FloatArray) -> FloatArray:
        grid = np.asarray(grid, dtype=np.float64)
        if self.is_too_large:
            return np.array([self.table.value(self.metric, row) for row in grid])
        out = np.empty(grid.shape[0])
        step = max(1, _BLOCK_SIZE // max(self.table.cell_widths.size, 1))
        for start in range(0, grid.shape[0], step):
            out[start : start + step] = self._evaluate_block(grid[start : start + step])
        return out

    def _evaluate_block(self, grid: FloatArray) -> FloatArray:
        smooth = self.smooth
        h, h_from_1, end = (
            self._h,
            self._h_from_1,
            smooth.end - sum(0.5 * c * (1.0 - u) ** 2 for u, c in smooth.curvature_jumps),
        )
        if self.is_atomic:  # atoms: corners and steps are no trouble
            h, h_from_1, end = self.metric._h, self.metric._h_from_1, smooth.top
        total = np.full(grid.shape[0], self.table.anchor * smooth.top)
        with np.errstate(all="ignore"):
            if self.widths_by_side[0].size:
                total += h(np.minimum(grid @ self.above, 1.0)) @ self.widths_by_side[0]
            if self.widths_by_side[1].size:
                total += h_from_1(np.minimum(grid @ self.below, 1.0)) @ self.widths_by_side[1]
            if self.widths_by_side[2].size:
                f, s = np.minimum(grid @ self.both[0], 1.0), np.minimum(grid @ self.both[1], 1.0)
                lower = f < s
                cells = np.empty_like(f)
                cells[lower], cells[~lower] = h_from_1(f[lower]), h(s[~lower])
                total += cells @ self.widths_by_side[2]
                if end != 0.0:
                    total += end * ((lower.astype(np.float64) - self.left[2]) @ self.widths_by_side[2])
        if end != 0.0:
            total += end * float(self.widths_by_side[1] @ (1.0 - self.left[1]) - self.widths_by_side[0] @ self.left[0])
        for corner in self.corners:
            bends = sum(bend for place, bend in smooth.kinks if place == corner.place)
            heights = sum(height for place, height in smooth.jumps if place == corner.place)
            total += corner.contribution(grid, bends, heights)
            for place, change in smooth.curvature_jumps:
                if place == corner.place:
                    total += 0.5 * change * corner.squared_excess(grid)
        return total

    # s without what is left of it where h bends differently on both sides of a corner.
    def _h(self, u: FloatArray) -> FloatArray:
        out = self.smooth.h(u)
        for place, change in self.smooth.curvature_jumps:
            out = out - 0.5 * change * np.maximum(u - place, 0.0) ** 2
        return out

    def _h_from_1(self, v: FloatArray) -> FloatArray:
        out = self.smooth.h_from_1(v)
        for place, change in self.smooth.curvature_jumps:
            near = np.minimum(v, 1.0 - place)
            out = out - 0.5 * change * near * (near - 2.0 * (1.0 - place))
        return out

    def kink_contribution(self, grid: FloatArray, place: float, bend: float, height: float) -> FloatArray:
        """The part of V that one corner or step of h adds."""
        if not self.is_atomic:
            corner = next(corner for corner in self.corners if corner.place == place)
            return corner.contribution(grid, bend, height)
        above = np.minimum(grid @ self.curves[1], 1.0)
        cells = bend * (np.maximum(above - place, 0.0) - (1.0 - place) * self.table.left)
        cells += height * ((above - place > JUMP_TOLERANCE).astype(np.float64) - self.table.left)
        return np.asarray(cells @ self.table.cell_widths)


class _KinkTerm:
    """What one corner or step of h adds, for arms on panels: from where each mixture crosses its place."""

    def __init__(self, table: PanelTable, place: float) -> None:
        self.place = place
        count = table.n_arms
        self.high = place > 0.5
        above, below = (rows.reshape(count, -1, N_NODES) for rows in (table.above, table.below))
        # Between these panels every crossing lies; before them all survivals are above, behind them all below.
        if self.high:
            most, least = 1.0 - below.min(axis=(0, 2)), 1.0 - below.max(axis=(0, 2))
        else:
            most, least = above.max(axis=(0, 2)), above.min(axis=(0, 2))
        panels = most.size
        first = int(np.argmax(least < place + 1e-9)) if (least < place + 1e-9).any() else panels
        last = panels - int(np.argmax(most[::-1] > place - 1e-9)) if (most > place - 1e-9).any() else 0
        first, last = max(min(first, last) - 1, 0), min(max(first, last) + 1, panels)
        self.panels = last - first
        nodes = np.arange(first * N_NODES, last * N_NODES)
        self.rows = -table.below[:, nodes] if self.high else table.above[:, nodes]
        self.level = place - 1.0 if self.high else place
        self.width = (table.panels.b - table.panels.a)[first:last]
        cell_widths, left = table.cell_widths, table.left
        before, behind = np.arange(cell_widths.size) < first * N_NODES, np.arange(cell_widths.size) >= last * N_NODES
        inner_left = left[nodes]
        # max(S − place, 0), and less 1 − place left of the anchor.
        self.linear = table.above @ np.where(before & ~left, cell_widths, 0.0) - table.below @ np.where(
            before & left, cell_widths, 0.0
        )
        self.constant = -place * float(cell_widths[before & ~left].sum())
        self.constant -= (1.0 - place) * float(cell_widths[behind & left].sum() + cell_widths[nodes][inner_left].sum())
        self.below, self.above = table.below[:, before & left], table.above[:, before & ~left]
        self.widths = cell_widths[before & left], cell_widths[before & ~left]
        self.square = -((1.0 - place) ** 2) * float(
            cell_widths[behind & left].sum() + cell_widths[nodes][inner_left].sum()
        )
        self.step = float(
            cell_widths[before & ~left].sum() - cell_widths[behind & left].sum() - cell_widths[nodes][inner_left].sum()
        )

    def contribution(self, grid: FloatArray, bend: float, height: float) -> FloatArray:
        fall = grid @ self.rows
        count = grid.shape[0]
        rows = np.arange(count)
        found = find_crossings(fall, self.level + JUMP_TOLERANCE)
        values = fall.reshape(count, self.panels, N_NODES)
        out = np.zeros(count)
        if bend != 0.0:
            excess = (values @ WEIGHTS - self.level) * self.width
            until = np.cumsum(excess, axis=1)[rows, found.panel] - excess[rows, found.panel]
            inner = (found.until * values[rows, found.panel]).sum(axis=1) - self.level * found.share
            until += inner * self.width[found.panel]
            out += bend * (grid @ self.linear + self.constant + until)
        if height != 0.0:
            edges = np.concatenate(([0.0], np.cumsum(self.width)))
            reach = edges[found.panel] + found.share * self.width[found.panel]
            out += height * (self.step + reach)
        return out

    def squared_excess(self, grid: FloatArray) -> FloatArray:
        """The integral of max(S − place, 0)², less (1 − place)² left of the anchor."""
        below, above = grid @ self.below, grid @ self.above
        out = (below * (below - 2.0 * (1.0 - self.place))) @ self.widths[0]
        out += (above - self.place) ** 2 @ self.widths[1] + self.square
        fall = grid @ self.rows
        rows = np.arange(grid.shape[0])
        found = find_crossings(fall, self.level + JUMP_TOLERANCE)
        values = (fall.reshape(grid.shape[0], self.panels, N_NODES) - self.level) ** 2
        inner = (values @ WEIGHTS) * self.width
        out += np.cumsum(inner, axis=1)[rows, found.panel] - inner[rows, found.panel]
        out += (found.until * values[rows, found.panel]).sum(axis=1) * self.width[found.panel]
        return np.asarray(out)
