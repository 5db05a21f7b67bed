"""The named preference metrics: the nine of the paper's table and those its readers expect beside them.

Conventions. u is a survival probability P(X > x), so h near 0 speaks about the best outcomes and h near 1 about
the worst. Rewards are gains: larger is better. "Best" and "worst" are the upper and the lower tail.

Each file holds one metric. The order of the lines below is the order in which lists show them.
"""

# isort: off
from pmbandits.metrics.families.mean import Mean
from pmbandits.metrics.families.dual_power import DualPower
from pmbandits.metrics.families.quadratic import Quadratic
from pmbandits.metrics.families.cvar import CVaR
from pmbandits.metrics.families.pht import PHT
from pmbandits.metrics.families.mean_median_deviation import MeanMedianDeviation
from pmbandits.metrics.families.inter_es_range import InterESRange
from pmbandits.metrics.families.wang_right_tail import WangRightTail
from pmbandits.metrics.families.gini_deviation import GiniDeviation
from pmbandits.metrics.families.var import VaR
from pmbandits.metrics.families.lower_cvar import LowerCVaR
from pmbandits.metrics.families.gini_shortfall import GiniShortfall
from pmbandits.metrics.families.inter_quantile_range import InterQuantileRange
from pmbandits.metrics.families.inverted_s import InvertedS
from pmbandits.metrics.families.tsallis_past_entropy import TsallisPastEntropy
from pmbandits.metrics.families.wang_transform import WangTransform
from pmbandits.metrics.families.tversky_kahneman import TverskyKahneman
# isort: on

from pmbandits.metrics.family import REGISTRY, Family

FAMILIES: tuple[type[Family], ...] = tuple(cls for cls in REGISTRY.values() if cls.built_in())
"""The metrics of this package."""

__all__ = [
    "FAMILIES",
    "PHT",
    "CVaR",
    "DualPower",
    "GiniDeviation",
    "GiniShortfall",
    "InterESRange",
    "InterQuantileRange",
    "InvertedS",
    "LowerCVaR",
    "Mean",
    "MeanMedianDeviation",
    "Quadratic",
    "TsallisPastEntropy",
    "TverskyKahneman",
    "VaR",
    "WangRightTail",
    "WangTransform",
]
