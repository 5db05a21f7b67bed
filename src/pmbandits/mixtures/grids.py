"""Grids of mixing weights, in which the paper's algorithms search."""

from __future__ import annotations

from math import comb, floor
from typing import Literal

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray

LARGEST_GRID = 2_000_000  # points; a larger grid is refused with its size
_ROUNDING = 1e-9  # 1/ε this close to a whole number is meant to be whole


def grid_size(n_arms: int, epsilon: float, kind: Literal["etc", "ucb"] = "etc") -> int:
    """How many points a grid of mixtures has, without building it.

    Parameters
    ----------
    n_arms, epsilon : the number of arms, and the spacing ε.
    kind : ``"etc"`` for :func:`etc_grid`, ``"ucb"`` for :func:`ucb_grid`.

    Examples
    --------
    >>> grid_size(3, 0.1), grid_size(3, 0.1, "ucb")
    (66, 45)
    """
    steps = _n_grid_steps(n_arms, epsilon, kind)
    return comb(steps + n_arms - 1, n_arms - 1)


def etc_grid(n_arms: int, epsilon: float) -> FloatArray:
    """The grid of PM-ETC-M: all mixtures whose weights are multiples of ε, one in each row (``eq:discrete_set_ETC``).

    If 1/ε is not a whole number, the last arm takes the difference.

    >>> etc_grid(2, 0.5)
    array([[0. , 1. ],
           [0.5, 0.5],
           [1. , 0. ]])
    """
    return _build_grid(n_arms, epsilon, "etc")


def ucb_grid(n_arms: int, epsilon: float) -> FloatArray:
    """The grid of PM-UCB-M: all mixtures whose weights are ε(n + ½) for whole n, so each is at least ε/2.

    This is ``eq:discrete_set_UCB``, with the ½ that its proofs need. It needs ε ≤ 2/K for K arms. If 1/ε − K/2 is not a
    whole number, the last arm takes the difference.

    >>> ucb_grid(2, 0.5)
    array([[0.25, 0.75],
           [0.75, 0.25]])
    """
    return _build_grid(n_arms, epsilon, "ucb")


def _n_grid_steps(n_arms: int, epsilon: float, kind: str) -> int:
    n_arms = _validation.check_whole_number("n_arms", n_arms, 1)
    epsilon = _validation.check_within("epsilon", epsilon, 1e-12, 1.0)
    _validation.check_choice("grid kind", kind, ["etc", "ucb"])
    if kind == "etc":
        return floor(1.0 / epsilon + _ROUNDING)
    if n_arms > 1 and epsilon > 2.0 / n_arms * (1.0 + _ROUNDING):
        raise ValueError(
            f"the UCB grid of {n_arms} arms needs epsilon ≤ 2/{n_arms} = {2 / n_arms:.4g}, got {epsilon:g}: "
            "every arm keeps a weight of at least epsilon/2."
        )
    return floor(1.0 / epsilon - n_arms / 2.0 + _ROUNDING)


def _build_grid(n_arms: int, epsilon: float, kind: Literal["etc", "ucb"]) -> FloatArray:
    size = grid_size(n_arms, epsilon, kind)
    if size > LARGEST_GRID:
        raise ValueError(
            f"the grid of {n_arms} arms with epsilon = {epsilon:g} has {size:,} points, more than the "
            f"{LARGEST_GRID:,} that can be enumerated; take a larger epsilon or fewer arms."
        )
    steps = _n_grid_steps(n_arms, epsilon, kind)
    if n_arms == 1:
        return np.ones((1, 1))
    counts = np.zeros((1, 0), dtype=np.int64)
    left = np.array([steps])
    for _ in range(n_arms - 1):  # every coordinate takes 0 … what is left, in lexicographic order
        repeats = left + 1
        parent = np.repeat(np.arange(left.size), repeats)
        taken = np.arange(parent.size) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        counts = np.column_stack((counts[parent], taken))
        left = left[parent] - taken
    offset = 0.0 if kind == "etc" else 0.5
    out = np.empty((size, n_arms))
    out[:, :-1] = epsilon * (counts + offset)
    out[:, -1] = 1.0 - out[:, :-1].sum(axis=1)
    if kind == "etc":  # rounding only: the exact remainder is not negative
        out[:, -1] = np.where(np.abs(out[:, -1]) < 1e-12, 0.0, out[:, -1])
    return out
