"""Shape, direction, slope and extrema of h, found from its values alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, Monotonicity, Shape, warped_grid

# A bend counts when h leaves its chord by more than this share of max|h|.
SHAPE_TOLERANCE = 1e-10


class Numeric(Distortion):
    """A distortion of which h alone is given; a subclass may state what it knows better."""

    def _dh(self, u: FloatArray) -> FloatArray:
        step = 1e-6 * np.minimum(1.0, np.maximum(np.minimum(u, 1.0 - u), 1e-6) / 1e-3)
        lo, hi = np.maximum(u - step, 0.0), np.minimum(u + step, 1.0)
        quotient: FloatArray = (self._h(hi) - self._h(lo)) / (hi - lo)
        return quotient

    @property
    def _knows_slope(self) -> bool:
        return type(self)._dh is not Numeric._dh

    @cached_property
    def _found(self) -> tuple[Shape, Monotonicity]:
        return numeric_shape(self._h, [u for u, _ in (*self.kinks, *self.jumps)])

    @property
    def shape(self) -> Shape:
        return self._found[0]

    @property
    def monotonicity(self) -> Monotonicity:
        return self._found[1]

    @cached_property
    def _critical_points(self) -> list[float]:
        return numeric_critical(self)

    def _critical(self) -> Sequence[float]:
        return self._critical_points


def check_values(label: str, grid: FloatArray, y: FloatArray) -> None:
    """Refuse what is no distortion: h must be finite on the grid, which begins with 0, and h(0) = 0."""
    if not np.isfinite(y).all():
        bad = grid[int(np.argmin(np.isfinite(y)))]
        raise ValueError(f"the distortion {label!r} is not finite at u = {bad:g}; {HINT}.")
    if abs(y[0]) > 1e-12:
        raise ValueError(f"the distortion {label!r} has h(0) = {y[0]:g}; {HINT}.")


HINT = "give a function with h(0) = 0 that is finite on [0, 1]"


def numeric_shape(
    h: Callable[[FloatArray], FloatArray], marks: Sequence[float] = (), size: float | None = None
) -> tuple[Shape, Monotonicity]:
    """Shape and direction from values of h alone, at every scale from the grid's spacing to its width.

    ``marks`` are places to look at closely; ``size`` is what the tolerance is relative to, if not max|h|.
    """
    close = [m + d for m in marks for d in (-1e-9, 0.0, 1e-9)]
    u = np.unique(np.clip(np.concatenate((warped_grid(), close)), 0.0, 1.0))
    with np.errstate(all="ignore"):
        y = h(u)
    tolerance = SHAPE_TOLERANCE * max(float(np.abs(y).max()) if size is None else size, 1e-300)
    above = below = False  # h above its chord somewhere: not convex; below: not concave
    stride = 1
    while 2 * stride < u.size:
        a, m, b = u[: -2 * stride], u[stride:-stride], u[2 * stride :]
        share = (m - a) / (b - a)
        rise = y[stride:-stride] - ((1.0 - share) * y[: -2 * stride] + share * y[2 * stride :])
        above = above or bool((rise > tolerance).any())
        below = below or bool((rise < -tolerance).any())
        stride *= 2
    shape: Shape = "neither" if above and below else "concave" if above else "convex" if below else "linear"
    # Against the running maximum, so that many small steps the wrong way count as one large one.
    falls = bool((np.maximum.accumulate(y) - y > tolerance).any())
    rises = bool((y - np.minimum.accumulate(y) > tolerance).any())
    direction: Monotonicity = (
        "neither" if falls and rises else "increasing" if rises else "decreasing" if falls else "constant"
    )
    return shape, direction


def numeric_critical(distortion: Distortion) -> list[float]:
    """Local extrema of h: its corners, both sides of its steps, and what a fine grid shows, polished to rounding."""
    from scipy.optimize import minimize_scalar

    extra = [u for u, _ in distortion.kinks]
    extra += [side for u, _ in distortion.jumps for side in (u, u + 2 * JUMP_TOLERANCE)]
    u = np.unique(np.concatenate((warped_grid(), np.asarray(extra, dtype=np.float64))))
    with np.errstate(all="ignore"):
        y = distortion._h(u)
    out = list(extra)
    for sign in (1.0, -1.0):
        z = sign * y
        for k in (
            np.flatnonzero((z[1:-1] >= z[:-2]) & (z[1:-1] >= z[2:]) & ((z[1:-1] > z[:-2]) | (z[1:-1] > z[2:]))) + 1
        ):

            def descent(x: float, s: float = sign) -> float:
                return -s * float(distortion(x))

            found = minimize_scalar(descent, bounds=(u[k - 1], u[k + 1]), method="bounded", options={"xatol": 1e-14})
            out += [float(u[k]), float(_polish(distortion, float(found.x), u[k - 1], u[k + 1]))]
    return sorted(set(out))


def _polish(distortion: Distortion, x: float, lo: float, hi: float) -> float:
    """A root of h' beside x where h' changes sign: values alone give a maximiser to 1e-8 only."""
    from scipy.optimize import brentq

    for width in (1e-7, 1e-5, 1e-3):
        a, b = max(lo, x - width), min(hi, x + width)
        fa, fb = distortion.derivative(a), distortion.derivative(b)
        if np.isfinite(fa) and np.isfinite(fb) and fa * fb < 0:
            return float(brentq(distortion.derivative, a, b, xtol=1e-15))
    return x
