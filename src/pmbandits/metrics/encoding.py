"""A distortion as one array of numbers, for compiled code: how the array is laid out, and what can be read from it.

No other file knows the positions. The array holds

- a head: how many terms, extrema and table points follow, whether h is concave with one peak, whether h'' is known
  to be monotone, and whether h never falls;
- for each term c·h: the number of its family, c, and the family's parameters;
- for each place where h may have a local extremum: the place, and h there;
- a table of h, if a part of it has no compiled formula: pairs of u and h(u);
- with a table, an index: for each of 4,096 equal parts of [0, 1] the last point at or before its beginning.

The formulas are those of the families, compiled one by one when a metric first needs them, and called by number.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import numpy as np
from numba.extending import overload, register_jitable

from pmbandits._validation import FloatArray
from pmbandits.metrics import formulas
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import FAMILIES, DualPower, GiniDeviation
from pmbandits.metrics.family import Family
from pmbandits.metrics.normal import normal_cdf, normal_quantile
from pmbandits.metrics.numeric import unit_grid_denser_at_ends
from pmbandits.state.compile import kernel
from pmbandits.state.linking import dispatch_table, shared, step

# The head.
_N_TERMS, _N_EXTREMA, _N_POINTS, _SINGLE_PEAK, _MONOTONE_CURVATURE, _INCREASING = 0, 1, 2, 3, 4, 5
_HEAD = 6
# A term: its family, its weight, its parameters.
_PARAMETERS = 2
_TERM = 2 + _PARAMETERS
_FAMILY, _WEIGHT, _PARAMETER_1, _PARAMETER_2 = _HEAD, _HEAD + 1, _HEAD + 2, _HEAD + 3  # of the first term
# An extremum, and a point of the table: a place and h there.
_PAIR = 2

_BUCKETS = 4096  # equal parts of [0, 1] for which the place in the table is known
TABLE = -1.0  # stands for the family of a term that is a table
_ENCODED_FAMILIES = [cls for cls in FAMILIES if len(cls.parameter_names) <= _PARAMETERS]
FAMILY_NUMBERS = {
    cls: float(number) for number, cls in enumerate(_ENCODED_FAMILIES)
}  # of the families that kernels know
_GINI = FAMILY_NUMBERS[GiniDeviation]


# ---- the formulas of the families, all with the same arguments --------------------------------------------

# What kernels do where a formula calls one of these: numba asks the outer function for the one to compile.
overload(formulas.where)(lambda condition, yes, no: lambda condition, yes, no: yes if condition else no)
overload(formulas.norm_cdf)(lambda x: lambda x: normal_cdf(x))
overload(formulas.norm_ppf)(lambda p: lambda p: normal_quantile(p))
for _helper in formulas.FORMULA_HELPERS:
    register_jitable(error_model="numpy")(_helper)

formula: Any = None  # in the copies of the three functions below, the formula of a family


def _formula_without_parameters(u: float, first: float, second: float) -> float:
    return formula(u)


def _formula_of_one_parameter(u: float, first: float, second: float) -> float:
    return formula(u, first)


def _formula_of_two_parameters(u: float, first: float, second: float) -> float:
    return formula(u, first, second)


def _formula_of_each(u: FloatArray, first: float, second: float) -> None:
    for j in range(u.size):
        u[j] = formula(u[j], first, second)


def _copy_with_formula(template: Any, function: Any, name: str) -> Any:
    """A copy of a template with global names of its own: the code of a closure would not be found on disk again."""
    copy = FunctionType(template.__code__, {"__name__": __name__, "formula": kernel(function)}, name)
    copy.__qualname__ = name
    return copy


def _formula_with_two_parameters(cls: type[Family]) -> Callable[..., Any]:
    """The formula of a family as a function of u and two numbers, of which it uses as many as it has parameters."""
    template: Any = (_formula_without_parameters, _formula_of_one_parameter, _formula_of_two_parameters)[
        len(cls.parameter_names)
    ]
    return cast(Callable[..., Any], _copy_with_formula(template, cls.h, f"formula_of_{cls.name}"))


_formulas = [_formula_with_two_parameters(cls) for cls in _ENCODED_FAMILIES]
_family_formula = dispatch_table(f"{__name__}.formula", "float, float, float -> float", _formulas)
_family_formula_of_each = dispatch_table(
    f"{__name__}.formula_of_each",
    "floats, float, float -> none",
    [_copy_with_formula(_formula_of_each, one, f"{one.__name__}_of_each") for one in _formulas],
)


# ---- from a metric to its array ---------------------------------------------------------------------------


def encode_metric(metric: Distortion) -> FloatArray:
    """A distortion as one array of numbers for compiled code.

    Functions of the user, and families that are not of this package, become a table of h. It is refined until h is
    linear between its points to 1e-8 of max|h| (steps of h: to 1e-12 in u).

    >>> import pmbandits as pmb
    >>> from pmbandits.metrics.encoding import encode_metric, h_max, h_value
    >>> h = encode_metric(pmb.GiniDeviation())
    >>> h_value(h, 0.2), h_max(h, 0.2, 0.9)
    (0.16000000000000003, 0.25)
    """
    terms: list[list[float]] = []
    without_formula: list[tuple[float, Distortion]] = []
    for c, d in metric.terms:
        if isinstance(d, Family) and type(d) in FAMILY_NUMBERS:
            unused = [0.0] * (_PARAMETERS - len(d.parameter_values))
            terms.append([FAMILY_NUMBERS[type(d)], c, *d.parameter_values, *unused])
        else:
            without_formula.append((c, d))
    table = np.zeros((0, _PAIR))
    if without_formula:
        table = _tabulate_until_interpolation_is_accurate(
            lambda u: sum((c * d._h(u) for c, d in without_formula), np.zeros_like(u))
        )
        terms.append([TABLE, 1.0, *([0.0] * _PARAMETERS)])
    extrema = [[u, float(metric(u))] for u in sorted(set(metric._critical_points()))]
    peak = metric.shape == "concave" and len(extrema) == 1 and extrema[0][1] >= metric.maximum().value
    head = np.zeros(_HEAD)
    increasing = metric.monotonicity == "increasing"
    head[:] = len(terms), len(extrema), table.shape[0], peak, _is_curvature_monotone(metric), increasing
    first = np.arange(_BUCKETS + 1) / _BUCKETS if without_formula else np.zeros(0)
    index = np.clip(np.searchsorted(table[:, 0], first, side="right") - 1, 0, max(table.shape[0] - 2, 0))
    parts = (np.asarray(part, dtype=np.float64).ravel() for part in (head, terms, extrema, table, index))
    return np.ascontiguousarray(np.concatenate(list(parts)))


def _is_curvature_monotone(metric: Distortion) -> bool:
    """Whether h is known to have a third derivative of one sign: a dual power, or powers that agree in theirs."""
    if isinstance(metric, DualPower):
        return True
    powers = metric._power_coefficients()
    thirds = [] if powers is None else [c * p * (p - 1.0) * (p - 2.0) for p, c in powers.items()]
    return powers is not None and (min(thirds, default=0.0) >= 0.0 or max(thirds) <= 0.0)


def _tabulate_until_interpolation_is_accurate(h: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """(u, h(u)) with points added where a straight line between neighbours misses h."""
    u = unit_grid_denser_at_ends(2049)
    with np.errstate(all="ignore"):
        y = h(u)
        for _ in range(45):
            middle = 0.5 * (u[:-1] + u[1:])
            between = h(middle)
            miss = np.abs(between - 0.5 * (y[:-1] + y[1:])) > 1e-8 * max(float(np.abs(y).max()), 1e-300)
            miss &= np.diff(u) > 1e-12 * np.maximum(u[1:], 1e-12)
            if not miss.any() or u.size > 200_000:
                break
            order = np.argsort(np.concatenate((u, middle[miss])), kind="stable")
            u = np.concatenate((u, middle[miss]))[order]
            y = np.concatenate((y, between[miss]))[order]
    return np.column_stack((u, y))


# ---- what kernels read ------------------------------------------------------------------------------------


@step("floats -> bool")
def has_table(h: FloatArray) -> bool:
    """Whether a part of h is a table."""
    return h[_N_POINTS] > 0.0


@step("floats, float -> float")
def h_value(h: FloatArray, u: float) -> float:
    """The value h(u). Below 0 it is h(0), and above 1 it is h(1)."""
    u = min(max(u, 0.0), 1.0)
    if h[_N_TERMS] == 1.0 and h[_FAMILY] == _GINI:  # the common case, without a call
        return h[_WEIGHT] * (u * (1.0 - u))
    total = 0.0
    for k in range(int(h[_N_TERMS])):
        at = _HEAD + _TERM * k
        if h[at] == TABLE:
            total += _interpolate_table(h, u)
        else:
            total += h[at + 1] * _family_formula(int(h[at]), u, h[at + 2], h[at + 3])
    return total


@shared("floats, float -> float")
def _interpolate_table(h: FloatArray, u: float) -> float:
    """The part of h that is a table, by a straight line between the points beside u."""
    start = _HEAD + _TERM * int(h[_N_TERMS]) + _PAIR * int(h[_N_EXTREMA])
    index, bucket = start + _PAIR * int(h[_N_POINTS]), int(u * _BUCKETS)
    lo, hi = int(h[index + bucket]), int(h[index + min(bucket + 1, _BUCKETS)]) + 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if h[start + _PAIR * middle] <= u:
            lo = middle
        else:
            hi = middle
    x0, x1 = h[start + _PAIR * lo], h[start + _PAIR * hi]
    share = (u - x0) / (x1 - x0)
    return (1.0 - share) * h[start + _PAIR * lo + 1] + share * h[start + _PAIR * hi + 1]


@step("floats, float, float -> float")
def h_max(h: FloatArray, lo: float, hi: float) -> float:
    """The maximum of h over [lo, hi] ∩ [0, 1]: at one of the ends, or at a local extremum between them."""
    lo = min(max(lo, 0.0), 1.0)
    hi = min(max(hi, lo), 1.0)
    if h[_INCREASING] == 1.0:
        return h_value(h, hi)
    at = _HEAD + _TERM * int(h[_N_TERMS])
    if h[_SINGLE_PEAK] == 1.0:  # the peak, or the end that is nearer to it
        if hi <= h[at]:
            return h_value(h, hi)
        return h_value(h, lo) if lo >= h[at] else h[at + 1]
    best = max(h_value(h, lo), h_value(h, hi))
    for k in range(int(h[_N_EXTREMA])):
        if lo < h[at + _PAIR * k] < hi and h[at + _PAIR * k + 1] > best:
            best = h[at + _PAIR * k + 1]
    return best


@step("floats, floats, float, floats, floats -> none")
def add_h_of_each(h: FloatArray, u: FloatArray, factor: float, out: FloatArray, scratch: FloatArray) -> None:
    """Add ``factor`` times h(u) of each u to ``out``; u is overwritten. Loops without calls, so in vectors."""
    if has_table(h):
        for j in range(out.size):
            out[j] += factor * h_value(h, u[j])
        return
    for j in range(out.size):
        u[j] = min(max(u[j], 0.0), 1.0)
    if h[_N_TERMS] == 1.0 and h[_FAMILY] == _GINI:
        weight = h[_WEIGHT]
        for j in range(out.size):
            out[j] += factor * (weight * (u[j] * (1.0 - u[j])))
    elif h[_N_TERMS] == 1.0:
        weight = h[_WEIGHT]
        _family_formula_of_each(int(h[_FAMILY]), u, h[_PARAMETER_1], h[_PARAMETER_2])
        for j in range(out.size):
            out[j] += factor * (weight * u[j])
    else:
        total, terms = scratch[: out.size], int(h[_N_TERMS])
        values = scratch[out.size : 2 * out.size]
        for k in range(terms):
            at = _HEAD + _TERM * k
            weight = h[at + 1]
            for j in range(out.size):
                values[j] = u[j]
            _family_formula_of_each(int(h[at]), values, h[at + 2], h[at + 3])
            for j in range(out.size):
                total[j] = weight * values[j] if k == 0 else total[j] + weight * values[j]
        for j in range(out.size):
            out[j] += factor * total[j]


@step("floats, float, float -> float")
def h_min(h: FloatArray, lo: float, hi: float) -> float:
    """The minimum of h over [lo, hi] ∩ [0, 1]."""
    lo = min(max(lo, 0.0), 1.0)
    hi = min(max(hi, lo), 1.0)
    if h[_INCREASING] == 1.0:
        return h_value(h, lo)
    at = _HEAD + _TERM * int(h[_N_TERMS])
    best = min(h_value(h, lo), h_value(h, hi))
    if h[_SINGLE_PEAK] == 1.0:
        return best
    for k in range(int(h[_N_EXTREMA])):
        if lo < h[at + _PAIR * k] < hi and h[at + _PAIR * k + 1] < best:
            best = h[at + _PAIR * k + 1]
    return best


@step("floats, float, float -> float")
def h_slope(h: FloatArray, u: float, slope_step: float) -> float:
    """The slope of h between u − slope_step and u + slope_step, or the ends 0 and 1 if they are nearer."""
    lo, hi = max(u - slope_step, 0.0), min(u + slope_step, 1.0)
    if h[_N_TERMS] == 1.0 and h[_FAMILY] == _GINI:  # without the rounding of a difference quotient
        return h[_WEIGHT] * (1.0 - lo - hi)
    return (h_value(h, hi) - h_value(h, lo)) / (hi - lo)


@step("floats -> bool")
def is_multiple_of_one_family(h: FloatArray) -> bool:
    """Whether h is a multiple of one family's formula: no sum, and no table. Then :func:`one_family_value` is h."""
    return h[_N_TERMS] == 1.0 and h[_FAMILY] != TABLE


@step("floats, float -> float")
def one_family_value(h: FloatArray, u: float) -> float:
    """h(u) of a multiple of one family's formula, without the walk over terms (:func:`is_multiple_of_one_family`)."""
    return h[_WEIGHT] * _family_formula(int(h[_FAMILY]), min(max(u, 0.0), 1.0), h[_PARAMETER_1], h[_PARAMETER_2])


@step("floats, float, float -> float")
def one_family_slope(h: FloatArray, u: float, slope_step: float) -> float:
    """The difference quotient of h around u, for a multiple of one family's formula: a faster :func:`h_slope`."""
    lo, hi = max(u - slope_step, 0.0), min(u + slope_step, 1.0)
    if h[_FAMILY] == _GINI:
        return h[_WEIGHT] * (1.0 - lo - hi)
    return (one_family_value(h, hi) - one_family_value(h, lo)) / (hi - lo)


@step("floats -> bool")
def has_monotone_curvature(h: FloatArray) -> bool:
    """Whether h'' is known to be monotone, so that h' is convex or concave."""
    return h[_MONOTONE_CURVATURE] == 1.0


@step("floats -> bool")
def has_single_peak(h: FloatArray) -> bool:
    """Whether h is concave, with one extremum inside (0, 1), which is its maximum. :func:`peak_location` says where."""
    return h[_SINGLE_PEAK] == 1.0


@step("floats -> bool")
def is_increasing(h: FloatArray) -> bool:
    """Whether h never falls."""
    return h[_INCREASING] == 1.0


@step("floats -> float")
def peak_location(h: FloatArray) -> float:
    """Where h is largest, if :func:`has_single_peak`."""
    return h[_HEAD + _TERM * int(h[_N_TERMS])]


@step("floats -> int")
def n_extrema(h: FloatArray) -> int:
    """At how many places inside (0, 1) h may have a local extremum."""
    return int(h[_N_EXTREMA])


@step("floats, int -> float")
def extremum_location(h: FloatArray, m: int) -> float:
    """Where h may have its m-th local extremum, counted from 0 in increasing order."""
    return h[_HEAD + _TERM * int(h[_N_TERMS]) + _PAIR * m]


@step("floats, int -> float")
def extremum_value(h: FloatArray, m: int) -> float:
    """h at the place of its m-th possible local extremum."""
    return h[_HEAD + _TERM * int(h[_N_TERMS]) + _PAIR * m + 1]
