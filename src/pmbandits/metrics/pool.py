"""Arms laid side by side on one axis, so that U_h of any mixture of them is a plain sum.

For any anchor x0 (an equivalent form of ``eq:wang_def`` that loses no digits in either tail)

    U_h(a) = x0·h(1) + Σ_left ω·co(F_a) + Σ_right ω·h(S_a),     co(v) = h(1 − v) − h(1),

where left of x0 F_a is the mixture's CDF and right of it S_a its survival. Cell by cell the smaller of F_a and S_a is
used, so that no tail loses its digits. With finite atoms the cells lie between atoms and the sum is exact;
continuous laws are put on Gauss–Legendre panels that are split until the integrals of the metric agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law, Scipy

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS
_TOLERANCE = 2e-14  # of a panel, relative to the whole integral
_MOST_PANELS = 60_000
_DEEPEST = 70
# A tail whose contributions shrink by less than this when the panel doubles is taken to diverge.
_DIVERGES = 0.999
_Function = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Curve:
    """A mixture on the cells: p is F_a where ``lower`` and S_a elsewhere, whichever is smaller."""

    p: FloatArray
    lower: NDArray[np.bool_]

    @staticmethod
    def of(below: FloatArray, above: FloatArray) -> Curve:
        lower = below < above
        return Curve(np.minimum(np.where(lower, below, above), 1.0), lower)


class Pool(ABC):
    """Curves of several arms on common cells."""

    n_arms: int
    anchor: float
    omega: FloatArray  # widths of the cells
    split: int  # cells before it lie left of the anchor
    error: float = 0.0  # estimated error of the sums, 0 when exact
    remainder: FloatArray | None = None  # what lies beyond the last panels, for the mixes it was built for

    @abstractmethod
    def curve(self, weights: FloatArray) -> Curve:
        """The mixture's curve."""

    @abstractmethod
    def adjoint(self, cells: FloatArray, lower: NDArray[np.bool_]) -> FloatArray:
        """Σ over cells of ``cells`` times each arm's CDF (where ``lower``) or survival: one number an arm."""

    @abstractmethod
    def rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """CDFs and survivals of some arms, one row each."""

    def integrand(self, metric: Distortion, curve: Curve) -> FloatArray:
        """h(S) right of the anchor and h(S) − h(1) left of it, from the accurate side."""
        out = self._each(metric._co, metric._h, curve)
        top = float(metric(1.0))
        if top != 0.0:
            left = np.arange(out.size) < self.split
            out += top * (curve.lower.astype(np.float64) - left)
        return out

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        """U_h of the mixture."""
        total = float(self.omega @ self.integrand(metric, self.curve(weights)))
        return self.anchor * float(metric(1.0)) + total

    def slope(self, metric: Distortion, curve: Curve) -> FloatArray:
        """Derivative of the integrand in p; infinite where h is vertical."""
        return self._each(metric._dco, metric._dh, curve)

    def bend(self, metric: Distortion, curve: Curve) -> FloatArray:
        """Second derivative of the integrand in p."""
        return self._each(metric._d2co, metric._d2h, curve)

    def gradient(self, metric: Distortion, curve: Curve) -> FloatArray:
        """Derivative of the utility in each arm's weight, up to a constant that the simplex does not feel."""
        with np.errstate(all="ignore"):
            return self.adjoint(self.omega * self.slope(metric, curve), curve.lower)

    @staticmethod
    def _each(low: _Function, high: _Function, c: Curve) -> FloatArray:
        out = np.empty(c.p.size)
        with np.errstate(all="ignore"):
            out[c.lower] = low(c.p[c.lower])
            out[~c.lower] = high(c.p[~c.lower])
        return out


def _sum_by(group: NDArray[np.intp], numbers: FloatArray, count: int) -> FloatArray:
    return np.asarray(np.bincount(group, weights=numbers, minlength=count), dtype=np.float64)


class AtomPool(Pool):
    """Arms with finitely many atoms. A pass over a mixture costs the number of atoms, not arms times atoms."""

    def __init__(self, laws: Sequence[Atoms]) -> None:
        self.n_arms = len(laws)
        x = np.concatenate([law.x for law in laws])
        mass = np.concatenate([law.p for law in laws])
        arm = np.repeat(np.arange(len(laws)), [law.x.size for law in laws])
        self.points, place = np.unique(x, return_inverse=True)
        order = np.argsort(place, kind="stable")
        self.place, self.mass, self.arm = place[order], mass[order], arm[order]
        self.distinct = self.points.size == x.size
        self.used = self.mass > 0.0
        self.omega = np.diff(self.points)
        self.split = self.omega.size // 2
        self.anchor = float(self.points[self.split])

    def _curves_of_mass(self, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Each is summed from its own end, so that small tail probabilities keep their digits.
        below = np.cumsum(mass[:-1])
        above = np.cumsum(mass[:0:-1])[::-1]
        return below, above

    def curve(self, weights: FloatArray) -> Curve:
        mass = self.mass * weights[self.arm]
        if not self.distinct:
            mass = _sum_by(self.place, mass, self.points.size)
        return Curve.of(*self._curves_of_mass(mass))

    def adjoint(self, cells: FloatArray, lower: NDArray[np.bool_]) -> FloatArray:
        # A cell counts an atom that lies outwards of it; an infinite cell makes the arms out there infinite.
        total = np.zeros(self.points.size)
        total[:-1] = np.cumsum(np.where(lower, cells, 0.0)[::-1])[::-1]
        total[1:] += np.cumsum(np.where(lower, 0.0, cells))
        if not self.distinct:
            total = total[self.place]
        total = np.where(self.used, total, 0.0) * self.mass
        return _sum_by(self.arm, total, self.n_arms)

    def rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        below, above = np.empty((len(arms), self.omega.size)), np.empty((len(arms), self.omega.size))
        for row, arm in enumerate(arms):
            mine = np.flatnonzero(self.arm == arm)
            mass = _sum_by(self.place[mine], self.mass[mine], self.points.size)
            below[row], above[row] = self._curves_of_mass(mass)
        return np.minimum(below, 1.0), np.minimum(above, 1.0)


class PanelPool(Pool):
    """Arms of any kind on quadrature panels."""

    def __init__(
        self, anchor: float, omega: FloatArray, split: int, below: FloatArray, above: FloatArray, error: float
    ) -> None:
        self.n_arms = below.shape[0]
        self.anchor, self.omega, self.split, self.error = anchor, omega, split, error
        self.below, self.above = below, above

    def curve(self, weights: FloatArray) -> Curve:
        return Curve.of(weights @ self.below, weights @ self.above)

    def adjoint(self, cells: FloatArray, lower: NDArray[np.bool_]) -> FloatArray:
        steep = ~np.isfinite(cells)
        out = np.zeros(self.n_arms)
        for side, matrix in ((lower, self.below), (~lower, self.above)):
            out += matrix @ np.where(side & ~steep, cells, 0.0)
            if (side & steep).any():
                out[(matrix[:, side & steep] > 0.0).any(axis=1)] = np.inf
        return out

    def rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        return self.below[list(arms)], self.above[list(arms)]


def pool(metric: Distortion, laws: Sequence[Law], mixes: FloatArray) -> Pool:
    """Lay the laws side by side, accurately for the given mixtures (rows) and what lies near them."""
    small = settled_tail(metric)
    finite: list[Law] = [
        law.truncated(lambda p, lower: metric._co(p) if lower else metric._h(p), small)
        if isinstance(law, Scipy) and law.lattice
        else law
        for law in laws
    ]
    atoms = [law for law in finite if isinstance(law, Atoms)]
    if len(atoms) == len(finite):
        return AtomPool(atoms)
    return _panels(metric, finite, mixes)


def settled_tail(metric: Distortion) -> float:
    """A tail probability beyond which no kink or jump of h is still to come."""
    places = [u for u, _ in (*metric.kinks, *metric.jumps)]
    return min([1e-3, *(0.5 * u for u in places if u > 0.0), *(0.5 * (1.0 - u) for u in places if u < 1.0)])


def wasserstein_pairs(laws: Sequence[Law]) -> FloatArray:
    """W1 distances between all pairs of laws: ∫|F_i − F_j|."""
    count = len(laws)
    out = np.zeros((count, count))
    # Lattices are truncated where their mean no longer notices.
    finite = [law.truncated(lambda p, _: p, 1e-3) if isinstance(law, Scipy) and law.lattice else law for law in laws]
    for i in range(count):
        for j in range(i):
            pair = [finite[i], finite[j]]
            atoms = [law for law in pair if isinstance(law, Atoms)]
            if len(atoms) == 2:
                laid = AtomPool(atoms)
                out[i, j] = out[j, i] = float(np.abs(np.diff(laid.rows([0, 1])[0], axis=0)[0]) @ laid.omega)
            else:
                out[i, j] = out[j, i] = _distance(pair)
    return out


def _distance(pair: Sequence[Law]) -> float:
    from pmbandits.metrics.families import Mean

    total = 0.0
    for side in _sides(Mean(), pair, np.array([[1.0, -1.0]]), _DifferenceSide):
        widths, below, above = side.refine(max(side.first_look(), 1e-300))
        total += float(widths @ np.abs(np.diff(below if side.lower else above, axis=0)[0]))
        total += float(side.remainder[0])
    return total


def _panels(metric: Distortion, laws: Sequence[Law], mixes: FloatArray) -> PanelPool:
    sides = _sides(metric, laws, mixes, _Side)
    scale = sum(side.first_look() for side in sides)
    parts = [side.refine(scale) for side in sides]
    out = PanelPool(
        sides[0].anchor,
        np.concatenate([part[0] for part in parts]),
        parts[0][0].size,
        np.concatenate([part[1] for part in parts], axis=1),
        np.concatenate([part[2] for part in parts], axis=1),
        sum(side.error for side in sides),
    )
    out.remainder = sides[0].remainder + sides[1].remainder
    return out


def _sides(metric: Distortion, laws: Sequence[Law], mixes: FloatArray, kind: type[_Side]) -> list[_Side]:
    anchor = float(np.median([law.median for law in laws]))
    breaks = np.unique(np.concatenate([law.breaks() for law in laws]))
    out = []
    for lower in (True, False):
        end = min(law.lo for law in laws) if lower else max(law.hi for law in laws)
        marks = np.unique(anchor - breaks[breaks < anchor]) if lower else breaks[breaks > anchor] - anchor
        out.append(kind(metric, laws, mixes, anchor, lower, marks, abs(end - anchor)))
    return out


class _Side:
    """One side of the anchor, in the coordinate y = distance from it."""

    def __init__(
        self,
        metric: Distortion,
        laws: Sequence[Law],
        mixes: FloatArray,
        anchor: float,
        lower: bool,
        marks: FloatArray,
        end: float,
    ) -> None:
        self.metric, self.laws, self.mixes, self.anchor, self.lower = metric, laws, mixes, anchor, lower
        self.edges = np.concatenate(([0.0], marks))
        self.remainder = np.zeros(mixes.shape[0])
        self.error = 0.0
        if not np.isfinite(end):
            self._extend()
        self.edges = np.unique(np.concatenate((self.edges, self._corners())))

    def _corners(self) -> FloatArray:
        """Where a mix crosses a kink or a jump of h: panels must not straddle it, or they may miss it."""
        places = [u for u, _ in (*self.metric.kinks, *self.metric.jumps)]
        if not places or self.edges.size < 2:
            return np.zeros(0)
        target = 1.0 - np.array(places) if self.lower else np.array(places)
        at_edges = self.mixes @ self.curves(self.edges)  # decreasing along the edges
        first = (at_edges[:, :, None] <= target).argmax(axis=1)
        none = ~(at_edges[:, -1:] <= target)
        lo, hi = self.edges[np.maximum(first - 1, 0)], self.edges[first]
        for _ in range(60):  # bisection, all crossings at once
            middle = 0.5 * (lo + hi)
            curves = self.curves(middle.ravel()).reshape(len(self.laws), *middle.shape)
            beyond = np.einsum("mk,kmj->mj", self.mixes, curves) <= target
            hi = np.where(beyond, middle, hi)
            lo = np.where(beyond, lo, middle)
        hi = np.where(none, 0.0, hi)
        return np.asarray(hi[(hi > 0.0) & (hi < self.edges[-1])])

    def curves(self, y: FloatArray) -> FloatArray:
        x = self.anchor - y if self.lower else self.anchor + y
        with np.errstate(all="ignore"):
            return np.stack([law.cdf(x) if self.lower else law.sf(x) for law in self.laws])

    def integrals(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Integral over each panel [a, b] for each mix: shape (mixes, panels)."""
        y = a[:, None] + (b - a)[:, None] * _NODES
        f = self.integrand(self.mixes @ self.curves(y.ravel()))
        return np.asarray((f.reshape(f.shape[0], *y.shape) @ _WEIGHTS) * (b - a))

    def integrand(self, mixed: FloatArray) -> FloatArray:
        curve = np.clip(mixed, 0.0, 1.0)
        with np.errstate(all="ignore"):
            return self.metric._co(curve) if self.lower else self.metric._h(curve)

    def _extend(self) -> None:
        """Double the panels outwards until nothing is left, or find out that the integral diverges."""
        start = float(self.edges[-1])
        step = start if start > 0.0 else 1.0
        doublings = int(np.log2(1e300) - np.log2(max(step, 1e-300)))
        edges = start + step * (np.exp2(np.arange(0, min(doublings, 1000))) - 1.0)
        parts = self.integrals(edges[:-1], edges[1:])
        inner = np.abs(self.integrals(self.edges[:-1], self.edges[1:])).sum(axis=1) if self.edges.size > 1 else 0.0
        total = inner + np.abs(parts).sum(axis=1)
        # Probabilities near the smallest numbers have lost their digits: what lies there is extrapolated.
        usable = np.abs(self.mixes @ self.curves(edges[1:])) > 1e-290
        reach = 1
        for row in range(parts.shape[0]):
            good = int(np.flatnonzero(usable[row])[-1]) if usable[row].any() else -1
            used = np.flatnonzero(np.abs(parts[row, : good + 1]) > 1e-18 * total[row])
            last = int(used[-1]) if used.size else -1
            reach = max(reach, last + 1)
            if last == good and last >= 8:  # still worth something where the digits end
                self._extrapolate(row, parts[row, : last + 1])
        self.edges = np.concatenate((self.edges, edges[1 : reach + 1]))

    def _extrapolate(self, row: int, parts: FloatArray) -> None:
        """Sum what lies beyond: the logarithm of a doubling panel's part goes on as a parabola (or a line)."""
        logs = np.log(np.abs(parts[-12:]))
        ratio, change = logs[-1] - logs[-2], (logs[-1] - logs[-2]) - (logs[-6] - logs[-7])
        if ratio > np.log(_DIVERGES) and change > -1e-3:
            self._diverges(row)
        change = min(change / 5.0, 0.0) if abs(change) > 1e-9 else 0.0
        steps = np.arange(1, 200_000, dtype=np.float64)
        self.remainder[row] = float(parts[-1] * np.exp(ratio * steps + 0.5 * change * steps * (steps + 1.0)).sum())

    def _diverges(self, row: int) -> None:
        arms = np.flatnonzero(self.mixes[row] > 0.0)
        which = " and ".join(self.laws[int(i)].describe() for i in arms[:3]) + (" …" if arms.size > 3 else "")
        raise ValueError(
            f"{self.metric!r} of {which} is infinite: its {'lower' if self.lower else 'upper'} tail diverges; "
            "use a metric that looks less at that tail, or truncate the distribution."
        )

    def first_look(self) -> float:
        """The size of the integral, to measure errors by."""
        if self.edges.size < 2:
            return 0.0
        return float(np.abs(self.integrals(self.edges[:-1], self.edges[1:])).sum(axis=1).max())

    def refine(self, scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split panels until halves agree with the whole; returns widths, and the arms' CDFs and survivals."""
        a, b = self.edges[:-1], self.edges[1:]
        done_a: list[FloatArray] = []
        done_b: list[FloatArray] = []
        whole = self.integrals(a, b) if a.size else np.zeros((self.mixes.shape[0], 0))
        limit = max(_TOLERANCE * scale, 1e-300)
        for depth in range(_DEEPEST):
            if a.size == 0:
                break
            middle = 0.5 * (a + b)
            left, right = self.integrals(a, middle), self.integrals(middle, b)
            miss = np.abs(left + right - whole).max(axis=0)
            bad = (miss > limit) & (middle > a) & (middle < b)
            if depth == _DEEPEST - 1 or sum(d.size for d in done_a) + a.size > _MOST_PANELS:
                self.error += float(miss[bad].sum())
                bad[:] = False
            done_a.append(a[~bad])
            done_b.append(b[~bad])
            whole = np.concatenate((left[:, bad], right[:, bad]), axis=1)
            a, b = np.concatenate((a[bad], middle[bad])), np.concatenate((middle[bad], b[bad]))
        if not done_a:
            return np.zeros(0), np.zeros((len(self.laws), 0)), np.zeros((len(self.laws), 0))
        a, b = np.concatenate(done_a), np.concatenate(done_b)
        order = np.argsort(a)
        a, b = a[order], b[order]
        y = (a[:, None] + (b - a)[:, None] * _NODES).ravel()
        x = self.anchor - y if self.lower else self.anchor + y
        with np.errstate(all="ignore"):
            below = np.clip(np.stack([law.cdf(x) for law in self.laws]), 0.0, 1.0)
            above = np.clip(np.stack([law.sf(x) for law in self.laws]), 0.0, 1.0)
        return ((b - a)[:, None] * _WEIGHTS).ravel(), below, above


class _DifferenceSide(_Side):
    """The same panels for ∫|F_i − F_j|; corners, where the curves cross, are found by splitting."""

    def integrand(self, mixed: FloatArray) -> FloatArray:
        return np.abs(mixed)

    def _corners(self) -> FloatArray:
        return np.zeros(0)

    def _diverges(self, row: int) -> None:
        side = "lower" if self.lower else "upper"
        both = " and ".join(law.describe() for law in self.laws)
        raise ValueError(f"the Wasserstein distance of {both} is infinite: the {side} tail diverges.")
