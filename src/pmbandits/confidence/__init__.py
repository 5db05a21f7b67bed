"""Confidence sets: which distributions an arm may have, and the best and worst value a mixture may have."""

from pmbandits.confidence.bands import berk_jones
from pmbandits.confidence.sets import ConfidenceSet, confidence_set

__all__ = ["ConfidenceSet", "berk_jones", "confidence_set"]
