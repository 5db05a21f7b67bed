"""Standard errors: how far chance moves the utility of a mixture, or its difference to a single arm, to first order.

To first order a reward moves the utility by its *score*: ∫ h'(S(t)) dt up to the reward. So the error of a utility is
that of an average of scores (the delta method). Two things are added, because rewards are few and first order is not
all.

*Pseudo-rewards.* Each arm gets some that nobody saw, at two ends: an arm that never paid in 50 rounds may still pay 100
once in a hundred, and without them its error would be zero. How many, and where, depends on what is claimed. For
"surely", whatever the distributions are, they lie at the ends of the declared range. Where it is enough that rewards go
on as they were seen, they lie at the ends of what the compared arms have shown, and an arm whose rewards are *tame*
gets fewer. Tame means that the variance does not rest on a few rewards: n over the kurtosis of the scores is at least
10. An arm that is not tame keeps the declared range.

*Corners.* Where h has a corner and a curve lies near it, what the corner may add.

*Units.* Rewards of one unit are alike. Then the error is that of leaving out one unit after the other (the jackknife,
CV3 of MacKinnon, Nielsen and Webb 2023), and Student's t has as many degrees of freedom as the sizes of the units allow
(Satterthwaite's rule; Bell and McCaffrey 2002). Both hold for few units and for units of unequal size.

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
from scipy.special import log_ndtr, ndtri, stdtr

from pmbandits._validation import FloatArray
from pmbandits.advice.bands import SurvivalBands, clip_to_unit_interval, tabulate_survival
from pmbandits.advice.clusters import Clusters, Spread
from pmbandits.logs import Sample
from pmbandits.metrics.distortion import Distortion

_KINK_STANDARD_ERRORS = 2.5  # standard errors that a survival curve may be off, where h has kinks

_FEWEST_EFFECTIVE = 10.0  # rewards over the kurtosis of their scores, from which on an arm is tame
_TAME_SHARE = 0.26  # of the pseudo-rewards, for a tame arm: half of one at each end for a level of 95 %

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
    """

    ends: Sequence[RewardRange]
    seen: Sequence[RewardRange]
    pseudo_rewards: float
    declared: bool

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
    slack : what coarsened rewards and kinks of h may add to the error.
    df : the degrees of freedom of the standard error.
    skewness : of the error of the gain.
    plain_error : the standard error without pseudo-rewards.
    guarded : the same for a claim that holds whatever the distributions are; ``None`` where no range is known.
    """

    rival: int
    gain: float
    error: float
    slack: float
    df: float
    skewness: float = 0.0
    plain_error: float = 0.0
    guarded: Margin | None = None

    @property
    def p_value(self) -> float:
        """One-sided p-value of the lead."""
        return self.p_value_of_lead_beyond(0.0)

    def p_value_of_lead_beyond(self, least: float) -> float:
        """One-sided p-value of a lead of more than ``least``: Student's t, corrected where skewness is unfavourable."""
        away = self.gain - self.slack - least
        if self.error == 0.0:
            return 0.0 if away > 0.0 else 1.0
        t = away / self.error
        hazard = float(np.exp(-0.5 * t**2 - log_ndtr(-t))) / sqrt(
            2.0 * pi
        )  # density over tail of the normal distribution
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
        ends = min(low for low, _ in guard.ends), max(high for _, high in guard.ends)
        self.ends = np.asarray(ends)
        self.survival = (
            _tabulate_single_survival(samples[0], ends) if len(samples) == 1 else tabulate_survival(samples, ends)
        )
        self.survival_floor = 0.5 / max(s.n for s in samples)
        self.value = self.survival.value(metric, shares)
        self.influence = self._influence_function(shares)

    def arm_utility(self, at: int) -> float:
        """The utility of one of the arms."""
        return self.survival.value(self.metric, unit_vector(self.shares.size, at))

    def coarsening_and_kink_error(self, minus_arm: int | None = None) -> float:
        """What coarsening and kinks of h may add to the error of the utility, or of its difference to an arm."""
        total = self._kink_error(self.shares)
        if minus_arm is not None:
            total += self._kink_error(unit_vector(self.shares.size, minus_arm))
        errors = np.array([s.error for s in self.samples])
        if errors.any():
            full_range = tabulate_survival(self.samples, (float(self.ends[0]), float(self.ends[1])), errors)
            if minus_arm is None:
                low, high = full_range.value_bounds(self.metric, self.shares)
                total += max(self.value - low, high - self.value, 0.0)
            else:
                low = full_range.difference_bounds(self.metric, self.shares, minus_arm)[0]
                total += max(self.value - self.arm_utility(minus_arm) - low, 0.0)
        return total

    def _kink_error(self, shares: FloatArray) -> float:
        """What kinks of h may add to the error.

        To first order h is a line; where a curve may lie on the other side of a corner it leaves the line by the
        change of slope times how far it may reach beyond. Next to nothing, unless a curve stays near a corner.
        """
        kinks = self.metric.kinks
        if not kinks:
            return 0.0
        curve, away = (
            shares @ self.survival.curves,
            _KINK_STANDARD_ERRORS * self._survival_curve_standard_errors(shares),
        )
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
        plain = [arm.variance_and_third_moment(arm.n, 0.0)[0] for arm in arms]
        sizes = [arm.n if self.clusters is None else self.clusters.effective_size(i) for i, arm in enumerate(arms)]
        seen = seen or self.guard.seen_range
        counts = []
        for i, (arm, n) in enumerate(zip(arms, sizes, strict=True)):
            tame = not guarded and arm.effective_size(n) >= _FEWEST_EFFECTIVE
            ends = seen if tame or not self.guard.declared else self.guard.ends[i]
            arm.at_ends = np.interp(ends, self.survival.points, scores[i])
            counts.append(self.guard.pseudo_rewards * (_TAME_SHARE if tame else 1.0))
        if self.clusters is None:
            each = [arm.variance_and_third_moment(arm.n, count) for arm, count in zip(arms, counts, strict=True)]
            variance, third = (sum(moment[k] for moment in each) for k in (0, 1))
            return Spread(variance, min(sample.n for sample in self.samples) - 1.0, third, sum(plain))
        between = self._spread_between_units(scores)
        # A unit that nobody saw counts like so many rewards as a unit does count for.
        alike = max(between.variance / sum(plain), 1.0) if sum(plain) > 0.0 else np.inf
        unseen = total = 0.0
        for i, (arm, sample, count) in enumerate(zip(arms, self.samples, counts, strict=True)):
            n = max(sample.n / alike if plain[i] > 0.0 else 0.0, min(sizes[i], sample.n))
            unseen += arm.variance_and_third_moment(n, count)[0] - arm.variance_and_third_moment(n, 0.0)[0]
            total += arm.variance_and_third_moment(sample.n, count)[0]
        variance = max(total, between.variance + max(unseen, 0.0))
        return Spread(variance, between.df, 0.0, max(between.variance, sum(plain)))

    def _scored_arm(self, i: int, score: FloatArray) -> _ScoredArm:
        sample = self.samples[i]
        return _ScoredArm(score[np.searchsorted(self.survival.points, sample.x)], sample)

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
        scores = self._influence_scores_by_arm()
        rows = sum(
            self._scored_arm(i, one).variance_and_third_moment(s.n, 0.0)[0]
            for i, (one, s) in enumerate(zip(scores, self.samples, strict=True))
        )
        between = self._spread_between_units(scores).variance
        return min(max(between / rows, 1.0), float(max(s.n for s in self.samples))) if rows > 0.0 else 1.0

    def _influence_function(self, shares: FloatArray) -> FloatArray:
        """The influence function ∫ h'(S(t)) dt up to each point: the first-order effect of a reward there."""
        curve = np.clip(shares @ self.survival.curves, self.survival_floor, 1.0 - self.survival_floor)
        with np.errstate(all="ignore"):
            slope = self.metric._dh(curve)
        return np.concatenate(([0.0], np.cumsum(self.survival.widths * slope)))


@dataclass
class _ScoredArm:
    """The scores of an arm's rewards with their shares, and the scores of its pseudo-rewards."""

    score: FloatArray
    sample: Sample
    at_ends: FloatArray = field(default_factory=lambda: np.zeros(2))

    @property
    def reward_shares(self) -> FloatArray:
        """The shares of the rewards."""
        return self.sample.p

    @cached_property
    def n(self) -> float:
        """The number of rewards; with weights, that of unweighted ones whose average varies as much.

        The average with weights w varies by Σ w² (s − m)² / (Σ w)², also where weights are inverse propensities that
        depend on earlier rewards: the terms are differences of a martingale.
        """
        if self.sample.squares is None:
            return float(self.sample.n)
        away = (self.score - self.reward_shares @ self.score) ** 2
        varies = float(self.sample.squares @ away)
        return float(self.reward_shares @ away) / varies if varies > 0.0 else float(self.sample.n)

    def effective_size(self, n: float) -> float:
        """The number of rewards over the kurtosis of their scores: on how many rewards the variance rests."""
        away = self.score - self.reward_shares @ self.score
        fourth = float(self.reward_shares @ away**4)
        return n * float(self.reward_shares @ away**2) ** 2 / fourth if fourth > 0.0 else 0.0

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
    own_slack = mixed.coarsening_and_kink_error()
    out = []
    for j in rivals:
        seen = guard.select_arms([*used, j]).seen_range
        if weights[j] > 0.0:  # the same rewards on both sides
            at = used.index(j)
            spreads = [mixed.utility_spread(at, guarded=guarded) for guarded in (False, True)]
            gain, slack = mixed.value - mixed.arm_utility(at), mixed.coarsening_and_kink_error(at)
        elif clusters is not None:  # units may have rewards on both sides
            other = unit_vector(weights.size, j)
            out.append(margin_between_mixtures(metric, weights, other, samples, guard, clusters, rival=j))
            continue
        else:
            alone = known and known.get(j)
            alone = alone or mixture_utility_estimate(metric, unit_vector(weights.size, j), samples, guard, clusters)
            gain, slack = mixed.value - alone.value, own_slack + alone.coarsening_and_kink_error()
            spreads = [
                mixed.utility_spread(seen=seen, guarded=guarded).spread_of_independent_difference(
                    alone.utility_spread(seen=seen, guarded=guarded)
                )
                for guarded in (False, True)
            ]
        out.append(_make_margin(j, gain, slack, spreads[0], spreads[1] if guard.declared else None))
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


def n_rewards_or_units(samples: Sequence[Sample], arm: int, clusters: Clusters | None) -> int:
    """The number of rewards of an arm, or of its units where there are any."""
    if clusters is None:
        return samples[arm].n
    return int(np.unique(clusters.unit[clusters.arm == arm]).size)


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
    scores = [one[i] * mine.influence - two[i] * other.influence for i in used]
    spread, guarded = (mine.spread_of_scores(scores, guarded=guarded) for guarded in (False, True))
    gain, slack = mine.value - other.value, mine.coarsening_and_kink_error() + other.coarsening_and_kink_error()
    return _make_margin(rival, gain, slack, spread, guarded if guard.declared else None)


def _make_margin(rival: int, gain: float, slack: float, spread: Spread, guarded: Spread | None = None) -> Margin:
    error = float(np.sqrt(spread.variance))
    skewness = spread.third / error**3 if 0.0 < error < np.inf else 0.0
    strict = None if guarded is None else _make_margin(rival, gain, slack, guarded)
    return Margin(rival, gain, error, slack, spread.df, skewness, float(np.sqrt(spread.plain)), strict)


def unit_vector(count: int, at: int) -> FloatArray:
    """The weights of a mixture that is one arm alone."""
    out = np.zeros(count)
    out[at] = 1.0
    return out


def _tabulate_single_survival(sample: Sample, ends: RewardRange) -> SurvivalBands:
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
