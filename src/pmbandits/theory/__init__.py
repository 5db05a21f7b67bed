"""The paper's theory as code: schedules, constants, bounds, exponents, tables, and a plan for a target regret.

The docstrings use the paper's letters:

- K is the number of arms, T the horizon (how many rounds are played), n a number of rewards of one arm.
- ε is the spacing of the grid of mixtures, and A the branching of CIRT.
- h is the curve of the metric, U_h or V the utility, B_h the largest utility that is possible.
- (q, 𝓛) is the Hölder pair of the metric: utilities of two distributions differ by at most 𝓛·(their distance)^q, where
  the distance is that of Wasserstein (W1, the area between the two distribution functions).
- W is half the largest distance between two arms.
- δ_ij(ε) are gaps between mixtures: 0 is the best of all mixtures, 1, 2 and 3 are the best three of the grid. β and β̄
  say how fast δ_12(ε) and δ_13(ε) shrink with ε.
- r(n) is the radius of a confidence set: how far an arm's distribution may be from n of its rewards.
- Names such as ``eq:beta_def`` are labels in the paper's source.

>>> import pmbandits as pmb
>>> print(pmb.theory.rate("etc", q=1.0, beta=2.0))
T^(−1/5)·(log T)^(1/4)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pmbandits.schedules import (
    arm_failure,
    arms_exponent_etc,
    arms_exponent_ucb,
    epsilon_etc,
    epsilon_ucb,
    exploration,
    exploration_exponent,
    refinement_phases,
    spacing_exponent,
)

if TYPE_CHECKING:
    from pmbandits.arms import wasserstein_constant
    from pmbandits.metrics.categories import Category
    from pmbandits.metrics.category_metrics import category, category_1, category_2
    from pmbandits.optimize import gaps
    from pmbandits.theory.bounds import BoundCurve, RegretBound, ce_ucb_bound, cirt_bound, curve, etc_bound, ucb_bound
    from pmbandits.theory.deviations import Condition, concentration, paper_radius, wasserstein_radius
    from pmbandits.theory.exponents import Exponents, GapExponent, Range, gap_exponent, known_exponents
    from pmbandits.theory.gradient import GradientExponent, gradient_exponent
    from pmbandits.theory.instance import (
        Facts,
        distance_limit,
        estimation_limit,
        facts,
        largest_utility,
        utility_limit,
    )
    from pmbandits.theory.planning import Plan, PlanColumn, plan
    from pmbandits.theory.rates import Rate, leading_constant, rate
    from pmbandits.theory.refinement import RefinedPhase, Refinement, refinement_oracle
    from pmbandits.theory.tables import PaperTable, table
    from pmbandits.theory.times import (
        anytime_settling_time,
        exploration_rounds,
        exploration_scale,
        exploration_yields,
        least_pulls,
        refinement_time,
        retention_probability,
        separation_time,
        settling_time,
    )

_EXPORTS = {
    "pmbandits.arms": ("wasserstein_constant",),
    "pmbandits.optimize": ("gaps",),
    "pmbandits.metrics.categories": ("Category",),
    "pmbandits.metrics.category_metrics": ("category", "category_1", "category_2"),
    "pmbandits.theory.bounds": (
        "BoundCurve",
        "RegretBound",
        "ce_ucb_bound",
        "cirt_bound",
        "curve",
        "etc_bound",
        "ucb_bound",
    ),
    "pmbandits.theory.deviations": (
        "Condition",
        "concentration",
        "paper_radius",
        "wasserstein_radius",
    ),
    "pmbandits.theory.exponents": (
        "Exponents",
        "GapExponent",
        "Range",
        "gap_exponent",
        "known_exponents",
    ),
    "pmbandits.theory.gradient": (
        "GradientExponent",
        "gradient_exponent",
    ),
    "pmbandits.theory.instance": (
        "Facts",
        "distance_limit",
        "estimation_limit",
        "facts",
        "largest_utility",
        "utility_limit",
    ),
    "pmbandits.theory.planning": (
        "Plan",
        "PlanColumn",
        "plan",
    ),
    "pmbandits.theory.rates": (
        "Rate",
        "leading_constant",
        "rate",
    ),
    "pmbandits.theory.refinement": (
        "RefinedPhase",
        "Refinement",
        "refinement_oracle",
    ),
    "pmbandits.theory.tables": (
        "PaperTable",
        "table",
    ),
    "pmbandits.theory.times": (
        "anytime_settling_time",
        "exploration_rounds",
        "exploration_scale",
        "exploration_yields",
        "least_pulls",
        "refinement_time",
        "retention_probability",
        "separation_time",
        "settling_time",
    ),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "BoundCurve",
    "Category",
    "Condition",
    "Exponents",
    "Facts",
    "GapExponent",
    "GradientExponent",
    "PaperTable",
    "Plan",
    "PlanColumn",
    "Range",
    "Rate",
    "RefinedPhase",
    "Refinement",
    "RegretBound",
    "anytime_settling_time",
    "arm_failure",
    "arms_exponent_etc",
    "arms_exponent_ucb",
    "category",
    "category_1",
    "category_2",
    "ce_ucb_bound",
    "cirt_bound",
    "concentration",
    "curve",
    "distance_limit",
    "epsilon_etc",
    "epsilon_ucb",
    "estimation_limit",
    "etc_bound",
    "exploration",
    "exploration_exponent",
    "exploration_rounds",
    "exploration_scale",
    "exploration_yields",
    "facts",
    "gap_exponent",
    "gaps",
    "gradient_exponent",
    "known_exponents",
    "largest_utility",
    "leading_constant",
    "least_pulls",
    "paper_radius",
    "plan",
    "rate",
    "refinement_oracle",
    "refinement_phases",
    "refinement_time",
    "retention_probability",
    "separation_time",
    "settling_time",
    "spacing_exponent",
    "table",
    "ucb_bound",
    "utility_limit",
    "wasserstein_constant",
    "wasserstein_radius",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value  # the next use finds it here
        return value
    raise AttributeError(f"module 'pmbandits.theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
