"""A distortion taken apart: a part without corners, corners, and steps.

    h(u) = s(u) + Σ bend·max(u − place, 0) + Σ height·1{u > place}

Quadrature is accurate for s alone; what corners and steps add is worked out from where a curve crosses their places.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pmbandits._validation import FloatArray

if TYPE_CHECKING:
    from pmbandits.metrics.distortion_function import DistortionFunction as Distortion

# A step of h is recognised this close to its place: 1 − 0.9 and 1/10 are the same probability.
JUMP_TOLERANCE = 1e-12


class SmoothPart:
    """The part of a distortion without corners and steps, seen from either end of [0, 1].

    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> SmoothPart(pmb.CVaR(0.75)).h(np.array([0.1, 0.9]))
    array([0.4, 3.6])
    """

    def __init__(self, metric: Distortion) -> None:
        self.metric = metric
        self.kinks = [(float(u), float(bend)) for u, bend in metric.kinks]
        self.jumps = [(float(u), float(height)) for u, height in metric.jumps]
        self.top = float(metric(1.0))
        # Where corners and steps are all there is, what rounding leaves of s would only be noise.
        size = sum(abs(c) for _, c in (*self.kinks, *self.jumps))
        self._is_zero = False
        if size > 0.0:
            self._is_zero = float(np.abs(self.h(np.linspace(0.0, 1.0, 257))).max()) <= 1e-14 * size

    @property
    def is_smooth(self) -> bool:
        """Whether there are no corners and no steps: then s = h."""
        return not self.kinks and not self.jumps

    @cached_property
    def curvature_jumps(self) -> list[tuple[float, float]]:
        """(u, change of h'') where h bends differently on both sides of a corner or step."""
        out = []
        for u in self.places:
            if 1e-6 < u < 1.0 - 1e-6:
                with np.errstate(all="ignore"):
                    before, behind = self.metric._d2h(np.array([u - 1e-7, u + 1e-7]))
                if abs(behind - before) > 1e-3 * max(abs(before), abs(behind)) + 1e-9:
                    out.append((u, float(behind - before)))
        return out

    @property
    def places(self) -> list[float]:
        """Where corners and steps are, each once."""
        return sorted({u for u, _ in (*self.kinks, *self.jumps)})

    def h(self, u: FloatArray) -> FloatArray:
        """s(u)."""
        if self._is_zero:
            return np.zeros_like(u)
        with np.errstate(all="ignore"):
            out = self.metric._h(u)
        for place, bend in self.kinks:
            out = out - bend * np.maximum(u - place, 0.0)
        for place, height in self.jumps:
            out = out - height * (u - place > JUMP_TOLERANCE)
        return out

    def h_from_1(self, v: FloatArray) -> FloatArray:
        """s(1 − v) − s(1), from v."""
        if self._is_zero:
            return np.zeros_like(v)
        with np.errstate(all="ignore"):
            out = self.metric._h_from_1(v)
        for place, bend in self.kinks:
            out = out + bend * np.minimum(v, 1.0 - place)
        for place, height in self.jumps:
            out = out + height * ((1.0 - place) - v <= JUMP_TOLERANCE)
        return out

    @property
    def end(self) -> float:
        """s(1)."""
        if self._is_zero:
            return 0.0
        out = self.top - sum(bend * (1.0 - place) for place, bend in self.kinks)
        return out - sum(height for _, height in self.jumps)

    def dh(self, u: FloatArray) -> FloatArray:
        """s'(u). A hair below every corner, so that one-sided slopes cannot be confused."""
        at = u
        for place, _ in self.kinks:
            at = np.where(np.abs(at - place) < 1e-12, max(place - 2e-12, 0.0), at)
        with np.errstate(all="ignore"):
            out = self.metric._dh(at)
        for place, bend in self.kinks:
            out = out - bend * (at > place)
        return out

    def dh_from_1(self, v: FloatArray) -> FloatArray:
        """The derivative of s(1 − v) in v."""
        at = v
        for place, _ in self.kinks:
            at = np.where(np.abs(at - (1.0 - place)) < 1e-12, 1.0 - place + 2e-12, at)
        with np.errstate(all="ignore"):
            out = self.metric._dh_from_1(at)
        for place, bend in self.kinks:
            out = out + bend * (at < 1.0 - place)
        return out

    def d2h(self, u: FloatArray) -> FloatArray:
        """s''(u)."""
        with np.errstate(all="ignore"):
            return self.metric._d2h(u)

    def d2h_from_1(self, v: FloatArray) -> FloatArray:
        """The second derivative of s(1 − v) in v."""
        with np.errstate(all="ignore"):
            return self.metric._d2h_from_1(v)
