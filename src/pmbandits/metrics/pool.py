"""Arms laid side by side on one axis, so that U_h of any mixture of them is a plain sum.

For any anchor x0 (an equivalent form of ``eq:wang_def`` that loses no digits in either tail)

    U_h(a) = x0·h(1) + Σ_left ω·co(F_a) + Σ_right ω·h(S_a),     co(v) = h(1 − v) − h(1),

where left of x0 F_a is the mixture's CDF and right of it S_a its survival. Cell by cell the smaller of F_a and S_a is
used, so that no tail loses its digits. With finite atoms the cells lie between atoms and the sum is exact;
continuous laws are put on the panels of :mod:`pmbandits.metrics.panels`. Where a mixture crosses a corner or a step
of h inside a panel, the polynomial through the panel's nodes says where, and the panel is cut there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.metrics import panels as _panels
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion
from pmbandits.metrics.laws import Atoms, Law, Scipy
from pmbandits.metrics.panels import Crossing, N, Panels
from pmbandits.metrics.smooth import Smooth

_Function = Callable[[FloatArray], FloatArray]
_LARGEST_TABLE = 20_000_000  # arms × cells that are held side by side


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
    left: NDArray[np.bool_]  # cells left of the anchor
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

    @abstractmethod
    def only(self, arms: Sequence[int]) -> Pool:
        """The same for some of the arms."""

    @abstractmethod
    def mixed(self, table: FloatArray) -> Pool:
        """Mixtures of the arms (rows) in place of the arms."""

    @property
    @abstractmethod
    def flat(self) -> NDArray[np.bool_]:
        """Cells on which no curve changes: there the crossing of a corner of h cannot be located."""

    @abstractmethod
    def crossing(self, curve: Curve, place: float) -> Crossing | None:
        """Where the mixture crosses a corner or step of h inside a cell that is not flat."""

    def shares(self, curve: Curve, place: float, crossing: Crossing | None, tolerance: float = 0.0) -> FloatArray:
        """How much of each cell lies where the mixture's survival is above a corner or step of h.

        In a panel that is cut the numbers are such that sums over its nodes are integrals up to the cut.
        """
        z = np.where(curve.lower, (1.0 - place) - curve.p, curve.p - place)
        out = (z > tolerance).astype(np.float64)
        if crossing is not None and not self.flat[crossing.panel[0] * N]:
            k = int(crossing.panel[0]) * N
            out[:k][~self.flat[:k]] = 1.0
            out[k + N :][~self.flat[k + N :]] = 0.0
            out[k : k + N] = crossing.until[0] / _panels.WEIGHTS
        return out

    def slopes_from(self, part: Pool, cells: FloatArray, lower: NDArray[np.bool_], metric: Distortion) -> FloatArray:
        """Slopes towards all arms, from a slope function on the cells of a pool that holds some of them."""
        return self.adjoint(cells, lower)

    def smooth_cells(self, smooth: Smooth, curve: Curve) -> FloatArray:
        """The integrand of the smooth part: s(S) right of the anchor and s(S) − s(1) left of it."""
        out = each(smooth.co, smooth.h, curve)
        if smooth.end != 0.0:
            out += smooth.end * (curve.lower.astype(np.float64) - self.left)
        return out

    def corner_cells(self, curve: Curve, place: float, share: FloatArray) -> FloatArray:
        """The integrand of a corner of size 1: max(S − place, 0), and less 1 − place left of the anchor."""
        below, above = np.where(curve.lower, curve.p, 1.0 - curve.p), np.where(curve.lower, 1.0 - curve.p, curve.p)
        before = -share * below - (1.0 - share) * (1.0 - place)
        return np.where(self.left, before, share * (above - place))

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        """U_h of the mixture."""
        smooth = Smooth(metric)
        curve = self.curve(weights)
        cells = self.smooth_cells(smooth, curve)
        for place, bend in smooth.kinks:
            share = self.shares(curve, place, self.crossing(curve, place))
            cells = cells + bend * self.corner_cells(curve, place, share)
        for place, height in smooth.jumps:
            share = self.shares(curve, place, self.crossing(curve, place), JUMP_TOLERANCE)
            cells = cells + height * (share - self.left)
        return self.anchor * smooth.top + float(self.omega @ cells)

    def slope_cells(self, smooth: Smooth, curve: Curve, shares: Sequence[FloatArray]) -> FloatArray:
        """Derivative of the integrand in p; infinite where h is vertical. ``shares`` belong to the corners of h."""
        out = each(smooth.slope_co, smooth.slope_h, curve)
        for (_, bend), share in zip(smooth.kinks, shares, strict=True):
            out = out + bend * np.where(curve.lower, -share, share)
        return out

    def gradient(self, metric: Distortion, curve: Curve) -> FloatArray:
        """Derivative of the utility in each arm's weight, up to a constant that the simplex does not feel."""
        smooth = Smooth(metric)
        shares = [self.shares(curve, place, self.crossing(curve, place)) for place, _ in smooth.kinks]
        with np.errstate(all="ignore"):
            return self.adjoint(self.omega * self.slope_cells(smooth, curve, shares), curve.lower)


def each(low: _Function, high: _Function, c: Curve) -> FloatArray:
    """One function where the curve counts from below, another elsewhere."""
    out = np.empty(c.p.size)
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
        split = self.omega.size // 2
        self.anchor = float(self.points[split])
        self.left = np.arange(self.omega.size) < split

    @property
    def flat(self) -> NDArray[np.bool_]:
        return np.ones(self.omega.size, dtype=bool)

    def crossing(self, curve: Curve, place: float) -> None:
        return None

    @cached_property
    def _by_arm(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The atoms arm by arm, each arm's in order, and where each arm begins."""
        order = np.argsort(self.arm, kind="stable")
        return order, np.searchsorted(self.arm[order], np.arange(self.n_arms + 1))

    def only(self, arms: Sequence[int]) -> AtomPool:
        order, starts = self._by_arm
        mine = [order[starts[arm] : starts[arm + 1]] for arm in arms]
        return AtomPool([Atoms(self.points[self.place[k]], self.mass[k]) for k in mine])

    def mixed(self, table: FloatArray) -> AtomPool:
        laws = []
        for row in table:
            mass = _sum_by(self.place, self.mass * row[self.arm], self.points.size)
            kept = mass > 0.0
            laws.append(Atoms(self.points[kept], mass[kept]))
        return AtomPool(laws)

    def thinned(self, most: int) -> AtomPool:
        """A rough picture with about so many atoms an arm: groups of neighbours, each at the place of one of them."""
        order, starts = self._by_arm
        laws = []
        for arm in range(self.n_arms):
            mine = order[starts[arm] : starts[arm + 1]]
            size = -(-mine.size // most)
            ends = np.arange(0, mine.size, size)
            middle = np.minimum(ends + size // 2, mine.size - 1)
            laws.append(Atoms(self.points[self.place[mine[middle]]], np.add.reduceat(self.mass[mine], ends)))
        return AtomPool(laws)

    def slopes_from(self, part: Pool, cells: FloatArray, lower: NDArray[np.bool_], metric: Distortion) -> FloatArray:
        """The integral of a slope function against all arms, where ``part`` holds a few of them and the function.

        Σ over cells of slope · width · survival is the expectation of T(X), T the running integral of the slope.
        """
        assert isinstance(part, AtomPool)
        middle = int(part.left.sum())
        running = np.concatenate(([0.0], np.cumsum(np.where(lower, -cells, cells))))
        running -= running[middle]
        at = np.interp(self.points, part.points, running)
        with np.errstate(all="ignore"):
            ends = -metric._dco(np.zeros(1))[0], metric._dh(np.zeros(1))[0]
            first, last = np.searchsorted(self.points, part.points[[0, -1]], side="left")
            at[:first] = running[0] + ends[0] * (self.points[:first] - part.points[0])
            at[last + 1 :] = running[-1] + ends[1] * (self.points[last + 1 :] - part.points[-1])
            if not self.distinct:
                at = at[self.place]
            return _sum_by(self.arm, np.where(self.used, at, 0.0) * self.mass, self.n_arms)

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

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        # Between atoms curves do not move: corners and steps of h need no care.
        curve, top = self.curve(weights), float(metric(1.0))
        with np.errstate(all="ignore"):
            cells = each(metric._co, metric._h, curve)
            if top != 0.0:
                cells += top * (curve.lower.astype(np.float64) - self.left)
            return self.anchor * top + float(self.omega @ cells)

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

    def __init__(self, laws: Sequence[Law], panels: Panels) -> None:
        self.laws, self.panels = list(laws), panels
        self.n_arms = panels.below.shape[0]
        self.anchor, self.omega, self.error = panels.anchor, panels.omega, panels.error
        self.left = np.repeat(0.5 * (panels.a + panels.b) < 0.0, N)
        self.below, self.above = panels.below, panels.above
        self.remainder = panels.remainder
        moves = np.zeros(panels.a.size)
        if moves.size:
            by_panel = self.below.reshape(self.n_arms, -1, N)
            moves = (by_panel[:, :, -1] - by_panel[:, :, 0]).max(axis=0)
        self._flat = np.repeat(moves <= _panels.FLAT, N)

    @property
    def flat(self) -> NDArray[np.bool_]:
        return self._flat

    def curve(self, weights: FloatArray) -> Curve:
        return Curve.of(weights @ self.below, weights @ self.above)

    def crossing(self, curve: Curve, place: float) -> Crossing | None:
        if curve.p.size == 0:
            return None
        if place <= 0.5:
            return _panels.crossings(np.where(curve.lower, 1.0 - curve.p, curve.p)[None], place)
        return _panels.crossings(np.where(curve.lower, -curve.p, curve.p - 1.0)[None], place - 1.0)

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

    def only(self, arms: Sequence[int]) -> PanelPool:
        chosen = list(arms)
        part = replace(self.panels, below=self.below[chosen], above=self.above[chosen])
        return PanelPool([self.laws[i] for i in chosen], part)

    def mixed(self, table: FloatArray) -> PanelPool:
        below, above = np.minimum(table @ self.below, 1.0), np.minimum(table @ self.above, 1.0)
        return PanelPool((), replace(self.panels, below=below, above=above))

    def refined(self, metric: Distortion, weights: FloatArray) -> PanelPool:
        """Panels that are accurate also for a mixture's value and for its slope towards every arm."""
        return PanelPool(
            self.laws, _panels.refined(self.laws, self.panels, slopes_of(metric, weights), Smooth(metric).places)
        )

    def laid_for(self, metric: Distortion, weights: FloatArray) -> PanelPool:
        """New panels for one mixture and its slopes only, with what lies beyond the last panel of each."""
        return PanelPool(self.laws, _panels.lay(self.laws, slopes_of(metric, weights), Smooth(metric).places))


def _values_of(metric: Distortion, mixes: FloatArray) -> _panels.Integrands:
    """The integrands whose integrals are the utilities of some mixtures."""
    smooth, top = Smooth(metric), float(metric(1.0))

    def integrands(
        below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
    ) -> tuple[FloatArray, _panels.Corners | None]:
        f, s = _mix(mixes, below), _mix(mixes, above)
        out = _integrand(metric._co, metric._h, top, f, s, left)
        return out, None if smooth.plain else (_integrand(smooth.co, smooth.h, smooth.end, f, s, left), s)

    return integrands


def slopes_of(metric: Distortion, weights: FloatArray) -> _panels.Integrands:
    """The integrands of a mixture's utility, and of its derivative in every arm's weight."""
    smooth, top = Smooth(metric), float(metric(1.0))

    def integrands(
        below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
    ) -> tuple[FloatArray, _panels.Corners | None]:
        f, s = np.minimum(weights @ below, 1.0), np.minimum(weights @ above, 1.0)
        lower = f < s
        rows = np.where(lower, below, above)

        def all_slopes(co: _Function, h: _Function) -> FloatArray:
            with np.errstate(all="ignore"):
                return np.nan_to_num(np.where(lower, co(f), h(s)) * rows, nan=0.0, posinf=0.0, neginf=0.0)

        value = _integrand(metric._co, metric._h, top, f[None], s[None], left)
        out = np.vstack((value, all_slopes(metric._dco, metric._dh)))
        if smooth.plain:
            return out, None
        value = _integrand(smooth.co, smooth.h, smooth.end, f[None], s[None], left)
        return out, (np.vstack((value, all_slopes(smooth.slope_co, smooth.slope_h))), s[None])

    return integrands


def _mix(mixes: FloatArray, curves: FloatArray) -> FloatArray:
    single = mixes.shape[1] == curves.shape[0] == mixes.shape[0] and bool((mixes == np.eye(mixes.shape[0])).all())
    return curves if single else np.minimum(mixes @ curves, 1.0)


def _integrand(
    co: _Function, h: _Function, top: float, below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
) -> FloatArray:
    lower = below < above
    with np.errstate(all="ignore"):
        out = np.where(lower, co(np.where(lower, below, 0.5)), h(np.where(lower, 0.5, above)))
    return out if top == 0.0 else out + top * (lower.astype(np.float64) - left)


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
    return lay_panels(metric, finite, _values_of(metric, mixes), mixes)


def lay_panels(
    metric: Distortion, laws: Sequence[Law], integrands: _panels.Integrands, mixes: FloatArray | None = None
) -> PanelPool:
    """Laws on panels; says in words which mixture is infinite, if one is."""
    try:
        return PanelPool(laws, _panels.lay(laws, integrands, Smooth(metric).places))
    except _panels.TailDiverges as found:
        arms = list(range(len(laws)))
        if mixes is not None:
            arms = [int(i) for i in np.flatnonzero(mixes[found.row] > 0.0)]
        which = " and ".join(laws[i].describe() for i in arms[:3]) + (" …" if len(arms) > 3 else "")
        raise ValueError(
            f"{metric!r} of {which} is infinite: its {'lower' if found.lower else 'upper'} tail diverges; "
            "use a metric that looks less at that tail, or truncate the distribution."
        ) from None


def settled_tail(metric: Distortion) -> float:
    """A tail probability beyond which no kink or jump of h is still to come."""
    places = [u for u, _ in (*metric.kinks, *metric.jumps)]
    return min([1e-3, *(0.5 * u for u in places if u > 0.0), *(0.5 * (1.0 - u) for u in places if u < 1.0)])


def largest_wasserstein(laws: Sequence[Law]) -> float:
    """The largest W1 distance between two laws; with many laws only the pairs that may have it are integrated well."""
    from pmbandits.metrics.families import Mean

    count = len(laws)
    if count <= 6:
        return float(wasserstein_pairs(laws).max())
    try:
        laid = pool(Mean(), laws, np.eye(count))
    except ValueError:  # an infinite mean; differences may still be finite
        return float(wasserstein_pairs(laws).max())
    if laid.n_arms * laid.omega.size > _LARGEST_TABLE:
        return float(wasserstein_pairs(laws).max())
    below, above = laid.rows(range(count))
    rough = np.zeros((count, count))
    for i in range(count):
        difference = np.where(below[i] < above[i], below[i] - below[:i], above[i] - above[:i])
        rough[i, :i] = np.abs(difference) @ laid.omega
    candidates = np.argwhere(rough >= 0.99 * rough.max())
    if candidates.shape[0] > 4 * count:
        return float(wasserstein_pairs(laws).max())
    return max(float(wasserstein_pairs([laws[int(a)], laws[int(b)]])[0, 1]) for a, b in candidates)


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
    def integrand(below: FloatArray, above: FloatArray, left: NDArray[np.bool_]) -> tuple[FloatArray, None]:
        return np.abs(np.where(left, np.diff(below, axis=0), np.diff(above, axis=0))), None

    try:
        laid = _panels.lay(pair, integrand)
    except _panels.TailDiverges as found:
        both = " and ".join(law.describe() for law in pair)
        side = "lower" if found.lower else "upper"
        raise ValueError(f"the Wasserstein distance of {both} is infinite: the {side} tail diverges.") from None
    difference = np.where(laid.below.min(axis=0) < 0.5, np.diff(laid.below, axis=0)[0], np.diff(laid.above, axis=0)[0])
    return float(laid.omega @ np.abs(difference) + laid.remainder[0])
