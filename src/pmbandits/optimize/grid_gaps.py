"""The gaps between the best mixtures of a grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import etc_grid, ucb_grid
from pmbandits.optimize.best_mixture import oracle
from pmbandits.optimize.utilities import utilities


@dataclass(frozen=True)
class Gaps:
    """The gaps δ_ij(ε) of a grid: how much the utilities of the best mixtures differ (``eq:suboptimality_gaps``).

    0 is the best of all mixtures; 1, 2 and 3 are the best three of the grid. So ``d01`` is what the best mixture of the
    grid loses to the best of all, and ``d12`` what the second best of the grid loses to the first.
    """

    d01: float
    d02: float
    d03: float
    d12: float
    d13: float
    best: FloatArray = field(repr=False)
    size: int = 0


def gaps(metric: Distortion | str, bandit: Bandit, epsilon: float, kind: Literal["etc", "ucb"] = "etc") -> Gaps:
    """Work out δ_01, δ_02, δ_03, δ_12 and δ_13 on the ETC or the UCB grid.

    Grids that are too large to be listed are refused.

    Parameters
    ----------
    metric, bandit : what is valued, and the known arms.
    epsilon : ε, the spacing of the grid.
    kind : ``"etc"`` or ``"ucb"``, the grid of PM-ETC-M or that of PM-UCB-M.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> g = pmb.gaps(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 0.1)
    >>> round(g.d01, 12), round(g.d12, 6)
    (0.0, 0.0025)
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    _validation.check_choice("grid kind", kind, ["etc", "ucb"])
    grid = etc_grid(bandit.n_arms, epsilon) if kind == "etc" else ucb_grid(bandit.n_arms, epsilon)
    if grid.shape[0] < 3:
        raise ValueError(f"the grid has {grid.shape[0]} points; the gaps need three: take a smaller epsilon.")
    values = utilities(metric, bandit, grid)
    order = np.argsort(-values, kind="stable")[:3]
    first, second, third = (float(values[k]) for k in order)
    top = max(oracle(metric, bandit).value, first)
    return Gaps(top - first, top - second, top - third, first - second, first - third, grid[order[0]], grid.shape[0])
