"""Derivative-free search over all mixtures, for metrics that are neither convex nor concave."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.mixtures import etc_grid

_MAX_EXCHANGES = 400
_MAX_STARTS = 16
_MAX_ESCAPES = 6  # from a place that exchanges do not improve
_MANY_ARMS = 12  # arms beyond which a search takes fewer steps

WeightsAndUtility = tuple[FloatArray, float]


def multistart_mixture_search(
    values_at: Callable[[FloatArray], FloatArray], count: int
) -> tuple[WeightsAndUtility, list[WeightsAndUtility], int]:
    """The best mixture that is found, all places where the search ended, and from how many it began."""
    starts = start_mixtures(count)
    chosen = best_points_apart_from_each_other(starts, values_at(starts), _MAX_STARTS)
    if count <= _MANY_ARMS:
        improved = [improve_by_weight_exchanges(values_at, start, 1e-11) for start in chosen]
    else:  # the most promising ones to the end
        rough = sorted(
            (improve_by_weight_exchanges(values_at, start, 1e-2) for start in chosen), key=lambda pair: -pair[1]
        )
        improved = [improve_by_weight_exchanges(values_at, start, 1e-9) for start, _ in rough[:3]] + rough[3:]
    weights, value = max(improved, key=lambda pair: pair[1])
    rng = np.random.default_rng(0)
    for _ in range(_MAX_ESCAPES):  # is there something better around, or anywhere?
        near = 0.7 * weights + 0.3 * rng.dirichlet(np.full(count, 0.3), 300)
        trial = np.vstack((near, rng.dirichlet(np.full(count, 0.5), 300)))
        found = values_at(trial)
        better = np.argsort(-found, kind="stable")[:2]
        again = [improve_by_weight_exchanges(values_at, trial[k], 1e-9) for k in better] if count <= _MANY_ARMS else []
        again += [(trial[k], float(found[k])) for k in better]
        top = max(again, key=lambda pair: pair[1])
        if top[1] <= value + 1e-12 * abs(value):
            break
        weights, value = top
    return (weights, value), improved, len(starts)


def start_mixtures(count: int) -> FloatArray:
    """Mixtures at which a search begins: a grid for few arms; single arms, pairs and random mixtures for many."""
    steps = {2: 2000, 3: 80, 4: 28, 5: 16, 6: 11}.get(count, 0)
    if steps:
        return etc_grid(count, 1.0 / steps)
    eye = np.eye(count)
    i, j = np.triu_indices(count, 1)
    pairs = [share * eye[i] + (1.0 - share) * eye[j] for share in (0.25, 0.5, 0.75)]
    rng = np.random.default_rng(0)
    return np.vstack((eye, *pairs, rng.dirichlet(np.ones(count), 3000), rng.dirichlet(np.full(count, 0.2), 3000)))


def best_points_apart_from_each_other(points: FloatArray, values: FloatArray, count: int) -> list[FloatArray]:
    """The best points that are not neighbours of a better one."""
    chosen: list[FloatArray] = []
    for k in np.argsort(-values, kind="stable"):
        if all(np.abs(points[k] - c).sum() > 0.1 for c in chosen):
            chosen.append(points[k])
            if len(chosen) == count:
                break
    return chosen


def improve_by_weight_exchanges(
    value_of: Callable[[FloatArray], FloatArray], start: FloatArray, finest: float, most: int = _MAX_EXCHANGES
) -> tuple[FloatArray, float]:
    """Improve one mixture: move weight from an arm that has some to another, while that helps.

    For any h. It needs values only, no slopes, and proves nothing: it ends at a mixture that no
    exchange between two arms improves, by any of many amounts: where h jumps, small ones alone would see nothing.
    """
    count = start.size
    eye = np.eye(count)
    amounts = np.array([1.0, 0.5, 0.2, 0.08, 0.03, 0.01])
    best, value = start, float(value_of(start[None])[0])
    for _ in range(most):
        givers = np.flatnonzero(best > 0.0)
        i, j = (pair.ravel() for pair in np.meshgrid(np.arange(count), givers, indexing="ij"))
        i, j = i[i != j], j[i != j]
        if i.size == 0:
            break
        moved = np.unique(np.minimum(amounts[:, None], best[j]), axis=0)
        trial = (best + moved[:, :, None] * (eye[i] - eye[j])).reshape(-1, count)
        values = value_of(trial)
        k = int(np.argmax(values))
        if values[k] > value + 1e-15 * abs(value):
            best, value = np.maximum(trial[k], 0.0), float(values[k])
        else:
            amounts = amounts * 0.3
            if amounts[0] < finest:
                break
    return best / best.sum(), value
