"""The best mixture of known arms by other means: another quadrature, other optimisers, h typed again.

Nothing here imports the package. Curves come straight from scipy.stats, on a fixed grid between quantiles of all arms
(Gauss–Legendre in x, or in the logarithm of the distance far out). The search is exponentiated gradient ascent with
numerical slopes from several starts, then exchanges between pairs. It proves nothing, it only tries to do better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

LEVELS = 10.0 ** -np.array([290, 230, 180, 140, 110, 85, 65, 50, 40, 32, 25, 20, 16, 13, 10, 8, 6.5, 5, 4, 3, 2.3, 1.7])
LEVELS = np.concatenate((LEVELS, [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]))
NODES, WEIGHTS = np.polynomial.legendre.leggauss(9)

H = Callable[[np.ndarray, np.ndarray], np.ndarray]


def distortion(name: str, *p: float) -> H:
    """h(u, v) with v = 1 − u, typed from the definitions."""

    def tsallis(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        log = np.where(u < 0.5, np.log1p(-np.minimum(u, 0.5)), np.log(np.maximum(v, 1e-320)))  # of v, with all digits
        out = -v * log if p[0] == 1.0 else -v * np.expm1((p[0] - 1.0) * log) / (p[0] - 1.0)
        return np.where(v > 0, out, 0.0)

    def shortfalls(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """min(u/(1−c), 1) − max(0, (u−c)/(1−c)), from the smaller of u and v."""
        return np.minimum(np.minimum(u, v) / (1 - p[0]), 1.0)  # for c ≥ ½

    def wang(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        z = np.where(u < 0.5, ndtri(np.minimum(u, 0.5)), -ndtri(np.minimum(v, 0.5)))
        return ndtr(z + p[0])

    def shortfall(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        w = np.minimum(u / (1 - p[0]), 1.0)
        return w + 2 * p[1] * w * (1 - w)

    def inverted(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        depth = np.where(u < 0.5, -np.log(np.maximum(u, 1e-320)), -np.log1p(-np.minimum(v, 0.5)))
        return np.where(u > 0, np.exp(-(depth ** p[0])), 0.0)

    table: dict[str, H] = {
        "mean": lambda u, v: u,
        "gini_deviation": lambda u, v: u * v,
        "wang_right_tail": lambda u, v: np.sqrt(u) * v / (1 + np.sqrt(u)),  # √u − u
        "pht": lambda u, v: u ** p[0],
        "quadratic": lambda u, v: (1 + p[0]) * u - p[0] * u * u,
        "dual_power": lambda u, v: np.where(u < 0.5, -np.expm1(p[0] * np.log1p(-np.minimum(u, 0.5))), 1 - v ** p[0]),
        "upper_cvar": lambda u, v: np.minimum(u / (1 - p[0]), 1.0),
        "lower_cvar": lambda u, v: np.maximum(0.0, (p[0] - v) / p[0]),
        "mean_median_deviation": lambda u, v: np.minimum(u, v),
        "inter_es_range": shortfalls,
        "tsallis_past_entropy": tsallis,
        "wang_transform": wang,
        "gini_shortfall": shortfall,
        "inverted_s": inverted,
        "tversky_kahneman": lambda u, v: u ** p[0] / (u ** p[0] + v ** p[0]) ** (1 / p[0]),
        "var": lambda u, v: (u > 1 - p[0] + 1e-12) * 1.0,
        "inter_quantile_range": lambda u, v: ((u > 1 - p[1] + 1e-12) & (u <= 1 - p[0] + 1e-12)) * 1.0,
    }
    return table[name]


def fall(name: str, *p: float) -> H:
    """h(u) − h(1), typed so that no digit of a small v is lost."""

    def shortfall(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        z = np.maximum(v - p[0], 0.0) / (1 - p[0])
        return -z + 2 * p[1] * z * (1 - z)

    def tversky(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        log = np.where(v < 0.5, np.log1p(-np.minimum(v, 0.5)), np.log(np.maximum(u, 1e-320)))
        out = np.expm1(p[0] * log - np.log1p(v ** p[0] + np.expm1(p[0] * log)) / p[0])
        return np.where(u > 0, out, -1.0)

    def inverted(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        depth = np.where(u < 0.5, -np.log(np.maximum(u, 1e-320)), -np.log1p(-np.minimum(v, 0.5)))
        return np.where(u > 0, np.expm1(-(depth ** p[0])), -1.0)

    table: dict[str, H] = {
        "mean": lambda u, v: -v,
        "pht": lambda u, v: np.where(v < 0.5, np.expm1(p[0] * np.log1p(-np.minimum(v, 0.5))), u ** p[0] - 1),
        "quadratic": lambda u, v: -v * (1 - p[0] * u),
        "dual_power": lambda u, v: -(v ** p[0]),
        "upper_cvar": lambda u, v: -np.maximum(v - p[0], 0.0) / (1 - p[0]),
        "lower_cvar": lambda u, v: -np.minimum(v / p[0], 1.0),
        "wang_transform": lambda u, v: -ndtr(ndtri(v) - p[0]),
        "gini_shortfall": shortfall,
        "inverted_s": inverted,
        "tversky_kahneman": tversky,
        "var": lambda u, v: (u > 1 - p[0] + 1e-12) - 1.0,
    }
    return table.get(name, distortion(name, *p))  # the others have h(1) = 0


def total(*terms: tuple[float, H]) -> H:
    return lambda u, v: sum(weight * h(u, v) for weight, h in terms)  # type: ignore[return-value]


class Problem:
    """Arms, each a frozen scipy distribution or an array of equally likely rewards, on a fixed grid."""

    def __init__(self, h: H, falls: H, arms: Sequence[Any]) -> None:
        self.h, self.falls = h, falls
        ends: set[float] = {0.0}
        for arm in arms:
            if isinstance(arm, np.ndarray):
                ends |= {float(x) for x in arm}
            else:
                points = np.concatenate((arm.ppf(LEVELS), arm.isf(LEVELS), arm.support()))
                ends |= {float(x) for x in points[np.isfinite(points)]}
        edges = np.array(sorted(ends))
        edges = edges[np.append(True, np.diff(edges) > 1e-13 * np.abs(edges[1:]))]
        centre = float(np.median([np.median(a) if isinstance(a, np.ndarray) else a.median() for a in arms]))
        x, w = [], []
        for lo, hi in pairwise(edges):
            near, far = sorted((abs(lo - centre), abs(hi - centre)))
            if near > 0 and far > 2 * near and (lo - centre) * (hi - centre) > 0:
                t0, t1 = math.log(near), math.log(far)
                pieces = np.linspace(t0, t1, 2 + int((t1 - t0) / 1.5))
                for a, b in pairwise(pieces):
                    distance = np.exp(0.5 * (a + b) + 0.5 * (b - a) * NODES)
                    x.append(centre + math.copysign(1, lo - centre) * distance)
                    w.append(0.5 * (b - a) * WEIGHTS * distance)
            else:
                x.append(0.5 * (lo + hi) + 0.5 * (hi - lo) * NODES)
                w.append(0.5 * (hi - lo) * WEIGHTS)
        self.x, self.w = np.concatenate(x), np.concatenate(w)
        self.above = np.array(
            [np.mean(a > self.x[:, None], axis=1) if isinstance(a, np.ndarray) else a.sf(self.x) for a in arms]
        )
        self.below = np.array(
            [np.mean(a <= self.x[:, None], axis=1) if isinstance(a, np.ndarray) else a.cdf(self.x) for a in arms]
        )

    def value(self, weights: np.ndarray) -> float:
        """∫_{x<0} (h(S) − h(1)) dx + ∫_{x>0} h(S) dx."""
        u, v = np.minimum(weights @ self.above, 1.0), np.minimum(weights @ self.below, 1.0)
        with np.errstate(all="ignore"):
            f = np.where(self.x < 0, self.falls(u, v), self.h(u, v))
        return float(self.w @ f)

    def slopes(self, weights: np.ndarray) -> np.ndarray:
        """The derivative towards every arm, by small differences of h."""
        u, v = np.minimum(weights @ self.above, 1.0), np.minimum(weights @ self.below, 1.0)
        step = 1e-5 * np.minimum(u, v)
        with np.errstate(all="ignore"):
            rise = (self.h(u + step, v - step) - self.h(u - step, v + step)) / (2 * step)
        rise = np.nan_to_num(rise, nan=0.0, posinf=0.0, neginf=0.0)
        small = np.where(u < v, self.above, -self.below)
        return small @ (self.w * rise)

    def search(self, starts: Sequence[np.ndarray], steps: int = 60) -> tuple[np.ndarray, float]:
        """The best mixture that is found from the given starts."""
        count = self.above.shape[0]
        best, value = starts[0], -math.inf
        for start in starts:
            a = 0.999 * start + 0.001 / count
            now, rate = self.value(a), 1.0
            for _ in range(steps):
                slope = self.slopes(a)
                slope = slope - a @ slope
                size = float(np.abs(slope).max())
                if size == 0.0 or rate < 1e-9:
                    break
                trial = a * np.exp(np.clip(rate * slope / size, -30, 30))
                trial /= trial.sum()
                then = self.value(trial)
                if then > now:
                    a, now, rate = trial, then, min(1.6 * rate, 20.0)
                else:
                    rate *= 0.4
            if now > value:
                best, value = a, now
        for amount in (0.1, 0.01, 1e-3, 1e-5, 1e-8):
            for i in range(count):
                for j in np.flatnonzero(best > 0):
                    if i != j:
                        trial = best.copy()
                        moved = min(amount, trial[j])
                        trial[j] -= moved
                        trial[i] += moved
                        then = self.value(trial)
                        if then > value:
                            best, value = trial, then
        return best, value
