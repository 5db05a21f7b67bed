"""Survival tables of distributions of any kind: atoms as they are, all others on panels that suit the metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.tables import quadrature
from pmbandits.tables.distributions import Atoms, Distribution, ScipyDistribution
from pmbandits.tables.survival_table import SurvivalTable

if TYPE_CHECKING:
    from pmbandits.metrics.distortion_function import DistortionFunction as Distortion

_Function = Callable[[FloatArray], FloatArray]


def survival_table(metric: Distortion, distributions: Sequence[Distribution], mixtures: FloatArray) -> SurvivalTable:
    """Put distributions on common cells, accurately for the given mixtures (rows) and what lies near them."""
    finite = truncate_infinite_lattices(
        distributions,
        lambda p, lower: metric._negative_dual_h(p) if lower else metric._h(p),
        tail_probability_beyond_kinks(metric),
    )
    atoms = [distribution for distribution in finite if isinstance(distribution, Atoms)]
    if len(atoms) == len(finite):
        return SurvivalTable.from_atoms(atoms)
    try:
        return quadrature.build_panels(
            finite, _utility_integrands(metric, mixtures), metric._smooth_part.places_of_corners_and_steps
        )
    except quadrature.TailDiverges as found:
        arms = [int(i) for i in np.flatnonzero(mixtures[found.row] > 0.0)]
        which = " and ".join(finite[i].describe() for i in arms[:3]) + (" …" if len(arms) > 3 else "")
        raise ValueError(
            f"{metric!r} of {which} is infinite: its {'lower' if found.lower else 'upper'} tail diverges; "
            "use a metric that looks less at that tail, or truncate the distribution."
        ) from None


def truncate_infinite_lattices(
    distributions: Sequence[Distribution], contribution: Callable[[FloatArray, bool], FloatArray], small: float
) -> list[Distribution]:
    """The distributions; those on lattices without end are cut off where what is left out contributes nothing."""
    return [
        distribution.truncated(contribution, small)
        if isinstance(distribution, ScipyDistribution) and distribution.lattice
        else distribution
        for distribution in distributions
    ]


def tail_probability_beyond_kinks(metric: Distortion) -> float:
    """A tail probability beyond which no kink or jump of h is still to come."""
    places = [u for u, _ in (*metric.kinks, *metric.jumps)]
    return min([1e-3, *(0.5 * u for u in places if u > 0.0), *(0.5 * (1.0 - u) for u in places if u < 1.0)])


def refine_for_gradient(table: SurvivalTable, metric: Distortion, weights: FloatArray) -> SurvivalTable:
    """Panels that are accurate also for a mixture's value and for its slope towards every arm."""
    return quadrature.refine_panels(
        table, _gradient_integrands(metric, weights), metric._smooth_part.places_of_corners_and_steps
    )


def rebuild_for_mixture(table: SurvivalTable, metric: Distortion, weights: FloatArray) -> SurvivalTable:
    """New panels for one mixture and its slopes only, with what lies beyond the last panel of each."""
    integrands = _gradient_integrands(metric, weights)
    return quadrature.build_panels(table.distributions, integrands, metric._smooth_part.places_of_corners_and_steps)


def _utility_integrands(metric: Distortion, mixtures: FloatArray) -> quadrature.Integrands:
    """The integrands whose integrals are the utilities of some mixtures."""
    smooth, top = metric._smooth_part, metric._smooth_part.top

    def integrands(
        below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
    ) -> tuple[FloatArray, quadrature.Corners | None]:
        f, s = _curves_of_mixtures(mixtures, below), _curves_of_mixtures(mixtures, above)
        out = _utility_integrand_of_curve(metric._negative_dual_h, metric._h, top, f, s, left)
        return out, None if smooth.is_smooth else (
            _utility_integrand_of_curve(smooth.negative_dual_h, smooth.h, smooth.value_at_1, f, s, left),
            s,
        )

    return integrands


def _gradient_integrands(metric: Distortion, weights: FloatArray) -> quadrature.Integrands:
    """The integrands of a mixture's utility, and of its derivative in every arm's weight."""
    smooth, of_value = metric._smooth_part, _utility_integrands(metric, weights[None])

    def integrands(
        below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
    ) -> tuple[FloatArray, quadrature.Corners | None]:
        f, s = np.minimum(weights @ below, 1.0), np.minimum(weights @ above, 1.0)
        lower = f < s
        rows = np.where(lower, below, above)

        def arm_slopes(h_from_1: _Function, h: _Function) -> FloatArray:
            with np.errstate(all="ignore"):
                return np.nan_to_num(np.where(lower, h_from_1(f), h(s)) * rows, nan=0.0, posinf=0.0, neginf=0.0)

        value, corners = of_value(below, above, left)
        out = np.vstack((value, arm_slopes(metric._negative_dual_dh, metric._dh)))
        if corners is None:
            return out, None
        return out, (np.vstack((corners[0], arm_slopes(smooth.negative_dual_dh, smooth.dh))), corners[1])

    return integrands


def _curves_of_mixtures(mixtures: FloatArray, curves: FloatArray) -> FloatArray:
    single = mixtures.shape[1] == curves.shape[0] == mixtures.shape[0] and bool(
        (mixtures == np.eye(mixtures.shape[0])).all()
    )
    return curves if single else np.minimum(mixtures @ curves, 1.0)


def _utility_integrand_of_curve(
    h_from_1: _Function, h: _Function, top: float, below: FloatArray, above: FloatArray, left: NDArray[np.bool_]
) -> FloatArray:
    lower = below < above
    with np.errstate(all="ignore"):
        out = np.where(lower, h_from_1(np.where(lower, below, 0.5)), h(np.where(lower, 0.5, above)))
    return out if top == 0.0 else out + top * (lower.astype(np.float64) - left)
