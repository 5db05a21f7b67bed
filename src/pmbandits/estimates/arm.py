"""What is known of one arm, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _html
from pmbandits._text_tables import aligned_columns
from pmbandits._validation import FloatArray

HEAD = ("arm", "rewards", "average", "smallest", "largest")
MOST = 50  # arms that a table in a notebook shows


@dataclass(frozen=True)
class ArmEstimate:
    """The empirical distribution of an arm, with its confidence band.

    Attributes
    ----------
    name : the name of the arm.
    n : how many rewards were observed.
    x, p : the different rewards in order, and the share of each.
    radius : the radius of the arm's confidence set.
    low, high : for an arm that pays 0 or 1, the confidence interval of its mean.
    rounding : how far a reward was moved at most to be kept in bins; 0 if rewards are kept as they came.
    kind : what the radius means: ``"interval"``, ``"band"``, ``"kl_band"`` or ``"ball"`` (see
        :mod:`pmbandits.confidence.sets`).
    ends : for the kind ``kl_band``, the smallest and largest possible survival before the first reward, and from each
        reward on.
    """

    name: str
    n: int
    x: FloatArray = field(repr=False)
    p: FloatArray = field(repr=False)
    radius: float
    kind: str
    low: float = float("nan")
    high: float = float("nan")
    rounding: float = 0.0
    ends: FloatArray | None = field(default=None, repr=False, compare=False)

    @property
    def mean(self) -> float:
        """The average reward; NaN before the first reward."""
        return float(self.x @ self.p) if self.n else float("nan")

    def cdf(self, x: ArrayLike) -> FloatArray:
        """The empirical distribution function: the share of rewards that are at most x.

        >>> import numpy as np
        >>> ArmEstimate("a", 4, np.array([0.0, 1.0]), np.array([0.25, 0.75]), 0.1, "band").cdf([-1, 0, 2])
        array([0.  , 0.25, 1.  ])
        """
        below = np.concatenate(([0.0], np.cumsum(self.p)))
        return np.asarray(np.minimum(below[np.searchsorted(self.x, np.asarray(x, dtype=float), side="right")], 1.0))

    def band(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limits of the distribution function at x.

        For a Wasserstein ball they are 0 and 1, because a ball does not limit any single point.
        """
        middle = self.cdf(x)
        if self.kind == "ball" or not np.isfinite(self.radius):
            return np.zeros_like(middle), np.ones_like(middle)
        if self.kind == "interval":
            inside = (np.asarray(x) >= 0.0) & (np.asarray(x) < 1.0)
            return np.where(inside, 1.0 - self.high, middle), np.where(inside, 1.0 - self.low, middle)
        below, above = np.asarray(x, dtype=float) - self.rounding, np.asarray(x, dtype=float) + self.rounding
        if self.ends is not None:
            low, high = (np.searchsorted(self.x, place, side="right") for place in (below, above))
            return 1.0 - self.ends[1][low], 1.0 - self.ends[0][high]
        return np.maximum(self.cdf(below) - self.radius, 0.0), np.minimum(self.cdf(above) + self.radius, 1.0)

    def _repr_html_(self) -> str:
        return Estimates([self])._repr_html_()


class Estimates(tuple[ArmEstimate, ...]):
    """What is known of each arm: a tuple of :class:`ArmEstimate` that prints as a table.

    >>> import numpy as np
    >>> print(Estimates([ArmEstimate("a", 4, np.array([0.0, 1.0]), np.array([0.25, 0.75]), 0.1, "band")]))
    arm  rewards  average  smallest  largest
    a          4     0.75         0        1
    """

    __slots__ = ()

    def rows(self) -> list[tuple[str, ...]]:
        """For each arm its name, how many rewards it has, their average, and the smallest and the largest one."""
        return [
            (one.name, f"{one.n:,}", *(f"{x:.4g}" for x in (one.mean, one.x[0], one.x[-1]))) if one.n
            else (one.name, "0", "–", "–", "–")
            for one in self
        ]  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(aligned_columns([HEAD, *self.rows()], right=range(1, 5)))

    def _repr_html_(self) -> str:
        lines = _html.html_table(HEAD, self.rows()[:MOST])
        more = f"… and {len(self) - MOST} more arms" if len(self) > MOST else ""
        return _html.html_titled_block("What is known of the arms", lines, _html.html_paragraphs([more]))
