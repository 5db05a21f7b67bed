"""Slow references of the policies: every round recomputes all from the rewards, close to the pseudocode.

A reference is made with ``(metric, n_arms, support, **options)``; then ``i = p.ask(); p.tell(i, reward)``.
Attributes: ``mixture`` (weights or None), ``choice`` (grid index or None), ``grid``, ``pulls``, ``t``; CIRT:
``phase`` (from 1; one more than ``phases`` while tracking), ``phase_ends`` (the t of each end), ``integers``.
"""

from __future__ import annotations

import itertools
import math
from array import array
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from pmbandits.mixtures import etc_grid, ucb_grid
from pmbandits.supports import Binary, Real
from tests.reference import confidence as sets
from tests.reference.confidence import Confidence, distributions, utilities
from tests.reference.simulation import philox


def tied(values: np.ndarray) -> np.ndarray:
    """Which values are largest, up to rounding."""
    top = float(np.max(values))
    return values == top if math.isinf(top) else values >= top - 1e-12 * max(1.0, abs(top))


kl_interval = cache(sets.kl_interval)


def mean_edges(confidence: Confidence, rewards: list[array[float]]) -> np.ndarray:
    """Intervals of Bernoulli means: from kl, or mean ± radius clipped to [0, 1] (notes, section 6)."""
    out = []
    for arm in rewards:
        if not arm:
            out.append((0.0, 1.0))
            continue
        mean, radius = sum(arm) / len(arm), confidence.radius(len(arm))
        clipped = (max(mean - radius, 0.0), min(mean + radius, 1.0))
        out.append(kl_interval(mean, radius) if confidence.shape == "interval" else clipped)
    return np.array(out)


def bounds(metric: Any, confidence: Confidence, rewards: list[array[float]], grid: np.ndarray, sign: int) -> np.ndarray:
    if not isinstance(confidence.support, Binary):
        return sets.bounds(metric, confidence, rewards, grid, sign)
    low, high = sets.mix(grid, mean_edges(confidence, rewards)).T
    return sets.extreme_over(metric, low, high, sign)


def w1_radii(confidence: Confidence, rewards: list[array[float]]) -> np.ndarray:
    """The radius of CE-UCB-M's bonus: W1 to the far end of a Bernoulli arm's interval; the paper's as it stands."""
    if not isinstance(confidence.support, Binary) or confidence.kind == "paper":
        return sets.w1_radii(confidence, rewards)
    means = np.array([sum(arm) / len(arm) for arm in rewards])
    return np.abs(mean_edges(confidence, rewards) - means[:, None]).max(axis=1)


class Reference:
    phase = 1

    def __init__(self, metric: Any, n_arms: int, support: Any) -> None:
        self.metric, self.n_arms, self.support = metric, n_arms, support
        self.rewards = [array("d") for _ in range(n_arms)]
        self.pulls = [0] * n_arms
        self.phase_ends: list[int] = []
        self.grid = np.zeros((0, n_arms))
        self.choice: int | None = None
        self.mixture: np.ndarray | None = None

    @property
    def t(self) -> int:
        return sum(self.pulls)

    def ask(self) -> int:
        arm = self.select()
        self.pulls[arm] += 1
        return arm

    def tell(self, arm: int, reward: float) -> None:
        self.rewards[arm].append(float(reward))

    def select(self) -> int:
        raise NotImplementedError

    # ---- shared rules ----
    def empirical(self, grid: np.ndarray) -> np.ndarray:
        return utilities(self.metric, *distributions(self.support, self.rewards), grid)

    def fewest(self) -> int:
        return self.pulls.index(min(self.pulls))

    def tracking(self) -> int:
        behind = [self.t * a - n for a, n in zip(self.mixture, self.pulls, strict=True)]
        return next(i for i in range(self.n_arms) if behind[i] >= max(behind) - 1e-9)

    def under_explored(self, xi: float) -> bool:
        return min(self.pulls) <= math.ceil((self.t / self.n_arms) ** (1 / (1 + xi)))

    def take(self, k: int) -> None:
        self.choice, self.mixture = k, self.grid[k]

    ties, seed, drawn = "best", 0, 0

    def any_of(self, candidates: np.ndarray) -> int:
        """Any of them: the n-th draw of a policy is the first word of Philox with key (seed, n), for ties."""
        if candidates.size == 1:
            return int(candidates[0])
        self.drawn += 1
        word = philox((self.seed, self.drawn), (0, 0, 0, 9))[0]
        return int(candidates[int((word >> 11) / 2**53 * candidates.size)])

    def choose(self, index: np.ndarray) -> None:
        """The previous mixture if it is among the best, else the best of them by empirical utility, or any."""
        best = tied(index)
        if self.choice is None or not best[self.choice]:
            candidates = np.flatnonzero(best)
            if self.ties == "random":
                self.take(self.any_of(candidates))
                return
            self.take(int(candidates[np.flatnonzero(tied(self.empirical(self.grid[candidates])))[0]]))


class PMETC(Reference):
    def __init__(
        self,
        metric: Any,
        n_arms: int,
        support: Any,
        *,
        horizon: int,
        epsilon: float,
        n_explore: float | None = None,
        rest_arm: int | None = None,
    ) -> None:
        super().__init__(metric, n_arms, support)
        self.horizon = horizon
        self.rest_arm = n_arms - 1 if rest_arm is None else rest_arm
        self.grid = etc_grid(n_arms, epsilon)
        rounds = 0.5 * n_arms * epsilon * horizon if n_explore is None else n_explore
        self.each = math.ceil(rounds / n_arms - 1e-9)  # ε = 0.1 is not exactly a tenth

    def select(self) -> int:
        if min(self.pulls) < self.each:
            return self.fewest()
        if self.mixture is None:
            best = np.flatnonzero(tied(self.empirical(self.grid)))
            self.take(self.any_of(best) if self.ties == "random" else int(best[0]))
        if self.t >= self.horizon:
            return self.tracking()
        for i in [arm for arm in range(self.n_arms) if arm != self.rest_arm]:
            if self.pulls[i] < math.floor(self.horizon * self.mixture[i] + 1e-9):
                return i
        return self.rest_arm


class PMUCB(Reference):
    def __init__(
        self,
        metric: Any,
        n_arms: int,
        support: Any,
        *,
        horizon: int,
        epsilon: float,
        rho: float = 1.0,
        confidence: str | None = None,
        delta: float | None = None,
    ) -> None:
        super().__init__(metric, n_arms, support)
        self.confidence = Confidence(confidence, support, n_arms, delta, horizon)
        self.grid = ucb_grid(n_arms, epsilon)
        self.each = max(1, math.ceil(rho * horizon * epsilon / 4))

    def index(self) -> np.ndarray:
        return bounds(self.metric, self.confidence, self.rewards, self.grid, 1)

    def select(self) -> int:
        if min(self.pulls) < self.each:
            return self.fewest()
        self.choose(self.index())
        return self.tracking()


class CEUCB(PMUCB):
    def index(self) -> np.ndarray:
        pair = self.metric.holder(self.support)
        radii = w1_radii(self.confidence, self.rewards)
        return self.empirical(self.grid) + pair.constant * ((self.grid * radii) ** pair.q).sum(axis=1)


class FixedGrid(Reference):
    """``early``: choose a mixture also in the first rounds, while some arm has no reward yet."""

    def __init__(
        self,
        metric: Any,
        n_arms: int,
        support: Any,
        *,
        epsilon: float,
        branching: int = 4,
        exploration: float = 1.0,
        confidence: str | None = None,
        delta: float = 0.05,
        early: bool = False,
    ) -> None:
        super().__init__(metric, n_arms, support)
        self.confidence = Confidence(confidence, support, n_arms, delta)
        self.grid = ucb_grid(n_arms, epsilon / branching)
        self.xi, self.early = exploration, early

    def index(self) -> np.ndarray:
        return bounds(self.metric, self.confidence, self.rewards, self.grid, 1)

    def select(self) -> int:
        if self.early or all(self.rewards):
            self.choose(self.index())
        return self.fewest() if self.under_explored(self.xi) else self.tracking()


def tracking_grid(kept: list[int], branching: int, phases: int) -> np.ndarray:
    """``eq:any_discrete_set_tracking``, in fractions: b(i) = kept(i)·2^(L−1)/A^L, every combination tried.

    With an odd number of arms no such weights add up to 1; the last arm then takes the difference, inside its box.
    Where the set is empty: the kept mixture, with every zero raised to half a step at the cost of the largest weight.
    """
    reach = Fraction(2 ** (phases - 1), branching**phases)  # half the side of the box
    spacing = Fraction(2**phases, branching ** (phases + 1))
    middle = [n * reach for n in kept]  # b of phase L lies on that phase's grid, whose spacing is the same number
    sides: list[list[Fraction]] = []
    for b in middle:
        candidates = [(n + Fraction(1, 2)) * spacing for n in range(int(1 / spacing) + 1)]
        sides.append([a for a in candidates if b - reach <= a <= b + reach])
    rows = []
    if len(kept) % 2 == 0:
        rows = [list(a) for a in itertools.product(*sides) if sum(a) == 1]
    else:
        for head in itertools.product(*sides[:-1]):
            last = 1 - sum(head)
            if last > 0 and middle[-1] - reach <= last <= middle[-1] + reach:
                rows.append([*head, last])
    if not rows:
        row = [max(b, spacing / 2) for b in middle]
        row[kept.index(max(kept))] += 1 - sum(row)
        rows = [row]
    return np.array(rows, dtype=float)


class CIRT(Reference):
    def __init__(
        self,
        metric: Any,
        n_arms: int,
        support: Any,
        *,
        epsilon: float,
        branching: int = 4,
        exploration: float = 1.0,
        delta: float = 0.05,
        stopping: str = "box",
        tolerance: float | None = None,
        confidence: str | None = None,
    ) -> None:
        super().__init__(metric, n_arms, support)
        assert branching >= 4 and branching % 2 == 0 and stopping in ("box", "literal")
        self.confidence = Confidence(confidence, support, n_arms, delta)
        self.branching, self.half, self.xi, self.stopping = branching, branching // 2, exploration, stopping
        self.phases = math.ceil(math.log(1 / epsilon) / math.log(self.half) - 1e-9)
        width = 4 * support.sigma if isinstance(support, Real) else support.hi - support.lo
        spacing = 1 / (branching * (branching // 2) ** (self.phases - 1))  # of the last phase
        self.tolerance = 0.5 * spacing**2 * (metric.maximum(0, 1).value - metric.minimum(0, 1).value) * width
        if tolerance is not None:
            self.tolerance = tolerance
        self.start_phase(None)

    def size(self, phase: int) -> int:
        return self.branching * self.half ** (phase - 1)

    def start_phase(self, kept: np.ndarray | None) -> None:
        """All n ≥ 0 with Σn = N, in lexicographic order; after the first phase only those in the box kept."""
        total = self.size(self.phase)
        rows = []
        for head in itertools.product(range(total + 1), repeat=self.n_arms - 1):
            n = [*head, total - sum(head)]
            away = [0] if kept is None else [abs(a - int(m) * self.half) for a, m in zip(n, kept, strict=True)]
            if n[-1] >= 0 and max(away) <= self.half:
                rows.append(n)
        self.integers = np.array(rows)
        self.grid = self.integers / total
        self.choice = self.mixture = None

    def start_tracking(self, kept: np.ndarray) -> None:
        self.grid = tracking_grid([int(n) for n in kept], self.branching, self.phases)
        self.take(int(np.flatnonzero(tied(self.empirical(self.grid)))[0]))

    def lead(self) -> None:
        best = tied(self.empirical(self.grid))
        if self.choice is None or not best[self.choice]:
            self.take(int(np.flatnonzero(best)[0]))

    def stops(self) -> bool:
        leader = int(self.choice)
        low = bounds(self.metric, self.confidence, self.rewards, self.grid[[leader]], -1)[0]
        high = bounds(self.metric, self.confidence, self.rewards, self.grid, 1)
        for k in range(len(self.grid)):
            if k == leader or high[k] < low:
                continue
            if self.stopping == "literal":
                return False
            near = max(abs(self.integers[k] - self.integers[leader])) <= 1
            if not near and high[k] - low > self.tolerance:
                return False
        return True

    def tell(self, arm: int, reward: float) -> None:
        super().tell(arm, reward)
        if self.phase > self.phases or not all(self.rewards):
            return
        self.lead()
        if self.stops():
            self.phase_ends.append(self.t)
            kept = self.integers[self.choice]
            self.phase += 1
            if self.phase <= self.phases:
                self.start_phase(kept)
                self.lead()
            else:
                self.start_tracking(kept)

    def select(self) -> int:
        return self.fewest() if self.under_explored(self.xi) else self.tracking()


class UCB1(Reference):
    def select(self) -> int:
        if min(self.pulls) == 0:
            return self.fewest()
        scale = self.support.sigma if isinstance(self.support, Real) else self.support.width / 2
        index = [
            sum(r) / len(r) + scale * math.sqrt(8 * math.log(self.t) / n)
            for r, n in zip(self.rewards, self.pulls, strict=True)
        ]
        return int(np.flatnonzero(tied(np.array(index)))[0])
