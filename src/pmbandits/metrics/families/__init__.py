"""The named preference metrics: the nine of the paper's table and those its readers expect beside them.

Conventions. u is a survival probability P(X > x), so h near 0 speaks about the best outcomes and h near 1 about
the worst. Rewards are gains: larger is better. "Best" and "worst" are the upper and the lower tail.
"""

from pmbandits.metrics.families.piecewise_linear import InterESRange as InterESRange
from pmbandits.metrics.families.piecewise_linear import LowerCVaR as LowerCVaR
from pmbandits.metrics.families.piecewise_linear import Mean as Mean
from pmbandits.metrics.families.piecewise_linear import MeanMedianDeviation as MeanMedianDeviation
from pmbandits.metrics.families.piecewise_linear import UpperCVaR as UpperCVaR
from pmbandits.metrics.families.powers import PHT as PHT
from pmbandits.metrics.families.powers import DualPower as DualPower
from pmbandits.metrics.families.powers import GiniDeviation as GiniDeviation
from pmbandits.metrics.families.powers import GiniShortfall as GiniShortfall
from pmbandits.metrics.families.powers import PowerDeviation as PowerDeviation
from pmbandits.metrics.families.powers import Quadratic as Quadratic
from pmbandits.metrics.families.powers import TsallisPastEntropy as TsallisPastEntropy
from pmbandits.metrics.families.powers import WangRightTail as WangRightTail
from pmbandits.metrics.families.probability_weighting import InvertedS as InvertedS
from pmbandits.metrics.families.probability_weighting import TverskyKahneman as TverskyKahneman
from pmbandits.metrics.families.probability_weighting import WangTransform as WangTransform
from pmbandits.metrics.families.quantiles import InterQuantileRange as InterQuantileRange
from pmbandits.metrics.families.quantiles import VaR as VaR
from pmbandits.metrics.family import Family

FAMILIES: tuple[type[Family], ...] = (
    Mean,
    DualPower,
    Quadratic,
    UpperCVaR,
    PHT,
    MeanMedianDeviation,
    InterESRange,
    WangRightTail,
    GiniDeviation,
    VaR,
    LowerCVaR,
    GiniShortfall,
    InterQuantileRange,
    InvertedS,
    TsallisPastEntropy,
    WangTransform,
    TverskyKahneman,
    PowerDeviation,
)
"""The metrics of this package, in the order in which lists show them."""
