"""Steps for kernels of users on distributions that they draw themselves; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.mixtures._survival_table import (
    maximise_in_place_on_table,
    utility_of_survival,
    utility_on_table,
    utility_scale_of_table,
)
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import State


@shared("state, floats, table, floats -> float")
def best_mixture_of_drawn(s: State, x: FloatArray, above: FloatArray, a: FloatArray) -> float:
    """Make ``a`` the best mixture of distributions that the policy drew itself; returns the utility of this mixture.

    ``x`` has increasing points, and ``above[i, c]`` the share of the rewards of arm i that are above x[c], which stays
    the same up to x[c + 1]. So all rewards are at these points. The search begins with the shares that are in ``a``. It
    ends when no mixture can be better by 1e-6 of the largest utility that there can be. The metric must be concave or
    convex, and ``setup`` must return ``Setup(table=True)``.
    """
    n, k = x.size, s.n_arms
    if n > s.knots.size or s.survival_rows.shape[0] < k:
        raise ValueError(
            "best_mixture_of_drawn needs Setup(table=True), and no more points than fit into its table, s.knots.size: "
            "2 for 0/1 rewards, as many as a Finite support or bins have, and otherwise 512."
        )
    s.n_knots = n
    for c in range(n):
        s.knots[c] = x[c]
        for i in range(k):
            s.survival_rows[i, c] = above[i, c]
    if s.metric_shape == CONCAVE:
        maximise_in_place_on_table(s, a, np.zeros(k), 1e-7, 1e-6 * utility_scale_of_table(s), 100)
    elif s.metric_shape == CONVEX:
        best, arm = -np.inf, 0
        for i in range(k):
            value = utility_of_survival(s.h, s.knots, s.survival_rows[i], n)
            if value > best:
                best, arm = value, i
        for i in range(k):
            a[i] = 1.0 if i == arm else 0.0
    else:
        raise ValueError("best_mixture_of_drawn needs a metric that is concave or convex.")
    return utility_on_table(s, a, a)
