"""Inference for one metric: the best mixture, its cross-fitted utility, and the p-value of its lead.

*Utility.* The best mixture in the data looks better than it is, because it was picked for looking good. So a mixture is
chosen on three random eighths of the rewards and measured on the other five, for several divisions, and the values are
averaged (cross-fitting). What fewer rewards change for a fixed mixture is taken out.

*One arm ahead of all others.* Its lead over each other arm is compared with its standard error, on all rewards. The
claim is made only if every lead is beyond chance. Then it is enough to allow for two sides, whatever the number of arms
(Gutmann and Maymin 1987; Hung and Fithian 2019).

*A mixture ahead of all arms.* The mixture is chosen on three eighths and compared with every single arm on the others,
where it has no advantage from having been chosen. Twice the median of these probabilities over the divisions is a valid
one, however they depend on each other (Rüger 1978), and does not depend on a single division.

*Arms with few rewards*, and preferences whose curve jumps, are compared by their bands, because a standard error says
little about them.

*Units*, or blocks of time where a column of times was named, take the place of rewards wherever chance is worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from pmbandits._validation import FloatArray
from pmbandits.advice.bands import Bands
from pmbandits.advice.problem import FEWEST_UNITS, N_CHOOSING_PARTS, Problem
from pmbandits.advice.standard_errors import (
    Margin,
    UtilityEstimate,
    margins,
    size,
    unit_vector,
)
from pmbandits.arms import Bandit
from pmbandits.logs import N_PARTS, Sample, coarsen
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import oracle
from pmbandits.optimize.concave import maximise_concave
from pmbandits.optimize.search import start_mixtures
from pmbandits.supports import Binary, Heavy, Real, Support
from pmbandits.tables.distributions import Atoms
from pmbandits.tables.survival_table import SurvivalTable

TIE_TOLERANCE = 1e-9  # a relative gain below this is a tie: a single arm is recommended
_CONCAVE_POINTS = 256  # points of an arm on which a mixture is chosen
_SEARCH_POINTS = 64  # points of an arm where the best mixture is searched for (h neither concave nor convex)
_MOST_ORACLE_ARMS = 500  # arms up to which the oracle looks at all of them
_MOST_SEARCH_ARMS = 12  # arms among which it is searched for
_POWER = 0.8  # the power at which "more data" settles the question
_LEAD_VARIANCE_SHARE = 0.3  # the share of the lead's variance that enters the sample size calculation
_LARGEST_FACTOR = 100.0  # times as many rewards, beyond which more data is no advice


@dataclass(frozen=True)
class Evidence:
    """What the rewards say of one preference.

    Attributes
    ----------
    weights : the best mixture in the data.
    arm_utilities, errors, curvature_errors : of each arm: utility, standard error, and what the curvature of h adds.
    arm_dfs, df : the degrees of freedom of the arms' standard errors, and of ``error``.
    apparent, apparent_gain : the utility of the mixture in the data that chose it, and its gain over the best arm.
    value, gain : utility of the mixture and its gain over the best arm, cross-fitted.
    error, curvature_error : the standard error of the value, and what the curvature of h adds to it.
    slack : what corners of h and summaries of the rewards add to it.
    smallest_n : the number of rewards (or units) of the used arm that has fewest.
    margins : how far the recommendation is ahead of each other arm, on all rewards.
    p : the p-value of the lead over every single arm; 1 where nothing speaks for it.
    by_bands, few : the arms that could be compared by their bands only, and those that have too few rewards.
    divisions : of how many splits the value is an average; 0 if an arm has too few rewards to be split.
    """

    weights: FloatArray
    arm_utilities: FloatArray
    errors: FloatArray
    curvature_errors: FloatArray
    arm_dfs: FloatArray
    apparent: float
    apparent_gain: float
    value: float
    gain: float
    error: float
    df: float
    curvature_error: float
    slack: float
    smallest_n: int
    margins: tuple[Margin, ...]
    p: float
    by_bands: tuple[int, ...]
    few: tuple[int, ...]
    divisions: int

    @property
    def is_mixture(self) -> bool:
        """Whether more than one arm is played."""
        return int((self.weights > 0.0).sum()) > 1

    @property
    def closest_rival(self) -> Margin | None:
        """The single arm that is hardest to beat."""
        return max(self.margins, key=lambda m: (m.p, -m.gain), default=None)

    def interval(self, level: float) -> tuple[float, float]:
        """An approximate interval for the utility of the recommendation."""
        if self.smallest_n < FEWEST_UNITS or not isfinite(self.error):
            return nan, nan
        times = float(stdtrit(self.df, 0.5 + 0.5 * level))
        optimism = self.apparent - self.value  # of second order like the curvature: it counts where the slope is 0
        radius = sqrt((times * self.error) ** 2 + (times**2 * self.curvature_error) ** 2 + optimism**2) + self.slack
        return self.value - radius, self.value + radius

    def more(self, alpha: float) -> float:
        """By which factor the data must grow to settle the question with power 0.8; infinity if by no reasonable one.

        The true lead is unknown: given the data it lies around the one that was measured. So it is not enough that a
        lead as measured would be seen. That the question is open says that the lead was not measured too large, so
        that part of its error counts; how much was found by simulation (``python -m benchmarks advice``).
        """
        close = [m for m in self.margins if m.gain < 8.0 * m.error] or list(self.margins)
        power_quantile = float(ndtri(1.0 - (1.0 - _POWER) / max(len(close), 1)))
        critical_value = float(ndtri(1.0 - 0.5 * alpha)) * (
            sqrt(N_PARTS / (N_PARTS - N_CHOOSING_PARTS)) if self.is_mixture else 1.0
        )
        optimism = max(self.apparent - self.value, 0.0)
        return max(
            (
                _sample_size_factor((m.gain - optimism) / m.error, critical_value, power_quantile)
                for m in close
                if m.error > 0.0
            ),
            default=inf,
        )


def _sample_size_factor(lead: float, critical_value: float, power_quantile: float) -> float:
    """The least f with lead − critical_value/√f ≥ power_quantile·√(0.3 + 1/f), in standard errors of today."""

    def settled(f: float) -> bool:
        return lead - critical_value / sqrt(f) >= power_quantile * sqrt(_LEAD_VARIANCE_SHARE + 1.0 / f)

    low, high = 1.0, 2.0 * _LARGEST_FACTOR
    if not settled(high):
        return inf
    while high > 1.02 * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high if high <= _LARGEST_FACTOR else inf


def compute_evidence(metric: Distortion, problem: Problem, alpha: float) -> Evidence:
    """The evidence on one metric; ``alpha`` is the error probability for comparisons that only bands can decide."""
    samples, clusters = problem.samples, problem.clusters
    count = len(samples)
    alone = {k: problem.estimate(metric, unit_vector(count, k)) for k in range(count)}
    arm_utilities = np.array([alone[k].value for k in range(count)])
    weights = best_mixture(metric, problem, arm_utilities)
    used = np.flatnonzero(weights > 0.0)
    apparent = float(arm_utilities[used[0]]) if used.size == 1 else utility_of_mixture(metric, samples, weights)
    rivals = [j for j in range(count) if weights[j] < 1.0]
    few = {k for k in range(count) if problem.is_small(k)}
    by_bands = list(rivals) if metric.jumps or few & set(used.tolist()) else [j for j in rivals if j in few]
    testable = [j for j in rivals if j not in set(by_bands)]
    tested_margins: list[Margin] = []
    if testable:
        tested_margins = margins(
            metric, weights, samples, problem.ends, testable, clusters, problem.pseudo_rewards, alone
        )
    cross_fit = _cross_fit(metric, problem, weights, apparent, arm_utilities, used.size > 1, testable)
    return make_evidence(
        metric,
        problem,
        weights,
        list(alone.values()),
        arm_utilities=arm_utilities,
        apparent=apparent,
        apparent_gain=apparent - float(arm_utilities.max()) if used.size > 1 else 0.0,
        value=cross_fit.value,
        gain=cross_fit.gain if used.size > 1 else 0.0,
        margins=tuple(tested_margins),
        p=_p_value(metric, problem, weights, tested_margins, cross_fit, by_bands, alpha) if rivals else 1.0,
        by_bands=tuple(by_bands),
        few=tuple(sorted(few)),
        divisions=cross_fit.divisions,
    )


def _p_value(
    metric: Distortion,
    problem: Problem,
    weights: FloatArray,
    tested_margins: Sequence[Margin],
    cross_fit: _CrossFit,
    by_bands: Sequence[int],
    alpha: float,
) -> float:
    """The p-value of the lead over every other arm; a lead that only bands can show has ``alpha``, or 1 if it fails."""
    p = 0.0
    if (weights > 0.0).sum() == 1:
        p = min(2.0 * max((m.p for m in tested_margins), default=0.0), 1.0)
    elif tested_margins:
        p = min(2.0 * float(np.median(cross_fit.p_values)), 1.0) if cross_fit.p_values else 1.0
    if by_bands and p <= alpha:
        inside = Bands(metric, problem.samples, problem.support, 1.0 - alpha, problem.clusters)
        return max(p, alpha) if all(inside.difference(weights, j)[0] > 0.0 for j in by_bands) else 1.0
    return p


def make_evidence(
    metric: Distortion, problem: Problem, weights: FloatArray, alone: Sequence[UtilityEstimate], **decided: Any
) -> Evidence:
    """The evidence on a mixture, with the standard errors of the mixture and of the single arms filled in."""
    mixed = problem.estimate(metric, weights)
    used = np.flatnonzero(weights > 0.0).tolist()
    spreads, own = [one.spread() for one in alone], mixed.spread()
    return Evidence(
        weights=weights,
        errors=np.sqrt([one.variance for one in spreads]),
        curvature_errors=np.array([one.curvature_error() for one in alone]),
        arm_dfs=np.array([one.df for one in spreads]),
        error=sqrt(own.variance),
        df=own.df,
        curvature_error=mixed.curvature_error(),
        slack=mixed.slack(),
        smallest_n=min(size(problem.samples, i, problem.clusters) for i in used),
        **decided,
    )


def best_mixture(metric: Distortion, problem: Problem, arm_utilities: FloatArray) -> FloatArray:
    """The weights of the mixture with the largest utility on all rewards."""
    count = arm_utilities.size
    top = unit_vector(count, int(np.argmax(arm_utilities)))
    if count == 1 or metric.shape in ("convex", "linear"):
        return top
    most = 1_024 if metric.shape == "neither" else 1 << 20
    distributions = [_thinned_atoms(sample, most) for sample in problem.samples]
    if count > _MOST_ORACLE_ARMS:  # few arms at a time; of those that are searched among, the best alone
        return choose_mixture(metric, problem.samples)[0]
    best = oracle(
        metric, Bandit(distributions, [arm.name for arm in problem.log.arms], support=_oracle_support(problem.support))
    )
    weights = np.where(best.weights < 1e-6, 0.0, best.weights)
    weights /= weights.sum()
    if best.gain <= TIE_TOLERANCE * max(abs(best.value), abs(best.best_arm_value)):
        return top
    return weights


def _oracle_support(support: Support) -> Support | None:
    """The support to give to the oracle; ``None`` for finite ones, as coarsened rewards lie between their atoms."""
    return support if isinstance(support, (Binary, Real, Heavy)) else None


@dataclass
class _CrossFit:
    value: float
    gain: float
    p_values: list[float]
    divisions: int


def _cross_fit(
    metric: Distortion,
    problem: Problem,
    weights: FloatArray,
    apparent: float,
    arm_utilities: FloatArray,
    mixture: bool,
    testable: Sequence[int],
) -> _CrossFit:
    """Cross-fitted value, gain and p-values: choose on some of the rewards, measure on the others, several times."""
    count = weights.size
    best_alone = int(np.argmax(arm_utilities))
    values, gains, refit_values, refit_arm_values, p_values = [], [], [], [], []
    measuring = (N_PARTS - N_CHOOSING_PARTS) / N_PARTS
    for one, two in problem.divisions():
        chosen, best_arm = choose_mixture(metric, problem.of_parts(one)[0])
        samples, clusters = problem.of_parts(two)
        sizes = np.array([s.n for s in samples])
        if (sizes[chosen > 0.0] == 0).any() or sizes[best_arm] == 0:
            continue
        value = utility_of_mixture(metric, samples, chosen)
        is_mixture = int((chosen > 0.0).sum()) > 1
        best_arm_utility = utility_of_mixture(metric, samples, unit_vector(count, best_arm)) if is_mixture else value
        values.append(value)
        gains.append(value - best_arm_utility)
        if not (sizes[weights > 0.0] == 0).any() and sizes[best_alone] > 0:
            refit_values.append(utility_of_mixture(metric, samples, weights))
            refit_arm_values.append(utility_of_mixture(metric, samples, unit_vector(count, best_alone)))
        if mixture and testable:
            p_value = 1.0
            if is_mixture:
                rivals = [j for j in testable if sizes[j] > 1]
                ahead = margins(
                    metric, chosen, samples, problem.ends, rivals, clusters, measuring * problem.pseudo_rewards
                )
                p_value = max(m.p for m in ahead)
            p_values.append(p_value)
    if not values:
        return _CrossFit(apparent, 0.0, [], 0)
    bias = alone = 0.0
    if refit_values and metric.shape != "linear":  # bias is of order 1/n: that on all rewards follows from that on some
        bias = (float(np.mean(refit_values)) - apparent) / (1.0 - measuring)
        alone = (float(np.mean(refit_arm_values)) - float(arm_utilities[best_alone])) / (1.0 - measuring)
    return _CrossFit(float(np.mean(values)) - bias, float(np.mean(gains)) - bias + alone, p_values, len(values))


def choose_mixture(metric: Distortion, samples: Sequence[Sample]) -> tuple[FloatArray, int]:
    """The best mixture of some samples (approximate, fast) and the best single arm."""
    present = [k for k, s in enumerate(samples) if s.n]
    count = len(samples)
    alone = np.full(count, -inf)
    alone[present] = utilities_of_arms(metric, [samples[k] for k in present])
    best_arm = int(np.argmax(alone))
    top = unit_vector(count, best_arm)
    if len(present) <= 1 or metric.shape in ("convex", "linear"):
        return top, best_arm
    points = np.unique(np.concatenate([samples[k].x[:3] for k in present]))
    if points.size <= 2 and all(samples[k].x.size <= 2 for k in present):
        best = oracle(metric, Bandit([_thinned_atoms(samples[k], 2) for k in present]))
        weights = _scatter_weights(best.weights, present, count)
    elif metric.shape == "concave":
        pool = SurvivalTable.from_atoms(
            [_thinned_atoms(samples[k], max(_CONCAVE_POINTS // max(len(present) // 20, 1), 16)) for k in present]
        )
        start = np.full(len(present), 1.0 / len(present))
        scale = max(float(np.abs(alone[present]).max()), 1e-12 * float(pool.cell_widths.sum()), 1e-300)
        found = maximise_concave(metric, pool, start, accuracy=1e-3, scale=scale)
        weights = _scatter_weights(found.weights, present, count)
    else:
        candidates = sorted(present, key=lambda k: -alone[k])[:_MOST_SEARCH_ARMS]
        grid = start_mixtures(len(candidates))
        pool = SurvivalTable.from_atoms([_thinned_atoms(samples[k], _SEARCH_POINTS) for k in candidates])
        values = pool.values(metric, grid)
        weights = _scatter_weights(grid[int(np.argmax(values))], candidates, count)
    weights = np.where(weights < 1e-3, 0.0, weights)
    weights /= weights.sum()
    value = utility_of_mixture(metric, samples, weights)
    return (weights, best_arm) if value > alone[best_arm] + TIE_TOLERANCE * abs(value) else (top, best_arm)


def utilities_of_arms(metric: Distortion, samples: Sequence[Sample]) -> FloatArray:
    """The utility of each arm, for many arms at once."""
    if not samples:
        return np.zeros(0)
    sizes = np.array([s.x.size for s in samples])
    starts = np.cumsum(sizes) - sizes
    x, p = np.concatenate([s.x for s in samples]), np.concatenate([s.p for s in samples])
    total = np.cumsum(p)
    survival = 1.0 - (total - np.repeat(total[starts] - p[starts], sizes))
    widths = np.diff(x, append=x[-1])
    widths[starts[1:] - 1] = 0.0  # from the last reward of an arm to the first of the next
    with np.errstate(all="ignore"):
        inside = metric._h(np.clip(survival, 0.0, 1.0)) * widths
    return x[starts] * float(metric(1.0)) + np.add.reduceat(inside, starts)


def utility_of_mixture(metric: Distortion, samples: Sequence[Sample], weights: FloatArray) -> float:
    """The utility of a mixture of samples."""
    used: list[int] = np.flatnonzero(weights > 0.0).tolist()
    if len(used) == 1:
        return metric.value(samples[used[0]].x, samples[used[0]].p)
    x = np.concatenate([samples[k].x for k in used])
    return metric.value(x, np.concatenate([weights[k] * samples[k].p for k in used]))


def holm(p_values: Sequence[float], alpha: float) -> NDArray[np.bool_]:
    """Which hypotheses Holm's procedure rejects at family-wise error rate alpha, from their p-values."""
    order = np.argsort(p_values, kind="stable")
    out = np.zeros(len(p_values), dtype=bool)
    for rank, k in enumerate(order.tolist()):
        if p_values[k] > alpha / (len(p_values) - rank):
            break
        out[k] = True
    return out


def _thinned_atoms(sample: Sample, most: int) -> Atoms:
    x, p, _ = coarsen(sample.x, sample.p, most)
    return Atoms(x, p / p.sum())


def _scatter_weights(shares: FloatArray, places: Sequence[int], count: int) -> FloatArray:
    out = np.zeros(count)
    out[list(places)] = shares
    return out
