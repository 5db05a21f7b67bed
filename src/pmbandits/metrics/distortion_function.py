"""Distortion functions: functions h on [0, 1] with h(0) = 0, and what can be asked of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics.numeric import (
    JUMP_TOLERANCE,
    ArrayFunction,
    Monotonicity,
    Shape,
    difference_quotient,
    numeric_critical_points,
    numeric_shape_and_monotonicity,
    unit_grid_denser_at_ends,
)
from pmbandits.tables.decomposition import SmoothPart


class HasWidth(Protocol):
    """Anything with a width: the supports of :mod:`pmbandits.supports`."""

    @property
    def width(self) -> float: ...


@dataclass(frozen=True)
class Holder:
    """A Hölder pair: |U_h(F) − U_h(G)| ≤ constant · W1(F, G)^q for all F and G on the support (``eq:Holder``).

    So two distributions that are close in Wasserstein distance (W1) have utilities that are close.
    """

    q: float
    constant: float


@dataclass(frozen=True)
class Extremum:
    """Where h is largest (or smallest) on an interval, and its value there."""

    at: float
    value: float


class DistortionFunction(ABC):
    """A function h on [0, 1] with h(0) = 0. A subclass must give h; what else it does not state is found from values.

    The methods that begin with an underscore are what a subclass states: arrays in [0, 1] in, arrays out.
    """

    # ---- what a subclass states ---------------------------------------------------------------------------
    @abstractmethod
    def _h(self, u: FloatArray) -> FloatArray:
        """h(u)."""

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        """h(1 − v) − h(1), accurate for small v: what the left tail contributes."""
        return self._h(1.0 - v) - self._h(np.ones(1))

    def _dh(self, u: FloatArray) -> FloatArray:
        """h'(u); at a kink the left derivative."""
        return difference_quotient(self._h, u)

    @property
    def _has_exact_derivative(self) -> bool:
        """Whether h' is a formula and not a difference quotient."""
        return type(self)._dh is not DistortionFunction._dh

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        """The derivative of h(1 − v) in v."""
        return -self._dh(1.0 - v)

    def _d2h(self, u: FloatArray) -> FloatArray:
        """h''(u) between the kinks. Used for speed of the solver only, so a difference quotient will do."""
        step = 1e-6
        lo, hi = np.clip(u - step, 0.0, 1.0), np.clip(u + step, 0.0, 1.0)
        out: FloatArray = (self._dh(hi) - self._dh(lo)) / (hi - lo)
        return out

    def _negative_dual_d2h(self, v: FloatArray) -> FloatArray:
        """The second derivative of h(1 − v) in v."""
        return self._d2h(1.0 - v)

    def _critical_points(self) -> Sequence[float]:
        """Interior points where h may have a local extremum (with jumps: both sides of them)."""
        return self._numeric_critical_points

    def _holder_modulus_or_reason(self) -> tuple[float, float] | str:
        """(q, C) with |h(u) − h(v)| ≤ C|u − v|^q, or the reason why there is none."""
        return "no bound on its steepness is known"

    def _power_coefficients(self) -> Mapping[float, float] | None:
        """Exponents and coefficients, if h is a sum of powers of u; else ``None``."""
        return None

    @property
    def _is_piecewise_linear(self) -> bool:
        """Whether h is known to be made of straight pieces."""
        return False

    @property
    def terms(self) -> Sequence[tuple[float, DistortionFunction]]:
        """h as a sum of pairs: a coefficient, and a distortion function."""
        return ((1.0, self),)

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        """The corners of h, as pairs of a place u and the change of slope there."""
        return ()

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        """The steps of h, as pairs of a place u and the height by which h jumps just after u."""
        return ()

    @property
    def shape(self) -> Shape:
        """``"concave"``, ``"convex"``, ``"linear"`` or ``"neither"``. It decides whether mixtures can be best."""
        return self._numeric_shape_and_monotonicity[0]

    @property
    def monotonicity(self) -> Monotonicity:
        """Whether h is ``"increasing"``, ``"decreasing"``, ``"constant"`` or ``"neither"``."""
        return self._numeric_shape_and_monotonicity[1]

    @property
    def is_distortion_risk_measure(self) -> bool:
        """Whether U_h is a distortion risk measure: h does not fall anywhere, and h(1) = 1.

        The paper (``sec: risk_application``) asks for h(1) = 1 alone; but risk measures also need an h that does not
        fall, so that a reward that is never smaller is never worth less.

        >>> import pmbandits as pmb
        >>> pmb.UpperCVaR(0.9).is_distortion_risk_measure, pmb.GiniDeviation().is_distortion_risk_measure
        (True, False)
        """
        return self.monotonicity == "increasing" and abs(float(self(1.0)) - 1.0) <= 1e-12

    @cached_property
    def _numeric_shape_and_monotonicity(self) -> tuple[Shape, Monotonicity]:
        return numeric_shape_and_monotonicity(
            self._h, [u for u, _ in (*self.kinks, *self.jumps)], self._shape_tolerance_scale()
        )

    def _shape_tolerance_scale(self) -> float | None:
        """What the tolerance of the numeric shape is relative to; ``None`` for max|h|."""
        return None

    @cached_property
    def _smooth_part(self) -> SmoothPart:
        """h without its corners and steps."""
        return SmoothPart(self)

    @cached_property
    def _numeric_critical_points(self) -> list[float]:
        return numeric_critical_points(self._h, self.derivative, [u for u, _ in self.kinks], [u for u, _ in self.jumps])

    # ---- what a user calls --------------------------------------------------------------------------------
    @overload
    def __call__(self, u: float) -> float: ...
    @overload
    def __call__(self, u: ArrayLike) -> Any: ...
    def __call__(self, u: Any) -> Any:
        """h(u) for a probability or an array of probabilities."""
        return self._call_elementwise(self._h, u)

    def derivative(self, u: ArrayLike) -> Any:
        """The derivative h'(u). At a corner it is the left derivative; it is ±infinity where h is vertical.

        >>> import pmbandits as pmb
        >>> pmb.GiniDeviation().derivative(0.25)
        0.5
        """
        slope = self._call_elementwise(self._dh, u)
        for place, height in self.jumps:
            slope = np.where(np.abs(np.asarray(u) - place) <= JUMP_TOLERANCE, np.copysign(np.inf, height), slope)
        return float(slope) if np.ndim(u) == 0 else slope

    def maximum(self, lo: float = 0.0, hi: float = 1.0) -> Extremum:
        """The place in [lo, hi] where h is largest, and its value there (the smallest place, if there are several).

        >>> import pmbandits as pmb
        >>> pmb.WangRightTail().maximum()
        Extremum(at=0.25, value=0.25)
        """
        return self._find_extremum(lo, hi, 1.0)

    def minimum(self, lo: float = 0.0, hi: float = 1.0) -> Extremum:
        """The place in [lo, hi] where h is smallest, and its value there."""
        return self._find_extremum(lo, hi, -1.0)

    def holder(self, support: HasWidth) -> Holder:
        """The Hölder pair of U_h on a support: how much utilities can differ for distributions that are close.

        Distance is that of Wasserstein. If |h(u) − h(v)| ≤ C|u − v|^q then, by Jensen's inequality, U_h has exponent q
        and constant C·width^(1−q) (``table:table_risks``). Where h is not Lipschitz (q < 1) the support must be
        bounded.

        >>> import pmbandits as pmb
        >>> pmb.GiniDeviation().holder(pmb.Interval(0, 1))
        Holder(q=1.0, constant=1.0)
        """
        modulus = self._holder_modulus_or_reason()
        if isinstance(modulus, str):
            raise ValueError(f"{self!r} has no Hölder pair, because {modulus}.")
        q, constant = modulus
        width = float(support.width)
        if q < 1.0 and not np.isfinite(width):
            raise ValueError(
                f"{self!r} has no Hölder pair on an unbounded support, because its distortion is not Lipschitz "
                f"(exponent {q:g}); declare a bounded support such as Interval(lo, hi)."
            )
        return Holder(q=q, constant=constant * (width ** (1.0 - q) if q < 1.0 else 1.0))

    def _call_elementwise(self, function: ArrayFunction, u: Any) -> Any:
        array: Any = np.float64(u) if type(u) is float else _validation.to_float_array("u", u, what="numbers")
        if not ((array >= 0.0) & (array <= 1.0)).all():
            raise ValueError(f"a distortion takes probabilities in [0, 1], got {_validation.short_repr(u)}.")
        with np.errstate(all="ignore"):
            out = function(np.atleast_1d(array))
        return float(out[0]) if array.ndim == 0 else out.reshape(array.shape)

    def _find_extremum(self, lo: float, hi: float, sign: float) -> Extremum:
        lo = _validation.check_within("lo", lo, 0.0, 1.0)
        hi = _validation.check_within("hi", hi, lo, 1.0)
        places = np.array([lo, *sorted(p for p in self._critical_points() if lo < p < hi), hi])
        with np.errstate(all="ignore"):
            values = self._h(places)
        best = int(np.argmax(sign * values))
        return Extremum(at=float(places[best]), value=float(values[best]))


def distortion_curve(metric: DistortionFunction) -> tuple[FloatArray, FloatArray]:
    """h on a grid that is fine at the ends; jumps are broken, not drawn as slopes."""
    u = unit_grid_denser_at_ends(513)
    h = np.asarray(metric(u), dtype=np.float64)
    for place, _ in metric.jumps:
        after = min(place + 2.0 * JUMP_TOLERANCE, 1.0)
        at = int(np.searchsorted(u, after))
        u = np.insert(u, at, [place, place, after])
        h = np.insert(h, at, [float(metric(place)), np.nan, float(metric(after))])
    return u, h
