"""Golden section: the largest value of a function that rises and then falls; compiled.

The function stays with the caller, who asks for a point and tells its value::

    search = golden_section_start(lo, hi)
    for _ in range(2 + steps):
        x = golden_section_next_point(search)
        golden_section_tell(search, f(x))
    where, value = golden_section_best(search)

To find the least value, tell −f.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.encoding import h_value
from pmbandits.state.linking import shared, step

LO, HI, A, B, AT_A, AT_B = range(6)  # of a search: the interval, two points inside it, and the values there
_RATIO = 0.6180339887498949


@step("float, float -> floats")
def golden_section_start(lo: float, hi: float) -> FloatArray:
    """Begin a search between two numbers; returns what it remembers."""
    search = np.empty(6)
    search[LO], search[HI] = lo, hi
    search[A], search[B] = hi - _RATIO * (hi - lo), lo + _RATIO * (hi - lo)
    search[AT_A], search[AT_B] = np.nan, np.nan
    return search


@step("floats -> float")
def golden_section_next_point(search: FloatArray) -> float:
    """The point whose value is to be told next."""
    if math.isnan(search[AT_A]):
        return search[A]
    if math.isnan(search[AT_B]):
        return search[B]
    if search[AT_A] >= search[AT_B]:
        search[HI], search[B], search[AT_B] = search[B], search[A], search[AT_A]
        search[A], search[AT_A] = search[HI] - _RATIO * (search[HI] - search[LO]), np.nan
        return search[A]
    search[LO], search[A], search[AT_A] = search[A], search[B], search[AT_B]
    search[B], search[AT_B] = search[LO] + _RATIO * (search[HI] - search[LO]), np.nan
    return search[B]


@step("floats, float -> none")
def golden_section_tell(search: FloatArray, value: float) -> None:
    """Tell the value at the point that was asked for."""
    if math.isnan(search[AT_A]):
        search[AT_A] = value
    else:
        search[AT_B] = value


@step("floats -> two floats")
def golden_section_best(search: FloatArray) -> tuple[float, float]:
    """The better of the last two points, and its value."""
    if search[AT_A] >= search[AT_B]:
        return search[A], search[AT_A]
    return search[B], search[AT_B]


@shared("floats, float, float, int -> float")
def argmax_tilted_h(h: FloatArray, sign: float, tilt: float, steps: int) -> float:
    """Where sign·h(u) − tilt·u is largest in [0, 1], for concave sign·h; an end if it is as good."""
    search = golden_section_start(0.0, 1.0)
    for _ in range(2 + steps):
        u = golden_section_next_point(search)
        golden_section_tell(search, sign * h_value(h, u) - tilt * u)
    best, value = golden_section_best(search)
    for end in (0.0, 1.0):
        if sign * h_value(h, end) - tilt * end >= value:
            best, value = end, sign * h_value(h, end) - tilt * end
    return best
