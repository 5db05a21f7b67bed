"""Standard errors: how far chance moves the utility of a mixture, or its difference to a single arm, to first order.

To first order a reward moves the utility by its *score*: ∫ h'(S(t)) dt up to the reward. So the error of a utility is
that of an average of scores (the delta method). Two things are added, because rewards are few and first order is not
all.

*Pseudo-rewards.* Each arm gets some that nobody saw, at both ends of where its rewards can lie. An arm that never
paid in 50 rounds may still pay 100 once in a hundred; without them its error would be zero.

*Corners.* Where h has a corner and a curve lies near it, what the corner may add.

*Curvature.* At the top of h the slope is 0, and first order says that chance moves nothing. So curvature is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from pmbandits._validation import FloatArray
from pmbandits.advice.bands import SurvivalBands, clip, tabulate_survival
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion

# Pseudo-rewards at each end, as Agresti and Coull (1998) add them to a share; with one, 6 % of verdicts were wrong on
# rare events. A half of the rewards has half of them.
PSEUDO_REWARDS = 2.0
_KINK_STANDARD_ERRORS = 2.5  # standard errors that a survival curve may be off, where h has kinks

RewardRange = tuple[float, float]


@dataclass(frozen=True)
class Clusters:
    """Rows of some arms with their units, for cluster-robust standard errors."""

    arm: NDArray[np.int64]
    reward: FloatArray
    unit: NDArray[np.int64]

    def of_arms(self, arms: Sequence[int]) -> Clusters:
        """The rows of some arms, which are renumbered in the given order."""
        place = np.full(max(int(self.arm.max(initial=0)), *arms) + 1, -1)
        place[list(arms)] = np.arange(len(arms))
        at = place[self.arm]
        return Clusters(at[at >= 0], self.reward[at >= 0], self.unit[at >= 0])


@dataclass(frozen=True)
class Margin:
    """How far a mixture is ahead of a single arm, on rewards that did not choose it.

    Attributes
    ----------
    rival : the single arm.
    gain, error : the difference of the utilities, and its standard error.
    slack : what coarsened rewards and kinks of h may add to the error.
    smallest_n : rewards (or units) of the arm that has fewest.
    """

    rival: int
    gain: float
    error: float
    slack: float
    smallest_n: int

    @property
    def p(self) -> float:
        """One-sided p-value of the lead (Student's t)."""
        away = self.gain - self.slack
        if self.error == 0.0:
            return 0.0 if away > 0.0 else 1.0
        return float(stdtr(self.smallest_n - 1.0, -away / self.error))


class UtilityEstimate:
    """The utility of a mixture of some arms, with its influence function and standard error."""

    def __init__(
        self,
        metric: Distortion,
        samples: Sequence[Sample],
        shares: FloatArray,
        ends: RewardRange,
        clusters: Clusters | None = None,
        pseudo_rewards: float = PSEUDO_REWARDS,
    ) -> None:
        self.metric, self.samples, self.shares, self.clusters = metric, samples, shares, clusters
        self.pseudo_rewards = pseudo_rewards
        self.ends = np.asarray(ends)
        self.survival = _tabulate_single(samples[0], ends) if len(samples) == 1 else tabulate_survival(samples, ends)
        self.survival_floor = 0.5 / max(s.n for s in samples)
        self.value = self.survival.value(metric, shares)
        self.influence = self._influence(shares)

    def arm_value(self, at: int) -> float:
        """The utility of one of the arms."""
        return self.survival.value(self.metric, unit_vector(self.shares.size, at))

    def slack(self, minus_arm: int | None = None) -> float:
        """What coarsening and kinks of h may add to the error of the utility, or of its difference to an arm."""
        total = self._kink_slack(self.shares)
        if minus_arm is not None:
            total += self._kink_slack(unit_vector(self.shares.size, minus_arm))
        errors = np.array([s.error for s in self.samples])
        if errors.any():
            full_range = tabulate_survival(self.samples, (float(self.ends[0]), float(self.ends[1])), errors)
            if minus_arm is None:
                low, high = full_range.value_bounds(self.metric, self.shares)
                total += max(self.value - low, high - self.value, 0.0)
            else:
                low = full_range.difference_bounds(self.metric, self.shares, minus_arm)[0]
                total += max(self.value - self.arm_value(minus_arm) - low, 0.0)
        return total

    def _kink_slack(self, shares: FloatArray) -> float:
        """What kinks of h may add to the error.

        To first order h is a line; where a curve may lie on the other side of a corner it leaves the line by the
        change of slope times how far it may reach beyond. Next to nothing, unless a curve stays near a corner.
        """
        kinks = self.metric.kinks
        if not kinks:
            return 0.0
        curve, away = shares @ self.survival.curves, _KINK_STANDARD_ERRORS * self._survival_standard_error(shares)
        return sum(
            abs(jump) * float(self.survival.widths @ np.maximum(away - np.abs(curve - u), 0.0)) for u, jump in kinks
        )

    def curvature_error(self) -> float:
        """What the curvature of h adds to the error, for one standard error of the curve; it grows with their square.

        First order takes h for a line. How far h leaves that line is looked at two standard errors away, on both sides.
        At the top of h, where the line is flat, this is all that is left of the error: a coin that came up heads in
        half of its rounds has the largest Gini deviation there is, and its true one can only be lower.
        """
        if self.metric.shape == "linear":
            return 0.0
        curve = np.clip(self.shares @ self.survival.curves, self.survival_floor, 1.0 - self.survival_floor)
        away = 2.0 * self._survival_standard_error(self.shares)
        with np.errstate(all="ignore"):
            here, slope = self.metric._h(curve), self.metric._dh(curve)
            ends = clip(curve + away), clip(curve - away)
            apart = [np.abs(self.metric._h(there) - here - slope * (there - curve)) for there in ends]
        return float(self.survival.widths @ np.maximum(*apart)) / 4.0

    def _survival_standard_error(self, shares: FloatArray) -> FloatArray:
        """The standard error of the mixture's survival curve at each cell."""
        counts = np.array([[s.n] for s in self.samples], dtype=np.float64)
        variances = self.survival.curves * (1.0 - self.survival.curves) / counts
        out: FloatArray = np.sqrt(np.maximum(shares**2 @ variances, 0.0))
        return out

    def variance(self, minus_arm: int | None = None) -> float:
        """Variance of the mixture's utility, or of its difference to one of its arms."""
        scores = [share * self.influence for share in self.shares]
        if minus_arm is not None:
            scores[minus_arm] = scores[minus_arm] - self._influence(unit_vector(self.shares.size, minus_arm))
        return self.variance_of_scores(scores)

    def variance_of_scores(self, scores: Sequence[FloatArray]) -> float:
        """Variance of a sum of averages of scores; the scores of each arm are given at the points."""
        points, total = self.survival.points, 0.0
        for score, sample in zip(scores, self.samples, strict=True):
            size = np.append(sample.p * sample.n, (self.pseudo_rewards,) * 2) / (sample.n + 2.0 * self.pseudo_rewards)
            seen = np.append(score[np.searchsorted(points, sample.x)], np.interp(self.ends, points, score))
            total += float(size @ (seen - size @ seen) ** 2) / sample.n
        return max(total, self._cluster_variance(scores)) if self.clusters is not None else total

    def _cluster_variance(self, scores: Sequence[FloatArray]) -> float:
        """Cluster-robust variance, from the sums of scores of each unit."""
        assert self.clusters is not None
        rows = self.clusters
        away = np.empty(rows.arm.size)
        for i, (score, sample) in enumerate(zip(scores, self.samples, strict=True)):
            mine = rows.arm == i
            seen = np.interp(rows.reward[mine], self.survival.points, score)
            away[mine] = (seen - seen.mean()) / sample.n if seen.size else 0.0
        sums = np.bincount(rows.unit, weights=away)
        units = int(np.count_nonzero(np.bincount(rows.unit)))
        return float(sums @ sums) * units / max(units - 1, 1)

    def _influence(self, shares: FloatArray) -> FloatArray:
        """The influence function ∫ h'(S(t)) dt up to each point: the first-order effect of a reward there."""
        curve = np.clip(shares @ self.survival.curves, self.survival_floor, 1.0 - self.survival_floor)
        with np.errstate(all="ignore"):
            slope = self.metric._dh(curve)
        return np.concatenate(([0.0], np.cumsum(self.survival.widths * slope)))


def margins(
    metric: Distortion,
    weights: FloatArray,
    samples: Sequence[Sample],
    ends: Sequence[RewardRange],
    rivals: Sequence[int],
    clusters: Clusters | None = None,
    known: dict[int, UtilityEstimate] | None = None,
    pseudo_rewards: float = PSEUDO_REWARDS,
) -> list[Margin]:
    """The margin of a mixture over each of some arms. ``known`` may hold estimates of single arms."""
    used: list[int] = np.flatnonzero(weights > 0.0).tolist()
    mixed = mixture_estimate(metric, weights, samples, ends, clusters, pseudo_rewards)
    own_variance, own_slack = mixed.variance(), mixed.slack()
    out = []
    for j in rivals:
        if weights[j] > 0.0:  # the same rewards on both sides
            at = used.index(j)
            gain, variance, slack = mixed.value - mixed.arm_value(at), mixed.variance(at), mixed.slack(at)
        elif clusters is not None and _share_units(clusters, used, j):  # units with rewards on both sides
            other = unit_vector(weights.size, j)
            out.append(
                margin_between(metric, weights, other, samples, ends, clusters, rival=j, pseudo_rewards=pseudo_rewards)
            )
            continue
        else:
            alone = known and known.get(j)
            alone = alone or mixture_estimate(
                metric, unit_vector(weights.size, j), samples, ends, clusters, pseudo_rewards
            )
            gain, variance, slack = (
                mixed.value - alone.value,
                own_variance + alone.variance(),
                own_slack + alone.slack(),
            )
        smallest_n = min(size(samples, i, clusters) for i in {*used, j})
        out.append(Margin(j, gain, float(np.sqrt(variance)), slack, smallest_n))
    return out


def mixture_estimate(
    metric: Distortion,
    weights: FloatArray,
    samples: Sequence[Sample],
    ends: Sequence[RewardRange],
    clusters: Clusters | None = None,
    pseudo_rewards: float = PSEUDO_REWARDS,
    used: Sequence[int] | None = None,
) -> UtilityEstimate:
    """The utility estimate of a mixture; only the used arms are looked at (by default those with a share)."""
    if used is None:
        used = np.flatnonzero(weights > 0.0).tolist()
    full_range = min(ends[i][0] for i in used), max(ends[i][1] for i in used)
    arms = [samples[i] for i in used]
    return UtilityEstimate(metric, arms, weights[used], full_range, clusters and clusters.of_arms(used), pseudo_rewards)


def size(samples: Sequence[Sample], arm: int, clusters: Clusters | None) -> int:
    """The number of rewards of an arm, or of its units where there are any."""
    if clusters is None:
        return samples[arm].n
    return int(np.unique(clusters.unit[clusters.arm == arm]).size)


def _share_units(clusters: Clusters, used: Sequence[int], rival: int) -> bool:
    mine = clusters.unit[np.isin(clusters.arm, used)]
    return bool(np.isin(clusters.unit[clusters.arm == rival], mine).any())


def margin_between(
    metric: Distortion,
    one: FloatArray,
    two: FloatArray,
    samples: Sequence[Sample],
    ends: Sequence[RewardRange],
    clusters: Clusters | None,
    *,
    rival: int,
    pseudo_rewards: float = PSEUDO_REWARDS,
) -> Margin:
    """The margin of one mixture over another one; they may share arms."""
    used: list[int] = np.flatnonzero((one > 0.0) | (two > 0.0)).tolist()
    mine, other = (mixture_estimate(metric, w, samples, ends, clusters, pseudo_rewards, used) for w in (one, two))
    scores = [one[i] * mine.influence - two[i] * other.influence for i in used]
    error = float(np.sqrt(mine.variance_of_scores(scores)))
    smallest_n = min(size(samples, i, clusters) for i in used)
    return Margin(rival, mine.value - other.value, error, mine.slack() + other.slack(), smallest_n)


def unit_vector(count: int, at: int) -> FloatArray:
    """The weights of a mixture that is one arm alone."""
    out = np.zeros(count)
    out[at] = 1.0
    return out


def _tabulate_single(sample: Sample, ends: RewardRange) -> SurvivalBands:
    """The survival curve of one sample on its own cells; faster than ``tabulate_survival``, as nothing is sorted."""
    inside = sample.x[0] > ends[0], sample.x[-1] < ends[1]
    points = np.concatenate((ends[:1] if inside[0] else (), sample.x, ends[1:] if inside[1] else ()))
    above = 1.0 - np.cumsum(sample.p)
    above[-1] = 0.0
    curve = np.concatenate(((1.0,) if inside[0] else (), above if inside[1] else above[:-1]))
    if points.size == 1:
        points, curve = np.append(points, points[0] + 1.0), np.zeros(1)
    curves = np.clip(curve, 0.0, 1.0)[None]
    return SurvivalBands(float(points[0]), np.diff(points), points, curves, curves, curves)
