"""The product of the martingales of arms that pay 0 or 1, slowly: reward by reward, and the worst regret on a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

PARTS = ((0.4, 4.0), (0.38, 32.0), (0.16, 256.0), (0.06, 4096.0))  # weights and ν


def martingale(rewards: Sequence[int], p: float, weight_of_one: float) -> float:
    """M after these rewards: each part bets on the next reward as a mixture of coins would."""
    total = weight_of_one
    for weight, size in PARTS:
        money, ones = (1 - weight_of_one) * weight, 0
        for n, x in enumerate(rewards):
            chance = (ones + size * p) / (n + size)
            money *= chance / p if x else (1 - chance) / (1 - p)
            ones += x
        total += money
    return total


def log_martingale_on_grid(ones: int, n: int, p: Any, weight_of_one: float) -> Any:
    """ln M at many chances, by sums of logarithms."""
    zeros, out = n - ones, [np.full(p.shape, math.log(weight_of_one)) if weight_of_one else np.full(p.shape, -np.inf)]
    for weight, size in PARTS:
        total = np.full(p.shape, math.log(weight * (1 - weight_of_one)))
        total += sum((np.log1p(s / (size * p)) for s in range(ones)), start=np.zeros(p.shape))
        total += sum((np.log1p(s / (size * (1 - p))) for s in range(zeros)), start=np.zeros(p.shape))
        out.append(total - sum(math.log1p(s / size) for s in range(n)))
    return np.logaddexp.reduce(out)


def worst_on_grid(
    metric: Any, ones: Sequence[int], n: Sequence[int], mix: Any, delta: float, weight_of_one: float, points: int
) -> tuple[float, float, float, float]:
    """Least and largest utility of the mixture, largest of any mixture, and regret, over all chances on a grid."""
    grid = (np.arange(points) + 0.5) / points
    costs = [log_martingale_on_grid(k, m, grid, weight_of_one) for k, m in zip(ones, n, strict=True)]
    total = sum(np.ix_(*costs))
    inside = np.argwhere(total < math.log(1 / delta))
    chances = grid[inside]
    own = np.asarray(metric(chances @ np.asarray(mix)))
    best = np.empty(own.size)
    h = np.asarray(metric(grid))
    low, high = inside.min(axis=1), inside.max(axis=1)
    for i in np.unique(low):
        top = np.maximum.accumulate(h[i:])
        best[low == i] = top[high[low == i] - i]
    return float(own.min()), float(own.max()), float(best.max()), float((best - own).max())
