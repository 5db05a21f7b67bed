"""What the rewards say about one preference: the best mixture, what it is worth, and whether its lead is beyond chance.

*Worth.* The best mixture in the data looks better than it is, because it was picked for looking good. So a mixture is
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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, inf, isfinite, nan, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from pmbandits._check import FloatArray
from pmbandits.advice.bands import Bands
from pmbandits.advice.scores import MADE_UP, Clusters, Ends, Margin, Scores, margins, single, size
from pmbandits.arms import Bandit
from pmbandits.best import oracle
from pmbandits.best.concave import maximise_concave
from pmbandits.best.search import starts_of_search
from pmbandits.best.values import values_of
from pmbandits.logs import PARTS, Log, Sample, thin
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms
from pmbandits.metrics.pool import AtomPool
from pmbandits.supports import Binary, Heavy, Real, Support

CHOOSING = 3  # this many of the eight random parts choose; the others measure
TIE = 1e-9  # a mixture that gains less than this share is not one
FEWEST = 20  # rewards (or units) of an arm, below which it is compared by its band
_CHOSEN_ON = 256  # points of an arm on which a mixture is chosen
_SEARCHED_ON = 64  # the same where the choice is a search
_ORACLE = 500  # arms up to which the oracle looks at all of them
_MANY = 12  # arms among which it is searched for
_WORK = 1_000_000  # points times divisions, beyond which fewer divisions are made
_SETTLED = 0.8  # the probability with which "more data" settles the question
_OPEN = 0.3  # the share of the lead's variance that counts when more data are asked for
_SENSIBLE = 100.0  # times as many rewards, beyond which more data is no advice


@dataclass(frozen=True)
class Problem:
    """Rewards and what is known of them.

    Attributes
    ----------
    log, support : what was logged, and where rewards lie.
    declared : whether the support was declared, or follows from the kind of rewards.
    seed, splits : of the divisions into rewards that choose and rewards that measure, and how many.
    """

    log: Log
    support: Support
    declared: bool
    seed: int = 0
    splits: int = 16
    samples: tuple[Sample, ...] = field(init=False, repr=False)
    ends: tuple[Ends, ...] = field(init=False, repr=False)
    clusters: Clusters | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        samples = tuple(arm.all for arm in self.log.arms)
        object.__setattr__(self, "samples", samples)
        object.__setattr__(self, "ends", _ends(samples, self.support))
        rows, clusters = self.log.kept, None
        if rows is not None and rows.unit is not None:
            clusters = Clusters(rows.arm, rows.reward, rows.unit)
        object.__setattr__(self, "clusters", clusters)

    def some(self, parts: Sequence[int]) -> tuple[list[Sample], Clusters | None]:
        """The rewards of some of the random parts."""
        rows, clusters = self.log.kept, None
        if rows is not None and rows.unit is not None:
            mine = np.isin(rows.part, parts)
            clusters = Clusters(rows.arm[mine], rows.reward[mine], rows.unit[mine])
        return [arm.some(parts) for arm in self.log.arms], clusters

    def divisions(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Several divisions of the parts into those that choose and those that measure.

        They come in rounds of eight, in which every part chooses equally often, so that no part counts more.
        """
        three = [t for t in combinations(range(PARTS), CHOOSING) if t[0] == 0]
        rounds: list[tuple[int, ...]] = []
        for k in np.random.default_rng([self.seed, 1]).permutation(len(three)):
            if not any(_turned(three[k], by) == sorted(other) for other in rounds for by in range(PARTS)):
                rounds.append(three[k])
        work = sum(sample.x.size for sample in self.samples)
        count = max(min(ceil(self.splits / PARTS), _WORK // max(PARTS * work, 1), len(rounds)), 1)
        chosen = [tuple(_turned(three, by)) for three in rounds[:count] for by in range(PARTS)]
        return [(one, tuple(k for k in range(PARTS) if k not in one)) for one in chosen]


def _turned(parts: Sequence[int], by: int) -> list[int]:
    return sorted((k + by) % PARTS for k in parts)


def _ends(samples: Sequence[Sample], support: Support) -> tuple[Ends, ...]:
    """Where the made-up rewards of each arm lie: at the ends of the support.

    For rewards without limits, it is where a reward lies beyond with probability at most 1/n. This follows from the σ
    of sub-Gaussian rewards, or by Markov's inequality from a declared moment. If rewards were seen further out, it is
    these.
    """
    if isinstance(support, Heavy):
        far = [float((s.n * support.bound) ** (1.0 / support.order)) for s in samples]
        return tuple(
            (min(float(s.x[0]), max(-away, support.lo)), max(float(s.x[-1]), away))
            for s, away in zip(samples, far, strict=True)
        )
    if not isinstance(support, Real):
        return ((support.lo, support.hi),) * len(samples)
    out = []
    for sample in samples:
        mean, away = float(sample.x @ sample.p), support.sigma * sqrt(2.0 * np.log(2.0 * sample.n))
        out.append((min(float(sample.x[0]), mean - away), max(float(sample.x[-1]), mean + away)))
    return tuple(out)


@dataclass(frozen=True)
class Evidence:
    """What the rewards say of one preference.

    Attributes
    ----------
    weights : the best mixture in the data.
    singles, errors, bends : the utility of each arm in the data, its standard error, and what the bend of h adds.
    apparent, apparent_gain : the utility of the mixture in the data that chose it, and its gain over the best arm.
    value, gain : the same, cross-fitted.
    error, bend : the standard error of the value, and what the bend of h adds to it.
    slack : what corners of h and summaries of the rewards add to it.
    fewest : the rewards of the used arm that has fewest.
    margins : how far the recommendation is ahead of each other arm, on all rewards.
    p : the probability of such a lead over every single arm by chance alone; 1 where nothing speaks for it.
    by_bands, few : the arms that could be compared by their bands only, and those that have too few rewards.
    divisions : of how many splits the value is an average; 0 if an arm has too few rewards to be split.
    """

    weights: FloatArray
    singles: FloatArray
    errors: FloatArray
    bends: FloatArray
    apparent: float
    apparent_gain: float
    value: float
    gain: float
    error: float
    bend: float
    slack: float
    fewest: int
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
    def closest(self) -> Margin | None:
        """The single arm that is hardest to beat."""
        return max(self.margins, key=lambda m: (m.p, -m.gain), default=None)

    def interval(self, level: float) -> tuple[float, float]:
        """An approximate interval for the utility of the recommendation."""
        if self.fewest < 5 or not isfinite(self.error):
            return nan, nan
        times = float(stdtrit(self.fewest - 1.0, 0.5 + 0.5 * level))
        optimism = (
            self.apparent - self.value
        )  # of the second order, as the bend: it counts where first order says nothing
        away = sqrt((times * self.error) ** 2 + (times**2 * self.bend) ** 2 + optimism**2) + self.slack
        return self.value - away, self.value + away

    def more(self, alpha: float) -> float:
        """How many times as many rewards settle the question with probability 0.8, by what is known now; or infinity.

        The true lead is unknown: given the data it lies around the one that was measured. So it is not enough that a
        lead as measured would be seen. That the question is open says that the lead was not measured too large, so
        that part of its error counts; how much was found by simulation (``python -m benchmarks advice``).
        """
        close = [m for m in self.margins if m.gain < 8.0 * m.error] or list(self.margins)
        surely = float(ndtri(1.0 - (1.0 - _SETTLED) / max(len(close), 1)))
        needed = float(ndtri(1.0 - 0.5 * alpha)) * (sqrt(PARTS / (PARTS - CHOOSING)) if self.is_mixture else 1.0)
        optimism = max(self.apparent - self.value, 0.0)
        return max(
            (_factor((m.gain - optimism) / m.error, needed, surely) for m in close if m.error > 0.0), default=inf
        )


def _factor(lead: float, needed: float, surely: float) -> float:
    """The least f with lead − needed/√f ≥ surely·√(0.3 + 1/f), all in standard errors of today."""

    def settled(f: float) -> bool:
        return lead - needed / sqrt(f) >= surely * sqrt(_OPEN + 1.0 / f)

    low, high = 1.0, 2.0 * _SENSIBLE
    if not settled(high):
        return inf
    while high > 1.02 * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high if high <= _SENSIBLE else inf


def gather(metric: Distortion, problem: Problem, alpha: float) -> Evidence:
    """All that the rewards say of one preference; ``alpha`` is the error probability for what only bands can decide."""
    samples, ends, clusters = problem.samples, problem.ends, problem.clusters
    count = len(samples)
    alone = {k: single(metric, samples, ends, k, clusters) for k in range(count)}
    singles = np.array([alone[k].value for k in range(count)])
    errors = np.sqrt([alone[k].variance() for k in range(count)])
    weights = best_mixture(metric, problem, singles)
    used = np.flatnonzero(weights > 0.0)
    apparent = float(singles[used[0]]) if used.size == 1 else value_of(metric, samples, weights)
    rivals = [j for j in range(count) if weights[j] < 1.0]
    whole = Scores(
        metric,
        [samples[i] for i in used],
        weights[used],
        (min(ends[i][0] for i in used), max(ends[i][1] for i in used)),
        clusters and clusters.only(used.tolist()),
    )
    few = {k for k in range(count) if size(samples, k, clusters) < FEWEST}
    by_bands = list(rivals) if metric.jumps or few & set(used.tolist()) else [j for j in rivals if j in few]
    testable = [j for j in rivals if j not in set(by_bands)]
    against = tuple(margins(metric, weights, samples, ends, testable, clusters, alone)) if testable else ()
    crossed = _cross_fit(metric, problem, weights, apparent, singles, used.size > 1, testable)
    value, gain = crossed.value, crossed.gain
    p = 1.0
    if rivals:
        if used.size == 1:
            p = min(2.0 * max((m.p for m in against), default=0.0), 1.0)
        elif testable:
            p = min(2.0 * float(np.median(crossed.chances)), 1.0) if crossed.chances else 1.0
        else:
            p = 0.0
        if by_bands and p <= alpha:
            inside = Bands(metric, samples, problem.support, 1.0 - alpha)
            beaten = all(inside.difference(weights, j)[0] > 0.0 for j in by_bands)
            p = max(p, alpha) if beaten else 1.0
    return Evidence(
        weights=weights,
        singles=singles,
        errors=errors,
        bends=np.array([alone[k].bend() for k in range(count)]),
        apparent=apparent,
        apparent_gain=apparent - float(singles.max()) if used.size > 1 else 0.0,
        value=value,
        gain=gain if used.size > 1 else 0.0,
        error=sqrt(whole.variance()),
        bend=whole.bend(),
        slack=whole.slack(),
        fewest=min(size(samples, int(i), clusters) for i in used),
        margins=against,
        p=p,
        by_bands=tuple(by_bands),
        few=tuple(sorted(few)),
        divisions=crossed.divisions,
    )


def best_mixture(metric: Distortion, problem: Problem, singles: FloatArray) -> FloatArray:
    """The best mixture of all rewards."""
    count = singles.size
    top = _one(count, int(np.argmax(singles)))
    if count == 1 or metric.shape in ("convex", "linear"):
        return top
    most = 1_024 if metric.shape == "neither" else 1 << 20
    laws = [_law(sample, most) for sample in problem.samples]
    if count > _ORACLE:  # few arms at a time; of those that are searched among, the best alone
        return choose(metric, problem.samples)[0]
    best = oracle(metric, Bandit(laws, [arm.name for arm in problem.log.arms], support=_wide(problem.support)))
    weights = np.where(best.weights < 1e-6, 0.0, best.weights)
    weights /= weights.sum()
    if best.gain <= TIE * max(abs(best.value), abs(best.best_arm_value)):
        return top
    return weights


def _wide(support: Support) -> Support | None:
    """Thinned rewards lie between atoms, so only the others are held against a finite support."""
    return support if isinstance(support, (Binary, Real, Heavy)) else None


@dataclass
class _Crossed:
    value: float
    gain: float
    chances: list[float]
    divisions: int


def _cross_fit(
    metric: Distortion,
    problem: Problem,
    weights: FloatArray,
    apparent: float,
    singles: FloatArray,
    mixture: bool,
    testable: Sequence[int],
) -> _Crossed:
    """Choose on some of the rewards, measure on the others, for several divisions."""
    count = weights.size
    best_alone = int(np.argmax(singles))
    values, gains, same, same_alone, chances = [], [], [], [], []
    measuring = (PARTS - CHOOSING) / PARTS
    for one, two in problem.divisions():
        chosen, best_arm = choose(metric, problem.some(one)[0])
        samples, clusters = problem.some(two)
        sizes = np.array([s.n for s in samples])
        if (sizes[chosen > 0.0] == 0).any() or sizes[best_arm] == 0:
            continue
        value = value_of(metric, samples, chosen)
        is_mixture = int((chosen > 0.0).sum()) > 1
        one_arm = value_of(metric, samples, _one(count, best_arm)) if is_mixture else value
        values.append(value)
        gains.append(value - one_arm)
        if not (sizes[weights > 0.0] == 0).any() and sizes[best_alone] > 0:
            same.append(value_of(metric, samples, weights))
            same_alone.append(value_of(metric, samples, _one(count, best_alone)))
        if mixture and testable:
            chance = 1.0
            if is_mixture:
                rivals = [j for j in testable if sizes[j] > 1]
                ahead = margins(metric, chosen, samples, problem.ends, rivals, clusters, made_up=measuring * MADE_UP)
                chance = max(m.p for m in ahead)
            chances.append(chance)
    if not values:
        return _Crossed(apparent, 0.0, [], 0)
    bias = alone = 0.0
    if same and metric.shape != "linear":  # of the order 1/n: that of all rewards follows from that of some of them
        bias = (float(np.mean(same)) - apparent) / (1.0 - measuring)
        alone = (float(np.mean(same_alone)) - float(singles[best_alone])) / (1.0 - measuring)
    return _Crossed(float(np.mean(values)) - bias, float(np.mean(gains)) - bias + alone, chances, len(values))


def choose(metric: Distortion, samples: Sequence[Sample]) -> tuple[FloatArray, int]:
    """The best mixture of some of the rewards, and the best single arm; quickly, because it is done many times."""
    there = [k for k, s in enumerate(samples) if s.n]
    count = len(samples)
    alone = np.full(count, -inf)
    alone[there] = values_alone(metric, [samples[k] for k in there])
    best_arm = int(np.argmax(alone))
    top = _one(count, best_arm)
    if len(there) <= 1 or metric.shape in ("convex", "linear"):
        return top, best_arm
    points = np.unique(np.concatenate([samples[k].x[:3] for k in there]))
    if points.size <= 2 and all(samples[k].x.size <= 2 for k in there):
        best = oracle(metric, Bandit([_law(samples[k], 2) for k in there]))
        weights = _spread(best.weights, there, count)
    elif metric.shape == "concave":
        laid = AtomPool([_law(samples[k], max(_CHOSEN_ON // max(len(there) // 20, 1), 16)) for k in there])
        start = np.full(len(there), 1.0 / len(there))
        scale = max(float(np.abs(alone[there]).max()), 1e-12 * float(laid.omega.sum()), 1e-300)
        found, _ = maximise_concave(metric, laid, start, accuracy=1e-3, scale=scale)
        weights = _spread(found, there, count)
    else:
        near = sorted(there, key=lambda k: -alone[k])[:_MANY]
        grid = starts_of_search(len(near))
        values = values_of(metric, AtomPool([_law(samples[k], _SEARCHED_ON) for k in near]), grid)
        weights = _spread(grid[int(np.argmax(values))], near, count)
    weights = np.where(weights < 1e-3, 0.0, weights)
    weights /= weights.sum()
    value = value_of(metric, samples, weights)
    return (weights, best_arm) if value > alone[best_arm] + TIE * abs(value) else (top, best_arm)


def values_alone(metric: Distortion, samples: Sequence[Sample]) -> FloatArray:
    """The utilities of many single arms, in one go."""
    if not samples:
        return np.zeros(0)
    sizes = np.array([s.x.size for s in samples])
    starts = np.cumsum(sizes) - sizes
    x, p = np.concatenate([s.x for s in samples]), np.concatenate([s.p for s in samples])
    total = np.cumsum(p)
    above = 1.0 - (total - np.repeat(total[starts] - p[starts], sizes))
    widths = np.diff(x, append=x[-1])
    widths[starts[1:] - 1] = 0.0  # from the last reward of an arm to the first of the next
    with np.errstate(all="ignore"):
        inside = metric._h(np.clip(above, 0.0, 1.0)) * widths
    return x[starts] * float(metric(1.0)) + np.add.reduceat(inside, starts)


def value_of(metric: Distortion, samples: Sequence[Sample], weights: FloatArray) -> float:
    """The utility of a mixture."""
    used: list[int] = np.flatnonzero(weights > 0.0).tolist()
    if len(used) == 1:
        return metric.value(samples[used[0]].x, samples[used[0]].p)
    x = np.concatenate([samples[k].x for k in used])
    return metric.value(x, np.concatenate([weights[k] * samples[k].p for k in used]))


def holm(chances: Sequence[float], alpha: float) -> NDArray[np.bool_]:
    """Which of several claims can be made at once, such that one or more is wrong with probability at most alpha."""
    order = np.argsort(chances, kind="stable")
    out = np.zeros(len(chances), dtype=bool)
    for rank, k in enumerate(order.tolist()):
        if chances[k] > alpha / (len(chances) - rank):
            break
        out[k] = True
    return out


def _law(sample: Sample, most: int) -> Atoms:
    x, p, _ = thin(sample.x, sample.p, most)
    return Atoms(x, p / p.sum())


def _spread(shares: FloatArray, places: Sequence[int], count: int) -> FloatArray:
    out = np.zeros(count)
    out[list(places)] = shares
    return out


def _one(count: int, at: int) -> FloatArray:
    out = np.zeros(count)
    out[at] = 1.0
    return out
