"""What advice is worked out from: rewards, what is known of them, and which of them are independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil, sqrt

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.clusters import Clusters, n_rewards_or_units
from pmbandits.advice.standard_errors import (
    Guard,
    RewardRange,
    UtilityEstimate,
    mixture_utility_estimate,
    pseudo_rewards_for,
)
from pmbandits.logs import N_PARTS, ArmLog, Log, Sample
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Binary, Finite, Heavy, Interval, Real, Support

N_CHOOSING_PARTS = 3  # this many of the eight random parts choose; the others measure
FEWEST_FOR_STANDARD_ERRORS = 20  # rewards of an arm, below which it is compared by its band
FEWEST_UNITS = 4  # units of an arm, below which it is; Student's t allows for few, as it does not for rare rewards
_MOST_WORK = 1_000_000  # points times divisions, beyond which fewer divisions are made


@dataclass(frozen=True)
class Problem:
    """Rewards and what is known of them.

    Attributes
    ----------
    log, support : what was logged, and where rewards lie.
    declared : whether the support was declared, or follows from the kind of rewards.
    splits : how often rewards are divided into those that choose and those that measure.
    alpha : the probability of a wrong verdict on one metric; it decides how many pseudo-rewards there are.
    """

    log: Log
    support: Support
    declared: bool
    splits: int = 16
    alpha: float = 0.05
    samples: tuple[Sample, ...] = field(init=False, repr=False)
    guard: Guard = field(init=False, repr=False)
    clusters: Clusters | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        samples = tuple(arm.whole_sample for arm in self.log.arms)
        object.__setattr__(self, "samples", samples)
        seen = [(float(s.x[0]), float(s.x[-1])) for s in samples]
        ends = _pseudo_reward_ends(samples, self.support)
        object.__setattr__(self, "guard", Guard(ends, seen, pseudo_rewards_for(self.alpha), self.declared, self.alpha))
        rows, clusters = self.log.kept_rows, None
        if rows is not None and rows.cluster_of_each_row is not None:
            clusters = Clusters(rows.arm, rows.reward, rows.cluster_of_each_row)
        object.__setattr__(self, "clusters", clusters)

    def has_too_few_rewards(self, arm: int) -> bool:
        """Whether an arm has too few rewards (or units) for standard errors."""
        fewest = FEWEST_FOR_STANDARD_ERRORS if self.clusters is None else FEWEST_UNITS
        return n_rewards_or_units(self.samples, arm, self.clusters) < fewest

    @property
    def is_bounded(self) -> bool:
        """Whether it was declared between which numbers rewards lie."""
        return self.declared and not isinstance(self.support, (Real, Heavy))

    def select_parts(self, parts: Sequence[int]) -> tuple[list[Sample], Clusters | None]:
        """Samples and clusters of the rewards in some of the random parts."""
        rows, clusters = self.log.kept_rows, None
        if rows is not None and rows.cluster_of_each_row is not None:
            mine = np.isin(rows.part, parts)
            clusters = Clusters(rows.arm[mine], rows.reward[mine], rows.cluster_of_each_row[mine])
        return [arm.select_parts(parts) for arm in self.log.arms], clusters

    def select_arms(self, arms: Sequence[int]) -> Problem:
        """The problem of some of the arms alone."""
        rows = self.log.kept_rows
        if rows is not None:
            rows = rows.select_arms(arms)
        log = replace(self.log, arms=tuple(self.log.arms[k] for k in arms), kept_rows=rows)
        return replace(self, log=log)

    def utility_estimate(self, metric: Distortion, weights: FloatArray) -> UtilityEstimate:
        """The utility of a mixture of all rewards, with its standard error."""
        return mixture_utility_estimate(metric, weights, self.samples, self.guard, self.clusters)

    def cross_fitting_splits(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Several divisions of the parts into those that choose and those that measure.

        They come in groups of eight rotations, in which every part chooses equally often, so that no part counts more.
        """
        triples = [t for t in combinations(range(N_PARTS), N_CHOOSING_PARTS) if t[0] == 0]
        rotations: list[tuple[int, ...]] = []
        for k in np.random.default_rng([0, 1]).permutation(len(triples)):
            if not any(_rotate_parts(triples[k], by) == sorted(other) for other in rotations for by in range(N_PARTS)):
                rotations.append(triples[k])
        work = sum(sample.x.size for sample in self.samples)
        count = max(min(ceil(self.splits / N_PARTS), _MOST_WORK // max(N_PARTS * work, 1), len(rotations)), 1)
        chosen = [tuple(_rotate_parts(triples, by)) for triples in rotations[:count] for by in range(N_PARTS)]
        return [(one, tuple(k for k in range(N_PARTS) if k not in one)) for one in chosen]


def _rotate_parts(parts: Sequence[int], by: int) -> list[int]:
    return sorted((k + by) % N_PARTS for k in parts)


def _pseudo_reward_ends(samples: Sequence[Sample], support: Support) -> tuple[RewardRange, ...]:
    """Where the pseudo-rewards of each arm lie: at the ends of the support.

    For rewards without limits, it is where a reward lies beyond with probability at most 1/n. This follows from the σ
    of sub-Gaussian rewards, or by Markov's inequality from a declared moment. If rewards were seen further out, it is
    these.
    """
    if isinstance(support, Heavy):
        radii = [float((s.n * support.bound) ** (1.0 / support.order)) for s in samples]
        return tuple(
            (min(float(s.x[0]), max(-radius, support.lo)), max(float(s.x[-1]), radius))
            for s, radius in zip(samples, radii, strict=True)
        )
    if not isinstance(support, Real):
        return ((support.lo, support.hi),) * len(samples)
    out = []
    for sample in samples:
        mean, radius = float(sample.x @ sample.p), support.sigma * sqrt(2.0 * np.log(2.0 * sample.n))
        out.append((min(float(sample.x[0]), mean - radius), max(float(sample.x[-1]), mean + radius)))
    return tuple(out)


def make_problem(log: Log, support: Support | None = None, *, loss: bool = False, splits: int = 16) -> Problem:
    """The inference problem of a log: its rewards and their support, which several metrics can share.

    The parameters are those of :func:`advise`.
    """
    assumed = support is None
    if support is None:
        support = _infer_support(log.arms, loss)
        assumed = not isinstance(support, (Binary, Finite))
    else:
        if log.per is not None and isinstance(support, (Binary, Finite)):  # averages lie between them
            support = Interval(support.lo, support.hi)
        support = _validate_support(support, log.arms, loss)
    return Problem(log, support, not assumed, splits)


def _infer_support(arms: Sequence[ArmLog], loss: bool) -> Support:
    lo, hi = min(float(a.x[0]) for a in arms), max(float(a.x[-1]) for a in arms)
    sign = -1.0 if loss else 1.0
    if all(np.isin(sign * a.x, (0.0, 1.0)).all() for a in arms):
        return negated_support(Binary()) if loss else Binary()
    return Interval(lo, hi) if lo < hi else Interval(lo, lo + 1.0)


def _validate_support(support: Support, arms: Sequence[ArmLog], loss: bool) -> Support:
    """The declared support, negated for losses; raises an error if a reward lies outside."""
    if loss:
        least, most = -max(float(a.x[-1]) for a in arms), -min(float(a.x[0]) for a in arms)
        if isinstance(support, Interval) and not support.lo <= least <= most <= support.hi:
            raise ValueError(
                f"losses from {least:g} to {most:g} do not lie within the declared {support!r}; declare a wider one."
            )
        support = negated_support(support)
    for arm in arms:
        points = arm.x if arm.error == 0.0 else arm.x[[0, -1]]
        if not isinstance(support, Finite) or arm.error == 0.0:
            support.check(points)
    return support


def negated_support(support: Support) -> Support:
    """Where rewards lie if their sign is changed."""
    if isinstance(support, Real):
        return support
    if isinstance(support, Heavy):
        return Heavy(support.order, support.bound)
    if isinstance(support, (Binary, Finite)):
        return Binary() if np.array_equal(np.sort(-support.atoms), (0.0, 1.0)) else Finite(-support.atoms)
    return Interval(-support.hi, -support.lo)
