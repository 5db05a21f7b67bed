"""Evidence with limits on the shares: the corners of what the limits allow take the place of the single arms.

Every mixture that keeps the limits is a mixture of the corners, and each corner is a mixture of arms. So the question
is the same as without limits: is the recommendation ahead of every other corner, beyond chance?
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.advice.evidence import CHOOSING, FEWEST, Evidence, Problem, choose, value_of, values_alone
from pmbandits.advice.scores import MADE_UP, Margin, Scores, between, size
from pmbandits.arms import Bandit
from pmbandits.best import oracle
from pmbandits.best.prices import Price
from pmbandits.limits import Limits
from pmbandits.logs import PARTS, Sample, distinct
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms

_MOST_CORNERS = 64  # with more corners no verdict is given


def gather_limited(metric: Distortion, problem: Problem, limits: Limits) -> tuple[Evidence, dict[str, Price]]:
    """All that the rewards say of one preference within the limits, and what each limit costs in the data."""
    samples, ends, clusters = problem.samples, problem.ends, problem.clusters
    laws = [Atoms(s.x, s.p) for s in samples]
    best = oracle(metric, Bandit(laws, [arm.name for arm in problem.log.arms]), shares=limits)
    weights = np.where(best.weights < 1e-6, 0.0, best.weights)
    weights /= weights.sum()
    used = np.flatnonzero(weights > 0.0)
    apparent = value_of(metric, samples, weights)
    singles = values_alone(metric, samples)
    alone = [Scores(metric, [s], np.ones(1), e) for s, e in zip(samples, ends, strict=True)]
    wide = min(ends[i][0] for i in used), max(ends[i][1] for i in used)
    whole = Scores(metric, [samples[i] for i in used], weights[used], wide, clusters and clusters.only(used.tolist()))
    corners = limits.polytope.corners(_MOST_CORNERS)
    others = [] if corners is None else [c for c in corners if np.abs(c - weights).max() > 1e-6]
    against: list[Margin] = []
    p, value, divisions = 1.0, apparent, 0
    few = tuple(k for k in range(len(samples)) if size(samples, k, clusters) < FEWEST)
    if corners is not None and not few and not metric.jumps:
        against = [between(metric, weights, c, samples, ends, clusters, rival=k) for k, c in enumerate(others)]
        at_corner = len(others) < len(corners)
        value, chances, divisions = _cross_fit(metric, problem, weights, apparent, corners, test=not at_corner)
        if at_corner:
            p = min(2.0 * max((m.p for m in against), default=0.5), 1.0)
        elif chances:
            p = min(2.0 * float(np.median(chances)), 1.0)
    found = Evidence(
        weights=weights,
        singles=singles,
        errors=np.sqrt([one.variance() for one in alone]),
        bends=np.array([one.bend() for one in alone]),
        apparent=apparent,
        apparent_gain=0.0,
        value=value,
        gain=0.0,
        error=sqrt(whole.variance()),
        bend=whole.bend(),
        slack=whole.slack(),
        fewest=min(size(samples, int(i), clusters) for i in used),
        margins=tuple(against),
        p=p,
        by_bands=(),
        few=few,
        divisions=divisions,
    )
    return found, best.prices


def _cross_fit(
    metric: Distortion, problem: Problem, weights: FloatArray, apparent: float, corners: FloatArray, test: bool
) -> tuple[float, list[float], int]:
    """Choose a mixture of the corners on some of the rewards, measure on the others, for several divisions."""
    values, same, chances = [], [], []
    measuring = (PARTS - CHOOSING) / PARTS
    for one, two in problem.divisions():
        choosing, (samples, clusters) = problem.some(one)[0], problem.some(two)
        if min(s.n for s in (*choosing, *samples)) == 0:
            continue
        shares, _ = choose(metric, [_composed(choosing, corner) for corner in corners])
        chosen = np.clip(shares @ corners, 0.0, None)
        values.append(value_of(metric, samples, chosen))
        same.append(value_of(metric, samples, weights))
        if test:
            ahead = [
                between(metric, chosen, c, samples, problem.ends, clusters, rival=k, made_up=measuring * MADE_UP)
                for k, c in enumerate(corners)
            ]
            chances.append(max(m.p for m in ahead))
    if not values:
        return apparent, [], 0
    bias = 0.0 if metric.shape == "linear" else (float(np.mean(same)) - apparent) / (1.0 - measuring)
    return float(np.mean(values)) - bias, chances, len(values)


def _composed(samples: Sequence[Sample], shares: FloatArray) -> Sample:
    """A mixture of arms as one arm."""
    used: list[int] = np.flatnonzero(shares > 0.0).tolist()
    x, p = distinct(
        np.concatenate([samples[k].x for k in used]), np.concatenate([shares[k] * samples[k].p for k in used])
    )
    return Sample(min(samples[k].n for k in used), x, p / p.sum())
