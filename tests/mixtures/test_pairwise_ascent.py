"""The quick maximiser: segments, and limits on groups with more vertices than could be listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits._validation import FloatArray, IntArray
from pmbandits.mixtures._pairwise_ascent import GRADIENT, pairwise_ascent_in_place
from pmbandits.state.compile import kernel
from pmbandits.state.linking import make_pointer_getter, shared
from pmbandits.state.numba_types import unpack


@shared(GRADIENT)
def nearness_gradient(s: Any, a: FloatArray, radius: FloatArray, slope_step: float, out: FloatArray) -> None:
    """The gradient of −½|a − radius|²: its maximum is the nearest point to ``radius``."""
    for i in range(a.size):
        out[i] = radius[i] - a[i]


nearness = make_pointer_getter(nearness_gradient)


@kernel
def nearest(
    memory: int, a: FloatArray, low: FloatArray, high: FloatArray, segment_of: IntArray, target: FloatArray
) -> float:
    return pairwise_ascent_in_place(unpack(memory), nearness(), a, low, high, segment_of, target, 1e-9, 1e-12, 4000)


def projection(x: FloatArray, low: FloatArray, high: FloatArray, total: float) -> FloatArray:
    """The nearest point of the box that adds up to a total, by bisection of what is taken off every number."""
    lo, hi = (x - high).min(), (x - low).max()
    for _ in range(200):
        middle = 0.5 * (lo + hi)
        lo, hi = (middle, hi) if np.clip(x - middle, low, high).sum() > total else (lo, middle)
    return np.asarray(np.clip(x - lo, low, high))


@pytest.mark.parametrize("segments", [1, 2, 5])
def test_weight_moves_within_each_segment(segments: int) -> None:
    """Segments of any size; each keeps the sum that it has at the start."""
    policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    rng = np.random.default_rng(segments)
    for _ in range(10):
        sizes = rng.integers(1, 8, segments)
        k, ends = int(sizes.sum()), np.cumsum(sizes)
        target, low, high = rng.normal(size=k), rng.random(k) * 0.1, 0.3 + 0.7 * rng.random(k)
        parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        totals = [rng.uniform(low[p].sum(), high[p].sum()) for p in parts] if segments > 1 else [1.0]
        if not low.sum() < 1.0 < high.sum():
            high = np.ones(k)
        a = np.concatenate([projection(np.zeros(k)[p], low[p], high[p], n) for p, n in zip(parts, totals, strict=True)])
        gap = nearest(policy._memory.address, a, low, high, np.repeat(np.arange(segments), sizes), target)
        assert gap <= 1e-10
        for p, total in zip(parts, totals, strict=True):
            assert a[p] == pytest.approx(projection(target[p], low[p], high[p], total), abs=1e-5)


@pytest.mark.parametrize(
    ("groups", "size"), [(4, 3), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((7, 4), (13, 2), (4, 10)))]
)
@pytest.mark.parametrize("cls", [pmb.Track, pmb.Vet])
def test_limits_on_many_groups_reach_what_the_oracle_finds(cls: Any, groups: int, size: int) -> None:
    rng, k = np.random.default_rng(groups), groups * size
    names = [f"a{i}" for i in range(k)]
    text = "; ".join(
        f"{' + '.join(names[g * size : (g + 1) * size])} {'<= ' + str(1.3 / groups)}" for g in range(groups)
    )
    data = {name: rng.beta(*rng.uniform(0.5, 3.0, 2), 12).round(3) for name in names}
    policy = cls(pmb.GiniDeviation(), names=names, support=pmb.Interval(0, 1), shares=text)
    for name, rewards in data.items():
        policy.tell(name, rewards.tolist())
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit.from_samples(data), shares=text)
    found = pmb.utility(pmb.GiniDeviation(), pmb.Bandit.from_samples(data), policy.mixture)
    total = policy.mixture.reshape(groups, size).sum(axis=1)
    assert total.max() <= 1.3 / groups + 1e-9
    assert best.value - 0.01 * 0.25 / np.sqrt(12 * k) <= found <= best.value + 1e-9
