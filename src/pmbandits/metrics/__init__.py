"""Preference metrics: distortions, their algebra, and U_h of samples and distributions."""

from pmbandits.metrics.catalogue import Preference, Preferences, preferences
from pmbandits.metrics.distortion import Distortion, Extremum, Holder
from pmbandits.metrics.families import (
    PHT,
    CVaR,
    DualPower,
    GiniDeviation,
    GiniShortfall,
    InterESRange,
    InterQuantileRange,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    Quadratic,
    TsallisPastEntropy,
    TverskyKahneman,
    VaR,
    WangRightTail,
    WangTransform,
)
from pmbandits.metrics.family import Family, parameter
from pmbandits.metrics.registry import as_metric, metric

ExpectedShortfall = CVaR
"""Another name for :class:`CVaR`."""

__all__ = [
    "PHT",
    "CVaR",
    "Distortion",
    "DualPower",
    "ExpectedShortfall",
    "Extremum",
    "Family",
    "GiniDeviation",
    "GiniShortfall",
    "Holder",
    "InterESRange",
    "InterQuantileRange",
    "InvertedS",
    "LowerCVaR",
    "Mean",
    "MeanMedianDeviation",
    "Preference",
    "Preferences",
    "Quadratic",
    "TsallisPastEntropy",
    "TverskyKahneman",
    "VaR",
    "WangRightTail",
    "WangTransform",
    "as_metric",
    "metric",
    "parameter",
    "preferences",
]
