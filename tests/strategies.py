"""Shared by several test files: every metric with ordinary and edge parameters, and hypothesis strategies."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pmbandits.metrics import (
    PHT,
    Distortion,
    DualPower,
    GiniDeviation,
    GiniShortfall,
    InterESRange,
    InterQuantileRange,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    PowerDeviation,
    Quadratic,
    TsallisPastEntropy,
    TverskyKahneman,
    UpperCVaR,
    VaR,
    WangRightTail,
    WangTransform,
)
from pmbandits.metrics.families import FAMILIES

METRICS: list[Distortion] = [
    Mean(),
    *(DualPower(s) for s in (1, 1.3, 2, 3.5, 20)),
    *(Quadratic(s) for s in (0, 0.4, 1)),
    *(UpperCVaR(c) for c in (0, 0.3, 0.9, 0.999)),
    *(PHT(s) for s in (0.1, 0.5, 0.9, 1)),
    MeanMedianDeviation(),
    *(InterESRange(c) for c in (0.2, 0.5, 0.8)),
    WangRightTail(),
    GiniDeviation(),
    *(VaR(c) for c in (0.05, 0.5, 0.9)),
    *(LowerCVaR(a) for a in (0.05, 0.5, 1)),
    *(GiniShortfall(p, loading) for p in (0, 0.6) for loading in (0, 0.3, 0.5, 0.8)),
    *(InterQuantileRange(a, b) for a, b in ((0.25, 0.75), (0.05, 0.3), (0.9, 0.95))),
    *(InvertedS(b) for b in (0.3, 0.7, 1, 1.5, 3)),
    *(TsallisPastEntropy(a) for a in (0.4, 1, 1.5, 2, 4)),
    *(WangTransform(s) for s in (-1.0, 0, 0.5, 2)),
    *(TverskyKahneman(g) for g in (0.28, 0.61, 1)),
    *(PowerDeviation(m, r) for m, r in ((0.75, 1), (1, 1), (1, 0.3), (0.5, 0.5), (0.35, 0.8), (0.2, 1))),
]
METRICS += [cls.example() for cls in FAMILIES if cls not in {type(m) for m in METRICS}]  # new ones come by themselves
ONE_EACH: list[Distortion] = list({m.name: m for m in METRICS[::-1]}.values())[::-1]
SMOOTH = [m for m in METRICS if not m.jumps]


def label(metric: Distortion) -> str:
    """A short test id."""
    return repr(metric).replace(" ", "")


def probability_grid(n: int = 4001) -> list[np.ndarray]:
    """Equally spaced points on [0, 1] and, finer and finer, beside both ends."""
    grids = [np.linspace(0.0, 1.0, n)]
    for width in (1e-2, 1e-4, 1e-6):
        grids += [np.linspace(0.0, width, 401), np.linspace(1.0 - width, 1.0, 401)]
    return grids


def brute_shape(h, tolerance: float = 1e-13) -> str:
    """Shape of h by second differences on equally spaced points."""
    scale = max(1.0, float(np.abs(h(np.linspace(0.0, 1.0, 4001))).max()))
    up = down = False
    for grid in probability_grid():
        bend = np.diff(h(grid), 2)
        up, down = (
            up or bool((bend > tolerance * scale).any()),
            down or bool((bend < -tolerance * scale).any()),
        )
    return "neither" if up and down else "convex" if up else "concave" if down else "linear"


def bends_both_ways_near_zero(h) -> bool:
    """Whether h bends up and down at tiny u, where equally spaced points see nothing; by relative differences."""
    u = np.geomspace(1e-250, 1e-3, 2000)
    around = np.stack([0.9 * u, u, 1.1 * u])
    bend = np.diff(h(around), 2, axis=0)[0]
    size = sum(abs(c) * np.abs(d(around)).max(axis=0) for c, d in h.terms)
    return bool((bend > 1e-10 * size).any() and (bend < -1e-10 * size).any())


def brute_monotonicity(h, tolerance: float = 1e-13) -> str:
    """Direction of h by first differences."""
    up = down = False
    for grid in probability_grid():
        step = np.diff(h(grid))
        up, down = up or bool((step > tolerance).any()), down or bool((step < -tolerance).any())
    return "neither" if up and down else "increasing" if up else "decreasing" if down else "constant"


any_metric = st.sampled_from(METRICS)
smooth_metric = st.sampled_from(SMOOTH)
rewards = st.floats(-100.0, 100.0, allow_subnormal=False).map(lambda x: round(x, 3))
samples = st.lists(rewards, min_size=1, max_size=12)


@st.composite
def weights_of(draw, size: int) -> np.ndarray:
    """Weights on the simplex; some may be 0, never all."""
    raw = np.array(draw(st.lists(st.integers(0, 20), min_size=size, max_size=size)), dtype=float)
    raw[draw(st.integers(0, size - 1))] += 1.0
    return raw / raw.sum()


@st.composite
def weighted_samples(draw, max_size: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Points with weights; ties and zero weights occur."""
    points = np.array(draw(st.lists(rewards, min_size=1, max_size=max_size)))
    return points, draw(weights_of(points.size))
