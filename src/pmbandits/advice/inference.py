"""Inference for one metric: the best mixture, its utility, and the p-value of its lead.

*Utility.* It is that of the recommended mixture on all rewards. A single arm that was picked because it looks best is
likely to look better than it is. By how much follows from the standard errors of all arms (the parametric bootstrap):
it is taken off unless the lead is beyond chance. So the value does not depend on any random division.

*One arm ahead of all others.* Its lead over each other arm is compared with its standard error, on all rewards. The
claim is made only if every lead is beyond chance. Then it is enough to allow for two sides, whatever the number of arms
(Gutmann and Maymin 1987; Hung and Fithian 2019).

*A mixture ahead of all arms.* A mixture is chosen on three random eighths of the rewards and compared with every single
arm on the others, where it has no advantage from having been chosen, for several divisions (cross-fitting). Twice the
median of these probabilities over the divisions is a valid one, however they depend on each other (Rüger 1978), and
does not depend on a single division. A mixture whose gain on the other rewards is not positive is not recommended.

*The smallest difference that matters.* If one is named, the claim is that no other arm is better by more than that.
Several arms can be wrongly passed over then, so the p-value is multiplied by their number (Hsu 1984).

*Arms with few rewards* are compared by their bands, because a standard error says little about them. If the bands
cannot tell, these arms are left out, and the others are compared.

*Units*, or blocks of time where a column of times was named, take the place of rewards wherever chance is worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from pmbandits._validation import FloatArray
from pmbandits.advice.bands import Bands
from pmbandits.advice.checks import deciding_reward, has_infinite_slope_at_ends
from pmbandits.advice.clusters import n_rewards_or_units
from pmbandits.advice.problem import FEWEST_UNITS, N_CHOOSING_PARTS, Problem
from pmbandits.advice.standard_errors import (
    Margin,
    UtilityEstimate,
    margins_over_arms,
    unit_vector,
)
from pmbandits.arms import Bandit
from pmbandits.logs import N_PARTS, Sample, coarsen_points
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
_MOST_ARMS_IN_PAIRS = 30  # arms of which all pairs are compared
_MOST_PICKED = 64  # arms that are looked at for how much better than it is the best one looks
_BOOTSTRAP_DRAWS = 2_000  # for the same


@dataclass(frozen=True)
class Evidence:
    """What the rewards say of one preference.

    Attributes
    ----------
    weights : the best mixture in the data.
    arm_utilities, errors, curvature_errors : of each arm: utility, standard error, and what the curvature of h adds.
    plain_errors : the arms' standard errors without anything that was added for rewards that nobody saw.
    arm_dfs, df : the degrees of freedom of the arms' standard errors, and of ``error``.
    apparent, apparent_gain : the utility of the mixture in the data that chose it, and its gain over the best arm.
    value : the utility of the mixture, corrected for having been picked.
    gain : the gain of mixtures over the best arm on rewards that did not choose them (held-out), also of a mixture that
        was not recommended because of it; 0 if a single arm is best in the data.
    error, curvature_error : the standard error of the value, and what the curvature of h adds to it.
    slack : what summaries of the rewards add to it.
    smallest_n : the number of rewards (or units) of the used arm that has fewest.
    margins : how far the recommendation is ahead of each other arm, on all rewards.
    p : the p-value of the lead over every single arm, if rewards go on as they were seen; 1 if nothing speaks for it.
    guarded_p : the same for a claim that holds whatever the distributions inside the declared range are.
    by_bands, few : the arms that could be compared by their bands only, and those that have too few rewards.
    left_out : the arms that were not compared: they have too few rewards, a few rewards decide how they compare, or
        they were tried at another time.
    divisions : in how many divisions mixtures were chosen and measured; 0 where there was none.
    held_out : how far the mixtures that were chosen in the divisions are ahead of the best single arm, on the rewards
        that did not choose them; empty for a single arm.
    """

    weights: FloatArray
    arm_utilities: FloatArray
    errors: FloatArray
    plain_errors: FloatArray
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
    guarded_p: float
    by_bands: tuple[int, ...]
    few: tuple[int, ...]
    divisions: int
    left_out: tuple[int, ...] = ()
    held_out: tuple[Margin, ...] = ()

    @property
    def is_mixture(self) -> bool:
        """Whether more than one arm is played."""
        return int((self.weights > 0.0).sum()) > 1

    @property
    def closest_rival(self) -> Margin | None:
        """The single arm that is hardest to beat."""
        return max(self.margins, key=lambda m: (m.p_value, -m.gain), default=None)

    def utility_interval_at(self, level: float) -> tuple[float, float]:
        """An approximate interval for the utility of the recommendation."""
        if self.smallest_n < FEWEST_UNITS or not isfinite(self.error):
            return nan, nan
        times = float(stdtrit(self.df, 0.5 + 0.5 * level))
        optimism = self.apparent - self.value  # of second order like the curvature: it counts where the slope is 0
        radius = sqrt((times * self.error) ** 2 + (times**2 * self.curvature_error) ** 2 + optimism**2) + self.slack
        return self.value - radius, self.value + radius


def compute_evidence(
    metric: Distortion,
    problem: Problem,
    alpha: float,
    matters: float = 0.0,
    heavy: Sequence[int] = (),
    apart: Sequence[int] = (),
) -> Evidence:
    """The evidence on one metric.

    ``alpha`` is the error probability for comparisons that only bands can decide. A difference up to ``matters`` does
    not matter. The arms in ``heavy`` have tails that are too heavy for this metric. Those in ``apart`` were not tried
    at the same time as the others, and are left out if there are two others.
    """
    found = _compute_evidence(metric, problem, alpha, matters)
    compared = [k for k in range(len(problem.samples)) if k not in found.few]
    doubtful = set(heavy)
    if found.p > alpha:
        doubtful |= {k for k in compared if deciding_reward(metric, problem.samples[k]) is not None}
    best = max(compared, key=lambda k: float(found.arm_utilities[k]), default=-1)
    doubtful = {*found.few, *apart} | (doubtful if best not in doubtful else set())
    enough = [k for k in compared if k not in doubtful]
    if (found.p <= alpha and not heavy and not apart) or len(enough) < 2 or not doubtful:
        return found
    # Arms with few rewards are the problem, or arms behind the best of which a few rewards decide: the answer is about
    # the others.
    inner = _compute_evidence(metric, problem.select_arms(enough), alpha, matters)
    weights = _scatter_weights(inner.weights, enough, len(problem.samples))
    ahead = tuple(replace(m, rival=enough[m.rival]) for m in inner.margins)
    by_bands = tuple(enough[k] for k in inner.by_bands)
    return replace(
        inner,
        weights=weights,
        arm_utilities=found.arm_utilities,
        errors=found.errors,
        plain_errors=found.plain_errors,
        curvature_errors=found.curvature_errors,
        arm_dfs=found.arm_dfs,
        margins=ahead,
        by_bands=by_bands,
        few=found.few,
        left_out=tuple(sorted(doubtful)),
    )


def _compute_evidence(metric: Distortion, problem: Problem, alpha: float, matters: float) -> Evidence:
    samples = problem.samples
    count = len(samples)
    alone = {k: problem.utility_estimate(metric, unit_vector(count, k)) for k in range(count)}
    arm_utilities = np.array([alone[k].value for k in range(count)])
    weights = best_mixture(metric, problem, arm_utilities)
    few = {k for k in range(count) if problem.has_too_few_rewards(k)}
    cross_fit = None
    if (weights > 0.0).sum() > 1:
        cross_fit = _cross_fit(metric, problem, weights, arm_utilities, [j for j in range(count) if j not in few])
        if not cross_fit.gain > matters:  # on other rewards nothing is gained by mixing
            weights = unit_vector(count, int(np.argmax(arm_utilities)))
    used = np.flatnonzero(weights > 0.0)
    apparent = float(arm_utilities[used[0]]) if used.size == 1 else utility_of_mixture(metric, samples, weights)
    rivals = [j for j in range(count) if weights[j] < 1.0]
    by_bands = list(rivals) if few & set(used.tolist()) else [j for j in rivals if j in few]
    tested = [j for j in rivals if j not in set(by_bands)]
    ahead = (
        margins_over_arms(metric, weights, samples, problem.guard, tested, problem.clusters, alone) if tested else []
    )
    p = guarded_p = 1.0
    if rivals:
        p_values = (0.0, 0.0) if not ahead else _p_values_of_lead(ahead, cross_fit if used.size > 1 else None, matters)
        p, guarded_p = _p_values_with_arms_tested_by_bands(metric, problem, weights, p_values, by_bands, alpha)
    found = evidence_of_mixture(
        metric,
        problem,
        weights,
        list(alone.values()),
        arm_utilities=arm_utilities,
        apparent=apparent,
        apparent_gain=apparent - float(arm_utilities.max()) if used.size > 1 else 0.0,
        value=apparent,
        gain=cross_fit.gain if cross_fit is not None else 0.0,
        margins=tuple(ahead),
        p=p,
        guarded_p=guarded_p,
        by_bands=tuple(by_bands),
        few=tuple(sorted(few)),
        divisions=cross_fit.divisions if cross_fit is not None else 0,
        held_out=tuple(cross_fit.margins) if cross_fit is not None and used.size > 1 else (),
    )
    guessed = not problem.is_bounded and has_infinite_slope_at_ends(metric)  # the value is too low for another reason
    if p <= alpha or used.size > 1 or metric.jumps or guessed:
        return found
    return replace(found, value=apparent - _winners_curse_bias(arm_utilities, found.errors, int(used[0])))


def _p_values_of_lead(ahead: Sequence[Margin], cross_fit: _CrossFit | None, matters: float) -> tuple[float, float]:
    """The p-value of the lead over all tested arms, and that of the same whatever the distributions are."""
    if cross_fit is not None:
        medians = [float(np.median(p)) if p else 1.0 for p in (cross_fit.p_values, cross_fit.guarded_p_values)]
        return min(2.0 * medians[0], 1.0), min(2.0 * medians[1], 1.0)
    times = 2.0 if matters == 0.0 else max(2.0, float(len(ahead)))
    worst = max(m.p_value_of_lead_beyond(-matters) for m in ahead)
    guarded = max(1.0 if m.guarded is None else m.guarded.p_value_of_lead_beyond(-matters) for m in ahead)
    return min(times * worst, 1.0), min(times * guarded, 1.0)


def _p_values_with_arms_tested_by_bands(
    metric: Distortion,
    problem: Problem,
    weights: FloatArray,
    p_values: tuple[float, float],
    by_bands: Sequence[int],
    alpha: float,
) -> tuple[float, float]:
    """The p-values with the arms that only bands can decide: such a lead has ``alpha``, or 1 if it fails."""
    p, guarded_p = p_values
    if by_bands and p <= alpha:
        inside = Bands(metric, problem.samples, problem.support, 1.0 - alpha, problem.clusters)
        shown = all(inside.bounds_of_difference_to_arm(weights, j)[0] > 0.0 for j in by_bands)
        p, guarded_p = (max(p, alpha), max(guarded_p, alpha)) if shown else (1.0, 1.0)
    return p, guarded_p


def _winners_curse_bias(utilities: FloatArray, errors: FloatArray, best: int) -> float:
    """By how much the arm that looks best is likely to look better than it is, because it was picked for that.

    Data are drawn again around the utilities that were found, with their standard errors: how far above its own
    utility is the one that looks best then? (The parametric bootstrap. It takes off less than all of it if arms are
    equal, and little if one is clearly ahead.)
    """
    known = np.isfinite(errors)
    if not known[best] or errors[best] == 0.0:
        return 0.0
    order = [k for k in np.argsort(-utilities, kind="stable").tolist() if known[k]][:_MOST_PICKED]
    draws = np.random.default_rng(0).standard_normal((_BOOTSTRAP_DRAWS, len(order)))
    away = np.concatenate((draws, -draws)) * errors[order]
    picked = np.argmax(utilities[order] + away, axis=1)
    return max(float(away[np.arange(picked.size), picked].mean()), 0.0)


def evidence_of_mixture(
    metric: Distortion, problem: Problem, weights: FloatArray, alone: Sequence[UtilityEstimate], **decided: Any
) -> Evidence:
    """The evidence on a mixture, with the standard errors of the mixture and of the single arms filled in."""
    mixed = problem.utility_estimate(metric, weights)
    used = np.flatnonzero(weights > 0.0).tolist()
    spreads, own = [one.utility_spread() for one in alone], mixed.utility_spread()
    return Evidence(
        weights=weights,
        errors=np.sqrt([one.variance for one in spreads]),
        plain_errors=np.sqrt([one.plain for one in spreads]),
        curvature_errors=np.array([one.curvature_error() for one in alone]),
        arm_dfs=np.array([one.df for one in spreads]),
        error=sqrt(own.variance),
        df=own.df,
        curvature_error=mixed.curvature_error(),
        slack=mixed.coarsening_error(),
        smallest_n=min(n_rewards_or_units(problem.samples, i, problem.clusters) for i in used),
        **decided,
    )


def best_mixture(metric: Distortion, problem: Problem, arm_utilities: FloatArray) -> FloatArray:
    """The weights of the mixture with the largest utility on all rewards."""
    count = arm_utilities.size
    top = unit_vector(count, int(np.argmax(arm_utilities)))
    if count == 1 or metric.shape in ("convex", "linear"):
        return top
    most = 1_024 if metric.shape == "neither" else 1 << 20
    distributions = [atoms_of_thinned_sample(sample, most) for sample in problem.samples]
    if count > _MOST_ORACLE_ARMS:  # few arms at a time; of those that are searched among, the best alone
        return approximate_best_mixture_and_arm(metric, problem.samples)[0]
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
    gain: float
    p_values: list[float]
    guarded_p_values: list[float]
    divisions: int
    margins: Sequence[Margin] = ()


def _cross_fit(
    metric: Distortion, problem: Problem, weights: FloatArray, arm_utilities: FloatArray, testable: Sequence[int]
) -> _CrossFit:
    """Held-out gain and p-values of mixtures: choose on some of the rewards, measure on the others, several times."""
    count = weights.size
    best_alone = int(np.argmax(arm_utilities))
    gains, refit_gains, p_values, guarded_p_values, margins = [], [], [], [], []
    measuring = (N_PARTS - N_CHOOSING_PARTS) / N_PARTS
    guard = problem.guard.guard_of_reward_share(measuring)

    def gain(samples: Sequence[Sample], mixture: FloatArray, arm: int) -> float:
        alone = utility_of_mixture(metric, samples, unit_vector(count, arm))
        return utility_of_mixture(metric, samples, mixture) - alone

    for one, two in problem.cross_fitting_splits():
        chosen, best_arm = approximate_best_mixture_and_arm(metric, problem.select_parts(one)[0])
        samples, clusters = problem.select_parts(two)
        sizes = np.array([s.n for s in samples])
        if (sizes[chosen > 0.0] == 0).any() or sizes[best_arm] == 0:
            continue
        is_mixture = int((chosen > 0.0).sum()) > 1
        gains.append(gain(samples, chosen, best_arm) if is_mixture else 0.0)
        if not (sizes[weights > 0.0] == 0).any() and sizes[best_alone] > 0:
            refit_gains.append(gain(samples, weights, best_alone))
        ahead: list[Margin] = []
        if is_mixture and testable:
            ahead = margins_over_arms(metric, chosen, samples, guard, [j for j in testable if sizes[j] > 1], clusters)
        none = Margin(best_alone, 0.0, 0.0 if not is_mixture else inf, 0.0, inf)
        margins.append(next((m for m in ahead if m.rival == best_alone), none))
        p_values.append(max((m.p_value for m in ahead), default=1.0))
        guarded_p_values.append(max((1.0 if m.guarded is None else m.guarded.p_value for m in ahead), default=1.0))
    if not gains:
        return _CrossFit(0.0, [], [], 0)
    bias = 0.0
    if refit_gains:  # bias is of order 1/n: that on all rewards follows from that on some; it is only ever taken off
        apparent = gain(problem.samples, weights, best_alone)
        bias = (float(np.mean(refit_gains)) - apparent) / (1.0 - measuring)
    held_out = float(np.mean(gains)) - max(bias, 0.0)
    if not np.median(gains) > 0.0:  # most divisions gain nothing
        held_out = min(held_out, 0.0)
    return _CrossFit(held_out, p_values, guarded_p_values, len(gains), margins)


def approximate_best_mixture_and_arm(metric: Distortion, samples: Sequence[Sample]) -> tuple[FloatArray, int]:
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
        best = oracle(metric, Bandit([atoms_of_thinned_sample(samples[k], 2) for k in present]))
        weights = _scatter_weights(best.weights, present, count)
    elif metric.shape == "concave":
        pool = SurvivalTable.from_atoms(
            [
                atoms_of_thinned_sample(samples[k], max(_CONCAVE_POINTS // max(len(present) // 20, 1), 16))
                for k in present
            ]
        )
        start = np.full(len(present), 1.0 / len(present))
        scale = max(float(np.abs(alone[present]).max()), 1e-12 * float(pool.cell_widths.sum()), 1e-300)
        found = maximise_concave(metric, pool, start, accuracy=1e-3, scale=scale)
        weights = _scatter_weights(found.weights, present, count)
    else:
        candidates = sorted(present, key=lambda k: -alone[k])[:_MOST_SEARCH_ARMS]
        grid = start_mixtures(len(candidates))
        pool = SurvivalTable.from_atoms([atoms_of_thinned_sample(samples[k], _SEARCH_POINTS) for k in candidates])
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


def pairs_told_apart(metric: Distortion, problem: Problem, found: Evidence, alpha: float) -> list[tuple[int, int]]:
    """All pairs of single arms (better, worse) that differ beyond chance, with Holm's rule over all compared pairs.

    None are looked at if a mixture is best, if the metric jumps, or if there are too few or too many arms.
    """
    compared = [k for k in np.argsort(-found.arm_utilities).tolist() if k not in {*found.few, *found.left_out}]
    if found.is_mixture or metric.jumps or not 2 < len(compared) <= _MOST_ARMS_IN_PAIRS:
        return []
    pairs, p_values = [], []
    for place, k in enumerate(compared[:-1]):
        alone, rivals = unit_vector(len(problem.samples), k), compared[place + 1 :]
        for margin in margins_over_arms(metric, alone, problem.samples, problem.guard, rivals, problem.clusters):
            pairs.append((k, margin.rival))
            p_values.append(2.0 * margin.p_value)
    return [pair for pair, yes in zip(pairs, holm_rejections(p_values, alpha).tolist(), strict=True) if yes]


def holm_rejections(p_values: Sequence[float], alpha: float) -> NDArray[np.bool_]:
    """Which hypotheses Holm's procedure rejects at family-wise error rate alpha, from their p-values."""
    order = np.argsort(p_values, kind="stable")
    out = np.zeros(len(p_values), dtype=bool)
    for rank, k in enumerate(order.tolist()):
        if p_values[k] > alpha / (len(p_values) - rank):
            break
        out[k] = True
    return out


def atoms_of_thinned_sample(sample: Sample, most: int) -> Atoms:
    """A sample as a distribution with at most so many atoms."""
    x, p, _ = coarsen_points(sample.x, sample.p, most)
    return Atoms(x, p / p.sum())


def _scatter_weights(shares: FloatArray, places: Sequence[int], count: int) -> FloatArray:
    out = np.zeros(count)
    out[list(places)] = shares
    return out
