"""The best mixture for each segment of a population, where the metric is about the rewards of the whole population.

A pair of a segment and an arm is a column. The pooled distribution is a mixture of columns, and the weights of a
segment's columns add up to how often it comes: linear limits, which all solvers know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from pmbandits._text_tables import aligned_columns
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.constraints import Limits, Shares, limits
from pmbandits.constraints.polytope import Polytope, simplex_polytope
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.value import value_of_mixture
from pmbandits.optimize.result import OracleResult
from pmbandits.optimize.shadow_prices import ShadowPrice, compute_shadow_prices
from pmbandits.population import Population

_SHOWN_ARMS, _SHOWN_SEGMENTS = 8, 12

Solve = Callable[[Distortion, Bandit, Polytope | None], OracleResult]


@dataclass(frozen=True, repr=False)
class SegmentOracleResult:
    """The best mixture for each segment of a population: the result of :func:`oracle` with segments.

    Attributes
    ----------
    weights : the share of each arm (column) among the people of each segment (row); each row adds up to 1.
    population : the segments, how often they come, and their arms.
    columns : the answer for the whole population, in which each pair of a segment and an arm counts as an arm of its
        own: ``columns.weights`` adds up to a segment's frequency in each segment.

    The utility and its certificate (``value``, ``gap``, ``certified``, ``method``), and with limits ``limits``,
    ``multipliers`` and ``prices``, are as in :class:`OracleResult`, for the rewards of the whole population.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> arms = {"new": pmb.Bandit.bernoulli([0.4, 0.9]), "returning": pmb.Bandit.bernoulli([0.3, 0.1])}
    >>> best = pmb.oracle("mean", arms, segments={"new": 0.6, "returning": 0.4}, shares="arm 0 <= 10%")
    >>> best.segments, best.weights.round(6).tolist()
    (('new', 'returning'), [[0.0, 1.0], [0.25, 0.75]])
    """

    weights: FloatArray
    population: Population
    columns: OracleResult
    compute_separate_value: Callable[[], float] = field(compare=False)

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the segments, the rows of ``weights``."""
        return self.population.segments.names

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms, the columns of ``weights``."""
        return self.population.segments.arms

    @property
    def frequencies(self) -> FloatArray:
        """How often each segment comes."""
        return self.population.frequencies

    @property
    def value(self) -> float:
        """The utility of the rewards of the whole population."""
        return self.columns.value

    @property
    def gap(self) -> float:
        """No other mixtures are better than ``value`` by more than this; NaN when nothing is certified."""
        return self.columns.gap

    @property
    def certified(self) -> bool:
        """Whether ``gap`` is a useful proof, that is at most 1 % of the utility."""
        return self.columns.certified

    @property
    def method(self) -> str:
        """How the mixtures were found."""
        return self.columns.method

    @property
    def limits(self) -> Limits | None:
        """The limits that the mixtures keep, if there are any."""
        return self.columns.limits

    @property
    def multipliers(self) -> FloatArray | None:
        """For each limit, how fast the utility rises when the limit is loosened a little."""
        return self.columns.multipliers

    @property
    def prices(self) -> dict[str, ShadowPrice]:
        """What each limit costs, by its text."""
        return self.columns.prices

    @cached_property
    def separate_value(self) -> float:
        """The utility of the whole population if each segment had the mixture that is best for itself alone.

        Limits are left out of account.
        """
        return self.compute_separate_value()

    @property
    def gain(self) -> float:
        """The utility less that of mixtures which are best for each segment by itself."""
        return self.value - self.separate_value

    @property
    def is_mixture(self) -> bool:
        """Whether some segment has more than one arm."""
        return bool(((self.weights > 0.0).sum(axis=1) > 1).any())

    def _rows(self) -> list[tuple[str, ...]]:
        """The heads, then for each segment how often it comes and its shares; what is long is cut."""
        arms = range(min(len(self.names), _SHOWN_ARMS))
        more = ("…",) if len(self.names) > _SHOWN_ARMS else ()
        rows = [("", "comes", *(self.names[k] for k in arms), *more)]
        for s, often in list(enumerate(self.frequencies))[:_SHOWN_SEGMENTS]:
            offered = self.population.segments.column_at[s] >= 0
            shares = (f"{self.weights[s, k]:.4g}" if offered[k] else "–" for k in arms)
            rows.append((self.segments[s], f"{100.0 * often:.3g}%", *shares, *more))
        left = len(self.segments) - _SHOWN_SEGMENTS
        return rows + ([(f"… {left} more", *("",) * (len(rows[0]) - 1))] if left > 0 else [])

    def _repr_html_(self) -> str:
        from pmbandits import _html

        better = "no other mixtures are better" + (f" by more than {self.gap:.2g}" if self.gap else "")
        rows = [
            ("utility of all rewards", f"{self.value:.6g}"),
            ("each segment's own best", f"{self.separate_value:.6g}"),
            ("gain", f"{self.gain:.3g}"),
            ("certificate", better if self.certified else "none: it was found by a search"),
        ]
        if self.limits is not None:
            rows.append(("within the limits", str(self.limits)))
        head, *body = self._rows()
        shares = _html.html_table(head, body)
        title = "The best mixture for each segment" if self.is_mixture else "The best arm for each segment"
        return _html.html_titled_block(title, _html.html_side_by_side(shares, _html.html_table((), rows)))

    def __repr__(self) -> str:
        proof = f"gap={self.gap:.2g}" if self.certified else "gap not certified"
        kept = f", within {self.limits}" if self.limits is not None and len(self.limits) else ""
        rows = self._rows()
        table = "\n  ".join(aligned_columns(rows, right=range(1, len(rows[0]))))
        return f"SegmentOracleResult(value={self.value:.9g}, {proof}{kept}\n  {table})"


def best_mixtures_of_segments(
    metric: Distortion,
    population: Population,
    shares: Shares,
    cost: Mapping[str, float] | None,
    budget: float | None,
    solve: Solve,
) -> SegmentOracleResult:
    """The best mixtures that keep the limits; ``solve`` finds the best mixture of a bandit's arms in a polytope."""
    segments, frequencies, columns = population.segments, population.frequencies, population.columns
    kept, within = None, simplex_polytope(segments.n_columns)
    if not (shares is None and cost is None and budget is None):
        kept = limits(shares, segments.arms, cost=cost, budget=budget, segments=segments, frequencies=frequencies)
        within = kept.polytope
    best = solve(metric, columns, within.with_segments(segments.segment_of, frequencies))
    if kept is None:
        best = replace(best, multipliers=None)
    else:
        assert kept.segment_of_limit is not None
        # A limit within a segment was multiplied by its frequency.
        units = np.where(kept.segment_of_limit >= 0, frequencies[kept.segment_of_limit], 1.0) / kept.sizes
        known = np.full(len(kept), np.nan) if best.multipliers is None else best.multipliers[: len(kept)] * units
        again = partial(_solve_columns, population, solve)
        prices = partial(compute_shadow_prices, metric, columns, kept, again)
        best = replace(best, limits=kept, multipliers=known, compute_prices=prices)
    separate = partial(_value_of_separate_mixtures, metric, population, solve)
    return SegmentOracleResult(population.shares_within(best.weights), population, best, separate)


def _solve_columns(
    population: Population, solve: Solve, metric: Distortion, columns: Bandit, *, shares: Limits
) -> OracleResult:
    return best_mixtures_of_segments(metric, population, shares, None, None, solve).columns


def _value_of_separate_mixtures(metric: Distortion, population: Population, solve: Solve) -> float:
    """The utility of the whole population where each segment has the mixture that is best for itself."""
    segments, columns = population.segments, population.columns
    weights = np.zeros(segments.n_columns)
    for s, often in enumerate(population.frequencies):
        mine = np.flatnonzero(segments.segment_of == s)
        own = Bandit([columns.distributions[i] for i in mine], support=columns.support)
        weights[mine] = often * solve(metric, own, None).weights
    return value_of_mixture(metric, list(columns.distributions), weights)
