"""Choices that several algorithms share: the spacing of the grid, and whether to search without one."""

from __future__ import annotations

from math import comb
from typing import Any, Literal

import numpy as np

from pmbandits import _validation
from pmbandits.confidence import ConfidenceSet
from pmbandits.constraints import Limits
from pmbandits.engine.options import one_of
from pmbandits.engine.share_constraints import MAX_CORNERS, single_arm_bounds
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import grid_size
from pmbandits.schedules import epsilon_etc, epsilon_ucb
from pmbandits.supports import Binary, Finite, Support

LARGEST_GRID_SEARCH = 20_000  # points from which on search="auto" does without a grid


def epsilon_and_whether_continuous(
    options: dict[str, Any],
    metric: Distortion,
    n_arms: int,
    support: Support,
    kind: Literal["etc", "ucb"],
    chosen: ConfidenceSet | None,
    limits: Limits | None = None,
) -> tuple[float, bool]:
    """ε as given, or by the paper's schedule, and whether the search is continuous.

    Where the schedule gives no usable grid, whole steps that do: two or more (one with very many arms), and at most
    20,000 points.
    """
    search = options["search"]
    if options["epsilon"] is not None:
        given = float(options["epsilon"])
        return given, use_continuous_search(search, grid_size(n_arms, given, kind), metric, support, chosen, limits)
    try:
        q = metric.holder(support).q
    except ValueError:
        q = 1.0
    schedule = epsilon_etc if kind == "etc" else epsilon_ucb
    beta = beta_before_first_reward(metric, support) if options["beta"] == "auto" else float(options["beta"])
    offset = 0.0 if kind == "etc" else n_arms / 2.0  # the UCB grid has steps + K/2 spacings
    wanted = schedule(options["horizon"], n_arms, q, beta, options["epsilon_constant"])
    coarsest = 0.5 if kind == "etc" else 1.0 / n_arms
    finest = min(wanted, coarsest)
    points = grid_size(n_arms, finest, kind)
    if use_continuous_search(search, points, metric, support, chosen, limits):
        return finest, True
    if wanted <= coarsest and n_arms <= points <= LARGEST_GRID_SEARCH:
        return wanted, False
    steps = max(int(1.0 / wanted - offset), 2)
    while steps > 1 and comb(steps + n_arms - 1, n_arms - 1) > LARGEST_GRID_SEARCH:
        steps -= 1
    return 1.0 / (steps + offset), False


def check_beta(name: str, value: Any) -> float | str:
    """A number above 0, or ``"auto"``."""
    if isinstance(value, str):
        return _validation.check_choice(name, value, ["auto"])
    return _validation.check_within(name, value, 0.0, open_lo=True)


def beta_before_first_reward(metric: Distortion, support: Support) -> float:
    """β of the schedules of ε, by what is known before the first reward: the metric and the support.

    β says how fast the gap of the two best grid points shrinks (``eq:beta_def``); ``lemma:beta12`` reads it off the
    gradient at the best mixture. That mixture is not known here, but sometimes the gradient cannot vanish there:

    * h convex or linear, such as the mean: one arm alone is best (``lemma:convex_solitary``), so β = 1.
    * Binary rewards, where V is h at the mixture's mean: β = 1, unless h has a smooth peak inside (0, 1).
    * rewards with finitely many values and h made of straight pieces: V is made of flat pieces, so β = 1.

    Everywhere else β = 2, the safe side, which is what the paper takes for the Gini deviation. With known arms
    :func:`pmbandits.theory.gradient_exponent` says more.

    >>> import pmbandits as pmb
    >>> [beta_before_first_reward(metric, pmb.Real(1)) for metric in (pmb.Mean(), pmb.GiniDeviation())]
    [1.0, 2.0]
    """
    if metric.shape in ("convex", "linear"):
        return 1.0
    if metric.jumps:
        return 2.0
    if isinstance(support, Binary):
        peak = metric.maximum().at
        corner = any(abs(place - peak) < 1e-9 for place, _ in metric.kinks)
        return 1.0 if corner or not 1e-9 < peak < 1.0 - 1e-9 else 2.0
    return 1.0 if isinstance(support, Finite) and metric._is_piecewise_linear else 2.0


def use_continuous_search(
    search: str,
    points: int,
    metric: Distortion,
    support: Support,
    chosen: ConfidenceSet | None,
    limits: Limits | None = None,
) -> bool:
    """Whether to search all mixtures: by the option ``search``, or as the grid would pass 20,000 points.

    With ``limits`` on several arms at once there is no such search for a policy that needs a floor or a box of its own.
    """
    if search == "grid" or (search == "auto" and points <= LARGEST_GRID_SEARCH):
        return False
    why = None
    if metric.shape == "neither":
        why = f"{metric!r} is neither concave nor convex, and so has no certified search"
    elif limits is not None and single_arm_bounds(limits) is None:
        why = f"the limits {limits} are on several arms at once"
    elif chosen is not None and chosen.kind == "ball" and np.isfinite(support.width):
        why = f"there is none for the confidence set {chosen.name!r} on a bounded support; take confidence='auto'"
    if why is not None and search == "continuous":
        raise ValueError(f"search='continuous' is not possible here: {why}. Use search='grid', or Track.")
    return why is None


def search_option_within_limits(limits: Limits | None, search: str, metric: Distortion) -> str:
    """How CIRT searches within limits: without a grid, whose boxes need not meet what keeps them."""
    if limits is None:
        return search
    shaped = metric.shape in ("concave", "convex", "linear")
    few = metric.shape == "concave" or limits.polytope.corners(MAX_CORNERS) is not None
    if search == "grid" or single_arm_bounds(limits) is None or not shaped or not few:
        raise ValueError(
            "CIRT keeps limits on the shares of single arms only, for metrics that are concave or convex, and without "
            f"a grid (search='auto', stopping='box'); for convex ones, limits may have up to {MAX_CORNERS:,} corners. "
            "Take Track or Vet for other limits."
        )
    return "continuous"


def search_options_as_state_numbers(continuous: bool, floor: float, ties: str = "best") -> dict[str, float]:
    """What the compiled search needs to know, as numbers of the state."""
    if continuous and ties == "random":
        raise ValueError("ties='random' is for the mixtures of a grid; take search='grid', or ties='best'.")
    return {
        "continuous": int(continuous),
        "min_share": floor,
        "search_tolerance": 0.01,
        "random_ties": int(ties == "random"),
    }


check_ties = one_of("best", "random")


def check_even_number(name: str, value: Any) -> int:
    """An even whole number of at least 4."""
    branching = _validation.check_whole_number(name, value, 4)
    if branching % 2:
        raise ValueError(f"{name} must be even, so that a kept mixture lies on the next grid; got {branching}.")
    return branching
