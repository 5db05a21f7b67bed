"""A sketch: the distribution of a stream in a few kilobytes, however many numbers it is shown.

It is the sketch of Karnin, Lang and Liberty (2016). Numbers lie on levels, and a number on level h stands for 2^h
numbers. When it is full, a level is sorted, and a fair coin decides which half of the numbers (every other one)
moves one level up. Such a compaction on level h moves the rank of any point by 2^h up, by 2^h down, or not at all, and
up and down are equally likely. So errors cancel, and what is left of them is bounded by Hoeffding's inequality. The
coins come from a counter (:mod:`pmbandits._random`), so a sketch can be replayed exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.estimates import _sketch as steps
from pmbandits.state.layout import MOST

MAX_K = 1 << 20


def is_sketch(header: NDArray[np.int64], items: FloatArray, stats: FloatArray, k: int) -> bool:
    """Whether these arrays can be the numbers of a sketch with this k; ``items`` are those in use.

    >>> sketch = Sketch(k=8)
    >>> sketch.extend(range(1000))
    >>> parts = sketch.to_arrays()
    >>> is_sketch(parts["book"], parts["items"], parts["marks"], 8), is_sketch(parts["book"], -parts["items"],
    ...                                                                        parts["marks"], 8)
    (True, False)
    """
    levels, counts = int(header[steps.LEVELS]), header[steps.HEADER_LEVELS :]
    if not 1 <= levels <= steps.MOST_LEVELS or header[steps.LIMIT] != steps.sketch_total_capacity(k, levels):
        return False
    used, limit, least, most = header[steps.USED], header[steps.LIMIT], stats[steps.LEAST], stats[steps.MOST]
    if counts.min() < 0 or counts.max() > limit or counts[levels:].any() or (levels > 1 and not counts[levels - 1]):
        return False
    weight = sum(int(count) << h for h, count in enumerate(counts))
    if not int(counts.sum()) == items.size == used <= limit:
        return False
    if weight != header[steps.COUNT] or weight > MOST or not 0 <= header[steps.COINS] <= MOST:
        return False
    lost = stats[[steps.SQUARES, steps.SUM, steps.MOVED]]
    if weight == 0:
        return bool(least == np.inf and most == -np.inf and not lost.any())
    inside = items.min() >= least and items.max() <= most
    return bool(np.isfinite(stats).all() and inside and lost.min() >= 0.0 and (levels > 1) == (stats[steps.SUM] > 0.0))


class Sketch:
    """The distribution of a stream of numbers, kept in bounded memory and with a known error of ranks.

    Parameters
    ----------
    k : the size: about 3k numbers are kept. The error of ranks falls like 1/k.
    seed : the seed of its random choices. The same numbers in the same order with the same seed give exactly the same
        sketch.

    Attributes
    ----------
    n : how many numbers it was shown.
    least, most : the smallest and the largest of them, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from pmbandits.estimates import Sketch
    >>> sketch = Sketch(k=256, seed=1)
    >>> sketch.extend(np.random.default_rng(0).random(100_000))
    >>> sketch
    Sketch(k=256, seed=1; n=100,000 in 747 numbers, rank error ≤ 0.0139)
    >>> abs(sketch.quantile(0.9) - 0.9) < sketch.rank_error()
    True
    """

    def __init__(self, k: int = 1024, seed: int = 0) -> None:
        self.k = _validation.check_whole_number("k", k, steps.MIN_LEVEL_CAPACITY, MAX_K)
        self.seed = _validation.check_whole_number("seed", seed, 0, 2**53)
        self._header = np.zeros(steps.HEADER_SIZE, dtype=np.int64)
        self._items = np.zeros(max_sketch_items(self.k))
        self._stats = np.zeros(steps.STATS_SIZE)
        steps.sketch_init(self._header, self._stats, self.k)

    @property
    def n(self) -> int:
        """How many numbers the sketch was shown."""
        return int(self._header[steps.COUNT])

    @property
    def least(self) -> float:
        """The smallest number so far."""
        return float(self._stats[steps.LEAST])

    @property
    def most(self) -> float:
        """The largest number so far."""
        return float(self._stats[steps.MOST])

    @property
    def nbytes(self) -> int:
        """How many bytes of memory the state takes."""
        return self._header.nbytes + self._items.nbytes + self._stats.nbytes

    def add(self, x: float) -> None:
        """Take one number in."""
        x = _validation.check_number("x", x)
        steps.sketch_add(self._header, self._items, self._stats, self.k, self.seed, 0, x)

    def extend(self, values: ArrayLike) -> None:
        """Take numbers in, one after the other. If one of them is not finite, none of them counts."""
        if not _validation.is_list(values) or len(values):  # type: ignore[arg-type]
            x = _validation.check_number_array("values", values)
            steps.sketch_add_many(self._header, self._items, self._stats, self.k, self.seed, 0, x)

    def merge(self, other: Sketch) -> None:
        """Take in all that another sketch with the same k has seen. The other one does not change.

        The error of ranks is then at most that of the worse part, plus what further compactions add.
        """
        if not isinstance(other, Sketch):
            raise TypeError(f"a Sketch can take in another Sketch, got {_validation.short_repr(other)}.")
        if other.k != self.k:
            raise ValueError(f"a sketch with k={self.k} cannot take in one with k={other.k}; make both with the same.")
        theirs = (other._header.copy(), other._items.copy(), other._stats.copy())
        steps.merge_sketch_into(self._header, self._items, self._stats, self.k, self.seed, 0, *theirs)

    def items(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """The numbers that are kept, in order, and how many each stands for. Together they stand for exactly n."""
        used = int(self._header[steps.USED])
        weights = np.empty(used, dtype=np.int64)
        steps.fill_sketch_item_weights(self._header, weights)
        order = np.argsort(self._items[:used], kind="stable")
        return self._items[:used][order], weights[order]

    def rank_error(self, delta: float = 0.05, *, anytime: bool = False) -> float:
        """With probability 1 − δ, no share of numbers below a point is off by more than this: sup |F_sketch − F_n|.

        This holds for numbers that do not depend on the random choices of the sketch.

        Parameters
        ----------
        delta : δ, the probability of failure.
        anytime : whether the statement is for this and all other times together.
        """
        delta = _validation.check_within("delta", delta, 0.0, 1.0, open_lo=True, open_hi=True)
        if self.n == 0:
            return 0.0
        return float(
            steps.sketch_rank_error_bound(
                self.n, self._stats[steps.SQUARES], self._stats[steps.SUM], self.k, delta, anytime
            )
        )

    def cdf(self, x: ArrayLike) -> FloatArray:
        """The share of numbers that are at most x.

        >>> sketch = Sketch()
        >>> sketch.extend([3.0, 1.0, 2.0, 2.0])
        >>> sketch.cdf([0, 2, 3])
        array([0.  , 0.75, 1.  ])
        """
        points, weights = self._items_or_raise()
        below = np.concatenate(([0], np.cumsum(weights)))
        return np.asarray(below[np.searchsorted(points, np.asarray(x, dtype=float), side="right")] / self.n)

    def quantile(self, u: ArrayLike) -> Any:
        """The smallest number that is kept and whose ``cdf`` is at least u."""
        level = _validation.check_number_array("u", np.atleast_1d(u))
        if ((level < 0.0) | (level > 1.0)).any():
            raise ValueError(f"u must lie in [0, 1], got {_validation.short_repr(u)}.")
        points, weights = self._items_or_raise()
        at = np.searchsorted(np.cumsum(weights), np.ceil(level * self.n - 1e-9), side="left")
        out = points[np.minimum(at, points.size - 1)]
        return float(out[0]) if np.ndim(u) == 0 else out

    def _items_or_raise(self) -> tuple[FloatArray, NDArray[np.int64]]:
        if self.n == 0:
            raise ValueError("the sketch is empty; extend it first.")
        return self.items()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as plain arrays."""
        return {
            "setup": np.array([self.k, self.seed], dtype=np.int64),
            "book": self._header.copy(),
            "items": self._items[: int(self._header[steps.USED])].copy(),
            "marks": self._stats.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Sketch:
        """Make the sketch that :meth:`to_arrays` wrote. It goes on exactly as that one would have.

        >>> sketch = Sketch(k=8)
        >>> sketch.extend(range(1000))
        >>> Sketch.from_arrays(sketch.to_arrays())
        Sketch(k=8, seed=0; n=1,000 in 52 numbers, rank error ≤ 0.224)
        """
        missing = {"setup", "book", "items", "marks"} - set(arrays)
        if missing:
            raise ValueError(f"these arrays are not a sketch: {', '.join(sorted(missing))} missing.")
        parts = [arrays[name] for name in ("setup", "book", "items", "marks")]
        if not all(type(part) is np.ndarray for part in parts):
            raise ValueError("a sketch is made of arrays of numpy, as to_arrays() gives them.")
        setup, header, items, stats = parts
        wanted = ((setup, np.int64, (2,)), (header, np.int64, (steps.HEADER_SIZE,)), (items, np.float64, (items.size,)),
                  (stats, np.float64, (steps.STATS_SIZE,)))  # fmt: skip
        if all(part.dtype == kind and part.shape == shape for part, kind, shape in wanted):
            k, seed = (int(number) for number in setup)
            if steps.MIN_LEVEL_CAPACITY <= k <= MAX_K and is_sketch(header, items, stats, k):
                sketch = cls(k, seed)
                sketch._header[:], sketch._stats[:], sketch._items[: items.size] = header, stats, items
                return sketch
        raise ValueError("these arrays are not a sketch, or they are damaged.")

    def __repr__(self) -> str:
        kept = f"n={self.n:,} in {int(self._header[steps.USED]):,} numbers, rank error ≤ {self.rank_error():.3g}"
        return f"Sketch(k={self.k}, seed={self.seed}; {kept})"


def max_sketch_items(k: int) -> int:
    """How many numbers a sketch of this k keeps at most."""
    return int(steps.sketch_total_capacity(k, steps.MOST_LEVELS))
