"""Distortions: preference metrics, their sums, and those that are made from a function of the user.

A preference metric is the signed Choquet integral of a distortion function h (the paper's equation ``eq:wang_def``)

    U_h(Q) = ∫_{-∞}^0 (h(1 − Q(x)) − h(1)) dx + ∫_0^∞ h(1 − Q(x)) dx .
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _html, _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics.categories import category_of
from pmbandits.metrics.distortion_function import DistortionFunction
from pmbandits.metrics.names import build_metric
from pmbandits.metrics.numeric import JUMP_TOLERANCE, Shape, unit_grid_denser_at_ends
from pmbandits.metrics.user_function import UserFunction, check_derivative, check_slopes
from pmbandits.metrics.value import value, value_of_cdf

_MIXTURE_NOTES = {
    "concave": "a mixture can be best",
    "convex": "one arm is always best",
    "linear": "one arm is always best",
    "neither": "it depends on the arms",
}


class Distortion(DistortionFunction):
    """A preference: a curve h through which the survival function is looked at, and the metric U_h that follows.

    h is a function on [0, 1] with h(0) = 0. U_h adds up h(P(X > x)) over all x, instead of P(X > x) itself, which would
    give the mean. Distortions can be added, subtracted and multiplied by numbers; the result is a distortion again.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> preference = 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)
    >>> round(preference.value([1.0, 2.0, 4.0]), 6)
    2.833333
    >>> preference.shape
    'concave'
    """

    name: ClassVar[str]
    formula: ClassVar[str]
    meaning: ClassVar[str]
    use: ClassVar[str]

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
        return value_of_cdf(self, x, cdf, between)

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON or TOML. :meth:`from_dict` gives the same metric back.

        >>> import pmbandits as pmb
        >>> pmb.UpperCVaR(0.9).to_dict()
        {'name': 'upper_cvar', 'c': 0.9}
        """
        return {"name": self.name, **self.parameters}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Distortion:
        """Make the metric that :meth:`to_dict` described. Only known names are looked up; nothing is executed.

        >>> import pmbandits as pmb
        >>> pmb.Distortion.from_dict({"name": "upper_cvar", "c": 0.9})
        UpperCVaR(c=0.9)
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
            raise ValueError(f"a metric is described by a table with a 'name', got {_validation.short_repr(data)}.")
        parameters = {str(k): v for k, v in data.items() if k != "name"}
        if data["name"] != "sum":
            return build_metric(data["name"], (), parameters)
        terms = parameters.pop("terms", None)
        if parameters or not isinstance(terms, (list, tuple)):
            raise ValueError("a 'sum' metric has one entry 'terms': a list of tables with 'weight' and 'metric'.")
        parts = []
        for k, term in enumerate(terms):
            if not isinstance(term, Mapping) or set(term) != {"weight", "metric"}:
                raise ValueError(
                    f"term {k} of a 'sum' metric must have exactly 'weight' and 'metric', got "
                    f"{_validation.short_repr(term)}."
                )
            weight = _validation.check_number(f"weight of term {k}", term["weight"])
            parts += [(weight * c, d) for c, d in Distortion.from_dict(term["metric"]).terms]
        return linear_combination(parts)

    @staticmethod
    def from_function(
        function: Callable[[Any], Any],
        name: str = "custom",
        *,
        derivative: Callable[[Any], Any] | None = None,
        holder: tuple[float, float] | None = None,
        shape: Shape | None = None,
    ) -> Distortion:
        """Make a distortion from a function of your own.

        Parameters
        ----------
        function : h, for a number or an array in [0, 1], with h(0) = 0 and finite values.
        name : what messages and pictures call it.
        derivative : h', if you have it. By default it is a difference quotient.
        holder : (q, C) with |h(u) − h(v)| ≤ C|u − v|^q for all u and v, if you know it. Some policies need it. It says
            how much h can do between the places where the library looks at it.
        shape : ``"concave"``, ``"convex"`` or ``"linear"``, if you know it. By default it is found numerically: a bend
            counts when h leaves its chord by more than 1e-10 of max|h|.

        :func:`oracle` certifies an answer only with ``derivative``, and with ``shape`` or ``holder``. What you state is
        checked at about 2,000 points when the metric is made.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> mine = pmb.Distortion.from_function(lambda u: u**0.7 - u, name="mine")
        >>> mine.shape, round(mine.maximum().at, 6)
        ('concave', 0.304551)
        """
        return Custom(function, name, derivative, holder, shape)

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
        return self._add_scaled(other, 1.0)

    def __sub__(self, other: object) -> Distortion:
        return self._add_scaled(other, -1.0)

    def _add_scaled(self, other: object, sign: float) -> Distortion:
        if not isinstance(other, Distortion):
            if isinstance(other, (int, float)) and other == 0:  # sum([...]) starts from 0
                return self
            raise TypeError(
                f"only a distortion can be added to a distortion, got {_validation.short_repr(other)}; with a "
                "constant, h(0) would not be 0."
            )
        return linear_combination([*self.terms, *((sign * c, d) for c, d in other.terms)])

    def __mul__(self, factor: object) -> Distortion:
        if isinstance(factor, Distortion):
            raise TypeError(
                "a distortion can be multiplied by a number only; the product of two distortions is not defined."
            )
        scale = _validation.check_number("the factor of a distortion", factor)
        return linear_combination([(scale * c, d) for c, d in self.terms])

    __rmul__ = __mul__

    __radd__ = __add__

    def __truediv__(self, divisor: object) -> Distortion:
        scale = _validation.check_number("the divisor of a distortion", divisor)
        if scale == 0.0:
            raise ZeroDivisionError("a distortion cannot be divided by 0.")
        return self * (1.0 / scale)

    def __neg__(self) -> Distortion:
        return self * -1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distortion) and self._equality_key() == other._equality_key()

    def __hash__(self) -> int:
        return hash(self._equality_key())

    def _equality_key(self) -> Any:
        return json.dumps(self.to_dict(), sort_keys=True)

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
        return f"{type(self).__name__}({inside})"

    def _repr_html_(self) -> str:
        u = np.linspace(0.0, 1.0, 201)
        rows = [
            ("h(u)", getattr(self, "formula", "a sum")),
            ("shape", f"{self.shape}, {_MIXTURE_NOTES[self.shape]}"),
            ("meaning", getattr(self, "meaning", "a sum of preferences")),
        ]
        picture = _html.svg_line_chart(u, [self(u)], label=f"the distortion of {self!r}")
        return _html.html_titled_block(repr(self), _html.html_side_by_side(_html.html_table((), rows), picture))


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Distortion):
    """Σ coefficient · distortion, as made by ``+``, ``-`` and ``*``."""

    parts: tuple[tuple[float, Distortion], ...]

    name: ClassVar[str] = "sum"
    formula: ClassVar[str] = "Σ cᵢ·hᵢ(u)"
    meaning: ClassVar[str] = "a weighted sum of other preferences"
    use: ClassVar[str] = "to trade one preference against another"

    @property
    def terms(self) -> tuple[tuple[float, Distortion], ...]:
        return self.parts

    @property
    def parameters(self) -> dict[str, Any]:
        return {"terms": [{"weight": c, "metric": d.to_dict()} for c, d in self.parts]}

    def _weighted_sum(self, method: str, u: FloatArray) -> FloatArray:
        total = np.zeros_like(u)
        for c, d in self.parts:
            total += c * getattr(d, method)(u)
        return total

    def _h(self, u: FloatArray) -> FloatArray:
        return self._weighted_sum("_h", u)

    def _negative_dual_h(self, v: FloatArray) -> FloatArray:
        return self._weighted_sum("_negative_dual_h", v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._weighted_sum("_dh", u)

    def _negative_dual_dh(self, v: FloatArray) -> FloatArray:
        return self._weighted_sum("_negative_dual_dh", v)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._weighted_sum("_d2h", u)

    def _negative_dual_d2h(self, v: FloatArray) -> FloatArray:
        return self._weighted_sum("_negative_dual_d2h", v)

    def _shape_tolerance_scale(self) -> float:
        grid = unit_grid_denser_at_ends()
        with np.errstate(all="ignore"):
            return sum(abs(c) * float(np.abs(d._h(grid)).max()) for c, d in self.parts)

    @cached_property
    def shape(self) -> Shape:
        if self.jumps:
            return "neither"
        flipped = {"concave": "convex", "convex": "concave"}
        kinds = {d.shape if c > 0 else flipped.get(d.shape, d.shape) for c, d in self.parts} - {"linear"}
        if not kinds:
            return "linear"
        if kinds == {"concave"}:
            return "concave"
        return "convex" if kinds == {"convex"} else self._numeric_shape_and_monotonicity[0]

    def _critical_points(self) -> Sequence[float]:
        return self.parts[0][1]._critical_points() if len(self.parts) == 1 else super()._critical_points()

    def _power_coefficients(self) -> dict[float, float] | None:
        out: dict[float, float] = {}
        for c, d in self.parts:
            powers = d._power_coefficients()
            if powers is None:
                return None
            for exponent, coefficient in powers.items():
                out[exponent] = out.get(exponent, 0.0) + c * coefficient
        size = sum(abs(c) for c, _ in self.parts)
        return {exponent: x for exponent, x in out.items() if abs(x) > 1e-12 * size}  # the rest cancelled

    @property
    def _is_piecewise_linear(self) -> bool:
        return all(d._is_piecewise_linear for _, d in self.parts)

    def _holder_modulus_or_reason(self) -> tuple[float, float] | str:
        as_category = category_of(self)  # of the sum as a whole: its terms may cancel
        if as_category is not None:
            return as_category.modulus
        exponents, constants = [], []
        for c, d in self.parts:
            modulus = d._holder_modulus_or_reason()
            if isinstance(modulus, str):
                return f"of its term {d!r}: {modulus}"
            exponents.append(modulus[0])
            constants.append(abs(c) * modulus[1])
        # |u − v| ≤ 1, so every term also has the smallest exponent.
        return (min(exponents, default=1.0), sum(constants))

    def _merged_kinks_or_jumps(self, which: str) -> list[tuple[float, float]]:
        found: dict[float, float] = {}
        for c, d in self.parts:
            for place, size in getattr(d, which):
                key = next((p for p in found if abs(p - place) <= JUMP_TOLERANCE), place)
                found[key] = found.get(key, 0.0) + c * size
        return sorted((p, s) for p, s in found.items() if abs(s) > JUMP_TOLERANCE)

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return self._merged_kinks_or_jumps("kinks")

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return self._merged_kinks_or_jumps("jumps")

    def _equality_key(self) -> Any:
        return tuple((c, d._equality_key()) for c, d in self.parts)

    def __repr__(self) -> str:
        text = ""
        for k, (c, d) in enumerate(self.parts):
            sign = ("-" if c < 0 else "") if k == 0 else (" - " if c < 0 else " + ")
            text += sign + (f"{d!r}" if abs(c) == 1.0 else f"{abs(c):g}*{d!r}")
        return text or "0*Mean()"


def linear_combination(terms: Sequence[tuple[float, Distortion]]) -> Distortion:
    """A sum with equal terms merged and zero terms gone; a single term of weight 1 is that distortion itself."""
    merged: dict[Distortion, float] = {}
    for c, d in terms:
        total = merged.get(d, 0.0) + c
        if not np.isfinite(total):
            raise ValueError(
                f"the factor of {d!r} in a sum of distortions is too large for a number of 64 bits; take a smaller one."
            )
        if total == 0.0:  # gone, with its place: the order is that of adding one after the other
            merged.pop(d, None)
        else:
            merged[d] = total
    parts = tuple((c, d) for d, c in merged.items())
    return parts[0][1] if len(parts) == 1 and parts[0][0] == 1.0 else Combination(parts)


class Custom(Distortion):
    """A user's function as a distortion; made by :meth:`Distortion.from_function`."""

    formula: ClassVar[str] = "given as a function"
    meaning: ClassVar[str] = "a preference of your own"
    use: ClassVar[str] = "when no named preference says what you mean"

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        derivative: Callable[[Any], Any] | None,
        holder: tuple[float, float] | None,
        shape: Shape | None,
    ) -> None:
        self.label = str(name)
        self.function = function
        self._h_of_user = UserFunction(function, self.label)
        self._dh_of_user = None if derivative is None else UserFunction(derivative, self.label)
        self._holder_pair = self._h_of_user.check_distortion(holder)
        self.shape_is_stated = shape is not None
        if shape is not None:
            _validation.check_choice("shape", shape, ("concave", "convex", "linear"))
            if self.shape not in (shape, "linear"):
                raise ValueError(f"the distortion {self.label!r} is not {shape}: its values are {self.shape}.")
            if self._dh_of_user is not None:
                check_slopes(self.label, self._h_of_user, self._dh_of_user, shape)
        if self._dh_of_user is not None:
            check_derivative(self.label, self._h_of_user, self._dh_of_user)

    def _h(self, u: FloatArray) -> FloatArray:
        return self._h_of_user(u)

    def _dh(self, u: FloatArray) -> FloatArray:
        return super()._dh(u) if self._dh_of_user is None else self._dh_of_user(u)

    @property
    def _has_exact_derivative(self) -> bool:
        return self._dh_of_user is not None

    def _holder_modulus_or_reason(self) -> tuple[float, float] | str:
        if self._holder_pair is None:
            return "it was given as a function without one; pass holder=(q, C) to Distortion.from_function"
        return self._holder_pair

    @property
    def parameters(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        raise ValueError(
            f"the distortion {self.label!r} is a Python function and cannot be written as data; "
            "build it from named metrics, or give it again when you load."
        )

    def _equality_key(self) -> Any:
        return (self.label, id(self.function))

    def __repr__(self) -> str:
        return f"Distortion.from_function(name={self.label!r})"
