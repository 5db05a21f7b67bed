"""Utilities of many mixtures of known arms at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.metrics.panels import WEIGHTS, N, crossings
from pmbandits.metrics.pool import AtomPool, PanelPool, Pool, pool
from pmbandits.metrics.smooth import Smooth
from pmbandits.metrics.value import value_of_mixture

_LARGEST = 20_000_000  # arms × cells of a table of curves
_BLOCK = 400_000  # mixtures × cells worked on at a time
_FAR = 1e-3  # a CDF or survival above this can be had from the other without losing digits
_SAME = 1e-9  # utilities of single arms that are closer to the best are worked out by themselves


def utilities(metric: Distortion, bandit: Bandit, grid: FloatArray) -> FloatArray:
    """V of many mixtures, one row of weights each.

    >>> import pmbandits as pmb
    >>> utilities(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([0.24  , 0.2275])
    """
    return scorer(metric, bandit)(grid)


def scorer(metric: Distortion, bandit: Bandit) -> Callable[[FloatArray], FloatArray]:
    """V of many mixtures, again and again: what does not depend on the mixtures is worked out once."""
    return Values(metric, lay_arms(metric, list(bandit.laws)))


def lay_arms(metric: Distortion, laws: list[Law]) -> Pool:
    """The arms on common cells, accurate for single arms and for the even mixture of all."""
    count = len(laws)
    return pool(metric, laws, np.vstack((np.eye(count), np.full((1, count), 1.0 / count))))


def values_of(metric: Distortion, laid: Pool, grid: FloatArray) -> FloatArray:
    """V of many mixtures of arms that lie on common cells already."""
    return Values(metric, laid)(grid)


def single_values(metric: Distortion, laws: list[Law], laid: Pool) -> FloatArray:
    """The utility of every arm by itself; the best ones to the last digit that integration gives."""
    count = len(laws)
    own = [isinstance(law, Atoms) or law.lattice or count <= 4 for law in laws]
    out = np.empty(count)
    if not all(own):
        out = values_of(metric, laid, np.eye(count))
        if laid.remainder is not None and laid.remainder.size >= count:
            out = out + laid.remainder[:count]
    for k in range(count):
        if own[k]:
            out[k] = value_of_mixture(metric, laws, np.eye(count)[k])
    top = float(out.max())
    for k in (int(i) for i in np.flatnonzero(out >= top - _SAME * max(float(np.abs(out).max()), 1e-300))):
        if not own[k]:
            out[k] = value_of_mixture(metric, laws, np.eye(count)[k])
    return out


class Values:
    """V as a function of a table of mixtures (rows), for arms on common cells."""

    def __init__(self, metric: Distortion, laid: Pool) -> None:
        self.metric, self.laid, self.smooth = metric, laid, Smooth(metric)
        self.large = isinstance(laid, AtomPool) and laid.n_arms * laid.omega.size > _LARGEST
        if self.large:
            return
        below, above = laid.rows(range(laid.n_arms))
        self.curves = below, above
        if not isinstance(laid, PanelPool) or self.smooth.plain:
            self.corners: list[_Corner] = []
            self.whole = not isinstance(laid, PanelPool)
        else:
            self.corners = [_Corner(laid, place) for place in self.smooth.places]
            self.whole = False
        # Which side to count from, for all mixtures alike: where no arm's CDF is tiny the survival will do.
        from_above = below.min(axis=0, initial=1.0) >= _FAR
        from_below = (above.min(axis=0, initial=1.0) >= _FAR) & ~from_above
        either = ~from_above & ~from_below
        self.above, self.below = above[:, from_above], below[:, from_below]
        self.both = below[:, either], above[:, either]
        self.order = [laid.omega[from_above], laid.omega[from_below], laid.omega[either]]
        self.left = [laid.left[from_above], laid.left[from_below], laid.left[either]]

    def __call__(self, grid: FloatArray) -> FloatArray:
        grid = np.asarray(grid, dtype=np.float64)
        if self.large:
            return np.array([self.laid.value(self.metric, row) for row in grid])
        out = np.empty(grid.shape[0])
        step = max(1, _BLOCK // max(self.laid.omega.size, 1))
        for start in range(0, grid.shape[0], step):
            out[start : start + step] = self._block(grid[start : start + step])
        return out

    def _block(self, grid: FloatArray) -> FloatArray:
        smooth = self.smooth
        h, co, end = self._h, self._co, smooth.end - sum(0.5 * c * (1.0 - u) ** 2 for u, c in smooth.bows)
        if self.whole:  # atoms: corners and steps are no trouble
            h, co, end = self.metric._h, self.metric._co, smooth.top
        total = np.full(grid.shape[0], self.laid.anchor * smooth.top)
        with np.errstate(all="ignore"):
            if self.order[0].size:
                total += h(np.minimum(grid @ self.above, 1.0)) @ self.order[0]
            if self.order[1].size:
                total += co(np.minimum(grid @ self.below, 1.0)) @ self.order[1]
            if self.order[2].size:
                f, s = np.minimum(grid @ self.both[0], 1.0), np.minimum(grid @ self.both[1], 1.0)
                lower = f < s
                cells = np.empty_like(f)
                cells[lower], cells[~lower] = co(f[lower]), h(s[~lower])
                total += cells @ self.order[2]
                if end != 0.0:
                    total += end * ((lower.astype(np.float64) - self.left[2]) @ self.order[2])
        if end != 0.0:
            total += end * float(self.order[1] @ (1.0 - self.left[1]) - self.order[0] @ self.left[0])
        for corner in self.corners:
            bends = sum(bend for place, bend in smooth.kinks if place == corner.place)
            heights = sum(height for place, height in smooth.jumps if place == corner.place)
            total += corner.part(grid, bends, heights)
            for place, change in smooth.bows:
                if place == corner.place:
                    total += 0.5 * change * corner.squares(grid)
        return total

    # s without what is left of it where h bends differently on both sides of a corner.
    def _h(self, u: FloatArray) -> FloatArray:
        out = self.smooth.h(u)
        for place, change in self.smooth.bows:
            out = out - 0.5 * change * np.maximum(u - place, 0.0) ** 2
        return out

    def _co(self, v: FloatArray) -> FloatArray:
        out = self.smooth.co(v)
        for place, change in self.smooth.bows:
            near = np.minimum(v, 1.0 - place)
            out = out - 0.5 * change * near * (near - 2.0 * (1.0 - place))
        return out

    def corner_part(self, grid: FloatArray, place: float, bend: float, height: float) -> FloatArray:
        """The part of V that one corner or step of h adds."""
        if not self.whole:
            corner = next(corner for corner in self.corners if corner.place == place)
            return corner.part(grid, bend, height)
        above = np.minimum(grid @ self.curves[1], 1.0)
        cells = bend * (np.maximum(above - place, 0.0) - (1.0 - place) * self.laid.left)
        cells += height * ((above - place > JUMP_TOLERANCE).astype(np.float64) - self.laid.left)
        return np.asarray(cells @ self.laid.omega)


class _Corner:
    """What one corner or step of h adds, for arms on panels: from where each mixture crosses its place."""

    def __init__(self, laid: PanelPool, place: float) -> None:
        self.place = place
        count = laid.n_arms
        self.high = place > 0.5
        above, below = (rows.reshape(count, -1, N) for rows in (laid.above, laid.below))
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
        nodes = np.arange(first * N, last * N)
        self.rows = -laid.below[:, nodes] if self.high else laid.above[:, nodes]
        self.level = place - 1.0 if self.high else place
        self.width = (laid.panels.b - laid.panels.a)[first:last]
        omega, left = laid.omega, laid.left
        before, behind = np.arange(omega.size) < first * N, np.arange(omega.size) >= last * N
        inner_left = left[nodes]
        # max(S − place, 0), and less 1 − place left of the anchor.
        self.linear = laid.above @ np.where(before & ~left, omega, 0.0) - laid.below @ np.where(
            before & left, omega, 0.0
        )
        self.constant = -place * float(omega[before & ~left].sum())
        self.constant -= (1.0 - place) * float(omega[behind & left].sum() + omega[nodes][inner_left].sum())
        self.below, self.above = laid.below[:, before & left], laid.above[:, before & ~left]
        self.widths = omega[before & left], omega[before & ~left]
        self.square = -((1.0 - place) ** 2) * float(omega[behind & left].sum() + omega[nodes][inner_left].sum())
        self.step = float(omega[before & ~left].sum() - omega[behind & left].sum() - omega[nodes][inner_left].sum())

    def part(self, grid: FloatArray, bend: float, height: float) -> FloatArray:
        fall = grid @ self.rows
        count = grid.shape[0]
        rows = np.arange(count)
        found = crossings(fall, self.level + JUMP_TOLERANCE)
        values = fall.reshape(count, self.panels, N)
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

    def squares(self, grid: FloatArray) -> FloatArray:
        """The integral of max(S − place, 0)², less (1 − place)² left of the anchor."""
        below, above = grid @ self.below, grid @ self.above
        out = (below * (below - 2.0 * (1.0 - self.place))) @ self.widths[0]
        out += (above - self.place) ** 2 @ self.widths[1] + self.square
        fall = grid @ self.rows
        rows = np.arange(grid.shape[0])
        found = crossings(fall, self.level + JUMP_TOLERANCE)
        values = (fall.reshape(grid.shape[0], self.panels, N) - self.level) ** 2
        inner = (values @ WEIGHTS) * self.width
        out += np.cumsum(inner, axis=1)[rows, found.panel] - inner[rows, found.panel]
        out += (found.until * values[rows, found.panel]).sum(axis=1) * self.width[found.panel]
        return np.asarray(out)
