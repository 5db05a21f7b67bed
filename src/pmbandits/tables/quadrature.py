"""Gauss-Legendre quadrature: continuous distributions side by side on shared panels.

Each distribution is evaluated once at every node, one call for all of a family. Panels are split until
the integrals that the caller asks for agree with those over their halves. So their number depends on how many different
shapes the curves have, not on how many arms there are. Positions are distances from an anchor: arms that lie
far from 0, however narrow, lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.tables.crossings import N_NODES, NODES, NODES_TO_HALVES, WEIGHTS
from pmbandits.tables.distributions import (
    SMALLEST_TAIL,
    Atoms,
    Distribution,
    PiecewiseLinearCDF,
    ScipyDistribution,
    cdfs_and_survivals_of_family,
)
from pmbandits.tables.survival_table import SurvivalTable

_TOLERANCE = 2e-14  # error of a panel, relative to the whole integral
_MAX_VALUES = 20_000_000  # nodes × arms
_MAX_PANELS = 20_000
_MAX_DEPTH = 70
_CHUNK = 8  # panels that double, tried at a time
# A tail falls slower than every power if a doubling panel holds more than this share of the one before, at the limit.
_SLOWEST_DECAY = -1e-6
_RESOLUTION_TOLERANCE = 3e-14  # how well polynomials follow the curves where corners of h may be crossed
_POSITION_ROUNDING = 16.0 * float(np.finfo(float).eps)  # how far a position is off, relative to its size

# So far out that beyond nothing but a smooth tail is left: a narrow arm's tail would hide in a wide panel.
_QUANTILES = np.array([1e-16, 1e-10, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5])
# From CDFs, survivals and which nodes lie left of the anchor to integrands (rows). If they have corners, then also what
# is left of them without, and the survivals that they are functions of (one row, or one each).
Corners = tuple[FloatArray, FloatArray]
Integrands = Callable[[FloatArray, FloatArray, NDArray[np.bool_]], tuple[FloatArray, Corners | None]]


class TailDiverges(ValueError):
    """An integral over a tail is infinite; says which integrand and which tail."""

    def __init__(self, row: int, lower: bool) -> None:
        super().__init__(f"the {'lower' if lower else 'upper'} tail diverges")
        self.row, self.lower = row, lower


def cdfs_and_survivals_at(
    distributions: Sequence[Distribution], anchor: float, y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """CDFs and survivals of all distributions at anchor + y; each from its smaller side, to keep a tail's digits."""
    below, above = np.empty((len(distributions), y.size)), np.empty((len(distributions), y.size))
    families: dict[object, list[int]] = {}
    for k, distribution in enumerate(distributions):
        if isinstance(distribution, ScipyDistribution):
            families.setdefault(distribution.family, []).append(k)
        else:
            below[k], above[k] = distribution.cdf_and_survival(anchor, y)
    for members in families.values():
        below[members], above[members] = cdfs_and_survivals_of_family([distributions[k] for k in members], anchor, y)  # type: ignore[misc]
    return below, above


def build_panels(
    distributions: Sequence[Distribution], integrands: Integrands, levels: Sequence[float] = ()
) -> SurvivalTable:
    """A survival table on panels on which the given integrands of the curves are integrated accurately.

    Where survivals lie around one of the ``levels`` the curves themselves are followed, whatever is integrated.
    """
    anchor = float(np.median([distribution.median for distribution in distributions]))
    edges = _initial_edges(distributions, anchor)
    builder = _PanelBuilder(distributions, anchor, integrands, levels)
    left = (
        []
        if np.isfinite(min(distribution.lo for distribution in distributions))
        else builder.tail_panel_edges(edges, True)
    )
    right = (
        []
        if np.isfinite(max(distribution.hi for distribution in distributions))
        else builder.tail_panel_edges(edges, False)
    )
    edges = np.unique(np.concatenate((left, edges, right)))
    if edges.size < 2:
        none, no_rows = np.zeros(0), np.zeros((len(distributions), 0))
        return builder.build_table((none, none), (no_rows, no_rows))
    return builder.refine(edges[:-1], edges[1:])


def refine_panels(table: SurvivalTable, integrands: Integrands, levels: Sequence[float] = ()) -> SurvivalTable:
    """Split panels further, until other integrands are integrated accurately on them, too."""
    assert table.panel_edges is not None
    builder = _PanelBuilder(table.distributions, table.anchor, integrands, levels)
    builder.error = table.error
    return builder.refine(*table.panel_edges, (table.cdf_rows, table.survival_rows))


def _initial_edges(distributions: Sequence[Distribution], anchor: float) -> FloatArray:
    """Ends and atoms of all distributions, and so many quantiles that none lies hidden between two edges."""
    hard = [np.zeros(1)]
    places: list[FloatArray] = []
    sizes: list[FloatArray] = []
    for distribution in distributions:
        if isinstance(distribution, (Atoms, PiecewiseLinearCDF)):
            hard.append(distribution.x - anchor)
            continue
        q = distribution.quantile_distances_from(anchor, _QUANTILES)
        q = np.unique(q[np.isfinite(q)])
        if q.size > 1:
            steps = np.diff(q)
            sizes.append(0.5 * np.minimum(np.append(steps, steps[-1]), np.append(steps[0], steps)))
        else:
            sizes.append(np.zeros(q.size))
        places.append(q)
        hard.append(distribution.end_distances_from(anchor))
    fixed = np.unique(np.concatenate(hard))
    if not places:
        return fixed
    place, size = np.concatenate(places), np.concatenate(sizes)
    lo = fixed[0] if np.isfinite(min(distribution.lo for distribution in distributions)) else -np.inf
    hi = fixed[-1] if np.isfinite(max(distribution.hi for distribution in distributions)) else np.inf
    order = np.argsort(place, kind="stable")
    near = np.searchsorted(fixed, place)
    distance = np.minimum(
        np.abs(place - fixed[np.minimum(near, fixed.size - 1)]), np.abs(place - fixed[np.maximum(near - 1, 0)])
    )
    kept = []
    last = -np.inf
    for k in order:
        if place[k] - last > size[k] and distance[k] > size[k] and lo < place[k] < hi:
            last = place[k]
            kept.append(last)
    return np.unique(np.concatenate((fixed, kept)))


@dataclass
class _PanelIntegrals:
    whole: FloatArray
    smooth: FloatArray | None
    crossed: NDArray[np.bool_] | None

    def errors_against_halves(self, halves: _PanelIntegrals) -> FloatArray:
        """How much each integral differs from the sum over the halves."""
        with np.errstate(all="ignore"):
            out = np.abs(halves.whole[:, ::2] + halves.whole[:, 1::2] - self.whole)
            if self.smooth is not None and halves.smooth is not None and self.crossed is not None:
                other = np.abs(halves.smooth[:, ::2] + halves.smooth[:, 1::2] - self.smooth)
                out = np.where(self.crossed, other, out)
        return np.where(np.isfinite(out), out, 0.0)

    def integrals_of_some_panels(self, which: NDArray[np.bool_]) -> _PanelIntegrals:
        smooth = None if self.smooth is None else self.smooth[:, which]
        return _PanelIntegrals(self.whole[:, which], smooth, None if self.crossed is None else self.crossed[:, which])


def _integrate_panels(f: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray((f.reshape(f.shape[0], a.size, N_NODES) @ WEIGHTS) * (b - a))


class _PanelBuilder:
    def __init__(
        self, distributions: Sequence[Distribution], anchor: float, integrands: Integrands, levels: Sequence[float]
    ) -> None:
        self.distributions, self.anchor, self.integrands, self.levels = distributions, anchor, integrands, levels
        self.error = 0.0
        probe = integrands(
            np.full((len(distributions), 1), 0.5), np.full((len(distributions), 1), 0.5), np.zeros(1, dtype=bool)
        )[0]
        self.remainder = np.zeros(probe.shape[0])

    def cdfs_and_survivals_on_panels(self, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        return cdfs_and_survivals_at(self.distributions, self.anchor, (a[:, None] + (b - a)[:, None] * NODES).ravel())

    def integrate_on_panels(self, a: FloatArray, b: FloatArray, curves: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Integral over each panel of each integrand: shape (integrands, panels)."""
        f, _ = self.integrands(*curves, np.repeat(0.5 * (a + b) < 0.0, N_NODES))
        return _integrate_panels(f, a, b)

    def panel_integrals(self, a: FloatArray, b: FloatArray, curves: tuple[FloatArray, FloatArray]) -> _PanelIntegrals:
        """Integrals over each panel, also of the integrands without corners: panels will be cut at corners."""
        f, corners = self.integrands(*curves, np.repeat(0.5 * (a + b) < 0.0, N_NODES))
        whole = _integrate_panels(f, a, b)
        if corners is None:
            return _PanelIntegrals(whole, None, None)
        smooth, falls = corners
        falls = falls.reshape(falls.shape[0], a.size, N_NODES)
        crossed = np.zeros((falls.shape[0], a.size), dtype=bool)
        for level in self.levels:
            crossed |= (falls[:, :, -1] < level) & (falls[:, :, 0] > level)
        return _PanelIntegrals(whole, _integrate_panels(smooth, a, b), np.broadcast_to(crossed, whole.shape))

    def tail_panel_edges(self, edges: FloatArray, lower: bool) -> list[float]:
        """Edges of tail panels that double outwards until nothing is left; raises ``TailDiverges`` if that is never."""
        start = float(-edges[0] if lower else edges[-1])
        # The first panel outwards is as wide as the last one inwards.
        step = float(edges[1] - edges[0] if lower else edges[-1] - edges[-2]) if edges.size > 1 else 0.0
        if step <= np.finfo(float).tiny * 1e8:
            step = 1.0
        inside = np.zeros(self.remainder.size)
        if edges.size > 1:
            inside = np.abs(
                self.integrate_on_panels(
                    edges[:-1], edges[1:], self.cdfs_and_survivals_on_panels(edges[:-1], edges[1:])
                )
            ).sum(axis=1)
        parts = np.zeros((self.remainder.size, 0))
        smallest = np.zeros((len(self.distributions), 0))
        out: list[float] = []
        most = int(np.log2(1e300) - np.log2(max(step, 1e-300)))
        while parts.shape[1] < most:
            k = np.arange(parts.shape[1], min(parts.shape[1] + _CHUNK, most))
            near, outer = start + step * (np.exp2(k) - 1.0), start + step * (np.exp2(k + 1) - 1.0)
            a, b = (-outer, -near) if lower else (near, outer)
            curves = self.cdfs_and_survivals_on_panels(a, b)
            parts = np.concatenate((parts, self.integrate_on_panels(a, b, curves)), axis=1)
            tail = (curves[0] if lower else curves[1]).reshape(len(self.distributions), k.size, N_NODES)
            smallest = np.concatenate((smallest, tail.min(axis=2)), axis=1)
            out += list(outer)
            total = inside + np.abs(parts).sum(axis=1)
            if (np.abs(parts[:, -_CHUNK // 2 :]) <= 1e-18 * total[:, None]).all():
                break
        total = inside + np.abs(parts).sum(axis=1)
        usable = smallest.max(axis=0) > SMALLEST_TAIL
        good = int(np.flatnonzero(usable)[-1]) if usable.any() else -1
        reach = 1
        for row in range(parts.shape[0]):
            used = np.flatnonzero(np.abs(parts[row, : good + 1]) > 1e-18 * total[row])
            last = int(used[-1]) if used.size else -1
            reach = max(reach, last + 1)
            if last == good and last >= 8:  # still counts where the digits end
                self._add_extrapolated_tail_to_remainder(row, parts[row, : last + 1], lower)
        ends = out[:reach]
        if reach == good + 1 < len(out) and good < 8:
            ends.append(
                self._underflow_distance_adding_tail(start if reach == 0 else out[reach - 1], out[reach], lower)
            )
        return [-y for y in ends] if lower else ends

    def _underflow_distance_adding_tail(self, lo: float, hi: float, lower: bool) -> float:
        """The distance at which probabilities lose their digits; what lies beyond is guessed from the slope there."""
        for _ in range(60):
            middle = 0.5 * (lo + hi)
            curves = cdfs_and_survivals_at(self.distributions, self.anchor, np.array([-middle if lower else middle]))
            usable = float(curves[0 if lower else 1].max()) > SMALLEST_TAIL
            lo, hi = (middle, hi) if usable else (lo, middle)
        y = lo * np.array([0.999, 1.0])
        f, _ = self.integrands(
            *cdfs_and_survivals_at(self.distributions, self.anchor, -y if lower else y), np.full(2, lower)
        )
        with np.errstate(all="ignore"):
            falls = (np.log(np.abs(f[:, 0])) - np.log(np.abs(f[:, 1]))) / -np.log(0.999)
            rest = f[:, 1] * lo / (falls - 1.0)
        self.remainder += np.where(np.isfinite(rest) & (falls > 1.5), rest, 0.0)
        return lo

    def _add_extrapolated_tail_to_remainder(self, row: int, parts: FloatArray, lower: bool) -> None:
        """Sum what lies beyond: the logarithm of a doubling panel's part goes on as a parabola (or a line)."""
        logs = np.log(np.abs(parts))
        n, m = logs.size - 1, (logs.size - 1) // 2
        ratio, earlier = logs[n] - logs[n - 1], logs[m] - logs[m - 1]
        change = (ratio - (logs[n - 5] - logs[n - 6])) / 5.0
        if abs(change) > 1e-9:  # a part like k^−g: it has a limit ratio, reached as 1/k
            limit = (ratio * n - earlier * m) / (n - m)
            falls = (earlier - ratio) * m * n / (n - m)
            grows = change > 0.0 and (ratio >= 0.0 or limit > 1e-3)
            if grows or (limit > _SLOWEST_DECAY and falls > -1.0001):
                raise TailDiverges(row, lower)
            change = min(change, 0.0)
        elif ratio > _SLOWEST_DECAY:
            raise TailDiverges(row, lower)
        else:  # a power of x: a geometric sum
            share = np.exp(ratio)
            self.remainder[row] += float(parts[-1] * share / (-np.expm1(ratio)))
            return
        steps = np.arange(1, 200_000, dtype=np.float64)
        rest = np.exp(np.minimum(ratio * steps + 0.5 * change * steps * (steps + 1.0), 0.0))
        self.remainder[row] += float(parts[-1] * rest.sum())

    def build_table(self, edges: tuple[FloatArray, FloatArray], rows: tuple[FloatArray, FloatArray]) -> SurvivalTable:
        return SurvivalTable.from_panels(self.distributions, self.anchor, edges, rows, self.error, self.remainder)

    def refine(
        self, a: FloatArray, b: FloatArray, curves: tuple[FloatArray, FloatArray] | None = None
    ) -> SurvivalTable:
        """Split panels until halves agree with the whole."""
        curves = self.cdfs_and_survivals_on_panels(a, b) if curves is None else curves
        panel_integrals = self.panel_integrals(a, b, curves)
        size = np.abs(panel_integrals.whole).sum(axis=1)
        size = np.where(np.isfinite(size), size, 0.0)
        limit = _TOLERANCE * np.maximum(size, float(size.max(initial=0.0)) * 1e-3) + 1e-300
        ends_a, ends_b, belows, aboves = [], [], [], []
        done = 0
        count = len(self.distributions)
        for depth in range(_MAX_DEPTH):
            if a.size == 0:
                break
            middle = 0.5 * (a + b)
            split = (middle > a) & (middle < b)
            half_a, half_b = np.stack((a, middle), 1).ravel(), np.stack((middle, b), 1).ravel()
            halves = self.cdfs_and_survivals_on_panels(half_a, half_b)
            of_halves = self.panel_integrals(half_a, half_b, halves)
            miss = panel_integrals.errors_against_halves(of_halves)
            bad = split & (miss > limit[:, None]).any(axis=0)
            bad |= split & self._unresolved_panels(a, b, curves, halves)
            full = (done + 2 * a.size) * N_NODES * count > _MAX_VALUES or done + a.size > _MAX_PANELS
            if depth == _MAX_DEPTH - 1 or full:
                self.error += float(miss[:, bad].max(axis=0).sum())
                bad[:] = False
            good = np.repeat(~bad, N_NODES)
            ends_a.append(a[~bad])
            ends_b.append(b[~bad])
            belows.append(curves[0][:, good])
            aboves.append(curves[1][:, good])
            done += int((~bad).sum())
            again = np.repeat(bad, 2)
            nodes = np.repeat(again, N_NODES)
            a, b, panel_integrals = half_a[again], half_b[again], of_halves.integrals_of_some_panels(again)
            curves = halves[0][:, nodes], halves[1][:, nodes]
        a, b = np.concatenate(ends_a), np.concatenate(ends_b)
        order = np.argsort(a)
        chosen = (order[:, None] * N_NODES + np.arange(N_NODES)).ravel()
        below, above = np.concatenate(belows, axis=1)[:, chosen], np.concatenate(aboves, axis=1)[:, chosen]
        return self.build_table((a[order], b[order]), (below, above))

    def _unresolved_panels(
        self, a: FloatArray, b: FloatArray, whole: tuple[FloatArray, FloatArray], halves: tuple[FloatArray, FloatArray]
    ) -> NDArray[np.bool_]:
        """Panels around a level in which the polynomials through the nodes do not follow the curves."""
        count = len(self.distributions)
        out = np.zeros(whole[0].shape[1] // N_NODES, dtype=bool)
        if not self.levels:
            return out
        below, above = (curve.reshape(count, -1, N_NODES) for curve in whole)
        high, low = above.max(axis=(0, 2)), above.min(axis=(0, 2))
        near = np.zeros_like(out)
        for level in self.levels:
            near |= (low <= level + 0.01) & (high >= level - 0.01)
        if near.any():
            finer = halves[0].reshape(count, -1, 2 * N_NODES)[:, near]
            moves = below[:, near, -1:] - below[:, near, :1]
            # Where a curve hardly moves, what is missed is the noise of its formula; where it is so steep that the
            # last digit of a position is felt, finer panels have only more of that noise.
            digits = _POSITION_ROUNDING * (np.maximum(np.abs(a), np.abs(b)) + abs(self.anchor))[near] / (b - a)[near]
            enough = _RESOLUTION_TOLERANCE + (1e-10 + digits[:, None]) * moves
            missed = (np.abs(below[:, near] @ NODES_TO_HALVES - finer) > enough) & (moves > 1e-6)
            out[near] = missed.any(axis=(0, 2))
        return out
