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

from typing import TYPE_CHECKING

from pmbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from pmbandits.arms import half_wasserstein_diameter as half_wasserstein_diameter
    from pmbandits.metrics.categories import Category as Category
    from pmbandits.metrics.category_metrics import category as category
    from pmbandits.metrics.category_metrics import category_1 as category_1
    from pmbandits.metrics.category_metrics import category_2 as category_2
    from pmbandits.optimize import gaps as gaps
    from pmbandits.schedules import arm_failure as arm_failure
    from pmbandits.schedules import arms_exponent_etc as arms_exponent_etc
    from pmbandits.schedules import arms_exponent_ucb as arms_exponent_ucb
    from pmbandits.schedules import epsilon_etc as epsilon_etc
    from pmbandits.schedules import epsilon_ucb as epsilon_ucb
    from pmbandits.schedules import exploration as exploration
    from pmbandits.schedules import exploration_exponent as exploration_exponent
    from pmbandits.schedules import refinement_phases as refinement_phases
    from pmbandits.schedules import spacing_exponent as spacing_exponent
    from pmbandits.theory.bounds import BoundCurve as BoundCurve
    from pmbandits.theory.bounds import RegretBound as RegretBound
    from pmbandits.theory.bounds import ce_ucb_bound as ce_ucb_bound
    from pmbandits.theory.bounds import cirt_bound as cirt_bound
    from pmbandits.theory.bounds import curve as curve
    from pmbandits.theory.bounds import etc_bound as etc_bound
    from pmbandits.theory.bounds import ucb_bound as ucb_bound
    from pmbandits.theory.deviations import Condition as Condition
    from pmbandits.theory.deviations import concentration as concentration
    from pmbandits.theory.deviations import paper_radius as paper_radius
    from pmbandits.theory.deviations import wasserstein_radius as wasserstein_radius
    from pmbandits.theory.exponents import Exponents as Exponents
    from pmbandits.theory.exponents import GapExponent as GapExponent
    from pmbandits.theory.exponents import Range as Range
    from pmbandits.theory.exponents import gap_exponent as gap_exponent
    from pmbandits.theory.exponents import known_exponents as known_exponents
    from pmbandits.theory.gradient import GradientExponent as GradientExponent
    from pmbandits.theory.gradient import gradient_exponent as gradient_exponent
    from pmbandits.theory.instance import Facts as Facts
    from pmbandits.theory.instance import distance_limit as distance_limit
    from pmbandits.theory.instance import estimation_limit as estimation_limit
    from pmbandits.theory.instance import facts as facts
    from pmbandits.theory.instance import largest_utility as largest_utility
    from pmbandits.theory.instance import utility_limit as utility_limit
    from pmbandits.theory.planning import Plan as Plan
    from pmbandits.theory.planning import PlanColumn as PlanColumn
    from pmbandits.theory.planning import plan as plan
    from pmbandits.theory.rates import Rate as Rate
    from pmbandits.theory.rates import leading_constant as leading_constant
    from pmbandits.theory.rates import rate as rate
    from pmbandits.theory.refinement import RefinedPhase as RefinedPhase
    from pmbandits.theory.refinement import Refinement as Refinement
    from pmbandits.theory.refinement import refinement_oracle as refinement_oracle
    from pmbandits.theory.tables import PaperTable as PaperTable
    from pmbandits.theory.tables import table as table
    from pmbandits.theory.times import anytime_settling_time as anytime_settling_time
    from pmbandits.theory.times import exploration_rounds as exploration_rounds
    from pmbandits.theory.times import exploration_scale as exploration_scale
    from pmbandits.theory.times import exploration_yields as exploration_yields
    from pmbandits.theory.times import least_pulls as least_pulls
    from pmbandits.theory.times import refinement_time as refinement_time
    from pmbandits.theory.times import retention_probability as retention_probability
    from pmbandits.theory.times import separation_time as separation_time
    from pmbandits.theory.times import settling_time as settling_time

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "pmbandits.arms": "half_wasserstein_diameter",
            "pmbandits.metrics.categories": "Category",
            "pmbandits.metrics.category_metrics": "category category_1 category_2",
            "pmbandits.optimize": "gaps",
            "pmbandits.schedules": """
            arm_failure arms_exponent_etc arms_exponent_ucb epsilon_etc epsilon_ucb exploration exploration_exponent
            refinement_phases spacing_exponent""",
            "pmbandits.theory.bounds": "BoundCurve RegretBound ce_ucb_bound cirt_bound curve etc_bound ucb_bound",
            "pmbandits.theory.deviations": "Condition concentration paper_radius wasserstein_radius",
            "pmbandits.theory.exponents": "Exponents GapExponent Range gap_exponent known_exponents",
            "pmbandits.theory.gradient": "GradientExponent gradient_exponent",
            "pmbandits.theory.instance": "Facts distance_limit estimation_limit facts largest_utility utility_limit",
            "pmbandits.theory.planning": "Plan PlanColumn plan",
            "pmbandits.theory.rates": "Rate leading_constant rate",
            "pmbandits.theory.refinement": "RefinedPhase Refinement refinement_oracle",
            "pmbandits.theory.tables": "PaperTable table",
            "pmbandits.theory.times": """
            anytime_settling_time exploration_rounds exploration_scale exploration_yields least_pulls refinement_time
            retention_probability separation_time settling_time""",
        },
    )
