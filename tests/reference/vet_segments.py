"""A slow reference of Vet with segments: what differs from Vet, decision by decision, by the written rule.

Columns are pairs of a segment and an arm, in the order of the segments. As in the reference of Vet, the best mixture a
and for concave h the shares b are taken over from the policy that is tested, and are checked to be good enough. Both
are joint weights: those of a segment add up to how often it came.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq, linprog, minimize

from pmbandits.supports import Binary
from tests.reference import vet
from tests.reference.vet import Decision, Floats

N_RIVALS = 12  # plans that are best for a lower CVaR, for as many thresholds
HORIZON = 3.0  # plans are judged by what all will have had after so many times the rounds so far


class SegmentVet(vet.Vet):
    """Driven from outside: ``due``, ``look`` if the policy looked, ``decide``, ``pulled``, and ``tell``."""

    def __init__(self, metric: Any, sizes: list[int], support: Any, bins: int | None = None) -> None:
        super().__init__(metric, sum(sizes), support, bins)
        self.segment_of, self.n_segments = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
        self.windows = np.zeros(self.n_segments, dtype=int)
        self.levels, self.thresholds = np.zeros(self.n_segments), np.full(self.n_segments, -math.inf)

    # ---- counting ----
    def columns(self, s: int) -> np.ndarray:
        return np.flatnonzero(self.segment_of == s)

    def arrivals(self, s: int) -> int:
        return int(self.pulls[self.columns(s)].sum())

    def elapsed(self, s: int) -> int:
        return int(max(self.arrivals(s), self.told[self.columns(s)].sum()))

    def is_open(self, s: int) -> bool:
        return bool(self.told[self.columns(s)].min() > 0)

    def frequencies(self) -> Floats:
        """How often segments came, of those that have rewards."""
        n = np.array([self.elapsed(s) if self.told[self.columns(s)].sum() else 0 for s in range(self.n_segments)])
        return n / n.sum()

    # ---- when to look ----
    def due_for(self, arriving: int) -> tuple[bool, bool]:
        """Whether to look now that somebody of a segment is here, and whether that is clear."""
        rewards, end = int(self.told.sum()), self.windows[arriving]
        enough = rewards >= self.looked + max(1, self.looked // 1000, self.n_segments // 4)
        if self.pulls.sum() >= self.window_end or rewards >= self.next_look:
            return True, True
        if end == 0 or (self.arrivals(arriving) >= end and enough):
            return True, True
        found, near = False, False
        for i in range(self.n_arms):
            more = len(self.rewards[i]) - self.vetted_told[i]
            if not self.left_out[i]:
                found |= more >= max(1, 0.1 * self.vetted_told[i]) and self.windows[self.segment_of[i]] > 0
            elif more > 0 or self.pulls[i] != self.vetted_pulls[i]:
                if self.shape == "concave" or isinstance(self.support, Binary):
                    self.work_out(i)
                    found |= self.far[i] <= 0.0 and more > 0
                    size = 1e-6 if self.shape == "concave" else vet.ROUGH
                    near |= self.evidence(i) * self.far[i] < size and more > 0
                else:  # D of the last look, and a reason to look
                    n = self.evidence(i)
                    self.index[i] = n * self.far[i] + math.log(n)
                    self.vetted_told[i], self.vetted_pulls[i] = len(self.rewards[i]), self.pulls[i]
                    found |= more > 0
        return found and enough, found or not (near and enough)

    # ---- a look ----
    def lay_out(self) -> None:
        paid, self.rewards = self.rewards, [x or [self.rewards[int(np.argmax(self.told))][0]] for x in self.rewards]
        super().lay_out()
        self.rewards = paid
        if self.bins is not None:
            self.points = self.bins
            self.widths = np.diff(self.points)
        self.above = np.array([vet.survival(self.points, x) if x else 0.0 * self.points[1:] for x in self.rewards])

    def tops(self, slope: Floats) -> Floats:
        """For each column the greatest slope of its segment; its own where a segment is not open."""
        out = slope.copy()
        for s in range(self.n_segments):
            if self.is_open(s):
                out[self.columns(s)] = slope[self.columns(s)].max()
        return out

    def gap(self, a: Floats, low: Floats, e: float) -> float:
        slope = self.slopes(a, e)
        return float((a - low) @ (self.tops(slope) - slope))

    def before_dropping(self, a: Floats, t: int) -> Floats:
        """The best mixture from which dropping shares of less than one pull can have made a."""
        p = self.frequencies()
        out = np.array([i for i in np.flatnonzero(a == 0.0) if self.is_open(self.segment_of[i])], dtype=int)
        most = np.array([p[s] / self.elapsed(s) for s in self.segment_of[out]])

        if not out.size:
            return a

        def whole(d: Floats) -> Floats:
            b = a.copy()
            for s in range(self.n_segments):
                b[self.columns(s)] *= 1.0 - d[self.segment_of[out] == s].sum() / max(p[s], 1e-300)
            b[out] = d
            return b

        found = [
            minimize(lambda d: -1e3 * self.value(whole(d)), x, bounds=[(0.0, m) for m in most], method="L-BFGS-B")
            for x in (0.0 * most, 0.5 * most)
        ]
        return max((whole(f.x) for f in found), key=self.value)

    def upper_bound(self, a: Floats) -> float:
        """Concave h: what no mixture exceeds, by cutting planes: each cell has at most what tangents of h allow."""
        p, cells, fixed = self.frequencies(), self.widths.size, [not self.is_open(s) for s in self.segment_of]
        equal = (self.segment_of == np.arange(self.n_segments)[:, None]).astype(float)
        bounds = [(x, x) if f else (0.0, 1.0) for x, f in zip(a, fixed, strict=True)] + [(None, None)] * cells
        at, upper, u = [np.full(cells, x) for x in np.linspace(0.005, 0.995, 34)], math.inf, a @ self.above
        for _ in range(12):
            at.append(np.clip(u, 1e-7, 1.0 - 1e-7))
            slopes = [vet.chord(self.h, x, 1e-7) for x in at]
            rows = np.vstack([np.hstack([-g[:, None] * self.above.T, np.eye(cells)]) for g in slopes])
            right = np.concatenate([np.asarray(self.h(x)) - g * x for x, g in zip(at, slopes, strict=True)])
            cost = np.concatenate((np.zeros(self.n_arms), -self.widths))
            sums = np.hstack((equal, np.zeros((self.n_segments, cells))))
            found = linprog(cost, rows, right, sums, equal @ a if any(fixed) else p, bounds=bounds, method="highs")
            upper = min(upper, float(self.points[0] * self.h(1.0) - found.fun))
            u = found.x[: self.n_arms] @ self.above
        return upper

    def plans(self) -> list[Floats]:
        """All plans: one arm in each open segment."""
        p, open_ones = self.frequencies(), [s for s in range(self.n_segments) if self.is_open(s)]
        out = []
        for arms in itertools.product(*(self.columns(s) for s in open_ones)):
            a = np.where([self.is_open(s) for s in self.segment_of], 0.0, self.a)
            a[list(arms)] = p[open_ones]
            out.append(a)
        return out

    def ahead(self, plan: Floats) -> Floats:
        """What all will have had after HORIZON times the rounds so far, if open segments follow a plan from now on."""
        out = plan.copy()
        for s in filter(self.is_open, range(self.n_segments)):
            own = self.columns(s)
            n = np.array([self.evidence(i) for i in own])
            out[own] = (1.0 - 1.0 / HORIZON) * plan[own] + self.p[s] * n / n.sum() / HORIZON
        return out

    def miss_of(self, a: Floats, e: float, goal: float, t: int) -> float:
        if self.shape == "convex" and not isinstance(self.support, Binary):
            return (max(self.value(self.ahead(x)) for x in self.plans()) - self.value(self.ahead(a))) / goal
        if self.shape == "concave":
            miss = self.gap(a, np.zeros(self.n_arms), e) if all(map(self.is_open, range(self.n_segments))) else math.inf
            if miss > goal:
                miss = min(miss, self.upper_bound(a) - self.value(self.before_dropping(a, t)))
            return miss / goal
        return 0.0

    def look(self, a: Floats, b: Floats) -> None:
        asked, rewards, t = int(self.pulls.sum()), int(self.told.sum()), self.t
        self.looks += 1
        self.window_end, self.looked = asked + max(1, asked // 100), rewards
        self.next_look = rewards + max(1, rewards // 100)
        for s in range(self.n_segments):
            self.windows[s] = self.arrivals(s) + max(1, self.arrivals(s) // 100) if self.is_open(s) else 0
        self.lay_out()
        self.within = sum(len(x) * float(np.var(x)) for x in self.rewards if x) / max(rewards - self.n_arms, 1)
        self.e = e = 0.5 / t
        goal = 0.02 * (self.points[-1] - self.points[0]) * float(np.abs(self.at_means).max()) / t
        self.p = p = self.frequencies()
        self.a = a.copy()
        low = np.zeros(self.n_arms)
        for s in range(self.n_segments):
            own = self.columns(s)
            assert abs(a[own].sum() - p[s]) < 1e-9 and a.min() >= 0.0, a
            if self.is_open(s):
                assert not ((a[own] > 0) & (a[own] * self.elapsed(s) < p[s] * (1.0 - 1e-9))).any(), a
                low[own] = p[s] * self.pulls[own] / self.windows[s]
            else:  # what was played
                paid = np.where(self.told[own] > 0, np.maximum(self.pulls[own], self.told[own]), 0)
                assert np.allclose(a[own], p[s] * paid / max(paid.sum(), 1), atol=1e-12), a
                low[own] = a[own]
        self.miss_a.append(self.miss_of(self.a, e, goal, t))
        if self.shape == "concave":
            assert abs(b.sum() - 1.0) < 1e-9 and (b >= low - 1e-12).all(), b
            self.b = b.copy()
            self.miss_b.append(self.gap(self.b, low, e) / goal)
        else:
            self.b = a.copy()
            for s in filter(self.is_open, range(self.n_segments)):
                own = self.columns(s)
                least, w = low[own] / p[s], a[own] / p[s]
                c = brentq(
                    lambda c, w=w, least=least: np.maximum(c * w, least).sum() - 1.0, 0.0, 1.0 + 1e-9, xtol=1e-15
                )
                self.b[own] = p[s] * np.maximum(c * w, least)
            self.miss_b.append(float(np.abs(self.b - b).max()) / 1e-6)
        self.left_out = np.array([a[i] == 0.0 and self.is_open(s) for i, s in enumerate(self.segment_of)])
        self.compute_requirements()
        self.vetted_told, self.vetted_pulls = self.told, self.pulls.copy()
        self.index[:], self.far[:] = math.inf, math.inf
        for i in np.flatnonzero(self.left_out):
            self.work_out(i)

    def compute_requirements(self) -> None:
        e = self.e * max(1.0, math.log(self.t))
        played = self.b if self.shape == "concave" else self.a
        self.phi = vet.phi(self.h, self.points, played @ self.above, e)
        slope = self.slopes(played, e)
        self.worth = self.value(self.a)
        for s in filter(self.is_open, range(self.n_segments)):
            own = self.columns(s)
            lag = self.lag_in(s)
            behind = own[np.flatnonzero(lag >= lag.max() - 1e-9)[0]]
            self.levels[s] = slope[behind] if self.shape == "concave" else self.a[own] @ slope[own] / self.p[s]
            members = int((~self.left_out[own]).sum())
            self.thresholds[s] = math.log(self.elapsed(s) / (members * own.size))

    def lag_in(self, s: int) -> Floats:
        """How far the arms of a segment are behind at the end of its window, or 100 arrivals from now if later."""
        own, n = self.columns(s), self.arrivals(s)
        end = min(max(self.windows[s], n + 1), n + 100)
        return self.b[own] / self.b[own].sum() * end - self.pulls[own]

    # ---- the index ----
    def work_out(self, i: int) -> None:
        s = self.segment_of[i]
        self.level, self.threshold = float(self.levels[s]), float(self.thresholds[s])
        super().work_out(i)

    def distance(self, i: int) -> float:
        if self.shape == "concave":
            return super().distance(i)
        if isinstance(self.support, Binary):
            return self.coin_in_segment(i)
        if self.shape == "convex":
            return self.distance_in_plans(i)
        self.set_requirements_by_chord(i)
        s = self.segment_of[i]
        rest = np.where(self.segment_of == s, 0.0, self.a)
        return min(self.kl_to_required_slope(i), 1.0, self.kl_beside(i, rest, self.p[s], self.worth))

    def coin_in_segment(self, i: int) -> float:
        """The nearest mean with which all together could have a better mean than what is played."""
        share, s = np.array([float(np.mean(x)) if x else 0.0 for x in self.rewards]), self.segment_of[i]
        p, played, best = share[i], float(self.a @ share), math.inf
        for side in (-1.0, 1.0):
            rest = 0.0  # the other segments have their least or their largest mean
            for r in range(self.n_segments):
                own = self.columns(r)
                if r != s:
                    extreme = side * (side * share[own]).max()
                    rest += self.p[r] * extreme if self.is_open(r) else self.a[own] @ share[own]
            better = self.means[(self.at_means > self.worth + 1e-12) & (side * (self.means - played) > 0.0)]
            if better.size:
                u = better[0] if side > 0 else better[-1]
                worse = played if abs(u - played) < self.means[1] else float(u) - side * self.means[1]
                goal = float(brentq(lambda x: self.h(x) - self.worth - 1e-12, worse, u, xtol=1e-15))
                q = (goal - rest) / self.p[s]
                best = min(best, 0.0 if side * (p - q) >= 0.0 else vet.coin_kl(p, q) if 0.0 <= q <= 1.0 else math.inf)
        return best

    def threshold_plans(self) -> list[Floats]:
        """For some thresholds z: in each open segment the arm with the least E max(z − X, 0)."""
        cells = self.points.size - 1
        n, out = min(N_RIVALS, cells), []
        for j in range(n):
            z = self.points[1 + j * (cells - 1) // max(n - 1, 1)]
            short = [np.mean(np.maximum(z - np.array(x), 0.0)) if x else math.inf for x in self.rewards]
            plan = self.a.copy()
            for s in filter(self.is_open, range(self.n_segments)):
                own = self.columns(s)
                plan[own] = 0.0
                first = next(i for i in own if short[i] <= min(short[k] for k in own) + 1e-13)
                plan[first] = self.p[s]
            out.append(plan)
        return out

    def distance_in_plans(self, i: int) -> float:
        """Convex h: the least relative entropy to be worth what is played, in the plan that suits the arm best.

        That is the one with the largest utility if the arm takes its place there, as the slopes at the plan say.
        """
        s, best, most = self.segment_of[i], self.a, -math.inf
        weight, worth = (1.0 - 1.0 / HORIZON) * self.p[s], self.value(self.ahead(self.a))
        for plan in (self.a, *self.threshold_plans()):
            own, slope = self.columns(s), self.slopes(self.ahead(plan), self.e)
            arm = own[np.argmax(plan[own])]
            promised = self.value(self.ahead(plan)) + weight * (slope[i] - slope[arm])
            if promised > most + 1e-12 * max(1.0, abs(most)) or math.isinf(most):
                best, most = plan, promised
        rest = self.ahead(np.where(self.segment_of == s, 0.0, best))
        value = self.value(rest + weight * np.eye(self.n_arms)[i])
        return 0.0 if value >= worth - 1e-12 else self.kl_beside(i, rest, weight, worth)

    def kl_beside(self, i: int, rest: Floats, weight: float, worth: float) -> float:
        """The least relative entropy for the arm with a weight to be worth so much, beside the rest."""
        laws = np.array([[(np.array(x) == point).mean() if x else 0.0 for point in self.points] for x in self.rewards])
        given = laws[i], worth
        if type(self.h).__name__ == "LowerCVaR":
            far = vet.lower_tail_to_be_worth(self.h.alpha, self.points, *given, rest @ laws, weight)
        else:
            far = vet.kl_to_reach_utility(self.h, self.points, *given, 6, rest @ laws, weight)
        pooled = rest @ self.above + weight * vet.survival(self.points, self.rewards[i])
        slopes = vet.phi(self.h, self.points, pooled, 0.5 / self.t)
        values = np.interp(self.rewards[i], self.points, slopes)
        return self.with_light_tails(far, values, (worth - vet.utility(self.h, self.points, pooled)) / weight)

    def with_light_tails(self, far: float, values: Floats, lack: float) -> float:
        """With several segments only for concave h."""
        return super().with_light_tails(far, values, lack) if self.shape == "concave" or self.n_segments == 1 else far

    def set_requirements_by_chord(self, i: int) -> None:
        s = self.segment_of[i]
        share = self.p[s] * min(self.evidence(i) / self.elapsed(s), 1.0)
        own, segment = self.above[i], np.where(self.segment_of == s, self.a, 0.0) @ self.above / self.p[s]
        above = self.a @ self.above + share * (own - segment)
        self.phi = vet.phi(self.h, self.points, above, 0.5 / self.t * max(1.0, math.log(self.t)))
        lack = self.worth - vet.utility(self.h, self.points, above)
        mean = float(np.mean(np.interp(self.rewards[i], self.points, self.phi)))
        self.level = mean + (lack if abs(lack) > 1e-13 else 0.0) / share

    # ---- a round ----
    def decide_for(self, arriving: int) -> Decision:
        """Which columns the rule allows for somebody of a segment, and whether that is clear."""
        own = self.columns(arriving)
        if not self.is_open(arriving):
            return Decision((int(own[np.argmin(self.pulls[own])]),), True)
        found = self._decide_in(arriving, own)
        level = self.shape == "concave" and np.abs(self.phi).max() < 1e-12  # a top of h, where slopes are rounding
        return Decision(found.allowed, found.sure and not level)

    def _decide_in(self, arriving: int, own: np.ndarray) -> Decision:
        index, threshold = np.where(self.left_out[own], self.index[own], math.inf), self.thresholds[arriving]
        least, near = float(index.min()), vet.NEAR
        if self.shape != "concave":
            near = vet.ROUGH if self.points.size <= 21 else vet.COARSE
        size = near * max(1.0, abs(threshold))
        if least < threshold:
            below = np.flatnonzero(index < threshold + size)
            if self.shape != "concave" and below.size > 1:
                return Decision(tuple(map(int, own[below])), least < threshold - size)
            first = index[below] <= least + near * max(1.0, abs(least))
            return Decision((int(own[np.argmin(index)]),), first.sum() == 1 and least < threshold - size)
        lag = self.lag_in(arriving)
        tied = np.flatnonzero(lag >= lag.max() - 1e-9)
        others = lag[lag < lag.max() - 1e-9]
        sure = least > threshold + size and not (others > lag.max() - vet.NEAR).any()
        return Decision((int(own[tied[0]]),), sure)
