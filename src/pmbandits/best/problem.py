"""One problem of the oracle: a metric and arms on common cells; and what all ways of solving it share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.best.result import Best
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.metrics.panels import TailDiverges
from pmbandits.metrics.pool import PanelPool, Pool

# Two mixtures whose utilities differ by less than this share are called equally good.
TIE = 1e-9
ACCURACY = 1e-11  # accuracy of the solver, relative to the utility
STUCK, FEW_ENOUGH = 1e-9, 50  # with a larger gap, cutting planes are tried, for up to so many arms
MOST_ROUNDS = 6  # how often the arms are laid on finer panels around the solution
_USELESS = 0.01  # a gap that is larger, relative to the utility, proves nothing worth the name


@dataclass(frozen=True)
class Problem:
    """The metric, the arms, their single utilities (``corners``) and the best of these (``arm``)."""

    metric: Distortion
    laws: list[Law]
    names: tuple[str, ...]
    corners: FloatArray
    arm: int
    scale: float
    laid: Pool

    @property
    def proven(self) -> bool:
        """Whether slopes and peaks of h are known, not found by probing a user's function."""
        return all(d._knows_slope for _, d in self.metric.terms)

    def is_proof(self, value: float, gap: float) -> bool:
        """Whether a gap is worth the name of a proof; also false if it is not a number."""
        return self.proven and (gap == 0.0 or gap <= _USELESS * max(abs(value), self.scale))

    def best(
        self,
        weights: FloatArray,
        value: float,
        gap: float,
        method: str,
        *,
        certified: bool = True,
        unique: bool | None = None,
        alternative: FloatArray | None = None,
    ) -> Best:
        certified = certified and self.is_proof(value, gap)
        tie = value == self.corners[self.arm] and np.count_nonzero(weights) > 1
        if value < self.corners[self.arm] or tie:
            # Rounding, or a search that found nothing better: the best arm itself is a mixture too.
            if tie:
                unique, alternative = False, weights
            gap = max(gap - (self.corners[self.arm] - value), 0.0) if certified else gap
            weights, value = np.eye(len(self.laws))[self.arm], float(self.corners[self.arm])
        arm = self.arm
        single = int(np.argmax(weights))
        if weights[single] == 1.0 and self.corners[single] >= self.corners[arm] - TIE * max(self.scale, 1e-300):
            arm = single  # if arms are equally good, name the one that is played
        return Best(
            weights=weights,
            value=value,
            gap=gap,
            certified=certified,
            best_arm=arm,
            best_arm_value=float(self.corners[arm]),
            unique=unique,
            alternative=alternative,
            method=method,
            names=self.names,
        )


def gap_with_tails(
    context: Problem,
    laid: Pool,
    weights: FloatArray,
    exact: float,
    highest: Callable[[FloatArray], float] = np.max,
) -> float:
    """The gap where tails matter so far out that probabilities have no digits: their rest is extrapolated."""
    metric = context.metric
    assert isinstance(laid, PanelPool)
    try:
        fresh = laid.laid_for(metric, weights)
    except TailDiverges:
        return float("inf")
    assert fresh.remainder is not None
    slopes = fresh.gradient(metric, fresh.curve(weights)) + fresh.remainder[1:]
    used = weights > 0.0
    upper = fresh.value(metric, weights) + fresh.remainder[0] + highest(slopes) - float(slopes[used] @ weights[used])
    # What was extrapolated is not known to the last digit.
    return max(float(upper) - exact, 0.0) + fresh.error + 1e-9 * float(np.abs(fresh.remainder).max())


def two_points(laws: Sequence[Law]) -> tuple[float, float, FloatArray] | None:
    """(low, high, P(high) of each arm) if all arms pay only two rewards."""
    atoms = [law for law in laws if isinstance(law, Atoms)]
    if len(atoms) < len(laws):
        return None
    points = np.unique(np.concatenate([law.x for law in atoms]))
    if points.size != 2:
        return None
    high = np.array([law.p[law.x == points[1]].sum() for law in atoms])
    return float(points[0]), float(points[1]), high
