"""Slow references: empirical laws, confidence radii, optimistic and pessimistic values, brute-force checks.

Typed from the definitions; nothing of the package's own confidence, estimates or policies is imported. A
metric is used through ``metric(u)``, ``maximum``, ``minimum``, ``shape``, ``kinks``, ``jumps``, ``holder``.

Layout everywhere: ``points`` x_0 < … < x_m and ``survival[i, k]`` = share of arm i's rewards above x_k, for
the m cells [x_k, x_{k+1}); on a bounded support x_0 = lo and x_m = hi.
Then U_h = x_0·h(1) + Σ_k (x_{k+1} − x_k)·h(S_k).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import brentq, minimize_scalar

from pmbandits.supports import Binary, Finite, Real
from tests.reference import bands

SHAPES = {"kl": "kl_band", "dkw": "band", "wasserstein": "ball", "paper": "ball"}


def default_kind(support: Any) -> str:
    """What the slow policies take: what the library does, but balls on the line."""
    return "wasserstein" if isinstance(support, Real) else "kl"


# ---- radii ------------------------------------------------------------------------------------------------


class Confidence:
    """The level or radius of one arm as a function of its number of rewards. Without a horizon: anytime."""

    def __init__(
        self,
        kind: str | None,
        support: Any,
        n_arms: int,
        delta: float | None = None,
        horizon: int | None = None,
    ) -> None:
        self.kind = default_kind(support) if kind is None else kind
        self.shape = "interval" if self.kind == "kl" and isinstance(support, Binary) else SHAPES[self.kind]
        if self.kind == "dkw" and isinstance(support, Real):
            raise ValueError(f"{self.kind} needs a bounded support")
        self.support, self.n_arms, self.horizon = support, n_arms, horizon
        self.given = delta
        self.thresholds = len(support.atoms) - 1 if isinstance(support, Binary | Finite) else None
        self.delta = delta if delta is not None else (1.0 / horizon if horizon is not None else 0.05)

    def radius(self, n: int) -> float:
        """kl: the level of kl(p̂, p); dkw: the band's half-width; else: the radius of the Wasserstein ball."""
        if n == 0:
            return 1.0 if self.kind == "dkw" else math.inf
        if self.kind == "kl":  # with a horizon, too: only δ is another
            each = self.delta if self.horizon is not None else self.delta / self.n_arms
            if isinstance(self.support, Real):  # a quarter is for the mean
                return bands.depth_everywhere(n, 0.75 * each) / n
            if self.thresholds is None:
                return bands.depth_everywhere(n, each) / n
            return math.log(2 * math.sqrt(n) * self.thresholds / each) / n
        if self.horizon is not None:
            return self._fixed(n, self.horizon)
        return self._anytime(n)

    def _fixed(self, n: int, horizon: int) -> float:
        each = self.delta / horizon
        if self.kind == "dkw":
            return math.sqrt(math.log(2 / each) / (2 * n))
        if self.kind == "wasserstein":
            return wasserstein_radius(self.support, n, each, math.sqrt(math.log(2 / each) / (2 * n)))
        # for each n the share δ/T, with δ = 2/T unless given; times σ for arms that are wider than 1-sub-Gaussian
        share = 2 / horizon**2 if self.given is None else self.given / horizon
        return self.sigma() * 16 * (math.sqrt(math.e * math.log(2 / share)) + 32) / math.sqrt(n)

    def sigma(self) -> float:
        """How many times wider than 1-sub-Gaussian the arms can be."""
        wide = self.support.sigma if isinstance(self.support, Real) else (self.support.hi - self.support.lo) / 2
        return max(wide, 1.0)

    def _anytime(self, n: int) -> float:
        arm = self.delta / self.n_arms
        if self.kind == "dkw":
            return 0.85 * math.sqrt((math.log(1 + math.log(n)) + howard_ramdas(arm)) / n)
        if self.kind == "wasserstein":
            band = 0.85 * math.sqrt((math.log(1 + math.log(n)) + howard_ramdas(arm)) / n)
            epoch = 0  # of the line: 1.1^epoch ≤ n < 1.1^(epoch + 1)
            while 1.1 ** (epoch + 1) <= n * (1 + 1e-12):
                epoch += 1
            first = min(math.ceil(1.1**epoch * (1 - 1e-12)), n) if isinstance(self.support, Real) else n
            return wasserstein_radius(self.support, first, arm / ((epoch + 1) * (epoch + 2)), band)
        delta_k = (1 + self.delta) ** (1 / self.n_arms) - 1
        return self.sigma() * 16 * (math.sqrt(math.e * math.log(2 / delta_k)) + 32) / math.sqrt(n)


def wasserstein_radius(support: Any, n: int, delta: float, band: float) -> float:
    if isinstance(support, Real):
        return (2.5125 * support.sigma + 2 * support.sigma * math.sqrt(math.log(1 / delta))) / math.sqrt(n)
    return (support.hi - support.lo) * min(band, 1.0)


@cache
def howard_ramdas(delta: float) -> float:
    """The smallest C with inf_η 4·exp(−γ²C)·(1 + 1/((γ²−1)·ln η)) ≤ δ; γ = √(2/η)(0.85 − √(2(η−1)/C)) > 1."""

    def log_bound(eta: float, c: float) -> float:
        gamma = math.sqrt(2 / eta) * (0.85 - math.sqrt(2 * (eta - 1) / c))
        if gamma <= 1:
            return math.inf
        return math.log(4) - gamma**2 * c + math.log1p(1 / ((gamma**2 - 1) * math.log(eta)))

    def infimum(c: float) -> float:
        etas = 1 + np.geomspace(1e-9, 2 * 0.85**2 - 1, 2001)[:-1]
        values = [log_bound(float(eta), c) for eta in etas]
        k = int(np.argmin(values))
        if not math.isfinite(values[k]):
            return 1e9
        bracket = (etas[max(k - 1, 0)], etas[min(k + 1, etas.size - 1)])
        polished = minimize_scalar(log_bound, args=(c,), bounds=bracket, method="bounded", options={"xatol": 1e-13})
        return float(min(values[k], polished.fun))

    return float(brentq(lambda c: infimum(c) - math.log(delta), 1.0, 1000.0, xtol=1e-12))


def bernoulli_kl(p: float, q: float) -> float:
    if (p > 0 and q <= 0) or (p < 1 and q >= 1):
        return math.inf
    return (p * math.log(p / q) if p > 0 else 0.0) + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def kl_interval(mean: float, level: float) -> tuple[float, float]:
    """{p : kl(mean, p) ≤ level}, by bisection."""

    def edge(inside: float, outside: float) -> float:
        if bernoulli_kl(mean, outside) <= level:
            return outside
        for _ in range(100):
            middle = (inside + outside) / 2
            if bernoulli_kl(mean, middle) <= level:
                inside = middle
            else:
                outside = middle
        return inside

    return edge(mean, 0.0), edge(mean, 1.0)


# ---- empirical laws ---------------------------------------------------------------------------------------


def distributions(support: Any, rewards: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """points and survival; an arm without rewards is a point mass at lo (at 0 on the line)."""
    low = 0.0 if isinstance(support, Real) else support.lo
    arms = [np.asarray(r if len(r) else [low], dtype=float) for r in rewards]
    if isinstance(support, Binary | Finite):
        points = np.asarray(support.atoms, dtype=float)
    elif isinstance(support, Real):
        points = np.unique(np.concatenate(arms))
    else:
        points = np.unique(np.concatenate([*arms, [support.lo, support.hi]]))
    survival = np.array([1 - np.searchsorted(np.sort(x), points[:-1], side="right") / x.size for x in arms])
    return points, survival


def mix(grid: np.ndarray, survival: np.ndarray) -> np.ndarray:
    """Survival of each mixture; a sum near 1 is taken as 1 minus the rest, so that it can be exactly 1."""
    up, down = grid @ survival, grid @ (1 - survival)
    return np.clip(np.where(down < 0.5, 1 - down, up), 0, 1)


def utilities(metric: Any, points: np.ndarray, survival: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """U_h of the mixture of empirical laws, for each row of the grid."""
    return points[0] * metric(1.0) + metric(mix(grid, survival)) @ np.diff(points)


def utility_loop(metric: Any, support: Any, rewards: Sequence[Sequence[float]], weights: Sequence[float]) -> float:
    """The same for one mixture, over the sorted pooled atoms one by one."""
    low = 0.0 if isinstance(support, Real) else support.lo
    atoms: dict[float, float] = {}
    for arm, weight in zip(rewards, weights, strict=True):
        for x in arm or [low]:
            atoms[x] = atoms.get(x, 0.0) + weight / len(arm or [low])
    places = sorted(x for x in atoms if atoms[x] > 0)
    total = places[0] * metric(1.0)
    for k in range(1, len(places)):
        survival = math.fsum(atoms[x] for x in places[k:])
        total += (places[k] - places[k - 1]) * metric(min(survival, 1.0))
    return total


# ---- extremes of h ----------------------------------------------------------------------------------------


@cache
def special_points(metric: Any) -> np.ndarray:
    """Where h may have a local extremum inside (0, 1): bends, both sides of jumps, peaks and troughs."""
    u = np.linspace(0, 1, 4001)
    y = metric(u)
    out = [u for u, _ in metric.kinks] + [s for u, _ in metric.jumps for s in (u, u + 2e-12)]
    for k in range(1, u.size - 1):
        a, b = float(u[k - 1]), float(u[k + 1])
        if y[k] >= y[k - 1] and y[k] >= y[k + 1] and max(y[k] - y[k - 1], y[k] - y[k + 1]) > 0:
            out.append(metric.maximum(a, b).at)
        if y[k] <= y[k - 1] and y[k] <= y[k + 1] and min(y[k] - y[k - 1], y[k] - y[k + 1]) < 0:
            out.append(metric.minimum(a, b).at)
    return np.array(sorted({float(p) for p in out if 0 < p < 1}))


def extreme_over(metric: Any, low: np.ndarray, high: np.ndarray, sign: int) -> np.ndarray:
    """max (sign = 1) or min (sign = −1) of h over each [low, high]."""
    out = np.maximum(sign * metric(low), sign * metric(high))
    for point in special_points(metric):
        inside = (low < point) & (point < high)
        out = np.where(inside, np.maximum(out, sign * metric(float(point))), out)
    return sign * out


# ---- optimistic (sign = 1) and pessimistic (sign = −1) values of each mixture -----------------------------


def bounds(
    metric: Any, confidence: Confidence, rewards: Sequence[Sequence[float]], grid: np.ndarray, sign: int
) -> np.ndarray:
    support, radii = confidence.support, np.array([confidence.radius(len(r)) for r in rewards])
    if confidence.shape == "interval":
        edges = np.array(mean_intervals(confidence, rewards))
        low, high = (mix(grid, edges[:, [side]])[:, 0] for side in (0, 1))
        return extreme_over(metric, low, high, sign)
    points, survival = distributions(support, rewards)
    if confidence.shape == "kl_band":
        ends = belts(confidence, rewards, survival)
        low, high = (mix(grid, ends[side]) for side in (0, 1))
        return points[0] * metric(1.0) + extreme_over(metric, low, high, sign) @ np.diff(points)
    if confidence.shape == "band":
        low = mix(grid, np.maximum(survival - radii[:, None], 0))
        high = mix(grid, np.minimum(survival + radii[:, None], 1))
        return points[0] * metric(1.0) + extreme_over(metric, low, high, sign) @ np.diff(points)
    pooled = np.array([sum(a * r for a, r in zip(row, radii, strict=True) if a > 0) for row in grid])
    if isinstance(support, Real):
        pair = metric.holder(support)
        assert pair.q == 1.0
        return utilities(metric, points, survival, grid) + sign * pair.constant * pooled
    mixed = mix(grid, survival)
    return np.array([dual_w1(metric, points, s, r, sign) for s, r in zip(mixed, pooled, strict=True)])


def belts(confidence: Confidence, rewards: Sequence[Sequence[float]], survival: np.ndarray) -> np.ndarray:
    """The least and the largest survival of each arm on each cell."""
    out = np.stack((np.zeros_like(survival), np.ones_like(survival)))
    for i, r in enumerate(rewards):
        if len(r):
            last = confidence.horizon or 2**20
            side = min(64, max(24, int(1.6 * last * confidence.radius(last)) + 1))
            lower, upper = arm_belt(len(r), confidence.radius(len(r)) * len(r), confidence.thresholds is None, side)
            k = np.round(survival[i] * len(r)).astype(int)
            out[0, i], out[1, i] = lower[k], upper[k]
    return out


@lru_cache(maxsize=4096)
def arm_belt(n: int, depth: float, stretched: bool, side: int) -> tuple[np.ndarray, np.ndarray]:
    return bands.belt(n, depth, stretched, side)


def mean_intervals(confidence: Confidence, rewards: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    return [kl_interval(sum(r) / len(r), confidence.radius(len(r))) if r else (0.0, 1.0) for r in rewards]


def w1_radii(confidence: Confidence, rewards: Sequence[Sequence[float]]) -> np.ndarray:
    """How far in W1 an arm may be from its empirical law: the radius of CE-UCB-M's bonus."""
    width = confidence.support.width
    out = []
    edges = mean_intervals(confidence, rewards) if confidence.shape == "interval" else []
    for i, r in enumerate(rewards):
        if not r:
            out.append(width)
        elif confidence.shape == "interval":
            mean = sum(r) / len(r)
            out.append(max(edges[i][1] - mean, mean - edges[i][0]))
        elif confidence.shape == "kl_band":
            points, survival = distributions(confidence.support, [r])
            low, high = belts(confidence, [r], survival)[:, 0]
            out.append(float(np.maximum(high - survival[0], survival[0] - low) @ np.diff(points)))
        elif confidence.shape == "band":
            out.append(width * min(confidence.radius(len(r)), 1.0))
        else:
            out.append(confidence.radius(len(r)))
    return np.array(out)


# ---- Wasserstein ball on a bounded support: the Lagrangian dual -------------------------------------------


@cache
def _dense(metric: Any, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """A dense grid of [0, 1], denser at both ends, with every special point of h; and sign·h on it."""
    end = 0.5 * np.linspace(0, 1, 501) ** 4
    s = np.unique(np.concatenate((np.linspace(0, 1, 2001), end, 1 - end, special_points(metric))))
    return s, sign * metric(s)


def _peaks(metric: Any, sign: int, slope: float) -> np.ndarray:
    """Local maximisers of sign·h(s) + slope·s: those on the dense grid, tops of parabolas through them."""
    s, y = _dense(metric, sign)
    z = y + slope * s
    inner = np.flatnonzero((z[1:-1] >= z[:-2]) & (z[1:-1] >= z[2:])) + 1
    a, b, c = s[inner - 1], s[inner], s[inner + 1]
    left, right = (z[inner] - z[inner - 1]) / (b - a), (z[inner + 1] - z[inner]) / (c - b)
    bend = left - right  # ≥ 0
    top = np.where(bend > 0, (a + b) / 2 + left / np.where(bend > 0, bend, 1) * (c - a) / 2, b)
    return np.unique(np.concatenate(([0.0, 1.0], b, np.clip(top, a, c))))


def dual_w1(metric: Any, points: np.ndarray, survival: np.ndarray, radius: float, sign: int = 1) -> float:
    """sup (sign = 1) or inf (−1) of U_h over the laws on [points[0], points[-1]] within W1 distance radius.

    min over λ ≥ 0 of λ·radius + Σ cells · max_s (h(s) − λ|s − S|). The inner maximum is at S, or left of S at
    a local maximiser of h(s) + λs, or right of S at one of h(s) − λs.
    """
    cells, base = np.diff(points), points[0] * metric(1.0)
    levels, which = np.unique(survival, return_inverse=True)
    weights = np.bincount(which, cells)
    at_rest = sign * metric(levels)

    def dual(lam: float) -> tuple[float, float]:
        """The dual and a slope of it: the budget that the maximisers leave."""
        s, y = levels, at_rest
        for slope in (lam, -lam):
            peaks = _peaks(metric, sign, slope)
            before = np.searchsorted(peaks, levels, side="right")  # so many peaks lie left of S
            if slope < 0:  # the same from the other end
                before, peaks = peaks.size - np.searchsorted(peaks, levels, side="left"), peaks[::-1]
            z = sign * metric(peaks) + slope * peaks
            best = np.maximum.accumulate(z)
            at = peaks[np.maximum.accumulate(np.where(z >= best, np.arange(z.size), 0))]
            reach = np.where(before > 0, best[before - 1] - slope * levels, -np.inf)
            s, y = np.where(reach > y, at[before - 1], s), np.maximum(y, reach)
        return float(lam * radius + weights @ y), float(radius - weights @ np.abs(s - levels))

    free, rest = float(weights.sum() * np.max(_dense(metric, sign)[1])), float(weights @ at_rest)
    if radius == 0:
        return float(base + sign * rest)
    # The dual is convex in λ, at least rest + λ·radius, and free at λ = 0. Cut it by tangents from both sides
    # (scipy's bounded search stops at a relative 1e-8 of λ, which at a bend of the dual is not enough).
    least = float(weights @ np.abs(levels - _nearest_top(metric, sign, levels)))
    if not math.isfinite(radius) or free <= rest or least <= radius:
        return float(base + sign * free)
    left, right = (0.0, free, radius - least), ((free - rest) / radius, *dual((free - rest) / radius))
    upper = min(free, right[1])
    for k in range(200):
        if left[2] >= 0 or right[2] <= 0:
            break
        lam = (right[1] - left[1] + left[2] * left[0] - right[2] * right[0]) / (left[2] - right[2])
        lower = left[1] + left[2] * (lam - left[0])  # the tangents meet here
        if upper - lower <= 1e-15 * max(1.0, abs(upper)):
            break
        if k % 3 == 2:
            lam = (left[0] + right[0]) / 2
        value, slope = dual(lam)
        upper = min(upper, value)
        if slope <= 0:
            left = (lam, value, slope)
        if slope >= 0:
            right = (lam, value, slope)
    return float(base + sign * upper)


def _nearest_top(metric: Any, sign: int, levels: np.ndarray) -> np.ndarray:
    """For each level the nearest maximiser of sign·h on [0, 1] (ends of plateaus are bends: on the grid)."""
    s, y = _dense(metric, sign)
    top = y.max() - 1e-15
    tops = s[y >= top]
    k = np.clip(np.searchsorted(tops, levels), 1, max(1, tops.size - 1))
    low, high = tops[k - 1], tops[np.minimum(k, tops.size - 1)]
    near = np.where(np.abs(levels - low) <= np.abs(levels - high), low, high)
    return np.where(sign * metric(levels) >= top, levels, near)


# ---- brute force ------------------------------------------------------------------------------------------


def _split(atoms: Any, p: Any, lo: float, hi: float, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Points: the atoms and a uniform grid of [lo, hi]; and the survival of (atoms, p) on the cells."""
    atoms, p = np.asarray(atoms, dtype=float), np.asarray(p, dtype=float)
    points = np.unique(np.round(np.concatenate((atoms, np.linspace(lo, hi, pieces + 1))), 12))
    return points, np.array([min(1.0, math.fsum(p[atoms > x + 1e-12])) for x in points[:-1]])


def convex_w1(
    metric: Any,
    atoms: Any,
    p: Any,
    radius: float,
    lo: float,
    hi: float,
    direction: str = "sup",
    pieces: int = 8,
    chords: int = 2000,
) -> float:
    """sup of a concave (inf of a convex) h over laws on a grid of points, as a linear program for cvxpy.

    h is replaced by chords between ``chords`` + 1 (and more near the ends) of its points, so the value is a
    little less extreme than the truth; the solver keeps its constraints to 1e-7. Expect agreement to 1e-6.
    """
    sign = 1 if direction == "sup" else -1
    assert metric.shape == "linear" or metric.shape == ("concave" if sign == 1 else "convex")
    points, start = _split(atoms, p, lo, hi, pieces)
    end = 0.5 * np.linspace(0, 1, chords // 8 + 1) ** 4
    u = np.unique(np.concatenate((np.linspace(0, 1, chords + 1), end, 1 - end, special_points(metric))))
    u = u[np.concatenate(([True], np.diff(u) > 1e-12))]
    u[-1] = 1.0
    y = sign * metric(u)
    slope = np.diff(y) / np.diff(u)
    keep = np.concatenate(([True], np.abs(np.diff(slope)) > 1e-12))  # straight parts once
    slope, offset = slope[keep], (y[:-1] - slope * u[:-1])[keep]
    cells = np.diff(points)
    s, t = cp.Variable(cells.size), cp.Variable(cells.size)
    rules = [s >= 0, s <= 1, s[1:] <= s[:-1], cells @ cp.abs(s - start) <= radius]
    rules += [t[k] <= slope * s[k] + offset for k in range(cells.size)]
    problem = cp.Problem(cp.Maximize(cells @ t), rules)
    problem.solve(solver=cp.HIGHS)
    assert problem.status == cp.OPTIMAL, problem.status
    return float(points[0] * metric(1.0) + sign * problem.value)


def search_w1(
    metric: Any,
    atoms: Any,
    p: Any,
    radius: float,
    lo: float,
    hi: float,
    direction: str = "sup",
    pieces: int = 64,
    levels: int = 64,
    budget: int = 4096,
) -> float:
    """Any h: the best law on a grid of points with survival on a grid of levels, by dynamic programming.

    best[j, b]: the largest ∫h so far with the last cell's survival at level j and b units of W1 spent. What a
    cell costs is rounded up, so the law found is allowed: the answer never passes the true sup (inf). It is
    exact where the best law lies on the grids and costs are whole units: on [0, 1] with atoms and p in 64ths,
    that is budget = radius·64². With other numbers expect to fall short by about 1e-3 of the range.
    """
    sign = 1 if direction == "sup" else -1
    points, start = _split(atoms, p, lo, hi, pieces)
    cells = np.diff(points)
    s = np.unique(np.concatenate((np.linspace(0, 1, levels + 1), start, special_points(metric))))
    h, unit = sign * metric(s), radius / budget
    best = np.zeros((s.size, budget + 1))
    for cell, at in zip(cells, start, strict=True):
        # the survival of the cell before is not lower
        before = np.maximum.accumulate(best[::-1], axis=0)[::-1]
        best = np.full_like(best, -np.inf)
        costs = np.ceil(cell * np.abs(s - at) / unit - 1e-6) if unit > 0 else np.where(s == at, 0, np.inf)
        for j, cost in enumerate(costs):
            if cost <= budget:
                best[j, int(cost) :] = before[j, : budget + 1 - int(cost)] + cell * h[j]
    return float(points[0] * metric(1.0) + sign * best.max())


def brute_force_w1(
    metric: Any,
    atoms: Any,
    p: Any,
    radius: float,
    lo: float,
    hi: float,
    direction: str = "sup",
    **options: int,
) -> float:
    """sup or inf of U_h over laws near (atoms, p): the convex program where there is one, else the search."""
    easy = ("linear", "concave") if direction == "sup" else ("linear", "convex")
    solve = convex_w1 if metric.shape in easy else search_w1
    return solve(metric, atoms, p, radius, lo, hi, direction, **options)
