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
from pmbandits.metrics.registry import metric

ExpectedShortfall = CVaR
"""Another name for :class:`CVaR`."""

__all__ = [
    "PHT",
    "CVaR",
    "Distortion",
    "DualPower",
    "ExpectedShortfall",
    "Extremum",
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
    "metric",
    "preferences",
]


def as_metric(given):  # TEMPORARY
    return metric(given) if isinstance(given, str) else given
