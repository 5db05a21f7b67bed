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


def _merge_equal_places(found: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Corners or steps in order, those at one place as one; what cancels is left out."""
    out: dict[float, float] = {}
    for place, size in found:
        key = next((p for p in out if abs(p - place) <= JUMP_TOLERANCE), float(place))
        out[key] = out.get(key, 0.0) + float(size)
    total = sum(abs(size) for _, size in found)
    return sorted((place, size) for place, size in out.items() if abs(size) > JUMP_TOLERANCE * total)


class SmoothPart:
    """The part of a distortion without corners and steps, seen from either end of [0, 1].

    Where h is vertical, or its formula overflows, numpy warns: callers that do not want this say so once.

    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> SmoothPart(pmb.UpperCVaR(0.75)).h(np.array([0.1, 0.9]))
    array([0.4, 3.6])
    """

    def __init__(self, metric: Distortion) -> None:
        self.metric = metric
        self.kinks = _merge_equal_places([(u, c * bend) for c, d in metric.terms for u, bend in d.kinks])
        self.jumps = _merge_equal_places([(u, c * height) for c, d in metric.terms for u, height in d.jumps])
        self.top = float(metric(1.0))
        # Of terms that are made of straight pieces only the first piece is left: no rounding, and no work.
        straight = [(c, d) for c, d in metric.terms if d._is_piecewise_linear]
        self._slope = sum(c * float(d._dh(np.array([5e-324]))[0]) for c, d in straight)
        self._curved = [(c, d) for c, d in metric.terms if not d._is_piecewise_linear]
        self._only_term = self._curved[0][1] if [c for c, _ in self._curved] == [1.0] else None
        self._kinks = [(u, c * bend) for c, d in self._curved for u, bend in d.kinks]
        self._jumps = [(u, c * height) for c, d in self._curved for u, height in d.jumps]

    @property
    def is_smooth(self) -> bool:
        """Whether there are no corners and no steps: then s = h."""
        return not self.kinks and not self.jumps

    @property
    def is_straight(self) -> bool:
        """Whether s is a straight line, and h has no steps."""
        return not self._curved and not self.jumps

    @cached_property
    def curvature_jumps(self) -> list[tuple[float, float]]:
        """(u, change of h'') where h bends differently on both sides of a corner or step."""
        out = []
        for u in self.places_of_corners_and_steps:
            if 1e-6 < u < 1.0 - 1e-6:
                with np.errstate(all="ignore"):
                    before, behind = self.metric._d2h(np.array([u - 1e-7, u + 1e-7]))
                if abs(behind - before) > 1e-3 * max(abs(before), abs(behind)) + 1e-9:
                    out.append((u, float(behind - before)))
        return out

    @cached_property
    def places_of_corners_and_steps(self) -> list[float]:
        """Where corners and steps are, each once."""
        return sorted({u for u, _ in (*self.kinks, *self.jumps)})

    def slope_change_at(self, place: float) -> float:
        """The change of slope of the corner at a place."""
        return sum(bend for u, bend in self.kinks if u == place)

    def jump_height_at(self, place: float) -> float:
        """The height of the step at a place."""
        return sum(height for u, height in self.jumps if u == place)

    def curvature_jump_at(self, place: float) -> float:
        """The change of h'' at a place."""
        return sum(change for u, change in self.curvature_jumps if u == place)

    def _sum_over_curved_terms(self, method: str, slope: float, u: FloatArray) -> FloatArray:
        """The sum of what curved terms say, and of ``slope`` times u."""
        if slope == 0.0 and self._only_term is not None:
            return np.asarray(getattr(self._only_term, method)(u))
        out = slope * u
        for c, d in self._curved:
            out += c * getattr(d, method)(u)
        return out

    def h(self, u: FloatArray) -> FloatArray:
        """s(u)."""
        out = self._sum_over_curved_terms("_h", self._slope, u)
        for place, bend in self._kinks:
            out = out - bend * np.maximum(u - place, 0.0)
        for place, height in self._jumps:
            out = out - height * (u - place > JUMP_TOLERANCE)
        return out

    def negative_dual_h(self, v: FloatArray) -> FloatArray:
        """s(1 − v) − s(1), from v."""
        out = self._sum_over_curved_terms("_negative_dual_h", -self._slope, v)
        for place, bend in self._kinks:
            out = out + bend * np.minimum(v, 1.0 - place)
        for place, height in self._jumps:
            out = out + height * ((1.0 - place) - v <= JUMP_TOLERANCE)
        return out

    # s without what is left of it where h bends differently on both sides of a corner: ½·change·max(u − place, 0)².
    def h_without_bends(self, u: FloatArray) -> FloatArray:
        """The part of s that has no jumps of its curvature."""
        out = self.h(u)
        for place, change in self.curvature_jumps:
            out = out - 0.5 * change * np.maximum(u - place, 0.0) ** 2
        return out

    def negative_dual_h_without_bends(self, v: FloatArray) -> FloatArray:
        """The part of s that has no jumps of its curvature, at 1 − v and less that at 1, from v."""
        out = self.negative_dual_h(v)
        for place, change in self.curvature_jumps:
            near = np.minimum(v, 1.0 - place)
            out = out - 0.5 * change * near * (near - 2.0 * (1.0 - place))
        return out

    @cached_property
    def value_at_1_without_bends(self) -> float:
        """The part of s(1) that belongs to no jump of its curvature."""
        return self.value_at_1 - sum(0.5 * change * (1.0 - u) ** 2 for u, change in self.curvature_jumps)

    @cached_property
    def value_at_1(self) -> float:
        """s(1)."""
        with np.errstate(all="ignore"):
            return float(self.h(np.ones(1))[0])

    def dh(self, u: FloatArray) -> FloatArray:
        """s'(u). A hair below every corner, so that one-sided slopes cannot be confused."""
        at = u
        for place, _ in self._kinks:
            at = np.where(np.abs(at - place) < 1e-12, max(place - 2e-12, 0.0), at)
        out = self._slope + self._sum_over_curved_terms("_dh", 0.0, at)
        for place, bend in self._kinks:
            out -= bend * (at > place)
        return out

    def negative_dual_dh(self, v: FloatArray) -> FloatArray:
        """The derivative of s(1 − v) in v."""
        at = v
        for place, _ in self._kinks:
            at = np.where(np.abs(at - (1.0 - place)) < 1e-12, 1.0 - place + 2e-12, at)
        out = self._sum_over_curved_terms("_negative_dual_dh", 0.0, at) - self._slope
        for place, bend in self._kinks:
            out += bend * (at < 1.0 - place)
        return out

    def d2h(self, u: FloatArray) -> FloatArray:
        """s''(u)."""
        return self._sum_over_curved_terms("_d2h", 0.0, u)

    def negative_dual_d2h(self, v: FloatArray) -> FloatArray:
        """The second derivative of s(1 − v) in v."""
        return self._sum_over_curved_terms("_negative_dual_d2h", 0.0, v)
