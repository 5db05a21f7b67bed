"""Continuous laws side by side on shared quadrature panels.

Every law is evaluated once at every node, in calls that take all laws of one family together. Panels are split until
the integrals that the caller asks for agree with those over their halves. So their number depends on how many different
shapes the curves have, not on how many arms there are. Positions are kept as distances from an anchor: laws that lie
far from 0, however narrow, lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.metrics.laws import TINY, Atoms, Law, Polyline, Scipy, tails_of_family

N = 10  # nodes of a panel
_x, _w = np.polynomial.legendre.leggauss(N)
NODES, WEIGHTS = 0.5 * (_x + 1.0), 0.5 * _w  # on [0, 1]
# From values at the nodes to the coefficients of the polynomial through them, in powers of ξ − ½.
_TO_POWERS = np.linalg.inv(np.vander(NODES - 0.5, N, increasing=True)).T
_EXPONENTS = np.arange(N)
# From values at the nodes of a panel to those at the nodes of its two halves.
_HALVES = _TO_POWERS @ np.vander(np.concatenate((0.5 * NODES, 0.5 + 0.5 * NODES)) - 0.5, N, increasing=True).T

_TOLERANCE = 2e-14  # error of a panel, relative to the whole integral
_MOST_NUMBERS = 20_000_000  # nodes × arms
_MOST_PANELS = 20_000
_DEEPEST = 70
_CHUNK = 8  # panels that double, tried at a time
# A tail falls slower than every power if a doubling panel holds more than this share of the one before, at the limit.
_SLOWEST = -1e-6
_RESOLVED = 3e-14  # how well polynomials follow the curves where corners of h may be crossed
_DIGITS = 16.0 * float(np.finfo(float).eps)  # how far a position is off, relative to its size
FLAT = 1e-11  # a panel on which no curve changes by more counts as one cell

# So far out that beyond nothing but a smooth tail is left: a narrow law's tail would hide in a wide panel.
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


@dataclass
class Panels:
    """Panels [a, b] in order, in distances from the anchor, with the curves of all laws at their nodes."""

    anchor: float
    a: FloatArray
    b: FloatArray
    below: FloatArray  # laws × (panels · nodes): CDFs
    above: FloatArray  # survivals
    error: float  # estimated error of the integrals
    remainder: FloatArray  # for each integrand: what lies beyond the last panels

    @property
    def omega(self) -> FloatArray:
        return np.asarray(((self.b - self.a)[:, None] * WEIGHTS).ravel())


def evaluate(laws: Sequence[Law], anchor: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """CDFs and survivals of all laws at anchor + y; each from its smaller side, so that no tail loses its digits."""
    below, above = np.empty((len(laws), y.size)), np.empty((len(laws), y.size))
    families: dict[object, list[int]] = {}
    for k, law in enumerate(laws):
        if isinstance(law, Scipy):
            families.setdefault(law.family, []).append(k)
        else:
            below[k], above[k] = law.curve(anchor, y)
    for members in families.values():
        below[members], above[members] = tails_of_family([laws[k] for k in members], anchor, y)  # type: ignore[misc]
    return below, above


def lay(laws: Sequence[Law], integrands: Integrands, levels: Sequence[float] = ()) -> Panels:
    """Panels on which the given integrands of the curves are integrated accurately.

    Where survivals lie around one of the ``levels`` the curves themselves are followed, whatever is integrated.
    """
    anchor = float(np.median([law.median for law in laws]))
    edges = _first_edges(laws, anchor)
    builder = _Builder(laws, anchor, integrands, levels)
    left = [] if np.isfinite(min(law.lo for law in laws)) else builder.extend(edges, True)
    right = [] if np.isfinite(max(law.hi for law in laws)) else builder.extend(edges, False)
    edges = np.unique(np.concatenate((left, edges, right)))
    if edges.size < 2:
        none, no_rows = np.zeros(0), np.zeros((len(laws), 0))
        return Panels(anchor, none, none, no_rows, no_rows, 0.0, builder.remainder)
    return builder.refine(edges[:-1], edges[1:])


def refined(laws: Sequence[Law], panels: Panels, integrands: Integrands, levels: Sequence[float] = ()) -> Panels:
    """The same panels, split where other integrands need it."""
    builder = _Builder(laws, panels.anchor, integrands, levels)
    builder.error = panels.error
    return builder.refine(panels.a, panels.b, (panels.below, panels.above))


def _first_edges(laws: Sequence[Law], anchor: float) -> FloatArray:
    """Ends and atoms of all laws, and so many of their quantiles that no law hides between two edges."""
    hard = [np.zeros(1)]
    places: list[FloatArray] = []
    sizes: list[FloatArray] = []
    for law in laws:
        if isinstance(law, (Atoms, Polyline)):
            hard.append(law.x - anchor)
            continue
        q = law.quantiles(anchor, _QUANTILES)
        q = np.unique(q[np.isfinite(q)])
        if q.size > 1:
            steps = np.diff(q)
            sizes.append(0.5 * np.minimum(np.append(steps, steps[-1]), np.append(steps[0], steps)))
        else:
            sizes.append(np.zeros(q.size))
        places.append(q)
        hard.append(law.ends(anchor))
    fixed = np.unique(np.concatenate(hard))
    if not places:
        return fixed
    place, size = np.concatenate(places), np.concatenate(sizes)
    lo = fixed[0] if np.isfinite(min(law.lo for law in laws)) else -np.inf
    hi = fixed[-1] if np.isfinite(max(law.hi for law in laws)) else np.inf
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
class _Tests:
    whole: FloatArray
    smooth: FloatArray | None
    crossed: NDArray[np.bool_] | None

    def misses(self, halves: _Tests) -> FloatArray:
        """How much each integral differs from the sum over the halves."""
        with np.errstate(all="ignore"):
            out = np.abs(halves.whole[:, ::2] + halves.whole[:, 1::2] - self.whole)
            if self.smooth is not None and halves.smooth is not None and self.crossed is not None:
                other = np.abs(halves.smooth[:, ::2] + halves.smooth[:, 1::2] - self.smooth)
                out = np.where(self.crossed, other, out)
        return np.where(np.isfinite(out), out, 0.0)

    def some(self, which: NDArray[np.bool_]) -> _Tests:
        smooth = None if self.smooth is None else self.smooth[:, which]
        return _Tests(self.whole[:, which], smooth, None if self.crossed is None else self.crossed[:, which])


def _sums(f: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray((f.reshape(f.shape[0], a.size, N) @ WEIGHTS) * (b - a))


class _Builder:
    def __init__(self, laws: Sequence[Law], anchor: float, integrands: Integrands, levels: Sequence[float]) -> None:
        self.laws, self.anchor, self.integrands, self.levels = laws, anchor, integrands, levels
        self.error = 0.0
        probe = integrands(np.full((len(laws), 1), 0.5), np.full((len(laws), 1), 0.5), np.zeros(1, dtype=bool))[0]
        self.remainder = np.zeros(probe.shape[0])

    def curves(self, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        return evaluate(self.laws, self.anchor, (a[:, None] + (b - a)[:, None] * NODES).ravel())

    def integrals(self, a: FloatArray, b: FloatArray, curves: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Integral over each panel of each integrand: shape (integrands, panels)."""
        f, _ = self.integrands(*curves, np.repeat(0.5 * (a + b) < 0.0, N))
        return _sums(f, a, b)

    def tests(self, a: FloatArray, b: FloatArray, curves: tuple[FloatArray, FloatArray]) -> _Tests:
        """The same, and what a panel in which a corner is crossed is judged by: it will be cut there."""
        f, corners = self.integrands(*curves, np.repeat(0.5 * (a + b) < 0.0, N))
        whole = _sums(f, a, b)
        if corners is None:
            return _Tests(whole, None, None)
        smooth, falls = corners
        falls = falls.reshape(falls.shape[0], a.size, N)
        crossed = np.zeros((falls.shape[0], a.size), dtype=bool)
        for level in self.levels:
            crossed |= (falls[:, :, -1] < level) & (falls[:, :, 0] > level)
        return _Tests(whole, _sums(smooth, a, b), np.broadcast_to(crossed, whole.shape))

    def extend(self, edges: FloatArray, lower: bool) -> list[float]:
        """Edges that double outwards until nothing is left, or the news that an integral diverges."""
        start = float(-edges[0] if lower else edges[-1])
        # The first panel outwards is as wide as the last one inwards.
        step = float(edges[1] - edges[0] if lower else edges[-1] - edges[-2]) if edges.size > 1 else 0.0
        if step <= np.finfo(float).tiny * 1e8:
            step = 1.0
        inside = np.zeros(self.remainder.size)
        if edges.size > 1:
            inside = np.abs(self.integrals(edges[:-1], edges[1:], self.curves(edges[:-1], edges[1:]))).sum(axis=1)
        parts = np.zeros((self.remainder.size, 0))
        smallest = np.zeros((len(self.laws), 0))
        out: list[float] = []
        most = int(np.log2(1e300) - np.log2(max(step, 1e-300)))
        while parts.shape[1] < most:
            k = np.arange(parts.shape[1], min(parts.shape[1] + _CHUNK, most))
            near, far = start + step * (np.exp2(k) - 1.0), start + step * (np.exp2(k + 1) - 1.0)
            a, b = (-far, -near) if lower else (near, far)
            curves = self.curves(a, b)
            parts = np.concatenate((parts, self.integrals(a, b, curves)), axis=1)
            tail = (curves[0] if lower else curves[1]).reshape(len(self.laws), k.size, N)
            smallest = np.concatenate((smallest, tail.min(axis=2)), axis=1)
            out += list(far)
            total = inside + np.abs(parts).sum(axis=1)
            if (np.abs(parts[:, -_CHUNK // 2 :]) <= 1e-18 * total[:, None]).all():
                break
        total = inside + np.abs(parts).sum(axis=1)
        usable = smallest.max(axis=0) > TINY
        good = int(np.flatnonzero(usable)[-1]) if usable.any() else -1
        reach = 1
        for row in range(parts.shape[0]):
            used = np.flatnonzero(np.abs(parts[row, : good + 1]) > 1e-18 * total[row])
            last = int(used[-1]) if used.size else -1
            reach = max(reach, last + 1)
            if last == good and last >= 8:  # still worth something where the digits end
                self._extrapolate(row, parts[row, : last + 1], lower)
        ends = out[:reach]
        if reach == good + 1 < len(out) and good < 8:
            ends.append(self._last_digits(start if reach == 0 else out[reach - 1], out[reach], lower))
        return [-y for y in ends] if lower else ends

    def _last_digits(self, lo: float, hi: float, lower: bool) -> float:
        """The distance at which probabilities lose their digits; what lies beyond is guessed from the slope there."""
        for _ in range(60):
            middle = 0.5 * (lo + hi)
            curves = evaluate(self.laws, self.anchor, np.array([-middle if lower else middle]))
            usable = float(curves[0 if lower else 1].max()) > TINY
            lo, hi = (middle, hi) if usable else (lo, middle)
        y = lo * np.array([0.999, 1.0])
        f, _ = self.integrands(*evaluate(self.laws, self.anchor, -y if lower else y), np.full(2, lower))
        with np.errstate(all="ignore"):
            falls = (np.log(np.abs(f[:, 0])) - np.log(np.abs(f[:, 1]))) / -np.log(0.999)
            rest = f[:, 1] * lo / (falls - 1.0)
        self.remainder += np.where(np.isfinite(rest) & (falls > 1.5), rest, 0.0)
        return lo

    def _extrapolate(self, row: int, parts: FloatArray, lower: bool) -> None:
        """Sum what lies beyond: the logarithm of a doubling panel's part goes on as a parabola (or a line)."""
        logs = np.log(np.abs(parts))
        n, m = logs.size - 1, (logs.size - 1) // 2
        ratio, earlier = logs[n] - logs[n - 1], logs[m] - logs[m - 1]
        change = (ratio - (logs[n - 5] - logs[n - 6])) / 5.0
        if abs(change) > 1e-9:  # a part like k^−g: it has a limit ratio, reached as 1/k
            limit = (ratio * n - earlier * m) / (n - m)
            falls = (earlier - ratio) * m * n / (n - m)
            grows = change > 0.0 and (ratio >= 0.0 or limit > 1e-3)
            if grows or (limit > _SLOWEST and falls > -1.0001):
                raise TailDiverges(row, lower)
            change = min(change, 0.0)
        elif ratio > _SLOWEST:
            raise TailDiverges(row, lower)
        else:  # a power of x: a geometric sum
            share = np.exp(ratio)
            self.remainder[row] += float(parts[-1] * share / (-np.expm1(ratio)))
            return
        steps = np.arange(1, 200_000, dtype=np.float64)
        rest = np.exp(np.minimum(ratio * steps + 0.5 * change * steps * (steps + 1.0), 0.0))
        self.remainder[row] += float(parts[-1] * rest.sum())

    def refine(self, a: FloatArray, b: FloatArray, curves: tuple[FloatArray, FloatArray] | None = None) -> Panels:
        """Split panels until halves agree with the whole."""
        curves = self.curves(a, b) if curves is None else curves
        tests = self.tests(a, b, curves)
        size = np.abs(tests.whole).sum(axis=1)
        size = np.where(np.isfinite(size), size, 0.0)
        limit = _TOLERANCE * np.maximum(size, float(size.max(initial=0.0)) * 1e-3) + 1e-300
        ends_a, ends_b, belows, aboves = [], [], [], []
        done = 0
        count = len(self.laws)
        for depth in range(_DEEPEST):
            if a.size == 0:
                break
            middle = 0.5 * (a + b)
            split = (middle > a) & (middle < b)
            half_a, half_b = np.stack((a, middle), 1).ravel(), np.stack((middle, b), 1).ravel()
            halves = self.curves(half_a, half_b)
            of_halves = self.tests(half_a, half_b, halves)
            miss = tests.misses(of_halves)
            bad = split & (miss > limit[:, None]).any(axis=0)
            bad |= split & self._unresolved(a, b, curves, halves)
            full = (done + 2 * a.size) * N * count > _MOST_NUMBERS or done + a.size > _MOST_PANELS
            if depth == _DEEPEST - 1 or full:
                self.error += float(miss[:, bad].max(axis=0).sum())
                bad[:] = False
            good = np.repeat(~bad, N)
            ends_a.append(a[~bad])
            ends_b.append(b[~bad])
            belows.append(curves[0][:, good])
            aboves.append(curves[1][:, good])
            done += int((~bad).sum())
            again = np.repeat(bad, 2)
            nodes = np.repeat(again, N)
            a, b, tests = half_a[again], half_b[again], of_halves.some(again)
            curves = halves[0][:, nodes], halves[1][:, nodes]
        a, b = np.concatenate(ends_a), np.concatenate(ends_b)
        order = np.argsort(a)
        chosen = (order[:, None] * N + np.arange(N)).ravel()
        below, above = np.concatenate(belows, axis=1)[:, chosen], np.concatenate(aboves, axis=1)[:, chosen]
        return Panels(self.anchor, a[order], b[order], below, above, self.error, self.remainder)

    def _unresolved(
        self, a: FloatArray, b: FloatArray, whole: tuple[FloatArray, FloatArray], halves: tuple[FloatArray, FloatArray]
    ) -> NDArray[np.bool_]:
        """Panels around a level in which the polynomials through the nodes do not follow the curves."""
        count = len(self.laws)
        out = np.zeros(whole[0].shape[1] // N, dtype=bool)
        if not self.levels:
            return out
        below, above = (curve.reshape(count, -1, N) for curve in whole)
        high, low = above.max(axis=(0, 2)), above.min(axis=(0, 2))
        near = np.zeros_like(out)
        for level in self.levels:
            near |= (low <= level + 0.01) & (high >= level - 0.01)
        if near.any():
            finer = halves[0].reshape(count, -1, 2 * N)[:, near]
            moves = below[:, near, -1:] - below[:, near, :1]
            # Where a curve hardly moves, what is missed is the noise of its formula; where it is so steep that the
            # last digit of a position is felt, finer panels have only more of that noise.
            digits = _DIGITS * (np.maximum(np.abs(a), np.abs(b)) + abs(self.anchor))[near] / (b - a)[near]
            enough = _RESOLVED + (1e-10 + digits[:, None]) * moves
            missed = (np.abs(below[:, near] @ _HALVES - finer) > enough) & (moves > 1e-6)
            out[near] = missed.any(axis=(0, 2))
        return out


# ---- where a curve crosses a level ------------------------------------------------------------------------


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


def crossings(fall: FloatArray, level: float) -> Crossing:
    """Where falling curves, given at the nodes (curves × panels·nodes), cross a level."""
    count, size = fall.shape
    panels = size // N
    first = np.where((fall < level).any(axis=1), (fall < level).argmax(axis=1), size)  # first node below the level
    rows = np.arange(count)
    panel = np.minimum(first // N, panels - 1)
    inside = fall.reshape(count, panels, N)
    # Before the first node of a panel: is it this panel's edge, or the end of the one before?
    begins = (first % N == 0) & (first < size) & (first > 0)
    edge = (inside[rows, panel] @ _TO_POWERS) @ np.power(-0.5, _EXPONENTS)
    panel = np.where(begins & (edge < level), panel - 1, panel)
    values = inside[rows, panel]
    position = first - panel * N
    ends = np.concatenate(([0.0], NODES, [1.0]))
    lo = ends[np.clip(position, 0, N)]
    hi = ends[np.clip(position + 1, 1, N + 1)]
    powers = values @ _TO_POWERS
    powers[:, 0] -= level
    share = 0.5 * (lo + hi)
    for _ in range(40):  # Newton's method inside an interval that shrinks
        z = share - 0.5
        total, falls = powers[:, N - 1], np.zeros(count)
        for k in range(N - 2, -1, -1):
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
    back = _TO_POWERS.T
    return Crossing(panel, share, integral @ back, (z**_EXPONENTS) @ back, slope @ back)
