"""What is kept of an arm's rewards while a log is read: exact counts while few differ, then a sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray

if TYPE_CHECKING:
    from pmbandits.estimates import Sketch

EXACT = 4_096  # distinct rewards of a part of an arm that are counted exactly
_TABLE = 32_768  # distinct rewards of an arm that are counted exactly
_BUFFER = 65_536  # rewards that are gathered before they are merged
_SIZE = 65_536  # k of the sketch that takes over from exact counts
_SKETCH_FAILURE = 1e-9  # the probability that the stated error of a sketch does not hold
_MOST_POINTS = 4_096  # points of a part of an arm that statistics are worked out on
N_PARTS = 8  # random parts of an arm, from which many splits into two halves are put together


class RewardSummary:
    """Rewards of a part of an arm: counted one by one while few differ, and later summarised by a sketch.

    Summaries are deterministic: equal rewards in equal pieces give equal summaries, to the bit.
    """

    def __init__(self) -> None:
        self.n = 0
        self._x: FloatArray = np.zeros(0)
        self._counts: FloatArray = np.zeros(0)
        self._buffer: list[FloatArray] = []
        self._n_buffered = 0
        self._sketch: Sketch | None = None

    def extend(self, values: FloatArray) -> None:
        """Take in more rewards."""
        if values.size == 0:
            return
        self.n += values.size
        if self._sketch is not None:
            self._sketch.extend(values)
            return
        self._buffer.append(values)
        self._n_buffered += values.size
        if self._n_buffered >= _BUFFER:
            self._merge_buffer()

    def _merge_buffer(self) -> None:
        if not self._buffer:
            return
        x, counts = np.unique(np.concatenate(self._buffer), return_counts=True)
        self._buffer, self._n_buffered = [], 0
        self._x, self._counts = merge_duplicates(
            np.concatenate((self._x, x)), np.concatenate((self._counts, counts.astype(np.float64)))
        )
        if self._x.size > EXACT:
            from pmbandits.estimates import Sketch

            self._sketch = Sketch(_SIZE)
            for start in range(0, self._x.size, EXACT):
                piece = slice(start, start + EXACT)
                self._sketch.extend(np.repeat(self._x[piece], self._counts[piece].astype(np.int64)))
            self._x, self._counts = np.zeros(0), np.zeros(0)

    def result(self, most: int = _MOST_POINTS) -> tuple[FloatArray, FloatArray, float]:
        """At most ``most`` distinct rewards, how many each stands for, and the error of any rank as a share.

        The error of a sketch holds with probability 1 − 1e-9 over the coins of the sketch.
        """
        self._merge_buffer()
        if self._sketch is None:
            return self._x, self._counts, 0.0
        kept, weights = self._sketch.items()
        x, counts, more = coarsen(*merge_duplicates(kept, weights.astype(np.float64)), most)
        x = x.copy()
        x[0], x[-1] = self._sketch.least, self._sketch.most  # the ends are known
        return x, counts, self._sketch.rank_error(_SKETCH_FAILURE) + more


class ArmPartsSummary:
    """Rewards of an arm in several random parts: counted while few differ, and later a sketch of each part."""

    def __init__(self) -> None:
        self.n = 0
        self._x: FloatArray = np.zeros(0)
        self._counts: FloatArray = np.zeros((0, N_PARTS))
        self._buffer: list[tuple[FloatArray, NDArray[np.uint8]]] = []
        self._n_buffered = 0
        self._parts: list[RewardSummary] | None = None

    def extend(self, values: FloatArray, parts: NDArray[np.uint8]) -> None:
        """Take in more rewards, each with the part that it belongs to."""
        self.n += values.size
        if self._parts is not None:
            for k, part in enumerate(self._parts):
                part.extend(values[parts == k])
            return
        self._buffer.append((values, parts))
        self._n_buffered += values.size
        if self._n_buffered >= _BUFFER:
            self._merge_buffer()

    def _merge_buffer(self) -> None:
        if not self._buffer:
            return
        values = np.concatenate([self._x, *(v for v, _ in self._buffer)])
        parts = np.concatenate([p for _, p in self._buffer]).astype(np.intp)
        self._buffer, self._n_buffered = [], 0
        points, place = np.unique(values, return_inverse=True)
        old, new = place[: self._x.size], place[self._x.size :]
        counts = (
            np.bincount(new * N_PARTS + parts, minlength=points.size * N_PARTS).reshape(-1, N_PARTS).astype(np.float64)
        )
        counts[old] += self._counts
        self._x, self._counts = points, counts
        if points.size > _TABLE:
            self._parts = [RewardSummary() for _ in range(N_PARTS)]
            for k, part in enumerate(self._parts):
                for start in range(0, points.size, EXACT):
                    piece = slice(start, start + EXACT)
                    part.extend(np.repeat(points[piece], counts[piece, k].astype(np.int64)))
            self._x, self._counts = np.zeros(0), np.zeros((0, N_PARTS))

    def result(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Distinct rewards, how many of each part each stands for, and the error of any rank in each part."""
        self._merge_buffer()
        if self._parts is None:
            return self._x, self._counts, np.zeros(N_PARTS)
        found = [part.result() for part in self._parts]
        points = np.unique(np.concatenate([x for x, _, _ in found]))
        counts = np.zeros((points.size, N_PARTS))
        for k, (x, weights, _) in enumerate(found):
            counts[np.searchsorted(points, x), k] = weights
        return points, counts, np.array([error for *_, error in found])


def merge_duplicates(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sorted distinct points with their weights added up."""
    points, place = np.unique(x, return_inverse=True)
    return points, np.asarray(np.bincount(place, weights=weights, minlength=points.size), dtype=np.float64)


def coarsen(
    x: FloatArray, weights: FloatArray, most: int, *, denser_at_ends: bool = False
) -> tuple[FloatArray, FloatArray, float]:
    """At most ``most`` points, each standing for its neighbours; their weights; and how far that moves a rank.

    With ``denser_at_ends`` points are closer together towards both ends, where few rewards can count much.
    """
    if x.size <= most:
        return x, weights, 0.0
    total = np.cumsum(weights)
    rank = (total - 0.5 * weights) / total[-1]
    if denser_at_ends:
        rank = np.arccos(np.clip(1.0 - 2.0 * rank, -1.0, 1.0)) / np.pi
    cell: NDArray[np.intp] = np.minimum((rank * most).astype(np.intp), most - 1)
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    mass = np.add.reduceat(weights, first)
    middle = np.add.reduceat(weights * x, first) / mass
    middle = np.clip(middle, x[first], x[np.append(first[1:], x.size) - 1])
    single = np.diff(np.append(first, x.size)) == 1  # a heavy point stays itself and moves nothing
    moved = float(mass[~single].max(initial=0.0)) / float(total[-1])
    return middle, mass, moved
