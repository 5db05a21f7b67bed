"""Small pictures for reports, as SVG inside the page itself: shares, distributions of rewards, and worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import asinh, floor, isfinite, log10, sinh

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.logs import Sample
from pmbandits.palette import COLOURS, colour

_FONT = 'font-family="system-ui, sans-serif" font-size="12" fill="currentColor"'  # also on dark pages
_LEFT, _WIDTH, _ROW = 130, 640, 26
_SKEWED = 25.0  # times the width of the middle half, beyond which a linear scale shows nothing


def _text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {_FONT} {more}>{escape(words)}</text>'


def _picture(height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" style="max-width:100%;height:auto" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'
    )


def short(name: str, most: int = 18) -> str:
    """A name that fits beside a picture."""
    return name if len(name) <= most else name[: most - 1] + "…"


def shares(names: Sequence[str], weights: Sequence[float], places: Sequence[int]) -> str:
    """One bar, cut by the shares; small shares are named below it."""
    at, parts, below = 0.0, [], []
    for name, weight, place in zip(names, weights, places, strict=True):
        wide = weight * (_WIDTH - 2)
        parts.append(f'<rect x="{1 + at:.1f}" y="2" width="{max(wide, 0.5):.1f}" height="34" fill="{colour(place)}"/>')
        said = f"{short(name)} {100 * weight:.0f} %"
        if wide > 7.5 * len(said):
            parts.append(_text(1 + at + wide / 2, 24, said, "middle", 'style="fill:#fff;font-weight:600"'))
        else:
            below.append(said)
        at += wide
    if below:
        shown = below[:8] + ([f"and {len(below) - 8} more"] if len(below) > 8 else [])
        parts.append(_text(1, 54, "also: " + ", ".join(shown)))
    return _picture(60 if below else 38, "recommended shares", parts)


@dataclass(frozen=True)
class Scale:
    """From numbers to places in a picture: linear, or logarithmic away from zero where few rewards are far larger."""

    lo: float
    hi: float
    bend: float  # 0: linear; else sinh(x / bend) is what is linear
    words: str

    def place(self, value: float) -> float:
        """Where a number is drawn."""
        low, high, at = (self._turned(v) for v in (self.lo, self.hi, min(max(value, self.lo), self.hi)))
        return _LEFT + (_WIDTH - _LEFT - 20) * (at - low) / ((high - low) or 1.0)

    def _turned(self, value: float) -> float:
        return asinh(value / self.bend) if self.bend else value

    def ticks(self) -> list[float]:
        """Numbers that are written at the axis."""
        if not self.bend:
            step = 10.0 ** floor(log10((self.hi - self.lo) / 3.0))
            step *= next(f for f in (1, 2, 5, 10) if (self.hi - self.lo) / (f * step) <= 6)
            first = np.ceil(self.lo / step) * step
            return [round(float(v), 12) + 0.0 for v in np.arange(first, self.hi + 1e-9 * step, step)]
        low, high = self._turned(self.lo), self._turned(self.hi)
        raw = [sinh(v) * self.bend for v in np.linspace(low, high, 6)]
        return sorted({float(f"{v:.1g}") for v in raw if self.lo <= float(f"{v:.1g}") <= self.hi})

    def axis(self, height: float) -> list[str]:
        """Lines and numbers."""
        parts = []
        for tick in self.ticks():
            x = self.place(tick)
            pale = 'stroke="currentColor" stroke-opacity="0.15"'
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{height:.0f}" {pale}/>')
            parts.append(_text(x, height + 14, f"{tick:.4g}", "middle"))
        return parts


def scale_for(ends: Sequence[float], middles: Sequence[float]) -> Scale:
    """A scale on which the middle halves can be read, and that says what it is."""
    finite = [e for e in ends if isfinite(e)]
    lo, hi = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if hi <= lo:
        lo, hi = lo - 0.5, hi + 0.5
    pad = 0.03 * (hi - lo)
    middle = max(middles, default=0.0)
    if middle > 0.0 and hi - lo > _SKEWED * middle:
        return Scale(lo, hi, middle / 20.0, "logarithmic away from 0, because a few rewards are far from the others")
    return Scale(lo - pad, hi + pad, 0.0, "linear")


def quantiles(sample: Sample) -> FloatArray:
    """The quantiles of 5, 25, 50, 75 and 95 %."""
    total = np.cumsum(sample.p)
    return np.asarray(
        [sample.x[min(int(np.searchsorted(total, q)), sample.x.size - 1)] for q in (0.05, 0.25, 0.5, 0.75, 0.95)]
    )


def distributions(names: Sequence[str], samples: Sequence[Sample], places: Sequence[int]) -> tuple[str, Scale]:
    """For each arm: where 5 to 95 % of the rewards lie (thin), the middle half (thick), the median and the average."""
    cuts = [quantiles(s) for s in samples]
    means = [float(s.x @ s.p) for s in samples]
    scale = scale_for([float(v) for q in cuts for v in (q[0], q[-1])] + means, [float(q[3] - q[1]) for q in cuts])
    height = _ROW * len(names) + 8
    parts = scale.axis(height)
    for k, (name, q, mean, place) in enumerate(zip(names, cuts, means, places, strict=True)):
        y = 18 + _ROW * k
        a, b, c, d, e = (scale.place(float(v)) for v in q)
        fill = colour(place)
        parts.append(_text(_LEFT - 8, y + 4, short(name), "end"))
        parts.append(f'<line x1="{a:.1f}" x2="{e:.1f}" y1="{y}" y2="{y}" stroke="{fill}" stroke-width="2"/>')
        parts.append(
            f'<rect x="{b:.1f}" y="{y - 7}" width="{max(d - b, 1.5):.1f}" height="14" fill="{fill}" opacity="0.55"/>'
        )
        parts.append(f'<line x1="{c:.1f}" x2="{c:.1f}" y1="{y - 8}" y2="{y + 8}" stroke="#111" stroke-width="2.5"/>')
        m = scale.place(mean)
        parts.append(f'<circle cx="{m:.1f}" cy="{y}" r="4" fill="#fff" stroke="#111" stroke-width="1.5"/>')
    return _picture(height + 20, "how the rewards of each arm are distributed", parts), scale


def worths(rows: Sequence[tuple[str, float, tuple[float, float], int]]) -> str:
    """What each arm and the recommendation are worth, with how far that may be off."""
    ends = [v for _, value, span, _ in rows for v in (value, *span)]
    scale = scale_for(ends, [])
    height = _ROW * len(rows) + 8
    parts = scale.axis(height)
    for k, (name, value, (low, high), place) in enumerate(rows):
        y = 18 + _ROW * k
        fill = colour(place) if place >= 0 else "#111"
        bold = 'style="font-weight:600"' if place < 0 else ""
        parts.append(_text(_LEFT - 8, y + 4, short(name), "end", bold))
        if isfinite(low) and isfinite(high):
            a, b = scale.place(low), scale.place(high)
            parts.append(f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{y}" y2="{y}" stroke="{fill}" stroke-width="3"/>')
        if isfinite(value):
            parts.append(f'<circle cx="{scale.place(value):.1f}" cy="{y}" r="5" fill="{fill}"/>')
    return _picture(height + 20, "worth of each arm", parts)


def attention(quantile: FloatArray, weight: FloatArray) -> str:
    """How much outcomes count, from the worst to the best; 1 is what the plain average gives to each."""
    finite = weight[np.isfinite(weight)]
    top = min(max(float(finite.max(initial=1.0)), 1.2), 6.0)
    low = min(float(finite.min(initial=0.0)), 0.0)
    low = max(low, -6.0)
    wide, deep = _WIDTH - _LEFT - 20, 120

    def across(q: float) -> float:
        return _LEFT + wide * q

    def down(w: float) -> float:
        return 8 + deep * (top - min(max(w, low), top)) / (top - low)

    shown = " ".join(
        f"{across(float(q)):.1f},{down(float(w)):.1f}" for q, w in zip(quantile, weight, strict=True) if isfinite(w)
    )
    parts = [
        f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{down(level):.1f}" y2="{down(level):.1f}" stroke="{ink}" '
        f'stroke-dasharray="{dash}"/>'
        for level, ink, dash in ((0.0, "#999", "none"), (1.0, "#999", "4 3"))
    ]
    parts.append(f'<polyline points="{shown}" fill="none" stroke="{COLOURS[0]}" stroke-width="2.5"/>')
    parts += [
        _text(_LEFT - 8, down(1.0) + 4, "as in the average", "end"),
        _text(_LEFT - 8, down(0.0) + 4, "not at all", "end"),
        _text(_LEFT, deep + 26, "worst outcomes"),
        _text(_LEFT + wide / 2, deep + 26, "middle", "middle"),
        _text(_LEFT + wide, deep + 26, "best outcomes", "end"),
    ]
    return _picture(deep + 36, "how much outcomes count, from the worst to the best", parts)
