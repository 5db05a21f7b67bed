"""Geometry of the charts in reports: scales, and where things are drawn. The markup is in ``templates/charts.html``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import asinh, floor, isfinite, log10, sinh
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion
from pmbandits.palette import COLOURS, colour

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice

LEFT, WIDTH, ROW = 130, 640, 26  # pixels: the margin with the names, the whole width, and the height of a row
_SKEW_FACTOR = 25.0  # times the width of the middle half, beyond which a linear scale shows nothing
_RANK_CHART_HEIGHT = 120  # pixels


def shorten(name: str, most: int = 18) -> str:
    """A name shortened to fit beside a chart."""
    return name if len(name) <= most else name[: most - 1] + "…"


def share_bar(advice: Advice) -> dict[str, Any]:
    """The parts of a bar of the recommended shares, the largest first, and the labels that do not fit into it."""
    at, parts, below = 1.0, [], []
    for k in sorted(np.flatnonzero(advice.weights > 0.0).tolist(), key=lambda k: -advice.weights[k]):
        width = float(advice.weights[k]) * (WIDTH - 2)
        label = f"{shorten(advice.names[k])} {100 * advice.weights[k]:.0f} %"
        fits = width > 7.5 * len(label)
        if not fits:
            below.append(label)
        parts.append(
            {"x": at, "width": max(width, 0.5), "middle": at + width / 2, "colour": colour(k), "label": fits and label}
        )
        at += width
    more = [f"and {len(below) - 8} more"] if len(below) > 8 else []
    return {"parts": parts, "below": ", ".join(below[:8] + more)}


@dataclass(frozen=True)
class AxisScale:
    """Maps rewards to pixels: linear, or asinh (logarithmic away from 0) where a few rewards are far larger."""

    lo: float
    hi: float
    linear_width: float  # 0: linear scale; else the width of the linear part of an asinh scale
    words: str

    def place(self, value: float) -> float:
        """Where a number is drawn."""
        low, high, at = (self._transform(v) for v in (self.lo, self.hi, min(max(value, self.lo), self.hi)))
        return LEFT + (WIDTH - LEFT - 20) * (at - low) / ((high - low) or 1.0)

    def _transform(self, value: float) -> float:
        return asinh(value / self.linear_width) if self.linear_width else value

    def ticks(self) -> list[float]:
        """Numbers that are written at the axis."""
        if not self.linear_width:
            step = 10.0 ** floor(log10((self.hi - self.lo) / 3.0))
            step *= next(f for f in (1, 2, 5, 10) if (self.hi - self.lo) / (f * step) <= 6)
            first = np.ceil(self.lo / step) * step
            return [round(float(v), 12) + 0.0 for v in np.arange(first, self.hi + 1e-9 * step, step)]
        low, high = self._transform(self.lo), self._transform(self.hi)
        raw = [sinh(v) * self.linear_width for v in np.linspace(low, high, 6)]
        return sorted({float(f"{v:.1g}") for v in raw if self.lo <= float(f"{v:.1g}") <= self.hi})


def choose_scale(ends: Sequence[float], middles: Sequence[float]) -> AxisScale:
    """A linear or asinh scale on which the interquartile ranges of the arms can be read."""
    finite = [e for e in ends if isfinite(e)]
    lo, hi = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if hi <= lo:
        lo, hi = lo - 0.5, hi + 0.5
    pad = 0.03 * (hi - lo)
    middle = max(middles, default=0.0)
    if middle > 0.0 and hi - lo > _SKEW_FACTOR * middle:
        words = "logarithmic away from 0, because a few rewards are far from the others"
        return AxisScale(lo, hi, middle / 20.0, words)
    return AxisScale(lo - pad, hi + pad, 0.0, "linear")


def box_quantiles(sample: Sample) -> FloatArray:
    """The quantiles of 5, 25, 50, 75 and 95 %."""
    at = np.searchsorted(np.cumsum(sample.p), (0.05, 0.25, 0.5, 0.75, 0.95))
    return np.asarray(sample.x[np.minimum(at, sample.x.size - 1)])


def boxes(names: Sequence[str], samples: Sequence[Sample], places: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of a chart of the rewards of each arm: quantiles and mean."""
    return [
        {"name": name, "quantiles": box_quantiles(s).tolist(), "mean": float(s.x @ s.p), "colour": colour(place)}
        for name, s, place in zip(names, samples, places, strict=True)
    ]


def box_scale(rows: Sequence[dict[str, Any]]) -> AxisScale:
    """The scale of a chart of the rewards of each arm."""
    ends = [end for row in rows for end in (row["quantiles"][0], row["quantiles"][-1], row["mean"])]
    return choose_scale(ends, [row["quantiles"][3] - row["quantiles"][1] for row in rows])


def utility_rows(advice: Advice, most: int) -> list[dict[str, Any]]:
    """The rows of a chart of utilities: some arms, and the recommendation if it is a mixture."""
    rows = [(advice.arms[k].name, advice.arms[k].utility, advice.arms[k].interval, k) for k in advice.by_share()[:most]]
    if len(advice.mixture) > 1:
        rows.append(("recommended", advice.value, advice.interval, -1))
    return [
        {
            "name": name,
            "utility": utility,
            "interval": interval,
            "has_interval": all(map(isfinite, interval)),
            "colour": colour(k) if k >= 0 else "#111",
            "bold": k < 0,
        }
        for name, utility, interval, k in rows
    ]


def utility_scale(rows: Sequence[dict[str, Any]]) -> AxisScale:
    """The scale of a chart of utilities."""
    return choose_scale([end for row in rows for end in (row["utility"], *row["interval"])], [])


def rank_weights(metric: Distortion) -> dict[str, Any]:
    """A curve of how much outcomes count by rank: the slope of h, averaged over hundredths, within -6 and 6."""
    h = np.asarray(metric(np.linspace(1.0, 0.0, 101)), dtype=np.float64)
    weight = (h[:-1] - h[1:]) * 100.0
    known = np.isfinite(weight)
    top = min(max(float(weight[known].max(initial=1.0)), 1.2), 6.0)
    low = max(min(float(weight[known].min(initial=0.0)), 0.0), -6.0)
    right = WIDTH - 20
    x = LEFT + (right - LEFT) * np.linspace(0.005, 0.995, 100)

    def y_of(w: Any) -> Any:
        return 8 + _RANK_CHART_HEIGHT * (top - np.clip(w, low, top)) / (top - low)

    points = zip(x[known].tolist(), y_of(weight[known]).tolist(), strict=True)
    return {
        "points": " ".join(f"{a:.1f},{b:.1f}" for a, b in points),
        "zero": float(y_of(0.0)),
        "one": float(y_of(1.0)),
        "right": right,
        "height": _RANK_CHART_HEIGHT,
        "colour": COLOURS[0],
    }
