"""Checks of what the advice rests on: heavy tails, drift, and preferences that look at the wrong end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pmbandits._validation import FloatArray
from pmbandits.logs import Log, Sample
from pmbandits.logs.log import Rows
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Heavy, Interval, Support

_FEWEST_REWARDS = 40  # rewards from which on tails are looked at
_LARGEST_TAIL_INDEX = 0.3  # tail index of excesses (0: exponential distribution, 0.5: infinite variance)
_NO_MEAN_EXPONENT = 1.25  # a tail exponent below this: there may be no average at all
_DRIFT_ALPHA = 0.01  # the probability of a false alarm of drift
_LARGEST_TIME_DISTANCE = 0.3  # between the times of an arm and those of the others, up to which they can be compared
_MOST_UNITS_LEFT_OUT = 500  # units up to which each is left out in turn
_KOLMOGOROV = 1.63  # the 99 % quantile of Kolmogorov's distribution


@dataclass(frozen=True)
class HeavyTail:
    """A tail that is too heavy for standard errors.

    Attributes
    ----------
    arm : its place.
    upper : whether large rewards are meant, or small ones.
    exponent : by Hill's estimator. Below 2 there is no variance, below 1 no average.
    """

    arm: int
    upper: bool
    exponent: float

    @property
    def may_lack_mean(self) -> bool:
        """Whether there may be no average at all."""
        return self.exponent < _NO_MEAN_EXPONENT


def find_heavy_tails(samples: Sequence[Sample]) -> list[HeavyTail]:
    """Tails in which a variance cannot be relied on.

    Two estimators must agree: Hill's exponent is below 2 beyond a standard error, and the excesses are more uneven (by
    their second L-moment) than with any finite variance; Hill alone is misled by a truncated exponential distribution.
    """
    out = []
    for k, sample in enumerate(samples):
        if sample.n < _FEWEST_REWARDS:
            continue
        for upper in (True, False):
            exponent, tail_index, used = _tail_exponent_and_index(sample, upper)
            error = 1.0 / sqrt(max(used, 1))
            if used and exponent * (1.0 + error) < 2.0 and tail_index > _LARGEST_TAIL_INDEX + 0.5 * error:
                out.append(HeavyTail(k, upper, exponent))
    return out


def _tail_exponent_and_index(sample: Sample, upper: bool) -> tuple[float, float, int]:
    """Hill's exponent and Hosking's tail index of the rewards furthest from the median, and how many those are."""
    x, counts = (sample.x, sample.p * sample.n) if upper else (-sample.x[::-1], sample.p[::-1] * sample.n)
    total = np.cumsum(counts)
    middle = float(x[np.searchsorted(total, 0.5 * total[-1])])
    beyond = float(counts[x > middle].sum())
    furthest = min(max(10.0, 0.05 * sample.n), 0.5 * beyond)
    at = int(np.searchsorted(total, total[-1] - furthest))
    start, distance, mass = float(x[at]) - middle, x[at + 1 :] - middle, counts[at + 1 :]
    used = float(mass.sum())
    if start <= 0.0 or distance.size < 5 or used < 8.0:
        return np.inf, 0.0, 0
    mean = float(mass @ np.log(distance / start)) / used
    rank = (np.cumsum(mass) - 0.5 * mass - 0.5) / (used - 1.0)
    first = float(mass @ (distance - start)) / used
    second = 2.0 * float(mass @ (rank * (distance - start))) / used - first
    return (1.0 / mean if mean > 0.0 else np.inf), (2.0 - first / second if second > 0.0 else 0.0), int(used)


def deciding_reward(metric: Distortion, sample: Sample) -> float | None:
    """A single reward on which more than half of the variance of an arm rests, if the metric depends on such rewards.

    >>> import numpy as np
    >>> from pmbandits.metrics import metric
    >>> deciding_reward(metric("mean"), Sample(4, np.array([1.0, 2.0, 99.0]), np.array([0.5, 0.25, 0.25])))
    99.0
    """
    away = (sample.x - sample.x @ sample.p) ** 2
    at = int(np.argmax(away))
    alone = sample.p[at] * sample.n < 1.5 and sample.p[at] * away[at] > 0.5 * float(sample.p @ away)
    if not alone or not depends_on_tail(metric, upper=at > 0):
        return None
    return float(sample.x[at])


def deciding_unit(metric: Distortion, rows: Rows | None, arm: int) -> tuple[float, float] | None:
    """The average of a single unit on which more than half of an arm's jackknife variance rests, and the score without.

    It is ``None`` if there is no such unit, or if every unit has one row only.
    """
    if rows is None or rows.unit is None:
        return None
    mine = rows.arm == arm
    reward, (units, place) = rows.reward[mine], np.unique(rows.unit[mine], return_inverse=True)
    if not 2 < units.size <= _MOST_UNITS_LEFT_OUT or units.size == reward.size:
        return None
    left = [reward[place != u] for u in range(units.size)]
    without = np.array([metric.value(x, np.full(x.size, 1.0 / x.size)) for x in left])
    away = (without - without.mean()) ** 2
    at = int(np.argmax(away))
    if not away[at] > 0.5 * away.sum():
        return None
    return float(reward[place == at].mean()), float(without[at])


def depends_on_tail(metric: Distortion, upper: bool) -> bool:
    """Whether a metric depends on the very largest (or smallest) rewards."""
    u = 1e-9
    with np.errstate(all="ignore"):
        change = metric(u) if upper else metric(1.0) - metric(1.0 - u)
    return abs(float(change)) > 1e-6 * u


def violates_moment_bound(support: Support, samples: Sequence[Sample]) -> bool:
    """Whether the empirical moment of an arm exceeds the bound of a declared heavy-tailed support."""
    if not isinstance(support, Heavy):
        return False
    return any(float(np.abs(s.x) ** support.order @ s.p) > support.bound for s in samples)


def has_infinite_slope_at_ends(metric: Distortion) -> bool:
    """Whether the slope of h is unbounded at 0 or at 1, so that the rarest rewards count without limit."""
    with np.errstate(all="ignore"):
        ends = [abs(float(metric(u))) / u for u in (1e-6, 1e-12)]
        ends += [abs(float(metric(1.0) - metric(1.0 - u))) / u for u in (1e-6, 1e-9)]
    return ends[1] > 10.0 * max(ends[0], 1.0) or ends[3] > 10.0 * max(ends[2], 1.0)


def score_limits_at_zero(support: Support, metric: Distortion) -> tuple[float, float]:
    """Where the score must lie: on one side of 0 for a spread, and for increasing metrics if all rewards do."""
    ordered = isinstance(support, Interval) and metric.monotonicity == "increasing"
    if (float(metric(1.0)) == 0.0 and metric.minimum().value >= 0.0) or (ordered and support.lo >= 0.0):
        return 0.0, inf
    return -inf, 0.0 if ordered and support.hi <= 0.0 else inf


TAIL_ROBUST_METRICS = {  # (upper heavy, lower heavy): metrics that ignore these tails, best proposal first
    (True, False): ("var(0.5)", "lower_cvar(0.9)", "lower_cvar(0.1)", "lower_cvar(0.98)"),
    (False, True): ("var(0.5)", "upper_cvar(0.1)", "upper_cvar(0.9)", "upper_cvar(0.02)"),
    (True, True): ("var(0.5)",),
}


@dataclass(frozen=True)
class Drift:
    """An arm whose rewards changed over time.

    Attributes
    ----------
    arm : its place.
    early, late : its average reward in the first and in the last third of its rows.
    """

    arm: int
    early: float
    late: float


def find_drifts(log: Log) -> list[Drift]:
    """Arms whose rewards rise, fall or otherwise change with time, by ranks; few false alarms over all arms at once."""
    rows = log.kept_rows
    if rows is None or rows.time is None:
        return []
    out = []
    for k in range(len(log.arms)):
        mine = np.flatnonzero((rows.arm == k) & np.isfinite(rows.time))
        if mine.size < 24:
            continue
        mine = mine[np.argsort(rows.time[mine], kind="stable")]
        reward = rows.reward[mine]
        alike = 1.0 if rows.block is None else _serial_design_effect(reward, rows.block[mine])
        p_value = 2.0 * min(_trend_p_value(reward, alike), _middle_third_p_value(reward, alike))
        if p_value < _DRIFT_ALPHA / len(log.arms):
            third = mine.size // 3
            out.append(Drift(k, float(reward[:third].mean()), float(reward[-third:].mean())))
    return out


def arms_apart_in_time(log: Log) -> list[int]:
    """Arms that were not tried at the same time as the others: one after the other, until the rest ran side by side.

    If no two arms did, these are all that are apart at first.

    The distance is Kolmogorov's, between the times of an arm's rows and those of all others. At .3, a change of the
    world that is large enough to pass for a lead is found by :func:`find_drifts` in 19 of 20 cases. Chance is allowed
    for: times drawn at random are called apart less than once in a hundred times.
    """
    rows = log.kept_rows
    if rows is None or rows.time is None or len(log.arms) < 2:
        return []
    known = np.isfinite(rows.time)
    arm, time = rows.arm[known], rows.time[known]
    left = list(range(len(log.arms)))
    apart: list[int] = []
    first: list[int] = []
    while len(left) > 1:
        excess = {k: _time_distance_beyond_chance(time[arm == k], time[np.isin(arm, left) & (arm != k)]) for k in left}
        far = [k for k in left if excess[k] > 0.0]
        if not far:
            return sorted(apart)
        first = first or far
        apart.append(max(far, key=lambda k: excess[k]))
        left.remove(apart[-1])
    return first


def _time_distance_beyond_chance(mine: FloatArray, others: FloatArray) -> float:
    """Kolmogorov's distance between two sets of times, less what is allowed; positive if they are apart."""
    if not mine.size or not others.size:
        return 0.0
    at = np.concatenate((mine, others))
    ours, theirs = (np.searchsorted(np.sort(times), at, side="right") / times.size for times in (mine, others))
    allowed = _LARGEST_TIME_DISTANCE + _KOLMOGOROV * sqrt(1.0 / mine.size + 1.0 / others.size)
    return float(np.abs(ours - theirs).max()) - allowed


def _serial_design_effect(rewards: FloatArray, block_ids: NDArray[np.int64]) -> float:
    """How many rewards count as one because neighbours are alike, as if each depended only on the one before.

    Only neighbours in one block of time are looked at, around the mean of the block, so that drift does not count.
    """
    _, at = np.unique(block_ids, return_inverse=True)
    away = rewards - (np.bincount(at, weights=rewards) / np.bincount(at))[at]
    same = at[1:] == at[:-1]
    power = float(away @ away)
    if power == 0.0:
        return 1.0
    correlation = float((away[1:] * away[:-1])[same].sum()) / power * away.size / max(int(same.sum()), 1)
    correlation = min(max(correlation, 0.0), 0.98)
    return (1.0 + correlation) / (1.0 - correlation)


def _trend_p_value(rewards: FloatArray, alike: float) -> float:
    """Two-sided p-value of the rank correlation of rewards with time; ``alike`` rewards count as one."""
    from scipy.stats import rankdata

    rank = rankdata(rewards)
    n = rewards.size
    spread = float(rank.std())
    if spread == 0.0:
        return 1.0
    time = np.arange(n) - 0.5 * (n - 1)
    z = float(time @ (rank - rank.mean())) / (float(np.sqrt(time @ time)) * spread)
    return 2.0 * float(ndtr(-abs(z) / sqrt(alike)))


def _middle_third_p_value(rewards: FloatArray, alike: float) -> float:
    """Two-sided p-value of the difference in ranks between the middle third and the two others."""
    from scipy.stats import rankdata

    rank = rankdata(rewards)
    spread = float(rank.std())
    if spread == 0.0:
        return 1.0
    n = rewards.size
    middle = np.zeros(n, dtype=bool)
    middle[n // 3 : 2 * n // 3] = True
    inside = int(middle.sum())
    z = (rank[middle].mean() - rank[~middle].mean()) / (spread * sqrt(1.0 / inside + 1.0 / (n - inside)))
    return 2.0 * float(ndtr(-abs(z) / sqrt(alike)))


def wrong_tail_warning(metric: Distortion, loss: bool, negative: bool) -> str:
    """A warning if rewards are losses but the metric sees only the best rewards; empty if there is no such trap."""
    if not (loss or negative):
        return ""
    suggestion = opposite_tail_metric(metric)
    if suggestion is None:
        return ""
    said = "The numbers are losses" if loss else "The rewards are losses written as negative numbers"
    return (
        f"{said}, but {metric!r} looks at the best outcomes only (here the smallest losses) and is blind to the worst. "
        f"If you mean the worst outcomes, such as the largest losses, ask for {suggestion}."
    )


def opposite_tail_metric(metric: Distortion) -> str | None:
    """The metric of the worst rewards that corresponds to a metric of the best ones; ``None`` if there is none."""
    from pmbandits.metrics.families import PHT, DualPower, LowerCVaR, Mean, UpperCVaR, VaR, WangTransform

    if isinstance(metric, UpperCVaR):
        return repr(LowerCVaR(round(1.0 - metric.c, 12)))
    if isinstance(metric, VaR) and metric.c > 0.5:
        return repr(VaR(round(1.0 - metric.c, 8)))
    if isinstance(metric, WangTransform) and metric.shift > 0.0:
        return repr(WangTransform(-metric.shift))
    if isinstance(metric, (PHT, DualPower)):
        return repr(LowerCVaR(0.1))
    if len(metric.terms) == 1:
        return None
    terms = [opposite_tail_metric(part) for weight, part in metric.terms if weight > 0.0 and not isinstance(part, Mean)]
    return next((f"the same with {suggestion}" for suggestion in terms if suggestion), None)
