"""Choices that several algorithms share: the spacing of the grid, and whether to search without one."""

from __future__ import annotations

from math import comb
from typing import Any, Literal

import numpy as np

from pmbandits.confidence import ConfidenceSet
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import grid_size
from pmbandits.schedules import epsilon_etc, epsilon_ucb
from pmbandits.supports import Support

LARGEST_GRID_SEARCH = 20_000  # points from which on search="auto" does without a grid


def schedule_epsilon(
    options: dict[str, Any],
    metric: Distortion,
    n_arms: int,
    support: Support,
    kind: Literal["etc", "ucb"],
    chosen: ConfidenceSet | None,
) -> tuple[float, bool]:
    """ε as given, or by the paper's schedule, and whether the search is continuous.

    Where the schedule gives no usable grid, whole steps that do: two or more (one with very many arms), and at most
    20,000 points.
    """
    search = options["search"]
    if options["epsilon"] is not None:
        given = float(options["epsilon"])
        return given, continuous_search(search, grid_size(n_arms, given, kind), metric, support, chosen)
    try:
        q = metric.holder(support).q
    except ValueError:
        q = 1.0
    schedule = epsilon_etc if kind == "etc" else epsilon_ucb
    offset = 0.0 if kind == "etc" else n_arms / 2.0  # the UCB grid has steps + K/2 spacings
    wanted = schedule(options["horizon"], n_arms, q, constant=options["epsilon_constant"])
    coarsest = 0.5 if kind == "etc" else 1.0 / n_arms
    finest = min(wanted, coarsest)
    points = grid_size(n_arms, finest, kind)
    if continuous_search(search, points, metric, support, chosen):
        return finest, True
    if wanted <= coarsest and n_arms <= points <= LARGEST_GRID_SEARCH:
        return wanted, False
    steps = max(int(1.0 / wanted - offset), 2)
    while steps > 1 and comb(steps + n_arms - 1, n_arms - 1) > LARGEST_GRID_SEARCH:
        steps -= 1
    return 1.0 / (steps + offset), False


def continuous_search(
    search: str, points: int, metric: Distortion, support: Support, chosen: ConfidenceSet | None
) -> bool:
    """Whether to search all mixtures: asked for, or because the grid would pass 20,000 points."""
    if search == "grid" or (search == "auto" and points <= LARGEST_GRID_SEARCH):
        return False
    why = None
    if metric.shape == "neither":
        why = f"{metric!r} is neither concave nor convex, and so has no certified search"
    elif chosen is not None and chosen.kind == "ball" and np.isfinite(support.width):
        why = f"balls of laws on a bounded support ({chosen.name!r}) have none; take confidence='auto'"
    if why is not None and search == "continuous":
        raise ValueError(f"search='continuous' cannot be had here: {why}. Use search='grid', or Track.")
    return why is None


def search_numbers(continuous: bool, floor: float) -> dict[str, float]:
    """What the compiled search needs to know, as numbers of the state."""
    return {"continuous": int(continuous), "floor": floor, "fineness": 0.01}
