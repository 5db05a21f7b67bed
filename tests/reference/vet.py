"""A slow reference of Vet: every number anew from the lists of rewards, by the written rule.

Nothing of the package's policies or kernels is used; metrics are called for h(u), and asked for their shape.

Two things are not decided here but taken over from the policy that is tested, because the rule leaves them open: the
best mixture a, and for concave h the shares b to have at the end of the window. Many mixtures are best within the
accuracy that the rule asks for, and pulls depend on which one it is. So :meth:`Vet.look` is given both, and
``miss_a`` and ``miss_b`` say how much better another mixture is at most, in units of that accuracy. For other h, b
follows from a, and is worked out here.

The reference follows the pulls of the policy that is tested; each round it says which arms the rule allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize

from pmbandits.supports import Binary, Finite, Real
from tests.reference import convex

Floats = np.ndarray
NEAR = 1e-3  # indices this close (relative above 1), and lags, are nearly equal
# The same of indices where h is not concave, up to 20 cells and above: the fast one stops when D changes by less than
# 1 %, and does not start from everywhere, so what it finds can be too large.
ROUGH, COARSE = 0.02, 0.05
THINNED = 0.01  # the same of indices where the fast one has thinned the laws out


# ---- laws and slopes --------------------------------------------------------------------------------------
def chord(h: Any, u: Floats, e: float) -> Floats:
    """The slope of h between u − e and u + e, inside [0, 1]."""
    lo, hi = np.maximum(u - e, 0.0), np.minimum(u + e, 1.0)
    return (np.asarray(h(hi)) - np.asarray(h(lo))) / (hi - lo)


def survival(points: Floats, rewards: Sequence[float]) -> Floats:
    """The share of the rewards above each point but the last."""
    x = np.sort(np.asarray(rewards, dtype=float))
    return 1.0 - np.searchsorted(x, points[:-1], side="right") / x.size


def utility(h: Any, points: Floats, above: Floats) -> float:
    """U_h = x_0·h(1) + Σ (x_{k+1} − x_k)·h(P(X > x_k))."""
    return float(points[0] * h(1.0) + np.diff(points) @ np.asarray(h(np.clip(above, 0.0, 1.0))))


def phi(h: Any, points: Floats, above: Floats, e: float) -> Floats:
    """Φ at the points: the integral of the slope of h at the law's survival, from the first point on."""
    return np.concatenate(([0.0], np.cumsum(np.diff(points) * chord(h, np.clip(above, 0.0, 1.0), e))))


# ---- divergences ------------------------------------------------------------------------------------------
def coin_kl(p: float, q: float) -> float:
    """Relative entropy of two coins."""
    if (p > 0 and q <= 0) or (p < 1 and q >= 1):
        return math.inf
    return (p * math.log(p / q) if p > 0 else 0.0) + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def kl_inf(values: Floats, shares: Floats, level: float, top: float) -> float:
    """max over 0 ≤ s ≤ 1 of E log(1 − s·(Φ − level)/(top − level)): where its slope is 0, by Brent's method."""
    if shares @ values >= level - 1e-13 * abs(level):  # equal but for rounding: nothing need change
        return 0.0
    if top <= level:
        return math.inf
    y = np.minimum((values - level) / (top - level), 1.0)

    def rise(s: float) -> float:
        return float(-(shares @ (y / (1.0 - s * y))))

    if y.max() < 1.0 - 1e-12 and rise(1.0) >= 0.0:
        best = 1.0
    else:
        end = 1.0 - 1e-12
        best = end if rise(end) >= 0.0 else float(brentq(rise, 0.0, end, xtol=1e-15))
    return float(shares @ np.log1p(-best * y))


def kl(p: Floats, q: Floats) -> Floats:
    """Relative entropy from p to the rows of q."""
    on = p > 0
    with np.errstate(divide="ignore"):
        return (p[on] * (np.log(p[on]) - np.log(np.maximum(q[..., on], 0.0)))).sum(axis=-1)


def utilities(h: Any, points: Floats, distributions: Floats) -> Floats:
    """U_h of laws, one a row, that are given by the share of each point."""
    above = np.clip(1.0 - np.cumsum(distributions, axis=-1)[..., :-1], 0.0, 1.0)
    return points[0] * h(1.0) + np.asarray(h(above)) @ np.diff(points)


def simplex_grid(n: int, parts: int) -> Floats:
    """All laws on n points whose shares are multiples of 1/parts."""
    bars = np.array(list(itertools.combinations(range(parts + n - 1), n - 1)))
    edges = np.hstack((np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), parts + n - 1)))
    return (np.diff(edges, axis=1) - 1) / parts


_MIXTURES = {n: simplex_grid(n, parts) for n, parts in ((2, 400), (3, 40), (5, 8))}
_GRIDS = {n: simplex_grid(n, parts) for n, parts in ((2, 1), (3, 60), (4, 16), (5, 9))}


def first_reach(
    h: Any, points: Floats, distribution: Floats, ends: Floats, worth: float, rest: Floats | float, weight: float
) -> Floats:
    """On the way from a law to each end, which part must be gone until U_h ≥ worth; more than 1 if it never is."""
    parts = np.concatenate((np.geomspace(1e-5, 0.1, 15), np.linspace(0.12, 1.0, 45)))
    on_the_way = distribution + parts[:, None, None] * (ends - distribution)
    there = utilities(h, points, rest + weight * on_the_way) >= worth
    first = there.argmax(axis=0)
    lo, hi = np.where(first > 0, parts[first - 1], 0.0), parts[first]
    for _ in range(30):
        middle = 0.5 * (lo + hi)
        middles = distribution + middle[:, None] * (ends - distribution)
        good = utilities(h, points, rest + weight * middles) >= worth
        lo, hi = np.where(good, lo, middle), np.where(good, middle, hi)
    return np.where(there.any(axis=0), hi, 2.0)


def kl_to_reach_utility(
    h: Any, points: Floats, distribution: Floats, worth: float, turns: int = 6, rest: Floats | float = 0.0,
    weight: float = 1.0,
) -> float:  # fmt: skip
    """The least relative entropy from a law to one with U_h ≥ worth (with a weight beside a rest), any h: brute force.

    Along every straight way from the law the relative entropy grows, so only the first place that is worth enough
    counts. Ways to all laws of a grid are tried, then ways near the best of them, nearer and nearer.
    """
    if utilities(h, points, rest + weight * distribution) >= worth - 1e-12:
        return 0.0
    rng, n, best, scale = np.random.default_rng(0), distribution.size, math.inf, 0.2
    ends = _GRIDS[n]
    for _ in range(turns):
        part = first_reach(h, points, distribution, ends, worth, rest, weight)
        with np.errstate(invalid="ignore"):
            far = np.where(
                part <= 1.0,
                kl(distribution, distribution + np.minimum(part, 1.0)[:, None] * (ends - distribution)),
                math.inf,
            )
        order = np.argsort(far)[:12]
        best = min(best, float(far[order[0]]))
        if math.isinf(best) or n == 2:
            break
        near = np.repeat(ends[order], 20, axis=0)
        near = near + rng.normal(0.0, scale, near.shape) * (rng.random(near.shape) < 0.7)
        near = np.maximum(near, 0.0)
        near /= np.maximum(near.sum(axis=1, keepdims=True), 1e-300)
        ends, scale = np.concatenate((ends[order], near)), 0.4 * scale
    return best


def lower_tail_to_be_worth(
    alpha: float, points: Floats, distribution: Floats, worth: float, rest: Floats | float = 0.0, weight: float = 1.0
) -> float:
    """The same for the mean of the worst share alpha, exactly; of the law with a weight, beside a rest.

    That is the largest, over the points z, of E[z − max(z − X, 0)/alpha] (Rockafellar and Uryasev 2000), so a law is
    worth enough if the mean of one of these is: the least of as many problems with one mean each.
    """
    best = math.inf
    for z in points:
        values = z - np.maximum(z - points, 0.0) / alpha
        on = distribution > 0
        level = (worth - float(np.sum(rest * values))) / weight
        best = min(best, kl_inf(values[on], distribution[on], level, float(values.max())))
    return best


# ---- the policy -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Decision:
    """Which arms the rule allows, and whether that is clear: no two numbers that it compares are nearly equal."""

    allowed: tuple[int, ...]
    sure: bool


class Vet:
    """Driven from outside: ``due``, ``look`` if the policy looked, ``decide``, ``pulled``, and ``tell``."""

    def __init__(
        self, metric: Any, n_arms: int, support: Any, bins: int | None = None, program: convex.Concave | None = None
    ) -> None:
        """``program`` is a concave metric once more, as a convex program."""
        self.h, self.n_arms, self.support, self.program = metric, n_arms, support, program
        self.shape = "concave" if metric.shape == "linear" else metric.shape
        self.rewards: list[list[float]] = [[] for _ in range(n_arms)]
        self.pulls = np.zeros(n_arms, dtype=int)
        self.bins = None if bins is None else np.linspace(support.lo, support.hi, bins + 1)
        self.window_end = self.next_look = self.looked = 0
        self.left_out = np.zeros(n_arms, dtype=bool)
        self.index, self.far = np.full(n_arms, math.inf), np.full(n_arms, math.inf)
        self.means = np.linspace(0.0, 1.0, 20001)
        self.at_means = np.asarray(metric(self.means))
        few = isinstance(support, Binary) or (isinstance(support, Finite) and len(support.atoms) <= 20)
        self.caution = 1.0 if few else 1.0 / 3.0
        self.miss_a: list[float] = []
        self.miss_b: list[float] = []
        self.looks = 0

    # ---- counting ----
    @property
    def told(self) -> np.ndarray:
        return np.array([len(x) for x in self.rewards])

    @property
    def t(self) -> int:
        return int(max(self.pulls.sum(), self.told.sum()))

    def evidence(self, i: int) -> int:
        return int(max(self.pulls[i], len(self.rewards[i])))

    def ready(self) -> bool:
        return bool(self.told.min() > 0)

    def pulled(self, arm: int) -> None:
        self.pulls[arm] += 1

    def tell(self, arm: int, reward: float) -> None:
        if self.bins is not None:
            reward = float(self.bins[np.argmin(np.abs(self.bins - reward))])
        self.rewards[arm].append(float(reward))

    # ---- when to look ----
    def due(self) -> tuple[bool, bool]:
        """Whether to look now, and whether that is clear."""
        rewards = int(self.told.sum())
        if self.pulls.sum() >= self.window_end or rewards >= self.next_look:
            return True, True
        found, near = False, False
        for i in range(self.n_arms):
            more = len(self.rewards[i]) - self.vetted_told[i]
            if not self.left_out[i]:
                found |= more >= max(1, 0.1 * self.vetted_told[i])
            elif more > 0 or self.pulls[i] != self.vetted_pulls[i]:
                self.work_out(i)
                found |= self.far[i] <= 0.0 and more > 0
                near |= self.evidence(i) * self.far[i] < (1e-6 if self.shape == "concave" else ROUGH) and more > 0
        enough = rewards >= self.looked + max(1, self.looked // 1000)
        return found and enough, found or not (near and enough)

    # ---- a look ----
    def lay_out(self) -> None:
        """All points where a law or the support has something, and the arms' laws there."""
        rewards = {r for x in self.rewards for r in x}
        if isinstance(self.support, Real):
            self.ends = min(rewards) - self.support.sigma, max(rewards) + self.support.sigma
        else:
            self.ends = float(self.support.lo), float(self.support.hi)
        rest = self.support.atoms if isinstance(self.support, Finite) else ()
        self.points = np.array(sorted({*self.ends, *rewards, *map(float, rest)}))
        self.widths = np.diff(self.points)
        self.above = np.array([survival(self.points, x) for x in self.rewards])

    def value(self, a: Floats) -> float:
        return utility(self.h, self.points, a @ self.above)

    def values(self, grid: Floats) -> Floats:
        return self.points[0] * self.h(1.0) + np.asarray(self.h(np.clip(grid @ self.above, 0.0, 1.0))) @ self.widths

    def slopes(self, a: Floats, e: float) -> Floats:
        """G_i: the mean of Φ over each arm's rewards."""
        return self.above @ (self.widths * chord(self.h, np.clip(a @ self.above, 0.0, 1.0), e))

    def gap(self, a: Floats, low: Floats, e: float) -> float:
        """Concave h: by how much another mixture ≥ low can be better at most."""
        slope = self.slopes(a, e)
        return float((a - low) @ (slope.max() - slope))

    def before_dropping(self, a: Floats, t: int) -> Floats:
        """The best mixture from which dropping shares of less than 1/t can have made a."""
        out = np.flatnonzero(a == 0.0)

        def whole(d: Floats) -> Floats:
            b = (1.0 - d.sum()) * a
            b[out] = d
            return b

        starts = [np.zeros(out.size), np.full(out.size, 0.5 / t)]
        found = [
            minimize(lambda d: -1e3 * self.value(whole(d)), x, bounds=[(0.0, 1.0 / t)] * out.size, method="L-BFGS-B")
            for x in starts
        ]
        return max((whole(f.x) for f in found), key=self.value)

    def miss_of(self, a: Floats, e: float, goal: float, t: int) -> float:
        """By how much a misses the best mixture at most, in units of the goal."""
        none = np.zeros(self.n_arms)
        if self.shape == "convex":
            return (max(self.value(one) for one in np.eye(self.n_arms)) - self.value(a)) / goal
        if self.shape == "concave":
            miss = self.gap(a, none, e)
            if miss > goal:  # then, with a solver of convex programs
                fuller = self.before_dropping(a, t) if (a == 0.0).any() else a
                miss = min(miss, self.gap(fuller, none, e))
                if miss > goal and self.program is not None:
                    miss = convex.best_mixture(self.program, self.points, self.above)[1] - self.value(fuller)
            return miss / goal
        grid = _MIXTURES[self.n_arms]
        best = float(self.values(grid).max())
        miss = best - self.value(a)
        if miss > goal and (a == 0.0).any():
            miss = min(miss, best - self.value(self.before_dropping(a, t)))
        return miss / goal

    def shares(self, a: Floats) -> Floats:
        """b_i = max(c·a_i, low_i) that sum to 1."""
        low = self.pulls / self.window_end
        c = brentq(lambda c: np.maximum(c * a, low).sum() - 1.0, 0.0, 1.0 + 1e-9, xtol=1e-15)
        return np.maximum(c * a, low)

    def look(self, a: Floats, b: Floats) -> None:
        asked, rewards, t = int(self.pulls.sum()), int(self.told.sum()), self.t
        self.looks += 1
        self.window_end = asked + max(1, asked // 100)
        self.next_look = rewards + max(1, rewards // 100)
        self.looked = rewards
        self.lay_out()
        spread = sum(len(x) * np.var(x) for x in self.rewards)
        self.within = float(spread) / max(rewards - self.n_arms, 1)
        self.e = e = 0.5 / t
        u = np.linspace(0.0, 1.0, 4001)
        goal = 0.02 * (self.points[-1] - self.points[0]) * float(np.abs(self.h(u)).max()) / t
        assert abs(a.sum() - 1.0) < 1e-9 and a.min() >= 0.0, a
        assert not ((a > 0) & (a * t < 1.0 - 1e-9)).any(), a
        self.a = a = a.copy()
        self.miss_a.append(self.miss_of(a, e, goal, t))
        if self.shape == "concave":
            low = self.pulls / self.window_end
            assert abs(b.sum() - 1.0) < 1e-9 and (b >= low - 1e-12).all(), b
            self.b = b.copy()
            self.miss_b.append(self.gap(self.b, low, e) / goal)
        else:
            self.b = self.shares(a)
            self.miss_b.append(float(np.abs(self.b - b).max()) / 1e-6)
        self.compute_requirements()
        self.left_out = a == 0.0
        self.threshold = math.log(t / ((~self.left_out).sum() * self.n_arms))
        self.vetted_told, self.vetted_pulls = self.told, self.pulls.copy()
        self.index[:], self.far[:] = math.inf, math.inf
        for i in np.flatnonzero(self.left_out):
            self.work_out(i)

    def compute_requirements(self) -> None:
        e = self.e * max(1.0, math.log(self.t))
        played = self.b if self.shape == "concave" else self.a
        self.phi = phi(self.h, self.points, played @ self.above, e)
        slope = self.slopes(played, e)
        lag = self.lag()
        behind = int(np.flatnonzero(lag >= lag.max() - 1e-9)[0])
        self.level = float(slope[behind] if self.shape == "concave" else self.a @ slope)
        self.worth = self.value(self.a)

    def lag(self) -> Floats:
        """How far the arms are behind their shares at the end of the window, or 100 rounds from now if it is later."""
        return self.b * min(self.window_end, int(self.pulls.sum()) + 100) - self.pulls

    # ---- the index ----
    def top_for(self, i: int) -> float:
        if not isinstance(self.support, Real):
            return float(self.phi.max())
        return self.max_influence_within(i, self.support.sigma)

    def shrunk_std(self, i: int) -> float:
        """The arm's standard deviation, drawn towards that within all arms at the last look."""
        x = np.asarray(self.rewards[i])
        return math.sqrt((x.size * x.var() + 2.0 * self.within) / (x.size + 1.0))

    def max_influence_within(self, i: int, scale: float) -> float:
        """The largest Φ as far as the arm reaches, in units of the scale, and at its rewards."""
        x, n = self.rewards[i], len(self.rewards[i])
        reach = scale * (math.sqrt(2.0 * math.log(n)) + 2.0 / math.sqrt(n))
        lo, hi = np.clip([np.mean(x) - reach, np.mean(x) + reach], *self.ends)
        inside = self.points[(self.points >= lo) & (self.points <= hi)]
        return float(np.interp([lo, hi, *inside, *x], self.points, self.phi).max())

    def work_out(self, i: int) -> None:
        n = self.evidence(i)
        self.vetted_told[i], self.vetted_pulls[i] = len(self.rewards[i]), self.pulls[i]
        self.far[i] = self.distance(i) if math.log(n) < self.threshold else math.inf
        self.index[i] = n * self.far[i] + math.log(n)

    def distance(self, i: int) -> float:
        if self.shape == "concave":
            far = self.kl_to_required_slope(i)
            if isinstance(self.support, Real) and far > 0.0:
                far = self.kl_to_shift_mean(i) if math.isinf(far) else max(far, self.kl_to_shift_mean(i))
            return far
        if self.shape == "convex":
            own = self.value(np.eye(self.n_arms)[i])
            return (
                0.0 if own >= self.worth - 1e-12 else self.kl_to_required_utility(i)
            )  # also if equal but for rounding
        if isinstance(self.support, Binary):
            return self.coin_to_improve(i)
        self.set_requirements_by_chord(i)
        return min(self.kl_to_required_slope(i), 1.0, self.kl_to_required_utility(i))

    def kl_to_required_slope(self, i: int) -> float:
        top, x = self.top_for(i), np.asarray(self.rewards[i])
        if isinstance(self.support, Binary):
            mean = float(self.b @ self.above[:, 0])
            if self.phi[1] == 0.0 and self.h(min(mean + self.e * max(1.0, math.log(self.t)), 1.0)) == self.h(mean):
                return math.inf  # h is flat there
        elif not isinstance(self.support, Real) and top - self.level <= 1e-12 * (abs(top) + abs(self.level)):
            return math.inf  # nothing on the support has a larger slope
        values, shares = np.interp(x, self.points, self.phi), np.full(x.size, 1.0 / x.size)
        far = kl_inf(values, shares, self.level, top) / self.caution
        if self.caution < 1.0:
            near = kl_inf(values, shares, self.level, self.max_influence_within(i, self.shrunk_std(i)))
            far = min(far, self.with_light_tails(near, values, self.level - float(values.mean())))
        return far

    def with_light_tails(self, far: float, values: Floats, lack: float) -> float:
        """D up to two thirds more, if a normal distribution is that much further from a mean that is larger by lack."""
        if self.caution == 1.0 or isinstance(self.support, Real) or not math.isfinite(far):
            return far
        variance = float(values.var())
        normal = 0.5 * lack**2 / variance if variance > 0.0 else math.inf
        return max(far, min(5.0 / 3.0 * far, normal))

    def kl_to_shift_mean(self, i: int) -> float:
        """½(d/σ)², with d the shift of a normal distribution around the arm's mean after which its mean of Φ is λ."""
        sigma, mean = self.support.sigma, float(np.mean(self.rewards[i]))
        z, weight = np.polynomial.hermite_e.hermegauss(7)
        weight /= weight.sum()

        def influence(x: Floats) -> Floats:
            slope = np.diff(self.phi) / np.diff(self.points)
            beyond = slope[0] * np.minimum(x - self.points[0], 0.0) + slope[-1] * np.maximum(x - self.points[-1], 0.0)
            return np.interp(x, self.points, self.phi) + beyond

        def lack(d: float) -> float:
            return self.level - max(float(weight @ influence(mean + side * d + sigma * z)) for side in (-1.0, 1.0))

        if lack(0.0) <= 0.0:
            return 0.0
        return 0.5 * (float(brentq(lack, 0.0, self.points[-1] - self.points[0], xtol=1e-13)) / sigma) ** 2

    def set_requirements_by_chord(self, i: int) -> None:
        """Neither shape: Φ at the mixture of a and arm i with the share that the arm had, and λ for it to beat a."""
        share = min(self.evidence(i) / self.t, 1.0)
        own = survival(self.points, self.rewards[i])
        above = self.a @ self.above + share * (own - self.a @ self.above)
        self.phi = phi(self.h, self.points, above, 0.5 / self.t * max(1.0, math.log(self.t)))
        lack = self.worth - utility(self.h, self.points, above)
        mean = float(np.mean(np.interp(self.rewards[i], self.points, self.phi)))
        self.level = mean + (lack if abs(lack) > 1e-13 else 0.0) / share

    def coin_to_improve(self, i: int) -> float:
        """Neither shape, 0/1 rewards: the nearest mean at or beyond one that has more utility than what is played."""
        p, played, best = float(np.mean(self.rewards[i])), float(self.a @ self.above[:, 0]), math.inf
        for better in (
            self.means[(self.at_means > self.worth + 1e-12) & (self.means < played)][::-1],
            self.means[(self.at_means > self.worth + 1e-12) & (self.means > played)],
        ):
            if better.size:
                step = math.copysign(self.means[1], played - better[0])
                worse = played if abs(better[0] - played) < abs(step) else float(better[0]) + step
                q = float(brentq(lambda u: self.h(u) - self.worth - 1e-12, worse, better[0], xtol=1e-15))
                best = min(best, 0.0 if (p - q) * (q - played) >= 0.0 else coin_kl(p, q))
        return best

    def kl_to_required_utility(self, i: int) -> float:
        x = np.asarray(self.rewards[i])
        if isinstance(self.support, Binary):
            p = float(x.mean())
            good = self.means[self.at_means >= self.worth - 1e-12]
            return min((coin_kl(p, float(q)) for q in (*good[good <= p][-1:], *good[good >= p][:1])), default=math.inf)
        distribution = np.array([(x == point).mean() for point in self.points])
        if type(self.h).__name__ == "LowerCVaR":
            far = lower_tail_to_be_worth(self.h.alpha, self.points, distribution, self.worth)
        else:
            far = kl_to_reach_utility(self.h, self.points, distribution, self.worth)
        above = survival(self.points, self.rewards[i])
        values = np.interp(x, self.points, phi(self.h, self.points, above, 0.5 / self.t))
        return self.with_light_tails(far, values, self.worth - utility(self.h, self.points, above))

    # ---- a round ----
    def decide(self) -> Decision:
        if not self.ready():
            return Decision((int(np.argmin(self.pulls)),), True)
        index = np.where(self.left_out, self.index, math.inf)
        least = float(index.min())
        near = NEAR if self.shape == "concave" else ROUGH if self.points.size <= 21 else COARSE
        if self.points.size > 512:  # the fast one has a table of no more points
            near = max(near, THINNED)
        size = near * max(1.0, abs(self.threshold))
        if least < self.threshold:
            below = np.flatnonzero(index < self.threshold + size)
            if self.shape != "concave" and below.size > 1:  # which is first may depend on the starts that are tried
                return Decision(tuple(map(int, below)), least < self.threshold - size)
            first = index[below] <= least + near * max(1.0, abs(least))
            return Decision((int(np.argmin(index)),), first.sum() == 1 and least < self.threshold - size)
        lag = self.lag()
        tied = np.flatnonzero(lag >= lag.max() - 1e-9)
        others = lag[lag < lag.max() - 1e-9]
        sure = least > self.threshold + size and not (others > lag.max() - NEAR).any()
        return Decision((int(tied[0]),), sure)
