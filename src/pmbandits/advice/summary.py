"""What is kept of an arm's rewards while a log is read: exact counts while they are few, then a fixed budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray

EXACT = 16_384  # distinct rewards of half an arm that are counted exactly
_BUFFER = 65_536  # rewards that are gathered before they are merged
_KEPT = 16_384  # points of half an arm that statistics are worked out on


class Compactor:
    """Sorted rewards, halved when a level is full: every rank is known to within ``error`` of all, for certain.

    Halving a sorted list keeps each second item at twice the weight, which moves a rank by at most one weight,
    upwards and downwards in turn. (Manku, Rajagopalan and Lindsay 1998.)
    """

    def __init__(self) -> None:
        self._levels: list[list[FloatArray]] = [[]]
        self._up: list[bool] = [False]
        self._moved = 0
        self.n = 0

    def extend(self, values: FloatArray) -> None:
        """Take in more rewards."""
        self.n += values.size
        for start in range(0, values.size, _BUFFER):
            self._push(0, values[start : start + _BUFFER])

    def _push(self, level: int, values: FloatArray) -> None:
        if level == len(self._levels):
            self._levels.append([])
            self._up.append(False)
        mine = self._levels[level]
        mine.append(values)
        if sum(part.size for part in mine) < _BUFFER:
            return
        whole = np.sort(np.concatenate(mine))
        even = whole.size - whole.size % 2
        self._levels[level] = [whole[even:]] if even < whole.size else []
        kept = whole[int(self._up[level]) : even : 2].copy()
        self._up[level] = not self._up[level]
        self._moved += 2**level
        self._push(level + 1, kept)

    def items(self) -> tuple[FloatArray, FloatArray]:
        """The kept rewards, sorted, and how many each stands for."""
        x = [np.concatenate([*parts, np.zeros(0)]) for parts in self._levels]
        weights = np.concatenate([np.full(part.size, 2.0**level) for level, part in enumerate(x)])
        return distinct(np.concatenate(x), weights)

    @property
    def error(self) -> float:
        """How far any rank can be off, as a share of all rewards."""
        return self._moved / max(self.n, 1)


class HalfArm:
    """Rewards of half an arm: counted one by one while few differ, else summarised."""

    def __init__(self) -> None:
        self.n = 0
        self.lo, self.hi = np.inf, -np.inf
        self._x: FloatArray = np.zeros(0)
        self._counts: FloatArray = np.zeros(0)
        self._waiting: list[FloatArray] = []
        self._held = 0
        self._summary: Compactor | None = None

    def extend(self, values: FloatArray) -> None:
        """Take in more rewards."""
        if values.size == 0:
            return
        self.n += values.size
        self.lo, self.hi = min(self.lo, float(values.min())), max(self.hi, float(values.max()))
        if self._summary is not None:
            self._summary.extend(values)
            return
        self._waiting.append(values)
        self._held += values.size
        if self._held >= _BUFFER:
            self._merge()

    def _merge(self) -> None:
        if not self._waiting:
            return
        x, counts = np.unique(np.concatenate(self._waiting), return_counts=True)
        self._waiting, self._held = [], 0
        self._x, self._counts = distinct(
            np.concatenate((self._x, x)), np.concatenate((self._counts, counts.astype(np.float64)))
        )
        if self._x.size > EXACT:
            self._summary = new_summary()
            for start in range(0, self._x.size, EXACT):
                piece = slice(start, start + EXACT)
                self._summary.extend(np.repeat(self._x[piece], self._counts[piece].astype(np.int64)))
            self._x, self._counts = np.zeros(0), np.zeros(0)

    def result(self) -> tuple[FloatArray, FloatArray, float]:
        """Distinct rewards, how many each stands for, and the error of any rank as a share."""
        self._merge()
        if self._summary is None:
            return self._x, self._counts, 0.0
        x, counts = self._summary.items()
        x, counts, more = thin(x, counts, _KEPT)
        x = x.copy()
        x[0], x[-1] = self.lo, self.hi  # the ends are known
        return x, counts, self._summary.error + more


def new_summary() -> Compactor:
    """The summary that takes over from exact counts: the one place to exchange it."""
    return Compactor()


def distinct(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sorted distinct points with their weights added up."""
    points, place = np.unique(x, return_inverse=True)
    return points, np.asarray(np.bincount(place, weights=weights, minlength=points.size), dtype=np.float64)


def thin(x: FloatArray, weights: FloatArray, most: int) -> tuple[FloatArray, FloatArray, float]:
    """At most ``most`` of the sorted points, each standing for its neighbours; and how far that moves a rank."""
    if x.size <= most:
        return x, weights, 0.0
    total = np.cumsum(weights)
    cell: NDArray[np.intp] = np.minimum(((total - 0.5 * weights) / total[-1] * most).astype(np.intp), most - 1)
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    mass = np.add.reduceat(weights, first)
    middle = np.add.reduceat(weights * x, first) / mass
    middle = np.clip(middle, x[first], x[np.append(first[1:], x.size) - 1])
    single = np.diff(np.append(first, x.size)) == 1  # a heavy point stays itself and moves nothing
    moved = float(mass[~single].max(initial=0.0)) / float(total[-1])
    return middle, mass, moved
