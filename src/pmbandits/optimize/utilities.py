"""Utilities of mixtures of known arms: of one, or of many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.value import value_of_mixture
from pmbandits.population import Population
from pmbandits.tables.distributions import Atoms, Distribution
from pmbandits.tables.from_distributions import survival_table
from pmbandits.tables.survival_table import SurvivalTable

_RECHECK_WITHIN = 1e-9  # utilities of single arms that are closer to the best are worked out by themselves
_DENSE_FACTOR = 4  # atoms arm by arm, if all arms on all cells are so many times as much work


def utility(
    metric: Distortion | str,
    bandit: Bandit | Mapping[str, Bandit],
    weights: ArrayLike,
    *,
    segments: Mapping[str, float] | None = None,
) -> float:
    """The utility U_h of a mixture of known arms, which the paper calls V (``eq:V``).

    Parameters
    ----------
    metric : what you value: a metric, its name, or text such as ``"0.7*mean + 0.3*upper_cvar(0.9)"``.
    bandit : the arms; with segments a bandit for each.
    weights : the share of each arm; with segments a row for each, whose entries add up to 1.
    segments : how often each segment comes, as in :func:`oracle`.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> round(pmb.utility("gini", pmb.Bandit.bernoulli([0.4, 0.9]), [0.8, 0.2]), 12)
    0.25
    >>> arms = {"new": pmb.Bandit.bernoulli([0.4, 0.9]), "returning": pmb.Bandit.bernoulli([0.6, 0.1])}
    >>> round(pmb.utility("gini", arms, [[1, 0], [1, 0]], segments={"new": 0.5, "returning": 0.5}), 12)
    0.25
    """
    metric = as_metric(metric)
    if isinstance(bandit, Mapping) or segments is not None:
        population = Population.from_arguments(bandit, segments)
        bandit, mix = population.columns, population.weights_of_columns(weights)
    else:
        check_bandit(bandit)
        mix = _validation.check_weights(weights, bandit.n_arms)
    return value_of_mixture(metric, list(bandit.distributions), mix)


def utilities(metric: Distortion, bandit: Bandit, grid: FloatArray) -> FloatArray:
    """V of many mixtures, one row of weights each.

    >>> import pmbandits as pmb
    >>> utilities(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([0.24  , 0.2275])
    """
    return utility_function(metric, bandit)(grid)


def utility_function(metric: Distortion, bandit: Bandit) -> Callable[[FloatArray], FloatArray]:
    """A function that returns V of many mixtures (rows); what does not depend on them is computed once."""
    return partial(build_arm_table(metric, list(bandit.distributions)).values, metric)


def build_arm_table(metric: Distortion, distributions: list[Distribution]) -> SurvivalTable:
    """The arms on common cells, accurate for single arms and for the even mixture of all."""
    count = len(distributions)
    return survival_table(metric, distributions, np.vstack((np.eye(count), np.full((1, count), 1.0 / count))))


def single_arm_utilities(metric: Distortion, distributions: list[Distribution], table: SurvivalTable) -> FloatArray:
    """The utility of every arm by itself; the best ones to the last digit that integration gives."""
    count = len(distributions)
    atoms = [distribution for distribution in distributions if isinstance(distribution, Atoms)]
    if len(atoms) == count:
        work = sum(distribution.x.size for distribution in atoms)
        own = np.full(count, count * table.n_cells > _DENSE_FACTOR * work)
    else:
        own = np.array([isinstance(d, Atoms) or d.lattice or count <= 4 for d in distributions])
    out = np.zeros(count)
    if not own.all():
        out = table.values(metric)
        if table.remainder is not None and table.remainder.size >= count:
            out = out + table.remainder[:count]
        own |= ~np.isfinite(out)  # sums of several arms' cells can overflow where an arm's own do not
    for k in np.flatnonzero(own):
        out[k] = value_of_mixture(metric, [distributions[k]], np.ones(1))
    enough = float(out.max()) - _RECHECK_WITHIN * max(float(np.abs(out).max()), 1e-300)
    for k in np.flatnonzero((out >= enough) & ~own):
        out[k] = value_of_mixture(metric, [distributions[k]], np.ones(1))
    return out
