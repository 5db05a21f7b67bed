"""Checks of what the advice rests on: heavy tails, drift, and preferences that look at the wrong end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import ndtr

from pmbandits._check import FloatArray
from pmbandits.logs import Log, Sample
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Heavy, Support

_LEAST = 40  # rewards from which on tails are looked at
_UNEVEN = 0.3  # the shape of excesses (0 for an exponential law, 0.5 where there is no variance)
_NO_AVERAGE = 1.25  # a tail exponent below this: there may be no average at all
_DRIFT = 0.01  # the probability of a false alarm of drift


@dataclass(frozen=True)
class Tail:
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
    def no_average(self) -> bool:
        """Whether there may be no average at all."""
        return self.exponent < _NO_AVERAGE


def heavy_tails(samples: Sequence[Sample]) -> list[Tail]:
    """Tails in which a variance cannot be relied on.

    Two estimators must agree: Hill's exponent is below 2 beyond a standard error, and the excesses are more uneven (by
    their second L-moment) than those of any law with a variance; Hill alone mistakes an exponential law cut short.
    """
    out = []
    for k, sample in enumerate(samples):
        if sample.n < _LEAST:
            continue
        for upper in (True, False):
            exponent, shape, used = _tail(sample, upper)
            if used and exponent * (1.0 + 1.0 / sqrt(used)) < 2.0 and shape > _UNEVEN:
                out.append(Tail(k, upper, exponent))
    return out


def _tail(sample: Sample, upper: bool) -> tuple[float, float, int]:
    """Hill's exponent and Hosking's shape of the furthest rewards from the median; and of how many they are made."""
    x, counts = (sample.x, sample.p * sample.n) if upper else (-sample.x[::-1], sample.p[::-1] * sample.n)
    total = np.cumsum(counts)
    middle = float(x[np.searchsorted(total, 0.5 * total[-1])])
    beyond = float(counts[x > middle].sum())
    furthest = min(max(10.0, 0.05 * sample.n), 0.5 * beyond)
    at = int(np.searchsorted(total, total[-1] - furthest))
    start, far, mass = float(x[at]) - middle, x[at + 1 :] - middle, counts[at + 1 :]
    used = float(mass.sum())
    if start <= 0.0 or far.size < 5 or used < 8.0:
        return np.inf, 0.0, 0
    mean = float(mass @ np.log(far / start)) / used
    rank = (np.cumsum(mass) - 0.5 * mass - 0.5) / (used - 1.0)
    first = float(mass @ (far - start)) / used
    second = 2.0 * float(mass @ (rank * (far - start))) / used - first
    return (1.0 / mean if mean > 0.0 else np.inf), (2.0 - first / second if second > 0.0 else 0.0), int(used)


def minds(metric: Distortion, upper: bool) -> bool:
    """Whether a preference looks at the very largest (or smallest) rewards."""
    u = 1e-9
    with np.errstate(all="ignore"):
        change = metric(u) if upper else metric(1.0) - metric(1.0 - u)
    return abs(float(change)) > 1e-6 * u


def broken(support: Support, samples: Sequence[Sample]) -> bool:
    """Whether rewards speak against a declared moment: that of an arm is beyond the bound in the data."""
    if not isinstance(support, Heavy):
        return False
    return any(float(np.abs(s.x) ** support.order @ s.p) > support.bound for s in samples)


def vertical(metric: Distortion) -> bool:
    """Whether a preference counts rewards the more, without limit, the rarer they are."""
    with np.errstate(all="ignore"):
        ends = [abs(float(metric(u))) / u for u in (1e-6, 1e-12)]
        ends += [abs(float(metric(1.0) - metric(1.0 - u))) / u for u in (1e-6, 1e-9)]
    return ends[1] > 10.0 * max(ends[0], 1.0) or ends[3] > 10.0 * max(ends[2], 1.0)


SAFE = {  # which tails are heavy: what does not look there, in the order in which it is proposed
    (True, False): ("var(0.5)", "inter_quantile_range", "lower_cvar(0.1)", "lower_cvar(0.9)", "lower_cvar(0.98)"),
    (False, True): ("var(0.5)", "inter_quantile_range", "cvar(0.9)", "cvar(0.1)", "cvar(0.02)"),
    (True, True): ("var(0.5)", "inter_quantile_range"),
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


def drifts(log: Log) -> list[Drift]:
    """Arms whose rewards rise, fall or otherwise change with time, by ranks; few false alarms over all arms at once."""
    rows = log.kept
    if rows is None or rows.time is None:
        return []
    out = []
    for k in range(len(log.arms)):
        mine = np.flatnonzero((rows.arm == k) & np.isfinite(rows.time))
        if mine.size < 24:
            continue
        mine = mine[np.argsort(rows.time[mine], kind="stable")]
        reward = rows.reward[mine]
        chance = 2.0 * min(_trend(reward), _bend(reward))
        if chance < _DRIFT / len(log.arms):
            third = mine.size // 3
            out.append(Drift(k, float(reward[:third].mean()), float(reward[-third:].mean())))
    return out


def _trend(rewards: FloatArray) -> float:
    """Two-sided chance of such a rank correlation with time."""
    from scipy.stats import rankdata

    rank = rankdata(rewards)
    n = rewards.size
    spread = float(rank.std())
    if spread == 0.0:
        return 1.0
    time = np.arange(n) - 0.5 * (n - 1)
    z = float(time @ (rank - rank.mean())) / (float(np.sqrt(time @ time)) * spread)
    return 2.0 * float(ndtr(-abs(z)))


def _bend(rewards: FloatArray) -> float:
    """Two-sided chance of such a difference between the middle third and the two others, by ranks."""
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
    return 2.0 * float(ndtr(-abs(z)))


def wrong_tail(metric: Distortion, loss: bool, negative: bool) -> str:
    """A sentence where losses meet a preference that looks at the best rewards only; empty if there is no trap."""
    if not (loss or negative):
        return ""
    meant = _other_tail(metric)
    if meant is None:
        return ""
    said = "The numbers are losses" if loss else "The rewards are losses written as negative numbers"
    return (
        f"{said}, but {metric!r} looks at the best outcomes only (here the smallest losses) and is blind to the worst. "
        f"If you mean the worst outcomes, such as the largest losses, ask for {meant}."
    )


def _other_tail(metric: Distortion) -> str | None:
    """What is meant where a preference for the best rewards is asked for, and the worst ones are of interest."""
    from pmbandits.metrics.families import PHT, CVaR, DualPower, LowerCVaR, Mean, VaR, WangTransform

    if isinstance(metric, CVaR):
        return repr(LowerCVaR(round(1.0 - metric.c, 12)))
    if isinstance(metric, VaR) and metric.c > 0.5:
        return repr(VaR(round(1.0 - metric.c, 12)))
    if isinstance(metric, WangTransform) and metric.shift > 0.0:
        return repr(WangTransform(-metric.shift))
    if isinstance(metric, (PHT, DualPower)):
        return repr(LowerCVaR(0.1))
    if len(metric.terms) == 1:
        return None
    terms = [_other_tail(part) for weight, part in metric.terms if weight > 0.0 and not isinstance(part, Mean)]
    return next((f"the same with {meant}" for meant in terms if meant), None)
