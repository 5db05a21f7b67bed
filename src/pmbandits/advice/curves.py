"""The rewards of arms as curves to draw: where, on which scale, and the share of rewards above each point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import asinh, floor, log10, sinh
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.numbers import plain_number
from pmbandits.logs import Sample

_GRID = 160  # places at which curves are drawn
_UNDRAWN_SHARE = 0.005  # the share of the rewards of an arm at an end that need not be drawn, if they are far away
_SKEW_FACTOR = 25.0  # times the width of the middle half, beyond which a linear scale shows nothing


class RewardCurves:
    """The survival curves of some arms, and what is needed to draw them."""

    def __init__(self, samples: Sequence[Sample], loss: bool = False) -> None:
        self.samples, self.loss = samples, loss

    @cached_property
    def drawn_range(self) -> tuple[float, float]:
        """From where to where rewards are drawn: a few that are very far away are left out."""
        low, high = min(float(s.x[0]) for s in self.samples), max(float(s.x[-1]) for s in self.samples)
        most = (
            min(quantile(s, _UNDRAWN_SHARE) for s in self.samples),
            max(quantile(s, 1.0 - _UNDRAWN_SHARE) for s in self.samples),
        )
        width = most[1] - most[0]
        if width <= 0.0:
            return low, high
        return (most[0] if most[0] - low > width else low), (most[1] if high - most[1] > width else high)

    @cached_property
    def grid(self) -> FloatArray:
        """Places at which curves are drawn: where the rewards are, closer together towards both ends."""
        rank = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _GRID))
        places = np.unique(np.concatenate([quantile(s, rank) for s in self.samples]))
        places = places[(places >= self.drawn_range[0]) & (places <= self.drawn_range[1])]
        if places.size > _GRID:
            places = np.unique(places[np.linspace(0, places.size - 1, _GRID).astype(np.intp)])
        pad = 0.02 * float(places[-1] - places[0]) or 0.5
        return np.concatenate((places, [places[-1] + pad]))

    @cached_property
    def survival_of_arms(self) -> FloatArray:
        """The survival curve of each arm on the grid: the share of rewards above each point."""
        rows = []
        for s in self.samples:
            below = np.concatenate(([0.0], np.cumsum(s.p)))
            rows.append(np.clip(1.0 - below[np.searchsorted(s.x, self.grid, side="right")], 0.0, 1.0))
        return np.array(rows)

    @property
    def undrawn_rewards_sentence(self) -> str:
        """A sentence on rewards that are too far away to be drawn."""
        (low, high) = self.drawn_range
        least, most = min(float(s.x[0]) for s in self.samples), max(float(s.x[-1]) for s in self.samples)
        down, up = ("up", "down") if self.loss else ("down", "up")
        sign, what = (-1.0, "losses") if self.loss else (1.0, "rewards")
        said = [f"{down} to {plain_number(sign * least)}"] if least < low else []
        said += [f"{up} to {plain_number(sign * most)}"] if most > high else []
        return f"A few {what} {' and '.join(said)} are not drawn." if said else ""

    @property
    def linear_width(self) -> float:
        """0 for a linear scale of rewards; else where a logarithmic one begins, because few rewards are far away."""
        middles = [float(quantile(s, 0.75) - quantile(s, 0.25)) for s in self.samples]
        if max(middles) == 0.0:  # more than half of the rewards are the same: the others say the scale
            apart = [np.diff(np.quantile(s.x, (0.25, 0.75)))[0] for s in self.samples if s.x.size > 3]
            middles = [float(max(apart, default=0.0))]
        return asinh_linear_width(float(self.grid[-1] - self.grid[0]), max(middles))


def asinh_linear_width(width: float, middle: float) -> float:
    """How wide the linear part of an asinh scale is, if the middle half of the rewards is too narrow for a linear one.

    0 stands for a linear scale.
    """
    return middle / 20.0 if middle > 0.0 and width > _SKEW_FACTOR * middle else 0.0


def quantile(sample: Sample, rank: Any) -> Any:
    """Quantiles of a sample at one or several ranks."""
    return sample.x[np.minimum(np.searchsorted(np.cumsum(sample.p), rank), sample.x.size - 1)]


@dataclass(frozen=True)
class AxisScale:
    """Maps numbers to places between 0 and 1: linear, or asinh (logarithmic away from 0) with a linear part."""

    lo: float
    hi: float
    linear_width: float = 0.0

    def position_on_axis(self, value: float) -> float:
        """Where a number is drawn."""
        low, high, at = (self._transform(v) for v in (self.lo, self.hi, min(max(value, self.lo), self.hi)))
        return (at - low) / ((high - low) or 1.0)

    def _transform(self, value: float) -> float:
        return asinh(value / self.linear_width) if self.linear_width else value

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers to write at the axis."""
        if not self.linear_width:
            step = 10.0 ** floor(log10((self.hi - self.lo) / 3.0))
            step *= next(f for f in (1, 2, 5, 10) if (self.hi - self.lo) / (f * step) <= most)
            first = np.ceil(self.lo / step) * step
            return [round(float(v), 12) + 0.0 for v in np.arange(first, self.hi + 1e-9 * step, step)]
        low, high = self._transform(self.lo), self._transform(self.hi)
        raw = [sinh(v) * self.linear_width for v in np.linspace(low, high, most)]
        rounded = {0.0 if abs(v) < self.linear_width else float(f"{v:.1g}") for v in raw}
        return sorted(v for v in rounded if self.lo <= v <= self.hi)
