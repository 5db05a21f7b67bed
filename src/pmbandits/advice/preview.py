"""A fast preview of the best mixture for one metric after the other, while somebody moves a slider.

Rewards are tabulated once: all of them, and a coarsened version. A
mixture is chosen on the coarsened rewards, from where the last one ended; its utility and that of the arms is worked
out on all rewards. So the utilities are those of the data to the last digit, and the shares are nearly the best. How
sure that is, a preview does not say: :func:`pmbandits.advice.recommend.advise_on_problem` does, which takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.inference import TIE_TOLERANCE, utilities_of_arms
from pmbandits.advice.problem import Problem
from pmbandits.constraints import Limits
from pmbandits.constraints.polytope import Polytope
from pmbandits.logs import coarsen_points
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.concave import maximise_concave
from pmbandits.optimize.search import improve_by_weight_exchanges
from pmbandits.tables.distributions import Atoms
from pmbandits.tables.survival_table import SurvivalTable

_CONCAVE_POINTS = 192  # points of an arm on which a mixture is chosen
_SEARCH_POINTS = 32  # points of an arm where a mixture is searched for (h neither concave nor convex)
_RANDOM_STARTS = 64  # random mixtures from which a search may begin
_IMPROVED_STARTS = 2  # how many of the best starts are improved
_SMALLEST_MOVE, _MOST_EXCHANGES = 0.02, 6  # the smallest share that is moved from arm to arm, and how often
_MOST_VERTICES = 256  # corners of what limits allow, if they are so few
_RANDOM_DIRECTIONS = 12  # else the corners in so many directions
_MOST_ARMS, _MOST_COLUMNS = 12, 7  # arms, and corners, among which a search goes


@dataclass(frozen=True)
class PreviewResult:
    """The result of a preview.

    Attributes
    ----------
    weights, value : the best mixture (nearly), and its utility in the data.
    arm_utilities : the utility of each single arm in the data.
    unconstrained_value : the utility of the best mixture without limits; ``value`` where there are none.
    loss : whether rewards are losses that were negated.
    """

    weights: FloatArray
    value: float
    arm_utilities: FloatArray
    unconstrained_value: float
    loss: bool = False

    @property
    def best_arm(self) -> int:
        """The best single arm."""
        return int(np.argmax(self.arm_utilities))

    @property
    def gain(self) -> float:
        """Utility of the mixture minus that of the best arm; below 0 where limits cost more than mixing gains."""
        return self.value - float(self.arm_utilities.max())

    def in_sign_of_data(self, value: float) -> float:
        """A utility or an average in the sign of the data: losses are losses again."""
        return -value if self.loss and value else value

    @property
    def cost_of_limits(self) -> float:
        """How much utility the limits cost."""
        return max(self.unconstrained_value - self.value, 0.0)


class Preview:
    """Fast approximate best mixtures for one problem.

    >>> from pmbandits.advice.problem import make_problem
    >>> from pmbandits.logs import read_log
    >>> from pmbandits.metrics import metric
    >>> preview = Preview(make_problem(read_log({"a": [0, 1, 1, 1, 1], "b": [0, 0, 0, 1, 0]})))
    >>> found = preview.best_mixture(metric("gini"))
    >>> found.weights.round(2), round(found.value, 3), round(found.gain, 3)
    (array([0.5, 0.5]), 0.25, 0.09)
    """

    def __init__(self, problem: Problem, loss: bool = False) -> None:
        self.problem, self.loss = problem, loss
        self.names = [arm.name for arm in problem.log.arms]
        thinned = [coarsen_points(s.x, s.p, _CONCAVE_POINTS, denser_at_ends=True) for s in problem.samples]
        coarse = [coarsen_points(s.x, s.p, _SEARCH_POINTS, denser_at_ends=True) for s in problem.samples]
        self._full_pool = SurvivalTable.from_atoms([Atoms(s.x, s.p) for s in problem.samples])
        self._thinned_pool = SurvivalTable.from_atoms([Atoms(x, p / p.sum()) for x, p, _ in thinned])
        self._coarse_pool = SurvivalTable.from_atoms([Atoms(x, p / p.sum()) for x, p, _ in coarse])
        self._warm_start = np.full(len(self.names), 1.0 / len(self.names))
        self.unconstrained = lru_cache(maxsize=256)(self._best_unconstrained_mixture)

    def best_mixture(self, metric: Distortion, limits: Limits | None = None) -> PreviewResult:
        """The best mixture for a preference, within limits if there are any."""
        weights, value, arm_utilities = self.unconstrained(metric)
        if limits is None or not len(limits) or limits.keeps(weights):
            return PreviewResult(weights, value, arm_utilities, value, self.loss)
        constrained = self._best_constrained_mixture(metric, limits, arm_utilities)
        return PreviewResult(constrained, self.utility(metric, constrained), arm_utilities, value, self.loss)

    def utility(self, metric: Distortion, weights: FloatArray) -> float:
        """The utility of a mixture in the data."""
        return self._full_pool.value(metric, weights)

    def _best_unconstrained_mixture(self, metric: Distortion) -> tuple[FloatArray, float, FloatArray]:
        samples = self.problem.samples
        arm_utilities = utilities_of_arms(metric, samples)
        best = int(np.argmax(arm_utilities))
        top = np.eye(arm_utilities.size)[best]
        if arm_utilities.size == 1 or metric.shape in ("convex", "linear"):
            return top, float(arm_utilities[best]), arm_utilities
        if metric.shape == "concave":
            # A start with a share of every arm: an interior point method cannot leave the border.
            start = 0.8 * self._warm_start + 0.2 / arm_utilities.size
            weights = self._best_mixture_for_concave_metric(metric, start, arm_utilities)
        else:
            weights = self._best_mixture_by_local_search(
                metric, np.eye(arm_utilities.size)[np.argsort(-arm_utilities, kind="stable")[:_MOST_ARMS]]
            )
        weights = np.where(weights < 1e-3, 0.0, weights)
        weights = weights / weights.sum()
        value = self.utility(metric, weights)
        if np.count_nonzero(weights) == 1 or value <= arm_utilities[best] + TIE_TOLERANCE * abs(value):
            return top, float(arm_utilities[best]), arm_utilities
        self._warm_start = weights
        return weights, value, arm_utilities

    def _best_mixture_for_concave_metric(
        self, metric: Distortion, start: FloatArray, arm_utilities: FloatArray, polytope: Polytope | None = None
    ) -> FloatArray:
        """The best mixture for a concave metric, among all or among those of a polytope."""
        pool = self._thinned_pool
        scale = max(float(np.abs(arm_utilities).max()), 1e-12 * float(pool.cell_widths.sum()), 1e-300)
        return maximise_concave(metric, pool, start, accuracy=1e-4, scale=scale, polytope=polytope).weights

    def _best_mixture_by_local_search(self, metric: Distortion, columns: FloatArray) -> FloatArray:
        """Local search for h of any shape among averages of columns: arms, or vertices of the allowed mixtures."""

        def values_at(shares: FloatArray) -> FloatArray:
            return self._coarse_pool.values(metric, shares @ columns)

        count = columns.shape[0]
        eye = np.eye(count)
        near = min(count, 10)
        i, j = np.triu_indices(near, 1)
        pairs = [share * eye[i] + (1.0 - share) * eye[j] for share in (0.25, 0.5, 0.75)]
        rng = np.random.default_rng(0)
        starts = np.vstack((eye, *pairs, rng.dirichlet(np.full(count, 0.3), _RANDOM_STARTS)))
        values = values_at(starts)
        chosen = [starts[k] for k in np.argsort(-values, kind="stable")[:_IMPROVED_STARTS]]
        improved = [improve_by_weight_exchanges(values_at, start, _SMALLEST_MOVE, _MOST_EXCHANGES) for start in chosen]
        shares, _ = max(improved, key=lambda pair: pair[1])
        return np.asarray(shares @ columns)

    def _best_constrained_mixture(self, metric: Distortion, limits: Limits, arm_utilities: FloatArray) -> FloatArray:
        polytope = limits.polytope
        if metric.shape == "linear":
            top = polytope.maximise_linear(arm_utilities)
            assert top is not None
            return top.at
        if metric.shape == "concave":
            return self._best_mixture_for_concave_metric(metric, self._warm_start, arm_utilities, polytope)
        corners = polytope.corners(_MOST_VERTICES)
        if corners is None:
            rng = np.random.default_rng(0)
            directions = [arm_utilities, *rng.normal(size=(_RANDOM_DIRECTIONS, arm_utilities.size))]
            found = [top.at for top in map(polytope.maximise_linear, directions) if top is not None]
            corners = np.unique(np.round(found, 14), axis=0)
        utility = self._coarse_pool.values(metric, corners)
        if metric.shape == "convex":
            return np.asarray(corners[int(np.argmax(utility))])
        return self._best_mixture_by_local_search(metric, corners[np.argsort(-utility, kind="stable")[:_MOST_COLUMNS]])
