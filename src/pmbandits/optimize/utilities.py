"""Utilities of many mixtures of known arms at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.value import value_of_mixture
from pmbandits.tables.distributions import Atoms, Distribution
from pmbandits.tables.from_distributions import survival_table
from pmbandits.tables.survival_table import SurvivalTable

_RECHECK_WITHIN = 1e-9  # utilities of single arms that are closer to the best are worked out by themselves
_DENSE_FACTOR = 4  # atoms arm by arm, if all arms on all cells are so many times as much work


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
