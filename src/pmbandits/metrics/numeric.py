"""Shape, direction, slope and extrema of a function on [0, 1], found from its values alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.tables.decomposition import JUMP_TOLERANCE as JUMP_TOLERANCE

Shape = Literal["concave", "convex", "linear", "neither"]
Monotonicity = Literal["increasing", "decreasing", "constant", "neither"]
ArrayFunction = Callable[[FloatArray], FloatArray]

# A bend counts when h leaves its chord by more than this share of max|h|.
SHAPE_TOLERANCE = 1e-10
HINT = "give a function with h(0) = 0 that is finite on [0, 1]"


def unit_grid_denser_at_ends(n: int = 2049) -> FloatArray:
    """Points of [0, 1], geometrically denser towards both ends, where distortions are steep."""
    middle = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, n))
    end = np.logspace(-12, -3, 91)
    return np.unique(np.concatenate((middle, end, 1.0 - end)))


def difference_quotient(h: ArrayFunction, u: FloatArray) -> FloatArray:
    """The slope of h at u, from values on both sides; the step shrinks towards 0 and 1."""
    step = 1e-6 * np.minimum(1.0, np.maximum(np.minimum(u, 1.0 - u), 1e-6) / 1e-3)
    lo, hi = np.maximum(u - step, 0.0), np.minimum(u + step, 1.0)
    return np.asarray((h(hi) - h(lo)) / (hi - lo))


def check_distortion_values(label: str, grid: FloatArray, y: FloatArray) -> None:
    """Refuse what is no distortion: h must be finite on the grid, which begins with 0, and h(0) = 0."""
    if not np.isfinite(y).all():
        bad = grid[int(np.argmin(np.isfinite(y)))]
        raise ValueError(f"the distortion {label!r} is not finite at u = {bad:g}; {HINT}.")
    if abs(y[0]) > 1e-12:
        raise ValueError(f"the distortion {label!r} has h(0) = {y[0]:g}; {HINT}.")


def numeric_shape_and_monotonicity(
    h: ArrayFunction, locations: Sequence[float] = (), size: float | None = None
) -> tuple[Shape, Monotonicity]:
    """Shape and direction from values of h alone, at every scale from the grid's spacing to its width.

    ``locations`` are places to look at closely; ``size`` is what the tolerance is relative to, if not max|h|.
    """
    close = [m + d for m in locations for d in (-1e-9, 0.0, 1e-9)]
    u = np.unique(np.clip(np.concatenate((unit_grid_denser_at_ends(), close)), 0.0, 1.0))
    with np.errstate(all="ignore"):
        y = h(u)
    tolerance = SHAPE_TOLERANCE * max(float(np.abs(y).max()) if size is None else size, 1e-300)
    above = below = False  # h above its chord somewhere: not convex; below: not concave
    stride = 1
    while 2 * stride < u.size:
        a, m, b = u[: -2 * stride], u[stride:-stride], u[2 * stride :]
        share = (m - a) / (b - a)
        chord_gap = y[stride:-stride] - ((1.0 - share) * y[: -2 * stride] + share * y[2 * stride :])
        above = above or bool((chord_gap > tolerance).any())
        below = below or bool((chord_gap < -tolerance).any())
        stride *= 2
    shape: Shape = "neither" if above and below else "concave" if above else "convex" if below else "linear"
    # Against the running maximum, so that many small steps the wrong way count as one large one.
    falls = bool((np.maximum.accumulate(y) - y > tolerance).any())
    rises = bool((y - np.minimum.accumulate(y) > tolerance).any())
    direction: Monotonicity = (
        "neither" if falls and rises else "increasing" if rises else "decreasing" if falls else "constant"
    )
    return shape, direction


def numeric_critical_points(
    h: ArrayFunction, derivative: Callable[[float], float], kinks: Sequence[float], jumps: Sequence[float]
) -> list[float]:
    """Local extrema of h: its corners, both sides of its steps, and what a fine grid shows, polished to rounding."""
    from scipy.optimize import minimize_scalar

    extra = [*kinks, *(side for u in jumps for side in (u, u + 2 * JUMP_TOLERANCE))]
    u = np.unique(np.concatenate((unit_grid_denser_at_ends(), np.asarray(extra, dtype=np.float64))))
    with np.errstate(all="ignore"):
        y = h(u)
    out = list(extra)
    for sign in (1.0, -1.0):

        def negated_h(x: float, sign: float = sign) -> float:
            with np.errstate(all="ignore"):
                return -sign * float(h(np.array([x]))[0])

        z = sign * y
        before, here, after = z[:-2], z[1:-1], z[2:]
        for k in np.flatnonzero((here >= before) & (here >= after) & ((here > before) | (here > after))) + 1:
            lo, hi = u[k - 1], u[k + 1]
            found = minimize_scalar(negated_h, bounds=(lo, hi), method="bounded", options={"xatol": 1e-14})
            out += [float(u[k]), _refine_extremum(derivative, float(found.x), lo, hi)]
    return sorted(set(out))


def _refine_extremum(derivative: Callable[[float], float], x: float, lo: float, hi: float) -> float:
    """A root of h' beside x where h' changes sign: values alone give a maximiser to 1e-8 only."""
    from scipy.optimize import brentq

    for width in (1e-7, 1e-5, 1e-3):
        a, b = max(lo, x - width), min(hi, x + width)
        fa, fb = derivative(a), derivative(b)
        if np.isfinite(fa) and np.isfinite(fb) and fa * fb < 0:
            return float(brentq(derivative, a, b, xtol=1e-15))
    return x
