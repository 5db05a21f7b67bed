"""Survival table: all arms on common cells of one axis, so that U_h of any mixture is a plain sum.

For any anchor x0 (an equivalent form of ``eq:wang_def`` that loses no digits in either tail)

    U_h(a) = x0·h(1) + Σ_left ω·co(F_a) + Σ_right ω·h(S_a),     co(v) = h(1 − v) − h(1),

where left of x0 F_a is the mixture's CDF and right of it S_a its survival. In the cells up to a ``split`` F_a is the
smaller of both and is used, in the others S_a, so that no tail loses its digits.

With finite atoms the cells lie between knots and the sum is exact. A pass over a mixture then costs the number of
atoms, not arms times cells. Continuous arms are put on panels (:mod:`pmbandits.tables.quadrature`), ten cells each.
Where a mixture crosses a kink or jump of h inside a panel, the polynomial through the panel's nodes says where, and the
panel is cut there. Tables are made in :mod:`pmbandits.tables.from_distributions`. Policies keep theirs in their memory
(``mixtures/_survival_table.py``), by the same names: ``knots``, ``survival_rows``, ``row_knots``, ``row_weights``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.tables.crossings import N_NODES, WEIGHTS, CornerTerm, Crossing, find_level_crossings
from pmbandits.tables.decomposition import JUMP_TOLERANCE, SmoothPart
from pmbandits.tables.distributions import Atoms, Distribution

if TYPE_CHECKING:
    from pmbandits.metrics.distortion_function import DistortionFunction as Distortion

_Function = Callable[[FloatArray], FloatArray]
LARGEST_DENSE_TABLE = 20_000_000  # arms × cells that are held side by side
_BLOCK_SIZE = 400_000  # mixtures × cells worked on at a time
_NOT_TINY = 1e-3  # a CDF or survival above this can be had from the other without losing digits
_FLAT_TOLERANCE = 1e-11  # a panel on which no curve changes by more counts as one cell


@dataclass(frozen=True)
class MixtureCurve:
    """A mixture on the cells: p is F_a in the first ``split`` cells, and S_a in the others."""

    p: FloatArray
    split: int

    def choose_by_side(self, low: _Function, high: _Function) -> FloatArray:
        """``low`` of p where it is a CDF, ``high`` where it is a survival function."""
        out = np.empty(self.p.size)
        out[: self.split] = low(self.p[: self.split])
        out[self.split :] = high(self.p[self.split :])
        return out

    def survival_above_level(self, place: float) -> FloatArray:
        """S_a − place in every cell."""
        out = self.p - place
        out[: self.split] = (1.0 - place) - self.p[: self.split]
        return out


@dataclass(frozen=True)
class AtomRows:
    """Atoms arm by arm: at which knot each lies, and how likely it is."""

    knots: FloatArray
    row_knots: NDArray[np.intp]
    row_weights: FloatArray
    row_start: NDArray[np.intp]  # where each arm begins, and the end of the last

    def slice_of_arm(self, arm: int) -> slice:
        return slice(int(self.row_start[arm]), int(self.row_start[arm + 1]))

    def mixture_probabilities(self, weights: FloatArray) -> FloatArray:
        """The mixture's probability of every knot."""
        each = self.row_weights * np.repeat(weights, np.diff(self.row_start))
        return np.asarray(np.bincount(self.row_knots, weights=each, minlength=self.knots.size), dtype=np.float64)

    def expectation_of_each_arm(self, at: FloatArray) -> FloatArray:
        """The mean of a function of the knots, of each arm; where it is infinite, only for arms with atoms there."""
        with np.errstate(all="ignore"):
            terms = at[self.row_knots] * self.row_weights
        if not np.isfinite(at).all():
            terms[self.row_weights == 0.0] = 0.0
        return np.asarray(np.add.reduceat(terms, self.row_start[:-1]))


@dataclass(frozen=True, eq=False)
class SurvivalTable:
    """CDFs and survivals of several arms on common cells: utilities and gradients of their mixtures are sums.

    The curves are given as atoms or, on panels, by dense rows; ``cdf_rows`` and ``survival_rows`` exist for both.
    """

    n_arms: int
    anchor: float
    n_left: int  # so many cells lie left of the anchor
    cell_widths: FloatArray
    atoms: AtomRows | None = None
    rows_on_panels: tuple[FloatArray, FloatArray] | None = None  # CDFs and survivals at the nodes
    panel_edges: tuple[FloatArray, FloatArray] | None = None  # in distances from the anchor
    distributions: Sequence[Distribution] = ()  # what lies on the panels, if they can be made finer
    error: float = 0.0  # estimated error of the sums, 0 when exact
    remainder: FloatArray | None = None  # what lies beyond the last panels, for the mixtures it was built for
    _corner_terms: dict[float, CornerTerm] = field(default_factory=dict, init=False, repr=False)

    # ---- ways to make one --------------------------------------------------------------------------------
    @classmethod
    def from_atoms(cls, distributions: Sequence[Atoms]) -> SurvivalTable:
        """Arms with finitely many atoms: counts, samples, sketches and bins are that."""
        x = np.concatenate([distribution.x for distribution in distributions])
        # The points of one distribution are in order already.
        knots, place = (x, np.arange(x.size)) if len(distributions) == 1 else np.unique(x, return_inverse=True)
        mass = np.concatenate([distribution.p for distribution in distributions])
        return cls._from_rows(knots, place, mass, [distribution.x.size for distribution in distributions])

    @classmethod
    def _from_rows(
        cls, knots: FloatArray, row_knots: NDArray[np.intp], row_weights: FloatArray, sizes: Sequence[int]
    ) -> SurvivalTable:
        widths = np.diff(knots)
        atoms = AtomRows(knots, row_knots, row_weights, np.concatenate(([0], np.cumsum(sizes))))
        return cls(len(sizes), float(knots[widths.size // 2]), widths.size // 2, widths, atoms)

    @classmethod
    def from_panels(
        cls,
        distributions: Sequence[Distribution],
        anchor: float,
        edges: tuple[FloatArray, FloatArray],
        rows: tuple[FloatArray, FloatArray],
        error: float,
        remainder: FloatArray,
    ) -> SurvivalTable:
        """Arms of any kind, by their CDFs and survivals at the nodes of panels [a, b] in order."""
        a, b = edges
        n_left = int(np.count_nonzero(0.5 * (a + b) < 0.0)) * N_NODES
        widths = np.asarray(((b - a)[:, None] * WEIGHTS).ravel())
        return cls(rows[0].shape[0], anchor, n_left, widths, None, rows, edges, distributions, error, remainder)

    def table_of_some_arms(self, arms: Sequence[int], fixed: FloatArray | None = None) -> SurvivalTable:
        """The table with only some of the arms, and then a mixture of all, if one is given."""
        if self.atoms is None:
            chosen = np.eye(self.n_arms)[list(arms)]
            return self.table_of_mixtures(chosen if fixed is None else np.vstack((chosen, fixed)))
        of_arm = [self.atoms.slice_of_arm(arm) for arm in arms]
        places, masses = [self.atoms.row_knots[k] for k in of_arm], [self.atoms.row_weights[k] for k in of_arm]
        if fixed is not None:
            total = self.atoms.mixture_probabilities(fixed)
            places.append(np.flatnonzero(total > 0.0))
            masses.append(total[places[-1]])
        place = np.concatenate(places)
        used = np.zeros(self.atoms.knots.size, dtype=bool)
        used[place] = True
        sizes = [part.size for part in places]
        return self._from_rows(self.atoms.knots[used], (np.cumsum(used) - 1)[place], np.concatenate(masses), sizes)

    def table_of_mixtures(self, mixtures: FloatArray) -> SurvivalTable:
        """Mixtures of the arms (rows) in place of the arms."""
        if self.atoms is None:
            below, above = (np.minimum(mixtures @ rows, 1.0) for rows in (self.cdf_rows, self.survival_rows))
            return replace(self, n_arms=mixtures.shape[0], rows_on_panels=(below, above), distributions=())
        distributions = []
        for row in mixtures:
            mass = self.atoms.mixture_probabilities(row)
            distributions.append(Atoms(self.atoms.knots[mass > 0.0], mass[mass > 0.0]))
        return self.from_atoms(distributions)

    def coarsened(self, most: int) -> SurvivalTable:
        """A rough picture with about so many atoms an arm: groups of neighbours, each at the place of one of them."""
        assert self.atoms is not None
        distributions = []
        for first, last in pairwise(self.atoms.row_start):
            size = -(-(last - first) // most)
            ends = np.arange(first, last, size)
            middle = np.minimum(ends + size // 2, last - 1)
            mass = np.add.reduceat(self.atoms.row_weights[:last], ends)
            distributions.append(Atoms(self.atoms.knots[self.atoms.row_knots[middle]], mass))
        return self.from_atoms(distributions)

    # ---- curves ------------------------------------------------------------------------------------------
    @property
    def n_cells(self) -> int:
        return int(self.cell_widths.size)

    @cached_property
    def _all_rows(self) -> tuple[FloatArray, FloatArray]:
        return self.cdf_and_survival_rows(range(self.n_arms))

    @property
    def cdf_rows(self) -> FloatArray:
        """The CDF of every arm on the cells."""
        return self._all_rows[0]

    @property
    def survival_rows(self) -> FloatArray:
        """The survival function of every arm on the cells."""
        return self._all_rows[1]

    def cdf_and_survival_rows(self, arms: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """CDFs and survivals of some arms, one row each."""
        if self.atoms is None:
            assert self.rows_on_panels is not None
            below, above = self.rows_on_panels
            return (below, above) if isinstance(arms, range) else (below[list(arms)], above[list(arms)])
        below, above = np.empty((len(arms), self.n_cells)), np.empty((len(arms), self.n_cells))
        for row, arm in enumerate(arms):
            of_arm = self.atoms.slice_of_arm(arm)
            mass = np.zeros(self.atoms.knots.size)
            mass[self.atoms.row_knots[of_arm]] = self.atoms.row_weights[of_arm]
            # Each is summed from its own end, so that small tail probabilities keep their digits.
            below[row], above[row] = np.cumsum(mass[:-1]), np.cumsum(mass[:0:-1])[::-1]
        return np.minimum(below, 1.0, out=below), np.minimum(above, 1.0, out=above)

    def curve_of_mixture(self, weights: FloatArray) -> MixtureCurve:
        """CDF and survival of the mixture with these weights, on the cells."""
        if self.atoms is None:
            below, above = weights @ self.cdf_rows, weights @ self.survival_rows
            split = int(np.count_nonzero(below < above))
            return MixtureCurve(np.minimum(np.concatenate((below[:split], above[split:])), 1.0), split)
        mass = self.atoms.mixture_probabilities(weights)
        below = np.cumsum(mass[:-1])
        split = int(np.searchsorted(below, 0.5 * mass.sum()))
        above = np.cumsum(mass[:split:-1])[::-1]
        return MixtureCurve(np.minimum(np.concatenate((below[:split], above)), 1.0), split)

    def sum_cells_times_curves_by_arm(self, cells: FloatArray, split: int) -> FloatArray:
        """Σ over cells of ``cells`` times each arm's CDF (before the split) or survival: one number an arm."""
        if self.atoms is not None:
            # A cell counts an atom that lies outwards of it; an infinite cell makes the arms out there infinite.
            lower, upper = np.cumsum(cells[:split][::-1])[::-1], np.cumsum(cells[split:])
            return self.atoms.expectation_of_each_arm(np.concatenate((lower, [0.0], upper)))
        out = np.zeros(self.n_arms)
        for rows, part in (
            (self.cdf_rows[:, :split], cells[:split]),
            (self.survival_rows[:, split:], cells[split:]),
        ):
            is_finite = np.isfinite(part)
            if is_finite.all():
                out += rows @ part
            else:
                out += rows @ np.where(is_finite, part, 0.0)
                out[(rows[:, ~is_finite] > 0.0).any(axis=1)] = np.inf
        return out

    def gradient_from_cells(self, part: SurvivalTable, cells: FloatArray, split: int, metric: Distortion) -> FloatArray:
        """Slopes towards all arms, from a slope function on the cells of a table that holds some of them.

        Σ over cells of slope · width · survival is the expectation of Φ(X), Φ the running integral of the slope.
        """
        if self.atoms is None:
            return self.sum_cells_times_curves_by_arm(cells, split)
        assert part.atoms is not None
        knots, other = self.atoms.knots, part.atoms.knots
        running = np.concatenate(([0.0], np.cumsum(np.concatenate((-cells[:split], cells[split:])))))
        running -= running[part.n_left]
        at = np.interp(knots, other, running)
        with np.errstate(all="ignore"):
            ends = -metric._negative_dual_dh(np.zeros(1))[0], metric._dh(np.zeros(1))[0]
            first, last = np.searchsorted(knots, other[[0, -1]], side="left")
            at[:first] = running[0] + ends[0] * (knots[:first] - other[0])
            at[last + 1 :] = running[-1] + ends[1] * (knots[last + 1 :] - other[-1])
            return self.atoms.expectation_of_each_arm(at)

    # ---- corners and steps of h --------------------------------------------------------------------------
    @cached_property
    def mask_of_flat_cells(self) -> NDArray[np.bool_]:
        """Cells on which no curve changes: there no crossing of a corner of h can be located."""
        if self.atoms is not None:
            return np.ones(self.n_cells, dtype=bool)
        by_panel = self.cdf_rows.reshape(self.n_arms, -1, N_NODES)
        moves = (by_panel[:, :, -1] - by_panel[:, :, 0]).max(axis=0, initial=0.0)
        return np.repeat(moves <= _FLAT_TOLERANCE, N_NODES)

    def crossing_of_level(self, curve: MixtureCurve, place: float) -> Crossing | None:
        """Where the mixture crosses a corner or step of h inside a cell that is not flat."""
        if self.atoms is not None or curve.p.size == 0:
            return None
        fall = curve.p if place <= 0.5 else curve.p - 1.0
        fall = np.concatenate(((1.0 if place <= 0.5 else 0.0) - curve.p[: curve.split], fall[curve.split :]))
        return find_level_crossings(fall[None], place if place <= 0.5 else place - 1.0)

    def cell_shares_above_level(self, curve: MixtureCurve, place: float, crossing: Crossing | None) -> FloatArray:
        """How much of each cell lies where the mixture's survival is above a corner or step of h.

        In a panel that is cut the numbers are such that sums over its nodes are integrals up to the cut.
        """
        out = (curve.survival_above_level(place) > 0.0).astype(np.float64)
        if crossing is not None and not self.mask_of_flat_cells[crossing.panel[0] * N_NODES]:
            k = int(crossing.panel[0]) * N_NODES
            out[:k][~self.mask_of_flat_cells[:k]] = 1.0
            out[k + N_NODES :][~self.mask_of_flat_cells[k + N_NODES :]] = 0.0
            out[k : k + N_NODES] = crossing.until[0] / WEIGHTS
        return out

    # ---- utilities and slopes ----------------------------------------------------------------------------
    def value(self, metric: Distortion, weights: FloatArray) -> float:
        """U_h of the mixture."""
        if self.atoms is None:
            return float(self.values(metric, weights[None])[0])
        # Between atoms curves do not move: corners and steps of h need no care.
        curve, top, left = self.curve_of_mixture(weights), metric._smooth_part.top, self.n_left
        with np.errstate(all="ignore"):
            total = float(self.cell_widths @ curve.choose_by_side(metric._negative_dual_h, metric._h))
        if top != 0.0:
            widths = self.cell_widths
            total += top * (float(widths[left : curve.split].sum()) - float(widths[curve.split : left].sum()))
        return self.anchor * top + total

    @cached_property
    def _cells_where_side_changes(self) -> tuple[int, int]:
        """Which side to count from, for all mixtures alike: CDFs in cells before the first, survivals from the second.

        Where no arm's CDF is tiny the survival will do. In between the smaller one of each mixture is taken.
        """
        second = self.n_cells - int(np.count_nonzero(self.cdf_rows.min(axis=0, initial=1.0) >= _NOT_TINY))
        first = int(np.count_nonzero(self.survival_rows.min(axis=0, initial=1.0) >= _NOT_TINY))
        return min(first, second), second

    def values(self, metric: Distortion, grid: FloatArray | None = None) -> FloatArray:
        """U_h of many mixtures, one row of weights each; of every single arm if none are given.

        Groups of mixtures can be given, too: a third axis, the first. A group has the values that it would have alone,
        to the last bit, which sums over a whole grid do not promise.
        """
        if grid is not None and np.ndim(grid) == 3:
            return self._values_of_groups(metric, np.asarray(grid))
        count = self.n_arms if grid is None else np.asarray(grid).shape[0]
        if self.atoms is not None and self.n_arms * self.n_cells > LARGEST_DENSE_TABLE:
            rows = np.eye(self.n_arms) if grid is None else np.asarray(grid, dtype=np.float64)
            return np.array([self.value(metric, row) for row in rows])
        out = np.empty(count)
        step = max(1, _BLOCK_SIZE // max(self.n_cells, 1))
        with np.errstate(all="ignore"):
            for start in range(0, count, step):
                block = slice(start, min(start + step, count))
                out[block] = self._values_of_block(metric, block, None if grid is None else np.asarray(grid)[block])
        return out

    def _values_of_groups(self, metric: Distortion, groups: FloatArray) -> FloatArray:
        cells = groups.shape[1] * max(self.n_cells, 1)
        if self.atoms is None or self.n_arms * self.n_cells > LARGEST_DENSE_TABLE or cells > _BLOCK_SIZE:
            return np.array([self.values(metric, group) for group in groups])
        step = _BLOCK_SIZE // cells
        parts = [slice(start, min(start + step, len(groups))) for start in range(0, len(groups), step)]
        with np.errstate(all="ignore"):
            return np.concatenate([self._values_of_block(metric, part, groups[part]) for part in parts])

    def _values_of_block(self, metric: Distortion, block: slice, grid: FloatArray | None) -> FloatArray:
        smooth, widths, left = metric._smooth_part, self.cell_widths, self.n_left
        h, h_from_1, end = metric._h, metric._negative_dual_h, smooth.top
        if self.atoms is None:  # corners are added where curves cross them
            h, h_from_1, end = (
                smooth.h_without_bends,
                smooth.negative_dual_h_without_bends,
                smooth.value_at_1_without_bends,
            )
        first, second = self._cells_where_side_changes

        def mixed(rows: FloatArray) -> FloatArray:
            return rows[block] if grid is None else np.minimum(grid @ rows, 1.0)

        total = np.full(block.stop - block.start if grid is None else grid.shape[:-1], self.anchor * smooth.top)
        if second < widths.size:
            total += h(mixed(self.survival_rows[:, second:])) @ widths[second:]
        if first > 0:
            total += h_from_1(mixed(self.cdf_rows[:, :first])) @ widths[:first]
        if first < second:
            f, s = mixed(self.cdf_rows[:, first:second]), mixed(self.survival_rows[:, first:second])
            lower = f < s
            cells = np.empty_like(f)
            cells[lower], cells[~lower] = h_from_1(f[lower]), h(s[~lower])
            total += cells @ widths[first:second]
            if end != 0.0:
                is_left = np.arange(first, second) < left
                total += end * ((lower.astype(np.float64) - is_left) @ widths[first:second])
        if end != 0.0:
            total += end * float(widths[left:first].sum() - widths[second:left].sum())
        if self.atoms is None and not smooth.is_smooth:
            rows = np.eye(self.n_arms)[block] if grid is None else grid
            for place in smooth.places_of_corners_and_steps:
                total += self.corner_values(rows, place, smooth.slope_change_at(place), smooth.jump_height_at(place))
                change = smooth.curvature_jump_at(place)
                if change != 0.0:
                    total += 0.5 * change * self._corner_term(place).squared_excess(rows)
        return total

    def _corner_term(self, place: float) -> CornerTerm:
        if place not in self._corner_terms:
            self._corner_terms[place] = CornerTerm(
                self.cdf_rows, self.survival_rows, self.cell_widths, self.n_left, place
            )
        return self._corner_terms[place]

    def corner_values(self, grid: FloatArray, place: float, bend: float, height: float) -> FloatArray:
        """The part of U_h that one corner or step of h adds, for many mixtures."""
        if self.atoms is None:
            return self._corner_term(place).contribution(grid, bend, height)
        above, is_left = np.minimum(grid @ self.survival_rows, 1.0), np.arange(self.n_cells) < self.n_left
        cells = bend * (np.maximum(above - place, 0.0) - (1.0 - place) * is_left)
        cells += height * ((above - place > JUMP_TOLERANCE).astype(np.float64) - is_left)
        return np.asarray(cells @ self.cell_widths)

    def integrand_slopes(self, smooth: SmoothPart, curve: MixtureCurve, shares: Sequence[FloatArray]) -> FloatArray:
        """Derivative of the integrand in p; infinite where h is vertical. ``shares`` belong to the corners of h."""
        out = curve.choose_by_side(smooth.negative_dual_dh, smooth.dh)
        for (_, bend), share in zip(smooth.kinks, shares, strict=True):
            out[: curve.split] -= bend * share[: curve.split]
            out[curve.split :] += bend * share[curve.split :]
        return out

    def gradient(self, metric: Distortion, curve: MixtureCurve) -> FloatArray:
        """Derivative of the utility in each arm's weight, up to a constant that the simplex does not feel."""
        smooth = metric._smooth_part
        shares = [
            self.cell_shares_above_level(curve, place, self.crossing_of_level(curve, place))
            for place, _ in smooth.kinks
        ]
        with np.errstate(all="ignore"):
            return self.sum_cells_times_curves_by_arm(
                self.cell_widths * self.integrand_slopes(smooth, curve, shares), curve.split
            )
