"""Standard errors: how far chance moves the utility of a mixture, or its difference to a single arm, to first order.

To first order a reward moves the utility by its *score*: ∫ h'(S(t)) dt up to the reward. So the error of a utility is
that of an average of scores (the delta method). Two things are added, because rewards are few and first order is not
all.

*Made-up rewards.* Each arm gets some that nobody saw, at both ends of where its rewards can lie. An arm that never
paid in 50 rounds may still pay 100 once in a hundred; without them its error would be zero.

*Corners.* Where h has a corner and a curve lies near it, what the corner may add.

*Bends.* At the top of h the slope is 0, and first order says that chance moves nothing. What the bend of h adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from pmbandits._check import FloatArray
from pmbandits.advice.bands import Laid, clip, lay
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion

# Made-up rewards at each end, as Agresti and Coull (1998) add them to a share; with one, 6 % of verdicts were wrong on
# rare events. A half of the rewards has half of them.
MADE_UP = 2.0
_SWAY = 2.5  # standard errors that a curve may be off, where h has corners

Ends = tuple[float, float]


@dataclass(frozen=True)
class Clusters:
    """Rows of some arms with their units, for errors that know that rewards of one unit are alike."""

    arm: NDArray[np.int64]
    reward: FloatArray
    unit: NDArray[np.int64]

    def only(self, arms: Sequence[int]) -> Clusters:
        """The rows of some arms, numbered by their places among these."""
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
    slack : what summaries of the rewards and corners of h may add to the error.
    fewest : rewards (or units) of the arm that has fewest.
    """

    rival: int
    gain: float
    error: float
    slack: float
    fewest: int

    @property
    def p(self) -> float:
        """The probability of such a lead by chance alone, if there was none."""
        away = self.gain - self.slack
        if self.error == 0.0:
            return 0.0 if away > 0.0 else 1.0
        return float(stdtr(self.fewest - 1.0, -away / self.error))


class Scores:
    """A mixture of some arms: its utility, and to first order what one more reward of an arm does to it."""

    def __init__(
        self,
        metric: Distortion,
        samples: Sequence[Sample],
        shares: FloatArray,
        ends: Ends,
        clusters: Clusters | None = None,
        made_up: float = MADE_UP,
    ) -> None:
        self.metric, self.samples, self.shares, self.clusters = metric, samples, shares, clusters
        self.made_up = made_up
        self.ends = np.asarray(ends)
        self.laid = _alone(samples[0], ends) if len(samples) == 1 else lay(samples, ends)
        self.smallest = 0.5 / max(s.n for s in samples)
        self.value = self.laid.value(metric, shares)
        self.reach = self._reach(shares)

    def alone(self, at: int) -> float:
        """The utility of one of the arms."""
        return self.laid.value(self.metric, _unit(self.shares.size, at))

    def slack(self, minus: int | None = None) -> float:
        """What summaries and corners may add to the error of the utility, or of its difference to one of the arms."""
        total = self._corners(self.shares)
        if minus is not None:
            total += self._corners(_unit(self.shares.size, minus))
        errors = np.array([s.error for s in self.samples])
        if errors.any():
            wide = lay(self.samples, (float(self.ends[0]), float(self.ends[1])), errors)
            if minus is None:
                low, high = wide.value_bounds(self.metric, self.shares)
                total += max(self.value - low, high - self.value, 0.0)
            else:
                low = wide.difference_bounds(self.metric, self.shares, minus)[0]
                total += max(self.value - self.alone(minus) - low, 0.0)
        return total

    def _corners(self, shares: FloatArray) -> float:
        """What corners of h may add to the error.

        To first order h is a line; where a curve may lie on the other side of a corner it leaves the line by the
        change of slope times how far it may reach beyond. Next to nothing, unless a curve stays near a corner.
        """
        kinks = self.metric.kinks
        if not kinks:
            return 0.0
        curve, away = shares @ self.laid.curves, _SWAY * self._sway(shares)
        return sum(abs(jump) * float(self.laid.widths @ np.maximum(away - np.abs(curve - u), 0.0)) for u, jump in kinks)

    def bend(self) -> float:
        """What the bend of h adds to the error, for one standard error of the curve; it grows with the square of these.

        First order takes h for a line. How far h leaves that line is looked at two standard errors away, on both sides.
        At the top of h, where the line is flat, this is all that is left of the error: a coin that came up heads in
        half of its rounds has the largest Gini deviation there is, and its true one can only be lower.
        """
        if self.metric.shape == "linear":
            return 0.0
        curve = np.clip(self.shares @ self.laid.curves, self.smallest, 1.0 - self.smallest)
        away = 2.0 * self._sway(self.shares)
        with np.errstate(all="ignore"):
            here, slope = self.metric._h(curve), self.metric._dh(curve)
            ends = clip(curve + away), clip(curve - away)
            apart = [np.abs(self.metric._h(there) - here - slope * (there - curve)) for there in ends]
        return float(self.laid.widths @ np.maximum(*apart)) / 4.0

    def _sway(self, shares: FloatArray) -> FloatArray:
        """The standard error of the mixture's survival curve at each cell."""
        counts = np.array([[s.n] for s in self.samples], dtype=np.float64)
        sway = self.laid.curves * (1.0 - self.laid.curves) / counts
        out: FloatArray = np.sqrt(np.maximum(shares**2 @ sway, 0.0))
        return out

    def variance(self, minus: int | None = None) -> float:
        """Of the mixture's utility, or of its difference to one of its arms."""
        scores = [share * self.reach for share in self.shares]
        if minus is not None:
            scores[minus] = scores[minus] - self._reach(_unit(self.shares.size, minus))
        return self.variance_of(scores)

    def variance_of(self, scores: Sequence[FloatArray]) -> float:
        """Of a sum of averages of scores, which are given at the points for each arm."""
        points, total = self.laid.points, 0.0
        for score, sample in zip(scores, self.samples, strict=True):
            size = np.append(sample.p * sample.n, (self.made_up,) * 2) / (sample.n + 2.0 * self.made_up)
            seen = np.append(score[np.searchsorted(points, sample.x)], np.interp(self.ends, points, score))
            total += float(size @ (seen - size @ seen) ** 2) / sample.n
        return max(total, self._between_units(scores)) if self.clusters is not None else total

    def _between_units(self, scores: Sequence[FloatArray]) -> float:
        """The variance from sums of scores of each unit: rewards of one unit may be as alike as they like."""
        assert self.clusters is not None
        rows = self.clusters
        away = np.empty(rows.arm.size)
        for i, (score, sample) in enumerate(zip(scores, self.samples, strict=True)):
            mine = rows.arm == i
            seen = np.interp(rows.reward[mine], self.laid.points, score)
            away[mine] = (seen - seen.mean()) / sample.n if seen.size else 0.0
        sums = np.bincount(rows.unit, weights=away)
        units = int(np.count_nonzero(np.bincount(rows.unit)))
        return float(sums @ sums) * units / max(units - 1, 1)

    def _reach(self, shares: FloatArray) -> FloatArray:
        """∫ h'(S(t)) dt up to each point: what one more reward there does to the utility, to first order."""
        curve = np.clip(shares @ self.laid.curves, self.smallest, 1.0 - self.smallest)
        with np.errstate(all="ignore"):
            slope = self.metric._dh(curve)
        return np.concatenate(([0.0], np.cumsum(self.laid.widths * slope)))


def margins(
    metric: Distortion,
    weights: FloatArray,
    samples: Sequence[Sample],
    ends: Sequence[Ends],
    rivals: Sequence[int],
    clusters: Clusters | None = None,
    known: dict[int, Scores] | None = None,
    made_up: float = MADE_UP,
) -> list[Margin]:
    """How far a mixture is ahead of each of some single arms. ``known`` may hold scores of single arms."""
    used: list[int] = np.flatnonzero(weights > 0.0).tolist()
    wide = min(ends[i][0] for i in used), max(ends[i][1] for i in used)
    mixed = Scores(metric, [samples[i] for i in used], weights[used], wide, clusters and clusters.only(used), made_up)
    own = mixed.variance(), mixed.slack()
    out = []
    for j in rivals:
        if weights[j] > 0.0:  # the same rewards on both sides
            at = used.index(j)
            gain, variance, slack = mixed.value - mixed.alone(at), mixed.variance(at), mixed.slack(at)
            fewest = min(size(samples, i, clusters) for i in used)
        elif clusters is not None and _shared(clusters, used, j):  # units with rewards on both sides
            other = _unit(weights.size, j)
            out.append(between(metric, weights, other, samples, ends, clusters, rival=j, made_up=made_up))
            continue
        else:
            apart = known[j] if known and j in known else single(metric, samples, ends, j, clusters, made_up)
            gain, variance, slack = mixed.value - apart.value, own[0] + apart.variance(), own[1] + apart.slack()
            fewest = min(size(samples, i, clusters) for i in (*used, j))
        out.append(Margin(j, gain, float(np.sqrt(variance)), slack, fewest))
    return out


def single(
    metric: Distortion,
    samples: Sequence[Sample],
    ends: Sequence[Ends],
    arm: int,
    clusters: Clusters | None = None,
    made_up: float = MADE_UP,
) -> Scores:
    """One arm alone."""
    return Scores(metric, [samples[arm]], np.ones(1), ends[arm], clusters and clusters.only([arm]), made_up)


def size(samples: Sequence[Sample], arm: int, clusters: Clusters | None) -> int:
    """Rewards of an arm, or its units where there are any."""
    if clusters is None:
        return samples[arm].n
    return int(np.unique(clusters.unit[clusters.arm == arm]).size)


def _shared(clusters: Clusters, used: Sequence[int], rival: int) -> bool:
    mine = clusters.unit[np.isin(clusters.arm, used)]
    return bool(np.isin(clusters.unit[clusters.arm == rival], mine).any())


def between(
    metric: Distortion,
    one: FloatArray,
    two: FloatArray,
    samples: Sequence[Sample],
    ends: Sequence[Ends],
    clusters: Clusters | None,
    *,
    rival: int,
    made_up: float = MADE_UP,
) -> Margin:
    """How far a mixture is ahead of another one, of which each may use arms of the other."""
    used: list[int] = np.flatnonzero((one > 0.0) | (two > 0.0)).tolist()
    wide = min(ends[i][0] for i in used), max(ends[i][1] for i in used)
    mine = clusters and clusters.only(used)
    both = [Scores(metric, [samples[i] for i in used], w[used], wide, mine, made_up) for w in (one, two)]
    scores = [one[i] * both[0].reach - two[i] * both[1].reach for i in used]
    error = float(np.sqrt(both[0].variance_of(scores)))
    fewest = min(size(samples, i, clusters) for i in used)
    return Margin(rival, both[0].value - both[1].value, error, both[0].slack() + both[1].slack(), fewest)


def _unit(count: int, at: int) -> FloatArray:
    out = np.zeros(count)
    out[at] = 1.0
    return out


def _alone(sample: Sample, ends: Ends) -> Laid:
    """One sample on its own cells: the same as ``lay`` without sorting, because there may be very many arms."""
    inside = sample.x[0] > ends[0], sample.x[-1] < ends[1]
    points = np.concatenate((ends[:1] if inside[0] else (), sample.x, ends[1:] if inside[1] else ()))
    above = 1.0 - np.cumsum(sample.p)
    above[-1] = 0.0
    curve = np.concatenate(((1.0,) if inside[0] else (), above if inside[1] else above[:-1]))
    if points.size == 1:
        points, curve = np.append(points, points[0] + 1.0), np.zeros(1)
    curves = np.clip(curve, 0.0, 1.0)[None]
    return Laid(float(points[0]), np.diff(points), points, curves, curves, curves)
