"""What is kept of an arm's rewards while a log is read: exact counts while few differ, then a sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray

if TYPE_CHECKING:
    from pmbandits.estimates import Sketch

_MOST_EXACT = 32_768  # distinct rewards that are counted exactly
_BUFFER = 65_536  # rewards that are gathered before they are merged
_PIECE = 4_096  # distinct rewards that are handed to the sketches at a time
_SIZE = 65_536  # k of the sketches that take over from exact counts
_SKETCH_FAILURE = 1e-9  # the probability that the stated error of a sketch does not hold
_MOST_POINTS = 4_096  # points of a sketched part that statistics are worked out on
N_PARTS = 8  # random parts of an arm, from which many splits into two halves are put together


class RewardSummary:
    """Rewards of an arm in several parts: counted one by one while few differ, and later a sketch of each part.

    Summaries are deterministic: equal rewards in equal pieces give equal summaries, to the bit.
    """

    def __init__(self, n_parts: int = N_PARTS) -> None:
        self.n = 0
        self._x: FloatArray = np.zeros(0)
        self._counts: FloatArray = np.zeros((0, n_parts))
        self._buffer: list[tuple[FloatArray, NDArray[np.uint8]]] = []
        self._n_buffered = 0
        self._sketches: list[Sketch] = []

    def extend(self, values: FloatArray, parts: NDArray[np.uint8]) -> None:
        """Take in more rewards, each with the part that it belongs to."""
        self.n += values.size
        if self._sketches:
            for k, sketch in enumerate(self._sketches):
                sketch.extend(values[parts == k])
            return
        self._buffer.append((values, parts))
        self._n_buffered += values.size
        if self._n_buffered >= _BUFFER:
            self._merge_buffer_into_counts()

    def _merge_buffer_into_counts(self) -> None:
        if not self._buffer:
            return
        n_parts = self._counts.shape[1]
        values = np.concatenate([self._x, *(v for v, _ in self._buffer)])
        parts = np.concatenate([p for _, p in self._buffer]).astype(np.intp)
        self._buffer, self._n_buffered = [], 0
        points, place = np.unique(values, return_inverse=True)
        old, new = place[: self._x.size], place[self._x.size :]
        counts = np.bincount(new * n_parts + parts, minlength=points.size * n_parts).reshape(-1, n_parts).astype(float)
        counts[old] += self._counts
        if points.size > _MOST_EXACT:
            from pmbandits.estimates import Sketch

            self._sketches = [Sketch(_SIZE) for _ in range(n_parts)]
            for start in range(0, points.size, _PIECE):
                piece = slice(start, start + _PIECE)
                for k, sketch in enumerate(self._sketches):
                    sketch.extend(np.repeat(points[piece], counts[piece, k].astype(np.int64)))
            points, counts = points[:0], counts[:0]
        self._x, self._counts = points, counts

    def points_counts_and_rank_errors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Distinct rewards, how many of each part each stands for, and the error of any rank in each part.

        The error of a sketch holds with probability 1 − 1e-9 over the coins of the sketch.
        """
        self._merge_buffer_into_counts()
        if not self._sketches:
            return self._x, self._counts, np.zeros(self._counts.shape[1])
        found = [_points_of_sketch(sketch) for sketch in self._sketches]
        points = np.unique(np.concatenate([x for x, _, _ in found]))
        counts = np.zeros((points.size, len(found)))
        for k, (x, weights, _) in enumerate(found):
            counts[np.searchsorted(points, x), k] = weights
        return points, counts, np.array([error for *_, error in found])


def _points_of_sketch(sketch: Sketch) -> tuple[FloatArray, FloatArray, float]:
    """Distinct points of a sketch, how many rewards each stands for, and the error of any rank as a share."""
    kept, weights = sketch.items()
    x, counts, moved = coarsen_points(*merge_duplicates(kept, weights.astype(np.float64)), _MOST_POINTS)
    if sketch.n:  # the ends are known
        x = np.concatenate(([sketch.least], x[1:-1], [sketch.most])) if x.size > 1 else x
    return x, counts, sketch.rank_error(_SKETCH_FAILURE) + moved


def merge_duplicates(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sorted distinct points with their weights added up."""
    points, place = np.unique(x, return_inverse=True)
    return points, np.asarray(np.bincount(place, weights=weights, minlength=points.size), dtype=np.float64)


def coarsen_points(
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
