"""Where curves that are known at the nodes of Gauss-Legendre panels cross a level, and integrals up to there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.tables.decomposition import JUMP_TOLERANCE

N_NODES = 10  # nodes of a panel
_x, _w = np.polynomial.legendre.leggauss(N_NODES)
NODES, WEIGHTS = 0.5 * (_x + 1.0), 0.5 * _w  # on [0, 1]
# From values at the nodes to the coefficients of the polynomial through them, in powers of ξ − ½.
_NODES_TO_POWERS = np.linalg.inv(np.vander(NODES - 0.5, N_NODES, increasing=True)).T
_EXPONENTS = np.arange(N_NODES)
# From values at the nodes of a panel to those at the nodes of its two halves.
NODES_TO_HALVES = (
    _NODES_TO_POWERS @ np.vander(np.concatenate((0.5 * NODES, 0.5 + 0.5 * NODES)) - 0.5, N_NODES, increasing=True).T
)


@dataclass(frozen=True)
class Crossing:
    """Where falling curves (rows) cross a level: panel, share of it that lies before, and integrals up to there.

    ``until`` maps the node values of the crossed panel to the integral of the polynomial through them up to the
    crossing, as a share of the panel's width. ``there`` maps them to the value at the crossing, ``slope`` to the
    derivative there.
    """

    panel: NDArray[np.intp]
    share: FloatArray
    until: FloatArray
    there: FloatArray
    slope: FloatArray


def find_level_crossings(fall: FloatArray, level: float) -> Crossing:
    """Where falling curves, given at the nodes (curves × panels·nodes), cross a level."""
    count, size = fall.shape
    panels = size // N_NODES
    first = np.where((fall < level).any(axis=1), (fall < level).argmax(axis=1), size)  # first node below the level
    rows = np.arange(count)
    panel = np.minimum(first // N_NODES, panels - 1)
    inside = fall.reshape(count, panels, N_NODES)
    # Before the first node of a panel: is it this panel's edge, or the end of the one before?
    begins = (first % N_NODES == 0) & (first < size) & (first > 0)
    edge = (inside[rows, panel] @ _NODES_TO_POWERS) @ np.power(-0.5, _EXPONENTS)
    panel = np.where(begins & (edge < level), panel - 1, panel)
    values = inside[rows, panel]
    position = first - panel * N_NODES
    ends = np.concatenate(([0.0], NODES, [1.0]))
    lo = ends[np.clip(position, 0, N_NODES)]
    hi = ends[np.clip(position + 1, 1, N_NODES + 1)]
    powers = values @ _NODES_TO_POWERS
    powers[:, 0] -= level
    share = 0.5 * (lo + hi)
    for _ in range(40):  # Newton's method inside an interval that shrinks
        z = share - 0.5
        total, falls = powers[:, N_NODES - 1], np.zeros(count)
        for k in range(N_NODES - 2, -1, -1):
            falls = falls * z + total
            total = total * z + powers[:, k]
        beyond = total < 0.0
        hi, lo = np.where(beyond, share, hi), np.where(beyond, lo, share)
        with np.errstate(all="ignore"):
            step = share - total / falls
        step = np.where((step > lo) & (step < hi), step, 0.5 * (lo + hi))
        moved, share = np.abs(step - share).max(initial=0.0), step
        if moved < 1e-14:
            break
    z = (share - 0.5)[:, None]
    integral = (z ** (_EXPONENTS + 1) - (-0.5) ** (_EXPONENTS + 1)) / (_EXPONENTS + 1)
    slope = np.where(_EXPONENTS > 0, _EXPONENTS * z ** np.maximum(_EXPONENTS - 1, 0), 0.0)
    back = _NODES_TO_POWERS.T
    return Crossing(panel, share, integral @ back, (z**_EXPONENTS) @ back, slope @ back)


class CornerTerm:
    """What one corner or step of h adds to U_h, for curves on panels: from where each mixture crosses its place."""

    def __init__(
        self, cdf_rows: FloatArray, survival_rows: FloatArray, cell_widths: FloatArray, n_left: int, place: float
    ) -> None:
        self.place = place
        high, panels = place > 0.5, cell_widths.size // N_NODES
        below, above = (rows.reshape(rows.shape[0], -1, N_NODES) for rows in (cdf_rows, survival_rows))
        # Between these panels every crossing lies; before them all survivals are above, behind them all below.
        if high:
            most, least = 1.0 - below.min(axis=(0, 2)), 1.0 - below.max(axis=(0, 2))
        else:
            most, least = above.max(axis=(0, 2)), above.min(axis=(0, 2))
        first = int(np.argmax(least < place + 1e-9)) if (least < place + 1e-9).any() else panels
        last = panels - int(np.argmax(most[::-1] > place - 1e-9)) if (most > place - 1e-9).any() else 0
        first, last = max(min(first, last) - 1, 0), min(max(first, last) + 1, panels)
        begin, inner = first * N_NODES, slice(first * N_NODES, last * N_NODES)
        self.rows = -cdf_rows[:, inner] if high else survival_rows[:, inner]
        self.level = place - 1.0 if high else place
        self.panel_widths = cell_widths[inner].reshape(-1, N_NODES).sum(axis=1)
        # max(S − place, 0), and less 1 − place left of the anchor. Before the crossing that is a sum over cells.
        left, right = slice(0, min(n_left, begin)), slice(n_left, begin)
        self.below, self.above = cdf_rows[:, left], survival_rows[:, right]
        self.widths = cell_widths[left], cell_widths[right]
        self.linear = self.above @ self.widths[1] - self.below @ self.widths[0]
        self.width_before, self.width_behind = float(self.widths[1].sum()), float(cell_widths[begin:n_left].sum())

    def contribution(self, grid: FloatArray, bend: float, height: float) -> FloatArray:
        """What a corner with this change of slope, and a step of this height, add for each mixture (rows)."""
        fall, rows = grid @ self.rows, np.arange(grid.shape[0])
        found = find_level_crossings(fall, self.level + JUMP_TOLERANCE)
        out = np.zeros(rows.size)
        if bend != 0.0:
            until = self._integrals_until_crossing(found, fall.reshape(rows.size, -1, N_NODES) - self.level)
            constant = self.place * self.width_before + (1.0 - self.place) * self.width_behind
            out += bend * (grid @ self.linear - constant + until)
        if height != 0.0:
            exact = find_level_crossings(fall, self.level)  # heavy tails feel the tolerance, which is for flat panels
            share = np.where(exact.panel == found.panel, exact.share, found.share)
            edges = np.concatenate(([0.0], np.cumsum(self.panel_widths)))
            reach = edges[found.panel] + share * self.panel_widths[found.panel]
            out += height * (self.width_before - self.width_behind + reach)
        return out

    def squared_excess(self, grid: FloatArray) -> FloatArray:
        """The integral of max(S − place, 0)², less (1 − place)² left of the anchor."""
        below, above, fall = grid @ self.below, grid @ self.above, grid @ self.rows
        out = (below * (below - 2.0 * (1.0 - self.place))) @ self.widths[0]
        out += (above - self.place) ** 2 @ self.widths[1] - (1.0 - self.place) ** 2 * self.width_behind
        found = find_level_crossings(fall, self.level + JUMP_TOLERANCE)
        return np.asarray(
            out + self._integrals_until_crossing(found, (fall.reshape(out.size, -1, N_NODES) - self.level) ** 2)
        )

    def _integrals_until_crossing(self, found: Crossing, values: FloatArray) -> FloatArray:
        """Integrals up to the crossing, from the first panel that could have one."""
        rows, panel = np.arange(values.shape[0]), found.panel
        whole = (values @ WEIGHTS) * self.panel_widths
        inner = (found.until * values[rows, panel]).sum(axis=1) * self.panel_widths[panel]
        return np.asarray(np.cumsum(whole, axis=1)[rows, panel] - whole[rows, panel] + inner)
