"""The named preference metrics: the nine of the paper's table and those its readers expect beside them.

Conventions. u is a survival probability P(X > x), so h near 0 speaks about the best outcomes and h near 1 about
the worst. Rewards are gains: larger is better. "Best" and "worst" are the upper and the lower tail.

Each file holds one metric. The order of the lines below is the order in which lists show them.
"""

from typing import TYPE_CHECKING

# isort: off
from pmbandits.metrics.families.mean import Mean as Mean
from pmbandits.metrics.families.dual_power import DualPower as DualPower
from pmbandits.metrics.families.quadratic import Quadratic as Quadratic
from pmbandits.metrics.families.cvar import CVaR as CVaR
from pmbandits.metrics.families.pht import PHT as PHT
from pmbandits.metrics.families.mean_median_deviation import MeanMedianDeviation as MeanMedianDeviation
from pmbandits.metrics.families.inter_es_range import InterESRange as InterESRange
from pmbandits.metrics.families.wang_right_tail import WangRightTail as WangRightTail
from pmbandits.metrics.families.gini_deviation import GiniDeviation as GiniDeviation
from pmbandits.metrics.families.var import VaR as VaR
from pmbandits.metrics.families.lower_cvar import LowerCVaR as LowerCVaR
from pmbandits.metrics.families.gini_shortfall import GiniShortfall as GiniShortfall
from pmbandits.metrics.families.inter_quantile_range import InterQuantileRange as InterQuantileRange
from pmbandits.metrics.families.inverted_s import InvertedS as InvertedS
from pmbandits.metrics.families.tsallis_past_entropy import TsallisPastEntropy as TsallisPastEntropy
from pmbandits.metrics.families.wang_transform import WangTransform as WangTransform
from pmbandits.metrics.families.tversky_kahneman import TverskyKahneman as TverskyKahneman
from pmbandits.metrics.families.power_deviation import PowerDeviation as PowerDeviation
# isort: on

from pmbandits.metrics.family import Family
from pmbandits.metrics.names import REGISTRY

FAMILIES: tuple[type[Family], ...] = tuple(cls for cls in REGISTRY.values() if cls.built_in())
"""The metrics of this package."""

if not TYPE_CHECKING:  # type checkers read the lines above
    __all__ = [cls.__name__ for cls in FAMILIES]
