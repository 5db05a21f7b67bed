"""Survival table: all arms on common cells of one axis, so that U_h of any mixture is a plain sum.

For any anchor x0 (an equivalent form of ``eq:wang_def`` that loses no digits in either tail)

    U_h(a) = x0·h(1) + Σ_left ω·co(F_a) + Σ_right ω·h(S_a),     co(v) = h(1 − v) − h(1),

where left of x0 F_a is the mixture's CDF and right of it S_a its survival. Cell by cell the smaller of F_a and S_a is
used, so that no tail loses its digits. With finite atoms the cells lie between atoms and the sum is exact;
continuous arms are put on the panels of :mod:`pmbandits.tables.quadrature`. Where a mixture crosses a kink or jump
of h inside a panel, the polynomial through the panel's nodes says where, and the panel is cut there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.tables import quadrature as _panels
from pmbandits.tables.decomposition import JUMP_TOLERANCE, SmoothPart
from pmbandits.tables.distributions import Atoms, Distribution, ScipyDistribution
from pmbandits.tables.quadrature import N_NODES, Crossing, Panels

if TYPE_CHECKING:
    from pmbandits.metrics.distortion_function import DistortionFunction as Distortion

_Function = Callable[[FloatArray], FloatArray]
_LARGEST_TABLE = 20_000_000  # arms × cells that are held side by side


@dataclass(frozen=True)
class MixtureCurve:
    """A mixture on the cells: p is F_a where ``lower`` and S_a elsewhere, whichever is smaller."""

    p: FloatArray
    lower: NDArray[np.bool_]

    @staticmethod
    def from_cdf_and_survival(below: FloatArray, above: FloatArray) -> MixtureCurve:
        lower = below < above
        return MixtureCurve(np.minimum(np.where(lower, below, above), 1.0), lower)


class SurvivalTable(ABC):
    """CDFs and survivals of several arms on common cells: utilities and gradients of their mixtures are sums."""

    n_arms: int
    anchor: float
    cell_widths: FloatArray  # widths of the cells
    left: NDArray[np.bool_]  # cells left of the anchor
    flat: NDArray[np.bool_]  # cells on which no curve changes: there no crossing of a corner of h can be located
    error: float = 0.0  # estimated error of the sums, 0 when exact
    remainder: FloatArray | None = None  # what lies beyond the last panels, for the mixes it was built for

    @abstractmethod
    def curve(self, weights: FloatArray) -> MixtureCurve:
        """CDF and survival of the mixture with these weights, on the cells."""

    @abstractmethod
    def adjoint(self, cells: FloatArray, lower: NDArray[np.bool_]) -> FloatArray:
        """Σ over cells of ``cells`` times each arm's CDF (where ``lower``) or survival: one number an arm."""

    @abstractmethod
    def rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """CDFs and survivals of some arms, one row each."""

    @abstractmethod
    def restrict_to(self, arms: Sequence[int], fixed: FloatArray | None = None) -> SurvivalTable:
        """The table with only some of the arms, and then a mixture of all, if one is given."""

    @abstractmethod
    def with_mixtures(self, table: FloatArray) -> SurvivalTable:
        """Mixtures of the arms (rows) in place of the arms."""

    @abstractmethod
    def crossing(self, curve: MixtureCurve, place: float) -> Crossing | None:
        """Where the mixture crosses a corner or step of h inside a cell that is not flat."""

    def shares(
        self, curve: MixtureCurve, place: float, crossing: Crossing | None, tolerance: float = 0.0
    ) -> FloatArray:
        """How much of each cell lies where the mixture's survival is above a corner or step of h.

        In a panel that is cut the numbers are such that sums over its nodes are integrals up to the cut.
        """
        z = np.where(curve.lower, (1.0 - place) - curve.p, curve.p - place)
        out = (z > tolerance).astype(np.float64)
        if crossing is not None and not self.flat[crossing.panel[0] * N_NODES]:
            k = int(crossing.panel[0]) * N_NODES
            out[:k][~self.flat[:k]] = 1.0
            out[k + N_NODES :][~self.flat[k + N_NODES :]] = 0.0
            out[k : k + N_NODES] = crossing.until[0] / _panels.WEIGHTS
        return out

    def gradient_from_cells(
        self, part: SurvivalTable, cells: FloatArray, lower: NDArray[np.bool_], metric: Distortion
    ) -> FloatArray:
        """Slopes towards all arms, from a slope function on the cells of a pool that holds some of them."""
        return self.adjoint(cells, lower)

    def smooth_integrand(self, smooth: SmoothPart, curve: MixtureCurve) -> FloatArray:
        """The integrand of the smooth part: s(S) right of the anchor and s(S) − s(1) left of it."""
        out = apply_by_side(smooth.h_from_1, smooth.h, curve)
        if smooth.end != 0.0:
            out += smooth.end * (curve.lower.astype(np.float64) - self.left)
        return out

    def kink_integrand(self, curve: MixtureCurve, place: float, share: FloatArray) -> FloatArray:
        """The integrand of a corner of size 1: max(S − place, 0), and less 1 − place left of the anchor."""
        below, above = np.where(curve.lower, curve.p, 1.0 - curve.p), np.where(curve.lower, 1.0 - curve.p, curve.p)
        before = -share * below - (1.0 - share) * (1.0 - place)
        return np.where(self.left, before, share * (above - place))

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        """U_h of the mixture."""
        smooth = SmoothPart(metric)
        curve = self.curve(weights)
        cells = self.smooth_integrand(smooth, curve)
        for place, bend in smooth.kinks:
            share = self.shares(curve, place, self.crossing(curve, place))
            cells = cells + bend * self.kink_integrand(curve, place, share)
        for place, height in smooth.jumps:
            share = self.shares(curve, place, self.crossing(curve, place), JUMP_TOLERANCE)
            cells = cells + height * (share - self.left)
        return self.anchor * smooth.top + float(self.cell_widths @ cells)

    def integrand_slopes(self, smooth: SmoothPart, curve: MixtureCurve, shares: Sequence[FloatArray]) -> FloatArray:
        """Derivative of the integrand in p; infinite where h is vertical. ``shares`` belong to the corners of h."""
        out = apply_by_side(smooth.dh_from_1, smooth.dh, curve)
        for (_, bend), share in zip(smooth.kinks, shares, strict=True):
            out = out + bend * np.where(curve.lower, -share, share)
        return out

    def gradient(self, metric: Distortion, curve: MixtureCurve) -> FloatArray:
        """Derivative of the utility in each arm's weight, up to a constant that the simplex does not feel."""
        smooth = SmoothPart(metric)
        shares = [self.shares(curve, place, self.crossing(curve, place)) for place, _ in smooth.kinks]
        with np.errstate(all="ignore"):
            return self.adjoint(self.cell_widths * self.integrand_slopes(smooth, curve, shares), curve.lower)


def apply_by_side(low: _Function, high: _Function, c: MixtureCurve) -> FloatArray:
    """``low`` of the curve where it is a CDF, ``high`` where it is a survival function."""
    out = np.empty(c.p.size)
    out[c.lower] = low(c.p[c.lower])
    out[~c.lower] = high(c.p[~c.lower])
    return out


class AtomTable(SurvivalTable):
    """Arms with finitely many atoms. A pass over a mixture costs the number of atoms, not arms times atoms."""

    def __init__(self, distributions: Sequence[Atoms]) -> None:
        x = np.concatenate([distribution.x for distribution in distributions])
        # The points of one distribution are in order already.
        points, place = (x, np.arange(x.size)) if len(distributions) == 1 else np.unique(x, return_inverse=True)
        mass = np.concatenate([distribution.p for distribution in distributions])
        self._arrange(points, place, mass, [distribution.x.size for distribution in distributions])

    def _arrange(
        self, points: FloatArray, place: NDArray[np.intp], mass: FloatArray, sizes: Sequence[int] | NDArray[np.intp]
    ) -> None:
        """Atoms arm by arm: which point, and how likely; so many of each arm."""
        self.points, self.place, self.mass = points, place, mass
        self.start = np.concatenate(([0], np.cumsum(sizes)))
        self.n_arms = len(sizes)
        self.cell_widths = np.diff(points)
        split = self.cell_widths.size // 2
        self.anchor = float(points[split])
        self.left = np.arange(self.cell_widths.size) < split
        self.flat = np.ones(self.cell_widths.size, dtype=bool)

    def crossing(self, curve: MixtureCurve, place: float) -> None:
        return None

    def restrict_to(self, arms: Sequence[int], fixed: FloatArray | None = None) -> AtomTable:
        of_arm = [slice(self.start[arm], self.start[arm + 1]) for arm in arms]
        places, masses = [self.place[k] for k in of_arm], [self.mass[k] for k in of_arm]
        if fixed is not None:
            total = self._mixed_mass(fixed)
            places.append(np.flatnonzero(total > 0.0))
            masses.append(total[places[-1]])
        place = np.concatenate(places)
        used = np.zeros(self.points.size, dtype=bool)
        used[place] = True
        out = AtomTable.__new__(AtomTable)
        out._arrange(
            self.points[used], (np.cumsum(used) - 1)[place], np.concatenate(masses), [part.size for part in places]
        )
        return out

    def with_mixtures(self, table: FloatArray) -> AtomTable:
        distributions = []
        for row in table:
            mass = self._mixed_mass(row)
            kept = mass > 0.0
            distributions.append(Atoms(self.points[kept], mass[kept]))
        return AtomTable(distributions)

    def coarsened(self, most: int) -> AtomTable:
        """A rough picture with about so many atoms an arm: groups of neighbours, each at the place of one of them."""
        distributions = []
        for first, last in pairwise(self.start):
            size = -(-(last - first) // most)
            ends = np.arange(first, last, size)
            middle = np.minimum(ends + size // 2, last - 1)
            mass = np.add.reduceat(self.mass[:last], ends)
            distributions.append(Atoms(self.points[self.place[middle]], mass))
        return AtomTable(distributions)

    def gradient_from_cells(
        self, part: SurvivalTable, cells: FloatArray, lower: NDArray[np.bool_], metric: Distortion
    ) -> FloatArray:
        """The integral of a slope function against all arms, where ``part`` holds a few of them and the function.

        Σ over cells of slope · width · survival is the expectation of T(X), T the running integral of the slope.
        """
        assert isinstance(part, AtomTable)
        middle = int(part.left.sum())
        running = np.concatenate(([0.0], np.cumsum(np.where(lower, -cells, cells))))
        running -= running[middle]
        at = np.interp(self.points, part.points, running)
        with np.errstate(all="ignore"):
            ends = -metric._dh_from_1(np.zeros(1))[0], metric._dh(np.zeros(1))[0]
            first, last = np.searchsorted(self.points, part.points[[0, -1]], side="left")
            at[:first] = running[0] + ends[0] * (self.points[:first] - part.points[0])
            at[last + 1 :] = running[-1] + ends[1] * (self.points[last + 1 :] - part.points[-1])
            return self._expectations(at)

    def _expectations(self, at: FloatArray) -> FloatArray:
        """The mean of a function of the points, of each arm; where it is infinite, only for arms with atoms there."""
        with np.errstate(all="ignore"):
            terms = at[self.place] * self.mass
        if not np.isfinite(at).all():
            terms[self.mass == 0.0] = 0.0
        return np.asarray(np.add.reduceat(terms, self.start[:-1]))

    def _mixed_mass(self, weights: FloatArray) -> FloatArray:
        mass = self.mass * np.repeat(weights, np.diff(self.start))
        return np.asarray(np.bincount(self.place, weights=mass, minlength=self.points.size), dtype=np.float64)

    def _cdf_and_survival_of_mass(self, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Each is summed from its own end, so that small tail probabilities keep their digits.
        below = np.cumsum(mass[:-1])
        above = np.cumsum(mass[:0:-1])[::-1]
        return below, above

    def curve(self, weights: FloatArray) -> MixtureCurve:
        return MixtureCurve.from_cdf_and_survival(*self._cdf_and_survival_of_mass(self._mixed_mass(weights)))

    def value(self, metric: Distortion, weights: FloatArray) -> float:
        # Between atoms curves do not move: corners and steps of h need no care.
        curve, top = self.curve(weights), float(metric(1.0))
        with np.errstate(all="ignore"):
            cells = apply_by_side(metric._h_from_1, metric._h, curve)
            if top != 0.0:
                cells += top * (curve.lower.astype(np.float64) - self.left)
            return self.anchor * top + float(self.cell_widths @ cells)

    def adjoint(self, cells: FloatArray, lower: NDArray[np.bool_]) -> FloatArray:
        # A cell counts an atom that lies outwards of it; an infinite cell makes the arms out there infinite.
        total = np.zeros(self.points.size)
        total[:-1] = np.cumsum(np.where(lower, cells, 0.0)[::-1])[::-1]
        total[1:] += np.cumsum(np.where(lower, 0.0, cells))
        return self._expectations(total)

    def rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        below, above = np.empty((len(arms), self.cell_widths.size)), np.empty((len(arms), self.cell_widths.size))
        for row, arm in enumerate(arms):
            of_arm = slice(self.start[arm], self.start[arm + 1])
            mass = np.bincount(self.place[of_arm], weights=self.mass[of_arm], minlength=self.points.size)
            below[row], above[row] = self._cdf_and_survival_of_mass(np.asarray(mass, dtype=np.float64))
        return np.minimum(below, 1.0, out=below), np.minimum(above, 1.0, out=above)


class PanelTable(SurvivalTable):
    """Arms of any kind on quadrature panels."""

    def __init__(self, distributions: Sequence[Distribution], panels: Panels) -> None:
        self.distributions, self.panels = list(distributions), panels
        self.n_arms = panels.below.shape[0]
        self.anchor, self.cell_widths, self.error = panels.anchor, panels.cell_widths, panels.error
        self.left = np.repeat(0.5 * (panels.a + panels.b) < 0.0, N_NODES)
        self.below, self.above = panels.below, panels.above
        self.remainder = panels.remainder
        moves = np.zeros(panels.a.size)
        if moves.size:
            by_panel = self.below.reshape(self.n_arms, -1, N_NODES)
            moves = (by_panel[:, :, -1] - by_panel[:, :, 0]).max(axis=0)
        self.flat = np.repeat(moves <= _panels.FLAT_TOLERANCE, N_NODES)

    def curve(self, weights: FloatArray) -> MixtureCurve:
        return MixtureCurve.from_cdf_and_survival(weights @ self.below, weights @ self.above)

    def crossing(self, curve: MixtureCurve, place: float) -> Crossing | None:
        if curve.p.size == 0:
            return None
        if place <= 0.5:
            return _panels.find_crossings(np.where(curve.lower, 1.0 - curve.p, curve.p)[None], place)
        return _panels.find_crossings(np.where(curve.lower, -curve.p, curve.p - 1.0)[None], place - 1.0)

    def adjoint(self, cells: FloatArray, lower: NDArray[np.bool_]) -> FloatArray:
        is_infinite = ~np.isfinite(cells)
        out = np.zeros(self.n_arms)
        for side, matrix in ((lower, self.below), (~lower, self.above)):
            out += matrix @ np.where(side & ~is_infinite, cells, 0.0)
            if (side & is_infinite).any():
                out[(matrix[:, side & is_infinite] > 0.0).any(axis=1)] = np.inf
        return out

    def rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        return self.below[list(arms)], self.above[list(arms)]

    def restrict_to(self, arms: Sequence[int], fixed: FloatArray | None = None) -> PanelTable:
        chosen = np.eye(self.n_arms)[list(arms)]
        return self.with_mixtures(chosen if fixed is None else np.vstack((chosen, fixed)))

    def with_mixtures(self, table: FloatArray) -> PanelTable:
        below, above = np.minimum(table @ self.below, 1.0), np.minimum(table @ self.above, 1.0)
        return PanelTable((), replace(self.panels, below=below, above=above))

    def refined(self, metric: Distortion, weights: FloatArray) -> PanelTable:
        """Panels that are accurate also for a mixture's value and for its slope towards every arm."""
        return PanelTable(
            self.distributions,
            _panels.refine_panels(
                self.distributions, self.panels, gradient_integrands(metric, weights), SmoothPart(metric).places
            ),
        )

    def rebuilt_for(self, metric: Distortion, weights: FloatArray) -> PanelTable:
        """New panels for one mixture and its slopes only, with what lies beyond the last panel of each."""
        return PanelTable(
            self.distributions,
            _panels.build_panels(self.distributions, gradient_integrands(metric, weights), SmoothPart(metric).places),
        )


def _utility_integrands(metric: Distortion, mixtures: FloatArray) -> _panels.Integrands:
    """The integrands whose integrals are the utilities of some mixtures."""
    smooth, top = SmoothPart(metric), float(metric(1.0))

    def integrands(
        below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
    ) -> tuple[FloatArray, _panels.Corners | None]:
        f, s = _mix_curves(mixtures, below), _mix_curves(mixtures, above)
        out = _integrand(metric._h_from_1, metric._h, top, f, s, left)
        return out, None if smooth.is_smooth else (_integrand(smooth.h_from_1, smooth.h, smooth.end, f, s, left), s)

    return integrands


def gradient_integrands(metric: Distortion, weights: FloatArray) -> _panels.Integrands:
    """The integrands of a mixture's utility, and of its derivative in every arm's weight."""
    smooth, top = SmoothPart(metric), float(metric(1.0))

    def integrands(
        below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
    ) -> tuple[FloatArray, _panels.Corners | None]:
        f, s = np.minimum(weights @ below, 1.0), np.minimum(weights @ above, 1.0)
        lower = f < s
        rows = np.where(lower, below, above)

        def arm_slopes(h_from_1: _Function, h: _Function) -> FloatArray:
            with np.errstate(all="ignore"):
                return np.nan_to_num(np.where(lower, h_from_1(f), h(s)) * rows, nan=0.0, posinf=0.0, neginf=0.0)

        value = _integrand(metric._h_from_1, metric._h, top, f[None], s[None], left)
        out = np.vstack((value, arm_slopes(metric._dh_from_1, metric._dh)))
        if smooth.is_smooth:
            return out, None
        value = _integrand(smooth.h_from_1, smooth.h, smooth.end, f[None], s[None], left)
        return out, (np.vstack((value, arm_slopes(smooth.dh_from_1, smooth.dh))), s[None])

    return integrands


def _mix_curves(mixtures: FloatArray, curves: FloatArray) -> FloatArray:
    single = mixtures.shape[1] == curves.shape[0] == mixtures.shape[0] and bool(
        (mixtures == np.eye(mixtures.shape[0])).all()
    )
    return curves if single else np.minimum(mixtures @ curves, 1.0)


def _integrand(
    h_from_1: _Function, h: _Function, top: float, below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
) -> FloatArray:
    lower = below < above
    with np.errstate(all="ignore"):
        out = np.where(lower, h_from_1(np.where(lower, below, 0.5)), h(np.where(lower, 0.5, above)))
    return out if top == 0.0 else out + top * (lower.astype(np.float64) - left)


def survival_table(metric: Distortion, distributions: Sequence[Distribution], mixtures: FloatArray) -> SurvivalTable:
    """Put distributions on common cells, accurately for the given mixtures (rows) and what lies near them."""
    small = tail_beyond_kinks(metric)
    finite: list[Distribution] = [
        distribution.truncated(lambda p, lower: metric._h_from_1(p) if lower else metric._h(p), small)
        if isinstance(distribution, ScipyDistribution) and distribution.lattice
        else distribution
        for distribution in distributions
    ]
    atoms = [distribution for distribution in finite if isinstance(distribution, Atoms)]
    if len(atoms) == len(finite):
        return AtomTable(atoms)
    return panel_table(metric, finite, _utility_integrands(metric, mixtures), mixtures)


def panel_table(
    metric: Distortion,
    distributions: Sequence[Distribution],
    integrands: _panels.Integrands,
    mixtures: FloatArray | None = None,
) -> PanelTable:
    """Put distributions on quadrature panels; an error names the mixture whose utility is infinite, if any."""
    try:
        return PanelTable(distributions, _panels.build_panels(distributions, integrands, SmoothPart(metric).places))
    except _panels.TailDiverges as found:
        arms = list(range(len(distributions)))
        if mixtures is not None:
            arms = [int(i) for i in np.flatnonzero(mixtures[found.row] > 0.0)]
        which = " and ".join(distributions[i].describe() for i in arms[:3]) + (" …" if len(arms) > 3 else "")
        raise ValueError(
            f"{metric!r} of {which} is infinite: its {'lower' if found.lower else 'upper'} tail diverges; "
            "use a metric that looks less at that tail, or truncate the distribution."
        ) from None


def tail_beyond_kinks(metric: Distortion) -> float:
    """A tail probability beyond which no kink or jump of h is still to come."""
    places = [u for u, _ in (*metric.kinks, *metric.jumps)]
    return min([1e-3, *(0.5 * u for u in places if u > 0.0), *(0.5 * (1.0 - u) for u in places if u < 1.0)])


def largest_wasserstein(distributions: Sequence[Distribution]) -> float:
    """The largest W1 distance between two distributions; of many, only the candidate pairs are integrated well."""
    count = len(distributions)
    if count <= 6:
        return float(wasserstein_matrix(distributions).max())
    finite = [_truncated_lattice(distribution) for distribution in distributions]
    atoms = [distribution for distribution in finite if isinstance(distribution, Atoms)]
    try:
        laid: SurvivalTable = (
            AtomTable(atoms)
            if len(atoms) == count
            else PanelTable(finite, _panels.build_panels(finite, _mean_integrands))
        )
    except _panels.TailDiverges:  # an infinite mean; differences may still be finite
        return float(wasserstein_matrix(distributions).max())
    if laid.n_arms * laid.cell_widths.size > _LARGEST_TABLE:
        return float(wasserstein_matrix(distributions).max())
    below, above = laid.rows(range(count))
    rough = np.zeros((count, count))
    for i in range(count):
        difference = np.where(below[i] < above[i], below[i] - below[:i], above[i] - above[:i])
        rough[i, :i] = np.abs(difference) @ laid.cell_widths
    candidates = np.argwhere(rough >= 0.99 * rough.max())
    if candidates.shape[0] > 4 * count:
        return float(wasserstein_matrix(distributions).max())
    return max(float(wasserstein_matrix([distributions[int(a)], distributions[int(b)]])[0, 1]) for a, b in candidates)


def _truncated_lattice(distribution: Distribution) -> Distribution:
    """A lattice distribution cut off where its mean no longer notices; any other distribution as it is."""
    if isinstance(distribution, ScipyDistribution) and distribution.lattice:
        return distribution.truncated(lambda p, _: p, 1e-3)
    return distribution


def _mean_integrands(below: FloatArray, above: FloatArray, left: NDArray[np.bool_]) -> tuple[FloatArray, None]:
    """The integrands whose integrals are the distributions' means, less the anchor."""
    return np.where(left, -below, above), None


def wasserstein_matrix(distributions: Sequence[Distribution]) -> FloatArray:
    """The matrix of W1 distances between all pairs of distributions: ∫|F_i − F_j|."""
    count = len(distributions)
    out = np.zeros((count, count))
    finite = [_truncated_lattice(distribution) for distribution in distributions]
    for i in range(count):
        for j in range(i):
            pair = [finite[i], finite[j]]
            atoms = [distribution for distribution in pair if isinstance(distribution, Atoms)]
            if len(atoms) == 2:
                laid = AtomTable(atoms)
                out[i, j] = out[j, i] = float(np.abs(np.diff(laid.rows([0, 1])[0], axis=0)[0]) @ laid.cell_widths)
            else:
                out[i, j] = out[j, i] = _wasserstein_distance(pair)
    return out


def _wasserstein_distance(pair: Sequence[Distribution]) -> float:
    def integrand(below: FloatArray, above: FloatArray, left: NDArray[np.bool_]) -> tuple[FloatArray, None]:
        return np.abs(np.where(left, np.diff(below, axis=0), np.diff(above, axis=0))), None

    try:
        laid = _panels.build_panels(pair, integrand)
    except _panels.TailDiverges as found:
        both = " and ".join(distribution.describe() for distribution in pair)
        side = "lower" if found.lower else "upper"
        raise ValueError(f"the Wasserstein distance of {both} is infinite: the {side} tail diverges.") from None
    difference = np.where(laid.below.min(axis=0) < 0.5, np.diff(laid.below, axis=0)[0], np.diff(laid.above, axis=0)[0])
    return float(laid.cell_widths @ np.abs(difference) + laid.remainder[0])
