"""The oracle's problem: a metric and arms on one survival table; and what all solvers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion import Custom, Distortion
from pmbandits.metrics.numeric import unit_grid_denser_at_ends
from pmbandits.optimize.result import OracleResult
from pmbandits.tables.distributions import Atoms, Distribution, ScipyDistribution
from pmbandits.tables.from_distributions import rebuild_for_mixture
from pmbandits.tables.quadrature import TailDiverges
from pmbandits.tables.survival_table import SurvivalTable

# Two mixtures whose utilities differ by less than this share are called equally good.
TIE = 1e-9
ACCURACY = 1e-11  # accuracy of the solver, relative to the utility
MAX_REFINEMENTS = 6  # how often the arms are laid on finer panels around the solution
_CURVATURE = {"concave": -1.0, "convex": 1.0, "linear": 0.0, "neither": 0.0}
_MAX_USEFUL_GAP = 0.01  # a gap that is larger, relative to the utility, is no useful proof


@dataclass(frozen=True)
class Problem:
    """The metric, the arms, their single utilities (``corners``) and the best of these (``arm``)."""

    metric: Distortion
    distributions: list[Distribution]
    names: tuple[str, ...]
    corners: FloatArray
    arm: int
    scale: float
    table: SurvivalTable

    @cached_property
    def utility_hidden_between_samples(self) -> float:
        """How much utility a user's function may hide between the places where it was looked at; inf if not known.

        What is known of its shape and peaks was found on a grid. With a Hölder pair (q, C) it leaves the straight lines
        between the points of the grid by at most C·(w/2)^q, where w is the widest step; so two utilities of rewards in
        a range differ by at most twice that, times the range. The slopes must be stated, too. Nothing hides if all
        terms are known to be concave, or all convex.
        """
        hidden = 0.0
        signs = {np.sign(factor) * _CURVATURE[term.shape] for factor, term in self.metric.terms} - {0.0}
        one_sided = len(signs) <= 1 and not any(term.shape == "neither" for _, term in self.metric.terms)
        for factor, term in self.metric.terms:
            if not term._has_exact_derivative:
                return np.inf
            if not isinstance(term, Custom) or (one_sided and term.shape_is_stated):
                continue
            pair = term._holder_modulus_or_reason()
            if isinstance(pair, str):
                return np.inf
            q, constant = pair
            hidden += abs(factor) * constant * (0.5 * float(np.diff(unit_grid_denser_at_ends()).max())) ** q
        if hidden == 0.0:
            return 0.0
        ends = [d.frozen.support() if isinstance(d, ScipyDistribution) else (d.lo, d.hi) for d in self.distributions]
        return 2.0 * hidden * float(max(end[1] for end in ends) - min(end[0] for end in ends))

    def is_gap_small_enough(self, value: float, gap: float) -> bool:
        """Whether a gap is small enough to be a proof; also false if it is not a number."""
        return gap == 0.0 or gap <= _MAX_USEFUL_GAP * max(abs(value), self.scale)

    def make_oracle_result(
        self,
        weights: FloatArray,
        value: float,
        gap: float,
        method: str,
        *,
        certified: bool = True,
        unique: bool | None = None,
        alternative: FloatArray | None = None,
    ) -> OracleResult:
        gap += self.utility_hidden_between_samples if np.isfinite(self.utility_hidden_between_samples) else 0.0
        certified = (
            certified
            and bool(np.isfinite(self.utility_hidden_between_samples))
            and self.is_gap_small_enough(value, gap)
        )
        tie = value == self.corners[self.arm] and np.count_nonzero(weights) > 1
        if value < self.corners[self.arm] or tie:
            # Rounding, or a search that found nothing better: the best arm itself is a mixture too.
            if tie:
                unique, alternative = False, weights
            gap = max(gap - (self.corners[self.arm] - value), 0.0) if certified else gap
            weights, value = np.eye(len(self.distributions))[self.arm], float(self.corners[self.arm])
        arm = self.arm
        single = int(np.argmax(weights))
        if weights[single] == 1.0 and self.corners[single] >= self.corners[arm] - TIE * max(self.scale, 1e-300):
            arm = single  # if arms are equally good, name the one that is played
        return OracleResult(
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

    def make_oracle_result_within_limits(
        self, weights: FloatArray, value: float, gap: float, method: str, multipliers: FloatArray | None = None
    ) -> OracleResult:
        """The answer within limits; without ``multipliers`` they are not known."""
        weights = np.where(weights < 1e-15, 0.0, weights)
        gap += self.utility_hidden_between_samples if np.isfinite(self.utility_hidden_between_samples) else 0.0
        return OracleResult(
            weights=weights / weights.sum(),
            value=value,
            gap=gap,
            certified=bool(np.isfinite(self.utility_hidden_between_samples)) and self.is_gap_small_enough(value, gap),
            best_arm=self.arm,
            best_arm_value=float(self.corners[self.arm]),
            unique=None,
            alternative=None,
            method=method,
            names=self.names,
            multipliers=multipliers,
        )


def gap_with_extrapolated_tails(
    problem: Problem,
    table: SurvivalTable,
    weights: FloatArray,
    exact: float,
    highest: Callable[[FloatArray], float] = np.max,
) -> float:
    """The gap where tails matter so far out that probabilities have no digits: their rest is extrapolated."""
    metric = problem.metric
    try:
        fresh = rebuild_for_mixture(table, metric, weights)
    except TailDiverges:
        return float("inf")
    assert fresh.remainder is not None
    slopes = fresh.gradient(metric, fresh.curve_of_mixture(weights)) + fresh.remainder[1:]
    used = weights > 0.0
    upper = fresh.value(metric, weights) + fresh.remainder[0] + highest(slopes) - float(slopes[used] @ weights[used])
    # What was extrapolated is not known to the last digit.
    return max(float(upper) - exact, 0.0) + fresh.error + 1e-9 * float(np.abs(fresh.remainder).max())


def two_rewards_of_all_arms(distributions: Sequence[Distribution]) -> tuple[float, float, FloatArray] | None:
    """(low, high, P(high) of each arm) if all arms pay only two rewards."""
    atoms = [distribution for distribution in distributions if isinstance(distribution, Atoms)]
    if len(atoms) < len(distributions) or any(distribution.x.size > 2 for distribution in atoms):
        return None
    points = np.unique(np.concatenate([distribution.x for distribution in atoms]))
    if points.size != 2:
        return None
    high = np.array([distribution.p[distribution.x == points[1]].sum() for distribution in atoms])
    return float(points[0]), float(points[1]), high
