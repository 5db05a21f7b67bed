"""A quick look: the best mixture in the data for one preference after the other, while somebody moves a slider.

Nothing of the rewards is worked out twice: they lie on common cells once, all of them and a thinner picture of them. A
mixture is chosen on the thin picture, from where the last one ended; what it and the single arms are worth is worked
out on all rewards. So the worths are those of the data to the last digit, and the shares are nearly the best ones. How
sure that is, a glance does not say: that is what :func:`pmbandits.advice.recommend.judge` is for, which takes its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.advice.evidence import TIE, Problem, values_alone
from pmbandits.best.concave import maximise_concave
from pmbandits.best.search import exchange
from pmbandits.best.values import Values
from pmbandits.limits import Limits
from pmbandits.limits.polytope import Polytope
from pmbandits.logs import thin
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms
from pmbandits.metrics.pool import AtomPool

_POINTS = 192  # points of an arm on which a mixture is chosen
_SEARCHED = 32  # the same where the choice is a search
_STARTS = 64  # random mixtures from which a search may begin
_CLIMBED = 2  # how many of the best starts are improved
_FINEST, _EXCHANGES = 0.02, 6  # the smallest share that is moved from arm to arm, and how often
_CORNERS = 256  # corners of what limits allow, if they are so few
_DIRECTIONS = 12  # else the corners in so many directions
_MANY, _FEW = 12, 7  # arms, and corners, among which a search goes
_ROUNDS = 10  # rounds in which a corner joins


@dataclass(frozen=True)
class Look:
    """What a quick look saw.

    Attributes
    ----------
    weights, value : the best mixture, nearly, and what it is worth in the data.
    singles : what each arm alone is worth in the data.
    unlimited : what the best mixture would be worth without limits; ``value`` where there are none.
    """

    weights: FloatArray
    value: float
    singles: FloatArray
    unlimited: float

    @property
    def best_arm(self) -> int:
        """The best single arm."""
        return int(np.argmax(self.singles))

    @property
    def gain(self) -> float:
        """What the mixture is worth above the best single arm; below 0 where limits cost more than mixing gains."""
        return self.value - float(self.singles.max())

    @property
    def cost(self) -> float:
        """How much utility the limits cost."""
        return max(self.unlimited - self.value, 0.0)


class Glance:
    """Quick looks at one problem.

    >>> from pmbandits.advice.recommend import problem_of
    >>> from pmbandits.logs import read
    >>> from pmbandits.metrics import metric
    >>> glance = Glance(problem_of(read({"a": [0, 1, 1, 1, 1], "b": [0, 0, 0, 1, 0]})))
    >>> look = glance.look(metric("gini"))
    >>> look.weights.round(2), round(look.value, 3), round(look.gain, 3)
    (array([0.5, 0.5]), 0.25, 0.09)
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.names = [arm.name for arm in problem.log.arms]
        thinned = [thin(s.x, s.p, _POINTS, ends=True) for s in problem.samples]
        rough = [thin(s.x, s.p, _SEARCHED, ends=True) for s in problem.samples]
        self._whole = AtomPool([Atoms(s.x, s.p) for s in problem.samples])
        self._pool = AtomPool([Atoms(x, p / p.sum()) for x, p, _ in thinned])
        self._rough = AtomPool([Atoms(x, p / p.sum()) for x, p, _ in rough])
        self._last = np.full(len(self.names), 1.0 / len(self.names))
        self.free = lru_cache(maxsize=256)(self._free)

    def look(self, metric: Distortion, limits: Limits | None = None) -> Look:
        """The best mixture for a preference, within limits if there are any."""
        weights, value, singles = self.free(metric)
        if limits is None or not len(limits) or limits.keeps(weights):
            return Look(weights, value, singles, value)
        within = self._within(metric, limits, singles)
        return Look(within, self.worth(metric, within), singles, value)

    def worth(self, metric: Distortion, weights: FloatArray) -> float:
        """What a mixture is worth in the data: all rewards lie in order already."""
        return self._whole.value(metric, weights)

    def _free(self, metric: Distortion) -> tuple[FloatArray, float, FloatArray]:
        samples = self.problem.samples
        singles = values_alone(metric, samples)
        best = int(np.argmax(singles))
        top = np.eye(singles.size)[best]
        if singles.size == 1 or metric.shape in ("convex", "linear"):
            return top, float(singles[best]), singles
        if metric.shape == "concave":
            # A start with a share of every arm: an interior point method cannot leave the border.
            start = 0.8 * self._last + 0.2 / singles.size
            scale = max(float(np.abs(singles).max()), 1e-12 * float(self._pool.omega.sum()), 1e-300)
            weights, _ = maximise_concave(metric, self._pool, start, accuracy=1e-4, scale=scale)
        else:
            weights = self._search(metric, np.eye(singles.size)[np.argsort(-singles, kind="stable")[:_MANY]])
        weights = np.where(weights < 1e-3, 0.0, weights)
        weights = weights / weights.sum()
        value = self.worth(metric, weights)
        if value <= singles[best] + TIE * abs(value):
            return top, float(singles[best]), singles
        self._last = weights
        return weights, value, singles

    def _search(self, metric: Distortion, columns: FloatArray) -> FloatArray:
        """For metrics of any shape: among averages of columns, which are arms, or corners of what limits allow."""
        of_arms = Values(metric, self._rough)

        def values_at(shares: FloatArray) -> FloatArray:
            return of_arms(shares @ columns)

        count = columns.shape[0]
        eye = np.eye(count)
        near = min(count, 10)
        i, j = np.triu_indices(near, 1)
        pairs = [share * eye[i] + (1.0 - share) * eye[j] for share in (0.25, 0.5, 0.75)]
        rng = np.random.default_rng(0)
        starts = np.vstack((eye, *pairs, rng.dirichlet(np.full(count, 0.3), _STARTS)))
        values = values_at(starts)
        chosen = [starts[k] for k in np.argsort(-values, kind="stable")[:_CLIMBED]]
        improved = [exchange(values_at, start, _FINEST, _EXCHANGES) for start in chosen]
        shares, _ = max(improved, key=lambda pair: pair[1])
        return np.asarray(shares @ columns)

    def _within(self, metric: Distortion, limits: Limits, singles: FloatArray) -> FloatArray:
        polytope = limits.polytope
        if metric.shape == "linear":
            top = polytope.highest(singles)
            assert top is not None
            return top.at
        if metric.shape == "concave":
            return self._corner_by_corner(metric, polytope, singles)
        corners = polytope.corners(_CORNERS)
        if corners is None:
            rng = np.random.default_rng(0)
            directions = [singles, *rng.normal(size=(_DIRECTIONS, singles.size))]
            found = [top.at for top in map(polytope.highest, directions) if top is not None]
            corners = np.unique(np.round(found, 14), axis=0)
        worth = Values(metric, self._rough)(corners)
        if metric.shape == "convex":
            return np.asarray(corners[int(np.argmax(worth))])
        return self._search(metric, corners[np.argsort(-worth, kind="stable")[:_FEW]])

    def _corner_by_corner(self, metric: Distortion, polytope: Polytope, singles: FloatArray) -> FloatArray:
        """A concave metric: the best average of a few corners, then the corner that its slopes point at joins."""
        laid = self._pool
        scale = max(float(np.abs(singles).max()), 1e-12 * float(laid.omega.sum()), 1e-300)
        slopes = singles
        columns = np.zeros((0, singles.size))
        shares, weights = np.zeros(0), np.zeros(singles.size)
        for _ in range(_ROUNDS):
            top = polytope.highest(slopes)
            assert top is not None
            close = columns.size and np.abs(columns - top.at).max(axis=1).min() <= 1e-9
            if close or (columns.size and float((top.at - weights) @ slopes) <= 1e-4 * scale):
                break
            columns = np.vstack((columns[shares > 1e-3], top.at))
            shares = np.full(columns.shape[0], 1.0 / columns.shape[0])
            if columns.shape[0] > 1:
                shares, _ = maximise_concave(metric, laid.mixed(columns), shares, accuracy=1e-4, scale=scale)
            weights = shares @ columns
            # A little of every arm keeps the slopes finite where h is vertical.
            inside = 0.999 * weights + 0.001 / singles.size
            slopes = np.nan_to_num(laid.gradient(metric, laid.curve(inside)), posinf=1e9, neginf=-1e9)
        return weights
