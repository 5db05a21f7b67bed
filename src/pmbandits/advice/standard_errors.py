"""Standard errors: how far chance moves the utility of a mixture, or its difference to a single arm, to first order.

To first order a reward moves the utility by its *score*: ∫ h'(S(t)) dt up to the reward. So the error of a utility is
that of an average of scores (the delta method). Two things are added, because rewards are few and first order is not
all.

*Pseudo-rewards.* Each arm gets some that nobody saw, at two ends: an arm that never paid in 50 rounds may still pay 100
once in a hundred, and without them its error would be zero. How many, and where, depends on what is claimed. For
"surely", whatever the distributions are, they lie at the ends of the declared range. Where it is enough that rewards go
on as they were seen, they lie at the ends of what the compared arms have shown. There are fewer then, unless the
variance of an arm rests on a few rewards: n over the kurtosis of the scores says on how many. Of zero-inflated rewards
(half of them or more are the same) all lie further out, where Robson and Whitlock (1964) estimate the ends of the
distribution, because the largest possible one was hardly seen. An arm whose rewards were all the same keeps the
declared range and gets twice as many: an event that comes 3.7 times in n rounds is not seen with probability .025.

*Degrees of freedom.* The variance is an estimate, too, and the less is known of it, the more it rests on a few rewards:
that of n scores with kurtosis κ has 2n/(κ − 1) degrees of freedom. Those of several arms are put together by the rule
of Welch and Satterthwaite.

*Kinks.* A curve that chance moves across a kink of h leaves the line, always to the same side. This bias is taken
off in comparisons, and adds to the variance. Where a curve stays at one level near a kink, because there are few
different rewards, the steeper side counts.

*Units.* Rewards of one unit are alike. Then the error is that of leaving out one unit after the other (the jackknife,
CV3 of MacKinnon, Nielsen and Webb 2023), and Student's t has as many degrees of freedom as the sizes of the units allow
(Satterthwaite's rule; Bell and McCaffrey 2002). Both hold for few units and for units of unequal size. What nobody saw
are then whole units, with averages between the least and the largest of a unit.

*Skewness.* Where rare rewards are large, errors to one side are more likely. Then the first term of the Edgeworth
expansion of Student's t (Hall 1992) is added to the p-value.

*Curvature.* At the top of h the slope is 0, and first order says that chance moves nothing. So curvature is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import pi, sqrt

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, stdtr, stdtrit

from pmbandits._validation import FloatArray
from pmbandits.advice.bands import (
    SurvivalBands,
    clip_to_unit_interval,
    estimate_reward_range,
    limits_from_order_statistics,
    tabulate_survival,
)
from pmbandits.advice.clusters import Clusters, Spread, welch_df
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion

_KINK_STANDARD_ERRORS = 1.5  # standard errors that a survival curve may be off, where it stays at one level near a kink
_FEW_EFFECTIVE = 1.8  # n over the kurtosis of scores: up to this an arm gets all pseudo-rewards, beyond it fewer
_TAME_SHARE = 0.26  # the least share of the pseudo-rewards: half of one at each end for a level of 95 %

RewardRange = tuple[float, float]


@dataclass(frozen=True)
class Guard:
    """What is added for rewards that nobody saw.

    Attributes
    ----------
    ends : of each arm, where its rewards can lie as far as is known; at least what was seen of all arms.
    seen : of each arm, between which numbers its rewards were seen.
    pseudo_rewards : how many pseudo-rewards an arm gets at each end.
    declared : whether it is known where rewards can lie.
    alpha : the probability of a wrong verdict, for quantiles.
    """

    ends: Sequence[RewardRange]
    seen: Sequence[RewardRange]
    pseudo_rewards: float
    declared: bool
    alpha: float = 0.05
    zeros_are_rewards: bool = True  # not if an arm has 0 in all segments but its own

    def select_arms(self, arms: Sequence[int]) -> Guard:
        """The guard of some arms."""
        return replace(self, ends=[self.ends[i] for i in arms], seen=[self.seen[i] for i in arms])

    def guard_of_reward_share(self, share: float) -> Guard:
        """The guard for a share of the rewards."""
        return replace(self, pseudo_rewards=share * self.pseudo_rewards)

    @property
    def seen_range(self) -> RewardRange:
        """Between which numbers rewards of these arms were seen."""
        return min(low for low, _ in self.seen), max(high for _, high in self.seen)


def pseudo_rewards_for(alpha: float) -> float:
    """Pseudo-rewards at each end: z²/2, as Agresti and Coull (1998) add them to a share; 1.9 for a level of 95 %.

    They must grow with the level: with two at every level, .7 % of verdicts were wrong where .1 % was promised.
    """
    return 0.5 * float(ndtri(1.0 - 0.5 * alpha)) ** 2


@dataclass(frozen=True)
class Margin:
    """How far a mixture is ahead of a single arm, on rewards that did not choose it.

    Attributes
    ----------
    rival : the single arm.
    gain, error : the difference of the utilities, and its standard error.
    slack : what coarsened rewards may add to the error.
    df : the degrees of freedom of the standard error.
    skewness : of the error of the gain.
    plain_error : the standard error without pseudo-rewards.
    guarded : the same for a claim that holds whatever the distributions are; ``None`` where no range is known.
    bias : by how much the gain is too high on average, because of kinks of h.
    upper_error : the standard error towards larger gains, where it is another one (quantiles).
    """

    rival: int
    gain: float
    error: float
    slack: float
    df: float
    skewness: float = 0.0
    plain_error: float = 0.0
    guarded: Margin | None = None
    bias: float = 0.0
    upper_error: float | None = None

    def interval(self, level: float) -> tuple[float, float]:
        """Student's confidence interval of the gain; not a number where there is none."""
        if not np.isfinite(self.error):
            return np.nan, np.nan
        times, middle = float(stdtrit(self.df, 0.5 + 0.5 * level)), self.gain - self.bias
        upper = self.error if self.upper_error is None else self.upper_error
        return middle - times * self.error - self.slack, middle + times * upper + self.slack

    @property
    def p_value(self) -> float:
        """One-sided p-value of the lead."""
        return self.p_value_of_lead_beyond(0.0)

    def p_value_of_lead_beyond(self, least: float) -> float:
        """One-sided p-value of a lead of more than ``least``: Student's t, corrected where skewness is unfavourable."""
        away = self.gain - self.bias - self.slack - least
        if self.error == 0.0:
            return 0.0 if away > 0.0 else 1.0
        t = away / self.error
        # The density of the normal distribution over its tail.
        hazard = float(np.exp(-0.5 * t**2 - log_ndtr(-t))) / sqrt(2.0 * pi)
        factor = 1.0 + max(-self.skewness, 0.0) / 6.0 * (2.0 * t**2 + 1.0) * hazard
        return min(float(stdtr(self.df, -t)) * factor, 1.0)


class UtilityEstimate:
    """The utility of a mixture of some arms, with its influence function and standard error."""

    def __init__(
        self,
        metric: Distortion,
        samples: Sequence[Sample],
        shares: FloatArray,
        guard: Guard,
        clusters: Clusters | None,
    ) -> None:
        self.metric, self.samples, self.shares, self.clusters, self.guard = metric, samples, shares, clusters, guard
        known = guard.ends if guard.declared else [None] * len(samples)
        estimated = map(estimate_reward_range, samples, known)
        self.estimated_ranges = list(estimated if guard.zeros_are_rewards else guard.seen)
        lows, highs = zip(*guard.ends, *self.estimated_ranges, strict=True)
        self.ends = float(min(lows)), float(max(highs))
        self.survival = (_tabulate_single_survival if len(samples) == 1 else tabulate_survival)(samples, self.ends)
        self.survival_floor = 0.5 / max(s.n for s in samples)
        self.value = self.survival.value(metric, shares)
        self.influence = self._influence_function(shares)

    def coarsening_error(self, minus_arm: int | None = None) -> float:
        """What coarsening may add to the error of the utility, or of its difference to an arm."""
        errors = np.array([s.error for s in self.samples])
        if not errors.any():
            return 0.0
        full_range = tabulate_survival(self.samples, self.ends, errors)
        if minus_arm is None:
            low, high = full_range.value_bounds(self.metric, self.shares)
            return max(self.value - low, high - self.value, 0.0)
        alone = self.survival.value(self.metric, unit_vector(self.shares.size, minus_arm))
        return max(self.value - alone - full_range.difference_bounds(self.metric, self.shares, minus_arm)[0], 0.0)

    @cached_property
    def kink_biases(self) -> FloatArray:
        """By how much each kink of h makes the utility too high on average.

        A normal variable around S with standard error σ lies beyond u by σ(φ(d) − dΦ(−d)) on average, d = |S − u|/σ.
        """
        curve, error = self.shares @ self.survival.curves, self._survival_curve_standard_errors(self.shares)
        out = []
        for u, change_of_slope in self.metric.kinks:
            d = np.minimum(np.abs(curve - u) / np.maximum(error, 1e-300), 8.0)
            beyond = error * np.where(d < 8.0, np.exp(-0.5 * d**2) / sqrt(2.0 * pi) - d * ndtr(-d), 0.0)
            out.append(change_of_slope * float(self.survival.widths @ beyond))
        return np.array(out)

    def limits_from_order_statistics(self, alpha: float) -> tuple[float, float]:
        """Confidence limits where h jumps, so that quantiles count."""
        return limits_from_order_statistics(
            self.metric, self.survival, self.shares, self.samples, self.clusters, alpha, bounded=self.guard.declared
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
        away = 2.0 * self._survival_curve_standard_errors(self.shares)
        with np.errstate(all="ignore"):
            here, slope = self.metric._h(curve), self.metric._dh(curve)
            ends = clip_to_unit_interval(curve + away), clip_to_unit_interval(curve - away)
            apart = [np.abs(self.metric._h(there) - here - slope * (there - curve)) for there in ends]
        return float(self.survival.widths @ np.maximum(*apart)) / 4.0

    def _survival_curve_standard_errors(self, shares: FloatArray) -> FloatArray:
        """The standard error of the mixture's survival curve at each cell; where there are units, between these."""
        counts = np.array([[s.n] for s in self.samples], dtype=np.float64)
        if self.clusters is not None:
            counts /= self._design_effect
        variances = self.survival.curves * (1.0 - self.survival.curves) / counts
        out: FloatArray = np.sqrt(np.maximum(shares**2 @ variances, 0.0))
        return out

    def utility_spread(
        self, minus_arm: int | None = None, *, seen: RewardRange | None = None, guarded: bool = False
    ) -> Spread:
        """Variance of the mixture's utility, or of its difference to one of its arms, with degrees of freedom.

        ``seen`` is the range in which rewards of all compared arms were seen; ``guarded`` is for claims that hold
        whatever the distributions are.
        """
        return self.spread_of_scores(self._influence_scores_by_arm(minus_arm), seen=seen, guarded=guarded)

    def _influence_scores_by_arm(self, minus_arm: int | None = None) -> list[FloatArray]:
        scores = [share * self.influence for share in self.shares]
        if minus_arm is not None:
            scores[minus_arm] = scores[minus_arm] - self._influence_function(unit_vector(self.shares.size, minus_arm))
        return scores

    def spread_of_scores(
        self, scores: Sequence[FloatArray], *, seen: RewardRange | None = None, guarded: bool = False
    ) -> Spread:
        """Variance of a sum of averages of scores; the scores of each arm are given at the points."""
        arms = [self._scored_arm(i, score) for i, score in enumerate(scores)]
        units = arms if self.clusters is None else [self._scored_units(i, score) for i, score in enumerate(scores)]
        plain = [arm.variance_and_third_moment(arm.n, 0.0)[0] for arm in arms]
        seen = seen or self.guard.seen_range
        counts = []
        for i, (arm, unit) in enumerate(zip(arms, units, strict=True)):
            constant = self.samples[i].x.size == 1
            strict = guarded or constant
            (low, high), mine = seen, self.estimated_ranges[i]
            ends = self.guard.ends[i] if strict and self.guard.declared else (min(low, mine[0]), max(high, mine[1]))
            arm.at_ends = np.interp(ends, self.survival.points, scores[i])
            if unit is not arm and not strict:
                arm.at_ends = np.array([unit.score.min(), unit.score.max()])
            all_of_them = guarded or mine != self.guard.seen[i]
            share = 2.0 if constant else 1.0 if all_of_them else unit.share_of_pseudo_rewards
            counts.append(self.guard.pseudo_rewards * share)
        each = [arm.variance_and_third_moment(arm.n, count) for arm, count in zip(arms, counts, strict=True)]
        variance, third = (sum(moment[k] for moment in each) for k in (0, 1))
        df = welch_df([moment[0] for moment in each], [unit.df for unit in units])
        if self.clusters is None:
            return Spread(variance, df, third, sum(plain))
        between = self._spread_between_units(scores)
        # A unit that nobody saw counts like so many rewards as a unit does count for.
        alike = max(between.variance / sum(plain), 1.0) if sum(plain) > 0.0 else np.inf
        unseen = 0.0
        for arm, unit, count in zip(arms, units, counts, strict=True):
            n = max(arm.n / alike, min(unit.n, arm.n))
            unseen += arm.variance_and_third_moment(n, count)[0] - arm.variance_and_third_moment(n, 0.0)[0]
        variance = max(variance, between.variance + max(unseen, 0.0))
        return Spread(variance, min(between.df, df), 0.0, max(between.variance, sum(plain)))

    def _scored_arm(self, i: int, score: FloatArray) -> _ScoredArm:
        sample = self.samples[i]
        found = _ScoredArm(score[np.searchsorted(self.survival.points, sample.x)], sample.p, float(sample.n))
        if sample.squares is not None:
            # With weights w it is Σ w² (s − m)² / (Σ w)²; for 1/propensity, the terms are martingale differences.
            away = (found.score - sample.p @ found.score) ** 2
            varies = float(sample.squares @ away)
            found.n = float(sample.p @ away) / varies if varies > 0.0 else found.n
        return found

    def _scored_units(self, i: int, score: FloatArray) -> _ScoredArm:
        assert self.clusters is not None
        mine = self.clusters.arm == i
        averages, weights = self.clusters.unit_averages(
            i, np.interp(self.clusters.reward[mine], self.survival.points, score)
        )
        return _ScoredArm(averages, weights, self.clusters.effective_size(i))

    def _spread_between_units(self, scores: Sequence[FloatArray]) -> Spread:
        """The spread of the same between units."""
        assert self.clusters is not None
        rows, points = self.clusters, self.survival.points
        return rows.jackknife_spread(
            [np.interp(rows.reward[rows.arm == i], points, score) for i, score in enumerate(scores)]
        )

    @cached_property
    def _design_effect(self) -> float:
        """How many rewards of a unit count as one: the variance between units over that of independent rewards."""
        scores = list(np.outer(self.shares, self._influence_function(self.shares, steeper=False)))
        rows = sum(
            self._scored_arm(i, one).variance_and_third_moment(s.n, 0.0)[0]
            for i, (one, s) in enumerate(zip(scores, self.samples, strict=True))
        )
        between = self._spread_between_units(scores).variance
        return min(max(between / rows, 1.0), float(max(s.n for s in self.samples))) if rows > 0.0 else 1.0

    def _influence_function(self, shares: FloatArray, *, steeper: bool = True) -> FloatArray:
        """The influence function ∫ h'(S(t)) dt up to each point: the first-order effect of a reward there."""
        curve = np.clip(shares @ self.survival.curves, self.survival_floor, 1.0 - self.survival_floor)
        with np.errstate(all="ignore"):
            slope = self.metric._dh(curve)
            if self.metric.kinks and steeper:
                away = self._distance_to_steeper_side(shares)
                for other in (curve + away, curve - away):
                    there = self.metric._dh(np.clip(other, self.survival_floor, 1.0 - self.survival_floor))
                    slope = np.where(np.abs(there) > np.abs(slope), there, slope)
        return np.concatenate(([0.0], np.cumsum(self.survival.widths * slope)))

    def _distance_to_steeper_side(self, shares: FloatArray) -> FloatArray:
        """How far a curve may truly be from where it stays at one level; 0 where every reward is a level of its own."""
        curve = shares @ self.survival.curves
        levels = np.concatenate(([1.0], curve, [0.0]))
        gap = np.minimum(levels[:-2] - levels[1:-1], levels[1:-1] - levels[2:])
        one_reward = max(share / s.n for share, s in zip(shares.tolist(), self.samples, strict=True))
        reach = np.minimum(_KINK_STANDARD_ERRORS * self._survival_curve_standard_errors(shares), gap)
        return np.where(gap <= 1.5 * one_reward, 0.0, reach)


@dataclass
class _ScoredArm:
    """The scores of an arm's rewards (or units) with their shares, their number, and the scores of pseudo-rewards."""

    score: FloatArray
    reward_shares: FloatArray
    n: float
    at_ends: FloatArray = field(default_factory=lambda: np.zeros(2))

    @cached_property
    def kurtosis(self) -> float:
        """The kurtosis of the scores; infinite if they are all the same."""
        away = self.score - self.reward_shares @ self.score
        variance = float(self.reward_shares @ away**2)
        return float(self.reward_shares @ away**4) / variance**2 if variance > 0.0 else np.inf

    @property
    def share_of_pseudo_rewards(self) -> float:
        """The share of the pseudo-rewards that are needed: all if the variance rests on a few rewards."""
        return min(max(_FEW_EFFECTIVE * self.kurtosis / self.n, _TAME_SHARE), 1.0)

    @property
    def df(self) -> float:
        """The degrees of freedom of the variance; where all scores are the same, pseudo-rewards alone vary."""
        few = 2.0 * self.n / max(self.kurtosis - 1.0, 1e-9) if self.kurtosis < np.inf else np.inf
        return max(min(few, self.n - 1.0), 2.0)

    def variance_and_third_moment(self, n: float, pseudo_rewards: float) -> tuple[float, float]:
        """Variance and third moment of the average score of n independent rewards, with pseudo-rewards at the ends."""
        size = np.append(self.reward_shares * n, (pseudo_rewards,) * 2) / (n + 2.0 * pseudo_rewards)
        seen = np.append(self.score, self.at_ends)
        away = seen - size @ seen
        return float(size @ away**2) / n, float(size @ away**3) / n**2


def margins_over_arms(
    metric: Distortion,
    weights: FloatArray,
    samples: Sequence[Sample],
    guard: Guard,
    rivals: Sequence[int],
    clusters: Clusters | None,
    known: dict[int, UtilityEstimate] | None = None,
) -> list[Margin]:
    """The margin of a mixture over each of some arms. ``known`` may hold estimates of single arms."""
    used: list[int] = np.flatnonzero(weights > 0.0).tolist()
    mixed = mixture_utility_estimate(metric, weights, samples, guard, clusters)
    out = []
    for j in rivals:
        other = unit_vector(weights.size, j)
        if clusters is not None and weights[j] == 0.0 and not metric.jumps:  # units may have rewards on both sides
            out.append(margin_between_mixtures(metric, weights, other, samples, guard, clusters, rival=j))
            continue
        alone = (known or {}).get(j) or mixture_utility_estimate(metric, other, samples, guard, clusters)
        if metric.jumps:
            out.append(_margin_from_order_statistics(j, mixed, alone))
            continue
        if weights[j] > 0.0:  # the same rewards on both sides
            at = used.index(j)
            slack = mixed.coarsening_error(at)
            spreads = [mixed.utility_spread(at, guarded=guarded) for guarded in (False, True)]
        else:
            seen = guard.select_arms([*used, j]).seen_range
            slack = mixed.coarsening_error() + alone.coarsening_error()
            spreads = [
                mixed.utility_spread(seen=seen, guarded=guarded).spread_of_independent_difference(
                    alone.utility_spread(seen=seen, guarded=guarded)
                )
                for guarded in (False, True)
            ]
        out.append(_make_margin(j, mixed, alone, slack, spreads[0], spreads[1] if guard.declared else None))
    return out


def mixture_utility_estimate(
    metric: Distortion,
    weights: FloatArray,
    samples: Sequence[Sample],
    guard: Guard,
    clusters: Clusters | None,
    used: Sequence[int] | None = None,
) -> UtilityEstimate:
    """The utility estimate of a mixture; only the used arms are looked at (by default those with a share)."""
    if used is None:
        used = np.flatnonzero(weights > 0.0).tolist()
    arms = [samples[i] for i in used]
    return UtilityEstimate(
        metric, arms, weights[used], guard.select_arms(used), clusters and clusters.select_arms(used)
    )


def margin_between_mixtures(
    metric: Distortion,
    one: FloatArray,
    two: FloatArray,
    samples: Sequence[Sample],
    guard: Guard,
    clusters: Clusters | None,
    *,
    rival: int,
) -> Margin:
    """The margin of one mixture over another one; they may share arms."""
    used: list[int] = np.flatnonzero((one > 0.0) | (two > 0.0)).tolist()
    mine, other = (mixture_utility_estimate(metric, w, samples, guard, clusters, used) for w in (one, two))
    if metric.jumps:  # as if they shared no arm: then the error is too large, if anything
        return _margin_from_order_statistics(rival, mine, other)
    scores = [one[i] * mine.influence - two[i] * other.influence for i in used]
    spread, guarded = (mine.spread_of_scores(scores, guarded=guarded) for guarded in (False, True))
    slack = mine.coarsening_error() + other.coarsening_error()
    return _make_margin(rival, mine, other, slack, spread, guarded if guard.declared else None)


def _make_margin(
    rival: int, mine: UtilityEstimate, other: UtilityEstimate, slack: float, spread: Spread, guarded: Spread | None
) -> Margin:
    biases = np.concatenate((mine.kink_biases, -other.kink_biases))
    error = float(np.sqrt(spread.variance + 2.0 * biases @ biases))
    skewness = spread.third / error**3 if 1e-100 < error < np.inf else 0.0
    strict = None if guarded is None else _make_margin(rival, mine, other, slack, guarded, None)
    gain, plain = mine.value - other.value, float(np.sqrt(spread.plain))
    return Margin(rival, gain, error, slack, spread.df, skewness, plain, strict, float(biases.sum()))


def _margin_from_order_statistics(rival: int, mine: UtilityEstimate, other: UtilityEstimate) -> Margin:
    """The margin where h jumps: confidence limits of both sides are put together by their squared distances (MOVER)."""
    guard, times = mine.guard, float(ndtri(1.0 - 0.5 * mine.guard.alpha))
    (low, high), (least, most) = (one.limits_from_order_statistics(guard.alpha) for one in (mine, other))
    error = (1.0 + 1e-9) * float(np.hypot(mine.value - low, most - other.value)) / times  # 0 is no lead
    upper = float(np.hypot(high - mine.value, other.value - least)) / times
    margin = Margin(rival, mine.value - other.value, error, 0.0, np.inf, 0.0, error, upper_error=upper)
    return replace(margin, guarded=margin if guard.declared else None)


def unit_vector(count: int, at: int) -> FloatArray:
    """The weights of a mixture that is one arm alone."""
    out = np.zeros(count)
    out[at] = 1.0
    return out


def _tabulate_single_survival(samples: Sequence[Sample], ends: RewardRange) -> SurvivalBands:
    """The survival curve of one sample on its own cells; faster than ``tabulate_survival``, as nothing is sorted."""
    (sample,) = samples
    inside = sample.x[0] > ends[0], sample.x[-1] < ends[1]
    points = np.concatenate((ends[:1] if inside[0] else (), sample.x, ends[1:] if inside[1] else ()))
    above = 1.0 - np.cumsum(sample.p)
    above[-1] = 0.0
    curve = np.concatenate(((1.0,) if inside[0] else (), above if inside[1] else above[:-1]))
    if points.size == 1:
        points, curve = np.append(points, points[0] + 1.0), np.zeros(1)
    curves = np.clip(curve, 0.0, 1.0)[None]
    return SurvivalBands(float(points[0]), np.diff(points), points, curves, curves, curves)
