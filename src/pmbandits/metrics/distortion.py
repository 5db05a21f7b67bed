"""Distortions: what a preference metric is made of.

A distortion is a function h on [0, 1] with h(0) = 0. Its preference metric is the signed Choquet integral
(the paper's equation ``eq:wang_def``)

    U_h(Q) = ∫_{-∞}^0 (h(1 − Q(x)) − h(1)) dx + ∫_0^∞ h(1 − Q(x)) dx .
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _check
from pmbandits._check import FloatArray

Shape = Literal["concave", "convex", "linear", "neither"]
Monotonicity = Literal["increasing", "decreasing", "constant", "neither"]

# A step of h is recognised this close to its place: 1 − 0.9 and 1/10 are the same probability.
JUMP_TOLERANCE = 1e-12

_MIXTURES = {
    "concave": "a mixture can be best",
    "convex": "one arm is always best",
    "linear": "one arm is always best",
    "neither": "it depends on the arms",
}


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


def warped_grid(n: int = 2049) -> FloatArray:
    """Points of [0, 1], geometrically denser towards both ends, where distortions are steep."""
    middle = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, n))
    end = np.logspace(-12, -3, 91)
    return np.unique(np.concatenate((middle, end, 1.0 - end)))


class Distortion(ABC):
    """A preference: a curve h through which the survival function is looked at, and the metric U_h that follows.

    h is a function on [0, 1] with h(0) = 0. U_h adds up h(P(X > x)) over all x, instead of P(X > x) itself, which would
    give the mean. Distortions can be added, subtracted and multiplied by numbers; the result is a distortion again.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> preference = 0.7 * pmb.Mean() + 0.3 * pmb.CVaR(0.9)
    >>> round(preference.value([1.0, 2.0, 4.0]), 6)
    2.833333
    >>> preference.shape
    'concave'
    """

    name: ClassVar[str]
    formula: ClassVar[str]
    meaning: ClassVar[str]
    use: ClassVar[str]

    # ---- what a family defines; arrays in [0, 1] in, arrays out -----------------------------------------
    @abstractmethod
    def _h(self, u: FloatArray) -> FloatArray:
        """h(u)."""

    def _co(self, v: FloatArray) -> FloatArray:
        """h(1 − v) − h(1), accurate for small v: what the left tail contributes."""
        return self._h(1.0 - v) - self._h(np.ones(1))

    @abstractmethod
    def _dh(self, u: FloatArray) -> FloatArray:
        """h'(u); at a kink the left derivative."""

    @property
    def _knows_slope(self) -> bool:
        """Whether h' is a formula and not a difference quotient."""
        return True

    def _dco(self, v: FloatArray) -> FloatArray:
        return -self._dh(1.0 - v)

    def _d2h(self, u: FloatArray) -> FloatArray:
        """h''(u) between the kinks. Used for speed of the solver only, so a difference quotient will do."""
        step = 1e-6
        lo, hi = np.clip(u - step, 0.0, 1.0), np.clip(u + step, 0.0, 1.0)
        out: FloatArray = (self._dh(hi) - self._dh(lo)) / (hi - lo)
        return out

    def _d2co(self, v: FloatArray) -> FloatArray:
        return self._d2h(1.0 - v)

    def _critical(self) -> Sequence[float]:
        """Interior points where h may have a local extremum (with jumps: both sides of them)."""
        return ()

    def _modulus(self) -> tuple[float, float] | str:
        """(q, C) with |h(u) − h(v)| ≤ C|u − v|^q, or the reason why there is none."""
        return "no bound on its steepness is known"

    def _powers(self) -> Mapping[float, float] | None:
        """Exponents and coefficients, if h is a sum of powers of u; else ``None``."""
        return None

    @property
    def _straight(self) -> bool:
        """Whether h is known to be made of straight pieces."""
        return False

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        """The corners of h, as pairs of a place u and the change of slope there."""
        return ()

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        """The steps of h, as pairs of a place u and the height by which h jumps just after u."""
        return ()

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """``"concave"``, ``"convex"``, ``"linear"`` or ``"neither"``. It decides whether mixtures can be best."""

    @property
    @abstractmethod
    def monotonicity(self) -> Monotonicity:
        """Whether h is ``"increasing"``, ``"decreasing"``, ``"constant"`` or ``"neither"``."""

    # ---- what a user calls ------------------------------------------------------------------------------
    @overload
    def __call__(self, u: float) -> float: ...
    @overload
    def __call__(self, u: ArrayLike) -> Any: ...
    def __call__(self, u: Any) -> Any:
        """h(u) for a probability or an array of probabilities."""
        return self._apply(self._h, u)

    def derivative(self, u: ArrayLike) -> Any:
        """The derivative h'(u). At a corner it is the left derivative; it is ±infinity where h is vertical.

        >>> import pmbandits as pmb
        >>> pmb.GiniDeviation().derivative(0.25)
        0.5
        """
        slope = self._apply(self._dh, u)
        for place, height in self.jumps:
            slope = np.where(np.abs(np.asarray(u) - place) <= JUMP_TOLERANCE, np.copysign(np.inf, height), slope)
        return float(slope) if np.ndim(u) == 0 else slope

    def maximum(self, lo: float = 0.0, hi: float = 1.0) -> Extremum:
        """The place in [lo, hi] where h is largest, and its value there (the smallest place, if there are several).

        >>> import pmbandits as pmb
        >>> pmb.WangRightTail().maximum()
        Extremum(at=0.25, value=0.25)
        """
        return self._extremum(lo, hi, 1.0)

    def minimum(self, lo: float = 0.0, hi: float = 1.0) -> Extremum:
        """The place in [lo, hi] where h is smallest, and its value there."""
        return self._extremum(lo, hi, -1.0)

    def holder(self, support: HasWidth) -> Holder:
        """The Hölder pair of U_h on a support: how much utilities can differ for distributions that are close.

        Distance is that of Wasserstein. If |h(u) − h(v)| ≤ C|u − v|^q then, by Jensen's inequality, U_h has exponent q
        and constant C·width^(1−q) (``table:table_risks``). Where h is not Lipschitz (q < 1) the support must be
        bounded.

        >>> import pmbandits as pmb
        >>> pmb.GiniDeviation().holder(pmb.Interval(0, 1))
        Holder(q=1.0, constant=1.0)
        """
        modulus = self._modulus()
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

    def value(self, x: Any, weights: ArrayLike | None = None) -> float:
        """The utility U_h of a sample, of a ``scipy.stats`` distribution, or of a mixture of distributions.

        Parameters
        ----------
        x : an array of numbers, a frozen ``scipy.stats`` distribution, or a list of such distributions.
        weights : the probabilities of the numbers of a sample (by default all alike), or the mixing weights of a list
            of distributions.

        Examples
        --------
        >>> import scipy.stats as st
        >>> import pmbandits as pmb
        >>> gini = pmb.GiniDeviation()
        >>> round(gini.value([1.0, 2.0, 4.0]), 12)
        0.666666666667
        >>> round(gini.value(st.norm(1, 1)), 9)
        0.564189584
        >>> round(gini.value([st.norm(1), st.norm(5)], weights=[0.5, 0.5]), 6)
        1.282584
        """
        from pmbandits.metrics.value import value

        return value(self, x, weights)

    def value_of_cdf(self, x: ArrayLike, cdf: ArrayLike, *, between: Literal["steps", "lines"] = "steps") -> float:
        """The utility U_h of a distribution that is given by its distribution function (CDF) on a grid.

        Parameters
        ----------
        x, cdf : the points of the grid, and the CDF at each of them.
        between : what happens from one grid point to the next. With ``"steps"`` the CDF stays: all rewards lie on the
            grid. With ``"lines"`` it rises in a straight line: rewards are spread evenly between the points.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> round(pmb.Mean().value_of_cdf([0, 1, 2], [0.0, 0.5, 1.0], between="lines"), 12)
        1.0
        """
        from pmbandits.metrics.value import value_of_cdf

        return value_of_cdf(self, x, cdf, between)

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON or TOML. :meth:`from_dict` gives the same metric back.

        >>> import pmbandits as pmb
        >>> pmb.CVaR(0.9).to_dict()
        {'name': 'cvar', 'c': 0.9}
        """
        return {"name": self.name, **self.parameters}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Distortion:
        """Make the metric that :meth:`to_dict` described. Only known names are looked up; nothing is executed.

        >>> import pmbandits as pmb
        >>> pmb.Distortion.from_dict({"name": "cvar", "c": 0.9})
        CVaR(c=0.9)
        """
        from pmbandits.metrics.registry import from_dict

        return from_dict(data)

    @staticmethod
    def from_function(
        function: Callable[[Any], Any],
        name: str = "custom",
        *,
        derivative: Callable[[Any], Any] | None = None,
        holder: tuple[float, float] | None = None,
    ) -> Distortion:
        """Make a distortion from a function of your own.

        Parameters
        ----------
        function : h, for a number or an array in [0, 1], with h(0) = 0 and finite values.
        name : what messages and pictures call it.
        derivative : h', if you have it. By default it is a difference quotient.
        holder : (q, C) with |h(u) − h(v)| ≤ C|u − v|^q for all u and v, if you know it. Some policies need it.

        Its shape is found numerically: a bend counts when h leaves its chord by more than 1e-10 of max|h|.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> mine = pmb.Distortion.from_function(lambda u: u**0.7 - u, name="mine")
        >>> mine.shape, round(mine.maximum().at, 6)
        ('concave', 0.304551)
        """
        from pmbandits.metrics.custom import Custom

        return Custom(function, name, derivative, holder)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @property
    def terms(self) -> tuple[tuple[float, Distortion], ...]:
        """The metric as a sum of pairs: a coefficient, and a named distortion."""
        return ((1.0, self),)

    # ---- algebra ----------------------------------------------------------------------------------------
    def __add__(self, other: object) -> Distortion:
        return self._plus(other, 1.0)

    def __sub__(self, other: object) -> Distortion:
        return self._plus(other, -1.0)

    def _plus(self, other: object, sign: float) -> Distortion:
        from pmbandits.metrics.combination import simplify

        if not isinstance(other, Distortion):
            if isinstance(other, (int, float)) and other == 0:  # sum([...]) starts from 0
                return self
            raise TypeError(
                f"only a distortion can be added to a distortion, got {_check.short(other)}; with a constant, h(0) "
                "would not be 0."
            )
        return simplify([*self.terms, *((sign * c, d) for c, d in other.terms)])

    def __mul__(self, factor: object) -> Distortion:
        from pmbandits.metrics.combination import simplify

        if isinstance(factor, Distortion):
            raise TypeError(
                "a distortion can be multiplied by a number only; the product of two distortions is not defined."
            )
        scale = _check.number("the factor of a distortion", factor)
        return simplify([(scale * c, d) for c, d in self.terms])

    __rmul__ = __mul__

    __radd__ = __add__

    def __truediv__(self, divisor: object) -> Distortion:
        scale = _check.number("the divisor of a distortion", divisor)
        if scale == 0.0:
            raise ZeroDivisionError("a distortion cannot be divided by 0.")
        return self * (1.0 / scale)

    def __neg__(self) -> Distortion:
        return self * -1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distortion) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return json.dumps(self.to_dict(), sort_keys=True)

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
        return f"{type(self).__name__}({inside})"

    def _repr_html_(self) -> str:
        from pmbandits import _html

        u = np.linspace(0.0, 1.0, 201)
        rows = [
            ("h(u)", getattr(self, "formula", "a sum")),
            ("shape", f"{self.shape}, {_MIXTURES[self.shape]}"),
            ("meaning", getattr(self, "meaning", "a sum of preferences")),
        ]
        picture = _html.curve(u, [self(u)], label=f"the distortion of {self!r}")
        return _html.block(repr(self), _html.beside(_html.table((), rows), picture))

    # ---- shared machinery -------------------------------------------------------------------------------
    def _apply(self, function: Callable[[FloatArray], FloatArray], u: Any) -> Any:
        array = np.float64(u) if type(u) is float else _check.floats("u", u, what="a number or an array of numbers")
        if not ((array >= 0.0) & (array <= 1.0)).all():
            raise ValueError(f"a distortion takes probabilities in [0, 1], got {_check.short(u)}.")
        with np.errstate(all="ignore"):
            out = function(np.atleast_1d(array))
        return float(out[0]) if array.ndim == 0 else out.reshape(array.shape)

    def _extremum(self, lo: float, hi: float, sign: float) -> Extremum:
        lo = _check.within("lo", lo, 0.0, 1.0)
        hi = _check.within("hi", hi, lo, 1.0)
        places = np.array([lo, *sorted(p for p in self._critical() if lo < p < hi), hi])
        with np.errstate(all="ignore"):
            values = self._h(places)
        best = int(np.argmax(sign * values))
        return Extremum(at=float(places[best]), value=float(values[best]))
