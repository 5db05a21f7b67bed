"""Rewards that belong to units: how far chance moves averages when whole units are drawn, not single rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.logs import Sample


class Spread(NamedTuple):
    """The variance of an estimate, the degrees of freedom of Student's t with which it is used, and a third moment.

    ``plain`` is the variance without anything that was added for rewards that nobody saw.
    """

    variance: float
    df: float
    third: float = 0.0
    plain: float = 0.0

    def spread_of_independent_difference(self, other: Spread) -> Spread:
        """The spread of the difference of two independent estimates."""
        return Spread(
            self.variance + other.variance,
            welch_df((self.variance, other.variance), (self.df, other.df)),
            self.third - other.third,
            self.plain + other.plain,
        )


def welch_df(variances: Sequence[float], dfs: Sequence[float]) -> float:
    """The degrees of freedom of a sum of independent variances, by the rule of Welch and Satterthwaite."""
    total = sum(variances)
    if not 0.0 < total < np.inf:
        return min(dfs)
    return 1.0 / sum((v / total) ** 2 / df for v, df in zip(variances, dfs, strict=True))


@dataclass(frozen=True)
class Clusters:
    """Rows of some arms with their units, for cluster-robust standard errors."""

    arm: NDArray[np.int64]
    reward: FloatArray
    unit: NDArray[np.int64]

    def select_arms(self, arms: Sequence[int]) -> Clusters:
        """The rows of some arms, which are renumbered in the given order."""
        place = np.full(max(int(self.arm.max(initial=0)), *arms) + 1, -1)
        place[list(arms)] = np.arange(len(arms))
        at = place[self.arm]
        return Clusters(at[at >= 0], self.reward[at >= 0], self.unit[at >= 0])

    def unit_weights(self, arm: int) -> FloatArray:
        """The share of each unit of an arm in the arm's rows."""
        rows = np.bincount(self.unit[self.arm == arm])
        return rows[rows > 0] / max(rows.sum(), 1)

    def unit_averages(self, arm: int, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The average score of each unit of an arm, from the scores of its rows, and the unit's share in the rows."""
        rows, total = (np.bincount(self.unit[self.arm == arm], weights=w) for w in (None, scores))
        return total[rows > 0] / rows[rows > 0], rows[rows > 0] / max(rows.sum(), 1)

    def effective_size(self, arm: int) -> float:
        """To how many units of equal size the units of an arm amount (Kish 1965)."""
        weights = self.unit_weights(arm)
        return 1.0 / float(weights @ weights) if weights.size else 0.0

    def jackknife_spread(self, scores: Sequence[FloatArray]) -> Spread:
        """The jackknife variance of a sum of averages, one for each arm, from the scores of its rows.

        An arm with a single unit has an infinite variance.
        """
        _, unit = np.unique(self.unit, return_inverse=True)
        total, diagonal = np.zeros(int(unit.max(initial=-1)) + 1), np.zeros(int(unit.max(initial=-1)) + 1)
        columns: list[FloatArray] = []
        blocks: list[FloatArray] = []
        for i, seen in enumerate(scores):
            mine = unit[self.arm == i]
            rows = np.bincount(mine, minlength=total.size)
            units = int(np.count_nonzero(rows))
            weight = rows / max(mine.size, 1)
            if units < 2:
                return Spread(np.inf, 1.0)
            leverage = np.sqrt((units - 1.0) / units) / (1.0 - weight)
            moved = leverage * np.bincount(mine, weights=seen - seen.mean(), minlength=total.size) / mine.size
            total += moved
            # How the variance of the variance follows from the weights, if units differ by independent effects.
            away, concentration = leverage * weight, float(weight @ weight)
            expected = float(away**2 @ (1.0 - 2.0 * weight + concentration))
            scale = float(moved @ moved) / expected
            diagonal += scale * away**2
            columns += [away, away * weight]
            blocks.append(scale * np.array([[concentration, -1.0], [-1.0, 0.0]]))
        basis, middle = np.column_stack(columns), np.zeros((len(columns), len(columns)))
        for i, block in enumerate(blocks):
            middle[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
        gram = middle @ (basis.T @ basis)
        first = float(diagonal.sum() + np.trace(gram))
        second = float(
            diagonal @ diagonal + 2.0 * np.trace(middle @ (basis.T * diagonal) @ basis) + np.sum(gram * gram.T)
        )
        return Spread(float(total @ total), first**2 / second if second > 0.0 else 1.0)


def n_rewards_or_units(samples: Sequence[Sample], arm: int, clusters: Clusters | None) -> int:
    """The number of rewards of an arm, or of its units where there are any."""
    if clusters is None:
        return samples[arm].n
    return int(np.unique(clusters.unit[clusters.arm == arm]).size)
