"""A user's function of a number in [0, 1], called on arrays and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics.numeric import HINT, SHAPE_TOLERANCE, Shape, check_distortion_values, unit_grid_denser_at_ends


class UserFunction:
    """A function that takes arrays, from one of the user that may take single numbers only.

    >>> import math
    >>> UserFunction(math.sqrt, "root")(np.array([0.25, 1.0])).tolist()
    [0.5, 1.0]
    """

    def __init__(self, function: Callable[[Any], Any], label: str) -> None:
        if not callable(function):
            raise TypeError(
                f"from_function needs a function of one number in [0, 1], got {_validation.short_repr(function)}."
            )
        self.function, self.label = function, label
        try:
            with np.errstate(all="ignore"):
                self._takes_arrays = np.shape(function(np.array([0.25, 0.75]))) == (2,)
        except Exception:
            self._takes_arrays = False

    def __call__(self, u: FloatArray) -> FloatArray:
        try:
            if self._takes_arrays:
                out = np.asarray(self.function(u), dtype=np.float64)
            else:
                out = np.array([self.function(float(x)) for x in u.flat], dtype=np.float64).reshape(u.shape)
        except Exception as error:
            raise ValueError(f"the distortion {self.label!r} failed on [0, 1]: {error!r}; {HINT}.") from error
        if out.shape != u.shape:
            raise ValueError(f"the distortion {self.label!r} must return one number for each u; {HINT}.")
        return out

    def check_distortion(self, holder: tuple[float, float] | None) -> tuple[float, float] | None:
        """Refuse what is no distortion, or does not have the Hölder pair (q, C) that is claimed; return the pair."""
        grid = unit_grid_denser_at_ends()
        with np.errstate(all="ignore"):
            y = self(grid)
        check_distortion_values(self.label, grid, y)
        if holder is None:
            return None
        q = _validation.check_within("holder exponent q", holder[0], 0.0, 1.0, open_lo=True)
        constant = _validation.check_within("holder constant", holder[1], 0.0)
        excess = np.abs(y[:, None] - y[None, ::8]) - constant * np.abs(grid[:, None] - grid[None, ::8]) ** q
        if float(excess.max()) > 1e-9 * max(1.0, constant):
            i, j = np.unravel_index(int(excess.argmax()), excess.shape)
            raise ValueError(
                f"holder=({q:g}, {constant:g}) does not hold for {self.label!r}: between u = {grid[8 * j]:.3g} and "
                f"{grid[i]:.3g} it changes by {abs(y[i] - y[8 * j]):.3g}; give a larger constant or a smaller q."
            )
        return q, constant


def check_derivative(label: str, h: UserFunction, slope: UserFunction) -> None:
    """Refuse a derivative whose integral is not the rise of h on more than 1 % of [0, 1]: corners and steps are few."""
    u = unit_grid_denser_at_ends()
    nodes, weights = np.polynomial.legendre.leggauss(4)
    width = np.diff(u)
    places = u[:-1, None] + 0.5 * width[:, None] * (1.0 + nodes)
    with np.errstate(all="ignore"):
        y, rise = h(u), 0.5 * width * (slope(places) @ weights)
        off = np.abs(rise - np.diff(y))
        wrong = ~(off <= 1e-3 * (np.abs(rise) + np.abs(np.diff(y))) + 1e-9 * float(np.abs(y).max()))
    if float(width[wrong].sum()) > 0.01:
        k = int(np.flatnonzero(wrong)[np.argmax(width[wrong])])
        raise ValueError(
            f"derivative is not that of {label!r}: between u = {u[k]:.4g} and {u[k + 1]:.4g} h rises by "
            f"{y[k + 1] - y[k]:.4g}, but with this derivative it would rise by {rise[k]:.4g}."
        )


def check_slopes(label: str, h: UserFunction, slope: UserFunction, shape: Shape) -> None:
    """Refuse a derivative whose tangents do not stay on one side of h, as those of a concave or convex function do."""
    u = unit_grid_denser_at_ends()
    sides = {"concave": (1.0,), "convex": (-1.0,)}.get(shape, (1.0, -1.0))
    with np.errstate(all="ignore"):
        y, tangent = h(u), slope(u)
        for at, other in ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))):
            above = y[at] + tangent[at] * (u[other] - u[at]) - y[other]
            for side in sides:
                wrong = ~(side * above >= -SHAPE_TOLERANCE * max(float(np.abs(y).max()), 1e-300))
                if wrong.any():
                    raise ValueError(
                        f"derivative is not that of {label!r}: at u = {u[at][wrong][0]:.3g} it is "
                        f"{tangent[at][wrong][0]:.6g}, and the tangent there crosses the curve, which is {shape}."
                    )
