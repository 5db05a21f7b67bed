"""Arms laid side by side on one axis, so that U_h of any mixture of them is a plain sum.

For any anchor x0 (an equivalent form of ``eq:wang_def`` that loses no digits in either tail)

    U_h(a) = x0·h(1) + Σ_left ω·co(F_a) + Σ_right ω·h(S_a),     co(v) = h(1 − v) − h(1),

where left of x0 the curve of arm i is its CDF F_i and right of it its survival S_i, and the mixture's curve is the
weighted sum. With finite atoms the cells lie between atoms and the sum is exact; continuous laws are put on
Gauss–Legendre panels that are split until the integrals of the metric agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS
_TOLERANCE = 2e-14  # of a panel, relative to the whole integral
_MOST_PANELS = 60_000
_DEEPEST = 70
# A tail whose contributions shrink by less than this when the panel doubles is taken to diverge.
_DIVERGES = 0.999


class Pool(ABC):
    """Curves of several arms on common cells."""

    n_arms: int
    anchor: float
    omega: FloatArray  # widths of the cells
    split: int  # cells before it lie left of the anchor
    error: float = 0.0  # estimated error of the sums, 0 when exact
    remainder: FloatArray | None = None  # what lies beyond the last panels, for the mixes it was built for

    @abstractmethod
    def curve(self, weights: FloatArray) -> FloatArray:
        """F_a on the left cells, S_a on the right ones."""

    @abstractmethod
    def adjoint(self, cells: FloatArray) -> FloatArray:
        """Σ over cells of ``cells`` times each arm's curve: one number an arm."""

    @abstractmethod
    def rows(self, arms: Sequence[int]) -> FloatArray:
        """The curves of some arms, one row each."""

    def integrand(self, metric: Distortion, curve: FloatArray) -> FloatArray:
        """co or h of a curve."""
        with np.errstate(all="ignore"):
            return np.concatenate((metric._co(curve[: self.split]), metric._h(curve[self.split :])))

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        """U_h of the mixture."""
        total = float(self.omega @ self.integrand(metric, self.curve(weights)))
        return self.anchor * float(metric(1.0)) + total

    def slope(self, metric: Distortion, curve: FloatArray) -> FloatArray:
        """Derivative of the integrand in the curve; infinite where h is vertical."""
        with np.errstate(all="ignore"):
            return np.concatenate((metric._dco(curve[: self.split]), metric._dh(curve[self.split :])))

    def bend(self, metric: Distortion, curve: FloatArray) -> FloatArray:
        """Second derivative of the integrand in the curve."""
        with np.errstate(all="ignore"):
            return np.concatenate((metric._d2co(curve[: self.split]), metric._d2h(curve[self.split :])))


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

    def _curve_of_mass(self, mass: FloatArray) -> FloatArray:
        # Each side is summed from its own end, so that small tail probabilities keep their digits.
        out = np.empty(self.omega.size)
        np.cumsum(mass[: self.split], out=out[: self.split])
        np.cumsum(mass[: self.split : -1], out=out[self.split :][::-1])
        return np.minimum(out, 1.0, out=out)

    def curve(self, weights: FloatArray) -> FloatArray:
        mass = self.mass * weights[self.arm]
        if not self.distinct:
            mass = np.bincount(self.place, weights=mass, minlength=self.points.size)
        return self._curve_of_mass(mass)

    def adjoint(self, cells: FloatArray) -> FloatArray:
        # A cell counts an atom that lies outwards of it; an infinite cell makes the arms out there infinite.
        total = np.zeros(self.points.size)
        np.cumsum(cells[: self.split][::-1], out=total[: self.split][::-1])
        np.cumsum(cells[self.split :], out=total[self.split + 1 :])
        if not self.distinct:
            total = total[self.place]
        total = np.where(self.used, total, 0.0) * self.mass
        return np.bincount(self.arm, weights=total, minlength=self.n_arms)

    def rows(self, arms: Sequence[int]) -> FloatArray:
        out = np.empty((len(arms), self.omega.size))
        for row, arm in enumerate(arms):
            mine = np.flatnonzero(self.arm == arm)
            mass = np.bincount(self.place[mine], weights=self.mass[mine], minlength=self.points.size)
            out[row] = self._curve_of_mass(mass)
        return out


class PanelPool(Pool):
    """Arms of any kind on quadrature panels."""

    def __init__(self, anchor: float, omega: FloatArray, split: int, matrix: FloatArray, error: float) -> None:
        self.n_arms = matrix.shape[0]
        self.anchor, self.omega, self.split, self.matrix, self.error = anchor, omega, split, matrix, error

    def curve(self, weights: FloatArray) -> FloatArray:
        return np.clip(weights @ self.matrix, 0.0, 1.0)

    def adjoint(self, cells: FloatArray) -> FloatArray:
        steep = ~np.isfinite(cells)
        if not steep.any():
            return self.matrix @ cells
        out: FloatArray = self.matrix[:, ~steep] @ cells[~steep]
        out[(self.matrix[:, steep] > 0.0).any(axis=1)] = np.inf
        return out

    def rows(self, arms: Sequence[int]) -> FloatArray:
        return self.matrix[list(arms)]


def pool(metric: Distortion, laws: Sequence[Law], mixes: FloatArray) -> Pool:
    """Lay the laws side by side, accurately for the given mixtures (rows) and what lies near them."""
    finite: list[Law] = []
    for law in laws:
        if not isinstance(law, Atoms) and law.lattice:
            finite.append(law.truncated(lambda p, lower: metric._co(p) if lower else metric._h(p)))
        else:
            finite.append(law)
    atoms = [law for law in finite if isinstance(law, Atoms)]
    if len(atoms) == len(finite):
        return AtomPool(atoms)
    return _panels(metric, finite, mixes)


def wasserstein_pairs(laws: Sequence[Law]) -> FloatArray:
    """W1 distances between all pairs of laws: ∫|F_i − F_j|."""
    count = len(laws)
    out = np.zeros((count, count))
    # Lattices are truncated where their mean no longer notices.
    finite = [
        law if isinstance(law, Atoms) or not law.lattice else law.truncated(lambda p, _: p) for law in laws
    ]
    for i in range(count):
        for j in range(i):
            pair = [finite[i], finite[j]]
            atoms = [law for law in pair if isinstance(law, Atoms)]
            if len(atoms) == 2:
                laid = AtomPool(atoms)
                out[i, j] = out[j, i] = float(np.abs(np.diff(laid.rows([0, 1]), axis=0)[0]) @ laid.omega)
            else:
                out[i, j] = out[j, i] = _distance(pair)
    return out


def _distance(pair: Sequence[Law]) -> float:
    from pmbandits.metrics.families import Mean

    total = 0.0
    for side in _sides(Mean(), pair, np.array([[1.0, -1.0]]), _DifferenceSide):
        widths, curves = side.refine(max(side.first_look(), 1e-300))
        total += float(widths @ np.abs(curves[0] - curves[1]))
        total += float(side.remainder[0])
    return total


def _panels(metric: Distortion, laws: Sequence[Law], mixes: FloatArray) -> PanelPool:
    sides = _sides(metric, laws, mixes, _Side)
    scale = sum(side.first_look() for side in sides)
    parts = [side.refine(scale) for side in sides]
    out = PanelPool(
        sides[0].anchor,
        np.concatenate([omega for omega, _ in parts]),
        parts[0][0].size,
        np.concatenate([matrix for _, matrix in parts], axis=1),
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
        lo = np.zeros((self.mixes.shape[0], target.size))
        hi = np.full_like(lo, self.edges[-1])
        for _ in range(80):  # bisection on decreasing curves, all crossings at once
            middle = 0.5 * (lo + hi)
            curves = self.curves(middle.ravel()).reshape(len(self.laws), *middle.shape)
            beyond = np.einsum("mk,kmj->mj", self.mixes, curves) <= target
            hi = np.where(beyond, middle, hi)
            lo = np.where(beyond, lo, middle)
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
        parts = np.abs(self.integrals(edges[:-1], edges[1:]))
        inner = np.abs(self.integrals(self.edges[:-1], self.edges[1:])).sum(axis=1) if self.edges.size > 1 else 0.0
        total = inner + parts.sum(axis=1)
        reach = 1
        for row in range(parts.shape[0]):
            used = np.flatnonzero(parts[row] > 1e-18 * total[row])
            if used.size == 0:
                continue
            last = int(used[-1])
            reach = max(reach, last + 1)
            alive = np.flatnonzero(parts[row] > 0.0)
            # Negligible long before probabilities underflow: nothing more to ask.
            if last < alive[-1] - 3 or last < 8:
                continue
            # Measured away from the underflow of the probabilities, over panels that double.
            tail = parts[row, max(0, last - 12) : max(2, last - 2)]
            ratio = float((tail[-1] / tail[0]) ** (1.0 / (tail.size - 1))) if tail[0] > 0.0 else 0.0
            if ratio > _DIVERGES:
                self._diverges(row)
            if ratio > 0.5:
                sign = np.sign(self.integrals(edges[last : last + 1], edges[last + 1 : last + 2])[row, 0])
                self.remainder[row] = sign * parts[row, last] * ratio / (1.0 - ratio)
        self.edges = np.concatenate((self.edges, edges[1 : reach + 1]))

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

    def refine(self, scale: float) -> tuple[FloatArray, FloatArray]:
        """Split panels until halves agree with the whole; returns widths and the arms' curves at the nodes."""
        a, b = self.edges[:-1], self.edges[1:]
        done_a, done_b = [], []
        whole = self.integrals(a, b) if a.size else np.zeros((self.mixes.shape[0], 0))
        limit = max(_TOLERANCE * scale, 1e-300)
        for depth in range(_DEEPEST):
            if a.size == 0:
                break
            middle = 0.5 * (a + b)
            left, right = self.integrals(a, middle), self.integrals(middle, b)
            miss = np.abs(left + right - whole).max(axis=0)
            bad = (miss > limit) & (middle > a) & (middle < b)
            if depth == _DEEPEST - 1 or sum(map(len, done_a)) + a.size > _MOST_PANELS:
                self.error += float(miss[bad].sum())
                bad[:] = False
            done_a.append(a[~bad])
            done_b.append(b[~bad])
            whole = np.concatenate((left[:, bad], right[:, bad]), axis=1)
            a, b = np.concatenate((a[bad], middle[bad])), np.concatenate((middle[bad], b[bad]))
        if not done_a:
            return np.zeros(0), np.zeros((len(self.laws), 0))
        a, b = np.concatenate(done_a), np.concatenate(done_b)
        order = np.argsort(a)
        a, b = a[order], b[order]
        y = (a[:, None] + (b - a)[:, None] * _NODES).ravel()
        return ((b - a)[:, None] * _WEIGHTS).ravel(), np.clip(self.curves(y), 0.0, 1.0)


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
